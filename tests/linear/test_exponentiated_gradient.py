"""Exponentiated gradient steps against their formula; what must hold whatever the numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracles import Problem, Step, dual_objective, duals_of, infeasibility, is_feasible, one_example, run

FIRST_RATE, SAFE_RATE = 64.0, 4.0  # in units of 1 / (C A)


def step_of(policy, scores, p, label, cap, curvature):
    """A step from the distribution p: of the classes, or (lanes) of alpha / C lane by lane."""
    a = -cap * np.asarray(p, float)
    if policy == "crammer_singer":
        a[label] = -(a.sum() - a[label])
    elif label >= 0:
        a[label] = -a[label]
    return Step(policy, False, np.asarray(scores, float), a, label, cap, curvature)


def distributions(step):
    """Log p, and the gradient of f by -p, of every distribution of the example."""
    p = np.abs(step.a) / step.cap
    s = np.asarray(step.scores, float)
    if step.policy == "crammer_singer":
        p[step.label] = 1 - step.a[step.label] / step.cap
        return [(p, s + (np.arange(step.lanes) != step.label))]
    z = np.where(np.arange(step.lanes) == step.label, 1.0, -1.0)
    return [(np.array([p[m], 1 - p[m]]), np.array([1 - z[m] * s[m], 0.0])) for m in range(step.lanes)]


def expected_step(step, rate=FIRST_RATE):
    """The new distributions: the rate is halved until f does not rise."""
    out = []
    for p, g in distributions(step):
        speed = rate
        while True:
            theta = np.log(p) + speed / (step.cap * step.curvature) * g
            moved = np.exp(theta - theta.max())
            moved /= moved.sum()
            delta = step.cap * (p - moved)
            square = delta @ delta if step.policy == "crammer_singer" else delta[0] ** 2
            if g @ delta + step.curvature / 2 * square <= 0 or speed <= SAFE_RATE:
                break
            speed = max(speed / 2, SAFE_RATE)
        out.append(moved)
    return out


def core_step(step):
    block, weights = one_example(step, norm=step.curvature)
    block.use_exponentiated_gradient()
    run(block, weights)
    return duals_of(block, step.lanes)[0]


CASES = [
    ("crammer_singer", [0.3, -0.2, 0.1, 0.4, 0.0], [0.1, 0.2, 0.3, 0.15, 0.25], 2),
    ("crammer_singer", [3.0, -5.0, 2.9], [0.01, 0.01, 0.98], 1),
    ("one_vs_rest", [0.3, -1.2, 0.1, 0.4, 0.0], [0.1, 0.2, 0.3, 0.15, 0.25], 2),
    ("one_vs_rest", [0.3, -1.2, 3.0], [0.9, 0.2, 0.999], -1),
    ("one_vs_rest", [0.7], [0.4], 0),
    ("one_vs_rest", [0.7], [0.4], -1),
]


@pytest.mark.parametrize(("policy", "scores", "p", "label"), CASES)
@pytest.mark.parametrize("cap", [0.1, 3.0])
@pytest.mark.parametrize("curvature", [0.2, 1.0, 50.0])
def test_step_is_the_formula(policy, scores, p, label, cap, curvature):
    step = step_of(policy, scores, p, label, cap, curvature)
    a = core_step(step)
    if policy == "crammer_singer":
        (moved,) = expected_step(step)
        expected = -cap * moved
        expected[label] += cap
    else:
        sign = np.where(np.arange(step.lanes) == label, 1, -1)
        expected = sign * cap * np.array([moved[0] for moved in expected_step(step)])
    np.testing.assert_allclose(a, expected, rtol=1e-9, atol=1e-12 * cap)


numbers = st.floats(-1e3, 1e3)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_steps_keep_the_duals_feasible_and_never_raise_f(data):
    """Any scores, caps and curvatures, duals at bounds included."""
    policy = data.draw(st.sampled_from(["crammer_singer", "one_vs_rest"]))
    k = data.draw(st.integers(2 if policy == "crammer_singer" else 1, 9))
    label = data.draw(st.integers(0 if policy == "crammer_singer" else -1, k - 1))
    weight = st.sampled_from([0.0, 1e-300, 1e-17, 0.5, 1.0])
    p = np.array(data.draw(st.lists(weight, min_size=k, max_size=k)))
    if policy == "crammer_singer":
        p = p / max(p.sum(), 1.0)
    size = st.sampled_from([1e-150, 1e-3, 1.0, 1e3, 1e150])
    cap, curvature = data.draw(size), data.draw(size)
    scores = np.array(data.draw(st.lists(numbers, min_size=k, max_size=k))) * data.draw(
        st.sampled_from([1e-9, 1.0, 1e9])
    )
    step = step_of(policy, scores, p, label, cap, curvature)
    a = core_step(step)
    assert np.isfinite(a).all()
    assert infeasibility(step, a) <= 1e-12 * cap
    delta = (a - step.a) / cap
    z = np.where(np.arange(k) == label, 1.0, -1.0)
    g = scores + (np.arange(k) != label) if policy == "crammer_singer" else scores - z
    scale = 1 + np.abs(g).max() + cap * curvature
    assert g @ delta + 0.5 * cap * curvature * (delta @ delta) <= 1e-12 * scale


@pytest.mark.parametrize("policy", ["crammer_singer", "one_vs_rest"])
def test_a_dual_of_zero_comes_back(policy):
    """Its probability has underflowed, or was never there; a few visits bring it to where it belongs."""
    step = Step(policy, False, np.zeros(3), np.zeros(3), 0, 1.0, 1.0)
    block, weights = one_example(step)
    block.use_exponentiated_gradient()
    run(block, weights, max_epochs=200.0)
    exact = {"crammer_singer": [2 / 3, -1 / 3, -1 / 3], "one_vs_rest": [1.0, -1.0, -1.0]}[policy]
    np.testing.assert_allclose(duals_of(block, 3)[0], exact, atol=1e-3)


@pytest.mark.parametrize("lanes", [1, 3, 6])
@pytest.mark.parametrize("policy", ["crammer_singer", "one_vs_rest"])
def test_the_dual_value_rises_pass_by_pass(policy, lanes):
    if policy == "crammer_singer" and lanes == 1:
        lanes = 2
    rng = np.random.default_rng(lanes)
    label = rng.integers(0 if policy == "crammer_singer" else -1, lanes, 40)
    X = rng.normal(size=(40, 5)) + rng.normal(size=(lanes + 1, 5))[label]
    problem = Problem(policy, False, lanes, X, label, rng.uniform(0.1, 5.0, 40))
    block, weights = problem.block(), problem.weights()
    block.use_exponentiated_gradient()
    values = []
    for _ in range(30):
        run(block, weights, permute=True)
        a = duals_of(block, lanes)
        assert is_feasible(problem, a)
        np.testing.assert_allclose(weights.array[:, :lanes].T, a.T @ X, atol=1e-10)
        values.append(dual_objective(problem, a))
    assert np.all(np.diff(values) >= -1e-10 * np.abs(values[-1]))


def test_what_the_core_refuses():
    with pytest.raises(ValueError, match="only for the hinge loss"):
        Problem("weston_watkins", False, 3, np.eye(3), np.arange(3), np.ones(3)).block().use_exponentiated_gradient()
    with pytest.raises(ValueError, match="dense layout"):
        block = Problem("crammer_singer", False, 3, np.eye(3), np.arange(3), np.ones(3)).block(pooled=True)
        block.use_exponentiated_gradient()
