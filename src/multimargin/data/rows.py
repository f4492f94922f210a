"""X as the core's rows: read in place where that is fast, whatever its storage, and never trusted."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from multimargin import _core
from multimargin.data.csr import Csr
from multimargin.data.kinds import check_kind

# Training gathers the non-zeros of a dense array, when they are so few, once for its many passes; they then take at
# most half the memory of the array.
_FEW_NONZEROS = {4: 0.25, 8: 0.33}  # by the bytes of a value

_FORCED = os.environ.get("MULTIMARGIN_INSTRUCTION_SET")
if _FORCED and not _core.use_instruction_set(_FORCED):
    raise ImportError(
        f"MULTIMARGIN_INSTRUCTION_SET={_FORCED!r} is not available here; "
        f"this processor runs {', '.join(_core.instruction_sets())}"
    )


def as_rows(X: Any, intercept: float = 0.0, *, many_passes: bool = False, only_scored: bool = False) -> _core.Rows:
    """Rows over the memory of X.

    Parameters
    ----------
    X : CSR matrix or array, or ndarray of shape (n_samples, n_features)
        float32 or float64. CSR indices may be int32 or int64. Dense rows must be contiguous.
        Nothing is copied, except what is not aligned (as arrays over parts of files and messages may be), CSR rows with
        unsorted or duplicate entries and the non-zeros of a dense array that is mostly zeros, if ``many_passes``.
    intercept : float
        Value of a constant feature that follows the columns of X; 0 for none.
    many_passes : bool
        Whether the rows will be read often enough to prepare for it.
    only_scored : bool
        Whether CSR rows, checked already, will only be multiplied with weights: then neither the order of their entries
        nor duplicates matter.

    Raises
    ------
    ValueError
        If X is CSR and broken: a column out of range or a decreasing indptr.
    """
    if hasattr(X, "indptr"):
        if not isinstance(X, Csr) and (not only_scored or X.indices.dtype != X.indptr.dtype):
            X = canonical(X)
        return _core.Rows.csr(_aligned(X.data), _aligned(X.indices), _aligned(X.indptr), X.shape[1], intercept)
    if (X.shape[1] > 1 and X.strides[1] != X.itemsize) or X.strides[0] % X.itemsize:
        X = np.ascontiguousarray(X)
    X = _aligned(X)
    if many_passes and X.shape[1] >= 16:
        sampled = X[:: max(1, X.shape[0] // 256)]
        few = _FEW_NONZEROS[X.itemsize]
        gathered = _core.gather_nonzeros(X, few) if np.count_nonzero(sampled) <= few * sampled.size else None
        if gathered is not None:
            data, indices, indptr = gathered
            wide = indptr.dtype if len(data) > np.iinfo(np.int32).max else indices.dtype
            return _core.Rows.csr(data, indices.astype(wide, copy=False), indptr.astype(wide), X.shape[1], intercept)
    return _core.Rows.dense(X, intercept)


def _aligned(values: Any) -> Any:
    return values if values.flags.aligned else values.copy()


def has_features(X: Any) -> bool:
    """Whether any entry, of CSR or dense rows, is not zero."""
    return bool(np.any(X.data if hasattr(X, "indptr") else X))


def where_not_finite(X: Any) -> tuple[int, int, float] | None:
    """Row, column and value of the first entry, of CSR or dense rows, that is not a finite number."""
    values = X.data if hasattr(X, "indptr") else X
    bad = np.flatnonzero(~np.isfinite(values.ravel()))
    if not len(bad):
        return None
    at = int(bad[0])
    if hasattr(X, "indptr"):
        row, column = int(np.searchsorted(X.indptr, at, side="right")) - 1, int(X.indices[at])
    else:
        row, column = divmod(at, X.shape[1])
    return row, column, float(values.ravel()[at])


def check_masks(values: Any, name: str) -> None:
    """Refuse masked entries, which everybody downstream would take as they are."""
    if np.ma.is_masked(values):
        raise ValueError(
            f"{name} has masked entries, whose values would be taken as they are: fill them ({name}.filled(...)), or "
            "leave their rows out"
        )


def checked(X: Any, n_features: int | None = None) -> Any:
    """X as finite numbers of float32 or float64, CSR or dense, with the right number of columns if that is known."""
    check_masks(X, "X")
    sparse = hasattr(X, "tocsr")
    if sparse:
        check_sparse(X)
        X = with_plain_parts(X).tocsr()
    else:
        X = np.asarray(X)
    if X.ndim != 2 or (n_features is not None and X.shape[1] != n_features):
        expected = "rows" if n_features is None else f"rows of {n_features} features"
        raise ValueError(f"X has the shape {X.shape}, but the model expects {expected}")
    check_kind(X, "X")
    if X.dtype.kind == "c":
        raise ValueError(f"X must hold real numbers, got dtype {X.dtype}")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if not np.isfinite(X.data if sparse else X).all():
        row, column, value = where_not_finite(X) or (0, 0, np.nan)
        raise ValueError(f"X holds {value}, which is not finite, in row {row}, column {column}")
    return X


def canonical(X: Any) -> Any:
    """CSR with sorted, unique columns; a copy only if it was not so."""
    import scipy.sparse as sp  # here, for the sake of programs that only predict: it takes most of their time

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


def check_sparse(X: Any) -> None:
    """Refuse parts that do not describe a matrix before anything, SciPy's conversions included, reads through them.

    LIL and DOK are made of Python's own objects, which know their lengths: what SciPy makes of them is looked at later.
    """
    if X.format == "csr":
        check_csr(X)
    elif X.format == "csc":
        check_csr(X.T, "CSC", "column", "row")
    elif X.format == "bsr":
        check_csr(_Blocks(X), "BSR", "row of blocks", "column of blocks")
    elif X.format == "dia":
        if X.data.ndim != 2 or X.offsets.shape != X.data.shape[:1]:
            raise ValueError(f"broken DIA matrix: {X.offsets.size} offsets for data of the shape {X.data.shape}")
    elif X.format == "coo":
        for axis, (index, size) in enumerate(zip(X.coords, X.shape, strict=True)):
            if len(index) != len(X.data):
                raise ValueError("broken COO matrix: coordinates and values differ in number")
            if len(index) and (index.min() < 0 or index.max() >= size):
                raise ValueError(f"broken COO matrix: an index of axis {axis} is outside 0..{size - 1}")


class _Blocks:
    """A BSR matrix as one of blocks: its parts are those of a CSR matrix then."""

    def __init__(self, X: Any):
        sizes = X.data.shape[1:]
        if len(sizes) != 2 or 0 in sizes or X.shape[0] % sizes[0] or X.shape[1] % sizes[1]:
            raise ValueError(f"broken BSR matrix: blocks of the shape {sizes} in a matrix of {X.shape}")
        self.shape = X.shape[0] // sizes[0], X.shape[1] // sizes[1]
        self.indptr, self.indices, self.data = X.indptr, X.indices, X.data


def with_plain_parts(X: Any) -> Any:
    """CSR, CSC or BSR, checked, whose parts are neither strided nor in the order of bytes of another machine, and end
    where the matrix does: what is behind its last entry belongs to nobody. X itself, or one of such parts."""
    if X.format not in ("csr", "csc", "bsr") or isinstance(X, Csr):
        return X
    given, end = (X.data, X.indices, X.indptr), int(X.indptr[-1])
    used = (part if len(part) == end else part[:end] for part in given[:2])
    parts = (*map(_plain, used), _plain(X.indptr))
    return X if all(map(lambda a, b: a is b, parts, given)) else type(X)(parts, shape=X.shape)


def _plain(part: np.ndarray) -> np.ndarray:
    native = part if part.dtype.isnative else part.astype(part.dtype.newbyteorder("="))
    return native if native.flags.c_contiguous else np.ascontiguousarray(native)


def check_csr(X: Any, kind: str = "CSR", line: str = "row", entry: str = "column") -> None:
    """Refuse broken CSR parts, or those of a transposed CSC matrix with lines and entries named accordingly."""
    n_lines, n_entries = X.shape
    indptr, indices = X.indptr, X.indices
    if indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu" or indptr.ndim != 1 or indices.ndim != 1:
        raise ValueError(
            f"broken {kind} matrix: indptr and indices must be lists of integers, they are {indptr.dtype} and "
            f"{indices.dtype}"
        )
    if len(indptr) != n_lines + 1 or indptr[0] != 0:
        raise ValueError(f"broken {kind} matrix: indptr must have {n_lines + 1} entries and start at 0")
    if np.any(indptr[1:] < indptr[:-1]):
        where = int(np.flatnonzero(indptr[1:] < indptr[:-1])[0])
        raise ValueError(f"broken {kind} matrix: indptr decreases at {line} {where}")
    end = int(indptr[-1])
    if end > len(indices) or end > len(X.data):
        raise ValueError(
            f"broken {kind} matrix: indptr ends at {end}, but there are {len(indices)} indices and {len(X.data)} values"
        )
    used = _plain(indices[:end])
    # As unsigned numbers negative ones are large: one pass for both bounds.
    if end and used.view(np.dtype(f"u{used.itemsize}")).max() >= n_entries:
        bad = int(np.flatnonzero((used < 0) | (used >= n_entries))[0])
        where = int(np.searchsorted(indptr, bad, side="right")) - 1
        raise ValueError(
            f"broken {kind} matrix: {entry} index {int(used[bad])} in {line} {where} is outside 0..{n_entries - 1}"
        )
