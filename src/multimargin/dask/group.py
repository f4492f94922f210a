"""The ranks of a training on the workers of a cluster, as the client sees them: where they are, calls to all of them,
and what happens when a worker is lost.

A call is one task a rank, pinned to its worker. When a worker dies its neighbours in the tree notice at once and hang
up, so their tasks end; the client sees that, or that the worker is gone from the scheduler's list. Then blocks without
a rank are computed again, on a worker that took the place of the lost one or on those that are left; blocks that are
still there keep their duals, lost ones start from the duals that another worker holds a copy of, or else from zero.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any
from uuid import uuid4

import numpy as np
from dask.delayed import Delayed
from distributed import Client, Future
from distributed.scheduler import KilledWorker

from multimargin.dask import worker
from multimargin.dask.presence import FAILED, POLL, UNENDED, Presence
from multimargin.distributed.collective import PeerLost
from multimargin.distributed.rank import Job

_PATIENCE = 45.0  # seconds for a block to come back, or for ranks to notice that another one is gone
_REPLACEMENT = 10.0  # seconds that a worker may take to be started anew
_MOST_LOSSES = 20  # in a row, without a call that succeeded
_SOME_LOSSES = 3  # after which blocks that do not come back are taken for lost
_NO_WAY_BACK = (
    "a worker was lost, and its rows cannot be computed again, as they were sent to it and are in no graph; train from "
    "files or from a collection that Dask can compute"
)
_LOST = (PeerLost, worker.RankGone, KilledWorker, CancelledError, OSError)


class WorkersLost(Exception):
    """A call did not reach all ranks, or some of them did not answer."""


class Group:
    """Ranks of one training."""

    def __init__(self, client: Client, job: Job, classes: np.ndarray, blocks: list[Delayed]):
        self.client, self.job, self.classes, self.blocks = client, job, classes, blocks
        self.presence = Presence(client, some_were=True)  # who prepared the blocks
        self.training = uuid4().hex
        self.addresses: list[str] = []  # of the ranks' workers
        self.losses = 0
        self._in_a_row = 0
        self._why_lost = ""  # the last time, as far as a rank could tell
        self._join_failed = False  # the last time
        self._copies: dict[str, Future] = {}  # of the duals of a worker's blocks, by its address
        self._numbers: dict[str, list[int]] = {}  # of its blocks

    def start(self, futures: list[Future]) -> None:
        """Ranks where the prepared blocks are."""
        try:
            self._place(dict(enumerate(futures)), {})
        except WorkersLost:
            self._recover()
        self.again(self._join)

    def change(self, job: Job) -> None:
        """The same with a larger C, from the duals that there are, or, of workers that are lost, that were kept."""
        self.job = job

        def step() -> None:
            tasks = [
                self._submit(worker.change, address, self.job, self._numbers[address]) for address in self.addresses
            ]
            self._answers(tasks, list(self.addresses))
            self._join()

        self.again(step)

    def call(self, function: Callable, *args: Any) -> Any:
        """``function(training, rank, *args)`` on all ranks, which work together; rank 0's answer. When workers are lost
        they are replaced, and :class:`WorkersLost` says so: the call is not made again."""
        try:
            answers = self._ask(function, [(rank, *args) for rank in range(len(self.addresses))])
        except WorkersLost:
            self.again(self._join, lost=True)
            raise
        self._in_a_row = 0
        return answers[0]

    def again(self, step: Callable[[], None], *, lost: bool = False) -> None:
        """Until the step succeeds, replacing what is lost."""
        while True:
            if lost:
                self._recover()
            try:
                step()
                return
            except WorkersLost:
                lost = True

    def keep_duals(self) -> None:
        """Copies of all duals, each on another worker than its own."""
        try:
            futures = [self._submit(worker.duals, address) for address in self.addresses]
            self._answers(futures, self.addresses, with_results=False)
            others = [*self.addresses[1:], self.addresses[0]]
            copies = [self._submit(worker.keep, other, future) for other, future in zip(others, futures, strict=True)]
            self._answers(copies, others, with_results=False)
        except WorkersLost:
            return  # the next call will see to it
        self._copies = dict(zip(self.addresses, copies, strict=True))

    def close(self) -> None:
        """Take the ranks away."""
        self._copies = {}
        with suppress(RuntimeError, OSError):  # workers that are gone have nothing to take away
            present = self.presence.workers()
            futures = [self._submit(worker.forget, address) for address in present]
            self.presence.wait(futures, needs=present, seconds=5, past_failures=True)

    # Calls

    def _submit(self, function: Callable, address: str, *args: Any) -> Future:
        return self.client.submit(
            function, self.training, *args, workers=[address], allow_other_workers=False, pure=False, retries=0
        )

    def _ask(self, function: Callable, args: list[tuple], addresses: list[str] | None = None) -> list[Any]:
        addresses = self.addresses if addresses is None else addresses
        futures = [self._submit(function, address, *own) for address, own in zip(addresses, args, strict=True)]
        return self._answers(futures, list(addresses))

    def _answers(self, futures: list[Future], addresses: list[str], *, with_results: bool = True) -> list[Any]:
        """Results of all, or what went wrong: the caller's mistake before the loss of workers."""
        there = self.presence.wait(futures, needs=addresses)
        if there and all(future.status == "finished" for future in futures):
            if not with_results:
                return []
            try:
                return self.presence.results(futures, needs=addresses)
            except (*_LOST, TimeoutError) as error:
                raise WorkersLost from error
        # Ranks that are left hang up, or are on their way to a sum that will fail.
        present = self.presence.workers()
        left = {future: address for future, address in zip(futures, addresses, strict=True) if address in present}
        self.presence.wait(list(left), needs=left.values(), seconds=_PATIENCE, past_failures=True)
        for future in futures:
            failure = future.exception() if future.status == "error" else None
            if failure is not None and not isinstance(failure, _LOST):
                raise failure
            if failure is not None:
                self._why_lost = str(failure)
        self.client.cancel(futures, force=True)
        raise WorkersLost

    # Who holds what

    def _join(self) -> None:
        """A new tree over the ranks that there are."""
        addresses = self._ask(worker.listen, [()] * len(self.addresses))
        if self._join_failed:
            self._check_reach(addresses)
        secret, self._join_failed = secrets.token_bytes(32), True
        self._ask(worker.join, [(rank, addresses, secret) for rank in range(len(addresses))])
        self._join_failed = False

    def _check_reach(self, addresses: list[tuple[str, int]]) -> None:
        """Fail if workers that are all there, as they answered a moment ago, cannot call each other: a firewall is not
        mended by trying again."""
        answers = self._ask(worker.unreachable, [(rank, addresses) for rank in range(len(addresses))])
        failed = [answer for answer in answers if answer is not None]
        if failed and set(self.addresses) <= self.presence.workers():
            more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
            raise RuntimeError(
                f"workers cannot reach each other: {failed[0]}{more}. They add up their weights over connections of "
                "their own: let each one connect to the others' addresses at any port that is free there"
            )

    def _place(self, futures: dict[int, Future], duals: dict[int, Any]) -> None:
        """Blocks become part of the ranks of the workers that hold them."""
        who = self.client.who_has(list(futures.values()))
        at: dict[str, list[int]] = {}
        for number, future in sorted(futures.items()):
            if not (holders := who.get(future.key)):
                raise WorkersLost
            chosen = next((address for address in self.addresses if address in holders), sorted(holders)[0])
            at.setdefault(chosen, []).append(number)
        tasks = [
            self._submit(
                worker.take,
                address,
                self.job,
                self.classes,
                self._numbers.get(address, []),
                numbers,
                [futures[number] for number in numbers],
                [duals.get(number) for number in numbers],
            )
            for address, numbers in at.items()
        ]
        for address, numbers in at.items():  # what they hold from now on, if they live to answer
            self._numbers[address] = sorted([*self._numbers.get(address, []), *numbers])
        self._answers(tasks, list(at))
        self.addresses = sorted(self._numbers, key=lambda address: self._numbers[address][0])

    def _recover(self) -> None:
        """Give the blocks of lost workers to others."""
        self.losses += 1
        self._in_a_row += 1
        if self._in_a_row > _MOST_LOSSES:
            said = f"; the last word of one: {self._why_lost}" if self._why_lost else ""
            raise RuntimeError(
                f"workers were lost {_MOST_LOSSES} times in a row without a round between: give them more memory, or "
                f"have more workers; their logs say why they ended{said}"
            )
        before = len(self.addresses)
        kept = self._survivors()
        self._await_workers(max(before, 1))
        lost = [number for number in range(len(self.blocks)) if not any(number in own for own in kept.values())]
        duals = self._copied_duals(lost)
        self._numbers = kept
        self.addresses = list(kept)
        if not lost:
            self.addresses.sort(key=lambda address: self._numbers[address][0])
            return
        idle = sorted(self.presence.workers() - set(kept)) or None
        futures = self.client.compute(
            [self.blocks[number] for number in lost], workers=idle, allow_other_workers=True, retries=2
        )
        ended = self._wait_for_blocks(futures)
        try:
            if ended:
                self._place(dict(zip(lost, futures, strict=True)), duals)
        except WorkersLost:
            ended = False
        if not ended:
            self._recover()

    def _survivors(self) -> dict[str, list[int]]:
        """Blocks of the ranks that are still there, by address. A rank that was given up although it was but slow has
        blocks that another one holds by now: it does not count."""
        present = self.presence.workers()
        futures = {
            address: self._submit(worker.holds, address) for address in sorted(self._numbers) if address in present
        }
        kept = {}
        for address, future in futures.items():
            with suppress(*_LOST, TimeoutError):
                (numbers,) = self.presence.results([future], needs=[address], seconds=_REPLACEMENT)
                if numbers and set(numbers) <= set(self._numbers[address]):
                    kept[address] = numbers
        return kept

    def _await_workers(self, wanted: int) -> None:
        """Wait a little for as many as there were, and longer for one."""
        begin = time.monotonic()
        while True:
            present = len(self.presence.workers())
            if present >= wanted or (present and time.monotonic() - begin > _REPLACEMENT):
                return
            time.sleep(POLL)

    def _wait_for_blocks(self, futures: list[Future]) -> bool:
        """Whether blocks that were lost are computed again; False if workers were lost meanwhile."""
        begin, last = time.monotonic(), len(futures)
        while pending := [future for future in futures if future.status in UNENDED]:
            if len(pending) < last:
                begin, last = time.monotonic(), len(pending)
            self.presence.wait(pending, seconds=POLL)
            if not self.presence.workers():
                return False
            keys = [future.key for future in pending]
            if time.monotonic() - begin > _PATIENCE and not self.client.run_on_scheduler(_are_coming, keys):
                raise RuntimeError(_NO_WAY_BACK)
        for future in futures:
            if future.status == "error" and isinstance(future.exception(), KilledWorker):
                return False
            if future.status == "cancelled" and self._in_a_row <= _SOME_LOSSES:  # with the worker that held it
                return False
            if future.status in FAILED:
                raise RuntimeError(_NO_WAY_BACK) from (future.exception() if future.status == "error" else None)
        return True

    def _copied_duals(self, lost: list[int]) -> dict[int, Any]:
        """Of lost blocks, if another worker has a copy."""
        found: dict[int, Any] = {}
        for address, future in self._copies.items():
            if not set(self._numbers.get(address, [])) & set(lost) or not self.client.who_has([future]).get(future.key):
                continue
            try:
                (duals,) = self.presence.results([future], seconds=_REPLACEMENT)
                found |= {number: dual for number, dual in duals.items() if number in lost}
            except (*_LOST, TimeoutError):
                continue
        return found


def _are_coming(keys: list[Any], dask_scheduler: Any) -> bool:
    """Whether a worker has one of these tasks, or of those that they depend on, or will have it: others may use the
    cluster, too, so that some worker is busy says nothing. Runs on the scheduler."""
    tasks = dask_scheduler.tasks
    ahead = [tasks[key] for key in keys if key in tasks]
    if any(task.state in ("memory", "erred") for task in ahead):
        return True  # it ended just now
    seen = set(ahead)
    while ahead:
        task = ahead.pop()
        if task.state in ("processing", "queued"):
            return True
        new = task.dependencies - seen
        seen |= new
        ahead.extend(new)
    return False
