"""What happens seldom: no examples, no certificate yet, a disk that is full at once, numbers that are none."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin import LinearSVM
from multimargin.data.blocks import write_blocks
from multimargin.data.csr import Csr
from multimargin.data.rows import as_rows
from multimargin.kernel.machine import KernelMachine
from multimargin.linear import dual_files, sparse_scoring
from multimargin.linear.algorithm import Settings
from multimargin.linear.checkpoint import CheckpointError
from multimargin.linear.directions import leading
from multimargin.linear.dual_files import DualFiles
from multimargin.linear.examples import Examples
from multimargin.linear.machine import Machine, NotFinite
from multimargin.linear.master_problem import solve_master
from multimargin.linear.solvers import SOLVERS
from multimargin.linear.stored_examples import StoredExamples, StoredProblem
from multimargin.linear.training import weights_of
from multimargin.problems.formulations import Formulation, formulation
from tests.stops import InterruptAt

X, Y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 3


@pytest.mark.parametrize("solver", SOLVERS)
def test_no_examples_are_no_trouble(solver):
    squared = SOLVERS[solver].losses[0] == "squared_hinge"
    problem, rows = Formulation("one_vs_rest", squared, 2), as_rows(np.zeros((4, 2)))
    examples = Examples.of(problem, np.zeros((4, 2)), rows, np.zeros(4), np.arange(4) % 2, np.ones(4), np.arange(4))
    algorithm = SOLVERS[solver].make(Settings(options=SOLVERS[solver].options))
    machine = Machine(problem, examples, algorithm, seed=0)
    algorithm.start(machine, warm=False)
    assert algorithm.advance(machine, 5.0) == []
    assert machine.done and machine.converged
    assert machine.certificate.primal == machine.certificate.dual == 8.0  # a loss of 1 in both lanes


def test_weights_without_a_certificate():
    problem, rows = Formulation("crammer_singer", False, 3), as_rows(X)
    examples = Examples.of(problem, X, rows, rows.squared_norms(), Y, np.ones(40), np.arange(40))
    algorithm = SOLVERS["sdm"].make(Settings(options=SOLVERS["sdm"].options))
    machine = Machine(problem, examples, algorithm, seed=0)
    algorithm.start(machine, warm=False)
    algorithm.weights.array[:, :3] = 2.0
    W, told = weights_of(machine)
    assert W.dtype == np.float64 and (W[:, :3] == 2.0).all() and np.isnan(told).all() and len(told) == 3
    machine.certify()
    W, told = weights_of(machine)
    assert np.shares_memory(W, machine.certificate.weights.array)
    assert told == (machine.certificate.primal, machine.certificate.dual, machine.certificate.worst_gap)


@pytest.fixture
def store(tmp_path):
    return write_blocks(tmp_path / "rows.blocks", [(X, Y)], block_mb=0.0004)


def test_a_disk_that_is_full_from_the_start(store, tmp_path, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(dual_files, "write_container", full)
    with pytest.raises(OSError, match="No space left on device; make room, or write elsewhere"):
        LinearSVM().fit(store)
    with pytest.raises(OSError, match="No space left on device"):
        LinearSVM(checkpoint=tmp_path / "state").fit(store)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.blocks"]


@pytest.mark.parametrize("stored", [False, True])
def test_objectives_that_are_none_are_the_fault_of_a_file_that_there_is(store, tmp_path, monkeypatch, stored):
    data, path = (store,) if stored else (X, Y), tmp_path / "state"
    model = LinearSVM(solver="sdm", tol=1e-9, checkpoint=path, callbacks=[InterruptAt(2)])
    with pytest.raises(KeyboardInterrupt):
        model.fit(*data)

    def none(machine):
        raise NotFinite("the objective is not a finite number")

    monkeypatch.setattr(Machine, "certify", none)
    with pytest.raises(CheckpointError, match="its numbers lead to others that are none"):
        model.set_params(callbacks=None).fit(*data)
    with pytest.raises(NotFinite, match="the objective is not a finite number"):
        LinearSVM(solver="sdm", tol=1e-9).fit(*data)


def test_an_interrupt_before_there_is_anything(store, monkeypatch):
    monkeypatch.setattr("multimargin.linear.machine.BUDGET", 1.0)  # a certificate would take more than a moment
    monkeypatch.setattr("multimargin.linear.sdm.BUDGET", 1.0)
    model = LinearSVM(solver="sdm", callbacks=[InterruptAt(1)])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert np.isnan(model.primal_objective_) and np.isfinite(model.coef_).all() and model.coef_.any()


def test_directions_of_a_sample_that_come_back(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 4)) + 9.0
    stored = write_blocks(tmp_path / "s", [(rows, np.arange(400) % 3)], block_mb=0.004)
    problem = formulation("crammer_singer", "hinge", 3)

    def made():
        given = StoredProblem(stored, 1.0, np.ones(3))
        return StoredExamples(given, problem, DualFiles(tmp_path, len(stored)), read_ahead=False, accelerated=True)

    one, other = made(), made()
    state = one.state()
    assert set(state) == {"U", "squares"} and one.directions is not None
    sample = np.vstack([rows[::2], rows[1::2]])
    assert len(state["squares"]) == leading(np.column_stack([sample, np.ones(400)]))[0].shape[1] == 1
    assert state["squares"][0] == pytest.approx((rows**2).sum() / 400 + 1, rel=0.02)
    other.set_state({"U": -state["U"], "squares": 2 * state["squares"]})
    assert other.state()["U"].tolist() == (-state["U"]).tolist() and other.mean_curvature < one.mean_curvature
    norms = (rows**2).sum(axis=1) + 1
    assert 0 < one.mean_curvature < 0.2 * norms.mean()
    for wrong in (np.zeros(1), -state["squares"], np.full(1, np.inf), np.ones(2)):
        with pytest.raises(ValueError, match="directions along which nothing is"):
            other.set_state(state | {"squares": wrong})
    with pytest.raises(ValueError, match="or none where one is"):
        other.set_state({})


def test_a_master_whose_products_are_none():
    weight, slack = solve_master(np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([1.0, 1.0]))
    assert np.isfinite(weight).all() and (weight >= 0).all() and weight.sum() <= 1 + 1e-9 and slack >= 0


@pytest.mark.parametrize("n_threads", [1, 3])
def test_scores_of_many_slabs(monkeypatch, n_threads):
    monkeypatch.setattr(sparse_scoring, "_SLAB", 7)
    rows = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0))
    W = sp.csr_array(np.random.default_rng(1).normal(size=(3, 5)))
    weights, intercept = Csr(W.data, W.indices, W.indptr, W.shape), np.arange(5) * 0.1
    wanted = rows.toarray() @ W.toarray() + intercept
    found = sparse_scoring.sparse_scores(as_rows(rows), weights, intercept, n_threads)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    lanes, scores = sparse_scoring.sparse_top(as_rows(rows), weights, intercept, 2, n_threads)
    np.testing.assert_array_equal(lanes, np.argsort(-wanted, axis=1, kind="stable")[:, :2])
    np.testing.assert_allclose(scores, -np.sort(-wanted, axis=1)[:, :2], rtol=1e-12, atol=1e-12)


# A state of a kernel machine


class Core:
    n_examples, bias = 2, 0.0

    def __init__(self, *duals):
        self.held, self.given = np.array(duals), None

    def duals(self):
        return self.held

    def state(self):
        return {"x": np.array([7])}

    def set_state(self, state):
        self.given = state


def kernel_machine(*duals):
    return KernelMachine(
        Formulation("crammer_singer", False, 2), Core(*duals), SimpleNamespace(counts=lambda: np.zeros(3, int)),
        number=0, passes=0, epochs=0.0, counted=np.zeros(3, int), solver="block", tol=1e-3, stopping="gap",
        patience=np.inf, certifier=SimpleNamespace(label=np.array([0, 1], np.int32), cap=np.array([1.0, 2.0])),
    )  # fmt: skip


def test_a_kernel_machine_goes_on():
    one = kernel_machine([0.0, 0.0], [0.0, 0.0])
    one.epochs, one.n_passes, one.halved, one.halved_at, one.worst_gap = 2.5, 7, 0.25, 1.5, 0.125
    one.primal, one.dual, one.done, one.converged, one.indefinite = 4.0, 3.5, True, False, True
    other = kernel_machine([1.0, -1.0], [-2.0, 2.0])
    other.set_state(one.state())
    for name in ("epochs", "n_passes", "halved", "halved_at", "worst_gap", "primal", "dual", "done", "indefinite"):
        assert getattr(other, name) == getattr(one, name), name
    assert {name: values.tolist() for name, values in other.core.given.items()} == {"x": [7]}
    for duals in ([[1.1, -1.1], [0, 0]], [[-1.0, 1.0], [0, 0]], [[1.0, -0.5], [0, 0]]):
        with pytest.raises(ValueError, match=r"outside of their bounds|do not sum to zero"):
            kernel_machine(*duals).set_state(one.state())
    for name in ("epochs", "n_passes"):
        with pytest.raises(ValueError, match=f"'{name}' must be"):
            other.set_state(one.state() | {name: np.array([-1])})
