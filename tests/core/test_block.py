"""Blocks: the schedule of passes, the store of duals, the sums of the objectives, accelerated weights."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin import _core
from tests.oracles import Problem, dual_objective, dual_terms, duals_of, losses, optimum, primal_objective, run, signs

LAYOUTS = [
    ("crammer_singer", False),
    ("crammer_singer", True),
    ("weston_watkins", False),
    ("weston_watkins", True),
    ("one_vs_rest", False),
]
every_layout = pytest.mark.parametrize(("policy", "pooled"), LAYOUTS)
every_loss = pytest.mark.parametrize("squared", [False, True])


def problem_of(policy, squared, lanes=5, n_examples=60, n_features=7, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_examples, n_features))
    label = (X[:, : min(lanes, n_features)].argmax(axis=1) + (rng.random(n_examples) < 0.2)) % lanes
    return Problem(policy, squared, lanes, X, label, rng.uniform(0.2, 1.0, size=n_examples))


def binary_problem(squared, **sizes):
    """One lane: a positive's label is 0, a negative's -1."""
    problem = problem_of("one_vs_rest", squared, lanes=2, **sizes)
    return Problem("one_vs_rest", squared, 1, problem.X, problem.label - 1, problem.cap)


def state(block, weights, lanes):
    return weights.array.tobytes(), duals_of(block, lanes).tobytes()


# The schedule


@every_layout
@every_loss
@pytest.mark.parametrize("kappa", [0.0, 0.7])
def test_small_budgets_change_nothing(policy, pooled, squared, kappa):
    problem = problem_of(policy, squared)
    schedule = dict(tolerance=1e-3, shrinking=True, permute=True)

    def train(share_of_a_pass):
        block, weights = problem.block(pooled=pooled, seed=5), problem.weights()
        weights.set_kappa(kappa)
        passes, records, n_calls, stopped = _core.Passes([block]), [], 0, ""
        while stopped != "tolerance":
            budget = share_of_a_pass * block.cost_of_pass
            stopped, more = run(passes, weights, budget=budget, max_epochs=1e9, **schedule)
            records += more
            n_calls += 1
        told = [(r.full, r.violation, r.visited, r.updates) for r in records]
        objectives = [(r.primal, r.dual, r.worst_gap) for r in records if r.full]
        return n_calls, state(block, weights, problem.lanes), told, objectives

    n_whole, *whole = train(1e9)
    n_chunked, *chunked = train(1 / 9)
    assert n_whole == 1 and n_chunked > len(whole[1])
    assert chunked == whole


def test_a_budget_stops_inside_of_a_pass():
    problem = problem_of("crammer_singer", False)
    block, weights = problem.block(), problem.weights()
    passes = _core.Passes([block])
    stopped, records = run(passes, weights, budget=block.cost_of_pass / 4)
    assert (stopped, records) == ("budget", [])
    assert 0 < np.count_nonzero(np.diff(block.duals()[2])) < 30
    stopped, (record,) = run(passes, weights)
    assert (stopped, record.visited) == ("epochs", len(problem.X))


def test_passes_over_few_rows_cost_more_than_these_rows():
    """Or a call would make thousands of them, and an interrupt wait for all."""
    problem = problem_of("crammer_singer", False, n_examples=3)
    stopped, records = run(problem.block(), problem.weights(), budget=1e6, max_epochs=1e9)
    assert stopped == "budget" and 50 < len(records) <= 100


@pytest.mark.parametrize("budget", [np.inf, np.nan, 1e300])
def test_a_boundless_budget_is_refused_or_spent(budget):
    problem = problem_of("crammer_singer", False)
    try:
        stopped, records = run(problem.block(), problem.weights(), budget=budget)
    except ValueError:
        return
    assert (stopped, len(records)) == ("epochs", 1)


@every_layout
def test_the_seed_decides_the_order(policy, pooled):
    problem = problem_of(policy, False)

    def after_one_pass(seed, permute=True):
        block, weights = problem.block(pooled=pooled, seed=seed), problem.weights()
        run(block, weights, permute=permute)
        return state(block, weights, problem.lanes)

    assert after_one_pass(1) == after_one_pass(1)
    assert after_one_pass(1) != after_one_pass(2)
    assert after_one_pass(1, permute=False) == after_one_pass(2, permute=False)


@every_layout
@every_loss
def test_full_and_shrunk_passes_alternate(policy, pooled, squared):
    problem = problem_of(policy, squared)
    block, weights = problem.block(pooled=pooled), problem.weights()
    _, records = run(block, weights, max_epochs=40.0, shrinking=True, permute=True, shrunk_effort=2.0)
    assert records[0].full and not records[1].full
    effort = 0.0
    for record in records[1:]:
        if record.full:
            assert effort >= 2.0
            effort = 0.0
        else:
            assert record.visited <= len(problem.X)
            assert np.isnan(record.primal) and np.isnan(record.dual)
            assert effort < 2.0
            effort += record.visited / len(problem.X)
    assert any(not r.full and r.visited < len(problem.X) for r in records)
    _, plain = run(problem.block(pooled=pooled), problem.weights(), max_epochs=5.0)
    assert [(r.full, r.visited) for r in plain] == [(True, len(problem.X))] * 5


def between_bounds(problem, a, e):
    """Whether a dual of the example is not at a bound, so that it goes on moving with its scores."""
    y, cap = problem.label[e], np.inf if problem.squared else problem.cap[e]
    alpha = np.abs(a[e]) if problem.policy == "one_vs_rest" else np.delete(-a[e], y)
    if problem.policy == "crammer_singer":  # the others share one bound: only one of them alone can be at it
        return np.count_nonzero(alpha) > 1 or 0 < alpha.max() < cap
    return bool(np.any((alpha > 0) & (alpha < cap)))


@pytest.mark.parametrize(
    ("policy", "pooled", "lanes"), [*((*layout, 4) for layout in LAYOUTS), ("one_vs_rest", False, 1)]
)
@every_loss
def test_shrunk_passes_visit_the_examples_with_a_dual_between_its_bounds(policy, pooled, lanes, squared):
    rng = np.random.default_rng(3)
    n = 90
    label = np.arange(n) % lanes if lanes > 1 else np.arange(n) % 2 - 1
    # Rows that have nothing in common: a step for one of them changes no score of another.
    problem = Problem(policy, squared, lanes, np.eye(n), label, rng.choice([0.05, 0.5, 3.0], size=n))
    block, weights = problem.block(pooled=pooled), problem.weights()
    weights.array[:, :lanes] = rng.normal(scale=2, size=(n, lanes))
    weights.array[:10, :lanes] = [1.5 * signs(y, lanes) for y in label[:10]]  # these have no loss
    _, (full, shrunk) = run(block, weights, max_epochs=1.0 + 1e-9, shrinking=True)
    free = [between_bounds(problem, duals_of(block, lanes), e) for e in range(n)]
    assert (full.visited, shrunk.visited) == (n, sum(free))
    assert 0 < sum(free) <= n - 10


# The optimum


@every_layout
@every_loss
def test_nothing_is_violated_at_the_optimum(policy, pooled, squared):
    problem = problem_of(policy, squared)
    block, weights = problem.block(pooled=pooled), problem.weights()
    stopped, _ = run(block, weights, max_epochs=20000.0, tolerance=1e-9, shrinking=True, permute=True)
    assert stopped == "tolerance"
    _, (record,) = run(block, weights)
    assert record.full and record.violation <= 1e-8
    best, W = optimum(problem)
    assert record.primal == pytest.approx(best, rel=1e-7)
    assert record.dual == pytest.approx(best, rel=1e-7)
    np.testing.assert_allclose(weights.array[:, : problem.lanes].T, W, atol=1e-4)


@every_layout
@every_loss
def test_a_small_estimate_of_the_gap_stops(policy, pooled, squared):
    problem = problem_of(policy, squared)
    block, weights = problem.block(pooled=pooled), problem.weights()
    stopped, records = run(block, weights, max_epochs=5000.0, certify_below=1e-4, permute=True)
    assert stopped == "certify"
    assert records[-1].worst_gap <= 1e-4 < min(r.worst_gap for r in records[:-1] if r.worst_gap > 0)
    assert records[-1].dual == pytest.approx(dual_objective(problem, duals_of(block, problem.lanes)), rel=1e-9)
    w, v = weights.squared_norms()
    assert (records[-1].w_norm, records[-1].v_norm) == (pytest.approx(w.sum()), pytest.approx(v.sum()))


@pytest.mark.parametrize("policy", ["crammer_singer", "weston_watkins"])
@every_loss
def test_many_lanes_lane_by_lane(policy, squared):
    """From 256 lanes on, lists score and move single lanes in shrunk passes."""
    problem = problem_of(policy, squared, lanes=310, n_examples=70, n_features=9)
    found = []
    for pooled in (False, True):
        block, weights = problem.block(pooled=pooled), problem.weights()
        stopped, records = run(block, weights, max_epochs=3000.0, tolerance=1e-7, shrinking=True, permute=True)
        assert stopped == "tolerance"
        assert any(not r.full for r in records)
        W, a = weights.array[:, : problem.lanes].T, duals_of(block, problem.lanes)
        np.testing.assert_allclose(W, a.T @ problem.X, atol=1e-9)
        found.append((primal_objective(problem, W), dual_objective(problem, a), W))
    assert found[0][:2] == pytest.approx(found[1][:2], rel=1e-7)
    assert found[0][0] == pytest.approx(found[0][1], rel=1e-6)
    np.testing.assert_allclose(found[0][2], found[1][2], atol=1e-4)


# Several blocks


def blocks_of(problem, size, pooled=False):
    rows = _core.Rows.dense(problem.X, 0.0)
    parts = np.array_split(np.arange(len(problem.X)), size)
    return [problem.block(rows=rows, which=part, pooled=pooled, seed=t) for t, part in enumerate(parts)]


@every_layout
@every_loss
def test_several_blocks_reach_the_same_optimum(policy, pooled, squared):
    problem = problem_of(policy, squared, n_examples=25, n_features=3)
    blocks, weights = blocks_of(problem, 3, pooled=pooled), problem.weights()
    passes = _core.Passes(blocks)
    values = [0.0]
    for _ in range(10):
        _, (record,) = run(passes, weights, permute=True)
        assert record.visited == len(problem.X)
        values.append(dual_objective(problem, np.vstack([duals_of(block, problem.lanes) for block in blocks])))
        assert record.dual == pytest.approx(values[-1], rel=1e-9)
    assert np.all(np.diff(values) >= -1e-12 * values[-1])
    assert run(passes, weights, max_epochs=2000.0, tolerance=1e-4, shrinking=True, permute=True)[0] == "tolerance"
    a = np.vstack([duals_of(block, problem.lanes) for block in blocks])
    W = weights.array[:, : problem.lanes].T
    np.testing.assert_allclose(W, a.T @ problem.X, atol=1e-9)
    best, _ = optimum(problem)
    assert primal_objective(problem, W) == pytest.approx(best, rel=1e-4)
    assert dual_objective(problem, a) == pytest.approx(best, rel=1e-4)


# Scales of W, examples at rest


@every_layout
@every_loss
def test_the_estimate_is_at_the_best_scale(policy, pooled, squared):
    problem = problem_of(policy, squared).rows(np.array([0]))
    before = 0.3 * np.sign(problem.X).T * (np.arange(problem.lanes) == problem.label[0])
    for scale in (0.98, 1.0):
        block, weights = problem.block(pooled=pooled), problem.weights()
        margin = (problem.X @ before).max()
        weights.array[:, : problem.lanes] = scale * before / margin  # the margin is missed by a little, or met
        weights.set_kappa(1e-9)
        passes = _core.Passes([block])
        scales = 1 + passes.scale_step(weights) * np.array([0, 1, 2, 4])
        seen = np.array([losses(problem, t * weights.array[:, : problem.lanes].T) for t in scales])
        _, (record,) = run(passes, weights)
        squares = (weights.array[:, : problem.lanes] ** 2).sum(axis=0)
        squares = squares if policy == "one_vs_rest" else squares.sum()
        primals = 0.5 * scales[:, None] ** 2 * squares + seen
        assert record.primal == pytest.approx(primals.min(axis=0).sum(), rel=1e-8)


def test_the_scale_step_follows_the_best_scale():
    problem = problem_of("crammer_singer", False)
    block, weights = problem.block(), problem.weights()
    passes = _core.Passes([block])
    assert passes.scale_step(weights) == 0  # plain: W is the sum of the duals
    weights.set_kappa(0.5)
    before = passes.scale_step(weights)
    run(passes, weights, max_epochs=500.0, tolerance=1e-9, permute=True)
    assert 0 < passes.scale_step(weights) < 1e-3 * before  # at the optimum no other scale is better


@every_layout
def test_calm_examples_rest_until_the_next_full_pass(policy, pooled):
    problem = problem_of(policy, False)
    options = dict(shrinking=True, permute=True, max_epochs=30.0, shrunk_effort=0.5)
    visited = {}
    for share in (0.0, 1.0):
        block, weights = problem.block(pooled=pooled), problem.weights()
        _, records = run(block, weights, rest_share=share, tolerance=1e-12, **options)
        visited[share] = np.mean([r.visited for r in records if not r.full])
        if share == 0:
            assert all(r.visited == block.n_examples for r in records if r.full)
    assert visited[1.0] < 0.8 * visited[0.0]
    stopped, _ = run(block, weights, rest_share=1.0, tolerance=1e-7, **(options | {"max_epochs": 20000.0}))
    assert stopped == "tolerance"
    best, _ = optimum(problem)
    assert dual_objective(problem, duals_of(block, problem.lanes)) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("policy", ["crammer_singer", "weston_watkins"])
def test_examples_far_from_loss_are_left_out_of_full_passes(policy):
    """... but not of the one that says that all is well."""
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = np.eye(3)[y] + 0.1 * rng.normal(size=(90, 3))
    X[::2] *= 5  # half of the rows end far beyond the margin
    problem = Problem(policy, False, 3, X, y, np.ones(90))
    block, weights = problem.block(pooled=True), problem.weights()
    options = dict(shrinking=True, permute=True, rest_share=1.0, max_epochs=5000.0, tolerance=1e-7)
    stopped, records = run(block, weights, **options)
    full = [r.visited for r in records if r.full]
    assert stopped == "tolerance" and full[-1] == 90 and min(full) <= 60
    best, _ = optimum(problem)
    assert dual_objective(problem, duals_of(block, 3)) == pytest.approx(best, rel=1e-6)


# Duals and weights


@every_layout
@every_loss
@pytest.mark.parametrize("single_precision", [False, True])
def test_weights_are_the_sum_of_the_duals(policy, pooled, squared, single_precision):
    problem = problem_of(policy, squared)
    block, weights = problem.block(pooled=pooled), problem.weights(single_precision)
    run(block, weights, max_epochs=20.0, shrinking=True, permute=True, tolerance=1e-12)
    a = duals_of(block, problem.lanes)
    W = weights.array[:, : problem.lanes].T
    error = 1e-4 if single_precision else 1e-9
    np.testing.assert_allclose(W, a.T @ problem.X, atol=error)
    rebuilt = problem.weights()
    block.accumulate(rebuilt, 0, block.n_examples)
    np.testing.assert_allclose(rebuilt.array[:, : problem.lanes].T, a.T @ problem.X, atol=1e-12)
    assert np.abs(a).max() > 0.1
    if policy != "one_vs_rest":
        np.testing.assert_allclose(W.sum(axis=0), 0, atol=error)
        np.testing.assert_allclose(a.sum(axis=1), 0, atol=1e-13)


@every_loss
def test_one_lane_is_a_binary_machine(squared):
    problem = binary_problem(squared)
    block, weights = problem.block(), problem.weights()
    assert block.alpha.shape == (60, 1) and weights.array.shape == (7, 1)
    stopped, _ = run(block, weights, max_epochs=20000.0, tolerance=1e-8, shrinking=True, permute=True)
    assert stopped == "tolerance"
    best, _ = optimum(problem)
    assert primal_objective(problem, weights.array.T) == pytest.approx(best, rel=1e-7)
    assert dual_objective(problem, block.alpha) == pytest.approx(best, rel=1e-7)


@every_layout
def test_duals_go_out_and_come_back(policy, pooled):
    problem = problem_of(policy, False)
    trained, weights = problem.block(pooled=pooled), problem.weights()
    run(trained, weights, max_epochs=3.0)
    parts = trained.duals()
    for layout in {False, pooled}:
        fresh = problem.block(pooled=layout)
        fresh.set_duals(*parts)
        for sent, received in zip(parts, fresh.duals(), strict=True):
            np.testing.assert_array_equal(sent, received)
        fresh.set_duals(np.empty(0), np.empty(0, np.int32), np.zeros(61, np.int64))
        assert len(fresh.duals()[0]) == 0
    value, lane, indptr = parts
    assert np.all(value != 0)
    for e in range(60):
        assert np.all(np.diff(lane[indptr[e] : indptr[e + 1]]) > 0)


@every_layout
def test_training_goes_on_from_given_duals(policy, pooled):
    problem = problem_of(policy, False)
    block, weights = problem.block(pooled=pooled), problem.weights()
    run(block, weights, max_epochs=7.0)
    other, restored = problem.block(pooled=pooled), problem.weights()
    other.set_duals(*block.duals())
    other.accumulate(restored, 0, other.n_examples)
    run(block, weights)
    run(other, restored)
    np.testing.assert_allclose(duals_of(other, 5), duals_of(block, 5), atol=1e-10)
    np.testing.assert_allclose(restored.array, weights.array, atol=1e-10)


def test_lists_grow_and_shrink():
    """Many changes of length: no list may write into another."""
    rng = np.random.default_rng(0)
    problem = problem_of("weston_watkins", True, lanes=40)
    block = problem.block(pooled=True)
    for density in (0.05, 0.9, 0.2, 1.0, 0.0, 0.5):
        a = sp.csr_array(rng.normal(size=(60, 40)) * (rng.random((60, 40)) < density))
        block.set_duals(a.data, a.indices.astype(np.int32), a.indptr.astype(np.int64))
        np.testing.assert_array_equal(duals_of(block, 40), a.toarray())


def test_alpha_is_a_view_of_the_dense_duals():
    problem = problem_of("weston_watkins", False)
    block = problem.block()
    block.alpha[3, 1] = 0.25
    assert duals_of(block, 5)[3, 1] == 0.25
    with pytest.raises(ValueError, match="lists"):
        _ = problem.block(pooled=True).alpha


# Objectives


@every_layout
@every_loss
@pytest.mark.parametrize("lanes", [2, 5, 12])
def test_evaluate_sums_losses_and_dual_terms(policy, pooled, squared, lanes):
    problem = problem_of(policy, squared, lanes=lanes)
    block, weights = problem.block(pooled=pooled), problem.weights()
    run(block, weights, max_epochs=2.0)
    weights.array[:] += 0.1 * np.random.default_rng(1).normal(size=weights.array.shape)
    W, a = weights.array[:, :lanes].T, duals_of(block, lanes)
    loss, dual = block.evaluate(weights, 0, 60, scale_step=0.3)
    for row, scale in zip(loss, (1.0, 1.3, 1.6, 2.2), strict=True):
        np.testing.assert_allclose(row, losses(problem, scale * W), rtol=1e-12)
    np.testing.assert_allclose(dual, dual_terms(problem, a), rtol=1e-12)
    part = Problem(policy, squared, lanes, problem.X[10:25], problem.label[10:25], problem.cap[10:25])
    loss, dual = block.evaluate(weights, 10, 25)
    np.testing.assert_allclose(loss, [losses(part, W)] * 4, rtol=1e-12)
    np.testing.assert_allclose(dual, dual_terms(part, a[10:25]), rtol=1e-12)
    assert loss.shape[1] == block.n_parts == (lanes if policy == "one_vs_rest" else 1)
    loss, dual = block.evaluate(weights, 10, 25, rounding=(0.25, 0.5))
    np.testing.assert_allclose(loss, [losses(part, W, rounding=(0.25, 0.5))] * 4, rtol=1e-12)
    np.testing.assert_allclose(dual, dual_terms(part, a[10:25]), rtol=1e-12)


@every_loss
def test_evaluate_one_lane(squared):
    problem = binary_problem(squared)
    block, weights = problem.block(), problem.weights()
    run(block, weights, max_epochs=2.0)
    loss, dual = block.evaluate(weights, 0, 60)
    np.testing.assert_allclose(loss, [losses(problem, weights.array.T)] * 4, rtol=1e-12)
    np.testing.assert_allclose(dual, dual_terms(problem, block.alpha), rtol=1e-12)


@pytest.mark.parametrize("policy", ["crammer_singer", "weston_watkins", "one_vs_rest"])
@every_loss
def test_propose_leaves_alpha_and_sums_its_terms(policy, squared):
    problem = problem_of(policy, squared)
    block, weights = problem.block(), problem.weights()
    run(block, weights)
    before = block.alpha.copy()
    out = np.full((15, block.alpha.shape[1]), np.nan)
    loss, dual = block.propose(weights, 10, 0.3, out)
    np.testing.assert_array_equal(block.alpha, before)
    part = Problem(policy, squared, 5, problem.X[10:25], problem.label[10:25], problem.cap[10:25])
    np.testing.assert_allclose(loss, losses(part, weights.array[:, :5].T), rtol=1e-12)
    np.testing.assert_allclose(dual, dual_terms(part, out[:, :5]), rtol=1e-12)
    assert np.any(out[:, :5] != before[10:25, :5])
    np.testing.assert_array_equal(out[:, 5:], 0)


# Acceleration


@every_layout
@pytest.mark.parametrize("single_precision", [False, True])
def test_accelerated_weights_keep_the_meaning_of_the_duals(policy, pooled, single_precision):
    """V = lambda W - kappa Z is the sum of the duals, whatever Z is."""
    problem = problem_of(policy, False)
    block, weights = problem.block(pooled=pooled), problem.weights(single_precision)
    run(block, weights, max_epochs=2.0)
    for kappa in (2.0, 0.5):
        weights.set_kappa(kappa)
        assert weights.kappa == kappa
        for _ in range(2):
            run(block, weights, max_epochs=2.0)
            V = duals_of(block, 5).T @ problem.X
            w_norms, v_norms = weights.squared_norms()
            W = weights.array[:, :5].astype(float)
            np.testing.assert_allclose(w_norms, (W**2).sum(axis=0), rtol=1e-6 if single_precision else 1e-12)
            np.testing.assert_allclose(v_norms, (V**2).sum(axis=1), rtol=1e-3 if single_precision else 1e-9)
            assert np.abs(W - V.T).max() > 1e-3
    weights.set_kappa(0.0)
    np.testing.assert_allclose(weights.array[:, :5].T, V, atol=1e-4 if single_precision else 1e-10)


def test_extrapolation():
    weights = _core.Weights(3, 5, False)
    rng = np.random.default_rng(0)
    start, moved = rng.normal(size=(2, 3, 8))
    weights.array[:] = start
    weights.set_kappa(3.0)  # Z = W
    weights.array[:] = moved
    V = 4 * moved - 3 * start
    weights.extrapolate(0.5, 1.5)
    assert weights.kappa == 1.5
    Z = moved + 0.5 * (moved - start)
    np.testing.assert_allclose(weights.array, (1.5 * Z + V) / 2.5, rtol=1e-12)
    np.testing.assert_allclose(weights.squared_norms()[1], (V**2).sum(axis=0)[:5], rtol=1e-12)
    mean = _core.Weights(3, 5, False)
    weights.averaged(mean)
    np.testing.assert_allclose(mean.array[:, :5], (((1.5 * Z + V) / 2.5 + moved) / 2)[:, :5], rtol=1e-12)
    weights.set_kappa(0.0)
    np.testing.assert_allclose(weights.array, V, rtol=1e-12)
    with pytest.raises(ValueError, match="only accelerated weights"):
        weights.extrapolate(0.5, 1.0)
    weights.averaged(mean)
    np.testing.assert_array_equal(mean.array[:, :5], weights.array[:, :5])


@every_layout
@every_loss
def test_accelerated_passes_reach_the_same_optimum(policy, pooled, squared):
    problem = problem_of(policy, squared)
    block, weights = problem.block(pooled=pooled), problem.weights()
    weights.set_kappa(1.0)
    options = dict(shrinking=True, permute=True, shrunk_effort=1.0)
    stopped, _ = run(block, weights, max_epochs=20000.0, tolerance=1e-8, **options)
    assert stopped == "tolerance"
    best, _ = optimum(problem)
    assert primal_objective(problem, weights.array[:, :5].T) == pytest.approx(best, rel=1e-6)
    assert dual_objective(problem, duals_of(block, 5)) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("first", [1e-3, 1.0, 1e3])
def test_kappa_is_steered_to_where_passes_converge(first):
    """From far too weak to far too strong: in the end much the same kappa, and few passes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 20)) + 2.0
    y = (X @ rng.normal(size=(20, 4))).argmax(axis=1)
    problem = Problem("crammer_singer", False, 4, X, y, np.ones(400))
    block, weights = problem.block(pooled=True), problem.weights()
    weights.set_kappa(first)
    options = dict(shrinking=True, permute=True, rest_share=1.0, shrunk_effort=0.5)
    stopped, records = run(block, weights, max_epochs=600.0, certify_below=1e-3, **options)
    assert stopped == "certify" and records[-1].worst_gap <= 1e-3
    w, v = weights.squared_norms()
    assert (records[-1].w_norm, records[-1].v_norm) == (pytest.approx(w.sum()), pytest.approx(v.sum()))
    assert all(np.isnan(record.v_norm) != record.full for record in records)
    assert 0.3 < weights.kappa < 300


# What is refused


def block_with(**changes):
    arguments = dict(
        rows=_core.Rows.dense(np.ones((2, 3)), 0.0),
        formulation="crammer_singer",
        squared=False,
        lanes=3,
        row=np.arange(2),
        label=np.array([0, 2], np.int32),
        cap=np.ones(2),
        norm=np.full(2, 3.0),
        pooled=False,
        seed=0,
    )
    return _core.Block(**(arguments | changes))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (dict(formulation="no such"), ValueError, "unknown core formulation 'no such'"),
        (dict(lanes=1), ValueError, "lanes"),
        (dict(formulation="one_vs_rest", lanes=0), ValueError, "lanes"),
        (dict(formulation="one_vs_rest", pooled=True), ValueError, "pooled"),
        (dict(row=np.arange(3)), ValueError, "differ in length"),
        (dict(label=np.zeros(1, np.int32)), ValueError, "differ in length"),
        (dict(row=np.array([0, 2])), IndexError, "row outside"),
        (dict(row=np.array([-1, 0])), IndexError, "row outside"),
        (dict(label=np.array([0, 3], np.int32)), IndexError, "label outside"),
        (dict(label=np.array([-1, 0], np.int32)), IndexError, "label outside"),
        (dict(cap=np.array([1.0, 0.0])), ValueError, "caps"),
        (dict(cap=np.array([1.0, np.inf])), ValueError, "caps"),
        (dict(cap=np.array([1.0, np.nan])), ValueError, "caps"),
        (dict(norm=np.array([1.0, 0.0])), ValueError, "norms"),
        (dict(norm=np.array([np.inf, 1.0])), ValueError, "norms"),
    ],
)
def test_blocks_refuse_what_they_cannot_train(changes, error, message):
    with pytest.raises(error, match=message):
        block_with(**changes)


def test_blocks_and_weights_must_fit():
    block = block_with()
    for weights in (_core.Weights(3, 4, False), _core.Weights(2, 3, False), _core.Weights(4, 3, False)):
        with pytest.raises(ValueError, match="block and weights differ"):
            run(block, weights)
        with pytest.raises(ValueError, match="block and weights differ"):
            block.evaluate(weights, 0, 2)
        with pytest.raises(ValueError, match="block and weights differ"):
            block.accumulate(weights, 0, 2)
        with pytest.raises(ValueError, match="block and weights differ"):
            block.propose(weights, 0, 1.0, np.empty((2, 4)))
    weights = _core.Weights(3, 3, False)
    for begin, end in ((-1, 1), (0, 3), (2, 1)):
        with pytest.raises(IndexError, match="range"):
            block.evaluate(weights, begin, end)
        with pytest.raises(IndexError, match="range"):
            block.accumulate(weights, begin, end)


@pytest.mark.parametrize("rounding", [(-1e-9, 0.0), (0.0, -1e-9), (np.nan, 0.0), (0.0, np.nan)])
def test_rounding_makes_no_loss_smaller(rounding):
    with pytest.raises(ValueError, match="rounding must not be negative"):
        block_with().evaluate(_core.Weights(3, 3, False), 0, 2, rounding=rounding)


@pytest.mark.parametrize(
    ("begin", "curvature", "out", "error"),
    [
        (0, 1.0, np.zeros((2, 3)), ValueError),
        (1, 1.0, np.zeros((2, 4)), IndexError),
        (0, 0.0, np.zeros((2, 4)), ValueError),
        (0, np.nan, np.zeros((2, 4)), ValueError),
        (0, np.inf, np.zeros((2, 4)), ValueError),
        (0, 1.0, np.zeros((2, 4), np.float32), TypeError),
        (0, 1.0, np.zeros((2, 8))[:, ::2], TypeError),
    ],
)
def test_propose_refuses_what_does_not_fit(begin, curvature, out, error):
    with pytest.raises(error):
        block_with().propose(_core.Weights(3, 3, False), begin, curvature, out)


def test_propose_needs_dense_duals():
    with pytest.raises(ValueError, match="dense layout"):
        block_with(pooled=True).propose(_core.Weights(3, 3, False), 0, 1.0, np.empty((2, 4)))


@pytest.mark.parametrize(
    ("lane", "indptr", "error"),
    [
        ([0, 3], [0, 1, 2], IndexError),
        ([0, -1], [0, 1, 2], IndexError),
        ([0, 1], [0, 1], ValueError),
        ([0, 1], [0, 1, 3], ValueError),
        ([0, 1], [0, 2, 1], ValueError),
        ([0, 1], [1, 1, 2], ValueError),
        ([0], [0, 1, 1], ValueError),
        ([1, 1], [0, 2, 2], ValueError),
    ],
)
@pytest.mark.parametrize("pooled", [False, True])
def test_set_duals_refuses_what_does_not_fit(lane, indptr, error, pooled):
    with pytest.raises(error):
        block_with(pooled=pooled).set_duals(np.ones(2), np.array(lane, np.int32), np.array(indptr, np.int64))


def test_a_block_is_not_visited_twice_in_a_pass():
    block = block_with()
    with pytest.raises(ValueError):
        _core.Passes([block, block])


def test_passes_keep_their_blocks():
    """Whatever becomes of the list that they were given; in a process of its own, as a crash would end this one."""
    code = """
import numpy as np
from multimargin import _core
rows = _core.Rows.dense(np.ones((2, 3)), 0.0)
arrays = np.arange(2), np.array([0, 2], np.int32), np.ones(2), np.full(2, 3.0)
blocks = [_core.Block(rows, "crammer_singer", False, 3, *arrays, False, 0)]
passes = _core.Passes(blocks)
blocks.clear()
options = dict(tolerance=1e-3, certify_below=0.0, budget=1e6, max_epochs=1.0, shrinking=False, permute=False)
passes.run(_core.Weights(3, 3, False), **options)
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_weights_need_a_lane():
    with pytest.raises(ValueError, match="lane"):
        _core.Weights(3, 0, False)
