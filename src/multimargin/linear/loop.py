"""The only outer loop, for linear and kernel machines: it gives every unfinished machine its next 50 ms, and in
between keeps the history, asks the observers, and minds the limits. Machines are independent: what their threads
share (a store of kernel rows) guards itself.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from itertools import chain, count
from math import ceil
from typing import Any, Protocol, TypeVar

import numpy as np

from multimargin.data.thread_pool import ThreadPool
from multimargin.linear.checkpoint import Checkpoint
from multimargin.linear.interrupts import Cancelled, deferred_interrupt
from multimargin.linear.outcome import Epoch, Limits, Observer, Outcome
from multimargin.linear.state import State, Stateful, number, part, parts, prefixed

_TEXT = np.dtype("S24")  # of the history's text in a checkpoint


class Trainable(Stateful, Protocol):
    """What the loop asks of a machine; its state only between slices, and for checkpoints."""

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
    checkpoint: Checkpoint | None = None,
) -> None:
    """Train machines until all have converged or a limit is met.

    Machines are taken from the iterable when a thread is free for them, none after a limit, and handed to
    ``collect(position, machine)``, with a certificate, when they are finished; so only ``n_threads`` are alive.
    The clock may have ``started`` before; that of a checkpoint has. On KeyboardInterrupt those alive are collected as
    they were last certified, ``outcome`` says how far they came, and the interrupt is raised again.

    With a ``checkpoint`` the state is written now and then, when no thread works, and whenever the loop ends with
    something left to do; it begins with what the checkpoint has. Then ``machines`` are those of :func:`positions_left`.
    """
    _Loop(machines, collect, limits, n_threads, observers, outcome, started, checkpoint).run()


def positions_left(n: int, checkpoint: Checkpoint | None) -> list[int]:
    """Which of n machines are not finished: those that were alive first."""
    state = None if checkpoint is None else checkpoint.of_loop()
    if checkpoint is None or state is None:
        return list(range(n))
    with checkpoint.restoring():
        alive, finished = (state[name].tolist() for name in ("alive", "finished"))
        if not all(type(position) is int and 0 <= position < n for position in (*alive, *finished)):
            raise ValueError("there are no such machines")
        if len({*alive, *finished}) != len(alive) + len(finished):
            raise ValueError("a machine is there twice")
        if len(finished) == n:
            raise ValueError("no machine is left to train")
    return [*alive, *(position for position in range(n) if position not in {*alive, *finished})]


class _Loop:
    """A call of :func:`solve`."""

    def __init__(
        self,
        machines: Iterable[Any],
        collect: Callable[[int, Any], None],
        limits: Limits,
        n_threads: int,
        observers: list[Observer],
        outcome: Outcome,
        started: float | None,
        checkpoint: Checkpoint | None,
    ):
        self.collect, self.limits, self.n_threads = collect, limits, n_threads
        self.observers, self.outcome, self.checkpoint = observers, outcome, checkpoint
        self.started = time.perf_counter() if started is None else started
        self.waiting: Iterator[tuple[int, Any]] = enumerate(machines)
        self.alive: dict[int, Any] = {}  # by position
        self.idle: list[int] = []  # of those alive: between two slices
        self.jobs: dict[Future, int] = {}
        self.untold: deque[tuple[int, Any]] = deque()  # records of slices that have ended
        self.last_record: dict[int, int] = {}  # of a position, in the history
        self.stop = ""
        self.finished: list[int] = []
        self.short = False  # whether one of them has not converged
        self.unfinished: dict[int, State] = {}  # states of those that had to conclude,
        self.unconcluded: dict[int, tuple] = {}  # and records before the conclusion
        self.resumed: dict[int, State] = {}  # states that nobody has gone on from yet
        self.sound = True  # whether all states are those between two slices
        self.process = os.getpid()
        if checkpoint is not None and (state := checkpoint.of_loop()) is not None:
            with checkpoint.restoring():
                self._set_state(state, machines)
            checkpoint.state = None  # is used up

    def run(self) -> None:
        self.executor: Executor = _Inline() if self.n_threads == 1 else ThreadPool(self.n_threads)
        # A state to go on from is one between two slices; and other threads are not left behind with their locks.
        deferred = self.checkpoint is not None or self.n_threads > 1
        with self.executor, deferred_interrupt(deferred, self._hurry) as later:
            try:
                self._go_on()
                while self.alive:
                    if self.jobs:
                        ready, _ = wait(self.jobs, return_when=FIRST_COMPLETED)
                        if self.checkpoint is None:
                            later.raise_if_asked()
                        for job in ready:
                            self._receive(job)
                        self._tell()
                    later.raise_if_asked()
                    if self.checkpoint is not None and self.checkpoint.due():
                        if self.jobs:
                            continue  # until the slices of all threads have ended
                        self.checkpoint.save(self._state())
                    self._go_on()
                left = bool(self.stop) and next(self.waiting, None) is not None  # some never had their turn
                if left:
                    self.outcome.converged, self.outcome.stopped_by = False, self.stop
                if self.checkpoint is not None and (left or self.unfinished):
                    self.checkpoint.save(self._state())
                later.raise_if_asked()
            except KeyboardInterrupt:
                self._interrupted()
                raise

    def _submit(self, position: int, machine: Any) -> None:
        self.alive[position] = machine
        job = self.executor.submit(machine.advance, self.limits.max_iter - machine.epochs)
        self.jobs[job] = position

    def _receive(self, job: Future) -> None:
        """The records of a slice."""
        self.sound = False
        position = self.jobs.pop(job)
        self.untold.extend((position, record) for record in job.result())
        self.idle.append(position)
        self.sound = True

    def _count(self) -> Epoch:
        """The next record, in the history."""
        position, record = self.untold.popleft()
        number, passes = self.alive[position].count(position, record)
        epoch = Epoch(number, passes, time.perf_counter() - self.started, record)
        self.last_record[position] = len(self.outcome.history)
        self.outcome.history.append(epoch.as_tuple())
        return epoch

    def _tell(self) -> None:
        while self.untold:
            machine = self.alive[self.untold[0][0]]
            epoch = self._count()
            said = [observer(epoch, machine) for observer in self.observers] if not self.stop else []
            self.stop = "callback" if any(said) else self.stop
        if self.n_threads > 1 and os.getpid() != self.process:  # by an observer
            raise RuntimeError(
                "the process was forked during a fit with threads, which the child does not have: end the child by "
                "os._exit, fork before or after the fit, or use n_jobs=1"
            )
        self._mind_the_clock()

    def _mind_the_clock(self) -> None:
        if self.limits.time_limit is not None and time.perf_counter() - self.started > self.limits.time_limit:
            self.stop = self.stop or "time_limit"

    def _go_on(self) -> None:
        """The next slices: of machines between two of them, and of new ones for those that are done."""
        self.sound = False
        # Machines of a checkpoint have something to show: they are begun, if only to be concluded.
        while self.idle or (len(self.alive) < self.n_threads and (not self.stop or self.resumed)):
            if not self.idle:
                if (following := next(self.waiting, None)) is None:
                    break
                self._begin(*following)
                continue
            position = self.idle.pop(0)
            machine = self.alive[position]
            why = self.stop or ("max_iter" if machine.exhausted(self.limits.max_iter) else "")
            if machine.done or (why and machine.ready):
                if not machine.converged:
                    self._conclude(position, machine)
                self._finish(position, machine, why or "precision")
            else:
                self._submit(position, machine)
        self.sound = True

    def _begin(self, position: int, machine: Any) -> None:
        """A new machine has its first slice; one of the checkpoint is between two of them."""
        if (state := self.resumed.pop(position, None)) is None:
            self._submit(position, machine)
            return
        assert self.checkpoint is not None
        with self.checkpoint.restoring():
            machine.set_state(state)
        self.alive[position] = machine
        self.idle.append(position)

    def _conclude(self, position: int, machine: Any) -> None:
        """Certify one that has not converged; its state before that is kept, to go on from."""
        history, at = self.outcome.history, self.last_record.get(position)
        if self.checkpoint is not None and not machine.done:
            self.unfinished[position] = machine.state()
            if at is not None:
                self.unconcluded[at] = history[at]
        try:
            objectives = machine.conclude()
        except Cancelled:  # by an interrupt that came meanwhile, which else waits until this is done
            raise KeyboardInterrupt from None
        if at is not None:
            history[at] = (*history[at][:6], *objectives, *history[at][9:])

    def _finish(self, position: int, machine: Any, why: str) -> None:
        outcome = self.outcome
        with deferred_interrupt():  # all of it, and once: a machine may give its weights away
            outcome.n_iter = max(outcome.n_iter, min(ceil(machine.epochs), self.limits.max_iter))
            if position not in self.unfinished:
                self.finished.append(position)
                self.short = self.short or not machine.converged
            if not machine.converged:
                outcome.converged = False
                if outcome.stopped_by in ("converged", "precision"):
                    outcome.stopped_by = why
            self.collect(position, machine)
            del self.alive[position]

    def _hurry(self) -> None:
        """An interrupt: slices end soon. With a checkpoint they end as usual: one goes on from between them."""
        if self.checkpoint is None:
            for machine in list(self.alive.values()):
                machine.cancelled = True

    def _interrupted(self) -> None:
        """Take the machines as they are."""
        self._hurry()
        wait(self.jobs)
        sound = self.sound and all(job.exception() is None for job in self.jobs)
        left = bool(self.alive or self.unfinished)  # else the last state on disk, if there is one, leads here again
        if self.checkpoint is not None and sound and left:
            for job in list(self.jobs):
                self._receive(job)
            told = len(self.outcome.history)
            while self.untold:
                self._count()
            self.checkpoint.save(self._state())
            del self.outcome.history[told:]
        self.outcome.converged = False
        self.outcome.stopped_by = "interrupt"
        for position, machine in list(self.alive.items()):
            machine.salvage()
            self._finish(position, machine, "interrupt")

    # Checkpoints

    def _state(self) -> State:
        """Between the slices of all machines."""
        history = self.outcome.history.copy()
        for at, record in self.unconcluded.items():
            history[at] = record
        states = self.resumed | self.unfinished
        states |= {position: machine.state() for position, machine in self.alive.items()}
        whole: State = {
            "seconds": np.array([time.perf_counter() - self.started]),
            "n_iter": np.array([self.outcome.n_iter]),
            "short": np.array([self.short]),
            "finished": np.array(self.finished, dtype=np.int64),
            "alive": np.array(list(states), dtype=np.int64),
            "last_record": np.array([self.last_record.get(position, -1) for position in states], dtype=np.int64),
        }
        columns = np.array(history, dtype=self.outcome.fields)
        for name in columns.dtype.names or ():
            column = np.ascontiguousarray(columns[name])
            whole[f"history.{name}"] = column if column.dtype.kind != "U" else column.astype(_TEXT).view(np.uint8)
        for position, state in states.items():
            whole |= prefixed(f"machines.{position}", state)
        return whole

    def _set_state(self, state: State, machines: Iterable[Any]) -> None:
        outcome = self.outcome
        columns = part(state, "history")
        history = np.empty(len(columns["machine"]), dtype=outcome.fields)
        for name in history.dtype.names or ():
            column = columns[name]
            history[name] = column.view(_TEXT) if history.dtype[name].kind == "U" else column
        outcome.history = history.tolist()
        outcome.n_iter = number(state, "n_iter")
        self.finished = state["finished"].tolist()
        self.short = bool(number(state, "short"))
        if self.short:
            outcome.converged, outcome.stopped_by = False, "precision"
        self._mind_the_clock()
        alive = state["alive"].tolist()
        machine_states = parts(part(state, "machines"))
        for position, at in zip(alive, state["last_record"].tolist(), strict=True):
            self.resumed[position] = machine_states[str(position)]
            if type(at) is not int or not -1 <= at < len(outcome.history):
                raise ValueError("a machine has no last record")
            if at >= 0:
                self.last_record[position] = at
        taken = {*alive, *self.finished}
        positions = chain(alive, (position for position in count() if position not in taken))
        self.waiting = zip(positions, machines, strict=False)
