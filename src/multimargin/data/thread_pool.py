"""Threads that call the core."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from multimargin import _core


class ThreadPool(ThreadPoolExecutor):
    """Threads in which memory that cannot be had is a MemoryError.

    The first exception of C++ code in a thread needs some memory of its own, and the program ends where there is none:
    it is asked for when the thread begins.
    """

    def __init__(self, n_threads: int, name: str = "multimargin"):
        super().__init__(n_threads, name, initializer=_core.make_room_for_exceptions)

    def submit(self, work: Callable, /, *args: Any, **kwargs: Any) -> Future:
        """As the pool's own; a thread for which there is no memory is a MemoryError."""
        try:
            return super().submit(work, *args, **kwargs)
        except RuntimeError as error:
            if "start new thread" not in str(error):
                raise
            raise MemoryError(f"{error}: lower n_jobs, or give the program more memory") from error
