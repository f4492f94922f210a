"""Checkpoints of the papers' rivals: any slice may be the last one, and what no training can have had is refused."""

import shutil
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_blobs

from multimargin import LinearSVM
from multimargin.data.container import read_container, write_container
from multimargin.linear.checkpoint import CHECKPOINT, Checkpoint, CheckpointError
from multimargin.linear.solvers import SOLVERS
from tests.forging import at

TOL = {"pegasos": 0.3, "exponentiated_gradient": 0.1, "cutting_plane": 1e-3, "tron": 1e-6, "primal_cd": 1e-4}
CASES = [
    (solver, formulation)
    for solver in TOL
    for formulation in ("crammer_singer", "one_vs_rest", "one_vs_one")
    if formulation in SOLVERS[solver].formulations
]
FIRST = "loop.machines.0."  # names of the first machine's state begin so


@pytest.fixture(autouse=True)
def short_slices(monkeypatch):
    """A pass takes several of them."""
    for module in ("sdm", "tron", "primal_cd", "cutting_plane"):
        monkeypatch.setattr(f"multimargin.linear.{module}.BUDGET", 3e3)
    monkeypatch.setattr("multimargin.linear.machine.BUDGET", 3e3)  # of which a cutting plane's passes are made


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(60, 6, centers=3, cluster_std=4.0, random_state=0)


def make(solver, formulation, **more):
    given = {"C": 0.1, "tol": TOL[solver], "max_iter": 10**5} | more
    return LinearSVM(formulation, SOLVERS[solver].losses[0], solver=solver, **given)


def after_every_slice(model, X, y, folder, monkeypatch):
    """The checkpoints of a training, and what came of it."""
    save, files = Checkpoint.save, []

    def saved(self, loop):
        save(self, loop)
        files.append(folder / str(len(files)))
        shutil.copy(self.path, files[-1])

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", saved)
        model.set_params(checkpoint=folder / "state", checkpoint_every=0).fit(X, y)
    return files


def assert_same(model, whole):
    for name in ("coef_", "intercept_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(whole, name))
    np.testing.assert_array_equal(model.dual_coef_.toarray(), whole.dual_coef_.toarray())
    for name in ("primal_objective_", "dual_objective_", "worst_gap_", "n_iter_", "converged_"):
        assert getattr(model, name) == getattr(whole, name), name
    for name in whole.history_.dtype.names:
        if name != "seconds":
            np.testing.assert_array_equal(model.history_[name], whole.history_[name], err_msg=name)


@pytest.mark.parametrize(("solver", "formulation"), CASES)
def test_goes_on_from_any_slice(blobs, tmp_path, monkeypatch, solver, formulation):
    whole = make(solver, formulation).fit(*blobs)
    files = after_every_slice(make(solver, formulation), *blobs, tmp_path, monkeypatch)
    assert len(files) > 8
    for number in {0, 1, 2, *range(3, len(files), max(1, len(files) // 7)), len(files) - 1}:
        assert_same(make(solver, formulation, checkpoint=files[number]).fit(*blobs), whole)


@pytest.mark.parametrize("options", [{"batch_size": 7}, {"projection": False}])
def test_options_of_pegasos(blobs, tmp_path, monkeypatch, options):
    whole = make("pegasos", "crammer_singer", solver_options=options).fit(*blobs)
    files = after_every_slice(make("pegasos", "crammer_singer", solver_options=options), *blobs, tmp_path, monkeypatch)
    for file in files[:: max(1, len(files) // 4)]:
        assert_same(make("pegasos", "crammer_singer", solver_options=options, checkpoint=file).fit(*blobs), whole)


@pytest.mark.parametrize(("solver", "formulation"), CASES)
def test_warm_starts_go_on(blobs, tmp_path, monkeypatch, solver, formulation):
    X, y = blobs

    def warm(**more):
        model = make(solver, formulation, tol=0.5, warm_start=True).fit(X, y)
        return model.set_params(C=0.2, tol=TOL[solver], **more)

    whole = warm().fit(X, y)
    files = after_every_slice(warm(), X, y, tmp_path, monkeypatch)
    for number in {0, len(files) // 2}:
        assert_same(warm(checkpoint=files[number]).fit(X, y), whole)


@pytest.fixture(scope="module")
def middles():
    """What of_the_middle has found."""
    return {}


def of_the_middle(middles, solver, formulation, X, y, folder, monkeypatch, holds=None):
    """Description and arrays of a checkpoint from the middle of a training."""
    case = solver, formulation, X.shape, holds
    if case not in middles:
        files = after_every_slice(make(solver, formulation), X, y, folder, monkeypatch)
        for file in files[len(files) // 3 :] + files[len(files) // 3 :: -1]:
            description, arrays = read_container(file, CHECKPOINT)
            if f"{FIRST}epochs" in arrays and (holds is None or holds(arrays)):
                middles[case] = description, arrays
                break
    description, arrays = middles[case]
    return description, arrays.copy()


def within_a_master(arrays):
    return arrays[f"{FIRST}method.steps"][0] > 0


def within_a_pass(arrays):
    return arrays[f"{FIRST}algorithm.cursor"][0] > 0


FORGED = [
    ("exponentiated_gradient", "block0.rates", at(3, 1e7), "learning rate out of range"),
    ("exponentiated_gradient", "block0.rates", at(3, 0.0), "learning rate out of range"),
    ("exponentiated_gradient", "block0.rates", at(3, np.nan), "not numbers"),
    ("exponentiated_gradient", "block0.rates", lambda rates: rates[:-1], "values, not"),
    ("exponentiated_gradient", "block0.rates", None, "'rates' is missing"),
    ("pegasos", "block0.pegasos.passes", at(0, -1), "'pegasos.passes' is out of range"),
    ("pegasos", "block0.pegasos.passes", at(0, 2**63 - 1), "'pegasos.passes' is out of range"),
    ("pegasos", "block0.pegasos.passes", lambda passes: passes.astype(float), "of another type"),
    ("pegasos", "block0.pegasos.passes", None, "is missing"),
    ("primal_cd", "algorithm.residual", at(5, np.inf), "residuals that are no numbers"),
    ("primal_cd", "algorithm.residual", at(5, np.nan), "residuals that are no numbers"),
    ("primal_cd", "algorithm.residual", lambda residual: residual[:-1], "'residual' must be"),
    ("primal_cd", "algorithm.cursor", at(0, 7), "gone past its end"),
    ("primal_cd", "algorithm.cursor", at(0, -1), "'cursor' must be finite and not negative"),
    ("primal_cd", "algorithm.n_passes", lambda passes: passes + 0.5, "a pass that there is not"),
    ("primal_cd", "algorithm.certify_below", at(0, np.nan), "'certify_below' must be finite"),
    ("tron", "algorithm.target", at(0, 0.0), "'target' is out of its range"),
    ("tron", "algorithm.target", at(0, 1.0), "'target' is out of its range"),
    ("tron", "algorithm.attempts", at(0, 3), "'attempts' is out of its range"),
    ("tron", "method.phase", at(0, 4), "a phase that there is not"),
    ("tron", "method.cursor", at(0, 61), "past its end"),
    ("tron", "method.visited", at(0, 61), "more visits than there are examples"),
    ("tron", "method.query", at(2, 1e200), "numbers that are too large"),
    ("tron", "method.step", lambda step: step[:-1], "values, not"),
    ("tron", "method.lane", lambda lane: lane[:0], "values, not"),
    ("tron", "method.lane", at(0, 9), "index out of range"),
    ("tron", "method.live.radius", at(0, 0.0), "a number of a lane out of range"),
    ("tron", "method.live.residual", at(0, np.inf), "a number of a lane out of range"),
    ("tron", "method.live.evaluates", at(0, 2), "neither true nor false"),
    ("cutting_plane", "algorithm.cursor", at(0, 61), "a pass or a target that there is not"),
    ("cutting_plane", "algorithm.target", at(0, -1.0), "a pass or a target that there is not"),
    ("cutting_plane", "algorithm.offset", at(0, np.nan), "no sums of caps"),
    ("cutting_plane", "method.gradient.W", at(1, 1e100), "gradients that are no numbers"),
    ("cutting_plane", "method.bundles.gradient", at(1, 1e100), "gradients that are no numbers"),
    ("cutting_plane", "method.bundles.gradient", at(1, 1e-3), "not those of the gradients"),
    ("cutting_plane", "method.bundles.gradient", lambda gradient: gradient[:-1], "not of the sizes"),
    ("cutting_plane", "method.bundles.gram", at(0, np.nan), "not those of the gradients"),
    ("cutting_plane", "method.bundles.offset", at(0, 1e9), "no sums of caps"),
    ("cutting_plane", "method.bundles.weight", at(slice(None), 1.0), "sum to more than 1"),
    ("cutting_plane", "method.bundles.weight", at(0, -0.5), "weights of cuts out of range"),
    ("cutting_plane", "method.bundles.idle", at(0, 20), "weights of cuts out of range"),
    ("cutting_plane", "method.bundles.begins", at(0, True), "that training did not begin with"),
    ("cutting_plane", "method.bundles.best", at(0, np.nan), "objectives that are no numbers"),
    ("cutting_plane", "method.bundles.slack", at(0, np.inf), "'slack' must be finite"),
    ("cutting_plane", "method.steps", at(0, 10**12), "steps"),
    ("cutting_plane", "method.part", at(0, 3), "parts that there are not"),
]


@pytest.mark.parametrize(("solver", "name", "forge", "words"), FORGED)
def test_what_no_training_has_is_refused(blobs, middles, tmp_path, monkeypatch, solver, name, forge, words):
    formulation, path = SOLVERS[solver].formulations[0], tmp_path / "forged"
    holds = within_a_master if solver == "cutting_plane" else None
    description, arrays = of_the_middle(middles, solver, formulation, *blobs, tmp_path, monkeypatch, holds)
    values = arrays.pop(FIRST + name)
    if forge is not None:
        arrays[FIRST + name] = forge(values)
    write_container(path, CHECKPOINT, description, arrays)
    with pytest.raises(CheckpointError, match=words):
        make(solver, formulation, checkpoint=path).fit(*blobs)


def test_classes_that_are_assigned_are_there(blobs, middles, tmp_path, monkeypatch):
    path, case = tmp_path / "forged", ("cutting_plane", "crammer_singer")
    for name in ("method.bundles.assignment", "method.assignments.worst"):
        description, arrays = of_the_middle(middles, *case, *blobs, tmp_path, monkeypatch, within_a_pass)
        forged = arrays | {FIRST + name: at(0, 3)(arrays[FIRST + name])}
        write_container(path, CHECKPOINT, description, forged)
        with pytest.raises(CheckpointError, match="a class that there is not"):
            make(*case, checkpoint=path).fit(*blobs)


@pytest.mark.parametrize(("solver", "formulation"), CASES)
def test_whatever_is_forged_is_an_error_or_a_training(middles, tmp_path, monkeypatch, solver, formulation):
    """Every array of a machine's state, in several ways: no crash, no hang."""
    X, y = load_iris(return_X_y=True)
    X, y, path = X[::5], y[::5], tmp_path / "forged"
    description, arrays = of_the_middle(middles, solver, formulation, X, y, tmp_path, monkeypatch)
    rng = np.random.default_rng(0)
    for name in [name for name in arrays if name.startswith(FIRST)]:
        values = arrays[name]
        for odd in (1e300, -1e300, 1e140, 0.0, np.nan) if values.dtype.kind == "f" else (2**31 - 5, -1, 0):
            if not len(values):
                continue
            with np.errstate(all="ignore"):
                forged = at(rng.integers(len(values)), np.array(odd).astype(values.dtype))(values)
            write_container(path, CHECKPOINT, description, arrays | {name: forged})
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    make(solver, formulation, checkpoint=path, max_iter=20).fit(X, y)
            except CheckpointError:
                pass
