"""Ctrl-C that waits: who gets it, and when."""

import signal

import pytest

from multimargin.linear.interrupts import deferred_interrupt, interruptible


def press():
    signal.raise_signal(signal.SIGINT)


def test_it_waits_until_the_end():
    done = []
    with pytest.raises(KeyboardInterrupt), deferred_interrupt():
        press()
        done.append("what came after it")
    assert done == ["what came after it"]


def test_where_nothing_would_be_lost_it_does_not_wait():
    done = []
    with pytest.raises(KeyboardInterrupt), deferred_interrupt(), interruptible():
        press()
        done.append("too late")
    assert done == []


def test_one_that_waits_inside_of_another_is_heard_where_it_need_not():
    """It is the inner one that was asked: whoever asks the outer one goes on as if nothing had happened."""
    done = []
    with pytest.raises(KeyboardInterrupt), deferred_interrupt(), deferred_interrupt():
        press()
        done.append("this is finished")
        with interruptible():
            done.append("this is not begun")
    assert done == ["this is finished"]


def test_the_usual_handler_is_back_afterwards():
    usual = signal.getsignal(signal.SIGINT)
    with deferred_interrupt():
        assert signal.getsignal(signal.SIGINT) is not usual
    assert signal.getsignal(signal.SIGINT) is usual
