"""Directions along which accelerated weights are held back: the metric and its formulas, and what it is good for."""

import time

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from multimargin import LinearSVM, _core
from multimargin.data.rows import as_rows
from multimargin.linear import directions as directions_module
from multimargin.linear import training
from multimargin.linear.directions import (
    SAMPLE,
    held_back,
    held_by_sample,
    intercept_direction,
    leading_directions,
    share_of_sample,
    worth_sampling,
)
from multimargin.linear.examples import Examples
from multimargin.problems.formulations import formulation as formulation_of


def correlated(n_samples=300, n_features=12, n_classes=4, common=5.0, seed=0):
    """Classes around a large common mean."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_samples)
    X = common + rng.normal(size=(n_samples, n_features)) + rng.normal(size=(n_classes, n_features))[y]
    return X, y


def directions_of(X, intercept=0.0):
    rows = as_rows(X, intercept)
    return leading_directions(X, rows, rows.squared_norms())


class Held:
    """Weights held back along random directions, and the same by the formulas of core/directions.hpp."""

    def __init__(self, seed, lanes, count, single, policy="crammer_singer"):
        rng = np.random.default_rng(seed)
        self.X, self.y = correlated(n_samples=40, n_features=9, n_classes=max(lanes, 2), seed=seed)
        self.U = np.linalg.qr(rng.normal(size=(9, count)))[0]
        self.ratios = 1 + 20 * rng.random(count)
        self.rows = as_rows(self.X)
        coordinates = self.X @ self.U
        self.directions = _core.Directions(count, self.U.ravel(), coordinates.ravel()).with_ratios(self.ratios)
        problem = formulation_of(policy, "hinge", lanes)
        norm, cap, everything = self.rows.squared_norms(), np.full(40, 0.3), np.arange(40)
        examples = Examples.of(problem, self.X, self.rows, norm, self.y, cap, everything)
        self.block = examples.block(problem, not problem.separable, seed)
        self.passes = _core.Passes([self.block])
        self.weights = _core.Weights(9, problem.lanes, single, self.directions)

    def run(self, epochs):
        self.passes.run(
            self.weights,
            tolerance=0.0,
            certify_below=-np.inf,
            budget=1e9,
            max_epochs=epochs,
            shrinking=True,
            permute=True,
            rest_share=1.0,
            shrunk_effort=0.5,
        )

    @property
    def V(self):
        rebuilt = _core.Weights(9, self.weights.lanes, False)
        self.block.accumulate(rebuilt, 0, 40)
        return rebuilt.array[:, : self.weights.lanes].copy()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    lanes=st.sampled_from([3, 5, 17]),
    count=st.integers(1, 5),
    policy=st.sampled_from(["crammer_singer", "weston_watkins", "one_vs_rest"]),
    kappa=st.floats(0.1, 30),
    single=st.booleans(),
)
def test_the_sum_of_the_duals_can_be_had_from_the_weights_at_any_time(seed, lanes, count, policy, kappa, single):
    held = Held(seed, lanes, count, single, policy)
    held.weights.set_kappa(kappa)
    held.run(4.0)
    V = held.V
    close = dict(rtol=2e-3 if single else 1e-9, atol=(2e-3 if single else 1e-9) * np.abs(V).max())
    _, v = held.weights.squared_norms()
    np.testing.assert_allclose(v, (V**2).sum(axis=0), **close)
    held.weights.set_kappa(0.0)
    np.testing.assert_allclose(held.weights.array[:, :lanes], V, **close)


def test_one_stage_is_as_its_formulas_say():
    held = Held(seed=3, lanes=3, count=2, single=False)
    weights, U, kappa, following, beta = held.weights, held.U, 2.0, 3.5, 0.4
    weights.set_kappa(kappa)
    held.passes.run(
        weights,
        tolerance=0.0,
        certify_below=-np.inf,
        budget=1e9,
        max_epochs=0.5,
        shrinking=False,
        permute=True,
        stages=False,
    )
    V = held.V
    M = (1 + kappa) * (np.eye(9) + U @ np.diag(held.ratios - 1) @ U.T)
    W = np.linalg.solve(M, V)  # Z was zero
    np.testing.assert_allclose(weights.array[:, :3], W, rtol=1e-9, atol=1e-12)
    weights.extrapolate(beta, following)
    Z = W + beta * W
    M = (1 + following) / (1 + kappa) * M
    np.testing.assert_allclose(weights.array[:, :3], Z + np.linalg.solve(M, V - Z), rtol=1e-9, atol=1e-12)


def test_curvature_is_that_of_the_metric():
    held = Held(seed=5, lanes=3, count=3, single=False)
    inverse = np.linalg.inv(np.eye(9) + held.U @ np.diag(held.ratios - 1) @ held.U.T)
    expected = np.einsum("ij,jk,ik->i", held.X, inverse, held.X)
    got = held.directions.curvatures(np.arange(40), held.rows.squared_norms())
    np.testing.assert_allclose(got, expected, rtol=1e-9)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_a_common_mean_is_found(storage):
    X, _ = correlated(n_samples=2000)
    assert directions_of(storage(X)).count == 1
    assert directions_of(storage(X), intercept=1.0).count == 1  # which is along it


def test_rows_that_share_nothing_have_no_directions():
    assert directions_of(sp.eye_array(2000, 100).tocsr()) is None
    rng = np.random.default_rng(0)
    assert directions_of(rng.normal(size=(4000, 200))) is None


def test_wide_sparse_rows_have_that_of_the_intercept_only():
    X = sp.random_array((50, 1000), density=0.01, rng=np.random.default_rng(0), format="csr")
    assert directions_of(X) is None
    assert directions_of(X, intercept=1.0).count == 1
    assert intercept_direction(10, 0.0) is None


def test_odd_scales_are_left_alone():
    X, _ = correlated()
    assert directions_of(X * 1e-80) is None
    assert directions_of(X * 1e80) is None


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one"])
@pytest.mark.parametrize("wide", [False, True])
def test_they_save_passes_and_change_nothing_else(formulation, loss, wide, monkeypatch):
    if wide:  # text-like rows, of which the intercept is half
        rng = np.random.default_rng(0)
        y = rng.integers(4, size=400)
        X = sp.random_array((400, 3000), density=0.005, rng=rng, format="csr")
        X = X + sp.csr_array((np.ones(400), (np.arange(400), 40 * y + rng.integers(40, size=400))), shape=X.shape)
        X = X.multiply(1 / sp.linalg.norm(X, axis=1)[:, None]).tocsr()
    else:
        X, y = correlated()
    options = dict(solver="accelerated_sdm", tol=1e-4, max_iter=20_000)
    held = LinearSVM(formulation, loss, **options).fit(X, y)
    monkeypatch.setattr(training, "leading_directions", lambda *_: None)
    free = LinearSVM(formulation, loss, **options).fit(X, y)
    assert held.converged_ and free.converged_
    assert held.primal_objective_ == pytest.approx(free.primal_objective_, rel=2e-4)
    assert held.n_iter_ < 0.8 * free.n_iter_


@pytest.mark.parametrize("scaling", [0.01, 1.0, 100.0])
def test_the_scale_of_the_intercept_costs_nothing(scaling):
    X, y = correlated(common=0.0)
    fitted = LinearSVM(solver="accelerated_sdm", intercept_scaling=scaling, tol=1e-4, max_iter=400).fit(X, y)
    assert fitted.converged_


def test_they_are_no_stiffer_than_the_loss():
    directions = intercept_direction(10, 1.0)
    row, norm = np.arange(1000), np.full(1000, 2.0)

    def ratio_at(C, n_parts=1):
        held = held_back(directions, row, norm, np.full(1000, C), n_parts)
        if held is None:
            return 1.0
        curvature = held.curvatures(row[:1], norm[:1])[0]  # 2 - (1 - 1 / ratio)
        return 1 / (curvature - 1)

    assert ratio_at(1e-3) == 1.0
    assert ratio_at(0.1) == pytest.approx(3.0)
    assert ratio_at(0.1, n_parts=2) == pytest.approx(2.0)
    assert ratio_at(1e6) == pytest.approx(25.0)  # half of the squares to a fiftieth of them
    assert held_back(None, row, norm, norm, 1) is None
    assert held_back(directions, row[:0], norm[:0], norm[:0], 1) is None


def test_a_sample_is_bounded():
    assert worth_sampling(50_000, 10**9)
    assert not worth_sampling(2**20, 10**12)  # two gigabytes
    for count in (1, 3, 256, 1000):
        shares = [share_of_sample(number, count) for number in range(count)]
        assert [row for share in shares for row in range(SAMPLE)[share]] == list(range(SAMPLE))


def test_a_sample_may_show_more_than_there_is():
    directions = _core.Directions(1, np.ones(1), np.empty(0))
    held, left = held_by_sample(directions, np.array([1e12]), 1e6, curvature=2.0, mean_norm=1.0, n_parts=1)
    assert 0 < left < 2.0
    weights = _core.Weights(1, 1, False, held)
    weights.set_kappa(1.0)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_rest", "one_vs_one"])
@pytest.mark.parametrize("C", [1e-4, 1e-2])
def test_small_C_does_not_suffer(formulation, loss, C, monkeypatch):
    X, y = correlated()
    held = LinearSVM(formulation, loss, C, solver="accelerated_sdm", tol=1e-5).fit(X, y)
    monkeypatch.setattr(training, "leading_directions", lambda *_: None)
    free = LinearSVM(formulation, loss, C, solver="accelerated_sdm", tol=1e-5).fit(X, y)
    assert held.converged_
    assert held.n_iter_ <= 1.2 * free.n_iter_ + 3


def test_one_thread_of_blas_finds_them(monkeypatch):
    told, eigh = [], np.linalg.eigh

    def noted(matrix):
        told.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return eigh(matrix)

    monkeypatch.setattr(np.linalg, "eigh", noted)
    with threadpool_limits(limits=2, user_api="blas"):
        LinearSVM(solver="accelerated_sdm", n_jobs=2).fit(*correlated())
    assert {*told} == {1}


def test_the_time_that_they_take_counts(monkeypatch):
    leading = directions_module.leading

    def slow(sample):
        time.sleep(0.3)
        return leading(sample)

    monkeypatch.setattr(directions_module, "leading", slow)
    assert LinearSVM(solver="accelerated_sdm").fit(*correlated()).history_["seconds"][0] >= 0.3


def test_bad_directions_are_refused():
    one = np.ones(1)
    with pytest.raises(ValueError, match="differ in number"):
        _core.Directions(2, np.ones(3), np.ones(2))
    with pytest.raises(ValueError, match="differ in number"):
        _core.Directions(0, np.empty(0), np.empty(0))
    with pytest.raises(ValueError, match="unit length"):
        _core.Directions(1, np.array([np.nan]), one)
    with pytest.raises(ValueError, match="finite"):
        _core.Directions(1, one, np.array([np.inf]))
    directions = _core.Directions(1, one, np.ones(5))
    for ratio in (0.5, np.nan, np.inf):
        with pytest.raises(ValueError, match="between 1 and"):
            directions.with_ratios(np.array([ratio]))
    with pytest.raises(ValueError, match="a ratio a direction"):
        directions.with_ratios(np.ones(2))
    with pytest.raises(ValueError, match="other features"):
        _core.Weights(2, 3, False, directions)
    with pytest.raises(IndexError, match="outside"):
        directions.curvatures(np.array([5]), one)
    with pytest.raises(IndexError, match="outside"):
        directions.sums_of_squares(np.array([-1]), one)
    held = Held(seed=0, lanes=3, count=1, single=False)
    other = _core.Weights(9, 3, False, _core.Directions(1, held.U.ravel(), np.ones(7)))
    other.set_kappa(1.0)
    with pytest.raises(ValueError, match="other rows"):
        held.passes.run(
            other, tolerance=0.0, certify_below=0.0, budget=1.0, max_epochs=1.0, shrinking=True, permute=True
        )
