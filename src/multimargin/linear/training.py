"""From rows and labels to a trained linear model: which machines there are, and what becomes of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

from multimargin import _core
from multimargin.data.csr import Csr
from multimargin.linear.algorithm import Settings
from multimargin.linear.checkpoint import Checkpoint
from multimargin.linear.directions import kept_directions, leading_directions
from multimargin.linear.examples import Examples
from multimargin.linear.interrupts import interruptible
from multimargin.linear.loop import positions_left, solve
from multimargin.linear.machine import Machine, NotFinite
from multimargin.linear.many_classes import ManyClassMachine, SparselyScored, as_csr, without_weights
from multimargin.linear.outcome import Limits, Observer, Outcome
from multimargin.linear.scoring import padded_weights
from multimargin.linear.solvers import SOLVERS
from multimargin.linear.state import State, index, part, prefixed, stacked, unstacked
from multimargin.problems.formulations import PAIRWISE, Formulation, check_feasible, formulation, n_lanes
from multimargin.reductions.pairwise import pairs

# Duals of separable lanes are dense; more of them than this are trained group after group.
_DUAL_BYTES = 1 << 29
# Newton's systems of this size, and this many multiply-adds to set them up, are cheaper than many passes.
_NEWTON_SIZE = 150
_MOST_OF_NEWTON = 5000  # equations
_NEWTON_SIZE_OF_MANY = 40  # of one of many small machines, each of which has to be set up
_NEWTON_WORK = 1e8
# Passes are few where the mean of C_i ||x_i||^2 is at most this, as with scaled features and C = 1, and few digits are
# asked for.
_EASY_CURVATURE = 200.0
_EASY_TOL = 1e-4
# Threads visit examples side by side where the scores of a row take so many multiply-adds, and each has so many
# examples: else they would wait for each other most of the time (core/side_by_side.hpp).
_WIDE_ROW = 1.5e4
_EXAMPLES_OF_THREAD = 1024
_SHARED_WEIGHTS = 1 << 22  # bytes of W, of which each has a copy: larger ones would not stay in the caches
_MOST_THREADS = 16
# The accelerated loop keeps three copies of W; of larger ones (bytes) it keeps but one, and is plain.
_LARGE_WEIGHTS = 1 << 28


@dataclass
class Task:
    """A problem, its columns in the model's W, and the examples (rows and encoded classes) that it learns from."""

    problem: Formulation
    columns: slice
    row: np.ndarray
    y: np.ndarray


@dataclass
class Request:
    """Everything that a fit is about."""

    X: Any  # as the rows hold it
    rows: _core.Rows
    norm: np.ndarray  # squared row norms, the intercept included
    y: np.ndarray  # encoded classes
    cap: np.ndarray  # C_i
    n_classes: int
    formulation: str
    loss: str
    solver: str
    settings: Settings
    limits: Limits
    n_threads: int
    seed: int
    observers: list[Observer] = field(default_factory=list)
    start_duals: Any = None  # CSR, n_samples x lanes of the model, or None
    checkpoint: Checkpoint | None = None
    directions: _core.Directions | None = None  # along which accelerated weights are held back; set by train
    sparse_weights: bool = False  # see many_classes.py


@dataclass
class Trained:
    """A trained model: padded W, its duals and its certificate."""

    W: np.ndarray | Csr  # (n_weights, padded lanes), or sparse: without padding
    n_lanes: int
    dual_coef: Csr | None  # None: of a store, where they were on disk
    primal: float
    dual: float
    worst_gap: float
    outcome: Outcome

    doubt = 0.0  # what is not known is in the objectives


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with the model as it was last certified."""

    def __init__(self, trained: Trained):
        super().__init__()
        self.trained = trained


def choose_solver(
    rows: _core.Rows, mean_curvature: float, lanes: int, formulation_name: str, stopping: str, tol: float
) -> str:
    """What solver="auto" means; the curvature is C_i ||x_i||^2."""
    if stopping == "violation":
        return "sdm"
    size = rows.n_weights * _lanes_of_system(lanes, formulation_name)
    systems = {"one_vs_rest": lanes, "one_vs_one": sqrt(2 * lanes), "dag": sqrt(2 * lanes)}.get(formulation_name, 1)
    largest = _NEWTON_SIZE_OF_MANY if formulation_name in PAIRWISE and lanes > 1 else _NEWTON_SIZE
    easy = mean_curvature <= _EASY_CURVATURE and tol >= _EASY_TOL
    if not easy and size <= largest and systems * rows.n_rows * size * size <= _NEWTON_WORK:
        return "newton"
    return streamed_solver(rows.n_weights, 1 if formulation_name in PAIRWISE else lanes)


def check_size_of_newton(n_weights: int, lanes: int, formulation_name: str) -> None:
    """Refuse systems of which a step takes many seconds, and most of a gigabyte."""
    size = n_weights * _lanes_of_system(lanes, formulation_name)
    if size > _MOST_OF_NEWTON:
        raise ValueError(
            f"solver='newton' solves systems of {size} equations here, one a weight: {_MOST_OF_NEWTON} are the most; "
            "use solver='accelerated_sdm'"
        )


def _lanes_of_system(lanes: int, formulation_name: str) -> int:
    return lanes if formulation_name not in (*PAIRWISE, "one_vs_rest") else 1


def streamed_solver(n_weights: int, lanes: int) -> str:
    """What solver="auto" means where examples come in parts, from disk or with other ranks."""
    return "sdm" if 4 * lanes * n_weights > _LARGE_WEIGHTS else "accelerated_sdm"


def tasks(request: Request) -> Iterator[Task]:
    """The machines of a formulation. Their number and shape depend on n_threads, never on timing."""
    y, k = request.y, request.n_classes
    everything = np.arange(len(y), dtype=np.int64)
    problem = formulation(request.formulation, request.loss, k)
    if k > 2 and request.formulation in PAIRWISE:
        by_class = [np.flatnonzero(y == c) for c in range(k)]
        for machine, (i, j) in enumerate(pairs(k)):
            row = np.sort(np.concatenate([by_class[i], by_class[j]]))
            yield Task(problem, slice(machine, machine + 1), row, (y[row] == i).astype(np.int64))
    elif problem.separable and problem.lanes > 1:
        groups = max(request.n_threads, -(-8 * len(y) * k // _DUAL_BYTES))
        for part in np.array_split(np.arange(k), min(groups, k)):
            first, size = int(part[0]), len(part)
            label = np.where((y >= first) & (y < first + size), y - first, -1)
            lanes = Formulation(problem.policy, problem.squared, size)
            # One lane is a binary machine: its positive class is encoded as 1.
            yield Task(lanes, slice(first, first + size), everything, label if size > 1 else label + 1)
    else:
        yield Task(problem, slice(0, problem.lanes), everything, y)


def train(request: Request) -> Trained:
    """Train all machines of a request, from where its checkpoint has them."""
    plan, checkpoint = list(tasks(request)), request.checkpoint
    results, outcome = _Results(request, plan), Outcome()
    started = time.perf_counter()
    if checkpoint is not None:
        started -= checkpoint.begin(results)
    try:
        with interruptible(), _blas_threads(request, len(plan)):
            if request.solver == "accelerated_sdm":
                request.directions = leading_directions(request.X, request.rows, request.norm, results.U)
            solve(
                (machine_of(request, plan[position], position) for position in positions_left(len(plan), checkpoint)),
                results.collect,
                request.limits,
                min(request.n_threads, len(plan)),
                request.observers,
                outcome,
                started,
                checkpoint,
            )
    except KeyboardInterrupt as interrupt:
        outcome.converged, outcome.stopped_by = False, "interrupt"
        raise Interrupted(results.trained(outcome)) from interrupt
    except NotFinite as error:
        raise error if checkpoint is None else checkpoint.refused_later(error) from None
    return results.trained(outcome)


def check_start(request: Request) -> None:
    """Refuse duals to start from that no certificate may be built on."""
    for task in tasks(request):
        duals = request.start_duals[task.row][:, task.columns].tocoo()
        _check_feasible(request, task, duals.coords[0], duals.coords[1], duals.data)


def _check_feasible(request: Request, task: Task, example: np.ndarray, lane: np.ndarray, value: np.ndarray) -> None:
    cap = request.cap[task.row] * task.problem.cap_scale
    check_feasible(task.problem, task.problem.lane_labels(task.y), cap, example, lane, value)


class _Results:
    """What came of the machines of a request, by position."""

    def __init__(self, request: Request, plan: list[Task]):
        self.request, self.plan = request, plan
        self.lanes = n_lanes(request.formulation, request.n_classes)
        self.W: Any = np.empty((0, 0))
        self.duals: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}  # row, lane, value
        self.objectives: dict[int, tuple[float, float, float]] = {}  # primal, dual, worst gap
        self.U: np.ndarray | None = None  # of the directions, as a checkpoint has them

    def collect(self, position: int, machine: Machine) -> None:
        columns = self.plan[position].columns
        last = self.request.checkpoint is None  # nobody asks for the machine's state hereafter
        if last and isinstance(machine, ManyClassMachine):
            machine.take_weights()
        W, self.objectives[position] = weights_of(machine, take=last)
        if len(self.plan) == 1:
            self.W = W
        else:
            self._room()[:, columns] = W[:, : machine.problem.lanes]
        row, lane, value = machine.certified_duals()
        self.duals[position] = (row, lane + columns.start, value)

    def _room(self) -> Any:
        if self.request.sparse_weights:  # a single machine
            return self.W if isinstance(self.W, Csr) else without_weights(self.request.rows.n_weights, self.lanes)
        if not self.W.size:
            self.W = padded_weights(self.request.rows.n_weights, self.lanes)
        return self.W

    def state(self) -> State:
        """The directions, and what came of machines of which there are many; a single one has it in its own state."""
        directions = self.request.directions
        results = [
            {
                "position": np.array([position]),
                "W": self.W[:, self.plan[position].columns],
                "row": row,
                "lane": lane,
                "value": value,
                "objectives": np.array(self.objectives[position]),
            }
            for position, (row, lane, value) in self.duals.items()
            if len(self.plan) > 1
        ]
        return prefixed("results", stacked(results)) | ({} if directions is None else {"U": directions.U})

    def set_state(self, state: State) -> None:
        if (U := state.get("U")) is not None:
            self.U = kept_directions(U, self.request.rows.n_weights)
        for one in unstacked(part(state, "results")):
            position, row, lane, value = index(one, "position", len(self.plan)), one["row"], one["lane"], one["value"]
            columns = self.plan[position].columns
            if not len(row) == len(lane) == len(value):
                raise ValueError("duals differ in number")
            if len(row) and not (row.min() >= 0 and row.max() < len(self.request.y)):
                raise ValueError("duals of rows that are not there")
            if len(lane) and not (columns.start <= lane.min() and lane.max() < columns.stop):
                raise ValueError("duals of lanes that are not there")
            self._check_feasible(position, row, lane - columns.start, value)
            self._room()[:, columns] = one["W"].reshape(self.request.rows.n_weights, -1)
            self.duals[position] = (row, lane, value)
            primal, dual, gap = one["objectives"].tolist()
            self.objectives[position] = (primal, dual, gap)

    def _check_feasible(self, position: int, row: np.ndarray, lane: np.ndarray, value: np.ndarray) -> None:
        task = self.plan[position]
        example = np.minimum(np.searchsorted(task.row, row), len(task.row) - 1)
        if not np.array_equal(task.row[example], row):
            raise ValueError("duals of rows that another machine learns from")
        _check_feasible(self.request, task, example, lane, value)

    def trained(self, outcome: Outcome) -> Trained:
        """The model that they make together."""
        request, objectives = self.request, dict(self.objectives)
        for position, task in enumerate(self.plan):
            if position not in objectives:  # stopped before its turn: weights and duals of zero
                problem = task.problem
                at_zero = problem.objective_scale * problem.cap_scale * problem.loss_of_zero_row
                objectives[position] = (at_zero * float(request.cap[task.row].sum()), 0.0, 1.0)
        # Summed in the order of the machines, whichever finished first.
        ordered = np.array([objectives[position] for position in sorted(objectives)])
        nowhere = np.empty(0, np.int64)
        entries = [*self.duals.values()] or [(nowhere, nowhere, np.empty(0))]
        row, lane, value = (np.concatenate(column) for column in zip(*entries, strict=True))
        duals = Csr.of_entries(row, lane, value, (len(request.y), self.lanes))
        primal, dual = float(ordered[:, 0].sum()), float(ordered[:, 1].sum())
        return Trained(self._room(), self.lanes, duals, primal, dual, float(ordered[:, 2].max()), outcome)


def weights_of(machine: Machine, *, take: bool = False) -> tuple[Any, tuple[float, float, float]]:
    """Padded W of a trained machine, or its sparse W, which is left zero if ``take``; primal, dual and worst gap."""
    certificate = machine.certificate
    if isinstance(machine, ManyClassMachine):
        weights = machine.algorithm.weights if certificate is None else certificate.weights
        told = (np.nan,) * 3 if certificate is None else (certificate.primal, certificate.dual, certificate.worst_gap)
        return as_csr(weights, machine.n_weights, take=take), told
    if certificate is not None:
        return certificate.weights.array, (certificate.primal, certificate.dual, certificate.worst_gap)
    W = machine.new_weights(False).array  # interrupted before anything could be certified
    W[:, : machine.problem.lanes] = machine.algorithm.weights.array[:, : machine.problem.lanes]
    return W, (np.nan, np.nan, np.nan)


def _blas_threads(request: Request, n_machines: int) -> Any:
    """Solvers that call BLAS get the threads that the user gave, no more; machines side by side share them."""
    if request.solver not in ("newton", "cutting_plane"):
        return nullcontext()
    from multimargin.linear.blas import blas_threads

    return blas_threads(max(1, request.n_threads // n_machines))


def blocks_side_by_side(request: Request, task: Task) -> int:
    """Into how many blocks, a thread each, the examples of a machine are cut."""
    suited = request.solver in ("sdm", "accelerated_sdm") and request.settings.stopping == "gap"
    if task.problem.separable or request.sparse_weights or not suited:
        return 1
    X, rows, lanes = request.X, request.rows, task.problem.lanes
    nonzeros = len(X.data) if hasattr(X, "indptr") else X.size
    if nonzeros * lanes < _WIDE_ROW * rows.n_rows or 4 * rows.n_weights * lanes > _SHARED_WEIGHTS:
        return 1
    return max(1, min(request.n_threads, _MOST_THREADS, len(task.row) // _EXAMPLES_OF_THREAD))


def machine_of(request: Request, task: Task, position: int) -> Machine:
    """A machine for a task, ready to train."""
    of, make = (SparselyScored, ManyClassMachine) if request.sparse_weights else (Examples, Machine)
    cap, n_blocks = request.cap[task.row], blocks_side_by_side(request, task)
    examples = of.of(
        task.problem, request.X, request.rows, request.norm, task.y, cap, task.row, request.directions, n_blocks
    )
    algorithm = SOLVERS[request.solver].make(request.settings)
    machine = make(task.problem, examples, algorithm, seed=request.seed + position)
    warm = False
    if request.start_duals is not None:
        from multimargin.linear.warm_start import start_from

        warm = start_from(machine, request.start_duals[examples.row][:, task.columns].tocsr())
    algorithm.start(machine, warm=warm)
    return machine
