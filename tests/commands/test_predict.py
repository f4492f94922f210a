"""multimargin predict: labels, probabilities, the best few classes."""

import os
import re
import subprocess
import sys
from ast import literal_eval

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multimargin import KernelSVM, LinearSVM
from multimargin.commands.main import main
from multimargin.data.svmlight_writing import write_svmlight
from multimargin.models import load, save

KEYS = {"command", "data", "model", "out", "rows", "classes", "accuracy"}


def lines(path):
    with open(path) as file:
        return file.read().splitlines()


@pytest.mark.parametrize("kind", ["digits", "kernel"])
def test_labels_are_those_of_the_estimator(run, folder, models, digits, kind):
    done = run("predict", folder / "digits.svm", models / kind, "out.txt")
    assert (done.code, done.err) == (0, "")
    X, y = digits
    expected = load(models / kind).predict(X)
    assert lines("out.txt") == [str(label) for label in expected]
    hits = int((expected == y).sum())
    assert done.out == f"400 labels: out.txt\naccuracy: {hits / 400:.4f} ({hits} of 400 rows)\n"


def test_stdout_holds_labels_only(run, folder, models):
    done = run("predict", folder / "digits.svm", models / "digits", "-")
    assert len(done.out.splitlines()) == 400 and set(done.out.split()) <= set("0123456789")
    assert done.err.startswith("accuracy: ")
    assert run("predict", folder / "digits.svm", models / "digits").out == done.out
    assert run("predict", folder / "digits.svm", models / "digits", "-", "-q").err == ""


def test_json(run, folder, models, digits):
    to_file = run("predict", folder / "digits.svm", models / "digits", "out.txt", "--json")
    assert set(to_file.json) == KEYS and len(lines("out.txt")) == 400
    assert to_file.json["classes"] == list(range(10))
    on_stdout = run("predict", folder / "digits.svm", models / "digits", "-", "--json")
    assert set(on_stdout.json) == KEYS | {"labels"} and on_stdout.err == ""
    assert [str(label) for label in on_stdout.json["labels"]] == lines("out.txt")


@pytest.mark.parametrize("n", [1, 3, 99])
def test_json_has_the_best_classes_as_pairs(run, folder, models, digits, n):
    done = run("predict", folder / "digits.svm", models / "digits", "-", "--json", "--top", n)
    assert set(done.json) == KEYS | {"labels", "top"}
    scores = load(models / "digits").decision_function(digits[0])
    for pairs, row in zip(done.json["top"], scores, strict=True):
        best = np.argsort(-row, kind="stable")[:n]
        assert [label for label, _ in pairs] == best.tolist()
        np.testing.assert_allclose([value for _, value in pairs], row[best], rtol=1e-12)
    assert done.json["labels"] == [pairs[0][0] for pairs in done.json["top"]]


def test_top_classes_come_with_their_scores(run, folder, models, digits):
    run("predict", folder / "digits.svm", models / "digits", "out.txt", "--top", "3")
    scores = load(models / "digits").decision_function(digits[0])
    for line, row in zip(lines("out.txt"), scores, strict=True):
        words = line.split("\t")
        best = np.argsort(-row, kind="stable")[:3]
        assert words[::2] == [str(label) for label in best]
        np.testing.assert_allclose([float(word) for word in words[1::2]], row[best], rtol=1e-4)


def test_top_of_more_classes_than_there_are(run, folder, models):
    run("predict", folder / "digits.svm", models / "digits", "out.txt", "--top", "99")
    assert {len(line.split("\t")) for line in lines("out.txt")} == {20}


def test_top_of_two_classes(run):
    with open("two.svm", "w") as file:
        file.write("-1 1:-1\n-1 1:-2\n1 1:1\n1 1:2\n")
    run("train", "two.svm", "m", "-q")
    rows = [line.split("\t") for line in run("predict", "two.svm", "m", "-", "--top", "2", "-q").out.splitlines()]
    assert [row[0] for row in rows] == ["-1", "-1", "1", "1"]
    assert all(float(row[1]) == -float(row[3]) for row in rows)


@pytest.mark.parametrize("formulation", ["one_vs_one", "dag"])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("kind", ["light", "pipeline", "kernel"])
def test_top_of_a_model_whose_decisions_are_by_pair(run, digits, kind, n_classes, formulation):
    X, y = digits
    X, y = X[y < n_classes], np.array(["zero", "one", "two", "three"])[y[y < n_classes]]
    estimator = KernelSVM if kind == "kernel" else LinearSVM
    pairs, classes = (estimator(formulation, decision_function_shape=shape).fit(X, y) for shape in ("ovo", "ovr"))
    model = pairs
    if kind == "pipeline":
        model = make_pipeline(StandardScaler(), pairs).fit(X, y)
        classes = make_pipeline(StandardScaler(), classes).fit(X, y)
    save(model, "m")
    np.savez("x.npz", X=X)
    rows = [line.split("\t") for line in run("predict", "x.npz", "m", "-", "--top", "4").out.splitlines()]
    assert [row[0] for row in rows] == model.predict(X).tolist()
    expected = classes.decision_function(X)
    if n_classes == 2:
        expected = np.column_stack([-expected, expected])
    assert expected.shape[1] == n_classes
    for row, values in zip(rows, expected, strict=True):
        best = np.argsort(-values, kind="stable")
        assert row[::2] == classes.classes_[best].tolist()
        np.testing.assert_allclose([float(word) for word in row[1::2]], values[best], rtol=1e-4)


@pytest.mark.parametrize("nested", [True, False])
def test_top_of_pipelines_of_few_steps(run, digits, nested):
    model = make_pipeline(LinearSVM())
    model = (make_pipeline(StandardScaler(), model) if nested else model).fit(*digits)
    save(model, "m")
    np.savez("x.npz", X=digits[0])
    top = run("predict", "x.npz", "m", "-", "--top", "1").out.splitlines()
    assert [line.split("\t")[0] for line in top] == [str(label) for label in model.predict(digits[0])]


def test_probabilities(run, folder):
    assert run("train", folder / "digits.svm", "m", "--probability", "-q").code == 0
    run("predict", folder / "digits.svm", "m", "labels.txt")
    assert run("predict", folder / "digits.svm", "m", "out.txt", "--proba").code == 0
    header, *rows = (line.split("\t") for line in lines("out.txt"))
    assert header == ["label", *"0123456789"]
    assert [row[0] for row in rows] == lines("labels.txt")
    values = np.array([[float(word) for word in row[1:]] for row in rows])
    np.testing.assert_allclose(values.sum(axis=1), 1, atol=1e-4)
    assert [header[1:][j] for j in values.argmax(axis=1)] == lines("labels.txt")
    top = run("predict", folder / "digits.svm", "m", "-", "--proba", "--top", "1", "-q").out.splitlines()
    np.testing.assert_allclose([float(line.split("\t")[1]) for line in top], values.max(axis=1), rtol=1e-4)
    pairs = run("predict", folder / "digits.svm", "m", "-", "--proba", "--top", "2", "--json").json["top"]
    np.testing.assert_allclose([[p for _, p in row] for row in pairs], -np.sort(-values)[:, :2], atol=1e-5)
    result = run("predict", folder / "digits.svm", "m", "-", "--proba", "--json").json
    np.testing.assert_allclose(result["probabilities"], values, atol=1e-5)


def test_labels_that_are_no_classes(run, models, folder):
    with open("unknown.svm", "w") as file:
        file.write("77 1:1\n77 2:1\n")
    done = run("predict", "unknown.svm", models / "digits", "out.txt")
    assert done.code == 0 and len(lines("out.txt")) == 2
    assert done.err == "multimargin: note: no label of the data is a class of the model: no accuracy\n"
    assert run("predict", "unknown.svm", models / "digits", "out.txt", "--json").json["accuracy"] is None


@pytest.mark.parametrize("far", [66, 10**11])
@pytest.mark.parametrize("kind", ["digits", "kernel", "liblinear"])
def test_features_that_the_model_does_not_know_are_left_out(run, models, digits, folder, kind, far):
    """As LIBLINEAR's predict does it; features that the text lacks are zeros."""
    name = models / kind
    if kind == "liblinear":
        assert run("train", folder / "digits.svm", "m", "-s", "3", "-q").code == 0
        name = "m.liblinear"
        assert run("convert", "m", name, "-q").code == 0
    X, y = digits
    write_svmlight("known.svm", X[:3, :60], y[:3])
    with open("known.svm") as known, open("wide.svm", "w") as wide:
        rows = known.read().splitlines()
        wide.write(f"{rows[0]} 65:1\n{rows[1]} 65:3 {far}:-2\n{rows[2]}\n")
    expected = run("predict", "known.svm", name, "-", "--top", "10")
    done = run("predict", "wide.svm", name, "-", "--top", "10")
    assert (done.code, done.out) == (0, expected.out)
    note, accuracy = done.err.splitlines(keepends=True)
    assert (
        note == "multimargin: note: wide.svm: 2 features that the model does not know are left out; the model has 64\n"
    )
    assert accuracy == expected.err
    with open("wide.svm", "w") as wide:
        wide.write(f"{rows[0]} 65:1\n")
    assert "1 feature that the model does not know is left out" in run("predict", "wide.svm", name).err


def test_labels_of_liblinear_are_predicted_all_the_same(run, folder, models):
    """liblinear-official, on features that the model does not know."""
    from liblinear.liblinearutil import load_model, predict

    assert run("train", folder / "digits.svm", "m", "-s", "3", "-q").code == 0
    assert run("convert", "m", "m.liblinear", "-q").code == 0
    rows = [{1: 0.5, 20: 1, 65: 9.0}, {30: 1.0, 64: 0.5, 70: 3.0}, {64: 1.0}]
    with open("wide.svm", "w") as file:
        file.writelines(f"1 {' '.join(f'{j}:{v}' for j, v in row.items())}\n" for row in rows)
    theirs, *_ = predict([1, 1, 1], rows, load_model("m.liblinear"), "-q")
    assert run("predict", "wide.svm", "m.liblinear", "-", "-q").out.split() == [f"{label:g}" for label in theirs]


def test_fractional_labels_only_cost_the_accuracy(run, models):
    with open("f.svm", "w") as file:
        file.write("3 1:1\n0.5 2:1\n")
    done = run("predict", "f.svm", models / "digits", "out.txt")
    assert (done.code, done.out) == (0, "2 labels: out.txt\n")
    assert done.err == "multimargin: note: f.svm: row 2: the label is 0.5, no whole number: no accuracy\n"
    assert run("predict", "f.svm", models / "digits", "--json").json["accuracy"] is None


def test_labels_with_tabs_and_line_breaks_stay_on_their_line(run):
    with open("t.csv", "w") as file:
        file.write('x,y\n1,"a\tb"\n2,"a\tb"\n-1,"c\nd\\"\n-2,"c\nd\\"\n')
    assert run("train", "t.csv", "m", "--label", "y", "-q").code == 0
    assert run("predict", "t.csv", "m", "-").out.splitlines() == ["a\\tb", "a\\tb", "c\\nd\\\\", "c\\nd\\\\"]


def test_control_characters_of_labels_are_escaped(run):
    control = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), "\u2028", "\u2029"]
    labels = np.array([f"<{c}é>" for c in control] + ["\\x1b", "plain"])
    X = np.eye(len(labels))
    save(LinearSVM("one_vs_rest", C=100).fit(np.vstack([X, X]), np.tile(labels, 2)), "m")
    np.savez("x.npz", X=X)
    for options in ([], ["--top", "1"]):
        run("predict", "x.npz", "m", "out.txt", *options)
        with open("out.txt", encoding="utf-8", newline="") as file:
            text = file.read()
        rows = [line.split("\t")[0] for line in text.removesuffix("\n").split("\n")]
        assert not set(text) & (set(control) - {"\t", "\n"})
        assert [re.sub(r"\\(x..|u....|.)", lambda m: literal_eval(f"'{m[0]}'"), row) for row in rows] == labels.tolist()
    assert rows[0x1B] == "<\\x1bé>" and rows[-2] == r"\\x1b"


def test_unlabelled_matrix(run, models, digits):
    np.savez("x.npz", X=digits[0])
    done = run("predict", "x.npz", models / "digits", "out.txt")
    assert (done.code, done.out, done.err) == (0, "400 labels: out.txt\n", "")


def test_a_file_that_was_there_is_replaced_as_a_whole(run, folder, models):
    with open("out.txt", "w") as file:
        file.write("old\n" * 1000)
    run("predict", folder / "digits.svm", models / "digits", "out.txt")
    assert len(lines("out.txt")) == 400


def test_models_of_liblinear_predict(run, folder, models, digits):
    assert run("train", folder / "digits.svm", "m", "-s", "3", "-q").code == 0
    assert run("convert", "m", "m.liblinear", "-q").code == 0
    ours, theirs = (run("predict", folder / "digits.svm", name, "-", "-q").out for name in ("m", "m.liblinear"))
    assert ours == theirs


def test_a_linear_model_predicts_without_scikit_learn(folder, models):
    program = (
        "import sys; from multimargin.commands.main import main; code = main(sys.argv[1:]);"
        "print(sorted(n for n in ('sklearn', 'pandas', 'rich') if n in sys.modules), code, file=sys.stderr)"
    )
    words = ["predict", f"{folder}/digits.svm", f"{models}/digits", "-", "-q"]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=120)
    assert done.stderr == "[] 0\n"


def test_main_takes_any_sequence_of_words(folder, models, tmp_path):
    assert main(("predict", f"{folder}/digits.svm", f"{models}/digits", f"{tmp_path}/o", "-q")) == 0


def test_labels_that_the_encoding_of_the_output_lacks(tmp_path):
    X = np.eye(4)
    save(LinearSVM().fit(X, ["\u00e9", "b"] * 2), tmp_path / "model")
    np.savez(tmp_path / "rows.npz", X=X)
    words = ["-m", "multimargin.commands.main", "predict", "rows.npz", "model", "-"]
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "ascii, has no" in done.stderr and "PYTHONIOENCODING=utf-8" in done.stderr
