"""What a machine makes of losses and duals: certificate, slices and counts, with blocks that say as they are told."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin import _core
from multimargin.linear import machine as machine_module
from multimargin.linear import rounding
from multimargin.linear.algorithm import Certificate, PassRecord
from multimargin.linear.interrupts import Cancelled
from multimargin.linear.machine import Machine, NotFinite
from multimargin.problems.formulations import Formulation

JOINT = Formulation("crammer_singer", False, 3)
LANES = Formulation("one_vs_rest", False, 2)


@pytest.fixture(autouse=True)
def exact_numbers(monkeypatch):
    """What rounding may hide is no part of these sums; tests/linear/test_rounding.py is about it."""
    monkeypatch.setattr(rounding, "_UNIT", 0.0)


class FakeBlock:
    """Of four examples. V is ones; losses at the scales of W, and minus the linear term of the dual, are given."""

    n_examples, cost_of_pass = 4, 8.0

    def __init__(self, losses, dual, lanes):
        self.losses, self.dual, self.lanes = np.asarray(losses, float), np.asarray(dual, float), lanes
        self.given = None

    def accumulate(self, weights, begin, end):
        weights.array[:, : self.lanes] += (end - begin) / 4

    def evaluate(self, weights, begin, end, scale_step, rounding):
        self.seen = weights.array[:, : self.lanes].copy()
        return self.losses * (end - begin) / 4, self.dual * (end - begin) / 4

    def duals(self):
        return np.array([1.0, -1.0, 0.5]), np.array([0, 1, 2], np.int32), np.array([0, 2, 2, 3, 3])

    def set_duals(self, *given):
        self.given = given


class FakePasses:
    step = 0.0

    def scale_step(self, weights):
        return self.step


class FakeExamples:
    n, n_weights, n_blocks, constant, hands_out_duals = 4, 2, 1, 0.0, True
    directions, norm_range = None, (1.0, 1.0)
    row = np.array([10, 20, 30, 40])

    def __init__(self, blocks):
        self.blocks, self.overruled, self.completed = blocks, False, 0

    def schedule(self, problem, lists, seed):
        self.asked = lists, seed
        return self.blocks, FakePasses()

    def candidate(self, passes, out):
        return self.overruled

    def complete(self, weights):
        self.completed += 1

    def total(self, sums):
        sums *= self.times

    times = 1.0

    def cost_of_pass(self, blocks):
        return sum(block.cost_of_pass for block in blocks)


def machine(problem, losses, dual, *, candidate=None, n_blocks=1, **algorithm):
    """Whose algorithm has W full of ``candidate``, or None: V."""

    def write(out):
        if candidate is not None:
            out.array[:, : problem.lanes] = candidate
        return candidate is not None

    given = {"lists": True, "stopping": "gap", "tol": 0.1, "done": False, "converged": False, "weights": None}
    blocks = [FakeBlock(losses, dual, problem.lanes) for _ in range(n_blocks)]
    made = SimpleNamespace(candidate=write, **given | algorithm)
    return Machine(problem, FakeExamples(blocks), made, seed=5)


def losses(*values):
    """At every scale of W; a column a part."""
    return np.tile(np.array(values, float), (4, 1))


def test_the_certificate_of_v():
    """||V||^2 = 6 in three lanes of two weights: primal 3 + 9, dual 7 - 3."""
    one = machine(JOINT, losses(9.0), [-7.0])
    made = one.certify()
    assert (made.primal, made.dual) == (12.0, 4.0)
    assert made.worst_gap == made.gap == pytest.approx(8 / 12)
    assert made is one.certificate and made.duals is None and one.examples.completed == 1
    np.testing.assert_array_equal(made.weights.array[:, :3], 1.0)


def test_constants_and_scales_and_sums_over_all():
    one = machine(Formulation("one_vs_rest", False, 1, 2.0, 0.5), losses(9.0), [-7.0])
    one.examples.constant, one.examples.times = 4.0, 2.0
    made = one.certify()  # ||V||^2 = 2
    assert (made.primal, made.dual) == (0.5 * (1 + 18 + 4), 0.5 * (14 - 1 + 4))


def test_blocks_add_up():
    made = machine(JOINT, losses(9.0), [-9.0], n_blocks=2).certify()  # V is twos
    assert (made.primal, made.dual) == (12.0 + 18.0, 18.0 - 12.0)


def test_lanes_are_certified_one_by_one():
    one = machine(LANES, losses(9.0, 1.0), [-7.0, -1.5])
    one.examples.constant = 2.0  # a half is a lane's share
    made = one.certify()
    assert (made.primal, made.dual) == (1 + 9 + 1 + 1 + 2.0, 6 + 0.5 + 2.0)
    assert made.worst_gap == pytest.approx((3 - 1.5) / 3) and made.gap == pytest.approx((14 - 8.5) / 14)


def test_duals_of_zero_are_feasible_too():
    assert machine(JOINT, losses(9.0), [7.0]).certify().dual == 0.0
    made = machine(LANES, losses(9.0, 1.0), [-7.0, 7.0]).certify()
    assert made.dual == 6.0 and made.worst_gap == 1.0


def test_the_candidate_has_the_primal_and_the_duals_stay():
    one = machine(JOINT, losses(9.0), [-7.0], candidate=2.0)
    made = one.certify()
    assert (made.primal, made.dual) == (12.0 + 9.0, 4.0)
    np.testing.assert_array_equal(one.blocks[0].seen, 2.0)
    row, lane, value = made.duals
    assert row.tolist() == [10, 10, 30] and lane.tolist() == [0, 1, 2] and value.tolist() == [1.0, -1.0, 0.5]
    assert one.certified_duals() is made.duals
    one.examples.hands_out_duals = False
    assert one.certify().duals is None
    overruled = machine(JOINT, losses(9.0), [-7.0])
    overruled.examples.overruled = True
    assert overruled.certify().duals is not None


def test_the_best_scale_of_accelerated_weights():
    """1, 1.1, 1.2 and 1.4 times W, each lane by itself."""
    table = np.array([[9.0, 9.0], [8.0, 9.0], [7.0, 9.0], [7.0, 9.0]])
    one = machine(LANES, table, [-7.0, -7.0], candidate=1.0)
    one.passes.step = 0.1
    made = one.certify()
    np.testing.assert_allclose(made.weights.array[:, :2], [[1.2, 1.0]] * 2)
    assert made.primal == pytest.approx((1.44 + 7) + (1 + 9)) and made.dual == 12.0
    joint = machine(JOINT, np.array([[9.0], [1.0], [9.0], [9.0]]), [-1.0], candidate=1.0)
    joint.passes.step = 0.1
    assert joint.certify().primal == pytest.approx(3 * 1.21 + 1)


def test_the_best_seen_certify_together():
    one = machine(JOINT, losses(9.0), [-7.0], candidate=2.0)
    first = one.certify()
    first_weights, first_duals = first.weights, first.duals
    one.blocks[0].losses, one.blocks[0].dual = losses(10.0), np.array([-6.0])  # both worse
    second = one.certify()
    assert second.weights is first_weights and second.duals is first_duals
    assert (second.primal, second.dual) == (21.0, 4.0) and second.worst_gap == second.gap
    one.blocks[0].losses = losses(8.0)  # weights are better, duals are not
    third = one.certify()
    assert (
        third.weights is not first_weights and third.duals is first_duals and (third.primal, third.dual) == (20.0, 4.0)
    )
    one.blocks[0].losses, one.blocks[0].dual = losses(9.0), np.array([-8.0])
    fourth = one.certify()
    assert fourth.weights is third.weights and fourth.duals is not first_duals
    assert (fourth.primal, fourth.dual) == (20.0, 5.0) and fourth.worst_gap == pytest.approx(0.75)


def test_v_is_the_sum_of_the_last_duals_even_if_others_were_better():
    for problem, given, dual in ((JOINT, losses(9.0), [-7.0]), (LANES, losses(9.0, 9.0), [-7.0, -7.0])):
        one = machine(problem, given, dual)
        one.certify()
        one.blocks[0].losses, one.blocks[0].dual = given + 1.0, np.array(dual) + 1.0
        second = one.certify()
        fresh = machine(problem, given + 1.0, np.array(dual) + 1.0).certify()
        assert (second.primal, second.dual, second.worst_gap) == (fresh.primal, fresh.dual, fresh.worst_gap)


def test_of_large_weights_there_is_one_at_a_time(monkeypatch):
    one = machine(JOINT, losses(9.0), [-7.0], candidate=2.0)
    bytes_ = one.certify().weights.array.nbytes
    one.blocks[0].losses = losses(10.0)
    monkeypatch.setattr(machine_module, "_LARGE", bytes_)
    assert one.certify().primal == 21.0
    monkeypatch.setattr(machine_module, "_LARGE", bytes_ - 1)
    assert one.certify().primal == 22.0


@pytest.mark.parametrize(("given", "dual"), [(np.inf, -7.0), (np.nan, -7.0), (9.0, -np.inf), (9.0, np.nan)])
def test_objectives_that_are_no_numbers(given, dual):
    with pytest.raises(NotFinite, match="not a finite number"):
        machine(JOINT, losses(given), [dual]).certify()


@pytest.mark.parametrize(("excess", "fine"), [(0.9e-7, True), (1.1e-7, False)])
def test_a_dual_value_above_the_primal_value_is_a_mistake(excess, fine):
    for one in (
        machine(JOINT, losses(9.0), [-3.0 - 12.0 * (1 + excess)]),
        machine(LANES, losses(9.0, 99.0), [-1.0 - 10.0 * (1 + excess), -1.0 - 100.0 * (1 + excess)]),
    ):
        if fine:
            assert one.certify().worst_gap >= 0
        else:
            with pytest.raises(RuntimeError, match="alpha is not feasible"):
                one.certify()


@pytest.mark.parametrize(
    ("stopping", "tol", "converged"), [("gap", 0.7, True), ("gap", 0.6, False), ("violation", 0.7, False)]
)
def test_a_stop_may_find_that_it_has_converged(stopping, tol, converged):
    one = machine(JOINT, losses(9.0), [-7.0], stopping=stopping, tol=tol)
    assert one.conclude() == (12.0, 4.0, pytest.approx(8 / 12))
    assert one.converged is converged


def test_an_interrupt_takes_no_more_than_a_moment(monkeypatch):
    for budget, certified in ((8.1, True), (8.0, False)):
        monkeypatch.setattr(machine_module, "BUDGET", budget)
        one = machine(JOINT, losses(9.0), [-7.0])
        one.cancelled = True
        one.salvage()
        assert (one.certificate is not None) is certified and one.cancelled is False
    one.certificate = before = Certificate(None, 1.0, 0.0, 1.0)
    monkeypatch.setattr(machine_module, "BUDGET", 8.1)
    one.salvage()
    assert one.certificate is before


@pytest.mark.parametrize(
    ("budget", "cost", "slices"),
    [
        (8.0, 8.0, [(0, 4)]),
        (4.0, 8.0, [(0, 2), (2, 4)]),
        (6.0, 8.0, [(0, 3), (3, 4)]),
        (1e-3, 8.0, [(0, 1), (1, 2), (2, 3), (3, 4)]),
        (1.0, 0.0, [(0, 4)]),
    ],
)
def test_slices_cost_a_budget_each(monkeypatch, budget, cost, slices):
    monkeypatch.setattr(machine_module, "BUDGET", budget)
    one = machine(JOINT, losses(9.0), [-7.0])
    one.blocks[0].cost_of_pass = cost
    assert [(begin, end) for _, begin, end in one.slices()] == slices
    assert one.certify().primal == pytest.approx(12.0)
    one.cancelled = True
    with pytest.raises(Cancelled):
        list(one.slices())


def test_counts():
    one = machine(JOINT, losses(9.0), [-7.0])
    assert one.count(7, PassRecord(0.5, 3, "some")) == (7, 1) and one.epochs == 0.75
    assert one.count(7, PassRecord(0.5, 1, "some")) == (7, 2) and one.epochs == 1.0
    assert one.exhausted(1) and not one.exhausted(2) and one.ready and not one.done
    assert one.cost_of_pass == 8.0 and one.n_weights == 2
    assert one.examples.asked == (True, 5)
    assert machine(LANES, losses(1.0, 1.0), [0.0, 0.0]).examples.asked[0] is False  # lanes have dense duals
    assert machine(JOINT, losses(1.0), [0.0], lists=False).examples.asked[0] is False
    empty = machine(JOINT, losses(9.0), [-7.0])
    empty.examples.n = 0
    empty.count(0, PassRecord(0.0, 2, "some"))
    assert empty.epochs == 2.0
    record = PassRecord(0.5, 3, "some", 1.0, 2.0, 3.0, 4.0)
    assert record.history() == (0.5, 3, "some", 1.0, 2.0, 3.0)


def test_gaps_are_relative_and_not_negative():
    assert Certificate(None, 4.0, 3.0, 0.0).gap == 0.25
    assert Certificate(None, 4.0, 5.0, 0.0).gap == 0.0
    assert Certificate(None, 0.0, 0.0, 0.0).gap == 0.0


def test_duals_go_to_the_blocks_in_their_order():
    one = machine(JOINT, losses(9.0), [-7.0], n_blocks=2)
    duals = sp.csr_array(np.arange(24.0).reshape(8, 3) * (np.arange(24).reshape(8, 3) % 5 > 0))
    one.set_duals(duals.astype(np.float32))
    for number, block in enumerate(one.blocks):
        value, lane, indptr = block.given
        assert (value.dtype, lane.dtype, indptr.dtype) == (np.float64, np.int32, np.int64)
        made = sp.csr_array((value, lane, indptr), shape=(4, 3)).toarray()
        np.testing.assert_array_equal(made, duals[4 * number : 4 * number + 4].toarray())
    unsorted = sp.csr_array(
        (np.array([2.0, 1.0]), np.array([2, 0]), np.array([0, 2, 2, 2, 2, 2, 2, 2, 2])), shape=(8, 3)
    )
    one.set_duals(unsorted)
    assert [part.tolist() for part in one.blocks[0].given] == [[1.0, 2.0], [0, 2], [0, 2, 2, 2, 2]]
    one.examples.row = np.arange(8)
    row, lane, value = one.duals()
    assert row.tolist() == [0, 0, 2, 4, 4, 6] and lane.tolist() == [0, 1, 2] * 2 and value.tolist() == [1, -1, 0.5] * 2
    assert one.certified_duals()[0].tolist() == row.tolist()


def test_weights_of_the_training_have_its_directions():
    one = machine(JOINT, losses(9.0), [-7.0])
    for single in (False, True):
        assert one.new_weights(single).single_precision is one.trained_weights(single).single_precision is single
    one.examples.directions = _core.Directions(1, np.array([1.0, 0.0]), np.ones(4)).with_ratios(np.array([2.0]))
    held = one.trained_weights(False)
    assert held.array.shape == one.new_weights(False).array.shape
