"""
A kernel for what no line can separate
======================================

Three rings. ``LinearSVM`` cannot tell them apart, ``KernelSVM`` with an RBF kernel can; the rows on which its
decision rests are the support vectors.
"""

import matplotlib.pyplot as plt
import numpy as np

from multimargin import KernelSVM, LinearSVM

rng = np.random.default_rng(0)
y = rng.integers(0, 3, 450)
angle, radius = rng.uniform(0, 2 * np.pi, 450), 1 + y + rng.normal(0, 0.2, 450)
X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])

grid = np.meshgrid(np.linspace(-4, 4, 250), np.linspace(-4, 4, 250))
points = np.column_stack([axis.ravel() for axis in grid])
figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), sharey=True, layout="constrained")
for axis, model in zip(axes, [LinearSVM(), KernelSVM(C=10.0, gamma=1.0)], strict=True):
    model.fit(X, y)
    regions = model.predict(points).reshape(grid[0].shape)
    axis.contourf(*grid, regions, levels=[-0.5, 0.5, 1.5, 2.5], colors=["#4477aa", "#ee6677", "#228833"], alpha=0.25)
    for label, colour in enumerate(["#4477aa", "#ee6677", "#228833"]):
        axis.plot(*X[y == label].T, ".", color=colour, markersize=4)
    axis.set_title(f"{type(model).__name__}: training accuracy {model.score(X, y):.2f}")
    axis.set_aspect("equal")
support = X[model.support_]
axes[1].plot(*support.T, "o", markersize=8, markerfacecolor="none", markeredgecolor="black", linewidth=0.5)
axes[1].set_xlabel(f"{len(support)} of {len(X)} rows are support vectors (circled)")
plt.show()
