"""Blocks that threads visit side by side: the same optimum, and the same bits every time."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin import LinearSVM, _core
from multimargin.linear import directions as directions_module
from multimargin.linear import training
from multimargin.linear.checkpoint import CheckpointError
from multimargin.linear.directions import coherence
from multimargin.linear.interrupts import Cancelled
from multimargin.linear.machine import Machine
from multimargin.linear.state import State
from tests.oracles import Problem, duals_of, run
from tests.stops import StopAt

JOINT = ("crammer_singer", "weston_watkins")
UNHEARD = 256  # visits of others that a block does not see, of two blocks those of a round


def rows(n=3000, features=30, classes=12, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, size=n)
    return rng.normal(size=(classes, features))[y] + 2.0 * rng.normal(size=(n, features)), y


def problem_of(policy, lanes=6, n=1300, squared=False):
    X, y = rows(n, 9, lanes)
    return Problem(policy, squared, lanes, X, y, np.full(n, 0.05))


def blocks_of(problem, n_blocks, *, pooled, rows=None):
    rows = _core.Rows.dense(problem.X, 0.0) if rows is None else rows
    parts = np.array_split(np.arange(len(problem.X)), n_blocks)
    return [problem.block(rows=rows, which=part, pooled=pooled, seed=seed) for seed, part in enumerate(parts)]


# The core


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("policy", JOINT)
def test_rounds_of_threads_are_visits_on_copies_that_follow_each_other(policy, pooled, squared):
    problem = problem_of(policy, squared=squared)
    blocks, weights = blocks_of(problem, 2, pooled=pooled), problem.weights()
    run(_core.Passes(blocks, side_by_side=True), weights)

    others, copies = blocks_of(problem, 2, pooled=pooled), [problem.weights() for _ in range(2)]
    passes = [_core.Passes([block]) for block in others]
    for _ in range(-(-650 // UNHEARD)):
        before = [duals_of(block, problem.lanes) for block in others]
        for one, copy, block in zip(passes, copies, others, strict=True):
            cost_of_visit = block.cost_of_pass / block.n_examples
            run(one, copy, budget=(UNHEARD - 0.5) * cost_of_visit)
        moves = [
            problem.X[part].T @ (duals_of(block, problem.lanes) - old)
            for part, block, old in zip((slice(650), slice(650, None)), others, before, strict=True)
        ]
        copies[0].array[:, : problem.lanes] += moves[1]
        copies[1].array[:, : problem.lanes] += moves[0]

    for block, other in zip(blocks, others, strict=True):
        np.testing.assert_allclose(duals_of(block, problem.lanes), duals_of(other, problem.lanes), atol=1e-11)
    np.testing.assert_allclose(weights.array, copies[0].array, atol=1e-11)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("lanes", [5, 20, 300])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("n_blocks", [2, 3, 5])
def test_weights_are_the_sum_of_the_duals(n_blocks, single, lanes, storage):
    problem = problem_of("crammer_singer", lanes, n=2500)
    X = sp.csr_array(problem.X)
    stored = _core.Rows.csr(X.data, X.indices, X.indptr, X.shape[1], 0.0) if storage == "csr" else None
    blocks, weights = blocks_of(problem, n_blocks, pooled=True, rows=stored), problem.weights(single)
    _, records = run(_core.Passes(blocks, side_by_side=True), weights, max_epochs=4.0, permute=True, shrinking=True)
    duals = np.concatenate([duals_of(block, lanes) for block in blocks])
    np.testing.assert_allclose(weights.array[:, :lanes], problem.X.T @ duals, atol=2e-4 if single else 1e-11)
    assert sum(record.visited for record in records) >= 4 * len(problem.X) and np.abs(duals).max() == 0.05


def test_steps_that_overshoot_together_end_in_step():
    """Equal rows in both blocks: what the one does the other has done as well, and their sum is twice too much."""
    X, y = np.ones((2000, 40)), np.arange(2000) // 4 % 2 + np.arange(2000) % 2
    problem = Problem("crammer_singer", False, 3, X, y, np.full(2000, 0.01))
    blocks, weights = blocks_of(problem, 2, pooled=True), problem.weights()
    passes = _core.Passes(blocks, side_by_side=True)
    run(passes, weights, max_epochs=200.0, permute=True)
    alone, own = problem.block(pooled=True), problem.weights()
    run(_core.Passes([alone]), own, max_epochs=200.0, permute=True)
    dual = [0.5 * (V.array**2).sum() - _own_duals(problem, bs) for V, bs in ((weights, blocks), (own, [alone]))]
    assert dual[0] == pytest.approx(dual[1], rel=1e-6)
    assert passes.state()["group"][0] < UNHEARD


def _own_duals(problem, blocks):
    duals = np.concatenate([duals_of(block, problem.lanes) for block in blocks])
    return duals[np.arange(len(duals)), problem.label].sum()


@pytest.mark.parametrize(("name", "value"), [("group", 10_000), ("least_violation", -1.0)])
def test_forged_states_are_refused(name, value):
    problem = problem_of("crammer_singer")
    passes = _core.Passes(blocks_of(problem, 2, pooled=True), side_by_side=True)
    passes.set_state(passes.state())  # nothing is known yet
    run(passes, problem.weights())
    state: State = passes.state()
    passes.set_state(state)
    state[name] = np.array([value], dtype=state[name].dtype)
    with pytest.raises(ValueError, match="out of step"):
        passes.set_state(state)


# LinearSVM


@pytest.fixture
def all_rows_are_wide(monkeypatch):
    monkeypatch.setattr(training, "_WIDE_ROW", 1.0)
    monkeypatch.setattr(training, "_EXAMPLES_OF_THREAD", 500)


def fit(X, y, formulation="crammer_singer", loss="hinge", **options):
    options = dict(solver="accelerated_sdm", C=0.05) | options
    return LinearSVM(formulation, loss, **options).fit(X, y)


@pytest.mark.usefixtures("all_rows_are_wide")
@pytest.mark.parametrize("n_jobs", [2, 3])
@pytest.mark.parametrize("solver", ["sdm", "accelerated_sdm"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("formulation", JOINT)
def test_threads_reach_the_same_optimum_and_fits_repeat(formulation, loss, solver, n_jobs):
    X, y = rows()
    options = dict(solver=solver, tol=1e-5, max_iter=5000)
    one, two, again = (fit(X, y, formulation, loss, n_jobs=jobs, **options) for jobs in (1, n_jobs, n_jobs))
    assert two.converged_ and two.dual_gap_ <= 1e-5
    assert two.primal_objective_ == pytest.approx(one.primal_objective_, rel=1e-5)
    assert not np.array_equal(two.coef_, one.coef_)  # it did go another way
    np.testing.assert_array_equal(two.coef_, again.coef_)
    np.testing.assert_array_equal(two.dual_coef_.toarray(), again.dual_coef_.toarray())


@pytest.mark.usefixtures("all_rows_are_wide")
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array, np.float32])
def test_every_storage_with_weights_and_intercept(storage):
    X, y = rows()
    weight = np.random.default_rng(1).choice([0.0, 0.5, 2.0], size=len(y))
    one, two = (
        LinearSVM(C=0.05, solver="accelerated_sdm", tol=1e-5, n_jobs=jobs, class_weight={0: 3.0}).fit(
            storage(X), y, sample_weight=weight
        )
        for jobs in (1, 2)
    )
    assert two.dual_gap_ <= 1e-5
    assert two.primal_objective_ == pytest.approx(one.primal_objective_, rel=1e-5)
    assert not np.array_equal(two.coef_, one.coef_)


@pytest.mark.usefixtures("all_rows_are_wide")
def test_the_duals_are_those_of_their_rows():
    X, y = rows()
    model = fit(X, y, solver="sdm", n_jobs=3, tol=1e-6, max_iter=5000)
    np.testing.assert_allclose(model.coef_, model.dual_coef_.T @ X, atol=1e-9)
    assert (model.dual_coef_.toarray()[np.arange(len(y)), y] >= 0).all()


@pytest.mark.usefixtures("all_rows_are_wide")
@pytest.mark.parametrize("call", [1, 4])
def test_a_training_that_was_stopped_goes_on_to_the_same_bits(call, tmp_path, monkeypatch):
    monkeypatch.setattr("multimargin.linear.sdm.BUDGET", 5e4)
    X, y = rows()
    file, options = tmp_path / "run.state", dict(n_jobs=2, tol=1e-4)
    with pytest.warns(UserWarning):
        fit(X, y, checkpoint=file, checkpoint_every=0, callbacks=[StopAt(call)], **options)
    assert file.exists()
    whole, resumed = fit(X, y, **options), fit(X, y, checkpoint=file, **options)
    np.testing.assert_array_equal(resumed.coef_, whole.coef_)
    assert resumed.dual_gap_ == whole.dual_gap_


@pytest.mark.parametrize(
    ("shape", "n_jobs", "expected"),
    [
        ((8000, 400, 60), 2, 2),
        ((8000, 400, 60), 1, 1),
        ((8000, 400, 60), 64, 7),  # examples are too few for more
        ((40000, 200, 110), 64, 16),
        ((8000, 400, 30), 2, 1),  # rows are too narrow
        ((8000, 40000, 30), 2, 1),  # weights are too many
        ((1500, 400, 60), 2, 1),
    ],
)
def test_threads_take_part_where_rows_are_wide(shape, n_jobs, expected):
    assert blocks(shape, n_jobs) == expected


@pytest.mark.parametrize("change", [{"solver": "pegasos"}, {"stopping": "violation"}, {"formulation": "one_vs_rest"}])
def test_other_methods_keep_one_block(change):
    assert blocks((8000, 400, 60), 2, **change) == 1


def blocks(shape, n_jobs, solver="sdm", stopping="gap", formulation="crammer_singer"):
    n, features, lanes = shape
    X, settings = np.broadcast_to(0.0, (n, features)), training.Settings(stopping=stopping)
    rows, none = SimpleNamespace(n_rows=n, n_weights=features), np.empty(0)
    request = training.Request(X, rows, *[none] * 3, lanes, formulation, "hinge", solver, settings, None, n_jobs, 0)
    problem = training.formulation(formulation, "hinge", lanes)
    return training.blocks_side_by_side(request, training.Task(problem, slice(0, lanes), np.arange(n), np.zeros(n)))


@pytest.mark.usefixtures("all_rows_are_wide")
def test_a_checkpoint_of_another_number_of_threads_is_refused_by_that(tmp_path, monkeypatch):
    monkeypatch.setattr("multimargin.linear.sdm.BUDGET", 5e4)
    X, y = rows()
    file = tmp_path / "run.state"
    with pytest.warns(UserWarning):
        fit(X, y, n_jobs=2, checkpoint=file, checkpoint_every=0, callbacks=[StopAt(1)])
    for other in (1, 3):
        with pytest.raises(CheckpointError, match="n_jobs"):
            fit(X, y, n_jobs=other, checkpoint=file)
    assert fit(
        X[:400], y[:400], n_jobs=3, checkpoint=tmp_path / "one.state"
    ).converged_  # one thread, whatever is asked


@pytest.mark.usefixtures("all_rows_are_wide")
def test_threads_stop_evaluating_when_one_is_interrupted(monkeypatch):
    """Machine.slices asks before every slice whether that is so."""
    X, y = rows()
    seen, begun = [], threading.Event()

    def interrupted(self, blocks=None, most=0):
        (block,) = blocks
        if block is self.blocks[0]:
            assert begun.wait(60)
            raise KeyboardInterrupt
        begun.set()
        while not self.cancelled:
            time.sleep(0.001)
        seen.append(block)
        raise Cancelled
        yield

    evaluate, slices = Machine._evaluate, Machine.slices

    def evaluating(self, *given):
        monkeypatch.setattr(Machine, "slices", slices if seen else interrupted)
        try:
            return evaluate(self, *given)
        finally:
            monkeypatch.setattr(Machine, "slices", slices)

    monkeypatch.setattr(Machine, "_evaluate", evaluating)
    with pytest.raises(KeyboardInterrupt):
        fit(X, y, n_jobs=2)
    assert len(seen) == 1


@pytest.mark.usefixtures("all_rows_are_wide")
@pytest.mark.filterwarnings("ignore:LinearSVM stopped")
@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
def test_rows_that_are_all_alike_are_left_to_one_thread(apart, intercept):
    X, y = rows()
    X = X if apart else 30.0 + 0.1 * X
    one, two = (fit(X, y, n_jobs=jobs, fit_intercept=intercept, max_iter=5) for jobs in (1, 2))
    assert np.array_equal(one.coef_, two.coef_) == (not apart)


def test_coherence_is_the_mean_of_the_cosines():
    X = np.array([[3.0, 4.0], [4.0, 3.0], [0.0, 2.0]])
    cosines = [24 / 25, 4 / 5, 3 / 5]
    assert coherence(X, np.arange(3), 0.0, None) == pytest.approx(np.mean(cosines))
    assert coherence(sp.csr_array(X), np.array([0, 2]), 0.0, None) == pytest.approx(4 / 5)
    U = np.array([0.0, 1.0])
    held = _core.Directions(1, U, X @ U).with_ratios(
        np.array([4.0])
    )  # a quarter is left of the second feature's squares
    left = X * [1.0, 0.5]
    left /= np.linalg.norm(left, axis=1, keepdims=True)
    assert coherence(X, np.arange(3), 0.0, held) == pytest.approx(
        np.mean([left[0] @ left[1], left[0] @ left[2], left[1] @ left[2]])
    )
    assert coherence(np.hstack([X, np.ones((3, 1))]), np.arange(3), 0.0, None) == coherence(X, np.arange(3), 1.0, None)
    assert np.isnan(coherence(1e200 * X, np.arange(3), 0.0, None))


def test_rows_too_long_for_a_dense_sample_are_left_to_one_thread(monkeypatch):
    X = np.random.RandomState(0).normal(size=(300, 8))
    monkeypatch.setattr(directions_module, "_MOST_BYTES", 8 * 128 * 9)
    assert 0 < coherence(X, np.arange(300), 1.0, None) < 1  # of 128 rows
    monkeypatch.setattr(directions_module, "_MOST_BYTES", 8 * 128 * 9 - 1)
    assert np.isnan(coherence(X, np.arange(300), 1.0, None))
