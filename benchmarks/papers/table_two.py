"""Table II of paper 002 (Hsu and Lin, "A Comparison of Methods for Multiclass Support Vector Machines", 2002).

Accuracy of the five methods with an RBF kernel at the paper's (C, gamma), against the paper's rates. As there, features
are scaled to [-1, 1] by the training rows (dna is left as it is). dna, satimage, letter and shuttle have test rows; for
the others it is ten-fold cross-validation, here the mean over five random foldings, on the 528 training rows of vowel
and on all rows of the rest, which are also what the scaling is taken from.

The paper's rate is the best of a grid of 15 x 15 (C, gamma): for the small sets the best cross-validated one, so that
ours is expected somewhat below. The paper does not say how it folded. Here a fold has its share of every class
(StratifiedKFold, seeds 0 to 4); `--random-folds` drops that, `--foldings` takes more. Cells depend on it, and where
the best of a grid was lucky no exact solver comes near: SVC and kernlab (`--with-peers`) are off by, with 5 stratified
foldings and with 5 random ones,

- iris: one-against-all -0.8 and -1.6, Weston-Watkins and Crammer-Singer -1.3 and -1.9,
- glass: DAG -1.1 and -2.1 (with 20 foldings -1.9 and -2.2), Weston-Watkins -1.9 and -1.9.

What is trained: one-against-one, DAG and one-against-all have a free bias. Weston-Watkins ([25], [27] in the paper) has
a regularised one, and the paper's margin is 2: its C is our C/2. Crammer-Singer has no bias.

    python benchmarks/papers/table_two.py                               # all sets, all columns
    python benchmarks/papers/table_two.py --sets iris wine --columns one_vs_one crammer_singer
    python benchmarks/papers/table_two.py --with-peers                  # SVC and kernlab instead of ours

`--with-peers` shows that sets, scaling and problems are the paper's: one-against-one by SVC itself, DAG by walking
SVC's pairs, one-against-all by an SVC a class, the last two columns by kernlab (see kernlab.py).
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import kernlab
from datasets import Data, load_for_kernels
from kernel_peers import rbf
from report import Report, progress
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC
from worker import Worker

COLUMNS = ("one_vs_one", "dag", "one_vs_rest", "weston_watkins", "crammer_singer")
FOLDS = 10
TESTED = ("dna", "satimage", "letter", "shuttle")  # have test rows
TEST_POINTS, CROSS_VALIDATED_POINTS = 0.5, 1.5  # how far from the paper's rate


class Cell(NamedTuple):
    """log2 C, log2 gamma, and the rate in percent."""

    C: int
    gamma: int
    rate: float


def _row(*numbers: float) -> dict[str, Cell]:
    cells = (Cell(int(C), int(gamma), rate) for C, gamma, rate in zip(*[iter(numbers)] * 3, strict=True))
    return dict(zip(COLUMNS, cells, strict=True))


# fmt: off
TABLE = {
    #             one-against-one     DAG                one-against-all    [25], [27]          C&S
    "iris":     _row(12,  -9, 97.333,  12, -8, 96.667,   9, -3, 96.667,  12, -8, 97.333,  10, -7, 97.333),
    "wine":     _row( 7, -10, 99.438,   6, -9, 98.876,   7, -6, 98.876,   0, -2, 98.876,   1, -3, 98.876),
    "glass":    _row(11,  -2, 71.495,  12, -3, 73.832,  11, -2, 71.963,   9, -4, 71.028,   4,  1, 71.963),
    "vowel":    _row( 4,   0, 99.053,   2,  2, 98.674,   4,  1, 98.485,   3,  0, 98.485,   1,  3, 98.674),
    "vehicle":  _row( 9,  -3, 86.643,  11, -5, 86.052,  11, -4, 87.470,  10, -4, 86.998,   9, -4, 86.761),
    "segment":  _row( 6,   0, 97.403,  11, -3, 97.359,   7,  0, 97.532,   5,  0, 97.576,   0,  3, 97.316),
    "dna":      _row( 3,  -6, 95.447,   3, -6, 95.447,   2, -6, 95.784,   4, -6, 95.616,   1, -6, 95.869),
    "satimage": _row( 4,   0, 91.3,     4,  0, 91.25,    2,  1, 91.7,     3,  0, 91.25,    2,  2, 92.35),
    "letter":   _row( 4,   2, 97.98,    4,  2, 97.98,    2,  2, 97.88,    1,  2, 97.76,    3,  2, 97.68),
    "shuttle":  _row(11,   3, 99.924,  11,  3, 99.924,   9,  4, 99.910,   9,  4, 99.910,  12,  4, 99.938),
}
# fmt: on


# The models


def ours(column: str, C: float, gamma: float, threads: int) -> Any:
    """A KernelSVM that solves the paper's problem."""
    from multimargin import KernelSVM

    C = C / 2 if column == "weston_watkins" else C
    return KernelSVM(column, C=C, gamma=gamma, fit_intercept=column != "crammer_singer", n_jobs=threads)


def peers(column: str, C: float, gamma: float, threads: int) -> Any:
    """The same with scikit-learn and kernlab."""
    machine = SVC(C=C, gamma=gamma, cache_size=1000, decision_function_shape="ovo")
    return {
        "one_vs_one": machine,
        "dag": Dag(machine),
        "one_vs_rest": OneVsRestClassifier(machine),
        "weston_watkins": Kernlab("kbb-svc", C, gamma),
        "crammer_singer": Kernlab("spoc-svc", C, gamma),
    }[column]


class Dag(ClassifierMixin, BaseEstimator):
    """SVC's pairs, asked one after the other: the loser of the first class against the last is out."""

    def __init__(self, machine: SVC):
        self.machine = machine

    def fit(self, X: np.ndarray, y: np.ndarray) -> Dag:
        self.machine.fit(X, y)
        self.classes_ = self.machine.classes_
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        values, n_classes = self.machine.decision_function(X), len(self.classes_)
        machine_of = np.zeros((n_classes, n_classes), dtype=np.int64)
        for index, (i, j) in enumerate(itertools.combinations(range(n_classes), 2)):
            machine_of[i, j] = index
        rows, first, last = np.arange(len(X)), np.zeros(len(X), dtype=np.int64), np.full(len(X), n_classes - 1)
        for _ in range(n_classes - 1):
            first_wins = values[rows, machine_of[first, last]] > 0
            first, last = np.where(first_wins, first, first + 1), np.where(first_wins, last - 1, last)
        return self.classes_[first]


class Kernlab(ClassifierMixin, BaseEstimator):
    """spoc-svc or kbb-svc, at their default tolerance, which is the paper's."""

    def __init__(self, kind: str, C: float, gamma: float):
        self.kind, self.C, self.gamma = kind, C, gamma

    def fit(self, X: np.ndarray, y: np.ndarray) -> Kernlab:
        _, self.coef_ = kernlab.train(X, y, self.kind, self.C, self.gamma, tol=1e-3, cache_mb=1000)
        self.intercept_ = self.coef_.sum(axis=0) if self.kind == "kbb-svc" else 0.0
        self.vectors_ = X
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.argmax(rbf(X, self.vectors_, self.gamma) @ self.coef_ + self.intercept_, axis=1)


# The rates


def accuracy(data: Data, model: Any, foldings: int, stratified: bool) -> dict[str, Any]:
    """Percent, lowest and highest over the foldings, fits that did not converge, and seconds; for a worker."""
    start = time.perf_counter()
    if data.name in TESTED:
        model.fit(data.X, data.y)
        unfinished = int(not getattr(model, "converged_", True))
        rates = [100 * float(np.mean(model.predict(data.X_test) == data.y_test))]
    else:
        rates, unfinished = [], 0
        for seed in range(foldings):
            right = 0
            for train, test in folds(data.y, stratified, seed):
                model.fit(data.X[train], data.y[train])
                unfinished += not getattr(model, "converged_", True)
                right += np.sum(model.predict(data.X[test]) == data.y[test])
            rates.append(100 * right / len(data.y))
    seconds = time.perf_counter() - start
    return {"rate": np.mean(rates), "low": min(rates), "high": max(rates), "unfinished": unfinished, "seconds": seconds}


def folds(y: np.ndarray, stratified: bool, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to train with and to test on, ten times."""
    kind = StratifiedKFold if stratified else KFold
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a class of glass has 9 rows: one fold goes without it
        return list(kind(FOLDS, shuffle=True, random_state=seed).split(y, y))


def reproduce(options: argparse.Namespace, report: Report) -> bool:
    """All cells; whether every one is near the paper's."""
    report.heading("Table II of paper 002" + (", by SVC and kernlab" if options.with_peers else ""))
    report.table(
        "set", "formulation", "log2 C", "log2 gamma", "rate", "foldings", "paper", "off by", "seconds", "notes"
    )
    make = peers if options.with_peers else ours
    good = True
    for name in options.sets:
        with Worker(load_for_kernels, name, threads=options.threads) as worker:
            for column in options.columns:
                cell = TABLE[name][column]
                progress(f"{name} {column}")
                model = make(column, 2.0**cell.C, 2.0**cell.gamma, options.threads)
                result = worker.call(accuracy, model, options.foldings, not options.random_folds)
                tested = name in TESTED
                off = result["rate"] - cell.rate
                notes = []
                if abs(off) > (TEST_POINTS if tested else CROSS_VALIDATED_POINTS):
                    notes.append("TOO FAR FROM THE PAPER")
                if result["unfinished"]:
                    notes.append(f"{result['unfinished']} FITS DID NOT CONVERGE")
                good &= not notes
                spread = "" if tested else f"{result['low']:.2f} to {result['high']:.2f}"
                rates = (f"{result['rate']:.2f}", spread, f"{cell.rate:.2f}", f"{off:+.2f}")
                report.row(name, column, cell.C, cell.gamma, *rates, result["seconds"], "; ".join(notes))
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=list(TABLE), default=list(TABLE))
    parser.add_argument("--columns", nargs="+", choices=COLUMNS, default=list(COLUMNS))
    parser.add_argument("--with-peers", action="store_true", help="SVC and kernlab instead of ours")
    parser.add_argument("--foldings", type=int, default=5, metavar="N", help="ten-fold cross-validations")
    parser.add_argument("--random-folds", action="store_true", help="a fold need not have its share of every class")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--output", type=Path, metavar="FILE.md", help="append the table to this file")
    options = parser.parse_args()
    sys.exit(0 if reproduce(options, Report(options.output)) else 1)


if __name__ == "__main__":
    main()
