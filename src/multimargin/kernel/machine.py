"""One kernel machine: rounds of a core solver, and the certificate that ends them.

The scores of all examples are kept, so both objectives are known after every round: primal at the model that the
duals imply, dual = -f, of the kernel values as the store holds them. When they meet the target, a certificate by exact
scores decides (certificate.py); its numbers are those of the last record. If it does not agree, the rounds go on to a
smaller target.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from multimargin import _core
from multimargin.kernel.certificate import AIM, ALLOWED, Certificate, Certifier, at_once
from multimargin.linear.state import State, attributes, check_counts, number, part, prefixed, set_attributes
from multimargin.problems.formulations import Formulation, check_feasible
from multimargin.problems.range import SMALLEST_OBJECTIVE

# Kernel values that the rounds of one call may touch beside those that they compute: well below 50 ms.
_BUDGET = 2e7
# By which a dual value may exceed the primal value, relative, before the kernel counts as indefinite.
_ROUNDING = 1e-6
# Shares of tol: a target is at most so much of the last one, and at least so much in all. Where that is not enough,
# rounding is what keeps the machine from its target.
_NEXT_TARGET, _LEAST_TARGET = 0.9, 0.25
# Multiply-adds of a certificate after a limit, about 0.2 s, and after Ctrl-C.
_SHORT_WORK, _SHORTEST_WORK = 4e9, 1e9
# Of a machine, in a checkpoint.
_KEPT = (
    "epochs",
    "n_passes",
    "halved",
    "halved_at",
    "done",
    "converged",
    "indefinite",
    "violation",
    "primal",
    "dual",
    "worst_gap",
    "bias",
    "doubt",
    "target",
    "visited",
    "certifying",
    "certified",
)


class KernelRecord(NamedTuple):
    """One round, the last one certified, and what the store has counted so far."""

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
        """The gap is known after every round."""
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
    doubt: np.ndarray  # of the objectives, relative
    converged: bool
    certified: bool  # else there was no time for it

    def state(self) -> State:
        """All of it, as arrays."""
        return attributes(self, _OF_RESULT)

    @classmethod
    def of(cls, state: State, n_rows: int, columns: slice) -> Result:
        """The result of such a state."""
        for name, end, first in (("row", n_rows, 0), ("column", columns.stop, columns.start)):
            _check_indices(state[name], first, end)
        lengths = {len(state[name]) for name in ("row", "column", "value")}
        parts = {len(state[name]) for name in ("primal", "dual", "gap", "doubt")}
        if len(lengths) > 1 or len(parts) > 1:
            raise ValueError("arrays of a result differ in length")
        if len(state["bias"]) != columns.stop - columns.start or parts - {1, columns.stop - columns.start}:
            raise ValueError("a result is not of its machines")
        arrays = {name: state[name] for name in _OF_RESULT if name not in _BOOLEAN}
        return cls(**arrays, converged=bool(number(state, "converged")), certified=bool(number(state, "certified")))


_BOOLEAN = ("converged", "certified")
_OF_RESULT = ("row", "column", "value", "bias", "primal", "dual", "gap", "doubt", *_BOOLEAN)


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
    certifier : Certifier
        Of its examples.
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
        certifier: Certifier,
    ):
        self.problem, self.core, self.store, self.certifier = problem, core, store, certifier
        self.number, self.solver, self.tol, self.stopping = number, solver, tol, stopping
        self.epochs, self.n_passes, self.counted = epochs, passes, counted
        self.patience, self.halved, self.halved_at = patience, np.inf, epochs
        self.cancelled = False
        self.done = self.converged = False
        self.indefinite = False
        self.violation = self.primal = self.dual = self.worst_gap = np.nan
        self.bias = self.doubt = 0.0
        self.target = AIM * tol
        self.visited = 0  # in the last round
        self.certifying = self.certified = False  # whether that is going on; whether the numbers are a certificate's
        self.slabs: Generator[None, None, Certificate | None] | None = None

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
        """About 50 ms of work: some rounds, a slab of kernel rows for the next one, or a slab of the certificate."""
        records: list[KernelRecord] = []
        work = 0.0
        while work < _BUDGET and not self.done and not self.cancelled:
            if self.certifying:
                if not self._certify():
                    break
            else:
                self.certified = False  # from here on the duals are others
                told = self.core.advance()
                if not told.complete:
                    break
                self._take(told)
                if self.certifying:
                    continue
            records.append(self._record())
            work += max(1, self.visited) * self.n_examples * self.problem.lanes
            max_epochs -= self.visited / max(1, self.n_examples)
            if max_epochs <= 0:
                break
        return records

    def _take(self, told: _core.Round) -> None:
        """A round."""
        self._note(told)
        self.visited = told.visited
        self.certifying = self._meets(self.target)
        if self._left <= 0.5 * self.halved:
            self.halved, self.halved_at = self._left, self.epochs
        self.done = not self.certifying and (told.stuck or self.epochs - self.halved_at > self.patience)

    def _certify(self) -> bool:
        """A slab of the certificate of the last round; whether that is complete."""
        if self.slabs is None:
            self.slabs = self.certifier.certificate(self.core, self.bias)
        try:
            next(self.slabs)
        except StopIteration as end:
            before = self._left
            self._judge(end.value)
            self.slabs, self.certifying = None, False
            # What rounding added to what is left is what the next target has to leave room for.
            self.target = min(_NEXT_TARGET * self.target, self.tol - 2 * (self._left - before))
            self.done = self.converged or self._doubtful or not self.target >= _LEAST_TARGET * self.tol
            return True
        return False

    def _judge(self, certificate: Certificate) -> None:
        self._note(certificate.told)
        self.doubt, self.certified = certificate.doubt, True
        self.converged = self._meets(self.tol) and not self._doubtful

    def _note(self, told: _core.Round) -> None:
        scale = self.problem.objective_scale
        self.primal, self.dual, self.bias = scale * told.primal, scale * told.dual, told.bias
        self.worst_gap, self.violation = max(told.worst_gap, 0.0), told.violation
        self.indefinite = told.primal < told.dual - _ROUNDING * abs(told.primal)

    @property
    def _left(self) -> float:
        """What is to become as small as ``tol``."""
        return self.violation if self.stopping == "violation" else self.worst_gap + self.doubt

    def _meets(self, target: float) -> bool:
        return self._left <= target and not (self.indefinite and self.stopping == "gap")

    @property
    def _doubtful(self) -> bool:
        return not self.doubt <= ALLOWED * self.tol

    def _record(self) -> KernelRecord:
        hits, misses, evaluations = (int(count) for count in self.counted + self.store.counts())
        return KernelRecord(
            self.violation, self.visited, self.solver, self.primal, self.dual, self.gap, hits, misses, evaluations
        )

    def conclude(self) -> tuple[float, float, float]:
        """The objectives, certified if that takes not long; else those of the scores that were kept."""
        self._certify_within(_SHORT_WORK)
        return self.primal, self.dual, self.gap

    def salvage(self) -> None:
        """After an interrupt: the same, if that is shorter still."""
        if self.ready:
            self._certify_within(_SHORTEST_WORK)

    def _certify_within(self, work: float) -> None:
        if self.certified:
            return
        if (certificate := at_once(self.certifier.certificate(self.core, self.bias, work))) is not None:
            self._judge(certificate)
        elif self.ready:  # duals may have moved since the last round that was complete
            self._note(self.certifier.of_kept_scores(self.core))

    def state(self) -> State:
        """All that the next slices depend on, but the store."""
        return attributes(self, _KEPT) | prefixed("core", self.core.state())

    def set_state(self, state: State) -> None:
        """Go on from there."""
        set_attributes(self, _KEPT, state)
        check_counts(self, ("epochs", "n_passes", "visited"))
        self.core.set_state(part(state, "core"))
        duals, about = self.core.duals(), self.certifier
        example, lane = np.nonzero(duals)
        check_feasible(self.problem, about.label, about.cap, example, lane, duals[example, lane])

    def result(self, columns: slice) -> Result:
        """What came of it."""
        duals = self.core.duals()
        example, lane = np.nonzero(duals)
        return Result(
            self.certifier.rows[example],
            lane + columns.start,
            duals[example, lane],
            np.full(duals.shape[1], self.bias),
            np.array([self.primal]),
            np.array([self.dual]),
            np.array([self.worst_gap]),
            np.array([self.doubt]),
            self.converged,
            self.certified,
        )
