"""Kernel training runs, ours and the peers', and what they minimise; the kernel is exp(-gamma ||x - z||^2).

A peer is a function ``train(data, problem, tolerance)`` that returns the seconds of its train call, coefficients and
intercepts: machine m decides by ``f_m(x) = sum_i coef[i, m] K(x_i, x) + intercept[m]``. There is a machine a class for
Crammer-Singer and Weston-Watkins, and one for each pair i < j of classes, positive for class i, for one-vs-one. With
w_m = sum_i coef[i, m] phi(x_i), the objectives are

- crammer_singer: ``1/2 sum_m ||w_m||^2 + C sum_i max_m (f_m(x_i) + [m != y_i] - f_y(x_i))``; no intercept,
- weston_watkins: ``1/2 sum_m (||w_m||^2 + b_m^2) + C sum_i sum_{m != y_i} max(0, 1 - f_y(x_i) + f_m(x_i))``,
- one_vs_one: the sum over pairs of ``1/2 ||w||^2 + C sum_i max(0, 1 -+ f(x_i))``, the intercept free.
"""

from __future__ import annotations

import functools
import itertools
import time
import warnings
from typing import Any, NamedTuple

import kernlab
import numpy as np
import scipy.sparse as sp
from contest import Peer
from datasets import Data
from peers import total_loss
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC
from worker import peak_above

CACHE_MB = 1000  # for kernel rows, on every side
_ENTRIES = 1 << 24  # kernel values computed at a time
LADDER = (0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 1e-6)  # two more are tried in between
BIAS = {"crammer_singer": "none", "weston_watkins": "regularised", "one_vs_one": "free"}


class KernelProblem(NamedTuple):
    """What is minimised."""

    formulation: str
    C: float
    gamma: float

    @property
    def loss(self) -> str:
        return "hinge"


# The objective


def objective(data: Data, problem: KernelProblem, coef: Any, intercept: np.ndarray) -> float:
    """The primal objective, plainly in NumPy and float64, some rows at a time.

    Parameters
    ----------
    coef : ndarray or sparse of shape (n_samples, n_machines)
    intercept : ndarray of shape (n_machines,)
    """
    coef = sp.csr_array(coef, copy=True)
    coef.eliminate_zeros()
    support = np.flatnonzero(np.diff(coef.indptr))
    vectors, coef_of_vectors = np.asarray(data.X[support], dtype=np.float64), coef[support].toarray()
    size = max(1, _ENTRIES // max(len(support), coef.shape[1]))
    squared_norm, total = 0.0, 0.0
    for first in range(0, len(data.y), size):
        rows = slice(first, first + size)
        w = rbf(np.asarray(data.X[rows], dtype=np.float64), vectors, problem.gamma) @ coef_of_vectors
        squared_norm += float(coef[rows].multiply(w).sum())
        total += _total_loss(w + intercept, data.y[rows], data.n_classes, problem)
    if BIAS[problem.formulation] == "regularised":
        squared_norm += float(intercept @ intercept)
    return 0.5 * squared_norm + problem.C * total


def rbf(X: np.ndarray, Z: np.ndarray, gamma: float) -> np.ndarray:
    """exp(-gamma ||x - z||^2)."""
    K = X @ Z.T
    K *= -2
    K += np.einsum("ij,ij->i", X, X)[:, None]
    K += np.einsum("ij,ij->i", Z, Z)
    np.maximum(K, 0, out=K)
    K *= -gamma
    return np.exp(K, out=K)


def _total_loss(scores: np.ndarray, y: np.ndarray, n_classes: int, problem: KernelProblem) -> float:
    if problem.formulation != "one_vs_one":
        return float(total_loss(scores, y, problem))
    side = np.zeros((n_classes, scores.shape[1]))  # of a class in a pair's machine; 0: not in it
    for machine, (i, j) in enumerate(itertools.combinations(range(n_classes), 2)):
        side[i, machine], side[j, machine] = 1, -1
    sides = side[y]
    return float(np.sum(np.maximum(0, np.abs(sides) - sides * scores)))


# The peers


class Run(NamedTuple):
    seconds: float  # of the train call alone
    coef: Any  # ndarray or sparse, n_samples x n_machines
    intercept: np.ndarray


def svc(data: Data, problem: KernelProblem, tolerance: float) -> Run:
    """scikit-learn's SVC, which is LIBSVM."""
    return _one_vs_one(SVC(C=problem.C, gamma=problem.gamma, tol=tolerance, cache_size=CACHE_MB), data)


def intelex(data: Data, problem: KernelProblem, tolerance: float) -> Run:
    """SVC of scikit-learn-intelex, on one thread."""
    from sklearnex.svm import SVC as IntelSVC

    return _one_vs_one(IntelSVC(C=problem.C, gamma=problem.gamma, tol=tolerance, cache_size=CACHE_MB, n_jobs=1), data)


def thundersvm(data: Data, problem: KernelProblem, tolerance: float) -> Run:
    """SVC of ThunderSVM without a GPU, on one thread."""
    from thundersvm import SVC as ThunderSVC

    order = np.argsort(data.y, kind="stable")  # it numbers the classes as they first occur
    model = ThunderSVC(C=problem.C, gamma=problem.gamma, tol=tolerance, cache_size=CACHE_MB, n_jobs=1)
    run = _one_vs_one(model, Data(data.name, data.X[order], data.y[order]))
    coef = run.coef[np.argsort(order)]
    return Run(run.seconds, coef, -run.intercept)  # its intercept_ is LIBSVM's rho


def _one_vs_one(model: Any, data: Data) -> Run:
    seconds = _fit(model, data)
    coef = pair_coefficients(np.asarray(model.dual_coef_), np.asarray(model.support_), data)
    return Run(seconds, coef, np.asarray(model.intercept_).ravel())


def pair_coefficients(dual_coef: np.ndarray, support: np.ndarray, data: Data) -> sp.csr_array:
    """LIBSVM's dual_coef, (n_classes - 1) x n_support, as n_samples x n_pairs.

    Row r of it holds, for a vector of class c, the coefficient against class r if r < c, else against class r + 1.
    """
    n_classes = data.n_classes
    pairs = list(itertools.combinations(range(n_classes), 2))
    machine = np.zeros((n_classes, n_classes), dtype=np.int64)
    for index, (i, j) in enumerate(pairs):
        machine[i, j] = machine[j, i] = index
    own = data.y[support]
    row = np.arange(n_classes - 1)
    against = row + (row >= own[:, None])
    columns = machine[own[:, None], against]
    rows = np.repeat(support, n_classes - 1)
    return sp.csr_array((dual_coef.T.ravel(), (rows, columns.ravel())), shape=(len(data.y), len(pairs)))


def kernlab_machine(data: Data, problem: KernelProblem, tolerance: float, *, kind: str) -> Run:
    """spoc-svc or kbb-svc of kernlab."""
    scale = 2 if kind == "kbb-svc" else 1  # its margin: our problem at C is its problem at 2 C with w twice as long
    seconds, coef = kernlab.train(data.X, data.y, kind, scale * problem.C, problem.gamma, tolerance, CACHE_MB)
    coef /= scale
    intercept = coef.sum(axis=0) if kind == "kbb-svc" else np.zeros(data.n_classes)
    return Run(seconds, coef, intercept)


def _fit(model: Any, data: Data) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.perf_counter()
        model.fit(data.X, data.y)
        return time.perf_counter() - start


def _kernlab_peer(kind: str, formulation: str) -> Peer:
    train = functools.partial(kernlab_machine, kind=kind)
    return Peer(kind, "kernlab", "kernlab", train, formulation, ladder=LADDER, version_of=kernlab.version)


PEERS = {
    peer.name: peer
    for peer in (
        Peer("SVC", "svc", "scikit-learn", svc, "one_vs_one", ladder=LADDER),
        Peer("intelex SVC", "intelex", "scikit-learn-intelex", intelex, "one_vs_one", ladder=LADDER),
        Peer("ThunderSVM", "thundersvm", "thundersvm-cpu", thundersvm, "one_vs_one", ladder=LADDER),
        _kernlab_peer("spoc-svc", "crammer_singer"),
        _kernlab_peer("kbb-svc", "weston_watkins"),
    )
}
FAMILIES = tuple(dict.fromkeys(peer.family for peer in PEERS.values()))


# What a worker is asked to do: functions of its data


def run_peer(data: Data, name: str, problem: KernelProblem, setting: float) -> dict[str, Any]:
    """Train a peer: seconds, primal, exhausted."""
    run = PEERS[name].train(data, problem, setting)
    primal = objective(data, problem, run.coef, run.intercept)
    return {"seconds": run.seconds, "primal": primal, "exhausted": False}


def our_model(problem: KernelProblem, threads: int, **parameters) -> Any:
    """A KernelSVM for the problem, with the same bias as the peers'."""
    from multimargin import KernelSVM

    return KernelSVM(
        problem.formulation,
        C=problem.C,
        gamma=problem.gamma,
        fit_intercept=BIAS[problem.formulation] != "none",
        n_jobs=threads,
        **{"cache_mb": CACHE_MB, **parameters},
    )


def run_ours(data: Data, problem: KernelProblem, threads: int = 1, **parameters) -> dict[str, Any]:
    """The whole fit of a KernelSVM, certificate included."""
    model = our_model(problem, threads, **parameters)
    seconds = _fit(model, data)
    return {"seconds": seconds, "primal": objective(data, problem, model.dual_coef_, model.intercept_)} | claims(model)


def claims(model: Any) -> dict[str, Any]:
    """What a fitted model says of itself."""
    return {
        "claimed_primal": model.primal_objective_,
        "dual": model.dual_objective_,
        "gap": model.dual_gap_,
        "worst_gap": getattr(model, "worst_gap_", model.dual_gap_),
        "epochs": model.n_iter_,
        "kernel_evaluations": int(model.history_["kernel_evaluations"][-1]),
        "converged": model.converged_,
    }


def memory_of_ours(data: Data, problem: KernelProblem, threads: int = 1, **parameters) -> float:
    """Megabytes that a fit needed at its peak above what was there before; for a fresh worker."""
    _warm_up(problem, threads)
    return peak_above(lambda: our_model(problem, threads, **parameters).fit(data.X, data.y))


def full_run_of_ours(data: Data, problem: KernelProblem, threads: int = 1, **parameters) -> dict[str, Any]:
    """One fit with its memory, and its accuracy on the test rows; for a fresh worker."""
    _warm_up(problem, threads)
    model = our_model(problem, threads, **parameters)
    taken: list[float] = []
    memory = peak_above(lambda: taken.append(_fit(model, data)))
    start = time.perf_counter()
    accuracy = float(np.mean(model.predict(data.X_test) == data.y_test))
    predicting = time.perf_counter() - start
    sizes = {"X_mb": data.X.nbytes / 2**20, "n_samples": len(data.y), "n_classes": data.n_classes}
    vectors = {"support_vectors": len(model.support_), "accuracy": accuracy, "predict_seconds": predicting}
    return {"seconds": taken[0], "memory": memory} | sizes | vectors | claims(model)


def sizes(data: Data) -> tuple[int, int, float]:
    """Rows, classes, and megabytes of X."""
    return len(data.y), data.n_classes, data.X.nbytes / 2**20


def _warm_up(problem: KernelProblem, threads: int) -> None:
    """What is loaded on first use is not the fit's."""
    our_model(problem, threads, cache_mb=1).fit(np.eye(3), [0, 1, 2])
