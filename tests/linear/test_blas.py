"""Threads of BLAS: fewer inside, as many as before afterwards."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from multimargin import LinearSVM
from multimargin.linear.blas import blas_threads


def threads():
    assert np.ones((2, 2)).sum() == 4  # whose BLAS there is
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_the_number_is_restored_by_the_last_one():
    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        with blas_threads(1):
            assert threads() == {1}
            with blas_threads(2):  # of fits that overlap, the first one says how many
                assert threads() == {1}
            assert threads() == {1}
        assert threads() == before == {2}


def test_every_thread_can_set_the_number():
    def inside():
        with blas_threads(1):
            return threads()

    with threadpool_limits(limits=2, user_api="blas"):
        assert inside() == {1}
        with ThreadPoolExecutor(1) as pool:  # whatever thread was the first
            assert pool.submit(inside).result() == {1}
            assert pool.submit(threads).result() == {2}
        with blas_threads(1), ThreadPoolExecutor(1) as pool:
            assert pool.submit(inside).result() == {1}
            assert threads() == {1}
        assert threads() == {2}


def test_there_are_never_more_than_the_user_allows():
    with threadpool_limits(limits=1, user_api="blas"), blas_threads(2):
        assert threads() == {1}


def test_machines_side_by_side_share_the_threads(monkeypatch):
    asked = []
    monkeypatch.setattr("multimargin.linear.blas.blas_threads", lambda limit: asked.append(limit) or nullcontext())
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 4
    for formulation in ("one_vs_rest", "crammer_singer"):
        LinearSVM(formulation, solver="newton", n_jobs=4).fit(X, y)
    assert asked == [1, 4]  # four machines of a lane each, and one


def test_the_number_is_restored_after_an_error():
    with threadpool_limits(limits=2, user_api="blas"):
        try:
            with blas_threads(1):
                raise KeyError
        except KeyError:
            pass
        assert threads() == {2}
