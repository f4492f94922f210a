"""Threads of BLAS: fewer inside, as many as before afterwards."""

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

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


def test_the_number_is_restored_after_an_error():
    with threadpool_limits(limits=2, user_api="blas"):
        try:
            with blas_threads(1):
                raise KeyError
        except KeyError:
            pass
        assert threads() == {2}
