"""Steps of pipelines in files that somebody made up: each check of each step, at its bounds."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, OneHotEncoder, StandardScaler

from multimargin import LinearSVM
from multimargin.models import ModelFormatError, load, save
from tests.models.forge import changed

ROWS = np.array([[0.0, 1, 2], [1, np.nan, 1], [2, 1, 0], [0, 2, 1], [1, 0, 2], [2, 2, np.nan]])
WHOLE = np.nan_to_num(ROWS)
LETTERS = np.array([["a", "x"], ["b", "x"], ["c", "y"], ["a", "y"], ["a", "z"], ["b", "x"]], dtype=object)
FRAME = pd.DataFrame(WHOLE, columns=["p", "q", "r"])
TEXTS = ["red sky", "blue sea", "green field", "red rose", "blue sky", "green sea"]
KINDS = [0, 1, 2, 0, 1, 2]


def of(step, rows):
    return make_pipeline(step, LinearSVM()).fit(rows, KINDS)


def first(description):
    return description["model"]["nodes"]["0"]


def told(**values):
    """Values of the first step."""
    return lambda description, arrays: first(description)["values"].update(values)


def parameter(name, value):
    def change(description, arrays):
        stored = first(description)["values"]["parameters"]["dict"]
        stored[:] = [item for item in stored if item[0] != name] + [[name, value]]

    return change


def array(name, values):
    return lambda description, arrays: arrays.__setitem__(f"0.{name}", np.asarray(values))


def without(name):
    def change(description, arrays):
        if f"0.{name}" in arrays:
            del arrays[f"0.{name}"]
        else:
            del first(description)["values"][name]

    return change


def both(*changes):
    return lambda description, arrays: [change(description, arrays) for change in changes]


SCALER, NAMED = of(StandardScaler(), WHOLE), of(StandardScaler(), FRAME)
HOLES = make_pipeline(StandardScaler(), SimpleImputer(), LinearSVM()).fit(ROWS, KINDS)
TEXT, COUNTS = of(TfidfVectorizer(), TEXTS), of(CountVectorizer(), TEXTS)
CATEGORIES = of(OneHotEncoder(), LETTERS)
RARE = of(OneHotEncoder(min_frequency=2, handle_unknown="infrequent_if_exist"), LETTERS)
IMPUTER = of(SimpleImputer(add_indicator=True), ROWS)
COLUMNS = of(
    ColumnTransformer([("a", StandardScaler(), [0]), ("b", "passthrough", [1])], remainder=MinMaxScaler()), WHOLE
)
MASK = {"array": ["bool_", [True, False, False]]}


def columns_of(a):
    return told(columns=[a, [1], [2]])


GOOD = [
    (SCALER, without("n_features")),
    (TEXT, parameter("ngram_range", {"tuple": [1, 2]})),
    (TEXT, parameter("dtype", {"dtype": "float32"})),
    (COUNTS, parameter("token_pattern", "[a-z]+")),
    (COUNTS, told(**{"vocabulary.given": "list"})),
    (RARE, array("infrequent.0", [2])),
    (IMPUTER, told(_fill_dtype=None)),
    (COLUMNS, columns_of(0)),
    (COLUMNS, columns_of({"slice": [0, 1, None]})),
    (COLUMNS, columns_of(MASK)),
    (COLUMNS, columns_of({"array": ["int64", [0]]})),
    (COLUMNS, told(outputs={"dict": [["a", [0, 0]], ["b", [0, 1]], ["remainder", [1, 2]]]})),
]


@pytest.mark.parametrize(("model", "change"), GOOD)
def test_files_that_are_as_good(tmp_path, model, change):
    save(model, path := tmp_path / "model")
    changed(path, change)
    assert type(load(path)[0]) is type(model[0])


WRONG = [
    # What all steps have
    (NAMED, told(n_features=2), r"array feature_names\.ends has the shape 3, not 2"),
    (NAMED, told(**{"feature_names.type": "number"}), "array feature_names is missing"),
    (
        NAMED,
        both(
            told(**{"feature_names.type": "number"}),
            array("feature_names", [1, 2, 3]),
            without("feature_names.text"),
            without("feature_names.ends"),
        ),
        "feature_names must be objects of str",
    ),
    (TEXT, told(output="pandas"), "it has no choice of output"),
    (SCALER, told(output="numpy"), "output cannot be 'numpy'"),
    (SCALER, parameter("with_mean", "yes"), "its parameters are not possible: The 'with_mean' parameter"),
    # Scalers
    (SCALER, array("mean_", [1.0, 2.0]), "array mean_ has the shape 2, not 3"),
    (SCALER, both(without("n_features"), array("scale_", [1.0, 2.0])), "array scale_ has the shape 2, not 3"),
    (SCALER, array("var_", [1, 2, 3]), "array var_ cannot be of int64"),
    (SCALER, both(without("var_"), told(var_=3)), "var_ cannot be '3'"),
    (SCALER, without("var_"), "array var_ is missing"),
    (SCALER, told(n_samples_seen_="6"), "n_samples_seen_ cannot be '6'"),
    (HOLES, array("n_samples_seen_", [6, 6]), "array n_samples_seen_ has the shape 2, not 3"),
    (HOLES, array("n_samples_seen_", [True] * 3), "array n_samples_seen_ cannot be of bool"),
    (of(MinMaxScaler(), WHOLE), array("data_range_", [1.0]), "array data_range_ has the shape 1, not 3"),
    (of(MaxAbsScaler(), WHOLE), without("scale_"), "array scale_ is missing"),
    (of(TfidfTransformer(), WHOLE), without("idf_"), "array idf_ is missing"),
    # Text
    (TEXT, parameter("ngram_range", {"tuple": [0, 1]}), r"ngram_range=\(0, 1\)"),
    (TEXT, parameter("ngram_range", {"tuple": [2, 1]}), r"ngram_range=\(2, 1\)"),
    (TEXT, parameter("ngram_range", {"tuple": [1, 2.0]}), r"ngram_range=\(1, 2\.0\)"),
    (TEXT, parameter("ngram_range", {"tuple": [True, True]}), r"ngram_range=\(True, True\)"),
    (TEXT, parameter("dtype", {"dtype": "str"}), "dtype cannot be made of"),
    (COUNTS, parameter("dtype", "U3"), "its parameters are not possible: dtype='U3'"),
    (of(HashingVectorizer(n_features=8), TEXTS), parameter("n_features", 0), "its parameters are not possible"),
    (of(HashingVectorizer(n_features=8), TEXTS), parameter("encoding", "morse"), "encoding='morse' of Hashing"),
    (
        COUNTS,
        both(array("vocabulary.text", np.frombuffer(b"aa", np.uint8)), array("vocabulary.ends", [1, 2])),
        "must be different, and one at least",
    ),
    (
        COUNTS,
        both(array("vocabulary.text", np.zeros(0, np.uint8)), array("vocabulary.ends", np.zeros(0, np.int64))),
        "must be different, and one at least",
    ),
    (COUNTS, told(**{"vocabulary.fixed": 1}), "vocabulary.fixed cannot be"),
    (COUNTS, told(**{"vocabulary.given": "set"}), "vocabulary.given cannot be"),
    (
        TEXT,
        lambda description, arrays: first(description)["nodes"]["tfidf"].update(kind="StandardScaler"),
        "its weights cannot be a StandardScaler",
    ),
    (TEXT, array("tfidf.idf_", np.ones(8)), "array idf_ has the shape 8, not 7|7 words cannot have 8 weights"),
    (TEXT, array("tfidf.more", np.ones(8)), r"should not have '0\.tfidf\.more'"),
    # Categories
    (CATEGORIES, without("n_features"), "n_features is missing"),
    (CATEGORIES, told(n_features=1), "should not have"),
    (CATEGORIES, told(n_features=3), r"categories\.2\.type is missing"),
    (CATEGORIES, parameter("drop", ["a"]), "drop does not fit the categories"),
    (CATEGORIES, parameter("handle_unknown", "guess"), "its parameters are not possible"),
    (RARE, array("infrequent.0", [-1]), r"infrequent\.0 must be numbers below 3"),
    (RARE, array("infrequent.0", [3]), r"infrequent\.0 must be numbers below 3"),
    (RARE, array("infrequent.0", np.zeros(0, np.int64)), r"infrequent\.0 must be numbers below 3"),
    (RARE, array("mapping.0", [0, 1, 3]), r"mapping\.0 must be numbers below 3"),
    (RARE, array("mapping.0", [0, 1, -1]), r"mapping\.0 must be numbers below 3"),
    (RARE, array("mapping.0", [0]), r"mapping\.0 must have an entry for each of 3 categories"),
    (RARE, array("mapping.0", [0, 1, 2, 2]), r"mapping\.0 must have an entry for each of 3 categories"),
    (RARE, array("mapping.0", [0.0, 1.0, 2.0]), r"mapping\.0 cannot be of float64"),
    (RARE, without("mapping.0"), r"mapping\.0 is missing"),
    (RARE, told(grouped=False), "should not have"),
    # Missing values
    (IMPUTER, array("statistics", [1.0, 2.0]), "array statistics has the shape 2, not 3"),
    (IMPUTER, told(_fill_dtype="S3"), "_fill_dtype cannot be"),
    (IMPUTER, parameter("strategy", "guess"), "its parameters are not possible"),
    (IMPUTER, array("indicator.features", [3]), "features must be numbers below 3"),
    (IMPUTER, array("indicator.features", [-1]), "features must be numbers below 3"),
    (IMPUTER, array("indicator.features", [0.0]), "array features cannot be of float64"),
    (IMPUTER, array("indicator.more", [1]), r"should not have '0\.indicator\.more'"),
    # Columns
    (COLUMNS, columns_of(0.5), "columns cannot be"),
    (COLUMNS, columns_of([0.5]), "columns cannot be"),
    (COLUMNS, columns_of(None), "columns cannot be"),
    (COLUMNS, columns_of({"array": ["float64", [0.0]]}), "columns cannot be"),
    (COLUMNS, columns_of({"array": ["object", [0]]}), "columns cannot be"),
    (COLUMNS, told(columns=[[0], [1]]), "columns cannot be"),
    (COLUMNS, told(names=["a", "b", 3]), "names cannot be"),
    (COLUMNS, told(names=["a", "b", "c"]), "the transformer of the remaining columns is missing"),
    (COLUMNS, without("n_features"), "n_features is missing"),
    (COLUMNS, told(inputs={"dict": [["a", [3]], ["b", [1]]]}), "inputs of 'a' must be numbers of columns below 3"),
    (COLUMNS, told(inputs={"dict": [["a", [-1]], ["b", [1]]]}), "inputs of 'a' must be numbers of columns below 3"),
    (COLUMNS, told(inputs={"dict": [["a", [True]], ["b", [1]]]}), "inputs of 'a' must be numbers"),
    (COLUMNS, told(inputs={"dict": [["a", 0], ["b", [1]]]}), "inputs of 'a' must be numbers"),
    (COLUMNS, told(inputs={"dict": [["b", [1]]]}), "inputs of a are missing"),
    (COLUMNS, told(outputs={"dict": [["c", [0, 1]]]}), "outputs of 'c' must be two numbers of columns"),
    (COLUMNS, told(outputs={"dict": [["a", [-1, 1]]]}), "outputs of 'a' must be two numbers of columns"),
    (COLUMNS, told(outputs={"dict": [["a", [1, 0]]]}), "outputs of 'a' must be two numbers of columns"),
    (COLUMNS, told(outputs={"dict": [["a", [0, 1, 2]]]}), "outputs of 'a' must be two numbers of columns"),
    (COLUMNS, told(outputs={"dict": [["a", [0, 1.0]]]}), "outputs of 'a' must be two numbers of columns"),
    (COLUMNS, told(outputs={"dict": [["a", {"tuple": [0, 1]}]]}), "outputs of 'a' must be two numbers of columns"),
    (COLUMNS, parameter("sparse_threshold", 7), "its parameters are not possible"),
    (COLUMNS, parameter("verbose_feature_names_out", "{feature_name!r}"), "must consist of text"),
    (COLUMNS, array("1.more", [1]), r"should not have '0\.1\.more'"),
]


@pytest.mark.parametrize(("model", "change", "what"), WRONG)
def test_files_that_are_wrong(tmp_path, model, change, what):
    save(model, path := tmp_path / "model")
    changed(path, change)
    with pytest.raises(ModelFormatError, match=what):
        load(path)


# Saving


@pytest.mark.parametrize("step", [MinMaxScaler(), MaxAbsScaler(), TfidfTransformer(), CountVectorizer()], ids=repr)
def test_steps_that_need_a_fit(tmp_path, step):
    with pytest.raises(ValueError, match=f"the step {type(step).__name__} is not fitted: fit the pipeline before"):
        save(make_pipeline(step, LinearSVM().fit(WHOLE, KINDS)), tmp_path / "model")


@pytest.mark.parametrize("step", [Normalizer(), TfidfTransformer(use_idf=False), HashingVectorizer()], ids=repr)
def test_steps_that_need_none(tmp_path, step):
    save(make_pipeline(step, LinearSVM().fit(WHOLE, KINDS)), tmp_path / "model")
    assert repr(load(tmp_path / "model")[0]) == repr(step)


def test_a_vocabulary_with_holes(tmp_path):
    model = of(CountVectorizer(), TEXTS)
    model[0].vocabulary_ = {word: 2 * number for word, number in model[0].vocabulary_.items()}
    with pytest.raises(ValueError, match="the vocabulary of CountVectorizer must number its words 0, 1, 2"):
        save(model, tmp_path / "model")


@pytest.mark.parametrize("given", [None, ["red", "sea"], {"red": 1, "sea": 0}, ("red", "sea")], ids=repr)
def test_a_vocabulary_that_was_given(tmp_path, given):
    save(of(CountVectorizer(vocabulary=given), TEXTS), tmp_path / "model")
    read = load(tmp_path / "model")[0]
    assert read.vocabulary == (list(given) if isinstance(given, tuple) else given)
    assert read.fixed_vocabulary_ is (given is not None)


def test_a_remainder_without_columns(tmp_path):
    every = ColumnTransformer([("all", StandardScaler(), [0, 1, 2])], remainder=MinMaxScaler())
    with pytest.raises(TypeError, match="remainder is a transformer that no columns were left for"):
        save(of(every, WHOLE), tmp_path / "model")
    every.remainder = "passthrough"
    save(of(every, WHOLE), tmp_path / "model")
    assert load(tmp_path / "model")[0].remainder == "passthrough"


@pytest.mark.parametrize("naming", ["{feature_name!r}", "{other}", "{}", "{feature_name.x}"])
def test_names_that_are_more_than_two_together(tmp_path, naming):
    model = of(ColumnTransformer([("all", StandardScaler(), [0])]), WHOLE)
    model[0].verbose_feature_names_out = naming
    with pytest.raises(TypeError, match=r"verbose_feature_names_out=.* must consist of text"):
        save(model, tmp_path / "model")


def test_columns_like_a_list_are_a_list(tmp_path):
    chosen = ColumnTransformer([("some", StandardScaler(), pd.Index(["p", "r"]))])
    save(of(chosen, FRAME), tmp_path / "model")
    assert load(tmp_path / "model")[0].transformers[0][2] == ["p", "r"]


def test_an_imputer_of_strings_is_refused(tmp_path):
    model = of(SimpleImputer(), WHOLE)
    model[0]._fill_dtype = np.dtype("U3")
    with pytest.raises(TypeError, match="a SimpleImputer of <U3 cannot be stored in a file; numbers and objects can"):
        save(model, tmp_path / "model")


def test_pipelines_inside_a_pipeline_end_in_a_machine(tmp_path):
    nested = make_pipeline(StandardScaler(), make_pipeline(MinMaxScaler(), LinearSVM())).fit(WHOLE, KINDS)
    save(nested, tmp_path / "model")
    read = load(tmp_path / "model")
    np.testing.assert_array_equal(read.decision_function(WHOLE), nested.decision_function(WHOLE))


def test_a_file_that_ends_in_no_machine(tmp_path):
    save(of(StandardScaler(), WHOLE), path := tmp_path / "model")

    def change(description, arrays):
        description["model"]["values"]["names"] = ["scaler"]
        del description["model"]["nodes"]["1"]
        for name in [name for name in arrays if name.startswith("1.")]:
            del arrays[name]

    changed(path, change)
    with pytest.raises(ModelFormatError, match="Pipeline: it does not end in a machine"):
        load(path)
