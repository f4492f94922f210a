"""Models of other people, and models that are read without scikit-learn: every bound of what is taken."""

import warnings

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from multimargin import KernelSVM, LinearSVM, load, save
from multimargin.models import ModelFormatError, onnx
from multimargin.models.errors import refuse
from multimargin.models.liblinear import read_liblinear, write_liblinear
from multimargin.models.libsvm import read_libsvm, write_libsvm
from multimargin.models.light import load_to_predict
from multimargin.models.light_text import LightTextModel
from tests.models.examples import X, Y
from tests.models.forge import changed

FRAME = pd.DataFrame(
    {
        "n": np.arange(12.0),
        "word": pd.Series(["a", "b", "c"] * 4, dtype=object),
        "unused": 1.0,
        "note": ["red sky", "blue sea", "red sea"] * 4,
        "other": ["big dog", "cat", "big cat"] * 4,
    }
)
KINDS = np.arange(12) % 3


def test_errors_of_files():
    assert str(refuse("f", "is bad")) == "f: is bad"
    assert str(refuse("f", "is bad", "mend it")) == "f: is bad; mend it"


# LIBLINEAR


def liblinear(tmp_path, **changes):
    lines = {"solver_type": "MCSVM_CS", "nr_class": "3", "label": "5 6 7", "nr_feature": "1", "bias": "-1"} | changes
    weights = lines.pop("w", "1 2 3")
    path = tmp_path / "model"
    path.write_text("".join(f"{key} {value}\n" for key, value in lines.items()) + f"w\n{weights}\n")
    return path


@pytest.mark.parametrize(
    ("changes", "intercept", "scaling"),
    [
        ({"bias": "2", "w": "1 2 3\n4 5 6"}, [8.0, 10.0, 12.0], 2.0),
        ({"bias": "0", "w": "1 2 3\n4 5 6"}, [0.0, 0.0, 0.0], 1.0),
        ({"bias": "-1"}, [0.0, 0.0, 0.0], 1.0),
        ({"bias": "1e100", "w": "1 2 3\n0 0 1e-99"}, [0.0, 0.0, 10.0], 1e100),
        ({"bias": "1e-100", "w": "1 2 3\n0 0 1e100"}, [0.0, 0.0, 1.0], 1e-100),
    ],
)
def test_biases(tmp_path, changes, intercept, scaling):
    model = read_liblinear(liblinear(tmp_path, **changes))
    np.testing.assert_allclose(model.intercept_, intercept)
    assert model.intercept_scaling == scaling and model.fit_intercept == (float(changes["bias"]) > 0)
    assert model.coef_.tolist() == [[1.0], [2.0], [3.0]] and model.n_iter_ == 0 and model.n_features_in_ == 1


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"bias": "1.1e100", "w": "1 2 3\n4 5 6"}, "bias 1.1e.100 is beyond"),
        ({"bias": "0.9e-100", "w": "1 2 3\n4 5 6"}, "bias 9e-101 is beyond"),
        ({"label": "5 6 2147483648"}, "'2147483648' cannot stand here"),
        ({"label": "-2147483649 6 7"}, "'-2147483649' cannot stand here"),
        ({"nr_feature": "0"}, "'0' cannot stand here"),
        ({"rho": "1 2 3", "label": "5 6 6"}, "a label is there twice"),
        ({"solver_type": "L1R_LR"}, "solver_type L1R_LR is logistic regression with an l1 penalty, which"),
        ({"w": "1 2\n"}, "line 7: there are 2 weights, not 3"),
        ({"w": "1 2 nan"}, "line 7: 'nan' cannot stand here"),
    ],
)
def test_models_of_liblinear_that_are_wrong(tmp_path, changes, what):
    with pytest.raises(ModelFormatError, match=what):
        read_liblinear(liblinear(tmp_path, **changes))


def test_labels_of_liblinear_at_their_bounds(tmp_path):
    model = read_liblinear(liblinear(tmp_path, label="2147483647 -2147483648 0"))
    assert model.classes_.tolist() == [-(2**31), 0, 2**31 - 1] and model.coef_.ravel().tolist() == [2.0, 3.0, 1.0]


@pytest.mark.parametrize(
    ("solver", "label", "weights", "sign"),
    [
        ("MCSVM_CS", "1 0", "3 -3", 2.0),
        ("MCSVM_CS", "0 1", "3 -3", -2.0),
        ("MCSVM_CS", "0 1", "1 4", 1.0),  # not LIBLINEAR's own, whose columns are each other's negatives
        ("MCSVM_CS", "1 0", "1 4", -1.0),
        ("L2R_L2LOSS_SVC", "1 0", "3", 1.0),
        ("L2R_L1LOSS_SVC_DUAL", "0 1", "3", -1.0),
    ],
)
def test_two_classes_of_liblinear(tmp_path, solver, label, weights, sign):
    model = read_liblinear(liblinear(tmp_path, solver_type=solver, nr_class="2", label=label, w=weights))
    assert model.coef_.tolist() == [[3.0 * sign]] and model.classes_.tolist() == [0, 1]


def test_intercepts_that_somebody_set_are_written(tmp_path):
    model = LinearSVM("one_vs_rest", fit_intercept=False).fit(X, Y)
    write_liblinear(model, tmp_path / "m")
    assert "\nbias -1.0\nw\n" in (tmp_path / "m").read_text()
    model.intercept_ = np.ones(10)
    write_liblinear(model, tmp_path / "m")
    again = read_liblinear(tmp_path / "m")
    np.testing.assert_allclose(again.intercept_, np.ones(10))
    sparse = LinearSVM(memory_mb=1e-5).fit(X, Y)
    with pytest.raises(
        ValueError, match=r"the weights of this LinearSVM are sparse .10 classes, 64 features., and LIB"
    ):
        write_liblinear(sparse, tmp_path / "m")


# LIBSVM


def libsvm(tmp_path, kernel="kernel_type linear", body="1 1:1\n-1 1:2", **changes):
    lines = {"nr_class": "2", "total_sv": "2", "rho": "0.5", "label": "1 0", "nr_sv": "1 1"} | changes
    path = tmp_path / "model"
    header = "".join(f"{key} {value}\n" for key, value in lines.items())
    path.write_text(f"svm_type c_svc\n{kernel}\n{header}SV\n{body}\n")
    return path


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("kernel_type linear", ("linear", 1.0, 3, 0.0)),
        ("kernel_type rbf\ngamma 0", ("rbf", 0.0, 3, 0.0)),
        ("kernel_type sigmoid\ngamma 2\ncoef0 -1", ("sigmoid", 2.0, 3, -1.0)),
        ("kernel_type polynomial\ndegree 0\ngamma 2\ncoef0 1", ("poly", 2.0, 0, 1.0)),
    ],
)
def test_kernels_of_libsvm(tmp_path, kernel, expected):
    model = read_libsvm(libsvm(tmp_path, kernel))
    found = model._kernel
    assert (found.name, found.gamma, found.degree, found.coef0) == expected
    assert model.gamma_ == (None if expected[0] == "linear" else expected[1])
    assert model.gamma == ("scale" if expected[0] == "linear" else expected[1])
    assert model.intercept_.tolist() == [-0.5]


def test_vectors_without_coefficients_are_left_out(tmp_path):
    model = read_libsvm(libsvm(tmp_path, body="1 1:1\n0 1:2\n-1 1:3", total_sv="3", nr_sv="1 2"))
    assert model.support_vectors_.ravel().tolist() == [1.0, 3.0] and model.support_.tolist() == [0, 1]
    assert model.n_support_.tolist() == [1, 1] and model._dual_caps.tolist() == [1.0, 1.0]
    assert model.shape_fit_ == (2, 1) and model._dual_problem == ("one_vs_one", "hinge", (2, 1))


@pytest.mark.parametrize(
    ("body", "dense"), [("1 1:1\n-1 2:2", True), ("1 1:1\n-1 4:2", True), ("1 1:1\n-1 5:2", False), ("1\n-1 1:2", True)]
)
def test_dense_and_sparse_vectors(tmp_path, body, dense):
    """From a quarter of non-zeros on they are dense."""
    model = read_libsvm(libsvm(tmp_path, body=body))
    assert sp.issparse(model.support_vectors_) != dense


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"nr_sv": "2 1"}, "total_sv is 2, the sum of nr_sv is 3, and 2 support vectors follow"),
        ({"total_sv": "3", "nr_sv": "1 2"}, "total_sv is 3, the sum of nr_sv is 3, and 2 support vectors follow"),
        ({"body": "1 1:1\n-1 2147483648:1"}, "'2147483648' cannot stand here"),
        ({"kernel": "kernel_type polynomial\ndegree -1\ngamma 1\ncoef0 0"}, "'-1' cannot stand here"),
        ({"rho": "inf"}, "'inf' cannot stand here"),
    ],
)
def test_models_of_libsvm_that_are_wrong(tmp_path, changes, what):
    with pytest.raises(ModelFormatError, match=what):
        read_libsvm(libsvm(tmp_path, **changes))


@pytest.mark.parametrize(
    ("body", "good"),
    [
        ("1 0:1\n-1 0:2", True),
        ("1 0:2\n-1 0:2", False),
        ("1 0:1\n-1 0:2 0:3", False),
        ("1 0:1\n-1 1:2", False),
        ("1 0:1\n-1 0:3", False),
    ],
)
def test_rows_of_a_precomputed_kernel(tmp_path, body, good):
    path = libsvm(tmp_path, "kernel_type precomputed", body)
    if good:
        model = read_libsvm(path, n_features=2)
        assert model.support_.tolist() == [0, 1] and model._dual_labels.tolist() == [1, 0]
    else:
        with pytest.raises(ModelFormatError, match=r"support vector|cannot stand here"):
            read_libsvm(path, n_features=2)


def test_what_is_written_of_a_kernel(tmp_path):
    options = {"gamma": 0.25, "coef0": 0.5, "degree": 2, "max_iter": 10**5}
    told = {
        "rbf": "gamma 0.25",
        "poly": "degree 2\ngamma 0.25\ncoef0 0.5",
        "sigmoid": "gamma 0.25\ncoef0 0.5",
        "linear": None,
    }
    for kernel, lines in told.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # sigmoid is not positive semidefinite
            model = KernelSVM("one_vs_one", kernel, C=0.01, tol=0.5, **options).fit(X[:40], Y[:40] > 4)
        write_libsvm(model, tmp_path / "m")
        text = (tmp_path / "m").read_text()
        begin = text[text.index("\n", text.index("kernel_type")) + 1 : text.index("nr_class")].strip()
        assert begin == (lines or "")


# ONNX


def test_shapes_of_the_graph(tmp_path):
    for labels, options, shape in (
        (Y > 4, {}, [None]),
        (Y % 3, {}, [None, 3]),
        (Y % 4, {"formulation": "one_vs_one"}, [None, 4]),
        (Y % 4, {"formulation": "one_vs_one", "decision_function_shape": "ovo"}, [None, 6]),
    ):
        model = LinearSVM(tol=0.5, **options).fit(X, labels.astype(int))
        onnx.write_onnx(model, tmp_path / "m.onnx")
        session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
        label, scores = session.get_outputs()
        assert len(label.shape) == 1 and len(scores.shape) == len(shape) and scores.shape[1:] == shape[1:]
        assert onnx._width(model) == (shape[1] if len(shape) > 1 else 2)
        assert [each.shape[1] for each in session.get_inputs()] == [64]


def test_parts_of_a_pipeline_for_onnx():
    columns = ColumnTransformer(
        [
            ("n", make_pipeline(SimpleImputer(), StandardScaler()), ["n"]),
            ("word", make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["word"]),
            ("unused", "drop", ["unused"]),
            ("note", TfidfVectorizer(), "note"),
            ("other", make_pipeline(CountVectorizer()), "other"),
        ]
    )
    model = make_pipeline(columns, LinearSVM()).fit(FRAME, KINDS)
    assert onnx._text_columns(model[0]) == {1, 3, 4}
    inputs = onnx._inputs(model, np.dtype("f4"))
    assert [name for name, _ in inputs] == ["n", "word", "note", "other"]
    assert [type(kind).__name__ for _, kind in inputs] == ["FloatTensorType", *["StringTensorType"] * 3]
    assert all(kind.shape == [None, 1] for _, kind in inputs)
    assert type(onnx._inputs(model, np.dtype("f8"))[0][1]).__name__ == "DoubleTensorType"
    found = list(onnx._vectorizers(model))
    assert [type(step).__name__ for step in found] == ["TfidfVectorizer", "CountVectorizer"]
    assert onnx._of_text(found[0], "de") == {"locale": "de", "tokenexp": r"[\p{L}\p{N}_]{2,}"}
    for other in (TfidfVectorizer(analyzer="char"), CountVectorizer(token_pattern="x")):
        assert onnx._of_text(other, "de") == {"locale": "de"}
    encoder = make_pipeline(OneHotEncoder(), LinearSVM()).fit(FRAME[["word", "note"]].to_numpy(), KINDS)
    ((name, kind),) = onnx._inputs(encoder, np.dtype("f4"))
    assert name == "X" and type(kind).__name__ == "StringTensorType" and kind.shape == [None, 2]
    of_numbers = make_pipeline(OneHotEncoder(), LinearSVM()).fit(X[:, :3], Y)
    assert type(onnx._inputs(of_numbers, np.dtype("f4"))[0][1]).__name__ == "FloatTensorType"


def test_labels_that_onnx_has():
    for labels, good in (
        (Y, True),
        (Y.astype(np.uint8), True),
        (Y.astype(str), True),
        (Y > 4, False),
        (Y * 1.0, False),
    ):
        model = LinearSVM(tol=0.5).fit(X, labels)
        if good:
            onnx._check(model)
        else:
            with pytest.raises(TypeError, match="labels of ONNX are integers or str"):
                onnx._check(model)
    with pytest.raises(ValueError, match=r"and ONNX multiplies with arrays; multimargin\.save writes it as it is"):
        onnx._check(LinearSVM(memory_mb=1e-5).fit(X, Y))


# Text without scikit-learn


def words(**options):
    return Pipeline([("f", TfidfVectorizer(**options)), ("m", LinearSVM())]).fit(FRAME["note"], KINDS)


def side_by_side(*parts, **options):
    return Pipeline([("f", ColumnTransformer(list(parts), **options)), ("m", LinearSVM())]).fit(FRAME, KINDS)


TITLE, OTHER = ("a", TfidfVectorizer(), "note"), ("b", TfidfVectorizer(), "other")


@pytest.mark.parametrize(
    ("model", "light"),
    [
        (words(), True),
        (words(ngram_range=(1, 2)), True),
        (words(token_pattern=r"(\w)\w*"), True),
        (words(binary=True), False),
        (words(dtype=np.float32), False),
        (words(norm="l1"), False),
        (side_by_side(TITLE, OTHER), True),
        (side_by_side(TITLE, OTHER, sparse_threshold=1.0), True),
        (side_by_side(TITLE, ("no", "drop", ["n"])), True),
        (side_by_side(TITLE, ("b", TfidfVectorizer(), "note")), False),
        (side_by_side(TITLE, OTHER, transformer_weights={"a": 2.0}), False),
        (side_by_side(TITLE, ("b", StandardScaler(), ["n"])), False),
        (side_by_side(("b", StandardScaler(), ["n"])), False),
        (Pipeline([("f", StandardScaler()), ("m", LinearSVM())]).fit(X, Y), False),
        (Pipeline([("f", TfidfVectorizer()), ("m", KernelSVM())]).fit(FRAME["note"], KINDS), False),
        (
            Pipeline([("f", TfidfVectorizer()), ("g", "passthrough"), ("m", LinearSVM())]).fit(FRAME["note"], KINDS),
            False,
        ),
    ],
)
def test_which_models_of_text_are_light(tmp_path, model, light):
    save(model, tmp_path / "m")
    read = load_to_predict(tmp_path / "m")
    assert isinstance(read, LightTextModel) == light
    if light:
        rows = FRAME["note"] if read.columns.one_text else FRAME
        np.testing.assert_array_equal(read.decision_function(rows), load(tmp_path / "m").decision_function(rows))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ngram_range", {"tuple": [0, 1]}),
        ("ngram_range", {"tuple": [2, 1]}),
        ("ngram_range", {"tuple": [1.0, 2.0]}),
        ("ngram_range", 3),
        ("token_pattern", "("),
        ("token_pattern", "(a)(b)"),
        ("token_pattern", None),
    ],
)
def test_forged_text_is_left_to_those_who_refuse_it(tmp_path, name, value):
    save(words(), path := tmp_path / "m")

    def change(description, arrays):
        stored = description["model"]["nodes"]["0"]["values"]["parameters"]["dict"]
        stored[:] = [item for item in stored if item[0] != name] + [[name, value]]

    changed(path, change)
    with pytest.raises(ModelFormatError, match="its parameters are not possible"):
        load_to_predict(path)


def test_runs_of_words(tmp_path):
    for least, most in ((1, 1), (2, 2), (1, 3), (2, 3)):
        save(words(ngram_range=(least, most)), tmp_path / "m")
        (vectorizer,) = load_to_predict(tmp_path / "m")._vectorizers
        tokens = ["aa", "bb", "cc", "dd"]
        runs = [" ".join(tokens[i : i + n]) for n in range(least, most + 1) for i in range(5 - n)]
        assert list(vectorizer.words("AA bb x cc, dd")) == runs
        assert vectorizer.entries("") == [] and vectorizer.entries("unseen only") == []


@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_no_rows_and_rows_without_a_known_word(tmp_path, threshold):
    save(side_by_side(TITLE, OTHER, sparse_threshold=threshold), tmp_path / "m")
    light, full = load_to_predict(tmp_path / "m"), load(tmp_path / "m")
    assert light.predict(FRAME[:0]).shape == (0,)
    unseen = pd.DataFrame({"note": ["", "zz yy"], "other": ["xx", ""]})
    np.testing.assert_array_equal(light.decision_function(unseen), np.tile(full[-1].intercept_, (2, 1)))
