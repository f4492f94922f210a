"""multimargin train: what it writes, says, and returns."""

import numpy as np
import pytest

from multimargin import KernelSVM, LinearSVM
from multimargin.models import load

KEYS = {
    "command",
    "data",
    "rows",
    "features",
    "classes",
    "parameters",
    "solver",
    "seconds",
    "epochs",
    "primal_objective",
    "dual_objective",
    "gap",
    "worst_gap",
    "converged",
    "accuracy",
    "accuracy_on",
    "accuracy_rows",
    "model",
}


def test_summary_says_what_was_done(run, folder):
    done = run("train", folder / "digits.svm", "m")
    assert done.code == 0 and done.err == ""
    said = done.fields
    assert said["data"] == "400 rows, 64 features, 10 classes"
    assert said["machine"] == "crammer_singer, linear, hinge, C = 1"
    assert said["certificate"].startswith("within 0.") and "% of the optimum" in said["certificate"]
    assert said["target"] == "reached: gap of at most 0.001"
    assert said["accuracy"].endswith("on the training rows")
    assert said["model"].startswith("m, ")


def test_json_holds_all_keys_and_nothing_else_is_said(run, folder, digits):
    done = run("train", folder / "digits.svm", "m", "--json")
    assert set(done.json) == KEYS and done.err == ""
    result = done.json
    assert (result["rows"], result["features"], result["classes"]) == (400, 64, list(range(10)))
    assert result["converged"] is True and result["gap"] <= 1e-3
    assert result["parameters"]["C"] == 1.0
    X, y = digits
    model = load("m")
    assert result["accuracy"] == pytest.approx(model.score(X, y))
    assert result["primal_objective"] == pytest.approx(model.primal_objective_)


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ([], {}),
        (["--formulation", "weston_watkins"], {"formulation": "weston_watkins"}),
        (["--formulation", "one_vs_one", "--C", "0.1"], {"formulation": "one_vs_one", "C": 0.1}),
        (["--loss", "squared_hinge", "--solver", "sdm"], {"loss": "squared_hinge", "solver": "sdm"}),
        (["--no-intercept"], {"fit_intercept": False}),
        (["--intercept-scaling", "3"], {"intercept_scaling": 3.0}),
        (["--tol", "1e-5", "--max-iter", "5000"], {"tol": 1e-5, "max_iter": 5000}),
        (["--stopping", "violation", "--tol", "0.01"], {"stopping": "violation", "tol": 0.01}),
        (["--class-weight", "balanced"], {"class_weight": "balanced"}),
        (["--weight", "3=2", "--weight", "5=0.5"], {"class_weight": {3: 2.0, 5: 0.5}}),
        (["--seed", "7", "--n-jobs", "2"], {"random_state": 7, "n_jobs": 2}),
    ],
)
def test_linear_options_are_the_estimators_parameters(run, folder, digits, options, parameters):
    assert run("train", folder / "digits.npz", "m", *options).code == 0
    expected = LinearSVM(**{"random_state": 0} | parameters).fit(*digits)
    np.testing.assert_array_equal(load("m").coef_, expected.coef_)


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        (["--kernel", "rbf"], {"kernel": "rbf"}),
        (["--kernel", "rbf", "--gamma", "0.05", "-c", "4"], {"kernel": "rbf", "gamma": 0.05, "C": 4.0}),
        (["--kernel", "poly", "--degree", "2", "--coef0", "1"], {"kernel": "poly", "degree": 2, "coef0": 1.0}),
        (
            ["--kernel", "rbf", "--formulation", "one_vs_one", "--gamma", "auto"],
            {"formulation": "one_vs_one", "gamma": "auto"},
        ),
    ],
)
def test_kernel_options_are_the_estimators_parameters(run, folder, digits, options, parameters):
    assert run("train", folder / "digits.npz", "m", *options).code == 0
    X, y = digits
    expected = KernelSVM(**{"random_state": 0} | parameters).fit(X, y)
    np.testing.assert_allclose(load("m").decision_function(X), expected.decision_function(X), rtol=1e-6, atol=1e-8)


def test_every_format_gives_the_same_model(run, folder, digits):
    import pandas

    X, y = digits
    for source, name in (("digits.svm", "a"), ("digits.npz", "b")):
        assert run("train", folder / source, name, "-q").code == 0
    np.testing.assert_allclose(load("a").decision_function(X), load("b").decision_function(X), atol=0.01)  # tol
    frame = pandas.DataFrame(X, columns=[f"pixel {j}" for j in range(64)])
    frame["digit"] = y
    frame.to_csv("digits.csv", index=False)
    frame.to_csv("digits.tsv", index=False, sep="\t")
    frame.to_parquet("digits.parquet")
    for suffix in ("csv", "tsv", "parquet"):
        assert run("train", f"digits.{suffix}", suffix, "--label", "digit", "-q").code == 0
        predicted = load(suffix).predict(frame)
        assert predicted.dtype.kind == "i" and np.mean(predicted == y) > 0.98
        np.testing.assert_array_equal(predicted, load("csv").predict(frame))


def test_holdout_is_neither_trained_on_nor_lost(run, folder):
    result = run("train", folder / "digits.svm", "m", "--holdout", "0.25", "--json").json
    assert (result["rows"], result["accuracy_rows"], result["accuracy_on"]) == (300, 100, "holdout")
    assert result["accuracy"] < 1
    said = run("train", folder / "digits.svm", "m", "--holdout", "0.25").fields
    assert said["data"].endswith("100 more held out")
    assert said["accuracy"] == f"{result['accuracy']:.4f} on the 100 rows held out"


def test_holdout_of_a_class_with_one_row(run, folder):
    with open(folder / "digits.svm") as file:
        lines = file.readlines()[:60]
    with open("rare.svm", "w") as file:
        file.writelines([*lines, "77 1:1\n"])
    assert run("train", "rare.svm", "m", "--holdout", "0.2").code == 0


def test_valid_file_is_judged_on(run, folder):
    result = run("train", folder / "digits.svm", "m", "--valid", folder / "digits.npz", "--json").json
    assert (result["rows"], result["accuracy_rows"], result["accuracy_on"]) == (400, 400, "valid")


def test_not_converged_is_exit_code_3_and_the_model_is_there(run, folder):
    done = run("train", folder / "digits.svm", "m", "--tol", "1e-12", "--max-iter", "2", "--solver", "sdm")
    assert done.code == 3
    assert done.fields["target"].startswith("NOT reached")
    model = load("m")  # two shares of the same gap, and of what each is one
    share = 100 * (model.primal_objective_ / model.dual_objective_ - 1)
    assert float(done.fields["certificate"].split(" % of the optimum")[0].split()[-1]) == pytest.approx(share, rel=0.1)
    assert f"the relative duality gap is {model.dual_gap_:.2g} of the objective, the target 1e-12" in done.err
    assert done.err.startswith("multimargin: warning: LinearSVM stopped after --max-iter 2 epochs; raise --max-iter, ")
    assert done.err.endswith("; m holds the model as far as it came\n")
    assert done.err.count("\n") == 1
    assert not load("m").converged_


def test_quiet_says_nothing(run, folder):
    done = run("train", folder / "digits.svm", "m", "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert run("train", folder / "digits.svm", "m", "-q", "--json").json["converged"]


def test_cross_validation_writes_nothing(run, folder, tmp_path):
    done = run("train", folder / "digits.svm", "-v", "4")
    assert done.code == 0 and "of all rows; folds from" in done.fields["accuracy"]
    result = run("train", folder / "digits.svm", "-v", "4", "--json").json
    assert len(result["fold_accuracies"]) == 4
    assert result["accuracy"] == pytest.approx(np.mean(result["fold_accuracies"]), abs=0.01)
    assert list(tmp_path.iterdir()) == []


def test_finding_C_first(run, folder):
    done = run("train", folder / "digits.svm", "m", "-C", "-v", "3")
    assert done.code == 0
    assert done.out.startswith("best C = ") and "in 3 folds" in done.out
    C = float(done.out.split()[3].rstrip(":"))
    assert pytest.approx(C, rel=1e-5) == load("m").C
    only = run("train", folder / "digits.svm", "-C", "-v", "3", "--json").json
    assert only["best"]["C"] == pytest.approx(C, rel=1e-5)


def test_labels_keep_their_kind(run, folder):
    run("train", folder / "digits.svm", "m", "-q")
    assert load("m").classes_.dtype.kind == "i"
    run("train", folder / "tickets.csv", "m", "--label", "queue", "--text", "subject", "-q")
    assert load("m").classes_.tolist() == ["billing", "login", "shipping"]
