"""Ctrl-C at a point that was chosen, not in the middle of anything.

Python raises KeyboardInterrupt between any two instructions of the main thread: also where a lock has just been taken
and nobody is there yet to give it back. Whoever waits for threads, or keeps a state to go on from, has it raised where
nothing is half done.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Interrupt:
    """Ctrl-C that waits to be asked for, unless it need not; a second one does not."""

    def __init__(self, when_asked: Callable[[], None] = lambda: None, waits: bool = True):
        self.asked, self._when_asked, self._waits = False, when_asked, waits

    def note(self) -> None:
        """It came."""
        if self.asked or not self._waits:
            raise KeyboardInterrupt
        self.asked = True
        self._when_asked()

    def raise_if_asked(self) -> None:
        """Where nothing is half done."""
        if self.asked:
            raise KeyboardInterrupt


class Cancelled(Exception):
    """Work that was given up, as an interrupt came."""


_chosen: list[Interrupt] = []  # in the main thread, the innermost last


def interrupt(*_: Any) -> None:
    """A handler of signals: KeyboardInterrupt, at a chosen point if there is one."""
    if not _chosen:
        raise KeyboardInterrupt
    _chosen[-1].note()


@contextmanager
def deferred_interrupt(wanted: bool = True, when_asked: Callable[[], None] = lambda: None) -> Iterator[Interrupt]:
    """Where Ctrl-C would raise KeyboardInterrupt at once, let ``raise_if_asked`` do it, or the end.

    ``when_asked`` is at once.

    Threads other than the main one get no signals: nothing is changed there.
    """
    later, usual = Interrupt(when_asked), signal.default_int_handler
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield later
        return
    takes_over = signal.getsignal(signal.SIGINT) is usual
    with _innermost(later):
        try:
            if takes_over:
                signal.signal(signal.SIGINT, interrupt)
            yield later
        finally:
            if takes_over:
                signal.signal(signal.SIGINT, usual)
    if later.asked:
        interrupt()


@contextmanager
def interruptible() -> Iterator[None]:
    """Within :func:`deferred_interrupt`: where Ctrl-C need not wait, as nothing would be lost."""
    if not _chosen or threading.current_thread() is not threading.main_thread():
        yield
        return
    outer = _chosen[-1]
    with _innermost(Interrupt(waits=False)):
        outer.raise_if_asked()
        yield


@contextmanager
def _innermost(one: Interrupt) -> Iterator[None]:
    depth = len(_chosen)
    try:
        _chosen.append(one)
        yield
    finally:
        if one in _chosen:
            del _chosen[depth:]  # also what an interrupt kept from leaving
