"""Many values of C, each fit started from the duals of the one before.

Duals are feasible at C' once they are multiplied by C'/C, so ``warm_start=True`` only has to scale them. This holds
as long as X, y, their order, the formulation and the loss stay what they were. Every model on the way has its own
certificate: where a fit started does not weaken what it proves.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from multimargin import LinearSVM

X, y = load_digits(return_X_y=True)
X = X / 16
X_train, X_valid, y_train, y_valid = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)

warm = LinearSVM("one_vs_rest", solver="accelerated_sdm", warm_start=True)
epochs_warm, epochs_cold = 0, 0

print("       C   validation   support rows   relative gap   epochs warm   epochs cold")
for C in 2.0 ** np.arange(-6, 4):
    warm.set_params(C=C).fit(X_train, y_train)
    cold = LinearSVM("one_vs_rest", solver="accelerated_sdm", C=C).fit(X_train, y_train)
    epochs_warm += warm.n_iter_
    epochs_cold += cold.n_iter_
    print(
        f"{C:>8.4f}{warm.score(X_valid, y_valid):>13.4f}{len(warm.support_):>15}{warm.dual_gap_:>15.1e}"
        f"{warm.n_iter_:>14}{cold.n_iter_:>14}"
    )
print(f"\nepochs in all: {epochs_warm} warm, {epochs_cold} cold; a warm start saves most where C is large")

# The same works for the tolerance: go on from a rough model instead of starting again.
model = LinearSVM(warm_start=True).fit(X_train, y_train)
rough, epochs = model.dual_gap_, model.n_iter_
model.set_params(tol=1e-5).fit(X_train, y_train)
print(
    f"crammer_singer: relative gap {rough:.1e} after {epochs} epochs, {model.dual_gap_:.1e} after {model.n_iter_} more"
)
