"""Tables of numbers that memory does not hold: they are read twice, some rows at a time.

The first time shows that all columns are numbers, none of them missing, and teaches their means and deviations; by
these they are scaled the second time, as in memory. A median takes all rows at once: where a table to be predicted has
missing values, they are the mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from multimargin.data.table_features import transformer
from multimargin.data.table_lines import TableError
from multimargin.data.table_stream import Piece, features_of, stream_table
from multimargin.data.tables import Columns, Wanted, import_pandas, labels_in

_ROWS = 20_000  # at a time, ...
_SHARE = 64  # ... or as many as are this part of the memory


@dataclass
class StreamedTable:
    """A table, and what was learnt of it."""

    path: str
    label: str
    wanted: Wanted
    n_rows: int  # at a time
    transformer: Any  # fitted
    labels: np.ndarray  # that occur

    def chunks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Scaled features and labels, for :func:`~multimargin.data.blocks.write_blocks`."""
        scaler = _numeric_steps(self.transformer)["scale"]
        for piece in stream_table(self.path, self.label, self.n_rows, wanted=self.wanted):
            yield scaler.transform(piece.X), piece.y.astype(self.labels.dtype)


def learn_table(path: str, label: str, wanted: Wanted, memory_mb: float) -> StreamedTable:
    """Read a table once.

    Raises
    ------
    TableError
        If it cannot be trained so, and why.
    """
    from sklearn.preprocessing import StandardScaler

    n_columns = len(features_of(path, label).names)
    n_rows = max(1, min(_ROWS, int(memory_mb * 2**20 / (_SHARE * 8 * n_columns))))
    scaler, found, last = StandardScaler(), set(), None
    for piece in stream_table(path, label, n_rows, wanted=wanted):
        scaler.partial_fit(piece.X)
        found.update(np.unique(piece.y).tolist())
        last = piece
    if last is None:
        raise TableError(f"{path}: has no rows")
    labels = labels_in(path, import_pandas().Series(sorted(found), dtype=object), label)
    return StreamedTable(path, label, wanted, n_rows, _fitted(last, scaler), labels)


def _fitted(piece: Piece, scaler: Any) -> Any:
    """The transformer of a frame with these columns, as if it had learnt from all rows."""
    names = piece.features.names
    made = transformer(Columns(numeric=tuple(names)), missing="mean")
    made.fit(import_pandas().DataFrame(piece.X, columns=names))
    steps = _numeric_steps(made)
    steps["impute"].statistics_ = scaler.mean_.copy()
    vars(steps["scale"]).update(vars(scaler))
    return made


def _numeric_steps(made: Any) -> Any:
    return made.named_transformers_["numeric"].named_steps
