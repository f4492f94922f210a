"""A cluster of two worker processes, for all tests here."""

import gc
import warnings

import dask
import pytest
from distributed import Client, LocalCluster


@pytest.fixture(autouse=True)
def nothing_left_open():
    """Sockets that a cluster forgot are warned of when they are collected: here, not in the test that comes next."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


@pytest.fixture(scope="session")
def cluster():
    # Blocks stay where a test puts them: without stealing, a task runs where the rows are that it is about.
    with (
        dask.config.set({"distributed.scheduler.work-stealing": False}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as local,
    ):
        yield local


@pytest.fixture
def client(cluster):
    with Client(cluster) as this:
        this.wait_for_workers(2, timeout=60)
        yield this
