"""Rows as the papers' kernel machines get them: every feature in [-1, 1] by the training rows, where it has a scale."""

from __future__ import annotations

import functools

import numpy as np
import samples
from datasets import Data, folder, load_for_kernels


@functools.lru_cache(maxsize=2)
def scaled(name: str, rows: int | None = None) -> Data:
    """A set of the benchmarks, or ``bundled:<name>``; at most ``rows`` training rows, drawn at random."""
    data = _bundled(name) if ":" in name else load_for_kernels(name)
    if rows is None or rows >= len(data.y):
        return data
    chosen = np.sort(np.random.RandomState(0).permutation(len(data.y))[:rows])
    return Data(name, data.X[chosen], data.y[chosen], data.X_test, data.y_test)


def _bundled(name: str) -> Data:
    data = samples.with_test(name)
    low, high = data.X.min(axis=0), data.X.max(axis=0)
    span = np.where(high > low, high - low, np.inf)  # a constant feature becomes -1
    X, X_test = (2 * (M - low) / span - 1 for M in (data.X, data.X_test))
    return Data(name, X, data.y, X_test, data.y_test)


def required(size: str) -> None:
    """Refuses, with a FileNotFoundError, if this size needs data sets and there are none."""
    if size != "quick":
        folder()
