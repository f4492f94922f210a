"""Objective and accuracy of a solver against its training time.

A curve is made of fits that start from nothing, with max_iter = 1, 2, 3, 4, 5, 6, 8, 10, ... A fit is deterministic, so
the longer one passes through the state in which the shorter one ended: every fit gives one point. Its time is when its
last pass was booked in ``history_``; the certificate at the end, which gives the objectives, and the accuracy are
outside of the clock. Certificates that a solver asks for on its way are inside, as they are part of it. Short fits are
repeated and the fastest counts.

The clock is the processor's (``time.process_time``; one thread trains), which other programs disturb less than the
clock on the wall. On a quiet machine the two agree.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
from datasets import Data
from sklearn.exceptions import ConvergenceWarning

# By which max_iter grows while fits are short, and then: all fits together take 1.6 / 0.6 times as long as the last.
FINE_GROWTH, GROWTH = 1.25, 1.6
TIGHT = 1e-8  # tolerance of the fits of a curve: none should end by itself before its max_iter
REPEATS, SHORT = 3, 0.05  # how often, and what short is, in seconds
FEWEST = 4  # points of a curve
CLOCK = (
    "Seconds are the processor's, of the one thread that trains, from the first pass on: neither reading nor "
    "preparing the data, nor measuring what is shown."
)

Point = dict[str, float]


@contextmanager
def processor_clock() -> Iterator[None]:
    """Training keeps its history and its time limit by the processor's clock."""
    from multimargin.linear import loop, training

    for module in (loop, training):
        module.time = SimpleNamespace(perf_counter=time.process_time)  # type: ignore[assignment]
    try:
        yield
    finally:
        loop.time = training.time = time


def trace(data: Data, seconds: float, **parameters: Any) -> list[Point]:
    """The points of a LinearSVM with these parameters: at least four, and as many as ``seconds`` are enough for."""
    points: list[Point] = []
    epochs, spent, next_cost = 1, 0.0, 0.0
    while len(points) < FEWEST or (spent + next_cost < seconds and not points[-1]["converged"]):
        began = time.process_time()
        points.append(_point(data, epochs, parameters))
        cost = time.process_time() - began
        spent += cost
        growth = FINE_GROWTH if points[-1]["seconds"] < SHORT else GROWTH
        next_cost = growth * cost
        epochs = max(epochs + 1, round(epochs * growth))
    return points


def _point(data: Data, epochs: int, parameters: dict[str, Any]) -> Point:
    from multimargin import LinearSVM

    fastest = np.inf
    with warnings.catch_warnings(), processor_clock():
        warnings.simplefilter("ignore", ConvergenceWarning)  # they are stopped before that
        for _ in range(REPEATS):
            model = LinearSVM(max_iter=epochs, **{"tol": TIGHT, "fit_intercept": False, **parameters})
            model.fit(data.X, data.y)
            fastest = min(fastest, float(model.history_["seconds"][-1]))
            if fastest > SHORT:
                break
    return {
        "epochs": epochs,
        "seconds": fastest,
        "primal": float(model.primal_objective_),
        "dual": float(model.dual_objective_),
        "accuracy": 100 * float(model.score(data.X_test, data.y_test)),
        "converged": bool(model.converged_),
    }


def optimum(data: Data, tol: float, limit: float, **parameters: Any) -> dict[str, float]:
    """Certified bounds of the optimal objective, and the accuracy there."""
    from multimargin import LinearSVM

    with warnings.catch_warnings(), processor_clock():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the bounds say how far it came
        model = LinearSVM(max_iter=1_000_000, tol=tol, time_limit=limit, fit_intercept=False, **parameters)
        model.fit(data.X, data.y)
    accuracy = 100 * float(model.score(data.X_test, data.y_test))
    return {"primal": float(model.primal_objective_), "dual": float(model.dual_objective_), "accuracy": accuracy}


def best_bounds(reference: dict[str, float], curves: Iterable[list[Point]]) -> tuple[float, float]:
    """The lowest primal and the highest dual value that anybody reached."""
    points = [reference, *(point for curve in curves for point in curve)]
    return min(point["primal"] for point in points), max(point["dual"] for point in points)


def distances(curve: list[Point], which: str, best: float) -> tuple[np.ndarray, np.ndarray]:
    """Seconds, and the relative distance of the ``primal`` or ``dual`` values from the best one known, best so far.

    A shorter fit is the beginning of every longer one, so it cannot take more time: the least of them counts.
    """
    seconds = np.minimum.accumulate([point["seconds"] for point in reversed(curve)])[::-1]
    values = np.abs(np.array([point[which] for point in curve]) - best) / abs(best)
    return seconds, np.minimum.accumulate(values)


def time_to(curve: list[Point], which: str, best: float, distance: float) -> float | None:
    """Seconds until the first point that is at most so far from the best value; None if there is none."""
    seconds, values = distances(curve, which, best)
    near = np.flatnonzero(values <= distance)
    return float(seconds[near[0]]) if len(near) else None


def shown_time(curve: list[Point] | None, which: str, best: float, distance: float) -> str:
    """The same for a table: how long it took, or more than what was tried."""
    if curve is None:
        return "-"
    seconds = time_to(curve, which, best, distance)
    return f"{seconds:.2g}" if seconds is not None else f"> {max(point['seconds'] for point in curve):.2g}"
