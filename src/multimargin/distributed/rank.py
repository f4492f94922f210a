"""One of the ranks that train a linear machine together: its rows, and its part of every round."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from multimargin.data.rows import as_rows
from multimargin.distributed.collective import Collective, Tree
from multimargin.distributed.rounds import COST_OF_A_NUMBER
from multimargin.distributed.shared_examples import SharedExamples
from multimargin.linear.algorithm import PassRecord, Settings
from multimargin.linear.examples import Examples
from multimargin.linear.machine import BUDGET, Machine
from multimargin.linear.solvers import SOLVERS
from multimargin.problems.formulations import formulation
from multimargin.problems.range import SMALLEST_C

# Multiply-adds of a call, a quarter of a second or so: an engine takes about 10 ms to make one and to bring the answer.
_WORK_OF_A_CALL = 20 * BUDGET
_MOST_ROUNDS = 16  # of a call: those who wait want to hear of it


@dataclass(frozen=True)
class Job:
    """What is to be trained; the same for all ranks."""

    formulation: str
    loss: str
    n_classes: int
    solver: str
    settings: Settings
    intercept: float  # 0: none
    class_caps: np.ndarray  # C times the weight of every class
    seed: int


class Part(NamedTuple):
    """Rows with encoded classes and weights (None: all are 1)."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None


class Effort(NamedTuple):
    """What the rounds took since the ranks joined."""

    bytes_sent: int  # by all ranks to each other
    seconds_of_passes: float  # a rank's, on average
    seconds_of_sums: float  # with the time in which it waited for the others
    local_epochs: int  # of a round


class Reply(NamedTuple):
    """How far the ranks came."""

    records: list[PassRecord]
    done: bool
    converged: bool
    objectives: tuple[float, float, float] | None  # primal, dual and gap of the last certificate
    worst_gap: float
    weights: np.ndarray | None  # (n_weights, padded lanes), when there is nothing left to do
    effort: Effort | None  # when there is nothing left to do


class Rank:
    """Rows in one or more parts, their duals, and a machine for as long as the ranks stay the same.

    Parameters
    ----------
    job : Job
    parts : dict of int to Part
        By number; numbers are unique over all ranks.
    duals : dict of int to csr_array
        Of parts that have some already: one row a row of the part.
    """

    def __init__(self, job: Job, parts: dict[int, Part], duals: dict[int, sp.csr_array] | None = None):
        self.job = job
        self.problem = formulation(job.formulation, job.loss, job.n_classes)
        self.numbers = sorted(parts)
        self._ends = np.cumsum([0, *(len(parts[number].y) for number in self.numbers)])
        whole = _joined([parts[number] for number in self.numbers])
        self._own = _examples(job, whole)
        self._whole = whole
        self._duals = self._stacked(duals or {})
        self._lock = threading.Lock()  # of whoever uses the machine
        self._rounds_a_call = 1
        self.machine: Machine | None = None
        self.collective: Collective | None = None

    def join(self, collective: Collective) -> None:
        """Begin, or go on, together with others."""
        with self._lock:
            self._leave()
            self.collective = collective
            algorithm = SOLVERS[self.job.solver].make(self.job.settings)
            accelerated = self.job.solver == "accelerated_sdm"
            shared = SharedExamples(self._own, self.problem, collective, accelerated=accelerated)
            machine = Machine(self.problem, shared, algorithm, seed=self.job.seed)
            machine.set_duals(self._duals[self._own.row])
            warm = bool(collective.allreduce(np.array([float(self._duals.nnz)]))[0])
            algorithm.start(machine, warm=warm)
            self.machine = machine
            cost = float(collective.allreduce(np.array([machine.cost_of_pass]))[0]) / collective.size
            cost += COST_OF_A_NUMBER * shared.n_summed * self.problem.lanes
            self._rounds_a_call = int(np.clip(_WORK_OF_A_CALL / cost, 1, _MOST_ROUNDS)) if cost else 1

    def advance(self, max_epochs: float) -> Reply:
        """A round, or as many as take about a quarter of a second."""
        with self._lock:
            machine = self._machine()
            records: list[PassRecord] = []
            for _ in range(self._rounds_a_call):
                here = machine.advance(max_epochs)
                records.extend(here)
                max_epochs -= sum(record.active_rows for record in here) / max(1, machine.examples.n)
                if machine.done or max_epochs <= 0:
                    break
            return self._reply(records, with_weights=machine.done)

    def conclude(self) -> Reply:
        """The certificate of what there is."""
        with self._lock:
            self._machine().conclude()
            return self._reply([], with_weights=True)

    def leave(self) -> None:
        """Hang up, and keep the duals."""
        with self._lock:
            self._leave()

    def duals(self) -> dict[int, sp.csr_array]:
        """Of every part, by its number."""
        with self._lock:
            if self.machine is not None:
                self._duals = self._of_machine()
            return {
                number: self._duals[begin:end]
                for number, begin, end in zip(self.numbers, self._ends[:-1], self._ends[1:], strict=True)
            }

    def parts(self) -> dict[int, Part]:
        """As they were given."""
        X, y, weight = self._whole
        return {
            number: Part(X[begin:end], y[begin:end], None if weight is None else weight[begin:end])
            for number, begin, end in zip(self.numbers, self._ends[:-1], self._ends[1:], strict=True)
        }

    def _machine(self) -> Machine:
        if self.machine is None:
            raise RuntimeError("this rank has not joined the others")
        return self.machine

    def _leave(self) -> None:
        if self.machine is not None:
            self._duals = self._of_machine()
        if self.collective is not None:
            self.collective.close()
        self.machine = self.collective = None

    def _reply(self, records: list[PassRecord], with_weights: bool) -> Reply:
        machine, certificate = self._machine(), self._machine().certificate
        objectives = None if certificate is None else (certificate.primal, certificate.dual, certificate.gap)
        worst = np.nan if certificate is None else certificate.worst_gap
        weights, effort = None, None
        if with_weights and certificate is not None:
            weights, effort = certificate.weights.array.copy(), self._effort()
        return Reply(records, machine.done, machine.converged, objectives, worst, weights, effort)

    def _effort(self) -> Effort:
        collective, rounds = self.collective, self._machine().passes
        assert collective is not None
        sent = float(collective.bytes_sent) if isinstance(collective, Tree) else 0.0
        of_all = collective.allreduce(np.array([sent, rounds.seconds_of_passes, rounds.seconds_of_sums]))
        of_passes, of_sums = (of_all[1:] / collective.size).tolist()
        return Effort(int(of_all[0]), of_passes, of_sums, rounds.local_epochs)

    def _of_machine(self) -> sp.csr_array:
        row, lane, value = self._machine().duals()
        return sp.csr_array((value, (row, lane)), shape=(int(self._ends[-1]), self.problem.lanes))

    def _stacked(self, duals: dict[int, sp.csr_array]) -> sp.csr_array:
        """Duals of all parts; those of a part that has none are zero."""
        sizes = np.diff(self._ends)
        each = [
            duals[number] if number in duals else sp.csr_array((int(size), self.problem.lanes))
            for number, size in zip(self.numbers, sizes, strict=True)
        ]
        return sp.csr_array(sp.vstack(each)) if each else sp.csr_array((0, self.problem.lanes))


def _joined(parts: list[Part]) -> Part:
    """Parts as one; a single one is not copied."""
    if len(parts) == 1:
        return parts[0]
    dtype = np.result_type(*(part.X.dtype for part in parts))
    if any(sp.issparse(part.X) for part in parts):
        X: Any = sp.vstack([sp.csr_array(part.X, dtype=dtype) for part in parts], format="csr")
    else:
        X = np.concatenate([part.X for part in parts], dtype=dtype)
    weighted = any(part.weight is not None for part in parts)
    weight = [np.ones(len(part.y)) if part.weight is None else part.weight for part in parts]
    return Part(X, np.concatenate([part.y for part in parts]), np.concatenate(weight) if weighted else None)


def _examples(job: Job, part: Part) -> Examples:
    rows = as_rows(part.X, job.intercept, many_passes=True)
    norm = rows.squared_norms()
    if not np.isfinite(norm).all():
        raise ValueError("the squared norm of a row overflows: scale the features down")
    cap = job.class_caps[part.y]
    if part.weight is not None:
        with np.errstate(over="ignore"):
            cap = cap * part.weight
    if not np.isfinite(cap).all():
        raise ValueError("C times the weights must be finite")
    cap = np.where(cap < SMALLEST_C, 0.0, cap)
    problem = formulation(job.formulation, job.loss, job.n_classes)
    return Examples.of(problem, part.X, rows, norm, part.y, cap, np.arange(len(part.y), dtype=np.int64))
