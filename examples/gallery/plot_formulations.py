"""
Five formulations in the plane
==============================

Three classes side by side, the same rows and the same C for all five. No line separates the middle class from the two
others together, so one-vs-rest leaves it only a wedge; the joint formulations compare scores with each other, and the
pairwise ones look at two classes at a time.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from multimargin import LinearSVM

X, y = make_blobs(300, centers=[[-2, 0], [0.2, 0.4], [2.4, 0]], cluster_std=0.65, random_state=4)
grid = np.meshgrid(np.linspace(-4.5, 4.5, 300), np.linspace(-3, 3, 200))
points = np.column_stack([axis.ravel() for axis in grid])

figure, axes = plt.subplots(1, 5, figsize=(15, 2.9), sharex=True, sharey=True, layout="constrained")
for axis, formulation in zip(
    axes, ["crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag"], strict=True
):
    model = LinearSVM(formulation, C=1.0).fit(X, y)
    regions = model.predict(points).reshape(grid[0].shape)
    axis.contourf(*grid, regions, levels=[-0.5, 0.5, 1.5, 2.5], colors=["#4477aa", "#ee6677", "#228833"], alpha=0.25)
    for label, colour in enumerate(["#4477aa", "#ee6677", "#228833"]):
        axis.plot(*X[y == label].T, "o", color=colour, markersize=3)
    axis.set_title(f"{formulation}\ntraining accuracy {model.score(X, y):.2f}", fontsize=10)
    axis.set_aspect("equal")
plt.show()
