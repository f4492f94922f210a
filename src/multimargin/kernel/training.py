"""From rows and labels to a trained kernel model: in which precision machines train, and what becomes of them.

Machines of pairs learn from the groups of their two classes; all others from all rows. They share one store. Its
values are float32 unless ``tol`` asks for more; certificates are float64 in any case (certificate.py). Machines that
float32 does not bring to their target are trained on in float64.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin import _core
from multimargin.kernel.certificate import ALLOWED, Certifier, ExactScores
from multimargin.kernel.decomposition import decomposition_machine
from multimargin.kernel.functions import Kernel
from multimargin.kernel.machine import KernelMachine, Result
from multimargin.kernel.pairs import PairsMachine
from multimargin.kernel.store import fits_float32, kernel_store
from multimargin.kernel.tasks import tasks
from multimargin.linear.blas import blas_threads
from multimargin.linear.checkpoint import Checkpoint
from multimargin.linear.interrupts import interruptible
from multimargin.linear.loop import positions_left, solve
from multimargin.linear.outcome import HISTORY, Limits, Observer, Outcome
from multimargin.linear.state import State, index, number, part, prefixed, stacked, unstacked
from multimargin.problems.formulations import PAIRWISE, n_lanes
from multimargin.problems.range import SMALLEST_OBJECTIVE

KERNEL_HISTORY = np.dtype([*HISTORY.descr, ("hits", np.int64), ("misses", np.int64), ("kernel_evaluations", np.int64)])

_FLOAT32_GAP = 1e-5  # smaller target gaps are beyond float32
_SAMPLE = 128  # rows by which a kernel shows whether it is one
_INDEFINITE = 1e-5  # an eigenvalue, below zero and relative to the largest one
_PATIENCE = 100  # epochs in which float32 has to halve the gap; else it is float64's turn


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
    checkpoint: Checkpoint | None = None


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
    doubt: float  # of the objectives, relative: rounding may have changed them by so much


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with the model as it was last certified."""

    def __init__(self, trained: KernelTrained):
        super().__init__()
        self.trained = trained


def train(request: KernelRequest) -> KernelTrained:
    """Train all machines of a request."""
    return _Training(request).run()


class _Training:
    """One fit. Rows of the store are the rows of X with a weight, sorted by class for machines of pairs."""

    def __init__(self, request: KernelRequest):
        self.request = request
        self.lanes = n_lanes(request.formulation, request.n_classes)
        rows = np.flatnonzero(request.cap > 0).astype(np.int64)
        pairwise = request.formulation in PAIRWISE and request.n_classes > 2
        if pairwise:
            rows = rows[np.argsort(request.y[rows], kind="stable")]
        self.rows, self.y, self.cap = rows, request.y[rows], request.cap[rows]
        begin = np.searchsorted(self.y, np.arange(request.n_classes + 1)) if pairwise else [0, len(rows)]
        self.group_begin = np.array(begin, dtype=np.int64)
        shape = (request.formulation, request.n_classes, self.y, self.group_begin)
        self.tasks = list(tasks(*shape, solver=request.solver, free_bias=request.free_bias))
        self.results: dict[int, Result] = {}  # by task
        self.outcome = Outcome(fields=KERNEL_HISTORY)
        self.counts = self.before = np.zeros(3, dtype=np.int64)  # before: by another store
        self.behind: dict[int, tuple[int, float]] = {}  # passes and epochs of tasks, so far
        self.started = time.perf_counter()
        # What is being trained, for checkpoints: which tasks, in which precision, with which store.
        fits = fits_float32(request.kernel, request.X, request.bias, request.cap)
        self.single = request.tol >= _FLOAT32_GAP and fits
        self.which = list(range(len(self.tasks)))
        self.in_double = False  # after single precision
        self.store: _core.KernelStore | None = None
        if request.checkpoint is not None:
            self.started -= request.checkpoint.begin(self)

    # Training

    def run(self) -> KernelTrained:
        request = self.request
        start = None if request.start_duals is None else sp.csr_array(request.start_duals)[self.rows]
        try:
            # Machines in parallel have a thread each; a lone one leaves its threads to the matrix products.
            threads = 1 if len(self.tasks) > 1 else request.n_threads
            with interruptible(), blas_threads(threads):
                if self.in_double:  # as a checkpoint says
                    self._train(self.which, False, self._dual_coef()[self.rows])
                else:
                    self._train(self.which, self.single, start)
                    if start is not None:  # those without a turn are what they were
                        left = [task for task in self.which if task not in self.results]
                        self._train(left, self.single, start, stop=True)
                    if self.single and self.outcome.stopped_by == "precision":
                        self.outcome.converged, self.outcome.stopped_by = True, "converged"
                        again = [task for task, result in self.results.items() if not result.converged]
                        self._train(again, False, self._dual_coef()[self.rows])
                if self._doubtful:
                    self.outcome.remark = (
                        "scores of so large duals, or of rows so near each other, are not known any better"
                    )
                elif not all(result.certified for result in self.results.values()):
                    self.outcome.remark = "by scores as training kept them, as to certify it would take long"
                if not self.outcome.remark:
                    self.outcome.remark = self._indefinite()
        except KeyboardInterrupt as interrupt:
            self.outcome.converged, self.outcome.stopped_by = False, "interrupt"  # also between two trainings
            raise Interrupted(self._trained()) from interrupt
        return self._trained()

    def _train(self, which: list[int], single: bool, start: sp.csr_array | None, *, stop: bool = False) -> None:
        """Train some tasks; with ``stop``, certify the duals that they start from, whatever time it takes."""
        request = self.request
        if not len(which):
            return
        store = kernel_store(
            request.kernel,
            request.X,
            self.rows,
            self.group_begin,
            bias=request.bias,
            budget=request.cache_bytes,
            single_precision=single,
        )
        threads = min(request.n_threads, len(which))
        store.share(threads)
        limits, checkpoint = (Limits(0), None) if stop else (request.limits, request.checkpoint)
        resumed = None if checkpoint is None else checkpoint.of_training()
        if checkpoint is not None and resumed is not None:
            with checkpoint.restoring():
                store.set_state(part(resumed, "store"))
        else:
            self.before = self.counts.copy()
        self.which, self.in_double, self.store, before = which, not single and self.single, store, self.before
        exact = ExactScores(
            request.kernel,
            request.X,
            self.rows,
            request.bias,
            store.diagonal,
            eps=float(np.finfo(np.float32 if single else np.float64).eps),
        )

        def collect(position: int, machine: KernelMachine | PairsMachine) -> None:
            self.counts = before + store.counts()
            self.results[which[position]] = machine.result(self.tasks[which[position]].columns)
            passes = machine.n_passes + isinstance(machine, PairsMachine)  # which has one record a machine
            self.behind[which[position]] = (passes, machine.epochs)

        left = positions_left(len(which), checkpoint)
        machines = (self._machine(which[position], store, exact, start, before) for position in left)
        solve(machines, collect, limits, threads, request.observers, self.outcome, self.started, checkpoint)

    def _machine(
        self,
        position: int,
        store: _core.KernelStore,
        exact: ExactScores,
        start: sp.csr_array | None,
        counted: np.ndarray,
    ) -> KernelMachine | PairsMachine:
        request, task = self.request, self.tasks[position]
        working_set = request.working_set or 0
        passes, epochs = self.behind.get(position, (0, 0.0))
        if task.pairs is not None:
            return PairsMachine(
                task.problem,
                store,
                task.pairs,
                task.columns.start,
                self.group_begin,
                self.cap,
                None if start is None else start[:, task.columns],
                exact,
                passes=passes,
                counted=counted,
                working_set=working_set,
                tol=request.tol,
                stopping=request.stopping,
            )
        cap = self.cap[task.examples] * task.problem.cap_scale
        if request.solver == "decomposition":
            core = decomposition_machine(store, task.problem, task.groups, task.label, cap, task.free_bias, request)
        elif task.free_bias:
            core = _core.KernelMachine.smo(store, task.groups, task.label, cap, working_set)
        else:
            core = _core.KernelMachine.block(
                store,
                task.groups,
                task.problem.policy,
                task.problem.lanes,
                task.label,
                cap,
                working_set,
                request.shrinking,
                request.seed + position,
            )
        if start is not None:
            core.set_duals(np.ascontiguousarray(start[task.examples][:, task.columns].toarray()))
        label = np.where(task.label > 0, 0, -1).astype(np.int32) if task.free_bias else task.label
        return KernelMachine(
            task.problem,
            core,
            store,
            number=task.columns.start,
            passes=passes,
            epochs=epochs,
            counted=counted,
            solver=request.solver,
            tol=request.tol,
            stopping=request.stopping,
            patience=_PATIENCE if store.single_precision and request.solver == "block" else np.inf,
            certifier=Certifier(exact, task.problem.policy, label, cap, task.free_bias, task.examples),
        )

    @property
    def _doubtful(self) -> bool:
        """Nor is float64 trusted: with large duals, rounding in the scores can be more than a gap that seems closed."""
        return not all(np.all(result.doubt <= ALLOWED * self.request.tol) for result in self.results.values())

    def _indefinite(self) -> str:
        """What there is to say about a kernel without an optimum to be certified, as far as the sample shows."""
        if self.request.kernel.name in ("linear", "rbf"):
            return ""
        sampled = np.random.RandomState(self.request.seed).permutation(len(self.rows))[:_SAMPLE]
        rows = self.rows[np.sort(sampled)]
        eigenvalues = np.linalg.eigvalsh(self._values(rows) + self.request.bias)
        if eigenvalues[0] >= -_INDEFINITE * np.abs(eigenvalues).max():
            return ""
        return (
            f"the kernel matrix is not positive semidefinite (that of {len(rows)} rows has the eigenvalue "
            f"{eigenvalues[0]:.2g}), so that there may be no optimum to be found"
        )

    def _values(self, rows: np.ndarray) -> np.ndarray:
        """Kernel values of rows of X with each other, in float64."""
        X, kernel = self.request.X, self.request.kernel
        if kernel.name == "precomputed":
            return X[np.ix_(rows, rows)].astype(np.float64)
        taken = X[rows].astype(np.float64)
        return kernel.block(taken, taken).astype(np.float64, copy=False)

    # Checkpoints

    def state(self) -> State:
        """What came of tasks, and what the machines share."""
        assert self.store is not None
        results = [
            {"task": np.array([task]), "behind": np.array(self.behind[task], dtype=np.float64)} | result.state()
            for task, result in self.results.items()
        ]
        plain = {
            "which": np.array(self.which, dtype=np.int64),
            "in_double": np.array([self.in_double]),
            "counts": self.counts,
            "before": self.before,
        }
        return plain | prefixed("store", self.store.state()) | prefixed("results", stacked(results))

    def set_state(self, state: State) -> None:
        """Go on from there; the store follows when it is made."""
        for one in unstacked(part(state, "results")):
            task = index(one, "task", len(self.tasks))
            columns = self.tasks[task].columns
            self.results[task] = result = Result.of(one, len(self.rows), columns)
            if not self.tasks[task].learns_from(result.row, result.column, self.group_begin).all():
                raise ValueError("duals of rows that another machine learns from")
            passes, epochs = one["behind"].tolist()
            self.behind[task] = (int(passes), epochs)
        which, self.in_double = state["which"], bool(number(state, "in_double"))
        if which.dtype.kind != "i" or not {*which.tolist()} <= {*range(len(self.tasks))}:
            raise ValueError("there are no such machines")
        self.which = which.tolist()
        self.counts, self.before = (state[name].astype(np.int64).reshape(3) for name in ("counts", "before"))

    # What came of it

    def _dual_coef(self) -> sp.csr_array:
        results = [result for _, result in sorted(self.results.items())]
        shape = (len(self.request.y), self.lanes)
        if not results:
            return sp.csr_array(shape)
        value = np.concatenate([result.value for result in results])
        row = self.rows[np.concatenate([result.row for result in results])]
        column = np.concatenate([result.column for result in results])
        return sp.csr_array(sp.coo_array((value, (row, column)), shape=shape))

    def _trained(self) -> KernelTrained:
        duals = self._dual_coef()
        intercept = np.asarray(duals.sum(axis=0)).ravel() * self.request.bias
        primal, dual, worst, unknown = 0.0, 0.0, 0.0, 0.0
        for position, task in enumerate(self.tasks):
            if position in self.results:
                result = self.results[position]
                intercept[task.columns] += result.bias
                primal += float(result.primal.sum())
                dual += float(result.dual.sum())
                worst = max(worst, float((result.gap + result.doubt).max()))
                unknown += float(result.doubt @ np.abs(result.primal))
            else:  # stopped before its turn: duals of zero
                problem = task.problem
                at_zero = problem.objective_scale * problem.cap_scale * problem.loss_of_zero_row
                primal += at_zero * float(self.cap[task.every_example(self.group_begin)].sum())
                worst = 1.0
        hits, misses, evaluations = (int(count) for count in self.counts)
        counts = {"hits": hits, "misses": misses, "kernel_evaluations": evaluations}
        doubt = unknown / max(abs(primal), SMALLEST_OBJECTIVE)
        return KernelTrained(duals, intercept, primal, dual, worst, self.outcome, counts, doubt)
