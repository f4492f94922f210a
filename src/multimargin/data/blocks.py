"""Rows in blocks on disk, for data that memory does not hold: written once, then mapped block by block.

A store is a folder with one file a block (block_files.py) and ``manifest.json``: what they are, how large, their
checksums, and a checksum of its own. :func:`~multimargin.data.block_writing.write_blocks` makes one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multimargin.data.block_files import (
    VERSION,
    BlocksError,
    Entry,
    Layout,
    check_entry,
    manifest_of,
    read_block,
    unpacked_bytes,
)
from multimargin.data.block_writing import MANIFEST, write_blocks

__all__ = ["BlockStore", "BlocksError", "RowBlock", "open_blocks", "write_blocks"]

_MOST = 2**62
_KINDS: dict[str, Any] = {"int": np.int64, "float": np.float64, "bool": np.bool_, "str": np.str_}


class RowBlock(NamedTuple):
    """The rows of a block."""

    X: Any  # CSR or a dense array, over the mapped file
    y: np.ndarray
    sample_weight: np.ndarray | None


class BlockStore:
    """Rows, labels and weights in blocks on disk. Iterate to get one :class:`RowBlock` after the other.

    Attributes
    ----------
    path : Path
    n_rows, n_features : int
    classes : ndarray
        The labels that occur, sorted.
    class_weights : ndarray
        The weight of all rows of each class: their number, if the store has no weights.
    layout : Layout
        Sparse or dense, dtype, whether there are weights, whether the files are compressed.
    entries : list of Entry
        Rows, non-zeros, bytes and checksum of every block.
    zero_based : bool
        Whether it was written from svmlight text whose indices start at 0.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.datasets import load_digits
    >>> from multimargin.data.blocks import write_blocks
    >>> X, y = load_digits(return_X_y=True)
    >>> folder = tempfile.TemporaryDirectory()
    >>> store = write_blocks(pathlib.Path(folder.name, "digits.blocks"), [(X, y)], block_mb=0.5)
    >>> store.n_rows, store.n_features, len(store.classes), len(store)
    (1797, 64, 10, 2)
    >>> sum(len(block.y) for block in store)
    1797
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(os.fsdecode(path))
        described = _read_manifest(self.path)
        self.layout, self.entries, labels, weights, self.zero_based = described
        order = np.argsort(labels, kind="stable")
        self.classes, self.class_weights = labels[order], weights[order]
        self._encoded = np.empty(len(order), np.int64)  # of a position in the list of labels: the class
        self._encoded[order] = np.arange(len(order))
        self.n_rows = sum(entry.rows for entry in self.entries)
        self.n_features = self.layout.n_features
        self._known_good: set[int] = set()

    def __len__(self) -> int:
        """The number of blocks."""
        return len(self.entries)

    def __repr__(self) -> str:
        return (
            f"BlockStore({str(self.path)!r}: {self.n_rows} rows, {self.n_features} features, "
            f"{len(self.classes)} classes, {len(self)} blocks)"
        )

    def __iter__(self) -> Iterator[RowBlock]:
        for block in range(len(self)):
            X, encoded, weight = self.load(block)
            yield RowBlock(X, self.classes[encoded], weight)

    def load(self, block: int) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """X, classes (encoded: positions in ``classes``) and weights of a block.

        Raises
        ------
        BlocksError
            If its file is damaged.
        """
        first = block not in self._known_good
        X, labels, weights = read_block(self.path, self.layout, self.entries[block], first=first)
        self._known_good.add(block)
        return X, self._encoded[labels], weights

    def unpacked_bytes(self, block: int) -> int:
        """What a block takes when it is not compressed."""
        return unpacked_bytes(self.layout, self.entries[block])


def open_blocks(path: str | os.PathLike) -> BlockStore:
    """Open a store that :func:`write_blocks` wrote.

    The manifest and the sizes of all files are checked now, the content of a block when it is first read.

    Raises
    ------
    BlocksError
        With the file and what is wrong with it.
    FileNotFoundError
        If there is no such folder.
    """
    store = BlockStore(path)
    for entry in store.entries:
        file = store.path / entry.file
        if not file.is_file():
            raise BlocksError(f"{file}: this block is missing; copy the store anew, or write it again")
        if file.stat().st_size != entry.bytes:
            raise BlocksError(
                f"{file}: has {file.stat().st_size} bytes, and should have {entry.bytes}: it was cut short or changed"
            )
    return store


def _read_manifest(path: Path) -> tuple[Layout, list[Entry], np.ndarray, np.ndarray, bool]:
    name = path / MANIFEST
    if not path.is_dir():
        raise FileNotFoundError(f"{path}: there is no such folder" if not path.exists() else f"{path}: is no folder")
    try:
        text = name.read_bytes()
    except FileNotFoundError:
        raise BlocksError(f"{path}: is no store of blocks: it has no {MANIFEST} (write_blocks writes one)") from None
    try:
        body = json.loads(text)["store"]
        as_written = isinstance(body, dict) and text == manifest_of(body)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise BlocksError(f"{name}: is no manifest of a store of blocks, or a damaged one") from None
    if not as_written:
        raise BlocksError(f"{name}: its checksum is wrong: it was changed; copy the store anew, or write it again")
    if body.get("version") != VERSION:
        raise BlocksError(f"{name}: is of version {body.get('version')!r}; this program reads version {VERSION}")
    try:
        return _described(str(name), body)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, BlocksError):
            raise
        raise BlocksError(f"{name}: is damaged: {error!r}") from None


def _described(name: str, body: dict[str, Any]) -> tuple[Layout, list[Entry], np.ndarray, np.ndarray, bool]:
    """What a manifest says, checked."""
    kind = _KINDS[body["label_kind"]]
    labels: np.ndarray = np.array(body["labels"], dtype=kind)
    weights = np.array(body["label_weights"], dtype=np.float64)
    layout = Layout(
        _boolean(body["sparse"]),
        np.dtype({"float32": "<f4", "float64": "<f8"}[body["dtype"]]),
        _count(body["n_features"], 1),
        len(labels),
        _boolean(body["weighted"]),
        _boolean(body["compressed"]),
    )
    entries = []
    for block in body["blocks"]:
        file = block["file"]
        if not isinstance(file, str) or Path(file).name != file or file in ("", ".", ".."):
            raise BlocksError(f"{name}: {file!r} is not the name of a file in the store")
        entry = Entry(
            file,
            _count(block["rows"], 1),
            _count(block["nonzeros"]),
            _boolean(block["wide"]),
            _count(block["bytes"], 1),
            _count(block["checksum"]),
        )
        check_entry(name, layout, entry)
        entries.append(entry)
    if not entries or labels.ndim != 1 or weights.shape != labels.shape or len(np.unique(labels)) != len(labels):
        raise BlocksError(f"{name}: its list of labels or of blocks is damaged")
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise BlocksError(f"{name}: weights of labels must be finite and not negative")
    if sum(entry.rows for entry in entries) != _count(body["rows"]):
        raise BlocksError(f"{name}: the rows of its blocks are not the {body['rows']} that it has")
    return layout, entries, labels, weights, _boolean(body.get("zero_based", False))


def _count(value: Any, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < _MOST:
        raise ValueError(f"{value!r} is no number from {least} on")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value
