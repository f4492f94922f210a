"""Which rows are held out together, decided by what is in them and not by where they stand.

So a weight of 2 is the row twice here, too; rows in another order give the same folds; and a row is never judged by a
model that was trained on its copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

N_FOLDS = 5
_CHUNK = 1 << 22  # values of a dense array at a time


def stratified_folds(X: Any, y: np.ndarray, counts: np.ndarray, seed: int) -> tuple[np.ndarray, int]:
    """The fold in which each row is held out.

    The distinct rows of every class, in an order that depends on the seed, are dealt to ``N_FOLDS`` folds one after the
    other. A class with two distinct rows or more is therefore in every training set, and the folds stay
    ``N_FOLDS`` however small it is. The row of a class that has but one is never held out.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        Encoded classes.
    counts : ndarray of bool
        Rows that take part: those with a weight.

    Returns
    -------
    fold : ndarray of shape (n_samples,)
        -1 for rows that are never held out.
    n_distinct : int
        How many distinct rows are held out.
    """
    keys = row_keys(X, seed)
    fold = np.full(len(y), -1)
    rows = np.flatnonzero(counts)
    rows = rows[np.lexsort((keys[rows], y[rows]))]  # class by class, equal rows of a class side by side
    if not len(rows):
        return fold, 0
    first_of_class = np.append(True, np.diff(y[rows]) != 0)
    first_of_copies = first_of_class | np.append(True, np.diff(keys[rows]) != 0)
    of_class = np.cumsum(first_of_class) - 1
    held_out = np.bincount(of_class[first_of_copies])[of_class] > 1
    rank = np.cumsum(first_of_copies & held_out) - 1
    fold[rows[held_out]] = rank[held_out] % N_FOLDS
    return fold, int(rank[-1]) + 1


def row_keys(X: Any, seed: int) -> np.ndarray:
    """A number for every row, the same for equal rows and no others (but for 1 in 2**64), dense or sparse."""
    factor = np.random.RandomState(seed).randint(1, 2**63 - 1, size=X.shape[1], dtype=np.int64).astype(np.uint64)
    factor |= np.uint64(1)
    if sp.issparse(X):
        bits = sp.csr_array((_mixed(X.data), X.indices, X.indptr), shape=X.shape)
        return bits @ factor
    keys = np.empty(X.shape[0], dtype=np.uint64)
    step = max(1, _CHUNK // max(1, X.shape[1]))
    for begin in range(0, X.shape[0], step):
        keys[begin : begin + step] = _mixed(X[begin : begin + step]) @ factor
    return keys


def _mixed(values: np.ndarray) -> np.ndarray:
    """The bits of float64 values, well stirred; zero is zero, so that a sparse row need not store it."""
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)  # + 0.0 makes a zero of -0.0
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    bits ^= bits >> np.uint64(31)
    return bits
