"""Linear training runs, ours and the peers', and what they minimise.

A peer is a function ``train(data, loss, C, setting)`` that returns the seconds of its train call and W, one row a
class in class order. A binary one-vs-rest model has a single row, positive for class 1. No run has an intercept,
and all minimise ``1/2 sum_m ||w_m||^2 + C sum_i loss_i``.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from contest import EPOCHS, UNLIMITED, Peer
from datasets import Data
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.svm import LinearSVC
from worker import best_of, peak_above

from multimargin import LinearSVM

_SCORES = 1 << 24  # computed at a time


class Problem(NamedTuple):
    """What is minimised."""

    formulation: str
    loss: str
    C: float


def objective(data: Data, problem: Problem, W: np.ndarray) -> float:
    """The primal objective at W, plainly in NumPy, some rows at a time."""
    if len(W) == 1 and problem.formulation != "one_vs_rest":
        W = np.vstack([-W / 2, W / 2])  # two classes: the row is w_1 - w_0, and w_0 = -w_1
    by_feature = np.ascontiguousarray(W.T)
    size = max(1, _SCORES // len(W))
    blocks = (slice(first, first + size) for first in range(0, len(data.y), size))
    total = sum(total_loss(np.asarray(data.X[rows] @ by_feature), data.y[rows], problem) for rows in blocks)
    return float(0.5 * np.vdot(by_feature, by_feature) + problem.C * total)


def total_loss(scores: np.ndarray, y: np.ndarray, problem: Any) -> float:
    """The losses of some rows, summed, not yet times C."""
    every = np.arange(len(y))
    if problem.formulation == "one_vs_rest":
        n_machines = scores.shape[1]
        positive = y[:, None] == (np.arange(n_machines) if n_machines > 1 else 1)
        costs = np.maximum(0, 1 - np.where(positive, scores, -scores))
    else:
        costs = np.maximum(0, 1 + scores - scores[every, y][:, None])
        costs[every, y] = 0
        if problem.formulation == "crammer_singer":
            costs = costs.max(axis=1)
    return np.sum(costs**2 if problem.loss == "squared_hinge" else costs)


# The peers


class Run(NamedTuple):
    seconds: float  # of the train call alone
    W: np.ndarray
    exhausted: bool = False  # met an iteration limit of its own, so that a tighter tolerance may change nothing


@functools.lru_cache(maxsize=1)
def liblinear_problem(data: Data):
    """The data as LIBLINEAR holds it, made once and outside the timing."""
    from liblinear.liblinear import problem

    return problem(data.y.astype(np.float64), sp.csr_matrix(data.X, dtype=np.float64), bias=-1)


def liblinear(data: Data, loss: str, C: float, tolerance: float, *, solver: int) -> Run:
    """LIBLINEAR through its official binding; ``solver`` is its -s, the tolerance its -e."""
    from liblinear.liblinear import PRINT_STRING_FUN, parameter, toPyModel
    from liblinear.liblinear import liblinear as library

    prepared = liblinear_problem(data)
    options = parameter(f"-s {solver} -c {C!r} -e {tolerance!r} -q")
    messages: list[bytes] = []
    listen = PRINT_STRING_FUN(messages.append)
    library.set_print_string_function(listen)
    ctypes.CDLL(None).srand(0)  # it shuffles with the C library's rand: every run visits in the same order
    start = time.perf_counter()
    pointer = library.train(prepared, options)
    seconds = time.perf_counter() - start
    library.set_print_string_function(options.print_func)

    model = toPyModel(pointer)
    labels = np.array(model.get_labels())  # in the order in which they first occur
    n_vectors = 1 if len(labels) == 2 and solver != 4 else len(labels)
    W = np.ctypeslib.as_array(model.w, (model.nr_feature * n_vectors,)).reshape(-1, n_vectors).T.copy()
    W = W[np.argsort(labels)] if n_vectors > 1 else W * (1 if labels[0] == 1 else -1)
    return Run(seconds, W, any(b"max number of iterations" in message for message in messages))


def linear_svc(data: Data, loss: str, C: float, tolerance: float, *, multi_class: str) -> Run:
    """scikit-learn's LinearSVC, the dual solvers."""
    model = LinearSVC(
        loss=loss,
        C=C,
        tol=tolerance,
        multi_class=multi_class,
        dual=True,
        fit_intercept=False,
        max_iter=UNLIMITED,
        random_state=0,
    )
    return _fit(model, data)


def sgd(data: Data, loss: str, C: float, epochs: int) -> Run:
    """scikit-learn's SGDClassifier for a given number of epochs."""
    alpha = 1 / (C * len(data.y))
    model = SGDClassifier(loss=loss, alpha=alpha, fit_intercept=False, max_iter=epochs, tol=None, random_state=0)
    return _fit(model, data)


def lightning(data: Data, loss: str, C: float, tolerance: float) -> Run:
    """The dual coordinate descent of sklearn-contrib-lightning (it has no intercept)."""
    from lightning.classification import LinearSVC as LightningSVC

    return _fit(LightningSVC(loss=loss, C=C, tol=tolerance, max_iter=UNLIMITED, random_state=0), data)


def _fit(model, data: Data) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.perf_counter()
        model.fit(data.X, data.y)
        seconds = time.perf_counter() - start
    return Run(seconds, np.asarray(model.coef_))


def _liblinear(solver: int, formulation: str, loss: str) -> Peer:
    train = functools.partial(liblinear, solver=solver)
    return Peer(f"liblinear -s {solver}", "liblinear", "liblinear-official", train, formulation, (loss,), "-e")


def _linear_svc(multi_class: str, formulation: str, losses: tuple[str, ...]) -> Peer:
    train = functools.partial(linear_svc, multi_class=multi_class)
    return Peer(f"LinearSVC {multi_class}", "linear_svc", "scikit-learn", train, formulation, losses)


BOTH = ("hinge", "squared_hinge")
PEERS = {
    peer.name: peer
    for peer in (
        _liblinear(4, "crammer_singer", "hinge"),
        _liblinear(3, "one_vs_rest", "hinge"),
        _liblinear(1, "one_vs_rest", "squared_hinge"),
        _liblinear(2, "one_vs_rest", "squared_hinge"),
        _linear_svc("crammer_singer", "crammer_singer", ("hinge",)),
        _linear_svc("ovr", "one_vs_rest", BOTH),
        Peer("SGDClassifier", "sgd", "scikit-learn", sgd, "one_vs_rest", BOTH, "max_iter", EPOCHS),
        Peer("lightning LinearSVC", "lightning", "sklearn-contrib-lightning", lightning, "one_vs_rest", BOTH),
    )
}
FAMILIES = tuple(dict.fromkeys(peer.family for peer in PEERS.values()))


# What a worker is asked to do: functions of its data


def run_peer(data: Data, name: str, problem: Problem, setting: float) -> dict[str, Any]:
    """Train a peer: seconds, primal, exhausted."""
    run = PEERS[name].train(data, problem.loss, problem.C, setting)
    return {"seconds": run.seconds, "primal": objective(data, problem, run.W), "exhausted": run.exhausted}


def run_ours(data: Data, problem: Problem, threads: int = 1, **parameters) -> dict[str, Any]:
    """The whole fit of a LinearSVM, certificate included."""
    model = LinearSVM(*problem, fit_intercept=False, n_jobs=threads, **parameters)
    run = _fit(model, data)
    return {
        "seconds": run.seconds,
        "primal": objective(data, problem, run.W),
        "claimed_primal": model.primal_objective_,
        "dual": model.dual_objective_,
        "gap": model.dual_gap_,
        "worst_gap": model.worst_gap_,
        "epochs": model.n_iter_,
        "solver": str(model.history_["solver"][-1]) if len(model.history_) else "none",
        "converged": model.converged_,
        "fingerprint": hashlib.sha256(np.ascontiguousarray(run.W)).hexdigest(),
    }


def memory_of_ours(data: Data, problem: Problem, threads: int = 1, **parameters) -> float:
    """Megabytes that a fit needed at its peak above what was there before; for a fresh worker."""
    LinearSVM().fit(np.eye(3), [0, 1, 2])  # what is loaded on first use is not the fit's
    return peak_above(lambda: _fit(LinearSVM(*problem, fit_intercept=False, n_jobs=threads, **parameters), data))


def seconds_of_product(data: Data, repeats: int = 5) -> float:
    """Best time of one ``X @ W`` with W of shape (n_features, n_classes), float64: the yardstick of a pass."""
    W = np.random.RandomState(0).standard_normal((data.X.shape[1], data.n_classes))
    return best_of(repeats, lambda: data.X @ W)
