"""The best few classes of every row, without the scores of all rows at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_SLAB_BYTES = 1 << 26  # of scores


def best(values: np.ndarray, n: int) -> np.ndarray:
    """The columns of the n largest values of every row, the largest first; of equal ones the first."""
    return (-values).argsort(axis=1, kind="stable")[:, :n]


def with_best(values: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The columns of the n largest values of every row, and these values; of two classes only the second has one."""
    if values.ndim == 1:
        values = np.column_stack([-values, values])
    columns = best(values, n)
    return columns, np.take_along_axis(values, columns, axis=1)


def best_in_slabs(
    X: Any, n: int, n_classes: int, values_of: Callable[[Any], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The columns of the n largest of ``values_of(rows)`` and these values, some rows at a time."""
    slab = max(1, _SLAB_BYTES // (8 * n_classes))
    columns, scores = np.empty((X.shape[0], n), np.intp), np.empty((X.shape[0], n))
    for begin in range(0, X.shape[0], slab):
        here = slice(begin, begin + slab)
        columns[here], scores[here] = with_best(values_of(X[here]), n)
    return columns, scores
