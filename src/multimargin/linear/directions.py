"""The directions along which accelerated weights are held back (core/directions.hpp says why and how).

They are the leading right singular vectors of X, the intercept's feature included, as a sample of the rows shows them.
Any directions would do: the certificate does not depend on them, only the number of passes does. Flattening the
squared singular values to 2 % of their sum was best, or within a fifth of it, on the dense sets and formulations tried
(``benchmarks/directions.py``); with text it is the intercept that matters.
"""

from __future__ import annotations

from math import fsum
from typing import Any

import numpy as np

from multimargin import _core

SAMPLE = 256  # rows
_ROWS_OF_ANGLES = 128
_MOST_BYTES = 1 << 27  # of so many, which are dense
_SHARE = 0.02  # of the sum of squares, that is left along a direction ...
_LEAST_RATIO = 1.5  # ... if there is so much more of it
# Of the curvature that the loss may have along a direction, how stiff the metric may be: the outer loop goes by it.
_OF_LOSS = 0.02
_LEAST_LEFT = 1e-3  # of the curvature
# Of the work of a stage, what the directions may take: rows of U against non-zeros of X.
_NONZEROS_PER_WEIGHT = 64
_NORMS = (1e-100, 1e100)
_SLAB = 1 << 22  # non-zeros times directions that are multiplied at once


def leading_directions(
    X: Any, rows: _core.Rows, norm: np.ndarray, U: np.ndarray | None = None
) -> _core.Directions | None:
    """Directions that hold more than their share of the sum of squares, or None.

    Parameters
    ----------
    X : CSR matrix or ndarray
        What ``rows`` reads, without the intercept.
    rows : Rows
    norm : ndarray of shape (n_samples,)
        Squared norms, the intercept included.
    U : ndarray of shape (n_weights, n_directions) or None
        What a training that goes on had found: another BLAS may find other signs and last bits.
    """
    positive = norm[norm > 0]
    if not len(positive) or positive.min() < _NORMS[0] or positive.max() > _NORMS[1]:
        return None
    nonzeros = len(X.data) if hasattr(X, "indptr") else X.size
    if not worth_sampling(rows.n_weights, nonzeros):
        return intercept_direction(rows.n_weights, rows.intercept)
    if U is None:
        which = np.arange(0, rows.n_rows, max(1, rows.n_rows // SAMPLE))
        sample = np.zeros((len(which), rows.n_weights))
        _fill(sample, X, which, rows.intercept)
        U, _ = leading(sample)
    if not U.shape[1]:
        return None
    return _core.Directions(U.shape[1], U.ravel(), _products(rows, U, nonzeros).ravel())


def worth_sampling(n_weights: int, nonzeros: int) -> bool:
    """Whether directions across all features cost little beside a pass; else there is that of the intercept."""
    return n_weights * _NONZEROS_PER_WEIGHT <= nonzeros and 8 * SAMPLE * n_weights <= _MOST_BYTES


def intercept_direction(n_weights: int, intercept: float) -> _core.Directions | None:
    """That of the intercept alone, along which all rows have the same coordinate."""
    if intercept == 0.0:
        return None
    U = np.zeros(n_weights)
    U[-1] = 1.0
    return _core.Directions(1, U, np.array([intercept]))


def held_back(
    directions: _core.Directions | None, row: np.ndarray, norm: np.ndarray, cap: np.ndarray, n_parts: int
) -> _core.Directions | None:
    """The directions, as stiff as the examples of a machine allow; None if that is not worth it.

    Parameters
    ----------
    directions : Directions or None
    row, norm, cap : ndarray of shape (n_examples,)
        Rows of X, their squared norms and C_i.
    n_parts : int
        Separable lanes, of which an example usually has a loss in one.
    """
    if directions is None or not len(row):
        return None
    shares = directions.sums_of_squares(row, np.ones(len(row))) / norm.sum()
    of_loss = directions.sums_of_squares(row, cap) / n_parts
    ratios = _ratios(shares, of_loss)
    return directions.with_ratios(ratios) if ratios.max() > _LEAST_RATIO else None


def held_by_sample(
    directions: _core.Directions | None,
    squares: np.ndarray,
    sum_of_caps: float,
    curvature: float,
    mean_norm: float,
    n_parts: int,
) -> tuple[_core.Directions | None, float]:
    """Directions for examples that are not all here, and what is left of their curvature. Equal numbers give equal
    bits: ranks go by them.

    Parameters
    ----------
    directions : Directions or None
        The intercept's, or those of a sample of the rows.
    squares : ndarray of shape (n_directions,)
        Means of the squared coordinates, as the sample has them.
    sum_of_caps, curvature, mean_norm : float
        Of all examples; curvature: the sum of C_i ||x_i||^2.
    """
    if directions is None or not _NORMS[0] < mean_norm < _NORMS[1]:
        return None, curvature
    ratios = _ratios(squares / mean_norm, sum_of_caps * squares / n_parts)
    if not ratios.max() > _LEAST_RATIO:
        return None, curvature
    # Rows of the sample count alike, whatever they weigh: it can show more than there is.
    left = curvature - sum_of_caps * fsum(squares * (1 - 1 / ratios))
    return directions.with_ratios(ratios), max(left, _LEAST_LEFT * curvature)


def without_rows(U: np.ndarray) -> _core.Directions | None:
    """Directions for rows that are elsewhere."""
    return _core.Directions(U.shape[1], U.ravel(), np.empty(0)) if U.shape[1] else None


def kept_directions(U: np.ndarray, n_weights: int) -> np.ndarray:
    """Those of a training that goes on, as it has them in a row. Others than directions are a ValueError."""
    U = U.astype(np.float64).reshape(n_weights, -1)
    if not np.abs(U.T @ U - np.eye(U.shape[1])).max(initial=0.0) <= 1e-6:
        raise ValueError("directions that are not orthonormal")
    return U


def _ratios(shares: np.ndarray, of_loss: np.ndarray) -> np.ndarray:
    """How stiff the metric is along directions with these shares of the squares and of the loss's curvature."""
    return np.maximum(np.minimum(np.minimum(shares, 1.0) / _SHARE, 1 + _OF_LOSS * of_loss), 1.0)


def leading(sample: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Right singular vectors of the sample with more than their share, and the squares of its singular values; by one
    thread, whatever ``n_jobs`` is."""
    from multimargin.linear.blas import blas_threads

    wide = sample.shape[1] > sample.shape[0]
    with blas_threads(1):
        squares, vectors = np.linalg.eigh(sample @ sample.T if wide else sample.T @ sample)
        leading = squares > _LEAST_RATIO * _SHARE * squares.sum()
        squares, vectors = squares[leading], vectors[:, leading]
        return sample.T @ vectors / np.sqrt(squares) if wide else vectors, squares


def coherence(X: Any, row: np.ndarray, intercept: float, directions: _core.Directions | None) -> float:
    """Mean of |cos| of the angles between rows, as steps see them: less of what is along the directions. NaN where
    squares are no numbers, or rows are too long for a dense sample of them."""
    from multimargin.linear.blas import blas_threads

    which = row[np.linspace(0, len(row), min(_ROWS_OF_ANGLES, len(row)), endpoint=False).astype(np.int64)]
    n_weights = X.shape[1] + (intercept != 0)
    if 8 * len(which) * n_weights > _MOST_BYTES:
        return np.nan
    sample = np.zeros((len(which), n_weights))
    _fill(sample, X, which, intercept)
    with blas_threads(1), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        gram = sample @ sample.T
        if directions is not None:
            along = sample @ directions.U.reshape(-1, directions.count)
            gram -= (along * (1 - 1 / directions.ratios)) @ along.T
        length = np.sqrt(gram.diagonal())
        cosines = np.abs(gram / np.outer(length, length))
    n = len(which)
    return float((cosines.sum() - n) / max(n * (n - 1), 1))


def share_of_sample(number: int, count: int) -> slice:
    """Rows of the sample that block or rank ``number`` of ``count`` gives; none, if there are very many."""
    return slice(SAMPLE * number // count, SAMPLE * (number + 1) // count)


def fill_sample(sample: np.ndarray, X: Any, intercept: float) -> int:
    """Rows of X, evenly chosen, and the intercept's feature, into a sample of zeros; how many, if X has fewer."""
    count = min(len(sample), X.shape[0])
    _fill(sample[:count], X, np.linspace(0, X.shape[0], count, endpoint=False).astype(np.int64), intercept)
    return count


def _fill(sample: np.ndarray, X: Any, which: np.ndarray, intercept: float) -> None:
    sample[:, X.shape[1] :] = intercept
    if hasattr(X, "indptr"):
        for out, i in zip(sample, which, strict=True):
            entries = slice(X.indptr[i], X.indptr[i + 1])
            out[X.indices[entries]] = X.data[entries]
    else:
        sample[:, : X.shape[1]] = X[which]


def _products(rows: _core.Rows, U: np.ndarray, nonzeros: int) -> np.ndarray:
    """X U, in slabs that leave room for Ctrl-C."""
    count = U.shape[1]
    padded = np.zeros((len(U), count if count == 1 else -(-count // 4) * 4))
    padded[:, :count] = U
    out = np.empty((rows.n_rows, count))
    slab = max(1, int(_SLAB * rows.n_rows / max(1, nonzeros * count)))
    for begin in range(0, rows.n_rows, slab):
        rows.scores(padded, out[begin : begin + slab], begin)
    return out
