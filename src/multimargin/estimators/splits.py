"""What a search is given by others, splitters and scorers, checked: folds of rows, and scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from numbers import Number
from reprlib import repr as shortened
from typing import Any

import numpy as np


def checked_folds(cv: Any, folds: list[Any], n_rows: int, weights: np.ndarray | None) -> list[Any]:
    """Rows to learn from and rows held out, of every fold; refused if they are none of these rows, or none at all."""
    if not folds:
        raise ValueError(f"cv={shortened(cv)} has no folds")
    for number, (train, test) in enumerate(folds):
        for rows, does in ((train, "trains on"), (test, "holds out")):
            wrong = _why_not_rows(np.asarray(rows), n_rows)
            if wrong:
                raise ValueError(f"cv={shortened(cv)}: what fold {number} {does} {wrong}")
        if weights is not None and not weights[train].any():
            raise ValueError(
                f"sample_weight is zero for all rows that fold {number} trains on: choose other folds by cv"
            )
    return folds


def _why_not_rows(rows: np.ndarray, n_rows: int) -> str:
    """Why these are not some of the rows, by number or as a mask; empty if they are."""
    numbers = f"numbers of rows from 0 to {n_rows - 1}, or a mask of {n_rows}"
    if rows.ndim == 1 and (not len(rows) or (rows.dtype.kind == "b" and not rows.any())):
        return "is no row at all: choose other folds, or fewer of them"
    if rows.ndim != 1 or rows.dtype.kind not in "biu":
        return f"must be {numbers}, got an array of {rows.dtype} of shape {rows.shape}"
    if rows.dtype.kind == "b":
        return "" if len(rows) == n_rows else f"must be {numbers}, got a mask of {len(rows)}"
    outside = rows[(rows < -n_rows) | (rows >= n_rows)]
    return f"must be {numbers}, got {outside[0]}" if len(outside) else ""


def weights_of_part(class_weight: Any, labels: np.ndarray) -> Any:
    """Weights of classes for a machine of some of the rows: of the classes that those have."""
    if not isinstance(class_weight, Mapping):
        return class_weight
    there = set(labels.tolist())
    return {label: factor for label, factor in class_weight.items() if label in there}


@contextmanager
def naming_fold(fold: int, C: float) -> Iterator[None]:
    """Around what a fold trains and scores: what is refused there is nobody's whole data."""
    try:
        yield
    except ValueError as error:
        if type(error) is not ValueError:  # a checkpoint's, say, which has a name
            raise
        raise ValueError(f"fold {fold}, C={C:g}: {error}") from error


def checked_score(score: Any, scoring: Any) -> float:
    """A number, finite or not, that a scorer gave."""
    with suppress(AttributeError, ValueError):  # as scikit-learn takes arrays of one number
        score = score.item()
    if not isinstance(score, Number) or isinstance(score, complex):
        raise ValueError(f"scoring={scoring!r} must give a number, got {shortened(score)}, of {type(score).__name__}")
    try:
        return float(score)  # type: ignore[arg-type]
    except OverflowError:
        raise ValueError(f"scoring={scoring!r} gave a number that float64 has no room for") from None
