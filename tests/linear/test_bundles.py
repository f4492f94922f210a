"""What the cutting-plane method keeps: cuts, assignments and bundles, with numbers that can be checked by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from multimargin import LinearSVM
from multimargin.linear.assignments import InsideMargins, WorstClasses
from multimargin.linear.bundles import Bundle, Cut, Limits, state_of_cuts
from multimargin.linear.master_problem import solve_master

LABEL, CAP = np.array([0, 2, 1], np.int32), np.array([1.0, 2.0, 4.0])


def limits(assignments=None, warm=False):
    examples = SimpleNamespace(cap=CAP, norm=np.array([1.0, 4.0, 9.0]))
    return Limits(examples, assignments or WorstClasses(LABEL, CAP, 3), warm=warm)


def exhausted(steps):
    return sum(steps)


# Assignments


def test_the_worst_class_counts_a_margin_of_one():
    worst = WorstClasses(LABEL, CAP, 3)
    scores = np.array([[1.5, 0.0, 0.4], [0.0, 0.5, 1.0], [0.5, 0.0, 0.0]])
    duals = np.full((3, 3), 9.0)
    offset = worst.choose(0, 3, scores.copy(), duals)
    # Scores less a margin at the label: 0.5 of class 0, 0.5 of class 1, 0.5 of class 0.
    assert worst.worst.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(duals, [[0, 0, 0], [0, -2, 2], [-4, 4, 0]])
    assert offset.tolist() == [6.0]
    duals[:] = 0
    assert worst.choose(1, 2, np.array([[3.0, 0.0, 0.0]]), duals[1:2]).tolist() == [2.0]
    assert worst.worst.tolist() == [0, 0, 0] and duals.tolist() == [[0, 0, 0], [-2, 0, 2], [0, 0, 0]]
    (chosen,) = worst.chosen()
    worst.worst[0] = 1
    assert chosen.tolist() == [0, 0, 0]


def test_inside_of_margins_lane_by_lane():
    inside = InsideMargins(LABEL, CAP, 3)
    scores = np.array([[1.0, -1.0, -0.9], [0.0, -2.0, 0.9], [-1.5, 1.1, -1.0]])
    duals = np.full((3, 3), 9.0)
    offset = inside.choose(0, 3, scores, duals)
    np.testing.assert_array_equal(duals, [[0, 0, -1], [-2, 0, 2], [0, 0, 0]])
    assert offset.tolist() == [2.0, 0.0, 3.0]
    assert [np.unpackbits(lane)[:3].tolist() for lane in inside.chosen()] == [[0, 1, 0], [0, 0, 0], [1, 1, 0]]


def test_assignments_add_up_to_duals():
    alpha = np.array([[0.0, 0.0, 0.0], [-0.5, 0.0, 0.5], [0.0, 0.0, 0.0]])  # of a beginning
    WorstClasses(LABEL, CAP, 3).combine([[(0.25, np.array([0, 1, 0])), (0.5, np.array([1, 1, 1]))]], alpha)
    np.testing.assert_allclose(alpha, [[0.5, -0.5, 0], [-0.5, -1.5, 2.0], [-1.0, 1.0, 0]])
    alpha = np.zeros((3, 3))
    alpha[0, 0] = 0.25
    packed = [np.packbits(np.array(bits, bool)) for bits in ([1, 0, 1], [0, 1, 0], [1, 1, 1])]
    InsideMargins(LABEL, CAP, 3).combine([[(0.5, packed[0])], [], [(0.25, packed[1]), (0.5, packed[2])]], alpha)
    np.testing.assert_allclose(alpha, [[0.75, 0, -0.5], [0, 0, 1.5], [-2.0, 0, -2.0]])


@pytest.mark.parametrize(("lanes", "dtype"), [(2, np.uint8), (256, np.uint8), (257, np.uint16)])
def test_classes_are_remembered_in_few_bytes(lanes, dtype):
    worst = WorstClasses(np.array([0], np.int32), np.ones(1), lanes)
    assert worst.worst.dtype == dtype
    worst.choose(0, 1, np.arange(lanes, dtype=float)[None], np.zeros((1, lanes)))
    assert worst.worst.tolist() == [lanes - 1]
    worst.check_kept()
    if lanes != 256:  # there is no such number
        worst.worst[0] = lanes
        with pytest.raises(ValueError, match="a class that there is not is assigned"):
            worst.check_kept()


def test_many_classes_are_cut_as_the_others_solve_them():
    """257: more than a byte numbers."""
    rng = np.random.default_rng(0)
    y = np.arange(514) % 257
    X = rng.normal(size=(257, 30))[y] + 0.1 * rng.normal(size=(514, 30))
    options = {"C": 0.05, "tol": 0.05, "fit_intercept": False}
    model = LinearSVM(solver="cutting_plane", **options).fit(X, y)
    other = LinearSVM(solver="sdm", **options).fit(X, y)
    assert model.converged_ and model.dual_objective_ <= other.primal_objective_
    assert other.dual_objective_ <= model.primal_objective_


@pytest.mark.parametrize(("make", "length", "dtype"), [(WorstClasses, 3, np.uint8), (InsideMargins, 1, np.uint8)])
def test_assignments_come_back_one_row_a_pass(make, length, dtype):
    kept = make(LABEL, CAP, 3)
    assert kept.restored(np.zeros(2 * length, dtype), 2).shape == (2, length)
    assert kept.restored(np.empty(0, np.float64), 0).shape == (0, length)
    for wrong in (np.zeros(2 * length + 1, dtype), np.zeros(2 * length - 1, dtype), np.zeros(2 * length, np.int64)):
        with pytest.raises(ValueError, match=f"assignments must be 2 times {length} values of uint8"):
            kept.restored(wrong, 2)
    with pytest.raises(ValueError, match="assignments must be 0 times"):
        kept.restored(np.zeros(length, dtype), 0)


def test_eight_examples_take_a_byte_and_nine_take_two():
    for n, length in ((8, 1), (9, 2)):
        kept = InsideMargins(np.zeros(n, np.int32), np.ones(n), 1)
        assert kept.restored(kept.chosen()[0], 1).shape == (1, length)


# Bundles


def test_what_a_cut_says_of_w():
    bundle = Bundle(2)
    bundle.w = np.array([1.0, 2.0])
    assert bundle.observe(Cut(np.array([0.5, 0.0]), 3.0, None)) is True
    assert bundle.here == bundle.best == 0.5 * 5.0 + 3.0 - 0.5
    assert bundle.observe(Cut(np.zeros(2), 9.0, None)) is False
    assert (bundle.here, bundle.best) == (11.5, 5.0)
    assert bundle.observe(Cut(np.zeros(2), 2.5, None)) is False  # no lower
    assert bundle.observe(Cut(np.zeros(2), 2.0, None)) is True and bundle.best == 4.5


def test_a_bundle_finds_the_optimum_of_its_cuts():
    """max(0, 1 - 2 u, 3 - v) + (u^2 + v^2) / 2, whose optimum is that of the second cut alone: v = 1, 2.5."""
    bundle, chosen = Bundle(2), [np.array([0]), np.array([1])]
    exhausted(bundle.add(Cut(np.array([2.0, 0.0]), 1.0, chosen[0])))
    np.testing.assert_allclose(bundle.w, [0.5, 0.0], rtol=1e-9)  # where the cut is zero
    assert bundle.dual == pytest.approx(1 / 8) and bundle.stalled == 0
    exhausted(bundle.add(Cut(np.array([0.0, 1.0]), 3.0, chosen[1])))
    np.testing.assert_allclose(bundle.w, [0.0, 1.0], rtol=1e-9, atol=1e-9)
    assert bundle.dual == pytest.approx(2.5) and bundle.slack == pytest.approx(2.0)
    np.testing.assert_allclose(bundle.gram, [[4.0, 0.0], [0.0, 1.0]])
    assert [(weight, which is chosen[1]) for weight, which in bundle.weighted()] == [(pytest.approx(1.0), True)]
    assert [cut.idle for cut in bundle.cuts] == [1, 0] and bundle.weight_of_beginning == 0
    assert bundle.stalled == 0
    exhausted(bundle.add(Cut(np.array([0.0, 1.0]), 2.0, None)))  # below: nothing is gained
    assert bundle.stalled == 1 and bundle.dual == pytest.approx(2.5)
    assert [cut.idle for cut in bundle.cuts] == [2, 0, 1]


def test_idle_cuts_are_dropped_after_twenty_masters():
    bundle = Bundle(1)
    exhausted(bundle.add(Cut(np.array([0.0]), 0.0, None)))  # never of use
    exhausted(bundle.add(Cut(np.array([1.0]), 5.0, None)))
    idle = bundle.cuts[0].idle
    for offset in np.linspace(5.5, 20, 19 - idle):
        exhausted(bundle.add(Cut(np.array([1.0]), offset, None)))
    assert bundle.cuts[0].idle == 19 and len(bundle.cuts) == len(bundle.gram)
    n = len(bundle.cuts)
    exhausted(bundle.add(Cut(np.array([1.0]), 30.0, None)))
    assert len(bundle.cuts) == n and bundle.gram.shape == (n, n) and (bundle.gram > 0).all()
    assert bundle.weight_of_beginning == pytest.approx(1.0)


def test_nothing_changes_before_the_last_step():
    bundle = Bundle(2)
    steps = bundle.add(Cut(np.array([2.0, 0.0]), 1.0, None))
    costs = [next(steps) for _ in range(3)]  # a product, the master, a vector
    assert all(cost > 0 for cost in costs)
    assert not bundle.cuts and bundle.dual == 0 and not bundle.w.any()
    assert exhausted(steps) == 0 and len(bundle.cuts) == 1 and bundle.w.any()


# A state


def a_bundle():
    bundle, chosen = Bundle(2), np.array([1, 0, 1], np.uint8)
    exhausted(bundle.add(Cut(np.array([2.0, 0.0]), 1.0, chosen)))
    exhausted(bundle.add(Cut(np.array([-1.0, 1.0]), 3.0, chosen[::-1].copy())))
    bundle.observe(Cut(np.zeros(2), 3.0, chosen))
    return bundle


def test_a_bundle_goes_on():
    bundle, other = a_bundle(), Bundle(2)
    other.set_state(bundle.state(), limits())
    np.testing.assert_array_equal(other.w, bundle.w)
    np.testing.assert_array_equal(other.gram, bundle.gram)
    for name in ("slack", "dual", "here", "best", "stalled"):
        assert getattr(other, name) == getattr(bundle, name)
    for one, two in zip(other.cuts, bundle.cuts, strict=True):
        assert (one.offset, one.weight, one.idle) == (two.offset, two.weight, two.idle)
        assert one.gradient.tolist() == two.gradient.tolist() and one.assignment.tolist() == two.assignment.tolist()


def test_cuts_of_a_beginning_have_no_assignment():
    begun = Cut(np.array([1.0, 0.0]), 0.5, None, weight=0.25)
    state = state_of_cuts([begun, Cut(np.array([0.0, 1.0]), 1.0, np.array([2, 1, 0], np.uint8))])
    assert state["begins"].tolist() == [True, False] and state["assignment"].tolist() == [2, 1, 0]
    first, second = limits(warm=True).cuts(state, 2)
    assert first.assignment is None and first.weight == 0.25 and second.assignment.tolist() == [2, 1, 0]
    with pytest.raises(ValueError, match="that training did not begin with"):
        limits(warm=False).cuts(state, 2)
    none = state_of_cuts([])
    assert limits().cuts(none, 2) == [] and none["gradient"].shape == (0,)


CUTS = [
    ({"weight": np.array([-1e-9, 0.0])}, "out of range"),
    ({"idle": np.array([0, 20])}, "out of range"),
    ({"idle": np.array([0, -1])}, "out of range"),
    ({"idle": np.array([0, 1], np.int32)}, "of other types"),
    ({"weight": np.zeros(2, np.float32)}, "of other types"),
    ({"offset": np.ones(2, np.float32)}, "of other types"),
    ({"gradient": np.ones(4, np.float32)}, "of other types"),
    ({"begins": np.zeros(2, np.int64)}, "that training did not begin with"),
    ({"weight": np.zeros(1)}, "differ in number"),
    ({"idle": np.zeros(3, np.int64)}, "differ in number"),
    ({"begins": np.zeros(1, bool)}, "differ in number"),
    ({"gradient": np.ones(5)}, "differ in number"),
    ({"offset": np.array([0.0, -1e-9])}, "no sums of caps"),
    ({"offset": np.array([0.0, 7.0001])}, "no sums of caps"),
    ({"offset": np.array([0.0, np.nan])}, "no sums of caps"),
    ({"gradient": np.array([0.0, 0.0, 0.0, 24.05])}, "gradients that are no numbers, or too large"),
    ({"gradient": np.array([0.0, 0.0, 0.0, np.nan])}, "gradients that are no numbers, or too large"),
    # What is just possible: all caps are 7 together, and a gradient is sqrt(2) (1 + 4 + 12) long at most.
    ({"offset": np.array([0.0, 7.0]), "idle": np.array([19, 0])}, ""),
    ({"gradient": np.array([0.0, 0.0, 0.0, 24.04])}, ""),
]


@pytest.mark.parametrize(("changes", "words"), CUTS)
def test_cuts_of_a_state_are_possible_ones(changes, words):
    chosen = np.array([1, 0, 1], np.uint8)
    state = state_of_cuts([Cut(np.array([1.0, 0.0]), 1.0, chosen), Cut(np.array([0.0, 1.0]), 2.0, chosen)])
    if words:
        with pytest.raises(ValueError, match=words):
            limits().cuts(state | changes, 2)
    else:
        assert len(limits().cuts(state | changes, 2)) == 2


BUNDLES = [
    ({"slack": np.array([-1e-9])}, "'slack' must be"),
    ({"stalled": np.array([-1])}, "'stalled' must be"),
    ({"dual": np.array([np.inf])}, "objectives that are no numbers"),
    ({"here": np.array([-np.inf])}, "objectives that are no numbers"),
    ({"best": np.array([-np.inf])}, "objectives that are no numbers"),
    ({"best": np.array([np.nan])}, "objectives that are no numbers"),
    ({"best": np.array([np.inf]), "here": np.array([np.inf])}, ""),
    ({"weight": np.array([0.5, 0.5 + 1e-11])}, "sum to more than 1"),
    ({"weight": np.array([0.5, 0.5])}, ""),
    ({"gram": np.array([4.0, -2.0, -2.0])}, "products of other cuts"),
    ({"gram": np.array([4, -2, -2, 2])}, "products of other cuts"),
    ({"gram": np.array([4.0, -2.0, -2.0, 2.0001])}, "not those of the gradients"),
    ({"gram": np.array([4.0, -2.0, -2.0001, 2.0])}, "not those of the gradients"),
    ({"gram": np.array([4.0, -2.0, -2.0, 2.0])}, ""),
]


@pytest.mark.parametrize(("changes", "words"), BUNDLES)
def test_bundles_of_a_state_are_possible_ones(changes, words):
    other = Bundle(2)
    if not words:
        other.set_state(a_bundle().state() | changes, limits())
        np.testing.assert_allclose(other.w, sum(cut.weight * cut.gradient for cut in other.cuts))
        return
    with pytest.raises(ValueError, match=words):
        other.set_state(a_bundle().state() | changes, limits())


# The master


@pytest.mark.parametrize(
    ("offset", "weights", "slack"),
    [([1.0, 3.0, 2.0], [0, 1, 0], 3.0), ([-1.0, -2.0], [0, 0], 0.0), ([0.0, -2.0], [0, 0], 0.0)],
)
def test_cuts_that_do_not_depend_on_the_weights(offset, weights, slack):
    found, of_slack = solve_master(np.zeros((len(offset), len(offset))), np.array(offset))
    assert found.tolist() == weights and of_slack == slack


def test_weights_of_cuts_never_sum_to_more_than_one():
    rng = np.random.default_rng(0)
    for scale in (1e-6, 1.0, 1e6):
        A = scale * rng.normal(size=(6, 3))
        weight, slack = solve_master(A @ A.T, np.abs(rng.normal(size=6)) * 10 * scale)
        assert 0.99 < weight.sum() <= 1 + 1e-15 and (weight >= 0).all() and slack >= 0
    weight, slack = solve_master(np.array([[100.0]]), np.array([1.0]), slack=5.0)
    assert weight == pytest.approx([0.01]) and slack == 0
