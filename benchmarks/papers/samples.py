"""Rows for the papers' experiments: the data sets of the benchmarks, and what scikit-learn brings along for --quick."""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import datasets
from datasets import Data, stratified_parts

BUNDLED = ("iris", "wine", "digits", "breast_cancer")  # features scaled to [0, 1]
GENERATED = ("words", "two_topics")  # sparse rows of unit length; 5 and 2 classes


@functools.lru_cache(maxsize=5)
def with_test(name: str, rows: int | None = None) -> Data:
    """Training and test rows of a set; ``rows`` training rows at most, drawn at random within every class.

    ``bundled:<name>`` and ``generated:<name>`` need no data sets.
    """
    source, _, short = name.rpartition(":")
    if source:
        data = _whole_small(source, short)
        train, test = stratified_parts(data.y, (0.7, 0.3), seed=0)
        data = Data(name, data.X[train], data.y[train], data.X[test], data.y[test])
    else:
        data = datasets.load_with_test(name, covtype_rows=sys.maxsize if rows is None else max(rows * 2, 100_000))
    return data if rows is None else Data(name, *_some(data.X, data.y, rows), data.X_test, data.y_test)


@functools.lru_cache(maxsize=5)
def whole(name: str, rows: int | None = None) -> Data:
    """Training and test rows as one; ``rows`` of them at most, drawn at random within every class."""
    source, _, short = name.rpartition(":")
    data = _whole_small(source, short) if source else datasets.load_whole(name, covtype_rows=sys.maxsize)
    return data if rows is None else Data(name, *_some(data.X, data.y, rows))


def _some(X, y: np.ndarray, rows: int) -> tuple:
    if rows >= len(y):
        return X, y
    chosen, _ = stratified_parts(y, (rows / len(y), 1 - rows / len(y)), seed=0)
    return X[chosen], y[chosen]


def _whole_small(source: str, name: str) -> Data:
    if source == "bundled" and name in BUNDLED:
        import sklearn.datasets

        X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
        return Data(name, X / np.abs(X).max(axis=0).clip(1e-12), y.astype(np.int64))
    if source == "generated" and name in GENERATED:
        return _words(name, 5 if name == "words" else 2)
    known = [f"bundled:{name}" for name in BUNDLED] + [f"generated:{name}" for name in GENERATED]
    raise ValueError(f"no data set {source}:{name}; known: {', '.join(known)}")


def _words(name: str, n_classes: int, n_rows: int = 400, n_words: int = 300) -> Data:
    """Word counts of documents whose classes favour other words, as tf-idf rows."""
    random = np.random.RandomState(0)
    y = np.arange(n_rows) % n_classes
    favour = random.gamma(0.3, size=(n_classes, n_words)) + 2 * random.gamma(0.3, size=n_words)
    counts = sp.csr_matrix(random.poisson(30 * favour[y] / favour.sum(axis=1)[y, None]))
    return Data(name, datasets.tfidf(counts, datasets.inverse_document_frequency(counts)), y.astype(np.int64))
