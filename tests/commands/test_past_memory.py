"""``train`` on text that memory does not hold, and ``convert`` to a store of blocks."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris

from multimargin import LinearSVM, load, read_svmlight, write_svmlight
from multimargin.commands.main import build_parser
from multimargin.commands.past_memory import is_past_memory
from multimargin.data import block_writing
from multimargin.data.blocks import open_blocks
from multimargin.data.folder_lock import locked_folder


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).integers(0, 150, 3000)
    path = tmp_path_factory.mktemp("text") / "iris.txt"
    write_svmlight(path, X[order] / X.max(axis=0), y[order])
    return path


def test_text_that_is_too_large_is_trained_from_blocks(run, text, tmp_path):
    wanted = ("--tol", "0.05", "--C", "0.01", "--json")
    found = run("train", text, tmp_path / "a.model", *wanted, "--memory-mb", "0.1")
    assert (found.code, found.json["rows"], found.json["solver"]) == (0, 3000, "accelerated_sdm"), found.err
    assert found.json["gap"] <= 0.05
    assert [path.name for path in tmp_path.iterdir()] == ["a.model"]
    alone = LinearSVM(C=0.01, tol=0.05).fit(*read_svmlight(text))
    assert found.json["primal_objective"] == pytest.approx(alone.primal_objective_, rel=0.1)
    assert load(tmp_path / "a.model").classes_.tolist() == [0, 1, 2]


def test_blocks_are_kept_and_used_again(run, text, tmp_path):
    blocks = tmp_path / "iris.blocks"
    assert run("convert", text, blocks, "--block-mb", "0.1", "--json").json["rows"] == 3000
    wanted = ("--tol", "0.05", "--C", "0.01", "--json")
    written = {file.name: file.stat().st_mtime_ns for file in blocks.iterdir()}
    one = run("train", text, tmp_path / "a.model", *wanted, "--blocks", blocks)
    other = run("train", blocks, tmp_path / "b.model", *wanted)
    assert one.code == other.code == 0
    assert one.json["primal_objective"] == other.json["primal_objective"]
    assert {file.name: file.stat().st_mtime_ns for file in blocks.iterdir()} == written
    assert open_blocks(blocks).n_rows == 3000


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--holdout", "0.5"), 2, "--holdout needs DATA in memory"),
        (("--kernel", "rbf"), 2, "--kernel needs DATA in memory"),
        (("--probability",), 2, "--probability needs DATA in memory"),
        (("--formulation", "dag"), 1, "not trained on a store"),
        (("--memory-mb", "0.0001"), 1, "is trained from blocks on disk, within 0.0001 MB"),
        (("--memory-mb", "0.0001"), 1, "is too little"),
    ],
)
def test_refusals(run, text, tmp_path, options, code, words):
    found = run("train", text, tmp_path / "a.model", "--blocks", tmp_path / "kept", *options)
    assert found.code == code and words in found.err
    assert not (tmp_path / "a.model").exists()


def test_damaged_blocks_are_named(run, text, tmp_path):
    blocks = tmp_path / "iris.blocks"
    run("convert", text, blocks)
    (blocks / "block-000000").write_bytes(b"x")
    found = run("train", blocks, tmp_path / "a.model")
    assert found.code == 1 and "block-000000: has 1 bytes" in found.err
    again = run("convert", text, blocks)
    assert again.code == 1 and "is there already" in again.err


@pytest.mark.parametrize(
    ("suffix", "memory_mb", "past"),
    [(".txt", 1.9, True), (".txt", 2.1, False), (".txt.gz", 9.5, True), (".txt.xz", 10.5, False), (".npz", 0.1, False)],
)
def test_text_is_past_memory_when_its_rows_may_be(tmp_path, suffix, memory_mb, past):
    """A byte of text is up to two in memory, one of compressed text up to ten."""
    path = tmp_path / f"data{suffix}"
    path.write_bytes(bytes(2**20))
    args = build_parser().parse_args(["train", str(path), "m", "--memory-mb", str(memory_mb)])
    assert is_past_memory(args) is past


def iris_tables(label=lambda y: y):
    """The same table in all formats, with a column that is to be dropped."""
    pandas = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).integers(0, 150, 3000)
    X = X[order] * [1, 10, 100, 1000] * (1 + 0.01 * np.random.default_rng(1).standard_normal((3000, 4)))
    frame = pandas.DataFrame(X, columns=list("dabc")).assign(kind=label(y[order]), key="k")
    frame.to_csv("t.csv", index=False)
    frame.to_csv("t.tsv.gz", index=False, sep="\t")
    frame.to_parquet("t.parquet")
    return frame


WANTED_OF_TABLES = ("--label", "kind", "--drop", "key", "--tol", "0.01", "--C", "0.1", "--json")


@pytest.mark.parametrize("name", ["t.csv", "t.tsv.gz", "t.parquet"])
@pytest.mark.parametrize("label", [lambda y: y, lambda y: np.array(["01", "1", "two"])[y]], ids=["numbers", "names"])
def test_tables_of_numbers_are_trained_from_blocks_too(run, name, label, tmp_path):
    frame = iris_tables(label)
    past = run("train", name, "a.model", *WANTED_OF_TABLES, "--memory-mb", "0.1")
    assert past.code == 0 and "is trained from blocks on disk" in past.err, past.err
    within = run("train", name, "b.model", *WANTED_OF_TABLES)
    assert past.json["classes"] == within.json["classes"] and past.json["gap"] <= 0.01
    assert past.json["primal_objective"] == pytest.approx(within.json["primal_objective"], rel=0.02)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.model", "b.model", "t.csv", "t.parquet", "t.tsv.gz"]
    one, other = load("a.model"), load("b.model")
    for step in ("mean_", "scale_"):
        scales = [getattr(each[0].named_transformers_["numeric"][-1], step) for each in (one, other)]
        np.testing.assert_allclose(*scales, rtol=1e-12)
    assert np.mean(one.predict(frame) == other.predict(frame)) > 0.98
    assert run("predict", name, "a.model", "out.txt", "--label", "kind", "--json").json["accuracy"] > 0.9


def test_tables_from_blocks_have_checkpoints(run, tmp_path):
    iris_tables()
    words = ["train", "t.csv", "a.model", *WANTED_OF_TABLES, "--memory-mb", "0.3", "--checkpoint", "state"]
    first = run(*words, "--tol", "1e-4", "--max-iter", "2")
    assert first.code == 3 and "is trained from blocks on disk" in first.err and (tmp_path / "state").exists()
    last = run(*words, "--tol", "1e-4")
    assert last.code == 0 and "state: going on from this checkpoint" in last.err, last.err
    assert last.json["gap"] <= 1e-4 and not list(tmp_path.glob("state*"))


def test_what_is_missing_in_a_table_to_predict_is_the_mean(run):
    frame = iris_tables()
    run("train", "t.csv", "a.model", *WANTED_OF_TABLES, "--memory-mb", "0.1")
    model, cut, mean = load("a.model"), frame.copy(), frame.copy()
    cut.loc[7, "a"], mean.loc[7, "a"] = np.nan, frame["a"].mean()
    np.testing.assert_allclose(model.decision_function(cut), model.decision_function(mean), rtol=1e-12)


def test_a_table_that_was_changed_is_scaled_anew(run, tmp_path):
    """What a killed training left of it is not used, nor is it with other columns."""
    frame = iris_tables()
    script = KILLED.replace("_State.add = counted", "_State.add = counted; left = 1")
    words = [sys.executable, "-c", script, "training", "train", "t.csv", "a.model", *WANTED_OF_TABLES, "--memory-mb"]
    killed = subprocess.run([*words, "0.1"], cwd=tmp_path, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob(".multimargin-*"))) == 1
    found = run("train", "t.csv", "a.model", *WANTED_OF_TABLES, "--drop", "a", "--memory-mb", "0.1")
    assert found.code == 0 and found.json["features"] == 3 and "were left by" not in found.err
    assert not list(tmp_path.glob(".multimargin-*"))
    assert load("a.model").decision_function(frame).shape == (3000, 3)


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        (lambda frame: frame.assign(color="red"), (), "column 'color' holds more than numbers"),
        (lambda frame: frame.assign(odd=frame["a"] > 30), (), "column 'odd' holds more than numbers"),
        (
            lambda frame: frame.assign(a=frame["a"].where(frame.index != 2990)),
            (),
            "row 2991: column 'a' holds no number",
        ),
        (lambda frame: frame, ("--holdout", "0.5"), "--holdout needs all rows there"),
        (lambda frame: frame, ("--categorical", "a"), "features of text and categories are made there"),
        (lambda frame: frame, ("--formulation", "dag"), "blocks are for other formulations"),
    ],
)
def test_other_tables_are_trained_in_memory_and_that_is_said(run, change, options, words):
    change(iris_tables()).to_csv("other.csv", index=False)
    found = run("train", "other.csv", "m", *WANTED_OF_TABLES, *options, "--memory-mb", "0.1")
    notes = [line for line in found.err.splitlines() if "which is more than --memory-mb 0.1" in line]
    assert found.code == 0 and len(notes) == 1 and words in notes[0], found.err


def test_blocks_of_a_table_are_not_kept(run):
    iris_tables()
    found = run("train", "t.csv", "m", *WANTED_OF_TABLES, "--blocks", "kept")
    assert found.code == 2 and "leave out --blocks" in found.err


def test_what_is_trained_in_memory_all_the_same_is_said(run, tmp_path):
    X, y = load_iris(return_X_y=True)
    np.savez_compressed("t.npz", X=np.tile(X, (20, 1)), y=np.tile(y, 20))  # a small file
    write_svmlight("t.txt", X, y)
    wanted = ("--tol", "0.05", "--C", "0.01")
    for name, options, words in [
        ("t.npz", (), "multimargin.data.write_blocks"),
        ("t.txt", ("--kernel", "rbf"), "kernel machines"),
    ]:
        found = run("train", name, "m", *wanted, *options, "--memory-mb", "0.005")
        notes = [line for line in found.err.splitlines() if "which is more than --memory-mb 0.005" in line]
        assert found.code == 0 and len(notes) == 1 and name in notes[0] and words in notes[0], (name, found.err)
        roomy = run("train", name, "m", *wanted, *options, "--memory-mb", "5")
        assert roomy.code == 0 and "memory" not in roomy.err, (name, roomy.err)


KILLED = """
import os, signal, sys
from multimargin.commands import past_memory
from multimargin.commands.main import main
from multimargin.data import block_writing
add, left = block_writing._State.add, 3
def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)
def counted(self, *block):
    global left
    add(self, *block)
    left -= 1
    if left == 0:
        kill()
if sys.argv[1] == "training":
    past_memory._train = kill
else:
    block_writing._State.add = counted
main(sys.argv[2:])
"""
WANTED = ("--tol", "0.05", "--C", "0.01", "--json", "--memory-mb", "0.1")


def killed(when, data, folder):
    """What a training that was killed left."""
    words = [sys.executable, "-c", KILLED, when, "train", data, folder / "a.model", *WANTED]
    assert subprocess.run(list(map(str, words)), check=False, capture_output=True).returncode == -signal.SIGKILL
    (left,) = folder.glob(".multimargin-*")
    return left


@pytest.fixture
def written(monkeypatch):
    """The blocks that are written in this process."""
    names, add = [], block_writing._State.add
    monkeypatch.setattr(block_writing._State, "add", lambda state, *block: (names.append(1), add(state, *block))[1])
    return names


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be locked")
@pytest.mark.parametrize("when", ["writing", "training"])
def test_the_next_training_goes_on_from_blocks_that_a_killed_one_left(run, text, tmp_path, written, when):
    alone = tmp_path / "alone"
    alone.mkdir()
    whole = run("train", text, alone / "a.model", *WANTED).json
    n_blocks = len(written)
    written.clear()
    folder = tmp_path / "killed"
    folder.mkdir()
    left = killed(when, text, folder)
    assert left.stat().st_mode & 0o077 == 0
    (left / "multimargin-duals-x").mkdir()
    (folder / f"{left.name[:-1]}7").mkdir()  # of another one, at the same time
    found = run("train", text, folder / "a.model", *WANTED)
    assert found.code == 0 and found.json["primal_objective"] == whole["primal_objective"], found.err
    assert len(written) == (n_blocks - 3 if when == "writing" else 0)
    assert os.listdir(folder) == os.listdir(alone) == ["a.model"]


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be locked")
@pytest.mark.parametrize("change", ["data", "options", "damage"])
def test_blocks_of_other_data_are_not_gone_on_from(run, text, tmp_path, written, change):
    data, folder = tmp_path / "data.txt", tmp_path / "models"
    folder.mkdir()
    data.write_bytes(text.read_bytes())
    left = killed("training", data, folder)
    options = ()
    if change == "data":
        data.write_bytes(data.read_bytes() + b"1 1:1\n")
    elif change == "options":
        options = ("--n-features", "9")
    else:
        (left / "data.blocks" / "block-000000").write_bytes(b"")
    found = run("train", data, folder / "a.model", *WANTED, *options)
    assert found.code == 0 and found.json["rows"] == 3000 + (change == "data"), found.err
    assert found.json["features"] == (9 if change == "options" else 4)
    assert len(written) > 3 and os.listdir(folder) == ["a.model"]


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be locked")
def test_the_folder_of_a_training_at_the_same_time_is_left_alone(run, text, tmp_path):
    left = killed("training", text, tmp_path)
    before = sorted(path.name for path in left.rglob("*"))
    with locked_folder(left):
        found = run("train", text, tmp_path / "a.model", *WANTED)
    assert found.code == 0 and "were left by" not in found.err
    assert sorted(path.name for path in left.rglob("*")) == before
    assert sorted(os.listdir(tmp_path)) == sorted([left.name, "a.model"])


def test_without_locks_nothing_is_taken_over(run, text, tmp_path, monkeypatch):
    """Nobody can tell whether the folder is in use."""
    left = killed("training", text, tmp_path)
    before = sorted(path.name for path in left.rglob("*"))
    monkeypatch.setattr("multimargin.data.folder_lock.fcntl", None)
    found = run("train", text, tmp_path / "a.model", *WANTED)
    assert found.code == 0 and left.name not in found.err
    assert sorted(path.name for path in left.rglob("*")) == before
    assert sorted(os.listdir(tmp_path)) == sorted([left.name, "a.model"])
