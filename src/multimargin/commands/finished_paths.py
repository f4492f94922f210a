"""Paths of a search (search.py) that came to their end, in a file from which the search goes on.

A path is a fold, a gamma and its values of C, each fit from the duals of the last one. Paths know nothing of each
other; so those in the file need not be walked again, and the others, walked from their beginning, have the same scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np

from multimargin.linear.checkpoint import StateFile
from multimargin.linear.interrupts import deferred_interrupt


class Path(NamedTuple):
    """Which one: exponents of two, in ascending order, and that of a kernel's gamma."""

    fold: int
    gamma: float | None
    Cs: tuple[float, ...]


class Told(NamedTuple):
    """What a fit told."""

    accuracy: float
    converged: bool


class FinishedPaths:
    """What the fits of finished paths told.

    Parameters
    ----------
    file : StateFile or None
        Where they are kept; None: nowhere.
    """

    def __init__(self, file: StateFile | None):
        self._file = file
        self._told: dict[Path, list[Told]] = {}
        self._saved = True
        self._lock = Lock()  # paths are walked by several threads
        if file is not None and file.state is not None:
            with file.restoring():
                self._told = dict(_path(array) for array in file.state.values())

    def told(self, path: Path) -> list[Told] | None:
        """Of every C; None if the path is still to be walked."""
        return self._told.get(path)

    def finish(self, path: Path, told: Sequence[Told]) -> None:
        """A path was walked to its end."""
        with deferred_interrupt(), self._lock:
            self._told[path], self._saved = list(told), False
            if self._file is not None and self._file.due():
                self._write()

    def save(self) -> None:
        """The search is stopped."""
        with deferred_interrupt(), self._lock:
            if not self._saved:
                self._write()

    def remove(self) -> None:
        """The search has come to its end."""
        if self._file is not None:
            self._file.remove()

    def _write(self) -> None:
        if self._file is not None:
            self._file.write({f"path{i}": _array(*item) for i, item in enumerate(self._told.items())})
        self._saved = True


def _array(path: Path, told: list[Told]) -> np.ndarray:
    """Fold and gamma, then C, accuracy and whether it converged."""
    gamma = np.nan if path.gamma is None else path.gamma
    fits = ((C, *each) for C, each in zip(path.Cs, told, strict=True))
    return np.array([path.fold, gamma, *(value for fit in fits for value in fit)], dtype=np.float64)


def _path(array: np.ndarray) -> tuple[Path, list[Told]]:
    (fold, gamma), fits = array[:2].tolist(), array[2:].reshape(-1, 3)
    if array.dtype != np.float64 or not len(fits) or not np.isfinite(fits).all():
        raise ValueError("a path must have values of C with their scores")
    if ((fits[:, 1] < 0) | (fits[:, 1] > 1)).any() or not np.isin(fits[:, 2], (0, 1)).all():
        raise ValueError("accuracies must be from 0 to 1")
    path = Path(int(fold), None if np.isnan(gamma) else gamma, tuple(fits[:, 0].tolist()))
    return path, [Told(accuracy, bool(converged)) for _, accuracy, converged in fits.tolist()]
