"""``train`` on text that memory does not hold, and ``convert`` to a store of blocks."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from multimargin import LinearSVM, load, read_svmlight, write_svmlight
from multimargin.commands.main import build_parser
from multimargin.commands.past_memory import is_past_memory
from multimargin.data.blocks import open_blocks


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
