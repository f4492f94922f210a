"""Train every formulation on scikit-learn's digits and print what each fit proved. Run by ``make demo``."""

import time
import warnings

from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from multimargin import LinearSVM

RUNS = [
    ("crammer_singer", "hinge"),
    ("crammer_singer", "squared_hinge"),
    ("weston_watkins", "hinge"),
    ("one_vs_rest", "hinge"),
    ("one_vs_one", "hinge"),
    ("dag", "hinge"),
]
HEADER = (
    f"{'formulation':<16}{'loss':<14}{'solver':<16}{'test accuracy':>13}{'epochs':>8}{'seconds':>8}"
    f"{'relative gap':>13}{'converged':>10}"
)

X, y = load_digits(return_X_y=True)
X = X / 16  # pixels are 0..16: to [0, 1]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)

print(
    f"scikit-learn's digits: {X_train.shape[0]} training rows, {X_test.shape[0]} test rows, "
    f"{X.shape[1]} features, {len(set(y))} classes; C = 1, one thread\n"
)
print(HEADER)
print("-" * len(HEADER))
for formulation, loss in RUNS:
    model = LinearSVM(formulation, loss)
    started = time.perf_counter()
    with warnings.catch_warnings():  # the last column says it
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X_train, y_train)
    seconds = time.perf_counter() - started
    print(
        f"{formulation:<16}{loss:<14}{model.history_['solver'][-1]:<16}{model.score(X_test, y_test):>13.3f}"
        f"{model.n_iter_:>8}{seconds:>8.2f}{model.dual_gap_:>13.1e}{'yes' if model.converged_ else 'NO':>10}"
    )

print(f"""
epochs        passes over the training rows (newton: steps); of the longest one of several machines
relative gap  proof: no weights at all have an objective lower than ours by more than this share
converged     every class or pair that is a problem of its own has a relative gap of at most {model.tol:g}

Try next: LinearSVM(tol=1e-6), LinearSVM(C=10), LinearSVM(verbose=1); then examples/label_doubt.py,
which finds wrong labels. The guide to every parameter is docs/linear.md.""")
