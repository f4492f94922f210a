"""One machine: its algorithm, weights and the certificate that bounds how far they are from optimal.

A certificate is computed in float64 from alpha alone: V = sum alpha x is rebuilt, the dual value is f's at
alpha, the primal value is taken at the weights that would be handed out (accelerated: the best of a few scales of
W). Its relative gap is (primal + f) / primal; for separable lanes the worst lane is certified beside the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import sqrt
from typing import Any

import numpy as np

from multimargin import _core
from multimargin.data.thread_pool import ThreadPool
from multimargin.linear.algorithm import Algorithm, Certificate, Duals, ImpliesDuals, KeepsMore, PassRecord
from multimargin.linear.interrupts import Cancelled
from multimargin.linear.rounding import Sums, rounding_of_margins, sizes_of_terms
from multimargin.linear.state import State, attributes, check_counts, number, part, prefixed, set_attributes
from multimargin.problems.formulations import Formulation, check_feasible
from multimargin.problems.range import SMALLEST_OBJECTIVE

# Multiply-adds that one call into the core may spend: well below 50 ms of work, so that Ctrl-C and progress live.
BUDGET = 8e7
_LARGE = 1 << 29  # bytes
SCALES = np.array([0.0, 1.0, 2.0, 4.0])  # in steps above 1: scales of W that are tried, as by Scales in the core
# Of a machine and its certificate, in a checkpoint.
_COUNTED = ("epochs", "n_passes")
_CERTIFIED = ("primal", "dual", "worst_gap")
_DUALS = ("row", "lane", "value")
_ROUNDING = 1e-7  # by which a dual value may exceed the primal value, relative


class NotFinite(ValueError):
    """An objective is no number."""


class Machine:
    """Examples, their duals and W for one problem, trained by one algorithm.

    The duals are in blocks, which come one after the other whenever they are iterated over: one that is always there,
    or many on disk (streamed.py), of which some are there at a time.
    """

    def __init__(
        self,
        problem: Formulation,
        examples: Any,  # Examples, or StoredExamples
        algorithm: Algorithm,
        *,
        seed: int,
    ):
        self.problem = problem
        self.examples = examples
        self.algorithm = algorithm
        self.seed = seed
        self.epochs = 0.0  # visits / examples
        self.n_passes = 0
        self.cancelled = False
        self.certificate: Certificate | None = None
        self.blocks, self.passes = examples.schedule(problem, algorithm.lists and not problem.separable, seed)

    def count(self, position: int, record: PassRecord) -> tuple[int, int]:
        """Count a pass: the machine's number, and the pass's."""
        self.n_passes += 1
        self.epochs += record.active_rows / max(1, self.examples.n)
        return position, self.n_passes

    def exhausted(self, max_iter: int) -> bool:
        """Whether ``max_iter`` epochs are used up."""
        return self.epochs >= max_iter

    @property
    def ready(self) -> bool:
        """It can be certified at any time."""
        return True

    @property
    def done(self) -> bool:
        """Whether there is nothing more to gain."""
        return self.algorithm.done

    @property
    def converged(self) -> bool:
        """Whether the target was met."""
        return self.algorithm.converged

    def advance(self, max_epochs: float) -> list[PassRecord]:
        """About 50 ms of work."""
        return self.algorithm.advance(self, max_epochs)

    def conclude(self) -> tuple[float, float, float]:
        """Primal, dual and gap at a stop that the algorithm did not ask for; they may be good enough all the same."""
        certified = self.certify()
        if self.algorithm.stopping == "gap":
            self.algorithm.converged = certified.worst_gap <= self.algorithm.tol
        return certified.primal, certified.dual, certified.gap

    def salvage(self) -> None:
        """After an interrupt: certify what there is, if nothing is yet and it takes but a moment."""
        self.cancelled = False
        if self.certificate is None and self.cost_of_pass < BUDGET:
            self.certify()

    @property
    def cost_of_pass(self) -> float:
        """In multiply-adds."""
        return self.examples.cost_of_pass(self.blocks)

    @property
    def n_weights(self) -> int:
        """Rows of W: features and the intercept."""
        return self.examples.n_weights

    def new_weights(self, single_precision: bool) -> _core.Weights:
        """Zero weights of this machine's shape."""
        return _core.Weights(self.n_weights, self.problem.lanes, single_precision)

    def trained_weights(self, single_precision: bool) -> _core.Weights:
        """The same for the algorithm, which may accelerate them."""
        directions = self.examples.directions
        if directions is None:
            return self.new_weights(single_precision)
        return _core.Weights(self.n_weights, self.problem.lanes, single_precision, directions)

    def slices(
        self, blocks: Iterable[_core.Block] | None = None, most: float = np.inf
    ) -> Iterator[tuple[_core.Block, int, int]]:
        """Blocks, all if none are given, with ranges of their examples that cost about one budget each, or less."""
        for block in self.blocks if blocks is None else blocks:
            n = block.n_examples
            step = max(1, int(min(n * BUDGET / max(block.cost_of_pass, 1.0), most)))
            for begin in range(0, n, step):
                if self.cancelled:
                    raise Cancelled
                yield block, begin, min(n, begin + step)

    def rebuild(self, weights: _core.Weights) -> None:
        """weights, which are zero, <- V = sum alpha x."""
        for block, begin, end in self.slices():
            block.accumulate(weights, begin, end)
        self.examples.complete(weights)

    def _summed(self) -> tuple[_core.Weights, Sums]:
        """V in float64, as a sum of sums, and how they are made."""
        V = self.new_weights(single_precision=False)
        sums = self._sums(V)
        if self.examples.n <= sums.most:
            self.rebuild(V)
            return V, sums
        apart, rows = self.new_weights(single_precision=False), 0
        for block, begin, end in self.slices(most=sums.most):
            if rows + end - begin > sums.most:
                V.array[:] += apart.array
                apart.array[:] = 0.0
                rows = 0
            block.accumulate(apart, begin, end)
            rows += end - begin
        V.array[:] += apart.array
        self.examples.complete(V)
        return V, sums

    def _sums(self, V: _core.Weights) -> Sums:
        n_slices = self.cost_of_pass / BUDGET + self.examples.n_blocks
        return Sums.of(
            self.examples.n, self.cost_of_pass, self.n_weights, self.problem.lanes, bool(V.is_sparse), n_slices
        )

    def certify(self) -> Certificate:
        """Certify the algorithm's candidate. The best candidate and the best duals seen certify together."""
        if isinstance(self.algorithm, ImpliesDuals):
            self.algorithm.imply_duals(self)
        before = self.certificate
        if before is not None and (before.weights.is_sparse or before.weights.array.nbytes > _LARGE):
            self.certificate = before = None  # rather no model for a moment than two of them in memory
        W, sums = self._summed()
        v_norms, _ = W.squared_norms()
        other_than_v = self.examples.candidate(self.passes, W) or self.algorithm.candidate(W)
        w_norms = W.squared_norms()[0] if other_than_v else v_norms
        n_parts = self.problem.n_parts
        scale_step = self.passes.scale_step(self.algorithm.weights)
        losses, dual, sizes = self._evaluate(
            W, scale_step, rounding_of_margins(w_norms, scale_step * float(SCALES[-1])), sums.most
        )
        # Ranks have rows of their own, and sums of them; what is taken off must be the same for all of them.
        totals = np.concatenate([dual, sizes, [sums.roundings]])
        self.examples.total(losses)
        self.examples.total(totals)
        dual, sizes, (roundings,) = np.split(totals, [n_parts, 2 * n_parts])
        sums = sums._replace(roundings=float(roundings))
        if not self.problem.squared:
            sizes = np.abs(dual)  # of one sign
        if n_parts == 1:
            w_norms, v_norms = w_norms.sum(keepdims=True), v_norms.sum(keepdims=True)
        share = self.examples.constant / n_parts
        scales = 1 + scale_step * SCALES
        primals = 0.5 * np.outer(scales**2, w_norms) + losses
        best = primals.argmin(axis=0)  # scale of every part
        if scale_step > 0:  # of accelerated weights
            W.array[:, : self.problem.lanes] *= scales[best]
        primal = sums.rounded_up(primals.min(axis=0)) + share
        lower = np.maximum(-(0.5 * v_norms + dual), 0.0) + share  # duals of zero are feasible, too
        if not (np.isfinite(primal).all() and np.isfinite(lower).all()):
            raise NotFinite("the objective is not a finite number: scale the features, or lower C")
        longest = sqrt(self.examples.norm_range[1])
        lower = np.maximum(lower - sums.rounding_of_duals(v_norms, sizes, longest, self.problem.squared), share)
        worst = float(np.max((primal - lower) / np.maximum(np.abs(primal), SMALLEST_OBJECTIVE)))
        if worst < -_ROUNDING or np.sum(primal) < np.sum(lower) - _ROUNDING * abs(np.sum(primal)):
            raise RuntimeError("a dual value above the primal value: alpha is not feasible; please report this")
        scale = self.problem.objective_scale
        fresh = Certificate(W, scale * float(primal.sum()), scale * float(lower.sum()), max(worst, 0.0))
        if n_parts == 1 and other_than_v and self.examples.hands_out_duals:
            fresh.duals = self.duals()
        if before is not None and n_parts == 1:
            if before.primal < fresh.primal and other_than_v:  # V stays the sum of the duals that are handed out
                fresh.weights, fresh.primal = before.weights, before.primal
            if before.dual > fresh.dual and other_than_v:
                fresh.dual, fresh.duals = before.dual, before.duals
            fresh.worst_gap = fresh.gap
        self.certificate = fresh
        return fresh

    def _evaluate(
        self, W: _core.Weights, scale_step: float, rounding: tuple[float, float], most: float
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Sums of the losses by scale of W and part; of the dual's terms by part, and of the sizes of those of the
        squared hinge; in threads as the visits are."""

        def of(blocks: Iterable[_core.Block]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            losses, (dual, sizes) = np.zeros((len(SCALES), self.problem.n_parts)), np.zeros((2, self.problem.n_parts))
            for block, begin, end in self.slices(blocks, most):
                losses_here, dual_here = block.evaluate(W, begin, end, scale_step, rounding)
                losses += losses_here
                dual += dual_here
                if self.problem.squared:
                    sizes += sizes_of_terms(self.problem, block, begin, end)
            return losses, dual, sizes

        if self.examples.n_blocks == 1:
            return of(self.blocks)
        with ThreadPool(self.examples.n_blocks) as pool:
            try:
                found = zip(*pool.map(of, [[block] for block in self.blocks]), strict=True)
            except BaseException:  # Ctrl-C: the others need not go on
                self.cancelled = True
                raise
        losses, dual, sizes = (np.sum(each, axis=0) for each in found)
        return losses, dual, sizes

    def state(self) -> State:
        """All that the next slices depend on, and the certificate."""
        weights = self.algorithm.weights
        state = attributes(self, _COUNTED) | prefixed("algorithm", attributes(self.algorithm, self._kept()))
        if isinstance(self.algorithm, KeepsMore):
            state |= prefixed("method", self.algorithm.more_state())
        state["single_precision"] = np.array([weights.single_precision])
        state |= prefixed("weights", weights.state()) | prefixed("passes", self.passes.state())
        state |= self.examples.state_of(self.blocks)
        if self.certificate is not None:
            state |= prefixed("certificate", attributes(self.certificate, _CERTIFIED))
            state |= prefixed("certified", self.certificate.weights.state())
            if self.certificate.duals is not None:
                state |= prefixed("certified_duals", dict(zip(_DUALS, self.certificate.duals, strict=True)))
        return state

    def set_state(self, state: State) -> None:
        """Go on from there; the algorithm has been started."""
        set_attributes(self, _COUNTED, state)
        check_counts(self, _COUNTED)
        set_attributes(self.algorithm, self._kept(), part(state, "algorithm"))
        if hasattr(self.algorithm, "check_kept"):
            self.algorithm.check_kept()
        self.algorithm.weights = self.trained_weights(bool(number(state, "single_precision")))
        self.algorithm.weights.set_state(part(state, "weights"))
        if isinstance(self.algorithm, KeepsMore):
            self.algorithm.set_more_state(self, part(state, "method"))
        self.passes.set_state(part(state, "passes"))
        self.examples.set_state_of(self.blocks, self.problem, state)
        if certified := part(state, "certificate"):
            self.certificate = Certificate(self.new_weights(single_precision=False), 0.0, 0.0, 0.0)
            set_attributes(self.certificate, _CERTIFIED, certified)
            self.certificate.weights.set_state(part(state, "certified"))
            if not self.certificate.dual <= self.certificate.primal * (1 + _ROUNDING):
                raise ValueError("a lower bound is above the objective")
            if duals := part(state, "certified_duals"):
                row, lane, value = (duals[name] for name in _DUALS)
                example = np.minimum(np.searchsorted(self.examples.row, row), self.examples.n - 1)
                if not len(row) == len(lane) == len(value) or not np.array_equal(self.examples.row[example], row):
                    raise ValueError("duals of rows that are not there")
                check_feasible(self.problem, self.examples.label, self.examples.cap, example, lane, value)
                self.certificate.duals = (row, lane, value)

    def _kept(self) -> tuple[str, ...]:
        return ("done", "converged", *getattr(self.algorithm, "kept"))  # noqa: B009

    def certified_duals(self) -> Duals:
        """Those of the certificate; without one, those that there are."""
        kept = self.certificate.duals if self.certificate is not None else None
        return self.duals() if kept is None else kept

    def duals(self) -> Duals:
        """alpha as it is."""
        values, lanes, counts = [], [], []
        for block in self.blocks:
            value, lane, indptr = block.duals()
            values.append(value)
            lanes.append(lane)
            counts.append(np.diff(indptr))
        return np.repeat(self.examples.row, np.concatenate(counts)), np.concatenate(lanes), np.concatenate(values)

    def set_duals(self, duals: Any) -> None:
        """Start from duals, a csr_array with one row an example."""
        begin = 0
        duals.sort_indices()
        for block in self.blocks:
            part = duals[begin : begin + block.n_examples]
            begin += block.n_examples
            block.set_duals(part.data.astype(np.float64), part.indices.astype(np.int32), part.indptr.astype(np.int64))
