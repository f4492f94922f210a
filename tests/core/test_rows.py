"""Rows of X against NumPy, whatever their storage; what is not a row is refused."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from multimargin import KernelSVM, LinearSVM, _core
from multimargin.data.rows import as_rows
from tests.oracles import Problem, duals_of, run

STORAGES = ("csr32", "csr64", "dense", "gathered")
DTYPES = (np.float32, np.float64)


def matrix(n_rows, n_features, dtype=np.float64, density=0.4, seed=0):
    """Random values, many zeros, and among the rows empty ones."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < density)
    X[1::5] = 0
    return X.astype(dtype)


def rows_of(X, storage, intercept=0.0):
    if storage == "dense":
        return _core.Rows.dense(X, intercept)
    if storage == "gathered":
        data, indices, indptr = _core.gather_nonzeros(X, 1.0)
        return _core.Rows.csr(data, indices, indptr.astype(np.int32), X.shape[1], intercept)
    csr, index = sp.csr_array(X), np.int32 if storage == "csr32" else np.int64
    return _core.Rows.csr(csr.data, csr.indices.astype(index), csr.indptr.astype(index), X.shape[1], intercept)


def with_intercept(X, intercept):
    """X as float64 with the constant column that the rows have."""
    X = X.astype(np.float64)
    return np.column_stack([X, np.full(len(X), intercept)]) if intercept else X


def padded_weights(n_rows, lanes, dtype, seed=1):
    """Weights as the core stores them, and their used part in float64; the padding is not zero."""
    W = _core.Weights(n_rows, lanes, dtype == np.float32).array
    W[:] = np.random.default_rng(seed).normal(size=W.shape)
    return W, W[:, :lanes].astype(np.float64)


@pytest.fixture
def restored_instruction_set():
    before = _core.instruction_set()
    yield
    assert _core.use_instruction_set(before)


# Scores, norms, sums


@pytest.mark.parametrize("intercept", [0.0, 2.5])
@pytest.mark.parametrize("x_dtype", DTYPES)
@pytest.mark.parametrize("storage", STORAGES)
def test_scores_for_every_number_of_lanes(storage, x_dtype, intercept):
    X = matrix(11, 70, x_dtype)
    rows = rows_of(X, storage, intercept)
    whole = with_intercept(X, intercept)
    for w_dtype, lanes in itertools.product(DTYPES, [*range(1, 61), 96, 97, 100, 130, 193, 257, 500]):
        W, used = padded_weights(whole.shape[1], lanes, w_dtype)
        out = np.full((len(X), lanes), np.nan)
        rows.scores(W, out, 0)
        error = np.abs(whole) @ np.abs(used) * (1e-5 if w_dtype == np.float32 else 1e-13)
        assert np.all(np.abs(out - whole @ used) <= error), (w_dtype, lanes)


@pytest.mark.parametrize("n_features", [1, 2, 3, 11, 12, 13, 16, 17, 63, 64, 65, 128, 200])
@pytest.mark.parametrize("storage", STORAGES)
def test_scores_for_every_length_of_rows(storage, n_features):
    X = matrix(7, n_features, density=0.9)
    rows = rows_of(X, storage)
    for lanes in (1, 3, 12, 40):
        W, used = padded_weights(n_features, lanes, np.float64)
        out = np.empty((len(X), lanes))
        rows.scores(W, out, 0)
        np.testing.assert_allclose(out, X @ used, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("storage", STORAGES)
def test_scores_of_a_range_of_rows_and_the_first_lanes(storage):
    X = matrix(9, 20)
    W, used = padded_weights(20, 7, np.float64)
    out = np.empty((4, 5))
    rows_of(X, storage).scores(W, out, 3)
    np.testing.assert_allclose(out, X[3:7] @ used[:, :5], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("intercept", [0.0, 0.5])
@pytest.mark.parametrize("x_dtype", DTYPES)
@pytest.mark.parametrize("storage", STORAGES)
def test_squared_norms(storage, x_dtype, intercept):
    X = matrix(12, 70, x_dtype)
    rows = rows_of(X, storage, intercept)
    np.testing.assert_allclose(rows.squared_norms(), (with_intercept(X, intercept) ** 2).sum(axis=1), rtol=1e-13)
    assert (rows.n_rows, rows.n_features, rows.intercept) == (12, 70, intercept)
    assert rows.n_weights == 70 + (intercept != 0)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (0, 0)])
def test_no_rows_or_no_features(storage, shape):
    rows = rows_of(np.zeros(shape), storage, 1.0)
    np.testing.assert_array_equal(rows.squared_norms(), np.ones(shape[0]))
    W, used = padded_weights(shape[1] + 1, 3, np.float64)
    out = np.full((shape[0], 3), np.nan)
    rows.scores(W, out, 0)
    np.testing.assert_array_equal(out, np.tile(used[-1], (shape[0], 1)))


@pytest.mark.parametrize("lanes", [1, 3, 8, 70, 300])
@pytest.mark.parametrize("intercept", [0.0, 2.0])
@pytest.mark.parametrize("x_dtype", DTYPES)
@pytest.mark.parametrize("storage", STORAGES)
def test_accumulate(storage, x_dtype, intercept, lanes):
    X = matrix(10, 30, x_dtype)
    X[1::5, 0] = 1  # a block has no empty rows
    rows = rows_of(X, storage, intercept)
    whole = with_intercept(X, intercept)
    a = sp.random_array((10, lanes), density=0.5, format="csr", rng=0)
    problem = Problem("one_vs_rest", True, lanes, whole, np.full(10, -1), np.ones(10))
    block = problem.block(rows=rows)
    block.set_duals(a.data, a.indices.astype(np.int32), a.indptr.astype(np.int64))
    for single in (False, True):
        weights = problem.weights(single)
        weights.array[:] = 1
        block.accumulate(weights, 2, 9)
        expected = 1 + whole[2:9].T @ a[2:9].toarray()
        np.testing.assert_allclose(
            weights.array[:, :lanes], expected, rtol=1e-5 if single else 1e-12, atol=1e-5 if single else 1e-12
        )


# Every instruction set gives the same bits


def test_instruction_sets_are_named_and_forced(restored_instruction_set):
    assert "baseline" in _core.instruction_sets()
    for name in _core.instruction_sets():
        assert _core.use_instruction_set(name)
        assert _core.instruction_set() == name
    in_use = _core.instruction_set()
    assert not _core.use_instruction_set("no such set")
    assert _core.instruction_set() == in_use


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("x_dtype", DTYPES)
def test_scores_have_the_same_bits_on_every_instruction_set(storage, x_dtype, restored_instruction_set):
    X = matrix(20, 100, x_dtype)
    rows = rows_of(X, storage, 1.5)
    for w_dtype, lanes in itertools.product(DTYPES, [1, 2, 5, 8, 19, 33, 57, 120]):
        W, _ = padded_weights(101, lanes, w_dtype)
        found = {}
        for name in _core.instruction_sets():
            _core.use_instruction_set(name)
            out = np.empty((len(X), lanes))
            rows.scores(W, out, 0)
            found[name] = out.tobytes() + rows.squared_norms().tobytes()
        assert len(set(found.values())) == 1, (w_dtype, lanes)


@pytest.mark.parametrize("single_precision", [False, True])
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("lanes", [4, 21, 300])
@pytest.mark.parametrize(
    ("policy", "pooled"),
    [
        ("crammer_singer", False),
        ("crammer_singer", True),
        ("weston_watkins", False),
        ("weston_watkins", True),
        ("one_vs_rest", False),
    ],
)
def test_training_has_the_same_bits_on_every_instruction_set(
    policy, pooled, lanes, squared, single_precision, restored_instruction_set
):
    rng = np.random.default_rng(0)
    problem = Problem(policy, squared, lanes, rng.normal(size=(50, 9)), rng.integers(0, lanes, size=50), np.ones(50))
    found = set()
    for name in _core.instruction_sets():
        _core.use_instruction_set(name)
        block, weights = problem.block(pooled=pooled, seed=3), problem.weights(single_precision)
        weights.set_kappa(0.5)
        run(block, weights, max_epochs=12.0, tolerance=1e-3, shrinking=True, permute=True)
        found.add(weights.array.tobytes() + duals_of(block, lanes).tobytes())
    assert len(found) == 1


@pytest.mark.parametrize(("dtype", "share"), [(np.float32, 0.25), (np.float64, 0.33)])
def test_few_nonzeros_are_gathered_for_many_passes(dtype, share):
    """Gathered or not cannot be seen in the sums; it can in what is read when the array changes afterwards."""
    for density, gathered in ((share - 0.1, True), (share + 0.1, False)):
        X = (np.random.default_rng(0).random((200, 50)) < density).astype(dtype)
        before = X.sum(axis=1)
        for many_passes in (True, False):
            Z = X.copy()
            rows = as_rows(Z, many_passes=many_passes)
            np.testing.assert_array_equal(rows.squared_norms(), before)
            Z[:] = 0
            kept = rows.squared_norms()
            np.testing.assert_array_equal(kept, before if gathered and many_passes else 0 * before)


def test_nonzeros_are_gathered():
    for dtype in DTYPES:
        X = matrix(7, 20, dtype)
        for view in (X, X[::2]):
            data, indices, indptr = _core.gather_nonzeros(view, 1.0)
            assert data.dtype == dtype
            np.testing.assert_array_equal(sp.csr_array((data, indices, indptr), shape=view.shape).toarray(), view)
    with pytest.raises(ValueError, match="contiguous"):
        _core.gather_nonzeros(np.ones((4, 6))[:, ::2], 1.0)
    assert _core.gather_nonzeros(np.eye(4), 0.24) is None
    assert _core.gather_nonzeros(np.eye(4), 0.25) is not None


# What is refused


def csr_parts(data=(1.0, 2.0, 3.0), indices=(0, 2, 1), indptr=(0, 2, 2, 3), data_type=np.float64, index_type=np.int32):
    return np.array(data, data_type), np.array(indices, index_type), np.array(indptr, index_type)


def test_the_unbroken_parts_are_accepted():
    rows = _core.Rows.csr(*csr_parts(), 3, 0.0)
    np.testing.assert_array_equal(rows.squared_norms(), [5, 0, 9])


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (dict(indices=(0, 3, 1)), "column index 3 in row 0 is outside 0..2"),
        (dict(indices=(0, 2, -1)), "column index -1 in row 2 is outside"),
        (dict(indptr=(0, 2, 1, 3)), "decreases at row 1"),
        (dict(indptr=(0, 2, 2, 4)), "past the end"),
        (dict(indptr=(1, 2, 2, 3)), "start at 0"),
        (dict(indptr=()), "indptr is empty"),
        (dict(indices=(0, 2)), "differ in length"),
    ],
)
def test_broken_csr_is_refused(parts, message, index_type):
    with pytest.raises(ValueError, match=message):
        _core.Rows.csr(*csr_parts(**parts, index_type=index_type), 3, 0.0)


@pytest.mark.parametrize(
    "parts",
    [
        csr_parts(data_type=np.int64),
        csr_parts(data_type=np.float16),
        csr_parts(index_type=np.int16),
        csr_parts(index_type=np.uint32),
        csr_parts(index_type=np.float64),
        (*csr_parts()[:2], csr_parts(index_type=np.int64)[2]),
        (np.ones((3, 1)), *csr_parts()[1:]),
    ],
)
def test_csr_of_other_types_is_refused(parts):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _core.Rows.csr(*parts, 3, 0.0)


@pytest.mark.parametrize("X", [np.ones((2, 2), int), np.ones((2, 2), np.float16), np.ones(3), np.ones((1, 2, 2))])
def test_dense_arrays_of_other_types_are_refused(X):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        _core.Rows.dense(X, 0.0)


@pytest.mark.parametrize("X", [np.ones((3, 4))[:, ::2], np.ones((3, 4))[:, ::-1], np.ones((3, 4), order="F")])
def test_dense_rows_that_are_not_contiguous_are_refused(X):
    with pytest.raises(ValueError, match="contiguous"):
        _core.Rows.dense(X, 0.0)


@pytest.mark.parametrize(
    ("W", "out", "begin", "error", "message"),
    [
        (np.ones((3, 3)), np.empty((2, 3)), 0, ValueError, "not padded"),
        (np.ones((3, 4), np.float32), np.empty((2, 3)), 0, ValueError, "not padded"),
        (np.ones((3, 4), int), np.empty((2, 3)), 0, ValueError, "float32 or float64"),
        (np.ones((3, 4)), np.empty((2, 5)), 0, ValueError, "more columns"),
        (np.ones((2, 4)), np.empty((2, 3)), 0, ValueError, "differ in features"),
        (np.ones((4, 4)), np.empty((2, 3)), 0, ValueError, "differ in features"),
        (np.ones((3, 4)), np.empty((3, 3)), 0, IndexError, "range"),
        (np.ones((3, 4)), np.empty((2, 3)), 1, IndexError, "range"),
        (np.ones((3, 4)), np.empty((1, 3)), -1, IndexError, "range"),
    ],
)
def test_scores_refuse_what_does_not_fit(W, out, begin, error, message):
    with pytest.raises(error, match=message):
        _core.Rows.dense(np.ones((2, 3)), 0.0).scores(W, out, begin)


@pytest.mark.parametrize("out", [np.zeros((2, 3), np.float32), np.zeros((2, 6))[:, ::2], np.zeros((2, 3), order="F")])
def test_scores_refuse_an_output_that_they_could_only_copy(out):
    """Results written to a converted copy of ``out`` would be lost without a word."""
    with pytest.raises(TypeError):
        _core.Rows.dense(np.ones((2, 3)), 0.0).scores(np.ones((3, 4)), out, 0)


# as_rows


def scores_by_rows(rows, W):
    out = np.empty((rows.n_rows, W.shape[1]))
    rows.scores(W, out, 0)
    return out


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index_type", [np.int32, np.int64])
def test_as_rows_reads_csr_in_place(dtype, index_type):
    X = sp.csr_array(matrix(6, 20, dtype))
    X.indices, X.indptr = X.indices.astype(index_type), X.indptr.astype(index_type)
    rows = as_rows(X)
    W, _ = padded_weights(20, 4, np.float64)
    X.data *= 3
    np.testing.assert_allclose(scores_by_rows(rows, W), X @ W, rtol=1e-12, atol=1e-12)
    last = X.indptr[1] - 1  # of row 0, so that its columns stay sorted
    X.indices[last] = 19
    X.has_sorted_indices = False
    np.testing.assert_allclose(scores_by_rows(rows, W), X.toarray() @ W, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("density", [0.1, 1.0])
def test_as_rows_reads_dense_rows_in_place(dtype, density):
    wide = matrix(6, 40, dtype, density=density)
    for X in (wide, wide[:, 3:35], wide[::2], wide[::-1]):
        rows = as_rows(X)
        W, _ = padded_weights(X.shape[1], 4, np.float64)
        wide *= 3
        np.testing.assert_allclose(scores_by_rows(rows, W), X @ W, rtol=1e-12, atol=1e-12)


def test_as_rows_copies_columns_that_are_not_contiguous():
    X = np.asfortranarray(matrix(6, 20))
    rows, W = as_rows(X), padded_weights(20, 4, np.float64)[0]
    np.testing.assert_allclose(scores_by_rows(rows, W), X @ W, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("index_type", [np.int32, np.int64])
@pytest.mark.parametrize("claims_to_be_canonical", [False, True])
def test_unsorted_and_duplicate_entries(index_type, claims_to_be_canonical):
    data, indices = np.array([1.0, 2, 3, 4, 5, 6]), np.array([3, 0, 3, 2, 2, 1], index_type)
    indptr = np.array([0, 3, 3, 6], index_type)
    X = sp.csr_array((data, indices, indptr), shape=(3, 4))
    if claims_to_be_canonical:
        X.has_canonical_format = X.has_sorted_indices = True
    dense = np.array([[2.0, 0, 0, 4], [0, 0, 0, 0], [0, 6, 9, 0]])
    rows = as_rows(X)
    np.testing.assert_array_equal(rows.squared_norms(), (dense**2).sum(axis=1))
    np.testing.assert_array_equal(scores_by_rows(rows, np.eye(4)), dense)
    np.testing.assert_array_equal(X.data, [1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(X.indices, [3, 0, 3, 2, 2, 1])
    np.testing.assert_array_equal(X.indptr, [0, 3, 3, 6])


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (dict(indices=(0, 7, 1)), "column index 7 in row 0 is outside 0..2"),
        (dict(indices=(0, 2, -1)), "column index -1 in row 2 is outside 0..2"),
        (dict(indptr=(0, 3, 2, 3)), "decreases at row 1"),
        (dict(indptr=(0, 2, 2, 9)), "ends at 9, but there are 3 indices"),
        (dict(indptr=(1, 2, 2, 3)), "start at 0"),
        (dict(indptr=(0, 2, 3)), "must have 4 entries"),
    ],
)
def test_broken_csr_is_named(parts, message):
    X = sp.csr_array(csr_parts(), shape=(3, 3))
    X.data, X.indices, X.indptr = csr_parts(**parts)
    with pytest.raises(ValueError, match=message):
        as_rows(X)


def test_intercept_is_one_more_feature():
    X = matrix(5, 20)
    W, used = padded_weights(21, 3, np.float64)
    rows = as_rows(X, 2.0)
    np.testing.assert_allclose(scores_by_rows(rows, W)[:, :3], with_intercept(X, 2.0) @ used, rtol=1e-12, atol=1e-12)


def misaligned(array):
    """The same values at an address that is no multiple of their size."""
    begins = np.empty(array.nbytes + array.itemsize, dtype=np.uint8)
    shift = 1 + (-begins.ctypes.data) % array.itemsize
    moved = begins[shift : shift + array.nbytes].view(array.dtype).reshape(array.shape)
    moved[...] = array
    assert not moved.flags.aligned
    return moved


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("part", ["data", "indices", "indptr", "dense", "gathered"])
def test_what_is_not_aligned_is_copied_and_the_core_refuses_it(dtype, part):
    X = matrix(40, 20, dtype, density=0.1 if part == "gathered" else 0.9)
    expected = as_rows(X, many_passes=part == "gathered").squared_norms()
    if part in ("dense", "gathered"):
        moved = misaligned(X)
        np.testing.assert_array_equal(as_rows(moved, many_passes=part == "gathered").squared_norms(), expected)
        with pytest.raises(ValueError, match="arrays must be aligned"):
            _core.Rows.dense(moved, 0.0) if part == "dense" else _core.gather_nonzeros(moved, 1.0)
        return
    csr = sp.csr_array(X)
    setattr(csr, part, misaligned(getattr(csr, part)))
    np.testing.assert_array_equal(as_rows(csr, only_scored=True).squared_norms(), expected)
    with pytest.raises(ValueError, match="arrays must be aligned"):
        _core.Rows.csr(csr.data, csr.indices, csr.indptr, X.shape[1], 0.0)


@pytest.mark.parametrize("machine", [LinearSVM(), KernelSVM(), KernelSVM(kernel="linear")])
@pytest.mark.parametrize("storage", [np.array, sp.csr_array], ids=["dense", "sparse"])
def test_models_of_rows_that_are_not_aligned(machine, storage):
    X, y = storage(matrix(60, 8, density=0.9)), np.arange(60) % 3
    moved = misaligned(X) if storage is np.array else X.copy()
    if storage is sp.csr_array:
        moved.data, moved.indices, moved.indptr = map(misaligned, (X.data, X.indices, X.indptr))
    model = clone(machine).fit(moved, misaligned(y), misaligned(np.ones(60)))
    np.testing.assert_array_equal(model.decision_function(moved), clone(machine).fit(X, y).decision_function(X))
