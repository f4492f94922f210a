"""Ctrl-C at random moments of fits: ``python benchmarks/interrupts.py --number 500``.

Each fit runs in a process of its own, which gets SIGINT at a random moment of the time that an undisturbed one takes.
Latency is the time from the signal to the KeyboardInterrupt that leaves ``fit``. Then the model must predict, and its
certificate, if it has one, must hold (objectives of linear machines are computed again by NumPy); or, if nothing had
been certified when the signal came, it may be as before ``fit``: NotFittedError. Everything else is wrong: a crash, no
answer within a minute of the processor's time, a KeyboardInterrupt that did not come. The table has a row for each kind
of machine.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import time
import warnings
from contextlib import suppress
from itertools import combinations
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import multimargin

ENDLESS = {"tol": 1e-9, "max_iter": 10**6}
# Name: class, parameters, shape of the data (rows, features, classes), whether it is sparse.
KINDS: dict[str, tuple[str, dict[str, Any], tuple[int, int, int], bool]] = {
    "iris crammer_singer": ("LinearSVM", {}, (150, 4, 3), False),
    "iris one_vs_one": ("LinearSVM", {"formulation": "one_vs_one", **ENDLESS}, (150, 4, 3), False),
    "crammer_singer sdm": ("LinearSVM", {"solver": "sdm", **ENDLESS}, (3000, 50, 8), False),
    "crammer_singer sdm sparse": ("LinearSVM", {"solver": "sdm", **ENDLESS}, (20000, 3000, 10), True),
    "weston_watkins accelerated": (
        "LinearSVM",
        {"formulation": "weston_watkins", "solver": "accelerated_sdm", **ENDLESS},
        (20000, 200, 10),
        False,
    ),
    "one_vs_rest accelerated sparse": (
        "LinearSVM",
        {"formulation": "one_vs_rest", "solver": "accelerated_sdm", **ENDLESS},
        (20000, 3000, 10),
        True,
    ),
    "one_vs_rest sdm, 2 threads": (
        "LinearSVM",
        {"formulation": "one_vs_rest", "solver": "sdm", "n_jobs": 2, **ENDLESS},
        (5000, 100, 8),
        False,
    ),
    "one_vs_one sdm sparse": (
        "LinearSVM",
        {"formulation": "one_vs_one", "solver": "sdm", **ENDLESS},
        (5000, 1000, 12),
        True,
    ),
    "dag accelerated, 2 threads": (
        "LinearSVM",
        {"formulation": "dag", "solver": "accelerated_sdm", "n_jobs": 2, **ENDLESS},
        (5000, 60, 12),
        False,
    ),
    "crammer_singer newton": ("LinearSVM", {"solver": "newton", **ENDLESS}, (50000, 10, 6), False),
    "one_vs_rest newton, large": (
        "LinearSVM",
        {"formulation": "one_vs_rest", "solver": "newton", **ENDLESS},
        (3000, 2500, 3),
        False,
    ),
    "crammer_singer cutting_plane": ("LinearSVM", {"solver": "cutting_plane", **ENDLESS}, (5000, 50, 8), False),
    "one_vs_rest tron": (
        "LinearSVM",
        {"formulation": "one_vs_rest", "loss": "squared_hinge", "solver": "tron", **ENDLESS},
        (20000, 200, 10),
        False,
    ),
    "one_vs_rest primal_cd sparse": (
        "LinearSVM",
        {"formulation": "one_vs_rest", "loss": "squared_hinge", "solver": "primal_cd", **ENDLESS},
        (20000, 3000, 10),
        True,
    ),
    "crammer_singer pegasos": ("LinearSVM", {"solver": "pegasos", **ENDLESS}, (5000, 50, 8), False),
    "crammer_singer with probabilities": ("LinearSVM", {"probability": True, "tol": 1e-3}, (3000, 50, 8), False),
    "rbf crammer_singer block": ("KernelSVM", {**ENDLESS}, (4000, 20, 6), False),
    "rbf weston_watkins block sparse": (
        "KernelSVM",
        {"formulation": "weston_watkins", **ENDLESS},
        (2000, 500, 6),
        True,
    ),
    "rbf one_vs_rest block, 2 threads": (
        "KernelSVM",
        {"formulation": "one_vs_rest", "n_jobs": 2, **ENDLESS},
        (3000, 20, 6),
        False,
    ),
    "rbf one_vs_one block": ("KernelSVM", {"formulation": "one_vs_one", **ENDLESS}, (4000, 20, 10), False),
    "rbf crammer_singer decomposition": ("KernelSVM", {"solver": "decomposition", **ENDLESS}, (2000, 20, 6), False),
}
LONGEST = 4.0  # seconds of an undisturbed fit
HANGS = 60.0  # seconds of the processor without an answer,
WAITS = 600.0  # and by the clock


def data(shape: tuple[int, int, int], sparse: bool) -> tuple[Any, np.ndarray]:
    """Classes that overlap."""
    n, features, k = shape
    rng = np.random.default_rng(0)
    y = np.arange(n) % k
    if not sparse:
        return rng.normal(size=(k, features))[y] + 2 * rng.normal(size=(n, features)), y
    X = sp.random_array((n, features), density=30 / features, rng=rng, format="csr")
    own = sp.csr_array((np.full(n, 0.5), (np.arange(n), rng.integers(0, 5, n) * k + y)), shape=(n, features))
    return sp.csr_array(X + own), y


def objective(model: Any, X: Any, y: np.ndarray) -> float:
    """At C = 1, from the definitions."""
    power = 2 if model.loss == "squared_hinge" else 1
    penalty = 0.5 * (np.sum(model.coef_**2) + np.sum(model.intercept_**2))
    scores, k, row = X @ model.coef_.T + model.intercept_, len(model.classes_), np.arange(len(y))
    if model.formulation in ("one_vs_one", "dag"):
        loss = 0.0
        for machine, (i, j) in enumerate(combinations(range(k), 2)):
            here = (y == i) | (y == j)
            sign = np.where(y[here] == i, 1, -1)
            loss += float((np.maximum(1 - sign * scores[here, machine], 0) ** power).sum())
        return penalty + loss
    if model.formulation == "one_vs_rest":
        sign = np.where(y[:, None] == np.arange(k), 1, -1)
        return penalty + float((np.maximum(1 - sign * scores, 0) ** power).sum())
    slack = 1 + scores - scores[row, y][:, None]
    slack[row, y] = 0
    joined = slack.max(axis=1) if model.formulation == "crammer_singer" else np.maximum(slack, 0).sum(axis=1)
    return penalty + float(joined.sum())


def verdict(model: Any, X: Any, y: np.ndarray, certified: bool) -> str:
    """What became of an interrupted fit."""
    from sklearn.exceptions import NotFittedError

    try:
        labels = model.predict(X[:50])
    except NotFittedError:
        return "wrong: a certified model was lost" if certified else "not fitted"
    if not np.isin(labels, model.classes_).all() or not np.isfinite(model.decision_function(X[:50])).all():
        return "wrong: no predictions"
    if model.converged_ and not model.worst_gap_ <= model.tol:
        return "wrong: says that it converged"
    primal, dual, gap = model.primal_objective_, model.dual_objective_, model.dual_gap_
    if np.isnan(gap):
        return "wrong: a certificate was lost" if certified and model.formulation == "crammer_singer" else "usable"
    if not dual <= primal * (1 + 1e-6) or abs(gap - max(primal - dual, 0) / abs(primal)) > 1e-9:
        return f"wrong: no certificate: {primal} {dual} {gap}"
    if isinstance(model, multimargin.LinearSVM) and abs(objective(model, X, y) - primal) > 1e-6 * primal:
        return f"wrong: the objective is {objective(model, X, y)}, not {primal}"
    return "usable"


def work(kind: str, answer: Connection) -> None:
    """In a process of its own: fit, and tell when the interrupt was there and what was left."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.simplefilter("ignore")
    name, parameters, shape, sparse = KINDS[kind]
    X, y = data(shape, sparse)
    certified: list[bool] = []

    def note(record: Any) -> None:
        if not certified and record["gap"] == record["gap"]:
            certified.append(True)

    model = getattr(multimargin, name)(callbacks=[note], **parameters)
    getattr(multimargin, name)(max_iter=1).fit(X[:60], y[:60])  # everything is imported
    certified.clear()
    fitted = False
    try:
        answer.send("ready")
        try:
            model.fit(X, y)
            fitted = True
        except KeyboardInterrupt:
            arrived, used, before = time.monotonic(), time.process_time(), bool(certified)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:  # after the fit
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        fitted = True
    if fitted:
        answer.send(("trained", 0.0, 0.0))
    else:
        answer.send((verdict(model, X, y, before), arrived, used))


def processor_time(pid: int) -> float:
    """Seconds that a process has used, where the system tells."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    try:
        return sum(int(file.read_text().split()[0]) for file in files) / 1e9 or np.nan
    except OSError:
        return np.nan


def answers(here: Connection, pid: int) -> bool:
    """Whether an answer comes, however busy the machine is."""
    began, used = time.monotonic(), processor_time(pid)
    while not here.poll(1.0):
        if time.monotonic() - began > WAITS or processor_time(pid) - used > HANGS:
            return False
    return True


def run(context: Any, kind: str, seconds: float) -> tuple[str, float, float]:
    """What came of a fit that is interrupted after so many seconds, and how long that took: by the clock, and in time
    of the processor, which is the same on a busy machine."""
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(kind, there))
    process.start()
    there.close()
    try:
        here.recv()
        if not here.poll(seconds):
            used, sent = processor_time(process.pid), time.monotonic()
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(process.pid, signal.SIGINT)
        else:
            used = sent = np.nan
        if not answers(here, process.pid):
            process.kill()
            return "wrong: hangs", np.nan, np.nan
        what, arrived, used_then = here.recv()
    except EOFError:
        process.join()
        return f"wrong: ended with code {process.exitcode}", np.nan, np.nan
    process.join()
    return what, arrived - sent, used_then - used


def undisturbed(context: Any, kind: str) -> float:
    """Seconds of a fit, as far as they count."""
    began = time.monotonic()
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(kind, there))
    process.start()
    there.close()
    here.recv()
    began = time.monotonic()
    here.poll(LONGEST)
    took = time.monotonic() - began
    process.kill()
    process.join()
    return took


def main() -> int:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--number", type=int, default=500, help="of interrupts, in all (default: 500)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", metavar="KIND", help="some of the kinds")
    parser.add_argument(
        "--bar", type=float, help="fail if the 99th percentile of the latency, in seconds, is above this"
    )
    args = parser.parse_args()
    rng = random.Random(args.seed)
    context = get_context("forkserver")
    context.set_forkserver_preload(["multimargin.estimators.linear_svm", "multimargin.estimators.kernel_svm"])
    kinds = args.only or list(KINDS)
    everything: list[tuple[float, float]] = []
    failures: list[str] = []
    columns = f"{'sent':>5} {'usable':>7} {'not fitted':>11} {'wrong':>6} {'p50 s':>7} {'p99 s':>7} {'max s':>7}"
    print(f"{'machine':34} {columns} {'p99 cpu':>7}")
    for i, kind in enumerate(kinds):
        took = undisturbed(context, kind)
        wanted = args.number * (i + 1) // len(kinds) - args.number * i // len(kinds)
        told: list[str] = []
        latency: list[tuple[float, float]] = []
        tries = 0
        while len(told) < wanted and tries < 20 * wanted:
            tries += 1
            what, *seconds = run(context, kind, rng.uniform(0, took))
            if what == "trained":
                continue  # it was too late
            told.append(what)
            if not what.startswith("wrong: hangs") and seconds[0] == seconds[0]:
                latency.append((seconds[0], seconds[1]))
        wrong = [what for what in told if what.startswith("wrong")]
        failures += [f"{kind}: {what}" for what in wrong]
        failures += [f"{kind}: {len(told)} of {wanted} interrupts came in time, in {tries} tries"] * (
            len(told) < wanted
        )
        everything += latency
        counts = f"{len(told):5} {told.count('usable'):7} {told.count('not fitted'):11} {len(wrong):6}"
        print(f"{kind:34} {counts} {percentiles(latency)}", flush=True)
    print(f"{'all':34} {len(everything):5} {'':7} {'':11} {len(failures):6} {percentiles(everything)}")
    print("\n".join(failures))
    late = args.bar is not None and np.percentile(np.array(everything)[:, 0], 99) > args.bar
    return int(bool(failures) or late or not everything)


def percentiles(latency: list[tuple[float, float]]) -> str:
    """Median, 99th percentile and largest, in columns; 99th percentile of the processor's time."""
    if not latency:
        return ""
    clock, processor = np.array(latency).T
    values = [*np.percentile(clock, [50, 99]), clock.max(), np.nanpercentile(processor, 99)]
    return " ".join(f"{value:7.3f}" for value in values)


if __name__ == "__main__":
    sys.exit(main())
