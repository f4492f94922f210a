"""Runs of ``solver="decomposition"`` for the figures of papers 003 and 004: what a run was like after how many steps.

A step moves the duals of one example; it is what the papers call an iteration. Records of a run come every few hundred
steps, so that the work of certifying them stays small.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from datasets import Data

from multimargin import KernelSVM

PROBLEM = {"C": 10.0, "gamma": 0.02}  # of the digits, scaled to [0, 1]
POINTS = 120  # of a curve that is kept


def rows_in_mb(rows: int, data: Data) -> float:
    """``cache_mb`` of so many kernel rows in float32."""
    return rows * len(data.y) * 4 / 2**20


def solved(data: Data, **options: Any) -> KernelSVM:
    """A Crammer-Singer machine without bias; no warning if a limit stops it."""
    model = KernelSVM("crammer_singer", fit_intercept=False, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(data.X, data.y)


def optimum(data: Data, **problem: Any) -> dict[str, float]:
    """The optimal value of the dual, from below, and how near it is."""
    model = solved(data, tol=1e-6, **problem)
    return {"dual": model.dual_objective_, "gap": model.dual_gap_}


def decomposition(data: Data, **options: Any) -> KernelSVM:
    """A run of the papers' method that ends by the papers' rule, ``tol`` being their epsilon."""
    return solved(data, solver="decomposition", stopping="violation", **options)


def outcome(model: KernelSVM) -> dict[str, Any]:
    """How a run ended."""
    history = model.history_
    return {
        "seconds": float(history["seconds"][-1]),
        "steps": int(history["active_rows"].sum()),
        "kernel_rows": float(history["kernel_evaluations"][-1]) / model.shape_fit_[0],
        "dual": model.dual_objective_,
        "converged": bool(model.converged_),
    }


def curve(model: KernelSVM) -> dict[str, list[float]]:
    """The dual value against seconds, steps and kernel rows computed; some records of the history."""
    history = model.history_[1:]  # the first one is before the first step
    steps = np.cumsum(history["active_rows"])
    evenly = np.geomspace(1, len(history), min(POINTS, len(history)))
    kept = np.unique(np.rint(evenly).astype(int)) - 1
    return {
        "seconds": history["seconds"][kept].tolist(),
        "steps": steps[kept].tolist(),
        "kernel_rows": (history["kernel_evaluations"][kept] / model.shape_fit_[0]).tolist(),
        "dual": history["dual"][kept].tolist(),
    }


def distance(curve: dict[str, list[float]], best: float) -> np.ndarray:
    """Relative distance of the dual value from the optimum; at least 1e-7, about as well as that is known."""
    return np.maximum((best - np.array(curve["dual"])) / abs(best), 1e-7)


def first_within(curve: dict[str, list[float]], best: float, wanted: float, what: str) -> float | None:
    """Where the distance is first at most ``wanted``; None if it never is."""
    there = np.flatnonzero(distance(curve, best) <= wanted)
    return curve[what][there[0]] if len(there) else None
