"""Which options every command has, what they are when nothing is said, and what the parsers do by themselves."""

import io
import sys

import numpy as np
import pytest

from multimargin.commands.main import build_parser
from multimargin.commands.options import Parser

OUTPUT = {"-h", "--help", "--json", "-q", "--quiet"}
OF_DATA = {"--format", "--label", "--text", "--zero-based"}
OF_TRAINING_DATA = OF_DATA | {"--numeric", "--categorical", "--drop", "--ngrams", "--min-df", "--n-features"}
MACHINE = {
    "--loss", "--kernel", "--degree", "--coef0", "--class-weight", "--weight", "--no-intercept", "--intercept-scaling",
    "-B", "--tol", "--stopping", "-e", "--max-iter", "--time-limit", "--cache-mb", "--n-jobs", "--seed",
}  # fmt: skip
BY_FORMULATION = {"--formulation", "-s", "--solver"}
WITH_C = {"-c", "--C", "--gamma"}
OPTIONS = {
    "demo": OUTPUT | {"--report"},
    "train": OUTPUT | OF_TRAINING_DATA | MACHINE | BY_FORMULATION | WITH_C | {
        "--probability", "--memory-mb", "--blocks", "--checkpoint", "--checkpoint-every", "--valid", "--holdout", "-v",
        "--cross-validate", "-C", "--find-C",
    },
    "predict": OUTPUT | OF_DATA | {"--proba", "--top"},
    "tune": OUTPUT | OF_TRAINING_DATA | MACHINE | BY_FORMULATION | {
        "-v", "--folds", "--C-range", "--gamma-range", "--plot", "--checkpoint", "--checkpoint-every",
    },
    "compare": OUTPUT | OF_TRAINING_DATA | MACHINE | WITH_C | {"--peers", "--holdout"},
    "report": OUTPUT | OF_DATA | {"--title"},
    "convert": OUTPUT | {"--to", "--label", "--block-mb", "--compress"},
    "completion": {"-h", "--help"},
}  # fmt: skip


@pytest.mark.parametrize("command", OPTIONS)
def test_options(command):
    actions = build_parser().commands[command]._actions
    assert {option for action in actions for option in action.option_strings} == OPTIONS[command]


SHARED = {
    "json": False,
    "quiet": False,
    "format": None,
    "label": None,
    "text": [],
    "zero_based": "auto",
}
TRAINING = SHARED | {
    "numeric": [],
    "categorical": [],
    "drop": [],
    "ngrams": [1, 1],
    "min_df": 1,
    "n_features": None,
    "loss": "hinge",
    "kernel": None,
    "degree": 3,
    "coef0": 0.0,
    "class_weight": None,
    "weight": [],
    "fit_intercept": True,
    "intercept_scaling": 1.0,
    "tol": 1e-3,
    "stopping": "gap",
    "max_iter": 1000,
    "time_limit": None,
    "cache_mb": 1024.0,
    "n_jobs": None,
    "seed": 0,
}
CHOSEN = {"formulation": "crammer_singer", "solver": None}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("demo", {"json": False, "quiet": False, "report": "report.html"}),
        (
            "train d",
            TRAINING
            | CHOSEN
            | {
                "data": "d",
                "model": None,
                "C": 1.0,
                "gamma": "scale",
                "probability": False,
                "memory_mb": None,
                "blocks": None,
                "checkpoint": None,
                "checkpoint_every": 600.0,
                "valid": None,
                "holdout": None,
                "folds": None,
                "find_C": False,
            },
        ),
        ("predict d m", SHARED | {"data": "d", "model": "m", "out": "-", "proba": False, "top": None}),
        (
            "tune d",
            TRAINING
            | CHOSEN
            | {"data": "d", "folds": 5, "C_range": None, "gamma_range": None, "plot": None}
            | {"checkpoint": None, "checkpoint_every": 600.0},
        ),
        ("compare d", TRAINING | {"data": "d", "C": 1.0, "gamma": "scale", "peers": False, "holdout": 0.25}),
        ("report m d o", SHARED | {"model": "m", "data": "d", "out": "o", "title": None}),
        (
            "convert i o",
            {"json": False, "quiet": False, "model": "i", "out": "o", "to": None, "label": None}
            | {"block_mb": 64.0, "compress": False},
        ),
        ("completion zsh", {"shell": "zsh"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_said(words, expected):
    found = vars(build_parser().parse_args(words.split()))
    found.pop("run")
    assert found.pop("command") == words.split()[0]
    assert found == expected


def test_what_may_be_said_more_than_once():
    words = "train d m --text a --text b --numeric c --categorical e --drop f --drop g --weight 1=2 --weight 2=3"
    found = build_parser().parse_args([*words.split(), "--ngrams", "1", "3"])
    assert (found.text, found.numeric, found.categorical, found.drop) == (["a", "b"], ["c"], ["e"], ["f", "g"])
    assert found.weight == [("1", 2.0), ("2", 3.0)] and found.ngrams == [1, 3]
    assert build_parser().parse_args(["train", "d", "m"]).text == []  # not those of the last time
    for flag, name, value in (
        ("--no-intercept", "fit_intercept", False),
        ("--probability", "probability", True),
        ("--find-C", "find_C", True),
        ("--json", "json", True),
        ("-q", "quiet", True),
    ):
        assert getattr(build_parser().parse_args(["train", "d", "m", flag]), name) is value


@pytest.mark.parametrize("name", ["B", "s", "e"])
def test_flags_of_liblinear_leave_nothing_of_themselves(name):
    found = vars(build_parser().parse_args(["train", "d", "m", f"-{name}", "2"]))
    assert not [key for key in found if key.startswith("_")]


@pytest.mark.parametrize(("bias", "fits", "scaling"), [("-1", False, 1.0), ("0", False, 1.0), ("0.5", True, 0.5)])
def test_biases_of_liblinear(bias, fits, scaling):
    found = build_parser().parse_args(["train", "d", "m", "-B", bias])
    assert (found.fit_intercept, found.intercept_scaling) == (fits, scaling)


def test_a_second_pair_of_dashes_is_a_name_missing(capsys):
    parser = Parser(prog="p")
    parser.add_argument("one", metavar="ONE")
    parser.add_argument("two", nargs="?")
    assert vars(parser.parse_args(["a"])) == {"one": "a", "two": None}
    with pytest.raises(SystemExit) as end:
        parser.parse_args([])
    assert end.value.code == 2
    assert capsys.readouterr().err == ("multimargin: error: the following arguments are required: ONE (see p --help)\n")


def test_help_goes_where_it_is_asked_for(capsys, monkeypatch):
    parser = Parser(prog="p", description="about")
    parser.print_help()
    shown = capsys.readouterr()
    assert shown.out.startswith("usage: p") and shown.err == ""
    parser.print_help(sys.stderr)
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("usage: p") and not shown.err.endswith("\n\n")
    flushed = []

    class Out(io.StringIO):
        def flush(self):
            flushed.append(self.getvalue())

    monkeypatch.setattr(sys, "stdout", Out())
    parser.print_help()
    assert flushed and "about" in flushed[-1]


def test_examples_are_indented_below_their_heading():
    for sub in build_parser().commands.values():
        head, *lines = sub.epilog.split("\n")
        assert head == "example:" and lines and all(line.startswith("  multimargin ") for line in lines)
        assert sub.usage.startswith("multimargin ")


def test_columns_of_the_help_have_room_for_long_names(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    build_parser().commands["train"].print_help()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  --max-iter")]
    assert len(lines) == 1 and lines[0].index("most epochs") == 30


def test_numbers_of_the_seed(run):
    np.savez("d.npz", X=np.eye(4), y=[0, 1, 0, 1])
    assert run("train", "d.npz", "m", "--seed", "7", "--json").json["parameters"]["random_state"] == 7
