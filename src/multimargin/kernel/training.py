"""From rows and labels to a trained kernel model: which machines there are, and what becomes of them.

Machines of pairs learn from the groups of their two classes; all others from all rows. They share one store. Its
values are float32 unless ``tol`` asks for more. Then a sample of the scores is computed in float64, and machines whose
certificate float32 does not carry are trained on in float64.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from multimargin import _core
from multimargin.kernel.functions import Kernel
from multimargin.kernel.machine import KernelMachine
from multimargin.kernel.store import fits_float32, kernel_store
from multimargin.linear.loop import HISTORY, Limits, Observer, Outcome, solve
from multimargin.linear.training import n_lanes as n_machines
from multimargin.problems.formulations import PAIRWISE, Formulation, formulation
from multimargin.reductions.pairwise import pairs

KERNEL_HISTORY = np.dtype([*HISTORY.descr, ("hits", np.int64), ("misses", np.int64), ("kernel_evaluations", np.int64)])

_FLOAT32_GAP = 1e-5  # smaller target gaps are beyond float32
_SAMPLE = 128  # rows whose scores are computed again in float64
_ALLOWED = 0.1  # of tol, for what float32 may have changed in an objective


@dataclass
class KernelRequest:
    """Everything that a fit is about."""

    X: Any  # ndarray or CSR; precomputed: kernel values of all rows with each other
    y: np.ndarray  # encoded classes
    cap: np.ndarray  # C_i
    n_classes: int
    formulation: str
    kernel: Kernel
    bias: float  # added to the kernel: the regularised intercept, 0 for none
    free_bias: bool  # LIBSVM's, of one_vs_rest, one_vs_one and dag
    solver: str
    selection: str
    threshold: str
    step: str
    threshold_factor: float
    working_set: int | None
    cache_bytes: int
    tol: float
    stopping: str
    shrinking: bool
    cooling: bool
    limits: Limits
    n_threads: int
    seed: int
    observers: list[Observer] = field(default_factory=list)
    start_duals: Any = None  # CSR, n_samples x machines of the model, or None


@dataclass
class KernelTrained:
    """A trained model: values are ``K @ dual_coef + intercept``."""

    dual_coef: sp.csr_array
    intercept: np.ndarray
    primal: float
    dual: float
    worst_gap: float
    outcome: Outcome
    counts: dict[str, int]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with the model as it was last certified."""

    def __init__(self, trained: KernelTrained):
        super().__init__()
        self.trained = trained


@dataclass
class Task:
    """A machine to train: its problem, its columns of the model, its examples by groups of the store, their labels."""

    problem: Formulation
    columns: slice
    groups: list[int]
    examples: slice | np.ndarray  # positions in the store
    label: np.ndarray  # int32: lanes, or the signs of a machine with a free bias
    free_bias: bool


@dataclass
class Result:
    """What came of a machine."""

    duals: np.ndarray  # examples x lanes
    bias: float
    primal: float
    dual: float
    worst_gap: float
    sampled: np.ndarray  # scores of the sample's examples
    converged: bool


def train(request: KernelRequest) -> KernelTrained:
    """Train all machines of a request."""
    return _Training(request).run()


class _Training:
    """One fit. Rows of the store are the rows of X with a weight, sorted by class for machines of pairs."""

    def __init__(self, request: KernelRequest):
        self.request = request
        self.lanes = n_machines(request.formulation, request.n_classes)
        rows = np.flatnonzero(request.cap > 0).astype(np.int64)
        pairwise = request.formulation in PAIRWISE and request.n_classes > 2
        if pairwise:
            rows = rows[np.argsort(request.y[rows], kind="stable")]
        self.rows, self.y, self.cap = rows, request.y[rows], request.cap[rows]
        begin = np.searchsorted(self.y, np.arange(request.n_classes + 1)) if pairwise else [0, len(rows)]
        self.group_begin = np.array(begin, dtype=np.int64)
        sampled = np.random.RandomState(request.seed).permutation(len(rows))[:_SAMPLE]
        self.sample = np.sort(sampled).astype(np.int64)
        self.tasks = list(self._tasks())
        self.results: dict[int, Result] = {}
        self.outcome = Outcome(fields=KERNEL_HISTORY)
        self.counts = np.zeros(3, dtype=np.int64)
        self.started = time.perf_counter()

    def _tasks(self) -> Iterator[Task]:
        request, k = self.request, self.request.n_classes
        problem = formulation(request.formulation, "hinge", k)
        binary = Formulation("one_vs_rest", False, 1)
        everything = slice(0, len(self.rows))
        if request.formulation in PAIRWISE and k > 2:
            for machine, (i, j) in enumerate(pairs(k)):
                parts = [np.arange(self.group_begin[c], self.group_begin[c + 1]) for c in (i, j)]
                sign = np.repeat([1, -1], [len(part) for part in parts])
                yield self._binary(problem, slice(machine, machine + 1), [i, j], np.concatenate(parts), sign)
        elif request.free_bias and k > 2:
            for c in range(k):
                yield self._binary(binary, slice(c, c + 1), [0], everything, np.where(self.y == c, 1, -1))
        elif problem.lanes == 1:
            yield self._binary(problem, slice(0, 1), [0], everything, np.where(self.y == 1, 1, -1))
        else:
            label = problem.lane_labels(self.y)
            yield Task(problem, slice(0, problem.lanes), [0], everything, label, False)

    def _binary(self, problem: Formulation, columns: slice, groups: list[int], examples: Any, sign: Any) -> Task:
        free = self.request.free_bias
        label = sign if free else np.where(sign > 0, 0, -1)  # the lane of the positive class
        return Task(problem, columns, groups, examples, label.astype(np.int32), free)

    # Training

    def run(self) -> KernelTrained:
        request = self.request
        single = request.tol >= _FLOAT32_GAP and fits_float32(request.kernel, request.X)
        start = None if request.start_duals is None else sp.csr_array(request.start_duals)[self.rows]
        try:
            # Machines in parallel have a thread each; a lone one leaves its threads to the matrix products.
            threads = 1 if len(self.tasks) > 1 else request.n_threads
            with threadpool_limits(limits=threads, user_api="blas"):
                self._train(range(len(self.tasks)), single, start)
                if single and self.outcome.stopped_by in ("converged", "precision"):
                    again = self._distrusted()
                    if again:
                        self.outcome.converged, self.outcome.stopped_by = True, "converged"
                        self._train(again, False, self._dual_coef()[self.rows])
        except KeyboardInterrupt as interrupt:
            raise Interrupted(self._trained()) from interrupt
        return self._trained()

    def _train(self, which: Any, single: bool, start: sp.csr_array | None) -> None:
        request = self.request
        store = kernel_store(
            request.kernel,
            request.X,
            self.rows,
            self.group_begin,
            bias=request.bias,
            budget=request.cache_bytes,
            single_precision=single,
        )
        before = self.counts.copy()
        limits = request.limits
        if limits.time_limit is not None:  # what is left of it
            limits = replace(limits, time_limit=limits.time_limit - (time.perf_counter() - self.started))

        def collect(position: int, machine: KernelMachine) -> None:
            self.counts = before + store.counts()
            self._collect(which[position], machine)

        machines = (self._machine(self.tasks[position], store, start, position) for position in which)
        solve(machines, collect, limits, min(request.n_threads, len(which)), request.observers, self.outcome)

    def _machine(
        self, task: Task, store: _core.KernelStore, start: sp.csr_array | None, position: int
    ) -> KernelMachine:
        request = self.request
        cap = self.cap[task.examples] * task.problem.cap_scale
        working_set = request.working_set or 0
        if task.free_bias:
            core = _core.KernelMachine.smo(store, task.groups, task.label, cap, working_set)
        else:
            problem, seed = task.problem, request.seed + position
            core = _core.KernelMachine.block(
                store,
                task.groups,
                problem.policy,
                problem.lanes,
                task.label,
                cap,
                working_set,
                request.shrinking,
                seed,
            )
        if start is not None:
            core.set_duals(np.ascontiguousarray(start[task.examples, task.columns].toarray()))
        return KernelMachine(
            task.problem, core, store, solver=request.solver, tol=request.tol, stopping=request.stopping
        )

    def _collect(self, position: int, machine: KernelMachine) -> None:
        core = machine.core
        in_task, _ = self._sample_of(self.tasks[position])
        self.results[position] = Result(
            core.duals(),
            core.bias,
            machine.primal,
            machine.dual,
            machine.worst_gap,
            core.scores(in_task),
            machine.converged,
        )

    # float32 against float64

    def _sample_of(self, task: Task) -> tuple[np.ndarray, np.ndarray]:
        """The sample's rows that a machine learns from: as its examples, and as positions in the sample."""
        if isinstance(task.examples, slice):
            return self.sample, np.arange(len(self.sample))
        _, in_task, in_sample = np.intersect1d(task.examples, self.sample, assume_unique=True, return_indices=True)
        return in_task.astype(np.int64), in_sample

    def _distrusted(self) -> list[int]:
        """Machines that float32 kept from converging, or whose objective it may have changed by a share of ``tol``."""
        request = self.request
        duals = self._dual_coef()
        support = np.flatnonzero(np.diff(duals.indptr))
        rows = self.rows[self.sample]
        if request.kernel.name == "precomputed":
            values = request.X[np.ix_(rows, support)]
        else:
            values = request.kernel.block(_as_float64(request.X[rows]), _as_float64(request.X[support]))
        scores = (values.astype(np.float64, copy=False) + request.bias) @ duals[support].toarray()
        distrusted = []
        for position, result in self.results.items():
            task = self.tasks[position]
            _, in_sample = self._sample_of(task)
            error = np.abs(scores[in_sample][:, task.columns] - result.sampled).max(initial=0.0)
            felt = float((self.cap[task.examples] * (result.duals != 0).any(axis=1)).sum())
            if not result.converged or error * felt > _ALLOWED * request.tol * abs(result.primal):
                distrusted.append(position)
        return distrusted

    # What came of it

    def _dual_coef(self) -> sp.csr_array:
        row, lane, value = [], [], []
        for position, result in sorted(self.results.items()):
            task = self.tasks[position]
            example, m = np.nonzero(result.duals)
            row.append(self.rows[task.examples][example])
            lane.append(m + task.columns.start)
            value.append(result.duals[example, m])
        shape = (len(self.request.y), self.lanes)
        if not row:
            return sp.csr_array(shape)
        parts = (np.concatenate(value), (np.concatenate(row), np.concatenate(lane)))
        return sp.csr_array(sp.coo_array(parts, shape=shape))

    def _trained(self) -> KernelTrained:
        duals = self._dual_coef()
        intercept = np.asarray(duals.sum(axis=0)).ravel() * self.request.bias
        objectives = []
        for position, task in enumerate(self.tasks):
            if position in self.results:
                result = self.results[position]
                intercept[task.columns] += result.bias
                objectives.append((result.primal, result.dual, result.worst_gap))
            else:  # stopped before its turn: duals of zero
                problem = task.problem
                at_zero = problem.objective_scale * problem.cap_scale * problem.loss_of_zero_row
                objectives.append((at_zero * float(self.cap[task.examples].sum()), 0.0, 1.0))
        primal, dual, gaps = np.array(objectives).T
        hits, misses, evaluations = (int(count) for count in self.counts)
        return KernelTrained(
            duals,
            intercept,
            float(primal.sum()),
            float(dual.sum()),
            float(gaps.max()),
            self.outcome,
            {"hits": hits, "misses": misses, "kernel_evaluations": evaluations},
        )


def _as_float64(X: Any) -> Any:
    return X.astype(np.float64)
