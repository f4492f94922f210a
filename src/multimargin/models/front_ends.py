"""What stands before a machine in a pipeline: scikit-learn's vectorizers, scalers, encoders.

Each class has its own list of what is stored of it and how that is checked. Only classes of the tables here are ever
made, and only attributes of these lists are ever set, whatever a file says.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, OneHotEncoder, StandardScaler

from multimargin.models.parameters import read_parameters, write_parameters
from multimargin.models.tree import Reader, Writer
from multimargin.models.vectors import read_strings, read_vector, write_strings, write_vector

# Transformers whose state is vectors with an entry a feature, some of which may be None.
_VECTORS: dict[type, tuple[str, ...]] = {
    StandardScaler: ("mean_", "var_", "scale_"),
    MinMaxScaler: ("scale_", "min_", "data_min_", "data_max_", "data_range_"),
    MaxAbsScaler: ("max_abs_", "scale_"),
    TfidfTransformer: ("idf_",),
    Normalizer: (),
}
_COUNTS = (StandardScaler, MinMaxScaler, MaxAbsScaler)  # how many samples there were: a number, or one a feature
_OUTPUTS = ("default", "pandas", "polars")
_IMPUTED = {np.dtype(name): name for name in ("bool", "int32", "int64", "float32", "float64", "object")}


# What they all have


def write_names(node: Writer, step: Any) -> None:
    """Store the number of features and their names, and whether frames come out."""
    if "n_features_in_" in vars(step):
        node.value("n_features", int(step.n_features_in_))
    if "feature_names_in_" in vars(step):
        write_vector(node, "feature_names", step.feature_names_in_)
    output = getattr(step, "_sklearn_output_config", {}).get("transform")
    if output is not None:
        node.value("output", output)


def read_names(node: Reader, step: Any) -> int | None:
    """The number of features, if it is known."""
    count = None
    if node.has("n_features"):
        count = step.n_features_in_ = node.size("n_features")
    if node.has("feature_names.type"):
        step.feature_names_in_ = read_vector(node, "feature_names", count)
        if step.feature_names_in_.dtype.kind != "O":
            raise node.wrong("feature_names must be objects of str")
    if node.has("output"):
        output = node.value("output", str, check=_OUTPUTS.__contains__)
        if not hasattr(step, "set_output"):
            raise node.wrong("it has no choice of output")
        step.set_output(transform=output)
    return count


def _check_fitted(step: Any, attribute: str) -> None:
    if not hasattr(step, attribute):
        raise NotFittedError(f"the step {type(step).__name__} is not fitted: fit the pipeline before it is saved")


def _check_parameters(node: Reader, step: Any) -> None:
    """Refuse parameters that would fail, or do something else, at the first row."""
    try:
        step._validate_params()
        if np.dtype(getattr(step, "dtype", None)).kind not in "biuf":  # which is not looked at there
            raise ValueError(f"dtype={step.dtype!r}")
        if hasattr(step, "ngram_range"):  # of which nothing but the type is looked at
            least, most = step.ngram_range
            if not (type(least) is type(most) is int and 1 <= least <= most):
                raise ValueError(f"ngram_range={step.ngram_range!r}")
            _check_text(step)
    except (TypeError, ValueError) as error:
        raise node.wrong(f"its parameters are not possible: {error}") from None


# Scalers


def _write_vectors(node: Writer, step: Any) -> None:
    kind = type(step)
    needs_idf = kind is not TfidfTransformer or step.use_idf
    if _VECTORS[kind] and needs_idf:
        _check_fitted(step, _VECTORS[kind][-1])
    write_parameters(node, step)
    write_names(node, step)
    for name in _VECTORS[kind]:
        vector = getattr(step, name, None)
        if vector is not None:
            node.array(name, np.asarray(vector))
        elif hasattr(step, name):
            node.value(name, None)
    if kind in _COUNTS:
        seen = step.n_samples_seen_
        if np.ndim(seen):
            node.array("n_samples_seen_", seen)
        else:
            node.value("n_samples_seen_", seen)


def _read_vectors(node: Reader) -> Any:
    kind = next(kind for kind in _VECTORS if kind.__name__ == node.kind)
    step = read_parameters(node, kind)
    _check_parameters(node, step)
    count = read_names(node, step)
    for name in _VECTORS[kind]:
        if kind is TfidfTransformer and not node.has(name) and not step.use_idf:
            continue
        if node.has(name) and not node.has_array(name):
            setattr(step, name, node.value(name, type(None)))
        else:
            vector = node.array(name, "f", (count,), finite=False)
            setattr(step, name, vector)
            count = len(vector)
    if kind in _COUNTS:
        if node.has_array("n_samples_seen_"):
            step.n_samples_seen_ = node.array("n_samples_seen_", "if", (count,))
        else:
            step.n_samples_seen_ = node.value("n_samples_seen_", int, float)
            if kind is StandardScaler:  # which asks for its dtype when it goes on
                step.n_samples_seen_ = np.asarray(step.n_samples_seen_)[()]
    return step


# Text


def _check_callables(step: Any) -> None:
    for name in ("analyzer", "tokenizer", "preprocessor"):
        if callable(getattr(step, name)):
            raise TypeError(
                f"{name} of {type(step).__name__} is the callable "
                f"{getattr(getattr(step, name), '__qualname__', type(getattr(step, name)).__name__)}, which cannot be "
                "stored in a file; use analyzer='word', 'char' or 'char_wb' with a token_pattern, or keep the model by "
                "joblib"
            )


def _check_text(step: Any) -> None:
    """Refuse a vectorizer that opens files, and one that would fail at the first text."""
    name = type(step).__name__
    if step.input != "content":  # a path in a text would be read, whoever wrote the text
        raise TypeError(
            f"{name}(input={step.input!r}) reads files, which a model in a file may not; use input='content', and read "
            "them beforehand"
        )
    try:
        codecs.lookup(step.encoding)
    except LookupError:
        raise ValueError(f"encoding={step.encoding!r} of {name} is unknown") from None
    if step.analyzer == "word":
        try:
            step.build_tokenizer()
        except (re.error, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ValueError(
                f"token_pattern={step.token_pattern!r} of {name} is no pattern of a token: {error}"
            ) from None


def _write_hashing(node: Writer, step: HashingVectorizer) -> None:
    _check_callables(step)
    _check_text(step)
    write_parameters(node, step)
    write_names(node, step)


def _read_hashing(node: Reader) -> HashingVectorizer:
    step = read_parameters(node, HashingVectorizer)
    _check_parameters(node, step)
    read_names(node, step)
    return step


def _write_counting(node: Writer, step: Any) -> None:
    """CountVectorizer and TfidfVectorizer. The vocabulary is its words in the order of their columns."""
    _check_callables(step)
    _check_text(step)
    _check_fitted(step, "vocabulary_")
    words = sorted(step.vocabulary_, key=step.vocabulary_.__getitem__)
    if [step.vocabulary_[word] for word in words] != list(range(len(words))):
        raise ValueError(f"the vocabulary of {type(step).__name__} must number its words 0, 1, 2, ...")
    if not all(type(word) is str for word in words):
        raise TypeError(f"the vocabulary of {type(step).__name__} must be of str")
    write_parameters(node, step, without=("vocabulary",))
    write_names(node, step)
    given = step.vocabulary
    node.value("vocabulary.given", None if given is None else "dict" if isinstance(given, dict) else "list")
    node.value("vocabulary.fixed", bool(step.fixed_vocabulary_))
    write_strings(node, "vocabulary", words)
    if type(step) is TfidfVectorizer:
        _write_vectors(node.child("tfidf", "TfidfTransformer"), step._tfidf)


def _read_counting(node: Reader) -> Any:
    words = read_strings(node, "vocabulary")
    numbers = {word: column for column, word in enumerate(words)}
    if len(numbers) != len(words) or not words:
        raise node.wrong("the words of the vocabulary must be different, and one at least")
    given = node.value("vocabulary.given", str, type(None), check=(None, "dict", "list").__contains__)
    kind = TfidfVectorizer if node.kind == "TfidfVectorizer" else CountVectorizer
    of_user = {None: None, "dict": dict(numbers), "list": list(words)}[given]
    step = read_parameters(node, kind, vocabulary=of_user)
    _check_parameters(node, step)
    read_names(node, step)
    step.fixed_vocabulary_ = node.value("vocabulary.fixed", bool)
    step.vocabulary_ = numbers
    step._stop_words_id = id(step.stop_words)  # they were judged when the model was trained
    if kind is TfidfVectorizer:
        below = node.child("tfidf")
        if below.kind != "TfidfTransformer":
            raise node.wrong(f"its weights cannot be a {below.kind}")
        step._tfidf = _read_vectors(below)
        below.finish()
        if hasattr(step._tfidf, "idf_") and len(step._tfidf.idf_) != len(words):
            raise node.wrong(f"{len(words)} words cannot have {len(step._tfidf.idf_)} weights")
    return step


# Categories


def _write_one_hot(node: Writer, step: OneHotEncoder) -> None:
    _check_fitted(step, "categories_")
    write_parameters(node, step)
    write_names(node, step)
    for j, categories in enumerate(step.categories_):
        write_vector(node, f"categories.{j}", categories, mixed=True)
    grouped = bool(step._infrequent_enabled)
    node.value("grouped", grouped)
    if grouped:
        for j, rare in enumerate(step._infrequent_indices):
            if rare is not None:
                node.array(f"infrequent.{j}", rare)
                node.array(f"mapping.{j}", step._default_to_infrequent_mappings[j])


def _read_one_hot(node: Reader) -> OneHotEncoder:
    step = read_parameters(node, OneHotEncoder)
    count = read_names(node, step)
    if count is None:
        raise node.wrong("n_features is missing")
    _check_parameters(node, step)
    step.categories_ = [read_vector(node, f"categories.{j}", mixed=True, finite=False) for j in range(count)]
    step._infrequent_enabled = node.value("grouped", bool)
    if step._infrequent_enabled:
        groups = [_read_group(node, j, len(step.categories_[j])) for j in range(count)]
        step._infrequent_indices = [rare for rare, _ in groups]
        step._default_to_infrequent_mappings = [mapping for _, mapping in groups]
    try:
        step._set_drop_idx()
        step._n_features_outs = step._compute_n_features_outs()
    except (TypeError, ValueError, IndexError) as error:
        raise node.wrong(f"drop does not fit the categories: {error}") from None
    return step


def _read_group(node: Reader, j: int, n_categories: int) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Rare categories of a feature, and the columns that its categories become."""
    if not node.has(f"infrequent.{j}"):
        return None, None
    rare, mapping = node.array(f"infrequent.{j}", "i", (None,)), node.array(f"mapping.{j}", "i", (None,))
    for name, values in (("infrequent", rare), ("mapping", mapping)):
        if not len(values) or values.min() < 0 or values.max() >= n_categories:
            raise node.wrong(f"{name}.{j} must be numbers below {n_categories}")
    if len(mapping) not in (n_categories, n_categories - 1):
        raise node.wrong(f"mapping.{j} must have an entry for each of {n_categories} categories")
    return rare, mapping


# Missing values


def _write_imputer(node: Writer, step: SimpleImputer) -> None:
    _check_fitted(step, "statistics_")
    write_parameters(node, step)
    write_names(node, step)
    write_vector(node, "statistics", step.statistics_, mixed=True)
    for name in ("_fit_dtype", "_fill_dtype"):
        dtype = getattr(step, name, None)
        if dtype is not None and dtype not in _IMPUTED:
            raise TypeError(f"a SimpleImputer of {dtype} cannot be stored in a file; numbers and objects can")
        node.value(name, None if dtype is None else _IMPUTED[dtype])
    if step.indicator_ is not None:
        below = node.child("indicator", "MissingIndicator")
        write_parameters(below, step.indicator_)
        write_names(below, step.indicator_)
        below.array("features", step.indicator_.features_)
        below.value("n_columns", int(step.indicator_._n_features))


def _read_imputer(node: Reader) -> SimpleImputer:
    step = read_parameters(node, SimpleImputer)
    _check_parameters(node, step)
    count = read_names(node, step)
    step.statistics_ = read_vector(node, "statistics", count, mixed=True, finite=False)
    for name in ("_fit_dtype", "_fill_dtype"):
        told = node.value(name, str, type(None), check=(None, *_IMPUTED.values()).__contains__)
        if told is not None:
            setattr(step, name, np.dtype(told))
    step.indicator_ = _read_indicator(node.child("indicator")) if node.has("indicator") else None
    return step


def _read_indicator(node: Reader) -> MissingIndicator:
    if node.kind != "MissingIndicator":
        raise node.wrong("a SimpleImputer has a MissingIndicator here")
    step = read_parameters(node, MissingIndicator)
    _check_parameters(node, step)
    read_names(node, step)
    step.features_ = node.array("features", "i", (None,))
    step._n_features = node.size("n_columns")
    step._precomputed = True  # an imputer tells it where values are missing
    if len(step.features_) and (step.features_.min() < 0 or step.features_.max() >= step._n_features):
        raise node.wrong(f"features must be numbers below {step._n_features}")
    node.finish()
    return step


FRONT_ENDS: dict[type, tuple[Callable[[Writer, Any], None], Callable[[Reader], Any]]] = {
    **dict.fromkeys(_VECTORS, (_write_vectors, _read_vectors)),
    CountVectorizer: (_write_counting, _read_counting),
    TfidfVectorizer: (_write_counting, _read_counting),
    HashingVectorizer: (_write_hashing, _read_hashing),
    OneHotEncoder: (_write_one_hot, _read_one_hot),
    SimpleImputer: (_write_imputer, _read_imputer),
}
