"""The cutting-plane method for the hinge loss: one slack for all examples (Joachims, Finley and Yu 2009; the bundle
method of Teo et al. 2010), for one lane SVMperf (Joachims 2006).

The loss R(w) is the largest of linear functions, one for every way to assign to each example its label or a wrong
class. A cut is one of them: with the duals alpha^t of the assignment, C_i at the label and -C_i at the wrong class,

    R(w) >= b_t - a_t.w,   a_t = sum_i alpha^t_i x_i,   b_t = sum_i C_i [a wrong class is assigned].

A pass over the examples finds the cut that is tight at w. The master problem

    min_w 1/2 ||w||^2 + max(0, max_t b_t - a_t.w)

then gives the next w: sum_t lambda_t a_t, by its dual (master_problem.py). So alpha = sum_t lambda_t alpha^t is
feasible and w its sum of rows: the master's value is the dual value of w, and the next pass gives its primal value.

The lanes of one-vs-rest are problems of their own, each with its cuts and its master; they share the passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from multimargin import _core
from multimargin.data.rows import as_rows
from multimargin.linear.assignments import InsideMargins, WorstClasses
from multimargin.linear.examples import Examples
from multimargin.linear.machine import BUDGET, Machine, PassRecord, Settings
from multimargin.linear.master_problem import solve_master

_IDLE = 20  # masters that a cut may have no weight in before it is dropped
_STALLED = 10  # masters in a row that do not raise the dual value: float64 is exhausted
_RAISED = 1e-14
_TINY = 1e-300
# What steps cost, in multiply-adds of a pass: visits (scores, assignments, gradient), vectors that come from memory, a
# master, least squares of n cuts (n^3).
_COST_OF_VISIT, _COST_OF_VECTOR, _COST_OF_MASTER, _COST_OF_SQUARES = 4.0, 8.0, 1e6, 10.0


@dataclass
class Cut:
    """R(w) >= offset - gradient.w, and the assignment that it is made of (None: the duals that training began with)."""

    gradient: np.ndarray
    offset: float
    assignment: np.ndarray | None
    weight: float = 0.0  # lambda
    idle: int = 0  # masters since it last had a weight


class Bundle:
    """The cuts of one problem, and what is known of its optimum."""

    def __init__(self, size: int):
        self.cuts: list[Cut] = []
        self.gram = np.zeros((0, 0))
        self.w = np.zeros(size)
        self.slack = self.dual = 0.0
        self.here = self.best = np.inf  # primal values: of w, the lowest
        self.stalled = 0

    def observe(self, cut: Cut) -> bool:
        """What the cut at w says of w, its primal value; whether it is the lowest so far."""
        self.here = 0.5 * float(self.w @ self.w) + cut.offset - float(cut.gradient @ self.w)
        better = self.here < self.best
        self.best = min(self.here, self.best)
        return better

    def add(self, cut: Cut) -> Iterator[float]:
        """Take in a cut, and find the next w; yields what it costs, step by step."""
        row = np.empty(len(self.cuts) + 1)
        for t, other in enumerate([*self.cuts, cut]):
            row[t] = cut.gradient @ other.gradient
            yield _COST_OF_VECTOR * cut.gradient.size
        self.gram = np.block([[self.gram, row[:-1, None]], [row]])
        self.cuts.append(cut)
        offset = np.array([c.offset for c in self.cuts])
        weights, self.slack = solve_master(self.gram, offset, self.slack)
        yield _COST_OF_MASTER + _COST_OF_SQUARES * len(weights) ** 3
        w = np.zeros_like(self.w)
        for cut, weight in zip(self.cuts, weights, strict=True):
            cut.weight = float(weight)
            cut.idle = 0 if weight > 0 else cut.idle + 1
            if weight > 0:
                w += weight * cut.gradient
                yield _COST_OF_VECTOR * w.size
        dual = float(offset @ weights) - 0.5 * float(w @ w)
        self.stalled = 0 if dual > self.dual + _RAISED * abs(dual) else self.stalled + 1
        self.w, self.dual = w, dual
        kept = [t for t, cut in enumerate(self.cuts) if cut.idle < _IDLE]
        self.cuts = [self.cuts[t] for t in kept]
        self.gram = self.gram[np.ix_(kept, kept)]

    def weighted(self) -> Iterator[tuple[float, np.ndarray]]:
        """Assignments with their weights."""
        for cut in self.cuts:
            if cut.weight > 0 and cut.assignment is not None:
                yield cut.weight, cut.assignment

    @property
    def weight_of_beginning(self) -> float:
        return sum(cut.weight for cut in self.cuts if cut.assignment is None)


class CuttingPlane:
    """Passes that find the next cut of every problem of one machine."""

    name = "cutting_plane"
    lists = False

    def __init__(self, settings: Settings):
        self.tol = settings.tol
        self.stopping = "gap"
        self.done = self.converged = False
        self.target = settings.tol  # gap at which to certify
        self.weights: _core.Weights  # set by start
        self.records: list[PassRecord] = []

    def start(self, machine: Machine, *, warm: bool) -> None:
        """Prepare the bundles, with the machine's duals as the first cut when it has any."""
        machine.examples.check_curvature()
        problem, examples = machine.problem, machine.examples
        lanes, label, cap = problem.lanes, examples.label, examples.cap
        self.weights = machine.new_weights(single_precision=False)
        self.best = machine.new_weights(single_precision=False)
        self.rows, self.row = _scored_rows(examples)
        self.assignments = (InsideMargins if problem.separable else WorstClasses)(label, cap, lanes)
        # Its duals are those of the cuts that are being made; the machine's are written when they are asked for.
        self.cut = _core.Block(
            examples.rows, problem.policy, False, lanes, examples.row, label, cap, examples.norm, False, machine.seed
        )
        width = lanes // problem.n_parts
        self.columns = [slice(m, m + width) for m in range(0, lanes, width)]  # of W, by part
        self.bundles = [Bundle(width * machine.n_weights) for _ in self.columns]
        (self.block,) = machine.blocks
        self.began = self.block.alpha[:, :lanes].copy() if warm else None
        self.work = self._iterate(machine)

    def advance(self, machine: Machine, max_epochs: float) -> list[PassRecord]:
        if machine.examples.n == 0:
            machine.certify()
            self.done = self.converged = True
        spent = 0.0
        while spent < BUDGET and len(self.records) < max_epochs and not self.done:
            spent += next(self.work)
        records, self.records = self.records, []
        return records

    def _iterate(self, machine: Machine) -> Iterator[float]:
        """The method, in steps that yield their cost in multiply-adds."""
        if self.began is not None:
            yield from self._begin(machine)
        share = machine.examples.constant / len(self.bundles)
        while True:
            gradient = machine.new_weights(single_precision=False)
            offset = np.zeros(len(self.bundles))
            for block, begin, end in machine.slices():
                offset += self._choose(begin, end)
                self.cut.accumulate(gradient, begin, end)
                yield _COST_OF_VISIT * block.cost_of_pass * (end - begin) / block.n_examples
            cuts = [
                Cut(gradient.array[:, columns].flatten(), float(b), chosen)
                for columns, b, chosen in zip(self.columns, offset, self.assignments.chosen(), strict=True)
            ]
            gaps = np.zeros(len(cuts))
            for part, (bundle, cut, columns) in enumerate(zip(self.bundles, cuts, self.columns, strict=True)):
                if bundle.observe(cut):
                    self.best.array[:, columns] = self.weights.array[:, columns]
                gaps[part] = (bundle.best - bundle.dual) / max(bundle.best + share, _TINY)
            self._record(machine, float(gaps.max()))
            unfinished = np.flatnonzero(gaps > self.target).tolist()
            if all(self.bundles[part].stalled >= _STALLED for part in unfinished):
                self.done = self.done or bool(unfinished)
            for part in unfinished:
                yield from self._take(part, cuts[part])

    def _begin(self, machine: Machine) -> Iterator[float]:
        """The duals that there are become the first cut."""
        assert self.began is not None
        machine.rebuild(self.weights)
        offset = np.abs(self.began).sum(axis=0)
        if not machine.problem.separable:  # the label's dual is the sum of the others
            offset = 0.5 * offset.sum(keepdims=True)
        for part, columns in enumerate(self.columns):
            yield from self._take(part, Cut(self.weights.array[:, columns].flatten(), float(offset[part]), None))
        self.best.array[:] = self.weights.array

    def _choose(self, begin: int, end: int) -> np.ndarray:
        """The assignments of examples begin..end with the largest loss; their offsets."""
        row, duals = self.row[begin:end], self.cut.alpha[begin:end, : self.weights.lanes]
        scores = np.empty((row[-1] + 1 - row[0], self.weights.lanes))
        self.rows.scores(self.weights.array, scores, int(row[0]))
        return self.assignments.choose(begin, end, scores[row - row[0]], duals)

    def _take(self, part: int, cut: Cut) -> Iterator[float]:
        """A cut for a bundle; W <- its next w."""
        yield from self.bundles[part].add(cut)
        here = self.weights.array[:, self.columns[part]]
        here[:] = self.bundles[part].w.reshape(here.shape)

    def _record(self, machine: Machine, gap: float) -> None:
        """The record of a pass; with a certificate, when the target is met."""
        constant, scale = machine.examples.constant, machine.problem.objective_scale
        primal = scale * (sum(bundle.best for bundle in self.bundles) + constant)
        dual = scale * (sum(bundle.dual for bundle in self.bundles) + constant)
        if gap <= self.target:
            certified = machine.certify()
            self.done = self.converged = certified.worst_gap <= self.tol
            primal, dual = certified.primal, certified.dual
            self.target *= 0.5  # for another time, if rounding made it fail
        # By how much the mean loss exceeds what the cuts know of it, in margins: SVMperf's criterion.
        violation = max(bundle.here - bundle.dual for bundle in self.bundles) / float(machine.examples.cap.sum())
        total = max(primal - dual, 0.0) / max(abs(primal), _TINY)
        self.records.append(PassRecord(violation, machine.examples.n, self.name, primal, dual, total, gap))

    def imply_duals(self, machine: Machine) -> None:
        """alpha <- sum of lambda_t alpha^t."""
        alpha = self.block.alpha[:, : self.weights.lanes]
        alpha[:] = 0.0
        if self.began is not None:
            alpha += self.began * [bundle.weight_of_beginning for bundle in self.bundles]
        self.assignments.combine([bundle.weighted() for bundle in self.bundles], alpha)

    def candidate(self, out: _core.Weights) -> bool:
        out.array[:] = self.best.array
        return True


def _scored_rows(examples: Examples) -> tuple[_core.Rows, np.ndarray]:
    """Rows that hold the examples, and where: those of X, or a copy when most rows of X are not examples (pairs)."""
    if 2 * examples.n >= examples.rows.n_rows or examples.n == 0:
        return examples.rows, examples.row
    return as_rows(examples.matrix, examples.rows.intercept), np.arange(examples.n)
