"""One kernel machine: rounds of a core solver, each of which ends with a certificate.

The scores of all examples are kept, so both objectives are known after every round: primal at the model that the
duals imply, dual = -f, of the kernel values as the store holds them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from multimargin import _core
from multimargin.problems.formulations import Formulation

# Kernel values that the rounds of one call may touch beside those that they compute: well below 50 ms.
_BUDGET = 2e7
# By which a dual value may exceed the primal value, relative, before the kernel counts as indefinite.
_ROUNDING = 1e-6


class KernelRecord(NamedTuple):
    """One round, certified, and what the store has counted so far."""

    violation: float
    active_rows: int
    solver: str
    primal: float
    dual: float
    gap: float
    hits: int
    misses: int
    kernel_evaluations: int

    @property
    def estimate(self) -> float:
        """The gap is certified."""
        return self.gap

    def history(self) -> tuple:
        """The record's part of the history's fields."""
        return tuple(self)


class KernelMachine:
    """A core machine under the loop's rules.

    Parameters
    ----------
    problem : Formulation
        Says how the core's objectives and caps are scaled.
    core : _core.KernelMachine
    store : _core.KernelStore
        Whose counts are told.
    """

    def __init__(
        self,
        problem: Formulation,
        core: _core.KernelMachine,
        store: _core.KernelStore,
        *,
        solver: str,
        tol: float,
        stopping: str,
    ):
        self.problem, self.core, self.store = problem, core, store
        self.solver, self.tol, self.stopping = solver, tol, stopping
        self.epochs = 0.0
        self.n_passes = 0
        self.cancelled = False
        self.done = self.converged = False
        self.indefinite = False
        self.primal = self.dual = self.worst_gap = np.nan

    @property
    def n_examples(self) -> int:
        """Examples that it learns from."""
        return self.core.n_examples

    @property
    def gap(self) -> float:
        """Relative duality gap of the sum over all parts."""
        return max(self.primal - self.dual, 0.0) / max(abs(self.primal), 1e-300)

    def advance(self, max_epochs: float) -> list[KernelRecord]:
        """About 50 ms of work: some rounds, or a slab of kernel rows for the next one."""
        records: list[KernelRecord] = []
        work = 0.0
        while work < _BUDGET and not self.done and not self.cancelled:
            told = self.core.advance()
            if not told.complete:
                break
            records.append(self._record(told))
            work += max(1, told.visited) * self.n_examples * self.problem.lanes
            max_epochs -= told.visited / max(1, self.n_examples)
            if max_epochs <= 0:
                break
        return records

    def _record(self, told: _core.Round) -> KernelRecord:
        scale = self.problem.objective_scale
        self.primal, self.dual = scale * told.primal, scale * told.dual
        self.worst_gap = max(told.worst_gap, 0.0)
        self.indefinite = told.primal < told.dual - _ROUNDING * abs(told.primal)
        if self.stopping == "violation":
            self.converged = told.violation <= self.tol
        else:
            self.converged = told.worst_gap <= self.tol and not self.indefinite
        self.done = self.converged or told.stuck
        hits, misses, evaluations = self.store.counts()
        return KernelRecord(
            told.violation, told.visited, self.solver, self.primal, self.dual, self.gap, hits, misses, evaluations
        )

    def conclude(self) -> tuple[float, float, float]:
        """The last round's objectives."""
        return self.primal, self.dual, self.gap

    def salvage(self) -> None:
        """Duals are those of the last round whenever nothing runs."""
