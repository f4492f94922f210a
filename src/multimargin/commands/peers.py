"""scikit-learn's machines beside ours, for ``multimargin compare --peers``."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, LinearSVC

from multimargin.commands.fitting import accuracy

Peer = Callable[[Any, np.ndarray, Any, np.ndarray, list], dict[str, Any]]


def peers(args: Any, class_weight: Any) -> Iterator[tuple[str, Peer]]:
    """Name and measurement of every peer that does something like it."""
    shared = {"C": args.C, "class_weight": class_weight, "random_state": args.seed}
    if args.kernel:
        machine = SVC(
            kernel=args.kernel,
            gamma=args.gamma,
            degree=args.degree,
            coef0=args.coef0,
            cache_size=args.cache_mb,
            **shared,
        )
        yield "SVC", partial(_measured, "SVC (one_vs_one)", machine, None)
        return
    shared |= {
        "loss": args.loss,
        "fit_intercept": args.fit_intercept,
        "intercept_scaling": args.intercept_scaling,
        "max_iter": args.max_iter,
    }
    of_rest = LinearSVC(dual=True, **shared)
    yield "LinearSVC", partial(_measured, "LinearSVC (one_vs_rest)", of_rest, "one_vs_rest")
    if args.loss == "hinge":
        joint = LinearSVC(dual=True, multi_class="crammer_singer", **shared)
        yield "LinearSVC", partial(_measured, "LinearSVC (crammer_singer)", joint, "crammer_singer")


def _measured(
    name: str, machine: Any, formulation: str | None, X: Any, y: Any, X_out: Any, y_out: Any, ours: list
) -> dict[str, Any]:
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        machine.fit(X, y)
    seconds = time.perf_counter() - started
    objective = gap = None
    if formulation is not None and machine.class_weight is None:
        objective = _objective(machine, formulation, X, y)
        bounds = [row["dual_objective"] for row in ours if row["machine"] == formulation]
        gap = max(objective - max(bounds), 0.0) / objective
    return {
        "machine": name,
        "solver": "liblinear" if formulation else "libsvm",
        "seconds": seconds,
        "accuracy": accuracy(machine, X_out, y_out),
        "objective": objective,
        "gap": gap,
        "dual_objective": None,
        "converged": not any(issubclass(warning.category, ConvergenceWarning) for warning in caught),
        "by": "scikit-learn",
    }


def _objective(machine: LinearSVC, formulation: str, X: Any, y: np.ndarray) -> float:
    """The primal objective, as ours are: the intercept is a weight of a constant feature."""
    W, bias = machine.coef_, np.atleast_1d(machine.intercept_) / (machine.intercept_scaling or 1.0)
    regulariser = 0.5 * (float((W**2).sum()) + float((bias**2).sum()) * bool(machine.fit_intercept))
    scores = np.asarray(X @ W.T) + machine.intercept_
    label = np.searchsorted(machine.classes_, y)
    rows = np.arange(len(y))
    if scores.shape[1] == 1:  # two classes: one machine of the second against the first
        margins = np.where(label == 1, 1.0, -1.0) * scores[:, 0]
        losses = np.maximum(0.0, 1.0 - margins)[:, None]
    elif formulation == "one_vs_rest":
        sign = np.where(label[:, None] == np.arange(scores.shape[1]), 1.0, -1.0)
        losses = np.maximum(0.0, 1.0 - sign * scores)
    else:
        margins = scores + 1.0
        margins[rows, label] -= 1.0
        losses = (margins.max(axis=1) - scores[rows, label])[:, None]
    if machine.loss == "squared_hinge":
        losses = losses**2
    return regulariser + machine.C * float(losses.sum())
