"""Checkpoints: a training that was stopped, however that happened, goes on to the result it would have had."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning

from multimargin import KernelSVM, LinearSVM, LinearSVMCV, load, save
from multimargin.data.container import read_container, write_container
from multimargin.linear import directions, training
from multimargin.linear.checkpoint import CHECKPOINT, CheckpointError
from multimargin.linear.interrupts import interrupt
from multimargin.linear.solvers import SOLVERS
from tests.stops import InterruptAt, StopAt

FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
SLOW = {"pegasos": 0.05, "exponentiated_gradient": 1e-2}  # tolerances of methods that take long for smaller ones
LINEAR = [name for name, solver in SOLVERS.items() if solver.has_checkpoints]
STRATEGIES = [
    {},
    {"selection": "cyclic"},
    {"selection": "bmg", "threshold": "max", "threshold_factor": 1.0},
    {"selection": "kkt", "threshold": "logarithmic"},
    {"selection": "random", "threshold": "linear", "step": "smo"},
]


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X[::2], y[::2]


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(400, 20, centers=6, cluster_std=7.0, random_state=0)


@pytest.fixture(autouse=True)
def short_slices(monkeypatch):
    """Some passes, and a part of one."""
    for solver in ("sdm", "tron", "primal_cd", "cutting_plane"):
        monkeypatch.setattr(f"multimargin.linear.{solver}.BUDGET", 5e4)
    monkeypatch.setattr("multimargin.kernel.machine._BUDGET", 1e4)


def assert_same(model, whole):
    for name in ("intercept_", "support_") if isinstance(model, KernelSVM) else ("intercept_", "coef_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(whole, name))
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(model.dual_coef_, part), getattr(whole.dual_coef_, part))
    for name in ("primal_objective_", "dual_objective_", "worst_gap_", "n_iter_", "converged_"):
        assert getattr(model, name) == getattr(whole, name), name
    for name in whole.history_.dtype.names:
        if name != "seconds":
            np.testing.assert_array_equal(model.history_[name], whole.history_[name], err_msg=name)
    assert np.all(np.diff(model.history_["seconds"]) >= 0)


def stopped(model, X, y, callback, every):
    """Whether a training was stopped by its callback."""
    model.set_params(callbacks=[callback], checkpoint_every=every)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        return callback.left <= 0
    except KeyboardInterrupt:
        return True


def check_goes_on(make, X, y, path, *, stops=3):
    """Stopped again and again, by an interrupt or a callback, it ends where one that was not stopped does."""
    whole = make().fit(X, y)
    total, kinds = len(whole.history_), (InterruptAt, StopAt)
    for stop in range(stops):
        every = 0 if stop == 1 else 1e9
        model = make(checkpoint=path)
        stopped(model, X, y, kinds[stop % 2](max(1, total // (stops + 1))), every)
        if stop == 0:  # a callback that stops it may come with the end
            assert path.exists()
    model = make(checkpoint=str(path), checkpoint_every=1e9).fit(X, y)
    assert not path.exists()
    assert_same(model, whole)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("solver", LINEAR)
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_linear(iris, tmp_path, formulation, solver, loss):
    if formulation not in SOLVERS[solver].formulations or loss not in SOLVERS[solver].losses:
        with pytest.raises(ValueError, match=f"solver='{solver}' has"):
            LinearSVM(formulation, loss, solver=solver).fit(*iris)
        return

    def make(**more):
        return LinearSVM(formulation, loss, C=0.1, tol=SLOW.get(solver, 1e-3), solver=solver, max_iter=10**6, **more)

    check_goes_on(make, *iris, tmp_path / "state")


@pytest.mark.parametrize("solver", LINEAR)
@pytest.mark.parametrize("kind", ["float32", "sparse", "violation", "dense duals", "float64", "two classes", "lanes"])
def test_linear_of_every_kind(blobs, tmp_path, solver, kind):
    X, y = blobs
    more = {"float64": {"tol": 9e-6}, "dense duals": {"solver_options": {"restricted_step": False}}}.get(kind, {})
    if kind == "violation":
        more = {"stopping": "violation"}
    if kind == "violation" and "violation" not in SOLVERS[solver].stoppings:
        more = {"tol": 1e-2}
    if kind == "dense duals" and "restricted_step" not in SOLVERS[solver].options:
        more = {}
    if solver in SLOW:
        more = {"tol": SLOW[solver]}
    X = {"float32": X.astype(np.float32), "sparse": sp.csr_array(np.where(np.abs(X) > 5, X, 0))}.get(kind, X)
    y = y % 2 if kind == "two classes" else y
    formulation = "one_vs_rest" if kind == "lanes" else "crammer_singer"
    if formulation not in SOLVERS[solver].formulations:
        formulation = SOLVERS[solver].formulations[0]

    def make(**given):
        return LinearSVM(formulation, SOLVERS[solver].losses[0], C=0.01, solver=solver, max_iter=10**6, **more, **given)

    check_goes_on(make, X, y, tmp_path / "state")


def shared_mean(blobs):
    X, y = blobs
    return X + 30.0, y


@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_one"])
def test_directions_go_on_as_they_were_found(blobs, tmp_path, monkeypatch, formulation):
    """Another BLAS may find the same ones with other signs."""
    X, y = shared_mean(blobs)
    path, options = tmp_path / "state", {"solver": "accelerated_sdm", "C": 0.01, "tol": 1e-4}
    whole = LinearSVM(formulation, **options).fit(X, y)
    model = LinearSVM(formulation, checkpoint=path, **options)
    assert stopped(model, X, y, InterruptAt(len(whole.history_) // 2), 1e9)
    leading = directions.leading
    monkeypatch.setattr(directions, "leading", lambda sample: -leading(sample))
    assert_same(model.set_params(callbacks=None).fit(X, y), whole)


def test_directions_that_are_none_are_refused(blobs, tmp_path):
    X, y = shared_mean(blobs)
    path, options = tmp_path / "state", {"solver": "accelerated_sdm", "C": 0.01, "tol": 1e-4}
    assert stopped(LinearSVM(checkpoint=path, **options), X, y, InterruptAt(5), 1e9)
    description, arrays = read_container(path, CHECKPOINT)
    write_container(path, CHECKPOINT, description, arrays | {"training.U": 0.5 * arrays["training.U"]})
    with pytest.raises(CheckpointError, match="directions that are not orthonormal"):
        LinearSVM(checkpoint=path, **options).fit(X, y)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("solver", ["block", "decomposition"])
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_kernel(blobs, tmp_path, formulation, solver, fit_intercept):
    def make(**more):
        small = {"working_set": 30} if solver == "block" else {}
        return KernelSVM(formulation, C=0.3, solver=solver, fit_intercept=fit_intercept, **small, **more)

    check_goes_on(make, *blobs, tmp_path / "state")


@pytest.mark.parametrize(
    "strategy", STRATEGIES, ids=lambda strategy: "-".join(map(str, strategy.values())) or "default"
)
def test_decompositions(iris, tmp_path, strategy):
    def make(**more):
        return KernelSVM(C=10.0, solver="decomposition", max_iter=10**6, **strategy, **more)

    check_goes_on(make, *iris, tmp_path / "state")


@pytest.mark.parametrize(
    "more",
    [
        {"cache_mb": 0.1},  # tiles leave
        {"cache_mb": 0.001},  # nearly none is ever there
        {"tol": 1e-7},  # float64
        {"kernel": "linear", "C": 100.0},  # float32, then float64
        {"kernel": "poly", "working_set": 20},
        {"kernel": lambda X, Y: np.exp(-0.001 * ((X[:, None] - Y[None]) ** 2).sum(axis=2))},
        {"formulation": "one_vs_one", "working_set": 2},
        {"formulation": "one_vs_one", "solver": "decomposition", "cache_mb": 0.1},
    ],
    ids=lambda options: ", ".join(
        f"{name}={'callable' if callable(value) else value}" for name, value in options.items()
    ),
)
def test_kernels_of_every_kind(blobs, tmp_path, more):
    X, y = blobs

    def make(**given):
        return KernelSVM(max_iter=10**6, **more, **given)

    check_goes_on(make, X[:200], y[:200], tmp_path / "state")


def test_sparse_rows_and_kernels(blobs, tmp_path):
    X, y = sp.csr_array(np.where(np.abs(blobs[0]) > 5, blobs[0], 0)), blobs[1]
    check_goes_on(lambda **more: KernelSVM(C=0.3, **more), X, y, tmp_path / "state")


@pytest.mark.parametrize("model", [LinearSVM("one_vs_one", solver="sdm"), KernelSVM("one_vs_rest")])
def test_many_threads_go_on_too(blobs, tmp_path, model):
    """Their order depends on the clock; what each machine does, does not."""
    X, y = blobs
    path = tmp_path / "state"
    whole = type(model)(**model.get_params() | {"n_jobs": 2}).fit(X, y)
    model.set_params(n_jobs=2, checkpoint=path)
    for every in (0, 1e9):
        assert stopped(model, X, y, InterruptAt(len(whole.history_) // 3), every)
    model.set_params(callbacks=None).fit(X, y)
    np.testing.assert_array_equal(model.dual_coef_.toarray(), whole.dual_coef_.toarray())
    assert model.primal_objective_ == whole.primal_objective_
    assert sorted(model.history_[["machine", "epoch"]].tolist()) == sorted(
        whole.history_[["machine", "epoch"]].tolist()
    )


def test_warm_starts(iris, tmp_path):
    X, y = iris
    path = tmp_path / "state"

    def make(**more):
        return LinearSVM(C=0.1, tol=1e-2, solver="sdm", warm_start=True, **more).fit(X, y).set_params(C=1.0, tol=1e-3)

    whole = make().fit(X, y)
    model = make().set_params(checkpoint=path)
    assert stopped(model, X, y, InterruptAt(5), 0)
    model = make().set_params(checkpoint=path).fit(X, y)
    assert_same(model, whole)


def test_a_checkpoint_goes_before_the_duals_of_the_model(iris, tmp_path):
    """Those of the fit that was stopped, or of another one: the problem is the same."""
    X, y = iris
    model = LinearSVM(solver="sdm", warm_start=True, max_iter=2, checkpoint=tmp_path / "state")
    with pytest.warns(ConvergenceWarning):
        model.fit(X, y)
    model.set_params(max_iter=1000).fit(X, y)
    whole = LinearSVM(solver="sdm").fit(X, y)
    assert model.n_iter_ == whole.n_iter_  # the limit's certificate is one more in the history
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("solver", ["sdm", "accelerated_sdm"])
@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins"])
def test_threads_that_do_nothing_are_not_asked_for(iris, tmp_path, formulation, solver):
    """A checkpoint goes on where there are more of them."""
    model = LinearSVM(formulation, solver=solver, checkpoint=tmp_path / "state", n_jobs=2)
    assert stopped(model, *iris, InterruptAt(3), 0)
    model.set_params(callbacks=None, n_jobs=3).fit(*iris)
    assert_same(model, LinearSVM(formulation, solver=solver).fit(*iris))


@pytest.mark.parametrize("model", [LinearSVM("one_vs_rest"), LinearSVM(solver="newton"), KernelSVM()])
def test_threads_that_have_a_say_are(iris, tmp_path, model):
    model.set_params(checkpoint=tmp_path / "state", n_jobs=1)
    assert stopped(model, *iris, InterruptAt(1), 0)
    with pytest.raises(CheckpointError, match="n_jobs was 1 and is 2"):
        model.set_params(callbacks=None, n_jobs=2).fit(*iris)


def test_an_interrupt_when_all_is_done_leaves_no_state_without_the_result(iris, tmp_path, monkeypatch):
    collect, path = training._Results.collect, tmp_path / "state"

    def interrupted(self, *of):
        collect(self, *of)
        interrupt()  # as Ctrl-C does

    with monkeypatch.context() as patch:
        patch.setattr(training._Results, "collect", interrupted)
        with pytest.raises(KeyboardInterrupt):
            LinearSVM(solver="sdm", checkpoint=path).fit(*iris)
    assert_same(LinearSVM(solver="sdm", checkpoint=path).fit(*iris), LinearSVM(solver="sdm").fit(*iris))


def test_a_state_with_nothing_left_to_train_is_refused(iris, kept):
    path, model = kept
    description, arrays = read_container(path, CHECKPOINT)
    nobody = np.empty(0, np.int64)
    forged = {"loop.alive": nobody, "loop.last_record": nobody, "loop.finished": np.array([0])}
    write_container(path, CHECKPOINT, description, arrays | forged)
    with pytest.raises(CheckpointError, match="no machine is left to train"):
        model.fit(*iris)


# Limits


def test_max_iter_may_be_raised(iris, tmp_path):
    path = tmp_path / "state"
    model = LinearSVM("one_vs_one", solver="sdm", tol=1e-5, max_iter=7, checkpoint=path)
    for _ in range(2):  # as often as one likes
        with pytest.warns(ConvergenceWarning, match="max_iter=7 "):
            model.fit(*iris)
        assert path.exists()
    short = LinearSVM("one_vs_one", solver="sdm", tol=1e-5, max_iter=7)
    with pytest.warns(ConvergenceWarning):
        assert_same(model, short.fit(*iris))
    model.set_params(max_iter=10**6).fit(*iris)
    assert model.converged_ and not path.exists()
    assert len(np.unique(model.history_["machine"])) == 3
    assert model.n_iter_ > 7


def test_the_time_limit_is_of_all_runs_together(blobs, tmp_path):
    path = tmp_path / "state"
    model = LinearSVM(C=100.0, solver="sdm", tol=1e-12, max_iter=10**9, time_limit=0.2, checkpoint=path)
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model.fit(*blobs)
    epochs = model.n_iter_
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model.fit(*blobs)
    assert model.n_iter_ == epochs
    passes, seconds = len(model.history_), model.history_["seconds"][-1]
    with pytest.warns(ConvergenceWarning, match="callback"):
        model.set_params(time_limit=seconds + 600, callbacks=[lambda record: True]).fit(*blobs)
    assert len(model.history_) > passes
    assert model.history_["seconds"][-1] > seconds


def test_a_finished_training_leaves_no_file(iris, tmp_path):
    path = tmp_path / "state"
    LinearSVM(checkpoint=path, checkpoint_every=0).fit(*iris)
    LinearSVM(C=2.0, checkpoint=path, checkpoint_every=0, probability=True).fit(*iris)
    assert list(tmp_path.iterdir()) == []


# Refusals


@pytest.fixture
def kept(iris, tmp_path):
    """A checkpoint, and the model that goes on from it."""
    path = tmp_path / "state"
    model = LinearSVM(solver="sdm", checkpoint=path)
    assert stopped(model, *iris, InterruptAt(3), 0)
    return path, model.set_params(callbacks=None)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"C": 2.0}, "C was 1 and is 2"),
        ({"loss": "squared_hinge"}, "loss was 'hinge' and is 'squared_hinge'"),
        ({"solver": "newton"}, "solver was 'sdm' and is 'newton'"),
        ({"random_state": 5}, "random_state was None and is 5;"),
        ({"random_state": np.random.RandomState(5)}, "random_state was None and is RandomState;"),
        ({"class_weight": {0: 2, 1: 1}}, "class_weight was None and is {0: 2, 1: 1}"),
        ({"tol": 1e-4, "fit_intercept": False}, "fit_intercept was True and is False, tol was 0.001 and is 0.0001"),
    ],
)
def test_other_parameters(iris, kept, parameters, said):
    path, model = kept
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match="it is of another training") as error:
        model.set_params(**parameters).fit(*iris)
    assert said in str(error.value) and str(path) in str(error.value) and "delete it" in str(error.value)
    assert path.read_bytes() == before


def test_the_same_seed_goes_on_and_another_draw_does_not(iris, tmp_path):
    model = LinearSVM(solver="sdm", checkpoint=tmp_path / "state", random_state=np.random.RandomState(5))
    assert stopped(model, *iris, InterruptAt(3), 0)
    model.set_params(callbacks=None)
    with pytest.raises(CheckpointError, match="another training: random_state has other values;"):
        model.fit(*iris)  # it has drawn once already
    assert model.set_params(random_state=np.random.RandomState(5)).fit(*iris).converged_


def test_another_kernel_of_the_same_name(iris, tmp_path):
    def kernel(gamma):
        return lambda X, Y: np.exp(-gamma * ((X[:, None] - Y[None]) ** 2).sum(axis=2))

    model = KernelSVM(kernel=kernel(0.1), working_set=4, tol=1e-6, checkpoint=tmp_path / "state")
    assert stopped(model, *iris, InterruptAt(2), 0)
    model.set_params(callbacks=None)
    with pytest.raises(CheckpointError, match="kernel has other values"):
        model.set_params(kernel=kernel(0.2)).fit(*iris)
    assert model.set_params(kernel=kernel(0.1)).fit(*iris).converged_


def test_another_kind_of_machine(iris, kept):
    with pytest.raises(CheckpointError, match="another training: the estimator was LinearSVM and is KernelSVM, "):
        KernelSVM(checkpoint=kept[0]).fit(*iris)


def test_other_data(iris, kept):
    X, y = iris
    model = kept[1]
    for other, said in (
        ((X * 2, y), "X has other values"),
        ((X[:-1], y[:-1]), "X was 75 x 4 dense float64 and is 74 x 4 dense float64"),
        ((sp.csr_array(X), y), "is 75 x 4 sparse float64"),
        ((X.astype(np.float32), y), "is 75 x 4 dense float32"),
        ((X, np.roll(y, 1)), "y has other values"),
        ((X, y + 1), "y has other values"),
        ((X, y, np.full(len(y), 2.0)), "sample_weight was None and is given"),
    ):
        with pytest.raises(CheckpointError) as error:
            model.fit(*other)
        assert said in str(error.value)


def test_what_has_no_influence_may_change(iris, kept, capfd):
    model = kept[1]
    X, y = iris
    whole = LinearSVM(solver="sdm").fit(X, y)
    model.set_params(verbose=1, C=1, callbacks=[lambda record: False], max_iter=2000, time_limit=1e6)
    assert_same(model.fit(X.copy(order="F"), y), whole)


def test_the_form_of_sparse_data_has_no_influence(iris, tmp_path):
    X, y = sp.csr_array(iris[0]), iris[1]
    path = tmp_path / "state"
    model = LinearSVM(solver="sdm", checkpoint=path)
    assert stopped(model, X, y, InterruptAt(3), 0)
    other = X.copy()
    for row in range(other.shape[0]):  # columns in another order
        part = slice(other.indptr[row], other.indptr[row + 1])
        other.indices[part], other.data[part] = other.indices[part][::-1], other.data[part][::-1]
    other.has_sorted_indices = False
    other.indices, other.indptr = other.indices.astype(np.int64), other.indptr.astype(np.int64)
    assert_same(model.set_params(callbacks=None).fit(other, y), LinearSVM(solver="sdm").fit(X, y))


def test_parameters_are_checked():
    X, y = np.eye(2), [0, 1]
    with pytest.raises(TypeError, match="checkpoint must be a path or None, got 5"):
        LinearSVM(checkpoint=5).fit(X, y)
    with pytest.raises(ValueError, match="checkpoint_every must be finite and at least 0"):
        KernelSVM(checkpoint_every=-1).fit(X, y)
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        LinearSVM(checkpoint="nowhere/state").fit(X, y)


def test_a_solver_without_checkpoints_says_so(monkeypatch, tmp_path):
    from multimargin.linear.newton import Newton

    monkeypatch.delattr(Newton, "kept")
    with pytest.raises(ValueError, match="solver='newton' has no checkpoints yet; solver='sdm'"):
        LinearSVM(solver="newton", checkpoint=tmp_path / "state").fit(np.eye(2), [0, 1])


def test_models_do_not_carry_it(iris, tmp_path):
    model = LinearSVM(checkpoint=tmp_path / "state").fit(*iris)
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").checkpoint is None


# Files that are no good


@pytest.mark.skipif(sys.platform == "win32", reason="no such files there")
def test_what_is_no_file(iris, tmp_path):
    """A pipe that nobody writes to would be read for ever."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    places = {"/dev/null": "a device", tmp_path / "pipe": "a pipe", tmp_path / "link": "a pipe", tmp_path: "a folder"}
    for model in (LinearSVM(), KernelSVM(), LinearSVMCV(Cs=2)):
        for path, kind in places.items():
            with pytest.raises(CheckpointError) as told:
                model.set_params(checkpoint=path).fit(*iris)
            assert str(told.value) == f"{path}: is {kind}, which keeps no checkpoint; give the name of a file"
            assert not hasattr(model, "classes_")


@pytest.mark.parametrize("number", [np.inf, -1.0])
def test_counts_that_nobody_counted(iris, kept, number):
    path, model = kept
    description, arrays = read_container(path, CHECKPOINT)
    names = [name for name in arrays if name.rpartition(".")[2] == "epochs"]
    assert names
    for name in names:
        arrays[name] = np.full_like(arrays[name], number)
    write_container(path, CHECKPOINT, description, arrays)
    with pytest.raises(CheckpointError, match="'epochs' must be finite and not negative"):
        model.fit(*iris)


def test_every_truncation_is_refused(iris, kept):
    path, model = kept
    content = path.read_bytes()
    n_header = int.from_bytes(content[:8], "little")
    for size in [*range(300), *range(300, len(content), max(1, len(content) // 100)), 8 + n_header - 1]:
        path.write_bytes(content[:size])
        with pytest.raises(CheckpointError, match=r"state: .*(delete it|checkpoint names a file)"):
            read_container(path, CHECKPOINT)
    with pytest.raises(CheckpointError, match="delete it to train from the beginning"):
        model.fit(*iris)


def test_every_byte_counts(iris, kept):
    path, model = kept
    content = path.read_bytes()
    n_header = int.from_bytes(content[:8], "little")
    for at in [*range(8 + n_header), *range(8 + n_header, len(content), max(1, len(content) // 300))]:
        with path.open("r+b", buffering=0) as file:
            file.seek(at)
            file.write(bytes([content[at] ^ 1]))
            with pytest.raises(CheckpointError, match="state"):
                read_container(path, CHECKPOINT)
            file.seek(at)
            file.write(content[at : at + 1])
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CheckpointError, match="damaged; delete it to train from the beginning"):
        model.fit(*iris)
    path.write_bytes(content)
    assert model.fit(*iris).converged_


def test_other_files_stay(iris, tmp_path):
    path = tmp_path / "state"
    for content in (b"precious data\n", b""):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="checkpoint names a file that training writes"):
            LinearSVM(checkpoint=path).fit(*iris)
        assert path.read_bytes() == content
    save(LinearSVM().fit(*iris), path)
    with pytest.raises(CheckpointError, match="this is not a checkpoint"):
        LinearSVM(checkpoint=path).fit(*iris)


def test_another_version_is_refused(iris, kept):
    path, model = kept
    description, arrays = read_container(path, CHECKPOINT)
    write_container(path, CHECKPOINT, description | {"version": "0.0"}, arrays)
    with pytest.raises(CheckpointError, match=r"multimargin 0\.0 wrote it"):
        model.fit(*iris)


FORGED = [
    (lambda **more: LinearSVM("one_vs_one", solver="accelerated_sdm", tol=1e-6, **more)),
    (lambda **more: LinearSVM(solver="sdm", tol=1e-6, **more)),
    (lambda **more: LinearSVM(solver="newton", tol=1e-6, **more)),
    (lambda **more: KernelSVM("one_vs_one", tol=1e-6, **more)),
    (lambda **more: KernelSVM(tol=1e-6, **more)),
    (lambda **more: KernelSVM(tol=1e-6, solver="decomposition", threshold="logarithmic", **more)),
    (lambda **more: KernelSVM("weston_watkins", tol=1e-6, solver="decomposition", **more)),
    (lambda **more: KernelSVM("one_vs_one", tol=1e-6, solver="decomposition", **more)),
]


@pytest.mark.parametrize("make", FORGED, ids=range(len(FORGED)))
def test_forged_states_are_errors_or_trainings(iris, tmp_path, make):
    """Whatever somebody puts into a file whose checksum is right: no crash, no hang."""
    X, y = iris[0][::2], iris[1][::2]
    path = tmp_path / "state"
    assert stopped(make(checkpoint=path), X, y, InterruptAt(2), 0)
    description, arrays = read_container(path, CHECKPOINT)
    rng = random.Random(0)
    refused = 0
    for name, values in arrays.items():
        other = dict(arrays)
        how = rng.choice(["gone", "longer", "shorter", "large", "negative", "type"])
        if how == "gone":
            del other[name]
        elif how == "longer":
            other[name] = np.concatenate([values, values, values[:1], np.zeros(1, values.dtype)])
        elif how == "shorter":
            other[name] = values[:-1]
        elif how == "type":
            other[name] = values.astype(np.float32 if values.dtype != np.float32 else np.float64)
        else:
            other[name] = values.copy()
            if len(values):
                at = rng.randrange(len(values))
                with np.errstate(all="ignore"):
                    odd = (1e300 if values.dtype.kind == "f" else 2**31 - 5) * (1 if how == "large" else -1)
                    other[name][at] = np.array(odd).astype(values.dtype)
        write_container(path, CHECKPOINT, description, other)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                make(checkpoint=path, max_iter=20).fit(X, y)
        except (CheckpointError, RuntimeError):
            refused += 1
    assert refused > len(arrays) / 3


@settings(max_examples=10, deadline=None)
@given(stops=st.lists(st.integers(1, 12), max_size=6), seed=st.integers(0, 5))
def test_any_stops(stops, seed):
    """Wherever it is stopped, and however often."""
    X, y = make_blobs(60, 5, centers=4, cluster_std=6.0, random_state=seed)
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"multimargin-checkpoint-{os.getpid()}")
    make = lambda **more: LinearSVM("one_vs_one", solver="accelerated_sdm", max_iter=10**6, **more)  # noqa: E731
    whole = make().fit(X, y)
    try:
        for i, stop in enumerate(stops):
            if not stopped(make(checkpoint=path), X, y, InterruptAt(stop), 0 if i % 2 else 1e9):
                break
        assert_same(make(checkpoint=path).fit(X, y), whole)
    finally:
        if os.path.exists(path):
            os.unlink(path)


def test_a_disk_that_is_full_does_not_end_the_training(iris, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    model = LinearSVM(solver="sdm", checkpoint=folder / "state", checkpoint_every=0)
    model.set_params(callbacks=[_Remove(folder)])
    with pytest.warns(RuntimeWarning, match="no checkpoint was written"):
        model.fit(*iris)
    assert model.converged_


class _Remove:
    """Of a folder and all that is in it."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, record):
        if self.folder.exists():
            for file in self.folder.iterdir():
                file.unlink()
            self.folder.rmdir()


# kill -9, in a process of its own

PROGRAM = """
import json, sys
import numpy as np
from multimargin import KernelSVM, LinearSVM

def train(kind, parameters, path):
    y = np.arange(300) % 4
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 20))[y] + 3 * rng.normal(size=(300, 20))
    model = {"linear": LinearSVM, "kernel": KernelSVM}[kind](**parameters, checkpoint=path, checkpoint_every=0)
    model.fit(X, y)
    return [model.primal_objective_, model.dual_objective_, model.n_iter_, model.intercept_.tolist(),
            model.dual_coef_.data.tolist(), len(model.history_)]

if __name__ == "__main__":
    print("ready", flush=True)
    print(json.dumps(train(*json.loads(sys.argv[1]))))
"""
KILLED = [
    ("linear", {"formulation": "one_vs_one", "solver": "sdm", "tol": 1e-2, "max_iter": 10**6}),
    ("kernel", {"working_set": 10, "tol": 1e-4, "max_iter": 10**6}),
    ("linear", {"solver": "cutting_plane", "tol": 1e-4, "max_iter": 10**6}),
]


def run_until(kind, parameters, path, seconds):
    """The result of a training in a process, or None if it was killed after so many seconds of it."""
    command = [sys.executable, "-c", PROGRAM, json.dumps([kind, parameters, str(path)])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        try:
            out, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            return None
        assert process.returncode == 0
        return json.loads(out)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no kill -9")
@pytest.mark.parametrize(("kind", "parameters"), KILLED, ids=["pairs", "kernel", "cuts"])
def test_killed(tmp_path, monkeypatch, kind, parameters):
    path = tmp_path / "state"
    monkeypatch.undo()  # slices as long as they are there
    names = {"__name__": "here"}
    exec(PROGRAM, names)
    began = time.perf_counter()
    whole = names["train"](kind, parameters, path)
    took = time.perf_counter() - began
    result = run_until(kind, parameters, path, took * random.uniform(0.2, 0.7))
    assert (result or run_until(kind, parameters, path, None)) == whole
    assert not path.exists()


@pytest.mark.parametrize("solver", ["sdm", "accelerated_sdm"])
def test_a_time_limit_that_is_used_up_keeps_the_model(blobs, tmp_path, solver):
    X, y = blobs
    model = LinearSVM(solver=solver, tol=1e-12, C=100.0, time_limit=1e-6, checkpoint=tmp_path / "state")
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        first = model.fit(X, y).coef_.copy()
    assert (tmp_path / "state").exists() and np.abs(first).max() > 0
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model.fit(X, y)
    np.testing.assert_array_equal(model.coef_, first)


@pytest.mark.parametrize("Machine", [LinearSVM, KernelSVM])
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_duals_outside_of_their_caps_are_refused(blobs, tmp_path, Machine, formulation):
    """A forged file with the right checksum: certificates are built on feasible duals."""
    path, small = tmp_path / "state", {"solver": "sdm"} if Machine is LinearSVM else {"solver": "decomposition"}
    model = Machine(formulation, tol=1e-12, checkpoint=path, callbacks=[InterruptAt(3)], **small)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*blobs)
    description, arrays = read_container(path, CHECKPOINT)
    (name,) = [
        n
        for n in arrays
        if n.startswith("loop.machines.0.")
        and n.endswith(("block0.list_values", "block0.alpha", "core.alpha", "core.a"))
    ]
    assert arrays[name].any()
    write_container(path, CHECKPOINT, description, arrays | {name: arrays[name] * 1e6})
    with pytest.raises(CheckpointError, match="duals are outside of their bounds"):
        model.set_params(callbacks=None).fit(*blobs)


@pytest.mark.parametrize(
    ("machine", "name", "forge", "words"),
    [
        (
            "pairs",
            "loop.machines.0.core.duals_row",
            lambda rows: rows[::-1].copy(),
            "rows that another machine learns from",
        ),
        ("pairs", "training.which", lambda which: which.astype(float), "there are no such machines"),
        (
            "certified",
            "loop.machines.0.certificate.dual",
            lambda dual: dual + 1e6,
            "a lower bound is above the objective",
        ),
        ("linear", "loop.machines.0.weights.previous", lambda W: W + np.float32(1e30), "weights that are no numbers"),
        (
            "linear",
            "loop.machines.0.weights.kappa",
            lambda kappa: kappa + 1e300,
            "numbers lead to others that are none",
        ),
    ],
)
def test_numbers_that_no_training_has_are_refused(iris, tmp_path, machine, name, forge, words):
    make = {
        "pairs": lambda **options: KernelSVM("one_vs_one", **options),
        "linear": lambda **options: LinearSVM("weston_watkins", "squared_hinge", solver="accelerated_sdm", **options),
        "certified": lambda **options: LinearSVM(solver="sdm", tol=1e-7, **options),
    }[machine]
    path = tmp_path / "state"
    assert stopped(make(checkpoint=path), *iris, InterruptAt(60 if machine == "certified" else 1), 0)
    description, arrays = read_container(path, CHECKPOINT)
    write_container(path, CHECKPOINT, description, arrays | {name: forge(arrays[name])})
    with pytest.raises(CheckpointError, match=words):
        make(checkpoint=path).fit(*iris)


@pytest.mark.parametrize(
    ("name", "value"),
    [("tau", 0.0), ("tau", -1.0), ("tau", np.nan), ("tau", 1e308), ("smallest_tau", 1e300), ("stage_start", np.inf)],
)
def test_stages_that_newton_cannot_have_had_are_refused(blobs, tmp_path, name, value):
    path = tmp_path / "state"
    options = {"solver": "newton", "tol": 1e-12, "checkpoint": path}
    with pytest.raises(KeyboardInterrupt):
        LinearSVM("one_vs_rest", "squared_hinge", callbacks=[InterruptAt(2)], **options).fit(*blobs)
    description, arrays = read_container(path, CHECKPOINT)
    (kept,) = [key for key in arrays if key.endswith(f"algorithm.{name}")]
    write_container(path, CHECKPOINT, description, arrays | {kept: np.full_like(arrays[kept], value)})
    with pytest.raises(CheckpointError, match=r"tau|stage_start"):
        LinearSVM("one_vs_rest", "squared_hinge", **options).fit(*blobs)


def test_records_of_a_forged_checkpoint_are_whole_numbers(iris, tmp_path):
    path = tmp_path / "c"
    options = {"solver": "sdm", "tol": 1e-9, "checkpoint": path}
    assert stopped(LinearSVM(**options), *iris, InterruptAt(3), 1e9)
    description, arrays = read_container(path, CHECKPOINT)
    (name,) = [name for name in arrays if name.endswith("last_record")]
    arrays[name] = arrays[name].astype(np.float64)
    write_container(path, CHECKPOINT, description, arrays)
    with pytest.raises(CheckpointError):
        LinearSVM(**options).fit(*iris)


def test_a_file_that_another_training_has_written_stays(iris, tmp_path):
    X, y = iris
    path = tmp_path / "both"
    other = LinearSVM(C=2.0, tol=1e-2, solver="sdm", max_iter=2, checkpoint=path, checkpoint_every=0)

    def write_too(record):
        if not records:  # before the first state of this one
            other.fit(X, y)
        records.append(record)

    records = []
    first = LinearSVM(C=1.0, tol=1e-2, solver="sdm", checkpoint=path, checkpoint_every=0, callbacks=[write_too])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        first.fit(X, y)
    assert first.converged_ and len(records) > 3
    said = [str(each.message) for each in said if each.category is RuntimeWarning]
    assert said and all("another training has written it meanwhile; give each a checkpoint" in each for each in said)
    assert path.exists()  # the other one's, though this one is over
    other.set_params(max_iter=1000).fit(X, y)
    assert other.converged_ and not path.exists()


@pytest.mark.parametrize("probability", [False, True])
def test_a_checkpoint_that_cannot_be_written_is_an_error_after_the_training_if_warnings_are(
    iris, tmp_path, probability
):
    X, y = iris
    folder = tmp_path / "folder"
    folder.mkdir()
    model = LinearSVM(tol=1e-7, checkpoint=folder / "state", checkpoint_every=0, probability=probability)
    model.set_params(callbacks=[_Remove(folder)])
    with pytest.raises(RuntimeWarning, match="no checkpoint was written"):  # warnings are errors in the tests
        model.fit(X, y)
    assert model.converged_ and model.score(X, y) > 0.9 and hasattr(model, "calibration_") == probability
