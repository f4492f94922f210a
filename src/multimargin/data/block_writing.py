"""Writing a store of blocks: once, in bounded memory, as a whole or not at all, and to be continued if it was killed.

Everything goes into a folder ``NAME.part`` first; when all blocks and the manifest are there it gets its name. Beside
the blocks it has a journal, replaced after every block, of what is there and from where in the source to go on.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

from multimargin.data.atomic import failed_write, sync_folder, write_atomically
from multimargin.data.block_files import VERSION, Entry, Layout, manifest_of, write_block
from multimargin.data.chunks import Chunk, Source, source_of
from multimargin.data.folder_lock import locked_folder
from multimargin.data.svmlight_stream import IndexZero

if TYPE_CHECKING:
    from multimargin.data.blocks import BlockStore

MANIFEST = "manifest.json"
JOURNAL = "journal.json"
_MANY_ZEROS = 0.33  # a dense first chunk with fewer non-zeros is stored as CSR: fewer bytes, faster passes
_EXACT = 2**53


def write_blocks(
    path: str | os.PathLike,
    source: Any,
    *,
    block_mb: float = 64.0,
    compress: bool = False,
    dtype: Any = None,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    label: str | None = None,
) -> BlockStore:
    """Write rows to a store of blocks, from which :class:`~multimargin.LinearSVM` trains past memory.

    Memory holds a few blocks at most (and one file, of those that are ``.npz``). If the program is killed, the same
    call goes on after the last whole block, where the source is files that did not change.

    Parameters
    ----------
    path : str or path
        Folder to make; a name that ends with ``.blocks`` tells what it is.
    source : file, list of files, or iterator of chunks
        svmlight text (also compressed by gzip, bzip2 or xz), ``.npz``, ``.csv``, ``.tsv`` or ``.parquet`` (numbers, and
        ``label``); or chunks ``(X, y)`` or ``(X, y, sample_weight)``, X sparse or dense. All chunks must have weights
        or none. Tables of a list have the same columns, in any order; that of the first is the order of features.
    block_mb : float
        About how large a block is, in units of 2**20 bytes. Training holds two.
    compress : bool
        Pack the blocks by zlib: a third of the disk, perhaps, but they are then unpacked to memory, not mapped.
    dtype : float32, float64 or None
        Of the values. None: as the first chunk has it; text has float64.
    n_features : int or None
        Columns of X. None: as many as the largest index needs.
    zero_based : bool or "auto"
        svmlight text: whether the index of the first feature is 0. "auto": it is if index 0 occurs.
    label : str or None
        Tables: the column of the labels.

    Returns
    -------
    BlockStore

    Raises
    ------
    FileExistsError
        If the path is taken.
    OSError
        If another program is writing it, or the disk is full: the file, and what to do.
    ValueError
        As the readers of the files say it, or if chunks do not fit together.
    """
    if not isinstance(path, str | bytes | os.PathLike):
        raise TypeError(f"write_blocks(path, source): the path of the store comes first, got {type(path).__name__}")
    target = Path(os.fsdecode(path))
    _check(target, block_mb, dtype, n_features, zero_based)
    # As JSON has them: NumPy's numbers and truth values are taken, too.
    n_features, compress = None if n_features is None else int(n_features), bool(compress)
    kind = None if dtype is None else np.dtype(dtype)
    rows = source_of(source, kind, n_features, zero_based, label)
    options = [
        VERSION,
        float(block_mb),
        compress,
        None if kind is None else kind.name,
        n_features,
        zero_based,
        label,
    ]
    if zero_based == "auto" and rows.signature is not None:  # what was killed may have found that indices start at 0
        from_zero = source_of(source, kind, n_features, True, label)
        if _State.continued(_unfinished(target), _signature(from_zero, options)) is not None:
            rows = from_zero
    try:
        _write(target, rows, options, compress, n_features)
    except IndexZero as found:
        if rows.signature is None:
            raise ValueError(f"{found}: say zero_based=True, as this source cannot be read twice") from None
        rows = source_of(source, kind, n_features, True, label)
        _write(target, rows, options, compress, n_features)
    from multimargin.data.blocks import open_blocks

    return open_blocks(target)


def _check(target: Path, block_mb: Any, dtype: Any, n_features: Any, zero_based: Any) -> None:
    if target.exists():
        raise FileExistsError(f"{target}: is there already; delete it first, or choose another name")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent} is not a folder; make it first, or write {target.name} elsewhere")
    if isinstance(block_mb, bool) or not isinstance(block_mb, Real) or not 0 < float(block_mb) <= 2000:
        raise ValueError(f"block_mb must be above 0 and at most 2000, got {block_mb!r}")
    if dtype is not None and np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32, float64 or None, got {dtype!r}")
    if n_features is not None and not (isinstance(n_features, Integral) and 1 <= int(n_features) < 2**62):
        raise ValueError(f"n_features must be None or a whole number of at least 1, got {n_features!r}")
    if not (isinstance(zero_based, bool) or zero_based == "auto"):
        raise ValueError(f"zero_based must be True, False or 'auto', got {zero_based!r}")


def _write(target: Path, source: Source, options: list[Any], compress: bool, n_features: int | None) -> None:
    folder, signature = _unfinished(target), _signature(source, options)
    try:
        with locked_folder(folder):
            if target.exists():  # since it was checked
                raise FileExistsError(f"{target}: another program has just written it; choose another name")
            _write_into(folder, signature, target, source, options, compress, n_features)
    except OSError as error:
        where = str(error.filename or target)
        if error.errno is None or not where.startswith(str(target)):  # in our words already, or not of the store
            raise
        later = "" if signature is None else "; the same call goes on from there"
        raise OSError(error.errno, f"{failed_write(error, target).strerror}{later}", where) from error


def _write_into(
    folder: Path,
    signature: Any,
    target: Path,
    source: Source,
    options: list[Any],
    compress: bool,
    n_features: int | None,
) -> None:
    try:
        state = _State.continued(folder, signature) or _State.begun(folder, signature, compress, n_features)
        for X, codes, weights, at in _blocks(source, state, options[1] * 2**20):
            state.add(X, codes, weights, at)
        if not state.entries:
            raise ValueError("the source has no rows: there is nothing to write")
        state.finish(source.text_labels, getattr(source, "zero_based", None) is True)
        folder.rename(target)
    except BaseException as error:
        # What the same call would go on from stays. It would fail again, or begin anew, after anything else.
        goes_on = signature is not None and isinstance(error, OSError | KeyboardInterrupt)
        if not isinstance(error, _NotOurs) and not (goes_on and (folder / JOURNAL).is_file()):
            shutil.rmtree(folder, ignore_errors=True)
        raise
    with contextlib.suppress(OSError):
        (target / JOURNAL).unlink()  # until here the same call would have gone on
    sync_folder(target.parent)


class _NotOurs(FileExistsError):
    """A folder that this module did not write."""


def _unfinished(target: Path) -> Path:
    return target.parent / f"{target.name}.part"


def _signature(source: Source, options: list[Any]) -> Any:
    """By which a call that goes on knows what was left by one like it; None: it cannot go on."""
    return None if source.signature is None else [*options, getattr(source, "zero_based", None), source.signature]


class _State:
    """What was written so far."""

    def __init__(self, folder: Path, signature: Any, compress: bool, n_features: int | None):
        self.folder, self.signature, self.compress = folder, signature, compress
        self.most_features = n_features
        self.n_features = n_features or 1
        self.entries: list[Entry] = []
        self.label_kind = ""
        self.labels: dict[Any, int] = {}
        self.label_weights: list[float] = []
        self.sparse: bool | None = None  # as the first chunk is, from here on
        self.dtype = np.dtype(np.float64)
        self.weighted = False
        self.begin: list[int] = [0]  # the chunk from which to go on ...
        self.skip = 0  # ... and how many rows from its first one on are written

    @classmethod
    def begun(cls, folder: Path, signature: Any, compress: bool, n_features: int | None) -> _State:
        """From nothing."""
        there = list(folder.iterdir())
        if there and not (folder / JOURNAL).is_file():
            raise _NotOurs(f"{folder}: is in the way, and not of a store that is being written; move it")
        for file in sorted(there, key=lambda file: file.name == JOURNAL):  # the folder itself is locked
            file.unlink()
        state = cls(folder, signature, compress, n_features)
        state._write_journal()
        return state

    @classmethod
    def continued(cls, folder: Path, signature: Any) -> _State | None:
        """As a killed program left it; None if it did not, or had another source or other options."""
        try:
            kept = json.loads((folder / JOURNAL).read_bytes())
            if signature is None or kept["signature"] != json.loads(json.dumps(signature)):
                return None
            state = cls(folder, signature, kept["compress"], kept["most_features"])
            for name in ("n_features", "label_kind", "label_weights", "sparse", "weighted", "begin", "skip"):
                setattr(state, name, kept[name])
            state.dtype = np.dtype(kept["dtype"])
            state.labels = {value: code for code, value in enumerate(kept["labels"])}
            state.entries = [Entry(**entry) for entry in kept["blocks"]]
            whole = all((folder / entry.file).stat().st_size == entry.bytes for entry in state.entries)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return state if whole else None

    def layout(self) -> Layout:
        assert self.sparse is not None
        return Layout(self.sparse, self.dtype, self.n_features, len(self.labels), self.weighted, self.compress)

    def fit(self, chunk: Chunk) -> Chunk:
        """A chunk as this store has them; the first one decides how."""
        X, weights = chunk.X, chunk.weight
        if self.sparse is None:
            self.sparse = sp.issparse(X) or bool(X.shape[1] >= 16 and np.count_nonzero(X) <= _MANY_ZEROS * X.size)
            self.dtype, self.weighted = X.dtype, weights is not None
            if not self.sparse:
                self.n_features = self.most_features or X.shape[1]
        if self.weighted != (weights is not None):
            raise ValueError(f"{chunk.name}: either all chunks have weights or none has")
        if self.most_features is not None and X.shape[1] > self.most_features:
            raise ValueError(f"{chunk.name}: has {X.shape[1]} features, but n_features={self.most_features}")
        if not self.sparse and X.shape[1] != self.n_features:
            raise ValueError(f"{chunk.name}: has {X.shape[1]} features, the chunks before it have {self.n_features}")
        self.n_features = max(self.n_features, X.shape[1])
        if self.sparse and not sp.issparse(X):
            X = sp.csr_array(X)
        elif not self.sparse and sp.issparse(X):
            X = X.toarray()
        return chunk._replace(X=X.astype(self.dtype, copy=False))

    def codes(self, y: np.ndarray, name: str) -> np.ndarray:
        """Positions of labels in the list, which grows."""
        if not len(y):
            return np.zeros(0, np.int32)
        kind = {"i": "int", "u": "int", "f": "float", "b": "bool", "U": "str"}.get(y.dtype.kind)
        if kind is None and y.dtype.kind == "O" and all(isinstance(label, str) for label in y):
            kind, objects, y = "str", y, y.astype(str)
            if not np.array_equal(y, objects):
                raise ValueError(f"{name}: a label ends in the character NUL, which NumPy takes for padding")
        too_wide = kind == "float" and y.dtype.itemsize > 8
        if kind is None or too_wide or (y.dtype.kind == "u" and int(y.max()) > np.iinfo(np.int64).max):
            raise ValueError(f"{name}: labels must be whole numbers, numbers, booleans or strings, got {y.dtype}")
        if kind == "float" and not np.isfinite(y).all():
            raise ValueError(f"{name}: labels must be finite")
        if self.label_kind not in ("", kind):
            raise ValueError(f"{name}: labels are {kind}, those before are {self.label_kind}")
        self.label_kind = kind
        unique, inverse = np.unique(y, return_inverse=True)
        codes = [self.labels.setdefault(label, len(self.labels)) for label in unique.tolist()]
        return np.array(codes, np.int32)[inverse]

    def add(self, X: Any, codes: np.ndarray, weights: np.ndarray | None, at: tuple[list[int], int]) -> None:
        """Write a block, then the journal."""
        file = f"block-{len(self.entries):06d}"
        self.entries.append(write_block(self.folder, file, self.layout(), X, codes, weights))
        seen = np.bincount(codes, weights=weights, minlength=len(self.labels))
        before = np.array(self.label_weights + [0.0] * (len(self.labels) - len(self.label_weights)))
        self.label_weights = (before + seen).tolist()
        self.begin, self.skip = at
        self._write_journal()

    def _described(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "n_features": self.n_features,
            "sparse": self.sparse,
            "dtype": self.dtype.name,
            "weighted": self.weighted,
            "compressed": self.compress,
            "label_kind": self.label_kind,
            "labels": list(self.labels),
            "label_weights": self.label_weights,
            "rows": sum(entry.rows for entry in self.entries),
            "blocks": [entry._asdict() for entry in self.entries],
        }

    def _write_journal(self) -> None:
        more = {
            "signature": self.signature,
            "compress": self.compress,
            "most_features": self.most_features,
            "begin": self.begin,
            "skip": self.skip,
        }
        write_atomically(self.folder / JOURNAL, [json.dumps(self._described() | more).encode()])

    def finish(self, text_labels: bool, zero_based: bool) -> None:
        """Write the manifest; labels of text are integers if all of them are."""
        body = self._described() | ({"zero_based": True} if zero_based else {})
        if text_labels:
            body["labels"], body["label_kind"] = _as_integers(body["labels"], self.label_kind)
        write_atomically(self.folder / MANIFEST, [manifest_of(body)])
        sync_folder(self.folder)


def _as_integers(labels: list[Any], kind: str) -> tuple[list[Any], str]:
    if kind == "float" and all(label.is_integer() and abs(label) < _EXACT for label in labels):
        return [int(label) for label in labels], "int"
    if kind == "str" and all(_is_plain(label) for label in labels):
        return [int(label) for label in labels], "int"
    return labels, kind


def _is_plain(label: str) -> bool:
    """Whether text is a whole number, written as such."""
    return label.removeprefix("-").isdecimal() and len(label) < 18 and str(int(label)) == label


def _blocks(source: Source, state: _State, size: float) -> Iterator[tuple[Any, np.ndarray, Any, tuple[list[int], int]]]:
    """X, codes and weights of blocks of about so many bytes, and where in the source each one ends."""
    held: list[tuple[Any, np.ndarray, Any]] = []
    room, at = size, (state.begin, state.skip)
    written = state.skip  # rows from there on, which may come in other chunks than before
    for chunk in source.chunks(state.begin):
        chunk = state.fit(chunk)
        codes = state.codes(chunk.y, chunk.name)
        n_rows = chunk.X.shape[0]
        done = min(written, n_rows)
        written -= done
        while done < n_rows:
            end, taken = _fitting(chunk.X, done, room)
            held.append((chunk.X[done:end], codes[done:end], None if chunk.weight is None else chunk.weight[done:end]))
            done, room, at = end, room - taken, (chunk.begin, end)
            if room <= 0 or done < n_rows:
                yield *_joined(held, state.n_features), at
                held, room = [], size
    if held:
        yield *_joined(held, state.n_features), at


def _fitting(X: Any, begin: int, room: float) -> tuple[int, float]:
    """The end of the rows from ``begin`` on, at least one, that fit, and their bytes."""
    if sp.issparse(X):
        per_entry, per_row = X.dtype.itemsize + X.indices.itemsize, 4 + X.indptr.itemsize
        total = (X.indptr[begin:].astype(np.int64) - int(X.indptr[begin])) * per_entry
        total += np.arange(len(total)) * per_row
    else:
        total = np.arange(X.shape[0] - begin + 1) * (4 + X.shape[1] * X.dtype.itemsize)
    fitting = max(1, int(np.searchsorted(total, room, side="right")) - 1)
    return begin + fitting, float(total[fitting])


def _joined(held: list[tuple[Any, np.ndarray, Any]], n_features: int) -> tuple[Any, np.ndarray, Any]:
    Xs, codes, weights = zip(*held, strict=True)
    if sp.issparse(Xs[0]):
        X = sp.vstack([sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features)) for X in Xs], "csr")
    else:
        X = np.concatenate(Xs)
    return X, np.concatenate(codes), None if weights[0] is None else np.concatenate(weights)
