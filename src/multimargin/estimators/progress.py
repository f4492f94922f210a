"""One line on stderr that says how far a fit, or a search, has come."""

from __future__ import annotations

import sys
import time
from math import ceil
from threading import Lock
from typing import Any, Self

import numpy as np

from multimargin.linear.machine import Machine
from multimargin.linear.outcome import Epoch

_PLAIN_EVERY = 2.0  # seconds between lines when stderr is no terminal or rich is missing


class _Line:
    """A live line (rich, on a terminal), else plain lines: those that are due, now and then another, and the last."""

    def __init__(self) -> None:
        self.live: Any = None
        self.last_line = time.perf_counter()
        self.line = ""  # not said yet

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            try:
                from rich.console import Console
                from rich.live import Live
            except ImportError:
                return self
            self.live = Live(console=Console(stderr=True), refresh_per_second=8, transient=False)
            self.live.__enter__()
        return self

    def __exit__(self, *exception) -> None:
        if self.live is not None:
            self.live.__exit__(*exception)
        elif self.line:  # the last word, if it was not said yet
            print(self.line, file=sys.stderr, flush=True)

    def show(self, line: str, due: bool) -> None:
        """Say how far it has come."""
        if self.live is not None:
            self.live.update(line)
            return
        self.line = line
        if time.perf_counter() - self.last_line >= _PLAIN_EVERY or due:
            self.last_line = time.perf_counter()
            print(line, file=sys.stderr, flush=True)
            self.line = ""


class Progress(_Line):
    """An observer of epochs."""

    def __init__(self, max_iter: int):
        super().__init__()
        self.max_iter = max_iter
        self.gap = float("nan")

    def __call__(self, epoch: Epoch, machine: Machine) -> None:
        record = epoch.record
        if record.estimate == record.estimate:
            self.gap = record.estimate
        certified = record.gap == record.gap
        if certified:
            self.gap = record.gap
        line = (  # epochs as max_iter counts them: a shrunk pass is a part of one
            f"epoch {min(ceil(machine.epochs), self.max_iter):>4}  gap {'=' if certified else '~'} {self.gap:8.2e}  "
            f"active rows {record.active_rows:>8}  {epoch.seconds:7.1f} s"
        )
        if epoch.machine:
            line = f"machine {epoch.machine + 1:>4}  " + line
        self.show(line, certified)


class SearchProgress(_Line):
    """A line a fit of a search, which threads may share; silent unless it is wanted.

    Parameters
    ----------
    told : ndarray of shape (n_folds, 3, n_values)
        Score, gap and epochs of every fit, NaN where there was none yet.
    """

    def __init__(self, told: np.ndarray, values: np.ndarray, verbose: bool):
        super().__init__()
        self.told, self.values, self.verbose = told, values, verbose
        self.started, self.lock = time.perf_counter(), Lock()

    def __enter__(self) -> Self:
        return super().__enter__() if self.verbose else self

    def finished(self, fold: int, number: int) -> None:
        """A fit has been told."""
        if not self.verbose:
            return
        folds, _, values = self.told.shape
        score, gap, _ = self.told[fold, :, number]
        with self.lock:
            fits = folds * values - int(np.isnan(self.told[:, 2]).sum())
            self.show(
                f"fit {fits:>4} of {folds * values}  fold {fold + 1:>3}  C = {self.values[number]:<9.4g} "
                f"score {score:<9.6g} gap = {gap:8.2e}  {time.perf_counter() - self.started:7.1f} s",
                due=True,
            )
