"""The only outer loop, for linear and kernel machines: it gives every unfinished machine its next 50 ms, and in
between keeps the history, asks the observers, and minds the limits. Machines are independent: what their threads
share (a store of kernel rows) guards itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Protocol, TypeVar

import numpy as np

HISTORY = np.dtype(
    [
        ("machine", np.int64),
        ("epoch", np.int64),
        ("seconds", np.float64),
        ("violation", np.float64),
        ("active_rows", np.int64),
        ("solver", "U24"),
        ("primal", np.float64),
        ("dual", np.float64),
        ("gap", np.float64),
    ]
)


class Record(Protocol):
    """What a machine tells of a pass; not certified objectives are NaN."""

    @property
    def active_rows(self) -> int: ...
    @property
    def gap(self) -> float: ...
    @property
    def estimate(self) -> float:
        """Of the gap, where a pass knows one."""

    def history(self) -> tuple:
        """From the violation on, the fields of the history."""


class Trainable(Protocol):
    """What the loop asks of a machine."""

    epochs: float  # visits / examples
    cancelled: bool  # set by an interrupt: give up soon

    @property
    def ready(self) -> bool:
        """Whether a limit may stop it: it has something to show."""

    @property
    def done(self) -> bool: ...
    @property
    def converged(self) -> bool: ...
    def advance(self, max_epochs: float) -> Any:
        """About 50 ms of work: the records of its passes."""

    def count(self, position: int, record: Any) -> tuple[int, int]:
        """Count a record, in the epochs, too: the number of the machine in the history, and of the pass."""

    def exhausted(self, max_iter: int) -> bool:
        """Whether ``max_iter`` epochs are used up."""

    def conclude(self) -> tuple[float, float, float]:
        """Primal, dual and gap at a stop that it did not ask for; it may turn out to have converged."""

    def salvage(self) -> None:
        """After an interrupt."""


AnyMachine = TypeVar("AnyMachine", bound=Trainable)


@dataclass
class Epoch:
    """What observers are told after every pass."""

    machine: int
    epoch: int
    seconds: float
    record: Record

    def as_tuple(self) -> tuple:
        return (self.machine, self.epoch, self.seconds, *self.record.history())


@dataclass
class Limits:
    """When the loop ends without convergence. An epoch is as many visits as there are examples."""

    max_iter: int
    time_limit: float | None = None


@dataclass
class Outcome:
    """How the loop ended."""

    converged: bool = True
    stopped_by: str = "converged"  # or max_iter, time_limit, callback, interrupt, precision
    n_iter: int = 0
    remark: str = ""  # on what kept it from convergence, for the warning
    history: list[tuple] = field(default_factory=list)
    fields: np.dtype = field(default_factory=lambda: HISTORY)

    def history_array(self) -> np.ndarray:
        return np.array(self.history, dtype=self.fields)


Observer = Callable[[Epoch, Any], bool | None]


class _Inline(Executor):
    """Runs a job when it is submitted: one thread, same loop."""

    def submit(self, fn, /, *args, **kwargs):
        future: Future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def solve(
    machines: Iterable[AnyMachine],
    collect: Callable[[int, AnyMachine], None],
    limits: Limits,
    n_threads: int,
    observers: list[Observer],
    outcome: Outcome,
    started: float | None = None,
) -> None:
    """Train machines until all have converged or a limit is met.

    Machines are taken from the iterable when a thread is free for them, none after a limit, and handed to
    ``collect(position, machine)``, with a certificate, when they are finished; so only ``n_threads`` are alive.
    The clock may have ``started`` before. On KeyboardInterrupt those alive are collected as they were last certified,
    ``outcome`` says how far they came, and the interrupt is raised again.
    """
    started = time.perf_counter() if started is None else started
    waiting = enumerate(machines)
    alive: dict[int, AnyMachine] = {}  # by position
    jobs: dict[Future, int] = {}
    last_record: dict[int, int] = {}  # of a position, in the history
    executor: Executor = _Inline() if n_threads == 1 else ThreadPoolExecutor(n_threads)

    def submit(position: int, machine: AnyMachine) -> None:
        alive[position] = machine
        job = executor.submit(machine.advance, limits.max_iter - machine.epochs)
        jobs[job] = position

    def finish(position: int, machine: AnyMachine, why: str) -> None:
        outcome.n_iter = max(outcome.n_iter, min(ceil(machine.epochs), limits.max_iter))
        if not machine.converged:
            outcome.converged = False
            if outcome.stopped_by in ("converged", "precision"):
                outcome.stopped_by = why
        collect(position, machine)

    with executor:
        try:
            stop = ""
            for position, machine in _first(waiting, n_threads):
                submit(position, machine)
            while jobs:
                ready, _ = wait(jobs, return_when=FIRST_COMPLETED)
                for job in ready:
                    position = jobs.pop(job)
                    machine = alive[position]
                    records = job.result()
                    for record in records:
                        number, passes = machine.count(position, record)
                        epoch = Epoch(number, passes, time.perf_counter() - started, record)
                        last_record[position] = len(outcome.history)
                        outcome.history.append(epoch.as_tuple())
                        said = [observer(epoch, machine) for observer in observers] if not stop else []
                        stop = "callback" if any(said) else stop
                    if limits.time_limit is not None and time.perf_counter() - started > limits.time_limit:
                        stop = stop or "time_limit"
                    why = stop or ("max_iter" if machine.exhausted(limits.max_iter) else "")
                    if machine.done or (why and machine.ready):
                        if not machine.converged:
                            objectives = machine.conclude()
                            if (at := last_record.get(position)) is not None:
                                outcome.history[at] = (*outcome.history[at][:6], *objectives, *outcome.history[at][9:])
                        finish(position, machine, why or "precision")
                        del alive[position]
                        for following in _first(waiting, 0 if stop else 1):
                            submit(*following)
                    else:
                        submit(position, machine)
            if stop and next(waiting, None) is not None:  # some never had their turn
                outcome.converged, outcome.stopped_by = False, stop
        except KeyboardInterrupt:
            for machine in alive.values():
                machine.cancelled = True
            wait(jobs)
            outcome.converged = False
            outcome.stopped_by = "interrupt"
            for position, machine in alive.items():
                machine.salvage()
                finish(position, machine, "interrupt")
            raise


def _first(waiting: Iterator, n: int) -> Iterator:
    for _, item in zip(range(n), waiting, strict=False):
        yield item
