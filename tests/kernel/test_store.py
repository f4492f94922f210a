"""The store of kernel rows: right values whatever X is, groups, who leaves when the budget is spent, refusals."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import cython_blas
from sklearn.metrics.pairwise import pairwise_kernels

from multimargin import _core
from multimargin.data.rows import as_rows
from multimargin.kernel.functions import Kernel
from multimargin.kernel.store import fits_float32

PARAMETERS = {
    "linear": {},
    "rbf": {"gamma": 0.3},
    "poly": {"gamma": 0.2, "coef0": 0.5, "degree": 3},
    "sigmoid": {"gamma": 0.1, "coef0": -0.2},
}
N, FEATURES = 45, 7
BIAS = 0.25


def rows_of(seed=0):
    X = np.random.RandomState(seed).normal(size=(N, FEATURES))
    X[np.random.RandomState(seed + 1).uniform(size=X.shape) < 0.4] = 0
    X[5] = 0
    return X


def core_parameters(kind):
    p = {"gamma": 1.0, "coef0": 0.0, "degree": 3} | PARAMETERS[kind]
    return kind, p["gamma"], p["coef0"], p["degree"], BIAS


def make(kind="rbf", storage="dense", dtype=np.float64, X=None, groups=(0, N), budget=1 << 20):
    X = (rows_of() if X is None else X).astype(dtype)
    groups = np.array(groups, dtype=np.int64)
    single = dtype == np.float32
    if storage == "dense":
        gemm = cython_blas.__pyx_capi__["sgemm" if single else "dgemm"]
        return _core.KernelStore.dense(X, *core_parameters(kind), gemm, groups, budget)
    if storage == "foreign":
        K = pairwise_kernels(X, metric=kind, **PARAMETERS[kind]).astype(dtype)
        diagonal = K.diagonal().astype(np.float64)
        fill = lambda rows, begin, end: np.ascontiguousarray(K[rows][:, begin:end])  # noqa: E731
        return _core.KernelStore.foreign(diagonal, fill, single, BIAS, groups, budget)
    index = np.int64 if storage == "csr64" else np.int32
    S = sp.csr_array(X)
    S = sp.csr_array((S.data, S.indices.astype(index), S.indptr.astype(index)), shape=S.shape)
    return _core.KernelStore.sparse(as_rows(S), single, *core_parameters(kind), groups, budget)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", ["dense", "csr32", "csr64", "foreign"])
@pytest.mark.parametrize("kind", PARAMETERS)
def test_values_are_those_of_scikit_learn(kind, storage, dtype):
    expected = pairwise_kernels(rows_of(), metric=kind, **PARAMETERS[kind]) + BIAS
    store = make(kind, storage, dtype, groups=(0, 11, 11, N))
    rounding = 1e-13 if dtype == np.float64 else 2e-6
    for i in (0, 5, N - 1):
        found = np.concatenate([store.rows([i], group)[0] for group in range(3)])
        np.testing.assert_allclose(found, expected[i], rtol=rounding, atol=rounding * np.abs(expected).max())
    np.testing.assert_allclose(store.diagonal, expected.diagonal(), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exponentials_are_exact_to_rounding(dtype):
    """From 1 down to where float32 ends; x = (t, 0) against 0, so that the distance is t^2."""
    exponent = np.linspace(0, 80, 4001)
    X = np.zeros((len(exponent), 1))
    X[:, 0] = np.sqrt(exponent)
    gemm = cython_blas.__pyx_capi__["sgemm" if dtype == np.float32 else "dgemm"]
    groups = np.array([0, len(X)])
    store = _core.KernelStore.dense(X.astype(dtype), "rbf", 1.0, 0.0, 3, 0.0, gemm, groups, 1 << 20)
    squared = X.astype(dtype)[:, 0] ** 2
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(store.rows([0], 0)[0], np.exp(-squared.astype(np.float64)), rtol=3 * eps * 80)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", ["dense", "csr32", "csr64", "foreign"])
@pytest.mark.parametrize("kind", PARAMETERS)
def test_the_diagonal_is_that_of_the_rows(kind, storage, dtype):
    store = make(kind, storage, dtype, rows_of() * 100, groups=(0, 11, 11, N))
    rows = np.array([np.concatenate([store.rows([i], group)[0] for group in range(3)]) for i in range(N)])
    np.testing.assert_array_equal(rows.diagonal(), store.diagonal.astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", ["dense", "csr32"])
def test_a_row_is_at_no_distance_from_itself_whatever_gamma_is(storage, dtype, monkeypatch):
    monkeypatch.setitem(PARAMETERS["rbf"], "gamma", 1e20)
    store = make("rbf", storage, dtype, rows_of() * 1.1)
    found = np.array([store.rows([i], 0)[0] for i in range(N)]) - BIAS
    np.testing.assert_array_equal(found, np.eye(N))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("storage", ["csr32", "csr64"])
@pytest.mark.parametrize("kind", PARAMETERS)
def test_features_far_apart_have_the_same_bits(kind, storage, dtype):
    """Of many features only those of a few rows are looked at."""
    X = rows_of()
    wide = np.zeros((N, 70_000))
    wide[:, ::10_000] = X
    near, far = make(kind, storage, dtype, X), make(kind, storage, dtype, wide)
    for i in range(N):
        np.testing.assert_array_equal(far.rows([i], 0)[0], near.rows([i], 0)[0])


COMPANIES = """
import numpy as np
from scipy.linalg import cython_blas
from multimargin import _core
rng = np.random.default_rng(0)
for name, dtype in (("sgemm", np.float32), ("dgemm", np.float64)):
    for features in (3, 64, 300):
        X = rng.normal(size=(700, features)).astype(dtype)
        gemm = cython_blas.__pyx_capi__[name]
        store = _core.KernelStore.dense(X, "rbf", 0.1, 0.0, 3, 0.0, gemm, np.array([0, 20, 93, 150, 700]), 0)
        alone = [np.vstack([store.rows([i], group) for i in range(150)]) for group in range(4)]
        for _ in range(60):
            some = rng.permutation(150)[: rng.integers(1, 100)]
            for group, rows in enumerate(alone):
                assert np.array_equal(store.rows(some.tolist(), group), rows[some]), (name, features, group, len(some))
print("same bits")
"""


@pytest.mark.parametrize(
    "processor", ["", "Prescott", "Nehalem", *(["Haswell"] if "avx2" in _core.instruction_sets() else [])]
)
def test_values_do_not_depend_on_the_rows_beside_them(processor):
    """Some of OpenBLAS's products compute all rows of a call in the same way, some do not (core/gemm_places.hpp).
    It has one thread, as for machines in parallel. Without a name the processor's own products are used."""
    chosen = {"OPENBLAS_CORETYPE": processor} if processor else {}
    found = subprocess.run(
        [sys.executable, "-c", COMPANIES],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"} | chosen,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert found.stdout == "same bits\n", found.stderr


def test_more_columns_than_a_panel():
    X = np.random.RandomState(3).normal(size=(2500, 3))
    store = make("rbf", "dense", np.float64, X, groups=(0, len(X)))
    expected = pairwise_kernels(X[[7]], X, metric="rbf", gamma=0.3)[0] + BIAS
    np.testing.assert_allclose(store.rows([7], 0)[0], expected, rtol=1e-12)
    sparse = make("rbf", "csr32", np.float64, X, groups=(0, len(X)))
    np.testing.assert_allclose(sparse.rows([7], 0)[0], expected, rtol=1e-12)


def test_counts_and_who_leaves():
    row = N * 8
    store = make(budget=3 * row)
    for i in (0, 1, 2):
        store.rows([i], 0)
    assert store.counts() == (0, 3, 3 * N)
    store.rows([0], 0)  # now 1 is the least recently used
    assert store.counts() == (1, 3, 3 * N)
    store.rows([3], 0)
    for i in (0, 2, 3):
        store.rows([i], 0)
    assert store.counts() == (4, 4, 4 * N)
    store.rows([1], 0)
    assert store.counts() == (4, 5, 5 * N)


def test_groups_are_kept_apart():
    store = make(groups=(0, 10, N))
    store.rows([4], 0)
    assert store.counts() == (0, 1, 10)
    store.rows([4], 1)
    assert store.counts() == (0, 2, N)
    store.rows([4], 0)
    assert store.counts() == (1, 2, N)


def test_no_budget_keeps_nothing():
    store = make(budget=0)
    store.rows([0], 0)
    store.rows([0], 0)
    assert store.counts() == (0, 2, 2 * N)


@pytest.mark.parametrize("groups", [(0,), (1, N), (0, N - 1), (0, 30, 20, N), ()])
def test_groups_that_do_not_cover_the_columns(groups):
    with pytest.raises(ValueError, match="groups of columns"):
        make(groups=groups)


@pytest.mark.parametrize(("i", "group"), [(-1, 0), (N, 0), (0, 1), (0, -1)])
def test_rows_that_are_not_there(i, group):
    with pytest.raises(IndexError):
        make().rows([i], group)


def test_a_row_is_asked_for_once():
    with pytest.raises(ValueError, match="twice"):
        make().rows([3, 5, 3], 0)


@pytest.mark.parametrize("gemm", [None, "sgemm", cython_blas.__pyx_capi__["sdot"]])
def test_gemm_must_be_scipys(gemm):
    with pytest.raises((TypeError, ValueError), match="gemm"):
        _core.KernelStore.dense(rows_of(), *core_parameters("rbf"), gemm, np.array([0, N]), 100)


def test_unknown_kernels_and_parameters():
    gemm = cython_blas.__pyx_capi__["dgemm"]
    with pytest.raises(ValueError, match="unknown kernel 'cosine'"):
        _core.KernelStore.dense(rows_of(), "cosine", 1.0, 0.0, 3, 0.0, gemm, np.array([0, N]), 100)
    with pytest.raises(ValueError, match="finite"):
        _core.KernelStore.dense(rows_of(), "rbf", np.nan, 0.0, 3, 0.0, gemm, np.array([0, N]), 100)


@pytest.mark.parametrize(
    "answer", [np.zeros((1, N - 1)), np.zeros(N), np.zeros((1, N), dtype=np.float32), "no array", None]
)
def test_a_foreign_kernel_must_answer_as_asked(answer):
    store = _core.KernelStore.foreign(np.ones(N), lambda rows, begin, end: answer, False, 0.0, np.array([0, N]), 100)
    with pytest.raises(ValueError, match="did not answer"):
        store.rows([0], 0)


def test_errors_of_a_foreign_kernel_come_through():
    def fill(rows, begin, end):
        raise RuntimeError("out of paper")

    store = _core.KernelStore.foreign(np.ones(N), fill, False, 0.0, np.array([0, N]), 100)
    with pytest.raises(RuntimeError, match="out of paper"):
        store.rows([0], 0)


@pytest.mark.parametrize(
    ("scale", "bias", "fits"),
    [(1.0, 1.0, True), (0.0, 1.0, True), (1e30, 1.0, False), (1e-30, 0.0, False), (1.0, 1e12, False)],
)
def test_what_float32_has_room_for(scale, bias, fits):
    rows = scale * np.random.default_rng(0).normal(size=(20, 3))
    assert fits_float32(Kernel("linear"), rows, bias, np.ones(20)) is fits
