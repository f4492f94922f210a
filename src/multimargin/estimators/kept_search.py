"""A search for C, fold by fold, and the file from which it goes on.

The file holds what the finished fits told and, of every fold, the duals that its next fit starts from. A fit that is
under way has a file of its own (linear/checkpoint.py), named after this one. Where the search's was not written in
time, such a file is ahead of it, and goes: fits before it come again, and one that a clock ended comes to another end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from multimargin.data.csr import Csr
from multimargin.data.rows import check_csr
from multimargin.linear.checkpoint import FilesBeside, StateFile
from multimargin.linear.interrupts import deferred_interrupt
from multimargin.linear.state import State, part, prefixed
from multimargin.linear.training import check_start

_DUALS = ("data", "indices", "indptr")


class Search:
    """What the fits of all folds told.

    Attributes
    ----------
    told : ndarray of shape (n_folds, 3, n_values)
        Score, gap and epochs for every C; NaN where there was no fit yet.
    converged : ndarray of bool, of shape (n_folds, n_values)
    """

    def __init__(self, n_folds: int, n_values: int):
        self.told = np.full((n_folds, 3, n_values), np.nan)
        self.converged = np.zeros((n_folds, n_values), bool)

    def begin(self, fold: int, model: Any, values: np.ndarray, X: Any, y: np.ndarray, weight: np.ndarray | None) -> int:
        """The number of the first C that there was no fit for; the model has the duals to start from."""
        return 0

    def fit_file(self, fold: int, number: int) -> Path | None:
        """The checkpoint of a fit."""
        return None

    def finish(self, fold: int, number: int, model: Any, told: tuple[float, float, int]) -> None:
        """A fit has come to its end."""
        self.told[fold, :, number] = told
        self.converged[fold, number] = model.converged_

    def save(self) -> None:
        """The search has come to its end, or is stopped."""


class KeptSearch(Search, FilesBeside):
    """A search that goes on from its file."""

    def __init__(self, n_folds: int, n_values: int, file: StateFile):
        super().__init__(n_folds, n_values)
        self.file = file
        self._finished = np.zeros(n_folds, np.int64)  # values of C,
        self._starts: dict[int, State] = {}  # and the duals of the last of them
        self._saved = True
        self._lock = Lock()
        if file.state is not None:
            with file.restoring():
                self._set_state(file.state)
            self._remove_fits(but={self._path_of(fold, number) for fold, number in enumerate(self._finished.tolist())})
        else:  # a file from the beginning, so that another search is refused as such, not for the file of a fit
            self._write()
            self._remove_fits()
            _remove(refit_file(file.path))

    def begin(self, fold: int, model: Any, values: np.ndarray, X: Any, y: np.ndarray, weight: np.ndarray | None) -> int:
        first = int(self._finished[fold])
        if 0 < first < len(values):
            model.set_params(C=values[first - 1])
            with self.file.restoring():
                _set_start(model, self._starts[fold], X, y, np.ones(len(y)) if weight is None else weight)
        return first

    def fit_file(self, fold: int, number: int) -> Path | None:
        return self._path_of(fold, number) if self.has_folder() else None

    def has_folder(self) -> bool:
        """Whether it is still there, or there again. That it is not is no reason to lose a search; the state's file
        warns of it."""
        return self.file.path.parent.is_dir()

    def _path_of(self, fold: int, number: int) -> Path:
        return self.file.path.with_name(f"{self.file.path.name}.fold{fold}.C{number}")

    def finish(self, fold: int, number: int, model: Any, told: tuple[float, float, int]) -> None:
        with deferred_interrupt(), self._lock:
            super().finish(fold, number, model, told)
            self._starts[fold] = {name: getattr(model.dual_coef_, name) for name in _DUALS}
            self._finished[fold], self._saved = number + 1, False
            _remove(self._path_of(fold, number))  # which is there if a limit ended the fit
            if self.file.due():
                self._write()

    def save(self) -> None:
        with deferred_interrupt(), self._lock:
            if not self._saved:
                self._write()

    def state_is_removed(self) -> None:
        """That of the last fit: there is nothing left to do."""
        if self.file.is_ours():
            self._remove_fits()
        self.file.remove()

    def complain(self) -> None:
        self.file.complain()

    def _remove_fits(self, but: Container[Path] = ()) -> None:
        """Files of fits, also of an earlier search."""
        of_a_fit = re.compile(re.escape(self.file.path.name) + r"\.fold\d+\.C\d+")
        with suppress(OSError):  # the folder may have gone away
            for path in self.file.path.parent.iterdir():
                if of_a_fit.fullmatch(path.name) and path not in but:
                    _remove(path)

    def _write(self) -> None:
        state = {"finished": self._finished.copy(), "told": self.told.ravel(), "converged": self.converged.ravel()}
        for fold, duals in self._starts.items():
            if self._finished[fold] < self.told.shape[2]:
                state |= prefixed(f"fold{fold}", duals)
        self.file.write(state)
        self._saved = True

    def _set_state(self, state: State) -> None:
        finished, told = state["finished"], state["told"]
        folds, _, values = self.told.shape
        if finished.dtype != np.int64 or finished.shape != (folds,) or finished.min() < 0 or finished.max() > values:
            raise ValueError(f"there are no such fits: {folds} folds have {values} each")
        if told.dtype != np.float64 or told.size != self.told.size:
            raise ValueError("every fit must have a score, a gap and epochs")
        # Files of earlier versions do not say which fits converged.
        converged = state.get("converged", np.ones(folds * values, bool))
        if converged.dtype != bool or converged.size != folds * values:
            raise ValueError("of every fit it must be said whether it converged")
        told = told.reshape(self.told.shape)
        for fold, count in enumerate(finished.tolist()):
            gaps_and_epochs = told[fold, 1:, :count]
            if not (np.isfinite(gaps_and_epochs) & (gaps_and_epochs >= 0)).all():
                raise ValueError("gaps and epochs must be finite and not negative")
            if 0 < count < values:
                self._starts[fold] = part(state, f"fold{fold}")
        self.told, self._finished = told.copy(), finished.copy()
        self.converged = converged.reshape(self.converged.shape).copy()


def refit_file(path: str | os.PathLike) -> Path:
    """The checkpoint of the last fit of a search, on all rows."""
    return Path(f"{os.fspath(path)}.refit")


def _set_start(model: Any, duals: State, X: Any, y: np.ndarray, weight: np.ndarray) -> None:
    """Let a model be as if it had just been fitted, for the next fit to start from its duals."""
    model.classes_, encoded = model._encoded(y)
    found = Csr(duals["data"], duals["indices"], duals["indptr"], (len(y), model._n_lanes()))
    check_csr(found)
    model.dual_coef_ = found.to_scipy()
    model._dual_caps, model._dual_labels = model._caps(encoded, weight), encoded
    model._dual_problem = (model.formulation, model.loss, found.shape)
    request = model._request(X, encoded, model._dual_caps, weight)
    request.start_duals = model.dual_coef_
    check_start(request)


def _remove(path: Path) -> None:
    with suppress(OSError):  # one that stays is refused, or removed by the next search
        path.unlink()
