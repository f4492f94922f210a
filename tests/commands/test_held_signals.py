"""Handlers of signals, in this process: who hears what, when, and what is there afterwards."""

import signal
import threading

import pytest

from multimargin.commands.signals import ENDING, Terminated, handled, terminable, unhurried


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


@pytest.fixture
def by_default():
    """Nobody minds them, whatever runs these tests."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_sigterm_is_an_exception_once(by_default):
    with pytest.raises(Terminated) as raised, terminable():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL  # a second one ends the program
    assert raised.value.code == 143
    with terminable():
        assert all(callable(signal.getsignal(number)) for number in ENDING)
    assert all(signal.getsignal(number) == signal.SIG_DFL for number in ENDING)
    for number in ENDING:
        signal.signal(number, handler := lambda number, frame: None)
        with terminable():  # somebody else's stays
            assert signal.getsignal(number) is handler
        assert signal.getsignal(number) is handler


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal")
def test_sighup_is_one_too_and_comes_twice(by_default):
    """From the shell and from the system, and from others along with SIGTERM: it does not end what is being undone."""
    undone = []
    for first in (signal.SIGHUP, signal.SIGTERM):
        with pytest.raises(Terminated) as raised, terminable():
            try:
                signal.raise_signal(first)
            finally:
                signal.raise_signal(signal.SIGHUP)
                undone.append(raised)
        assert raised.value.code == 128 + first
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    assert len(undone) == 2


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal")
def test_sighup_waits_like_the_others(by_default):
    done = []
    with pytest.raises(Terminated), terminable(), unhurried():
        signal.raise_signal(signal.SIGHUP)
        done.append("written")
    assert done == ["written"]


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal")
def test_nohup(by_default):
    """Who starts a program so wants it to go on."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with terminable(), handled(lambda number, frame: None), unhurried():
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


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
