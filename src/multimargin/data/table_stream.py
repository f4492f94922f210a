"""Tables of numbers, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from multimargin.data.tables import (
    TableError,
    check_there,
    import_pandas,
    numbers_in,
    suffix_of,
    table_errors,
    text_in,
)


def stream_table(path, label: str, n_rows: int) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """The number of the first row, the features, and the labels as text, of so many rows at a time.

    All columns but the label are features, in their order; they must hold numbers.
    """
    done = 0
    for frame in _frames(path, label, n_rows):
        check_there(path, frame, (label,), "the file")
        names = [name for name in frame.columns if name != label]
        if not names:
            raise TableError(f"{path}: has no column for features besides {label!r}")
        X = np.column_stack([numbers_in(import_pandas(), path, frame[name], done) for name in names])
        gone = np.argwhere(np.isnan(X))
        if len(gone):
            row, column = gone[0]
            raise TableError(f"{path}: row {done + row + 1}: column {names[column]!r} holds no number")
        y = text_in(frame[label]).astype(str)
        if (y == "").any():
            raise TableError(f"{path}: row {done + int((y == '').argmax()) + 1}: column {label!r} holds no label")
        yield done, X, y
        done += len(frame)


def _frames(path, label: str, n_rows: int) -> Iterator[Any]:
    pandas, kind = import_pandas(), suffix_of(path).removeprefix(".")
    with table_errors(pandas, path):
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
    options: dict[str, Any] = dict(dtype={label: str}, keep_default_na=False, na_values=[""], index_col=False)
    frames = pandas.read_csv(path, sep="\t" if kind == "tsv" else ",", chunksize=n_rows, **options)
    return frames, frames.close


def _parquet(path, n_rows: int) -> tuple[Any, Any]:
    from pyarrow.parquet import ParquetFile

    file = ParquetFile(path)
    return (batch.to_pandas() for batch in file.iter_batches(n_rows)), file.close
