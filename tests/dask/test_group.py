"""Waiting for blocks that were lost; workers that are there, but not for each other."""

import socket
import threading
import time

import numpy as np
import pytest
from distributed import Client

from multimargin.dask import LinearSVM, group, worker
from multimargin.dask.group import Group
from multimargin.distributed.collective import Listener


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


class BehindAFirewall(Listener):
    """It tells an address at which nobody gets through."""

    def __init__(self, host):
        super().__init__(host)
        with socket.create_server((host, 0)) as other:
            self.address = (host, other.getsockname()[1])


def two_blocks(client):
    """Of four rows each, on two workers."""
    X, y = np.eye(8, 3), np.arange(8) % 2
    there = sorted(client.nthreads())
    return (
        [
            client.submit(np.copy, half, pure=False, workers=[address], allow_other_workers=False)
            for half, address in zip(np.split(values, 2), there, strict=True)
        ]
        for values in (X, y)
    )


def test_workers_that_cannot_reach_each_other_are_told_apart_from_lost_ones(monkeypatch):
    monkeypatch.setattr(worker, "_JOIN_SECONDS", 1.0)  # in the place of 30
    monkeypatch.setattr(worker, "Listener", BehindAFirewall)
    with Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
        rows, labels = two_blocks(client)
        begin = time.monotonic()
        wanted = r"rank 1 at [\d.]+ cannot reach rank 0 at [\d.]+, port \d+: .*refused.*any port that is free"
        with pytest.raises(RuntimeError, match=wanted):
            LinearSVM(tol=0.1).fit(rows, labels)
        assert time.monotonic() - begin < group._PATIENCE  # nobody waited for workers to come back

        def no_port(host):
            raise OSError("cannot assign requested address")

        monkeypatch.setattr(worker, "Listener", no_port)
        with pytest.raises(RuntimeError, match=r"cannot open a port at [\d.]+, .*cannot assign.*--host"):
            LinearSVM(tol=0.1).fit(rows, labels)
        monkeypatch.setattr(worker, "Listener", Listener)
        assert LinearSVM(tol=0.1).fit(rows, labels).n_ranks_ == 2  # nothing is left of the failures
