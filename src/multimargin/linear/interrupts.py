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
    """Ctrl-C that waits to be asked for; a second one does not."""

    def __init__(self, when_asked: Callable[[], None]):
        self.asked, self._when_asked = False, when_asked

    def note(self, *_: Any) -> None:
        """The handler."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self._when_asked()

    def raise_if_asked(self) -> None:
        """Where nothing is half done."""
        if self.asked:
            raise KeyboardInterrupt


_deferred: list[Interrupt] = []  # in the main thread, the innermost last


def interrupt() -> None:
    """For handlers of signals: KeyboardInterrupt, at a chosen point if there is one."""
    if not _deferred:
        raise KeyboardInterrupt
    _deferred[-1].note()


@contextmanager
def deferred_interrupt(wanted: bool, when_asked: Callable[[], None] = lambda: None) -> Iterator[Interrupt]:
    """Where Ctrl-C would raise KeyboardInterrupt at once, let ``raise_if_asked`` do it; ``when_asked`` is at once.

    Threads other than the main one get no signals: nothing is changed there.
    """
    later, usual = Interrupt(when_asked), signal.default_int_handler
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield later
        return
    takes_over = signal.getsignal(signal.SIGINT) is usual
    _deferred.append(later)
    if takes_over:
        signal.signal(signal.SIGINT, later.note)
    try:
        yield later
    finally:
        _deferred.pop()
        if takes_over:
            signal.signal(signal.SIGINT, usual)
