"""Trainings that end before their time, in this process: what is kept, what is said, and the exit codes."""

import os
import signal

import numpy as np
import pandas as pd
import pytest

from multimargin import LinearSVM, load, save, write_svmlight
from multimargin.commands import checkpoints, train
from multimargin.commands.datasets import Dataset
from multimargin.commands.main import build_parser
from multimargin.commands.terminal import Terminal
from multimargin.data.blocks import write_blocks
from multimargin.data.tables import Columns
from multimargin.estimators.base import MarginClassifier
from multimargin.estimators.plain_linear import PlainLinearSVM

WORDS = ("--tol", "1e-9", "--solver", "sdm", "--max-iter", "3")


@pytest.fixture
def rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((60, 4))
    y = np.arange(60) % 3
    write_svmlight("d.svm", X, y)
    write_blocks("d.blocks", "d.svm")
    return X, y


@pytest.fixture
def interrupted(monkeypatch):
    """Ctrl-C when the training is over, which has stored the model by then."""

    def until_stored(fit):
        def interrupts(self, *args, **options):
            fit(self, *args, **options)
            raise KeyboardInterrupt

        return interrupts

    for kind in (MarginClassifier, PlainLinearSVM):
        monkeypatch.setattr(kind, "fit", until_stored(kind.fit))


@pytest.mark.parametrize("data", ["d.svm", "d.blocks"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_ctrl_c_keeps_the_model(run, rows, interrupted, data):
    done = run("train", data, "m", *WORDS)
    assert done.code == 130
    assert done.err.endswith("multimargin: warning: interrupted: m holds the model as it was last certified\n")
    assert load("m").n_iter_ == 3 and done.fields["target"] == "NOT reached: gap of at most 1e-09"
    answer = run("train", data, "m", *WORDS, "--json").json
    assert answer["seconds"] == load("m").history_["seconds"][-1] and answer["epochs"] == 3


@pytest.mark.parametrize("data", ["d.svm", "d.blocks"])
def test_ctrl_c_before_anything_was_certified(run, rows, monkeypatch, data):
    def interrupts(self, *args, **options):
        raise KeyboardInterrupt

    for kind in (MarginClassifier, PlainLinearSVM):
        monkeypatch.setattr(kind, "fit", interrupts)
    done = run("train", data, "m", *WORDS)
    assert done.code == 130 and done.err.endswith("multimargin: interrupted\n") and not os.path.exists("m")


@pytest.mark.parametrize("data", ["d.svm", "d.blocks"])
def test_not_converged(run, rows, data):
    done = run("train", data, "m", *WORDS)
    assert done.code == 3 and "multimargin: warning: LinearSVM stopped after --max-iter 3 epochs" in done.err
    assert done.err.endswith("; m holds the model as far as it came\n") and load("m").verbose == 0
    kept = run("train", data, "m", *WORDS, "--checkpoint", "c")
    assert kept.code == 3
    assert kept.err.endswith(
        "as far as it came; c holds the training: the same command with a larger limit goes on from there\n"
    )
    more = run("train", data, "m", "--tol", "1e-9", "--solver", "sdm", "--max-iter", "4", "--checkpoint", "c")
    assert "multimargin: note: c: going on from this checkpoint\n" in more.err and more.code == 3


def test_what_the_model_knows_of_its_rows(run, rows):
    X, y = rows
    for data in ("d.svm", "d.blocks"):
        assert run("train", data, "m", "--json").json["rows"] == 60
        model = load("m")
        assert getattr(model, "first_index_", None) == (1 if data == "d.svm" else None)
        assert model.score(X, y) > 0.3
    answer = run("predict", "d.blocks", "m", "--json").json
    assert answer["rows"] == 60 and answer["accuracy"] == pytest.approx(model.score(X, y))
    save(LinearSVM().fit(X[:, :3], y), "narrow")
    done = run("predict", "d.blocks", "narrow", "out")
    assert done.err == (
        "multimargin: note: d.blocks: features that the model does not know are left out; the model has 3\n"
    )


# SIGTERM


def test_sigterm_interrupts_and_is_remembered():
    before = signal.getsignal(signal.SIGTERM)
    came = []
    with checkpoints._terminable(came):
        assert signal.getsignal(signal.SIGTERM) != before
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert came == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("there", "words"), [(True, "c holds the training: the same"), (False, "there is no checkpoint yet")]
)
def test_sigterm_with_a_checkpoint(tmp_path, monkeypatch, capsys, there, words):
    monkeypatch.chdir(tmp_path)
    args = build_parser().parse_args(["train", "d", "m", "--checkpoint", "c"])
    if there:
        (tmp_path / "c").write_text("")

    def training(ending):
        signal.raise_signal(signal.SIGTERM)

    assert checkpoints.terminable_work(args, Terminal(), training) == 143
    assert capsys.readouterr().err.startswith(f"multimargin: warning: terminated: {words}")

    def by_hand(ending):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        checkpoints.terminable_work(args, Terminal(), by_hand)
    assert checkpoints.terminable_work(args, Terminal(), lambda ending: 7) == 7

    args.checkpoint = None
    assert checkpoints.terminable_work(args, Terminal(), lambda ending: len(ending.came)) == 0


# Columns


def test_columns_that_look_like_something_else(capsys):
    n = 40
    frame = pd.DataFrame(
        {
            "Unnamed: 0": range(n),
            "key": [f"k{i}" for i in range(n)],
            "nearly": pd.Series([str(i % 37) for i in range(n - 1)] + ["none"], dtype=object),
            "kind": ["a", "b"] * (n // 2),
        }
    )
    columns = Columns(numeric=("Unnamed: 0",), categorical=("key", "nearly", "kind"))
    train._note_keys(Dataset("d", frame, None, columns), Terminal())
    said = capsys.readouterr().err
    assert "column 'Unnamed: 0' counts the rows" in said and "--drop 'Unnamed: 0' leaves it out" in said
    assert "column 'key' has 40 different values in 40 rows, each a feature" in said
    assert "column 'nearly' is of categories, each value a feature, as row 40 has 'none' among numbers" in said
    assert "column 'nearly' has" not in said and "'kind'" not in said and said.count("\n") == 3
    train._note_keys(Dataset("d", np.eye(3), None), Terminal())
    assert capsys.readouterr().err == ""
