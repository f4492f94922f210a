"""Kills (kill -9) of workers while a cluster trains: does every training end, and with the right result?

    python benchmarks/dask_kills.py --kills 200

Each training is on processes of its own machine's, and at random moments of it workers are killed:

    one            one worker; its nanny starts another
    two            two, each at a moment of its own
    all            all at once; their nannies start others
    one for good   one of two workers without nannies: the other has to do
    all for good   both of them, each at a moment of its own: there must be an error that says so, within 60 s

A training that has neither a model nor an error after 60 s hangs. A model is right if it converged and if its objective
lies between the bounds that a training without kills proved, within the tolerance; also one that came although all were
killed for good, for the last of them may have told it before. Trainings that ended before the kill came are not
counted. After a hang the stacks of all threads are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import logging
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import dask
import numpy as np
from dask import delayed
from distributed import Client, LocalCluster, Worker
from distributed.utils import get_mp_context

from multimargin.dask import LinearSVM

KINDS = {"one": 0.55, "two": 0.25, "all": 0.1, "one for good": 0.06, "all for good": 0.04}  # shares
BLOCKS, ROWS, FEATURES, CLASSES = 6, 4000, 60, 8
HANGS = 60.0  # seconds


def block(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that any worker can make again."""
    rng = np.random.default_rng(number)
    y = rng.integers(0, CLASSES, ROWS)
    centres = np.random.default_rng(1000).normal(size=(CLASSES, FEATURES))
    return (centres[y] + 2 * rng.normal(size=(ROWS, FEATURES))) / np.sqrt(FEATURES), y


@dataclass
class Run:
    """One training."""

    kind: str
    seconds: float = 0.0
    killed: int = 0  # before it ended
    model: LinearSVM | None = None
    error: BaseException | None = None
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def hangs(self) -> bool:
        return self.model is None and self.error is None


def train(client: Client, run: Run, tol: float) -> None:
    """Into the run, in a thread that is given up on when it hangs."""

    def fit() -> None:
        began = time.perf_counter()
        try:
            blocks = [delayed(block, nout=2, pure=False)(number) for number in range(BLOCKS)]
            with client.as_current():
                run.model = LinearSVM(tol=tol, max_iter=10**6).fit([X for X, _ in blocks], [y for _, y in blocks])
        except BaseException as error:
            run.error = error
        run.seconds = time.perf_counter() - began
        run.over.set()

    threading.Thread(target=fit, daemon=True, name="fit").start()


def kill(run: Run, moments: list[float], victims) -> None:
    """At moments after the beginning, as long as it has not ended. Victims: called at a moment, the processes."""
    began = time.perf_counter()
    for moment in sorted(moments):
        if run.over.wait(max(0.0, began + moment - time.perf_counter())):
            return
        for pid in victims():
            try:
                os.kill(pid, signal.SIGKILL)
                run.killed += 1
            except ProcessLookupError:
                pass


def ended(run: Run) -> None:
    """Wait for it, from the last kill on."""
    if not run.over.wait(HANGS):
        faulthandler.dump_traceback()


@contextmanager
def nannied(processes: int) -> Iterator[Client]:
    """A cluster whose workers are started again."""
    with (
        LocalCluster(
            n_workers=processes, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def work(address: str) -> None:
    """A worker without a nanny, in a process of its own."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL)

    async def main() -> None:
        async with Worker(address, nthreads=1, dashboard=False) as worker:
            await worker.finished()

    asyncio.run(main())


@contextmanager
def bare(processes: int) -> Iterator[tuple[Client, list]]:
    """A cluster whose workers are not."""
    with (
        LocalCluster(n_workers=0, processes=True, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        workers = [get_mp_context().Process(target=work, args=(cluster.scheduler_address,)) for _ in range(processes)]
        for worker in workers:
            worker.start()
        try:
            client.wait_for_workers(processes, timeout=HANGS)
            yield client, workers
        finally:
            for worker in workers:
                worker.kill()
                worker.join()


def processes_of(client: Client) -> list[int]:
    """Of all workers. The scheduler may know one that was killed a moment ago still."""
    while True:
        try:
            return list(client.run(os.getpid).values())
        except OSError:
            time.sleep(0.1)


def with_nannies(client: Client, kind: str, calm: float, tol: float) -> Run:
    """A training whose workers come back."""
    run = Run(kind)
    known = processes_of(client)

    def victims() -> list[int]:
        return known if kind == "all" else [random.choice(known)]

    moments = [random.uniform(0, calm) for _ in range(2 if kind == "two" else 1)]
    train(client, run, tol)
    kill(run, moments, victims)
    ended(run)
    return run


def for_good(kind: str, calm: float, tol: float) -> Run:
    """A training whose workers do not come back."""
    run = Run(kind)
    with bare(2) as (client, workers):
        left = [worker.pid for worker in workers]
        random.shuffle(left)
        moments = [random.uniform(0, calm) for _ in range(2 if kind == "all for good" else 1)]
        train(client, run, tol)
        kill(run, moments, lambda: [left.pop()])
        ended(run)
    return run


def undisturbed(processes: int, tol: float) -> tuple[LinearSVM, float]:
    """A training without kills, and its seconds."""
    with nannied(processes) as client:
        runs = [Run("calm"), Run("calm")]
        for run in runs:  # the first one loads what is loaded late
            train(client, run, tol)
            run.over.wait()
            if run.error is not None:
                raise run.error
    model = runs[-1].model
    assert model is not None
    objective = f"objective {model.primal_objective_:.6g}, gap {model.dual_gap_:.1e}"
    print(f"without kills: {len(model.history_)} rounds, {runs[-1].seconds:.1f} s, {objective}", flush=True)
    return model, runs[-1].seconds


def judge(run: Run, calm: LinearSVM, tol: float) -> str:
    """What came of it."""
    if run.hangs:
        return "hangs"
    if run.error is not None:
        clear = isinstance(run.error, RuntimeError) and "nothing left to train on" in str(run.error)
        return "clear error" if run.kind == "all for good" and clear else "other error"
    assert run.model is not None
    low, high = calm.dual_objective_, calm.primal_objective_ / (1 - tol)
    return "right" if run.model.converged_ and low * (1 - 1e-9) <= run.model.primal_objective_ <= high else "wrong"


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="trainings with a kill or more (default: 200)")
    parser.add_argument("--processes", type=int, default=3, help="workers with nannies (default: 3)")
    parser.add_argument("--tol", type=float, default=5e-3)
    parser.add_argument("--kind", choices=KINDS, help="this one only")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    tol, outcomes, kills, noticed = arguments.tol, Counter(), Counter(), Counter()
    longest: dict[str, float] = dict.fromkeys(KINDS, 0.0)
    late = 0
    # Workers are forked from a process that has the library loaded, or most of the time would go by with imports.
    dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    get_mp_context().set_forkserver_preload(["distributed", "multimargin.dask"])
    reference, calm = undisturbed(arguments.processes, tol)
    while outcomes.total() < arguments.kills:
        with nannied(arguments.processes) as client:
            healthy = True
            while healthy and outcomes.total() < arguments.kills:
                kind = arguments.kind or random.choices(list(KINDS), list(KINDS.values()))[0]
                if kind.endswith("for good"):
                    run = for_good(kind, calm, tol)
                else:
                    try:
                        client.wait_for_workers(arguments.processes, timeout=HANGS)
                    except TimeoutError:  # a nanny that does not start its worker again
                        break
                    run = with_nannies(client, kind, calm, tol)
                    healthy = not run.hangs
                if not run.killed:
                    late += 1
                    continue
                came = judge(run, reference, tol)
                outcomes[kind, came] += 1
                kills[kind] += run.killed
                noticed[kind] += run.model.workers_lost_ if run.model is not None else 0
                longest[kind] = max(longest[kind], run.seconds)
                print(f"{outcomes.total():4d} {kind:12} {run.seconds:5.1f} s  {came}  {run.error or ''}", flush=True)
                if came in ("hangs", "other error", "wrong"):
                    print(f"     {run}, {run.model and run.model.primal_objective_}", flush=True)
    columns = ("right", "clear error", "other error", "wrong", "hangs")
    print(f"{'kind':12} {'runs':>5} {'kills':>6} {'noticed':>8} {' '.join(f'{c:>11}' for c in columns)}  longest s")
    for kind in KINDS:
        counts = [outcomes[kind, came] for came in columns]
        row = " ".join(f"{count:11d}" for count in counts)
        print(f"{kind:12} {sum(counts):5d} {kills[kind]:6d} {noticed[kind]:8d} {row}  {longest[kind]:9.1f}")
    bad = sum(count for (_, came), count in outcomes.items() if came in columns[2:])
    print(f"{outcomes.total()} trainings, {kills.total()} kills, {bad} bad ends; {late} were over before the kill")
    sys.exit(int(bad > 0))


if __name__ == "__main__":
    main()
