"""Tables of numbers, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from multimargin.data.file_bytes import buffered, opened_bytes
from multimargin.data.table_lines import TableError, check_lines
from multimargin.data.tables import (
    Wanted,
    check_header,
    check_there,
    import_pandas,
    is_numeric,
    numbers_in,
    read_text,
    suffix_of,
    table_errors,
    text_in,
)


class Features(NamedTuple):
    """The columns that are features, in their order, and the file that they were found in."""

    path: Any
    names: list[str]


class Piece(NamedTuple):
    """Some rows of a table."""

    row: int  # the number of the first one
    X: np.ndarray
    y: np.ndarray  # the labels as text
    features: Features


def stream_table(
    path, label: str, n_rows: int, features: Features | None = None, wanted: Wanted | None = None
) -> Iterator[Piece]:
    """So many rows at a time.

    All columns but the label are features; they must hold numbers. Those of another table that comes before this one
    decide the order, so that a feature is the same column of X in all of them. With ``wanted`` some are left out, and
    the others are such as :func:`~multimargin.data.tables.read_training_table` takes for numbers, or are refused.
    """
    done = 0
    for frame in _frames(path, label, n_rows):
        found = _features_in(path, frame, label, wanted or Wanted())
        features = features or found
        _check_same(found, features)
        names = features.names
        if wanted is not None:
            _check_numeric(path, frame, set(names) - set(wanted.numeric))
        X = np.column_stack([numbers_in(import_pandas(), path, frame[name], done) for name in names])
        gone = np.argwhere(np.isnan(X))
        if len(gone):
            row, column = gone[0]
            raise TableError(f"{path}: row {done + row + 1}: column {names[column]!r} holds no number")
        y = text_in(import_pandas(), path, frame[label], done).astype(str)
        if (y == "").any():
            raise TableError(f"{path}: row {done + int((y == '').argmax()) + 1}: column {label!r} holds no label")
        yield Piece(done, X, y, features)
        done += len(frame)


def features_of(path, label: str) -> Features:
    """The features of a table, from its header."""
    pandas, kind = import_pandas(), suffix_of(path).removeprefix(".")
    with table_errors(pandas, path):
        if kind == "parquet":
            frames, close = _parquet(path, 1, header=True)
        else:
            frames, close = _text(pandas, path, kind, label, 1)
        try:
            frame = next(frames)
        finally:
            close()
    return _features_in(path, frame, label)


def _features_in(path, frame: Any, label: str, wanted: Wanted = Wanted()) -> Features:  # noqa: B008 (immutable)
    check_there(path, frame, (label, *wanted.numeric, *wanted.drop), "the file")
    names = [name for name in frame.columns if name != label and name not in wanted.drop]
    if not names:
        raise TableError(f"{path}: has no column for features besides {label!r}")
    return Features(path, names)


def _check_numeric(path, frame: Any, names: set[str]) -> None:
    for name in frame.columns:
        if name in names and not is_numeric(import_pandas(), frame[name]):
            raise TableError(f"{path}: column {name!r} holds more than numbers")


def _check_same(found: Features, wanted: Features) -> None:
    """Whether the columns are the same, in whatever order."""
    there, asked = set(found.names), set(wanted.names)
    for name in wanted.names:
        if name not in there:
            raise TableError(f"{found.path}: there is no column {name!r}, which {wanted.path} has; {_ALIKE}")
    for name in found.names:
        if name not in asked:
            raise TableError(f"{found.path}: has a column {name!r}, which {wanted.path} has not; {_ALIKE}")


_ALIKE = "tables of one store must have the same columns, in any order"


def _frames(path, label: str, n_rows: int) -> Iterator[Any]:
    pandas, kind = import_pandas(), suffix_of(path).removeprefix(".")
    with table_errors(pandas, path):
        if kind != "parquet":
            check_lines(path, kind)
        frames, close = _parquet(path, n_rows) if kind == "parquet" else _text(pandas, path, kind, label, n_rows)
    try:
        while True:
            with table_errors(pandas, path):
                frame = next(frames, None)
            if frame is None:
                return
            yield frame
    finally:
        close()


def _text(pandas: Any, path, kind: str, label: str, n_rows: int) -> tuple[Any, Any]:
    with opened_bytes(path) as file:
        check_header(pandas, path, buffered(file), kind)
    options: dict[str, Any] = dict(dtype={label: str}, keep_default_na=False, na_values=[""], chunksize=n_rows)
    held = ExitStack()
    with held:
        file = buffered(held.enter_context(opened_bytes(path)))
        frames = held.enter_context(read_text(pandas, file, kind, **options))
        return frames, held.pop_all().close


def _parquet(path, n_rows: int, header: bool = False) -> tuple[Any, Any]:
    from pyarrow.parquet import ParquetFile

    check_header(import_pandas(), path, path, "parquet")
    file = ParquetFile(path)
    parts = [file.schema_arrow.empty_table()] if header else file.iter_batches(n_rows)
    return (_named(part.to_pandas()) for part in parts), file.close


def _named(frame: Any) -> Any:
    """With text for names, as other tables have it."""
    frame.columns = [str(name) for name in frame.columns]
    return frame
