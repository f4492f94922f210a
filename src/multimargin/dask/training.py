"""From blocks on workers to a trained model: the cluster's ranks as one machine under the loop (linear/loop.py)."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from distributed import Client, Future

from multimargin.dask import worker
from multimargin.dask.group import Group, WorkersLost
from multimargin.distributed.rank import Effort, Job, Reply
from multimargin.linear.algorithm import PassRecord
from multimargin.linear.interrupts import interruptible
from multimargin.linear.loop import solve
from multimargin.linear.outcome import Limits, Observer, Outcome
from multimargin.linear.state import State
from multimargin.linear.training import Interrupted, Trained
from multimargin.problems.formulations import formulation

# Seconds after which another worker gets a copy of every rank's duals, or more, where copies would take over a tenth.
_KEEP_EVERY = 5.0
_KEEP_SHARE = 0.1


@dataclass
class ClusterRequest:
    """Everything that a fit on a cluster is about."""

    client: Client
    job: Job
    classes: np.ndarray
    blocks: list[Any]  # Delayed
    prepared: list[Future]  # the same, computed; let go of when the ranks have them
    n_rows: int
    limits: Limits
    observers: list[Observer] = field(default_factory=list)
    start_duals: None = None
    checkpoint: None = None  # copies of the duals are on other workers


@dataclass
class ClusterTrained(Trained):
    """With what it took."""

    n_ranks: int = 0
    losses: int = 0
    effort: Effort | None = None


class ClusterMachine:
    """The ranks of a group, as a machine of the loop."""

    cancelled = False
    ready = True

    def state(self) -> State:
        raise NotImplementedError("a training on a cluster has no checkpoints")

    def set_state(self, state: State) -> None:
        raise NotImplementedError("a training on a cluster has no checkpoints")

    def __init__(self, group: Group, n_rows: int):
        self.group, self.n_rows = group, n_rows
        self.epochs, self.n_passes = 0.0, 0
        self.done = self.converged = False
        self.last: Reply | None = None  # that came with weights
        self._keep_at = time.monotonic() + _KEEP_EVERY

    def advance(self, max_epochs: float) -> list[PassRecord]:
        """A round or more; none when workers were lost and had to be replaced."""
        try:
            reply: Reply = self.group.call(worker.advance, max_epochs)
        except WorkersLost:
            return []
        self.done, self.converged = reply.done, reply.converged
        if reply.weights is not None:
            self.last = reply
        elif (now := time.monotonic()) >= self._keep_at:
            self.group.keep_duals()
            took = time.monotonic() - now
            self._keep_at = now + max(_KEEP_EVERY, took / _KEEP_SHARE)
        return reply.records

    def count(self, position: int, record: PassRecord) -> tuple[int, int]:
        """As of any machine."""
        self.n_passes += 1
        self.epochs += record.active_rows / max(1, self.n_rows)
        return position, self.n_passes

    def exhausted(self, max_iter: int) -> bool:
        """Whether ``max_iter`` epochs are used up."""
        return self.epochs >= max_iter

    def conclude(self) -> tuple[float, float, float]:
        """Certify what there is."""
        while True:
            try:
                reply: Reply = self.group.call(worker.conclude)
            except WorkersLost:
                continue
            self.last, self.converged = reply, reply.converged
            assert reply.objectives is not None
            return reply.objectives

    def salvage(self) -> None:
        """After an interrupt: the round that the ranks are in comes first."""
        if self.last is None:
            self.conclude()


def train_on_cluster(request: ClusterRequest) -> ClusterTrained:
    """Train; the ranks are gone afterwards, whatever happens."""
    with closing(train_path(request, [1.0])) as path:
        return next(path)


def train_path(request: ClusterRequest, factors: list[float]) -> Generator[ClusterTrained]:
    """Train with the job's C times one factor after the other, in ascending order, each time from the duals of the last
    one (which do not grow with C: weights change far less); the ranks are gone when the iterator is closed."""
    group = Group(request.client, request.job, request.classes, request.blocks)
    try:
        with interruptible():
            group.start(request.prepared)
            request.prepared.clear()
        last = 1.0
        for factor in factors:
            if factor != last:
                with interruptible():
                    group.change(replace(request.job, class_caps=factor * request.job.class_caps))
            last = factor
            yield _solved(group, request)
    finally:
        group.close()


def _solved(group: Group, request: ClusterRequest) -> ClusterTrained:
    """What the ranks make of their job."""
    job, outcome, machine = group.job, Outcome(), ClusterMachine(group, request.n_rows)
    lanes = formulation(job.formulation, job.loss, job.n_classes).lanes

    def trained() -> ClusterTrained:
        reply = machine.last
        assert reply is not None and reply.objectives is not None and reply.weights is not None
        primal, dual, _ = reply.objectives
        whole = (reply.weights, lanes, None, primal, dual, reply.worst_gap, outcome)
        return ClusterTrained(*whole, len(group.addresses), group.losses, reply.effort)

    try:
        with interruptible():
            solve([machine], lambda position, machine: None, request.limits, 1, request.observers, outcome)
        return trained()
    except KeyboardInterrupt as interrupt:
        if machine.last is None:
            raise
        raise Interrupted(trained()) from interrupt
