"""KernelSVM.fit: what a fitted model holds, which problem it solves, and what it does not depend on."""

import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel, polynomial_kernel, rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.class_weight import compute_class_weight

from multimargin import KernelSVM, LinearSVM
from multimargin.kernel import training

FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
PAIRWISE, JOINT = ("one_vs_one", "dag"), ("crammer_singer", "weston_watkins")
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS)
free_bias = pytest.mark.parametrize("formulation", ["one_vs_rest", "one_vs_one", "dag"])
joint = pytest.mark.parametrize("formulation", JOINT)


def blobs(k, n_samples=120, n_features=6, seed=0):
    """Overlapping classes: some rows are on the wrong side of every border."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % k
    return rng.normal(size=(k, n_features))[y] + rng.normal(size=(n_samples, n_features)), y


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


def n_machines(formulation, k):
    return 1 if k == 2 else k * (k - 1) // 2 if formulation in PAIRWISE else k


def objectives(model, K, y, cap):
    """Primal and dual value of the formulation at the model's duals, straight from the definitions."""
    k, y = len(model.classes_), np.searchsorted(model.classes_, y)
    alpha, row = model.dual_coef_.toarray(), np.arange(len(y))
    scores = K @ alpha + model.intercept_
    bias = model.intercept_scaling**2 if model.fit_intercept and model.formulation in JOINT else 0.0
    penalty = 0.5 * np.sum(alpha * ((K + bias) @ alpha))

    def hinge(slack, cap=cap):
        return cap @ np.maximum(slack, 0)

    if k == 2:
        sign, half = np.where(y == 1, 1, -1), 0.5 if model.formulation in JOINT else 1.0  # w_1 = -w_0 = w / 2
        loss = hinge(1 - sign * scores[:, 0])
        return half * penalty + loss, half * (np.abs(alpha).sum() - penalty)
    if model.formulation in PAIRWISE:
        loss = 0.0
        for machine, (i, j) in enumerate(combinations(range(k), 2)):
            here = (y == i) | (y == j)
            loss += hinge(1 - np.where(y == i, 1, -1)[here] * scores[here, machine], cap[here])
        return penalty + loss, np.abs(alpha).sum() - penalty
    if model.formulation == "one_vs_rest":
        loss = sum(hinge(1 - np.where(y == m, 1, -1) * scores[:, m]) for m in range(k))
        return penalty + loss, np.abs(alpha).sum() - penalty
    slack = 1 + scores - scores[row, y][:, None]
    slack[row, y] = 0
    if model.formulation == "crammer_singer":
        loss = hinge(slack.max(axis=1))
    else:
        loss = sum(hinge(slack[:, m]) for m in range(k))
    return penalty + loss, alpha[row, y].sum() - penalty


def assert_same_optimum(model, other):
    """Two certified models of the same problem: their intervals [dual, primal] overlap, and both are short.

    Kernel values in float32 move the ends by a tenth of ``tol`` at most.
    """
    slack = max(1e-10, 0.1 * max(model.tol, other.tol)) * abs(model.primal_objective_)
    assert model.dual_objective_ <= other.primal_objective_ + slack
    assert other.dual_objective_ <= model.primal_objective_ + slack
    for each in (model, other):
        assert each.dual_gap_ <= each.tol
        assert each.converged_


# Fitted attributes


@pytest.mark.parametrize("k", [2, 3, 5])
@every_formulation
def test_shapes(formulation, k):
    X, y = blobs(k)
    model = KernelSVM(formulation).fit(X, y)
    machines = n_machines(formulation, k)
    assert model.intercept_.shape == (machines,)
    assert sp.issparse(model.dual_coef_)
    assert model.dual_coef_.shape == (120, machines)
    assert model.dual_coef_.dtype == model.intercept_.dtype == np.float64
    np.testing.assert_array_equal(model.classes_, np.arange(k))
    assert model.n_features_in_ == 6
    assert model.shape_fit_ == (120, 6)
    assert model.decision_function(X).shape == ((120,) if k == 2 else (120, k))
    assert isinstance(model.n_iter_, int)
    assert 1 <= model.n_iter_ <= model.max_iter
    assert model.converged_ is True


@every_formulation
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_support_is_unique_rows_with_duals(iris, formulation, container):
    X, y = iris
    model = KernelSVM(formulation, tol=1e-6).fit(container(X), y)
    expected = np.flatnonzero(np.abs(model.dual_coef_.toarray()).sum(axis=1))
    np.testing.assert_array_equal(model.support_, expected)
    assert 3 <= len(model.support_) < len(y)
    vectors = model.support_vectors_
    assert sp.issparse(vectors) == (container is sp.csr_array)
    np.testing.assert_array_equal(vectors.toarray() if sp.issparse(vectors) else vectors, X[expected])
    np.testing.assert_array_equal(model.n_support_, np.bincount(y[expected], minlength=3))


@every_formulation
def test_the_last_x_of_training_is_not_needed(formulation):
    X, y = blobs(3)
    model = KernelSVM(formulation).fit(X, y)
    before = model.decision_function(X.copy())
    copied = X.copy()
    X[:] = np.nan
    np.testing.assert_array_equal(model.decision_function(copied), before)


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("tol", [1e-3, 1e-7])
@pytest.mark.parametrize("intercept", [{"fit_intercept": False}, {}, {"intercept_scaling": 4.0}], ids=str)
@every_formulation
def test_certificate_is_about_the_duals_that_are_handed_out(formulation, k, intercept, tol):
    if "intercept_scaling" in intercept and formulation not in JOINT:
        intercept = {}
    X, y = blobs(k)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    model = KernelSVM(formulation, C=0.7, gamma=0.1, tol=tol, **intercept).fit(X, y, weight)
    primal, dual = objectives(model, rbf_kernel(X, gamma=0.1), y, 0.7 * weight)
    rounding = 0.1 * tol if tol >= 1e-5 else 1e-9
    assert model.primal_objective_ == pytest.approx(primal, rel=rounding)
    assert model.dual_objective_ == pytest.approx(dual, rel=rounding)
    gap = (model.primal_objective_ - model.dual_objective_) / model.primal_objective_
    assert gap - 1e-15 <= model.dual_gap_ <= gap + 1e-4 * tol  # with what rounding may have done
    assert 0 <= model.dual_gap_ <= tol
    assert model.dual_gap_ - 1e-15 <= model.worst_gap_ <= tol


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("fit_intercept", [True, False])
@every_formulation
def test_duals_are_feasible(formulation, k, fit_intercept):
    X, y = blobs(k)
    weight = np.random.default_rng(2).uniform(0.5, 2, len(y))
    model = KernelSVM(formulation, C=0.7, tol=1e-6, fit_intercept=fit_intercept).fit(X, y, weight)
    alpha, cap = model.dual_coef_.toarray(), 0.7 * weight[:, None] * (1 + 1e-9)
    own = y[:, None] == np.arange(k)
    if k == 2:
        signed = alpha * np.where(y == 1, 1, -1)[:, None]
        cap = cap * (2 if formulation in JOINT else 1)
    elif formulation == "one_vs_rest":
        signed = alpha * np.where(own, 1, -1)
    elif formulation in PAIRWISE:
        first, second = np.array(list(combinations(range(k), 2))).T
        signed = alpha * (1.0 * (y[:, None] == first) - 1.0 * (y[:, None] == second))
        assert np.all((alpha == 0) | (y[:, None] == first) | (y[:, None] == second))
    else:
        np.testing.assert_allclose(alpha.sum(axis=1), 0, atol=1e-9)
        signed = -np.where(own, 0, alpha)
        if formulation == "crammer_singer":
            assert np.all(alpha[own] <= cap[:, 0])
    assert np.all(signed >= 0)
    assert np.all(signed <= cap)
    if formulation not in JOINT and fit_intercept:
        np.testing.assert_allclose(alpha.sum(axis=0), 0, atol=1e-9)


@every_formulation
def test_no_intercept_is_zero(formulation):
    X, y = blobs(3)
    np.testing.assert_array_equal(KernelSVM(formulation, fit_intercept=False).fit(X, y).intercept_, 0)
    assert np.abs(KernelSVM(formulation).fit(X, y).intercept_).max() > 1e-3


@joint
@pytest.mark.parametrize("k", [2, 4])
def test_regularised_intercept_is_the_sum_of_the_duals(formulation, k):
    X, y = blobs(k)
    model = KernelSVM(formulation, intercept_scaling=3.0).fit(X, y)
    np.testing.assert_allclose(model.intercept_, 9 * model.dual_coef_.sum(axis=0), rtol=1e-9, atol=1e-12)


@joint
def test_larger_intercept_scaling_regularises_the_intercept_less(formulation):
    X, y = blobs(2)
    free, held = (
        KernelSVM(formulation, "linear", intercept_scaling=scale, max_iter=10_000).fit(X + 5, y)
        for scale in (20.0, 0.05)
    )
    assert abs(free.intercept_[0]) > 5 * abs(held.intercept_[0])


@pytest.mark.parametrize("names", [["banana", "apple", "cherry"], [-7, 40, 3], [2.0, 1.0, 3.0], [True, False]], ids=str)
@every_formulation
def test_any_labels(formulation, names):
    X, y = blobs(len(names))
    names = np.array(names)
    model = KernelSVM(formulation).fit(X, names[y])
    np.testing.assert_array_equal(model.classes_, np.unique(names))
    assert model.predict(X).dtype == names.dtype
    encoded = KernelSVM(formulation).fit(X, np.argsort(np.argsort(names))[y])
    np.testing.assert_array_equal(model.predict(X), model.classes_[encoded.predict(X)])


def test_gamma_is_resolved(iris):
    X, y = iris
    assert KernelSVM(gamma="auto").fit(X, y).gamma_ == 0.25
    assert KernelSVM(gamma="scale").fit(X, y).gamma_ == pytest.approx(1 / (4 * X.var()), rel=1e-12)
    assert KernelSVM(gamma=0.7).fit(X, y).gamma_ == 0.7
    assert KernelSVM(kernel="linear").fit(X, y).gamma_ is None


def test_weights_count_rows_in_the_gamma_of_scale(iris):
    X, y = iris
    times = np.random.default_rng(0).integers(0, 4, len(y))
    weighted = KernelSVM().fit(X, y, times)
    assert weighted.gamma_ == pytest.approx(1 / (4 * X.repeat(times, axis=0).var()), rel=1e-12)
    # Weights of classes are about the loss only.
    assert KernelSVM(class_weight={0: 9.0}).fit(X, y).gamma_ == pytest.approx(1 / (4 * X.var()), rel=1e-12)


# Against LIBSVM, which has the same free bias

TIGHT = {"tol": 1e-9, "max_iter": 100_000}


def objective_of_svc(svc, K):
    """sum alpha - 1/2 alpha' Q alpha of a binary SVC."""
    signed = np.zeros(len(K))
    signed[svc.support_] = svc.dual_coef_[0]
    return np.abs(signed).sum() - 0.5 * signed @ K @ signed


@pytest.mark.filterwarnings("ignore:KernelSVM converged, but its gap proves nothing")
@free_bias
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "kernel",
    [
        {"kernel": "rbf", "gamma": 0.2},
        {"kernel": "linear"},
        {"kernel": "poly", "gamma": 0.3, "degree": 2, "coef0": 1.0},
        {"kernel": "sigmoid", "gamma": 0.01},
    ],
    ids=lambda kernel: kernel["kernel"],
)
def test_two_classes_are_svc(formulation, kernel, weighted):
    X, y = blobs(2)
    weight = np.random.default_rng(0).uniform(0.2, 3, len(y)) if weighted else None
    model = KernelSVM(formulation, C=0.8, **kernel, **TIGHT).fit(X, y, weight)
    svc = SVC(C=0.8, tol=1e-9, **kernel).fit(X, y, weight)
    np.testing.assert_allclose(model.decision_function(X), svc.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(model.intercept_, svc.intercept_, atol=1e-5)
    K = linear_kernel(X) if kernel["kernel"] == "linear" else None
    K = rbf_kernel(X, gamma=0.2) if kernel["kernel"] == "rbf" else K
    if K is not None:
        assert model.dual_objective_ == pytest.approx(objective_of_svc(svc, K), rel=1e-8)


@pytest.mark.parametrize("k", [3, 5])
@pytest.mark.parametrize("formulation", PAIRWISE)
def test_pairs_are_those_of_svc(formulation, k):
    X, y = blobs(k)
    model = KernelSVM(formulation, C=2.0, decision_function_shape="ovo", **TIGHT).fit(X, y)
    svc = SVC(C=2.0, decision_function_shape="ovo", tol=1e-9).fit(X, y)
    test = blobs(k, seed=7)[0]
    np.testing.assert_allclose(model.decision_function(test), svc.decision_function(test), atol=1e-4)
    np.testing.assert_array_equal(np.sort(svc.support_), model.support_)
    np.testing.assert_array_equal(svc.n_support_, model.n_support_)
    if formulation == "one_vs_one":
        np.testing.assert_array_equal(model.predict(test), svc.predict(test))


def test_one_vs_rest_is_svc_class_by_class():
    X, y = blobs(4)
    model = KernelSVM("one_vs_rest", C=2.0, gamma=0.1, **TIGHT).fit(X, y)
    test = blobs(4, seed=7)[0]
    for m in range(4):
        svc = SVC(C=2.0, gamma=0.1, tol=1e-9).fit(X, y == m)
        np.testing.assert_allclose(model.decision_function(test)[:, m], svc.decision_function(test), atol=1e-4)


def test_balanced_classes_are_svcs():
    X, y = blobs(3)
    X, y = X[:100], np.where(y[:100] == 0, 1, y[:100])
    model = KernelSVM("one_vs_one", class_weight="balanced", gamma=0.1, **TIGHT).fit(X, y)
    svc = SVC(class_weight="balanced", gamma=0.1, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), svc.decision_function(X), atol=1e-5)


def test_balanced_classes_count_rows_by_their_weight_and_svcs_do_not():
    """docs/kernel.md, Coming from SVC."""
    X, y = blobs(2)
    weight = np.where(y == 0, 4.0, 1.0)
    model = KernelSVM("one_vs_one", class_weight="balanced", gamma=0.1, **TIGHT).fit(X, y, weight)
    svc = SVC(class_weight="balanced", gamma=0.1, tol=1e-9).fit(X, y, weight)
    by_weight = SVC(class_weight={0: 300 / 480, 1: 300 / 120}, gamma=0.1, tol=1e-9).fit(X, y, weight)
    by_rows = SVC(gamma=0.1, tol=1e-9).fit(X, y, weight)
    np.testing.assert_allclose(model.decision_function(X), by_weight.decision_function(X), atol=1e-5)
    np.testing.assert_allclose(svc.decision_function(X), by_rows.decision_function(X), atol=1e-5)
    assert np.abs(model.decision_function(X) - svc.decision_function(X)).max() > 0.1


def satellite(n_samples, seed):
    """Six classes of four bands in nine neighbouring pixels, some classes hard to tell apart."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(6, 4))
    centres[3:5] = centres[2] + 0.5 * rng.normal(size=(2, 4))
    rng = np.random.default_rng(seed)
    y = rng.choice(6, n_samples, p=[0.24, 0.11, 0.21, 0.1, 0.11, 0.23])
    pixel = centres[y] + 0.3 * rng.normal(size=(n_samples, 4))
    return np.repeat(pixel, 9, axis=1) + 0.2 * rng.normal(size=(n_samples, 36)), y


def test_predictions_of_one_vs_one_are_those_of_svc():
    X, y = satellite(1500, 1)
    test, truth = satellite(2000, 2)
    scaler = StandardScaler().fit(X)
    X, test = scaler.transform(X), scaler.transform(test)
    model = KernelSVM("one_vs_one", C=4.0, tol=1e-5).fit(X, y)
    svc = SVC(C=4.0, tol=1e-5).fit(X, y)
    assert np.mean(model.predict(test) == svc.predict(test)) > 0.999
    assert svc.score(test, truth) < 0.97  # or agreement would be no test
    for formulation in FORMULATIONS:
        other = KernelSVM(formulation, C=4.0).fit(X, y)
        assert other.score(test, truth) == pytest.approx(svc.score(test, truth), abs=0.02)


# The linear kernel


@pytest.mark.parametrize("intercept", [{"fit_intercept": False}, {}, {"intercept_scaling": 2.0}], ids=str)
@pytest.mark.parametrize("k", [2, 3, 5])
@joint
def test_linear_kernel_is_linear_svm(formulation, k, intercept):
    X, y = blobs(k)
    kernel = KernelSVM(formulation, "linear", 0.3, tol=1e-8, max_iter=100_000, **intercept).fit(X, y)
    linear = LinearSVM(formulation, C=0.3, tol=1e-8, solver="newton", **intercept).fit(X, y)
    assert_same_optimum(kernel, linear)
    np.testing.assert_allclose(kernel.coef_, linear.coef_, atol=1e-3)
    np.testing.assert_allclose(kernel.intercept_, linear.intercept_, atol=1e-3)
    np.testing.assert_allclose(kernel.decision_function(X), linear.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("k", [2, 4])
@free_bias
def test_linear_kernel_without_intercept_is_linear_svm(formulation, k):
    """With one they differ: the linear machines' is regularised."""
    X, y = blobs(k)
    kernel = KernelSVM(formulation, "linear", 0.3, tol=1e-8, max_iter=100_000, fit_intercept=False).fit(X, y)
    linear = LinearSVM(formulation, C=0.3, tol=1e-8, solver="newton", fit_intercept=False).fit(X, y)
    assert_same_optimum(kernel, linear)
    np.testing.assert_allclose(kernel.coef_, linear.coef_, atol=1e-3)


@every_formulation
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_coef_is_there_for_the_linear_kernel_only(formulation, container):
    X, y = blobs(3)
    model = KernelSVM(formulation, "linear", decision_function_shape="ovr").fit(container(X), y)
    assert model.coef_.shape == (3, 6)
    np.testing.assert_allclose(model.coef_, model.dual_coef_.T @ X, atol=1e-12)
    with pytest.raises(AttributeError, match="kernel='linear'"):
        _ = KernelSVM(formulation).fit(X, y).coef_
    assert not hasattr(KernelSVM(kernel="linear"), "coef_")


@pytest.mark.parametrize("formulation", JOINT)
def test_two_classes_are_the_binary_machine_at_twice_the_c(formulation):
    X, y = blobs(2)
    K = rbf_kernel(X, gamma=0.1)
    at_c = KernelSVM(formulation, C=1.0, gamma=0.1, fit_intercept=False, tol=1e-8).fit(X, y)
    binary = KernelSVM("one_vs_rest", C=2.0, gamma=0.1, fit_intercept=False, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(at_c.decision_function(X), binary.decision_function(X), atol=1e-3)
    assert at_c.primal_objective_ == pytest.approx(binary.primal_objective_ / 2, rel=1e-7)
    assert objectives(at_c, K, y, np.ones(len(y)))[0] == pytest.approx(at_c.primal_objective_, rel=1e-9)


# Weights


@every_formulation
def test_class_weight_dict_is_sample_weight(iris, formulation):
    X, y = iris
    by_class = KernelSVM(formulation, gamma=0.2, class_weight={0: 0.5, 2: 4.0}).fit(X, y)
    by_row = KernelSVM(formulation, gamma=0.2).fit(X, y, np.array([0.5, 1.0, 4.0])[y])
    np.testing.assert_array_equal(by_class.dual_coef_.toarray(), by_row.dual_coef_.toarray())
    plain = KernelSVM(formulation, gamma=0.2).fit(X, y)
    assert not np.array_equal(by_class.dual_coef_.toarray(), plain.dual_coef_.toarray())


@every_formulation
def test_balanced_class_weight_is_scikit_learns(iris, formulation):
    X, y = iris
    X, y = X[20:130], y[20:130]
    weight = compute_class_weight("balanced", classes=np.arange(3), y=y)
    balanced = KernelSVM(formulation, gamma=0.2, class_weight="balanced", tol=1e-6).fit(X, y)
    assert balanced.primal_objective_ == pytest.approx(
        objectives(balanced, rbf_kernel(X, gamma=0.2), y, weight[y])[0], rel=1e-9
    )


@every_formulation
def test_weight_zero_is_the_row_removed(iris, formulation):
    X, y = iris
    kept = np.random.default_rng(0).random(len(y)) < 0.7
    weighted = KernelSVM(formulation, tol=1e-6).fit(X, y, kept.astype(float))
    removed = KernelSVM(formulation, tol=1e-6).fit(X[kept], y[kept])
    assert_same_optimum(weighted, removed)
    np.testing.assert_allclose(weighted.decision_function(X), removed.decision_function(X), atol=0.02)
    assert not weighted.dual_coef_[~kept].nnz
    assert kept[weighted.support_].all()


@every_formulation
def test_a_class_without_weight_is_hardly_ever_predicted(iris, formulation):
    X, y = iris
    model = KernelSVM(formulation).fit(X, y, np.where(y == 2, 0.0, 1.0))
    assert model.n_support_[2] == 0
    assert not np.any(model.predict(X[y == 0]) == 2)


@every_formulation
def test_weight_two_is_the_row_twice(iris, formulation):
    X, y = iris
    times = np.random.default_rng(0).integers(1, 4, len(y))
    weighted = KernelSVM(formulation, tol=1e-6).fit(X, y, times)
    repeated = KernelSVM(formulation, tol=1e-6).fit(X.repeat(times, axis=0), y.repeat(times))
    assert_same_optimum(weighted, repeated)
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=0.02)


@every_formulation
def test_c_scales_like_weights(iris, formulation):
    X, y = iris
    by_c = KernelSVM(formulation, C=4.0).fit(X, y)
    by_weight = KernelSVM(formulation, C=1.0).fit(X, y, np.full(len(y), 4.0))
    np.testing.assert_array_equal(by_c.dual_coef_.toarray(), by_weight.dual_coef_.toarray())
    assert by_c.primal_objective_ == by_weight.primal_objective_


# Kernels and storages


def laplace(X, Y):
    X, Y = (part.toarray() if sp.issparse(part) else part for part in (X, Y))
    return np.exp(-0.2 * np.abs(X[:, None, :] - Y[None, :, :]).sum(axis=2))


@pytest.mark.parametrize("tol", [1e-3, 1e-7])
@pytest.mark.parametrize("k", [2, 4])
@every_formulation
def test_precomputed_and_callable_kernels_are_the_kernel(formulation, k, tol):
    X, y = blobs(k)
    test = blobs(k, seed=3)[0]

    def same(X, Y):
        return rbf_kernel(X, Y, gamma=0.2)

    named = KernelSVM(formulation, gamma=0.2, tol=tol).fit(X, y)
    called = KernelSVM(formulation, same, tol=tol).fit(X, y)
    computed = KernelSVM(formulation, "precomputed", tol=tol).fit(rbf_kernel(X, gamma=0.2), y)
    for other, rows in ((called, test), (computed, rbf_kernel(test, X, gamma=0.2))):
        assert_same_optimum(named, other)
        np.testing.assert_allclose(other.decision_function(rows), named.decision_function(test), atol=20 * tol**0.5)
    assert computed.support_vectors_.shape == (0, 0)
    assert computed.shape_fit_ == (len(y), len(y))
    assert called.support_vectors_.shape[1] == 6


@every_formulation
def test_a_kernel_of_ones_own(formulation):
    X, y = blobs(3)
    model = KernelSVM(formulation, laplace, tol=1e-6).fit(X, y)
    primal, dual = objectives(model, laplace(X, X), y, np.ones(len(y)))
    assert primal - dual <= 1e-6 * primal
    sparse = KernelSVM(formulation, laplace, tol=1e-6).fit(sp.csr_array(X), y)
    assert_same_optimum(model, sparse)


@every_formulation
def test_polynomials(formulation):
    X, y = blobs(3)
    model = KernelSVM(formulation, "poly", gamma=0.1, degree=2, coef0=0.5, tol=1e-6, max_iter=10_000).fit(X, y)
    primal, dual = objectives(model, polynomial_kernel(X, degree=2, gamma=0.1, coef0=0.5), y, np.ones(len(y)))
    assert primal - dual <= 1e-6 * primal


def containers(X):
    coordinates = sp.coo_array(X)
    order = np.random.default_rng(0).permutation(coordinates.nnz)
    row, column = (index[order] for index in coordinates.coords)
    values = coordinates.data[order]
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    unsorted = sp.csr_array(X)
    for begin, end in zip(unsorted.indptr[:-1], unsorted.indptr[1:], strict=True):
        unsorted.indices[begin:end] = unsorted.indices[begin:end][::-1].copy()
        unsorted.data[begin:end] = unsorted.data[begin:end][::-1].copy()
    doubled = sp.csr_array(X)
    doubled = sp.csr_array((doubled.data.repeat(2) / 2, doubled.indices.repeat(2), 2 * doubled.indptr), shape=X.shape)
    padded = np.zeros((2 * X.shape[0], X.shape[1] + 3), dtype=X.dtype)
    padded[::2, 1:-2] = X
    read_only = X.copy()
    read_only.flags.writeable = False
    return {
        "Fortran order": np.asfortranarray(X),
        "a view": padded[::2, 1:-2],
        "read only": read_only,
        "list": X.tolist(),
        "csr": sp.csr_array(X),
        "csr_matrix": sp.csr_matrix(X),
        "csr, int64 indices": wide,
        "csr, unsorted": unsorted,
        "csr, entries in halves": doubled,
        "csc": sp.csc_array(X),
        "coo, entries in halves": sp.coo_array(
            (np.tile(values / 2, 2), (np.tile(row, 2), np.tile(column, 2))), shape=X.shape
        ),
    }


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@every_formulation
def test_storage_does_not_matter(digits, formulation, kernel, dtype):
    X, y = digits[0][:200, 10:30].astype(dtype), digits[1][:200] % 4
    options = {"tol": 1e-5, "C": 0.1, "max_iter": 10_000}
    reference = KernelSVM(formulation, kernel, **options).fit(X, y)
    expected = reference.decision_function(X)
    for name, stored in containers(X).items():
        model = KernelSVM(formulation, kernel, **options).fit(stored, y)
        assert_same_optimum(model, reference)
        for used in (stored, X, sp.csr_array(X)):  # trained on one, predicts another
            np.testing.assert_allclose(model.decision_function(used), expected, err_msg=name, atol=0.02)


@pytest.mark.parametrize("solver", ["block", "decomposition"])
@every_formulation
def test_a_million_features_of_which_few_occur(digits, formulation, solver):
    X, y = sp.csr_array(digits[0][:600]), digits[1][:600]
    wide = sp.csr_array((X.data, X.indices * 20_000, X.indptr), shape=(600, 64 * 20_000))
    near, far = (KernelSVM(formulation, gamma=0.05, solver=solver).fit(rows, y) for rows in (X, wide))
    np.testing.assert_array_equal(far.dual_coef_.toarray(), near.dual_coef_.toarray())


def test_fit_leaves_x_alone(digits):
    X, y = digits[0][:200], digits[1][:200]
    for name, stored in containers(X).items():
        before = stored.copy()
        KernelSVM().fit(stored, y).predict(stored)
        if sp.issparse(stored) and stored.format == "csr":
            np.testing.assert_array_equal(before.indices, stored.indices, err_msg=name)
            np.testing.assert_array_equal(before.data, stored.data, err_msg=name)
        elif not sp.issparse(stored):
            np.testing.assert_array_equal(before, stored, err_msg=name)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@every_formulation
def test_float32_is_certified_like_float64(digits, formulation, convert, tol):
    X, y = digits[0][:400].astype(np.float32), digits[1][:400]
    options = {"tol": tol, "gamma": 0.05}
    single = KernelSVM(formulation, **options).fit(convert(X), y)
    double = KernelSVM(formulation, **options).fit(convert(X.astype(np.float64)), y)
    assert_same_optimum(single, double)
    assert single.support_vectors_.dtype == np.float32
    primal, _ = objectives(single, rbf_kernel(X.astype(np.float64), gamma=0.05), y, np.ones(len(y)))
    assert single.primal_objective_ == pytest.approx(primal, rel=0.1 * tol)


def test_features_far_from_zero_are_no_trouble(iris):
    X, y = iris
    near, far = (KernelSVM(gamma=0.3, tol=1e-4).fit(rows, y) for rows in (X, X + 1e5))
    assert_same_optimum(near, far)
    np.testing.assert_allclose(far.decision_function(X + 1e5), near.decision_function(X), atol=0.05)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@every_formulation
def test_what_float32_cannot_hold_is_left_to_float64(formulation, convert):
    """Products of such features are infinite in float32; here is the model of the features as they were."""
    X, y = blobs(3)
    plain = KernelSVM(formulation, "linear", fit_intercept=False).fit(X, y)
    scaled = KernelSVM(formulation, "linear", C=1e-60, fit_intercept=False).fit(convert(X * 1e30), y)
    assert scaled.converged_
    assert scaled.primal_objective_ == pytest.approx(1e-60 * plain.primal_objective_, rel=2e-3)
    near = KernelSVM(formulation, gamma=0.1e-60).fit(convert(X * 1e30), y)
    assert_same_optimum(near, KernelSVM(formulation, gamma=0.1).fit(X, y))


def enormous_beside_the_diagonal(X, Y):
    return np.where((X[:, None] == Y[None]).all(axis=2), 1.0, 1e39)


@pytest.mark.parametrize("solver", ["block", "decomposition"])
@every_formulation
def test_values_that_only_float32_cannot_hold(formulation, solver):
    """No kernel at all, but its values are numbers: what is told of the model is true."""
    X, y = blobs(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KernelSVM(formulation, enormous_beside_the_diagonal, solver=solver, max_iter=20).fit(X, y)
    primal, dual = objectives(model, enormous_beside_the_diagonal(X, X), y, np.ones(len(y)))
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-6)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-6)


@pytest.mark.parametrize("formulation", JOINT)
def test_float32_that_stalls_leaves_epochs_to_float64(formulation, monkeypatch):
    """Large values that differ little: float32 makes no progress."""
    X, y = blobs(3, n_samples=300)
    ends = []

    def watched(machines, collect, limits, threads, observers, outcome, *more):
        solve(machines, collect, limits, threads, observers, outcome, *more)
        ends.append((outcome.stopped_by, outcome.n_iter, limits.max_iter))

    monkeypatch.setattr(training, "_PATIENCE", 20)
    solve = training.solve
    monkeypatch.setattr(training, "solve", watched)
    with pytest.warns(ConvergenceWarning, match="max_iter=150 "):
        KernelSVM(formulation, "linear", C=10.0, max_iter=150).fit(X + 100.0, y)
    (first, epochs, _), (second, all_epochs, most) = ends
    assert (first, second) == ("precision", "max_iter")
    assert 20 < epochs < all_epochs == most == 150


@pytest.mark.parametrize(("scaling", "precisions"), [(1.0, [True]), (1000.0, [False]), (1e-3, [True])])
def test_values_beside_a_huge_bias_are_not_left_to_float32(iris, scaling, precisions, monkeypatch):
    asked = []

    def watched(*arguments, single_precision, **options):
        asked.append(single_precision)
        return kernel_store(*arguments, single_precision=single_precision, **options)

    kernel_store = training.kernel_store
    monkeypatch.setattr(training, "kernel_store", watched)
    model = KernelSVM(intercept_scaling=scaling, tol=0.01, C=0.01).fit(*iris)
    assert model.converged_
    assert asked == precisions


@pytest.mark.parametrize(
    ("C", "tol"), [(1e8, 1e-4), (1e9, 1e-3)]
)  # rounding of scores times 500 C is less than a quarter of that
def test_a_cap_out_of_reach_costs_no_digits(digits, C, tol):
    """Separable rows: their duals are small, whatever C is."""
    X, y = digits[0][:500], digits[1][:500]
    hard, large = (KernelSVM(C=c, gamma=0.05, tol=tol, max_iter=100).fit(X, y) for c in (1e4, C))
    assert_same_optimum(hard, large)


@every_formulation
def test_nothing_but_zeros(formulation):
    """A kernel of rank 0 or 1: rows that cannot be told apart."""
    X, y = np.zeros((6, 2)), np.arange(6) % 3
    for kernel, fit_intercept in (("linear", False), ("linear", True), ("rbf", True)):
        model = KernelSVM(formulation, kernel, fit_intercept=fit_intercept).fit(X, y)
        assert model.converged_
        K = linear_kernel(X) if kernel == "linear" else np.ones((6, 6))
        primal, dual = objectives(model, K, y, np.ones(6))
        assert model.primal_objective_ == pytest.approx(primal, rel=1e-4)
        assert primal - dual <= 1e-3 * primal


@every_formulation
def test_contradicting_labels_converge(formulation):
    """Every row three times, with three labels."""
    X, _ = blobs(3, n_samples=60)
    X, y = X.repeat(3, axis=0), np.tile([0, 1, 2], 60)
    for C in (1.0, 1e4):
        model = KernelSVM(formulation, C=C, gamma=0.1, max_iter=10_000).fit(X, y)
        assert model.converged_
        primal, dual = objectives(model, rbf_kernel(X, gamma=0.1), y, np.full(len(y), C))
        assert primal - dual <= 1.2e-3 * primal


# Warm start


@every_formulation
def test_second_fit_of_the_same_is_short(digits, formulation):
    X, y = digits[0][:400], digits[1][:400]
    model = KernelSVM(formulation, warm_start=True).fit(X, y)
    cold, optimum = model.history_["active_rows"].sum(), model.primal_objective_
    model.fit(X, y)
    assert model.history_["active_rows"].sum() < cold
    assert model.dual_gap_ <= 1e-3
    assert model.primal_objective_ == pytest.approx(optimum, rel=1e-3)


@pytest.mark.parametrize("change", [{"C": 0.4}, {"C": 2.5}, {"gamma": 0.3}, {"kernel": "linear"}], ids=str)
@pytest.mark.parametrize("k", [2, 4])
@every_formulation
def test_next_parameters_start_from_scaled_duals(formulation, k, change):
    X, y = blobs(k)
    model = KernelSVM(formulation, C=1.0, gamma=0.1, warm_start=True, tol=1e-6, max_iter=10_000).fit(X, y)
    model.set_params(**change).fit(X, y)
    cold = KernelSVM(formulation, **({"C": 1.0, "gamma": 0.1, "tol": 1e-6, "max_iter": 10_000} | change)).fit(X, y)
    assert_same_optimum(model, cold)


@every_formulation
def test_new_weights_rescale_the_duals(iris, formulation):
    """Also of a free bias, whose duals must go on adding up to zero."""
    X, y = iris
    weight = np.where(y == 1, 0.0, 3.0) + (np.arange(len(y)) % 2)
    options = {"gamma": 0.2, "tol": 1e-6}
    warm = KernelSVM(formulation, warm_start=True, **options).fit(X, y).fit(X, y, weight)
    assert_same_optimum(warm, KernelSVM(formulation, **options).fit(X, y, weight))
    if formulation not in JOINT:
        np.testing.assert_allclose(warm.dual_coef_.sum(axis=0), 0, atol=1e-9)
    assert_same_optimum(warm.fit(X, y), KernelSVM(formulation, **options).fit(X, y))


@every_formulation
def test_an_intercept_may_come_later(formulation):
    X, y = blobs(3)
    model = KernelSVM(formulation, fit_intercept=False, warm_start=True, tol=1e-6).fit(X, y)
    model.set_params(fit_intercept=True).fit(X, y)
    assert_same_optimum(model, KernelSVM(formulation, tol=1e-6).fit(X, y))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("before", FORMULATIONS)
@pytest.mark.parametrize("after", FORMULATIONS)
def test_warm_start_from_another_formulation_is_certified_honestly(before, after, k):
    X, y = blobs(k, n_samples=60)
    model = KernelSVM(before, warm_start=True).fit(X, y).set_params(formulation=after, tol=1e-6).fit(X, y)
    assert_same_optimum(model, KernelSVM(after, tol=1e-6).fit(X, y))


@pytest.mark.parametrize("change", ["other labels", "fewer rows", "more features", "fewer classes"])
@every_formulation
def test_warm_start_with_other_data_is_as_good_as_cold(formulation, change):
    X, y = blobs(4)
    model = KernelSVM(formulation, warm_start=True, tol=1e-6).fit(X, y)
    if change == "other labels":
        y = np.roll(y, 1)
    elif change == "fewer rows":
        X, y = X[:90], y[:90]
    elif change == "more features":
        X = np.column_stack([X, X[:, ::-1] ** 2])
    else:
        y = y % 3
    assert_same_optimum(model.fit(X, y), KernelSVM(formulation, tol=1e-6).fit(X, y))


def test_without_warm_start_nothing_is_left_of_the_last_fit(iris):
    X, y = iris
    model = KernelSVM("one_vs_one", "linear").fit(X, 2 - y)
    model.set_params(formulation="crammer_singer", kernel="rbf").fit(X, y)
    fresh = KernelSVM().fit(X, y)
    np.testing.assert_array_equal(model.dual_coef_.toarray(), fresh.dual_coef_.toarray())
    assert model.gamma_ == fresh.gamma_
    assert not hasattr(model, "coef_")


# Reproducibility and threads


@pytest.mark.parametrize("n_jobs", [None, 2])
@every_formulation
def test_fits_are_bit_identical(digits, formulation, n_jobs):
    X, y = digits[0][:300], digits[1][:300]
    first, *others = (KernelSVM(formulation, random_state=3, n_jobs=n_jobs).fit(X, y) for _ in range(3))
    for other in others:
        np.testing.assert_array_equal(first.dual_coef_.toarray(), other.dual_coef_.toarray())
        np.testing.assert_array_equal(first.intercept_, other.intercept_)
        assert (first.n_iter_, first.dual_gap_) == (other.n_iter_, other.dual_gap_)


@every_formulation
def test_fits_in_two_threads_at_once_are_those_of_one(digits, formulation):
    X, y = digits
    tasks = [(X[:600], y[:600]), (X[600:1200], y[600:1200])]

    def fit(task):
        return KernelSVM(formulation, gamma=0.05).fit(*task)

    serial = [fit(task) for task in tasks]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(fit, tasks * 2))
    for model, other in zip(together, serial * 2, strict=True):
        np.testing.assert_array_equal(model.dual_coef_.toarray(), other.dual_coef_.toarray())
        np.testing.assert_array_equal(model.intercept_, other.intercept_)
        assert (model.primal_objective_, model.dual_objective_) == (other.primal_objective_, other.dual_objective_)


@pytest.mark.parametrize("n_jobs", [2, 3])
@every_formulation
def test_threads_reach_the_same_optimum(digits, formulation, n_jobs):
    X, y = digits
    threaded = KernelSVM(formulation, n_jobs=n_jobs).fit(X, y)
    assert_same_optimum(threaded, KernelSVM(formulation).fit(X, y))


# History, limits and warnings

FIELDS = (
    *("machine", "epoch", "seconds", "violation", "active_rows", "solver", "primal", "dual", "gap"),
    *("hits", "misses", "kernel_evaluations"),
)


@every_formulation
def test_history(iris, formulation):
    X, y = iris
    model = KernelSVM(formulation).fit(X, y)
    history = model.history_
    assert history.dtype.names == FIELDS
    assert len(np.unique(history["machine"])) == (1 if formulation in JOINT else 3)
    for machine in np.unique(history["machine"]):
        mine = history[history["machine"] == machine]
        np.testing.assert_array_equal(mine["epoch"], np.arange(1, len(mine) + 1))
        assert 0 <= mine["gap"][-1] <= 1e-3
    assert np.all(np.diff(history["seconds"]) >= 0)
    assert np.all(history["violation"] >= 0)
    assert np.all(history["active_rows"] >= 0)
    if formulation not in ("one_vs_one", "dag"):  # small pairs have one record, of all rounds
        assert np.all(history["active_rows"] <= len(y))
    assert set(history["solver"]) == {"block"}
    certified = np.isfinite(history["gap"])
    np.testing.assert_array_equal(certified, np.isfinite(history["primal"]))
    assert np.all(history["dual"][certified] <= history["primal"][certified] * (1 + 1e-6))
    last = [history[history["machine"] == machine][-1] for machine in np.unique(history["machine"])]
    assert sum(record["primal"] for record in last) == pytest.approx(model.primal_objective_, rel=1e-12)
    assert sum(record["dual"] for record in last) == pytest.approx(model.dual_objective_, rel=1e-12)


@every_formulation
def test_kernel_evaluations_are_counted(digits, formulation):
    X, y = digits[0][:1000], digits[1][:1000]
    history = KernelSVM(formulation).fit(X, y).history_
    for name in ("hits", "misses", "kernel_evaluations"):
        assert np.all(np.diff(history[name]) >= 0)
    assert 0 < history["kernel_evaluations"][-1] <= 1000 * 1000 * 1.1
    assert history["misses"][-1] > 0


def test_values_of_tiny_pairs_are_not_stored(digits):
    """Every pair of classes of m and n rows has (m + n)^2 values of its own; nothing is asked for twice."""
    X, y = digits[0][:300], digits[1][:300]
    history = KernelSVM("one_vs_one").fit(X, y).history_
    size = np.bincount(y)
    of_pairs = sum((size[i] + size[j]) ** 2 for i in range(10) for j in range(i + 1, 10))
    assert history["kernel_evaluations"][-1] == of_pairs
    assert history["hits"][-1] == 0


@every_formulation
def test_history_goes_on_where_float32_is_not_enough(digits, formulation):
    """Training in float32 and then in float64 is one training."""
    X, y = digits[0][:600], digits[1][:600]
    model = KernelSVM(formulation, C=10.0, tol=1.1e-5).fit(X, y)
    history = model.history_
    for machine in np.unique(history["machine"]):
        mine = history[history["machine"] == machine]
        np.testing.assert_array_equal(mine["epoch"], np.arange(1, len(mine) + 1))
        assert mine["gap"][-1] <= 1.1e-5
    for name in ("seconds", "hits", "misses", "kernel_evaluations"):
        assert np.all(np.diff(history[name]) >= 0), name


@every_formulation
def test_a_small_cache_costs_evaluations_and_nothing_else(digits, formulation):
    X, y = digits[0][:1000], digits[1][:1000]
    options = {"C": 10.0, "tol": 1e-6}
    large, small = (KernelSVM(formulation, cache_mb=mb, working_set=16, **options).fit(X, y) for mb in (64, 0.1))
    assert_same_optimum(large, small)
    assert small.history_["kernel_evaluations"][-1] > large.history_["kernel_evaluations"][-1]


def test_too_few_passes_say_what_was_reached_and_what_to_change(digits):
    X, y = digits
    with pytest.warns(ConvergenceWarning) as caught:
        model = KernelSVM(kernel="linear", C=10.0, max_iter=1).fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__  # points at the user's line
    text = str(caught[0].message)
    assert text.startswith("KernelSVM stopped after max_iter=1 epochs")
    reached = float(re.search(r"gap is ([\d.e+-]+)", text).group(1))
    assert reached == pytest.approx(model.dual_gap_, rel=0.1)
    assert re.search(r"target 0\.001\b", text)
    for advice in ("raise max_iter", "scale the features", "lower C=10", "tol"):
        assert advice in text
    assert (model.converged_, model.n_iter_) == (False, 1)
    assert model.dual_gap_ > 1e-3
    assert model.history_["gap"][-1] == pytest.approx(model.dual_gap_)


@pytest.mark.parametrize("max_iter", [1, 2])
@every_formulation
def test_max_iter_is_never_exceeded(formulation, max_iter):
    X, y = blobs(3, n_samples=300)
    with pytest.warns(ConvergenceWarning, match=f"max_iter={max_iter} "):
        model = KernelSVM(formulation, "linear", C=1e3, tol=1e-14, max_iter=max_iter, working_set=16).fit(X, y)
    assert model.n_iter_ <= max_iter
    assert not model.converged_
    primal, dual = objectives(model, linear_kernel(X), y, np.full(len(y), 1e3))
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-8)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-8)


@pytest.mark.parametrize("n_jobs", [1, 2])
@every_formulation
def test_time_limit_stops_and_certifies(formulation, n_jobs):
    X, y = blobs(3, n_samples=1500)
    limits = {"tol": 1e-15, "max_iter": 10**9, "time_limit": 1e-4}
    with pytest.warns(ConvergenceWarning, match=r"time_limit=0\.0001 s; raise time_limit"):
        model = KernelSVM(formulation, "linear", C=1000.0, n_jobs=n_jobs, **limits).fit(X, y)
    assert not model.converged_
    assert not model.dual_gap_ <= 1e-15
    assert model.predict(X).shape == y.shape


@pytest.mark.parametrize("solver", ["block", "decomposition"])
@every_formulation
def test_the_gap_after_a_limit_is_that_of_float64(formulation, solver):
    """Large kernel values, of which float32 loses what the gap is about."""
    X, y = blobs(3, n_samples=300)
    X = X + 100.0
    with pytest.warns(ConvergenceWarning):
        model = KernelSVM(formulation, "linear", C=100.0, solver=solver, max_iter=1).fit(X, y)
    primal, dual = objectives(model, linear_kernel(X), y, np.full(len(y), 100.0))
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-9)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-9, abs=1e-9 * primal)
    assert (primal - dual) / primal - 1e-9 <= model.dual_gap_ <= (primal - dual) / primal + 1e-6


@pytest.mark.parametrize("tol", [1e-4, 1e-7])
@pytest.mark.parametrize("n_jobs", [1, 2])
@every_formulation
def test_a_limit_after_a_warm_start_is_certified(formulation, n_jobs, tol):
    X, y = blobs(5, n_samples=300)
    model = KernelSVM(formulation, gamma=0.2, tol=tol, warm_start=True, n_jobs=n_jobs).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="max_iter=1 "):
        model.set_params(C=3.0, max_iter=1, working_set=2).fit(X, y)
    primal, dual = objectives(model, rbf_kernel(X, gamma=0.2), y, np.full(len(y), 3.0))
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-5)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-5)
    assert tol < model.dual_gap_ < 1  # that of the last duals, or less
    model.set_params(max_iter=1000, working_set=None).fit(X, y)
    assert_same_optimum(model, KernelSVM(formulation, gamma=0.2, tol=tol, C=3.0).fit(X, y))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_machines_without_a_turn_are_what_they_were(n_jobs):
    X, y = blobs(8, n_samples=300)
    model = KernelSVM("one_vs_rest", gamma=0.2, warm_start=True, n_jobs=n_jobs).fit(X, y)
    before = model.dual_coef_.toarray()
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model.set_params(C=3.0, time_limit=1e-9).fit(X, y)
    moved = np.abs(model.dual_coef_.toarray() - before).max(axis=0) > 1e-9
    assert moved.sum() <= n_jobs
    primal, dual = objectives(model, rbf_kernel(X, gamma=0.2), y, np.full(len(y), 3.0))
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-5)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-5)


@pytest.mark.parametrize("tol", [1e-2, 1e-6])
@every_formulation
def test_violation_below_the_target_stops(formulation, tol):
    X, y = blobs(3)
    model = KernelSVM(formulation, stopping="violation", tol=tol, max_iter=100_000).fit(X, y)
    assert model.converged_
    for machine in np.unique(model.history_["machine"]):
        mine = model.history_[model.history_["machine"] == machine]
        assert mine["violation"][-1] <= tol
        assert np.isfinite(mine["gap"][-1])


@pytest.mark.parametrize(
    "load", [load_iris, load_wine, load_breast_cancer, load_digits], ids=lambda load: load.__name__
)
@every_formulation
def test_bundled_data_converge_with_default_parameters(load, formulation):
    """As they are, unscaled; a warning would be an error."""
    X, y = load(return_X_y=True)
    model = KernelSVM(formulation).fit(X, y)
    assert model.converged_
    primal, dual = objectives(model, rbf_kernel(X, gamma=model.gamma_), y, np.ones(len(y)))
    assert primal - dual <= 1.2e-3 * primal


@every_formulation
def test_a_kernel_that_is_none_gives_a_model_all_the_same(formulation):
    """As in LIBSVM; there is a stationary point, of which nothing can be proven."""
    X, y = blobs(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = KernelSVM(formulation, "sigmoid", gamma=1.0, coef0=-1.0, time_limit=5).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()
    assert np.isfinite([model.primal_objective_, model.dual_objective_]).all()


def indefinite(X, Y):
    return np.tanh(X @ Y.T - 1.0)


@every_formulation
def test_warnings_say_that_a_kernel_is_none(formulation):
    X, y = blobs(3)
    kernels = [("sigmoid", X), (indefinite, X), ("precomputed", indefinite(X, X))]
    for kernel, rows in kernels:
        model = KernelSVM(formulation, kernel, gamma=1.0, coef0=-1.0, max_iter=1, tol=1e-9, C=100.0, working_set=16)
        with pytest.warns(ConvergenceWarning, match="the kernel matrix is not positive semidefinite") as caught:
            model.fit(rows, y)
        told = float(re.search(r"that of 120 rows has the eigenvalue (-[\d.e+-]+)\)", str(caught[0].message)).group(1))
        bias = float(formulation in JOINT)
        assert told == pytest.approx(np.linalg.eigvalsh(indefinite(X, X) + bias)[0], rel=0.1)


@pytest.mark.parametrize("kernel", ["linear", "poly", "precomputed", "rbf"])
def test_warnings_do_not_say_it_of_a_kernel(digits, kernel):
    X, y = digits
    X, y = (X @ X.T, y) if kernel == "precomputed" else (X, y)  # of rank 64: many eigenvalues are zero
    with pytest.warns(ConvergenceWarning) as caught:
        KernelSVM(kernel=kernel, max_iter=1, tol=1e-9, C=10.0).fit(X.astype(np.float32), y)
    assert "semidefinite" not in str(caught[0].message)


# Switches


@pytest.mark.parametrize(
    "switch",
    [{"shrinking": False}, {"cooling": False}, {"working_set": 2}, {"working_set": 7}, {"working_set": 10_000}],
    ids=str,
)
@every_formulation
def test_switches_change_the_way_but_not_the_optimum(digits, formulation, switch):
    X, y = digits[0][:200], digits[1][:200] % 5
    options = {"max_iter": 10_000, "tol": 1e-4}
    switched = KernelSVM(formulation, **options, **switch).fit(X, y)
    assert_same_optimum(switched, KernelSVM(formulation, **options).fit(X, y))


@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins", "one_vs_rest"])
def test_working_sets_are_no_larger_than_asked_for(digits, formulation):
    history = KernelSVM(formulation, working_set=12).fit(digits[0][:200], digits[1][:200]).history_
    assert 2 < history["active_rows"].max() <= 12


class Asked(Exception):
    """Carries the request of a fit that was not trained."""


def request_of(monkeypatch, X, y, **options):
    def ask(request):
        raise Asked(request)

    monkeypatch.setattr("multimargin.estimators.kernel_svm.train", ask)
    with pytest.raises(Asked) as asked:
        KernelSVM(**options).fit(X, y)
    return asked.value.args[0]


def test_training_is_asked_for_what_the_parameters_say(iris, monkeypatch):
    options = {
        "solver": "decomposition",
        "selection": "amg",
        "threshold": "max",
        "step": "smo",
        "threshold_factor": 0.25,
        "tol": 1e-4,
        "stopping": "violation",
        "shrinking": False,
        "cooling": False,
    }
    asked = request_of(
        monkeypatch, *iris, **options, cache_mb=3, max_iter=7, time_limit=9.0, n_jobs=2, intercept_scaling=3.0
    )
    for name, value in options.items():
        assert getattr(asked, name) == value, name
    assert (asked.cache_bytes, asked.n_threads, asked.bias, asked.free_bias) == (3 * 2**20, 2, 9.0, False)
    assert (asked.limits.max_iter, asked.limits.time_limit) == (7, 9.0)
    assert asked.working_set is None
    assert (asked.seed, asked.start_duals) == (0, None)


def test_training_is_asked_for_another_kernel_and_bias(iris, monkeypatch):
    options = {"gamma": 0.3, "degree": 4, "coef0": 0.5, "working_set": 30, "random_state": 5}
    asked = request_of(monkeypatch, *iris, formulation="one_vs_one", kernel="poly", **options)
    kernel = asked.kernel
    assert (kernel.name, kernel.gamma, kernel.degree, kernel.coef0) == ("poly", 0.3, 4, 0.5)
    assert (asked.bias, asked.free_bias, asked.working_set) == (0.0, True, 30)
    assert (asked.shrinking, asked.cooling) == (True, True)
    assert asked.seed == np.random.RandomState(5).randint(2**31 - 1)
    without = request_of(monkeypatch, *iris, formulation="one_vs_one", fit_intercept=False)
    assert (without.bias, without.free_bias) == (0.0, False)


# Doubtful labels


def test_doubt_is_the_share_of_the_duals(iris):
    X, y = iris
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    model = KernelSVM(C=0.2, class_weight={1: 3.0}, tol=1e-6).fit(X, y, weight)
    doubt = model.label_doubt()
    cap = 0.2 * weight * np.array([1.0, 3.0, 1.0])[y]
    expected = np.where(np.arange(3) == y[:, None], 0, -model.dual_coef_.toarray() / cap[:, None])
    np.testing.assert_allclose(doubt.toarray(), expected, atol=1e-9)
    assert 0.5 < doubt.sum(axis=1).max() <= 1 + 1e-9


@joint
def test_doubt_of_two_classes_points_to_the_other_one(formulation):
    X, y = blobs(2)
    model = KernelSVM(formulation, C=0.3, tol=1e-6).fit(X, y)
    doubt = model.label_doubt().toarray()
    np.testing.assert_array_equal(doubt[np.arange(120), y], 0)
    np.testing.assert_allclose(doubt[np.arange(120), 1 - y], np.abs(model.dual_coef_.toarray()[:, 0]) / 0.6, atol=1e-9)


@joint
def test_planted_mistakes_are_doubted_most(digits, formulation):
    X, y = digits[0][:800], digits[1][:800].copy()
    planted = np.random.default_rng(0).choice(800, 12, replace=False)
    truth = y[planted].copy()
    y[planted] = (truth + 1 + np.arange(12) % 9) % 10
    doubt = KernelSVM(formulation, C=30.0, gamma=0.1).fit(X, y).label_doubt()
    ranked = np.argsort(-doubt.sum(axis=1), kind="stable")[:30]
    assert len(set(planted) & set(ranked)) >= 10
    assert np.mean(doubt.toarray()[planted].argmax(axis=1) == truth) >= 0.75


@free_bias
def test_doubt_is_refused_where_duals_are_no_distribution(iris, formulation):
    model = KernelSVM(formulation).fit(*iris)
    with pytest.raises(ValueError, match=f"crammer_singer.*weston_watkins.*not '{formulation}'"):
        model.label_doubt()


@every_formulation
def test_a_gap_that_proves_nothing_is_told(formulation):
    """Where no dual wants to move any more, but the matrix is no kernel."""
    X, y = blobs(3)
    noise = np.random.default_rng(0).normal(size=(len(X), len(X)))
    with pytest.warns(ConvergenceWarning, match=r"not positive semidefinite"):
        KernelSVM(formulation, "precomputed").fit(noise + noise.T, y)
    # Rounding to float32 is no reason.
    assert KernelSVM(formulation, "precomputed").fit(rbf_kernel(X, gamma=0.1).astype(np.float32), y).converged_


@pytest.mark.parametrize("solver", ["block", "decomposition"])
@every_formulation
def test_float32_rows_whose_differences_float32_has_no_numbers_for(formulation, solver):
    X = np.array([[3e38, 0], [-3e38, 1e38], [3e38, -3e38], [2e38, 2e38], [3e38, -1e38], [2e38, 3e38]], dtype=np.float32)
    y = np.array([0, 1, 2, 0, 1, 2])
    model = KernelSVM(formulation, gamma=1e-76, C=10.0, solver=solver).fit(X, y)
    assert model.converged_
    np.testing.assert_array_equal(model.predict(X), y)
    np.testing.assert_allclose(model.decision_function(X), model.decision_function(X.astype(np.float64)))
