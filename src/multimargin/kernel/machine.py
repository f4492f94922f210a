"""One kernel machine: rounds of a core solver, each of which ends with a certificate.

The scores of all examples are kept, so both objectives are known after every round: primal at the model that the
duals imply, dual = -f, of the kernel values as the store holds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from multimargin import _core
from multimargin.linear.state import State, attributes, check_counts, number, part, prefixed, set_attributes
from multimargin.problems.formulations import Formulation, check_feasible
from multimargin.problems.range import SMALLEST_OBJECTIVE

# Kernel values that the rounds of one call may touch beside those that they compute: well below 50 ms.
_BUDGET = 2e7
# By which a dual value may exceed the primal value, relative, before the kernel counts as indefinite.
_ROUNDING = 1e-6
# Of a machine, in a checkpoint.
_KEPT = (
    "epochs",
    "n_passes",
    "halved",
    "halved_at",
    "done",
    "converged",
    "indefinite",
    "primal",
    "dual",
    "worst_gap",
)


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


@dataclass
class Result:
    """What came of the machines of a task. Rows are the store's, columns the model's; a part has its own objectives."""

    row: np.ndarray  # of the duals that are not zero
    column: np.ndarray
    value: np.ndarray
    bias: np.ndarray  # of every column of the task
    primal: np.ndarray  # of every part
    dual: np.ndarray
    gap: np.ndarray  # worst
    felt: np.ndarray  # sum of the caps of rows with duals
    sampled: tuple[np.ndarray, np.ndarray, np.ndarray]  # index in the sample, column, score
    converged: bool

    def state(self) -> State:
        """All of it, as arrays."""
        plain = attributes(self, _OF_RESULT)
        return plain | {f"sampled{i}": values for i, values in enumerate(self.sampled)}

    @classmethod
    def of(cls, state: State, n_rows: int, columns: slice, n_sample: int) -> Result:
        """The result of such a state."""
        for name, end, first in (("row", n_rows, 0), ("column", columns.stop, columns.start)):
            _check_indices(state[name], first, end)
        _check_indices(state["sampled0"], 0, n_sample)
        _check_indices(state["sampled1"], columns.start, columns.stop)
        lengths = [len(state[name]) for name in ("row", "column", "value", "sampled0", "sampled1", "sampled2")]
        parts = {len(state[name]) for name in ("primal", "dual", "gap", "felt")}
        if len({*lengths[:3]}) > 1 or len({*lengths[3:]}) > 1 or len(parts) > 1:
            raise ValueError("arrays of a result differ in length")
        if len(state["bias"]) != columns.stop - columns.start or parts - {1, columns.stop - columns.start}:
            raise ValueError("a result is not of its machines")
        values = {name: state[name] for name in _OF_RESULT if name != "converged"}
        sampled = (state["sampled0"], state["sampled1"], state["sampled2"])
        return cls(**values, sampled=sampled, converged=bool(number(state, "converged")))


_OF_RESULT = ("row", "column", "value", "bias", "primal", "dual", "gap", "felt", "converged")


def _check_indices(values: np.ndarray, first: int, end: int) -> None:
    if values.dtype.kind != "i" or (len(values) and not (values.min() >= first and values.max() < end)):
        raise ValueError("indices of a result are out of range")


class KernelMachine:
    """A core machine under the loop's rules.

    Parameters
    ----------
    problem : Formulation
        Says how the core's objectives and caps are scaled.
    core : _core.KernelMachine
    store : _core.KernelStore
        Whose counts are told.
    number : int
        In the history.
    passes, epochs, counted : int, float, ndarray
        That it has behind it, where it goes on from duals in another precision; ``counted`` by another store.
    patience : float
        Epochs in which it has to halve the gap (or the violation, if that decides): else it gives up.
    bounds : tuple of ndarray
        Labels and caps of the examples, which duals that come from outside must keep to.
    """

    def __init__(
        self,
        problem: Formulation,
        core: _core.KernelMachine,
        store: _core.KernelStore,
        *,
        number: int,
        passes: int,
        epochs: float,
        counted: np.ndarray,
        solver: str,
        tol: float,
        stopping: str,
        patience: float,
        bounds: tuple[np.ndarray, np.ndarray],
    ):
        self.problem, self.core, self.store, self.bounds = problem, core, store, bounds
        self.number, self.solver, self.tol, self.stopping = number, solver, tol, stopping
        self.epochs, self.n_passes, self.counted = epochs, passes, counted
        self.patience, self.halved, self.halved_at = patience, np.inf, epochs
        self.cancelled = False
        self.done = self.converged = False
        self.indefinite = False
        self.primal = self.dual = self.worst_gap = np.nan

    @property
    def n_examples(self) -> int:
        """Examples that it learns from."""
        return self.core.n_examples

    @property
    def ready(self) -> bool:
        """Whether the scores of the duals that it started from are there."""
        return self.primal == self.primal

    def count(self, position: int, record: KernelRecord) -> tuple[int, int]:
        """Count a round: the machine's number, and the round's."""
        self.n_passes += 1
        self.epochs += record.active_rows / max(1, self.n_examples)
        return self.number, self.n_passes

    def exhausted(self, max_iter: int) -> bool:
        """Whether ``max_iter`` epochs are used up."""
        return self.epochs >= max_iter

    @property
    def gap(self) -> float:
        """Relative duality gap of the sum over all parts."""
        return max(self.primal - self.dual, 0.0) / max(abs(self.primal), SMALLEST_OBJECTIVE)

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
        left = told.violation if self.stopping == "violation" else self.worst_gap
        if left <= 0.5 * self.halved:
            self.halved, self.halved_at = left, self.epochs
        self.done = self.converged or told.stuck or self.epochs - self.halved_at > self.patience
        hits, misses, evaluations = (int(count) for count in self.counted + self.store.counts())
        return KernelRecord(
            told.violation, told.visited, self.solver, self.primal, self.dual, self.gap, hits, misses, evaluations
        )

    def conclude(self) -> tuple[float, float, float]:
        """The last round's objectives."""
        return self.primal, self.dual, self.gap

    def salvage(self) -> None:
        """Duals are those of the last round whenever nothing runs."""

    def state(self) -> State:
        """All that the next slices depend on, but the store."""
        return attributes(self, _KEPT) | prefixed("core", self.core.state())

    def set_state(self, state: State) -> None:
        """Go on from there."""
        set_attributes(self, _KEPT, state)
        check_counts(self, ("epochs", "n_passes"))
        self.core.set_state(part(state, "core"))
        duals, (label, cap) = self.core.duals(), self.bounds
        example, lane = np.nonzero(duals)
        check_feasible(self.problem, label, cap, example, lane, duals[example, lane])

    def result(self, rows: np.ndarray, cap: np.ndarray, columns: slice, sample: np.ndarray) -> Result:
        """What came of it; its examples are ``rows`` of the store, and ``sample`` those whose scores are wanted."""
        duals = self.core.duals()
        example, lane = np.nonzero(duals)
        _, local, in_sample = np.intersect1d(rows, sample, assume_unique=True, return_indices=True)
        scores = self.core.scores(local.astype(np.int64))
        lanes = duals.shape[1]
        return Result(
            rows[example],
            lane + columns.start,
            duals[example, lane],
            np.full(lanes, self.core.bias),
            np.array([self.primal]),
            np.array([self.dual]),
            np.array([self.worst_gap]),
            np.array([cap[duals.any(axis=1)].sum()]),
            (np.repeat(in_sample, lanes), np.tile(np.arange(lanes) + columns.start, len(local)), scores.ravel()),
            self.converged,
        )
