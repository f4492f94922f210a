"""The block solvers of the core against a quadratic program: every policy, free bias, hard cases, slabs and caches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimargin import _core
from tests.kernel.problems import clusters, feasible, optimum_with_bias, problem_of, rows_with_kernel, run, store_of
from tests.oracles import Problem, optimum

POLICIES = ("crammer_singer", "weston_watkins", "one_vs_rest")


def block(problem, store, groups=(0,), working_set=0, shrinking=True, seed=0):
    label = problem.label.astype(np.int32)
    return _core.KernelMachine.block(
        store, list(groups), problem.policy, problem.lanes, label, problem.cap, working_set, shrinking, seed
    )


@pytest.mark.parametrize("shrinking", [True, False])
@pytest.mark.parametrize("working_set", [0, 2, 7])
@pytest.mark.parametrize("policy", POLICIES)
def test_linear_kernel_is_the_quadratic_program(policy, working_set, shrinking):
    problem = problem_of(policy)
    machine = block(problem, store_of(problem.X), working_set=working_set, shrinking=shrinking)
    told = run(machine)
    best, _ = optimum(problem)
    assert told.primal == pytest.approx(best, rel=1e-6)
    assert told.dual == pytest.approx(best, rel=1e-6)
    assert feasible(problem, machine.duals())


@pytest.mark.parametrize("policy", POLICIES)
def test_rbf_kernel_is_the_quadratic_program(policy):
    problem = problem_of(policy, seed=4)
    distance = ((problem.X[:, None] - problem.X[None]) ** 2).sum(axis=2)
    told = run(block(problem, store_of(problem.X, "rbf", 0.4)))
    mapped = problem_of(policy, seed=4, X=rows_with_kernel(np.exp(-0.4 * distance)))
    assert told.primal == pytest.approx(optimum(mapped)[0], rel=1e-6)


@pytest.mark.parametrize("policy", POLICIES)
def test_scores_and_objectives_are_of_the_duals(policy):
    problem = problem_of(policy, n=60)
    machine = block(problem, store_of(problem.X), working_set=10)
    for _ in range(30):
        told = machine.advance()
    a = machine.duals()
    W = a.T @ problem.X
    np.testing.assert_allclose(machine.scores(np.arange(60)), problem.X @ W.T, rtol=1e-9, atol=1e-9)
    from tests.oracles import dual_objective, primal_objective

    assert told.primal == pytest.approx(primal_objective(problem, W), rel=1e-9)
    assert told.dual == pytest.approx(dual_objective(problem, a), rel=1e-9, abs=1e-9)
    assert told.violation > 0 or told.worst_gap < 1e-9


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("C", [1e-6, 1e5])
def test_tiny_and_large_caps(policy, C):
    problem = problem_of(policy, C=C, seed=2)
    told = run(block(problem, store_of(problem.X)), tol=1e-5, most=100_000)
    assert told.primal == pytest.approx(optimum(problem)[0], rel=2e-5)


@pytest.mark.parametrize("policy", POLICIES)
def test_duplicate_rows_and_contradicting_labels(policy):
    X, label = clusters(24, 3, seed=5)
    X = np.concatenate([X, X, X[:6]])
    label = np.concatenate([label, label, (label[:6] + 1) % 3])
    problem = Problem(policy, False, 3, X, label, np.full(len(X), 3.0))
    told = run(block(problem, store_of(X), working_set=8), tol=1e-6)
    assert told.primal == pytest.approx(optimum(problem)[0], rel=1e-5)


@pytest.mark.parametrize("policy", POLICIES)
def test_nearly_constant_kernel(policy):
    """All rows nearly the same: steps of one example alone hardly move; the accelerated passes do."""
    X, label = clusters(30, 3, seed=6, apart=3.0)
    X = np.concatenate([X * 0.02, np.ones((30, 1))], axis=1)
    problem = Problem(policy, False, 3, X, label, np.full(30, 500.0))
    told = run(block(problem, store_of(X)), tol=1e-4, most=2000)
    assert told.primal == pytest.approx(optimum(problem)[0], rel=2e-4)


@pytest.mark.parametrize("policy", POLICIES)
def test_float32_values_and_small_stores_reach_the_same(policy):
    problem = problem_of(policy, n=120)
    best, _ = optimum(problem)
    for dtype, budget in ((np.float32, 1 << 24), (np.float64, 20 * 120 * 8), (np.float64, 0)):
        store = store_of(problem.X, dtype=dtype, budget=budget)
        assert run(block(problem, store), tol=1e-4).primal == pytest.approx(best, rel=2e-4)
    assert store.counts()[2] == store.counts()[1] * 120  # whole rows


@pytest.mark.parametrize("policy", POLICIES)
def test_start_from_duals(policy):
    problem = problem_of(policy, n=80)
    store = store_of(problem.X)
    first = block(problem, store)
    end = run(first, tol=1e-6)
    second = block(problem, store, seed=1)
    second.set_duals(first.duals())
    told = run(second, tol=1e-6)
    assert told.visited == 0  # certified before any round
    assert told.primal == pytest.approx(end.primal, rel=1e-9)


@given(seed=st.integers(0, 1000), policy=st.sampled_from(POLICIES), k=st.integers(2, 6), size=st.integers(2, 30))
@settings(max_examples=40, deadline=None)
def test_gap_bounds_the_distance_from_the_optimum(seed, policy, k, size):
    problem = problem_of(policy, n=30, k=k, seed=seed)
    machine = block(problem, store_of(problem.X, dtype=np.float64), working_set=size, seed=seed)
    best, _ = optimum(problem)
    for _ in range(6):
        told = machine.advance()
        if told.complete:
            assert told.dual <= best * (1 + 1e-7) and told.primal >= best * (1 - 1e-7)
            assert feasible(problem, machine.duals())


def smo(X, sign, cap, groups=None, working_set=0, which=(0,), **options):
    store = store_of(X, groups=groups, **options)
    return _core.KernelMachine.smo(store, list(which), sign.astype(np.int32), cap, working_set)


@pytest.mark.parametrize("working_set", [0, 2, 9])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e4])
def test_smo_is_the_quadratic_program_with_a_free_bias(working_set, C):
    X, label = clusters(50, 2, seed=1)
    X += 5  # the bias matters
    sign = np.where(label == 1, 1, -1)
    cap = C * np.random.RandomState(2).uniform(0.5, 2, size=50)
    machine = smo(X, sign, cap, working_set=working_set)
    told = run(machine, tol=1e-6)
    assert told.primal == pytest.approx(optimum_with_bias(X, sign, cap), rel=1e-5)
    a = machine.duals()[:, 0]
    assert abs(a.sum()) <= 1e-9 * cap.sum() and np.all(sign * a >= 0) and np.all(np.abs(a) <= cap)
    values = X @ (X.T @ a) + told.bias
    primal = 0.5 * np.sum((X.T @ a) ** 2) + np.sum(cap * np.maximum(0, 1 - sign * values))
    assert told.primal == pytest.approx(primal, rel=1e-8)


def test_smo_of_two_groups_reads_only_their_columns():
    X, label = clusters(90, 3, seed=3)
    order = np.argsort(label, kind="stable")
    X = X[order]
    store = store_of(X, groups=[0, 30, 60, 90])
    sign = np.repeat([1, -1], 30).astype(np.int32)
    machine = _core.KernelMachine.smo(store, [0, 2], sign, np.full(60, 2.0), 0)
    told = run(machine, tol=1e-6)
    both = np.concatenate([X[:30], X[60:]])
    assert told.primal == pytest.approx(optimum_with_bias(both, sign, np.full(60, 2.0)), rel=1e-5)
    assert store.counts()[2] <= 60 * 60


@pytest.mark.parametrize(("machines", "rows"), [(1, 20), (4, 5), (6, 3)])
def test_working_sets_of_machines_at_once_share_the_budget(machines, rows):
    X, label = clusters(90, 3, seed=3)
    store = store_of(X, budget=40 * 90 * 8)
    store.share(machines)
    cap = np.ones(90)
    block = _core.KernelMachine.block(store, [0], "crammer_singer", 3, label.astype(np.int32), cap, 0, True, 0)
    told = [block.advance() for _ in range(4)]
    assert max(round.visited for round in told if round.complete) == rows
    with pytest.raises(ValueError, match="at least one machine"):
        store.share(0)


@pytest.mark.parametrize("sign", [1, -1])
def test_smo_of_one_class_is_a_bias(sign):
    machine = smo(np.eye(4), np.full(4, sign), np.ones(4))
    told = run(machine)
    assert told.primal == 0 and told.bias == sign and not machine.duals().any()


def test_smo_with_identical_rows_of_both_classes():
    sign = np.array([1, -1] * 5)
    told = run(smo(np.ones((10, 2)), sign, np.ones(10)), tol=1e-6)
    assert told.primal == pytest.approx(10.0, rel=1e-5)  # nothing separates: every row costs 1


BAD = {
    "labels": dict(label=np.zeros(9, dtype=np.int32)),
    "caps": dict(cap=np.zeros(10)),
    "lane": dict(label=np.full(10, 3, dtype=np.int32)),
    "finite": dict(cap=np.full(10, np.inf)),
    "group": dict(groups=[1]),
    "one or two groups": dict(groups=[]),
    "formulation": dict(formulation="ranking"),
    "at least two lanes": dict(lanes=1, label=np.zeros(10, dtype=np.int32)),
}


@pytest.mark.parametrize("message", BAD)
def test_what_a_machine_refuses(message):
    good = dict(
        store=store_of(np.eye(10)),
        groups=[0],
        formulation="crammer_singer",
        lanes=3,
        label=np.zeros(10, dtype=np.int32),
        cap=np.ones(10),
        working_set=0,
        shrinking=True,
        seed=0,
    )
    with pytest.raises(ValueError, match=message):
        _core.KernelMachine.block(**(good | BAD[message]))


def test_smo_refuses_other_signs():
    with pytest.raises(ValueError, match="1 or -1"):
        smo(np.eye(3), np.array([1, 0, -1]), np.ones(3))


def test_duals_must_have_the_machines_shape():
    machine = smo(np.eye(3), np.array([1, 1, -1]), np.ones(3))
    with pytest.raises(ValueError, match="examples x lanes"):
        machine.set_duals(np.zeros((2, 1)))
    with pytest.raises(IndexError):
        machine.scores(np.array([3]))
