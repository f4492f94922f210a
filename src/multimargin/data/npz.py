"""X and y from one ``.npz`` file, never by pickle.

Conventions
-----------
Dense: an array ``X``. Sparse: what ``scipy.sparse.save_npz`` writes (``data, indices, indptr, shape, format``), or CSR
parts ``X_data, X_indices, X_indptr, X_shape``. Labels are in ``y``; a file without it can be predicted, not trained on.
"""

from __future__ import annotations

from os import fspath
from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin.data.rows import check_sparse

_PARTS = ("data", "indices", "indptr", "shape")


def read_npz(path) -> tuple[Any, np.ndarray | None]:
    """X (CSR or a dense array, float32 or float64) and y, or None where the file has none.

    Raises
    ------
    ValueError
        If the file is no .npz, lacks a part, or its parts do not fit together; the message names the file.
    """
    path = fspath(path)
    with open(path, "rb") as file:
        try:
            X, y = _read(file)
        except _Refused as error:
            raise ValueError(f"{path}: {error}") from None
        except MemoryError:
            raise ValueError(f"{path}: asks for more memory than there is") from None
        except Exception as error:  # zipfile, zlib and NumPy's header have their own ways to say that bytes are wrong
            raise ValueError(
                f"{path}: is no .npz file of numbers, or a broken one (numpy.savez writes them)"
            ) from error
    if y is not None:
        if y.dtype.kind not in "biufUS":
            raise ValueError(f"{path}: y holds {y.dtype}; labels must be numbers or strings")
        if y.ndim != 1:
            raise ValueError(f"{path}: y has shape {y.shape}; it must be one label a row")
        if len(y) != X.shape[0]:
            raise ValueError(f"{path}: X has {X.shape[0]} rows, y has {len(y)} labels")
    return X, y


class _Refused(ValueError):
    """A part that cannot be used, in words for the user."""


def _read(file: Any) -> tuple[Any, np.ndarray | None]:
    loaded = np.load(file, allow_pickle=False)
    if not hasattr(loaded, "files"):
        raise _Refused("holds a single array, as .npy files do; save X and y by numpy.savez")
    with loaded as stored:
        return _matrix(stored), _array(stored, "y") if "y" in stored.files else None


def _array(stored: Any, name: str) -> np.ndarray:
    try:
        return stored[name]
    except ValueError as error:
        if "pickle" not in str(error).lower():
            raise
        raise _Refused(f"array {name!r} holds Python objects, which are not read; save numbers or strings") from None


def _matrix(stored: Any) -> Any:
    names = set(stored.files)
    if "X" in names:
        X = _array(stored, "X")
        if X.ndim != 2:
            raise _Refused(f"X has shape {X.shape}; it must have rows and columns")
        return _numbers(X)
    if {f"X_{part}" for part in _PARTS} <= names:
        return _csr(stored, "X_", "csr")
    if set(_PARTS) <= names:
        kind = _array(stored, "format").item() if "format" in names else "csr"
        return _csr(stored, "", kind.decode() if isinstance(kind, bytes) else str(kind))
    raise _Refused(
        f"has {', '.join(sorted(names)) or 'no arrays'}; it needs X, or data, indices, indptr and shape as "
        "scipy.sparse.save_npz writes them in CSR format, and y"
    )


def _csr(stored: Any, prefix: str, kind: str) -> Any:
    if kind not in ("csr", "csc"):
        raise _Refused(f"holds a sparse matrix in format {kind!r}; save X.tocsr()")
    data, indices, indptr, shape = (_array(stored, prefix + part) for part in _PARTS)
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any():
        raise _Refused(f"shape is {shape.tolist()}; it must be two numbers")
    for name, part in (("indices", indices), ("indptr", indptr)):
        if part.ndim != 1 or part.dtype.kind not in "iu":
            raise _Refused(f"{prefix}{name} must be one row of integers")
        if part.dtype.kind == "u":
            part = part.astype(np.int64)
        if name == "indices":
            indices = part
        else:
            indptr = part
    parts = (_numbers(data), indices, indptr)
    size = (int(shape[0]), int(shape[1]))
    try:
        X = sp.csr_array(parts, shape=size) if kind == "csr" else sp.csc_array(parts, shape=size)
        check_sparse(X)
    except ValueError as error:
        raise _Refused(
            f"broken {kind.upper()} matrix: {str(error).removeprefix(f'broken {kind.upper()} matrix: ')}"
        ) from None
    return X if kind == "csr" else sp.csr_array(X)


def _numbers(values: np.ndarray) -> np.ndarray:
    """As float32 where that holds every value of their type exactly, else float64."""
    if values.dtype.kind not in "biuf":
        raise _Refused(f"X holds {values.dtype}, not numbers")
    if values.dtype in (np.float32, np.float64):
        return values
    return values.astype(np.float32 if np.can_cast(values.dtype, np.float32) else np.float64)
