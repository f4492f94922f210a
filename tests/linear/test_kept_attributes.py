"""What solvers refuse of the attributes that a checkpoint brings back, at both sides of every bound; and what they
think of certificates and duals."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin.data.rows import as_rows
from multimargin.linear import newton
from multimargin.linear.algorithm import Certificate, Settings
from multimargin.linear.examples import Examples
from multimargin.linear.machine import Machine
from multimargin.linear.newton import Newton
from multimargin.linear.primal_cd import PrimalCoordinateDescent
from multimargin.linear.tron import Tron
from multimargin.linear.warm_start import start_from
from multimargin.problems.formulations import Formulation

SETTINGS = Settings(tol=1e-3)


def kept(algorithm, attributes, changes):
    for name, value in (attributes | changes).items():
        setattr(algorithm, name, value)
    algorithm.check_kept()


def cases(*table):
    return pytest.mark.parametrize(("changes", "words"), table)


@cases(
    ({}, ""),
    ({"tau": 1e-290, "smallest_tau": 0.0}, ""),
    ({"tau": 0.9e-290, "smallest_tau": 0.0}, "'tau' is out of its range"),
    ({"tau": 1e290}, ""),
    ({"tau": 1.1e290}, "'tau' is out of its range"),
    ({"tau": np.nan}, "'tau' is out of its range"),
    ({"smallest_tau": 2.0}, ""),
    ({"smallest_tau": 2.1}, "'tau' is out of its range"),
    ({"smallest_tau": -1.0}, "'smallest_tau' must be finite and not negative"),
    ({"steps": -1}, "'steps' must be"),
    ({"stalled_stages": -1}, "'stalled_stages' must be"),
    ({"stage_start": np.array([1.0, np.inf])}, "'stage_start' must be finite"),
)
def test_newton(changes, words):
    usual = {"tau": 2.0, "smallest_tau": 1.0, "steps": 0, "stalled_stages": 0, "stage_start": np.zeros(2)}
    check(Newton(SETTINGS), usual, changes, words)


@cases(
    ({}, ""),
    ({"target": 1e-3}, ""),
    ({"target": 1.1e-3}, "'target' is out of its range"),
    ({"target": 0.0}, "'target' is out of its range"),
    ({"attempts": 2}, ""),
    ({"attempts": 3}, "'attempts' is out of its range"),
    ({"attempts": 3, "done": True}, ""),
    ({"attempts": 4, "done": True}, "'attempts' is out of its range"),
    ({"attempts": -1}, "'attempts' is out of its range"),
    ({"attempts": 1.0}, "'attempts' is out of its range"),
)
def test_tron(changes, words):
    check(Tron(SETTINGS), {"target": 1e-4, "attempts": 0, "done": False}, changes, words)


@cases(
    ({}, ""),
    ({"cursor": 4}, ""),
    ({"cursor": 5}, "gone past its end"),
    ({"cursor": 1.0}, "a pass that there is not"),
    ({"n_passes": 10**6}, ""),
    ({"n_passes": 10**6 + 1}, "a pass that there is not"),
    ({"n_passes": 1.0}, "a pass that there is not"),
    ({"n_passes": -1}, "'n_passes' must be"),
    ({"residual": np.array([1e150, -1e150])}, ""),
    ({"residual": np.array([1e150, -1.1e150])}, "no numbers, or too large"),
    ({"residual": np.array([np.nan])}, "no numbers, or too large"),
    ({"squared_gradient": np.array([1.0, -1.0])}, "'squared_gradient' must be"),
    ({"steepest": -1.0}, "'steepest' must be"),
    ({"certify_below": np.inf}, "'certify_below' must be"),
)
def test_primal_coordinate_descent(changes, words):
    usual = {"certify_below": 1.0, "n_passes": 0, "cursor": 0, "squared_gradient": np.zeros(2), "steepest": 0.0}
    check(PrimalCoordinateDescent(SETTINGS), usual | {"cost": np.ones(5), "residual": np.zeros(2)}, changes, words)


def check(algorithm, usual, changes, words):
    if words:
        with pytest.raises(ValueError, match=words):
            kept(algorithm, usual, changes)
    else:
        kept(algorithm, usual, changes)


@pytest.mark.parametrize(
    ("estimate", "gap", "done", "converged", "below"),
    [
        (1e-3, 1e-3, True, True, 4e-3),
        (2e-3, 4e-3, False, False, 0.95 * 0.5e-3),
        (4e-3, 2e-3, False, False, 0.95 * 2e-3),
        (5e-3, 2e-3, False, False, 4e-3),  # a certificate that no estimate asked for
        (4e-3, 1e-6, True, True, 4e-3),
    ],
)
def test_what_coordinate_descent_thinks_of_a_certificate(estimate, gap, done, converged, below):
    algorithm = PrimalCoordinateDescent(SETTINGS)
    assert algorithm.certify_below == 4e-3
    algorithm._judge(Certificate(None, 1.0, 1.0 - gap, gap), estimate)
    assert (algorithm.done, algorithm.converged) == (done, converged)
    assert algorithm.certify_below == pytest.approx(below, rel=1e-12)
    algorithm.done = True  # nothing is to be gained
    algorithm._judge(Certificate(None, 1.0, 0.0, 1.0), 1.0)
    assert algorithm.done and not algorithm.converged


class Finished:
    """In the place of the core's trust-region method."""

    finished = True

    def run(self, budget, most):
        self.most = most
        return [SimpleNamespace(primal=4.0, gap=1.0, worst_gap=0.5, steepest=0.1, visited=7)]


@pytest.mark.parametrize(("gaps", "attempts"), [([1e-3], 1), ([2e-3, 1e-3], 2), ([2e-3] * 3, 3)])
def test_tron_tries_three_times(monkeypatch, gaps, attempts):
    from multimargin.linear import tron

    targets, left = [], list(gaps)
    monkeypatch.setattr(tron._core, "Tron", lambda block, weights, target: (targets.append(target), Finished())[1])
    machine = SimpleNamespace(
        blocks=["block"],
        examples=SimpleNamespace(n=7, constant=1.0, check_curvature=lambda: None),
        problem=SimpleNamespace(objective_scale=0.5),
        new_weights=lambda single_precision: "weights",
        certify=lambda: Certificate(None, 3.0, 2.0, left.pop(0)),
    )
    algorithm = Tron(SETTINGS)
    algorithm.start(machine, warm=False)
    for _ in gaps:
        assert not algorithm.done
        core = algorithm.core
        (record,) = algorithm.advance(machine, 0.5)
        assert core.most == 1  # at least
        assert (record.primal, record.dual, record.gap) == (3.0, 2.0, pytest.approx(1 / 3))
    assert algorithm.done and algorithm.converged is (gaps[-1] <= 1e-3) and algorithm.attempts == attempts
    assert targets == pytest.approx([1e-3, 1e-4, 1e-5][:attempts])
    record = algorithm._record(machine, Finished().run(0, 0)[0])
    assert record == (0.1, 7, "tron", 2.5, 2.0, 0.2, 0.5)


# Newton's lanes


def made(policy, squared, lanes, label, cap=(2.0, 4.0)):
    X = np.array([[1.0, 0.0], [3.0, 4.0]])
    problem = Formulation(policy, squared, lanes)
    rows = as_rows(X)
    examples = Examples(X, rows, np.arange(2), np.array(label, np.int32), np.array(cap), rows.squared_norms(), 0.0)
    algorithm = Newton(SETTINGS)
    machine = Machine(problem, examples, algorithm, seed=0)
    algorithm.start(machine, warm=False)
    return machine, algorithm


@pytest.mark.parametrize(
    ("policy", "diagonal"),
    [
        ("crammer_singer", [[0, 0.25, 0], [0.125, 0, 0]]),
        ("weston_watkins", [[0.25, 0, 0.25], [0, 0.125, 0.125]]),
        ("one_vs_rest", [[0.25] * 3, [0.125] * 3]),
    ],
)
def test_which_lanes_carry_the_squared_loss(policy, diagonal):
    np.testing.assert_array_equal(made(policy, True, 3, [1, 0])[1].diagonal, diagonal)
    assert not made(policy, False, 3, [1, 0])[1].diagonal.any()


@pytest.mark.parametrize(
    ("policy", "squared", "free"),
    [
        ("crammer_singer", False, [[True, False, False], [False, True, True]]),
        ("crammer_singer", True, [[True, True, False], [True, True, True]]),
        ("weston_watkins", False, [[True, True, False], [True, True, True]]),
        ("weston_watkins", True, [[True, True, False], [True, True, True]]),
        ("one_vs_rest", False, [[True, False, False], [False, True, True]]),
        ("one_vs_rest", True, [[True, True, False], [True, True, True]]),
    ],
)
def test_which_lanes_are_free(policy, squared, free):
    machine, algorithm = made(policy, squared, 3, [1, 0])
    algorithm.proposal[:, :3] = [[-1.0, 2.0, 0.0], [4.0, -1.0, -3.0]]
    assert algorithm._free(machine).tolist() == free


def test_where_newton_begins():
    machine, algorithm = made("one_vs_rest", False, 1, [0, -1])
    assert algorithm.tau == 1 / 3 and algorithm.own.tolist() == [[True], [False]]
    machine, algorithm = made("one_vs_rest", False, 1, [0, -1], cap=(2e3, 4e3))
    assert algorithm.tau == pytest.approx(1e-3 * 13)
    assert (algorithm.smallest_tau, algorithm.steps, algorithm.stalled_stages) == (0.0, 0, 0)
    algorithm.tau, algorithm.smallest_tau, algorithm.steps = 8.0, 6.0, 3
    algorithm.proposal[:] = 0.25
    algorithm.weights.array[:] = 2.0
    algorithm._next_stage(machine)
    assert (algorithm.tau, algorithm.smallest_tau, algorithm.steps) == (3.0, 3.0, 0)
    assert (algorithm.block.alpha == 0.25).all() and (algorithm.stage_start == 2.0).all()
    algorithm.tau, algorithm.smallest_tau = 1e-290, 0.0
    algorithm._next_stage(machine)
    assert algorithm.tau == newton._TAU_RANGE[0]


# Duals to start from


@pytest.mark.parametrize("squared", [False, True])
def test_duals_that_are_worse_than_none_are_left_out(squared):
    """f = ||V||^2 / 2 - sum of the duals: of the first lane -1 or so, of the second large."""
    machine, _ = made("one_vs_rest", squared, 2, [0, 1])
    duals = sp.csr_array(np.array([[1.0, 0.0], [0.0, 3.0]]))
    assert start_from(machine, duals) is True
    row, lane, value = machine.duals()
    assert (row.tolist(), lane.tolist(), value.tolist()) == ([0], [0], [1.0])
    assert start_from(machine, sp.csr_array(np.array([[0.0, 0.0], [0.0, 3.0]]))) is False
    assert start_from(machine, sp.csr_array((2, 2))) is False and not len(machine.duals()[2])


@pytest.mark.parametrize("policy", ["crammer_singer", "weston_watkins"])
def test_duals_of_joint_problems_stay_or_go_together(policy):
    machine, _ = made(policy, False, 3, [1, 0], cap=(9.0, 9.0))
    few = np.array([[-0.25, 0.5, -0.25], [0.0, 0.0, 0.0]])
    assert start_from(machine, sp.csr_array(few)) is True and len(machine.duals()[2]) == 3
    many = np.array([[-0.25, 0.5, -0.25], [3.0, -3.0, 0.0]])  # of a row of length 5
    assert start_from(machine, sp.csr_array(many)) is False and not len(machine.duals()[2])


@pytest.mark.parametrize(
    ("policy", "squared", "h"),
    [
        ("crammer_singer", False, -2.0),
        ("weston_watkins", False, -2.0),
        ("crammer_singer", True, -2.0 + 4.0 / 8),
        ("weston_watkins", True, -2.0 + (1.5**2 + 0.5**2) / 8),
    ],
)
def test_terms_of_duals(policy, squared, h):
    from multimargin.linear.warm_start import _terms_of_duals

    machine, _ = made(policy, squared, 3, [1, 0])
    found = _terms_of_duals(machine, sp.csr_array(np.array([[-1.5, 2.0, -0.5], [0.0, 0.0, 0.0]])))
    assert found.shape == (3,) and found.sum() == pytest.approx(h)
