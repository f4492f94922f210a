"""A process to train in, and what can be measured there: seconds and peak memory."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import resource
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from datasets import Data
from threadpoolctl import threadpool_limits


class Worker:
    """A process that holds a data set and trains on it, and that can be killed.

    ``Worker(make, *arguments)`` makes its data with ``make(*arguments)``; ``call(function, ...)`` runs
    ``function(data, ...)`` there. The process starts at the first call, and again after it was killed. The caller
    should hold no data itself: a child's peak memory begins at its parent's.
    """

    def __init__(self, make: Callable[..., Data], *arguments, threads: int = 1):
        self.source = (make, *arguments)
        self._threads = threads
        self._process: Any = None

    def call(self, function: Callable, *arguments, limit: float | None = None, **named) -> Any:
        """The function's result; TimeoutError after ``limit`` seconds, and the process is gone."""
        if self._process is None:
            self._start()
        self._pipe.send((function, arguments, named))
        if not self._pipe.poll(limit):
            self.stop()
            raise TimeoutError(f"{function.__name__} took more than {limit} s")
        return self._answer()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        # Not a daemon: joblib, which counts the threads of a fit, allows a daemon only one.
        self._process = context.Process(target=_serve, args=(theirs, self._threads, *self.source))
        self._process.start()
        theirs.close()
        self._answer()  # the data is there

    def _answer(self) -> Any:
        try:
            result, error = self._pipe.recv()
        except EOFError:
            self.stop()
            raise RuntimeError("the training process died; out of memory?") from None
        if error:
            self.stop()
            raise RuntimeError(f"in the training process:\n{error}")
        return result

    def stop(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exception) -> None:
        self.stop()


def _serve(pipe, threads: int, make: Callable[..., Data], *arguments) -> None:
    with threadpool_limits(threads):
        try:
            data = make(*arguments)
            pipe.send((None, None))
            while True:
                function, values, named = pipe.recv()
                pipe.send((function(data, *values, **named), None))
        except (EOFError, KeyboardInterrupt):
            return
        except Exception:
            pipe.send((None, traceback.format_exc()))


def best_of(repeats: int, action: Callable[[], Any]) -> float:
    """Seconds of the fastest of several calls."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def peak_above(action: Callable[[], Any]) -> float:
    """Megabytes in use at the peak of an action, above what was in use before it; for a fresh process."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # give back what loading the data left behind, or the action gets it for free
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # Linux: forget the peak of loading the data
    before = _peak_mb()
    action()
    return _peak_mb() - before


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
