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

The method is a generator that yields between its steps. What it goes on from is in attributes that change only where a
new one would go on just there: after a slice of a pass, and when a bundle has taken in a cut. A checkpoint keeps them
and how many steps have been made since; these are made again (a part of one master, at most).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from multimargin import _core
from multimargin.data.rows import as_rows
from multimargin.linear.algorithm import PassRecord, Settings
from multimargin.linear.assignments import InsideMargins, WorstClasses
from multimargin.linear.bundles import Bundle, Cut, Limits, state_of_cuts
from multimargin.linear.examples import Examples
from multimargin.linear.machine import BUDGET, Machine
from multimargin.linear.state import State, attributes, number, prefixed, set_attributes, stacked, unstacked
from multimargin.linear.state import part as part_of

_STALLED = 10  # masters in a row that do not raise the dual value: float64 is exhausted
_TINY = 1e-300
_COST_OF_VISIT = 4.0  # scores, assignments, gradient; in multiply-adds of a pass


class CuttingPlane:
    """Passes that find the next cut of every problem of one machine."""

    name = "cutting_plane"
    lists = False
    kept = ("target", "cursor", "offset")

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
        self.gradient = machine.new_weights(single_precision=False)  # of the cuts that are being made,
        self.offset = np.zeros(len(self.bundles))
        self.cursor = 0  # from examples up to this one
        self.pending: list[tuple[int, Cut]] = []  # cuts that their parts have yet to take in
        self.steps = 0  # with the first of them
        self.began = self.block.alpha[:, :lanes].copy() if warm else None
        if warm:
            self._begin(machine)
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
        while True:
            while self.pending:
                part, cut = self.pending[0]
                for cost in self.bundles[part].add(cut):
                    self.steps += 1
                    yield cost
                self._taken(part, cut)
            for block, begin, end in machine.slices():
                if begin >= self.cursor:
                    self.offset += self._choose(begin, end)
                    self.cut.accumulate(self.gradient, begin, end)
                    self.cursor = end
                    yield _COST_OF_VISIT * block.cost_of_pass * (end - begin) / block.n_examples
            self._end_pass(machine)

    def _end_pass(self, machine: Machine) -> None:
        """The cuts that were found, what they say of w, and who takes them in."""
        cuts = [
            Cut(self.gradient.array[:, columns].flatten(), float(b), chosen)
            for columns, b, chosen in zip(self.columns, self.offset, self.assignments.chosen(), strict=True)
        ]
        self.gradient.array[:] = 0.0
        self.offset = np.zeros(len(cuts))
        self.cursor = 0
        share = machine.examples.constant / len(cuts)
        gaps = np.zeros(len(cuts))
        for part, (bundle, cut, columns) in enumerate(zip(self.bundles, cuts, self.columns, strict=True)):
            if bundle.observe(cut):
                self.best.array[:, columns] = self.weights.array[:, columns]
            gaps[part] = (bundle.best - bundle.dual) / max(bundle.best + share, _TINY)
        self._record(machine, float(gaps.max()))
        unfinished = np.flatnonzero(gaps > self.target).tolist()
        if all(self.bundles[part].stalled >= _STALLED for part in unfinished):
            self.done = self.done or bool(unfinished)
        self.pending = [(part, cuts[part]) for part in unfinished]

    def _begin(self, machine: Machine) -> None:
        """The duals that there are become the first cut."""
        assert self.began is not None
        machine.rebuild(self.weights)
        offset = np.abs(self.began).sum(axis=0)
        if not machine.problem.separable:  # the label's dual is the sum of the others
            offset = 0.5 * offset.sum(keepdims=True)
        for part, columns in enumerate(self.columns):
            self.pending.append((part, Cut(self.weights.array[:, columns].flatten(), float(offset[part]), None)))

    def _choose(self, begin: int, end: int) -> np.ndarray:
        """The assignments of examples begin..end with the largest loss; their offsets."""
        row, duals = self.row[begin:end], self.cut.alpha[begin:end, : self.weights.lanes]
        scores = np.empty((row[-1] + 1 - row[0], self.weights.lanes))
        self.rows.scores(self.weights.array, scores, int(row[0]))
        return self.assignments.choose(begin, end, scores[row - row[0]], duals)

    def _taken(self, part: int, cut: Cut) -> None:
        """A bundle has taken in a cut: W <- its next w."""
        here = self.weights.array[:, self.columns[part]]
        here[:] = self.bundles[part].w.reshape(here.shape)
        if cut.assignment is None:
            self.best.array[:, self.columns[part]] = here
        del self.pending[0]
        self.steps = 0

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

    def more_state(self) -> State:
        """The pass or the master that is under way, and the bundles."""
        state = {"steps": np.array([self.steps]), "part": np.array([part for part, _ in self.pending], dtype=np.int64)}
        state |= prefixed("pending", state_of_cuts([cut for _, cut in self.pending]))
        state |= prefixed("bundles", stacked([bundle.state() for bundle in self.bundles]))
        state |= prefixed("assignments", attributes(self.assignments, self.assignments.kept))
        return state | prefixed("best", self.best.state()) | prefixed("gradient", self.gradient.state())

    def set_more_state(self, machine: Machine, state: State) -> None:
        limits = Limits(machine.examples, self.assignments, warm=self.began is not None)
        limits.check_offsets(self.offset)
        if not (type(self.cursor) is int and 0 <= self.cursor <= machine.examples.n and 0 < self.target <= self.tol):
            raise ValueError("a pass or a target that there is not")
        self.best.set_state(part_of(state, "best"))
        self.gradient.set_state(part_of(state, "gradient"))
        limits.check_gradients(np.square(self.gradient.array).sum(axis=0))
        set_attributes(self.assignments, self.assignments.kept, part_of(state, "assignments"))
        self.assignments.check_kept()
        for bundle, kept in zip(self.bundles, unstacked(part_of(state, "bundles")), strict=True):
            bundle.set_state(kept, limits)
        parts = state["part"]
        if parts.dtype != np.int64 or not np.isin(parts, np.arange(len(self.bundles))).all():
            raise ValueError("cuts of parts that there are not")
        cuts = limits.cuts(part_of(state, "pending"), self.bundles[0].w.size)
        self.pending = list(zip(parts.tolist(), cuts, strict=True))
        self._make_again(machine, number(state, "steps"))

    def _make_again(self, machine: Machine, steps: int) -> None:
        """The steps since attributes last changed."""
        self.steps = 0
        self.work = self._iterate(machine)
        for made in range(1, steps + 1):
            if not self.pending:
                raise ValueError("steps with a cut that there is not")
            next(self.work)
            if self.steps != made:
                raise ValueError("more steps than a cut takes")


def _scored_rows(examples: Examples) -> tuple[_core.Rows, np.ndarray]:
    """Rows that hold the examples, and where: those of X, or a copy when most rows of X are not examples (pairs)."""
    if 2 * examples.n >= examples.rows.n_rows or examples.n == 0:
        return examples.rows, examples.row
    return as_rows(examples.matrix, examples.rows.intercept), np.arange(examples.n)
