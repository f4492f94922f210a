"""Duals that a certificate may be built on: every bound from both sides, of all formulations."""

import numpy as np
import pytest

from multimargin.problems.formulations import Formulation, check_feasible
from multimargin.problems.range import check_reach

# One example of class 1 with a cap of 2; the second, of class 0 with a cap of 4, has no duals.
LABEL, CAP = np.array([1, 0], np.int32), np.array([2.0, 4.0])
NEARLY, TOO_MUCH = 0.9e-8, 1.2e-8  # relative


def check(problem, duals, example=0, label=LABEL):
    lane = np.flatnonzero(duals)
    value = np.asarray(duals, float)[lane]
    check_feasible(problem, label, CAP, np.full(len(lane), example), lane, value)


def refused(problem, duals, words, **more):
    with pytest.raises(ValueError, match=words):
        check(problem, duals, **more)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("policy", ["crammer_singer", "weston_watkins", "one_vs_rest"])
def test_no_duals_and_few(policy, squared):
    problem = Formulation(policy, squared, 3)
    check(problem, [0, 0, 0])
    check(problem, [-1, 1, 0])
    check(problem, [1, -1, 0], example=1)
    refused(problem, [-1, 1, 0], "outside of their bounds", example=1)


def test_crammer_singer():
    problem = Formulation("crammer_singer", False, 3)
    for duals in ([-2, 2, 0], [-1, 2, -1], [-2 * (1 + NEARLY), 2 * (1 + NEARLY), 0]):
        check(problem, duals)
    refused(problem, [-2 * (1 + TOO_MUCH), 2 * (1 + TOO_MUCH), 0], "outside of their bounds")
    refused(problem, [1, -1, 0], "outside of their bounds")
    refused(problem, [2 * TOO_MUCH, 1, -1], "outside of their bounds")
    check(problem, [2 * NEARLY, 1, -1])
    refused(problem, [-1, 1.5, 0], "do not sum to zero")
    refused(problem, [-1, np.nan, 0], "outside of their bounds")
    check(Formulation("crammer_singer", True, 3), [-50, 99, -49])  # the squared hinge has no caps
    refused(Formulation("crammer_singer", True, 3), [50, -99, 49], "outside of their bounds")


def test_weston_watkins():
    problem = Formulation("weston_watkins", False, 3)
    for duals in ([-2, 4, -2], [-2, 2, 0], [-2 * (1 + NEARLY), 2 * (1 + NEARLY), 0]):
        check(problem, duals)
    refused(problem, [-2 * (1 + TOO_MUCH), 2 * (1 + TOO_MUCH), 0], "outside of their bounds")
    refused(problem, [-3, 3, 0], "outside of their bounds")
    refused(problem, [1, 1, -2], "outside of their bounds")
    check(problem, [2 * NEARLY, 2, -2])
    refused(problem, [-2, 3, -2], "do not sum to zero")
    check(Formulation("weston_watkins", True, 3), [-50, 99, -49])
    refused(Formulation("weston_watkins", True, 3), [50, -99, 49], "outside of their bounds")


def test_one_vs_rest():
    problem = Formulation("one_vs_rest", False, 3)
    for duals in ([-2, 2, -2], [0, 2, 0], [-2, 0, 0], [0, 2 * (1 + NEARLY), 0], [2 * NEARLY, -2 * NEARLY, 0]):
        check(problem, duals)
    for duals in ([0, 2 * (1 + TOO_MUCH), 0], [-2 * (1 + TOO_MUCH), 0, 0], [1, 0, 0], [0, -1, 0], [2 * TOO_MUCH, 0, 0]):
        refused(problem, duals, "outside of their bounds")
    check(Formulation("one_vs_rest", True, 3), [-50, 99, 0])
    refused(Formulation("one_vs_rest", True, 3), [50, 0, 0], "outside of their bounds")


def test_a_binary_machine():
    """Class 0 has no lane: its duals are negative."""
    problem, label = Formulation("one_vs_rest", False, 1), np.array([0, -1], np.int32)
    check(problem, [2.0], label=label)
    check(problem, [-4.0], example=1, label=label)
    refused(problem, [-1.0], "outside of their bounds", label=label)
    refused(problem, [1.0], "outside of their bounds", example=1, label=label)


def test_how_exactly_sums_are_zero():
    problem = Formulation("crammer_singer", True, 3)
    size = 200.0
    check(problem, [-100, 100 + size * 0.9e-8, 0])
    refused(problem, [-100, 100 + size * 1.2e-8, 0], "do not sum to zero")
    check(problem, [-1e-9, 1.9e-8, 0])  # beside a cap of 2 it is nothing
    refused(problem, [-1e-9, 2.2e-8, 0], "do not sum to zero")
    lanes, values = np.array([0, 1, 0, 2]), np.array([-1.0, 1.0, 2.0, -1.0])
    with pytest.raises(ValueError, match="do not sum to zero"):  # of the second example, not of all together
        check_feasible(problem, LABEL, CAP, np.array([0, 0, 1, 1]), lanes, values)


@pytest.mark.parametrize(
    ("total", "largest", "words"),
    [
        (1e150, 1.0, ""),
        (1.01e150, 1.0, "may reach 1e\\+150, and float64 has room for 1e\\+150 only"),
        (1.0, 1e300, ""),
        (2.0, 1e300, "scale the features down, or lower C or the weights, whose largest product is 0.5"),
        (np.inf, 1.0, "may reach inf"),
        (1.0, np.inf, "may reach inf"),
        (1.0, np.nan, "may reach"),
        (1.0, 1e-240, ""),
        (1.0, 0.99e-240, "too small a number to learn from in float64: scale the features up"),
    ],
)
def test_what_float64_has_room_for(total, largest, words):
    if words:
        with pytest.raises(ValueError, match=words):
            check_reach(total, 0.5, largest)
    else:
        check_reach(total, 0.5, largest)
