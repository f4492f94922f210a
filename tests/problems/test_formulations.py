"""What each formulation is to the core."""

import numpy as np
import pytest

from multimargin.problems.formulations import FORMULATIONS, PAIRWISE, formulation
from tests.oracles import Problem, losses, optimum

JOINT = ("crammer_singer", "weston_watkins")


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("n_classes", [3, 10])
def test_many_classes(loss, n_classes):
    for name in (*JOINT, "one_vs_rest"):
        problem = formulation(name, loss, n_classes)
        assert (problem.policy, problem.lanes, problem.squared) == (name, n_classes, loss == "squared_hinge")
        assert (problem.cap_scale, problem.objective_scale) == (1, 1)
        assert problem.separable == (name == "one_vs_rest")
        assert problem.n_parts == (n_classes if name == "one_vs_rest" else 1)
        np.testing.assert_array_equal(problem.lane_labels(np.array([2, 0, 1])), [2, 0, 1])
        assert problem.lane_labels(np.array([2, 0, 1])).dtype == np.int32


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_two_classes_and_pairs_are_one_lane(loss):
    one_lane = [formulation(name, loss, 2) for name in FORMULATIONS] + [formulation(name, loss, 7) for name in PAIRWISE]
    for problem in one_lane:
        assert (problem.policy, problem.lanes, problem.n_parts) == ("one_vs_rest", 1, 1)
        assert problem.squared == (loss == "squared_hinge")
        np.testing.assert_array_equal(problem.lane_labels(np.array([1, 0, 1])), [0, -1, 0])
    for name in FORMULATIONS:
        problem = formulation(name, loss, 2)
        assert (problem.cap_scale, problem.objective_scale) == ((2, 0.5) if name in JOINT else (1, 1))


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("name", FORMULATIONS)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_loss_of_a_row_of_zeros(name, squared, n_classes):
    core = formulation(name, "squared_hinge" if squared else "hinge", n_classes)
    label = core.lane_labels(np.array([1]))
    problem = Problem(core.policy, squared, core.lanes, np.zeros((1, 2)), label, np.array([3.0]))
    at_zero = losses(problem, np.zeros((core.lanes, 2))).sum()
    assert 3.0 * core.loss_of_zero_row == at_zero


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("name", JOINT)
def test_two_classes_solve_the_same_problem_by_one_lane(name, squared):
    """The joint problem with two lanes has the optimum of the binary one at its cap and objective scales."""
    rng = np.random.default_rng(0)
    X, y, cap = rng.normal(size=(20, 3)), np.arange(20) % 2, rng.uniform(0.1, 1, size=20)
    core = formulation(name, "squared_hinge" if squared else "hinge", 2)
    joint, W = optimum(Problem(name, squared, 2, X, y, cap))
    binary, w = optimum(Problem(core.policy, squared, 1, X, core.lane_labels(y), core.cap_scale * cap))
    assert core.objective_scale * binary == pytest.approx(joint, rel=1e-7)
    np.testing.assert_allclose(W[1] - W[0], w[0], atol=1e-4)
