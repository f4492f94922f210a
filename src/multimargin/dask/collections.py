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
        return list(X)
    if hasattr(X, "to_delayed") and hasattr(X, "map_partitions"):  # a DataFrame or Series
        return list(X.to_delayed())
    if hasattr(X, "numblocks"):
        if X.ndim == 2 and X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        return X.to_delayed().ravel().tolist()
    raise TypeError(
        f"{name} must be a Dask array, DataFrame or Series, or a list of delayed blocks, got {type(X).__name__}"
    )


def blocks_of(X: Any, y: Any, sample_weight: Any) -> list[Delayed]:
    """Blocks of rows with labels and weights, checked where they are."""
    if not is_distributed(X):
        raise TypeError(
            f"X must be a Dask array or DataFrame, or a list of delayed blocks, got {type(X).__name__}; for arrays in "
            "memory there is multimargin.LinearSVM"
        )
    of_X, of_y = row_blocks(X, "X"), row_blocks(y, "y")
    of_weight = [None] * len(of_X) if sample_weight is None else row_blocks(sample_weight, "sample_weight")
    for name, blocks in (("y", of_y), ("sample_weight", of_weight)):
        if len(blocks) != len(of_X):
            raise ValueError(
                f"X has {len(of_X)} blocks of rows and {name} has {len(blocks)}: rechunk or repartition one like the "
                "other"
            )
    prepare = delayed(prepared, pure=True)
    return [prepare(*rows, number) for number, rows in enumerate(zip(of_X, of_y, of_weight, strict=True))]


def feature_names(X: Any) -> np.ndarray | None:
    """Columns of a DataFrame, if all are strings."""
    columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(column, str) for column in columns):
        return None
    return np.asarray(columns, dtype=object)
