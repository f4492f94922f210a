"""Trained models against an interior point method, LIBLINEAR and themselves."""

import functools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from multimargin import LinearSVM
from tests.oracles import (
    Problem,
    duals_of,
    objectives_of,
    optimum,
    primal_objective,
    problems_of,
    run,
    weights_of,
)

FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
SOLVERS = ("sdm", "accelerated_sdm", "newton")
LOSSES = ("hinge", "squared_hinge")
STORAGES = {
    "dense float32": lambda X: X.astype(np.float32),
    "dense float64": lambda X: X,
    "csr float32 int32": lambda X: sp.csr_array(X.astype(np.float32)),
    "csr float64 int32": sp.csr_array,
    "csr float64 int64": lambda X: wide_indices(sp.csr_array(X)),
}
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS)
every_loss = pytest.mark.parametrize("loss", LOSSES)
every_solver = pytest.mark.parametrize("solver", SOLVERS)


def wide_indices(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


@functools.cache
def data(n_classes, n_samples=36, n_features=6):
    """Noisy classes; values that float32 holds exactly; zeros, and one zero row."""
    rng = np.random.default_rng(n_classes)
    y = np.arange(n_samples) % n_classes
    X = rng.normal(size=(n_samples, n_features)) + rng.normal(size=(n_classes, n_features))[y]
    X[rng.random(X.shape) < 0.3] = 0
    X[7] = 0
    return X.astype(np.float32).astype(np.float64), y


def with_intercept(X, scaling):
    X = X.toarray() if sp.issparse(X) else X
    return np.column_stack([X, np.full(len(X), scaling)]) if scaling else X


@functools.cache
def best_objective(formulation, loss, n_classes, intercept, C=0.5):
    X, y = data(n_classes)
    problems = problems_of(
        formulation, loss == "squared_hinge", with_intercept(X, intercept), y, np.full(len(y), float(C))
    )
    return sum(optimum(problem)[0] for problem in problems)


def fit(X, y, formulation="crammer_singer", loss="hinge", *, C=0.5, sample_weight=None, **options):
    options = dict(tol=1e-6, max_iter=100_000, fit_intercept=False) | options
    return LinearSVM(formulation, loss, C, **options).fit(X, y, sample_weight)


def check_certificate(model, X, y, cap, best):
    """Bounds, convergence, and reported objectives equal to those of the model as it stands."""
    assert model.converged_ and model.dual_gap_ <= model.tol and model.worst_gap_ <= model.tol
    assert model.dual_objective_ <= best * (1 + 1e-8)
    assert model.primal_objective_ >= best * (1 - 1e-8)
    assert model.primal_objective_ == pytest.approx(best, rel=1e-5)
    assert model.dual_gap_ == pytest.approx(1 - model.dual_objective_ / model.primal_objective_, abs=1e-12)
    whole = with_intercept(X, model.intercept_scaling if model.fit_intercept else 0)
    primal, dual = objectives_of(model, model.loss == "squared_hinge", whole, y, cap)
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-9)
    # The best dual value seen certifies; the duals that are kept may be a little worse.
    assert dual <= model.dual_objective_ * (1 + 1e-9)
    assert dual >= model.primal_objective_ * (1 - 2 * model.tol)


@every_formulation
@every_loss
@every_solver
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("intercept", [0.0, 2.0])
def test_every_solver_reaches_the_optimum(formulation, loss, solver, n_classes, intercept):
    X, y = data(n_classes)
    options = dict(fit_intercept=True, intercept_scaling=intercept) if intercept else dict(fit_intercept=False)
    model = fit(X, y, formulation, loss, solver=solver, **options)
    check_certificate(model, X, y, np.full(len(y), 0.5), best_objective(formulation, loss, n_classes, intercept))
    if solver == "sdm":
        V = model.dual_coef_.toarray().T @ with_intercept(X, intercept)
        np.testing.assert_allclose(weights_of(model), V, rtol=1e-9, atol=1e-9)
    if n_classes > 2 and formulation in ("crammer_singer", "weston_watkins"):
        np.testing.assert_allclose(weights_of(model).sum(axis=0), 0, atol=1e-9)


@pytest.mark.parametrize("storage", STORAGES)
@every_formulation
@every_solver
def test_every_storage_gives_the_same_optimum(storage, formulation, solver):
    X, y = data(3)
    model = fit(STORAGES[storage](X), y, formulation, solver=solver)
    check_certificate(model, X, y, np.full(len(y), 0.5), best_objective(formulation, "hinge", 3, 0.0))


@every_formulation
@every_loss
@every_solver
def test_loose_tolerances_are_certified_too(formulation, loss, solver):
    """These train in float32, and certify in float64."""
    X, y = data(3)
    model = fit(X, y, formulation, loss, solver=solver, tol=1e-3)
    best = best_objective(formulation, loss, 3, 0.0)
    assert model.converged_ and model.dual_gap_ <= 1e-3
    assert model.dual_objective_ <= best * (1 + 1e-8) and best * (1 - 1e-8) <= model.primal_objective_
    assert model.primal_objective_ <= best * (1 + 1e-3)
    primal, _ = objectives_of(model, loss == "squared_hinge", X, y, np.full(len(y), 0.5))
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-9)


@every_formulation
@every_loss
@every_solver
@pytest.mark.parametrize("n_samples", [2, 3, 5])
def test_a_few_rows_are_enough(formulation, loss, solver, n_samples):
    """Problems that a few steps solve exactly."""
    rng = np.random.default_rng(n_samples)
    X, y = rng.normal(size=(n_samples, 3)), np.arange(n_samples) % 3
    model = fit(X, y, formulation, loss, solver=solver)
    cap = np.full(n_samples, 0.5)
    best = sum(optimum(problem)[0] for problem in problems_of(formulation, loss == "squared_hinge", X, y, cap))
    check_certificate(model, X, y, cap, best)


@every_formulation
@every_loss
@pytest.mark.parametrize("n_classes", [2, 3])
def test_wide_separable_rows_converge_by_default(formulation, loss, n_classes):
    """More features than rows: the passes overshoot the margins, and all duals fall back to zero on the way."""
    X, y = np.random.default_rng(0).normal(size=(30, 200)), np.arange(30) % n_classes
    model = LinearSVM(formulation, loss).fit(X, y)
    assert model.converged_ and max(model.dual_gap_, model.worst_gap_) <= 1e-3
    assert model.score(X, y) == 1
    plain = fit(X, y, formulation, loss, C=1.0, solver="sdm", fit_intercept=True)
    assert model.primal_objective_ == pytest.approx(plain.primal_objective_, rel=2e-3)


@every_formulation
@pytest.mark.parametrize("solver_options", [dict(restricted_step=False), dict(permutation=False)])
@pytest.mark.parametrize("switches", [dict(shrinking=False), dict(cooling=False), dict(shrinking=False, cooling=False)])
def test_heuristics_do_not_move_the_optimum(formulation, solver_options, switches):
    X, y = data(5)
    model = fit(X, y, formulation, solver="sdm", solver_options=solver_options, **switches)
    assert model.primal_objective_ == pytest.approx(best_objective(formulation, "hinge", 5, 0.0), rel=1e-5)


@every_formulation
@every_loss
@pytest.mark.parametrize("solver", ["sdm", "accelerated_sdm"])
def test_stopping_by_violation_reaches_the_optimum_too(formulation, loss, solver):
    X, y = data(3)
    model = fit(X, y, formulation, loss, solver=solver, stopping="violation", tol=1e-5)
    assert model.converged_
    assert model.primal_objective_ == pytest.approx(best_objective(formulation, loss, 3, 0.0), rel=1e-4)


@pytest.mark.parametrize("n_jobs", [2, 3])
@every_formulation
def test_threads_do_not_move_the_optimum(formulation, n_jobs):
    X, y = data(5)
    models = [fit(X, y, formulation, n_jobs=n_jobs) for _ in range(2)]
    assert models[0].primal_objective_ == pytest.approx(best_objective(formulation, "hinge", 5, 0.0), rel=1e-5)
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


# Two classes


@every_loss
@every_solver
@pytest.mark.parametrize("joint", ["crammer_singer", "weston_watkins"])
def test_two_classes_are_the_binary_machine_at_twice_the_C(joint, loss, solver):
    X, y = data(2)
    model = fit(X, y, joint, loss, solver=solver)
    binary = fit(X, y, "one_vs_rest", loss, solver=solver, C=1.0)
    np.testing.assert_allclose(model.coef_, binary.coef_, atol=1e-8)
    assert model.primal_objective_ == pytest.approx(binary.primal_objective_ / 2, rel=1e-9)
    assert model.dual_objective_ == pytest.approx(binary.dual_objective_ / 2, rel=1e-9)


@every_loss
@pytest.mark.parametrize("joint", ["crammer_singer", "weston_watkins"])
def test_two_lanes_in_the_core_are_the_binary_machine(joint, loss):
    X, y = data(2)
    X, y = np.delete(X, 7, axis=0), np.delete(y, 7)
    problem = Problem(joint, loss == "squared_hinge", 2, X, y, np.full(len(y), 0.5))
    block, weights = problem.block(), problem.weights()
    assert run(block, weights, max_epochs=1e5, tolerance=1e-9, shrinking=True, permute=True)[0] == "tolerance"
    W, a = weights.array[:, :2].T, duals_of(block, 2)
    model = fit(X, y, "one_vs_rest", loss, C=1.0, tol=1e-9)
    np.testing.assert_allclose(W[1] - W[0], model.coef_[0], atol=1e-4)
    np.testing.assert_allclose(W[0], -W[1], atol=1e-10)
    np.testing.assert_allclose(a[:, 0], -a[:, 1], atol=1e-12)
    assert 2 * primal_objective(problem, W) == pytest.approx(model.primal_objective_, rel=1e-7)


# Rows without influence, weights, permutations


@every_formulation
@every_loss
@every_solver
def test_zero_rows_and_zero_weights_leave_no_gap(formulation, loss, solver):
    X, y = data(3)
    X = X.copy()
    X[[2, 3, 4]] = 0
    weight = np.ones(len(y))
    weight[[5, 9, 11, 20]] = 0
    weight[4] = 0  # neither features nor weight
    model = fit(X, y, formulation, loss, solver=solver, sample_weight=weight)
    problems = problems_of(formulation, loss == "squared_hinge", X, y, np.maximum(0.5 * weight, 1e-12))
    best = sum(optimum(problem)[0] for problem in problems)
    assert model.converged_
    assert model.dual_objective_ <= best * (1 + 1e-7)
    assert model.primal_objective_ == pytest.approx(best, rel=1e-5)
    assert not set(model.support_) & {2, 3, 4, 5, 9, 11, 20}


@every_formulation
@every_solver
def test_a_weight_of_two_is_the_row_twice(formulation, solver):
    X, y = data(3)
    twice = np.arange(0, len(y), 4)
    weighted = fit(X, y, formulation, solver=solver, sample_weight=1.0 + np.isin(np.arange(len(y)), twice))
    doubled = fit(np.vstack([X, X[twice]]), np.concatenate([y, y[twice]]), formulation, solver=solver)
    plain = fit(X, y, formulation, solver=solver)
    assert weighted.primal_objective_ == pytest.approx(doubled.primal_objective_, rel=2e-6)
    assert abs(weighted.primal_objective_ - plain.primal_objective_) > 1e-3
    np.testing.assert_allclose(weighted.coef_, doubled.coef_, atol=1e-2)


@every_formulation
@every_loss
@pytest.mark.parametrize("solver", ["sdm", "newton"])
def test_permutations_give_the_permuted_optimum(formulation, loss, solver):
    X, y = data(5)
    rng = np.random.default_rng(0)
    rows, features, classes = rng.permutation(len(y)), rng.permutation(X.shape[1]), rng.permutation(5)
    model = fit(X, y, formulation, loss, solver=solver)
    by_rows = fit(X[rows], y[rows], formulation, loss, solver=solver)
    by_features = fit(X[:, features], y, formulation, loss, solver=solver)
    by_classes = fit(X, classes[y], formulation, loss, solver=solver)
    for other in (by_rows, by_features, by_classes):
        assert other.primal_objective_ == pytest.approx(model.primal_objective_, rel=2e-6)
    np.testing.assert_allclose(by_rows.coef_, model.coef_, atol=1e-2)
    np.testing.assert_allclose(by_features.coef_, model.coef_[:, features], atol=1e-2)
    if formulation in ("one_vs_one", "dag"):
        return  # machines change places and signs
    np.testing.assert_allclose(by_classes.coef_[classes], model.coef_, atol=1e-2)


@every_formulation
@every_solver
def test_a_feature_of_zeros_changes_nothing(formulation, solver):
    X, y = data(3)
    model = fit(X, y, formulation, solver=solver)
    for column in (0, 3, 6):
        wider = fit(np.insert(X, column, 0.0, axis=1), y, formulation, solver=solver)
        np.testing.assert_array_equal(wider.coef_[:, column], 0)
        np.testing.assert_allclose(np.delete(wider.coef_, column, axis=1), model.coef_, atol=1e-2)
        assert wider.primal_objective_ == pytest.approx(model.primal_objective_, rel=2e-6)


# LIBLINEAR


@pytest.mark.parametrize(
    ("formulation", "loss", "liblinear_type"),
    [("crammer_singer", "hinge", 4), ("one_vs_rest", "hinge", 3), ("one_vs_rest", "squared_hinge", 1)],
)
def test_objective_is_liblinears_on_digits(formulation, loss, liblinear_type):
    from liblinear.liblinearutil import train

    X, y = load_digits(n_class=10, return_X_y=True)
    X, y = X[:400] / 16, y[:400]
    theirs = train(y, X, f"-s {liblinear_type} -c 0.1 -B -1 -e 1e-6 -q")
    # LIBLINEAR keeps its labels in order of appearance, here 0, 1, 2, ...
    assert theirs.get_labels() == list(range(10))
    W = np.array([theirs.get_decfun(label)[0] for label in range(10)])
    (problem,) = problems_of(formulation, loss == "squared_hinge", X, y, np.full(len(y), 0.1))
    model = fit(X, y, formulation, loss, C=0.1, tol=1e-5)
    objective = primal_objective(problem, W)
    assert model.primal_objective_ == pytest.approx(objective, rel=1e-3)
    assert model.dual_objective_ <= objective * (1 + 1e-9)
    np.testing.assert_allclose(model.coef_, W, atol=0.02)
