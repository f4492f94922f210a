"""The best few classes of every row, without the scores of all rows at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_SLAB_BYTES = 1 << 26  # of scores


def best(values: np.ndarray, n: int) -> np.ndarray:
    """The columns of the n largest values of every row, the largest first; of equal ones the first."""
    return (-values).argsort(axis=1, kind="stable")[:, :n]


def best_in_slabs(
    X: Any, n: int, n_classes: int, values_of: Callable[[Any], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The columns of the n largest of ``values_of(rows)`` and these values, some rows at a time."""
    slab = max(1, _SLAB_BYTES // (8 * n_classes))
    columns, scores = np.empty((X.shape[0], n), np.intp), np.empty((X.shape[0], n))
    for begin in range(0, X.shape[0], slab):
        values = values_of(X[begin : begin + slab])
        if values.ndim == 1:
            values = np.column_stack([-values, values])
        here = best(values, n)
        columns[begin : begin + slab] = here
        scores[begin : begin + slab] = np.take_along_axis(values, here, axis=1)
    return columns, scores
