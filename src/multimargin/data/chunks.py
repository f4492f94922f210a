"""Rows from anywhere, chunk by chunk: files that are too large to be read at once, lists of them, or any iterator.

A source is read in its order. One that is a file can be begun again at any chunk, so that what a killed program left
can be continued.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from multimargin.data.kinds import check_kind
from multimargin.data.labels import plain_labels
from multimargin.data.npz import read_npz
from multimargin.data.rows import canonical, check_masks, check_sparse, where_not_finite, with_plain_parts
from multimargin.data.svmlight_stream import Place, stream_svmlight
from multimargin.data.table_stream import Features, features_of, stream_table
from multimargin.data.tables import is_table, suffix_of

_HEAD = 1 << 16  # bytes by whose hash a file is known again, beside its size and time
_TABLE_ROWS = 20_000


class Chunk(NamedTuple):
    """Some rows, and where in the source they begin."""

    X: Any  # CSR, sorted and without duplicates, or a dense array
    y: np.ndarray
    weight: np.ndarray | None
    begin: list[int]  # number of the file, and a place in it
    name: str  # of the file, for messages


class Source:
    """Rows with labels and, perhaps, weights."""

    signature: list[Any] | None = None  # by which a source of files is known again
    text_labels = False  # whether labels are numbers as text has them: 3 and 3.0 are the same

    def chunks(self, begin: Sequence[int]) -> Iterator[Chunk]:
        """From a place on where a chunk began; ``[0]`` is the beginning."""
        raise NotImplementedError


class Files(Source):
    """One file or several, one after the other."""

    text_labels = True

    def __init__(self, paths: Sequence[Path], dtype: np.dtype | None, n_features, zero_based, label: str | None):
        self.paths, self.dtype, self.n_features = paths, dtype, n_features
        self.zero_based, self.label = zero_based, label
        self._features: Features | None = None  # of the first table, which decides the order of columns
        for path in paths:
            if is_table(path) and label is None:
                raise ValueError(f"{path}: which column holds the labels? Say label=")
            if path.is_dir():
                raise IsADirectoryError(f"{path} is a folder; give files, or a list of them")
        self.signature = [_known_by(path) for path in paths] if all(path.is_file() for path in paths) else None

    def chunks(self, begin: Sequence[int]) -> Iterator[Chunk]:
        for number in range(begin[0], len(self.paths)):
            path, place = self.paths[number], list(begin[1:]) if number == begin[0] else []
            for X, y, at in self._of_file(path, place):
                yield checked(X, y, None, [number, *at], str(path), self.dtype)

    def _of_file(self, path: Path, place: list[int]) -> Iterator[tuple[Any, np.ndarray, Sequence[int]]]:
        if suffix_of(path) == ".npz":
            X, y = read_npz(path)
            if y is None:
                raise ValueError(f"{path}: has no labels (array y)")
            yield X, y, ()
        elif is_table(path):
            assert self.label is not None
            first = next(path for path in self.paths if is_table(path))
            if self._features is None and path != first:  # a killed program read it, or it has no rows
                self._features = features_of(first, self.label)
            for piece in stream_table(path, self.label, _TABLE_ROWS, self._features):
                self._features = piece.features
                if piece.row >= (place[0] if place else 0):
                    yield piece.X, piece.y, (piece.row,)
        else:
            dtype = np.dtype(np.float64) if self.dtype is None else self.dtype
            options: dict[str, Any] = dict(dtype=dtype, n_features=self.n_features, zero_based=self.zero_based)
            yield from stream_svmlight(path, start=Place(*place), **options)


class Iterated(Source):
    """Chunks ``(X, y)`` or ``(X, y, weight)`` of an iterator: read once."""

    def __init__(self, chunks: Iterable, dtype: np.dtype | None):
        self.iterable, self.dtype = chunks, dtype

    def chunks(self, begin: Sequence[int]) -> Iterator[Chunk]:
        for number, item in enumerate(self.iterable):
            name = f"chunk {number}"
            if not isinstance(item, tuple | list) or len(item) not in (2, 3):
                raise TypeError(f"{name}: a tuple (X, y) or (X, y, weight) is needed, got {type(item).__name__}")
            X, y, weight = item if len(item) == 3 else (*item, None)
            yield checked(X, y, weight, [number], name, self.dtype)


def source_of(source: Any, dtype: np.dtype | None, n_features: int | None, zero_based: Any, label: Any) -> Source:
    """What ``write_blocks`` is given, as a source."""
    if isinstance(source, str | os.PathLike):
        return Files([Path(os.fsdecode(source))], dtype, n_features, zero_based, label)
    if isinstance(source, Sequence) and source and all(isinstance(item, str | os.PathLike) for item in source):
        return Files([Path(os.fsdecode(item)) for item in source], dtype, n_features, zero_based, label)
    if not hasattr(source, "__iter__") or sp.issparse(source) or isinstance(source, np.ndarray):
        raise TypeError(
            "the source must be a file, a list of files or an iterator of chunks (X, y) or (X, y, weight), got "
            f"{type(source).__name__}; one matrix in memory is [(X, y)]"
        )
    return Iterated(source, dtype)


def checked(X: Any, y: Any, weight: Any, begin: list[int], name: str, dtype: np.dtype | None) -> Chunk:
    """A chunk whose parts fit together, of finite numbers. Errors name it."""
    try:
        return Chunk(*_fitting(X, y, weight, dtype), begin, name)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _fitting(X: Any, y: Any, weight: Any, dtype: np.dtype | None) -> tuple[Any, np.ndarray, np.ndarray | None]:
    for given, what in ((X, "X"), (y, "y"), (weight, "weights")):
        check_masks(given, what)
    check_kind(weight, "weights")
    if sp.issparse(X):
        check_sparse(X)
        X = with_plain_parts(X).tocsr()
    else:
        X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X must have rows and columns, got shape {X.shape}")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X must hold numbers, got dtype {X.dtype}")
    wanted = dtype or (X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64))
    with np.errstate(over="ignore"):  # what float32 cannot hold is found below
        X = X.astype(wanted, copy=False)
    X = canonical(X) if sp.issparse(X) else np.ascontiguousarray(X)
    y = np.asarray(plain_labels(y))
    if y.shape != (X.shape[0],):
        raise ValueError(f"X has {X.shape[0]} rows, y has shape {y.shape}")
    if weight is not None:
        weight = np.ascontiguousarray(weight, np.float64)
        if weight.shape != y.shape:
            raise ValueError(f"X has {X.shape[0]} rows, the weights have shape {weight.shape}")
        if not (np.isfinite(weight).all() and (weight >= 0).all()):
            raise ValueError("weights must be finite and not negative")
    if not all_finite(X.data if sp.issparse(X) else X):
        row, column, _ = where_not_finite(X) or (0, 0, 0.0)
        raise ValueError(
            f"X holds NaN, infinity or a value too large for {wanted}; the first is in row {row}, column {column}"
        )
    return X, y, weight


def all_finite(values: np.ndarray) -> bool:
    """Whether all are; their sum mostly tells, without an array beside them."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum(dtype=np.float64)) or np.isfinite(values).all())


def _known_by(path: Path) -> list[Any]:
    status = path.stat()
    with path.open("rb") as file:
        head = hashlib.sha256(file.read(_HEAD)).hexdigest()
    return [str(path.absolute()), status.st_size, status.st_mtime_ns, head]
