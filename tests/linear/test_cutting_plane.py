"""The cutting-plane method: its optimum against an interior point method's, its master problem, its bounds."""

import functools
import warnings

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from multimargin import LinearSVM
from multimargin.linear.assignments import InsideMargins, WorstClasses
from multimargin.linear.master_problem import solve_master
from tests.oracles import Problem, is_feasible, losses, objectives_of, optimum, problems_of

FORMULATIONS = ("crammer_singer", "one_vs_rest", "one_vs_one", "dag")
STORAGES = {
    "dense float32": lambda X: X.astype(np.float32),
    "csr float32": lambda X: sp.csr_array(X.astype(np.float32)),
    "csr float64": sp.csr_array,
}
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS)


@functools.cache
def data(n_classes, n_samples=40, n_features=5):
    """Noisy classes; values that float32 holds exactly; one zero row, which is no example."""
    rng = np.random.default_rng(n_classes)
    y = np.arange(n_samples) % n_classes
    X = rng.normal(size=(n_samples, n_features)) + rng.normal(size=(n_classes, n_features))[y]
    X[7] = 0
    return X.astype(np.float32).astype(np.float64), y


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def fit(X, y, formulation="crammer_singer", *, sample_weight=None, **options):
    options = dict(C=0.5, solver="cutting_plane", tol=1e-6, fit_intercept=False) | options
    return LinearSVM(formulation, **options).fit(X, y, sample_weight)


def assert_certified(model, X, y, cap, tol):
    """The reported objectives are those of the model as it stands, and the gap is at most tol."""
    primal, dual = objectives_of(model, False, X, y, cap)
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-9)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-9, abs=1e-9)
    assert model.dual_gap_ == pytest.approx(1 - dual / primal, abs=1e-9)
    assert (model.worst_gap_ <= tol) == model.converged_


@every_formulation
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("intercept", [0.0, 2.0])
def test_the_optimum_is_the_interior_point_methods(formulation, n_classes, intercept):
    X, y = data(n_classes)
    options = dict(fit_intercept=True, intercept_scaling=intercept) if intercept else {}
    whole = np.column_stack([X, np.full(len(X), intercept)]) if intercept else X
    cap = np.full(len(y), 0.5)
    model = fit(X, y, formulation, **options)
    best = sum(optimum(problem)[0] for problem in problems_of(formulation, False, whole, y, cap))
    assert model.converged_
    assert model.dual_objective_ <= best * (1 + 1e-7) and best * (1 - 1e-7) <= model.primal_objective_
    assert model.primal_objective_ == pytest.approx(best, rel=2e-6)
    assert_certified(model, whole, y, cap, 1e-6)


@pytest.mark.parametrize("C", [1e-80, 1e-4, 1e-2, 10.0])
@every_formulation
def test_small_and_large_c(formulation, C):
    X, y = data(3)
    model, best = fit(X, y, formulation, C=C), fit(X, y, formulation, C=C, solver="newton")
    assert model.converged_
    assert model.primal_objective_ == pytest.approx(best.primal_objective_, rel=2e-6)


@every_formulation
def test_sdm_finds_the_same_on_digits(formulation):
    X, y = load_digits(n_class=5, return_X_y=True)
    X = X / 16
    model = fit(X, y, formulation, tol=1e-3)
    best = fit(X, y, formulation, tol=1e-5, solver="sdm")
    assert model.converged_ and model.worst_gap_ <= 1e-3
    assert best.dual_objective_ <= model.primal_objective_ <= best.primal_objective_ * (1 + 1.1e-3)
    assert_certified(model, X, y, np.full(len(y), 0.5), 1e-3)


@every_formulation
@pytest.mark.parametrize("storage", STORAGES)
def test_storage_does_not_matter(formulation, storage):
    X, y = data(4)
    model, plain = fit(STORAGES[storage](X), y, formulation), fit(X, y, formulation)
    assert model.primal_objective_ == pytest.approx(plain.primal_objective_, rel=2e-6)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-2)


@every_formulation
def test_weight_two_is_the_row_twice_and_weight_zero_none(formulation):
    X, y = data(3)
    weight = np.arange(len(y)) // 3 % 3.0
    rows = np.repeat(np.arange(len(y)), weight.astype(int))
    weighted, repeated = fit(X, y, formulation, sample_weight=weight), fit(X[rows], y[rows], formulation)
    assert weighted.primal_objective_ == pytest.approx(repeated.primal_objective_, rel=2e-6)


@pytest.mark.parametrize("n_jobs", [1, 2])
@every_formulation
def test_fits_are_bit_identical(iris, formulation, n_jobs):
    first, second = (fit(*iris, formulation, tol=1e-4, n_jobs=n_jobs) for _ in range(2))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    np.testing.assert_array_equal(first.dual_coef_.toarray(), second.dual_coef_.toarray())
    told = ["machine", "epoch", "gap"]  # threads finish in any order
    np.testing.assert_array_equal(np.sort(first.history_[told]), np.sort(second.history_[told]))


def test_history_has_both_bounds_of_every_pass(iris):
    history = fit(*iris).history_
    assert len(history) > 10
    assert set(history["solver"]) == {"cutting_plane"}
    assert np.all(np.diff(history["primal"]) <= 0)
    assert np.all(np.diff(history["dual"]) >= -1e-9 * history["dual"][-1])
    assert np.all(history["dual"] <= history["primal"] * (1 + 1e-12))
    np.testing.assert_allclose(history["gap"], np.maximum(0, 1 - history["dual"] / history["primal"]), atol=1e-12)
    assert history["primal"][0] == 75.0 and history["dual"][0] == 0.0  # W = 0: every row has a loss of 1
    assert history["violation"][0] == 1.0


@pytest.mark.parametrize("max_iter", [1, 2, 7])
@every_formulation
def test_stopped_early_the_certificate_is_that_of_the_last_pass(iris, formulation, max_iter):
    X, y = iris
    with pytest.warns(ConvergenceWarning):
        model = fit(X, y, formulation, max_iter=max_iter)
    assert model.n_iter_ == max_iter and not model.converged_
    assert_certified(model, X, y, np.full(len(y), 0.5), 1e-6)
    whole = fit(X, y, formulation)
    assert model.dual_objective_ <= whole.primal_objective_ and whole.dual_objective_ <= model.primal_objective_
    if formulation == "crammer_singer":
        assert model.primal_objective_ == pytest.approx(model.history_["primal"][-1], rel=1e-12)


def test_a_time_limit_is_met_in_the_middle_of_the_first_pass():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6000, 300)), np.arange(6000) % 80  # a pass is more than one slice
    with pytest.warns(ConvergenceWarning):
        model = fit(X, y, time_limit=1e-9)
    assert len(model.history_) == 0
    assert model.primal_objective_ == pytest.approx(0.5 * len(y)) and model.dual_objective_ == 0
    assert not model.coef_.any() and model.dual_gap_ == 1


@pytest.mark.parametrize("call", [1, 5])
@pytest.mark.parametrize("n_jobs", [1, 2])
@every_formulation
def test_interrupted_the_model_is_what_training_had_reached(iris, formulation, call, n_jobs):
    X, y = iris
    told = []

    def interrupt(record):
        told.append(record)
        if len(told) == call:
            raise KeyboardInterrupt

    model = LinearSVM(formulation, solver="cutting_plane", tol=1e-12, n_jobs=n_jobs, callbacks=[interrupt])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.converged_ is False
    assert np.isfinite(model.coef_).all() and set(model.predict(X)) <= {0, 1, 2}
    if not np.isnan(model.dual_gap_):
        whole = np.column_stack([X, np.ones(len(y))])
        primal, _ = objectives_of(model, False, whole, y, np.ones(len(y)))
        assert model.primal_objective_ == pytest.approx(primal, rel=1e-9) and model.dual_gap_ > 0


@every_formulation
def test_warm_start_goes_on_from_the_duals(iris, formulation):
    X, y = iris
    model = fit(X, y, formulation, tol=1e-4, warm_start=True)
    cold = model.n_iter_
    model.fit(X, y)
    assert model.converged_ and model.n_iter_ < cold / 2
    model.set_params(C=0.6, tol=1e-6).fit(X, y)
    fresh = fit(X, y, formulation, C=0.6)
    assert model.converged_
    assert model.primal_objective_ == pytest.approx(fresh.primal_objective_, rel=2e-6)
    assert_certified(model, X, y, np.full(len(y), 0.6), 1e-6)


def test_when_float64_is_exhausted_it_says_so(iris):
    with pytest.warns(ConvergenceWarning):
        model = fit(*iris, tol=1e-300, max_iter=100_000)
    assert model.n_iter_ < 1000 and model.dual_gap_ < 1e-9


@every_formulation
def test_nothing_but_zeros(formulation):
    model = fit(np.zeros((6, 2)), np.arange(6) % 3, formulation)
    assert model.converged_ and not model.coef_.any()
    assert model.primal_objective_ == model.dual_objective_ > 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"formulation": "weston_watkins"}, "cutting_plane.*crammer_singer.*one_vs_rest.*one_vs_one.*dag"),
        ({"loss": "squared_hinge"}, "cutting_plane.*hinge"),
        ({"stopping": "violation"}, "cutting_plane.*gap"),
        ({"solver_options": {"permutation": True}}, "permutation"),
    ],
    ids=str,
)
def test_what_it_does_not_solve_is_refused(iris, options, message):
    with pytest.raises(ValueError, match=message):
        LinearSVM(**{"solver": "cutting_plane"} | options).fit(*iris)


# The master problem


def value(gram, offset, weight):
    return offset @ weight - 0.5 * weight @ gram @ weight


def assert_solves(gram, offset, weight, slack, rel=1e-9):
    """Feasible, and no direction gains: the gradient's largest entry, or 0, is what the weights have of it."""
    assert np.all(weight >= 0) and weight.sum() <= 1 + 1e-15
    gradient = offset - gram @ weight
    scale = np.abs(offset).max()
    assert max(0.0, gradient.max()) - gradient @ weight <= rel * scale
    assert slack == pytest.approx(max(0.0, gradient.max()), abs=rel * scale)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 2**32 - 1), st.sampled_from([1e-60, 1e-6, 1.0, 1e3]))
def test_master_is_solved_whatever_the_cuts(n_cuts, size, seed, scale):
    """Cuts that depend on one another (more than dimensions, or twice the same), of any scale."""
    rng = np.random.default_rng(seed)
    A = scale * rng.normal(size=(n_cuts, size))
    offset = rng.normal(size=n_cuts) + 1
    twice = rng.integers(n_cuts, size=n_cuts // 3)
    A, offset = np.vstack([A, A[twice]]), np.append(offset, offset[twice])
    assert_solves(A @ A.T, offset, *solve_master(A @ A.T, offset), rel=1e-5)


@pytest.mark.parametrize("n_cuts", [3, 30, 120])
def test_master_is_clarabels(n_cuts):
    rng = np.random.default_rng(n_cuts)
    A, offset = rng.normal(size=(n_cuts, 150)) + 1, 10 * rng.random(n_cuts) + 100
    gram = A @ A.T
    constraints = sp.vstack([-sp.eye_array(n_cuts), np.ones((1, n_cuts))], format="csc")
    options = clarabel.DefaultSettings()
    options.verbose = False
    cones = [clarabel.NonnegativeConeT(n_cuts + 1)]
    bounds = np.append(np.zeros(n_cuts), 1.0)
    upper = sp.csc_matrix(np.triu(gram))
    theirs = clarabel.DefaultSolver(upper, -offset, constraints, bounds, cones, options).solve()
    weight, slack = solve_master(gram, offset)
    assert value(gram, offset, weight) == pytest.approx(-theirs.obj_val, rel=1e-7)
    assert_solves(gram, offset, weight, slack)


def test_a_guess_of_the_slack_changes_nothing():
    rng = np.random.default_rng(0)
    A, offset = rng.normal(size=(20, 30)), 50 + rng.random(20)
    weight, slack = solve_master(A @ A.T, offset)
    for guess in (0.5 * slack, slack, 2 * slack):
        again, _ = solve_master(A @ A.T, offset, guess)
        np.testing.assert_allclose(again, weight, atol=1e-7)


def test_cuts_without_gradients():
    weight, slack = solve_master(np.zeros((3, 3)), np.array([1.0, 3.0, 2.0]))
    np.testing.assert_array_equal(weight, [0, 1, 0])
    assert slack == 3
    weight, slack = solve_master(np.zeros((1, 1)), np.array([-1.0]))
    assert weight == 0 and slack == 0


# Cuts


@pytest.mark.parametrize("policy", ["crammer_singer", "one_vs_rest"])
@settings(max_examples=30, deadline=None)
@given(lanes=st.integers(3, 7), seed=st.integers(0, 2**32 - 1))
def test_cuts_are_below_the_loss_and_touch_it_where_they_were_made(policy, lanes, seed):
    rng = np.random.default_rng(seed)
    n, X = 20, rng.normal(size=(20, 4))
    lowest = 0 if policy == "crammer_singer" else -1  # -1: in none of these lanes
    label = rng.integers(lowest, lanes, size=n).astype(np.int32)
    cap = rng.random(n) + 0.1
    problem = Problem(policy, False, lanes, X, label, cap)
    assignments = (WorstClasses if policy == "crammer_singer" else InsideMargins)(label, cap, lanes)
    chosen, weights = [], rng.dirichlet(np.ones(4))
    combined = np.zeros((n, lanes))
    for weight in weights:
        W, duals, offset = rng.normal(size=(4, lanes)), np.full((n, lanes), np.nan), 0.0
        for begin, end in ((0, 9), (9, n)):
            offset = offset + assignments.choose(begin, end, X[begin:end] @ W, duals[begin:end])
        chosen.append(assignments.chosen())
        assert is_feasible(problem, duals)
        combined += weight * duals
        gradient = X.T @ duals
        for at in (W, rng.normal(size=W.shape)):
            products = (gradient * at).sum(axis=0) if policy == "one_vs_rest" else (gradient * at).sum()
            cut, loss = np.sum(offset - products), losses(problem, at.T).sum()
            assert cut <= loss * (1 + 1e-12)
            assert at is not W or cut == pytest.approx(loss, rel=1e-12)
    alpha = np.zeros((n, lanes))
    parts = zip(*chosen, strict=True)
    assignments.combine([list(zip(weights, part, strict=True)) for part in parts], alpha)
    np.testing.assert_allclose(alpha, combined, atol=1e-14)
    assert is_feasible(problem, alpha)


def test_no_warnings_of_its_own(iris):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(*iris, "one_vs_rest", tol=1e-3)
