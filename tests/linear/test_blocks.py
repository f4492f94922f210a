"""Training from blocks on disk: the same optimum as in memory, certified, within bounds."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from multimargin import KernelSVM, LinearSVM, _core, load, save
from multimargin.data.blocks import BlocksError, BlockStore, write_blocks
from multimargin.linear import dual_files, sdm, stored_examples
from multimargin.linear.directions import SAMPLE
from multimargin.linear.dual_files import DualFiles
from multimargin.linear.stored_examples import StoredExamples, StoredProblem
from multimargin.problems.formulations import formulation
from tests.oracles import optimum, primal_objective, problems_of, weights_of

TOL = 0.02
IRIS, LABELS = load_iris(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(150)
IRIS, LABELS = IRIS[ORDER] / IRIS.max(axis=0), LABELS[ORDER]
NAMES = np.array(["setosa", "versicolor", "virginica"])[LABELS]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("stores") / "iris.blocks"
    made = write_blocks(path, [(IRIS, NAMES)], block_mb=0.0015)
    assert len(made) >= 3
    return made


def with_intercept(X):
    return np.column_stack([X, np.ones(len(X))])


@pytest.mark.parametrize("solver", ["sdm", "accelerated_sdm"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins", "one_vs_rest"])
def test_the_certificate_holds(store, formulation, loss, solver):
    model = LinearSVM(formulation, loss, solver=solver, tol=TOL).fit(store)
    assert model.converged_ and 0 <= model.worst_gap_ <= TOL
    (problem,) = problems_of(formulation, loss == "squared_hinge", with_intercept(IRIS), LABELS, np.ones(150))
    found, best = primal_objective(problem, weights_of(model)), optimum(problem)[0]
    assert model.primal_objective_ == pytest.approx(found, rel=1e-9)
    assert model.dual_objective_ <= best * (1 + 1e-6) <= found * (1 + 2e-6)
    in_memory = LinearSVM(formulation, loss, solver=solver, tol=TOL).fit(IRIS, NAMES)
    assert in_memory.dual_objective_ <= model.primal_objective_ * (1 + 1e-9)
    assert model.dual_objective_ <= in_memory.primal_objective_ * (1 + 1e-9)
    np.testing.assert_array_equal(model.classes_, in_memory.classes_)


def test_weights_of_rows_and_classes(tmp_path):
    weight = np.random.default_rng(1).integers(0, 3, 150).astype(float)
    X, options = sp.csr_array(IRIS), {"tol": 1e-3, "class_weight": {0: 2.0}, "fit_intercept": False}
    X[7] = 0  # a row without features has a loss all the same
    X.eliminate_zeros()
    stored = write_blocks(tmp_path / "s", [(X[:70], LABELS[:70], weight[:70]), (X[70:], LABELS[70:], weight[70:])])
    for more in ({}, {"class_weight": "balanced"}):
        streamed = LinearSVM(**options | more).fit(stored)
        in_memory = LinearSVM(**options | more).fit(X, LABELS, sample_weight=weight)
        assert streamed.primal_objective_ == pytest.approx(in_memory.primal_objective_, rel=2e-3)


def test_a_rare_class_of_small_rows(tmp_path):
    """Balanced weights give it half of the loss, and hardly anything of what a sample of the rows shows."""
    rng = np.random.default_rng(0)
    y = (np.arange(2000) % 100 == 0).astype(int)
    X = rng.normal(scale=0.1, size=(2000, 4)) + np.where(y, 1.0, 10.0)[:, None] * np.eye(4)[y]
    stored = write_blocks(tmp_path / "s", [(X, y)], block_mb=0.02)
    options = {"class_weight": "balanced", "fit_intercept": False, "tol": TOL}
    model = LinearSVM(solver="accelerated_sdm", **options).fit(stored)
    assert model.converged_
    assert model.primal_objective_ == pytest.approx(LinearSVM(**options).fit(X, y).primal_objective_, rel=2 * TOL)


def test_two_classes_and_every_layout(tmp_path):
    two = LABELS < 2
    reference = LinearSVM("one_vs_one", tol=TOL).fit(IRIS[two], LABELS[two])
    for number, (X, options) in enumerate(
        [
            (IRIS, {}),
            (IRIS, {"compress": True}),
            (IRIS.astype("f4"), {}),
            (sp.csr_array(IRIS), {"compress": True}),
        ]
    ):
        stored = write_blocks(tmp_path / str(number), [(X[two], LABELS[two])], block_mb=0.002, **options)
        model = LinearSVM("one_vs_one", tol=TOL).fit(stored)
        assert model.coef_.shape == (1, 4)
        assert model.primal_objective_ == pytest.approx(reference.primal_objective_, rel=2 * TOL)
        np.testing.assert_array_equal(model.predict(stored), model.predict(X[two]))


def test_scores_of_one_block_are_in_memory_at_a_time(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.random((4000, 5)), np.arange(4000) % 200
    stored = write_blocks(tmp_path / "many", [(X, y)], block_mb=0.005)  # each with a 32nd of the scores, or less
    model = LinearSVM("one_vs_rest", "squared_hinge", tol=0.9).fit(X, y)
    peaks = []
    for ask in (lambda: model.top_classes(stored, 3), lambda: model.decision_function(stored)):
        ask()  # what is loaded with the first call does not count
        tracemalloc.start()
        ask()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    scores = 8 * 4000 * 200
    assert peaks[0] < 0.4 * scores and peaks[1] < 1.4 * scores, peaks


def test_scores_stream(store):
    model = LinearSVM(tol=TOL).fit(store)
    np.testing.assert_array_equal(model.predict(store), model.predict(IRIS))
    np.testing.assert_allclose(model.decision_function(store), model.decision_function(IRIS))
    assert model.score(store) == model.score(IRIS, NAMES) > 0.9
    for given, wanted in zip(model.top_classes(store, 2), model.top_classes(IRIS, 2), strict=True):
        np.testing.assert_array_equal(given, wanted)
    assert model.top_classes(store)[0].shape == (len(IRIS), 3)
    with pytest.raises(ValueError, match="n must be"):
        model.top_classes(store, 4)
    with pytest.raises(ValueError, match="takes no y"):
        model.score(store, NAMES)
    with pytest.raises(ValueError, match="features"):
        LinearSVM().fit(IRIS[:, :2], NAMES).predict(store)


def test_the_result_depends_on_the_seed_only(store):
    one, other = (LinearSVM(tol=TOL, random_state=3).fit(store) for _ in range(2))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    bounded = LinearSVM(tol=TOL, random_state=3, memory_mb=100).fit(store)
    np.testing.assert_array_equal(one.coef_, bounded.coef_)
    assert not np.array_equal(one.coef_, LinearSVM(tol=TOL, random_state=4).fit(store).coef_)


def test_no_duals_are_kept(store, tmp_path):
    model = LinearSVM(tol=TOL).fit(IRIS, NAMES).fit(store)
    assert not hasattr(model, "dual_coef_") and not hasattr(model, "support_")
    with pytest.raises(NotFittedError, match="store of blocks"):
        model.label_doubt()
    save(model, tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict(IRIS), model.predict(IRIS))
    assert not list(store.path.parent.glob("multimargin-duals-*"))
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("multimargin-reader")]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"formulation": "one_vs_one"}, "'one_vs_one' is not trained on a store"),
        ({"formulation": "dag"}, "'crammer_singer', 'weston_watkins' and 'one_vs_rest'"),
        ({"solver": "newton"}, "solver='newton' needs X in memory"),
        ({"probability": True}, "probability=True needs X in memory"),
        ({"warm_start": True}, "warm_start=True needs X in memory"),
        ({"memory_mb": 1e-4}, r"the weights alone \(5 x 3, in 7 copies\) take 0.0021 MB"),
        (
            {"memory_mb": 0.005},
            "takes 0.0098 MB and the largest block 0.011 MB; raise memory_mb, or .* smaller block_mb",
        ),
        ({"memory_mb": 0}, "memory_mb must be"),
    ],
)
def test_refusals(store, options, words):
    with pytest.raises(ValueError, match=words):
        LinearSVM(**options).fit(store)


def test_more_refusals(store, tmp_path):
    with pytest.raises(ValueError, match="takes no y"):
        LinearSVM().fit(store, NAMES)
    with pytest.raises(TypeError, match="LinearSVM takes one in fit"):
        KernelSVM().fit(store)
    with pytest.raises(TypeError, match="does not take a store"):
        LinearSVM().partial_fit(store, None, classes=[0, 1])
    with pytest.raises(ValueError, match="only one class, 1"):
        LinearSVM().fit(write_blocks(tmp_path / "one", [(IRIS, np.ones(150, int))]))
    with pytest.raises(ValueError, match="all are zero"):
        LinearSVM().fit(write_blocks(tmp_path / "zero", [(IRIS, LABELS, np.zeros(150))]))
    with pytest.raises(ValueError, match="block-000000: the squared norm of row 0 overflows"):
        LinearSVM().fit(write_blocks(tmp_path / "huge", [(IRIS * 1e200, LABELS)]))


@pytest.mark.parametrize("scale", [1e-200, 1e-130, 1e149])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_what_float64_has_no_room_for_is_refused_as_in_memory(tmp_path, scale, layout):
    rows = layout(np.where(np.arange(150)[:, None] < 75, scale, 0) * IRIS)
    store = write_blocks(tmp_path / "scaled", [(rows[:75], LABELS[:75]), (rows[75:], LABELS[75:])])
    model = LinearSVM(fit_intercept=False)
    with pytest.raises(ValueError, match="scale the features") as in_memory:
        model.fit(rows, LABELS)
    with pytest.raises(ValueError, match="scale the features") as stored:
        model.fit(store)
    assert str(stored.value) == str(in_memory.value)


def test_weights_that_overflow_or_vanish(tmp_path):
    much = write_blocks(tmp_path / "much", [(IRIS, LABELS, np.full(150, 1e300))])
    with pytest.raises(ValueError, match="block-000000: C times the weights must be finite, in row 0: lower C"):
        LinearSVM(C=1e300).fit(much)
    with pytest.raises(ValueError, match="may reach inf"):
        LinearSVM(C=1e8).fit(much)
    kept = np.where(np.arange(150) < 100, 1.0, 1e-301)
    vanishing = write_blocks(tmp_path / "vanishing", [(IRIS, LABELS, kept)])
    none = write_blocks(tmp_path / "none", [(IRIS, LABELS, np.where(kept < 1, 0.0, 1.0))])
    one, other = (LinearSVM(tol=TOL).fit(store) for store in (vanishing, none))
    np.testing.assert_array_equal(one.coef_, other.coef_)


def test_rows_without_features_have_no_range(tmp_path):
    store = write_blocks(tmp_path / "zeros", [(np.zeros((4, 2)), [0, 1, 0, 1])])
    model = LinearSVM(fit_intercept=False).fit(store)
    assert model.converged_ and not model.coef_.any()


def test_a_damaged_block_is_named(tmp_path):
    stored = write_blocks(tmp_path / "s", [(IRIS, LABELS)], block_mb=0.0015)
    file = stored.path / stored.entries[1].file
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(BlocksError, match="block-000001: its checksum"):
        LinearSVM().fit(stored)
    assert not hasattr(LinearSVM(), "coef_") and not list(tmp_path.glob("multimargin-duals-*"))


def test_limits_and_callbacks_leave_a_certified_model(store):
    best = LinearSVM(tol=1e-4).fit(IRIS, NAMES).dual_objective_
    for options in ({"max_iter": 1}, {"time_limit": 1e-9}, {"callbacks": [lambda epoch: epoch["epoch"] == 2]}):
        with pytest.warns(ConvergenceWarning, match="stopped"):
            model = LinearSVM(tol=1e-9, **options).fit(store)
        assert not model.converged_ and model.dual_objective_ <= best * 1.001 <= model.primal_objective_ * 1.002
        assert np.isfinite(model.dual_gap_)


def test_stopping_by_violation(store):
    model = LinearSVM(stopping="violation", tol=0.1, C=0.1).fit(store)
    assert model.converged_ and model.history_["violation"][-1] < 0.1


def test_no_certificate_cuts_a_tour_short(store, monkeypatch):
    monkeypatch.setattr(sdm, "BUDGET", 100.0)  # a fraction of a block
    monkeypatch.setattr(sdm, "_CERTIFY_EVERY", 1e-9)  # epochs: whenever there may be one
    model = LinearSVM(solver="sdm", shrinking=False, tol=TOL).fit(store)
    assert model.converged_
    np.testing.assert_array_equal(model.history_["active_rows"], 150)


def test_every_tour_has_each_block_once_and_begins_with_another_than_the_last(tmp_path):
    X, y = load_iris(return_X_y=True)
    stored = write_blocks(tmp_path / "s", [(X[i : i + 50], y[i : i + 50]) for i in (0, 50, 100)], block_mb=0.002)
    problem = formulation("crammer_singer", "hinge", 3)
    examples = StoredExamples(
        StoredProblem(stored, 1.0, np.ones(3)),
        problem,
        DualFiles(tmp_path, len(stored)),
        read_ahead=False,
        accelerated=False,
    )
    blocks, _ = examples.schedule(problem, lists=True, seed=0)
    assert 2 < len(blocks) < 6
    try:
        tours = []
        for _ in range(30):
            blocks.begin_tour()
            tours.append([])
            while (loaded := blocks.next_of_tour()) is not None:
                tours[-1].append(loaded.number)
                blocks.put_back()
    finally:
        blocks.close()
    assert all(sorted(tour) == list(range(len(blocks))) for tour in tours)
    assert all(after[0] != before[-1] for before, after in pairwise(tours))
    assert len({tuple(tour) for tour in tours}) > 3  # in a new order each time


def test_a_disk_that_fills_up_leaves_the_last_certified_model(store, monkeypatch):
    kept, left = dual_files.write_container, 100 * len(store)

    def fills_up(*args, **kwargs):
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(28, "No space left on device")
        kept(*args, **kwargs)

    monkeypatch.setattr(dual_files, "write_container", fills_up)
    with pytest.warns(ConvergenceWarning, match="No space left on device"):
        model = LinearSVM(solver="sdm", tol=1e-12).fit(store)
    assert not model.converged_ and 1 < model.n_iter_ < 1000
    (problem,) = problems_of("crammer_singer", False, with_intercept(IRIS), LABELS, np.ones(150))
    assert model.primal_objective_ == pytest.approx(primal_objective(problem, weights_of(model)), rel=1e-9)


def test_a_tour_that_was_cut_short_meets_no_tolerance(store, tmp_path):
    problem = formulation("crammer_singer", "hinge", 3)
    examples = StoredExamples(
        StoredProblem(store, 1.0, np.ones(3)),
        problem,
        DualFiles(tmp_path, len(store)),
        read_ahead=False,
        accelerated=False,
    )
    blocks, tours = examples.schedule(problem, lists=True, seed=0)
    weights = _core.Weights(examples.n_weights, problem.lanes, False)

    def tour(cut_short):
        stopped, done = "budget", []
        while not done:
            stopped, done = tours.run(
                weights,
                tolerance=np.inf,
                certify_below=-np.inf,
                budget=100.0,
                max_epochs=1.0,
                shrinking=False,
                permute=True,
                rest_share=0.0,
                shrunk_effort=np.inf,
            )
            if cut_short:
                list(blocks)
        return stopped, done[0].visited == examples.n

    try:
        assert tour(cut_short=True) == ("epochs", False)
        assert tour(cut_short=False) == ("tolerance", True)
    finally:
        blocks.close()


INTERRUPTED = """
import signal, sys, threading, time, _thread
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
import numpy as np
from multimargin import LinearSVM
from multimargin.data.blocks import open_blocks
store = open_blocks(sys.argv[1])
def press(epoch):
    if epoch["epoch"] == 40:
        _thread.interrupt_main()
model = LinearSVM(tol=1e-12, C=10, max_iter=10**6, callbacks=[press])
try:
    model.fit(store)
except KeyboardInterrupt:
    print(model.converged_, 0 < model.dual_gap_ < 1, np.isfinite(model.coef_).all(), threading.active_count())
"""


def test_an_interrupt_leaves_the_last_certified_model(store):
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, str(store.path)], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True", "True", "1"], done.stderr
    assert not list(store.path.parent.glob("multimargin-duals-*"))


def test_an_interrupt_before_any_certificate_takes_a_moment_for_one(store):
    def interrupt(record):
        raise KeyboardInterrupt

    model = LinearSVM(tol=1e-9, callbacks=[interrupt])
    with pytest.raises(KeyboardInterrupt):
        model.fit(store)
    assert not model.converged_ and 0 < model.dual_gap_ < 1
    assert model.score(store) > 0.5


BOUNDED = """
import sys, tracemalloc, warnings
from multimargin import LinearSVM
from multimargin.data.blocks import open_blocks
store = open_blocks(sys.argv[1])
model = LinearSVM(memory_mb=4, max_iter=1)
warnings.simplefilter("ignore")
tracemalloc.start()
model.fit(store)
print(tracemalloc.get_traced_memory()[1])
"""


def test_memory_is_bounded(tmp_path):
    """Compressed blocks are unpacked to memory: far more rows than the bound would hold are trained within it. In a
    process of its own, as memory is counted for all threads."""
    rng = np.random.default_rng(0)
    chunks = ((rng.standard_normal((2000, 100)), rng.integers(0, 3, 2000)) for _ in range(10))  # 16 MB
    stored = write_blocks(tmp_path / "s", chunks, block_mb=0.5, compress=True)
    done = subprocess.run([sys.executable, "-c", BOUNDED, str(stored.path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert 2**19 < int(done.stdout) < 4 * 2**20


def test_the_sample_counts_and_only_the_accelerated_loop_takes_one(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    stored = write_blocks(tmp_path / "s", [(rng.standard_normal((300, 1000)), rng.integers(0, 3, 300))], block_mb=0.1)
    assert 8 * SAMPLE * 1001 > 1.8 * 2**20
    options = {"memory_mb": 1.8, "tol": 0.5}
    with pytest.raises(ValueError, match=r"a sample of the rows takes 2 MB"):
        LinearSVM(solver="accelerated_sdm", **options).fit(stored)
    monkeypatch.setattr(stored_examples, "fill_sample", None)
    LinearSVM(solver="sdm", **options).fit(stored)


def test_the_first_pass_over_a_store_counts(tmp_path, monkeypatch):
    """For the time limit, and in the history."""
    X, y = np.eye(6), np.arange(6) % 3
    store, load, slow = write_blocks(tmp_path / "s", [(X, y)]), BlockStore.load, 0.2
    monkeypatch.setattr(BlockStore, "load", lambda *args: (time.sleep(slow), load(*args))[1])
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model = LinearSVM(time_limit=slow, tol=1e-12, solver="sdm").fit(store)
    assert model.history_["seconds"][0] > slow
    assert 0 < model.dual_gap_ <= 1


def test_dense_rows_take_few_more_epochs_than_in_memory(tmp_path):
    """Without the directions that all rows share they took more than a hundred."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    parts = [(X[at : at + 450], y[at : at + 450]) for at in range(0, len(y), 450)]
    store = write_blocks(tmp_path / "digits.blocks", parts, block_mb=X.nbytes / 4e6)
    assert len(store) >= 4
    model = LinearSVM(tol=1e-2).fit(store)
    assert model.converged_
    assert model.history_["solver"][-1] == "accelerated_sdm"
    assert model.n_iter_ <= 60
    optimum = LinearSVM(tol=1e-5).fit(X, y)
    assert optimum.dual_objective_ * (1 - 1e-9) <= model.primal_objective_ <= optimum.primal_objective_ * 1.0101
