"""What an algorithm is to its machine: its settings, its records of passes, the certificate that it is held to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from multimargin import _core
from multimargin.linear.state import State
from multimargin.problems.range import SMALLEST_OBJECTIVE

if TYPE_CHECKING:
    from multimargin.linear.machine import Machine

Duals = tuple[np.ndarray, np.ndarray, np.ndarray]  # row of X, lane, value


class PassRecord(NamedTuple):
    """One pass over the examples; objectives are NaN unless certified, the estimated gap unless it was a full pass."""

    violation: float
    active_rows: int
    solver: str
    primal: float = np.nan
    dual: float = np.nan
    gap: float = np.nan
    estimate: float = np.nan

    def history(self) -> tuple:
        """The record's part of the history's fields."""
        return self[:6]


@dataclass
class Certificate:
    """Weights and the proof of how good they are. Objectives are those of the formulation, dual = -f."""

    weights: _core.Weights
    primal: float
    dual: float
    worst_gap: float
    duals: Duals | None = None  # that have the dual value, where they may not be the last ones

    @property
    def gap(self) -> float:
        """Relative duality gap of the sum over all parts."""
        return max(self.primal - self.dual, 0.0) / max(abs(self.primal), SMALLEST_OBJECTIVE)


@dataclass
class Settings:
    """What a user may set of an algorithm."""

    tol: float = 1e-3
    stopping: str = "gap"
    shrinking: bool = True
    cooling: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)  # the solver's own, all of them (solvers.py)


class Algorithm(Protocol):
    """How a machine moves towards its optimum. The machine and the loop know nothing else of it."""

    name: str
    lists: bool  # whether duals may be stored as lists; else they are dense
    tol: float
    stopping: str
    weights: _core.Weights
    done: bool
    converged: bool
    # kept: tuple[str, ...], of an algorithm with checkpoints: its attributes, numbers and arrays, that start() does not
    # set to what they were; beside weights, done and converged. check_kept(), if it has that, refuses what cannot be.
    # What is no number and no array: KeepsMore

    def start(self, machine: Machine, *, warm: bool) -> None:
        """Before the first call of advance; warm: from the duals in the machine's blocks, which else are zero."""

    def advance(self, machine: Machine, max_epochs: float) -> list[PassRecord]:
        """About 50 ms of work, at most ``max_epochs`` epochs; sets ``done`` when no more is to be gained."""

    def candidate(self, out: _core.Weights) -> bool:
        """Write the weights to certify into ``out``, which holds V; False leaves V itself."""


@runtime_checkable
class ImpliesDuals(Protocol):
    """An algorithm whose duals are not in the machine's blocks as it goes: it writes them when they are asked for."""

    def imply_duals(self, machine: Machine) -> None:
        """The machine's duals <- feasible ones for the weights so far."""


@runtime_checkable
class KeepsMore(Protocol):
    """An algorithm with checkpoints that its attributes ``kept`` are not all of."""

    def more_state(self) -> State:
        """The rest that its future depends on."""

    def set_more_state(self, machine: Machine, state: State) -> None:
        """Go on from there. Attributes and weights are those of the checkpoint already; the blocks follow."""
