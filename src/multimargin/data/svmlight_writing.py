"""Writing svmlight text, the format of LIBLINEAR and LIBSVM."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from multimargin import _core
from multimargin.data.atomic import write_atomically
from multimargin.data.file_bytes import compressed
from multimargin.data.rows import as_rows, check_sparse

_WRITTEN_ENTRIES = 1 << 18  # in one call
_EXACT = 2**53  # whole numbers up to here are float64 numbers


def write_svmlight(
    path: str | os.PathLike,
    X: Any,
    y: Any,
    *,
    zero_based: bool = False,
    query_id: Any = None,
    comment: str | None = None,
) -> None:
    """Write svmlight text that reads back bit by bit.

    Numbers have as few digits as that needs. The file appears under its name when it is complete, and is compressed if
    the name ends with ``.gz``, ``.bz2`` or ``.xz``.

    Parameters
    ----------
    path : str or path
    X : array or sparse matrix of shape (n_samples, n_features)
        Finite numbers. Zeros that a sparse matrix stores are written, those of an array are not. The text does not say
        how many features there are: if the last ones may be all zero, give ``n_features`` when reading.
    y : array of shape (n_samples,)
        Finite numbers.
    zero_based : bool
        Whether the first feature is 0 rather than 1. The others' programs expect 1.
    query_id : array of int of shape (n_samples,) or None
        Written as ``qid:N`` after the label.
    comment : str or None
        Lines to put in front, each after ``#``. LIBLINEAR and LIBSVM do not read files with comments.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from multimargin.data.svmlight_writing import write_svmlight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "data.txt")
    ...     write_svmlight(path, [[0.5, 0, 2], [0, 1, 0]], [1, -1])
    ...     print(path.read_text())
    1 1:0.5 3:2
    -1 2:1
    <BLANKLINE>
    """
    if not isinstance(path, str | bytes | os.PathLike):
        raise TypeError(f"write_svmlight(path, X, y): the path comes first, got {type(path).__name__}")
    X = _matrix(X)
    labels = _column("y", y, X.shape[0], np.float64)
    query_ids = np.empty(0, np.int64) if query_id is None else _column("query_id", query_id, X.shape[0], np.int64)
    if X.shape[0] == 0:
        raise ValueError("X has no rows: there is nothing to write")
    lines = _lines(
        as_rows(X), len(X.data) if hasattr(X, "indptr") else X.size, labels, query_ids, 0 if zero_based else 1, comment
    )
    write_atomically(path, compressed(lines, path))


def _matrix(X: Any) -> Any:
    """X as CSR or as a dense array of float32 or float64, unchanged in value."""
    if hasattr(X, "tocsr"):
        check_sparse(X)
        X = X.tocsr()
        values = X.data
    else:
        X = values = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got shape {X.shape}")
    if values.dtype.kind not in "biuf" or values.dtype.itemsize > 8:
        raise ValueError(f"X must hold numbers, float32 or float64, got dtype {values.dtype}")
    if values.dtype.kind == "f":
        return X.astype(np.float32 if values.dtype.itemsize <= 4 else np.float64, copy=False)
    _check_exact("X", values)
    return X.astype(np.float64)


def _column(name: str, values: Any, n_rows: int, dtype: type) -> np.ndarray:
    """Labels or query ids, one for each row, unchanged in value."""
    values = np.asarray(values)
    kinds = "biuf" if dtype is np.float64 else "iu"
    if values.shape != (n_rows,):
        raise ValueError(f"{name} must have one entry for each of the {n_rows} rows of X, got shape {values.shape}")
    if values.dtype.kind not in kinds or values.dtype.itemsize > 8:
        raise ValueError(f"{name} must hold {'numbers' if 'f' in kinds else 'whole numbers'}, got dtype {values.dtype}")
    if dtype is np.float64:
        _check_exact(name, values)
    elif values.dtype.kind == "u" and values.size and values.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} must fit into int64")
    return np.ascontiguousarray(values, dtype)


def _check_exact(name: str, values: np.ndarray) -> None:
    if values.dtype.kind in "iu" and values.size and (values.max() > _EXACT or values.min() < -_EXACT):
        raise ValueError(f"{name} has whole numbers beyond 2**53, which are not read back exactly")


def _lines(
    rows: _core.Rows, n_entries: int, labels: np.ndarray, query_ids: np.ndarray, first_index: int, comment: str | None
) -> Iterator[bytes]:
    for line in (comment or "").splitlines():
        yield f"# {line}\n".encode()
    step = max(1, _WRITTEN_ENTRIES * rows.n_rows // max(1, n_entries))
    for begin in range(0, rows.n_rows, step):
        end = min(begin + step, rows.n_rows)
        yield _core.write_svmlight_lines(rows, begin, end, labels, query_ids, first_index)
