"""Results as they are printed: tables, summaries and JSON of every command, line by line."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from multimargin import LinearSVM
from multimargin.commands import compare, demo, train, tune
from multimargin.commands.main import build_parser
from multimargin.commands.search import Found
from multimargin.commands.terminal import Terminal
from multimargin.models import load, save


def parsed(*words):
    return build_parser().parse_args(list(words))


# tune


def found(points, **more):
    return Found(
        scores={point: scores for point, (scores, _) in points.items()},
        short={point: short for point, (_, short) in points.items()},
        **{"seconds": 65.0, "n_fits": 2 * len(points)} | more,
    )


LINEAR = {(0.0, None): ([0.5, 0.7], 1), (2.0, None): ([0.9, 0.9], 0), (4.0, None): ([0.9, 0.8], 2)}


def test_the_table_of_a_path(capsys):
    tune._tell(parsed("tune", "@iris", "--folds", "2"), Terminal(), found(LINEAR))
    assert capsys.readouterr().out.splitlines() == [
        " C  accuracy      +-",
        "-------------------------------------",
        " 1    0.6000  0.1000  1 not converged",
        " 4    0.9000  0.0000          <- best",
        "16    0.8500  0.0500  2 not converged",
        "",
        "6 fits in 2 folds, 1 min 5 s",
        "train the winner:",
        "  multimargin train @iris iris.model --C 4",
    ]


def test_the_table_of_a_kernel_has_the_best_ten(capsys):
    points = {(float(i), -1.0): ([i / 20, i / 20], 0) for i in range(11)}
    args = parsed("tune", "@iris", "--folds", "2", "--kernel", "rbf")
    tune._tell(args, Terminal(), found(points, at_edge=["C", "gamma"]))
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[0].split() == ["C", "gamma", "accuracy", "+-"] and lines[2].split()[:3] == ["1024", "0.5", "0.5000"]
    assert lines[2].endswith("<- best") and lines[11].split()[0] == "2" and lines[12] == ""
    assert lines[13] == "22 fits in 2 folds, 1 min 5 s; the best 10 of 11 are shown"
    assert lines[-1] == "  multimargin train @iris iris.model --C 1024 --kernel rbf --gamma 0.5"
    note = "multimargin: note: the best {0} is the last one tried on its side; widen --{0}-range\n"
    assert said.err == note.format("C") + note.format("gamma")
    points.pop((0.0, -1.0))
    tune._tell(args, Terminal(), found(points))
    assert "are shown" not in capsys.readouterr().out


def test_a_winner_that_did_not_converge(capsys):
    tune._tell(parsed("tune", "@iris", "--folds", "2"), Terminal(), found({(0.0, None): ([0.5, 0.5], 1)}))
    said = capsys.readouterr()
    assert said.err == "multimargin: note: 1 of 2 fits of the best point did not converge; raise --max-iter\n"
    assert "1 not converged" not in said.out


def test_the_answer_of_a_search(capsys):
    tune._tell(parsed("tune", "@iris", "--folds", "2", "--json"), Terminal(as_json=True), found(LINEAR, at_edge=["C"]))
    answer = json.loads(capsys.readouterr().out)
    assert answer["best"] == {"C": 4.0} and answer["accuracy"] == pytest.approx(0.9) and answer["at_edge"] == ["C"]
    assert (answer["fits"], answer["folds"], answer["seconds"]) == (6, 2, 65.0)
    assert [point["C"] for point in answer["points"]] == [1.0, 4.0, 16.0]
    assert answer["points"][0] == {"C": 1.0, "accuracy": pytest.approx(0.6), "fold_accuracies": [0.5, 0.7], "short": 1}


@pytest.mark.parametrize(("scored", "some"), [(3, ""), (2, ", of 2 of 3 folds")])
def test_an_interrupted_search(run, monkeypatch, scored, some):
    partly = found({(0.0, None): ([0.5] * scored, 0)}, interrupted=True)
    monkeypatch.setattr("multimargin.commands.search.search", lambda *_: partly)
    done = run("tune", "@iris", "--folds", "3")
    assert done.code == 130 and done.err == f"multimargin: warning: interrupted: this is the best so far{some}\n"


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("--C-range 2 1", "--C-range 2 1: LOW is above HIGH"),
        ("--kernel rbf --gamma-range 2 1", "--gamma-range 2 1: LOW is above HIGH"),
        ("--kernel linear --gamma-range 1 2", "--gamma-range is for kernels with gamma: add --kernel rbf"),
        ("--plot p.jpg", "--plot p.jpg: the suffix must be one of .png, .svg, .pdf"),
    ],
)
def test_searches_that_are_wrong(run, words, what):
    done = run("tune", "@iris", *words.split())
    assert done.code == 2 and done.err == f"multimargin: error: {what}\n"


def test_pictures_of_a_search(tmp_path):
    tune._draw(found(LINEAR), str(tmp_path / "path.SVG"))
    text = (tmp_path / "path.SVG").read_text()
    assert "chosen: C = 4, mean 0.9" in text
    tune._draw(found({(0.0, 1.0): ([0.5, 0.5], 0), (2.0, 1.0): ([0.9, 0.9], 0)}), str(tmp_path / "map.svg"))
    text = (tmp_path / "map.svg").read_text()
    assert "best: 0.9000 (circle)" in text and "accuracy, rows held out" in text and "gamma" in text


def test_the_map_of_a_search_has_a_circle_around_the_best(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        "matplotlib.figure.Figure.savefig", lambda figure, file, **options: drawn.append((figure, options))
    )
    tune._draw(found({(0.0, -1.0): ([0.5, 0.7], 0), (3.0, -2.0): ([0.9, 0.9], 0)}), str(tmp_path / "map.PNG"))
    ((figure, options),) = drawn
    ax = figure.axes[0]
    points, circle = ax.collections
    assert options["format"] == "png"
    assert points.get_offsets().tolist() == [[1.0, 0.5], [8.0, 0.25]] and circle.get_offsets().tolist() == [[8.0, 0.25]]
    assert points.get_array().tolist() == pytest.approx([0.6, 0.9])
    assert (ax.get_xscale(), ax.get_yscale(), ax.get_xlabel(), ax.get_ylabel()) == ("log", "log", "C", "gamma")


# compare


def test_the_table_of_a_comparison(capsys):
    table = [
        {
            "machine": "dag",
            "solver": "sdm",
            "seconds": 1.5,
            "accuracy": 0.9,
            "objective": 1234567.0,
            "gap": 5e-4,
            "converged": True,
        },
        {
            "machine": "SVC",
            "solver": "libsvm",
            "seconds": 0.25,
            "accuracy": 1.0,
            "objective": None,
            "gap": None,
            "converged": False,
        },
    ]
    args = parsed("compare", "@iris", "--loss", "squared_hinge")
    compare._tell(args, Terminal(), table, (1, 4), 2)
    assert capsys.readouterr().out.splitlines() == [
        "@iris: 1 row to train, 2 held out, 4 features; linear, squared hinge, C = 1",
        "",
        "machine  solver  seconds  accuracy    objective      gap  converged",
        "-------------------------------------------------------------------",
        "dag      sdm       1.500    0.9000  1.23457e+06  5.0e-04        yes",
        "SVC      libsvm    0.250    1.0000            -        -         NO",
    ]
    compare._tell(parsed("compare", "@iris", "--kernel", "rbf"), Terminal(), table, (1, 4), 2)
    assert "; rbf kernel, C = 1\n" in capsys.readouterr().out


def test_a_comparison_that_is_interrupted(run, monkeypatch):
    measured = compare._measured
    for after, code in ((2, 130), (0, 130)):
        left = iter(range(after))

        def interrupted(*args, left=left):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return measured(*args)

        monkeypatch.setattr(compare, "_measured", interrupted)
        done = run("compare", "@iris", "--json")
        assert done.code == code
        if after:
            assert len(done.json["results"]) == after
            assert done.err == "multimargin: warning: interrupted: this is what was finished\n"
        else:
            assert done.out == "" and done.err == "multimargin: interrupted\n"


# demo


def test_the_table_of_the_demo(run, monkeypatch):
    monkeypatch.setattr(demo, "_RUNS", (("crammer_singer", "hinge"), ("one_vs_rest", "squared_hinge")))
    monkeypatch.setattr("multimargin.report.write_report", lambda *_, **options: None)
    done = run("demo", "--report", "r.html")
    lines = done.out.splitlines()
    assert lines[0] == (
        "scikit-learn's digits: 1347 rows to train, 450 held out, 64 features, 10 classes; C = 1, one thread"
    )
    header, rule, first, second = lines[2:6]
    assert header.split("  ")[0] == "formulation" and set(rule) == {"-"} and len(rule) >= len(header)
    words = [found.start() for found in re.finditer(r"\S+", header)][:3]
    assert words == [found.start() for found in re.finditer(r"\S+", second)][:3]  # words stand to the left
    assert re.fullmatch(r"crammer_singer +hinge +\w+ +0\.9\d{3} +\d+ +\d+\.\d\d +\d\.\de-0\d +yes", first)
    assert first.endswith("yes") and header.endswith("converged") and len(first) == len(header)
    assert "of at most 0.001" in done.out
    assert lines[-2:] == [
        "report: r.html",
        "try next: multimargin train @digits digits.model --kernel rbf --holdout 0.25",
    ]


def test_a_demo_without_the_libraries_of_the_report(run, monkeypatch):
    def missing(*_, **options):
        raise ImportError("no jinja2")

    monkeypatch.setattr(demo, "_RUNS", (("crammer_singer", "hinge"),))
    monkeypatch.setattr("multimargin.report.write_report", missing)
    done = run("demo", "--json", "--report", "r.html")
    assert done.code == 0 and done.json["report"] is None and done.err == "multimargin: note: no report: no jinja2\n"
    (row,) = done.json["results"]
    assert set(row) == {"formulation", "loss", "solver", "accuracy", "epochs", "seconds", "gap", "converged"}
    assert (done.json["rows"], done.json["rows_held_out"]) == (1347, 450)


# train


def test_the_summary_of_a_training(run):
    done = run("train", "@iris", "m", "--C", "0.5", "--holdout", "0.2")
    lines = done.out.splitlines()
    names = ["data", "machine", "training", "certificate", "target", "accuracy", "model"]
    assert [line.split()[0] for line in lines] == names
    assert {line.index(line.split(maxsplit=1)[1]) for line in lines} == {13}  # below each other
    assert lines[0].endswith("120 rows, 4 features, 3 classes, 30 more held out")
    model = load("m")
    assert re.search(rf"\d s, {model.n_iter_} epochs? of {model.history_['solver'][-1]}$", lines[2])
    assert lines[1].endswith("crammer_singer, linear, hinge, C = 0.5")
    assert re.search(r"[01]\.\d{4} on the 30 rows held out$", lines[5])


def test_cross_validation_in_words(run):
    done = run("train", "@iris", "-v", "3")
    answer = run("train", "@iris", "-v", "3", "--json").json
    lines = done.out.splitlines()
    assert lines[0] == "data      150 rows, 3 classes" and lines[1] == "machine   crammer_singer, linear, hinge, C = 1"
    assert lines[2].endswith(" s for 3 folds")
    low, high = min(answer["fold_accuracies"]), max(answer["fold_accuracies"])
    assert lines[3] == f"accuracy  {answer['accuracy']:.4f} of all rows; folds from {low:.4f} to {high:.4f}"
    assert answer["converged"] is True and answer["rows"] == 150 and answer["seconds"] > 0
    assert answer["accuracy"] == pytest.approx(np.mean(answer["fold_accuracies"]))
    short = run("train", "@iris", "-v", "3", "--max-iter", "1", "--solver", "sdm", "--tol", "1e-9")
    assert short.code == 3
    assert short.err == (
        "multimargin: warning: 3 of 3 folds did not converge; raise --max-iter or --tol, or lower --C\n"
    )


def test_labels_that_no_training_row_has(capsys):
    judged = SimpleNamespace(path="v", y=np.array([0, 7, 8, 1]), n_rows=4)
    train._note_unknown_labels(judged, np.array([0, 1, 1]), Terminal())
    assert capsys.readouterr().err == (
        "multimargin: note: v: 2 of 4 rows have a label that no training row has, such as '7' of row 2\n"
    )
    train._note_unknown_labels(SimpleNamespace(path="v", y=np.array([0]), n_rows=1), np.array([0, 1]), Terminal())
    assert capsys.readouterr().err == ""


def test_options_of_a_training_that_exclude_each_other(run):
    for words, what in (
        ("@iris", "train: the following arguments are required: MODEL, the file to write"),
        ("@iris m -v 3", "-v only cross-validates: leave out MODEL, --holdout and --valid"),
        ("@iris -v 3 --holdout 0.5", "-v only cross-validates: leave out MODEL, --holdout and --valid"),
        ("@iris -v 3 --valid f", "-v only cross-validates: leave out MODEL, --holdout and --valid"),
        ("@iris m --valid f --holdout 0.5", "--valid and --holdout exclude each other"),
        (
            "@iris -v 3 --checkpoint c",
            "--checkpoint is of one training: leave out -v and -C (tune has one of its search)",
        ),
        (
            "@iris m -C --checkpoint c",
            "--checkpoint is of one training: leave out -v and -C (tune has one of its search)",
        ),
    ):
        done = run("train", *words.split())
        assert (done.code, done.out, done.err) == (2, "", f"multimargin: error: {what}\n")


def test_indices_that_start_at_0_are_noted(run):
    with open("z.svm", "w") as file:
        file.write("1 0:1\n2 1:1\n1 0:2\n2 1:2\n")
    note = "multimargin: note: z.svm: indices start at 0\n"
    assert run("train", "z.svm", "m").err == note and load("m").first_index_ == 0
    assert run("train", "z.svm", "m", "--zero-based", "yes").err == ""
    with open("o.svm", "w") as file:
        file.write("1 1:1\n2 2:1\n1 1:2\n2 2:2\n")
    assert run("train", "o.svm", "m").err == "" and load("m").first_index_ == 1
    assert run("train", "o.svm", "m", "-C").out.startswith("best C = ")


# convert and report


def test_formats_by_suffix_and_by_name(run):
    model = LinearSVM("one_vs_rest").fit(np.eye(4), [0, 1, 2, 0])
    save(model, "m")
    for out, options, to in (
        ("a.LIBLINEAR", (), "liblinear"),
        ("a.liblinear", ("--to", "multimargin"), "multimargin"),
        ("a.multimargin", (), "multimargin"),
        ("a.onnx", (), "onnx"),
    ):
        answer = run("convert", "m", out, *options, "--json").json
        assert (answer["to"], answer["from"], answer["in"], answer["out"]) == (to, "multimargin", "m", out)
    done = run("convert", "m", "unknown")
    assert done.code == 2 and "unknown: which format? Say --to multimargin|liblinear|libsvm|onnx" in done.err
    done = run("convert", "m", "x.blocks", "--to", "onnx")
    assert done.code == 2 and "--to onnx is for models; x.blocks will be a store of blocks" in done.err
    with open("r.svm", "w") as file:
        file.write("1 1:1\n2 2:1\n")
    done = run("convert", "r.svm", "r.blocks")
    assert (done.code, done.out) == (0, "r.svm -> r.blocks: 2 rows in 1 block\n")
    answer = run("convert", "r.svm", "q.blocks/", "--json").json
    assert (answer["to"], answer["rows"], answer["features"], answer["blocks"]) == ("blocks", 2, 2, 1)


def test_reports_that_cannot_be(run):
    save(LinearSVM().fit(np.eye(4), [0, 1, 2, 0]), "m")
    np.savez("x.npz", X=np.eye(4))
    done = run("report", "m", "x.npz", "r.html")
    assert done.code == 1 and done.err.endswith("x.npz: a report needs the labels of the rows (array y)\n")
    np.savez("t.npz", X=np.eye(4), y=["0", "1", "x", "0"])
    done = run("report", "m", "t.npz", "r.html")
    assert done.code == 1
    assert done.err.endswith("t.npz: row 3: the label is 'x', while the classes of the model are numbers\n")
    np.savez("u.npz", X=np.eye(4), y=[7, 7, 7, 7])
    done = run("report", "m", "u.npz", "r.html")
    assert done.code == 1 and "u.npz: no label of y is a class of the model" in done.err
