"""Threads that share out some work, and systems that do not let a program have any."""

import threading

import numpy as np
import pytest

from multimargin import LinearSVM, read_svmlight, write_svmlight
from multimargin.data.thread_pool import NoThreadsError, in_some_threads, threads_start


@pytest.fixture(params=[0, 1])
def few_threads(request, monkeypatch):
    """No more than so many can be started at a time; how many were."""
    started = []
    start = threading.Thread.start

    def counted(thread):
        started[:] = [one for one in started if one.is_alive()]
        if len(started) >= request.param:
            raise RuntimeError("can't start new thread")
        start(thread)
        started.append(thread)

    monkeypatch.setattr(threading.Thread, "start", counted)
    return request.param


def test_work_is_shared_out():
    assert in_some_threads(lambda item: item**2, range(50), 4) == [item**2 for item in range(50)]
    assert in_some_threads(str, [], 4) == [] and in_some_threads(str, [1], 4) == ["1"]


def test_fewer_threads_do_it_too(few_threads):
    done = []
    assert in_some_threads(lambda item: (done.append(item), -item)[1], range(50), 4) == [-item for item in range(50)]
    assert sorted(done) == list(range(50))  # once each
    assert threads_start(few_threads) if few_threads else not threads_start(1)
    assert not threads_start(2)


@pytest.mark.parametrize("n_threads", [1, 4])
def test_the_first_error_is_raised(n_threads):
    met = []

    def work(item):
        met.append(item)
        if item in (3, 5):
            raise ValueError(item)

    with pytest.raises(ValueError, match="3"):
        in_some_threads(work, range(10_000), n_threads)
    assert len(met) < 10_000


def test_files_are_read_without_threads(few_threads, tmp_path, monkeypatch):
    monkeypatch.setattr("multimargin.data.svmlight.PART_BYTES", 64)
    X, y = np.random.default_rng(0).standard_normal((200, 5)), np.arange(200) % 3
    write_svmlight(tmp_path / "d.svm", X, y)
    read, labels = read_svmlight(tmp_path / "d.svm", n_jobs=4)
    np.testing.assert_array_equal(read.toarray(), X)
    np.testing.assert_array_equal(labels, y)


def test_training_says_that_threads_are_missing(few_threads, monkeypatch):
    X, y = np.random.default_rng(0).standard_normal((2000, 50)), np.arange(2000) % 5
    model = LinearSVM("one_vs_rest", n_jobs=4, max_iter=3, tol=1)
    with pytest.raises(NoThreadsError, match=r"can't start new thread: .*; n_jobs=1 needs none"):
        model.fit(X, y)
    model.set_params(n_jobs=1).fit(X, y)
    model.n_jobs = 4
    assert len(model.predict(X)) == 2000

    def without_memory(request):
        raise MemoryError

    monkeypatch.setattr("multimargin.estimators.linear_machine.train", without_memory)  # as the core says it
    with pytest.raises(NoThreadsError, match="n_jobs=1 needs none"):
        model.fit(X, y)
    with pytest.raises(MemoryError, match="use fewer rows"):
        model.set_params(n_jobs=1).fit(X, y)


def test_threads_that_are_there_are_not_what_is_missing(monkeypatch):
    def without_memory(request):
        raise MemoryError

    monkeypatch.setattr("multimargin.estimators.linear_machine.train", without_memory)
    with pytest.raises(MemoryError, match="use fewer rows"):
        LinearSVM(n_jobs=2).fit(np.eye(4), np.arange(4) % 2)
