"""
Rows whose label is doubtful
============================

The duals of a Crammer-Singer machine say of every training row how much speaks for another class than its
label. Here 40 labels of the digits are changed, and the rows with the largest doubt are looked at.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from multimargin import LinearSVM

X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
changed = rng.choice(len(y), 40, replace=False)
noisy = y.copy()
noisy[changed] = (y[changed] + rng.integers(1, 10, 40)) % 10

model = LinearSVM(C=0.1).fit(X / 16, noisy)

# %%
# Many rows share the largest possible doubt; among those, the rows where the other class scores highest above the
# label come first.

doubt = model.label_doubt().toarray()
scores = model.decision_function(X / 16)
excess = scores.max(axis=1) - scores[np.arange(len(y)), noisy]
order = np.lexsort([-excess, -doubt.max(axis=1)])
found = np.isin(order[:40], changed).sum()
print(f"of the 40 most doubtful rows, {found} had their label changed")

# %%

figure, axes = plt.subplots(2, 8, figsize=(11, 3.4), layout="constrained")
for axis, row in zip(axes.ravel(), order, strict=False):
    axis.imshow(X[row].reshape(8, 8), cmap="gray_r")
    axis.set_title(f"label {noisy[row]}\nrather {doubt[row].argmax()}", fontsize=9)
    axis.set_axis_off()
plt.show()
