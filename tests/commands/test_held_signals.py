"""Handlers of signals, in this process: who hears what, when, and what is there afterwards."""

import signal
import threading

import pytest

from multimargin.commands.signals import Terminated, terminable, unhurried


@pytest.fixture
def ctrl_c():
    """As a terminal has it: test runners in the background may ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_signals_wait_for_what_takes_a_moment(ctrl_c):
    done = []
    with pytest.raises(KeyboardInterrupt), unhurried():
        signal.raise_signal(signal.SIGINT)
        done.append("written")
    assert done == ["written"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with unhurried():
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_only_the_first_signal_that_came_is_heard(ctrl_c):
    heard = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    try:
        with unhurried():
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
            assert heard == []
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_sigterm_is_an_exception_once():
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with pytest.raises(Terminated), terminable():
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL  # a second one ends the program
        with terminable():
            assert callable(signal.getsignal(signal.SIGTERM))
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
        signal.signal(signal.SIGTERM, handler := lambda number, frame: None)
        with terminable():  # somebody else's stays
            assert signal.getsignal(signal.SIGTERM) is handler
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)


def test_other_threads_leave_signals_alone():
    found = []

    def look():
        for guard in (terminable, unhurried):
            with guard():
                found.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [before, before]
