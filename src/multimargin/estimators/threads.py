"""Independent pieces of work, such as folds, in threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, wait
from threading import Event
from typing import Any

from multimargin.data.thread_pool import ThreadPool
from multimargin.linear.interrupts import deferred_interrupt


def in_threads(work: Callable, items: list, threads: int, stop: Event) -> list:
    """``work`` of every item, in order. An error or Ctrl-C sets ``stop``, waits for those that run, and is raised."""
    if threads == 1 or len(items) == 1:
        return [work(item) for item in items]

    def unless_stopped(item: Any) -> Any:
        return None if stop.is_set() else work(item)

    with deferred_interrupt(True, stop.set) as later:
        with ThreadPool(min(threads, len(items)), "multimargin-fit") as pool:
            try:
                futures = [pool.submit(unless_stopped, item) for item in items]
                finished, _ = wait(futures, return_when=FIRST_EXCEPTION)
            finally:
                stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
        later.raise_if_asked()
    for future in finished:
        if error := future.exception():
            raise error
    return [future.result() for future in futures]
