"""The file of one block of rows: its arrays one after the other, little endian, each at a multiple of 64 bytes.

    labels    int32    one a row: a position in the store's list of labels
    weights   float64  one a row, if the store has weights
    CSR:      indptr (rows + 1) and indices, both int32 or both int64; values
    dense:    values, row by row

A compressed file is that, by zlib. The manifest (blocks.py) says how many rows and non-zeros there are, how large the
file is, and its CRC-32: everything is checked before it is used, and the columns and values when it is first read.
"""

from __future__ import annotations

import json
import mmap
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from multimargin.data.atomic import write_atomically
from multimargin.data.chunks import all_finite
from multimargin.data.rows import check_csr

VERSION = 1
ALIGNMENT = 64
_LARGEST_RATIO = 1100  # of zlib's compression; it cannot do better
_LEVEL = 1  # of the compression: the disk is to be relieved, not the processor burdened


class BlocksError(ValueError):
    """Blocks on disk that cannot be used: says which file, and why."""


class Layout(NamedTuple):
    """What all blocks of a store have in common."""

    sparse: bool
    dtype: np.dtype
    n_features: int
    n_labels: int
    weighted: bool
    compressed: bool


class Entry(NamedTuple):
    """What the manifest says of a block."""

    file: str
    rows: int
    nonzeros: int  # 0 in a dense store
    wide: bool  # whether indices are int64
    bytes: int  # of the file
    checksum: int  # CRC-32 of the file


def arrays_of(layout: Layout, entry: Entry) -> Iterator[tuple[str, np.dtype, int, int]]:
    """Name, type, length and offset of the arrays of a block; at last those of the end of the file."""
    index = np.dtype("<i8" if entry.wide else "<i4")
    parts: list[tuple[str, np.dtype, int]] = [("labels", np.dtype("<i4"), entry.rows)]
    if layout.weighted:
        parts.append(("weights", np.dtype("<f8"), entry.rows))
    if layout.sparse:
        parts += [("indptr", index, entry.rows + 1), ("indices", index, entry.nonzeros)]
        parts.append(("values", layout.dtype, entry.nonzeros))
    else:
        parts.append(("values", layout.dtype, entry.rows * layout.n_features))
    offset = 0
    for name, dtype, length in parts:
        yield name, dtype, length, offset
        offset = -(-(offset + length * dtype.itemsize) // ALIGNMENT) * ALIGNMENT
    yield "", np.dtype("u1"), 0, offset


def unpacked_bytes(layout: Layout, entry: Entry) -> int:
    """Size of a block's arrays."""
    return list(arrays_of(layout, entry))[-1][3]


def write_block(
    folder: Path, file: str, layout: Layout, X: Any, labels: np.ndarray, weights: np.ndarray | None
) -> Entry:
    """Write one, atomically."""
    nonzeros = int(X.nnz) if layout.sparse else 0
    wide = layout.sparse and max(layout.n_features, nonzeros) > np.iinfo(np.int32).max
    entry = Entry(file, X.shape[0], nonzeros, wide, 0, 0)
    found = {"labels": labels, "weights": weights}
    found |= {"indptr": X.indptr, "indices": X.indices, "values": X.data} if layout.sparse else {"values": X.ravel()}
    size = checksum = 0
    pieces = []
    for piece in _pieces(layout, entry, found):
        size, checksum = size + len(piece), zlib.crc32(piece, checksum)
        pieces.append(piece)
    write_atomically(folder / file, pieces)
    return entry._replace(bytes=size, checksum=checksum)


def _pieces(layout: Layout, entry: Entry, found: dict[str, Any]) -> Iterator[bytes | memoryview]:
    packer = zlib.compressobj(_LEVEL) if layout.compressed else None
    end = 0
    for name, dtype, length, offset in arrays_of(layout, entry):
        piece: Any = bytes(offset - end)
        yield piece if packer is None else packer.compress(piece)
        if name:
            piece = np.ascontiguousarray(found[name], dtype).view(np.uint8).data
            yield piece if packer is None else packer.compress(piece)
        end = offset + length * dtype.itemsize
    if packer is not None:
        yield packer.flush()


def read_block(folder: Path, layout: Layout, entry: Entry, *, first: bool) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """X, labels (positions) and weights of a block, mapped if it is not compressed.

    The ``first`` time the checksum is compared, and everything that a changed file could have wrong.
    """
    path = folder / entry.file
    raw = _bytes(path, layout, entry, first)
    found = {name: raw[at : at + n * t.itemsize].view(t) for name, t, n, at in arrays_of(layout, entry) if name}
    labels, weights, shape = found["labels"], found.get("weights"), (entry.rows, layout.n_features)
    if layout.sparse:
        parts = SimpleNamespace(shape=shape, data=found["values"], indices=found["indices"], indptr=found["indptr"])
        if first:
            try:
                check_csr(parts)
            except ValueError as error:
                raise BlocksError(f"{path}: {error}") from None
            if int(parts.indptr[-1]) != entry.nonzeros:
                raise BlocksError(f"{path}: broken CSR matrix: indptr ends at {int(parts.indptr[-1])}")
        X = sp.csr_array((parts.data, parts.indices, parts.indptr), shape=shape)
        if first and not X.has_canonical_format:
            raise BlocksError(f"{path}: columns of a row must increase")
        X.has_canonical_format = True
    else:
        X = found["values"].reshape(shape)
    if first:
        _check_values(path, layout, found, labels, weights)
    return X, labels, weights


def _bytes(path: Path, layout: Layout, entry: Entry, first: bool) -> np.ndarray:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size != entry.bytes:
                raise BlocksError(
                    f"{path}: has {size} bytes, and should have {entry.bytes}: it was cut short or changed"
                )
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise BlocksError(f"{path}: this block is missing; copy the store anew, or write it again") from None
    if first and zlib.crc32(mapped) != entry.checksum:
        raise BlocksError(f"{path}: its checksum is wrong: it was changed; copy the store anew, or write it again")
    if not layout.compressed:
        return np.frombuffer(mapped, np.uint8)
    size = unpacked_bytes(layout, entry)
    unpacker = zlib.decompressobj()
    try:
        raw = unpacker.decompress(mapped, size + 1)  # never more, whatever the file says
    except zlib.error as error:
        raise BlocksError(f"{path}: broken zlib data: {error}") from None
    if len(raw) != size or not unpacker.eof:
        raise BlocksError(f"{path}: unpacks to other than the {size} bytes that it should have")
    return np.frombuffer(raw, np.uint8)


def _check_values(path: Path, layout: Layout, found: dict[str, Any], labels: Any, weights: Any) -> None:
    if labels.min() < 0 or labels.max() >= layout.n_labels:
        raise BlocksError(f"{path}: a label is outside of the {layout.n_labels} that the store has")
    if not all_finite(found["values"]):
        raise BlocksError(f"{path}: holds NaN or infinity")
    if weights is not None and not (all_finite(weights) and weights.min() >= 0):
        raise BlocksError(f"{path}: weights must be finite and not negative")


def manifest_of(store: dict[str, Any]) -> bytes:
    """The bytes of the only manifest that says this, with their checksum."""
    checksum = zlib.crc32(json.dumps(store, sort_keys=True).encode())
    return json.dumps({"checksum": checksum, "store": store}).encode()


def check_entry(name: str, layout: Layout, entry: Entry) -> None:
    """Refuse sizes that cannot be, before anything is allocated by them."""
    size = unpacked_bytes(layout, entry)
    possible = entry.bytes == size if not layout.compressed else size <= _LARGEST_RATIO * entry.bytes + ALIGNMENT
    if not possible:
        raise BlocksError(f"{name}: {entry.file}: {entry.bytes} bytes cannot hold {entry.rows} rows as described")
