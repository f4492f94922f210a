"""Independent pieces of work, such as folds, in threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from threading import Event


def in_threads(work: Callable, items: list, threads: int, stop: Event) -> list:
    """``work`` of every item, in order. An error or Ctrl-C sets ``stop``, waits for those that run, and is raised."""
    if threads == 1 or len(items) == 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            finished, _ = wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            stop.set()
            for future in futures:
                future.cancel()
    for future in finished:
        if error := future.exception():
            raise error
    return [future.result() for future in futures]
