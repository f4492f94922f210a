"""The step for one example, against exact arithmetic."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles import (
    POLICIES,
    Problem,
    Step,
    core_step,
    dual_objective,
    duals_of,
    exact_step,
    infeasibility,
    one_example,
    optimum,
    run,
    signs,
    step_objective,
    violation,
)

EPS = np.finfo(float).eps
EVERY_LOSS = [(policy, squared) for policy in POLICIES for squared in (False, True)]
every_policy = pytest.mark.parametrize(("policy", "squared"), EVERY_LOSS)
fast = settings(max_examples=100, deadline=None, derandomize=True, database=None)


@st.composite
def steps(draw, policy, squared, scale=8, most_lanes=1000):
    """Examples of every size, with ties, duals at bounds, and curvature and C from 10^-scale to 10^scale."""
    separable = policy == "one_vs_rest"
    few = st.integers(1 if separable else 2, 13)
    lanes = draw(st.one_of(few, few, st.sampled_from([16, 33, 100, 257, 1000]).map(lambda k: min(k, most_lanes))))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    label = draw(st.integers(-1 if separable else 0, lanes - 1))
    cap = 10.0 ** draw(st.floats(-scale, scale))
    curvature = 10.0 ** draw(st.floats(-scale, scale))
    kind = draw(st.sampled_from(["normal", "ties", "equal", "margin", "large"]))
    scores = {
        "normal": rng.normal(size=lanes),
        "ties": rng.integers(-2, 3, size=lanes).astype(float),
        "equal": np.full(lanes, rng.normal()),
        "margin": np.where(np.arange(lanes) == label, 1.0, 0.0),
        "large": 1e4 * rng.normal(size=lanes),
    }[kind]
    a = feasible_duals(policy, squared, label, lanes, cap, rng, draw(st.sampled_from(["zero", "free", "bound"])))
    return Step(policy, squared, tuple(scores), tuple(a), label, cap, curvature)


def feasible_duals(policy, squared, label, lanes, cap, rng, kind):
    """Duals that meet the constraints: all zero, between their bounds, or (some of them) at the bounds."""
    if kind == "zero":
        return np.zeros(lanes)
    alpha = cap * rng.random(lanes) * (rng.random(lanes) < 0.5)
    if kind == "bound":
        alpha[rng.random(lanes) < 0.5] = cap
    if policy == "one_vs_rest":
        return signs(label, lanes) * alpha
    alpha[label] = 0
    if policy == "crammer_singer" and not squared and alpha.sum() > 0:
        alpha *= (1.0 if kind == "bound" else rng.random()) * cap / max(alpha.sum(), cap)
    a = -alpha
    a[label] = alpha.sum()
    if policy == "crammer_singer" and not squared:
        a[label] = min(a[label], cap)
    return a


def rounding(step, best):
    """Error of the gradient that float64 may make: a few roundings of what is added up in it."""
    g = np.abs(step.scores).max() + 1
    duals = max(np.abs(step.a).max(), max(abs(float(v)) for v in best))
    if not step.squared and step.policy == "weston_watkins":
        duals = max(duals, step.cap)
    diagonal = 1 / (2 * step.cap) if step.squared else 0
    return 8 * EPS * step.lanes * (g + (step.curvature + diagonal) * duals)


@every_policy
@fast
@given(data=st.data())
def test_step_is_the_minimiser(policy, squared, data):
    step = data.draw(steps(policy, squared))
    best, found = exact_step(step), core_step(step)
    error = rounding(step, best)
    largest = max(np.abs(found).max(), np.abs(step.a).max())

    assert infeasibility(step, found) == 0
    if policy != "one_vs_rest":
        assert abs(found.sum()) <= (1e-14 + 4 * EPS * step.lanes) * largest

    # The exact minimiser for gradients that are wrong by `error` moves by error / A and costs error times that;
    # rounding the duals themselves costs their last digit times the gradient.
    apart = np.abs(found - np.array([float(v) for v in best]))
    assert apart.max() <= np.sqrt(step.lanes) * error / step.curvature + 4 * EPS * largest
    excess = float(step_objective(step, found) - step_objective(step, best))
    assert abs(excess) <= error * (largest + min(apart.sum(), step.lanes * error / step.curvature))


@every_policy
@fast
@given(data=st.data())
def test_nothing_is_violated_after_the_step(policy, squared, data):
    step = data.draw(steps(policy, squared, scale=3, most_lanes=100))
    found = core_step(step)
    size = max(np.abs(found).max(), np.abs(step.a).max(), 0 if squared else step.cap)
    moved = step.curvature * (found - np.array(step.a))
    # A dual within rounding of its bound is at its bound.
    z = signs(step.label, step.lanes)
    alpha = np.where(np.abs(found) <= 1e-9 * size, 0.0, z * found)
    if not squared:
        alpha[np.abs(alpha - step.cap) <= 1e-9 * size] = step.cap
    after = replace(step, a=tuple(z * alpha), scores=tuple(np.array(step.scores) + moved))
    diagonal = 1 / (2 * step.cap) if squared else 0
    scale = 1 + np.abs(step.scores).max() + (step.curvature + diagonal) * size
    assert violation(after) <= 1e-8 * scale


@every_policy
@pytest.mark.parametrize("pooled", [False, True])
@fast
@given(data=st.data())
def test_first_visit_reports_the_violation_and_moves_duals_and_weights(policy, squared, pooled, data):
    if pooled and policy == "one_vs_rest":
        return  # separable lanes have no lists
    step = data.draw(steps(policy, squared, scale=3, most_lanes=33))
    block, weights = one_example(step, pooled=pooled, norm=step.curvature)
    _, (record,) = run(block, weights)
    before = np.array(step.a)
    size = np.abs(step.scores).max() + 1 + np.abs(before).max() * (1 / (2 * step.cap) if squared else 0)
    assert record.violation == pytest.approx(violation(step), rel=1e-12, abs=1e-13 * size)
    assert (record.full, record.visited) == (True, 1)

    after = duals_of(block, step.lanes)[0]
    assert record.updates == np.any(after != before)
    assert infeasibility(step, after) == 0
    np.testing.assert_allclose(
        weights.array[0, : step.lanes], np.array(step.scores) + (after - before), rtol=1e-12, atol=1e-14 * size
    )
    slack = 1e-12 * size * (np.abs(before).sum() + np.abs(after).sum())
    gained = float(step_objective(step, before) - step_objective(step, after))
    assert gained >= -slack
    if step_objective(step, before) - step_objective(step, exact_step(step)) > 1e3 * slack:
        assert gained > 0
    if not pooled:
        np.testing.assert_array_equal(after, core_step(step) if violation(step) > 1e-12 else before)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("single_precision", [False, True])
@fast
@given(data=st.data())
def test_a_list_takes_the_step_on_its_lanes_and_the_best_other(squared, single_precision, data):
    """Crammer-Singer's restricted step: non-zero duals, the label, and of the others the first arg max."""
    step = data.draw(steps("crammer_singer", squared, scale=3, most_lanes=100))
    if single_precision:
        step = replace(step, scores=tuple(np.float32(step.scores).astype(float)))
    block, weights = one_example(step, pooled=True, single_precision=single_precision, norm=step.curvature)
    run(block, weights)

    scores, before = np.array(step.scores), np.array(step.a)
    others = np.where((before != 0) | (np.arange(step.lanes) == step.label), -np.inf, scores)
    taken = np.unique([*np.flatnonzero(before), step.label, others.argmax()])
    part = replace(
        step, scores=tuple(scores[taken]), a=tuple(before[taken]), label=int(np.searchsorted(taken, step.label))
    )
    expected = np.zeros(step.lanes)
    expected[taken] = [float(v) for v in exact_step(part)]
    after = duals_of(block, step.lanes)[0]
    error = np.sqrt(part.lanes) * rounding(part, expected[taken]) / step.curvature
    np.testing.assert_allclose(
        after, expected, rtol=0, atol=error + 1e-13 * max(np.abs(after).max(), np.abs(before).max())
    )


@every_policy
@fast
@given(data=st.data())
def test_permuted_classes_give_the_permuted_step(policy, squared, data):
    step = data.draw(steps(policy, squared, scale=3, most_lanes=100))
    order = np.array(data.draw(st.permutations(range(step.lanes))))
    label = int(np.flatnonzero(order == step.label)[0]) if step.label >= 0 else -1
    permuted = replace(step, scores=tuple(np.array(step.scores)[order]), a=tuple(np.array(step.a)[order]), label=label)
    expected = core_step(step)[order]
    error = rounding(step, expected) / step.curvature
    np.testing.assert_allclose(core_step(permuted), expected, rtol=0, atol=error + 4 * EPS * np.abs(expected).max())


@every_policy
@pytest.mark.parametrize("lanes", [2, 3, 4, 5, 9, 100])
def test_tied_classes_share_the_step(policy, squared, lanes):
    label = lanes // 2
    step = Step(policy, squared, (0.25,) * lanes, (0.0,) * lanes, label, cap=1.0, curvature=0.5)
    others = np.delete(core_step(step), label)
    assert others[0] < 0
    np.testing.assert_array_equal(others, others[0])


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("score", [-2.0, -1.0, 0.0, 0.75, 1.0, 3.0])
@pytest.mark.parametrize("label", [0, -1])
def test_one_lane_is_any_lane(squared, score, label):
    alone = Step("one_vs_rest", squared, (score,), (0.5 if label == 0 else -0.5,), label, cap=2.0, curvature=0.7)
    among = replace(alone, scores=(0.1, 0.2, score, 0.3, 0.4), a=(0.0, 0.0, alone.a[0], 0.0, 0.0), label=2 + 3 * label)
    assert core_step(alone)[0] == core_step(among)[2]


@every_policy
def test_float32_weights_give_the_step_at_their_scores(policy, squared):
    scores = np.random.default_rng(0).normal(size=11).astype(np.float32)
    step = Step(policy, squared, tuple(scores.astype(float)), (0.0,) * 11, 3, cap=0.3, curvature=2.0)
    block, weights = one_example(step, single_precision=True)
    out = np.empty_like(block.alpha)
    block.propose(weights, 0, step.curvature, out)
    np.testing.assert_array_equal(out[0, :11], core_step(step))


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("policy", ["crammer_singer", "weston_watkins"])
@pytest.mark.parametrize("lanes", [3, 8, 21])
def test_restricted_steps_lower_the_dual_to_the_same_optimum(policy, squared, lanes):
    rng = np.random.default_rng(lanes)
    problem = Problem(
        policy, squared, lanes, rng.normal(size=(40, 6)), rng.integers(0, lanes, size=40), rng.uniform(0.1, 1, size=40)
    )
    reached = []
    for pooled in (False, True):
        block, weights = problem.block(pooled=pooled), problem.weights()
        values = [0.0]
        for _ in range(30):
            run(block, weights)
            values.append(dual_objective(problem, duals_of(block, lanes)))
        assert np.all(np.diff(values) >= -1e-12 * values[-1])
        assert values[1] > 0
        assert run(block, weights, max_epochs=30000.0, tolerance=1e-7)[0] == "tolerance"
        reached.append(dual_objective(problem, duals_of(block, lanes)))
    best, _ = optimum(problem)
    np.testing.assert_allclose(reached, best, rtol=1e-7)
