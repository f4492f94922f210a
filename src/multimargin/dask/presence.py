"""Which workers a cluster has, and waiting that notices when it has none: a hang is worse than an error."""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import CancelledError
from math import inf
from typing import Any

from distributed import Client, Future, wait

PATIENCE = 45.0  # seconds without any worker
POLL = 0.5


class Presence:
    """The workers of a client's cluster, as they come and go."""

    def __init__(self, client: Client):
        self.client = client
        self._some_were = False
        self._none_since: float | None = None

    def workers(self) -> set[str]:
        """Addresses of those that are there.

        Raises
        ------
        RuntimeError
            If nobody has been there for 45 seconds, as often as somebody asked.
        """
        there = set(self.client.nthreads())
        if there:
            self._some_were, self._none_since = True, None
            return there
        now = time.monotonic()
        self._none_since = self._none_since or now
        if now - self._none_since > PATIENCE:
            raise RuntimeError(
                f"all workers are lost, and none came back within {PATIENCE:g} s: there is nothing left to train on"
                if self._some_were
                else f"the cluster has no workers, and none came within {PATIENCE:g} s: start some, then fit"
            )
        return there

    def wait(
        self, futures: list[Future], *, needs: Iterable[str] = (), seconds: float = inf, past_failures: bool = False
    ) -> bool:
        """Until all futures have a result, or (unless it is to go on past them) one has failed; False if the seconds
        were over before, or a worker that they need was lost."""
        needs, begin = set(needs), time.monotonic()
        while True:
            states = [future.status for future in futures]
            if "pending" not in states or (set(states) - {"pending", "finished"} and not past_failures):
                return True
            try:
                pending = [future for future in futures if future.status == "pending"]
                wait(pending, timeout=POLL, return_when="FIRST_COMPLETED")
            except CancelledError:
                continue
            except TimeoutError:
                if not needs <= self.workers():
                    return False
            if time.monotonic() - begin > seconds:
                return False

    def result(self, future: Future, *, holder: str | None = None, seconds: float = inf) -> Any:
        """A future's; TimeoutError when its holder is lost, or the seconds are over."""
        begin, patience = time.monotonic(), POLL
        while True:
            try:
                return future.result(timeout=patience)
            except TimeoutError:
                there, patience = self.workers(), 2 * patience  # a large result is not to be begun again for ever
                if time.monotonic() - begin > seconds or (holder is not None and holder not in there):
                    raise
