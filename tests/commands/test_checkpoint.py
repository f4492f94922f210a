"""``multimargin train --checkpoint``: ended by a limit or a signal, the same command goes on."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from multimargin import load, write_svmlight

TRAIN = ("train", "@digits", "m", "--solver", "sdm", "--checkpoint", "state")


def test_goes_on_and_says_so(run, tmp_path):
    first = run(*TRAIN, "--tol", "0.1", "--max-iter", "1")
    assert first.code == 3 and "state holds the training: the same command with a larger limit goes on" in first.err
    assert (tmp_path / "state").exists()
    second = run(*TRAIN, "--tol", "0.1")
    assert second.code == 0 and "note: state: going on from this checkpoint" in second.err
    assert not (tmp_path / "state").exists()
    whole = run(*TRAIN, "--tol", "0.1", "--json", "--checkpoint-every", "0")
    assert "going on" not in whole.err and "checkpoint" not in whole.json["parameters"]


def test_refusals(run, tmp_path):
    run(*TRAIN, "--tol", "0.1", "--max-iter", "1")
    other = run(*TRAIN, "--tol", "0.1", "--C", "2")
    assert other.code == 1 and "C was 1 and is 2" in other.err and "going on" not in other.err
    (tmp_path / "state").write_bytes((tmp_path / "state").read_bytes()[:-1])
    damaged = run(*TRAIN, "--tol", "0.1")
    assert damaged.code == 1 and "delete it" in damaged.err and "going on" not in damaged.err
    for more in (["-v", "3"], ["-C"]):
        assert "--checkpoint is of one training" in run("train", "@iris", "--checkpoint", "s", *more).err
    assert run("train", "@iris", "m", "--checkpoint", "no/state").code == 1
    assert run("train", "@iris", "m", "--checkpoint", "s", "--checkpoint-every", "-1").code == 2


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes by name there")
@pytest.mark.parametrize("words", [("train", "missing", "m"), ("tune", "missing")])
def test_what_is_no_file_keeps_no_checkpoint(run, tmp_path, words):
    """Refused before anything is read: a pipe has nothing to go on from, and nobody may ever write to it."""
    os.mkfifo(tmp_path / "pipe")
    for path, kind in (("pipe", "a pipe"), ("/dev/null", "a device"), ("/dev/full", "a device")):
        if os.path.exists(path):
            done = run(*words, "--checkpoint", path)
            said = f"multimargin: error: {path}: is {kind}, which keeps no checkpoint; give the name of a file\n"
            assert (done.code, done.err) == (1, said)
    assert "is a folder" in run(*words, "--checkpoint", tmp_path).err


@pytest.mark.skipif(sys.platform == "win32", reason="no signals there")
@pytest.mark.parametrize("ends", ["SIGTERM", "SIGHUP"])
def test_sigterm(run, tmp_path, ends):
    words = [*TRAIN, "--tol", "1e-14", "--max-iter", "100000000", "--C", "1000", "--checkpoint-every", "0"]
    command = [sys.executable, "-m", "multimargin", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        while not (tmp_path / "state").exists() and process.poll() is None:
            time.sleep(0.02)
        before = (tmp_path / "state").read_bytes()
        process.send_signal(getattr(signal, ends))
        _, said = process.communicate(timeout=120)
    assert process.returncode == 128 + getattr(signal, ends)
    assert "terminated: state holds the training: the same command goes on from there" in said
    assert "Traceback" not in said
    assert not (tmp_path / "m").exists()
    assert (tmp_path / "state").read_bytes() != before
    on = run(*words, "--time-limit", "0.001")
    assert on.code == 3 and "going on from this checkpoint" in on.err


def test_a_checkpoint_stays_until_the_model_is_written(run, tmp_path, monkeypatch):
    """Who is killed while a large model is written goes on from it; a model elsewhere is not where it was asked for."""
    words = [*TRAIN, "--checkpoint-every", "0"]
    there, replace = [], os.replace

    def written(source, target):
        there.append((Path(target).name, (tmp_path / "state").exists()))
        return replace(source, target)

    monkeypatch.setattr(os, "replace", written)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run(*words).code == 0
    assert ("m", True) in there and sorted(os.listdir(tmp_path)) == ["m"]

    def full(source, target):
        if Path(target).name == "m":
            raise OSError(28, "No space left on device")
        return replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    failed = run(*words)
    assert failed.code == 1 and "the model is not lost" in failed.err
    monkeypatch.setattr(os, "replace", replace)
    again = run(*words, "--json")
    assert again.code == 0 and "going on from this checkpoint" in again.err and again.json["converged"]
    assert not (tmp_path / "state").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no signals there")
@pytest.mark.parametrize("when", ["written", "judged"])
def test_sigterm_when_the_model_is_written(run, tmp_path, monkeypatch, when):
    """At the end of the writing, for which it waits, or later: nothing is to be done again."""
    from multimargin.commands import fitting, train

    module, name = {"written": (train, "_save"), "judged": (fitting, "accuracy")}[when]
    does = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *of: (does(*of), signal.raise_signal(signal.SIGTERM))[0])
    done = run(*TRAIN, "--checkpoint-every", "0")
    assert done.code == 143 and done.err.endswith("multimargin: warning: terminated: m is written\n")
    assert load(tmp_path / "m").converged_


def test_a_checkpoint_that_cannot_be_removed_is_told(run, tmp_path, monkeypatch):
    """As on a file system that has become read-only: what was done is done."""
    unlink = Path.unlink

    def refused(path, missing_ok=False):
        if path.name == "state":
            raise OSError(30, "Read-only file system")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refused)
    tune = ("tune", "@iris", "-v", "2", "--C-range", "1", "1", "--checkpoint", "state")
    for words, answer in ((TRAIN, "accuracy "), (tune, "train the winner")):
        done = run(*words, "--checkpoint-every", "0")
        assert done.code == 0 and answer in done.out
        assert "state could not be removed (Read-only file system), and is of no more use; delete it" in done.err
        unlink(tmp_path / "state")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    path = tmp_path_factory.mktemp("text") / "digits.txt"
    write_svmlight(path, X[order] / 16, y[order])
    return path


def test_past_memory(run, text, tmp_path):
    """The blocks stay as long as the checkpoint does, and the duals."""
    words = ("train", text, "m", "--checkpoint", "state", "--memory-mb", "0.5", "--C", "0.1", "--tol", "0.05")
    whole = run("train", text, "whole", *words[5:], "--json").json
    first = run(*words, "--max-iter", "2")
    assert first.code == 3 and "state holds the training: the same command with a larger limit goes on" in first.err
    assert {"state", "state.duals", "m"} < set(os.listdir(tmp_path))
    (blocks,) = tmp_path.glob(".multimargin-*/data.blocks")
    other = run(*words, "--loss", "squared_hinge")
    assert other.code == 1 and "loss was 'hinge'" in other.err and "going on" not in other.err
    last = run(*words, "--json")
    assert last.code == 0 and "note: state: going on from this checkpoint" in last.err, last.err
    assert f"{blocks}: these blocks were left" in last.err
    assert sorted(os.listdir(tmp_path)) == ["m", "whole"]
    for name in ("primal_objective", "dual_objective", "epochs", "accuracy"):
        assert last.json[name] == whole[name], name


@pytest.mark.skipif(sys.platform == "win32", reason="no signals there")
def test_sigterm_past_memory(run, text, tmp_path):
    words = ["train", str(text), "m", "--checkpoint", "state", "--memory-mb", "0.5"]
    hard = ["--C", "1000", "--tol", "1e-12", "--max-iter", "100000000", "--checkpoint-every", "0"]
    command = [sys.executable, "-m", "multimargin", *words, *hard]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        while not (tmp_path / "state").exists() and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate()
    assert process.returncode == 143 and "Traceback" not in said, said
    assert "terminated: state holds the training: the same command goes on from there" in said
    on = run(*words, *hard, "--time-limit", "0.001")
    assert on.code == 3 and "going on from this checkpoint" in on.err
