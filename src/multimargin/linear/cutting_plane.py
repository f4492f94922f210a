"""The cutting-plane method for the hinge loss: one slack for all examples (Joachims, Finley and Yu 2009; the bundle
method of Teo et al. 2010), for one lane SVMperf (Joachims 2006).

The loss R(w) is the largest of linear functions, one for every way to assign to each example its label or a wrong
class. A cut is one of them: with the duals alpha^t of the assignment, C_i at the label and -C_i at the wrong class,

    R(w) >= b_t - a_t.w,   a_t = sum_i alpha^t_i x_i,   b_t = sum_i C_i [a wrong class is assigned].

A pass over the examples finds the cut that is tight at w. The master problem min 1/2 ||w||^2 + max(0, max_t b_t - a_t.w)
then gives the next w, w = sum_t lambda_t a_t by its dual (master_problem.py). So alpha = sum_t lambda_t alpha^t is
feasible and has w as its sum of rows: the master's value is the dual value of w, and the next pass gives its primal value.

The lanes of one-vs-rest are problems of their own, each with its cuts and its master; they share the passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from multimargin import _core
from multimargin.data.rows import as_rows
from multimargin.linear.machine import BUDGET, Examples, Machine, PassRecord, Settings
from multimargin.linear.master_problem import solve_master

_IDLE = 20  # masters that a cut may have no weight in before it is dropped
_STALLED = 10  # masters in a row that do not raise the dual value: float64 is exhausted
_RAISED = 1e-14
_TINY = 1e-300
# What steps cost beside multiply-adds of a pass: vectors that come from memory, a master, least squares of n cuts (n^3).
_COST_OF_VECTOR, _COST_OF_MASTER, _COST_OF_SQUARES = 4.0, 1e6, 10.0


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

    def observe(self, gradient: np.ndarray, offset: float) -> bool:
        """What the cut at w says of w: its primal value; whether it is the best so far."""
        self.here = 0.5 * float(self.w @ self.w) + offset - float(gradient @ self.w)
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
        problem, examples = machine.problem, machine.examples
        self.weights = machine.new_weights(single_precision=False)
        self.best = machine.new_weights(single_precision=False)
        self.label, self.cap = examples.label, examples.cap
        self.own = np.flatnonzero(self.label >= 0)  # examples that have a lane
        self.rows, self.row = _scored_rows(examples)
        (self.block,) = machine.blocks
        self.assigned = _core.Block(  # its duals are those of the cut that is being made
            examples.rows, problem.policy, False, problem.lanes, examples.row, self.label, self.cap, examples.norm, False, 0
        )
        # Columns of W that are one problem.
        width = 1 if problem.separable else problem.lanes
        self.columns = [slice(m, m + width) for m in range(0, problem.lanes, width)]
        self.bundles = [Bundle(width * machine.n_weights) for _ in self.columns]
        self.began = self.block.alpha[:, : problem.lanes].copy() if warm else None
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
            machine.rebuild(self.weights)
            offset = np.abs(self.began).sum(axis=0)  # of joint lanes: the label's dual is the sum of the others
            for part, bundle in enumerate(self.bundles):
                here = offset[part] if machine.problem.separable else 0.5 * offset.sum()
                yield from bundle.add(Cut(self.weights.array[:, self.columns[part]].flatten(), float(here), None))
                self._move(part)
            self.best.array[:] = self.weights.array
        while True:
            gradient, offset, assignment = yield from self._find_cuts(machine)
            share = machine.examples.constant / len(self.bundles)
            gaps = np.zeros(len(self.bundles))
            vectors = [gradient.array[:, columns].flatten() for columns in self.columns]
            for part, bundle in enumerate(self.bundles):
                if bundle.observe(vectors[part], offset[part]):
                    self.best.array[:, self.columns[part]] = self.weights.array[:, self.columns[part]]
                gaps[part] = (bundle.best - bundle.dual) / max(bundle.best + share, _TINY)
            self._record(machine, float(gaps.max()))
            open_parts = np.flatnonzero(gaps > self.target)
            if not self.done and all(self.bundles[part].stalled >= _STALLED for part in open_parts):
                self.done = True  # though not converged: nothing more to gain
            for part in open_parts:
                yield from self.bundles[part].add(Cut(vectors[part], float(offset[part]), assignment[part]))
                self._move(part)

    def _record(self, machine: Machine, gap: float) -> None:
        """The record of a pass; a certificate when the target is met."""
        constant, scale = machine.examples.constant, machine.problem.objective_scale
        primal = scale * (sum(bundle.best for bundle in self.bundles) + constant)
        dual = scale * (sum(bundle.dual for bundle in self.bundles) + constant)
        if gap <= self.target:
            certified = machine.certify()
            self.done = self.converged = certified.worst_gap <= self.tol
            primal, dual = certified.primal, certified.dual
            self.target *= 0.5  # if it failed, for rounding
        # By how much the mean loss exceeds the cuts' maximum, in margins: what SVMperf stops by.
        violation = max(bundle.here - bundle.dual for bundle in self.bundles) / float(self.cap.sum())
        total = max(primal - dual, 0.0) / max(abs(primal), _TINY)
        self.records.append(
            PassRecord(violation, machine.examples.n, self.name, primal=primal, dual=dual, gap=total, estimate=gap)
        )

    def _move(self, part: int) -> None:
        """W <- the bundle's w."""
        columns = self.columns[part]
        self.weights.array[:, columns] = self.bundles[part].w.reshape(-1, columns.stop - columns.start)

    def _find_cuts(self, machine: Machine) -> Iterator[float]:
        """A pass: gradients, offsets and assignments of the cuts at W, by part."""
        problem, n = machine.problem, machine.examples.n
        gradient = machine.new_weights(single_precision=False)
        offset = np.zeros(len(self.bundles))
        wrong = np.empty((problem.lanes, n), dtype=bool) if problem.separable else None
        chosen = np.empty((1, n), dtype=np.min_scalar_type(problem.lanes - 1))
        for _, begin, end in machine.slices():
            here, cap = slice(begin, end), self.cap[begin:end]
            scores = self._scores(problem.lanes, begin, end)
            duals = self.assigned.alpha[here, : problem.lanes]
            if wrong is not None:
                sign = self._signs(problem.lanes, begin, end)
                inside = sign * scores < 1
                duals[:] = np.where(inside, sign * cap[:, None], 0.0)
                wrong[:, here] = inside.T
                offset += cap @ inside
            else:
                label, every = self.label[here], np.arange(end - begin)
                scores[every, label] -= 1
                chosen[0, here] = worst = scores.argmax(axis=1)
                duals[:] = 0.0
                duals[every, label] = cap
                duals[every, worst] -= cap
                offset += cap[worst != label].sum()
            self.assigned.accumulate(gradient, begin, end)
            yield 2 * machine.cost_of_pass * (end - begin) / n
        return gradient, offset, chosen if wrong is None else np.packbits(wrong, axis=1)

    def _scores(self, lanes: int, begin: int, end: int) -> np.ndarray:
        row = self.row[begin:end]
        scores = np.empty((row[-1] + 1 - row[0], lanes))
        self.rows.scores(self.weights.array, scores, int(row[0]))
        return scores if len(scores) == len(row) else scores[row - row[0]]

    def _signs(self, lanes: int, begin: int, end: int) -> np.ndarray:
        """+1 in the label's lane, else -1."""
        sign = np.full((end - begin, lanes), -1.0)
        own = self.own[np.searchsorted(self.own, begin) : np.searchsorted(self.own, end)]
        sign[own - begin, self.label[own]] = 1.0
        return sign

    def imply_duals(self, machine: Machine) -> None:
        """alpha <- sum of lambda_t alpha^t."""
        lanes, n, cap = machine.problem.lanes, machine.examples.n, self.cap
        alpha, every = self.block.alpha[:, :lanes], np.arange(n)
        if self.began is None:
            alpha[:] = 0.0
        else:
            alpha[:] = self.began * [sum(c.weight for c in b.cuts if c.assignment is None) for b in self.bundles]
        if machine.problem.separable:
            sign = self._signs(lanes, 0, n)
            for m, bundle in enumerate(self.bundles):
                share = np.zeros(n)
                for cut in bundle.cuts:
                    if cut.weight > 0 and cut.assignment is not None:
                        share += cut.weight * np.unpackbits(cut.assignment, count=n)
                alpha[:, m] += sign[:, m] * cap * share
            return
        for cut in self.bundles[0].cuts:
            if cut.weight > 0 and cut.assignment is not None:
                alpha[every, cut.assignment] -= cut.weight * cap
        alpha[every, self.label] = 0.0
        alpha[every, self.label] = -alpha.sum(axis=1)

    def candidate(self, out: _core.Weights) -> bool:
        out.array[:] = self.best.array
        return True


def _scored_rows(examples: Examples) -> tuple[_core.Rows, np.ndarray]:
    """Rows that hold the examples, and where: those of X, or a copy when most rows of X are not examples (pairs)."""
    if 2 * examples.n >= examples.rows.n_rows or examples.n == 0:
        return examples.rows, examples.row
    return as_rows(examples.X[examples.row], examples.rows.intercept), np.arange(examples.n)
