"""X as rows of the core: what is copied, what is refused and where, and the labels beside it."""

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin.data.chunks import all_finite
from multimargin.data.csr import Csr
from multimargin.data.labels import check_comparable, check_labels, plain_labels
from multimargin.data.rows import (
    as_rows,
    canonical,
    check_csr,
    check_masks,
    check_sparse,
    checked,
    has_features,
    where_not_finite,
    with_plain_parts,
)

A = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0], [0.0, 0.0, 0.0], [4.0, 5.0, 6.0]])


def products(rows, W):
    out = np.empty((rows.n_rows, W.shape[1]))
    rows.scores(W, out, 0)
    return out


def unsorted():
    return sp.csr_array((np.array([2.0, 1.0, 3.0]), np.array([2, 1, 0]), np.array([0, 2, 3])), shape=(2, 3))


def twice():
    return sp.csr_array((np.array([1.0, 1.5, 3.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [0.0, 2.0])
@pytest.mark.parametrize(
    "store",
    [
        np.ascontiguousarray,
        np.asfortranarray,
        lambda X: np.repeat(X, 2, axis=0)[::2],
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        lambda X: X[::-1][::-1],
        sp.csr_array,
        lambda X: Csr(*(lambda S: (S.data, S.indices, S.indptr))(sp.csr_array(X)), X.shape),
    ],
)
def test_rows_are_those_of_x_whatever_its_storage(dtype, intercept, store):
    for many_passes in (False, True):
        rows = as_rows(store(A.astype(dtype)), intercept, many_passes=many_passes)
        assert (rows.n_rows, rows.n_features, rows.n_weights) == (4, 3, 3 + (intercept != 0))
        W = np.arange(4.0 * rows.n_weights).reshape(-1, 4)
        wanted = np.column_stack([A, np.full(4, intercept)]) if intercept else A
        np.testing.assert_allclose(products(rows, W), wanted @ W)
        np.testing.assert_allclose(rows.squared_norms(), (wanted**2).sum(axis=1))


@pytest.mark.parametrize("width", [15, 16, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_of_zeros_are_gathered_for_many_passes(width, dtype):
    X = np.zeros((600, width), dtype)
    X[np.arange(600), np.arange(600) % width] = np.arange(600) + 1
    W = np.random.default_rng(0).normal(size=(width, 4))
    plain, gathered = (as_rows(X, many_passes=many) for many in (False, True))
    np.testing.assert_allclose(products(gathered, W), products(plain, W), rtol=1e-6)
    X[7, 3] = 99.0  # rows over the memory of X see it, those that were gathered do not
    assert products(plain, W)[7] == pytest.approx(X[7] @ W)
    assert (products(gathered, W)[7] == pytest.approx(X[7] @ W)) is (width < 16)


def test_what_is_not_aligned_is_copied():
    raw = np.zeros(8 * A.size + 1, np.uint8)
    X = raw[1:].view(np.float64).reshape(A.shape)
    X[:] = A
    assert not X.flags.aligned
    W = np.eye(4)[:3]
    np.testing.assert_array_equal(products(as_rows(X), W)[:, :3], A)
    S = sp.csr_array(A)
    raw = np.zeros(8 * S.nnz + 1, np.uint8)
    values = raw[1:].view(np.float64)
    values[:] = S.data
    np.testing.assert_array_equal(products(as_rows(Csr(values, S.indices, S.indptr, A.shape)), W)[:, :3], A)


def test_csr_is_made_canonical_unless_it_is_only_scored():
    W = np.arange(12.0).reshape(3, 4)
    for X in (unsorted(), twice()):
        before = [part.copy() for part in (X.data, X.indices, X.indptr)]
        made = canonical(X)
        assert made.has_canonical_format and np.array_equal(made.toarray(), X.toarray())
        assert all(np.array_equal(a, b) for a, b in zip(before, (X.data, X.indices, X.indptr), strict=True))
        for only_scored in (False, True):
            np.testing.assert_allclose(products(as_rows(X, only_scored=only_scored), W), X.toarray() @ W)
    fine = sp.csr_array(A)
    assert np.shares_memory(canonical(fine).data, fine.data)
    # Norms of entries that are there twice: only those of canonical rows are right.
    np.testing.assert_allclose(as_rows(twice()).squared_norms(), [6.25, 9.0])


def test_indices_of_two_widths_become_one():
    X = sp.csr_array(A)
    X.indptr = X.indptr.astype(np.int64)
    for only_scored in (False, True):
        np.testing.assert_array_equal(products(as_rows(X, only_scored=only_scored), np.eye(4)[:3])[:, :3], A)
    made = canonical(X)
    assert made.indices.dtype == made.indptr.dtype == np.int64


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"indptr": [0.0, 1.0, 2.0]}, "broken CSR matrix: indptr and indices must be lists of integers"),
        ({"indices": [0.0, 1.0]}, "must be lists of integers"),
        ({"indptr": [[0, 1, 2]]}, "must be lists of integers"),
        ({"indices": [[0, 1]]}, "must be lists of integers"),
        ({"indptr": [0, 2]}, "indptr must have 3 entries and start at 0"),
        ({"indptr": [0, 1, 2, 2]}, "indptr must have 3 entries and start at 0"),
        ({"indptr": [1, 1, 2]}, "indptr must have 3 entries and start at 0"),
        ({"indptr": [0, 2, 1]}, "indptr decreases at row 1"),
        ({"indptr": [0, 1, 3]}, "indptr ends at 3, but there are 2 indices and 2 values"),
        ({"indptr": [0, 1, 3], "indices": [0, 1, 1]}, "indptr ends at 3, but there are 3 indices and 2 values"),
        ({"indptr": [0, 1, 3], "data": [1.0, 1.0, 1.0]}, "indptr ends at 3, but there are 2 indices and 3 values"),
        ({"indices": [0, 3]}, r"column index 3 in row 1 is outside 0\.\.2"),
        ({"indices": [-1, 0]}, r"column index -1 in row 0 is outside 0\.\.2"),
        ({"indptr": [0, 0, 2], "indices": [0, 7]}, "column index 7 in row 1"),
        ({"indices": [2, 2]}, ""),
        ({"indptr": [0, 0, 0], "indices": [9, 9]}, ""),  # of no row
        ({"indices": np.array([2, 0], np.uint8)}, ""),
    ],
)
def test_parts_that_are_no_csr_matrix(change, words):
    class Parts:
        shape, data, indices, indptr = (2, 3), np.ones(2), np.array([0, 1]), np.array([0, 1, 2])

    for name, value in change.items():
        setattr(Parts, name, np.asarray(value))
    if words:
        with pytest.raises(ValueError, match=words):
            check_csr(Parts)
    else:
        check_csr(Parts)


def broken(X, **parts):
    for name, value in parts.items():
        setattr(X, name, np.asarray(value))
    return X


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: broken(sp.csr_array(A), indices=[9] * 6), "broken CSR matrix: column index 9 in row 0"),
        (lambda: broken(sp.csc_array(A), indices=[9] * 6), "broken CSC matrix: row index 9 in column 0"),
        (lambda: broken(sp.csc_array(A), indptr=[0, 3, 2, 6]), "broken CSC matrix: indptr decreases at column 1"),
        (lambda: broken(sp.bsr_array(A, blocksize=(2, 3)), indices=[0, 1]), "BSR matrix: column of blocks index 1 in"),
        (lambda: broken(sp.bsr_array(A, blocksize=(2, 3)), data=np.ones((2, 3, 3))), "BSR matrix: blocks of the shape"),
        (lambda: broken(sp.bsr_array(A, blocksize=(2, 3)), data=np.ones((2, 2, 2))), "BSR matrix: blocks of the shape"),
        (lambda: broken(sp.dia_array(A), offsets=[0]), "broken DIA matrix: 1 offsets"),
        (lambda: broken(sp.coo_array(A), coords=(np.arange(6), np.zeros(6, int))), r"axis 0 is outside 0\.\.3"),
        (lambda: broken(sp.coo_array(A), coords=(np.zeros(6, int), np.arange(6))), r"axis 1 is outside 0\.\.2"),
        (lambda: broken(sp.coo_array(A), coords=(np.full(6, -1), np.zeros(6, int))), "axis 0 is outside"),
        (lambda: broken(sp.coo_array(A), data=np.ones(5)), "coordinates and values differ in number"),
    ],
)
def test_sparse_matrices_that_are_broken(make, words):
    with pytest.raises(ValueError, match=words):
        check_sparse(make())


def test_sparse_matrices_of_every_format():
    for kind in ("csr", "csc", "bsr", "dia", "coo", "lil", "dok"):
        X = sp.csr_array(A).asformat(kind)
        check_sparse(X)
        np.testing.assert_array_equal(checked(X).toarray(), A)
        check_sparse(sp.csr_array((4, 3)).asformat(kind))
    check_sparse(sp.bsr_array(A, blocksize=(2, 3)))
    check_sparse(sp.bsr_array(A, blocksize=(4, 1)))


def test_plain_parts():
    X = sp.csr_array(A)
    assert with_plain_parts(X) is X
    lil = X.tolil()
    assert with_plain_parts(lil) is lil
    for name, part in (
        ("data", np.repeat(X.data, 2)[::2]),
        ("data", X.data.astype(">f8")),
        ("indices", np.repeat(X.indices, 2)[::2]),
    ):
        odd = X.copy()
        setattr(odd, name, part)
        made = with_plain_parts(odd)
        assert made is not odd and np.array_equal(made.toarray(), A)
        parts = (made.data, made.indices, made.indptr)
        assert all(part.flags.c_contiguous and part.dtype.isnative for part in parts)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("row", "column"), [(0, 1), (0, 2), (1, 0), (3, 0), (3, 2)])
def test_where_a_number_is_none(value, row, column):
    X = A.copy()
    X[row, column] = value
    for stored in (X, np.asfortranarray(X), sp.csr_array(X)):
        found = where_not_finite(stored)
        assert found[:2] == (row, column) and str(found[2]) == str(value)
        with pytest.raises(ValueError, match=f"X holds {value}, which is not finite, in row {row}, column {column}"):
            checked(stored)
    X[3, 2] = np.nan  # the first one is told
    assert where_not_finite(X)[:2] == where_not_finite(sp.csr_array(X))[:2] == (row, column)
    assert where_not_finite(A) is None and where_not_finite(sp.csr_array(A)) is None


def test_what_rows_are_checked_for():
    durations = np.ones((2, 3), object)
    durations[1, 2] = np.timedelta64(1, "D")
    for X, words in (
        (np.ones(3), r"X has the shape \(3,\), but the model expects rows of 3 features"),
        (np.ones((2, 2)), r"X has the shape \(2, 2\), but the model expects rows of 3 features"),
        (sp.csr_array(np.ones((2, 4))), r"X has the shape \(2, 4\), but the model expects rows of 3 features"),
        (np.ones((2, 3), complex), "X must hold real numbers, got dtype complex128"),
        (np.zeros((2, 3), "M8[D]"), "X holds dates or durations .it is datetime64.D.."),
        (np.zeros((2, 3), "m8[D]"), "X holds dates or durations .it is timedelta64.D.."),
        (np.full((2, 3), np.timedelta64(1, "D")).astype(object), "X holds dates or durations"),
        (durations, "X holds dates or durations .it is timedelta64."),
        (np.zeros((2, 3), [("k", float)]), "X holds records .*give plain values: one field"),
        (np.ma.masked_equal(A, 3.0), "X has masked entries"),
    ):
        with pytest.raises(ValueError, match=words):
            checked(X, 3)
    with pytest.raises(ValueError, match=r"the model expects rows$"):
        checked(np.ones(3))
    for dtype, wanted in (
        (np.int8, np.float64),
        (np.float32, np.float32),
        (np.float64, np.float64),
        (bool, np.float64),
    ):
        assert checked(A.astype(dtype), 3).dtype == wanted
    assert checked(A) is A
    check_masks(np.ma.array(A), "X")


def test_features_that_are_there():
    for X, there in ((A, True), (0 * A, False), (-A, True)):
        assert has_features(X) is has_features(sp.csr_array(X)) is there
    stored = sp.csr_array(A)
    stored.data[:] = 0
    assert has_features(stored) is False


def test_finite_values():
    assert all_finite(np.array([1.0, 2.0])) is True and all_finite(np.array([])) is True
    assert all_finite(np.array([1.7e308, 1.7e308])) is True  # whose sum is not
    for bad in (np.nan, np.inf, -np.inf):
        assert all_finite(np.array([1.0, bad])) is False
    assert all_finite(np.array([np.inf, -np.inf])) is False
    assert all_finite(np.full(3, 3e38, np.float32)) is True


# Labels


class Name(str):
    __slots__ = ()

    def __str__(self):
        return "another"


@pytest.mark.parametrize(
    ("given", "kind", "values"),
    [
        (np.array([True, False], object), "b", [True, False]),
        (np.array([np.True_, False], object), "b", [True, False]),
        (np.array([1, np.int8(2)], object), "i", [1, 2]),
        (np.array([2**63, 2**64 - 1], object), "u", [2**63, 2**64 - 1]),
        (np.array([1, 2**64], object), "O", [1, 2**64]),
        (np.array([1, True], object), "O", [1, True]),
        (np.array([0.5, np.float32(2)], object), "f", [0.5, 2.0]),
        (np.array([0.5, 1], object), "O", [0.5, 1]),
        (np.array(["a", "b"], object), "O", ["a", "b"]),
        (np.array(["a", Name("b")], object), "O", ["a", "b"]),
        (np.array([], object), "O", []),
        (np.array([0.5, 0.25], np.longdouble), "f", [0.5, 0.25]),
        (np.array(["a", "b"]), "U", ["a", "b"]),
        (np.array([3, 1], np.uint8), "u", [3, 1]),
    ],
)
def test_labels_are_numpys_where_they_can_be(given, kind, values):
    made = plain_labels(given)
    assert made.dtype.kind == kind and made.tolist() == values
    assert made.dtype.itemsize <= 8 or kind == "U"
    if values and isinstance(values[0], str) and kind == "O":
        assert {type(label) for label in made} == {str}


def test_what_is_no_list_of_labels_stays():
    for given in ([1, 2], np.eye(2), np.array(3), "abc"):
        assert plain_labels(given) is given
    third = np.array([np.longdouble(1) / 3])
    assert plain_labels(third) is third


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["a", None], "no label .* in row 1"),
        ([float("nan"), "a"], "no label .* in row 0"),
        (["a", 1], "mixes int, strings"),
        ([(1,), (2,)], r"holds \(1,\), of tuple"),
        (["a", "b"], ""),
        (["a", Name("b")], ""),
    ],
)
def test_labels_that_are_none(labels, words):
    y = np.empty(len(labels), object)
    y[:] = labels
    if words:
        with pytest.raises(ValueError, match=words):
            check_labels(y)
    else:
        check_labels(y)
    check_labels(np.array([np.nan]))  # a number, about which somebody else knows


def test_labels_are_of_the_kind_of_the_classes():
    numbers, strings = np.array([1, 2]), np.array(["a", "b"])
    check_comparable(numbers, np.array([True, False]))
    check_comparable(strings, strings.astype(object))
    check_comparable(strings, np.array([], int))
    with pytest.raises(ValueError, match="y holds numbers, such as 1, and the classes are strings, such as 'a'"):
        check_comparable(strings, numbers)
    with pytest.raises(ValueError, match="y holds strings, such as 'a', and the classes are numbers, such as 1"):
        check_comparable(numbers, strings)
