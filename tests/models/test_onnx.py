"""Linear models as ONNX, run by onnxruntime."""

import subprocess
import sys

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, OneHotEncoder, StandardScaler

from multimargin import KernelSVM, LinearSVM, LinearSVMCV
from multimargin.models.onnx import write_onnx
from tests.models.examples import FORMULATIONS, WORDS, X, Y


def run(path, **inputs):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [output.name for output in session.get_outputs()] == ["label", "scores"]
    return session.run(["label", "scores"], inputs)


def check(model, path, rows, dtype=np.float32, **inputs):
    write_onnx(model, path, dtype=dtype)
    labels, scores = run(path, **inputs)
    expected = model.decision_function(rows)
    assert scores.shape == expected.shape
    assert scores.dtype == dtype
    np.testing.assert_allclose(scores, expected, rtol=0, atol=2e-5 if dtype is np.float32 else 1e-9)
    ordered = np.sort(expected, axis=1) if expected.ndim == 2 else np.column_stack([-expected, expected])
    clear = np.abs(ordered[:, -1] - ordered[:, -2]) > 1e-4
    assert clear.mean() > 0.95
    np.testing.assert_array_equal(labels[clear], model.predict(rows)[clear])


OPTIONS = [({}, formulation) for formulation in FORMULATIONS if formulation != "dag"] + [
    ({"break_ties": True}, "one_vs_one"),
    ({"decision_function_shape": "ovo"}, "one_vs_one"),
    ({"fit_intercept": False}, "crammer_singer"),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("options", "formulation"), OPTIONS)
def test_formulations_and_labels(tmp_path, formulation, options, dtype):
    rows = X.astype(dtype)
    for labels in (Y - 5, (Y > 4) * 2 - 1, WORDS[Y], WORDS[Y].astype(object), WORDS[Y % 2]):
        model = LinearSVM(formulation, **options).fit(rows, labels)
        write_onnx(model, tmp_path / "model.onnx", dtype=dtype)
        told, scores = run(tmp_path / "model.onnx", X=rows)
        np.testing.assert_array_equal(told, model.predict(rows))
        assert scores.dtype == dtype
        expected = model.decision_function(rows)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5 if dtype is np.float32 else 1e-12)


def test_ties_of_votes(tmp_path):
    """Weights that are whole numbers, so that many classes have the same number of votes, and values are zero."""
    rng = np.random.default_rng(0)
    rows = rng.integers(-2, 3, (500, 3)).astype(np.float64)
    model = LinearSVM("one_vs_one").fit(rows[:100], np.arange(100) % 6)
    model.coef_ = rng.integers(-1, 2, (15, 3)).astype(np.float64)
    model.intercept_ = np.zeros(15)
    for break_ties in (False, True):
        model.set_params(break_ties=break_ties)
        write_onnx(model, tmp_path / "model.onnx", dtype=np.float64)
        labels, scores = run(tmp_path / "model.onnx", X=rows)
        np.testing.assert_allclose(scores, model.decision_function(rows), atol=1e-12)
        if not break_ties:  # else sums of the same numbers in another order decide
            np.testing.assert_array_equal(labels, model.predict(rows))


def test_cross_validated(tmp_path):
    model = LinearSVMCV(Cs=[0.1, 1.0], cv=2).fit(X, Y)
    check(model, tmp_path / "model.onnx", X.astype(np.float32), X=X.astype(np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("step", [StandardScaler(), MinMaxScaler(), MaxAbsScaler(), Normalizer()], ids=repr)
def test_scalers(tmp_path, step, dtype):
    rows = X.astype(dtype)
    check(make_pipeline(step, LinearSVM()).fit(rows, Y), tmp_path / "model.onnx", rows, dtype, X=rows)


@pytest.mark.parametrize(
    "vectorizer", [TfidfVectorizer(), CountVectorizer(), TfidfVectorizer(sublinear_tf=True)], ids=repr
)
def test_text(tmp_path, vectorizer):
    texts = ["Red green", "blue sky", "green FIELD Ärger", "sky and sea", "red rose", "blue sea"] * 4
    model = make_pipeline(vectorizer, LinearSVM("one_vs_rest")).fit(texts, list("abcacb") * 4)
    check(model, tmp_path / "model.onnx", texts, text=np.array(texts)[:, None])


def test_tables(tmp_path):
    frame = pd.DataFrame(
        {
            "colour": pd.Series(["red", "green", "blue"] * 20, dtype=object),
            "size": np.linspace(0, 1, 60),
            "unused": 0.0,
            "weight": np.tile([1.0, 2.0, np.nan, 4.0], 15),
            "note": ["big dog", "small Cat", "green FIELD"] * 20,
        }
    )
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = ColumnTransformer(
        [
            ("numbers", numbers, ["size", "weight"]),
            ("colour", OneHotEncoder(handle_unknown="ignore"), ["colour"]),
            ("note", TfidfVectorizer(), "note"),
        ]
    )
    model = make_pipeline(columns, LinearSVM()).fit(frame, np.arange(60) % 3)
    inputs = {
        "colour": frame[["colour"]].to_numpy(dtype=object),
        "note": frame[["note"]].to_numpy(dtype=object),
        "size": frame[["size"]].to_numpy(dtype=np.float32),
        "weight": frame[["weight"]].to_numpy(dtype=np.float32),
    }
    check(model, tmp_path / "model.onnx", frame, **inputs)


def test_categories_alone(tmp_path):
    rows = np.array([["a", "x"], ["b", "y"], ["c", "x"]] * 10, dtype=object)
    model = make_pipeline(OneHotEncoder(), LinearSVM()).fit(rows, np.arange(30) % 3)
    check(model, tmp_path / "model.onnx", rows, X=rows)


def test_what_is_refused(tmp_path):
    path = tmp_path / "model.onnx"
    with pytest.raises(TypeError, match="KernelSVM cannot be written as ONNX; LinearSVM"):
        write_onnx(KernelSVM().fit(X, Y), path)
    with pytest.raises(TypeError, match="StandardScaler cannot be written as ONNX"):
        write_onnx(make_pipeline(StandardScaler()).fit(X), path)
    with pytest.raises(ValueError, match="formulation='dag' cannot be written as ONNX"):
        write_onnx(LinearSVM("dag").fit(X, Y), path)
    with pytest.raises(NotFittedError, match="is not fitted"):
        write_onnx(LinearSVM(), path)
    with pytest.raises(TypeError, match="labels of ONNX are integers or str, not float64"):
        write_onnx(LinearSVM().fit(X, Y.astype(float)), path)
    with pytest.raises(ValueError, match=r"dtype must be numpy\.float32 or numpy\.float64"):
        write_onnx(LinearSVM().fit(X, Y), path, dtype=np.float16)
    assert not path.exists()


def test_two_classes_of_dag(tmp_path):
    rows = X.astype(np.float32)
    model = LinearSVM("dag").fit(rows, (Y > 4).astype(int))
    check(model, tmp_path / "model.onnx", rows, X=rows)


def test_without_the_library_the_extra_is_named(tmp_path):
    program = """
import sys
sys.modules["skl2onnx"] = None
from multimargin import LinearSVM
from multimargin.models.onnx import write_onnx
try:
    write_onnx(LinearSVM().fit([[0.0], [1.0]], [0, 1]), "model.onnx")
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.stdout == 'write_onnx needs skl2onnx: pip install "multimargin[onnx]"\n', done.stderr


def test_three_classes_of_dag(tmp_path):
    with pytest.raises(ValueError, match="formulation='dag' cannot be written as ONNX"):
        write_onnx(LinearSVM("dag").fit(X[Y < 3], Y[Y < 3]), tmp_path / "m.onnx")
