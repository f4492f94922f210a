"""The primal methods for the squared hinge, ``tron`` and ``primal_cd``: optima, certificates, and how they stop."""

import functools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning

from multimargin import LinearSVM, _core
from tests.oracles import Problem, losses, objectives_of, optimum, problems_of, signs

SOLVERS = ("tron", "primal_cd")
FORMULATIONS = ("one_vs_rest", "one_vs_one", "dag")
STORAGES = {
    "dense float32": lambda X: X.astype(np.float32),
    "csr float32": lambda X: sp.csr_array(X.astype(np.float32)),
    "csr float64": sp.csr_array,
    "csr int64": lambda X: _wide(sp.csr_array(X)),
}
every_solver = pytest.mark.parametrize("solver", SOLVERS)
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS)


def _wide(X):
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


@functools.cache
def data(n_classes, n_samples=60, n_features=7):
    """Noisy classes; values that float32 holds exactly; zeros, and one zero row."""
    rng = np.random.default_rng(n_classes)
    y = np.arange(n_samples) % n_classes
    X = rng.normal(size=(n_samples, n_features)) + rng.normal(size=(n_classes, n_features))[y]
    X[rng.random(X.shape) < 0.3] = 0
    X[7] = 0
    return X.astype(np.float32).astype(np.float64), y


def fit(X, y, solver, formulation="one_vs_rest", C=0.5, sample_weight=None, **options):
    options = dict(tol=1e-7, max_iter=100_000) | options
    return LinearSVM(formulation, "squared_hinge", C, solver=solver, **options).fit(X, y, sample_weight)


def whole(X, scaling=1.0):
    return np.column_stack([X, np.full(len(X), scaling)])


@every_solver
@every_formulation
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("C", [0.01, 30.0])
def test_objective_is_the_interior_point_methods(solver, formulation, n_classes, C):
    X, y = data(n_classes)
    cap = np.full(len(y), C)
    best = sum(optimum(problem)[0] for problem in problems_of(formulation, True, whole(X, 2.0), y, cap))
    model = fit(X, y, solver, formulation, C, intercept_scaling=2.0)
    assert model.converged_ and max(model.dual_gap_, model.worst_gap_) <= model.tol
    assert model.dual_objective_ <= best * (1 + 1e-8) and best * (1 - 1e-8) <= model.primal_objective_
    assert model.primal_objective_ == pytest.approx(best, rel=1e-6)
    primal, dual = objectives_of(model, True, whole(X, 2.0), y, cap)
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-9)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-9)


@every_solver
def test_objective_is_sdms_on_digits(solver):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    models = [fit(X, y, name, tol=1e-4, C=1.0) for name in (solver, "accelerated_sdm")]
    assert all(model.converged_ for model in models)
    assert models[0].primal_objective_ == pytest.approx(models[1].primal_objective_, rel=2e-4)
    assert set(models[0].history_["solver"]) == {solver}


@every_solver
@pytest.mark.parametrize("n_classes", [2, 9])  # one lane, and more than two vectors of them
@pytest.mark.parametrize("storage", STORAGES)
def test_storage_does_not_matter(solver, storage, n_classes):
    X, y = data(n_classes)
    dense, other = fit(X, y, solver), fit(STORAGES[storage](X), y, solver)
    np.testing.assert_allclose(other.coef_, dense.coef_, atol=1e-5)
    assert other.primal_objective_ == pytest.approx(dense.primal_objective_, rel=1e-7)
    assert other.n_iter_ == dense.n_iter_


@every_solver
@every_formulation
def test_a_weight_of_two_is_the_row_twice(solver, formulation):
    X, y = data(4)
    weight = np.where(np.arange(len(y)) % 3, 1.0, 2.0)
    weight[11] = 0
    twice = np.repeat(np.arange(len(y)), weight.astype(int))
    weighted = fit(X, y, solver, formulation, sample_weight=weight)
    repeated = fit(X[twice], y[twice], solver, formulation)
    assert weighted.primal_objective_ == pytest.approx(repeated.primal_objective_, rel=1e-6)
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-3)


@every_solver
def test_same_bits_again_and_on_every_instruction_set(solver):
    X, y = data(5)
    used = _core.instruction_set()
    try:
        models = []
        for name in (*_core.instruction_sets(), used):
            assert _core.use_instruction_set(name)
            models.append(fit(X, y, solver, random_state=3))
    finally:
        _core.use_instruction_set(used)
    for model in models[1:]:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
        np.testing.assert_array_equal(model.dual_coef_.toarray(), models[0].dual_coef_.toarray())


@every_solver
def test_threads_train_groups_of_lanes_to_the_same_optimum(solver):
    X, y = data(5)
    one, two = fit(X, y, solver), fit(X, y, solver, n_jobs=2)
    assert two.converged_
    assert two.primal_objective_ == pytest.approx(one.primal_objective_, rel=1e-6)


def test_features_in_another_order_are_another_order_of_visits():
    X, y = data(3)
    models = [fit(X, y, "primal_cd", random_state=seed, tol=1e-3) for seed in (1, 2)]
    assert not np.array_equal(models[0].coef_, models[1].coef_)


@every_solver
@every_formulation
def test_warm_start(solver, formulation):
    X, y = data(4)
    model = fit(X, y, solver, formulation, warm_start=True)
    cold = model.n_iter_
    model.fit(X, y)
    assert model.converged_ and model.n_iter_ < cold
    model.set_params(C=0.7).fit(X, y)
    fresh = fit(X, y, solver, formulation, C=0.7)
    assert model.primal_objective_ == pytest.approx(fresh.primal_objective_, rel=1e-6)


@every_solver
def test_unscaled_features(solver):
    """A condition number of 1e8: few features, so that the slow ones still end."""
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, :4]
    model = fit(X, y, solver, tol=1e-3, C=1e-3)
    assert model.converged_
    assert model.primal_objective_ == pytest.approx(fit(X, y, "newton", C=1e-3).primal_objective_, rel=1e-3)


@every_solver
def test_rows_without_features_or_weight(solver):
    X = np.zeros((6, 3))
    y = np.arange(6) % 3
    model = fit(X, y, solver, fit_intercept=False, C=2.0)
    assert model.converged_ and not model.coef_.any()
    assert model.primal_objective_ == pytest.approx(2.0 * 6 * 3)


# The history, limits and interrupts


def test_every_pass_of_tron_is_certified():
    """The gap that half the squared gradient gives is that of the implied duals."""
    X, y = data(3)
    model = fit(X, y, "tron")
    history = model.history_
    assert np.isfinite(history["primal"]).all()
    assert (np.diff(history["primal"]) <= 1e-12 * history["primal"][0]).all()
    assert (history["dual"] <= model.primal_objective_ * (1 + 1e-12)).all()
    np.testing.assert_allclose(history["gap"], 1 - history["dual"] / history["primal"], atol=1e-12)
    assert history["active_rows"].max() == np.count_nonzero(whole(X).any(axis=1))


class Stop:
    def __init__(self, call, interrupt):
        self.calls, self.call, self.interrupt = 0, call, interrupt

    def __call__(self, record):
        self.calls += 1
        if self.calls == self.call and self.interrupt:
            raise KeyboardInterrupt
        return self.calls >= self.call


@functools.cache
def slow_data():
    """More than one slice of work."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 300))
    return X, (X[:, :4] + rng.normal(size=(4000, 4))).argmax(axis=1)


@every_solver
@pytest.mark.parametrize("formulation", ["one_vs_rest", "one_vs_one"])
@pytest.mark.parametrize("interrupt", [False, True])
def test_stopped_models_are_certified(solver, formulation, interrupt):
    X, y = slow_data()
    model = LinearSVM(formulation, "squared_hinge", 1.0, solver=solver, tol=1e-12, callbacks=[Stop(2, interrupt)])
    with pytest.raises(KeyboardInterrupt) if interrupt else pytest.warns(ConvergenceWarning, match="callback"):
        model.fit(X, y)
    assert not model.converged_ and len(model.history_) >= 2
    if np.isnan(model.dual_gap_):  # interrupted where a certificate would have taken longer than a moment
        assert interrupt
        return
    primal, dual = objectives_of(model, True, whole(X), y, np.ones(len(y)))
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-9)
    assert dual <= primal


@every_solver
@pytest.mark.parametrize("options", [{"time_limit": 1e-9}, {"max_iter": 2}])
def test_limits(solver, options):
    X, y = slow_data()
    with pytest.warns(ConvergenceWarning, match=next(iter(options))):
        model = fit(X, y, solver, tol=1e-12, **options)
    assert not model.converged_ and np.isfinite(model.dual_gap_)


@every_solver
def test_more_than_float64_holds_ends(solver):
    X, y = data(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = fit(X, y, solver, tol=1e-18, max_iter=3000)
    assert model.dual_gap_ < 1e-12


# The core


@st.composite
def small_problems(draw):
    seed, lanes = draw(st.integers(0, 2**31)), draw(st.sampled_from([1, 2, 4, 5, 26, 29]))
    n, n_features = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features)) * (rng.random((n, n_features)) < 0.7)
    X[:, 0] += 0.1
    return Problem("one_vs_rest", True, lanes, X, rng.integers(-1, lanes, n), rng.uniform(0.01, 10, n)), rng


def sign_of(problem):
    return np.array([signs(label, problem.lanes) for label in problem.label])


def gradient_of(problem, W):
    residual = 1 - sign_of(problem) * (problem.X @ W)
    return W - problem.X.T @ (2 * problem.cap[:, None] * sign_of(problem) * np.maximum(residual, 0))


@given(small_problems())
@settings(max_examples=60, deadline=None)
def test_a_sweep_of_coordinates_descends(drawn):
    """Every feature's step lowers the objective of every lane, and residuals stay those of the weights."""
    problem, rng = drawn
    block, weights = problem.block(), problem.weights()
    W = weights.array[:, : problem.lanes]
    W[:] = rng.normal(size=W.shape)
    residual = np.zeros_like(block.alpha)
    residual[:, : problem.lanes] = 1 - sign_of(problem) * (problem.X @ W)
    columns = _core.Rows.dense(np.ascontiguousarray(problem.X.T), 0.0)

    def objective():
        return 0.5 * np.sum(W**2, axis=0) + losses(problem, W.T)

    for feature in range(len(W)):
        before, gradient = objective(), gradient_of(problem, W)[feature]
        old = W[feature].copy()
        squares, steepest = _core.descend(block, weights, columns, residual, np.array([feature], np.int32))
        np.testing.assert_allclose(squares, gradient**2, rtol=1e-9, atol=1e-12)
        assert steepest == pytest.approx(np.abs(gradient).max())
        moved = W[feature] - old
        assert (moved * gradient <= 0).all()
        assert (objective() <= before - 0.0099 * moved**2 + 1e-12 * before).all()
        expected = 1 - sign_of(problem) * (problem.X @ W)
        np.testing.assert_allclose(residual[:, : problem.lanes], expected, rtol=1e-9, atol=1e-11)
    loss = _core.imply(block, residual)
    np.testing.assert_allclose(loss, losses(problem, W.T), rtol=1e-9, atol=1e-12)
    implied = problem.X.T @ block.alpha[:, : problem.lanes]
    np.testing.assert_allclose(W - implied, gradient_of(problem, W), rtol=1e-8, atol=1e-9)


@given(small_problems(), st.floats(1e3, 1e9))
@settings(max_examples=60, deadline=None)
def test_tron_can_be_stopped_anywhere(drawn, budget):
    """Slices of any size give the bits of one long run; every lane ends where its gradient is small."""
    problem, rng = drawn
    start = rng.normal(size=(problem.X.shape[1], problem.lanes))
    ends = []
    for slice_ in (1.0, budget, 1e15):
        block, weights = problem.block(), problem.weights()
        weights.array[:, : problem.lanes] = start
        tron = _core.Tron(block, weights, 1e-12)
        records = []
        while not tron.finished:
            records += tron.run(slice_, 1000)
        ends.append((weights.array.copy(), block.alpha.copy(), [(r.primal, r.gap) for r in records]))
    for W, alpha, told in ends[1:]:
        np.testing.assert_array_equal(W, ends[0][0])
        np.testing.assert_array_equal(alpha, ends[0][1])
        assert told == ends[0][2]
    W = ends[0][0][:, : problem.lanes]
    objective = 0.5 * np.sum(W**2, axis=0) + losses(problem, W.T)
    gap = 0.5 * np.sum(gradient_of(problem, W) ** 2, axis=0)
    assert (gap <= 1e-11 * objective).all()


def test_the_core_checks_what_it_gets():
    X, y = data(3)
    problem = Problem("one_vs_rest", True, 3, X, y, np.ones(len(y)))
    which = np.flatnonzero(X.any(axis=1))
    block, weights = problem.block(which=which), problem.weights()
    columns = _core.Rows.dense(np.ascontiguousarray(X[which].T), 0.0)
    residual, features = np.ones_like(block.alpha), np.arange(X.shape[1], dtype=np.int32)
    with pytest.raises(ValueError, match="transpose of the examples"):
        _core.descend(block, weights, _core.Rows.dense(X, 0.0), residual, features)
    with pytest.raises(ValueError, match="differ in shape"):
        _core.descend(block, weights, columns, residual[1:], features)
    with pytest.raises(ValueError, match="differ in shape"):
        _core.imply(block, residual[1:])
    with pytest.raises(IndexError, match="feature outside"):
        _core.descend(block, weights, columns, residual, features + 1)
    with pytest.raises(ValueError, match="float64 weights"):
        _core.Tron(block, problem.weights(single_precision=True), 0.1)
    with pytest.raises(ValueError, match="differ in lanes"):
        _core.Tron(block, _core.Weights(X.shape[1], 2, False), 0.1)
    with pytest.raises(ValueError, match="tolerance"):
        _core.Tron(block, weights, np.nan)
    with pytest.raises(ValueError, match="no examples"):
        _core.Tron(problem.block(which=which[:0]), weights, 0.1)
    with pytest.raises(ValueError, match="budget"):
        _core.Tron(block, weights, 0.1).run(0.0, 1)
    hinge = Problem("one_vs_rest", False, 3, X, y, np.ones(len(y))).block(which=which)
    with pytest.raises(ValueError, match="squared hinge"):
        _core.Tron(hinge, weights, 0.1)
    with pytest.raises(ValueError, match="squared hinge"):
        _core.imply(hinge, residual)


# Refusals


@every_solver
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"formulation": "crammer_singer"}, "has formulation 'one_vs_rest' or 'one_vs_one' or 'dag'"),
        ({"formulation": "weston_watkins"}, "has formulation 'one_vs_rest' or 'one_vs_one' or 'dag'"),
        ({"loss": "hinge"}, "has loss 'squared_hinge'"),
        ({"stopping": "violation"}, "has stopping 'gap'"),
        ({"solver_options": {"permutation": True}}, "must be None"),
    ],
)
def test_refusals(solver, options, message):
    X, y = data(3)
    options = {"formulation": "one_vs_rest", "loss": "squared_hinge", "solver": solver} | options
    with pytest.raises(ValueError, match=message):
        LinearSVM(**options).fit(X, y)


@pytest.mark.parametrize("solver", ["tron", "primal_cd"])
def test_sums_that_overflow_are_refused(solver):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match="scale the features down, or lower C"):
        LinearSVM("one_vs_rest", "squared_hinge", C=1e200, solver=solver).fit(1e100 * X, y)


def test_no_lower_bound_is_below_that_of_zero_duals():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(ConvergenceWarning):
        model = LinearSVM("one_vs_rest", "squared_hinge", solver="primal_cd", max_iter=1).fit(1e100 * X, y)
    assert model.dual_objective_ >= 0 and model.dual_gap_ <= 1


def test_all_that_does_not_fit_is_named_at_once():
    with pytest.raises(
        ValueError, match=r"has formulation 'one_vs_rest' or .* and loss 'squared_hinge', not formulation="
    ):
        LinearSVM(solver="tron").fit([[0.0], [1.0]], [0, 1])
