"""Decision values: kernel values of scikit-learn times coefficients, in any slabs, threads and storages."""

import tracemalloc
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel, sigmoid_kernel
from threadpoolctl import threadpool_info

from multimargin.kernel import prediction
from multimargin.kernel.functions import Kernel
from multimargin.kernel.prediction import decisions
from multimargin.reductions.pairwise import rounds_of_elimination

PEERS = {
    "linear": (Kernel("linear"), linear_kernel),
    "rbf": (Kernel("rbf", gamma=0.2), partial(rbf_kernel, gamma=0.2)),
    "poly": (Kernel("poly", gamma=0.2, coef0=1.0), partial(polynomial_kernel, gamma=0.2, degree=3, coef0=1.0)),
    "sigmoid": (Kernel("sigmoid", gamma=0.1), partial(sigmoid_kernel, gamma=0.1, coef0=0.0)),
    "callable": (Kernel("callable", function=linear_kernel), linear_kernel),
}
STORAGES = {"dense": np.asarray, "csr": sp.csr_array}


def model(n_vectors=40, n_features=7, n_machines=5, density=0.5, seed=0):
    """Support vectors, coefficients and intercepts."""
    rng = np.random.default_rng(seed)
    coef = sp.random_array((n_vectors, n_machines), density=density, rng=rng, format="csr")
    return rng.normal(size=(n_vectors, n_features)), coef, rng.normal(size=n_machines)


def rows(n, n_features=7, seed=1):
    X = np.random.default_rng(seed).normal(size=(n, n_features))
    X[np.abs(X) < 0.5] = 0
    return X


@pytest.fixture(params=[1, 100, 1000, 1 << 25], ids="slabs of {} bytes".format)
def slabs(request, monkeypatch):
    monkeypatch.setattr(prediction, "SLAB_BYTES", request.param)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("density", [0.02, 0.9])
@pytest.mark.parametrize("y_storage", STORAGES)
@pytest.mark.parametrize("x_storage", STORAGES)
@pytest.mark.parametrize("name", PEERS)
def test_values_are_kernel_times_coefficients(name, x_storage, y_storage, density, n_threads, slabs):
    kernel, peer = PEERS[name]
    (vectors, coef, intercept), X = model(density=density), rows(31)
    values = decisions(kernel, STORAGES[x_storage](X), STORAGES[y_storage](vectors), coef, intercept, n_threads)
    np.testing.assert_allclose(values, peer(X, vectors) @ coef.toarray() + intercept, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("n_threads", [1, 2])
def test_precomputed_takes_the_columns_of_the_support_vectors(storage, n_threads, slabs):
    (_, coef, intercept), K = model(n_vectors=4), rows(31, n_features=20)
    support = np.array([2, 3, 11, 19])
    values = decisions(Kernel("precomputed"), STORAGES[storage](K), support, coef, intercept, n_threads)
    np.testing.assert_allclose(values, K[:, support] @ coef.toarray() + intercept, atol=1e-12)


@pytest.mark.parametrize("x_storage", STORAGES)
@pytest.mark.parametrize("y_storage", STORAGES)
@pytest.mark.parametrize(("x_dtype", "y_dtype"), [("f4", "f4"), ("f4", "f8"), ("f8", "f4")])
@pytest.mark.parametrize("name", ["linear", "rbf", "poly"])
def test_single_precision_rows_give_double_precision_values(name, x_dtype, y_dtype, x_storage, y_storage):
    kernel, peer = PEERS[name]
    vectors, coef, intercept = model()
    X, vectors = rows(31).astype(x_dtype), vectors.astype(y_dtype)
    values = decisions(kernel, STORAGES[x_storage](X), STORAGES[y_storage](vectors), coef, intercept, 1)
    assert values.dtype == np.float64
    expected = peer(X.astype("f8"), vectors.astype("f8")) @ coef.toarray() + intercept
    np.testing.assert_allclose(values, expected, rtol=1e-11, atol=1e-11)


def test_sums_are_in_double_precision():
    """Ten thousand values that cancel but for one: float32 sums would be off by more than the answer."""
    K = np.full((1, 10_001), 0.1, dtype=np.float32)
    coef = np.tile([1000.0, -1000.0], 5001)[:10_001, None]
    values = decisions(Kernel("precomputed"), K, np.arange(10_001), sp.csr_array(coef), np.zeros(1), 1)
    np.testing.assert_allclose(values, 1000 * np.float64(np.float32(0.1)), rtol=1e-9)


@pytest.mark.parametrize("x_storage", STORAGES)
@pytest.mark.parametrize("y_storage", STORAGES)
def test_features_far_from_zero(x_storage, y_storage):
    (vectors, coef, intercept), X = model(), rows(31)
    kernel, peer = PEERS["rbf"]
    far, far_vectors = STORAGES[x_storage](X + 1e7), STORAGES[y_storage](vectors + 1e7)
    values = decisions(kernel, far, far_vectors, coef, intercept, 1)
    np.testing.assert_allclose(values, peer(X, vectors) @ coef.toarray() + intercept, atol=1e-6)


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("storage", STORAGES)
def test_without_support_vectors_there_is_the_intercept(name, storage):
    vectors, coef, intercept = STORAGES[storage](np.empty((0, 7))), sp.csr_array((0, 5)), np.arange(5.0)
    values = decisions(PEERS[name][0], rows(3), vectors, coef, intercept, 1)
    np.testing.assert_array_equal(values, np.tile(intercept, (3, 1)))


@pytest.mark.parametrize("n_threads", [1, 2])
def test_slabs_are_finished_one_by_one(n_threads, slabs):
    """Votes need all machines of a row and no other row."""
    (vectors, coef, intercept), X = model(n_machines=6), rows(31)
    kernel, peer = PEERS["rbf"]
    finish = partial(rounds_of_elimination, n_classes=4)
    finished = decisions(kernel, X, vectors, coef, intercept, n_threads, finish, 4)
    whole = peer(X, vectors) @ coef.toarray() + intercept
    np.testing.assert_array_equal(finished, rounds_of_elimination(whole, 4))


@pytest.mark.parametrize("n_threads", [1, 2])
def test_memory_is_that_of_slabs(n_threads):
    """All kernel values at once would be 400 MB, all pairs' decisions 190 MB."""
    n_vectors, n_classes = 2500, 50
    n_machines = n_classes * (n_classes - 1) // 2
    vectors, coef, intercept = model(n_vectors=n_vectors, n_machines=n_machines, density=0.01)
    X = rows(20_000)
    finish = partial(rounds_of_elimination, n_classes=n_classes)
    tracemalloc.start()
    decisions(PEERS["linear"][0], X, vectors, coef, intercept, n_threads, finish, n_classes)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 120e6 * n_threads


@pytest.mark.parametrize("n_threads", [1, 2])
def test_blas_gets_one_thread_a_worker_and_its_own_back_afterwards(n_threads):
    seen = []

    def watch(X, Y):
        seen.extend(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")
        return linear_kernel(X, Y)

    before = threadpool_info()
    vectors, coef, intercept = model(n_vectors=1000)
    decisions(Kernel("callable", function=watch), rows(3000), vectors, coef, intercept, n_threads)
    assert seen
    assert set(seen) == {1}
    assert threadpool_info() == before


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("factor", [1e200, 4e307])
@pytest.mark.parametrize("storage", STORAGES)
def test_errors_of_a_slab_are_raised(n_threads, factor, storage):
    vectors, coef, intercept = model()
    X, vectors = (STORAGES[storage](factor * part) for part in (rows(31), vectors))
    with pytest.raises(ValueError, match="rbf kernel are not finite"):
        decisions(Kernel("rbf"), X, vectors, coef, intercept, n_threads)
