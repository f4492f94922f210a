"""Checkpoints of trainings from blocks on disk: any slice may be the last one."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import ConvergenceWarning

from multimargin import LinearSVM
from multimargin.data.blocks import write_blocks
from multimargin.data.container import read_container, write_container
from multimargin.data.folder_lock import FolderInUse, locked_folder
from multimargin.linear import checkpoint as checkpoint_module
from multimargin.linear import dual_files, stored_examples
from multimargin.linear.checkpoint import CHECKPOINT, Checkpoint, CheckpointError
from tests.stops import InterruptAt

X, Y = make_blobs(150, 6, centers=4, cluster_std=5.0, random_state=0)
MACHINE = "loop.machines.0."  # names of its state begin so


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    made = write_blocks(tmp_path_factory.mktemp("stores") / "blobs.blocks", [(X, Y)], block_mb=0.002)
    assert len(made) == 4
    return made


@pytest.fixture(autouse=True)
def short_slices(monkeypatch):
    """The turn of a block takes several of them."""
    monkeypatch.setattr("multimargin.linear.sdm.BUDGET", 400.0)


def make(**more):
    return LinearSVM(**{"solver": "accelerated_sdm", "C": 0.01, "tol": 1e-2} | more)


def assert_same(model, whole):
    for name in ("coef_", "intercept_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(whole, name))
    for name in ("primal_objective_", "dual_objective_", "worst_gap_", "n_iter_", "converged_"):
        assert getattr(model, name) == getattr(whole, name), name
    for name in whole.history_.dtype.names:
        if name != "seconds":
            np.testing.assert_array_equal(model.history_[name], whole.history_[name], err_msg=name)


def copied(path, to):
    """A checkpoint with its duals, in a folder of its own."""
    to.mkdir()
    shutil.copy(path, to / "state")
    shutil.copytree(f"{path}.duals", to / "state.duals")
    return to / "state"


def after_slices(model, store, folder, monkeypatch, wanted):
    """Checkpoints of a training, written after the slices with those numbers."""
    save, copies, number = Checkpoint.save, [], 0

    def due(self):
        nonlocal number
        number += 1
        return wanted(number)

    def saved(self, loop):
        save(self, loop)
        if self.path.exists():
            copies.append(copied(self.path, folder / f"after-{number}"))

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "due", due)
        patch.setattr(Checkpoint, "save", saved)
        model.set_params(checkpoint=folder / "state").fit(store)
    assert not (folder / "state").exists() and not (folder / "state.duals").exists()
    return copies


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("solver", ["sdm", "accelerated_sdm"])
@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins", "one_vs_rest"])
def test_goes_on_from_any_slice(store, tmp_path, monkeypatch, formulation, solver, loss):
    options = {"formulation": formulation, "loss": loss, "solver": solver}
    whole = make(**options).fit(store)
    model = make(**options)
    some = {1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 400}
    copies = after_slices(model, store, tmp_path, monkeypatch, some.__contains__)
    assert_same(model, whole)
    assert len(copies) > 9
    within = 0
    for copy in copies:
        within += f"{MACHINE}blocks.number" in read_container(copy, CHECKPOINT)[1]
        assert_same(make(**options, checkpoint=copy).fit(store), whole)
        assert not list(copy.parent.iterdir())
    assert 0 < within < len(copies)  # of a turn


@pytest.mark.parametrize("kind", ["sparse", "compressed, weighted", "two classes", "float32", "dense duals", "float64"])
def test_every_kind(tmp_path, monkeypatch, kind):
    rows = sp.csr_array(np.where(np.abs(X) > 3, X, 0)) if kind == "sparse" else X
    rows = rows.astype(np.float32) if kind == "float32" else rows
    labels = Y % 2 if kind == "two classes" else Y
    weighted = kind == "compressed, weighted"
    chunk = (rows, labels, np.arange(len(Y)) % 3.0) if weighted else (rows, labels)
    stored = write_blocks(tmp_path / "s", [chunk], block_mb=0.002, compress=weighted)
    options = {"tol": 9e-6 if kind == "float64" else 1e-2, "class_weight": "balanced"}
    if kind == "dense duals":
        options["solver_options"] = {"restricted_step": False}
    whole = make(**options).fit(stored)
    model = make(**options)
    for copy in after_slices(model, stored, tmp_path, monkeypatch, lambda number: number in (10, 11, 150, 1500)):
        assert_same(make(**options, checkpoint=copy).fit(stored), whole)
    assert_same(model, whole)


def test_after_every_slice(store, tmp_path):
    assert_same(make(checkpoint=tmp_path / "state", checkpoint_every=0).fit(store), make().fit(store))


def test_interrupts_again_and_again(store, tmp_path):
    whole, model, interrupts = make().fit(store), make(checkpoint=tmp_path / "state"), 0
    while True:
        model.set_params(callbacks=[InterruptAt(3)], checkpoint_every=1e9 if interrupts % 2 else 0.1)
        try:
            model.fit(store)
            break
        except KeyboardInterrupt:
            interrupts += 1
            assert 0 < model.dual_gap_ <= 1 or interrupts == 1
            assert sorted(path.name for path in tmp_path.iterdir()) == ["state", "state.duals"]
    assert interrupts > 2
    assert_same(model, whole)
    assert not list(tmp_path.iterdir())


def test_limits_within_a_turn(store, tmp_path):
    """A model is certified, for which the block must be put back; the state to go on from is that before."""
    whole, path = make().fit(store), tmp_path / "state"
    model = make(checkpoint=path, time_limit=1e-9)
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model.fit(store)
    assert f"{MACHINE}blocks.number" in read_container(path, CHECKPOINT)[1]
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        model.set_params(time_limit=None, max_iter=2).fit(store)
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        assert_same(model, make(max_iter=2).fit(store))
    assert_same(model.set_params(max_iter=10**6).fit(store), whole)
    assert not list(tmp_path.iterdir())


def test_the_steering_of_a_stalled_acceleration_goes_on(store, tmp_path, monkeypatch):
    monkeypatch.setattr("multimargin.linear.stages._PATIENCE", 1)
    whole = make(tol=1e-3).fit(store)
    model = make(tol=1e-3)
    for copy in after_slices(model, store, tmp_path, monkeypatch, lambda number: number % 301 == 100):
        assert_same(make(tol=1e-3, checkpoint=copy).fit(store), whole)


# Directions


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    X, y = load_digits(return_X_y=True)
    return write_blocks(tmp_path_factory.mktemp("stores") / "digits.blocks", [(X[:600] / 16, y[:600])], block_mb=0.05)


def test_directions_go_on_as_they_were_found(digits, tmp_path, monkeypatch):
    """Another BLAS may find the same ones with other signs."""
    whole, model = make().fit(digits), make(checkpoint=tmp_path / "state", callbacks=[InterruptAt(3)])
    with pytest.raises(KeyboardInterrupt):
        model.fit(digits)
    found = stored_examples.leading
    monkeypatch.setattr(stored_examples, "leading", lambda sample: (-found(sample)[0], found(sample)[1]))
    assert_same(model.set_params(callbacks=None).fit(digits), whole)


@pytest.mark.parametrize(
    ("name", "forge", "words"),
    [
        ("training.U", lambda U: 0.5 * U, "directions that are not orthonormal"),
        ("training.squares", lambda squares: squares[:-1], "directions along which nothing is"),
        ("training.squares", lambda squares: -squares, "directions along which nothing is"),
    ],
)
def test_directions_that_are_none(digits, tmp_path, name, forge, words):
    path = tmp_path / "state"
    with pytest.raises(KeyboardInterrupt):
        make(checkpoint=path, callbacks=[InterruptAt(3)]).fit(digits)
    description, arrays = read_container(path, CHECKPOINT)
    write_container(path, CHECKPOINT, description, arrays | {name: forge(arrays[name])})
    with pytest.raises(CheckpointError, match=words):
        make(checkpoint=path).fit(digits)


# Refusals


@pytest.fixture(scope="module")
def within_a_turn(store, tmp_path_factory):
    """A checkpoint, after some tours."""
    folder = tmp_path_factory.mktemp("kept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("multimargin.linear.sdm.BUDGET", 400.0)
        for path in after_slices(make(), store, folder, patch, range(100, 112).__contains__):
            if {f"{MACHINE}blocks.number", f"{MACHINE}passes.sum"} <= set(read_container(path, CHECKPOINT)[1]):
                return path
    raise AssertionError


@pytest.fixture
def kept(within_a_turn, tmp_path):
    """A copy of it."""
    return copied(within_a_turn, tmp_path / "kept")


def test_other_data_and_parameters(store, kept, tmp_path):
    before = {path: path.read_bytes() for path in (kept, *Path(f"{kept}.duals").iterdir())}
    changed, fewer = X.copy(), slice(0, 140)
    changed[77, 3] += 1e-9
    others = {
        "values": write_blocks(tmp_path / "values", [(changed, Y)], block_mb=0.002),
        "labels": write_blocks(tmp_path / "labels", [(X, np.roll(Y, 1))], block_mb=0.002),
        "rows": write_blocks(tmp_path / "rows", [(X[fewer], Y[fewer])], block_mb=0.002),
        "blocks": write_blocks(tmp_path / "blocks", [(X, Y)], block_mb=0.004),
    }
    was = "X was 150 x 6 dense float64 of 4 classes in 4 blocks and is"
    for other, parameters, said in (
        ("values", {}, "X has other values"),
        ("labels", {}, "X has other values"),
        ("rows", {}, f"{was} 140 x 6 dense float64 of 4 classes in 4 blocks"),
        ("blocks", {}, f"{was} 150 x 6 dense float64 of 4 classes in 2 blocks"),
        (None, {"C": 2.0}, "C was 0.01 and is 2"),
        (None, {"solver": "sdm"}, "solver was 'accelerated_sdm' and is 'sdm'"),
        (None, {"random_state": 1}, "random_state was None and is 1"),
    ):
        with pytest.raises(CheckpointError, match="it is of another training") as error:
            make(checkpoint=kept, **parameters).fit(others.get(other, store))
        assert said in str(error.value)
    assert before == {path: path.read_bytes() for path in (kept, *Path(f"{kept}.duals").iterdir())}
    in_memory = make(checkpoint=kept)
    # What only one of them has, such as y, is not told.
    with pytest.raises(
        CheckpointError, match=r"training: X was 150 x 6 dense .* in 4 blocks and is 150 x 6 dense float64;"
    ):
        in_memory.fit(X, Y)


def test_memory_and_threads_have_no_influence(store, kept):
    assert_same(make(checkpoint=kept, memory_mb=1, n_jobs=2, max_iter=5000).fit(store), make().fit(store))


def test_the_bound_of_memory_counts_the_state(store, tmp_path):
    assert make(memory_mb=0.03).fit(store).converged_
    with pytest.raises(ValueError, match=r"memory_mb=0\.03 is too little"):
        make(memory_mb=0.03, checkpoint=tmp_path / "state").fit(store)
    assert not list(tmp_path.iterdir())


def forge_duals(path, **changes):
    description, duals = read_container(path, dual_files._KIND)
    write_container(path, dual_files._KIND, description, duals | changes)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.unlink(), "these duals are missing"),
        (lambda path: path.write_bytes(b""), "the file is empty"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "cut short|belong to no array|bytes follow"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"!"), "the checksum does not fit"),
        (lambda path: path.write_bytes(b"\x80" + path.read_bytes()), "a pickle"),
        (lambda path: forge_duals(path, value=np.zeros(3)), "not the duals that the checkpoint refers to"),
        (lambda path: shutil.copy(min(path.parent.glob("duals-*")), path), "not the duals that the checkpoint refers"),
    ],
)
def test_damaged_duals(store, kept, damage, words):
    damage(max(Path(f"{kept}.duals").iterdir()))
    before = {path.name for path in Path(f"{kept}.duals").iterdir()}
    with pytest.raises(CheckpointError, match=words) as error:
        make(checkpoint=kept).fit(store)
    assert "state.duals" in str(error.value) and "delete the checkpoint" in str(error.value)
    assert kept.exists() and {path.name for path in Path(f"{kept}.duals").iterdir()} >= before
    kept.unlink()
    assert make(checkpoint=kept).fit(store).converged_
    assert not list(kept.parent.iterdir())


@pytest.mark.parametrize(
    ("name", "forge", "words"),
    [
        ("value", lambda value: 100 * value, "duals are outside of their bounds"),
        ("value", lambda value: value * np.nan, "duals are outside of their bounds"),
        ("value", lambda value: value[:-1], "duals differ from the block in size"),
        ("value", lambda value: value.astype(np.float32), "does not hold together"),
        ("lane", lambda lane: lane + 3, "out of range|must increase"),
        ("indptr", lambda indptr: indptr[::-1], "decreases"),
        ("indptr", lambda indptr: indptr + 1, "out of range"),
    ],
)
def test_duals_that_no_training_has(store, kept, name, forge, words):
    """With all checksums right."""
    path = max(Path(f"{kept}.duals").iterdir())
    description, duals = read_container(path, dual_files._KIND)
    duals[name] = np.ascontiguousarray(forge(duals[name]))
    write_container(path, dual_files._KIND, description, duals)
    description, arrays = read_container(kept, CHECKPOINT)
    checksums = arrays[f"{MACHINE}blocks.files.checksums"].copy()
    checksums[int(path.name.split("-")[1])] = dual_files._checksum(duals)
    write_container(kept, CHECKPOINT, description, arrays | {f"{MACHINE}blocks.files.checksums": checksums})
    with pytest.raises(CheckpointError, match=words):
        make(checkpoint=kept).fit(store)


FORGED = [
    ("blocks.tour", lambda tour: np.array([0, 0]), "not there, or twice"),
    ("blocks.tour", lambda tour: np.array([4]), "not there, or twice"),
    ("blocks.number", lambda number: number + 4, "must be a number below 4"),
    ("blocks._tours", lambda tours: tours - 9, "'_tours' must be a number"),
    ("blocks.block.list_values", lambda values: 100 * values, "duals are outside of their bounds"),
    ("blocks.files.turns", lambda turns: turns[:-1], "duals must be of 4 blocks"),
    ("blocks.files.turns", lambda turns: turns + 100, "a turn that has not been"),
    ("blocks.files.turns", lambda turns: turns - 100, "a turn that has not been"),
    ("blocks.files.turn", lambda turn: turn.astype(float), "a turn that has not been"),
    ("passes._visited", lambda visited: visited + 1000, "'_visited' must be a number below"),
    ("passes._violation", lambda violation: violation * np.nan, "'_violation' must be finite"),
    ("passes._loss", lambda loss: loss + np.inf, "objectives that are no numbers"),
    ("passes.mean", lambda mean: mean[:-1], "finite weights"),
    ("passes.mean", lambda mean: mean * np.nan, "finite weights"),
    ("passes.sum", lambda total: total.astype(np.int64), "finite weights"),
    ("passes.stages._since", None, "_since"),
    ("passes.stages.acceleration.stages", lambda stages: stages - 1000, "out of range"),
]


@pytest.mark.parametrize(("name", "forge", "words"), FORGED)
def test_what_no_training_has_is_refused(store, kept, name, forge, words):
    description, arrays = read_container(kept, CHECKPOINT)
    names = [full for full in arrays if full.startswith(MACHINE + name)]
    values = arrays.pop(names[0])
    if forge is not None:
        arrays[names[0]] = forge(values)
    write_container(kept, CHECKPOINT, description, arrays)
    with pytest.raises(CheckpointError, match=words):
        make(checkpoint=kept).fit(store)


def test_whatever_is_forged_is_an_error_or_a_training(store, kept, tmp_path):
    description, arrays = read_container(kept, CHECKPOINT)
    rng = np.random.default_rng(0)
    for number, (name, values) in enumerate(arrays.items()):
        for odd in (1e300, np.nan) if values.dtype.kind == "f" else (2**31 - 5, -1):
            if not len(values):
                continue
            forged = values.copy()
            with np.errstate(all="ignore"):
                forged[rng.integers(len(values))] = np.array(odd).astype(values.dtype)
            folder = tmp_path / f"{number} {odd}"
            path = copied(kept, folder)
            write_container(path, CHECKPOINT, description, arrays | {name: forged})
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    make(checkpoint=path, max_iter=20).fit(store)
            except (CheckpointError, RuntimeError):
                pass
            shutil.rmtree(folder)


# Folders and disks


def test_what_a_killed_process_left_is_removed_and_nothing_else(store, tmp_path):
    folder = tmp_path / "state.duals"
    folder.mkdir()
    for name in ("duals-000000-000007", ".0123456789abcdef.part", "precious"):
        (folder / name).write_bytes(b"something")
    assert_same(make(checkpoint=tmp_path / "state").fit(store), make().fit(store))
    assert [path.name for path in folder.iterdir()] == ["precious"]


def test_an_error_before_the_first_checkpoint_leaves_nothing(store, tmp_path):
    def fails(record):
        raise RuntimeError("by a callback")

    with pytest.raises(RuntimeError, match="by a callback"):
        make(checkpoint=tmp_path / "state", callbacks=[fails]).fit(store)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="folders cannot be locked there")
def test_two_trainings_at_a_time(store, tmp_path):
    with locked_folder(tmp_path / "state.duals"), pytest.raises(FolderInUse, match="another program is writing there"):
        make(checkpoint=tmp_path / "state").fit(store)


def test_a_file_in_the_place_of_the_folder(store, tmp_path):
    (tmp_path / "state.duals").write_text("precious")
    with pytest.raises(OSError, match=r"state\.duals"):
        make(checkpoint=tmp_path / "state").fit(store)
    assert (tmp_path / "state.duals").read_text() == "precious"


def test_a_disk_without_room_for_the_state_keeps_the_last_one(store, tmp_path, monkeypatch):
    """Two of three states cannot be written: the one on disk and its duals are there all the same, at any moment."""
    whole, written, number = make().fit(store), checkpoint_module.write_container, 0

    def sometimes(*args, **kwargs):
        nonlocal number
        number += 1
        if number % 3:
            raise OSError(28, "No space left on device")
        written(*args, **kwargs)

    monkeypatch.setattr(checkpoint_module, "write_container", sometimes)
    model = make()
    with pytest.warns(RuntimeWarning, match="no checkpoint was written to .*No space left on device"):
        copies = after_slices(model, store, tmp_path, monkeypatch, lambda number: number % 29 < 3)
    monkeypatch.undo()
    assert_same(model, whole)
    assert len(copies) > 5
    for copy in copies:
        assert_same(make(checkpoint=copy).fit(store), whole)


def test_a_disk_without_room_for_duals(store, tmp_path, monkeypatch):
    whole, left, write = make(tol=1e-4).fit(store), 50, dual_files.write_container

    def fills_up(*args, **kwargs):
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(28, "No space left on device")
        write(*args, **kwargs)

    model = make(tol=1e-4, checkpoint=tmp_path / "state", checkpoint_every=0)
    with monkeypatch.context() as patch, pytest.warns(ConvergenceWarning, match="No space left on device"):
        patch.setattr(dual_files, "write_container", fills_up)
        model.fit(store)
    assert 0 < model.dual_gap_ < 1 and (tmp_path / "state").exists()
    assert_same(model.set_params(checkpoint_every=1e9).fit(store), whole)
    assert not list(tmp_path.iterdir())


def test_duals_take_little_room(store, tmp_path):
    """At most two files a block, whatever lies between two checkpoints."""
    most = 0

    def count(record):
        nonlocal most
        most = max(most, len(list((tmp_path / "state.duals").iterdir())))

    model = make(tol=1e-4, checkpoint=tmp_path / "state", callbacks=[count])
    for every in (0.02, 0.1, 1e9):
        model.set_params(checkpoint_every=every).fit(store)
    assert len(store) <= most <= 2 * len(store)


# kill -9, in a process of its own

PROGRAM = """
import json, sys
from multimargin import LinearSVM
from multimargin.data.blocks import open_blocks
store, path, parameters = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
model = LinearSVM(**parameters, checkpoint=path, checkpoint_every=0)
print("ready", flush=True)
model.fit(open_blocks(store))
print(json.dumps([model.primal_objective_, model.dual_objective_, model.n_iter_, model.coef_.tolist()]))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no kill -9")
@pytest.mark.parametrize("solver", ["sdm", "accelerated_sdm"])
def test_killed(digits, tmp_path, monkeypatch, solver):
    monkeypatch.undo()  # slices as long as they are there
    parameters = {"solver": solver, "C": 0.1, "tol": 1e-2 if solver == "sdm" else 1e-3}
    command = [sys.executable, "-c", PROGRAM, str(digits.path), str(tmp_path / "state"), json.dumps(parameters)]
    whole = LinearSVM(**parameters).fit(digits)
    began = time.perf_counter()
    LinearSVM(**parameters, checkpoint=tmp_path / "state", checkpoint_every=0).fit(digits)
    took, kills, result = time.perf_counter() - began, 0, None
    while result is None:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "ready\n"
            try:
                limit = took * random.uniform(0.2, 0.7) if kills < 2 else None
                result = process.communicate(timeout=limit)[0]
            except subprocess.TimeoutExpired:
                kills += 1
                process.send_signal(signal.SIGKILL)
    expected = [whole.primal_objective_, whole.dual_objective_, whole.n_iter_, whole.coef_.tolist()]
    assert json.loads(result) == expected
    assert kills and not list(tmp_path.iterdir())
