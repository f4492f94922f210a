"""Waiting for blocks that were lost."""

import threading
import time

import pytest
from distributed import Client

from multimargin.dask import group
from multimargin.dask.group import Group


@pytest.fixture(scope="module")
def here():
    with Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0") as client:
        yield client


RELEASED = threading.Event()  # workers are threads of this process


def hold():
    RELEASED.wait(60)


def slow(seconds):
    time.sleep(seconds)
    return seconds


def test_blocks_that_never_come_are_given_up_whatever_others_compute(here, monkeypatch):
    monkeypatch.setattr(group, "_PATIENCE", 1.0)  # seconds, in the place of 45
    nobody = {"workers": ["tcp://127.0.0.1:9"], "allow_other_workers": False}
    others = here.submit(hold, pure=False)
    lost = here.submit(abs, here.submit(slow, 0, pure=False, **nobody), pure=False)
    try:
        with pytest.raises(RuntimeError, match="cannot be computed again"):
            Group(here, None, None, [])._wait_for_blocks([lost])
        assert others.status == "pending"
    finally:
        RELEASED.set()


def test_workers_that_come_late_are_waited_for(monkeypatch):
    """Also when all were lost twice, and no rank is left to say how many there should be."""
    with Client(n_workers=0, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
        ranks, asked = Group(client, None, None, []), []

        def nthreads():
            asked.append(time.monotonic())
            return {"tcp://127.0.0.1:9": 1} if len(asked) > 3 else {}

        monkeypatch.setattr(client, "nthreads", nthreads)
        ranks._recover()
        assert len(asked) > 3 and ranks.losses == 1


def test_slow_blocks_are_waited_for(here, monkeypatch):
    monkeypatch.setattr(group, "_PATIENCE", 1.0)
    block = here.submit(abs, here.submit(slow, 3, pure=False), pure=False)
    assert Group(here, None, None, [])._wait_for_blocks([block])
    assert block.result() == 3
