"""Signals that end a command: nothing is left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Terminated(BaseException):
    """SIGTERM; like Ctrl-C, it is no Exception that somebody might take for a failure."""


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends what is done inside as an exception does, so that half-written files are removed; a second one ends
    the program at once."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def end(*_: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def unhurried() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until what is done inside is done. That may only take a moment: it must not wait for
    others, such as the reader of a pipe."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, Any]] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number, handler in before.items():
        if callable(handler):
            signal.signal(number, lambda *what: came.append(what))
    try:
        yield
    finally:
        for number, handler in before.items():
            if callable(handler):
                signal.signal(number, handler)
    for which, frame in came[:1]:
        handler = before[signal.Signals(which)]
        assert callable(handler)
        handler(which, frame)
