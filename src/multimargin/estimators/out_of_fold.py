"""Scores of training rows by models that were not trained on them, and the calibration that they give.

Each refit starts from the duals of the whole fit: with the rows of the fold left out, they are feasible for the others,
whose caps are the same. It is trained fifty times as loosely as the whole fit, which moves the scores far less than
leaving out the rows does.
"""

from __future__ import annotations

import copy
from math import ceil
from threading import Event
from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin.estimators.calibration import UNCALIBRATED, fit_calibration
from multimargin.estimators.folds import stratified_folds
from multimargin.estimators.parameters import n_threads
from multimargin.estimators.threads import in_threads
from multimargin.linear.outcome import Limits
from multimargin.problems.range import tiny_is_zero

_LOOSER, _LOOSEST = 50.0, 0.05  # than tol, but no looser than that, unless tol is
_LEAST_SECONDS = 1e-3


@tiny_is_zero
def calibrated(model: Any, request: Any, trained: Any, seconds: float | None) -> np.ndarray:
    """The calibration of a model that has just been trained.

    Parameters
    ----------
    model : MarginClassifier
    request, trained
        What was asked for, with all rows, and what came of it.
    seconds : float or None
        What is left of the time limit, for all refits together.
    """
    fold, n_distinct = stratified_folds(request.X, request.y, request.cap > 0, request.seed)
    held_out = fold >= 0
    if not held_out.any():
        return np.array(UNCALIBRATED)
    values = scores_out_of_fold(model, request, trained, fold, seconds)
    return fit_calibration(values[held_out], request.y[held_out], request.cap[held_out], n_distinct)


def scores_out_of_fold(model: Any, request: Any, trained: Any, fold: np.ndarray, seconds: float | None) -> np.ndarray:
    """Values by class of every row with a fold, by a model trained on the other folds."""
    k = request.n_classes
    values = np.zeros(len(request.y) if k == 2 else (len(request.y), k))
    folds = [int(f) for f in np.unique(fold[fold >= 0])]
    threads = n_threads(model.n_jobs)
    if seconds is not None:
        seconds = max(_LEAST_SECONDS, seconds / ceil(len(folds) / threads))
    stop = Event()

    def refit(held_out: int) -> None:
        rows = fold == held_out
        duals = sp.csr_array(trained.dual_coef.multiply(~rows[:, None]))
        part = model._refit_request(
            request,
            tol=_tolerance(model, trained),
            cap=np.where(rows, 0.0, request.cap),
            start_duals=model._feasible(duals),
            limits=Limits(request.limits.max_iter, seconds),
            observers=[lambda epoch, machine: stop.is_set()],
            n_threads=max(1, threads // len(folds)),
            checkpoint=None,
        )
        other = copy.copy(model)
        other.n_jobs = part.n_threads
        other._store_model(other._train(part), part)
        values[rows] = other._graded(request.X[rows])

    in_threads(refit, folds, threads, stop)
    return values


def _tolerance(model: Any, trained: Any) -> float:
    """Of a refit: never more than the model itself has reached."""
    loose = max(model.tol, min(_LOOSER * model.tol, _LOOSEST))
    return loose if model.stopping == "violation" else max(loose, trained.worst_gap)
