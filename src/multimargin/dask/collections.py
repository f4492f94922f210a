"""Dask's collections as lists of blocks of rows, each of which some worker holds or can compute."""

from __future__ import annotations

from typing import Any

import numpy as np
from dask import delayed
from dask.base import is_dask_collection
from dask.delayed import Delayed
from distributed import Future

from multimargin.dask.worker import prepared


def is_distributed(X: Any) -> bool:
    """Whether it is a collection of Dask's, or a list of delayed blocks or futures."""
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(isinstance(block, Delayed | Future) for block in X)
    return is_dask_collection(X)


def row_blocks(X: Any, name: str) -> list[Any]:
    """The blocks of rows of a Dask array, DataFrame or Series, or of a list of delayed ones."""
    if isinstance(X, list | tuple):
        for number, block in enumerate(X):
            if not isinstance(block, Delayed | Future):
                raise TypeError(
                    f"{name} must be a list of delayed blocks, got {type(block).__name__} as number {number}: "
                    "dask.delayed(block), or client.submit(...)"
                )
        return list(X)
    if hasattr(X, "to_delayed") and hasattr(X, "map_partitions"):  # a DataFrame or Series
        return list((_table(X) if name == "X" else _column(X, name)).to_delayed())
    if hasattr(X, "numblocks"):
        if X.ndim != (2 if name == "X" else 1):
            wanted = "rows and columns" if name == "X" else "one value a row"
            raise ValueError(f"{name} must have {wanted}, got an array of {X.ndim} dimensions")
        if X.ndim == 2 and X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        return X.to_delayed().ravel().tolist()
    raise TypeError(
        f"{name} must be a Dask array, DataFrame or Series, or a list of delayed blocks, got {type(X).__name__}"
    )


def _table(X: Any) -> Any:
    if X.ndim != 2:
        raise ValueError(f"X must have rows and columns, got a Series, {X.name!r}: X[[{X.name!r}]] is a DataFrame")
    return X


def _column(y: Any, name: str) -> Any:
    """A Series, also of a DataFrame that has but one column."""
    if y.ndim == 1:
        return y
    if len(y.columns) != 1:
        shown = ", ".join(map(repr, list(y.columns)[:5])) + (", ..." if len(y.columns) > 5 else "")
        raise ValueError(f"{name} must have one value a row, got a DataFrame with {len(y.columns)} columns: {shown}")
    return y[y.columns[0]]


def blocks_of(X: Any, y: Any, sample_weight: Any) -> list[Delayed]:
    """Blocks of rows with labels and weights, checked where they are."""
    if not is_distributed(X):
        raise TypeError(
            f"X must be a Dask array or DataFrame, or a list of delayed blocks, got {type(X).__name__}; for arrays in "
            "memory there is multimargin.LinearSVM"
        )
    with_y = blocks_beside(X, y, "y")
    with_weight = with_y if sample_weight is None else blocks_beside(X, sample_weight, "sample_weight")
    prepare = delayed(prepared, pure=True)
    return [
        prepare(rows, labels, None if sample_weight is None else weight, number)
        for number, ((rows, labels), (_, weight)) in enumerate(zip(with_y, with_weight, strict=True))
    ]


def blocks_beside(X: Any, other: Any, name: str) -> list[tuple[Any, Any]]:
    """Blocks of X, each with what belongs to its rows."""
    rows, others = row_blocks(X, "X"), row_blocks(other, name)
    if len(others) != len(rows):
        raise ValueError(
            f"X has {len(rows)} blocks of rows and {name} has {len(others)}: rechunk or repartition one like the other"
        )
    return list(zip(rows, others, strict=True))


def feature_names(X: Any) -> np.ndarray | None:
    """Columns of a DataFrame, if all are strings."""
    columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(column, str) for column in columns):
        return None
    return np.asarray(columns, dtype=object)
