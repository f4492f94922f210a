"""A LinearSVM whose rows are shared out to ranks, for engines that run one program everywhere: Spark's barrier mode,
MPI, a shell on every machine. Each rank has a collective (collective.py) and calls :func:`fit_shared`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from multimargin.data.rows import checked
from multimargin.distributed.collective import Collective
from multimargin.distributed.rank import Job, Part, Rank
from multimargin.estimators.linear_svm import LinearSVM
from multimargin.linear.loop import Limits, Outcome, solve
from multimargin.linear.solvers import STREAMING
from multimargin.linear.training import Trained
from multimargin.problems.formulations import PAIRWISE


def fit_shared(
    model: LinearSVM, X: Any, y: Any, collective: Collective, *, classes: Any, sample_weight: Any = None
) -> LinearSVM:
    """Fit a model on the rows of all ranks. All ranks call this, with the same parameters, and get the same model.

    Parameters
    ----------
    model : LinearSVM
        ``solver`` is "auto", "accelerated_sdm" or "sdm"; ``time_limit``, ``callbacks``, ``probability``, ``warm_start``
        and ``checkpoint`` are not for ranks, which must all do the same.
    X, y, sample_weight
        This rank's own; there may be none, with as many columns.
    collective : Collective
        Over all ranks; it is left open.
    classes : array
        All classes, the same everywhere.

    Returns
    -------
    LinearSVM
        ``model``, fitted; without duals.
    """
    model._check()
    _check_for_ranks(model)
    X, y = checked(X), np.asarray(y)
    model.classes_ = np.unique(classes)
    k = len(model.classes_)
    if k < 2:
        raise ValueError(f"LinearSVM needs at least 2 classes; got {model.classes_!r}")
    if model.formulation in PAIRWISE and k > 2:
        raise ValueError(
            f"formulation={model.formulation!r} is not trained by ranks; there are 'crammer_singer', 'weston_watkins' "
            "and 'one_vs_rest'"
        )
    encoded = np.minimum(np.searchsorted(model.classes_, y), k - 1)
    if y.shape != (X.shape[0],) or np.any(model.classes_[encoded] != y):
        raise ValueError("y must have a label a row, and all of them among classes")
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    counts = collective.allreduce(np.bincount(encoded, weights=weight, minlength=k).astype(np.float64))
    solver = "accelerated_sdm" if model.solver == "auto" else model.solver
    caps = model._caps(np.arange(k), np.ones(k), counts=counts)
    constant, settings = model._constant_feature(), model._settings(solver)
    job = Job(model.formulation, model.loss, k, solver, settings, constant, caps, model._seed())
    rank, outcome = Rank(job, {collective.rank: Part(X, encoded, weight)}), Outcome()
    rank.join(collective)
    machine = rank.machine
    assert machine is not None
    solve([machine], lambda position, machine: None, Limits(model.max_iter), 1, [], outcome)
    certificate = machine.certificate
    assert certificate is not None
    objectives = (certificate.primal, certificate.dual, certificate.worst_gap)
    trained = Trained(certificate.weights.array, machine.problem.lanes, None, *objectives, outcome)
    model.n_features_in_ = X.shape[1]
    model._store(trained, None)
    if (why_not := model._why_not_converged(outcome)) and collective.rank == 0:
        warnings.warn(why_not, ConvergenceWarning, stacklevel=2)
    return model


def _check_for_ranks(model: LinearSVM) -> None:
    if model.solver not in STREAMING:
        raise ValueError(f"solver={model.solver!r} is not done by ranks; there are {', '.join(map(repr, STREAMING))}")
    if model.stopping != "gap":
        raise ValueError(f"stopping={model.stopping!r} is not done by ranks; stopping='gap' is")
    for name in ("time_limit", "callbacks", "checkpoint", "probability", "warm_start"):
        if getattr(model, name):
            raise ValueError(f"{name} is not for ranks, which must all do the same: leave it out")
