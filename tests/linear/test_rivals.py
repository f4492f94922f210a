"""Pegasos and exponentiated gradient as solvers of LinearSVM: slow to converge, and certified like everything else."""

import functools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from multimargin import LinearSVM, _core
from tests.oracles import objectives_of, optimum, problems_of

SOLVERS = ("pegasos", "exponentiated_gradient")
FORMULATIONS = ("crammer_singer", "one_vs_rest", "one_vs_one", "dag")
TOL = 1e-2
every_solver = pytest.mark.parametrize("solver", SOLVERS)
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS)


@functools.cache
def data(n_classes, n_samples=48, n_features=6):
    """Noisy classes; values that float32 holds exactly; zeros, and one zero row."""
    rng = np.random.default_rng(n_classes)
    y = np.arange(n_samples) % n_classes
    X = rng.normal(size=(n_samples, n_features)) + rng.normal(size=(n_classes, n_features))[y]
    X[rng.random(X.shape) < 0.3] = 0
    X[7] = 0
    return X.astype(np.float32).astype(np.float64), y


@functools.cache
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


def fit(X, y, formulation="crammer_singer", *, C=0.5, sample_weight=None, **options):
    options = dict(tol=TOL, max_iter=100_000) | options
    return LinearSVM(formulation, C=C, **options).fit(X, y, sample_weight)


def stopped(X, y, *args, **options):
    """A fit that a limit ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(X, y, *args, **options)


def check_certificate(model, X, y, cap):
    """Objectives are those of the model as it stands, and bound the optimum."""
    whole = np.column_stack([X, np.full(len(X), model.intercept_scaling)]) if model.fit_intercept else X
    primal, dual = objectives_of(model, False, whole, y, cap)
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-9)
    assert dual <= model.dual_objective_ * (1 + 1e-9) <= model.primal_objective_ * (1 + 1e-8)
    best = sum(optimum(problem)[0] for problem in problems_of(model.formulation, False, whole, y, cap))
    assert model.dual_objective_ <= best * (1 + 1e-7)
    assert best * (1 - 1e-7) <= model.primal_objective_
    return best


@every_solver
@every_formulation
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_reaches_the_optimum(solver, formulation, n_classes, fit_intercept):
    X, y = data(n_classes)
    model = fit(X, y, formulation, solver=solver, fit_intercept=fit_intercept)
    assert model.converged_ and model.dual_gap_ <= TOL and model.worst_gap_ <= TOL
    best = check_certificate(model, X, y, np.full(len(y), 0.5))
    assert model.primal_objective_ <= best * (1 + TOL / (1 - TOL))
    assert set(model.history_["solver"]) == {solver}
    np.testing.assert_allclose(model.coef_, model.dual_coef_.T @ X, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "options", [{"projection": False}, {"batch_size": 7}, {"projection": False, "batch_size": 100}]
)
@every_formulation
def test_options_of_pegasos_reach_the_optimum(formulation, options):
    X, y = data(3)
    model = fit(X, y, formulation, solver="pegasos", solver_options=options)
    assert model.converged_
    check_certificate(model, X, y, np.full(len(y), 0.5))
    assert not np.array_equal(model.coef_, fit(X, y, formulation, solver="pegasos").coef_)


@every_solver
def test_tighter_tolerances(solver):
    """In float64 where float32 has not the digits."""
    X, y = data(3)
    model = fit(X, y, solver=solver, tol=1e-3 if solver == "pegasos" else 1e-6)
    assert model.converged_
    check_certificate(model, X, y, np.full(len(y), 0.5))


@every_solver
@every_formulation
def test_storages_give_the_same_model(solver, formulation):
    X, y = data(3)
    storages = [X, X.astype(np.float32), sp.csr_array(X), sp.csr_array(X.astype(np.float32))]
    models = [stopped(storage, y, formulation, solver=solver, tol=1e-8, max_iter=30) for storage in storages]
    for model in models[1:]:
        np.testing.assert_allclose(model.coef_, models[0].coef_, rtol=1e-9, atol=1e-9)


@every_solver
@every_formulation
def test_weight_two_is_a_row_twice(solver, formulation):
    X, y = data(3)
    weight = 1 + (np.arange(len(y)) % 3 == 0)
    model = fit(X, y, formulation, solver=solver, sample_weight=weight)
    twice = fit(np.repeat(X, weight, axis=0), np.repeat(y, weight), formulation, solver=solver)
    best = check_certificate(model, X, y, 0.5 * weight)
    assert check_certificate(twice, np.repeat(X, weight, axis=0), np.repeat(y, weight), np.full(weight.sum(), 0.5)) == (
        pytest.approx(best, rel=1e-6)
    )


@every_solver
@pytest.mark.parametrize("n_jobs", [1, 2])
@every_formulation
def test_same_seed_same_model(solver, formulation, n_jobs):
    X, y = digits()
    options = dict(solver=solver, max_iter=3, n_jobs=n_jobs)
    first, again, other = (stopped(X, y, formulation, random_state=seed, **options) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.coef_, again.coef_)
    assert not np.array_equal(first.coef_, other.coef_)
    assert first.n_iter_ == 3 and not first.converged_


@every_solver
@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_rest", "one_vs_one"])
def test_instruction_sets_give_the_same_bits(solver, formulation):
    X, y = digits()
    in_use = _core.instruction_set()
    try:
        models = []
        for name in _core.instruction_sets():
            assert _core.use_instruction_set(name)
            models.append(stopped(X, y, formulation, solver=solver, max_iter=3))
    finally:
        _core.use_instruction_set(in_use)
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)


@every_solver
@every_formulation
def test_agrees_with_sdm_on_digits(solver, formulation):
    X, y = digits()
    exact = fit(X, y, formulation, C=0.1, solver="sdm", tol=1e-4)
    model = fit(X, y, formulation, C=0.1, solver=solver, tol=0.03)
    assert model.converged_
    assert exact.dual_objective_ <= model.primal_objective_
    assert model.dual_objective_ <= exact.primal_objective_
    assert np.mean(model.predict(X) == exact.predict(X)) > 0.97


@every_solver
def test_time_limit_ends_in_a_certificate(solver):
    X, y = digits()
    model = stopped(X, y, solver=solver, tol=1e-12, max_iter=10**9, time_limit=0.2)
    assert not model.converged_
    check = objectives_of(model, False, np.column_stack([X, np.ones(len(X))]), y, np.full(len(y), 0.5))
    assert model.primal_objective_ == pytest.approx(check[0], rel=1e-9)
    assert 0 < model.dual_gap_ < 1


def test_limit_in_the_middle_of_a_pass():
    """So large that the time is over before the first pass is."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 20, 30_000)
    X = rng.normal(size=(len(y), 200)).astype(np.float32) + rng.normal(size=(20, 200)).astype(np.float32)[y]
    for solver in SOLVERS:
        model = stopped(X, y, solver=solver, C=0.01, time_limit=1e-9)
        assert not model.converged_ and len(model.history_) == 0
        assert np.isfinite(model.dual_gap_) and np.any(model.coef_)


@every_solver
@every_formulation
def test_warm_start(solver, formulation):
    X, y = digits()
    model = fit(X, y, formulation, C=0.1, solver=solver, tol=0.05, warm_start=True)
    cold = model.n_iter_
    model.fit(X, y)
    assert model.converged_ and model.n_iter_ <= max(1, cold // 2)
    model.set_params(C=0.12).fit(X, y)
    assert model.converged_ and model.dual_gap_ <= 0.05
    from_sdm = fit(X, y, formulation, C=0.1, solver="sdm", tol=1e-4, warm_start=True)
    from_sdm.set_params(solver=solver, tol=0.05).fit(X, y)
    assert from_sdm.converged_ and from_sdm.n_iter_ <= max(1, cold // 2)


@every_solver
def test_what_is_refused(solver):
    X, y = data(3)
    with pytest.raises(ValueError, match=f"solver='{solver}' has loss 'hinge', not loss='squared_hinge'"):
        LinearSVM(loss="squared_hinge", solver=solver).fit(X, y)
    with pytest.raises(ValueError, match=f"solver='{solver}' has formulation .* not formulation='weston_watkins'"):
        LinearSVM("weston_watkins", solver=solver).fit(X, y)
    with pytest.raises(ValueError, match=f"solver='{solver}' has stopping 'gap'"):
        LinearSVM(solver=solver, stopping="violation").fit(X, y)
    with pytest.raises(ValueError, match="unknown keys"):
        LinearSVM(solver=solver, solver_options={"restricted_step": True}).fit(X, y)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"batch_size": 0}, ValueError, "at least 1"),
        ({"batch_size": 1.5}, TypeError, "an integer"),
        ({"projection": 1}, TypeError, "True or False"),
    ],
)
def test_options_of_pegasos_are_checked(options, error, words):
    with pytest.raises(error, match=words):
        LinearSVM(solver="pegasos", solver_options=options).fit(*data(3))


@every_solver
def test_unscaled_rows_and_extreme_C(solver):
    """Curvatures C ||x||^2 from tiny to huge: finite numbers, honest bounds."""
    X, y = data(3)
    for scale, C in ((1e6, 1e6), (1e-6, 1e-6), (1e3, 1.0)):
        model = stopped(scale * X, y, C=C, solver=solver, max_iter=20, fit_intercept=False)
        assert np.isfinite(model.coef_).all() and np.isfinite(model.dual_gap_)
        assert model.dual_objective_ <= model.primal_objective_
