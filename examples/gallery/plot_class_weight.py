"""
Rare classes
============

A class with few rows costs little when it is ignored. ``class_weight="balanced"`` weighs rows by the inverse of
their class's count; ``sample_weight`` can do the same row by row.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs
from sklearn.metrics import recall_score

from multimargin import LinearSVM

centers = [[0, 0], [2, 0], [1, 1.8]]
X, y = make_blobs([400, 400, 25], centers=centers, cluster_std=0.75, random_state=1)
X_test, y_test = make_blobs([500, 500, 500], centers=centers, cluster_std=0.75, random_state=2)

grid = np.meshgrid(np.linspace(-2.5, 4.5, 250), np.linspace(-2.5, 4, 250))
points = np.column_stack([axis.ravel() for axis in grid])
figure, axes = plt.subplots(1, 2, figsize=(9, 4.2), sharey=True, layout="constrained")
for axis, class_weight in zip(axes, [None, "balanced"], strict=True):
    model = LinearSVM(C=1.0, class_weight=class_weight).fit(X, y)
    regions = model.predict(points).reshape(grid[0].shape)
    axis.contourf(*grid, regions, levels=[-0.5, 0.5, 1.5, 2.5], colors=["#4477aa", "#ee6677", "#228833"], alpha=0.25)
    for label, colour in enumerate(["#4477aa", "#ee6677", "#228833"]):
        axis.plot(*X[y == label].T, ".", color=colour, markersize=4)
    recall = recall_score(y_test, model.predict(X_test), average=None)
    axis.set_title(f"class_weight={class_weight!r}\nrecall " + ", ".join(f"{r:.2f}" for r in recall), fontsize=10)
    axis.set_aspect("equal")
plt.show()
