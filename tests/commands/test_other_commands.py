"""compare, report, convert and demo."""

import numpy as np
import pytest

from multimargin.commands.options import FORMULATIONS
from multimargin.models import load


def test_compare(run, folder):
    done = run("compare", folder / "digits.svm")
    assert done.code == 0 and done.err == ""
    for word in (*FORMULATIONS, "accuracy", "objective", "gap", "accelerated_sdm", "newton"):
        assert word in done.out
    result = run("compare", folder / "digits.svm", "--json").json
    assert set(result) == {"command", "data", "rows", "rows_held_out", "features", "C", "results"}
    assert (result["rows"], result["rows_held_out"]) == (300, 100)
    keys = {"machine", "solver", "seconds", "accuracy", "objective", "gap", "dual_objective", "converged", "by"}
    assert all(set(row) == keys and row["converged"] and row["gap"] <= 1e-3 for row in result["results"])
    rows = [(row["machine"], row["solver"]) for row in result["results"]]
    assert len(set(rows)) == len(rows) >= 7
    joint = [row["objective"] for row in result["results"] if row["machine"] == "crammer_singer"]
    assert max(joint) <= min(joint) * 1.001


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_peers_solve_the_same_problem(run, loss):
    """Objectives of scikit-learn's machines, computed by us, are those that ours certify."""
    result = run("compare", "@iris", "--peers", "--loss", loss, "--max-iter", "100000", "--json").json
    peers = [row for row in result["results"] if row["by"] == "scikit-learn"]
    assert len(peers) == (2 if loss == "hinge" else 1)
    for row in peers:
        assert 0 <= row["gap"] < 0.01


def test_peers_of_two_classes(run):
    with open("two.svm", "w") as file:
        file.writelines(f"{1 if i % 3 else -1} 1:{i % 7} 2:{i % 5 - 2 * (i % 3)}\n" for i in range(80))
    result = run("compare", "two.svm", "--peers", "--max-iter", "100000", "--json").json
    one = next(row for row in result["results"] if row["machine"].startswith("LinearSVC (one_vs_rest)"))
    assert 0 <= one["gap"] < 0.01


def test_compare_kernels(run):
    done = run("compare", "@iris", "--kernel", "rbf", "--peers")
    assert done.code == 0
    assert "SVC (one_vs_one)" in done.out and "decomposition" in done.out


def test_report(run, folder, models):
    done = run("report", models / "digits", folder / "digits.svm", "r.html")
    assert done.code == 0, done.err
    assert done.out.startswith("report: r.html, ")
    with open("r.html", encoding="utf-8") as file:
        assert "<html" in file.read()
    result = run("report", models / "digits", folder / "digits.svm", "r.html", "--json", "--title", "My title")
    assert set(result.json) == {"command", "model", "data", "rows", "report"}
    with open("r.html", encoding="utf-8") as file:
        assert "My title" in file.read()


def test_report_of_a_text_model_shows_its_words(run, folder, models):
    done = run("report", models / "tickets", folder / "tickets.csv", "r.html", "--label", "queue")
    assert done.code == 0, done.err
    with open("r.html", encoding="utf-8") as file:
        assert "invoice" in file.read()


@pytest.mark.parametrize(
    ("model", "data", "options"), [("kernel", "digits.svm", []), ("houses", "houses.csv", ["--label", "price"])]
)
def test_report_of_other_models(run, folder, models, model, data, options):
    done = run("report", models / model, folder / data, "r.html", *options)
    assert done.code == 0, done.err


def test_convert_to_liblinear_and_back(run, folder, digits):
    run("train", folder / "digits.svm", "m", "-s", "3", "-q")
    done = run("convert", "m", "m.liblinear")
    assert done.code == 0 and done.out.startswith("multimargin -> liblinear: m.liblinear, ")
    assert run("convert", "m.liblinear", "again", "--to", "multimargin", "--json").json == {
        "command": "convert",
        "in": "m.liblinear",
        "out": "again",
        "from": "liblinear",
        "to": "multimargin",
    }
    X, _ = digits
    np.testing.assert_allclose(load("again").decision_function(X), load("m").decision_function(X), rtol=1e-9)


def test_convert_to_libsvm_and_back(run, folder, digits):
    run("train", folder / "digits.svm", "m", "--kernel", "rbf", "--formulation", "one_vs_one", "-q")
    assert run("convert", "m", "m.libsvm").code == 0
    assert run("convert", "m.libsvm", "m.safetensors").out.startswith("libsvm -> multimargin")
    X, _ = digits
    assert np.mean(load("m.safetensors").predict(X) == load("m").predict(X)) > 0.99


@pytest.mark.parametrize(("to", "options"), [("liblinear", []), ("libsvm", ["--kernel", "rbf"])])
def test_models_of_others_become_ours_where_nothing_else_is_said(run, folder, to, options):
    formulation = "one_vs_one" if options else "one_vs_rest"
    assert run("train", folder / "digits.svm", "m", "--formulation", formulation, "-q", *options).code == 0
    assert run("convert", "m", f"m.{to}", "-q").code == 0
    assert run("convert", f"m.{to}", "again.model", "--json").json["to"] == "multimargin"
    assert load("again.model").formulation == formulation


def test_convert_to_onnx(run, models, digits):
    import onnxruntime

    assert run("convert", models / "digits", "m.onnx").code == 0
    X, _ = digits
    session = onnxruntime.InferenceSession("m.onnx")
    labels = session.run(None, {session.get_inputs()[0].name: X.astype(np.float32)})[0]
    assert np.mean(np.ravel(labels) == load(models / "digits").predict(X)) > 0.99


def test_models_are_replaced_and_so_are_empty_files(run, folder):
    """Only what is no model stays, as test_errors shows."""

    def train(name):
        return run("train", folder / "digits.svm", name, "-s", "3", "-q").code

    assert train("m") == 0 and train("m") == 0
    for name in ("m.liblinear", "m.onnx", "m.safetensors"):
        assert run("convert", "m", name).code == 0 and run("convert", "m", name).code == 0
    open("m.libsvm", "w").close()
    assert train("m.libsvm") == 0
    assert train("m.liblinear") == 0
    assert load("m.libsvm").formulation == load("m.liblinear").formulation == "one_vs_rest"


def test_what_another_format_cannot_hold_is_refused(run, models, tmp_path):
    done = run("convert", models / "kernel", "m.liblinear")
    assert done.code == 1 and done.err.startswith("multimargin: error: ") and "kernel" in done.err
    assert list(tmp_path.iterdir()) == []


def test_demo(run):
    done = run("demo")
    assert done.code == 0, done.err
    for name in FORMULATIONS:
        assert name in done.out
    assert " NO\n" not in done.out and "report: report.html" in done.out
    with open("report.html", encoding="utf-8") as file:
        assert "<html" in file.read()
    quiet = run("demo", "-q")  # over its own report
    assert quiet.code == 0 and "report" not in quiet.out and "try next" not in quiet.out
    result = run("demo", "--json", "--report", "other.html").json
    assert set(result) == {"command", "rows", "rows_held_out", "results", "report"}
    with open("other.html", encoding="utf-8") as file:
        assert "<html" in file.read()
    assert len(result["results"]) == 6 and all(row["converged"] for row in result["results"])
