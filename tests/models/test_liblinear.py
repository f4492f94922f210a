"""LIBLINEAR's text models, checked with LIBLINEAR itself."""

import shutil
import subprocess

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from liblinear.liblinearutil import load_model, predict, save_model, train
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multimargin import KernelSVM, LinearSVM, LinearSVMCV
from multimargin.models import ModelFormatError, load, save
from multimargin.models.liblinear import read_liblinear, write_liblinear
from tests.models.examples import FORMULATIONS, WORDS, X, Y, same

LOSSES = ("hinge", "squared_hinge")
TOGETHER = ("crammer_singer", "weston_watkins", "one_vs_rest")


def predicted(path, rows):
    """Labels and values by LIBLINEAR, a column a label in ascending order; of two classes positive for the larger."""
    model = load_model(str(path))
    labels, _, values = predict([], rows, model, "-q")
    order = np.argsort(model.get_labels())
    values = np.array(values)
    if len(order) == 2:  # MCSVM_CS has two columns of weights, of which predict shows the first
        sides = 2 if model.param.solver_type == 4 else 1
        return np.array(labels), values[:, 0] * sides * (1 if order[0] == 1 else -1)
    return np.array(labels), values[:, order]


def check_written(model, path, rows):
    write_liblinear(model, path)
    labels, values = predicted(path, rows)
    np.testing.assert_array_equal(labels, model.predict(rows))
    np.testing.assert_allclose(values, model.decision_function(rows), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("formulation", TOGETHER)
def test_written_models(tmp_path, formulation, loss, fit_intercept):
    options = {"fit_intercept": fit_intercept, "intercept_scaling": 2.5}
    model = LinearSVM(formulation, loss, **options).fit(X, Y * 3 - 7)
    check_written(model, tmp_path / "model", X)
    again = read_liblinear(tmp_path / "model")
    assert again.formulation == ("one_vs_rest" if formulation == "one_vs_rest" else "crammer_singer")
    assert again.loss == (loss if formulation == "one_vs_rest" else "hinge")
    assert again.fit_intercept == fit_intercept
    assert same(again.coef_, model.coef_)
    np.testing.assert_allclose(again.intercept_, model.intercept_, rtol=1e-15)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("labels", [(-1, 1), (1, -1), (0, 5)])
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_written_models_of_two_classes(tmp_path, formulation, labels):
    model = LinearSVM(formulation).fit(X, np.where(Y > 4, *labels))
    check_written(model, tmp_path / "model", X)
    again = read_liblinear(tmp_path / "model")
    assert same(again.classes_, model.classes_)
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("solver", [1, 2, 3, 4])
@pytest.mark.parametrize("bias", [-1, 0, 1, 4])
@pytest.mark.parametrize("labels", [Y * 2 - 9, (Y > 4) * 2 - 1, (Y[0] == Y) * 2 - 1, (Y[0] == Y) * -1])
def test_read_models(tmp_path, solver, bias, labels):
    path = tmp_path / "model"
    save_model(str(path), train(labels, X, f"-s {solver} -B {bias} -q"))
    theirs, values = predicted(path, X)
    model = read_liblinear(path)
    np.testing.assert_array_equal(model.predict(X), theirs)
    np.testing.assert_allclose(model.decision_function(X), values, rtol=1e-9, atol=1e-12)
    assert model.loss == ("squared_hinge" if solver in (1, 2) else "hinge")
    check_written(model, tmp_path / "again", X)
    save(model, tmp_path / "ours")
    assert same(load(tmp_path / "ours").predict(X), model.predict(X))
    model.partial_fit(X[:5], labels[:5])


@pytest.mark.parametrize("formulation", TOGETHER)
def test_the_program_predicts_the_same(tmp_path, formulation):
    program = shutil.which("liblinear-predict") or shutil.which("predict")
    if program is None:
        pytest.skip("LIBLINEAR's predict program is not installed (Debian: liblinear-tools)")
    for labels in (Y, Y > 4):
        model = LinearSVM(formulation).fit(X, labels.astype(int))
        write_liblinear(model, tmp_path / "model")
        lines = (" ".join(["0", *(f"{j}:{x!r}" for j, x in enumerate(row, 1) if x)]) for row in X.tolist())
        (tmp_path / "rows").write_text("\n".join([*lines, ""]))
        subprocess.run([program, *(tmp_path / name for name in ("rows", "model", "out"))], check=True, timeout=60)
        np.testing.assert_array_equal(np.loadtxt(tmp_path / "out"), model.predict(X))


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 6), st.integers(1, 5), st.sampled_from(TOGETHER), st.integers(0, 2**32 - 1))
def test_any_shape(tmp_path_factory, n_classes, n_features, formulation, seed):
    rng = np.random.default_rng(seed)
    labels = rng.choice(2**31, size=n_classes, replace=False) - 2**30
    rows = rng.standard_normal((3 * n_classes, n_features))
    model = LinearSVM(formulation, tol=0.5, max_iter=10**6).fit(rows, labels[np.arange(3 * n_classes) % n_classes])
    check_written(model, tmp_path_factory.getbasetemp() / "liblinear", rows)


def test_other_labels(tmp_path):
    for labels in (Y.astype(float), Y > 4, Y.astype(np.int8)):
        model = LinearSVM().fit(X, labels)
        write_liblinear(model, tmp_path / "model")
        np.testing.assert_array_equal(read_liblinear(tmp_path / "model").predict(X), model.predict(X).astype(int))
    for labels in (WORDS[Y], Y + 2**31):
        with pytest.raises(TypeError, match="LIBLINEAR has labels that are integers of 32 bits"):
            write_liblinear(LinearSVM().fit(X, labels), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_cross_validated_and_sparse(tmp_path):
    check_written(LinearSVMCV(Cs=[0.1, 1.0], cv=2).fit(sp.csr_array(X), Y), tmp_path / "model", X)


@pytest.mark.parametrize("formulation", ["one_vs_one", "dag"])
def test_pairs_are_refused(tmp_path, formulation):
    with pytest.raises(ValueError, match=f"'{formulation}' with 10 classes cannot be written for LIBLINEAR"):
        write_liblinear(LinearSVM(formulation).fit(X, Y), tmp_path / "model")


def test_other_models_are_refused(tmp_path):
    with pytest.raises(TypeError, match="KernelSVM cannot be written for LIBLINEAR, which has LinearSVM"):
        write_liblinear(KernelSVM().fit(X, Y), tmp_path / "model")
    with pytest.raises(TypeError, match=r"Pipeline cannot be written.*write its last step"):
        write_liblinear(make_pipeline(StandardScaler(), LinearSVM()).fit(X, Y), tmp_path / "model")
    with pytest.raises(ValueError, match="is not fitted"):
        write_liblinear(LinearSVM(), tmp_path / "model")


@pytest.mark.parametrize("solver", [0, 5, 6, 7, 11, 12, 13, 21])
def test_other_solvers_are_refused_by_name(tmp_path, solver):
    save_model(str(tmp_path / "model"), train((Y > 4) * 2 - 1, X, f"-s {solver} -q"))
    with pytest.raises(ModelFormatError, match=r"solver_type \w+ is .*, which LinearSVM is not"):
        read_liblinear(tmp_path / "model")


GOOD = """solver_type MCSVM_CS
nr_class 3
label 5 6 7
nr_feature 2
bias 1
w
0.5 -0.25 1e-3
1 2 3
0 0 0
"""


def test_the_good_file(tmp_path):
    (tmp_path / "model").write_text(GOOD)
    model = read_liblinear(tmp_path / "model")
    assert model.coef_.tolist() == [[0.5, 1], [-0.25, 2], [1e-3, 3]]
    (tmp_path / "model").write_text(GOOD.replace("\n", "\r\n"))
    assert read_liblinear(tmp_path / "model").coef_.tolist() == model.coef_.tolist()


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("MCSVM_CS", "MAGIC", "line 1: solver_type 'MAGIC' is unknown"),
        ("solver_type MCSVM_CS", "solver_type", "line 1: solver_type has 0 entries, not 1"),
        ("nr_class 3", "nr_class 1", "line 2: '1' cannot stand here"),
        ("nr_class 3", "nr_class three", "line 2: 'three' cannot stand here"),
        ("nr_class 3", "nr_class 2000000000", "line 3: label has 3 entries, not 2000000000"),
        ("label 5 6 7", "label 5 6", "line 3: label has 2 entries, not 3"),
        ("label 5 6 7", "label 5 6 6", "a label is there twice"),
        ("label 5 6 7", "label 5 6 1e3", "line 3: '1e3' cannot stand here"),
        ("label 5 6 7", "label 5 6 99999999999", "line 3"),
        ("nr_feature 2", "nr_feature 2000000000", "line 7: 3 lines of weights follow, not 2000000001"),
        ("nr_feature 2", "nr_feature -2", "line 4"),
        ("nr_feature 2\n", "", "the line 'nr_feature' is missing"),
        ("nr_feature 2\n", "nr_feature 2\nnr_feature 2\n", "line 5: 'nr_feature' is there twice"),
        ("bias 1", "bias nan", "line 5: 'nan' cannot stand here"),
        ("bias 1", "bias 1e200", "bias 1e.200 is beyond"),
        ("bias 1", "bias -1", "line 7: 3 lines of weights follow, not 2"),
        ("bias 1", "magic 1", "line 5: 'magic' is no key of LIBLINEAR"),
        ("\nw\n", "\n", "line 6: '0.5' is no key of LIBLINEAR"),
        ("1 2 3", "1 2", "line 8: there are 2 weights, not 3"),
        ("1 2 3", "1 2 3 4", "line 8: there are 4 weights, not 3"),
        ("1 2 3", "1 2 inf", "line 8: 'inf' cannot stand here"),
        ("1 2 3", "1 2 1_0", "line 8: '1_0' cannot stand here"),
        ("1 2 3", "1 2 ä", "byte 85 is not text"),
        ("0 0 0\n", "", "line 7: 2 lines of weights follow, not 3"),
        (GOOD, "", "line 1: '' is no key of LIBLINEAR"),
        (GOOD, "solver_type MCSVM_CS", "there is no line 'w': it was cut short"),
    ],
)
def test_files_that_are_wrong(tmp_path, before, after, what):
    path = tmp_path / "model"
    path.write_text(GOOD.replace(before, after), encoding="utf-8")
    with pytest.raises(ModelFormatError, match=f"model: {what}"):
        read_liblinear(path)


def test_two_classes_of_crammer_singer_have_a_column_each(tmp_path):
    model = LinearSVM(C=0.1).fit(X[Y < 2], Y[Y < 2])
    write_liblinear(model, tmp_path / "m")
    lines = (tmp_path / "m").read_text().splitlines()
    weights = np.array([line.split() for line in lines[lines.index("w") + 1 :]], dtype=float)
    assert weights.shape[1] == 2
    np.testing.assert_array_equal(weights[:, 0], -weights[:, 1])
    wanted = np.append(model.coef_[0], model.intercept_[0] / model.intercept_scaling)
    np.testing.assert_allclose(weights[:, 0] - weights[:, 1], wanted)
