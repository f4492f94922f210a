"""Sparse rows without SciPy: against SciPy's."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from multimargin.data.csr import Csr


@st.composite
def matrices(draw):
    shape = draw(st.tuples(st.integers(1, 8), st.integers(1, 8)))
    cells = draw(st.lists(st.integers(0, shape[0] * shape[1] - 1), unique=True))
    values = draw(st.lists(st.floats(-1e3, 1e3), min_size=len(cells), max_size=len(cells)))
    return shape, np.array(cells, dtype=np.int64), np.array(values)


def csr_of(drawn):
    shape, cells, values = drawn
    return Csr.of_entries(cells // shape[1], (cells % shape[1]).astype(np.int32), values, shape)


def assert_same(found, expected):
    expected.sort_indices()
    assert found.shape == expected.shape
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        assert name == "data" or getattr(found, name).dtype == np.int32


@given(matrices())
def test_entries_in_any_order(drawn):
    shape, cells, values = drawn
    expected = sp.csr_array(sp.coo_array((values, (cells // shape[1], cells % shape[1])), shape=shape))
    found = csr_of(drawn)
    assert_same(found, expected)
    assert_same(found.to_scipy(), expected)
    assert found.to_scipy().has_canonical_format
    assert np.shares_memory(found.to_scipy().data, found.data) or not len(values)


@given(matrices(), st.integers(1, 12))
def test_first_columns(drawn, n):
    found = csr_of(drawn)
    expected = found.to_scipy().copy()
    expected.resize(found.shape[0], n)
    assert_same(found.first_columns(n), expected)


@given(matrices())
def test_filled_rows(drawn):
    found = csr_of(drawn)
    rows = np.flatnonzero(np.diff(found.indptr))
    assert_same(found.filled_rows(rows), found.to_scipy()[rows])


def test_wide_indices_where_they_are_needed():
    found = Csr.of_entries(np.array([1]), np.array([2**31]), np.array([1.0]), (3, 2**31 + 1))
    assert found.indices.dtype == found.indptr.dtype == np.int64
    assert (found.indices[0], found.indptr.tolist()) == (2**31, [0, 0, 1, 1])
