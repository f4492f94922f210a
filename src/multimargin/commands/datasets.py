"""DATA of the command line, whatever its format."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from multimargin.commands.errors import CommandError, UsageError
from multimargin.commands.given_paths import is_there
from multimargin.commands.options import FORMATS
from multimargin.commands.stored_rows import is_store
from multimargin.data.tables import Columns, Wanted, column_names, listed, read_table, read_training_table, suffix_of

if TYPE_CHECKING:
    import numpy as np

_ZERO_BASED: dict[str, bool | Literal["auto"]] = {"auto": "auto", "yes": True, "no": False}


@dataclass
class Dataset:
    """Rows and, perhaps, labels."""

    path: str
    X: Any  # a matrix, or the frame of a table
    y: Any  # an array, or None
    columns: Columns | None = None  # of a table
    zero_based: bool | None = None  # of svmlight text that was trained on: whether indices start at 0

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    def take(self, rows: Any) -> Dataset:
        """Some of the rows."""
        X = self.X.iloc[rows] if self.columns is not None else self.X[rows]
        return Dataset(self.path, X, None if self.y is None else self.y[rows], self.columns, self.zero_based)


def read_training_data(args: Any, terminal: Any, *, plain: bool = False) -> Dataset:
    """DATA with labels, to train on; plain: svmlight text need not become a matrix of SciPy."""
    path = args.data
    kind = format_of(path, args.format)
    terminal.status(f"reading {path}", now=True)
    if kind in ("csv", "tsv", "parquet"):
        if args.label is None:
            there = listed(column_names(path, kind))
            raise UsageError(f"{path}: which column holds the labels? Say --label COL; the file has {there}")
        if args.ngrams[0] > args.ngrams[1]:
            raise UsageError(f"--ngrams {args.ngrams[0]} {args.ngrams[1]}: MIN is above MAX")
        X, y, columns = read_training_table(path, args.label, wanted_of(args), kind)
        note_fractions(y, args.label, path, terminal)
        return Dataset(path, X, y, columns)
    _check_no_columns(args, ("label", "text", "numeric", "categorical", "drop"), path, kind)
    zero_based = None
    if kind == "svmlight":
        X, y, zero_based = _read_svmlight_and_base(path, args.n_features, _ZERO_BASED[args.zero_based])
        X = X if plain else X.to_scipy()
    else:
        X, y = _read_matrix(path, kind, args.n_features, "auto")
    if y is None:
        raise CommandError(f"{path}: has no labels (array y)")
    if not X.shape[0]:
        raise CommandError(f"{path}: has no rows")
    if not X.shape[1]:
        raise CommandError(f"{path}: has no features")
    return Dataset(path, X, y, zero_based=zero_based)


def wanted_of(args: Any) -> Wanted:
    """What the options say about columns."""
    return Wanted(*(tuple(getattr(args, name)) for name in ("text", "numeric", "categorical", "drop")))


def note_fractions(y: np.ndarray, label: str, path: str, terminal: Any) -> None:
    """Labels of a table are names; but those that are decimals may be meant as numbers."""
    import numpy as np

    names = np.unique(y)
    try:
        numbers = names.astype(np.float64)
    except ValueError:
        return
    if (np.isfinite(numbers) & (numbers != np.trunc(numbers))).any():
        terminal.note(
            f"{path}: labels in column {label!r} are numbers with decimals: each of the {len(names)} is a class of its "
            "own (for regression: sklearn.svm.LinearSVR)"
        )


def based_as(model: Any, args: Any) -> bool | Literal["auto"]:
    """Whether indices of svmlight text for a model start at 0: as the options say, else as in the text of training."""
    first = getattr(model, "first_index_", None)
    return _ZERO_BASED[args.zero_based] if args.zero_based != "auto" or first is None else first == 0


def read_more_data(
    path: str,
    args: Any,
    terminal: Any,
    *,
    columns: Columns | None,
    n_features: int | None,
    kind: str | None = None,
    zero_based: bool | Literal["auto"] | None = None,
) -> Dataset:
    """DATA for a model: a table with the ``columns`` that it needs, or a matrix of ``n_features`` columns.

    ``zero_based`` is how the training rows were read, where that is known; else it is as the options say.
    """
    kind = format_of(path, kind)
    terminal.status(f"reading {path}", now=True)
    if kind in ("csv", "tsv", "parquet"):
        if columns is None:
            raise CommandError(f"{path}: is a table; the model was trained on a matrix (svmlight, .npz)")
        X, y = _read_table(path, kind, columns, args)
        if not len(X):
            raise CommandError(f"{path}: has no rows")
        return Dataset(path, X, y, columns)
    if columns is not None and columns.one_text:
        raise CommandError(
            f"{path}: is a matrix; the model begins with a {columns.one_text}: it needs a table with text"
        )
    if columns is not None:
        names = ", ".join(map(repr, columns.names[:6])) + (", ..." if len(columns.names) > 6 else "")
        raise CommandError(f"{path}: is a matrix; the model was trained on a table with columns {names}")
    _check_no_columns(args, ("label", "text"), path, kind)
    try:
        X, y = _read_matrix(path, kind, n_features, _ZERO_BASED[args.zero_based] if zero_based is None else zero_based)
    except ValueError as error:
        room = f"the model has {n_features}; train it with --n-features to make room for more"
        raise CommandError(str(error).replace(f"n_features={n_features}", room)) from None
    if not X.shape[0]:
        raise CommandError(f"{path}: has no rows")
    if n_features is not None and X.shape[1] != n_features:
        raise CommandError(f"{path}: has {X.shape[1]} features, the model has {n_features}")
    return Dataset(path, X, y)


def _read_table(path: str, kind: str, columns: Columns, args: Any) -> tuple[Any, Any]:
    """The columns of a model; of one that begins with a vectorizer, the text alone."""
    named = args.text or []
    if not columns.one_text:
        if named and set(named) != set(columns.text):  # train --valid names them again
            raise UsageError("--text is for models that begin with a vectorizer; this one knows its columns by name")
        return read_table(path, columns, args.label, kind)
    if len(named) != 1:
        raise UsageError(
            f"{path}: the model begins with a {columns.one_text}; which column holds the text? Say --text COL, once"
        )
    frame, y = read_table(path, Columns(text=tuple(named)), args.label, kind)
    return frame[named[0]], y


def format_beside(path: str, other: str, said: str | None) -> str | None:
    """What ``--format`` says about a second file: nothing, if that has a suffix of its own that is a format."""
    suffix = suffix_of(path)
    return None if suffix.removeprefix(".") in FORMATS and suffix != suffix_of(other) else said


def _check_no_columns(args: Any, options: tuple[str, ...], path: str, kind: str) -> None:
    for option in options:
        if getattr(args, option):
            raise UsageError(f"--{option} is for tables (.csv, .tsv, .parquet); {path} is read as {kind}")


def format_of(path: str, said: str | None) -> str:
    """How a file is to be read: as it was said, else by its suffix; text that says nothing is svmlight."""
    if path.startswith("@"):
        return "bundled"
    if not is_there(path):
        raise CommandError(f"{path}: there is no such file")
    if is_store(path):
        raise CommandError(
            f"{path}: is a store of blocks, which only train reads, and predict with a model of a matrix; give the "
            "file that it was written from"
        )
    if os.path.isdir(path):
        raise CommandError(f"{path}: is a folder, not a file")
    if said is not None:
        return said
    suffix = suffix_of(path).removeprefix(".")
    return suffix if suffix in FORMATS else "svmlight"


def _read_matrix(path: str, kind: str, n_features: int | None, zero_based: bool | Literal["auto"]) -> tuple[Any, Any]:
    if kind == "bundled":
        from multimargin.data.bundled import load_bundled

        return load_bundled(path.removeprefix("@"))
    if kind == "npz":
        from multimargin.data.npz import read_npz

        X, y = read_npz(path)
        return X, _whole_labels(y, path) if y is not None and y.dtype.kind == "f" else y
    from multimargin.data.svmlight import read_svmlight

    X, y = read_svmlight(path, n_features=n_features, zero_based=zero_based, n_jobs=-1)
    return X, _whole_labels(y, path)


def _read_svmlight_and_base(
    path: str, n_features: int | None, zero_based: bool | Literal["auto"]
) -> tuple[Any, Any, bool]:
    """Rows, labels, and whether indices start at 0, which the reader finds but does not tell."""
    from multimargin.data.svmlight import SvmlightFormatError, read_svmlight_rows

    tries: tuple[bool | Literal["auto"], ...] = (zero_based,)
    source: Any = path
    if zero_based == "auto":
        tries = (False, "auto")  # that the first is refused and the second is not, is due to a 0
        if not os.path.isfile(path):
            source = _Content(path)  # a pipe cannot be read twice
    for base in tries:
        try:
            X, y = read_svmlight_rows(source, n_features=n_features, zero_based=base, n_jobs=-1)
        except SvmlightFormatError:
            if base == tries[-1]:
                raise
            if source is not path:
                source.seek(0)
        else:
            break
    return X, _whole_labels(y, path), base is not False


class _Content(io.BytesIO):
    """The bytes of a file, under its name."""

    def __init__(self, path: str):
        from multimargin.data.file_bytes import read_bytes

        super().__init__(read_bytes(path))
        self.name = path


def _whole_labels(y: np.ndarray, path: str) -> np.ndarray:
    """Labels that are decimals as the integers that they are: 3, not 3.0."""
    import numpy as np

    bad = np.flatnonzero(~(np.abs(y) < 2**53) | (y != np.trunc(y)))
    if len(bad):
        raise CommandError(
            f"{path}: row {bad[0] + 1}: the label is {y[bad[0]]:g}; classes must be whole numbers "
            "(for regression: sklearn.svm.LinearSVR)"
        )
    return y.astype(np.int64)
