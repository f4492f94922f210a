"""Prediction by a linear model of text without scikit-learn: its TF-IDF vectorizer, bit for bit, in a few lines.

Only what ``multimargin train`` makes of columns of text, and vectorizers with the same few options, are done here;
:func:`multimargin.models.load` reads all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import sqrt
from typing import Any

import numpy as np

from multimargin.data.csr import Csr
from multimargin.data.tables import Columns
from multimargin.models.light import LINEAR_KINDS, LightModel
from multimargin.models.tree import Reader
from multimargin.models.vectors import read_strings

# What a vectorizer must have, besides a token_pattern, for its words to be found as they are here.
_PLAIN = {
    "input": "content",
    "analyzer": "word",
    "tokenizer": None,
    "preprocessor": None,
    "strip_accents": None,
    "stop_words": None,
    "binary": False,
    "dtype": np.float64,
    "use_idf": True,
    "norm": "l2",
}
_DEFAULTS = {"lowercase": True, "ngram_range": (1, 1), "token_pattern": r"(?u)\b\w\w+\b", "sublinear_tf": False}


class NotPlain(Exception):
    """Something that is not done here."""


class _Vectorizer:
    """scikit-learn's TfidfVectorizer after its fit, with words as the only analyzer."""

    def __init__(self, node: Reader) -> None:
        parameters = _PLAIN | _DEFAULTS | node.value("parameters", dict)
        if node.kind != "TfidfVectorizer" or any(parameters[name] != value for name, value in _PLAIN.items()):
            raise NotPlain
        self.lowercase = bool(parameters["lowercase"])
        self.sublinear = bool(parameters["sublinear_tf"])
        self.lengths = parameters["ngram_range"]
        try:
            least, most = self.lengths
            self.tokens = re.compile(parameters["token_pattern"])
        except (TypeError, ValueError, re.error, OverflowError, RecursionError):
            raise NotPlain from None
        if not (type(least) is type(most) is int and 1 <= least <= most) or self.tokens.groups > 1:
            raise NotPlain
        words = read_strings(node, "vocabulary")
        self.columns = {word: column for column, word in enumerate(words)}
        self.idf = node.child("tfidf").array("idf_", "f", (len(words),))

    def words(self, text: str) -> Iterable[str]:
        """Tokens, or runs of them."""
        tokens = self.tokens.findall(text.lower() if self.lowercase else text)
        least, most = self.lengths
        if (least, most) == (1, 1):
            return tokens
        return (
            " ".join(tokens[begin : begin + length])
            for length in range(least, min(most, len(tokens)) + 1)
            for begin in range(len(tokens) - length + 1)
        )

    def entries(self, text: str) -> list[tuple[int, float]]:
        """Columns and values of a text, sorted. Sums run in the order of the columns, as scikit-learn's do."""
        counts: dict[int, int] = {}
        for word in self.words(text):
            column = self.columns.get(word)
            if column is not None:
                counts[column] = counts.get(column, 0) + 1
        found = np.array(sorted(counts), dtype=np.int64)
        values = np.array([counts[column] for column in found.tolist()], dtype=np.float64)
        if self.sublinear:
            values = np.log(values) + 1.0
        values *= self.idf[found]
        total = 0.0
        for value in values.tolist():
            total += value * value
        if total > 0:
            values /= sqrt(total)
        return list(zip(found.tolist(), values.tolist(), strict=True))


class LightTextModel(LightModel):
    """Vectorizers of columns of text, side by side, and a linear machine.

    Attributes
    ----------
    columns : Columns
        What is asked of a table.
    """

    def __init__(self, node: Reader) -> None:
        if node.kind != "Pipeline" or len(node.value("names", list)) != 2:
            raise NotPlain
        features, machine = node.child("0"), node.child("1")
        if machine.kind not in LINEAR_KINDS:
            raise NotPlain
        if features.kind == "TfidfVectorizer":
            self.columns = Columns(one_text=features.kind)
            self._vectorizers = [_Vectorizer(features)]
            self._dense = False
        else:
            self.columns, self._vectorizers = _side_by_side(features)
            self._dense = not features.value("sparse_output", bool)
        super().__init__(machine)
        sparse = isinstance(self._W, Csr)  # scikit-learn's vectorizers are faster than what such a model costs
        if sparse or self.n_features_in_ != sum(len(vectorizer.columns) for vectorizer in self._vectorizers):
            raise NotPlain

    def _values(self, X: Any, by_class: bool) -> np.ndarray:
        """``X``: a frame with the columns, or the texts of the only one."""
        texts = [X] if self.columns.one_text else [X[name] for name in self.columns.text]
        data: list[float] = []
        indices: list[int] = []
        indptr = [0]
        for row in zip(*texts, strict=True):
            first = 0
            for vectorizer, text in zip(self._vectorizers, row, strict=True):
                for column, value in vectorizer.entries(text):
                    indices.append(first + column)
                    data.append(value)
                first += len(vectorizer.columns)
            indptr.append(len(data))
        shape = (len(indptr) - 1, self.n_features_in_)
        if not self._dense:
            return super()._values(Csr(np.array(data), np.array(indices, np.int64), np.array(indptr), shape), by_class)
        rows = np.zeros(shape)  # as a ColumnTransformer stacks them where there are few zeros: sums in another order
        rows[np.repeat(np.arange(shape[0]), np.diff(indptr)), indices] = data
        return super()._values(rows, by_class)


def _side_by_side(node: Reader) -> tuple[Columns, list[_Vectorizer]]:
    if node.kind != "ColumnTransformer":
        raise NotPlain
    names, columns = node.value("names", list), node.value("columns", list)
    if node.value("parameters", dict).get("transformer_weights") is not None or len(names) != len(columns):
        raise NotPlain
    parts = [(node.child(str(position)), column) for position, column in enumerate(columns)]
    kept = [(part, column) for part, column in parts if part.kind != "drop"]
    texts = tuple(column for _, column in kept)
    if not texts or not all(type(column) is str for column in texts) or len(set(texts)) != len(texts):
        raise NotPlain
    return Columns(text=texts), [_Vectorizer(part) for part, _ in kept]


def light_text_model(node: Reader) -> LightTextModel | None:
    """The model of a node that is a pipeline for text as it is done here; None for any other."""
    try:
        return LightTextModel(node)
    except NotPlain:
        return None
