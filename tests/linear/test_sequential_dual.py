"""The decisions of the sequential dual method between two calls of the core, with a core that answers as it is told."""

from math import inf, nan
from types import SimpleNamespace

import numpy as np
import pytest

from multimargin.linear.algorithm import Certificate, Settings
from multimargin.linear.machine import BUDGET
from multimargin.linear.sdm import AcceleratedSequentialDual, OtherSteps, SequentialDual

OPTIONS = {"permutation": True, "restricted_step": True}


class FakeWeights:
    def __init__(self, single_precision):
        self.single_precision, self.kappa = single_precision, 0.0

    def set_kappa(self, kappa):
        self.kappa = kappa

    def averaged(self, out):
        out.append("averaged")


class FakeMachine:
    """Answers ``answers``, one a call, has the certified gaps ``gaps``, and notes what it was asked for."""

    def __init__(self, n=10, *, separable=False, squared=False, gaps=(), answers=(), **examples):
        told = {"norm_range": (1.0, 1.0), "first_certificate": 25.0, "strength": 1.0, "mean_curvature": 4.0}
        self.examples = SimpleNamespace(n=n, **{"estimates_gaps_high": True} | told | examples)
        self.problem = SimpleNamespace(separable=separable, squared=squared)
        self.epochs, self.passes, self.blocks = 0.0, self, ["the block"]
        self.gaps, self.answers, self.asked = list(gaps), list(answers), {}
        self.rebuilt, self.certified = [], 0

    def trained_weights(self, single_precision):
        return FakeWeights(single_precision)

    def rebuild(self, weights):
        self.rebuilt.append(weights)

    def certify(self):
        self.certified += 1
        gap = self.gaps.pop(0)
        return Certificate(None, 2.0, 2.0 - 2.0 * gap, gap)

    def run(self, weights, **asked):
        self.asked = asked
        return self.answers.pop(0)


def a_pass(estimate=nan, visited=10, violation=0.5):
    return SimpleNamespace(violation=violation, visited=visited, worst_gap=estimate)


def started(machine, *, kind=SequentialDual, warm=False, options=OPTIONS, **settings):
    algorithm = kind(Settings(**{"tol": 1e-3, "options": options} | settings))
    algorithm.start(machine, warm=warm)
    return algorithm


@pytest.mark.parametrize(
    ("kind", "settings", "machine", "below"),
    [
        (SequentialDual, {}, {}, 1.3e-3),
        (SequentialDual, {}, {"squared": True}, 4e-3),
        (AcceleratedSequentialDual, {}, {}, 1.6e-3),
        (AcceleratedSequentialDual, {}, {"separable": True}, 1.3e-3),
        (AcceleratedSequentialDual, {}, {"squared": True}, 4e-3),
        (SequentialDual, {}, {"estimates_gaps_high": False}, 1e-3),
        (SequentialDual, {"stopping": "violation"}, {"estimates_gaps_high": False}, -inf),
    ],
)
def test_the_estimate_that_is_worth_a_certificate(kind, settings, machine, below):
    assert started(FakeMachine(**machine), kind=kind, **settings).certify_below == pytest.approx(below, rel=1e-12)


@pytest.mark.parametrize(
    ("settings", "norms", "single"),
    [
        ({}, (1.0, 1.0), True),
        ({"tol": 1e-5}, (1.0, 1.0), True),
        ({"tol": 0.99e-5}, (1.0, 1.0), False),
        ({"stopping": "violation"}, (1.0, 1.0), False),
        ({}, (1.1e-10, 0.9e10), True),
        ({}, (1e-10, 1.0), False),
        ({}, (1.0, 1e10), False),
    ],
)
def test_float32_where_it_can_see_what_is_asked_for(settings, norms, single):
    assert started(FakeMachine(norm_range=norms), **settings).weights.single_precision is single


@pytest.mark.parametrize(
    ("kind", "settings", "machine", "tolerance"),
    [
        (SequentialDual, {}, {}, 1.0),
        (SequentialDual, {"cooling": False}, {}, 1e-3),
        (SequentialDual, {"tol": 2.0, "stopping": "violation"}, {}, 2.0),
        (SequentialDual, {"tol": 2.0}, {}, 1.0),
        (SequentialDual, {}, {"separable": True}, 1.0),
        (AcceleratedSequentialDual, {}, {}, 1.0),
        (AcceleratedSequentialDual, {}, {"separable": True}, 0.01),
        (AcceleratedSequentialDual, {"cooling": False}, {"separable": True}, 1e-3),
        (AcceleratedSequentialDual, {"stopping": "violation"}, {"separable": True}, 1.0),
    ],
)
def test_the_first_tolerance(kind, settings, machine, tolerance):
    assert started(FakeMachine(**machine), kind=kind, **settings).tolerance == tolerance


def test_the_beginning():
    machine = FakeMachine(first_certificate=4.0)
    plain = started(machine, warm=True)
    assert machine.rebuilt == [plain.weights] and plain.weights.kappa == 0
    assert plain.certified_at == 4.0 - 25.0 and not plain.done and not plain.converged
    machine = FakeMachine(strength=0.5, mean_curvature=9.0)
    assert started(machine, kind=AcceleratedSequentialDual).weights.kappa == pytest.approx(0.6 * 0.5 * 3.0)
    assert not machine.rebuilt
    assert started(FakeMachine(n=0), kind=AcceleratedSequentialDual).weights.kappa == 0


def test_no_examples_are_certified_at_once():
    machine = FakeMachine(n=0, gaps=[0.0])
    algorithm = started(machine)
    assert algorithm.advance(machine, 5.0) == []
    assert algorithm.done and algorithm.converged and machine.certified == 1


@pytest.mark.parametrize(
    ("kappa", "shrinking", "rest_share", "effort"),
    [(0.0, True, 0.0, 5.0), (0.0, False, 0.0, 5.0), (0.5, True, 1.0, 0.5), (0.5, False, 0.0, 0.5)],
)
@pytest.mark.parametrize("permutation", [True, False])
def test_what_the_core_is_asked_for(kappa, shrinking, rest_share, effort, permutation):
    machine = FakeMachine(answers=[("epochs", [])] * 2)
    algorithm = started(machine, shrinking=shrinking, options=OPTIONS | {"permutation": permutation})
    algorithm.weights.kappa = kappa
    algorithm.advance(machine, 7.0)
    assert machine.asked == {
        "tolerance": 1.0, "certify_below": pytest.approx(1.3e-3), "budget": BUDGET, "max_epochs": 7.0,
        "shrinking": shrinking, "permute": permutation, "rest_share": rest_share, "shrunk_effort": effort,
    }  # fmt: skip
    algorithm.advance(machine, 1000.0)
    assert machine.asked["max_epochs"] == 25.0


@pytest.mark.parametrize(
    ("stopped", "before", "certified"),
    [
        ("budget", 24.0, True),
        ("epochs", 24.0, True),
        ("epochs", 23.9, False),
        ("certify", 0.0, True),
    ],
)
def test_when_a_certificate_is_made(stopped, before, certified):
    """The machine has had ``before`` epochs; the last of two passes is a half, so that there are 1.5 more."""
    machine = FakeMachine(gaps=[1e-3], answers=[(stopped, [a_pass(0.3), a_pass(0.2, visited=5)])])
    algorithm = started(machine)
    machine.epochs = before - 0.5
    records = algorithm.advance(machine, 100.0)
    assert machine.certified == certified
    assert algorithm.done == algorithm.converged == certified
    assert [(record.violation, record.active_rows, record.solver) for record in records] == [
        (0.5, 10, "sdm"),
        (0.5, 5, "sdm"),
    ]
    assert [record.estimate for record in records] == [0.3, 0.2]
    assert np.isnan(records[0].gap) and np.isnan(records[1].gap) == (not certified)
    if certified:
        assert records[1][3:6] == pytest.approx((2.0, 2.0 - 2e-3, 1e-3))
    assert algorithm.certified_at == (before + 1.0 if certified else 0.0)


def test_a_certificate_of_time_does_not_stop_by_violation_nor_above_tol():
    for settings, gap in (({"stopping": "violation"}, 0.0), ({}, 1.1e-3)):
        machine = FakeMachine(gaps=[gap], answers=[("budget", [a_pass()])])
        machine.epochs = 30.0
        algorithm = started(machine, **settings)
        algorithm.advance(machine, 100.0)
        assert machine.certified == 1 and not algorithm.converged and not algorithm.done
        assert algorithm.failed_certificates == 0


def test_a_slice_without_a_pass_is_not_certified():
    machine = FakeMachine(answers=[("budget", [])])
    machine.epochs = 100.0
    assert started(machine).advance(machine, 100.0) == []
    assert machine.certified == 0


def test_failed_certificates_wait_for_better_estimates_then_for_float64():
    machine = FakeMachine(gaps=[2e-3, 4e-3, 4e-3], answers=[("certify", [a_pass(e)]) for e in (1.2e-3, 1e-5, 1e-3)])
    algorithm = started(machine, kind=AcceleratedSequentialDual)
    algorithm.weights.kappa = 0.25
    kappa, first = algorithm.weights.kappa, algorithm.weights
    algorithm.advance(machine, 100.0)  # the gap was 1 / 0.6 of the estimate
    assert algorithm.failed_certificates == 1 and not algorithm.done
    assert algorithm.certify_below == pytest.approx(0.95 * 0.6e-3)
    assert algorithm.weights is first
    algorithm.advance(machine, 100.0)
    assert algorithm.failed_certificates == 2
    assert not algorithm.weights.single_precision and algorithm.weights.kappa == kappa
    assert machine.rebuilt == [algorithm.weights]
    assert algorithm.certify_below == pytest.approx(1.6e-3)  # a new beginning
    algorithm.advance(machine, 100.0)
    assert algorithm.failed_certificates == 3 and len(machine.rebuilt) == 1
    assert algorithm.certify_below == pytest.approx(0.95 * 1e-3 / 4)


@pytest.mark.parametrize(
    ("before", "estimate", "certified", "below"),
    [
        (1e-3, 1e-3, 2e-3, 0.95 * 0.5e-3),
        (1e-4, 1e-3, 2e-3, 0.95 * 1e-4),  # never above what it was
        (1e-3, 0.0, 2e-3, 0.95 * 0.05e-3),  # an estimate of nothing counts as a tenth of tol
        (1e-3, -5.0, 2e-3, 0.95 * 0.05e-3),
    ],
)
def test_how_far_an_estimate_was_off(before, estimate, certified, below):
    machine = FakeMachine()
    algorithm = started(machine)
    algorithm.certify_below = before
    algorithm._certificate_failed(machine, estimate, certified)
    assert algorithm.certify_below == pytest.approx(below, rel=1e-12)
    assert algorithm.failed_certificates == 1 and algorithm.weights.single_precision


@pytest.mark.parametrize(
    # The tolerance that was met, tol, the estimate; whether that is certified, the next tolerance, float32 or float64.
    ("tolerance", "tol", "estimate", "certified", "after", "single"),
    [
        (1.0, 1e-3, 1.0, False, 0.1, True),
        (1.0, 1e-3, 2e-3, True, 0.1, True),
        (1.0, 1e-3, 2.01e-3, False, 0.1, True),
        (1.1e-4, 1e-3, 1.0, False, 1.1e-5, True),
        (0.9e-4, 1e-3, 1.0, False, 0.9e-5, False),
    ],
)
def test_a_tolerance_that_is_met_falls(tolerance, tol, estimate, certified, after, single):
    machine = FakeMachine(gaps=[0.5 * tol], answers=[("tolerance", [a_pass(estimate)])])
    algorithm = started(machine, tol=tol)
    algorithm.tolerance = tolerance
    algorithm.advance(machine, 100.0)
    assert machine.certified == certified
    assert algorithm.done == algorithm.converged == certified
    assert algorithm.tolerance == pytest.approx(after)
    assert algorithm.weights.single_precision is single and len(machine.rebuilt) == (not single)


def test_a_certificate_that_fails_after_a_tolerance_goes_on():
    machine = FakeMachine(gaps=[1.1e-3], answers=[("tolerance", [a_pass(1e-3)])])
    algorithm = started(machine)
    algorithm.advance(machine, 100.0)
    assert machine.certified == 1 and not algorithm.converged and not algorithm.done


def test_where_float64_ends():
    """The problem itself is the next thing after that which is held back; then there is nothing to gain."""
    machine = FakeMachine(gaps=[0.5], answers=[("tolerance", [a_pass(1.0)])] * 2, mean_curvature=0.01)
    algorithm = started(machine, kind=AcceleratedSequentialDual, tol=1e-6)
    algorithm.tolerance = 0.9e-12
    algorithm.advance(machine, 100.0)
    assert algorithm.weights.kappa == 0 and algorithm.tolerance == 1e-5
    assert not algorithm.done and machine.certified == 0
    algorithm.tolerance = 0.9e-12
    algorithm.advance(machine, 100.0)
    assert algorithm.done and not algorithm.converged and machine.certified == 1


def test_just_above_the_end_of_float64():
    machine = FakeMachine(answers=[("tolerance", [a_pass(1.0)])])
    algorithm = started(machine, kind=AcceleratedSequentialDual, tol=1e-6)
    algorithm.tolerance = 1.1e-12
    algorithm.advance(machine, 100.0)
    assert algorithm.weights.kappa > 0 and not algorithm.done and machine.certified == 0


def test_violations_are_the_papers():
    """Of W = V, so that an acceleration ends first; the tolerance ends with tol."""
    answers = [("tolerance", [a_pass(5.0)])] * 3
    machine = FakeMachine(gaps=[0.5], answers=answers, mean_curvature=0.01)
    algorithm = started(machine, kind=AcceleratedSequentialDual, tol=0.5, stopping="violation")
    algorithm.advance(machine, 100.0)
    assert algorithm.tolerance == 0.5 and 0 < algorithm.weights.kappa < 1 and machine.certified == 0
    algorithm.advance(machine, 100.0)
    assert algorithm.weights.kappa == 0 and machine.certified == 0 and not algorithm.done
    (record,) = algorithm.advance(machine, 100.0)
    assert algorithm.done and algorithm.converged and machine.certified == 1 and record.gap == 0.5


def test_the_mean_is_certified_where_weights_are_accelerated():
    for kind, averaged in ((SequentialDual, []), (AcceleratedSequentialDual, ["averaged"])):
        out = []
        assert started(FakeMachine(), kind=kind).candidate(out) is bool(averaged)
        assert out == averaged


class Noting(OtherSteps):
    name = "noting"

    def __init__(self, settings):
        super().__init__(settings)
        self.used = []

    def use_steps(self, block, *, warm):
        self.used.append((block, warm))


@pytest.mark.parametrize(("gap", "done"), [(1e-3, True), (1.1e-3, False)])
def test_other_steps_look_at_what_they_start_from(gap, done):
    machine = FakeMachine(gaps=[gap], answers=[("epochs", [a_pass()])])
    algorithm = started(machine, kind=Noting, warm=True, shrinking=True, options={"permutation": False})
    assert algorithm.used == [] and algorithm.unseen_start is True
    assert algorithm.advance(machine, 5.0) == []
    assert machine.certified == 1 and algorithm.done == algorithm.converged == done
    assert algorithm.used == ([] if done else [("the block", True)])
    if not done:
        assert len(algorithm.advance(machine, 5.0)) == 1
        assert machine.asked["shrinking"] is False and machine.asked["permute"] is True
        assert machine.asked["tolerance"] == 0.0 and not algorithm.lists


def test_other_steps_from_nothing_begin_at_once():
    machine = FakeMachine(answers=[("epochs", [a_pass()])])
    algorithm = started(machine, kind=Noting)
    assert algorithm.used == [("the block", False)] and algorithm.unseen_start is False
    assert len(algorithm.advance(machine, 5.0)) == 1 and machine.certified == 0
    assert algorithm.more_state() == {}


@pytest.mark.parametrize("unseen", [True, False])
def test_other_steps_that_were_begun_are_told_to_the_block(unseen):
    machine = FakeMachine()
    algorithm = started(machine, kind=Noting, warm=True)
    algorithm.unseen_start = unseen
    algorithm.set_more_state(machine, {})
    assert algorithm.used == ([] if unseen else [("the block", False)])
