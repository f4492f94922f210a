"""What the loop is told, tells, and comes to: limits, the record of every pass, how a training ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

HISTORY = np.dtype(
    [
        ("machine", np.int64),
        ("epoch", np.int64),
        ("seconds", np.float64),
        ("violation", np.float64),
        ("active_rows", np.int64),
        ("solver", "U24"),
        ("primal", np.float64),
        ("dual", np.float64),
        ("gap", np.float64),
    ]
)


class Record(Protocol):
    """What a machine tells of a pass; not certified objectives are NaN."""

    @property
    def active_rows(self) -> int: ...
    @property
    def gap(self) -> float: ...
    @property
    def estimate(self) -> float:
        """Of the gap, where a pass knows one."""

    def history(self) -> tuple:
        """From the violation on, the fields of the history."""


@dataclass
class Epoch:
    """What observers are told after every pass."""

    machine: int
    epoch: int
    seconds: float
    record: Record

    def as_tuple(self) -> tuple:
        return (self.machine, self.epoch, self.seconds, *self.record.history())


@dataclass
class Limits:
    """When the loop ends without convergence. An epoch is as many visits as there are examples."""

    max_iter: int
    time_limit: float | None = None


@dataclass
class Outcome:
    """How the loop ended."""

    converged: bool = True
    stopped_by: str = "converged"  # or max_iter, time_limit, callback, interrupt, precision, disk
    n_iter: int = 0
    remark: str = ""  # on what kept it from convergence, for the warning
    history: list[tuple] = field(default_factory=list)
    fields: np.dtype = field(default_factory=lambda: HISTORY)

    def history_array(self) -> np.ndarray:
        return np.array(self.history, dtype=self.fields)


Observer = Callable[[Epoch, Any], bool | None]
