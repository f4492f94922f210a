"""Threads that call the core."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, Lock
from typing import Any

from multimargin import _core


class NoThreadsError(RuntimeError):
    """A thread that could not be started. Python does not say why: for memory, or as a system, a user or a container
    has as many as it may have."""

    def __init__(self, said: object = "can't start new thread"):
        super().__init__(
            f"{said}: the system allows no more (ulimit -u, pids.max of a container), or has no memory for one; "
            "n_jobs=1 needs none"
        )


class ThreadPool(ThreadPoolExecutor):
    """Threads in which memory that cannot be had is a MemoryError.

    The first exception of C++ code in a thread needs some memory of its own, and the program ends where there is none:
    it is asked for when the thread begins.
    """

    def __init__(self, n_threads: int, name: str = "multimargin"):
        super().__init__(n_threads, name, initializer=_core.make_room_for_exceptions)

    def submit(self, work: Callable, /, *args: Any, **kwargs: Any) -> Future:
        """As the pool's own; a thread that cannot be started is a NoThreadsError. The work may be done all the same,
        if there are other threads."""
        try:
            return super().submit(work, *args, **kwargs)
        except RuntimeError as error:
            if "start new thread" not in str(error):
                raise
            raise NoThreadsError(error) from error


def in_some_threads(work: Callable[[Any], Any], items: Sequence, n_threads: int) -> list:
    """What the work gives for every item, by as many threads as can be started; by this one, if none can.

    The error of the first item that has one is raised; those that wait by then are not begun.
    """
    n_threads = min(n_threads, len(items))
    if n_threads <= 1:
        return [work(item) for item in items]
    shared = _Shared(work, items)
    with ThreadPool(n_threads) as pool:
        jobs = []
        try:
            try:
                for _ in range(n_threads):
                    jobs.append(pool.submit(shared.take_part))
            except NoThreadsError:
                if not jobs:
                    shared.take_part()
            for job in jobs:
                job.result()
        except BaseException:  # Ctrl-C
            shared.left = iter(())
            raise
    if shared.errors:
        raise shared.errors[min(shared.errors)]
    return shared.results


class _Shared:
    """Items that threads take one after the other."""

    def __init__(self, work: Callable[[Any], Any], items: Sequence):
        self._work, self._lock = work, Lock()
        self.left: Iterator[tuple[int, Any]] = iter(enumerate(items))
        self.results: list[Any] = [None] * len(items)
        self.errors: dict[int, Exception] = {}  # by item; those before the first have all been taken

    def take_part(self) -> None:
        """Work until nothing is left."""
        while True:
            with self._lock:
                position, item = next(self.left, (-1, None))
            if position < 0:
                return
            try:
                self.results[position] = self._work(item)
            except Exception as error:
                self.errors[position] = error
                self.left = iter(())


def threads_start(n: int) -> bool:
    """Whether so many can be started now."""
    enough = Event()
    with ThreadPool(n) as pool:
        try:
            for _ in range(n):
                pool.submit(enough.wait)
        except NoThreadsError:
            return False
        finally:
            enough.set()
    return True
