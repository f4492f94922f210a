"""Fits and predictions from many threads and processes: ``python benchmarks/concurrency.py --number 500``.

1. Fits and predictions of all kinds of machines at once, in many threads, at ``n_jobs=1``: all that they give (but the
   seconds) must be, bit for bit, what they give one after the other.
2. After a fit the process is forked (os.fork, multiprocessing, joblib's loky): the child predicts and fits, with the
   same bits.
3. joblib's threads and processes over fits with threads of their own, BLAS inside: how many threads there are at most,
   and how many BLAS may use while a fit that needs it runs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import multimargin

FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"linear {name}": ("LinearSVM", {"formulation": name}) for name in FORMULATIONS},
    "linear sdm": ("LinearSVM", {"solver": "sdm"}),
    "linear accelerated_sdm": ("LinearSVM", {"solver": "accelerated_sdm", "formulation": "weston_watkins"}),
    "linear newton": ("LinearSVM", {"solver": "newton"}),
    "linear cutting_plane": ("LinearSVM", {"solver": "cutting_plane", "tol": 1e-2}),
    "linear tron": ("LinearSVM", {"solver": "tron", "loss": "squared_hinge", "formulation": "one_vs_rest"}),
    "linear with probabilities": ("LinearSVM", {"probability": True, "tol": 1e-2}),
    **{f"rbf {name}": ("KernelSVM", {"formulation": name}) for name in FORMULATIONS},
    "rbf decomposition": ("KernelSVM", {"solver": "decomposition", "tol": 1e-2}),
}


def data(sparse: bool) -> tuple[Any, np.ndarray]:
    """Small, and not separable."""
    rng = np.random.default_rng(1)
    y = np.arange(240) % 4
    X = rng.normal(size=(4, 12))[y] + 1.5 * rng.normal(size=(len(y), 12))
    return (sp.csr_array(X * (np.abs(X) > 1)) if sparse else X), y


def fitted(kind: str, sparse: bool) -> Any:
    """A model."""
    name, parameters = KINDS[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(multimargin, name)(n_jobs=1, random_state=0, **parameters).fit(*data(sparse))


def digest(model: Any, sparse: bool) -> str:
    """Of all that a fit gives, apart from the clock, and of its predictions."""
    X, _ = data(sparse)
    history = [np.ascontiguousarray(model.history_[n]) for n in model.history_.dtype.names or () if n != "seconds"]
    duals, found = model.dual_coef_, hashlib.sha256()
    scores = [model.predict_proba(X)] if model.probability else []
    objectives = np.array([model.primal_objective_, model.dual_objective_, model.n_iter_])
    arrays = (model.intercept_, duals.data, duals.indices, duals.indptr, objectives, model.decision_function(X))
    for array in (*arrays, model.predict(X), *scores, *history):
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def work(item: tuple[str, bool]) -> str:
    """Fit and predict."""
    kind, sparse = item
    return digest(fitted(kind, sparse), sparse)


def in_threads(number: int, threads: int, rng: random.Random) -> int:
    """How many of so many runs at once differ from serial ones; predictions of one model from many threads, too."""
    items = [(kind, sparse) for kind in KINDS for sparse in (False, True)]
    if number < len(items):
        items = rng.sample(items, number)
    wanted = {item: work(item) for item in items}
    shared = {item: fitted(*item) for item in items}
    runs = (items * (-(-number // len(items))))[:number]
    rng.shuffle(runs)

    def one(item: tuple[str, bool]) -> bool:
        return work(item) != wanted[item] or digest(shared[item], item[1]) != wanted[item]

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(one, runs))


def _answer(item: tuple[str, bool], model: Any, pipe: Any) -> None:
    pipe.send((digest(model, item[1]), work(item)))


def after_fork(kinds: list[str]) -> dict[str, int]:
    """How many children differ from their parent: by os.fork, multiprocessing's fork and joblib's loky."""
    from joblib import Parallel, delayed

    different = {"os.fork": 0, "multiprocessing fork": 0, "joblib loky": 0}
    context = get_context("fork")
    with warnings.catch_warnings():  # Python warns of forks while there are threads: that is what is tried
        warnings.simplefilter("ignore", DeprecationWarning)
        for kind in kinds:
            item = (kind, False)
            model = fitted(*item)
            name, parameters = KINDS[kind]
            getattr(multimargin, name)(n_jobs=2, **parameters).fit(*data(False))  # threads there were
            wanted = work(item)
            pid = os.fork()
            if pid == 0:
                os._exit(int((digest(model, False), work(item)) != (wanted, wanted)))
            different["os.fork"] += os.waitstatus_to_exitcode(_waited(pid)) != 0
            here, there = context.Pipe(duplex=False)
            process = context.Process(target=_answer, args=(item, model, there))
            process.start()
            answered = here.poll(120) and here.recv() == (wanted, wanted)
            process.join(10) if answered else process.kill()
            different["multiprocessing fork"] += not answered
            different["joblib loky"] += Parallel(n_jobs=2)(delayed(work)(item) for _ in range(2)) != [wanted, wanted]
    return different


def _waited(pid: int, seconds: float = 120.0) -> int:
    """How a child ended; one that hangs is killed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.01)
    os.kill(pid, 9)
    return os.waitpid(pid, 0)[1]


def n_threads() -> int:
    """Of this process, those of BLAS included."""
    return len(list(Path("/proc/self/task").iterdir()))


class Watched:
    """A callback: the largest number of threads, and of those that BLAS may use, while fits run."""

    def __init__(self) -> None:
        self.threads = self.blas = 0
        self.lock = threading.Lock()

    def __call__(self, record: Any) -> None:
        from threadpoolctl import threadpool_info

        allowed = max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)
        with self.lock:
            self.threads, self.blas = max(self.threads, n_threads()), max(self.blas, allowed)


def nested(solver: str, formulation: str, jobs: int, n_jobs: int, outer: str) -> tuple[int, int, int]:
    """Threads before, at most, and those that BLAS may use, with ``jobs`` fits at once of ``n_jobs`` threads each."""
    from joblib import Parallel, delayed

    def fit() -> tuple[int, int, int]:
        watched, before = Watched(), n_threads()
        X, y = data(False)
        parameters = {"solver": solver} if solver != "rbf" else {"kernel": "rbf"}
        Machine = multimargin.KernelSVM if solver == "rbf" else multimargin.LinearSVM
        Machine(formulation, n_jobs=n_jobs, callbacks=[watched], tol=1e-4, **parameters).fit(X, y)
        return before, watched.threads, watched.blas

    before = n_threads()
    told = Parallel(n_jobs=jobs, backend=outer)(delayed(fit)() for _ in range(4 * jobs))
    return before if outer == "threading" else min(t[0] for t in told), max(t[1] for t in told), max(t[2] for t in told)


def main() -> int:
    """The tables."""
    from threadpoolctl import threadpool_info

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--number", type=int, default=500, help="of concurrent runs (default: 500)")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only-threads", action="store_true", help="neither forks nor joblib")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    different = in_threads(args.number, args.threads, rng)
    print(f"{args.number} fits and predictions in {args.threads} threads: {different} different from serial ones")
    if args.only_threads:
        return int(different > 0)
    kinds = list(KINDS) if args.number >= len(KINDS) * 2 else rng.sample(list(KINDS), 2)
    forked = after_fork(kinds)
    for how, wrong in forked.items():
        print(f"{len(kinds)} kinds of machines after {how}: {wrong} different")
    jobs, n_jobs = 2, 2
    too_many = 0
    for outer in ("threading", "loky"):
        for solver, formulation in (
            ("newton", "one_vs_one"),
            ("accelerated_sdm", "one_vs_rest"),
            ("rbf", "one_vs_rest"),
        ):
            before, most, blas = nested(solver, formulation, jobs, n_jobs, outer)
            # joblib's own (three of its pool, one a job), ours in each job, and those that a BLAS library keeps.
            ours = 3 + jobs + jobs * n_jobs if outer == "threading" else n_jobs + 2
            allowed = before + ours + len(threadpool_info()) * ((os.cpu_count() or 1) - 1)
            limited = blas <= max(n_jobs, 1) or solver == "accelerated_sdm"  # which does not call it
            wrong = most > allowed or not limited
            too_many += wrong
            what = f"{solver} {formulation}: {before} threads before, {most} at most, BLAS may use {blas}"
            print(f"joblib {outer}, {jobs} jobs of n_jobs={n_jobs}, {what}{': TOO MANY' if wrong else ''}")
    return int(bool(different or sum(forked.values()) or too_many))


if __name__ == "__main__":
    sys.exit(main())
