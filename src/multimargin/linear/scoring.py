"""Scores of many rows: X @ W in the core, in chunks, threaded."""

from __future__ import annotations

import numpy as np

from multimargin import _core
from multimargin.data.thread_pool import in_some_threads

_CHUNK_SCORES = 1 << 18


def padded_weights(n_rows: int, lanes: int) -> np.ndarray:
    """Zero weights in the layout that the core reads: (n_rows, padded lanes), aligned."""
    return _core.Weights(n_rows, lanes, False).array


def finite(values: np.ndarray) -> np.ndarray:
    """Scores of rows as they are, if float64 has room for them: what overflows has no largest one.

    Raises
    ------
    ValueError
        If some are not finite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):  # one pass, and no array of truths
            return values
    overflow = int((~np.isfinite(values).all(axis=1)).sum())
    if overflow:
        raise ValueError(
            f"the scores of {overflow} of the rows overflow: their features are too large; scale them as the rows of "
            "training were"
        )
    return values


def scores(rows: _core.Rows, W: np.ndarray, lanes: int, n_threads: int) -> np.ndarray:
    """The first ``lanes`` columns of X @ W, for W from :func:`padded_weights`."""
    out = np.empty((rows.n_rows, lanes))
    step = max(1, _CHUNK_SCORES // max(1, W.shape[1]))
    starts = range(0, rows.n_rows, step)

    def one(begin: int) -> None:
        rows.scores(W, out[begin : begin + step], begin)

    in_some_threads(one, starts, n_threads)
    return out
