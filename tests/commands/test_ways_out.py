"""When something ends early or goes elsewhere: searches that are interrupted, outputs that are full, pipes, rescues."""

import io
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_iris

from multimargin import KernelSVM, LinearSVM, load, save
from multimargin.commands import main as program
from multimargin.commands import search
from multimargin.commands.datasets import Dataset, _Content, _read_svmlight_and_base
from multimargin.commands.errors import CommandError
from multimargin.commands.finished_paths import FinishedPaths
from multimargin.commands.main import build_parser
from multimargin.commands.model_files import check_model_file, kind_of, load_model, save_or_rescue
from multimargin.commands.peers import _measured, _objective
from multimargin.commands.predict import _predict
from multimargin.commands.terminal import Terminal

X, Y = load_iris(return_X_y=True)


# Searches


def two_folds(model, threads=1):
    rows = np.arange(150) % 2 == 0
    folds = [search._Fold(X[part], Y[part], X[~part], Y[~part]) for part in (rows, ~rows)]
    return search._Search(model, folds, threads, Terminal(quiet=True), 0.0, FinishedPaths(None))


def test_points_are_scored_once():
    run = two_folds(LinearSVM(tol=0.1))
    run.evaluate([(2.0, None), (-4.0, None)])
    assert (run.found.n_fits, run.total) == (4, 4)
    first = dict(run.found.scores)
    run.evaluate([(-4.0, None), (0.0, None)])
    assert (run.found.n_fits, run.total) == (6, 6) and set(run.found.scores) == {(2.0, None), (-4.0, None), (0.0, None)}
    assert {point: run.found.scores[point] for point in first} == first
    model = LinearSVM(C=0.0625, tol=0.1).fit(X[::2], Y[::2])
    assert run.found.scores[-4.0, None][0] == pytest.approx(model.score(X[1::2], Y[1::2]), abs=0.03)
    assert run.found.short == {(2.0, None): 0, (-4.0, None): 0, (0.0, None): 0}


def test_fits_of_a_search_start_from_the_last_one(monkeypatch):
    seen, fit = [], LinearSVM.fit

    def noted(model, X, y, *args):
        seen.append((model.C, model.warm_start, model.probability, model.verbose, hasattr(model, "coef_")))
        return fit(model, X, y, *args)

    monkeypatch.setattr(LinearSVM, "fit", noted)
    two_folds(LinearSVM(tol=0.1, probability=True, verbose=1)).evaluate([(2.0, None), (0.0, None)])
    assert seen == [(1.0, True, False, 0, False), (4.0, True, False, 0, True)] * 2


@pytest.mark.parametrize(("before", "kept"), [(0, 1), (1, 1)])
def test_an_interrupt_keeps_what_was_scored(monkeypatch, before, kept):
    """Of the first points those that most folds have; later only those that all have."""
    run = two_folds(LinearSVM(tol=0.1))
    if before:
        run.evaluate([(0.0, None)])
    fits = iter(range(1))

    def one_only(model, X, y, *args):
        if next(fits, None) is None:
            raise KeyboardInterrupt
        return fit(model, X, y, *args)

    fit = LinearSVM.fit
    monkeypatch.setattr(LinearSVM, "fit", one_only)
    with pytest.raises(KeyboardInterrupt):
        run.evaluate([(2.0, None)])
    assert run.stop.is_set() and len(run.found.scores) == kept
    assert ((2.0, None) in run.found.scores) == (not before)


def test_a_fold_that_fails_names_its_C(monkeypatch):
    def failing(model, X, y, *args):
        raise ValueError("too large")

    monkeypatch.setattr(LinearSVM, "fit", failing)
    with pytest.raises(CommandError, match=r"C = 4: too large"):
        two_folds(LinearSVM()).evaluate([(2.0, None)])


def test_what_a_search_says_meanwhile():
    run = two_folds(LinearSVM(tol=0.1))
    told = []
    run.terminal = SimpleNamespace(status=told.append, clear=lambda: None)
    run.later = 3
    run.evaluate([(0.0, None), (2.0, None)])
    assert told[-1].startswith("[########............] 4 of 10 fits  ") and told[-1].endswith(" left")
    done = threading.Event()
    done.set()
    run.stop = done
    run.evaluate([(4.0, None)])
    assert (4.0, None) not in run.found.scores and run.found.n_fits == 4


@pytest.mark.parametrize(("words", "later"), [((), [4, 2, 0]), (("--kernel", "rbf"), [16, 8, 0])])
def test_points_that_are_still_to_come(monkeypatch, words, later):
    """Two neighbours in each of two finer steps, eight of a kernel."""
    seen = []

    def noted(run, points):
        seen.append(run.later)
        run.found.scores |= {point: [float(point == (2.0, points[0][1]))] for point in points}
        run.found.short |= dict.fromkeys(points, 0)

    monkeypatch.setattr(search._Search, "evaluate", noted)
    ranges = ["--C-range", "1", "16", *(["--gamma-range", "0.5", "0.5"] if words else [])]
    args = build_parser().parse_args(["tune", "d", *words, *ranges])
    model = KernelSVM() if words else LinearSVM()
    found = search.search(args, model, Dataset("d", X, Y), 3, Terminal(quiet=True))
    assert seen == later and found.best["C"] == 4.0 and not found.interrupted and found.seconds > 0


# Outputs and inputs


class Full(io.StringIO):
    """Has no room."""

    def write(self, text):
        if text:
            raise OSError(28, "No space left on device")


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["train", "--help"]])
def test_help_that_has_nowhere_to_go(monkeypatch, capsys, words):
    monkeypatch.setattr(sys, "stdout", Full())
    assert program.main(words) == 1
    assert capsys.readouterr().err == "multimargin: error: standard output: no space left on device; write elsewhere\n"


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "multimargin: interrupted\n"),
        (BrokenPipeError(), 141, ""),
        (CommandError("wrong"), 1, "multimargin: error: wrong\n"),
        (ZeroDivisionError("x"), 1, "multimargin: error: ZeroDivisionError: x (MULTIMARGIN_TRACEBACK=1 shows where)\n"),
    ],
)
def test_how_a_command_ends(monkeypatch, capsys, raised, code, said):
    def fails(args, terminal):
        raise raised

    monkeypatch.setattr("multimargin.commands.demo.run", fails)
    monkeypatch.setattr(program, "send_nowhere", lambda stream: None)
    assert program.main(["demo"]) == code
    assert capsys.readouterr().err == said


def test_outputs_that_were_closed_are_no_error(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert program.main(["train", "missing", "m"]) == 1
    for stream in (sys.stdout, sys.stderr):
        stream.close()


@pytest.mark.parametrize(
    ("text", "zero_based", "based"),
    [
        ("1 1:1\n2 2:1\n", "auto", False),
        ("1 0:1\n2 2:1\n", "auto", True),
        ("1 1:1\n", True, True),
        ("1 1:1\n", False, False),
    ],
)
def test_what_indices_start_at(tmp_path, text, zero_based, based):
    path = tmp_path / "d.svm"
    path.write_text(text)
    X, _, found = _read_svmlight_and_base(str(path), None, zero_based)
    assert found is based and X.indices.min() == (int(text[2]) if based else 0)
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    writer = threading.Thread(target=Path(pipe).write_text, args=(text,), daemon=True)
    writer.start()
    piped, _, found = _read_svmlight_and_base(pipe, None, zero_based)
    writer.join(60)
    assert found is based and piped.indices.tolist() == X.indices.tolist()
    assert _Content(str(path)).name == str(path) and _Content(str(path)).read() == text.encode()


# Models


def test_kinds_of_models(tmp_path):
    for content, kind in ((b"solver_type X", "liblinear"), (b"svm_type c", "libsvm"), (b"\0" * 20, "multimargin")):
        (tmp_path / "m").write_bytes(content)
        assert kind_of(str(tmp_path / "m")) == kind
    (tmp_path / "m").write_bytes(b"")
    with pytest.raises(CommandError, match="m: is empty, no model"):
        kind_of(str(tmp_path / "m"))
    with pytest.raises(CommandError, match="is a folder, not a model file"):
        check_model_file(str(tmp_path))
    save(LinearSVM().fit(X, Y), tmp_path / "m")
    assert type(load_model(str(tmp_path / "m"))) is LinearSVM


def test_a_model_that_cannot_be_written_is_rescued(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    model = LinearSVM().fit(X, Y)

    def full(path):
        if path == "there":
            raise OSError(28, "No space left on device", path)
        save(model, path)

    with pytest.raises(CommandError) as told:
        save_or_rescue(full, "there")
    (rescued,) = tmp_path.glob("multimargin-*.model")
    assert str(told.value) == f"there: no space left on device; the model is not lost: it is in {rescued}"
    np.testing.assert_array_equal(load(rescued).coef_, model.coef_)
    wrong = ValueError("not this")
    for error, raised in ((wrong, ValueError), (KeyboardInterrupt(), KeyboardInterrupt)):

        def fails(path, error=error):
            raise error if path != "there" else OSError(28, "full")

        with pytest.raises(raised):
            save_or_rescue(fails, "there")
    assert list(tmp_path.iterdir()) == [rescued]


@pytest.mark.skipif(sys.platform == "win32", reason="no signals there")
def test_a_rescue_is_not_interrupted(tmp_path, monkeypatch):
    """The command ends all the same, and says where the model is."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def signalled(path):
        if path == "there":
            raise OSError(28, "No space left on device", path)
        signal.raise_signal(signal.SIGTERM)
        Path(path).write_text("whole")

    before = signal.signal(signal.SIGTERM, lambda *of: pytest.fail("in the middle of the rescue"))
    try:
        with pytest.raises(CommandError, match="the model is not lost"):
            save_or_rescue(signalled, "there")
    finally:
        signal.signal(signal.SIGTERM, before)
    (rescued,) = tmp_path.iterdir()
    assert rescued.read_text() == "whole"


def test_rows_that_a_model_refuses_are_those_of_a_file():
    model = LinearSVM().fit(X, Y)
    data = SimpleNamespace(X=X[:, :3], path="d")
    for args in (SimpleNamespace(proba=False, top=None), SimpleNamespace(proba=False, top=2)):
        with pytest.raises(CommandError, match="d: X has 3 features"):
            _predict(model, model, data, args)
    labels, (best, scores) = _predict(model, model, SimpleNamespace(X=X, path="d"), SimpleNamespace(proba=False, top=9))
    assert best.shape == scores.shape == (150, 3) and labels.tolist() == model.predict(X).tolist()


# Peers


def test_measures_of_a_peer():
    class Peer:
        """Says the first class of everything."""

        class_weight, classes_, C, loss = None, np.arange(3), 0.5, "hinge"
        coef_, intercept_, fit_intercept, intercept_scaling = np.zeros((3, 4)), np.array([2.0, 0, 0]), True, 2.0

        def fit(self, X, y):
            return self

        def predict(self, X):
            return np.zeros(len(X), int)

    ours = [{"machine": "one_vs_rest", "dual_objective": 1.0}, {"machine": "dag", "dual_objective": 900.0}]
    ours.append({"machine": "one_vs_rest", "dual_objective": 10.0})
    row = _measured("Peer", Peer(), "one_vs_rest", X, Y, X[:100], Y[:100], ours)
    assert (row["accuracy"], row["solver"], row["by"], row["converged"]) == (0.5, "liblinear", "scikit-learn", True)
    # Rows of class 0: losses 0, 1, 1; of class 1 and 2: 3, 1, 1; the bias as a weight is 1.
    assert row["objective"] == pytest.approx(0.5 + 0.5 * (50 * 2 + 100 * 5))
    assert row["gap"] == pytest.approx((row["objective"] - 10.0) / row["objective"])
    assert _objective(Peer(), "crammer_singer", X, Y) == pytest.approx(0.5 + 0.5 * 100 * 3)
    Peer.loss = "squared_hinge"
    assert _objective(Peer(), "one_vs_rest", X, Y) == pytest.approx(0.5 + 0.5 * (50 * 2 + 100 * 11))
    Peer.coef_, Peer.intercept_, Peer.fit_intercept = np.zeros((1, 4)), np.array([0.5]), False
    assert _objective(Peer(), "one_vs_rest", X[:100], Y[:100]) == pytest.approx(0.5 * 50 * (1.5**2 + 0.5**2))
    Peer.class_weight = {0: 2.0}
    row = _measured("Peer", Peer(), "one_vs_rest", X, Y, X, Y, ours)
    assert row["objective"] is None and row["gap"] is None
    assert _measured("Peer", Peer(), None, X, Y, X, Y, ours)["solver"] == "libsvm"


# Threads


def test_no_threads_can_be_started(run, folder, models, monkeypatch):
    """Reading does without; training with several says which option wants them; a search with one needs none."""
    expected = run("predict", folder / "digits.svm", models / "digits", "-").out
    tuned = ("tune", "@iris", "--C-range", "0.1", "1", "--json", "--quiet")
    accuracies = {fit["C"]: fit["accuracy"] for fit in run(*tuned).json["points"]}

    def fails(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fails)
    monkeypatch.setattr("multimargin.data.svmlight.PART_BYTES", 64)
    assert run("predict", folder / "digits.svm", models / "digits", "-").out == expected
    assert {fit["C"]: fit["accuracy"] for fit in run(*tuned).json["points"]} == accuracies
    for words in (("train", folder / "digits.svm", "m", "--formulation", "one_vs_rest"), ("tune", "@iris")):
        done = run(*words, "--n-jobs", "4")
        assert done.code == 1 and done.err.startswith("multimargin: error: can't start new thread: the system allows")
        assert done.err.endswith("; --n-jobs 1 needs none\n")
    assert run("train", folder / "digits.svm", "m", "--memory-mb", "0.2").code == 0


# Models through pipes


@pytest.fixture
def piped(tmp_path):
    """A pipe that something is written into as soon as somebody reads."""
    writers = []

    def pipe(content):
        path = tmp_path / f"pipe{len(writers)}"
        os.mkfifo(path)

        def write():
            with suppress(BrokenPipeError), open(path, "wb") as file:
                file.write(content)

        writers.append(threading.Thread(target=write, daemon=True))
        writers[-1].start()
        return path

    yield pipe
    for writer in writers:
        writer.join(60)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes by name there")
def test_models_through_pipes(run, folder, models, piped):
    data = folder / "digits.svm"
    expected = run("predict", data, models / "digits", "-").out
    run("train", data, "rest", "-s", "3", "-q")
    run("convert", "rest", "rest.liblinear")
    of_rest = run("predict", data, "rest", "-").out
    for model, labels in ((models / "digits", expected), (Path("rest.liblinear"), of_rest)):
        done = run("predict", data, piped(model.read_bytes()), "-")
        assert (done.code, done.out) == (0, labels), done
    assert run("convert", piped(Path("rest").read_bytes()), "again.liblinear").code == 0
    assert Path("again.liblinear").read_bytes() == Path("rest.liblinear").read_bytes()
    assert run("report", piped((models / "digits").read_bytes()), data, "r.html").code == 0
    for content, said in (
        (b"", "is empty, no model"),
        (b"\0" * 10_000_000, "this is not a model of multimargin"),
        (b"\x80" * 100, "this is a pickle"),
        ((models / "digits").read_bytes()[:-1], "bytes follow the header"),
    ):
        path = piped(content)
        done = run("predict", data, path, "-")
        assert done.code == 1 and done.err.startswith(f"multimargin: error: {path}: ") and said in done.err, done


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="needs /dev/zero")
def test_models_are_no_devices(run, folder):
    for words in (("predict", folder / "digits.svm", "/dev/zero", "-"), ("convert", "/dev/zero", "m.libsvm")):
        assert run(*words).err == "multimargin: error: /dev/zero: is a device, not a model file\n"
    with pytest.raises(ValueError, match="/dev/zero: is a device, not a file; "):
        load("/dev/zero")
