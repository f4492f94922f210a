"""Scores of rows by sparse weights, in slabs of rows, threaded: of the best classes, or of all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from multimargin import _core
from multimargin.data.csr import Csr
from multimargin.data.thread_pool import in_some_threads

_SLAB = 256  # rows


def sparse_top(
    rows: _core.Rows, W: Csr, intercept: np.ndarray, n: int, n_threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """The ``n`` best classes of every row and their scores, the best first, of equal ones that with the smaller number.

    Exact, and there is never more than one row of scores at a time: a class that no feature of a row knows has the
    score of its intercept, so of those the largest few are candidates.
    """
    lanes, scores = np.empty((rows.n_rows, n), np.int32), np.empty((rows.n_rows, n))
    weights, intercept = _rows_of(W), np.ascontiguousarray(intercept, dtype=np.float64)

    def slab(begin: int, end: int) -> None:
        _core.top_of_sparse(rows, weights, intercept, lanes[begin:end], scores[begin:end], begin)

    _in_slabs(slab, rows.n_rows, n_threads)
    return lanes, scores


def sparse_scores(rows: _core.Rows, W: Csr, intercept: np.ndarray, n_threads: int) -> np.ndarray:
    """The scores of all classes: X @ W + intercept."""
    out = np.empty((rows.n_rows, W.shape[1]))
    weights, intercept = _rows_of(W), np.ascontiguousarray(intercept, dtype=np.float64)

    def slab(begin: int, end: int) -> None:
        _core.scores_of_sparse(rows, weights, intercept, out[begin:end], begin)

    _in_slabs(slab, rows.n_rows, n_threads)
    return out


def _rows_of(W: Csr) -> _core.Rows:
    return _core.Rows.csr(W.data, W.indices, W.indptr, W.shape[1], 0.0)


def _in_slabs(slab: Callable[[int, int], None], n_rows: int, n_threads: int) -> None:
    starts = range(0, n_rows, _SLAB)

    def one(begin: int) -> None:
        slab(begin, min(n_rows, begin + _SLAB))

    in_some_threads(one, starts, n_threads)
