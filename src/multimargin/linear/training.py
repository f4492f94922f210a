"""From rows and labels to a trained linear model: which machines there are, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin import _core
from multimargin.linear.blas import blas_threads
from multimargin.linear.loop import Limits, Observer, Outcome, solve
from multimargin.linear.machine import Examples, Machine, Settings
from multimargin.linear.scoring import padded_weights
from multimargin.linear.solvers import SOLVERS
from multimargin.problems.formulations import PAIRWISE, Formulation, formulation, n_lanes
from multimargin.reductions.pairwise import pairs

# Duals of separable lanes are dense; more of them than this are trained group after group.
_DUAL_BYTES = 1 << 29
# Newton's systems of this size, and this many multiply-adds to set them up, are cheaper than many passes.
_NEWTON_SIZE = 150
_NEWTON_SIZE_OF_MANY = 40  # of one of many small machines, each of which has to be set up
_NEWTON_WORK = 1e8
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


@dataclass
class Trained:
    """A trained model: padded W, its duals and its certificate."""

    W: np.ndarray  # (n_weights, padded lanes)
    n_lanes: int
    dual_coef: sp.csr_array | None  # None: of a store, where they were on disk
    primal: float
    dual: float
    worst_gap: float
    outcome: Outcome


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with the model as it was last certified."""

    def __init__(self, trained: Trained):
        super().__init__()
        self.trained = trained


def choose_solver(rows: _core.Rows, lanes: int, formulation_name: str, stopping: str) -> str:
    """What solver="auto" means."""
    if stopping == "violation":
        return "sdm"
    joint = lanes if formulation_name not in (*PAIRWISE, "one_vs_rest") else 1
    size = joint * rows.n_weights
    systems = {"one_vs_rest": lanes, "one_vs_one": sqrt(2 * lanes), "dag": sqrt(2 * lanes)}.get(formulation_name, 1)
    largest = _NEWTON_SIZE_OF_MANY if formulation_name in PAIRWISE and lanes > 1 else _NEWTON_SIZE
    if size <= largest and systems * rows.n_rows * size * size <= _NEWTON_WORK:
        return "newton"
    width = 1 if formulation_name in PAIRWISE else lanes
    return "sdm" if 4 * width * rows.n_weights > _LARGE_WEIGHTS else "accelerated_sdm"


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
    """Train all machines of a request."""
    lanes = n_lanes(request.formulation, request.n_classes)
    n_samples = len(request.y)
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # (row, lane, value) of the duals
    trained = Trained(np.empty((0, 0)), lanes, sp.csr_array((n_samples, lanes)), 0.0, 0.0, 0.0, Outcome())
    plan = list(tasks(request))
    untrained = dict(enumerate(plan))
    objectives: dict[int, tuple[float, float, float]] = {}  # primal, dual, worst gap

    def collect(position: int, machine: Machine) -> None:
        columns = untrained.pop(position).columns
        W, objectives[position] = weights_of(machine)
        if len(plan) == 1:
            trained.W = W
        else:
            if not trained.W.size:
                trained.W = padded_weights(machine.n_weights, lanes)
            trained.W[:, columns] = W[:, : machine.problem.lanes]
        row, lane, value = machine.duals()
        parts.append((row, lane + columns.start, value))

    try:
        with _blas_threads(request):
            solve(
                (machine_of(request, task, position) for position, task in enumerate(plan)),
                collect,
                request.limits,
                min(request.n_threads, len(plan)),
                request.observers,
                trained.outcome,
            )
    except KeyboardInterrupt as interrupt:
        raise Interrupted(_finished(trained, parts, objectives, untrained, request)) from interrupt
    return _finished(trained, parts, objectives, untrained, request)


def weights_of(machine: Machine) -> tuple[np.ndarray, tuple[float, float, float]]:
    """Padded W of a trained machine; primal, dual and worst gap."""
    certificate = machine.certificate
    if certificate is not None:
        return certificate.weights.array, (certificate.primal, certificate.dual, certificate.worst_gap)
    W = machine.new_weights(False).array  # interrupted before anything could be certified
    W[:, : machine.problem.lanes] = machine.algorithm.weights.array[:, : machine.problem.lanes]
    return W, (np.nan, np.nan, np.nan)


def _blas_threads(request: Request) -> Any:
    """Newton's method calls BLAS: it gets the threads that the user gave, no more."""
    if request.solver != "newton":
        return nullcontext()
    return blas_threads(request.n_threads)


def _finished(
    trained: Trained,
    parts: list,
    objectives: dict[int, tuple[float, float, float]],
    untrained: dict[int, Task],
    request: Request,
) -> Trained:
    for position, task in untrained.items():  # stopped before its turn: weights and duals of zero
        problem = task.problem
        at_zero = problem.objective_scale * problem.cap_scale * problem.loss_of_zero_row
        objectives[position] = (at_zero * float(request.cap[task.row].sum()), 0.0, 1.0)
    # Summed in the order of the machines, whichever finished first.
    ordered = np.array([objectives[position] for position in sorted(objectives)])
    trained.primal, trained.dual = float(ordered[:, 0].sum()), float(ordered[:, 1].sum())
    trained.worst_gap = float(ordered[:, 2].max())
    if not trained.W.size:
        trained.W = padded_weights(request.rows.n_weights, trained.n_lanes)
    if parts:
        row, lane, value = (np.concatenate(column) for column in zip(*parts, strict=True))
        trained.dual_coef = sp.csr_array(sp.coo_array((value, (row, lane)), shape=(len(request.y), trained.n_lanes)))
    return trained


def machine_of(request: Request, task: Task, position: int) -> Machine:
    """A machine for a task, ready to train."""
    examples = Examples.of(task.problem, request.X, request.rows, request.norm, task.y, request.cap[task.row], task.row)
    algorithm = SOLVERS[request.solver].make(request.settings)
    machine = Machine(task.problem, examples, algorithm, seed=request.seed + position)
    warm = request.start_duals is not None
    if warm:
        machine.set_duals(sp.csr_array(request.start_duals[examples.row][:, task.columns]))
    algorithm.start(machine, warm=warm)
    return machine
