"""Solvers in the middle of their work: a machine goes on from any state to the same bits, and from no other."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs

from multimargin.data.rows import as_rows
from multimargin.linear.algorithm import Settings
from multimargin.linear.examples import Examples
from multimargin.linear.exponentiated import ExponentiatedGradient
from multimargin.linear.interrupts import Interrupt, deferred_interrupt, interruptible
from multimargin.linear.machine import Machine
from multimargin.linear.solvers import SOLVERS
from multimargin.problems.formulations import Formulation
from tests.forging import at

X, Y = make_blobs(24, 3, centers=3, cluster_std=3.0, random_state=0)
CAP = np.linspace(0.1, 0.3, 24)


def started(solver, policy="crammer_singer", squared=False, tol=1e-4, warm=None):
    problem = Formulation(policy, squared, 3)
    rows = as_rows(X)
    examples = Examples.of(problem, X, rows, rows.squared_norms(), Y, CAP, np.arange(24))
    algorithm = SOLVERS[solver].make(Settings(tol=tol, options=SOLVERS[solver].options))
    machine = Machine(problem, examples, algorithm, seed=3)
    if warm is not None:
        machine.set_duals(warm)
    algorithm.start(machine, warm=warm is not None)
    return machine


@pytest.fixture(autouse=True)
def short_slices(monkeypatch):
    for module in ("sdm", "tron", "primal_cd", "cutting_plane", "machine"):
        monkeypatch.setattr(f"multimargin.linear.{module}.BUDGET", 300.0)


def advanced(machine, slices):
    records = []
    for _ in range(slices):
        if not machine.done:
            for record in machine.advance(1e9):
                machine.count(0, record)
                records.append(record)
    return records


def assert_same_state(one, other):
    one, other = one.state(), other.state()
    assert set(one) == set(other)
    for name, values in one.items():
        np.testing.assert_array_equal(values, other[name], err_msg=name)


CASES = [
    ("cutting_plane", "crammer_singer", False),
    ("cutting_plane", "one_vs_rest", False),
    ("tron", "one_vs_rest", True),
    ("primal_cd", "one_vs_rest", True),
    ("newton", "weston_watkins", False),
    ("newton", "crammer_singer", True),
    ("pegasos", "crammer_singer", False),
    ("exponentiated_gradient", "one_vs_rest", False),
    ("sdm", "weston_watkins", True),
    ("accelerated_sdm", "one_vs_rest", False),
    ("accelerated_sdm", "crammer_singer", True),
]


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(("solver", "policy", "squared"), CASES)
def test_a_machine_goes_on_from_any_state(solver, policy, squared, warm):
    label = Formulation(policy, squared, 3).lane_labels(Y)
    duals = np.where(label[:, None] == np.arange(3), 1.0, -0.5 if policy != "one_vs_rest" else -1.0) * 0.05
    start = sp.csr_array(duals) if warm else None
    whole = started(solver, policy, squared, warm=start)
    for slices in (0, 1, 2, 3, 5, 9, 20):
        advanced(whole, slices)
        other = started(solver, policy, squared, warm=start)
        other.set_state(whole.state())
        assert_same_state(whole, other)
        advanced(whole, 1), advanced(other, 1)
        assert_same_state(whole, other)
        if whole.done:
            break


def state_within(solver, policy, holds, **options):
    machine = started(solver, policy, **options)
    for _ in range(300):
        advanced(machine, 1)
        state = machine.state()
        if holds(state):
            return state
    raise AssertionError("there was no such state")


WITHIN_A_PASS = [
    ("algorithm.cursor", at(0, 24), ""),
    ("algorithm.cursor", at(0, 25), "a pass or a target that there is not"),
    ("algorithm.cursor", at(0, -1), "a pass or a target that there is not"),
    ("algorithm.cursor", lambda cursor: cursor.astype(float), "a pass or a target that there is not"),
    ("algorithm.target", at(0, 1e-4), ""),
    ("algorithm.target", at(0, 1.1e-4), "a pass or a target that there is not"),
    ("algorithm.target", at(0, 0.0), "a pass or a target that there is not"),
    ("algorithm.offset", at(0, -1e-9), "no sums of caps"),
    ("method.steps", at(0, 1), "steps with a cut that there is not"),
    ("method.assignments.worst", at(0, 3), "a class that there is not is assigned"),
    ("method.gradient.W", at(0, 1e9), "gradients that are no numbers, or too large"),
    ("method.part", lambda part: np.array([0]), "shorter|longer|differ in number"),
    ("method.bundles.gram#", lambda sizes: np.append(sizes, 0), "names that others have not|shorter|longer"),
    ("epochs", at(0, -1.0), "'epochs' must be"),
    ("n_passes", at(0, -1), "'n_passes' must be"),
]


@pytest.mark.parametrize(("name", "change", "words"), WITHIN_A_PASS)
def test_cutting_planes_within_a_pass(name, change, words):
    state = state_within(
        "cutting_plane", "crammer_singer", lambda s: s["algorithm.cursor"][0] > 0 and s["n_passes"][0] > 3
    )
    check(started("cutting_plane"), state | {name: change(state[name])}, words)


WITHIN_A_MASTER = [
    ("method.steps", lambda steps: steps, ""),
    ("method.steps", at(0, 0), ""),
    ("method.steps", at(0, 10**6), "more steps than a cut takes"),
    ("method.part", at(0, 1), "cuts of parts that there are not"),
    ("method.part", at(0, -1), "cuts of parts that there are not"),
    ("method.part", lambda part: part.astype(float), "cuts of parts that there are not"),
    ("method.pending.idle", at(0, 20), "weights of cuts out of range"),
    ("method.pending.begins", at(0, True), "that training did not begin with"),
]


@pytest.mark.parametrize(("name", "change", "words"), WITHIN_A_MASTER)
def test_cutting_planes_within_a_master(name, change, words):
    state = state_within("cutting_plane", "crammer_singer", lambda s: s["method.steps"][0] > 1)
    check(started("cutting_plane"), state | {name: change(state[name])}, words)


def check(machine, state, words):
    if words:
        with pytest.raises(ValueError, match=words):
            machine.set_state(state)
    else:
        machine.set_state(state)


@pytest.mark.parametrize("policy", ["crammer_singer", "one_vs_rest"])
def test_cutting_planes_begin_with_the_duals_that_there_are(policy):
    """Before the first pass has ended, the best weights that are known are those of the beginning."""
    own = np.arange(3) == Y[:, None]
    duals = np.where(own, 1.0, -0.5 if policy == "crammer_singer" else -1.0) * 0.02
    machine = started("cutting_plane", policy, warm=sp.csr_array(duals))
    algorithm = machine.algorithm
    assert [cut.assignment for _, cut in algorithm.pending] == [None] * len(algorithm.bundles)
    offsets = np.abs(duals).sum(axis=0) if policy == "one_vs_rest" else [0.5 * np.abs(duals).sum()]
    np.testing.assert_allclose([cut.offset for _, cut in algorithm.pending], offsets)
    while algorithm.pending:
        next(algorithm.work)
    out = machine.new_weights(single_precision=False)
    assert algorithm.candidate(out) is True
    weights = [bundle.weight_of_beginning for bundle in algorithm.bundles]
    np.testing.assert_allclose(out.array[:, :3], (X.T @ duals) * weights, rtol=1e-9)
    assert all(0 < weight <= 1 for weight in weights)
    algorithm.imply_duals(machine)
    np.testing.assert_allclose(machine.blocks[0].alpha[:, :3], duals * weights, rtol=1e-9)


def test_lanes_of_tron_that_are_all_finished():
    state = state_within("tron", "one_vs_rest", lambda s: s["algorithm.done"][0], squared=True)
    started("tron", "one_vs_rest", True).set_state(state)
    with pytest.raises(ValueError, match="all lanes are finished, and the method is not"):
        started("tron", "one_vs_rest", True).set_state(state | {"algorithm.done": np.array([False])})


@pytest.mark.parametrize(("policy", "centre"), [("crammer_singer", 3), ("one_vs_rest", 2)])
def test_where_exponentiated_gradients_begin(policy, centre):
    """A thousandth of the way to the centre of the simplex of every example."""
    machine = started("exponentiated_gradient", policy)
    own = np.arange(3) == Y[:, None]
    wanted = 1e-3 * CAP[:, None] * (own - 1 / centre)
    np.testing.assert_allclose(machine.blocks[0].alpha[:, :3], wanted, rtol=1e-12)
    np.testing.assert_allclose(machine.algorithm.weights.array[:, :3], X.T @ wanted, rtol=1e-5, atol=1e-7)
    assert isinstance(machine.algorithm, ExponentiatedGradient)


# Ctrl-C


def test_an_interrupt_that_waits():
    asked = []
    one = Interrupt(lambda: asked.append(1))
    one.raise_if_asked()
    one.note()
    assert one.asked and asked == [1]
    with pytest.raises(KeyboardInterrupt):
        one.note()  # a second one does not
    with pytest.raises(KeyboardInterrupt):
        one.raise_if_asked()
    assert asked == [1]
    with pytest.raises(KeyboardInterrupt):
        Interrupt(waits=False).note()


def test_who_does_not_want_to_wait_does_not():
    import signal

    usual = signal.getsignal(signal.SIGINT)
    with deferred_interrupt(False) as later, interruptible():
        assert signal.getsignal(signal.SIGINT) is usual and not later.asked
    with deferred_interrupt() as outer:
        with deferred_interrupt() as inner:
            assert inner is not outer
        assert signal.getsignal(signal.SIGINT) is not usual or usual is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is usual
