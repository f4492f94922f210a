"""Kernel functions against scikit-learn's, whatever the storage of the rows; what gamma means; what is refused."""

import pickle
import re
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel, sigmoid_kernel
from sklearn.svm import SVC

from multimargin.kernel.functions import Kernel, resolve_gamma, squared_norms

STORAGES = {"dense": np.asarray, "csr": sp.csr_array, "csr_matrix": sp.csr_matrix}
PEERS = [
    (Kernel("linear"), linear_kernel),
    (Kernel("rbf", gamma=0.3), partial(rbf_kernel, gamma=0.3)),
    (Kernel("poly", gamma=0.2, degree=3, coef0=0.0), partial(polynomial_kernel, gamma=0.2, degree=3, coef0=0.0)),
    (Kernel("poly", gamma=0.2, degree=4, coef0=1.5), partial(polynomial_kernel, gamma=0.2, degree=4, coef0=1.5)),
    (Kernel("poly", gamma=0.2, degree=1, coef0=1.5), partial(polynomial_kernel, gamma=0.2, degree=1, coef0=1.5)),
    (Kernel("poly", gamma=0.2, degree=0, coef0=1.5), lambda X, Y: np.ones((X.shape[0], Y.shape[0]))),
    (Kernel("sigmoid", gamma=0.1, coef0=-0.5), partial(sigmoid_kernel, gamma=0.1, coef0=-0.5)),
]

NAMES = [f"{kernel.name} {kernel.degree}" for kernel, _ in PEERS]
every_kernel = pytest.mark.parametrize(("kernel", "peer"), PEERS, ids=NAMES)


def rows(n, seed, share_of_zeros=0.6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 9))
    X[rng.random(X.shape) < share_of_zeros] = 0
    return X


def distances(X, Y):
    """Squared, by differences: no cancellation."""
    return ((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=2)


@pytest.mark.parametrize("y_storage", STORAGES)
@pytest.mark.parametrize("x_storage", STORAGES)
@pytest.mark.parametrize(("x_dtype", "y_dtype"), [("f8", "f8"), ("f4", "f4"), ("f4", "f8"), ("f8", "f4")])
@every_kernel
def test_blocks_are_scikit_learns(kernel, peer, x_storage, y_storage, x_dtype, y_dtype):
    X, Y = rows(20, 0).astype(x_dtype), rows(33, 1).astype(y_dtype)
    values = kernel.block(STORAGES[x_storage](X), STORAGES[y_storage](Y))
    assert isinstance(values, np.ndarray)
    assert values.dtype == np.result_type(x_dtype, y_dtype)
    rough = 1e-5 if "f4" in (x_dtype, y_dtype) else 1e-12
    np.testing.assert_allclose(values, peer(X.astype("f8"), Y.astype("f8")), rtol=10 * rough, atol=rough)


@pytest.mark.parametrize("share_of_zeros", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("n_features", [5, 400])
def test_sparse_products_by_either_way(n_features, share_of_zeros):
    """Few meetings of non-zeros and many: sparse and dense ways to the same products."""
    X, Y = (sp.random_array((30, n_features), density=1 - share_of_zeros, rng=seed, format="csr") for seed in (0, 1))
    np.testing.assert_allclose(Kernel("linear").block(X, Y), X.toarray() @ Y.toarray().T, atol=1e-12)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@every_kernel
def test_diagonal_is_that_of_the_block(kernel, peer, storage, dtype):
    X = rows(20, 0).astype(dtype)
    diagonal = kernel.diagonal(STORAGES[storage](X))
    assert diagonal.dtype == np.float64
    expected = peer(X.astype("f8"), X.astype("f8")).diagonal()
    np.testing.assert_allclose(diagonal, expected, rtol=1e-6 if dtype == "f4" else 1e-12)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_squared_norms(storage, dtype):
    X = (1e4 * rows(20, 0)).astype(dtype)
    norms = squared_norms(STORAGES[storage](X))
    assert norms.dtype == np.float64
    np.testing.assert_allclose(norms, (X.astype("f8") ** 2).sum(axis=1), rtol=1e-13)


# rbf: distances from norms and products


@pytest.mark.parametrize(("dtype", "offset", "error"), [("f8", 1e6, 1e-8), ("f8", 1e8, 1e-8), ("f4", 1e3, 1e-5)])
@pytest.mark.parametrize("x_storage", ["dense", "csr"])
def test_features_far_from_zero_keep_their_distances(dtype, offset, error, x_storage):
    """Without a shift all digits of the distances are lost here."""
    X, Y = ((rows(n, seed, 0.0) + offset).astype(dtype) for n, seed in ((20, 0), (33, 1)))
    values = Kernel("rbf", gamma=0.3).block(STORAGES[x_storage](X), Y)
    np.testing.assert_allclose(values, np.exp(-0.3 * distances(X.astype("f8"), Y.astype("f8"))), atol=error)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("storage", STORAGES)
def test_rbf_is_at_most_one(dtype, storage):
    X = STORAGES[storage]((1000 * rows(50, 0)).astype(dtype))
    values = Kernel("rbf", gamma=1e-3).block(X, X)
    assert values.max() <= 1
    np.testing.assert_allclose(values.diagonal(), 1, atol=1e-9 if dtype == "f8" else 1e-2)


@pytest.mark.parametrize("storage", STORAGES)
def test_given_norms_are_used(storage):
    X, Y = rows(20, 0), rows(33, 1)
    kernel = Kernel("rbf", gamma=0.3)
    x_norms, y_norms = (X**2).sum(axis=1), (Y**2).sum(axis=1)
    values = kernel.block(STORAGES[storage](X), STORAGES[storage](Y), x_norms, y_norms)
    np.testing.assert_allclose(values, np.exp(-0.3 * distances(X, Y)), rtol=1e-10)
    further = kernel.block(STORAGES[storage](X), STORAGES[storage](Y), x_norms + 1, y_norms)
    np.testing.assert_allclose(further, values * np.exp(-0.3), rtol=1e-10)


def test_blocks_leave_the_rows_alone():
    X, Y = rows(20, 0), rows(33, 1)
    for kernel, _ in PEERS:
        kernel.block(X, Y)
        kernel.diagonal(X)
    np.testing.assert_array_equal(X, rows(20, 0))
    np.testing.assert_array_equal(Y, rows(33, 1))


# Precomputed values and callables


@pytest.mark.parametrize("storage", STORAGES)
def test_precomputed_values_are_handed_through(storage):
    K = rows(7, 0)[:, :7]
    np.testing.assert_array_equal(Kernel("precomputed").block(STORAGES[storage](K), None), K)
    np.testing.assert_array_equal(Kernel("precomputed").diagonal(STORAGES[storage](K)), K.diagonal())


def one_norm(X, Y):
    return np.exp(-np.abs(X[:, None, :] - Y[None, :, :]).sum(axis=2))


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
def test_callable_is_called(n):
    X, Y = rows(n, 0), rows(33, 1)
    kernel = Kernel("callable", function=one_norm)
    np.testing.assert_array_equal(kernel.block(X, Y), one_norm(X, Y))
    np.testing.assert_array_equal(kernel.diagonal(X), one_norm(X, X).diagonal())


@pytest.mark.parametrize("given", [int, np.float32, bool], ids=lambda given: given.__name__)
def test_callable_may_return_any_real_numbers(given):
    kernel = Kernel("callable", function=lambda X, Y: np.ones((len(X), len(Y))).astype(given))
    values = kernel.block(rows(3, 0), rows(4, 1))
    assert values.dtype in (np.float32, np.float64)
    np.testing.assert_array_equal(values, 1)


def test_callable_may_return_sparse_values_and_lists():
    X, Y = rows(3, 0), rows(4, 1)
    as_list = Kernel("callable", function=lambda X, Y: (X @ Y.T).tolist())
    np.testing.assert_array_equal(as_list.block(X, Y), X @ Y.T)
    sparse = Kernel("callable", function=lambda X, Y: X @ Y.T)
    np.testing.assert_allclose(sparse.block(sp.csr_array(X), sp.csr_array(Y)), X @ Y.T, atol=1e-12)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda X, Y: np.ones((len(Y), len(X))), r"transposed.*shape \(3, 4\), got \(4, 3\)"),
        (lambda X, Y: np.ones(len(X)), r"transposed.*shape \(3, 4\), got \(3,\)"),
        (lambda X, Y: 1.0, r"transposed.*shape \(3, 4\), got \(\)"),
        (lambda X, Y: np.ones((len(X), len(Y)), dtype=complex), "transposed.*real numbers, got dtype complex"),
        (lambda X, Y: np.ma.masked_less(X @ Y.T, 0.5), r"transposed.*returned masked entries.*filled"),
        (lambda X, Y: np.full((len(X), len(Y)), "a"), "transposed.*real numbers, got dtype"),
        (lambda X, Y: np.full((len(X), len(Y)), np.nan), "callable kernel are not finite.*transposed"),
        (lambda X, Y: np.full((len(X), len(Y)), -np.inf), "callable kernel are not finite.*transposed"),
    ],
)
def test_what_a_callable_must_not_return(returned, message):
    def transposed(X, Y):
        return returned(X, Y)

    with pytest.raises(ValueError, match=message):
        Kernel("callable", function=transposed).block(rows(3, 0), rows(4, 1))


# Values that are not finite


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize(
    ("kernel", "factor"),
    [
        (Kernel("linear"), 1e200),
        (Kernel("rbf"), 1e200),
        (Kernel("poly", degree=7), 1e30),
        (Kernel("sigmoid"), 1e200),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_overflow_is_refused_with_advice(kernel, factor, storage):
    X = STORAGES[storage](factor * rows(20, 0))
    with pytest.raises(ValueError, match=f"values of the {kernel.name} kernel are not finite.*scale the features down"):
        kernel.block(X, X)


@pytest.mark.parametrize("kernel", [Kernel("linear"), Kernel("poly", degree=7)], ids=lambda kernel: kernel.name)
def test_diagonal_that_overflows_is_refused(kernel):
    with pytest.raises(ValueError, match=f"{kernel.name} kernel are not finite"):
        kernel.diagonal(1e200 * rows(20, 0))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_precomputed_values_must_be_finite(value):
    K = np.eye(4)
    K[2, 1] = value
    with pytest.raises(ValueError, match="values of the precomputed kernel are not finite"):
        Kernel("precomputed").block(K, None)


def test_advice_names_the_parameters_that_help():
    with pytest.raises(ValueError, match=re.escape("scale the features down or take a smaller gamma, degree or coef0")):
        Kernel("poly", degree=300).block(100 * rows(20, 0), rows(3, 1))


# gamma


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("gamma", ["scale", "auto", 0.25])
def test_gamma_is_svcs(gamma, dtype, storage):
    X = (3 * rows(40, 0) + (rows(40, 0) != 0)).astype(dtype)
    peer = SVC(gamma=gamma).fit(STORAGES[storage](X), np.arange(40) % 2)
    assert resolve_gamma(gamma, STORAGES[storage](X)) == pytest.approx(
        peer._gamma, rel=1e-6 if dtype == "f4" else 1e-12
    )


@pytest.mark.parametrize("X", [np.full((5, 3), 7.0), np.zeros((5, 3)), sp.csr_array((5, 3))], ids=["7", "0", "empty"])
def test_gamma_without_variance_is_one(X):
    assert resolve_gamma("scale", X) == 1.0


def test_variance_far_from_zero_keeps_its_digits():
    X = rows(50, 0, 0.0)
    expected = 1 / (9 * X.var())
    assert resolve_gamma("scale", X + 2.0**26) == pytest.approx(expected, rel=1e-6)
    assert resolve_gamma("scale", sp.csr_array(X + 2.0**26)) == pytest.approx(expected, rel=1e-6)


def test_variance_of_long_arrays_is_that_of_all_rows(monkeypatch):
    monkeypatch.setattr("multimargin.kernel.functions._VARIANCE_BYTES", 8 * 9 * 7)
    X = rows(50, 0)
    for stored in (X, sp.csr_array(X)):
        assert resolve_gamma("scale", stored) == pytest.approx(1 / (9 * X.var()), rel=1e-12)


@pytest.mark.parametrize("storage", STORAGES)
def test_weights_count_rows_in_the_variance(storage):
    X, times = rows(50, 0), np.random.default_rng(0).integers(0, 4, 50)
    repeated = resolve_gamma("scale", STORAGES[storage](X.repeat(times, axis=0)))
    assert resolve_gamma("scale", STORAGES[storage](X), times.astype(float)) == pytest.approx(repeated, rel=1e-12)
    assert resolve_gamma("scale", STORAGES[storage](X), 1e-3 * times) == pytest.approx(repeated, rel=1e-12)
    assert repeated != pytest.approx(resolve_gamma("scale", STORAGES[storage](X)), rel=1e-3)


def test_variance_that_overflows_is_refused():
    for storage in STORAGES.values():
        with pytest.raises(ValueError, match=r"gamma='scale'.*overflows: scale the features down"):
            resolve_gamma("scale", storage(1e200 * rows(50, 0)))
    with pytest.raises(ValueError, match=r"gamma='scale' overflows.*scale the features up"):
        resolve_gamma("scale", 1e-160 * rows(50, 0))


# A kernel is a value


def test_kernels_are_values():
    kernel = Kernel("callable", gamma=2.0, function=one_norm)
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert Kernel("rbf", 0.5) == Kernel("rbf", gamma=0.5) != Kernel("rbf", 0.6)
    with pytest.raises(AttributeError):
        kernel.gamma = 3.0
