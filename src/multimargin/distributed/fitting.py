"""A LinearSVM whose rows are shared out to ranks, for engines that run one program everywhere: Spark's barrier mode,
MPI, a shell on every machine. Each rank has a collective (collective.py) and calls :func:`fit_shared`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from multimargin.data.kinds import check_kind
from multimargin.data.labels import encoded_by, plain_labels
from multimargin.data.rows import checked
from multimargin.distributed.agreement import agree
from multimargin.distributed.collective import Collective
from multimargin.distributed.rank import Job, Part, Rank
from multimargin.estimators.linear_svm import LinearSVM
from multimargin.linear.loop import solve
from multimargin.linear.outcome import Limits, Outcome
from multimargin.linear.solvers import STREAMING
from multimargin.linear.training import Trained, streamed_solver
from multimargin.problems.formulations import PAIRWISE, n_lanes


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
        Over all ranks. It is left open, unless the fit fails on the way: then the others' next sum fails, too.
    classes : array
        All classes, the same everywhere, each with a row on some rank.

    Returns
    -------
    LinearSVM
        ``model``, fitted; without duals.

    Raises
    ------
    ValueError
        On every rank, if one of them refuses its rows or parameters, or if they differ in what must be the same.
    """
    error: Exception | None = None
    rows, facts = None, dict.fromkeys(_FACTS)
    try:
        rows = _Rows.of(model, X, y, sample_weight, classes)
        facts = _facts(model, rows)
    except Exception as refusal:  # out of memory, say: whatever it is, the others wait to hear of it
        error = refusal
    agree(collective, error, facts)
    assert rows is not None
    try:
        with model._apart() as apart:
            outcome = _fitted(apart, rows, collective)
    except BaseException:
        collective.close()  # the others would wait for this rank
        raise
    if (why_not := model._why_not_converged(outcome)) and collective.rank == 0:
        warnings.warn(why_not, ConvergenceWarning, stacklevel=2)
    return model


# What all ranks must have in common.
_FACTS = ("classes", "the number of features", "parameters")
_OF_A_RANK = ("n_jobs", "verbose", "random_state")  # parameters that each may choose; of the last the seed counts


class _Rows(NamedTuple):
    """This rank's, checked, with encoded labels."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    classes: np.ndarray
    seed: int

    @classmethod
    def of(cls, model: LinearSVM, X: Any, y: Any, sample_weight: Any, classes: Any) -> _Rows:
        model._check()
        _check_for_ranks(model)
        X, y, classes = checked(X), np.asarray(plain_labels(y)), np.unique(np.asarray(plain_labels(classes)))
        k = len(classes)
        if k < 2:
            raise ValueError(f"LinearSVM needs at least 2 classes; got {classes!r}")
        if model.formulation in PAIRWISE and k > 2:
            raise ValueError(
                f"formulation={model.formulation!r} is not trained by ranks; there are 'crammer_singer', "
                "'weston_watkins' and 'one_vs_rest'"
            )
        check_kind(sample_weight, "sample_weight")
        encoded, unknown = encoded_by(classes, y)
        if y.shape != (X.shape[0],) or unknown.any():
            raise ValueError("y must have a label a row, and all of them among classes")
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if weight is not None and (weight.shape != y.shape or not np.isfinite(weight).all() or (weight < 0).any()):
            raise ValueError("sample_weight must be finite, not negative, and one a row")
        return cls(X, encoded, weight, classes, model._seed())


def _facts(model: LinearSVM, rows: _Rows) -> dict[str, Any]:
    parameters = {name: _plain(value) for name, value in model.get_params().items() if name not in _OF_A_RANK}
    parameters["random_state"] = rows.seed
    return dict(zip(_FACTS, (rows.classes, rows.X.shape[1], sorted(parameters.items())), strict=True))


def _plain(value: Any) -> Any:
    """The same for equal parameters: 1 and 1.0, or dicts in another order."""
    if isinstance(value, Mapping):
        return sorted(((_plain(key), _plain(each)) for key, each in value.items()), key=repr)
    return float(value) if isinstance(value, Real) else value


def _fitted(model: LinearSVM, rows: _Rows, collective: Collective) -> Outcome:
    """The fit, when all ranks are known to do the same."""
    k = len(rows.classes)
    ones = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    counts, weights = collective.allreduce(
        np.array([np.bincount(rows.y, each, minlength=k) for each in (np.ones(len(rows.y)), ones)], dtype=np.float64)
    )
    if not counts.all():
        raise ValueError(f"no rank has a row of class {rows.classes[counts == 0].tolist()}: leave it out of classes")
    if not weights.any():
        raise ValueError("the weights of all rows are zero")
    model.classes_, model.n_features_in_ = rows.classes, rows.X.shape[1]
    model.__dict__.pop("feature_names_in_", None)  # of an earlier fit
    solver = model.solver
    if solver == "auto":
        solver = streamed_solver(rows.X.shape[1] + 1, n_lanes(model.formulation, k))
    caps = model._caps(np.arange(k), np.ones(k), counts=weights)
    constant, settings = model._constant_feature(), model._settings(solver)
    job = Job(model.formulation, model.loss, k, solver, settings, constant, caps, rows.seed)
    error: Exception | None = None
    try:
        rank = Rank(job, {collective.rank: Part(rows.X, rows.y, rows.weight)})
    except Exception as refusal:
        error = refusal
    agree(collective, error, {})
    outcome = Outcome()
    rank.join(collective)
    machine = rank.machine
    assert machine is not None
    solve([machine], lambda position, machine: None, Limits(model.max_iter), 1, [], outcome)
    certificate = machine.certificate
    assert certificate is not None
    objectives = (certificate.primal, certificate.dual, certificate.worst_gap)
    trained = Trained(certificate.weights.array, machine.problem.lanes, None, *objectives, outcome)
    model._store(trained, None)
    return outcome


def _check_for_ranks(model: LinearSVM) -> None:
    if model.solver not in STREAMING:
        raise ValueError(f"solver={model.solver!r} is not done by ranks; there are {', '.join(map(repr, STREAMING))}")
    if model.stopping != "gap":
        raise ValueError(f"stopping={model.stopping!r} is not done by ranks; stopping='gap' is")
    for name in ("time_limit", "callbacks", "checkpoint", "probability", "warm_start"):
        if getattr(model, name):
            raise ValueError(f"{name} is not for ranks, which must all do the same: leave it out")
