"""multimargin.dask on a real cluster of processes, against the local machine."""

import os
import signal
import subprocess
import sys
from itertools import pairwise

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from dask import dataframe, delayed
from distributed import Client, LocalCluster
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

import multimargin
from multimargin.dask import LinearSVM, presence, training, worker
from multimargin.dask.group import Group

TOL = 0.05


def digits(rows=600):
    X, y = load_digits(return_X_y=True)
    return X[:rows] / 16, y[:rows]


def spread(client, blocks):
    """Futures of blocks, on one worker after the other; they can be computed again elsewhere."""
    workers = sorted(client.nthreads())
    return [
        client.submit(
            np.copy if isinstance(block, np.ndarray) else sp.csr_array,
            block,
            pure=False,
            workers=[workers[i % len(workers)]],
            allow_other_workers=True,
        )
        for i, block in enumerate(blocks)
    ]


def pid_with_rank():
    """Of a worker; None if it has no rank."""
    return os.getpid() if worker._ranks else None


def bounds(model, local, tol=TOL):
    """The certificates of two models of one problem agree."""
    assert model.converged_ and model.dual_gap_ <= tol
    assert model.dual_objective_ <= local.primal_objective_ * (1 + 1e-9)
    assert local.dual_objective_ * (1 - 1e-9) <= model.primal_objective_ <= local.primal_objective_ / (1 - tol)


@pytest.mark.parametrize(
    ("formulation", "loss"),
    [("crammer_singer", "hinge"), ("weston_watkins", "squared_hinge"), ("one_vs_rest", "squared_hinge")],
)
def test_arrays_train_to_the_local_optimum(client, formulation, loss):
    X, y = digits()
    rows = da.from_array(X, chunks=((50, 350, 200), (30, 34)))  # uneven, and split by columns
    labels = da.from_array(y, chunks=((50, 350, 200),))
    model = LinearSVM(formulation, loss, C=0.1, tol=TOL).fit(rows, labels)
    local = multimargin.LinearSVM(formulation, loss, C=0.1, tol=1e-4).fit(X, y)
    bounds(model, local)
    assert model.n_ranks_ in (1, 2) and model.workers_lost_ == 0  # small blocks may all be on one worker
    assert len(model.history_) >= 2 and model.history_["gap"][-1] == pytest.approx(model.dual_gap_)
    same = model.to_local()
    assert type(same) is multimargin.LinearSVM and not hasattr(same, "n_ranks_")
    np.testing.assert_array_equal(model.predict(rows).compute(), same.predict(X))
    np.testing.assert_array_equal(model.decision_function(rows).compute(), same.decision_function(X))
    assert model.score(rows, labels) == pytest.approx(same.score(X, y))
    weight = np.where(y == 3, 5.0, 0.25)
    weights = da.from_array(weight, chunks=labels.chunks)
    assert model.score(rows, labels, sample_weight=weights) == pytest.approx(same.score(X, y, sample_weight=weight))


def test_sparse_blocks_missing_classes_and_an_empty_block(client):
    X, y = digits()
    order = np.argsort(y, kind="stable")  # every block has but some of the classes
    X, y = X[order], y[order]
    cuts = [0, 250, 250, 600]
    pieces = [(sp.csr_array(X[a:b]), y[a:b]) for a, b in pairwise(cuts)]
    rows, labels = spread(client, [piece for piece, _ in pieces]), [delayed(piece) for _, piece in pieces]
    weights = [delayed(np.full(len(piece), 0.1)) for _, piece in pieces]
    model = LinearSVM(tol=TOL).fit(rows, labels, sample_weight=weights)
    assert model.n_ranks_ == 2 and model.bytes_sent_ > 0
    assert model.seconds_of_passes_ > 0 and model.seconds_of_sums_ > 0 and model.local_epochs_ in (1, 2)
    assert not {"bytes_sent_", "local_epochs_", "seconds_of_sums_"} & vars(model.to_local()).keys()
    bounds(model, multimargin.LinearSVM(C=0.1, tol=1e-4).fit(X, y))
    np.testing.assert_array_equal(model.predict(rows).compute(), model.to_local().predict(X))


def test_data_frames_names_and_two_classes(client):
    X, y = digits(300)
    labels = np.where(y > 4, "large", "small")
    frame = pd.DataFrame(X[:, :20], columns=[f"pixel{i}" for i in range(20)]).assign(size=labels)
    table = dataframe.from_pandas(frame, npartitions=3)
    model = LinearSVM(C=0.1, tol=TOL, class_weight="balanced").fit(table.drop(columns="size"), table["size"])
    local = multimargin.LinearSVM(C=0.1, tol=1e-4, class_weight="balanced").fit(X[:, :20], labels)
    bounds(model, local)
    assert list(model.classes_) == ["large", "small"] and model.feature_names_in_[3] == "pixel3"
    score = model.score(table.drop(columns="size"), table["size"])
    assert score == pytest.approx(model.to_local().score(frame.drop(columns="size"), labels)) and score > 0.6


def test_callbacks_and_limits(client):
    X, y = digits(200)
    rows, labels = da.from_array(X, chunks=(100, 64)), da.from_array(y, chunks=100)
    seen = []
    with pytest.warns(ConvergenceWarning, match="because a callback said so"):
        model = LinearSVM(tol=1e-9, callbacks=[lambda record: seen.append(record["epoch"]) or len(seen) >= 3]).fit(
            rows, labels
        )
    assert seen[:3] == [1, 2, 3] and 0 < model.dual_gap_ < 1 and not model.converged_
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        LinearSVM(tol=1e-9, max_iter=2).fit(rows, labels)


def test_refusals(client):
    X, y = digits(100)
    rows, labels = da.from_array(X, chunks=(50, 64)), da.from_array(y, chunks=50)
    for parameters, text in [
        ({"formulation": "one_vs_one"}, "one_vs_one.*is not trained on a cluster"),
        ({"formulation": "dag"}, "dag.*crammer_singer"),
        ({"solver": "newton"}, "newton.*is not done on a cluster"),
        ({"stopping": "violation"}, "stopping='gap' is"),
        ({"probability": True}, "probability=True is not done on a cluster"),
        ({"checkpoint": "file"}, "copies of each other's duals"),
    ]:
        with pytest.raises(ValueError, match=text):
            LinearSVM(**parameters).fit(rows, labels)
    with pytest.raises(TypeError, match=r"multimargin\.LinearSVM"):
        LinearSVM().fit(X, y)
    with pytest.raises(ValueError, match="X has 2 blocks of rows and y has 1"):
        LinearSVM().fit(rows, da.from_array(y, chunks=100))
    with pytest.raises(ValueError, match=r"block 1: X holds nan, which is not finite, in row 3, column 5"):
        bad = X.copy()
        bad[53, 5] = np.nan
        LinearSVM().fit(da.from_array(bad, chunks=(50, 64)), labels)
    with pytest.raises(ValueError, match="only one class"):
        LinearSVM().fit(rows, da.zeros(100, chunks=50, dtype=int))


@pytest.mark.parametrize("keep_every", [0.0, 1e9])
def test_a_killed_worker_is_replaced(client, monkeypatch, keep_every):
    """Its rows go on from a copy of their duals, if there is one."""
    monkeypatch.setattr(training, "_KEEP_EVERY", keep_every)
    copied, copied_duals = [], Group._copied_duals

    def noting(ranks, lost):
        copied.append(copied_duals(ranks, lost))
        return copied[-1]

    monkeypatch.setattr(Group, "_copied_duals", noting)
    X, y = digits()
    rows, labels = spread(client, np.split(X, 4)), spread(client, np.split(y, 4))

    def kill_once(record):
        if not killed:
            killed.extend(pid for pid in client.run(pid_with_rank).values() if pid is not None)
            os.kill(killed[-1], signal.SIGKILL)

    killed = []
    model = LinearSVM(C=0.1, tol=2e-3, callbacks=[kill_once]).fit(rows, labels)  # many rounds
    assert len(killed) == 2 and model.workers_lost_ >= 1
    bounds(model, multimargin.LinearSVM(C=0.1, tol=1e-4).fit(X, y), tol=2e-3)
    restored = [duals for each in copied for duals in each.values()]
    assert all(duals.shape == (150, 10) and duals.nnz for duals in restored)
    assert len(restored) == (2 if keep_every == 0 else 0)


def test_no_worker_left_is_an_error_and_no_hang(monkeypatch):
    monkeypatch.setattr(presence, "PATIENCE", 3.0)  # seconds, in the place of 45
    X, y = digits(200)
    with (
        LocalCluster(n_workers=0, processes=True, dashboard_address=":0", silence_logs=50) as cluster,
        Client(cluster) as client,
    ):
        # A worker without a nanny: nobody starts it again.
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address]
        process = subprocess.Popen(
            [*command, "--no-nanny", "--no-dashboard", "--nthreads", "1"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            client.wait_for_workers(1, timeout=60)

            def kill(record):
                if process.poll() is None:
                    os.kill(process.pid, signal.SIGKILL)
                    process.wait()

            rows, labels = da.from_array(X, chunks=(100, 64)), da.from_array(y, chunks=100)
            with pytest.raises(RuntimeError, match="nothing left to train on"):
                LinearSVM(tol=1e-9, callbacks=[kill]).fit(rows, labels)
        finally:
            process.kill()
            process.wait()
