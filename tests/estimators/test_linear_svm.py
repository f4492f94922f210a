"""LinearSVM.fit: what a fitted model holds, what it depends on, and what it does not depend on."""

import re
import warnings
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.class_weight import compute_class_weight

from multimargin import KernelSVM, LinearSVM
from multimargin.data.blocks import write_blocks

FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
PAIRWISE = ("one_vs_one", "dag")
LOSSES = ("hinge", "squared_hinge")
SOLVERS = ("sdm", "accelerated_sdm", "newton")
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS)
every_loss = pytest.mark.parametrize("loss", LOSSES)


def blobs(k, n_samples=120, n_features=6, seed=0):
    """Overlapping classes: some rows are on the wrong side of every plane."""
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


def primal(model, X, y, cap):
    """The formulation's objective at the model's weights, straight from its definition."""
    k, squared = len(model.classes_), model.loss == "squared_hinge"
    y = np.searchsorted(model.classes_, y)
    scores = X @ model.coef_.T + model.intercept_
    penalty = 0.5 * (np.sum(model.coef_**2) + np.sum((model.intercept_ / model.intercept_scaling) ** 2))

    def total(slack, cap=cap):
        slack = np.maximum(slack, 0)
        return cap @ (slack**2 if squared else slack)

    if k == 2:
        joint = model.formulation in ("crammer_singer", "weston_watkins")  # w_1 = -w_0 = w / 2
        return penalty / (2 if joint else 1) + total(1 - np.where(y == 1, 1, -1) * scores[:, 0])
    if model.formulation in PAIRWISE:
        for machine, (i, j) in enumerate(combinations(range(k), 2)):
            here = (y == i) | (y == j)
            penalty += total(1 - np.where(y == i, 1, -1)[here] * scores[here, machine], cap[here])
        return penalty
    if model.formulation == "one_vs_rest":
        return penalty + sum(total(1 - np.where(y == m, 1, -1) * scores[:, m]) for m in range(k))
    slack = 1 + scores - scores[np.arange(len(y)), y][:, None]
    slack[np.arange(len(y)), y] = 0
    if model.formulation == "crammer_singer":
        return penalty + total(slack.max(axis=1))
    return penalty + sum(total(slack[:, m]) for m in range(k))


def assert_same_optimum(model, other):
    """Two certified models of the same problem: their intervals [dual, primal] overlap, and both are short."""
    slack = 1e-12 * abs(model.primal_objective_)
    assert model.dual_objective_ <= other.primal_objective_ + slack
    assert other.dual_objective_ <= model.primal_objective_ + slack
    assert model.dual_gap_ <= model.tol
    assert other.dual_gap_ <= other.tol


# Fitted attributes


@pytest.mark.parametrize("k", [2, 3, 5])
@every_formulation
@every_loss
def test_shapes(formulation, loss, k):
    X, y = blobs(k)
    model = LinearSVM(formulation, loss).fit(X, y)
    rows = n_machines(formulation, k)
    assert model.coef_.shape == (rows, 6)
    assert model.intercept_.shape == (rows,)
    assert sp.issparse(model.dual_coef_)
    assert model.dual_coef_.shape == (120, rows)
    assert model.coef_.dtype == model.intercept_.dtype == model.dual_coef_.dtype == np.float64
    np.testing.assert_array_equal(model.classes_, np.arange(k))
    assert model.n_features_in_ == 6
    assert model.decision_function(X).shape == ((120,) if k == 2 else (120, k))
    assert isinstance(model.n_iter_, int)
    assert 1 <= model.n_iter_ <= model.max_iter
    assert model.converged_ is True


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("intercept", [{"fit_intercept": False}, {}, {"intercept_scaling": 4.0}])
@every_formulation
@every_loss
def test_certificate_is_about_the_weights_that_are_handed_out(formulation, loss, k, intercept):
    X, y = blobs(k)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    model = LinearSVM(formulation, loss, 0.3, tol=1e-4, **intercept).fit(X, y, weight)
    assert model.primal_objective_ == pytest.approx(primal(model, X, y, 0.3 * weight), rel=1e-10)
    gap = model.primal_objective_ - model.dual_objective_
    assert model.dual_gap_ == pytest.approx(gap / model.primal_objective_, rel=1e-6, abs=1e-15)
    assert 0 <= model.dual_gap_ <= 1e-4
    assert model.dual_gap_ - 1e-15 <= model.worst_gap_ <= 1e-4


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("solver", SOLVERS)
@every_formulation
@every_loss
def test_dual_coef_makes_the_weights(formulation, loss, k, solver):
    X, y = blobs(k)
    model = LinearSVM(formulation, loss, tol=1e-6, solver=solver, intercept_scaling=2.0, max_iter=10_000).fit(X, y)
    V = model.dual_coef_.T @ np.column_stack([X, np.full(len(X), 2.0)])
    W = np.column_stack([model.coef_, model.intercept_ / 2.0])
    gap = 2e-6 * model.primal_objective_  # as good as the certificate, whichever pass gave its dual value
    assert np.linalg.norm(W - V) <= np.sqrt(2 * gap) * (np.sqrt(2) if k == 2 else 1)


@pytest.mark.parametrize("k", [2, 4])
@every_formulation
def test_duals_are_feasible(formulation, k):
    X, y = blobs(k)
    weight = np.random.default_rng(2).uniform(0.5, 2, len(y))
    model = LinearSVM(formulation, C=0.7, tol=1e-6).fit(X, y, weight)
    alpha, cap = model.dual_coef_.toarray(), 0.7 * weight[:, None] * (1 + 1e-12)
    own = y[:, None] == np.arange(k)
    if k == 2:
        signed = alpha * np.where(y == 1, 1, -1)[:, None]
        cap = cap * (2 if formulation in ("crammer_singer", "weston_watkins") else 1)
    elif formulation == "one_vs_rest":
        signed = alpha * np.where(own, 1, -1)
    elif formulation in PAIRWISE:
        first, second = np.array(list(combinations(range(k), 2))).T
        signed = alpha * (1.0 * (y[:, None] == first) - 1.0 * (y[:, None] == second))
        assert np.all((alpha == 0) | (y[:, None] == first) | (y[:, None] == second))
    else:
        np.testing.assert_allclose(alpha.sum(axis=1), 0, atol=1e-12)
        signed = -np.where(own, 0, alpha)
        if formulation == "crammer_singer":
            assert np.all(alpha[own] <= cap[:, 0])
    assert np.all(signed >= 0)
    assert np.all(signed <= cap)


@every_formulation
def test_support_are_the_rows_with_duals(iris, formulation):
    X, y = iris
    model = LinearSVM(formulation, tol=1e-6).fit(X, y)
    np.testing.assert_array_equal(model.support_, np.flatnonzero(np.abs(model.dual_coef_.toarray()).sum(axis=1)))
    assert 3 <= len(model.support_) < len(y)


@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins"])
@every_loss
def test_joint_weights_sum_to_zero(iris, formulation, loss):
    model = LinearSVM(formulation, loss, tol=1e-8, solver="sdm", max_iter=20_000).fit(*iris)
    np.testing.assert_allclose(model.coef_.sum(axis=0), 0, atol=1e-9)
    assert abs(model.intercept_.sum()) <= 1e-9


@every_loss
def test_two_classes_are_the_binary_machine_at_twice_the_c(loss):
    X, y = blobs(2)
    exact = {"tol": 1e-9, "solver": "newton"}
    binary = LinearSVM("one_vs_rest", loss, 2.0, **exact).fit(X, y)
    for formulation in ("crammer_singer", "weston_watkins"):
        joint = LinearSVM(formulation, loss, 1.0, **exact).fit(X, y)
        np.testing.assert_allclose(joint.coef_, binary.coef_, atol=1e-3)
        assert joint.primal_objective_ == pytest.approx(binary.primal_objective_ / 2, rel=1e-8)
    for formulation in PAIRWISE:
        pair = LinearSVM(formulation, loss, 2.0, **exact).fit(X, y)
        assert pair.primal_objective_ == pytest.approx(binary.primal_objective_, rel=1e-8)
        np.testing.assert_array_equal(pair.predict(X), binary.predict(X))


@pytest.mark.parametrize("names", [["banana", "apple", "cherry"], [-7, 40, 3], [2.0, 1.0, 3.0], [True, False]], ids=str)
@every_formulation
def test_any_labels(formulation, names):
    X, y = blobs(len(names))
    names = np.array(names)
    model = LinearSVM(formulation).fit(X, names[y])
    np.testing.assert_array_equal(model.classes_, np.unique(names))
    assert model.predict(X).dtype == names.dtype
    encoded = LinearSVM(formulation).fit(X, np.argsort(np.argsort(names))[y])
    np.testing.assert_array_equal(model.predict(X), model.classes_[encoded.predict(X)])


def test_labels_as_list_of_strings(iris):
    X, y = iris
    labels = [["a", "b", "c"][label] for label in y]
    assert set(LinearSVM().fit(X, labels).predict(X)) == {"a", "b", "c"}


# Weights


@every_formulation
@every_loss
def test_class_weight_dict_is_sample_weight(iris, formulation, loss):
    X, y = iris
    by_class = LinearSVM(formulation, loss, class_weight={0: 0.5, 2: 4.0}).fit(X, y)
    by_row = LinearSVM(formulation, loss).fit(X, y, np.array([0.5, 1.0, 4.0])[y])
    np.testing.assert_array_equal(by_class.coef_, by_row.coef_)
    assert not np.array_equal(by_class.coef_, LinearSVM(formulation, loss).fit(X, y).coef_)


@every_formulation
def test_balanced_class_weight_is_scikit_learns(iris, formulation):
    X, y = iris
    X, y = X[20:130], y[20:130]
    weight = compute_class_weight("balanced", classes=np.arange(3), y=y)
    balanced = LinearSVM(formulation, class_weight="balanced", tol=1e-6).fit(X, y)
    by_row = LinearSVM(formulation, tol=1e-6).fit(X, y, weight[y])
    assert_same_optimum(balanced, by_row)
    assert balanced.primal_objective_ == pytest.approx(primal(balanced, X, y, weight[y]), rel=1e-10)


WEIGHTS = {0: 0.5, 1: 6.0, 2: 2.0}


def one_against_rest(X, y, loss, label, weight):
    """The binary machine of a class, with weights of rows."""
    model = LinearSVM("one_vs_rest", loss, tol=1e-9).fit(X, y == label, weight)
    return np.append(model.coef_[0], model.intercept_[0])


def liblinear(X, y, loss, **options):
    """LinearSVC with weights of classes, as tight as it goes; intercepts in the last column."""
    model = LinearSVC(loss=loss, dual=True, class_weight=WEIGHTS, tol=1e-10, max_iter=1_000_000, **options).fit(X, y)
    return np.column_stack([model.coef_, model.intercept_])


@every_loss
def test_weights_of_classes_count_in_all_machines_of_one_vs_rest(loss):
    """As those of rows do."""
    X, y = blobs(3)
    by_row = np.array([WEIGHTS[label] for label in y])
    model = LinearSVM("one_vs_rest", loss, class_weight=WEIGHTS, tol=1e-9).fit(X, y)
    same = LinearSVM("one_vs_rest", loss, tol=1e-9).fit(X, y, by_row)
    np.testing.assert_array_equal(model.coef_, same.coef_)
    for label in range(3):
        expected = one_against_rest(X, y, loss, label, by_row)
        np.testing.assert_allclose(np.append(model.coef_[label], model.intercept_[label]), expected, atol=1e-4)


@every_loss
def test_weights_of_classes_in_liblinear_count_in_one_machine_of_one_vs_rest(loss):
    """The difference that docs/coming-from.md tells of: there a class's weight is for its rows in its own machine."""
    X, y = blobs(3)
    theirs = liblinear(X, y, loss)
    ours = LinearSVM("one_vs_rest", loss, class_weight=WEIGHTS, tol=1e-9).fit(X, y)
    for label in range(3):
        own = np.where(y == label, WEIGHTS[label], 1.0)
        np.testing.assert_allclose(one_against_rest(X, y, loss, label, own), theirs[label], atol=1e-4)
        assert np.abs(ours.coef_[label] - theirs[label, :-1]).max() > 0.01


@every_loss
@pytest.mark.parametrize("formulation", ["one_vs_rest", "one_vs_one"])
def test_weights_of_two_classes_are_liblinears(formulation, loss):
    X, y = blobs(3)
    X, y = X[y != 0], y[y != 0]
    theirs = LinearSVC(loss=loss, dual=True, class_weight={1: 6.0, 2: 2.0}, tol=1e-10, max_iter=1_000_000).fit(X, y)
    ours = LinearSVM(formulation, loss, class_weight={1: 6.0, 2: 2.0}, tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)


def test_weights_of_classes_in_crammer_singer_are_liblinears():
    X, y = blobs(3)
    theirs = liblinear(X, y, "hinge", multi_class="crammer_singer")
    ours = LinearSVM(class_weight=WEIGHTS, tol=1e-9).fit(X, y)
    both = np.column_stack([ours.coef_, ours.intercept_])
    np.testing.assert_allclose(both - both.mean(axis=0), theirs - theirs.mean(axis=0), atol=1e-4)


def test_class_weight_for_string_labels(iris):
    X, y = iris
    names = np.array(["x", "y", "z"])
    model = LinearSVM(class_weight={"z": 3.0}).fit(X, names[y])
    np.testing.assert_array_equal(model.coef_, LinearSVM(class_weight={2: 3.0}).fit(X, y).coef_)


@every_formulation
@every_loss
def test_weight_zero_is_the_row_removed(iris, formulation, loss):
    X, y = iris
    kept = np.random.default_rng(0).random(len(y)) < 0.7
    weighted = LinearSVM(formulation, loss, tol=1e-6).fit(X, y, kept.astype(float))
    removed = LinearSVM(formulation, loss, tol=1e-6).fit(X[kept], y[kept])
    assert_same_optimum(weighted, removed)
    np.testing.assert_allclose(weighted.coef_, removed.coef_, atol=1e-2)
    assert not weighted.dual_coef_[~kept].nnz
    assert kept[weighted.support_].all()


@every_formulation
@every_loss
def test_weight_two_is_the_row_twice(iris, formulation, loss):
    X, y = iris
    times = np.random.default_rng(0).integers(1, 4, len(y))
    weighted = LinearSVM(formulation, loss, tol=1e-6).fit(X, y, times)
    repeated = LinearSVM(formulation, loss, tol=1e-6).fit(X.repeat(times, axis=0), y.repeat(times))
    assert_same_optimum(weighted, repeated)


@every_formulation
@every_loss
def test_c_scales_like_weights(iris, formulation, loss):
    X, y = iris
    by_c = LinearSVM(formulation, loss, C=4.0).fit(X, y)
    by_weight = LinearSVM(formulation, loss, C=1.0).fit(X, y, np.full(len(y), 4.0))
    np.testing.assert_array_equal(by_c.coef_, by_weight.coef_)
    assert by_c.primal_objective_ == by_weight.primal_objective_


# Warm start


@pytest.mark.parametrize("solver", SOLVERS)
@every_formulation
@every_loss
def test_second_fit_of_the_same_is_short(iris, formulation, loss, solver):
    model = LinearSVM(formulation, loss, warm_start=True, solver=solver).fit(*iris)
    cold, optimum = model.n_iter_, model.primal_objective_
    model.fit(*iris)
    assert model.n_iter_ < cold
    assert model.dual_gap_ <= 1e-3
    assert model.primal_objective_ == pytest.approx(optimum, rel=1e-3)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("factor", [0.5, 1.5])
@every_formulation
@every_loss
def test_next_c_starts_from_the_last_duals(formulation, loss, factor, solver):
    X, y = blobs(4)
    options = {"solver": solver, "tol": 1e-6, "max_iter": 10_000}
    cold = LinearSVM(formulation, loss, C=0.2 * factor, **options).fit(X, y)
    model = LinearSVM(formulation, loss, C=0.2, warm_start=True, **options).fit(X, y)
    model.set_params(C=0.2 * factor).fit(X, y)
    assert_same_optimum(model, cold)
    assert model.primal_objective_ == pytest.approx(primal(model, X, y, np.full(len(y), 0.2 * factor)), rel=1e-10)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["sdm", "accelerated_sdm"])
@every_formulation
@every_loss
def test_one_pass_from_the_duals_of_a_near_c_goes_further_than_from_zero(formulation, loss, solver):
    X, y = blobs(4)
    cold = LinearSVM(formulation, loss, C=0.22, solver=solver, max_iter=1).fit(X, y)
    model = LinearSVM(formulation, loss, C=0.2, solver=solver, warm_start=True).fit(X, y)
    model.set_params(C=0.22, max_iter=1).fit(X, y)
    assert model.dual_gap_ < 0.5 * cold.dual_gap_


@every_formulation
def test_new_weights_rescale_the_duals(iris, formulation):
    X, y = iris
    weight = np.where(y == 1, 0.0, 3.0) + (np.arange(len(y)) % 2)
    warm = LinearSVM(formulation, warm_start=True, tol=1e-6).fit(X, y).fit(X, y, weight)
    assert_same_optimum(warm, LinearSVM(formulation, tol=1e-6).fit(X, y, weight))
    back = warm.fit(X, y)
    assert_same_optimum(back, LinearSVM(formulation, tol=1e-6).fit(X, y))


def test_weights_may_grow_from_almost_nothing(iris):
    X, y = iris
    weight = np.ones(len(y))
    weight[0] = 1e-290
    model = LinearSVM(warm_start=True).fit(X, y, weight)
    weight[0] = 1e20  # by more than a float64 says
    assert_same_optimum(model.fit(X, y, weight), LinearSVM().fit(X, y, weight))


def refit(model, X, y, **changes):
    return model.set_params(**changes).fit(X, y)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("before", FORMULATIONS)
@pytest.mark.parametrize("after", FORMULATIONS)
def test_warm_start_from_another_formulation_is_certified_honestly(before, after, k):
    """With three classes all five have duals of the same shape, but not the same bounds."""
    X, y = blobs(k, n_samples=60)
    model = refit(LinearSVM(before, warm_start=True).fit(X, y), X, y, formulation=after, tol=1e-6)
    assert_same_optimum(model, LinearSVM(after, tol=1e-6).fit(X, y))


@every_formulation
def test_warm_start_from_another_loss_is_certified_honestly(formulation):
    X, y = blobs(3, n_samples=60)
    model = refit(LinearSVM(formulation, "squared_hinge", warm_start=True, C=5.0).fit(X, y), X, y, loss="hinge")
    assert_same_optimum(model, LinearSVM(formulation, "hinge", C=5.0).fit(X, y))


@pytest.mark.parametrize("k", [2, 3])
@every_formulation
@every_loss
def test_warm_start_from_other_labels_is_certified_honestly(formulation, loss, k):
    X, y = blobs(k, n_samples=60)
    other = np.roll(y, 1)
    model = refit(LinearSVM(formulation, loss, warm_start=True).fit(X, y), X, other)
    cold = LinearSVM(formulation, loss).fit(X, other)
    assert_same_optimum(model, cold)
    assert np.mean(model.predict(X) == cold.predict(X)) > 0.9


@pytest.mark.parametrize("change", ["fewer rows", "more features", "fewer classes", "an intercept"])
@every_formulation
def test_warm_start_with_other_data_is_as_good_as_cold(formulation, change):
    X, y = blobs(4)
    model = LinearSVM(formulation, warm_start=True, fit_intercept=change != "an intercept").fit(X, y)
    if change == "fewer rows":
        X, y = X[:90], y[:90]
    elif change == "more features":
        X = np.column_stack([X, X[:, ::-1] ** 2])
    elif change == "fewer classes":
        y = y % 3
    model.set_params(fit_intercept=True).fit(X, y)
    assert model.coef_.shape == (n_machines(formulation, len(set(y))), X.shape[1])
    assert_same_optimum(model, LinearSVM(formulation).fit(X, y))


@every_loss
@every_formulation
def test_duals_that_are_worse_than_none_are_not_started_from(formulation, loss):
    X, y = blobs(4)
    model = LinearSVM(formulation, loss, warm_start=True).fit(X, y)
    np.testing.assert_array_equal(model.fit(100 * X, y).coef_, LinearSVM(formulation, loss).fit(100 * X, y).coef_)


@every_loss
@every_formulation
def test_duals_of_the_same_data_are_started_from(formulation, loss):
    X, y = blobs(4)
    model = LinearSVM(formulation, loss, warm_start=True).fit(X, y)
    cold = model.n_iter_
    assert model.fit(X, y).n_iter_ < cold


@pytest.mark.parametrize("change", ["fewer rows", "fewer classes"])
def test_warm_start_with_another_shape_is_a_cold_start(change):
    X, y = blobs(4)
    model = LinearSVM(warm_start=True).fit(X, y)
    X, y = (X[:90], y[:90]) if change == "fewer rows" else (X, y % 3)
    np.testing.assert_array_equal(model.fit(X, y).coef_, LinearSVM().fit(X, y).coef_)


def test_without_warm_start_nothing_is_left_of_the_last_fit(iris):
    X, y = iris
    model = LinearSVM().fit(X, 2 - y)
    np.testing.assert_array_equal(model.fit(X, y).coef_, LinearSVM().fit(X, y).coef_)


# Reproducibility and threads


@pytest.mark.parametrize("n_jobs", [None, 2])
@every_formulation
@every_loss
def test_fits_are_bit_identical(iris, formulation, loss, n_jobs):
    first, *others = (LinearSVM(formulation, loss, random_state=3, n_jobs=n_jobs).fit(*iris) for _ in range(4))
    for other in others:
        np.testing.assert_array_equal(first.coef_, other.coef_)
        np.testing.assert_array_equal(first.intercept_, other.intercept_)
        np.testing.assert_array_equal(first.dual_coef_.toarray(), other.dual_coef_.toarray())
        assert (first.n_iter_, first.dual_gap_) == (other.n_iter_, other.dual_gap_)


def test_random_state_is_the_order_of_visits(digits):
    X, y = digits[0][:300], digits[1][:300]
    default, again, one, two = (LinearSVM(random_state=seed).fit(X, y) for seed in (None, None, 1, 2))
    np.testing.assert_array_equal(default.coef_, again.coef_)
    assert not np.array_equal(one.coef_, two.coef_)
    assert_same_optimum(one, two)
    np.testing.assert_array_equal(LinearSVM(random_state=np.random.RandomState(1)).fit(X, y).coef_, one.coef_)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("solver", ["sdm", "accelerated_sdm"])
@pytest.mark.parametrize("n_jobs", [2, 3])
@every_formulation
@every_loss
def test_threads_reach_the_same_optimum_and_always_the_same_bits(digits, formulation, loss, n_jobs, solver, convert):
    """Enough machines that they finish in any order."""
    X, y = digits
    options = {"C": 0.05, "tol": 1e-2, "solver": solver}
    threaded, again = (LinearSVM(formulation, loss, n_jobs=n_jobs, **options).fit(convert(X), y) for _ in range(2))
    assert_same_optimum(threaded, LinearSVM(formulation, loss, **options).fit(convert(X), y))
    assert threaded.primal_objective_ == pytest.approx(primal(threaded, X, y, np.full(len(y), 0.05)), rel=1e-10)
    np.testing.assert_array_equal(threaded.coef_, again.coef_)
    np.testing.assert_array_equal(threaded.dual_coef_.toarray(), again.dual_coef_.toarray())
    assert threaded.primal_objective_ == again.primal_objective_
    assert threaded.dual_objective_ == again.dual_objective_
    assert threaded.n_iter_ == again.n_iter_


# How X is stored


def containers(X):
    shuffled = sp.coo_array(X)
    order = np.random.default_rng(0).permutation(shuffled.nnz)
    row, column = (index[order] for index in shuffled.coords)
    values = shuffled.data[order]
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    unsorted = sp.csr_array(X)
    for begin, end in zip(unsorted.indptr[:-1], unsorted.indptr[1:], strict=True):
        unsorted.indices[begin:end] = unsorted.indices[begin:end][::-1].copy()
        unsorted.data[begin:end] = unsorted.data[begin:end][::-1].copy()
    padded = np.zeros((2 * X.shape[0], X.shape[1] + 3), dtype=X.dtype)
    padded[::2, 1:-2] = X
    read_only = X.copy()
    read_only.flags.writeable = False
    return {
        "C order": X,
        "Fortran order": np.asfortranarray(X),
        "a view": padded[::2, 1:-2],
        "read only": read_only,
        "list": X.tolist(),
        "csr": sp.csr_array(X),
        "csr_matrix": sp.csr_matrix(X),
        "csr, int64 indices": wide,
        "csr, unsorted": unsorted,
        "csc": sp.csc_array(X),
        "coo": sp.coo_array((values, (row, column)), shape=X.shape),
        "coo, entries in halves": sp.coo_array(
            (np.tile(values / 2, 2), (np.tile(row, 2), np.tile(column, 2))), shape=X.shape
        ),
        "lil": sp.lil_array(X),
    }


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one"])
def test_storage_does_not_matter(digits, formulation, solver, dtype):
    X, y = digits[0][:200, 10:30].astype(dtype), digits[1][:200] % 4
    options = {"tol": 1e-5, "solver": solver, "C": 0.1, "max_iter": 10_000}
    reference = LinearSVM(formulation, **options).fit(X, y)
    for name, stored in containers(X).items():
        model = LinearSVM(formulation, **options).fit(stored, y)
        assert_same_optimum(model, reference)
        np.testing.assert_allclose(model.decision_function(stored), model.decision_function(X), err_msg=name, atol=1e-6)
        assert np.abs(model.coef_ - reference.coef_).max() < 0.02, name


def test_fit_leaves_x_alone(digits):
    X, y = digits[0][:200], digits[1][:200]
    for name, stored in containers(X).items():
        before = stored.copy()
        LinearSVM().fit(stored, y).predict(stored)
        if sp.issparse(stored) and stored.format == "csr":
            np.testing.assert_array_equal(before.indices, stored.indices, err_msg=name)
            np.testing.assert_array_equal(before.data, stored.data, err_msg=name)
        elif not sp.issparse(stored):
            np.testing.assert_array_equal(before, stored, err_msg=name)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@every_formulation
def test_float32_is_certified_like_float64(digits, formulation, convert):
    X, y = digits[0][:400].astype(np.float32), digits[1][:400]
    options = {"tol": 1e-4, "C": 0.1}
    single = LinearSVM(formulation, **options).fit(convert(X), y)
    double = LinearSVM(formulation, **options).fit(convert(X.astype(np.float64)), y)
    assert_same_optimum(single, double)
    exact = primal(single, X.astype(np.float64), y, np.full(len(y), 0.1))
    assert single.primal_objective_ == pytest.approx(exact, rel=1e-9)


def test_integers_are_taken_as_floats(digits):
    X, y = np.round(3 * digits[0][:200]).astype(int), digits[1][:200]
    np.testing.assert_array_equal(LinearSVM().fit(X, y).coef_, LinearSVM().fit(X.astype(float), y).coef_)


@every_formulation
@every_loss
def test_rows_of_zeros_and_columns_of_zeros(formulation, loss):
    X, y = blobs(3)
    X[::7] = 0
    X = np.column_stack([X, np.zeros(len(X))])
    model = LinearSVM(formulation, loss, fit_intercept=False, tol=1e-6).fit(X, y)
    assert model.primal_objective_ == pytest.approx(primal(model, X, y, np.ones(len(y))), rel=1e-10)
    np.testing.assert_array_equal(model.coef_[:, -1], 0)
    sparse = LinearSVM(formulation, loss, fit_intercept=False, tol=1e-6).fit(sp.csr_array(X), y)
    assert_same_optimum(model, sparse)


@every_formulation
def test_nothing_but_zeros(formulation):
    X, y = np.zeros((6, 2)), np.arange(6) % 3
    model = LinearSVM(formulation, fit_intercept=False).fit(X, y)
    assert model.converged_
    np.testing.assert_array_equal(model.coef_, 0)
    assert model.primal_objective_ == model.dual_objective_ == primal(model, X, y, np.ones(6))


# History, limits and warnings

FIELDS = ("machine", "epoch", "seconds", "violation", "active_rows", "solver", "primal", "dual", "gap")


@pytest.mark.parametrize("solver", SOLVERS)
@every_formulation
@every_loss
def test_history(iris, formulation, loss, solver):
    X, y = iris
    model = LinearSVM(formulation, loss, solver=solver).fit(X, y)
    history = model.history_
    assert history.dtype.names == FIELDS
    assert len(np.unique(history["machine"])) == (3 if formulation in PAIRWISE else 1)
    for machine in np.unique(history["machine"]):
        mine = history[history["machine"] == machine]
        np.testing.assert_array_equal(mine["epoch"], np.arange(1, len(mine) + 1))
        assert 0 <= mine["gap"][-1] <= 1e-3
    assert np.all(np.diff(history["seconds"]) >= 0)
    assert np.all(history["seconds"] >= 0)
    assert np.all(history["violation"] >= 0)
    assert np.all((history["active_rows"] >= 1) & (history["active_rows"] <= len(y)))
    assert set(history["solver"]) == {solver}
    certified = np.isfinite(history["gap"])
    np.testing.assert_array_equal(certified, np.isfinite(history["primal"]))
    np.testing.assert_array_equal(certified, np.isfinite(history["dual"]))
    assert np.all(history["dual"][certified] <= history["primal"][certified] * (1 + 1e-12))
    last = [history[history["machine"] == machine][-1] for machine in np.unique(history["machine"])]
    assert sum(record["primal"] for record in last) == pytest.approx(model.primal_objective_, rel=1e-12)
    assert sum(record["dual"] for record in last) == pytest.approx(model.dual_objective_, rel=1e-12)


@every_formulation
def test_shrinking_leaves_rows_out(digits, formulation):
    X, y = digits[0][:500], digits[1][:500]
    shrunk = LinearSVM(formulation, solver="sdm").fit(X, y).history_
    full = LinearSVM(formulation, solver="sdm", shrinking=False).fit(X, y).history_
    for machine in np.unique(full["machine"]):
        assert len(set(full["active_rows"][full["machine"] == machine])) == 1
    assert shrunk["active_rows"].min() < full["active_rows"].min()


def test_too_few_passes_say_what_was_reached_and_what_to_change(digits):
    with pytest.warns(ConvergenceWarning) as caught:
        model = LinearSVM(max_iter=1).fit(*digits)
    assert len(caught) == 1
    assert caught[0].filename == __file__  # points at the user's line
    text = str(caught[0].message)
    reached = float(re.search(r"gap is ([\d.e+-]+)", text).group(1))
    assert reached == pytest.approx(model.dual_gap_, rel=0.1)
    assert re.search(r"target 0\.001\b", text)
    for advice in ("max_iter=1", "raise max_iter", "scale the features", "lower C=1", "tol"):
        assert advice in text
    assert (model.converged_, model.n_iter_) == (False, 1)
    assert model.dual_gap_ > 1e-3
    assert model.history_["gap"][-1] == pytest.approx(model.dual_gap_)
    assert model.score(*digits) > 0.8


@pytest.mark.parametrize("max_iter", [1, 2, 7])
@pytest.mark.parametrize("solver", SOLVERS)
@every_formulation
def test_max_iter_is_never_exceeded(iris, formulation, solver, max_iter):
    X, y = iris
    with pytest.warns(ConvergenceWarning, match=f"max_iter={max_iter} "):
        model = LinearSVM(formulation, tol=1e-14, max_iter=max_iter, solver=solver).fit(X, y)
    assert model.n_iter_ <= max_iter
    assert not model.converged_
    assert model.primal_objective_ == pytest.approx(primal(model, X, y, np.ones(len(y))), rel=1e-10)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("solver", SOLVERS)
@every_formulation
def test_time_limit_stops_and_certifies(formulation, solver, n_jobs):
    X, y = blobs(3, n_samples=3000)
    limits = {"tol": 1e-15, "max_iter": 10**9, "time_limit": 1e-4}
    with pytest.warns(ConvergenceWarning, match=r"time_limit=0\.0001 s; raise time_limit"):
        model = LinearSVM(formulation, C=1000.0, solver=solver, n_jobs=n_jobs, **limits).fit(X, y)
    assert not model.converged_
    assert 0 < model.dual_gap_ < np.inf
    assert model.primal_objective_ == pytest.approx(primal(model, X, y, np.full(len(y), 1000.0)), rel=1e-9)


@pytest.mark.parametrize(
    ("scale", "C", "tol", "solver"),
    [
        (1.0, 1.0, 1e-3, "accelerated_sdm"),
        (100.0, 1.0, 1e-3, "newton"),
        (1.0, 1e4, 1e-3, "newton"),
        (0.01, 1e4, 1e-3, "accelerated_sdm"),
        (1.0, 1.0, 1e-6, "newton"),
    ],
)
@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_rest"])
def test_auto_takes_newton_where_passes_would_be_many(iris, formulation, scale, C, tol, solver):
    X, y = iris
    model = LinearSVM(formulation, C=C, tol=tol, fit_intercept=False).fit(scale * X, y)
    assert set(model.history_["solver"]) == {solver} and model.converged_


@pytest.mark.parametrize("solver", ["sdm", "accelerated_sdm", "auto"])
@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-8])
@every_formulation
@every_loss
def test_violation_below_the_target_stops(formulation, loss, solver, tol):
    X, y = blobs(3)
    options = {"stopping": "violation", "tol": tol, "solver": solver, "C": 0.1, "max_iter": 100_000}
    model = LinearSVM(formulation, loss, **options).fit(X, y)
    assert model.converged_
    for machine in np.unique(model.history_["machine"]):
        mine = model.history_[model.history_["machine"] == machine]
        assert mine["violation"][-1] <= tol
        assert mine["active_rows"][-1] == mine["active_rows"].max()  # all rows were looked at
        assert np.isfinite(mine["gap"][-1])


def test_violation_not_reached_is_said(digits):
    with pytest.warns(ConvergenceWarning, match=r"max_iter=2 .*the violation is still above 0\.001"):
        LinearSVM(stopping="violation", max_iter=2).fit(*digits)


@pytest.mark.parametrize("solver", ["sdm", "accelerated_sdm"])
@every_formulation
def test_float64_is_not_blamed_while_much_is_left_to_gain(iris, formulation, solver):
    """Caps of very different size: the rows at rest say nothing about how far the outer loop has come."""
    X, y = iris
    options = {"class_weight": {0: 1000.0, 1: 1e-4, 2: 1e-4}, "max_iter": 300, "solver": solver}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LinearSVM(formulation, **options).fit(X, y)
    assert not [c for c in caught if "float64" in str(c.message)], f"gave up at a gap of {model.dual_gap_}"


@pytest.mark.parametrize(
    "load", [load_iris, load_wine, load_breast_cancer, load_digits], ids=lambda load: load.__name__
)
@every_formulation
@every_loss
def test_bundled_data_converge_with_default_parameters(load, formulation, loss):
    """As they are, unscaled; a warning would be an error."""
    X, y = load(return_X_y=True)
    model = LinearSVM(formulation, loss).fit(X, y)
    assert model.converged_
    assert model.primal_objective_ == pytest.approx(primal(model, X, y, np.ones(len(y))), rel=1e-9)


# Switches of the solvers


@pytest.mark.parametrize("solver", ["sdm", "accelerated_sdm"])
@pytest.mark.parametrize(
    "switch",
    [
        {"shrinking": False},
        {"cooling": False},
        {"shrinking": False, "cooling": False},
        {"solver_options": {"permutation": False}},
        {"solver_options": {"restricted_step": False}},
        {"solver_options": {"restricted_step": False, "permutation": False}, "shrinking": False},
    ],
    ids=str,
)
@every_formulation
@every_loss
def test_switches_change_the_way_but_not_the_optimum(digits, formulation, loss, switch, solver):
    X, y = digits[0][:300], digits[1][:300] % 5
    options = {"C": 0.1, "solver": solver, "max_iter": 10_000}
    switched = LinearSVM(formulation, loss, **options, **switch).fit(X, y)
    assert_same_optimum(switched, LinearSVM(formulation, loss, **options).fit(X, y))


def test_permutation_is_switched_off(digits):
    X, y = digits[0][:300], digits[1][:300]
    off = {"solver_options": {"permutation": False}}
    one, two = (LinearSVM(random_state=seed, **off).fit(X, y) for seed in (1, 2))
    np.testing.assert_array_equal(one.coef_, two.coef_)


@every_loss
@every_formulation
def test_solvers_agree(formulation, loss):
    X, y = blobs(4)
    options = {"C": 0.2, "tol": 1e-6, "max_iter": 10_000}
    first, *others = (LinearSVM(formulation, loss, solver=solver, **options).fit(X, y) for solver in SOLVERS)
    for other in others:
        assert_same_optimum(first, other)


def test_larger_intercept_scaling_regularises_the_intercept_less():
    X, y = blobs(2)
    X = X + 5
    free, held = (LinearSVM(intercept_scaling=scale).fit(X, y) for scale in (20.0, 0.05))
    assert abs(free.intercept_[0]) > 5 * abs(held.intercept_[0])
    np.testing.assert_array_equal(LinearSVM(fit_intercept=False).fit(X, y).intercept_, 0)


# Doubtful labels


@pytest.mark.parametrize("solver", SOLVERS)
def test_doubt_is_the_share_of_the_duals(iris, solver):
    X, y = iris
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    model = LinearSVM(C=0.2, class_weight={1: 3.0}, tol=1e-6, solver=solver).fit(X, y, weight)
    doubt = model.label_doubt()
    assert sp.issparse(doubt)
    cap = 0.2 * weight * np.array([1.0, 3.0, 1.0])[y]
    alpha = model.dual_coef_.toarray()
    expected = np.where(np.arange(3) == y[:, None], 0, -alpha / cap[:, None])
    np.testing.assert_allclose(doubt.toarray(), expected, atol=1e-12)
    assert doubt.sum(axis=1).max() <= 1 + 1e-12
    assert doubt.sum(axis=1).max() > 0.5
    np.testing.assert_array_equal(doubt.toarray()[np.arange(len(y)), y], 0)


def test_doubt_of_weston_watkins_is_a_distribution_too():
    X, y = blobs(5)
    model = LinearSVM("weston_watkins", C=0.3, tol=1e-6).fit(X, y)
    doubt, alpha = model.label_doubt().toarray(), model.dual_coef_.toarray()
    share = np.where(np.arange(5) == y[:, None], 0, -alpha / 0.3)
    assert share.sum(axis=1).max() > 1.5  # or nothing would need scaling
    np.testing.assert_allclose(doubt, share / np.maximum(share.sum(axis=1, keepdims=True), 1), atol=1e-12)


@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins"])
def test_doubt_of_two_classes_points_to_the_other_one(formulation):
    X, y = blobs(2)
    model = LinearSVM(formulation, C=0.3, tol=1e-6).fit(X, y)
    doubt = model.label_doubt().toarray()
    assert doubt.shape == (120, 2)
    np.testing.assert_array_equal(doubt[np.arange(120), y], 0)
    np.testing.assert_allclose(doubt[np.arange(120), 1 - y], np.abs(model.dual_coef_.toarray()[:, 0]) / 0.6, atol=1e-12)
    wrong = model.predict(X) != y
    assert wrong.any()
    np.testing.assert_allclose(doubt[wrong].sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins"])
def test_planted_mistakes_are_doubted_most(digits, formulation):
    X, y = digits[0][:800], digits[1][:800].copy()
    planted = np.random.default_rng(0).choice(800, 12, replace=False)
    truth = y[planted].copy()
    y[planted] = (truth + 1 + np.arange(12) % 9) % 10
    doubt = LinearSVM(formulation, C=3.0).fit(X, y).label_doubt()
    ranked = np.argsort(-doubt.sum(axis=1), kind="stable")[:30]
    assert len(set(planted) & set(ranked)) >= 10
    suspects = doubt.toarray()[planted].argmax(axis=1)
    assert np.mean(suspects == truth) >= 0.75


@pytest.mark.parametrize("formulation", ["one_vs_rest", "one_vs_one", "dag"])
def test_doubt_is_refused_where_duals_are_no_distribution(iris, formulation):
    model = LinearSVM(formulation).fit(*iris)
    with pytest.raises(ValueError, match=f"crammer_singer.*weston_watkins.*not '{formulation}'"):
        model.label_doubt()


def test_doubt_is_refused_for_the_squared_hinge(iris):
    with pytest.raises(ValueError, match=r"loss='hinge'.*squared_hinge"):
        LinearSVM(loss="squared_hinge").fit(*iris).label_doubt()


def test_doubt_needs_duals(iris):
    X, y = iris
    with pytest.raises(NotFittedError):
        LinearSVM().label_doubt()
    online = LinearSVM().partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(NotFittedError, match="neither partial_fit nor a fit on a store of blocks keeps them"):
        online.label_doubt()


def test_doubt_is_about_the_last_training(iris):
    X, y = iris
    model = LinearSVM().fit(X, y).partial_fit(X[:5], y[:5])
    with pytest.raises(NotFittedError, match="neither partial_fit nor a fit on a store of blocks keeps them"):
        model.label_doubt()


def test_columns_that_do_not_follow_each_other(iris):
    """Of Fortran's order and of steps, down to two of them."""
    X, y = iris
    for columns in (1, 2, 4):
        plain = LinearSVM().fit(X[:, :columns].copy(), y)
        for same in (np.asfortranarray(X[:, :columns]), np.repeat(X[:, :columns], 2, axis=1)[:, ::2]):
            np.testing.assert_array_equal(LinearSVM().fit(same, y).coef_, plain.coef_)
            np.testing.assert_array_equal(plain.decision_function(same), plain.decision_function(X[:, :columns].copy()))


def test_balanced_weights_of_a_class_without_weight(iris):
    X, y = iris
    weight = (y != 1).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LinearSVM(class_weight="balanced").fit(X, y, sample_weight=weight)
    assert np.isfinite(model.coef_).all() and model.converged_


@pytest.mark.parametrize("machine", [LinearSVM, KernelSVM])
def test_a_path_is_refused_by_what_is_there(machine, tmp_path):
    X, y = load_iris(return_X_y=True)
    write_blocks(tmp_path / "rows.blocks", [(X, y)])
    for path in (tmp_path / "rows.blocks", str(tmp_path / "rows.blocks")):
        with pytest.raises(TypeError, match=r"a store of blocks, on which LinearSVM\(\)\.fit\(open_blocks\(path\)\)"):
            machine().fit(path, y)
    for path in (tmp_path, "x" * 5000, "no\0path", "rows.svm"):
        with pytest.raises(TypeError, match=r"not a path or a text, got .*read_svmlight\(path\) reads a file"):
            machine().fit(path, y)
