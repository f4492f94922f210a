"""The papers' algorithms reach the optimum of a quadratic program, whichever way they are put together."""

from itertools import product

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from multimargin import KernelSVM, _core
from tests.kernel.problems import clusters, feasible, problem_of, run, store_of
from tests.oracles import Problem, optimum

SELECTIONS = ("cyclic", "random", "kkt", "amg", "bmg")
THRESHOLDS = ("exponential", "linear", "logarithmic", "max", "mean")
STEPS = ("exact", "fixed_point", "smo", "basic_smo")
DEFAULTS = dict(
    selection="kkt",
    threshold="mean",
    step="exact",
    threshold_factor=0.5,
    shrinking=True,
    cooling=True,
    tol=1e-9,
    working_set=0,
    seed=0,
)


def decomposition(problem, store, **options):
    label = problem.label.astype(np.int32)
    return _core.KernelMachine.decomposition(
        store, problem.policy, problem.lanes, label, problem.cap, **(DEFAULTS | options)
    )


@pytest.mark.parametrize(("selection", "threshold", "step"), list(product(SELECTIONS, THRESHOLDS, STEPS)))
def test_every_combination_reaches_the_optimum(selection, threshold, step):
    problem = problem_of("crammer_singer", n=30, k=4)
    machine = decomposition(problem, store_of(problem.X), selection=selection, threshold=threshold, step=step)
    told = run(machine, tol=1e-4)
    assert told.primal == pytest.approx(optimum(problem)[0], rel=2e-4)
    assert feasible(problem, machine.duals())
    W = machine.duals().T @ problem.X
    np.testing.assert_allclose(machine.scores(np.arange(30)), problem.X @ W.T, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("options", [{"shrinking": False}, {"cooling": False}, {"threshold_factor": 1.0}])
@pytest.mark.parametrize("threshold", ["exponential", "max"])
def test_switches_do_not_change_the_optimum(threshold, options):
    problem = problem_of("crammer_singer", n=40, k=3, seed=1)
    told = run(decomposition(problem, store_of(problem.X), threshold=threshold, **options), tol=1e-5)
    assert told.primal == pytest.approx(optimum(problem)[0], rel=2e-5)


@pytest.mark.parametrize("shrinking", [True, False])
@pytest.mark.parametrize("working_set", [0, 2, 6, 25])
def test_weston_watkins_in_boxes_is_the_quadratic_program(working_set, shrinking):
    problem = problem_of("weston_watkins", n=40, k=4, seed=2)
    machine = decomposition(problem, store_of(problem.X), working_set=working_set, shrinking=shrinking)
    told = run(machine, tol=1e-6)
    assert told.primal == pytest.approx(optimum(problem)[0], rel=1e-5)
    assert feasible(problem, machine.duals())


@pytest.mark.parametrize("policy", ["crammer_singer", "weston_watkins"])
@pytest.mark.parametrize("C", [1e-5, 1e3])
def test_duplicates_contradictions_and_caps(policy, C):
    X, label = clusters(20, 3, seed=5)
    X = np.concatenate([X, X[:8]])
    label = np.concatenate([label, (label[:8] + 1) % 3])
    problem = Problem(policy, False, 3, X, label, np.full(len(X), C))
    told = run(decomposition(problem, store_of(X)), tol=1e-4, most=100000)
    assert told.primal == pytest.approx(optimum(problem)[0], rel=2e-4)


@pytest.mark.parametrize("policy", ["crammer_singer", "weston_watkins"])
def test_a_small_store_costs_evaluations_and_nothing_else(policy):
    problem = problem_of(policy, n=60, k=3)
    large, small = store_of(problem.X), store_of(problem.X, budget=5 * 60 * 8)
    ends = [run(decomposition(problem, store), tol=1e-5).primal for store in (large, small)]
    assert ends[0] == pytest.approx(ends[1], rel=2e-5)  # certificates come at other moments
    assert small.counts()[2] > large.counts()[2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("policy", "threshold"), [("weston_watkins", "mean"), ("crammer_singer", "mean"), ("crammer_singer", "linear")]
)
def test_every_instruction_set_takes_the_same_steps(policy, threshold, dtype):
    problem = problem_of(policy, n=205, k=5, seed=3)
    in_use, found = _core.instruction_set(), {}
    try:
        for name in _core.instruction_sets():
            _core.use_instruction_set(name)
            machine = decomposition(problem, store_of(problem.X, "rbf", 0.5, dtype, bias=1.0), threshold=threshold)
            run(machine, tol=1e-4)
            found[name] = machine.duals().tobytes()
    finally:
        _core.use_instruction_set(in_use)
    assert len(set(found.values())) == 1


@pytest.mark.parametrize(
    ("name", "value"), [("selection", "best"), ("threshold", "median"), ("step", "newton"), ("threshold_factor", 2.0)]
)
def test_unknown_names_are_refused(name, value):
    problem = problem_of("crammer_singer")
    with pytest.raises(ValueError, match=name):
        decomposition(problem, store_of(problem.X), **{name: value})


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag"])
def test_block_and_decomposition_solve_the_same_problem(formulation, fit_intercept):
    X, y = clusters(90, 3, seed=8)
    tight = dict(C=3.0, gamma=0.3, tol=1e-6, max_iter=100000, fit_intercept=fit_intercept)
    block = KernelSVM(formulation, **tight).fit(X, y)
    papers = KernelSVM(formulation, solver="decomposition", **tight).fit(X, y)
    assert block.converged_ and papers.converged_
    assert papers.primal_objective_ == pytest.approx(block.primal_objective_, rel=3e-6)
    assert set(papers.history_["solver"]) == {"decomposition"}


def test_duals_that_rounding_moves_back_and_forth_use_up_epochs():
    X = np.array([[9999.26753453], [9998.9519928], [10000.87465709], [9999.30239434], [9999.54291019]])
    model = KernelSVM("one_vs_one", "linear", 100.0, solver="decomposition", max_iter=100, time_limit=60)
    with pytest.warns(ConvergenceWarning, match="max_iter=100"):
        model.fit(X, [0, 1, 0, 1, 1])
    assert model.n_iter_ == 100
