"""Signals that end a command: nothing is left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# SIGTERM; and SIGHUP, for the terminal that was closed or the connection that broke. Windows has no such signal.
_HANGUP = getattr(signal, "SIGHUP", None)
ENDING: tuple[int, ...] = (signal.SIGTERM,) if _HANGUP is None else (signal.SIGTERM, _HANGUP)


class Terminated(BaseException):
    """SIGTERM or SIGHUP; like Ctrl-C, it is no Exception that somebody might take for a failure."""

    def __init__(self, number: int = signal.SIGTERM):
        super().__init__(number)
        self.code = exit_code(number)


def exit_code(number: int) -> int:
    """As shells number a program that a signal ended."""
    return 128 + number


def adds_nothing(number: int) -> bool:
    """Whether this signal, after the first one, is none to hurry for: a SIGHUP often comes twice, from the shell and
    from the system, and along with a SIGTERM."""
    return number == _HANGUP


@contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM and SIGHUP end what is done inside as an exception does, so that half-written files are removed; a
    second SIGTERM ends the program at once. A signal that is ignored, as nohup has it, or somebody else's, stays so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in ENDING if signal.getsignal(number) == signal.SIG_DFL]

    def end(came: int, _: Any) -> None:
        for number in ours:
            signal.signal(number, signal.SIG_IGN if adds_nothing(number) else signal.SIG_DFL)
        raise Terminated(came)

    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def handled(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Another handler for SIGTERM and SIGHUP, unless they are ignored."""
    before = {number: signal.getsignal(number) for number in ENDING}
    ours = {number: was for number, was in before.items() if was not in (signal.SIG_IGN, None)}
    for number in ours:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, was in ours.items():
            signal.signal(number, was)


@contextmanager
def unhurried() -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP wait until what is done inside is done. That may only take a moment: it must not wait
    for others, such as the reader of a pipe."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, Any]] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDING)}
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
        handler = before[which]
        assert callable(handler)
        handler(which, frame)
