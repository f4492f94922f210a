"""The data sets of the benchmarks, read from a folder of ``.npz`` files.

The folder is named by the environment variable MULTIMARGIN_DATA; without it, ``../shared/data`` beside the
repository is taken. A file holds ``X_train, y_train, X_test, y_test``, or ``X, y`` when the set has no published
split; a sparse matrix is stored as its CSR parts ``X_train_data, X_train_indices, X_train_indptr, X_train_shape``.
Labels are 0..k-1, and ``is_text`` is true where the features are word counts.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from families import embeddings

NAMES = ("news20", "reuters52", "banking77", "mnist", "usps", "isolet", "letter", "covtype")
COVTYPE_ROWS = 100_000


@dataclass(eq=False)  # compared and hashed by identity: peers cache their own form of it
class Data:
    """Training rows, and test rows where the set has them.

    Attributes
    ----------
    X, X_test : ndarray or csr_matrix of shape (n_samples, n_features)
    y, y_test : ndarray of shape (n_samples,), classes as 0..k-1
    """

    name: str
    X: np.ndarray | sp.csr_matrix
    y: np.ndarray
    X_test: np.ndarray | sp.csr_matrix | None = None
    y_test: np.ndarray | None = None

    @property
    def n_classes(self) -> int:
        return int(self.y.max()) + 1


def folder() -> Path:
    """Where the ``.npz`` files are."""
    named = os.environ.get("MULTIMARGIN_DATA")
    path = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not path.is_dir():
        what = f"MULTIMARGIN_DATA={named} is not a folder" if named else "MULTIMARGIN_DATA is not set"
        raise FileNotFoundError(f"no data sets: {what}; set it to the folder with news20.npz, mnist.npz, ...")
    return path


def names() -> list[str]:
    """All sets in the folder."""
    return sorted(file.stem for file in folder().glob("*.npz"))


def load(name: str, dtype: str | type = np.float64, covtype_rows: int = COVTYPE_ROWS) -> Data:
    """Load a set, scaled as the benchmarks use it.

    Text becomes unit-length tf-idf rows, mnist is divided by 255, covtype is scaled by feature and cut to 100,000
    random rows; the others are as stored. "embeddings" is generated.
    """
    if name == "embeddings":
        X, y = embeddings()
        return Data(name, X.astype(dtype), y)
    X, y, X_test, y_test, is_text = _stored(name)
    if is_text:
        idf = inverse_document_frequency(X)
        X, X_test = (M if M is None else tfidf(M, idf) for M in (X, X_test))
    elif name == "mnist":
        X, X_test = X / 255.0, X_test / 255.0
    elif name == "covtype":
        largest = np.abs(X).max(axis=0)
        chosen = np.random.RandomState(0).permutation(len(y))[:covtype_rows]
        X, y = X[chosen] / np.where(largest > 0, largest, 1), y[chosen]
    X, X_test = (M if M is None else M.astype(dtype, copy=False) for M in (X, X_test))
    return Data(name, X, y, X_test, y_test)


def load_with_test(name: str, test_share: float = 0.2, covtype_rows: int = COVTYPE_ROWS) -> Data:
    """Load a set with test rows: its own, or a share of its rows, drawn at random within every class.

    The idf of text comes from the training rows only.
    """
    X, y, X_test, _, is_text = _stored(name)
    if X_test is not None:
        return load(name)
    train, test = stratified_parts(y, (1 - test_share, test_share), seed=0)
    if is_text:
        idf = inverse_document_frequency(X[train])
        return Data(name, tfidf(X[train], idf), y[train], tfidf(X[test], idf), y[test])
    data = load(name, covtype_rows=covtype_rows)
    train, test = stratified_parts(data.y, (1 - test_share, test_share), seed=0)
    return Data(name, data.X[train], data.y[train], data.X[test], data.y[test])


def load_whole(name: str, covtype_rows: int = COVTYPE_ROWS) -> Data:
    """Load training and test rows as one. The idf of text comes from all of them."""
    X, y, X_test, y_test, is_text = _stored(name)
    if not is_text:
        data = load(name, covtype_rows=covtype_rows)
        X, y, X_test, y_test = data.X, data.y, data.X_test, data.y_test
    if X_test is not None:
        X = sp.vstack([X, X_test], format="csr") if sp.issparse(X) else np.concatenate([X, X_test])
        y = np.concatenate([y, y_test])
    return Data(name, tfidf(X, inverse_document_frequency(X)) if is_text else X, y)


def stratified_parts(y: np.ndarray, shares: tuple[float, ...], seed: int) -> list[np.ndarray]:
    """Rows cut at random into parts of these shares, every class in the same shares up to rounding."""
    random = np.random.RandomState(seed)
    ends = np.cumsum(shares)[:-1]
    parts: list[list[np.ndarray]] = [[] for _ in shares]
    for label in np.unique(y):
        rows = random.permutation(np.flatnonzero(y == label))
        for part, piece in zip(parts, np.split(rows, np.rint(ends * len(rows)).astype(int)), strict=True):
            part.append(piece)
    return [random.permutation(np.concatenate(part)) for part in parts]


def load_for_kernels(name: str, dtype: str | type = np.float64) -> Data:
    """Load a set as kernel machines use it: each feature scaled to [-1, 1] by the training rows.

    mnist is divided by 255; usps and dna, whose features share one scale, are as stored. ``name:rows`` takes the first
    so many training rows only.
    """
    name, _, rows = name.partition(":")
    data = load(name, dtype)
    if name not in ("mnist", "usps", "dna"):
        low, high = data.X.min(axis=0).astype(np.float64), data.X.max(axis=0).astype(np.float64)
        span = np.where(high > low, high - low, np.inf)  # a constant feature becomes -1
        scaled = (None if M is None else (2 * (M - low) / span - 1).astype(dtype) for M in (data.X, data.X_test))
        data.X, data.X_test = scaled
    if rows:
        data.X, data.y = data.X[: int(rows)].copy(), data.y[: int(rows)]
    return data


def _stored(name: str) -> tuple[Any, np.ndarray, Any, np.ndarray | None, bool]:
    """X, y, X_test, y_test as in the file, and whether X are word counts; no test rows: None."""
    file = folder() / f"{name}.npz"
    if not file.is_file():
        raise FileNotFoundError(f"no data set {name!r}; the folder has {', '.join(names())}")
    with np.load(file, allow_pickle=False) as stored:
        prefix, test = ("X_train", "X_test") if "y_train" in stored else ("X", None)
        X, y = _matrix(stored, prefix), stored[prefix.replace("X", "y")].astype(np.int64)
        X_test = _matrix(stored, test) if test else None
        y_test = stored["y_test"].astype(np.int64) if test else None
        return X, y, X_test, y_test, bool(stored["is_text"])


def _matrix(stored, prefix: str) -> np.ndarray | sp.csr_matrix:
    if prefix in stored:
        return stored[prefix]
    data, indices, indptr, shape = (stored[f"{prefix}_{part}"] for part in ("data", "indices", "indptr", "shape"))
    return sp.csr_matrix((data, indices, indptr), shape=tuple(shape))


def inverse_document_frequency(counts: sp.csr_matrix) -> np.ndarray:
    """log((1 + documents) / (1 + documents with the word)) + 1."""
    with_word = np.bincount(counts.indices, minlength=counts.shape[1])
    return np.log((1 + counts.shape[0]) / (1 + with_word)) + 1


def tfidf(counts: sp.csr_matrix, idf: np.ndarray) -> sp.csr_matrix:
    """(1 + log count) * idf, each row then scaled to length 1."""
    X = counts.astype(np.float64)
    X.data = (1 + np.log(X.data)) * idf[X.indices]
    length = np.sqrt(np.asarray(X.power(2).sum(axis=1)).ravel())
    X.data /= np.repeat(np.where(length > 0, length, 1), np.diff(X.indptr))
    return X
