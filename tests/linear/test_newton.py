"""Newton's method, where coordinate descent has a hard time: unscaled features, large C, few features."""

import functools

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from multimargin import LinearSVM
from multimargin.linear import newton
from multimargin.linear.newton import Newton, _cholesky, _solve, _weighted_gram
from tests.oracles import objectives_of, optimum, problems_of

DATA = {"iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer}
FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS)
every_loss = pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])


@functools.cache
def load(name, scaled=False):
    X, y = DATA[name](return_X_y=True)
    return (StandardScaler().fit_transform(X) if scaled else X), y


def finished(pieces):
    """What comes after the last piece, and how many there were before it."""
    count = 0
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            return end.value, count
        count += 1


def solved(H, b):
    return finished(_solve(H, b))[0]


def whole(X):
    return np.column_stack([X, np.ones(len(X))])


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("solver", ["newton", "auto"])
@every_formulation
@every_loss
def test_unscaled_sets_converge(name, solver, formulation, loss):
    X, y = load(name)
    model = LinearSVM(formulation, loss, solver=solver).fit(X, y)
    assert model.converged_
    assert max(model.dual_gap_, model.worst_gap_) <= model.tol
    assert model.score(X, y) > 0.9
    primal, dual = objectives_of(model, loss == "squared_hinge", whole(X), y, np.ones(len(y)))
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-8)
    assert dual <= model.dual_objective_ * (1 + 1e-8)
    assert dual <= primal


@pytest.mark.parametrize("name", ["iris", "wine"])
@every_formulation
@every_loss
@pytest.mark.parametrize("C", [0.01, 1.0, 10.0])
def test_objective_is_the_interior_point_methods(name, formulation, loss, C):
    X, y = load(name, scaled=True)
    X, y = X[::3], y[::3]
    problems = problems_of(formulation, loss == "squared_hinge", whole(X), y, np.full(len(y), C))
    best = sum(optimum(problem)[0] for problem in problems)
    model = LinearSVM(formulation, loss, C, solver="newton", tol=1e-6).fit(X, y)
    assert model.converged_
    assert model.dual_objective_ <= best * (1 + 1e-7) and best * (1 - 1e-7) <= model.primal_objective_
    assert model.primal_objective_ == pytest.approx(best, rel=2e-6)


@every_formulation
@every_loss
@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_scaled_features_with_the_C_that_undoes_it(formulation, loss, scale):
    """X scaled by t with C / t^2 is the same problem: W / t, objectives / t^2."""
    X, y = load("iris", scaled=True)
    options = dict(solver="newton", tol=1e-5, fit_intercept=False)
    model = LinearSVM(formulation, loss, 1.0, **options).fit(X, y)
    scaled = LinearSVM(formulation, loss, scale**-2, **options).fit(scale * X, y)
    assert scaled.converged_
    assert scaled.primal_objective_ * scale**2 == pytest.approx(model.primal_objective_, rel=1e-5)
    np.testing.assert_allclose(scaled.coef_ * scale, model.coef_, atol=0.05)


@every_loss
def test_starts_from_the_duals_of_the_last_fit(loss):
    X, y = load("wine", scaled=True)
    model = LinearSVM("crammer_singer", loss, 0.1, solver="newton", tol=1e-5, warm_start=True).fit(X, y)
    cold = model.n_iter_
    model.fit(X, y)
    assert model.converged_ and model.n_iter_ < cold
    model.set_params(C=0.2).fit(X, y)
    fresh = LinearSVM("crammer_singer", loss, 0.2, solver="newton", tol=1e-5).fit(X, y)
    assert model.primal_objective_ == pytest.approx(fresh.primal_objective_, rel=2e-5)


def test_history_tells_of_every_step():
    X, y = load("iris")
    model = LinearSVM(solver="newton").fit(X, y)
    history = model.history_
    assert len(history) == model.n_iter_
    assert set(history["solver"]) == {"newton"}
    assert np.all(history["active_rows"] == len(y))
    assert history["gap"][-1] == pytest.approx(model.dual_gap_)


def test_stopping_by_violation_is_refused():
    X, y = load("iris")
    with pytest.raises(ValueError, match="solver='newton' has stopping 'gap'"):
        LinearSVM(solver="newton", stopping="violation").fit(X, y)


def test_the_newton_system_is_solved_exactly_or_damped():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    H, b = root @ root.T + np.eye(6), rng.normal(size=6)
    np.testing.assert_allclose(solved(H, b), np.linalg.solve(H, b), rtol=1e-9)
    # Singular: Cholesky refuses it. Damped a little it is solved where it can be.
    flat, b_flat = np.diag([1.0, 4.0, 0.0]), np.array([3.0, 2.0, 0.0])
    np.testing.assert_allclose(solved(flat, b_flat), [3.0, 0.5, 0.0], rtol=1e-9)
    # Whatever its scale, and the same bits at all of them.
    for scale in (2.0**-900, 2.0**900):
        np.testing.assert_array_equal(solved(scale * H, b), solved(H, b) / scale)
        np.testing.assert_array_equal(solved(scale * flat, b_flat), solved(flat, b_flat) / scale)
    # A diagonal whose sum is no number, one below zero, and entries far off it end, too, with numbers.
    large = np.diag([1.5e308, 1.5e308])
    np.testing.assert_allclose(solved(large, np.full(2, 1.5e308)), 1.0)
    for odd in (-np.eye(3), np.full((3, 3), 1.5e308) - large[0, 0] * np.eye(3), np.zeros((3, 3))):
        assert np.isfinite(solved(odd, np.ones(3))).all()
    for broken in (np.nan, np.inf, -np.inf):
        np.testing.assert_array_equal(solved(np.diag([1.0, broken]), np.ones(2)), np.zeros(2))


def test_large_systems_are_set_up_and_factored_in_pieces(monkeypatch):
    rng = np.random.default_rng(0)
    n_weights = 2 * newton._PANEL + 7  # the last panel is not whole
    X, weight = rng.normal(size=(3 * n_weights, n_weights)), rng.random(3 * n_weights)
    weight[::5] = 0.0
    monkeypatch.setattr(newton, "_ROWS_OF_PRODUCT", 200)
    monkeypatch.setattr(newton, "_PIECE", 200 * n_weights * 100)  # rows, and columns, at a time
    gram, pieces = finished(_weighted_gram(X, weight))
    np.testing.assert_allclose(gram, X.T @ (weight[:, None] * X), rtol=1e-10, atol=1e-10)
    used = np.count_nonzero(weight)
    assert pieces == -(-used // 200) * -(-n_weights // 100)
    np.testing.assert_allclose(gram, gram.T, rtol=1e-10, atol=1e-10)
    H, b = gram + np.eye(n_weights), rng.normal(size=n_weights)
    root, pieces = finished(_cholesky(H.copy()))
    assert pieces == 3
    np.testing.assert_allclose(np.tril(root), np.linalg.cholesky(H), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(solved(H, b), np.linalg.solve(H, b), rtol=1e-8, atol=1e-10)
    assert finished(_weighted_gram(X[:150, :50], weight[:150]))[1] == 1
    # Not positive definite, and only the last panel shows it: damped, from the matrix as it was.
    H[-1, -1] = 0.0
    with pytest.raises(np.linalg.LinAlgError):
        finished(_cholesky(H.copy()))
    assert np.isfinite(solved(H, b)).all()


@pytest.mark.parametrize("part", ["rows", "grams", "panels"])
@every_formulation
def test_limits_are_minded_within_a_step(formulation, part, monkeypatch):
    """Also where each evaluation, each lane's system or each factor is a single piece."""
    X, y = load("wine")
    rows = len(X) if formulation not in ("one_vs_one", "dag") else 107  # of the smallest of the problems
    monkeypatch.setattr(newton, "_PIECE", {"rows": rows * 14.0, "grams": 60.0 * 14 * 14, "panels": 500.0}[part])
    if part == "panels":
        monkeypatch.setattr(newton, "_PANEL", 4)
    slices = []
    advance = Newton.advance

    def counted(self, machine, max_epochs):
        W, alpha = self.weights.array.copy(), self.block.alpha.copy()
        records = advance(self, machine, max_epochs)
        if not records:  # a checkpoint of now would begin the step anew
            np.testing.assert_array_equal(self.weights.array, W)
            np.testing.assert_array_equal(self.block.alpha, alpha)
        slices.append(len(records))
        return records

    monkeypatch.setattr(Newton, "advance", counted)
    model = LinearSVM(formulation, solver="newton", tol=1e-6).fit(X, y)
    assert model.converged_ and sum(slices) == len(model.history_)
    assert slices.count(0) >= sum(slices)
    slices.clear()
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        stopped = LinearSVM(formulation, solver="newton", tol=1e-6, time_limit=1e-9).fit(X, y)
    assert slices == [0]  # a part of the first step
    assert not stopped.converged_ and stopped.dual_gap_ > 1e-6
