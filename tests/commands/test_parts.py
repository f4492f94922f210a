"""Parts of commands by themselves: grids of a search, folds, formats of files, command lines that are printed."""

import shlex
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.svm import LinearSVC

from multimargin import KernelSVM, LinearSVM
from multimargin.commands import search
from multimargin.commands.compare import _runs
from multimargin.commands.datasets import (
    Dataset,
    _whole_labels,
    based_as,
    format_beside,
    format_of,
    note_fractions,
    read_more_data,
)
from multimargin.commands.errors import CommandError, UsageError
from multimargin.commands.finished_paths import FinishedPaths, Told
from multimargin.commands.fitting import _with_all_classes, accuracy, fit, folds_of
from multimargin.commands.liblinear_flags import with_weights_in_words
from multimargin.commands.machines import _name_for, describe, machine, parameters, set_weights, train_command
from multimargin.commands.main import build_parser
from multimargin.commands.options import FORMULATIONS
from multimargin.commands.peers import peers
from multimargin.commands.predict import _label
from multimargin.commands.terminal import Terminal
from multimargin.commands.train import as_options
from multimargin.data.tables import Columns
from tests.commands.notes import Notes

X, Y = load_iris(return_X_y=True)


# Grids


@pytest.mark.parametrize(
    ("bounds", "exponents"),
    [
        (None, []),
        ([1, 1], [0]),
        ([1, 4], [0, 2]),
        ([1, 5], [0, np.log2(5) / 2, np.log2(5)]),
        ([0.25, 4], [-2, 0, 2]),
        ([2, 2.0001], [1, np.log2(2.0001)]),
    ],
)
def test_ranges_in_steps_of_four_at_most(bounds, exponents):
    np.testing.assert_allclose(search._range(bounds), exponents)


@pytest.mark.parametrize(
    ("point", "other", "near"),
    [
        ((0.0, None), (2.0, None), True),
        ((0.0, None), (2.5, None), False),
        ((0.0, 1.0), (2.0, 3.0), True),
        ((0.0, 1.0), (2.0, 3.5), False),
        ((-1.0, 1.0), (1.5, 1.0), False),
    ],
)
def test_neighbours_of_the_coarse_grid(point, other, near):
    assert search._near(point, other) is search._near(other, point) is near


def test_grids_grow_at_their_ends_only():
    assert [search._beyond([0.0, 2.0, 4.0], best) for best in (0.0, 2.0, 4.0)] == [[-2.0], [], [6.0]]


@pytest.mark.parametrize(
    ("best", "exponents", "points"),
    [
        ((0.0, None), ([-2.0, 0.0, 2.0], [None]), [(-1.0, None), (0.0, None), (1.0, None)]),
        ((2.0, None), ([-2.0, 0.0, 2.0], [None]), [(1.0, None), (2.0, None)]),
        ((-2.0, None), ([-2.0, 0.0], [None]), [(-2.0, None), (-1.0, None)]),
        ((1.0, 3.0), ([1.0], [2.0, 4.0]), [(1.0, 2.0), (1.0, 3.0), (1.0, 4.0)]),
        ((1.0, 4.0), ([0.0, 2.0], [4.0]), [(0.0, 4.0), (1.0, 4.0), (2.0, 4.0)]),
    ],
)
def test_points_around_the_best_stay_in_the_grid(best, exponents, points):
    assert search._neighbours(best, 1.0, exponents) == points


def test_the_best_of_equals_is_the_smoothest():
    found = search.Found(
        scores={(2.0, 1.0): [0.5, 0.9], (0.0, 1.0): [0.7, 0.7], (0.0, -1.0): [0.6, 0.8], (-2.0, 0.0): [0.6, 0.6]}
    )
    assert found.ranked() == [(0.0, -1.0), (0.0, 1.0), (2.0, 1.0), (-2.0, 0.0)]
    assert found.best == {"C": 1.0, "gamma": 0.5}
    assert found.best_score == pytest.approx(0.7)
    assert search.parameters_of((3.0, None)) == {"C": 8.0}


@pytest.mark.parametrize(
    ("model", "Cs", "gammas"),
    [
        (LinearSVM(fit_intercept=False), range(-12, 3, 2), [None]),
        (LinearSVM(intercept_scaling=8), range(-13, 2, 2), [None]),
        (KernelSVM(), range(-2, 9, 2), range(-10, -1, 2)),
        (KernelSVM(kernel="linear", fit_intercept=False), range(-8, 3, 2), [None]),
    ],
)
def test_where_grids_begin(model, Cs, gammas):
    """Rows of squared norm 64, on average; "scale" of gamma is 1 / (4 * 16)."""
    rows = np.repeat([[4.0], [-4.0]], 4, axis=1) * np.ones((2, 4))
    found = search._exponents(SimpleNamespace(), model, rows)
    assert found == (list(Cs), list(gammas))
    given = SimpleNamespace(C_range=[1.0, 4.0], gamma_range=[0.25, 0.25])
    assert search._exponents(given, model, rows) == ([0.0, 2.0], [None] if gammas == [None] else [-2.0])


def test_a_grid_of_rows_that_are_zero_begins_at_one():
    assert search._exponents(SimpleNamespace(), LinearSVM(fit_intercept=False), np.zeros((2, 3)))[0][3] == 0.0


@pytest.mark.parametrize(
    ("counts", "asked", "folds"), [((5, 1), 5, 5), ((4, 4), 5, 4), ((4, 3), 5, 3), ((4, 1), 5, 2), ((2, 2), 3, 2)]
)
def test_folds_that_are_possible(counts, asked, folds):
    notes = Notes()
    data = Dataset("d", None, np.repeat([0, 1], counts))
    assert search._possible_folds(asked, data, notes) == folds
    assert notes.notes == ([] if folds == asked else [f"d: no class has {asked} rows: {folds} folds"])


def test_folds_of_one_class():
    with pytest.raises(CommandError, match="d: 5 folds need as many rows; there are 4"):
        folds_of(np.array([0, 0, 1, 1]), 5, 0, "d")
    assert len(folds_of(np.array([0, 0, 1, 1]), 2, 0, "d")) == 2
    with pytest.raises(CommandError, match="d: a fold of 2 has only one class to train on; take fewer folds"):
        folds_of(np.array([0, 0, 0, 1]), 2, 0, "d")


def test_points_that_some_folds_have_scored():
    for partly, expected in ((False, {}), (True, {(0.0, None): [0.5]})):
        run = search._Search(None, [None, None], 1, None, 0.0, FinishedPaths(None))
        run._collect({(0.0, None): {1: Told(0.5, False)}, (2.0, None): {}}, partly=partly)
        assert run.found.scores == expected
        assert run.found.short == dict.fromkeys(expected, 1)
    run._collect({(2.0, None): {1: Told(0.25, True), 0: Told(0.75, False)}})
    assert run.found.scores[2.0, None] == [0.75, 0.25] and run.found.short[2.0, None] == 1


def test_kernel_values_are_shared_where_they_fit():
    rows = X[:30]
    fold = search._Fold(rows, Y[:30], X[30:40], Y[30:40])
    exactly = 8 * 30 * 40 / 2**20
    for cache, shape in ((exactly, (30, 30)), (exactly * 0.99, (30, 4))):
        model = KernelSVM(gamma=0.5, cache_mb=cache)
        run = search._Search(model, [fold], 4, None, 0.0, FinishedPaths(None))
        values, values_out = run._kernel_values(model, fold)
        assert values.shape == shape and values_out.shape == (10, shape[1])
        if shape == (30, 30):
            assert model.kernel == "precomputed"
            distances = ((X[30:40, None] - rows[None]) ** 2).sum(axis=2)
            np.testing.assert_allclose(values_out, np.exp(-0.5 * distances), rtol=1e-9)


# Rows and labels


def test_a_class_that_is_missing_is_exchanged_for_one_of_the_largest():
    y = np.array([0, 0, 0, 1, 2])
    train, test = _with_all_classes(y, np.array([0, 1, 3]), np.array([2, 4]))
    assert train.tolist() == [1, 3, 4] and test.tolist() == [0, 2]
    train, test = _with_all_classes(y, np.array([0, 3]), np.array([1, 2, 4]))
    assert train.tolist() == [0, 3, 4] and test.tolist() == [1, 2]  # nobody has two to give


def test_accuracy_of_labels_that_are_spelt_as_text():
    model = LinearSVM().fit(X, Y)
    assert accuracy(model, X, Y.astype(str)) == accuracy(model, X, Y) == np.mean(model.predict(X) == Y)


def test_fit_takes_the_time_and_the_reason():
    done = fit(LinearSVM(max_iter=1, tol=1e-12, solver="sdm"), X, Y)
    assert 0 < done.seconds < 60 and "max_iter" in done.why_not


@pytest.mark.parametrize("label", [2**53 - 1, -(2**53) + 1, 0, 3])
def test_whole_labels(label):
    assert _whole_labels(np.array([1.0, label]), "d").tolist() == [1, label]


@pytest.mark.parametrize("label", [2.0**53, -(2.0**53), 0.5, np.nan, np.inf])
def test_labels_that_are_not_whole(label):
    with pytest.raises(CommandError, match=r"d: row 2: the label is \S+; classes must be whole numbers"):
        _whole_labels(np.array([1.0, label]), "d")


def test_some_rows_of_a_data_set():
    rows = np.array([2, 0])
    whole = Dataset("d", np.arange(6).reshape(3, 2), np.array([7, 8, 9]), None, True)
    some = whole.take(rows)
    assert some.X.tolist() == [[4, 5], [0, 1]] and some.y.tolist() == [9, 7]
    assert (some.path, some.columns, some.zero_based, some.n_rows) == ("d", None, True, 2)
    assert Dataset("d", np.ones((3, 2)), None).take(rows).y is None
    table = Dataset("d", pd.DataFrame({"a": [1, 2, 3]}, index=[5, 6, 7]), None, Columns(numeric=("a",)))
    assert table.take(rows).X["a"].tolist() == [3, 1]


@pytest.mark.parametrize(
    ("labels", "noted"),
    [(["1", "2"], False), (["1.0", "2"], False), (["1.5", "2"], True), (["a", "1.5"], False), (["nan", "1"], False)],
)
def test_labels_with_decimals_are_noted(labels, noted):
    notes = Notes()
    note_fractions(np.array(labels), "y", "d", notes)
    assert len(notes.notes) == noted
    assert not noted or "d: labels in column 'y' are numbers with decimals: each of the 2 is a class" in notes.notes[0]


@pytest.mark.parametrize(
    ("first", "said", "based"),
    [(None, "auto", "auto"), (0, "auto", True), (1, "auto", False), (0, "no", False), (1, "yes", True)],
)
def test_indices_start_as_in_training_unless_something_is_said(first, said, based):
    assert based_as(SimpleNamespace(first_index_=first), SimpleNamespace(zero_based=said)) == based
    assert based_as(SimpleNamespace(), SimpleNamespace(zero_based="yes")) is True


def test_formats(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.npz", "a.txt", "a.CSV", "a"):
        (tmp_path / name).write_text("")
    assert [format_of(name, None) for name in ("a.npz", "a.txt", "a.CSV", "a")] == [
        "npz",
        "svmlight",
        "csv",
        "svmlight",
    ]
    assert format_of("a.npz", "tsv") == "tsv"
    assert format_of("@iris", "tsv") == "bundled"
    assert format_beside("b.npz", "a.csv", "csv") is None
    assert format_beside("b.csv", "a.csv", "svmlight") == "svmlight"
    assert format_beside("b.txt", "a.csv", "csv") == "csv"
    with pytest.raises(CommandError, match="is a folder, not a file"):
        format_of(str(tmp_path), "csv")


@pytest.mark.parametrize(
    ("columns", "options", "code", "what"),
    [
        (None, {}, 1, "t.csv: is a table; the model was trained on a matrix"),
        (Columns(one_text="TfidfVectorizer"), {}, 2, "begins with a TfidfVectorizer; which column holds the text"),
        (Columns(one_text="TfidfVectorizer"), {"text": ["a", "b"]}, 2, "which column holds the text"),
        (Columns(text=("a",)), {"text": ["b"]}, 2, "--text is for models that begin with a vectorizer"),
    ],
)
def test_tables_for_models(tmp_path, monkeypatch, columns, options, code, what):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,b\nx,y\n")
    args = SimpleNamespace(**{"text": [], "label": None, "zero_based": "auto"} | options)
    with pytest.raises(CommandError, match=what) as refused:
        read_more_data("t.csv", args, Notes(), columns=columns, n_features=None)
    assert refused.value.exit_code == code


def test_tables_that_fit_a_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,b,y\nx,y,1\n")
    args = SimpleNamespace(text=["b"], label="y", zero_based="auto")
    found = read_more_data("t.csv", args, Notes(), columns=Columns(one_text="TfidfVectorizer"), n_features=None)
    assert list(found.X) == ["y"] and found.y.tolist() == [1] and found.columns.one_text
    args.text = ["a"]
    found = read_more_data("t.csv", args, Notes(), columns=Columns(text=("a",)), n_features=None)
    assert found.X["a"].tolist() == ["x"] and found.n_rows == 1


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        (Columns(one_text="TfidfVectorizer"), "is a matrix; the model begins with a TfidfVectorizer: it needs a table"),
        (Columns(numeric=tuple("abcdef")), "is a matrix; .* with columns 'a', 'b', 'c', 'd', 'e', 'f'$"),
        (Columns(numeric=tuple("abcdefg")), r"is a matrix; .* with columns 'a', 'b', 'c', 'd', 'e', 'f', \.\.\.$"),
    ],
)
def test_matrices_for_models_of_tables(columns, what):
    with pytest.raises(CommandError, match=what):
        read_more_data("@iris", SimpleNamespace(), Notes(), columns=columns, n_features=None)


# Machines and command lines


@pytest.mark.parametrize(
    ("data", "name"),
    [("a/b.svm", "b.model"), ("@iris", "iris.model"), ("x.tar.gz", "x.model"), (".hidden", ".hidden.model")],
)
def test_names_of_models(data, name):
    assert _name_for(data) == name


@pytest.mark.parametrize(
    "words",
    [
        "",
        "--text a --text=-b --drop c --ngrams 1 2 --min-df 3 --label=-y",
        "--weight 3=2 --weight=-1=0.25 --no-intercept --seed 7",
        "--formulation dag --solver newton --tol 0.01 --max-iter 5 --n-jobs -1",
        "--n-features 9 --zero-based yes --format svmlight --intercept-scaling 2",
    ],
)
def test_the_line_that_trains_the_winner_says_the_same(words):
    parser = build_parser()
    data = ["some data.csv"]
    args = parser.parse_args(["tune", *data, *shlex.split(words), "--json", "-q", "-v", "3"])
    line = train_command(args, {"C": 0.1234567})
    again = vars(parser.parse_args(with_weights_in_words(shlex.split(line)[1:])))
    assert (again["data"], again["model"], again["C"]) == ("some data.csv", "some data.model", 0.123457)
    alone = vars(parser.parse_args(["train", *data, "m", *shlex.split(words)]))
    assert {name: value for name, value in again.items() if name not in ("model", "C", "run", "command")} == {
        name: value for name, value in alone.items() if name not in ("model", "C", "run", "command")
    }
    assert not {"--json", "-q", "--quiet", "-v", "--find-C"} & set(shlex.split(line))


def test_the_line_has_gamma_where_it_was_found():
    args = build_parser().parse_args(["tune", "d", "--kernel", "rbf"])
    assert train_command(args, {"C": 1.0, "gamma": 0.5}) == "multimargin train d d.model --C 1 --kernel rbf --gamma 0.5"


def test_weights_of_classes():
    model = LinearSVM()
    set_weights(model, [], np.arange(3), "d", Terminal())
    assert model.class_weight is None
    set_weights(model, [("1", 0.0), ("2", 2.5)], np.arange(3), "d", Terminal())
    assert model.class_weight == {1: 0.0, 2: 2.5}
    for factor in (-0.1, float("inf"), float("nan")):
        with pytest.raises(UsageError, match=r"--weight 1=\S+: must be a finite number of at least 0"):
            set_weights(model, [("1", factor)], np.arange(3), "d", Terminal())
    for count, listed in ((10, "8, 9$"), (11, r"8, 9, \.\.\.$")):
        with pytest.raises(
            CommandError, match=f"d: --weight names class 'x', which no row has; there are 0, .*{listed}"
        ):
            set_weights(model, [("x", 1.0)], np.arange(count), "d", Terminal())


def test_what_is_told_of_a_machine():
    told = parameters(LinearSVM(C=2.0))
    assert told["C"] == 2.0 and "formulation" in told
    assert not {"verbose", "callbacks", "warm_start", "checkpoint", "checkpoint_every"} & set(told)
    assert describe(KernelSVM(kernel="linear").fit(X, Y)) == "crammer_singer, linear kernel, C = 1"


@pytest.mark.parametrize(
    ("words", "kind", "expected"),
    [
        ("", LinearSVM, {"probability": False, "checkpoint": None}),
        ("--probability", LinearSVM, {"probability": True}),
        ("--checkpoint c --checkpoint-every 5", LinearSVM, {"checkpoint": "c", "checkpoint_every": 5.0}),
        ("--kernel poly --degree 2 --gamma 0.5", KernelSVM, {"kernel": "poly", "degree": 2, "gamma": 0.5}),
        ("--seed 3 --solver sdm", LinearSVM, {"random_state": 3, "solver": "sdm"}),
        ("--class-weight balanced", LinearSVM, {"class_weight": "balanced"}),
    ],
)
def test_machines_of_options(words, kind, expected):
    made = machine(build_parser().parse_args(["train", "d", "m", *words.split()]))
    assert type(made) is kind
    assert {name: made.get_params()[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("kernel", "n_features", "stopping", "extra"),
    [
        (None, 1000, "gap", ["sdm", "accelerated_sdm", "newton"]),
        (None, 1001, "gap", ["sdm", "accelerated_sdm"]),
        (None, 10, "violation", ["sdm", "accelerated_sdm"]),
        ("rbf", 10, "gap", ["decomposition"]),
    ],
)
def test_what_is_compared(kernel, n_features, stopping, extra):
    own = "block" if kernel else None
    assert _runs(kernel, n_features, stopping) == [(name, own) for name in FORMULATIONS] + [
        ("crammer_singer", solver) for solver in extra
    ]


def test_peers_of_a_machine():
    args = build_parser().parse_args(["compare", "@iris", "--C", "0.5", "--max-iter", "77", "--seed", "5"])
    found = [peer.args[:3] for _, peer in peers(args, {0: 2.0})]
    assert [(name, formulation) for name, _, formulation in found] == [
        ("LinearSVC (one_vs_rest)", "one_vs_rest"),
        ("LinearSVC (crammer_singer)", "crammer_singer"),
    ]
    for _, peer, _ in found:
        assert isinstance(peer, LinearSVC) and peer.dual is True
        assert (peer.C, peer.max_iter, peer.random_state, peer.class_weight) == (0.5, 77, 5, {0: 2.0})
    args.loss = "squared_hinge"
    assert len(list(peers(args, None))) == 1
    args.kernel, args.cache_mb = "poly", 9.0
    ((name, peer),) = peers(args, None)
    assert name == "SVC" and (peer.args[1].kernel, peer.args[1].degree, peer.args[1].cache_size) == ("poly", 3, 9.0)


def test_parameters_have_the_names_of_options():
    said = as_options("max_iter=5 epochs; raise max_iter, time_limit=2 or raise tol, lower C=10")
    assert said == "--max-iter 5 epochs; raise --max-iter, --time-limit 2 or raise --tol, lower --C 10"


@pytest.mark.parametrize(("label", "text"), [(3.0, "3"), (0.5, "0.5"), (True, "True"), ("a\tb", "a\\tb"), (-2, "-2")])
def test_labels_as_they_stand_in_the_data(label, text):
    assert _label(label) == text
