"""Pipelines of every step that can be stored: the same predictions, parameters and attributes; others are refused."""

import io
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    StandardScaler,
)

from multimargin import KernelSVM, LinearSVM, LinearSVMCV
from multimargin.models import ModelFormatError, load, save
from tests.models.examples import X, Y, same
from tests.models.forge import changed

TEXTS = [
    "The printer is on fire",
    "my password does not work",
    "Größe und Maß stimmen nicht",
    "the PRINTER prints nothing, nothing at all",
    "password forgotten, again",
    "die Größe ist falsch",
    "no paper in the printer",
    "reset my password",
    "falsche Größe geliefert",
    "",
] * 3
TOPICS = np.array(
    ["printer", "account", "order", "printer", "account", "order", "printer", "account", "order", "order"] * 3
)
UNSEEN = ["paper and fire", "password", "Maß", "", "日本語 printer"]


def assert_alike(a, b):
    """Parameters and attributes are the same, whatever the nesting."""
    a, b = (int(of) if isinstance(of, np.integer) else of for of in (a, b))  # scikit-learn has now one, now the other
    assert type(a) is type(b)
    if isinstance(a, BaseEstimator):
        # What follows from other attributes, or is set by every transform.
        ignored = {"_W", "_coef_of_W", "_stop_words_id", "_transformers_feature_names_out"}
        ours, theirs = vars(a), vars(b)
        assert set(ours) - ignored == set(theirs) - ignored
        for name in set(theirs) - ignored:
            assert_alike(ours[name], theirs[name])
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for ours, theirs in zip(a, b, strict=True):
            assert_alike(ours, theirs)
    elif isinstance(a, dict):
        assert a.keys() == b.keys()
        for name in a:
            assert_alike(a[name], b[name])
    elif isinstance(a, float):
        assert a == b or (a != a and b != b)
    elif isinstance(a, np.ndarray) and a.dtype.kind == "O":
        assert_alike(a.tolist(), b.tolist())
    else:
        assert same(a, b)


def check(model, path, *many_rows):
    save(model, path)
    loaded = load(path)
    assert_alike(loaded, model)
    for rows in many_rows:
        assert same(loaded.predict(rows), model.predict(rows))
        assert same(loaded.decision_function(rows), model.decision_function(rows))
    save(loaded, path.with_suffix(".again"))
    assert path.with_suffix(".again").read_bytes() == path.read_bytes()
    return loaded


VECTORIZERS = [
    TfidfVectorizer(),
    TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=2, norm="l1", dtype=np.float32),
    TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), lowercase=False, strip_accents="unicode", max_features=50),
    TfidfVectorizer(analyzer="char", use_idf=False, smooth_idf=False, norm=None),
    TfidfVectorizer(stop_words="english", binary=True, max_df=0.9),
    TfidfVectorizer(vocabulary={"printer": 1, "password": 0, "größe": 2}),
    CountVectorizer(),
    CountVectorizer(token_pattern=r"\b\w+\b", stop_words=["the", "my"]),
    CountVectorizer(vocabulary=["printer", "password", "größe"], dtype=np.float64),
    HashingVectorizer(n_features=64),
    HashingVectorizer(n_features=128, analyzer="char", ngram_range=(1, 3), alternate_sign=False, norm="l1"),
]


@pytest.mark.parametrize("vectorizer", VECTORIZERS, ids=lambda vectorizer: repr(vectorizer)[:60])
def test_text(tmp_path, vectorizer):
    check(make_pipeline(vectorizer, LinearSVM()).fit(TEXTS, TOPICS), tmp_path / "model", TEXTS, UNSEEN)


def test_text_in_more_steps(tmp_path):
    steps = [("count", CountVectorizer()), ("weigh", TfidfTransformer(norm=None)), ("scale", MaxAbsScaler())]
    for machine in (LinearSVM("one_vs_one"), KernelSVM(), LinearSVMCV(Cs=[0.1, 1.0], cv=3)):
        model = Pipeline([*steps, ("machine", machine)], verbose=False).fit(TEXTS, TOPICS)
        loaded = check(model, tmp_path / "model", TEXTS, UNSEEN)
        assert loaded.named_steps["count"].vocabulary_ == model.named_steps["count"].vocabulary_
        assert list(loaded[:-1].get_feature_names_out()) == list(model[:-1].get_feature_names_out())


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=8), min_size=3, max_size=12))
def test_any_words(tmp_path_factory, texts):
    path = tmp_path_factory.getbasetemp() / "words"
    vectorizer = CountVectorizer(analyzer="char", lowercase=False)
    check(make_pipeline(vectorizer, LinearSVM()).fit(texts, np.arange(len(texts)) % 2), path, texts)


def with_holes(rows):
    rows = rows.copy()
    rows[::7, ::3] = np.nan
    return rows


SCALERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    MinMaxScaler(feature_range=(-1, 1), clip=True),
    MaxAbsScaler(),
    Normalizer("l1"),
    "passthrough",
    None,
    make_pipeline(MinMaxScaler(), Normalizer()),
    SimpleImputer(strategy="constant", fill_value=3.0),
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scaler", SCALERS, ids=repr)
def test_numbers(tmp_path, scaler, dtype):
    rows = X.astype(dtype)
    model = Pipeline([("scale", scaler), ("machine", LinearSVM())]).fit(rows, Y)
    if scaler is None:
        save(model, tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert loaded.steps[0] == ("scale", "passthrough")
        assert same(loaded.decision_function(rows), model.decision_function(rows))
    else:
        check(model, tmp_path / "model", rows, rows[:1] * 2)


@pytest.mark.parametrize("scaler", [StandardScaler(with_mean=False), MaxAbsScaler(), Normalizer()], ids=repr)
def test_sparse_numbers(tmp_path, scaler):
    rows = sp.csr_array(X)
    check(make_pipeline(scaler, KernelSVM()).fit(rows, Y), tmp_path / "model", rows)


@pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent"])
@pytest.mark.parametrize("add_indicator", [False, True])
def test_missing_numbers(tmp_path, strategy, add_indicator):
    rows = with_holes(X)
    for scaler in (StandardScaler(), MinMaxScaler()):  # which count the samples of every feature
        steps = (scaler, SimpleImputer(strategy=strategy, add_indicator=add_indicator))
        check(make_pipeline(*steps, LinearSVM()).fit(rows, Y), tmp_path / "model", rows, X)


def test_a_scaler_goes_on(tmp_path):
    model = make_pipeline(StandardScaler(), LinearSVM()).fit(X, Y)
    loaded = check(model, tmp_path / "model", X)
    for scaler in (loaded[0], model[0]):
        scaler.partial_fit(X * 3 + 1)
    assert_alike(loaded[0], model[0])


FRAME = pd.DataFrame(
    {
        "colour": pd.Series(["red", "green", "blue", "red", None, "green"] * 6, dtype=object),
        "size": np.arange(36) % 5,
        "weight": np.linspace(0, 1, 36),
        "height": [np.nan, 1.0, 2.0, 3.0, 4.0, 5.0] * 6,
        "note": (TEXTS * 2)[:36],
        "unused": 0,
    }
)
KINDS = np.arange(36) % 3

ENCODERS = [
    OneHotEncoder(handle_unknown="ignore"),
    OneHotEncoder(sparse_output=False, dtype=np.float32),
    OneHotEncoder(drop="first", handle_unknown="ignore"),
    OneHotEncoder(drop="if_binary"),
    OneHotEncoder(drop=["green", 2]),
    OneHotEncoder(min_frequency=8, handle_unknown="infrequent_if_exist"),
    OneHotEncoder(max_categories=3, handle_unknown="ignore", drop="first"),
    OneHotEncoder(categories=[np.array(["blue", "green", "red", None], dtype=object), np.arange(6)]),
]


@pytest.mark.parametrize("encoder", ENCODERS, ids=repr)
def test_categories(tmp_path, encoder):
    rows = FRAME[["colour", "size"]]
    loaded = check(make_pipeline(encoder, LinearSVM()).fit(rows, KINDS), tmp_path / "model", rows)
    assert same(loaded[0].get_feature_names_out(), encoder.get_feature_names_out())
    if encoder.handle_unknown != "error":
        unseen = pd.DataFrame({"colour": ["violet", "red"], "size": [99, 1]})
        encoder_of_loaded = loaded[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of unknown categories
            ours, theirs = encoder_of_loaded.transform(unseen), encoder.transform(unseen)
        assert (ours != theirs).sum() == 0


def test_categories_of_numbers_and_str(tmp_path):
    missing = np.array([["a"], [np.nan], ["c"]] * 40, dtype=object)
    for rows in (
        missing,
        with_holes(X[:, :3]),
        X[:, :3] > 0.2,
        (X[:, :3] * 4).astype(int),
        np.array([["a"], ["bb"], ["c"]] * 40),
    ):
        check(make_pipeline(OneHotEncoder(), LinearSVM()).fit(rows, Y), tmp_path / "model", rows)


def table(**options):
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    categories = make_pipeline(
        SimpleImputer(strategy="most_frequent", missing_values=None), OneHotEncoder(handle_unknown="ignore")
    )
    return ColumnTransformer(
        [
            ("numbers", numbers, ["weight", "height"]),
            ("categories", categories, ["colour"]),
            ("note", TfidfVectorizer(), "note"),
            ("dropped", "drop", ["unused"]),
        ],
        **options,
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"remainder": "passthrough"},
        {"remainder": StandardScaler()},
        {"remainder": MinMaxScaler(), "transformer_weights": {"numbers": 0.5}, "sparse_threshold": 0.0},
        {"verbose_feature_names_out": False, "n_jobs": 1},
        {"verbose_feature_names_out": "{feature_name} of {transformer_name}"},
    ],
    ids=repr,
)
def test_tables(tmp_path, options):
    model = make_pipeline(table(**options), LinearSVM()).fit(FRAME, KINDS)
    loaded = check(model, tmp_path / "model", FRAME, FRAME[::-1], FRAME[FRAME.columns[::-1]])
    assert list(loaded[0].get_feature_names_out()) == list(model[0].get_feature_names_out())
    assert repr(loaded) == repr(model)
    loaded.fit(FRAME, KINDS)
    assert same(loaded.decision_function(FRAME), model.decision_function(FRAME))


@pytest.mark.parametrize("columns", [[0, 2], slice(0, 3), np.arange(64) < 3, [-1, 5], slice(None, -3)], ids=repr)
def test_columns_of_arrays(tmp_path, columns):
    model = make_pipeline(
        ColumnTransformer([("some", StandardScaler(), columns)], remainder="passthrough"), LinearSVM()
    ).fit(X, Y)
    check(model, tmp_path / "model", X)


def test_columns_by_a_selector_are_those_that_it_chose(tmp_path):
    frame = FRAME[["size", "weight"]]
    chosen = ColumnTransformer([("numbers", StandardScaler(), make_column_selector(dtype_include=float))])
    model = make_pipeline(chosen, LinearSVM()).fit(frame, KINDS)
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded[0].transformers[0][2] == ["weight"]
    assert same(loaded.decision_function(frame), model.decision_function(frame))


def test_frames_between_steps(tmp_path):
    model = make_pipeline(StandardScaler(), MinMaxScaler(), LinearSVM()).set_output(transform="pandas")
    rows = FRAME[["size", "weight"]]
    loaded = check(model.fit(rows, KINDS), tmp_path / "model", rows)
    assert list(loaded[-1].feature_names_in_) == ["size", "weight"]
    chosen = ColumnTransformer([("numbers", StandardScaler(), ["size"])], remainder="passthrough")
    check(make_pipeline(chosen, LinearSVM()).set_output(transform="pandas").fit(rows, KINDS), tmp_path / "model", rows)


# What is refused


def words_of(text):
    return text.split()


@pytest.mark.parametrize(
    ("step", "what"),
    [
        (
            TfidfVectorizer(tokenizer=words_of, token_pattern=None),
            "tokenizer of TfidfVectorizer is the callable words_of",
        ),
        (CountVectorizer(analyzer=words_of), "analyzer of CountVectorizer is the callable words_of"),
        (HashingVectorizer(preprocessor=str.upper), r"preprocessor of HashingVectorizer is the callable str\.upper"),
    ],
)
def test_callables(tmp_path, step, what):
    model = make_pipeline(step, LinearSVM()).fit(TEXTS, TOPICS)
    with pytest.raises(TypeError, match=f"{what}, which cannot be stored"):
        save(model, tmp_path / "model")


@pytest.mark.parametrize("vectorizer", [TfidfVectorizer, CountVectorizer, HashingVectorizer])
@pytest.mark.parametrize("source", ["filename", "file"])
def test_texts_in_files(tmp_path, vectorizer, source):
    """A model that opens what its rows say is not for files, which may come from anywhere."""
    texts = []
    for number, text in enumerate(TEXTS):
        (tmp_path / str(number)).write_text(text)
        texts.append(str(tmp_path / str(number)) if source == "filename" else io.BytesIO(text.encode()))
    model = make_pipeline(vectorizer(input=source), LinearSVM()).fit(texts, TOPICS)
    with pytest.raises(TypeError, match=rf"{vectorizer.__name__}\(input='{source}'\) reads files.*input='content'"):
        save(model, tmp_path / "model")
    path = tmp_path / "other"
    save(make_pipeline(vectorizer(), LinearSVM()).fit(TEXTS, TOPICS), path)
    changed(path, parameter("input", source, "0"))
    with pytest.raises(ModelFormatError, match=rf"{vectorizer.__name__}\(input='{source}'\) reads files"):
        load(path)


def test_patterns_that_are_none(tmp_path):
    model = make_pipeline(HashingVectorizer(n_features=64), LinearSVM()).fit(TEXTS, TOPICS)
    model[0].token_pattern = "("
    with pytest.raises(ValueError, match=r"token_pattern='\(' of HashingVectorizer is no pattern of a token"):
        save(model, tmp_path / "model")
    model[0].analyzer = "char"  # which has no use for it
    check(model, tmp_path / "model", TEXTS)


def test_types_that_would_be_called(tmp_path):
    model = make_pipeline(OneHotEncoder(feature_name_combiner=int), LinearSVM()).fit(X[:, :3], Y)
    with pytest.raises(TypeError, match=r"the parameter feature_name_combiner of OneHotEncoder .*the callable int"):
        save(model, tmp_path / "model")


def test_more_jobs_than_can_be(tmp_path):
    model = make_pipeline(table(), LinearSVM(n_jobs=1024)).fit(FRAME, KINDS)
    check(model, tmp_path / "model", FRAME)
    model[0].n_jobs = 1025
    save(model, tmp_path / "model")
    assert load(tmp_path / "model")[0].n_jobs == 1024


def test_formats_of_names(tmp_path):
    naming = "{feature_name:>20}"
    model = make_pipeline(table(verbose_feature_names_out=naming), LinearSVM()).fit(FRAME, KINDS)
    with pytest.raises(TypeError, match=r"must consist of text, \{transformer_name\} and \{feature_name\}"):
        save(model, tmp_path / "model")


@pytest.mark.parametrize(
    ("step", "what"),
    [
        (FunctionTransformer(), "a FunctionTransformer cannot be stored in a file, as its function cannot"),
        (ColumnTransformer([("f", FunctionTransformer(np.log1p), [0])]), "a FunctionTransformer cannot be stored"),
        (PCA(3), "the step PCA cannot be stored in a file; ColumnTransformer, CountVectorizer, "),
        (OrdinalEncoder(), "the step OrdinalEncoder cannot be stored"),
        (ColumnTransformer([("none", StandardScaler(), []), ("p", "passthrough", [0])]), "'none' has no columns"),
    ],
)
def test_other_steps(tmp_path, step, what):
    model = make_pipeline(step, LinearSVM()).fit(X, Y)
    with pytest.raises(TypeError, match=what):
        save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "step", [StandardScaler(), TfidfVectorizer(), OneHotEncoder(), SimpleImputer(), ColumnTransformer([])], ids=repr
)
def test_steps_that_are_not_fitted(tmp_path, step):
    with pytest.raises(NotFittedError, match=f"the step {type(step).__name__} is not fitted"):
        save(make_pipeline(step, LinearSVM().fit(X, Y)), tmp_path / "model")


def test_pipelines_without_a_machine(tmp_path):
    with pytest.raises(TypeError, match=r"a pipeline that ends in StandardScaler cannot be saved; LinearSVM"):
        save(make_pipeline(StandardScaler()).fit(X), tmp_path / "model")


def test_a_cache_is_refused(tmp_path):
    model = Pipeline([("scale", StandardScaler()), ("machine", LinearSVM())], memory=str(tmp_path / "cache")).fit(X, Y)
    with pytest.raises(TypeError, match=r"set_params\(memory=None\)"):
        save(model, tmp_path / "model")


# Files that say something else


def node(description, *names):
    found = description["model"]
    for name in names:
        found = found["nodes"][name]
    return found


def replaced(*names, **values):
    return lambda description, arrays: node(description, *names)["values"].update(values)


def kind(told, *names):
    return lambda description, arrays: node(description, *names).update(kind=told)


def dropped(*names):
    return lambda description, arrays: [arrays.pop(name) for name in names]


def with_array(name, array):
    return lambda description, arrays: arrays.__setitem__(name, array)


def parameter(name, value, *names):
    def change(description, arrays):
        stored = node(description, *names)["values"]["parameters"]["dict"]
        stored[:] = [item for item in stored if item[0] != name] + [[name, value]]

    return change


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (kind("PCA", "0"), r"PCA \(at 0\): this kind of model is not known"),
        (kind("os.system", "0"), "this kind of model is not known"),
        (kind("FunctionTransformer", "0"), "this kind of model is not known"),
        (kind("drop", "0"), "should not have|cannot be 'drop'"),
        (kind("StandardScaler", "0"), "StandardScaler"),
        (kind("ColumnTransformer"), "ColumnTransformer"),
        (replaced(names=["a"]), "it should not have '1"),
        (replaced(names=["a", "a"]), "names cannot be"),
        (replaced(names=["a", "b", "c"]), "the node 2 is missing"),
        (replaced(names=[]), "names cannot be"),
        (replaced(names=["a__b", "c"]), "its steps do not make a pipeline"),
        (replaced("0", more=1), "should not have 'more'"),
        (dropped("0.tfidf.idf_"), "idf_ is missing"),
        (with_array("0.tfidf.idf_", np.ones(3)), "has the shape 3, not"),
        (with_array("0.vocabulary.ends", np.zeros(4, dtype=np.int64)), "the ends of the strings"),
        (with_array("0.more", np.ones(3)), r"should not have '0\.more'"),
        (with_array("1.weights", np.ones((3, 3))), "n_features is not that of the weights, 3"),
        (parameter("analyzer", "os.system", "0"), "its parameters are not possible"),
        (parameter("tokenizer", "os.system", "0"), "its parameters are not possible"),
        (parameter("vocabulary", ["x"], "0"), "its parameter 'vocabulary' has no place in a file"),
        (parameter("dtype", False, "0"), "its parameters are not possible"),
        (parameter("dtype", "complex128", "0"), "its parameters are not possible"),
        (parameter("memory", "/tmp/cache"), r"Pipeline: its parameter 'memory' has no place in a file"),
        (parameter("memory", None), "its parameter 'memory' has no place in a file"),
        (parameter("transform_input", "os"), "its steps do not make a pipeline: The 'transform_input' parameter"),
        (parameter("input", "filename", "0"), r"not possible: TfidfVectorizer\(input='filename'\) reads files"),
        (parameter("input", "file", "0"), r"not possible: TfidfVectorizer\(input='file'\) reads files"),
        (parameter("analyzer", {"dtype": "int"}, "0"), "its parameter 'analyzer' cannot be the callable int"),
        (parameter("strip_accents", {"dtype": "float64"}, "0"), "'strip_accents' cannot be the callable float64"),
        (parameter("encoding", "no such", "0"), "not possible: encoding='no such' of TfidfVectorizer is unknown"),
        (parameter("encoding", "utf-8\0", "0"), "its parameters are not possible"),
        (parameter("token_pattern", "(", "0"), r"not possible: token_pattern='\(' of TfidfVectorizer is no pattern"),
        (parameter("token_pattern", "(a)(b)", "0"), "is no pattern of a token: More than 1 capturing group"),
        (parameter("token_pattern", "a{99999999999999}", "0"), "is no pattern of a token: .*too large"),
        (parameter("token_pattern", None, "0"), "token_pattern=None of TfidfVectorizer is no pattern"),
        (parameter("ngram_range", {"tuple": [1]}, "0"), "ngram_range|not possible"),
        (parameter("norm", "l3", "0", "tfidf"), "its parameters are not possible"),
        (replaced("0", **{"vocabulary.given": "set"}), "vocabulary.given cannot be"),
        (replaced("0", output="os"), "output cannot be"),
    ],
)
def test_pipelines_that_are_wrong(tmp_path, change, what):
    path = tmp_path / "model"
    save(make_pipeline(TfidfVectorizer(), LinearSVM()).fit(TEXTS, TOPICS), path)
    changed(path, change)
    with pytest.raises(ModelFormatError, match=what):
        load(path)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (replaced("0", columns=[]), "columns cannot be"),
        (replaced("0", columns=[["weight"], ["colour"], {"dict": []}, ["unused"], ["size"]]), "columns cannot be"),
        (replaced("0", columns=[["weight"], ["colour"], [["note"]], ["unused"], ["size"]]), "columns cannot be"),
        (replaced("0", inputs={"dict": [["numbers", [99]]]}), "inputs of 'numbers' must be numbers of columns below 6"),
        (replaced("0", inputs={"dict": [["os", [1]]]}), "inputs of 'os' must be"),
        (
            replaced("0", inputs={"dict": []}),
            "inputs of categories, dropped, note, numbers, remainder are missing|missing",
        ),
        (replaced("0", outputs={"dict": [["numbers", [2, 1]]]}), "outputs of 'numbers' must be"),
        (replaced("0", remainder="os"), "remainder cannot be"),
        (replaced("0", sparse_output=3), "sparse_output cannot be"),
        (parameter("n_jobs", 10**6, "0"), r"ColumnTransformer \(at 0\): n_jobs=1000000 is more than the 1024"),
        (parameter("verbose_feature_names_out", {"dtype": "int"}, "0"), "cannot be the callable int"),
        (parameter("verbose_feature_names_out", "{feature_name:>9999999999}", "0"), "must consist of text"),
        (parameter("verbose_feature_names_out", "{feature_name.__class__}", "0"), "must consist of text"),
        (parameter("verbose_feature_names_out", "{", "0"), "its parameters are not possible"),
        (parameter("feature_name_combiner", {"dtype": "int"}, "0", "1", "1"), "cannot be the callable int"),
        (parameter("strategy", {"dtype": "int"}, "0", "1", "0"), "cannot be the callable int"),
        (parameter("features", "os", "0", "0", "0", "indicator"), "its parameters are not possible"),
        (replaced("0", n_features=-1), "n_features cannot be"),
        (replaced("0", "1", "1", grouped=3), "grouped cannot be"),
        (replaced("0", "0", "0", _fit_dtype="O8"), "_fit_dtype cannot be"),
        (kind("StandardScaler", "0", "0", "0", "indicator"), "has a MissingIndicator here"),
        (with_array("0.0.0.indicator.features", np.array([7])), "features must be numbers below 2"),
    ],
)
def test_tables_that_are_wrong(tmp_path, change, what):
    path = tmp_path / "model"
    save(make_pipeline(table(remainder="passthrough"), LinearSVM()).fit(FRAME, KINDS), path)
    changed(path, change)
    with pytest.raises(ModelFormatError, match=what):
        load(path)


def test_a_vocabulary_of_other_things_than_words_is_refused(tmp_path):
    model = make_pipeline(CountVectorizer(vocabulary={"red": 0, ("b",): 1}), LinearSVM())
    model.fit(["red", "red red", "blue", "red"], [0, 1, 0, 1])
    with pytest.raises(TypeError, match="the vocabulary of CountVectorizer must be of str"):
        save(model, tmp_path / "m")
    assert not list(tmp_path.iterdir())
