"""X as the core's rows: read in place whatever its storage, and never trusted."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin import _core

# A dense array with this share of zeros or more is read through a bit map of its non-zeros.
_MANY_ZEROS = 0.4

_FORCED = os.environ.get("MULTIMARGIN_INSTRUCTION_SET")
if _FORCED and not _core.use_instruction_set(_FORCED):
    raise ImportError(
        f"MULTIMARGIN_INSTRUCTION_SET={_FORCED!r} is not available here; "
        f"this processor runs {', '.join(_core.instruction_sets())}"
    )


def as_rows(X: Any, intercept: float = 0.0) -> _core.Rows:
    """Rows over the memory of X.

    Parameters
    ----------
    X : CSR matrix or array, or ndarray of shape (n_samples, n_features)
        float32 or float64. CSR indices may be int32 or int64. Dense rows must be contiguous.
        Nothing is copied, except CSR rows with unsorted or duplicate entries.
    intercept : float
        Value of a constant feature that follows the columns of X; 0 for none.

    Raises
    ------
    ValueError
        If X is CSR and broken: a column out of range or a decreasing indptr.
    """
    if sp.issparse(X):
        X = _canonical(X)
        return _core.Rows.csr(X.data, X.indices, X.indptr, X.shape[1], intercept)
    if (X.shape[1] > 1 and X.strides[1] != X.itemsize) or X.strides[0] % X.itemsize:
        X = np.ascontiguousarray(X)
    sampled = X[:: max(1, X.shape[0] // 256)]
    skip_zeros = bool(X.shape[1] >= 16 and np.count_nonzero(sampled) <= (1 - _MANY_ZEROS) * sampled.size)
    return _core.Rows.dense(X, skip_zeros, intercept)


def _canonical(X: Any) -> Any:
    """CSR with sorted, unique columns; a copy only if it was not so."""
    check_csr(X)
    # has_canonical_format may be a stale flag of the caller's: look at the data.
    fresh = sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape)
    if not fresh.has_canonical_format:
        fresh = fresh.copy()
        fresh.sum_duplicates()
    if fresh.indices.dtype != fresh.indptr.dtype:
        wide = np.result_type(fresh.indices, fresh.indptr)
        fresh.indices, fresh.indptr = fresh.indices.astype(wide), fresh.indptr.astype(wide)
    return fresh


def check_csr(X: Any) -> None:
    """Refuse CSR parts that do not describe a matrix, before anything reads through them."""
    n_rows, n_columns = X.shape
    indptr, indices = X.indptr, X.indices
    if len(indptr) != n_rows + 1 or indptr[0] != 0:
        raise ValueError(f"broken CSR matrix: indptr must have {n_rows + 1} entries and start at 0")
    if np.any(indptr[1:] < indptr[:-1]):
        row = int(np.flatnonzero(indptr[1:] < indptr[:-1])[0])
        raise ValueError(f"broken CSR matrix: indptr decreases at row {row}")
    n_entries = int(indptr[-1])
    if n_entries > len(indices) or n_entries > len(X.data):
        raise ValueError(
            f"broken CSR matrix: indptr ends at {n_entries}, but there are "
            f"{len(indices)} indices and {len(X.data)} values"
        )
    used = indices[:n_entries]
    if n_entries and (used.min() < 0 or used.max() >= n_columns):
        entry = int(np.flatnonzero((used < 0) | (used >= n_columns))[0])
        row = int(np.searchsorted(indptr, entry, side="right")) - 1
        raise ValueError(
            f"broken CSR matrix: column index {int(used[entry])} in row {row} is outside 0..{n_columns - 1}"
        )
