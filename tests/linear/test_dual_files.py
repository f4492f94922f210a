"""Duals of blocks in files: which stay, which go, and what of a state is refused; and what blocks weigh together."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin.data.blocks import write_blocks
from multimargin.linear import directions
from multimargin.linear.checkpoint import CheckpointError
from multimargin.linear.directions import (
    SAMPLE,
    fill_sample,
    held_back,
    held_by_sample,
    intercept_direction,
    kept_directions,
    leading,
    share_of_sample,
    worth_sampling,
)
from multimargin.linear.dual_files import DualFiles, DualsNotKept
from multimargin.linear.stored_examples import StoredExamples, StoredProblem, _Reach
from multimargin.problems.formulations import formulation


class FakeBlock:
    def __init__(self, *values):
        self.values = np.array(values)

    def duals(self):
        return self.values, np.arange(len(self.values), dtype=np.int32), np.array([0, len(self.values)])

    def set_duals(self, value, lane, indptr):
        self.values = value


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def fine(block):
    pass


@pytest.fixture
def files(tmp_path):
    return DualFiles(tmp_path, 3)


def given(files, number, check=fine):
    block = FakeBlock()
    files.give(number, block, check)
    return block.values.tolist()


def test_duals_that_are_kept_come_back(files, tmp_path):
    assert given(files, 0) == [] and names(tmp_path) == []
    files.keep(0, FakeBlock(1.0, 2.0))
    files.keep(2, FakeBlock(3.0))
    assert names(tmp_path) == ["duals-000000-000001", "duals-000002-000002"]
    assert given(files, 0) == [1.0, 2.0] and given(files, 1) == [] and given(files, 2) == [3.0]
    files.keep(0, FakeBlock(4.0))  # nobody refers to the old ones
    assert names(tmp_path) == ["duals-000000-000003", "duals-000002-000002"] and given(files, 0) == [4.0]


def test_what_a_state_refers_to_stays_until_the_next_one_is_written(files, tmp_path):
    files.keep(0, FakeBlock(1.0))
    state = files.state()
    assert state["turn"].tolist() == [1] and state["turns"].tolist() == [1, 0, 0]
    files.keep(0, FakeBlock(2.0))  # the state may be being written
    assert names(tmp_path) == ["duals-000000-000001", "duals-000000-000002"]
    files.make_last()
    files.state_is_written()
    files.keep(0, FakeBlock(3.0))  # nobody refers to the second
    assert names(tmp_path) == ["duals-000000-000001", "duals-000000-000003"]
    other = DualFiles(tmp_path, 3)
    other.set_state(state)  # what was written after it goes
    assert names(tmp_path) == ["duals-000000-000001"] and given(other, 0) == [1.0]
    other.keep(0, FakeBlock(5.0))
    assert names(tmp_path) == ["duals-000000-000001", "duals-000000-000002"]
    other.state()
    other.make_last()
    other.state_is_written()
    assert names(tmp_path) == ["duals-000000-000002"]
    (tmp_path / "precious").touch()
    other.state_is_removed()
    assert names(tmp_path) == ["precious"]
    (tmp_path / "precious").unlink()
    other.state_is_removed()
    assert not tmp_path.exists()


def test_what_outlasts_a_power_cut_is_synced_once(files, monkeypatch):
    synced, folders = [], []
    monkeypatch.setattr("multimargin.linear.dual_files.os.fsync", synced.append)
    monkeypatch.setattr("multimargin.linear.dual_files.sync_folder", folders.append)
    files.make_last()
    assert not synced and not folders
    files.keep(0, FakeBlock(1.0))
    files.keep(1, FakeBlock(1.0))
    for wanted, in_all in ((2, 1), (2, 1)):
        files.state()
        files.make_last()
        assert len(synced) == wanted and len(folders) == in_all
    files.keep(1, FakeBlock(2.0))
    files.state()
    files.make_last()
    assert len(synced) == 3 and len(folders) == 2


def test_what_another_process_wrote_is_looked_at_once(files, tmp_path):
    files.keep(1, FakeBlock(1.0, 2.0))
    state, seen = files.state(), []
    other = DualFiles(tmp_path, 3)
    other.set_state(state)
    assert given(other, 1, seen.append) == [1.0, 2.0] and len(seen) == 1
    assert given(other, 1, seen.append) == [1.0, 2.0] and len(seen) == 1
    other = DualFiles(tmp_path, 3)
    other.set_state(state)
    other.keep(1, FakeBlock(7.0))
    given(other, 1, seen.append)
    assert len(seen) == 1  # these are its own

    def impossible(block):
        raise ValueError("no such duals")

    other = DualFiles(tmp_path, 3)
    other.set_state(files.state())
    with pytest.raises(CheckpointError, match=r"does not hold together \(no such duals\); delete the checkpoint"):
        given(other, 1, impossible)
    with pytest.raises(CheckpointError, match="these are not the duals that the checkpoint refers to"):
        other.set_state(state | {"checksums": state["checksums"] + 1})
        given(other, 1)
    (tmp_path / "duals-000001-000001").unlink()
    with pytest.raises(CheckpointError, match="duals-000001-000001: these duals are missing"):
        given(files, 1)
    with pytest.raises(CheckpointError, match="duals-000001-000001: these duals are missing"):
        DualFiles(tmp_path, 3).set_state(state)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"turns": np.array([1, 0])}, "duals must be of 3 blocks"),
        ({"turns": np.array([1.0, 0.0, 0.0])}, "duals must be of 3 blocks"),
        ({"checksums": np.zeros(4, np.int64)}, "duals must be of 3 blocks"),
        ({"checksums": np.zeros(3, np.int32)}, "duals must be of 3 blocks"),
        ({"turns": np.array([2, 0, 0])}, "a turn that has not been"),
        ({"turns": np.array([1, -1, 0])}, "a turn that has not been"),
        ({"turn": np.array([2**62])}, "a turn that has not been"),
        ({"turn": np.array([1.0])}, "a turn that has not been"),
        ({"turn": np.array([True])}, "a turn that has not been"),
        ({"turn": np.array([2**62 - 1])}, ""),
    ],
)
def test_turns_that_have_not_been(files, tmp_path, changes, words):
    files.keep(0, FakeBlock(1.0))
    state = files.state() | changes
    if words:
        with pytest.raises(ValueError, match=words):
            DualFiles(tmp_path, 3).set_state(state)
        assert names(tmp_path) == ["duals-000000-000001"]
    else:
        DualFiles(tmp_path, 3).set_state(state)


def test_a_full_disk_keeps_the_duals_that_there_are(files, tmp_path, monkeypatch):
    files.keep(0, FakeBlock(1.0))

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(DualsNotKept, match="make room") as caught:
        patch.setattr("multimargin.linear.dual_files.write_container", full)
        files.keep(0, FakeBlock(2.0))
    assert caught.value.error.errno == 28 and given(files, 0) == [1.0]
    files.keep(0, FakeBlock(3.0))
    assert names(tmp_path) == ["duals-000000-000002"]
    files.begin()
    assert names(tmp_path) == []


# What blocks weigh together


def test_reach_of_all_blocks():
    def rows(cap, norm, X=None):
        return SimpleNamespace(cap=np.array(cap), norm=np.array(norm), X=np.zeros((1, 1)) if X is None else X)

    reach = _Reach()
    reach.add(rows([1.0, 2.0], [4.0, 1.0]))
    reach.add(rows([5.0], [0.5]))
    reach.add(rows([], []))
    assert (reach.total, reach.highest, reach.largest, reach.has_features) == (8.0, 5.0, 4.0, True)
    reach.check()
    none = _Reach()
    none.add(rows([1.0], [0.0]))
    assert not none.has_features
    none.check()  # nothing is too small where nothing is
    none.add(rows([1.0], [0.0], np.array([[1e-200]])))
    with pytest.raises(ValueError, match="too small a number"):
        none.check()
    none.add(rows([1.0], [1.0]))
    none.check()
    of_the_intercept = _Reach()
    of_the_intercept.add(rows([1e200], [0.25]))
    assert of_the_intercept.has_features
    with pytest.raises(ValueError, match="scale the features down, or lower C"):
        of_the_intercept.check()


@pytest.mark.parametrize("accelerated", [False, True])
def test_examples_of_a_store_are_those_of_all_blocks(tmp_path, accelerated):
    rng = np.random.default_rng(0)
    X, y, weight = rng.normal(size=(40, 3)), np.arange(40) % 3, rng.integers(0, 3, 40).astype(float)
    X[5] = X[6] = 0.0
    weight[5], weight[6] = 2.0, 0.0
    store = write_blocks(tmp_path / "s", [(X, y, weight)], block_mb=8 * 28 / 2**20)
    problem = formulation("one_vs_rest", "hinge", 3)
    made = StoredExamples(
        StoredProblem(store, 0.0, np.array([1.0, 2.0, 4.0])),
        problem,
        DualFiles(tmp_path, len(store)),
        read_ahead=False,
        accelerated=accelerated,
    )
    cap, norm = np.array([1.0, 2.0, 4.0])[y] * weight, (X**2).sum(axis=1)
    learns = (cap > 0) & (norm > 0)
    assert made.n == learns.sum() and made.n_weights == 3
    assert made.constant == 3 * cap[5]
    assert made.norm_range == pytest.approx((norm[learns].min(), norm[learns].max()))
    assert made.cost_of_pass(None) == 3 * 3 * learns.sum()
    assert made.directions is None and made.state() == {}
    assert made.mean_curvature == pytest.approx((cap * norm)[learns].mean())
    with pytest.raises(ValueError, match="directions of a sample where none is taken"):
        made.set_state({"U": np.zeros(3)})


def test_sparse_rows_cost_their_nonzeros(tmp_path):
    X = sp.csr_array(np.eye(20, 30))
    store = write_blocks(tmp_path / "s", [(X, np.arange(20) % 3)])
    problem = formulation("crammer_singer", "hinge", 3)
    made = StoredExamples(
        StoredProblem(store, 1.0, np.ones(3)), problem, DualFiles(tmp_path, 1), read_ahead=False, accelerated=False
    )
    assert made.cost_of_pass(None) == 20 * 3 * 1 and made.n_weights == 31


# Directions


def test_a_sample_is_shared_out():
    shares = [share_of_sample(number, 3) for number in range(3)]
    assert [(s.start, s.stop) for s in shares] == [(0, 85), (85, 170), (170, 256)]
    assert [share_of_sample(n, 1000) for n in (0, 3)] == [slice(0, 0), slice(0, 1)]


@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_rows_of_a_sample_are_spread_evenly(store):
    X = np.arange(1.0, 31.0).reshape(10, 3)
    sample = np.zeros((4, 4))
    assert fill_sample(sample, store(X), 7.0) == 4
    np.testing.assert_array_equal(sample[:, :3], X[[0, 2, 5, 7]])
    assert (sample[:, 3] == 7.0).all()
    sample = np.zeros((4, 3))
    assert fill_sample(sample, store(X[:2]), 0.0) == 2
    np.testing.assert_array_equal(sample, np.vstack([X[:2], np.zeros((2, 3))]))


@pytest.mark.parametrize("shape", [(300, 5), (5, 300)])
def test_leading_directions_are_singular_vectors(shape):
    rng = np.random.default_rng(0)
    A = 0.01 * rng.normal(size=shape) + np.outer(rng.normal(size=shape[0]), rng.normal(size=shape[1]))
    U, squares = leading(A)
    _, singular, V = np.linalg.svd(A)
    assert U.shape == (shape[1], 1) and squares == pytest.approx(singular[:1] ** 2)
    assert abs(float(U[:, 0] @ V[0])) == pytest.approx(1.0)


def test_what_is_worth_a_sample():
    assert worth_sampling(100, 6400) and not worth_sampling(100, 6399)
    most = directions._MOST_BYTES // (8 * SAMPLE)
    assert worth_sampling(most, 10**12) and not worth_sampling(most + 1, 10**12)


def test_directions_that_are_kept_are_orthonormal():
    U = np.eye(4)[:, :2]
    np.testing.assert_array_equal(kept_directions(U.ravel(), 4), U)
    assert kept_directions(np.empty(0), 4).shape == (4, 0)
    kept_directions(U.ravel() * (1 + 4e-7), 4)
    for wrong in (U.ravel() * (1 + 6e-7), np.ones(8), U.ravel() * np.nan):
        with pytest.raises(ValueError, match="not orthonormal"):
            kept_directions(wrong, 4)
    with pytest.raises(ValueError, match="reshape"):
        kept_directions(np.ones(7), 4)


def test_the_direction_of_the_intercept():
    assert intercept_direction(3, 0.0) is None
    assert intercept_direction(3, 2.0).U.tolist() == [0.0, 0.0, 1.0]


def test_how_stiff_a_sample_makes_a_direction():
    """Of a share of the squares of 0.5 all but 0.02 is taken, as far as the loss's curvature lets it."""
    intercept = intercept_direction(3, 1.0)
    squares = np.array([1.0])
    for caps, parts, ratio in ((1e6, 1, 25.0), (500.0, 1, 11.0), (500.0, 2, 6.0)):
        held, left = held_by_sample(intercept, squares, caps, 2 * caps, 2.0, parts)
        assert held is not None and left == pytest.approx(2 * caps - caps * (1 - 1 / ratio))
    held, left = held_by_sample(intercept, squares, 500.0, 100.0, 2.0, 1)
    assert held is not None and left == pytest.approx(0.1)  # it showed more than there is
    for caps, mean in ((1.0, 2.0), (500.0, 1e101), (500.0, 1e-101), (500.0, 1e100), (500.0, 1e-100), (1e9, 40.0)):
        assert held_by_sample(intercept, squares, caps, 7.0, mean, 1) == (None, 7.0)
    assert held_by_sample(None, squares, 500.0, 7.0, 2.0, 1) == (None, 7.0)


def test_directions_of_no_examples():
    intercept = intercept_direction(3, 1.0)
    nothing = np.empty(0)
    assert held_back(intercept, np.empty(0, np.int64), nothing, nothing, 1) is None
    assert held_back(None, np.arange(2), np.ones(2), np.ones(2), 1) is None
