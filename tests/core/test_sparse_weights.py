"""Sparse weights: the tables against a dictionary, scores and the best lanes against NumPy, states that cannot be."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from multimargin import _core
from multimargin.data.csr import Csr
from multimargin.data.rows import as_rows
from multimargin.linear.sparse_scoring import sparse_scores, sparse_top

ROWS, LANES = 3, 70
additions = st.lists(
    st.tuples(st.integers(0, ROWS - 1), st.integers(0, LANES - 1), st.sampled_from([-1.0, 0.25, 1.0, 2.0])),
    max_size=400,
)


@pytest.mark.parametrize("single_precision", [False, True])
@settings(max_examples=60, deadline=None)
@given(additions)
def test_tables_are_a_dictionary(single_precision, steps):
    tables = _core.LaneTables(ROWS, LANES, single_precision)
    dense = np.zeros((ROWS, LANES))
    for row, lane, change in steps:
        tables.add(row, lane, change)
        dense[row, lane] += change
    assert [[tables.get(row, lane) for lane in range(LANES)] for row in range(ROWS)] == dense.tolist()
    touched = {(row, lane) for row, lane, _ in steps}
    assert np.count_nonzero(dense) <= tables.n_entries <= len(touched)  # zeros go when a table grows

    copy = _core.LaneTables(ROWS, LANES, single_precision)
    copy.set_state(tables.state())
    for name, values in tables.state().items():
        np.testing.assert_array_equal(copy.state()[name], values)
    assert copy.n_entries == tables.n_entries


def test_lanes_that_are_not_there_are_refused():
    tables = _core.LaneTables(2, 5, False)
    for row, lane in [(2, 0), (-1, 0), (0, 5), (0, -1)]:
        with pytest.raises(IndexError, match="no such row or lane"):
            tables.add(row, lane, 1.0)
        with pytest.raises(IndexError, match="no such row or lane"):
            tables.get(row, lane)
    with pytest.raises(ValueError, match="at least one lane"):
        _core.LaneTables(2, 0, False)


def filled():
    tables = _core.LaneTables(2, 9, False)
    for lane in range(6):
        tables.add(0, lane, 1.0 + lane)
    return tables


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("slots"),
        lambda state: state.update(slots=np.array([-8, 0])),
        lambda state: state.update(slots=np.array([2**40, 0])),
        lambda state: state.update(slots=state["slots"] - [1, 0]),  # not a power of two
        lambda state: state.update(slots=np.array([0, 0])),  # slots left over
        lambda state: state["slot_lanes"].__setitem__(0, 10),
        lambda state: state["slot_lanes"].__setitem__(0, -1),
        lambda state: state["slot_lanes"].fill(3),  # a lane twice, and no empty slot
        lambda state: state.update(slot_lanes=np.roll(state["slot_lanes"], 3)),  # where nobody would find them
        lambda state: state["slot_values"].fill(1.0),  # of empty slots, too
        lambda state: state["slot_values"].fill(np.nan),
        lambda state: state.update(slot_values=state["slot_values"][:-1]),
        lambda state: state.update(intercept=np.zeros(8)),
        lambda state: state.update(more=np.zeros(1)),
    ],
)
def test_states_that_cannot_be_are_refused(change):
    tables, other = filled(), filled()
    other.add(1, 8, 5.0)
    before = other.state()
    state = tables.state()
    change(state)
    with pytest.raises(ValueError, match="inconsistent state"):
        other.set_state(state)
    for name, values in other.state().items():  # it is as it was
        np.testing.assert_array_equal(values, before[name])


# Prediction


def weights(rng, n_features, lanes, density):
    W = sp.random_array((n_features, lanes), density=density, random_state=rng, format="csr")
    W.data = np.round(W.data * 4) / 4  # ties
    W.eliminate_zeros()
    return W


def as_ours(W, wide=False):
    index = np.int64 if wide else np.int32
    return Csr(W.data, W.indices.astype(index), W.indptr.astype(index), W.shape)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("density", [0.0, 0.02, 0.5])
@pytest.mark.parametrize("storage", ["csr", "dense", "csr of float32"])
def test_scores_and_best_lanes(storage, density, wide):
    rng = np.random.default_rng(7)
    W = weights(rng, 12, 83, density)
    intercept = np.round(rng.normal(size=83) * 2) / 4
    X = np.round(rng.normal(size=(300, 12)) * (rng.random((300, 12)) < 0.4) * 8) / 8  # sums are exact
    expected = X @ W.toarray() + intercept
    X = X if storage == "dense" else sp.csr_array(X.astype(np.float32 if "32" in storage else np.float64))
    rows = as_rows(X)
    for threads in (1, 2):
        np.testing.assert_array_equal(sparse_scores(rows, as_ours(W, wide), intercept, threads), expected)
        for n in (1, 5, 83):
            lanes, scores = sparse_top(rows, as_ours(W, wide), intercept, n, threads)
            order = (-expected).argsort(axis=1, kind="stable")[:, :n]
            np.testing.assert_array_equal(lanes, order)
            np.testing.assert_array_equal(scores, np.take_along_axis(expected, order, axis=1))


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=1, max_size=40), st.data())
def test_lanes_that_no_feature_knows_are_ranked_by_their_intercepts(intercept, data):
    lanes = len(intercept)
    known = data.draw(st.lists(st.integers(0, lanes - 1), max_size=3, unique=True))
    W = sp.csr_array((np.full(len(known), -3.0), (np.zeros(len(known), int), known)), shape=(1, lanes))
    n = data.draw(st.integers(1, lanes))
    found, scores = sparse_top(as_rows(np.ones((1, 1))), as_ours(W), np.array(intercept), n, 1)
    expected = np.array(intercept) + W.toarray()[0]
    order = (-expected).argsort(kind="stable")[:n]
    assert found[0].tolist() == order.tolist()
    assert scores[0].tolist() == expected[order].tolist()


def test_predictions_that_cannot_be_are_refused():
    rows, W = as_rows(np.ones((4, 2))), _core.Rows.csr(np.ones(1), np.array([1]), np.array([0, 1, 1]), 3, 0.0)
    zeros, lanes, scores = np.zeros(3), np.empty((4, 2), np.int32), np.empty((4, 2))
    good = dict(rows=rows, W=W, intercept=zeros, lanes=lanes, scores=scores, begin=0)
    _core.top_of_sparse(**good)
    for change, error, message in [
        ({"rows": as_rows(np.ones((4, 3)))}, ValueError, "differ in features"),
        ({"W": as_rows(np.ones((2, 3)))}, ValueError, "must be CSR"),
        ({"rows": as_rows(np.ones((4, 2)), 1.0)}, ValueError, "X must be without"),
        ({"intercept": np.zeros(2)}, ValueError, "as many intercepts"),
        ({"intercept": np.array([0, np.nan, 0])}, ValueError, "must be finite"),
        ({"begin": 1}, IndexError, "outside of the rows"),
        ({"begin": -1}, IndexError, "outside of the rows"),
        ({"scores": np.empty((4, 1))}, ValueError, "differ in shape"),
        ({"lanes": np.empty((4, 4), np.int32), "scores": np.empty((4, 4))}, ValueError, "not so many lanes"),
        ({"lanes": np.empty((4, 0), np.int32), "scores": np.empty((4, 0))}, ValueError, "not so many lanes"),
    ]:
        with pytest.raises(error, match=message):
            _core.top_of_sparse(**good | change)
    with pytest.raises(ValueError, match="a column of out a lane"):
        _core.scores_of_sparse(rows, W, zeros, np.empty((4, 2)), 0)
    with pytest.raises(ValueError, match="column index 3"):
        _core.Rows.csr(np.ones(1), np.array([3]), np.array([0, 1, 1]), 3, 0.0)


# Weights


def block(formulation="crammer_singer", pooled=True, intercept=1.0):
    rows = as_rows(np.eye(3), intercept)
    label, ones = np.arange(3, dtype=np.int32), np.ones(3)
    return _core.Block(rows, formulation, False, 3, np.arange(3), label, ones, ones, pooled, 0)


def test_sparse_weights_are_for_what_they_can():
    weights = _core.Weights.sparse(4, 3, False, True)
    block().accumulate(weights, 0, 3)
    for other in (block("weston_watkins"), block(pooled=False)):
        with pytest.raises(ValueError, match="for Crammer-Singer, with duals as lists"):
            other.accumulate(weights, 0, 3)
    with pytest.raises(ValueError, match="differ in the intercept"):
        block().accumulate(_core.Weights.sparse(4, 3, False, False), 0, 3)
    with pytest.raises(ValueError, match="differ in the intercept"):
        block(intercept=-1.0).accumulate(weights, 0, 3)
    with pytest.raises(ValueError, match="no array"):
        weights.array  # noqa: B018
    with pytest.raises(ValueError, match="no array"):
        weights.averaged(_core.Weights(4, 3, False))
    with pytest.raises(ValueError, match="are an array"):
        _core.Weights(4, 3, False).to_csr(False)
    with pytest.raises(ValueError, match="not accelerated"):
        weights.set_kappa(1.0)
    for shape in [(0, 3, False, True), (4, 1, False, True), (-1, 3, False, False)]:
        with pytest.raises(ValueError, match="two lanes or more"):
            _core.Weights.sparse(*shape)
    with pytest.raises(ValueError, match="at least one lane"):
        block().expect_lanes(0)


def test_sums_of_duals_and_back():
    some, weights = block(), _core.Weights.sparse(4, 3, False, True)
    some.set_duals(np.array([1.0, -1.0, 0.5, -0.5]), np.array([0, 2, 1, 2], np.int32), np.array([0, 2, 4, 4]))
    some.accumulate(weights, 0, 3)
    expected = np.array([[1, 0, -1], [0, 0.5, -0.5], [0, 0, 0], [1, 0.5, -1.5]])
    np.testing.assert_array_equal(weights.squared_norms()[0], (expected**2).sum(axis=0))
    for take in (False, True, True):
        data, lanes, indptr = weights.to_csr(take)
        np.testing.assert_array_equal(sp.csr_array((data, lanes, indptr), shape=(4, 3)).toarray(), expected)
        if take:
            expected = np.zeros((4, 3))
