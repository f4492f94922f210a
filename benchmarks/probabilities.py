"""Probabilities: LinearSVM(probability=True) against scikit-learn's CalibratedClassifierCV(LinearSVC()).

Every set is split as published, or a stratified quarter is held out; letter, whose features are not scaled, is as it is
stored. All fits have their default parameters. They run in one process, one after the other, round by round; the
seconds of a fit are the least of all rounds, and the other columns do not depend on the round.

    python benchmarks/probabilities.py --rounds 3 --out benchmarks/RESULTS.md
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import datasets
from benchmarks.report import Report, progress
from multimargin import LinearSVM

SETS = ("news20", "banking77", "letter")
BINS = 15

MODELS: dict[str, Callable] = {
    "LinearSVM(probability=True)": lambda: LinearSVM(probability=True, random_state=0),
    "LinearSVM('one_vs_rest', 'squared_hinge', probability=True)": lambda: LinearSVM(
        "one_vs_rest", "squared_hinge", probability=True, random_state=0
    ),
    "CalibratedClassifierCV(LinearSVC())": lambda: CalibratedClassifierCV(LinearSVC(random_state=0), cv=5),
    "the same, method='isotonic'": lambda: CalibratedClassifierCV(LinearSVC(random_state=0), method="isotonic", cv=5),
}


def split(name: str) -> tuple:
    """Training rows, test rows, and the classes of both."""
    data = datasets.load(name)
    if data.X_test is not None:
        return data.X, data.X_test, data.y, data.y_test
    return train_test_split(data.X, data.y, test_size=0.25, random_state=0, stratify=data.y)


def judge(shares: np.ndarray, y: np.ndarray) -> tuple[float, float, float, float]:
    """Log loss (clipped as in scikit-learn), Brier score, calibration error of the predicted class, accuracy."""
    row = np.arange(len(y))
    log_loss = -np.log(np.maximum(shares[row, y], np.finfo(float).eps)).mean()
    brier = ((shares - np.eye(shares.shape[1])[y]) ** 2).sum(axis=1).mean()
    confidence, hit = shares.max(axis=1), shares.argmax(axis=1) == y
    bin_of = np.minimum((confidence * BINS).astype(int), BINS - 1)
    error = np.abs(np.bincount(bin_of, confidence - hit, BINS)).sum() / len(y)
    return float(log_loss), float(brier), float(error), float(hit.mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="append the table to this file")
    parser.add_argument("--remark", help="a line to print above the table")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # LinearSVC's, on letter
    report = Report(options.out)
    report.heading("Probabilities")
    if options.remark:
        report.line(options.remark + "\n")
    report.table("set", "model", "log loss", "Brier", "ECE", "accuracy", "seconds", "of CalibratedClassifierCV")
    for name in options.sets:
        X, X_test, y, y_test = split(name)
        seconds = dict.fromkeys(MODELS, np.inf)
        judged = {}
        for turn in range(options.rounds):
            for label, make in MODELS.items():
                model = make()
                begin = time.perf_counter()
                model.fit(X, y)
                seconds[label] = min(seconds[label], time.perf_counter() - begin)
                judged[label] = judge(model.predict_proba(X_test), y_test)
                progress(f"{name}, round {turn + 1}, {label}: {seconds[label]:.2f} s")
        against = seconds["CalibratedClassifierCV(LinearSVC())"]
        for label, values in judged.items():
            cells = [f"{value:.4f}" for value in values]
            report.row(name, label, *cells, seconds[label], f"{seconds[label] / against:.2f}")


if __name__ == "__main__":
    main()
