"""Which workers a cluster has, and waiting that notices when it has none: a hang is worse than an error."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent.futures import CancelledError
from math import inf
from typing import Any

from distributed import Client, Future, wait

PATIENCE = 45.0  # seconds without any worker
POLL = 0.5
UNENDED = ("pending", "lost")  # lost: it was there, and is computed again
FAILED = ("error", "cancelled")


class Presence:
    """The workers of a client's cluster, as they come and go."""

    def __init__(self, client: Client, *, some_were: bool = False):
        self.client = client
        self._some_were = some_were or bool(client.nthreads())
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
            pending = [future for future in futures if future.status in UNENDED]
            if not pending or (any(future.status in FAILED for future in futures) and not past_failures):
                return True
            try:
                wait(pending, timeout=POLL, return_when="FIRST_COMPLETED")
            except CancelledError:
                continue
            except TimeoutError:
                if not needs <= self.workers():
                    return False
            if time.monotonic() - begin > seconds:
                return False

    def results(self, futures: list[Future], *, needs: Iterable[str] = (), seconds: float = inf) -> list[Any]:
        """Of all futures; TimeoutError when a worker that they need is lost, or the seconds are over."""
        # In a thread, for the client's own timeouts will not do: one that strikes cancels what the client fetches for
        # others at that moment, and every later call finds it cancelled.
        came: list[Any] = []
        failed: list[BaseException] = []

        def fetch() -> None:
            try:
                came.extend(self.client.gather(futures))
            except BaseException as error:
                failed.append(error)

        needs, begin = set(needs), time.monotonic()
        thread = threading.Thread(target=fetch, daemon=True, name="multimargin-gather")
        thread.start()
        while True:
            thread.join(POLL)
            if not thread.is_alive():
                break
            if not needs <= self.workers() or time.monotonic() - begin > seconds:
                self.client.cancel(futures, force=True)  # ends the thread
                raise TimeoutError("a worker with a result is lost")
        if failed:
            raise failed[0]
        return came
