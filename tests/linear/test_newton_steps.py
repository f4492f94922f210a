"""Newton's function, gradient and step against differences; the columns and residuals of the primal methods; and the
examples that machines have."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin.data.csr import Csr
from multimargin.data.rows import as_rows
from multimargin.linear.algorithm import Certificate, Settings
from multimargin.linear.cutting_plane import CuttingPlane, _scored_rows
from multimargin.linear.examples import Examples
from multimargin.linear.machine import Machine
from multimargin.linear.newton import Newton, _whole
from multimargin.linear.primal_cd import PrimalCoordinateDescent
from multimargin.problems.formulations import Formulation

POLICIES = ("crammer_singer", "weston_watkins", "one_vs_rest")
SETTINGS = Settings(tol=1e-3, options={})


def machine_of(kind, problem, X, label, cap, intercept=0.0, row=None):
    rows = as_rows(X, intercept)
    row = np.arange(len(label)) if row is None else np.asarray(row)
    examples = Examples(
        X, rows, row, np.asarray(label, np.int32), np.asarray(cap, float), rows.squared_norms()[row], 0.0
    )
    algorithm = kind(SETTINGS)
    return Machine(problem, examples, algorithm, seed=0), algorithm


@pytest.fixture(
    params=[(policy, squared, scale) for policy in POLICIES for squared in (False, True) for scale in (0.3, 3)]
)
def newton(request):
    """Somewhere, with a tau and duals of which some are at their bounds."""
    policy, squared, scale = request.param
    rng = np.random.default_rng(0)
    X, label = rng.normal(size=(12, 2)), np.arange(12) % 3
    machine, algorithm = machine_of(Newton, Formulation(policy, squared, 3), X, label, rng.uniform(0.5, 2, 12), 1.0)
    algorithm.start(machine, warm=False)
    algorithm.tau = 0.7
    algorithm.block.alpha[:, :3] = 0.0
    algorithm.weights.array[:, :3] = scale * rng.normal(size=(3, 3))
    return machine, algorithm


def evaluated(machine, algorithm):
    """Phi, gradient and gap at W."""
    return _whole(algorithm._evaluate(machine, algorithm.weights))


def test_the_gradient_is_that_of_phi(newton):
    machine, algorithm = newton
    W = algorithm.weights.array[:, :3]
    _, gradient, gap = evaluated(machine, algorithm)
    assert gap > 0 and algorithm.primal > 0
    h = 1e-6
    for i in range(3):
        for m in range(3):
            values = []
            for side in (h, -h):
                W[i, m] += side
                values.append(evaluated(machine, algorithm)[0])
                W[i, m] -= side
            assert gradient[i, m] == pytest.approx((values[0] - values[1]) / (2 * h), rel=1e-5, abs=1e-5)


def test_the_step_solves_the_system_of_the_gradients_differences(newton):
    machine, algorithm = newton
    W = algorithm.weights.array[:, :3]
    _, gradient, _ = evaluated(machine, algorithm)
    step = _whole(algorithm._newton_step(machine, gradient))
    h = 1e-7
    start = W.copy()
    W[:] = start + h * step
    ahead = evaluated(machine, algorithm)[1]
    W[:] = start - h * step
    behind = evaluated(machine, algorithm)[1]
    W[:] = start
    # The gradient is piecewise linear, and here no piece ends so near.
    np.testing.assert_allclose((ahead - behind) / (2 * h), -gradient, rtol=1e-4, atol=1e-6)


def test_a_search_lowers_phi_or_says_that_it_cannot(newton):
    machine, algorithm = newton
    before, gradient, _ = evaluated(machine, algorithm)
    step = _whole(algorithm._newton_step(machine, gradient))
    W = algorithm.weights.array.copy()
    exact, at_trial, gap = _whole(algorithm._search(machine, before, gradient, step))
    np.testing.assert_array_equal(algorithm.weights.array, W)  # until the step is over
    algorithm.weights.array[:] = algorithm.trial.array
    lower, there, gap_there = evaluated(machine, algorithm)
    assert exact is False and lower < before and gap == gap_there
    np.testing.assert_array_equal(at_trial, there)
    exact, at_W, gap = _whole(algorithm._search(machine, lower, there, there))  # upwards
    assert exact is True and gap == gap_there
    np.testing.assert_array_equal(at_W, there)


def test_stages_of_newton_end_and_stall(newton):
    machine, algorithm = newton
    algorithm.weights.array[:] = algorithm.stage_start
    for _ in range(200):
        if algorithm.done:
            break
        (record,) = algorithm.advance(machine, 1.0)
        assert record.active_rows == 12 and record.solver == "newton" and record.violation >= 0
    assert algorithm.converged and machine.certificate.worst_gap <= 1e-3
    assert record.gap == machine.certificate.gap


def test_a_tau_that_is_too_small_rises_again(newton):
    machine, algorithm = newton

    def search(exact):
        def searched(machine, phi, gradient, step):
            yield 0.0
            algorithm.trial.array[:] = algorithm.weights.array
            _, gradient, gap = yield from algorithm._evaluate(machine, algorithm.weights)
            return exact, gradient, gap

        return searched

    algorithm._search = search(True)  # phi cannot be lowered
    algorithm.gap_at_stall, algorithm.tol = np.inf, 0.0
    start, W = algorithm.stage_start.copy(), algorithm.weights.array
    for stalled in range(1, 6):
        W[:, :3] = 5.0
        algorithm.steps, before = 7, algorithm.tau
        algorithm.advance(machine, 1.0)
        assert algorithm.stalled_stages == stalled and algorithm.steps == 0
        assert algorithm.tau == algorithm.smallest_tau == before * 30.0
        np.testing.assert_array_equal(W, start)
        assert algorithm.done is (stalled == 5) and not algorithm.converged
    algorithm.done, algorithm._search = False, search(False)
    for steps in range(15):  # so many are tried
        assert algorithm.steps == steps and algorithm.stalled_stages == 5
        W[:, :3] = 5.0
        algorithm.advance(machine, 1.0)
    assert algorithm.steps == 0 and algorithm.stalled_stages == 6


# The primal methods


@pytest.mark.parametrize("intercept", [0.0, 2.0])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_residuals_are_those_of_the_weights(store, intercept):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((8, 3)) < 0.5, rng.normal(size=(8, 3)), 0)
    X[:, 1] += 1.0  # no row is empty
    label, row = np.arange(8) % 2, [0, 1, 2, 4, 5, 6, 7]
    machine, algorithm = machine_of(
        PrimalCoordinateDescent, Formulation("one_vs_rest", True, 2), store(X), label[row], np.ones(7), intercept, row
    )
    algorithm.start(machine, warm=False)
    assert (algorithm.residual[:, :2] == 1.0).all() and algorithm.n_passes == algorithm.cursor == 0
    whole = np.column_stack([X, np.full(8, intercept)])[row] if intercept else X[row]
    assert algorithm.largest_gradient == pytest.approx(np.sqrt((whole**2).sum()))
    per_feature = np.count_nonzero(whole, axis=0)
    np.testing.assert_allclose(algorithm.cost / algorithm.cost[0], (per_feature + 1) / (per_feature[0] + 1))
    np.testing.assert_allclose(algorithm.ends, np.cumsum(algorithm.cost[algorithm.order]))
    assert sorted(algorithm.order.tolist()) == [*range(3 + (intercept != 0))]
    duals = rng.random((7, 2)) * np.where(label[row][:, None] == np.arange(2), 1, -1)
    machine.set_duals(sp.csr_array(duals))
    algorithm.start(machine, warm=True)
    sign = np.where(label[row][:, None] == np.arange(2), 1.0, -1.0)
    np.testing.assert_allclose(algorithm.residual[:, :2], 1 - sign * (whole @ (whole.T @ duals)))


def test_orders_of_features_are_drawn_again():
    X = np.random.default_rng(0).normal(size=(9, 7))
    machine, one = machine_of(
        PrimalCoordinateDescent, Formulation("one_vs_rest", True, 2), X, np.arange(9) % 2, np.ones(9)
    )
    one.start(machine, warm=False)
    orders = [one.order.tolist()]
    for _ in range(3):
        one._begin_pass()
        orders.append(one.order.tolist())
    assert len({tuple(order) for order in orders}) == 4
    for passes, order in enumerate(orders):
        one.n_passes = passes
        one.set_more_state(machine, {})
        assert one.order.tolist() == order
    assert one.more_state() == {}


def test_a_pass_over_the_features_ends_with_what_it_saw(monkeypatch):
    X = np.random.default_rng(0).normal(size=(9, 7))
    machine, one = machine_of(
        PrimalCoordinateDescent, Formulation("one_vs_rest", True, 2), X, np.arange(9) % 2, np.ones(9)
    )
    one.start(machine, warm=False)
    certified = []
    machine.certify = lambda: (certified.append(1), Certificate(None, 3.0, 1.0, 0.5))[1]
    one.squared_gradient, one.steepest = np.array([4.0, 90.0]), 2.0
    record = one._end_pass(machine)  # W is zero, and every loss 1
    assert record.estimate == pytest.approx(0.5 * 90.0 / 9.0) and record.violation == 2.0
    assert record.active_rows == 9 and np.isnan(record.gap) and not certified and one.n_passes == 1 and not one.done
    one.squared_gradient = np.array([0.0, 2 * 9.0 * 4e-3 * 0.999])
    assert one._end_pass(machine).gap == pytest.approx(2 / 3) and len(certified) == 1 and not one.done
    one.squared_gradient, one.n_passes = np.array([90.0, 90.0]), 24  # a certificate now and then
    assert one._end_pass(machine).primal == 3.0 and len(certified) == 2 and not one.done
    one.steepest = 1e-15 * one.largest_gradient  # nothing but rounding is left
    assert one._end_pass(machine).dual == 1.0 and one.done and not one.converged


@pytest.mark.parametrize("most", [1, 2.5, 7])
def test_no_more_passes_than_asked_for(most):
    X = np.random.default_rng(0).normal(size=(9, 7))
    for kind, squared in ((PrimalCoordinateDescent, True), (CuttingPlane, False)):
        problem = Formulation("one_vs_rest", squared, 2)
        machine, one = machine_of(kind, problem, X, np.arange(9) % 2, np.full(9, 100.0))
        one.tol = 0.0
        one.start(machine, warm=False)
        assert len(one.advance(machine, most)) == np.ceil(most)


def test_rows_that_are_scored_are_mostly_examples():
    X = np.arange(20.0).reshape(10, 2)
    for row, copied in ((np.arange(5), False), (np.arange(4), True), (np.array([1, 3, 8]), True)):
        machine, _ = machine_of(
            CuttingPlane, Formulation("one_vs_rest", False, 1), X, np.zeros(len(row)), np.ones(len(row)), 1.0, row
        )
        rows, where = _scored_rows(machine.examples)
        assert (rows is not machine.examples.rows) is copied and rows.n_weights == 3
        out = np.empty((rows.n_rows, 1))
        rows.scores(np.ones((3, 1)), out, 0)
        np.testing.assert_allclose(out[where, 0], X[row].sum(axis=1) + 1.0)


def test_a_record_of_cuts():
    machine = SimpleNamespace(
        examples=SimpleNamespace(constant=2.0, n=7, cap=np.array([1.0, 3.0])),
        problem=SimpleNamespace(objective_scale=0.5),
        certify=lambda: Certificate(None, 5.0, 4.5, 1e-3),
    )
    one = CuttingPlane(SETTINGS)
    one.bundles = [SimpleNamespace(best=6.0, dual=3.0, here=9.0), SimpleNamespace(best=4.0, dual=1.0, here=5.0)]
    one._record(machine, 0.5)
    (record,) = one.records
    assert record == (6.0 / 4.0, 7, "cutting_plane", 6.0, 3.0, 0.5, 0.5)
    assert one.target == 1e-3 and not one.done
    one._record(machine, 1e-3)
    assert one.records[-1][3:6] == (5.0, 4.5, pytest.approx(0.1)) and one.done and one.converged
    assert one.target == 0.5e-3
    machine.certify = lambda: Certificate(None, 5.0, 4.5, 1.1e-3)
    one._record(machine, 0.5e-3)
    assert not one.done and not one.converged and one.target == 0.25e-3


# Examples


@pytest.mark.parametrize(
    ("problem", "loss_of_zero", "scale"),
    [
        (Formulation("crammer_singer", False, 3), 1, 1),
        (Formulation("weston_watkins", False, 3), 2, 1),
        (Formulation("one_vs_rest", False, 3), 3, 1),
    ],
)
def test_rows_without_features_or_weight_are_no_examples(problem, loss_of_zero, scale):
    X = np.array([[1.0], [0.0], [2.0], [1e-146], [3.0], [1.1e-145]])
    norm = (X**2).ravel()
    cap = np.array([1.0, 2.0, 0.0, 4.0, 8.0, 16.0])
    made = Examples.of(problem, X, as_rows(X), norm, np.array([0, 1, 2, 0, 2, 1]), cap, np.arange(6))
    assert made.row.tolist() == [0, 4, 5] and made.label.tolist() == [0, 2, 1] and made.cap.tolist() == [1.0, 8.0, 16.0]
    assert made.constant == loss_of_zero * (2.0 + 4.0) and made.n == 3 and made.n_weights == 1
    assert made.norm_range == (norm[5], 9.0) and made.mean_curvature == pytest.approx((1 + 72.0) / 3)
    assert made.matrix.tolist() == [[1.0], [3.0], [1.1e-145]] and made.directions is None
    some = Examples.of(problem, X, as_rows(X), norm, np.array([2, 0]), cap[[4, 0]], np.array([4, 0]))
    assert some.row.tolist() == [4, 0] and some.norm.tolist() == [9.0, 1.0]
    none = Examples.of(problem, X, as_rows(X), norm, np.array([1]), cap[1:2], np.array([1]))
    assert none.n == 0 and none.norm_range == (0.0, 0.0) and none.mean_curvature == 0.0


def test_examples_of_sparse_rows_and_binary_machines():
    S = sp.csr_array(np.eye(3))
    rows = Csr(S.data, S.indices, S.indptr, S.shape)
    problem = Formulation("one_vs_rest", False, 1, 2.0, 0.5)
    made = Examples.of(problem, rows, as_rows(rows), np.ones(3), np.array([0, 1, 1]), np.ones(3), np.arange(3))
    assert made.cap.tolist() == [2.0] * 3 and made.label.tolist() == [-1, 0, 0]
    assert made.matrix.toarray().tolist() == np.eye(3).tolist()
    made.check_curvature()
    made.cap = np.array([1e308, 1e308, 1.0])
    with pytest.raises(ValueError, match="C times the squared norms of the rows overflows"):
        made.check_curvature()
