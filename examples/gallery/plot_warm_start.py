"""
Warm starts along C
===================

The duals of one C are feasible at a larger one, and the optimal weights change far less than C does: so
``warm_start=True`` goes on from them. This holds as long as X, y, their order, the formulation and the loss stay what
they were. Every model on the way has its own certificate: where a fit started does not weaken what it proves.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from multimargin import LinearSVM

X, y = load_digits(return_X_y=True)
X = X / 16

Cs = 2.0 ** np.arange(-6, 5)
warm = LinearSVM("one_vs_rest", solver="accelerated_sdm", warm_start=True)
epochs = {"warm": [], "cold": []}
for C in Cs:
    epochs["warm"].append(warm.set_params(C=C).fit(X, y).n_iter_)
    epochs["cold"].append(LinearSVM("one_vs_rest", solver="accelerated_sdm", C=C).fit(X, y).n_iter_)

figure, axis = plt.subplots(figsize=(6, 3.6), layout="constrained")
axis.plot(Cs, epochs["cold"], "o-", color="#ee6677", label=f"from zero: {sum(epochs['cold'])} epochs in all")
axis.plot(Cs, epochs["warm"], "o-", color="#4477aa", label=f"from the C before: {sum(epochs['warm'])}")
axis.set_xscale("log", base=2)
axis.set(xlabel="C", ylabel="epochs to a gap of 0.001", ylim=(0, None))
axis.legend()
plt.show()

# %%
# The same works for the tolerance: go on from a rough model instead of starting again.

model = LinearSVM(warm_start=True).fit(X, y)
rough, passes = model.dual_gap_, model.n_iter_
model.set_params(tol=1e-5).fit(X, y)
print(f"relative gap {rough:.1e} after {passes} epochs, {model.dual_gap_:.1e} after {model.n_iter_} more")
