"""multimargin.dask.LinearSVMCV on a real cluster of processes, against local fits on the same folds."""

import os
import signal

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from dask import delayed
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import multimargin
from multimargin.dask import LinearSVMCV, linear_svm_cv, worker
from multimargin.dask.group import Group
from multimargin.dask.worker import Block, folds_of, without_fold

CS = [0.02, 0.1, 1.0]


def digits(rows=600):
    X, y = load_digits(return_X_y=True)
    return X[:rows] / 16, y[:rows]


def local_scores(blocks, seed, n_folds, **options):
    """Of fits of one process, from zero, on the rows of the same folds."""
    scores = np.empty((n_folds, len(CS)))
    for fold in range(n_folds):
        held_out = [folds_of(block, i, n_folds, seed) == fold for i, block in enumerate(blocks)]
        learnt = [without_fold(block, i, n_folds, seed, fold) for i, block in enumerate(blocks)]
        X, y = np.concatenate([block.X for block in learnt]), np.concatenate([block.y for block in learnt])
        X_test = np.concatenate([block.X[rows] for block, rows in zip(blocks, held_out, strict=True)])
        y_test = np.concatenate([block.y[rows] for block, rows in zip(blocks, held_out, strict=True)])
        assert len(y) + len(y_test) == sum(len(block.y) for block in blocks)
        for j, C in enumerate(CS):
            scores[fold, j] = multimargin.LinearSVM(C=C, tol=1e-4, **options).fit(X, y).score(X_test, y_test)
    return scores


def test_folds_hold_out_every_row_once_and_are_stratified():
    X, y = digits()
    block = Block(X, y, None)
    folds = folds_of(block, 3, 5, seed=7)
    np.testing.assert_array_equal(folds, folds_of(block, 3, 5, seed=7))
    assert np.any(folds != folds_of(block, 4, 5, seed=7)) and np.any(folds != folds_of(block, 3, 5, seed=8))
    counts = np.array([np.bincount(folds[y == label], minlength=5) for label in range(10)])
    assert counts.sum() == len(y) and np.all(counts.max(axis=1) - counts.min(axis=1) <= 1)
    assert len(folds_of(Block(X[:0], y[:0], None), 0, 5, seed=7)) == 0


@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_rest"])
def test_scores_are_those_of_local_fits_on_the_same_folds(client, formulation):
    X, y = digits()
    rows, labels = da.from_array(X, chunks=(200, 64)), da.from_array(y, chunks=200)
    model = LinearSVMCV(Cs=CS[::-1], cv=3, formulation=formulation, tol=1e-3, random_state=0).fit(rows, labels)
    blocks = [Block(X[a : a + 200], y[a : a + 200], None) for a in (0, 200, 400)]
    expected = local_scores(blocks, model._seed(), 3, formulation=formulation)
    np.testing.assert_allclose(model.scores_, expected, atol=0.011)  # two rows of a fold
    np.testing.assert_array_equal(model.Cs_, CS)
    assert model.gaps_.max() <= 1e-3 and model.epochs_.min() >= 1
    means = model.scores_.mean(axis=0)
    assert (model.C_, model.best_score_) == (CS[means.argmax()], means.max())
    whole = multimargin.LinearSVM(formulation, C=model.C_, tol=1e-4).fit(X, y)
    assert whole.dual_objective_ <= model.primal_objective_ * (1 + 1e-9)
    assert model.primal_objective_ <= whole.primal_objective_ * 1.0011
    local = model.to_local()
    assert type(local) is multimargin.LinearSVMCV and local.C == model.C_ and not hasattr(local, "n_ranks_")
    np.testing.assert_array_equal(local.scores_, model.scores_)
    np.testing.assert_array_equal(model.predict(rows).compute(), local.predict(X))


def test_each_fit_starts_from_the_last_ones_duals(client):
    X, y = digits(400)
    rows, labels = da.from_array(X, chunks=(200, 64)), da.from_array(y, chunks=200)
    model = LinearSVMCV(Cs=[0.1, 0.100001], cv=2, tol=1e-2).fit(rows, labels)
    first, second = model.epochs_.sum(axis=0)
    assert second <= 0.75 * first  # there is little left to do, whichever worker has which rows


def test_sparse_blocks_weights_and_missing_classes(client):
    X, y = digits(400)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    weight = np.where(y == 3, 0.0, 1.0)
    cuts = [slice(0, 150), slice(150, 150), slice(150, 400)]
    model = LinearSVMCV(Cs=[0.1, 1.0], cv=2, tol=1e-2).fit(
        [delayed(sp.csr_array(X[cut])) for cut in cuts],
        [delayed(y[cut]) for cut in cuts],
        sample_weight=[delayed(weight[cut]) for cut in cuts],
    )
    assert model.best_score_ > 0.85 and not np.any(model.to_local().predict(X) == 3)
    assert list(model.classes_) == list(range(10))


def test_a_worker_that_is_lost_on_the_way_is_replaced(client, monkeypatch):
    X, y = digits(400)
    rows, labels = da.from_array(X, chunks=(100, 64)), da.from_array(y, chunks=100)
    calm = LinearSVMCV(Cs=CS, cv=2, tol=1e-3).fit(rows, labels)
    change, lost = Group.change, []

    def killing(self, job):
        if not lost:
            lost.append(client.submit(os.getpid, workers=[self.addresses[-1]], pure=False).result())
            os.kill(lost[0], signal.SIGKILL)
        change(self, job)

    monkeypatch.setattr(Group, "change", killing)
    model = LinearSVMCV(Cs=CS, cv=2, tol=1e-3).fit(rows, labels)
    assert lost and model.gaps_.max() <= 1e-3
    np.testing.assert_allclose(model.scores_, calm.scores_, atol=0.011)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cv": 1}, "cv must be"),
        ({"cv": [(0, 1)]}, "cv must be"),
        ({"scoring": "f1_macro"}, "scoring='f1_macro' is not done on a cluster"),
        ({"Cs": [-1.0]}, "each of Cs must be finite and at least 1e-300, got -1.0"),
        ({"stopping": "violation"}, "stopping='violation' is not done on a cluster"),
        ({"formulation": "one_vs_one"}, "not trained on a cluster"),
    ],
)
def test_what_clusters_do_not_do_is_refused(client, options, message):
    X, y = digits(100)
    rows, labels = da.from_array(X, chunks=(100, 64)), da.from_array(y, chunks=100)
    with pytest.raises((ValueError, TypeError), match=message):
        LinearSVMCV(**options).fit(rows, labels)


def test_more_folds_than_rows_are_refused(client):
    X, y = digits(20)
    with pytest.raises(ValueError, match="a fold holds out no row that has a weight: lower cv"):
        LinearSVMCV(Cs=[0.1], cv=50, tol=0.1).fit(da.from_array(X), da.from_array(y))


def test_groups_are_refused(client):
    X, y = digits(100)
    with pytest.raises(ValueError, match="groups are not kept together"):
        LinearSVMCV().fit(da.from_array(X), da.from_array(y), groups=y)


def test_an_interrupt_keeps_the_scores_so_far(client, monkeypatch, capsys):
    X, y = digits(200)
    rows, labels = da.from_array(X, chunks=(100, 64)), da.from_array(y, chunks=100)
    share, calls = linear_svm_cv._share, []

    def interrupted(*given):
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return share(*given)

    monkeypatch.setattr(linear_svm_cv, "_share", interrupted)
    model = LinearSVMCV(Cs=[0.1, 1.0], cv=2, tol=0.1, verbose=1)
    with pytest.raises(KeyboardInterrupt):
        model.fit(rows, labels)
    assert np.isfinite(model.scores_).tolist() == [[True, True], [False, False]]
    assert [line[:13] for line in capsys.readouterr().err.splitlines()] == ["fit    1 of 4", "fit    2 of 4"]
    with pytest.raises(NotFittedError):
        model.predict(rows)
    assert set(client.run(lambda: len(worker._ranks)).values()) == {0}  # none is left behind on a worker


def test_metadata_routing_leaves_everything_as_it_is(client):
    X, y = digits(200)
    rows, labels = da.from_array(X, chunks=(100, 64)), da.from_array(y, chunks=100)
    model, weight = LinearSVMCV(Cs=[0.1], cv=2, tol=0.1), da.ones(200, chunks=100)
    expected = model.fit(rows, labels, sample_weight=weight).scores_
    with sklearn.config_context(enable_metadata_routing=True):
        np.testing.assert_array_equal(model.fit(rows, labels, sample_weight=weight).scores_, expected)
        with pytest.raises(ValueError, match="of_scores: accuracy on a cluster needs nothing but weights"):
            model.fit(rows, labels, of_scores=weight)


def test_fits_that_fall_short_are_counted(client):
    X, y = digits(200)
    rows, labels = da.from_array(X, chunks=(100, 64)), da.from_array(y, chunks=100)
    with (
        pytest.warns(ConvergenceWarning, match="2 of the 2 fits of LinearSVMCV"),
        pytest.warns(ConvergenceWarning, match="max_iter=1 "),
    ):
        LinearSVMCV(Cs=[10.0], cv=2, tol=1e-6, max_iter=1).fit(rows, labels)
    assert set(client.run(lambda: len(worker._ranks)).values()) == {0}  # none is left behind on a worker
