"""One line on stderr that says how far a fit has come."""

from __future__ import annotations

import sys
import time
from math import ceil
from typing import Any

from multimargin.linear.loop import Epoch
from multimargin.linear.machine import Machine

_PLAIN_EVERY = 2.0  # seconds between lines when stderr is no terminal or rich is missing


class Progress:
    """An observer of epochs: a live line (rich, on a terminal), else a plain line now and then."""

    def __init__(self, max_iter: int):
        self.max_iter = max_iter
        self.live: Any = None
        self.last_line = time.perf_counter()
        self.gap = float("nan")
        self.line = ""  # not said yet

    def __enter__(self) -> Progress:
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
        if self.live is not None:
            self.live.update(line)
            return
        self.line = line
        if time.perf_counter() - self.last_line >= _PLAIN_EVERY or certified:
            self.last_line = time.perf_counter()
            print(line, file=sys.stderr, flush=True)
            self.line = ""
