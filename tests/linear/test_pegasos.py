"""Pegasos against a slow copy of itself, written from the paper; its duals at every moment."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimargin import _core
from tests.oracles import Problem, dual_objective, duals_of, is_feasible, primal_objective, run

every_kind = pytest.mark.parametrize("kind", ["crammer_singer", "one_vs_rest", "binary"])
every_projection = pytest.mark.parametrize("projection", [True, False])


def problem_of(kind, *, n=37, n_features=5, lanes=3, cap_scale=1.0, seed=0):
    """Noisy classes with caps of their own; of lanes, some examples are in none."""
    rng = np.random.default_rng(seed)
    lanes = 1 if kind == "binary" else lanes
    label = rng.integers(0 if kind == "crammer_singer" else -1, lanes, n)
    X = rng.normal(size=(n, n_features)) + rng.normal(size=(lanes + 1, n_features))[label]
    policy = "crammer_singer" if kind == "crammer_singer" else "one_vs_rest"
    return Problem(policy, False, lanes, X, label, cap_scale * rng.uniform(0.5, 2.0, n))


def slopes(problem, W, i):
    """The subgradient of -loss_i, as multiples of x_i: one a lane."""
    s, y = W @ problem.X[i], problem.label[i]
    if problem.policy == "one_vs_rest":
        z = np.where(np.arange(problem.lanes) == y, 1.0, -1.0)
        return np.where(z * s < 1, z, 0.0)
    out, others = np.zeros(problem.lanes), np.delete(np.arange(problem.lanes), y)
    worst = others[np.argmax(s[others])]
    if s[y] - s[worst] < 1:
        out[y], out[worst] = 1.0, -1.0
    return out


def pegasos(problem, passes, batch, projection):
    """lambda/2 ||W||^2 + weighted mean of the losses, rows in their order; t counts examples."""
    n, bound = len(problem.X), np.sqrt(problem.cap.sum())
    W, t = np.zeros((problem.lanes, problem.X.shape[1])), 0
    for _ in range(passes):
        for begin in range(0, n, batch):
            rows = range(begin, min(n, begin + batch))
            step = sum(problem.cap[i] * np.outer(slopes(problem, W, i), problem.X[i]) for i in rows)
            W = t / (t + len(rows)) * W + n / (t + len(rows)) * step
            t += len(rows)
            if projection:
                axis = 1 if problem.policy == "one_vs_rest" else None
                W = W * np.minimum(1, bound / np.maximum(np.sqrt((W**2).sum(axis=axis, keepdims=True)), 1e-300))
    return W


def weights_of(weights, problem):
    return weights.array[:, : problem.lanes].T.astype(np.float64)


@every_kind
@every_projection
@pytest.mark.parametrize("batch", [1, 5, 1000])
@pytest.mark.parametrize("cap_scale", [0.1, 30.0])
def test_passes_are_those_of_the_paper(kind, projection, batch, cap_scale):
    problem = problem_of(kind, cap_scale=cap_scale)
    block, weights = problem.block(), problem.weights()
    block.use_pegasos(batch, projection, 0)
    for passes in (1, 2, 6):
        run(block, weights, max_epochs=float({1: 1, 2: 1, 6: 4}[passes]))
        expected = pegasos(problem, passes, batch, projection)
        np.testing.assert_allclose(
            weights_of(weights, problem), expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max()
        )


def test_projections_far_below_the_smallest_number():
    """Long first steps: the factors of a pass multiply to less than 1e-308."""
    problem = problem_of("crammer_singer", n=2000, cap_scale=1e4)
    block, weights = problem.block(), problem.weights()
    block.use_pegasos(1, True, 0)
    run(block, weights)
    np.testing.assert_allclose(weights_of(weights, problem), pegasos(problem, 1, 1, True), rtol=1e-6)


@every_kind
@every_projection
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 9), st.integers(0, 1000), st.sampled_from([0.05, 1.0, 50.0]), st.booleans())
def test_duals_are_feasible_and_sum_to_the_weights_at_any_time(kind, projection, batch, seed, cap_scale, single):
    problem = problem_of(kind, seed=seed, cap_scale=cap_scale)
    block, weights = problem.block(seed=seed), problem.weights(single)
    block.use_pegasos(batch, projection, 0)
    passes = _core.Passes([block])
    for _ in range(30):  # slices of a few visits, all over the passes
        passes.run(
            weights,
            tolerance=0.0,
            certify_below=-np.inf,
            budget=1.0 + 7.0 * block.cost_of_pass / len(problem.X),
            max_epochs=1.0,
            shrinking=False,
            permute=True,
        )
        a, W = duals_of(block, problem.lanes), weights_of(weights, problem)
        assert is_feasible(problem, a)
        np.testing.assert_allclose(W, a.T @ problem.X, rtol=0, atol=(1e-4 if single else 1e-11) * np.abs(a).sum())
        assert dual_objective(problem, a) <= primal_objective(problem, W) * (1 + 1e-9)


@every_kind
def test_duals_are_shares_of_the_passes(kind):
    problem = problem_of(kind)
    block, weights = problem.block(), problem.weights()
    block.use_pegasos(1, False, 0)
    run(block, weights, max_epochs=8.0)
    shares = duals_of(block, problem.lanes) / problem.cap[:, None] * 8
    np.testing.assert_allclose(shares, np.round(shares), atol=1e-12)


@every_kind
def test_the_estimate_of_a_pass_is_about_the_gap(kind):
    problem = problem_of(kind)
    block, weights = problem.block(), problem.weights()
    block.use_pegasos(1, True, 0)
    _, records = run(block, weights, max_epochs=400.0, permute=True)
    a, W = duals_of(block, problem.lanes), weights_of(weights, problem)
    assert records[-1].dual == pytest.approx(dual_objective(problem, a), rel=1e-9)
    assert records[-1].primal == pytest.approx(primal_objective(problem, W), rel=0.05)


def test_what_the_core_refuses():
    joint = Problem("weston_watkins", False, 3, np.eye(3), np.arange(3), np.ones(3))
    with pytest.raises(ValueError, match="only for the hinge loss"):
        joint.block().use_pegasos(1, True, 0)
    squared = Problem("crammer_singer", True, 3, np.eye(3), np.arange(3), np.ones(3))
    with pytest.raises(ValueError, match="only for the hinge loss"):
        squared.block().use_pegasos(1, True, 0)
    plain = Problem("crammer_singer", False, 3, np.eye(3), np.arange(3), np.ones(3))
    with pytest.raises(ValueError, match="dense layout"):
        plain.block(pooled=True).use_pegasos(1, True, 0)
    with pytest.raises(ValueError, match="batch must be positive"):
        plain.block().use_pegasos(0, True, 0)
