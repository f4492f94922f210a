"""What is said where, and in which words: the parts of the program that every command uses."""

import argparse
import io
import json
import math
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from multimargin.commands import options, terminal
from multimargin.commands.errors import CommandError, UsageError
from multimargin.commands.main import _in_words
from multimargin.commands.output_paths import check_output
from multimargin.commands.terminal import Terminal, file_size, one_line, written
from multimargin.commands.words import certificate, columns, counted, duration, fields, verdict

# Numbers of the command line


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (options.share, "0.001", 0.001),
        (options.share, "0.999", 0.999),
        (options.count, "1", 1),
        (options.folds, "2", 2),
        (options.positive, "1e-300", 1e-300),
        (options.positive, "1e300", 1e300),
        (options.seconds, "0", 0.0),
        (options.gamma, "scale", "scale"),
        (options.gamma, "auto", "auto"),
        (options.gamma, "0.5", 0.5),
        (options.weight, "a=2", ("a", 2.0)),
        (options.weight, "a=b=0.5", ("a=b", 0.5)),
        (options.weight, "-1=3", ("-1", 3.0)),
    ],
)
def test_numbers_that_are_taken(kind, text, value):
    assert kind(text) == value


@pytest.mark.parametrize(
    ("kind", "text", "what"),
    [
        (options.share, "0", "must be between 0 and 1, got 0"),
        (options.share, "1", "must be between 0 and 1, got 1"),
        (options.share, "nan", "must be between 0 and 1, got nan"),
        (options.count, "0", "must be at least 1, got 0"),
        (options.folds, "1", "must be at least 2, got 1"),
        (options.positive, "0", "must be above 0 and finite, got 0"),
        (options.positive, "inf", "must be above 0 and finite, got inf"),
        (options.seconds, "-0.1", "must be at least 0 and finite, got -0.1"),
        (options.seconds, "inf", "must be at least 0 and finite, got inf"),
        (options.seconds, "nan", "must be at least 0 and finite, got nan"),
        (options.weight, "=2", "must be LABEL=NUMBER, got '=2'"),
        (options.weight, "2", "must be LABEL=NUMBER, got '2'"),
        (options.weight, "a=", "'' is no number, in 'a='"),
    ],
)
def test_numbers_that_are_refused(kind, text, what):
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        kind(text)
    assert str(refused.value) == what


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("--weight =2", "argument --weight: must be LABEL=NUMBER, got '=2'"),
        ("--checkpoint-every -1", "argument --checkpoint-every: must be at least 0 and finite, got -1"),
        ("--gamma wide", "argument --gamma: invalid number value: 'wide'"),
        ("--degree 2.5", "argument --degree: invalid whole number value: '2.5'"),
        ("-v two", "argument -v/--cross-validate: invalid whole number value: 'two'"),
        ("--holdout some", "argument --holdout: invalid number value: 'some'"),
        ("--maxiter 3", "unrecognized arguments: --maxiter 3"),
        ("--max 3", "unrecognized arguments: --max 3"),  # nor is it short for --max-iter
    ],
)
def test_wrong_options_are_one_line(run, words, what):
    done = run("train", "data", "model", *words.split())
    assert (done.code, done.out) == (2, "")
    assert done.err == f"multimargin: error: {what} (see multimargin train --help)\n"


# The voice of a command


@pytest.fixture
def clock(monkeypatch):
    """A terminal of 30 columns, and time that stands still."""
    monkeypatch.setattr(terminal.shutil, "get_terminal_size", lambda: os.terminal_size((30, 24)))
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(terminal, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def on_terminal(**options):
    voice = Terminal(**options)
    voice.live = True
    return voice


def test_a_live_line_is_replaced_and_taken_away(clock, capsys):
    voice = on_terminal()
    voice.status("reading a file")
    voice.status("too soon")
    clock.now += 1
    voice.status("short")
    assert capsys.readouterr().err == "\rreading a file\rshort         "
    voice.status("at once", now=True)
    voice.say("result")
    voice.clear()  # there is nothing any more
    said = capsys.readouterr()
    assert said.err == "\rat once\r       \r"
    assert said.out == "result\n"


def test_a_live_line_has_room_for_twenty_characters_at_least(clock, capsys, monkeypatch):
    for width, shown in ((30, 29), (21, 20), (5, 20)):
        monkeypatch.setattr(terminal.shutil, "get_terminal_size", lambda width=width: os.terminal_size((width, 24)))
        on_terminal().status("x" * 99, now=True)
        assert capsys.readouterr().err == "\r" + "x" * shown


@pytest.mark.parametrize("say", ["say", "write", "answer", "note", "warn"])
def test_whatever_is_said_takes_the_live_line_away_first(clock, capsys, say):
    voice = on_terminal(as_json=say == "answer")
    voice.status("abc", now=True)
    getattr(voice, say)({"answer": {}, "write": ["w\n"]}.get(say, "text"))
    assert capsys.readouterr().err.startswith("\rabc\r   \r")


def test_nothing_is_live_without_a_terminal_or_when_quiet(monkeypatch):
    for terminal_there, quiet, live in ((True, False, True), (True, True, False), (False, False, False)):
        monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda there=terminal_there: there))
        assert Terminal(quiet=quiet).live is live


def test_a_status_of_what_is_not_live_is_not_shown(capsys):
    Terminal().status("abc", now=True)
    assert capsys.readouterr().err == ""


def test_who_hears_what(capsys):
    said = {}
    for name, voice in (
        ("plain", Terminal()),
        ("quiet", Terminal(quiet=True)),
        ("json", Terminal(as_json=True)),
    ):
        voice.say("say")
        voice.summary("summary")
        voice.answer({"a": 1})
        voice.note("note")
        voice.warn("warn")
        said[name] = capsys.readouterr()
    assert {name: found.out for name, found in said.items()} == {
        "plain": "say\nsummary\n",
        "quiet": "say\n",
        "json": '{"a": 1}\n',
    }
    note, warning = "multimargin: note: note\n", "multimargin: warning: warn\n"
    assert {name: found.err for name, found in said.items()} == {
        "plain": note + warning,
        "quiet": warning,
        "json": note + warning,
    }


def test_json_is_utf_8_also_of_names_that_are_not(monkeypatch):
    """Of bytes that are no letters Python makes halves of surrogate pairs, which some outputs write as those bytes."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="surrogateescape")
    monkeypatch.setattr(sys, "stdout", out)
    Terminal(as_json=True).answer({"data": "bad\udcff.csv"})
    assert json.loads(out.buffer.getvalue().decode()) == {"data": "bad\udcff.csv"}


def test_json_holds_what_numpy_has(capsys):
    value = {
        1: np.float32(0.5),
        "nan": [math.nan, np.inf, (1, np.int64(2))],
        "array": np.array([[1.0, -np.inf]]),
        "bytes": b"\xff",
        "ü": None,
        "text": "ü",
        "yes": np.bool_(True),
    }
    Terminal(as_json=True).answer(value)
    assert capsys.readouterr().out == (
        '{"1": 0.5, "nan": [null, null, [1, 2]], "array": [[1.0, null]], "bytes": "\ufffd", "ü": null, "text": "ü", '
        '"yes": true}\n'
    )


def test_long_results_are_written_whole(capsys):
    Terminal().write(f"{i}\n" for i in range(2500))
    assert capsys.readouterr().out.split() == [str(i) for i in range(2500)]


class Full(io.StringIO):
    """Takes nothing, or nothing more when it is flushed."""

    def __init__(self, error, at):
        super().__init__()
        self.error, self.at = error, at

    def write(self, text):
        if self.at == "write":
            raise self.error
        return super().write(text)

    def flush(self):
        if self.at == "flush":
            raise self.error


@pytest.mark.parametrize("at", ["write", "flush"])
def test_an_output_that_is_full_is_named(monkeypatch, at):
    monkeypatch.setattr(sys, "stdout", Full(OSError(28, "No space left on device"), at))
    with pytest.raises(OSError, match="No space left on device; write elsewhere") as full:
        written("x", flush=True)
    assert (full.value.errno, full.value.filename) == (28, "standard output")
    monkeypatch.setattr(sys, "stdout", Full(BrokenPipeError(), at))
    with pytest.raises(BrokenPipeError):
        written("x", flush=True)


def test_nobody_listening_is_no_reason_to_fail(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Full(OSError(5, "Input/output error"), "write"))
    terminal.tell("words")


def test_letters_that_the_encoding_lacks(monkeypatch):
    """A summary says them by number, as does JSON, which loses nothing; a result is not changed."""
    for encoding, name in (("ascii", "m\xe9.model"), ("utf-8", "m\udce9.model")):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding))
        escaped = name.encode("ascii", "backslashreplace").decode()
        Terminal().summary(f"model {name}")
        Terminal(as_json=True).answer({"model": name})
        with pytest.raises(UnicodeEncodeError):
            Terminal().write([name])
        summary, answer = sys.stdout.buffer.getvalue().decode().splitlines()
        assert summary == f"model {escaped}" and json.loads(answer) == {"model": name}
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii", errors="surrogateescape"))
    Terminal().summary(name)
    assert sys.stdout.buffer.getvalue() == b"m\xe9.model\n"


def test_one_line():
    assert one_line(" a\n b\t\x07c\u2028") == "a b \\x07c"
    assert one_line("a\x85b\x7f\xa0c") == "a b\\x7f c"
    assert one_line(ValueError("x")) == "x"
    assert terminal.CONTROL_CHARACTERS[0x1F] == "\\x1f" and terminal.CONTROL_CHARACTERS[0x9F] == "\\x9f"
    assert not {0x20, 0x7E, 0xA0} & set(terminal.CONTROL_CHARACTERS)


# Files


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (9999, "10.0 kB"), (10_000, "10 kB"), (999_000, "999 kB")],
)
def test_sizes_of_files(tmp_path, size, words):
    (tmp_path / "f").write_bytes(bytes(size))
    assert file_size(str(tmp_path / "f")) == words


@pytest.mark.parametrize(("size", "words"), [(10**6, "1.0 MB"), (3 * 10**8, "300 MB"), (10**9, "1.0 GB")])
def test_sizes_of_large_files(tmp_path, monkeypatch, size, words):
    monkeypatch.setattr(os.path, "getsize", lambda path: size)
    assert file_size("f") == words


@pytest.mark.parametrize("path", ["", "folder/", "/"])
def test_an_output_needs_a_name(path):
    with pytest.raises(CommandError, match="the output needs the name of a file"):
        check_output(path)


def test_what_may_be_replaced(tmp_path):
    page = b'<!doctype html><meta name="generator" content="multimargin 1">'
    model = bytes(8) + b'{"__metadata__":{"checksum":"0"'
    files = {
        "page": page,
        "late": b" " * 4096 + page,
        "model": model,
        "shifted": model[1:],
        "liblinear": b"solver_type MCSVM_CS\n",
        "libsvm": b"svm_type c_svc\n",
        "text": b"words",
        "empty": b"",
    }
    may = {"report": {"page", "empty"}, "model": {"model", "liblinear", "libsvm", "empty"}, None: set(files)}
    for replaces, names in may.items():
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
            if name in names:
                check_output(str(tmp_path / name), replaces=replaces)
            else:
                with pytest.raises(CommandError, match=f"{name}: exists and is no {replaces}, and would be lost"):
                    check_output(str(tmp_path / name), replaces=replaces)
    check_output(str(tmp_path / "new"), replaces="model", apart_from=("", str(tmp_path / "text")))
    check_output("-")
    with pytest.raises(CommandError, match="-: a report is not written to standard output"):
        check_output("-", replaces="report")


# Words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0.00 s"),
        (9.99, "9.99 s"),
        (10.0, "10 s"),
        (59.4, "59 s"),
        (60.0, "1 min 0 s"),
        (3599.0, "59 min 59 s"),
        (3600.0, "1 h 0 min"),
        (7384.0, "2 h 3 min"),
    ],
)
def test_durations_at_their_bounds(seconds, words):
    assert duration(seconds) == words


def test_verdicts():
    model = SimpleNamespace(stopping="gap", converged_=True, tol=1e-3)
    assert verdict(model) == "reached: gap of at most 0.001"
    model = SimpleNamespace(stopping="violation", converged_=False, tol=0.1)
    assert verdict(model) == "NOT reached: violation of at most 0.1"


def test_a_gap_of_one_proves_nothing():
    model = SimpleNamespace(dual_gap_=1.0, worst_gap_=1.0, primal_objective_=2.0, dual_objective_=0.0)
    assert certificate(model).startswith("none yet")
    model = SimpleNamespace(dual_gap_=0.5, worst_gap_=0.5, primal_objective_=2.0, dual_objective_=1.0)
    assert certificate(model).startswith("within 100 % of the optimum: the objective is 2.00000, and no")
    model = SimpleNamespace(dual_gap_=0.1, worst_gap_=1.0, primal_objective_=2.0, dual_objective_=1.8)
    assert certificate(model).startswith("none yet")


def test_fields_and_columns():
    assert fields([("a", "1"), ("long", "2")]) == "a     1\nlong  2"
    header, rows = ["name", "kind", "n"], [["x", "yy", "10"], ["xxxxx", "y", "9"]]
    assert columns(header, rows, left=2) == "name   kind   n\n---------------\nx      yy    10\nxxxxx  y      9"
    assert columns(["n", ""], [["10", ""]], left=0) == " n\n--\n10"
    assert [counted(0, "fit"), counted(0, "class")] == ["0 fits", "0 classes"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (CommandError("a\nb"), "a\\nb"),
        (UsageError("no"), "no"),
        (ValueError("first\nsecond"), "first"),
        (TypeError("  two   spaces "), "two spaces"),
        (ImportError("install it"), "install it"),
        (OSError(2, "No such file", "f.svm"), "f.svm: no such file"),
        (OSError("just words"), "just words"),
        (MemoryError(), "not enough memory for so many rows or features"),
        (MemoryError("std::bad_alloc"), "not enough memory for so many rows or features"),
        (MemoryError("8 GB"), "not enough memory: 8 GB"),
        (KeyError("k"), "KeyError: 'k' (MULTIMARGIN_TRACEBACK=1 shows where)"),
        (ValueError(""), "ValueError:  (MULTIMARGIN_TRACEBACK=1 shows where)"),
        (
            UnicodeEncodeError("ascii", "aé", 1, 2, "no"),
            "the output's encoding, ascii, has no '\\xe9': set PYTHONIOENCODING=utf-8, or give a file",
        ),
    ],
    ids=repr,
)
def test_errors_in_words(error, words):
    assert _in_words(error) == words
