"""partial_fit: every row is a new example, visited once, in order, with the exact step from duals of zero."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from multimargin import LinearSVM

FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
LOSSES = ("hinge", "squared_hinge")
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS)
every_loss = pytest.mark.parametrize("loss", LOSSES)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    kept = y < 5
    return X[kept][:300] / 16, y[kept][:300]


def online(X, y, *args, k=5, **options):
    return LinearSVM(*args, **options).partial_fit(X, y, classes=np.arange(k))


# The steps for one example whose duals are zero, each straight from its definition. They return the duals, signed
# so that W gains the outer product of duals and x; scores are those of W before the step.


def root(decreasing):
    """Where a decreasing function of one number crosses zero, by bisection."""
    low, high = -1e6, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if decreasing(middle) > 0 else (low, middle)
    return (low + high) / 2


def step_crammer_singer(scores, label, curvature, C):
    own = np.arange(len(scores)) == label
    B = scores + ~own
    D = B + curvature * C * own
    beta = root(lambda beta: np.maximum(D - beta, 0).sum() - curvature * C)
    return np.minimum(C * own, (beta - B) / curvature)


def step_weston_watkins(scores, label, curvature, C):
    v = (1 - scores[label] + scores) / curvature
    others = np.arange(len(scores)) != label
    gamma = root(lambda gamma: np.clip(v - gamma, 0, C)[others].sum() - gamma)
    alpha = np.where(others, -np.clip(v - gamma, 0, C), 0)
    alpha[label] = -alpha.sum()
    return alpha


def step_one_vs_rest(scores, label, curvature, C, diagonal=0.0):
    sign = np.where(np.arange(len(scores)) == label, 1, -1)
    return sign * np.clip((1 - sign * scores) / (curvature + diagonal), 0, C)


def visit_rows(step, W, X, y, C):
    """W: (classes, features + 1), with an intercept of scale 1."""
    W = W.copy()
    for x, label, cap in zip(np.column_stack([X, np.ones(len(X))]), y, np.broadcast_to(C, len(y)), strict=True):
        W += np.outer(step(W @ x, label, x @ x, cap), x)
    return W


def weights(model):
    return np.column_stack([model.coef_, model.intercept_])


STEPS = {
    "crammer_singer": step_crammer_singer,
    "weston_watkins": step_weston_watkins,
    "one_vs_rest": step_one_vs_rest,
}


@pytest.mark.parametrize("formulation", STEPS)
def test_rows_are_visited_once_with_the_exact_step(digits, formulation):
    X, y = digits
    expected = visit_rows(STEPS[formulation], np.zeros((5, 65)), X, y, 0.03)
    np.testing.assert_allclose(weights(online(X, y, formulation, C=0.03)), expected, atol=1e-9)


def test_squared_hinge_has_its_own_step(digits):
    X, y = digits

    def step(scores, label, curvature, C):
        return step_one_vs_rest(scores, label, curvature, np.inf, diagonal=1 / (2 * C))

    expected = visit_rows(step, np.zeros((5, 65)), X, y, 0.03)
    np.testing.assert_allclose(weights(online(X, y, "one_vs_rest", "squared_hinge", C=0.03)), expected, atol=1e-9)


@pytest.mark.parametrize(("formulation", "factor"), [("crammer_singer", 2), ("weston_watkins", 2), ("one_vs_rest", 1)])
def test_two_classes_have_one_machine(digits, formulation, factor):
    X, y = digits[0], digits[1] % 2

    def step(scores, label, curvature, C):
        sign = 1 if label == 1 else -1
        return sign * np.clip((1 - sign * scores) / curvature, 0, factor * C)

    expected = visit_rows(step, np.zeros((1, 65)), X, y, 0.03)
    np.testing.assert_allclose(weights(online(X, y, formulation, C=0.03, k=2)), expected, atol=1e-9)


def test_pairs_see_the_rows_of_their_classes(digits):
    X, y = digits
    model = online(X, y, "one_vs_one", C=0.03)
    here = (y == 1) | (y == 3)  # the sixth pair: (0, 1) ... (0, 4), (1, 2), (1, 3)

    def step(scores, label, curvature, C):
        sign = 1 if label == 1 else -1
        return sign * np.clip((1 - sign * scores) / curvature, 0, C)

    expected = visit_rows(step, np.zeros((1, 65)), X[here], y[here], 0.03)
    np.testing.assert_allclose(weights(model)[5:6], expected, atol=1e-9)


def test_weights_of_rows_are_their_caps(digits):
    X, y = digits
    weight = np.random.default_rng(0).uniform(0, 2, len(y)) * (np.arange(len(y)) % 5 > 0)
    model = LinearSVM(C=0.03, class_weight={2: 3.0})
    model.partial_fit(X, y, classes=np.arange(5), sample_weight=weight)
    cap = 0.03 * weight * np.where(y == 2, 3.0, 1.0)
    seen = cap > 0
    expected = visit_rows(step_crammer_singer, np.zeros((5, 65)), X[seen], y[seen], cap[seen])
    np.testing.assert_allclose(weights(model), expected, atol=1e-9)


@pytest.mark.parametrize("solver", ["auto", "sdm", "accelerated_sdm", "newton"])
def test_learning_goes_on_from_a_fit(digits, solver):
    X, y = digits
    model = LinearSVM(C=0.03, solver=solver).fit(X[:200, :8], y[:200])
    expected = visit_rows(step_crammer_singer, weights(model), X[200:, :8], y[200:], 0.03)
    model.partial_fit(X[200:, :8], y[200:])
    np.testing.assert_allclose(weights(model), expected, atol=1e-9)


def test_learning_goes_on_from_weights_set_by_hand(digits):
    X, y = digits
    model = online(X[:10], y[:10], C=0.03)
    start = np.random.default_rng(0).normal(size=(5, 65))
    model.coef_, model.intercept_ = start[:, :-1].copy(), start[:, -1].copy()
    expected = visit_rows(step_crammer_singer, start, X[10:], y[10:], 0.03)
    np.testing.assert_allclose(weights(model.partial_fit(X[10:], y[10:])), expected, atol=1e-9)


# Chunks


def chunk_by_chunk(model, X, y, chunk):
    for begin in range(0, len(y), chunk):
        model.partial_fit(X[begin : begin + chunk], y[begin : begin + chunk], classes=np.arange(5))
    return model


@pytest.mark.parametrize("chunk", [1, 7, 64])
@every_formulation
@every_loss
def test_chunks_are_the_same_as_one_call(digits, formulation, loss, chunk):
    X, y = digits[0][:130], digits[1][:130]
    in_chunks = chunk_by_chunk(LinearSVM(formulation, loss), sp.csr_array(X), y, chunk)
    np.testing.assert_array_equal(weights(in_chunks), weights(online(sp.csr_array(X), y, formulation, loss)))
    in_chunks = chunk_by_chunk(LinearSVM(formulation, loss), X + 0.1, y, chunk)
    np.testing.assert_array_equal(weights(in_chunks), weights(online(X + 0.1, y, formulation, loss)))
    in_chunks = chunk_by_chunk(LinearSVM(formulation, loss), X, y, chunk)
    np.testing.assert_array_equal(weights(in_chunks), weights(online(X, y, formulation, loss)))


@every_formulation
def test_order_is_kept(digits, formulation):
    X, y = digits
    forwards, backwards = online(X, y, formulation), online(X[::-1], y[::-1], formulation)
    assert not np.allclose(weights(forwards), weights(backwards))
    np.testing.assert_array_equal(weights(forwards), weights(online(X, y, formulation, random_state=5)))


@every_formulation
@every_loss
def test_a_row_seen_again_is_a_new_example(digits, formulation, loss):
    X, y = digits
    twice = online(X, y, formulation, loss, C=1e-3).partial_fit(X, y)
    repeated = online(np.vstack([X, X]), np.tile(y, 2), formulation, loss, C=1e-3)
    np.testing.assert_array_equal(weights(twice), weights(repeated))
    assert not np.allclose(weights(twice), weights(online(X, y, formulation, loss, C=1e-3)))


@every_formulation
@every_loss
def test_one_pass_learns(digits, formulation, loss):
    X, y = digits
    assert online(X, y, formulation, loss).score(X, y) > 0.9


@pytest.mark.parametrize("solver", ["sdm", "accelerated_sdm", "newton"])
@every_formulation
def test_solver_and_threads_do_not_matter(digits, formulation, solver):
    X, y = digits[0][:, :8], digits[1]
    reference = online(X, y, formulation)
    for n_jobs in (1, 2):
        model = online(X, y, formulation, solver=solver, n_jobs=n_jobs)
        np.testing.assert_array_equal(weights(model), weights(reference))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("container", [sp.csr_array, sp.csc_array, sp.coo_array])
@every_formulation
def test_sparse_equals_dense(digits, formulation, container, dtype):
    X, y = digits[0].astype(dtype), digits[1]
    np.testing.assert_allclose(
        weights(online(container(X), y, formulation)), weights(online(X, y, formulation)), atol=1e-8
    )


def test_rows_without_features_teach_nothing(digits):
    X, y = digits[0][:50].copy(), digits[1][:50]
    X[::3] = 0
    kept = np.arange(50) % 3 > 0
    with_zeros = online(X, y, fit_intercept=False)
    without = online(X[kept], y[kept], fit_intercept=False)
    np.testing.assert_array_equal(with_zeros.coef_, without.coef_)
    np.testing.assert_array_equal(with_zeros.intercept_, 0)


def test_intercept_scaling(digits):
    X, y = digits
    model = online(X, y, C=0.03, intercept_scaling=4.0)
    by_hand = online(np.column_stack([X, np.full(len(X), 4.0)]), y, C=0.03, fit_intercept=False)
    np.testing.assert_allclose(model.coef_, by_hand.coef_[:, :-1], atol=1e-12)
    np.testing.assert_allclose(model.intercept_, 4 * by_hand.coef_[:, -1], atol=1e-12)


# What a model keeps


@every_formulation
def test_nothing_grows(digits, formulation):
    X, y = digits
    model = online(X, y, formulation)
    names, size = set(vars(model)), len(pickle.dumps(model))
    for _ in range(20):
        model.partial_fit(X, y)
    assert set(vars(model)) == names
    assert len(pickle.dumps(model)) == size
    assert not [name for name, value in vars(model).items() if np.shape(value)[:1] == (len(y),)]


def test_no_certificate_is_left_of_an_earlier_fit(digits):
    X, y = digits
    model = LinearSVM().fit(X, y).partial_fit(X, y)
    for name in ("dual_coef_", "support_", "primal_objective_", "dual_objective_", "dual_gap_", "converged_"):
        assert not hasattr(model, name), name


def test_fit_starts_anew(digits):
    X, y = digits
    model = online(X, y)
    np.testing.assert_array_equal(model.fit(X, y).coef_, LinearSVM().fit(X, y).coef_)
    warm = online(X, y, warm_start=True)  # without duals there is nothing to start from
    np.testing.assert_array_equal(warm.fit(X, y).coef_, LinearSVM().fit(X, y).coef_)


# Classes and features


def test_classes_are_needed_first(digits):
    X, y = digits
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        LinearSVM().partial_fit(X, y)
    model = online(X, y)
    model.partial_fit(X, y)
    model.partial_fit(X, y, classes=[4, 3, 2, 1, 0])
    np.testing.assert_array_equal(model.classes_, np.arange(5))


@pytest.mark.parametrize("classes", [[0, 1, 2], [0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5]], ids=str)
def test_other_classes_later_are_refused(digits, classes):
    model = online(*digits)
    with pytest.raises(ValueError, match=r"classes.*not the same as on the last call"):
        model.partial_fit(*digits, classes=classes)


@pytest.mark.parametrize("unknown", [-1, 2.5, 7])
def test_unknown_labels_are_refused(digits, unknown):
    X, y = digits[0][:6], np.array([0, 1, 3, 4, 0, unknown])
    with pytest.raises(ValueError, match=rf"(labels.*not among classes.*{unknown}|continuous)"):
        LinearSVM().partial_fit(X, y, classes=np.arange(5))
    model = online(*digits)
    before = weights(model)
    with pytest.raises(ValueError, match=rf"(labels.*not among classes.*{unknown}|continuous)"):
        model.partial_fit(X, y)
    np.testing.assert_array_equal(weights(model), before)


def test_refused_first_call_leaves_a_model_that_is_not_fitted(digits):
    X, y = digits
    model = LinearSVM()
    with pytest.raises(ValueError, match="not among classes"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, y)


def test_number_of_features_is_checked(digits):
    X, y = digits
    model = online(X, y)
    with pytest.raises(ValueError, match="X has 63 features, but LinearSVM is expecting 64"):
        model.partial_fit(X[:, 1:], y)


def test_a_chunk_with_many_classes_is_no_regression_problem():
    """scikit-learn would warn that y has too many different values for its length."""
    X, y = np.random.default_rng(0).normal(size=(25, 3)), np.arange(25) % 20
    model = online(X, y, k=20)
    assert model.partial_fit(X, y[::-1]).coef_.shape == (20, 3)


def test_balanced_weights_cannot_be_known(digits):
    with pytest.raises(ValueError, match=r"class_weight='balanced'.*partial_fit"):
        online(*digits, class_weight="balanced")


def test_string_classes_that_come_late(digits):
    X, y = digits
    names = np.array(["e", "d", "c", "b", "a"])
    model = LinearSVM()
    few = y < 2
    model.partial_fit(X[few], names[y[few]], classes=names)  # three classes have no row yet
    model.partial_fit(X[~few], names[y[~few]])
    assert list(model.classes_) == ["a", "b", "c", "d", "e"]
    assert np.all(np.abs(model.coef_).sum(axis=1) > 0)
    assert {"a", "b", "c"} <= set(model.predict(X)) <= set(names)
