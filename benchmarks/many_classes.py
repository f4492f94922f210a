"""Crammer-Singer with very many classes: time, memory, gap and accuracy; and a slice against a dense reference.

The weights are sparse (docs/many-classes.md). Each fit is in a process of its own, whose peak memory is that of data,
fit and prediction together. On the slice of the first classes LinearSVM with sparse weights, to the same gap, stands
beside the same problem in dense float64 weights, solved to a gap of 9e-6.
"""

from __future__ import annotations

import argparse
import resource
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from families import Shape, generate
from report import Report, progress

from multimargin import LinearSVM

FULL = Shape(examples=200_000, features=100_000, nonzeros=30, classes=50_000)
QUICK = Shape(examples=8_000, features=4_000, nonzeros=30, classes=2_000)
SLICE, QUICK_SLICE = 2_000, 200  # classes
HELD_OUT = 0.1  # so many more rows are not trained on
TOP = 5
REFERENCE = 9e-6  # gap; below 1e-5 weights are float64 throughout
SPARSE = 1e-3  # memory_mb that no array of weights fits into


def accuracies(model: LinearSVM, X: Any, y: np.ndarray) -> tuple[float, float]:
    """Of the best class, and of the best five."""
    best, _ = model.top_classes(X, min(TOP, len(model.classes_)))
    return float((best[:, 0] == y).mean()), float((best == y[:, None]).any(axis=1).mean())


def rows(shape: Shape) -> tuple[Any, np.ndarray, np.ndarray]:
    """Rows, labels, and which of them are held out."""
    X, y = generate(shape._replace(examples=round((1 + HELD_OUT) * shape.examples)))
    return X, y, np.arange(len(y)) >= shape.examples


def peak_mb() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(shape: Shape, C: float, tol: float, intercept: bool, threads: int) -> dict[str, Any]:
    """One fit, and predictions by it."""
    X, y, held_out = rows(shape)
    started, used = time.perf_counter(), time.process_time()

    def tell(record: dict[str, Any]) -> None:
        certified = "" if np.isnan(record["gap"]) else f", gap {record['gap']:.1e}"
        progress(f"pass {record['epoch']}: {time.process_time() - used:.0f} s of CPU, {peak_mb():.0f} MB{certified}")

    model = LinearSVM(C=C, tol=tol, fit_intercept=intercept, memory_mb=SPARSE, n_jobs=threads, callbacks=[tell])
    model.fit(X[~held_out], y[~held_out])
    seconds, cpu = time.perf_counter() - started, time.process_time() - used
    started = time.perf_counter()
    trained_on = accuracies(model, X[~held_out], y[~held_out])
    predicting = time.perf_counter() - started
    return {
        "seconds": seconds,
        "cpu": cpu,
        "epochs": model.n_iter_,
        "gap": model.dual_gap_,
        "weights": model.coef_.nnz,
        "duals": model.dual_coef_.nnz / model.dual_coef_.shape[0],
        "trained": trained_on,
        "held_out": accuracies(model, X[held_out], y[held_out]),
        "predicting": predicting,
        "peak": peak_mb(),
    }


def compare(shape: Shape, classes: int, C: float, tol: float, intercept: bool) -> list[tuple]:
    """Rows of the first classes: sparse weights to the gap, dense float64 weights to a much smaller one."""
    X, y, held_out = rows(shape)
    few = y < classes
    X, y, held_out = X[few], y[few], held_out[few]
    X = X[:, np.unique(X.indices)]  # features that these rows have
    told = []
    for name, options in [
        ("sparse", {"tol": tol, "memory_mb": SPARSE}),
        ("dense float64", {"tol": REFERENCE, "solver": "accelerated_sdm"}),
    ]:
        model = LinearSVM(C=C, fit_intercept=intercept, **options).fit(X[~held_out], y[~held_out])
        trained, unseen = accuracies(model, X[~held_out], y[~held_out]), accuracies(model, X[held_out], y[held_out])
        told.append((name, f"{model.dual_gap_:.1e}", model.primal_objective_, *trained, *unseen))
    return told


def in_process(function: Any, *arguments: Any) -> Any:
    """In a process of its own, whose memory is nobody else's."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--intercept", action="store_true")
    parser.add_argument("--threads", type=int, default=1, help="for prediction; training has one")
    parser.add_argument("--classes", type=int, help="with four rows and two features a class; default: 50000")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--output", type=Path, metavar="FILE.md", help="append the tables to this file")
    options = parser.parse_args()
    shape = QUICK if options.quick else FULL
    if options.classes:
        shape = Shape(4 * options.classes, 2 * options.classes, 30, options.classes)
    report = Report(options.output)
    report.heading(f"Very many classes: crammer_singer, hinge, C={options.C:g}, tol={options.tol:g}")
    report.table(*Shape._fields, "seconds", "CPU seconds", "epochs", "gap", "weights", "duals a row", "peak MB")
    progress(f"{shape}")
    run = in_process(measure, shape, options.C, options.tol, options.intercept, options.threads)
    report.row(
        *shape,
        run["seconds"],
        run["cpu"],
        run["epochs"],
        f"{run['gap']:.1e}",
        run["weights"],
        run["duals"],
        run["peak"],
    )
    report.heading("Its predictions: top-1 and top-5 accuracy")
    report.table("rows", "top-1", "top-5", "seconds")
    report.row("trained on", *run["trained"], run["predicting"])
    report.row("held out", *run["held_out"], "")
    classes = min(QUICK_SLICE if options.quick else SLICE, shape.classes)
    report.heading(f"The first {classes} classes: sparse weights against dense ones in float64")
    report.table("weights", "gap", "objective", "top-1", "top-5", "top-1 held out", "top-5 held out")
    progress("slice")
    for row in in_process(compare, shape, classes, options.C, options.tol, options.intercept):
        report.row(*row)


if __name__ == "__main__":
    main()
