"""Examples that are shared out to ranks: rounds of CoCoA+ (Ma, Smith, Jaggi, Jordan, Richtarik, Takac 2015).

Every rank holds a part of the examples with their duals; all hold the same W. In a round each rank makes a pass over
its own examples, as if W moved sigma' times as far as its own changes alone would move it,

    steps with curvature sigma' A / lambda,   W += sigma' (change of alpha) x / lambda,

which allows for what the others do at the same time; then W moves from where all began by the sum D of the ranks' own
changes D_r. As ||D||^2 <= sum_r ||D_r||^2 / p_r for any shares p_r with the sum 1, with sigma' = 1 / p_r the dual
gains at least what the ranks think that they gain, whatever they hold: no line search is needed. The shares are those
of the examples, so that a rank with most of them steps nearly as if it were alone.

A line search finds nothing. Steps longer than 1 were never feasible: some dual of some rank has reached its bound. Nor
does a smaller sigma' help that a search (t <= 1, exact: the dual is quadratic along D) makes safe. What many rows share
every rank corrects by itself; K ranks do so K times, which is K / sigma' times too far, and with momentum that grows:
without a search 0.8 of K diverges (0.9: 34 rounds instead of 35). A search cuts all of D down for the sake of these few
directions, and does not foresee them: until they are most of D, the best t is 4 to 8 and asks for a still smaller
sigma'. Rounds to 1e-2, with Crammer-Singer's machine:

    data, ranks                  as it is   0.8, 0.6, 0.4 of K, with a search   sigma' that follows t, by two rules
    news20 with 20 copies, 8           35                         >66, >52, -                                    37, 40
    news20 with 20 copies, 2           19                           23, 24, -                                    19, 18
    news20, 8                          40                          44, 73, 72                                    49, 39
    news20, 2                          20                          24, 25, 24                                    19, 20
    tdt2, 8                            40                          67, 73, 70                                    47, 51
    tdt2, 2                            15                          21, 22, 23                                    15, 15
    banking77, 8                       33                          31, 55, 52                                    35, 35
    banking77, 2                       16                          20, 20, 21                                    15, 16

To the algorithm (linear/sdm.py) a round is a pass, as is a tour of blocks on disk (linear/streamed.py), and every round
is a stage of the acceleration. A second local pass mostly fits W to the own rows, but saves some rounds: it is made
where the sum costs about as much as a pass. More of them save little: 38, 35, 35 and 34 rounds with 1, 2, 4 and 8 (8
ranks on news20 with copies), 19, 17, 17, 17 (two ranks); on 20,000 rows of mnist 321, 349, 337, 336 (8 ranks) and 201,
200, 176, 168 (two ranks). What costs how much is counted: with measured seconds two trainings on the same rows would
differ. They are told, though.

Kappa is larger than in one process and grows with the root of the number of ranks (found by experiment): the more W is
held, the less ranks disturb each other. W sways from round to round, which costs the primal; so the mean of the last
few is what is certified, and a little more of it: W is still held back, and the half percent or so by which it grows
takes many rows over their margins (8 ranks on news20: 35 rounds instead of 53). What passes see of the loss is too
good, as W has been fitted to the own rows by then; so when it promises the target, or kappa is steered by it, the
objectives are evaluated. Whatever a rank decides on is a sum over all, so all decide the same.
"""

from __future__ import annotations

from math import ceil, inf, log2, nan
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multimargin import _core
from multimargin.linear.machine import SCALES
from multimargin.linear.stages import Stages

if TYPE_CHECKING:
    from multimargin.distributed.shared_examples import SharedExamples

_ONE_PASS = 1e-9  # epochs: the core ends a call after the pass that exceeds them
COST_OF_A_NUMBER = 100.0  # of W in a sum over the ranks, in multiply-adds
_DECAY = 8.0  # of the mean of W: the t-th has a share of about _DECAY / t ...
_LEAST_SHARE = 0.125  # ... or this
_DEAR = 0.5  # of a pass: sums that cost more are worth a second one
_SCALE_STEP = 4e-3  # at first: W is held back, so a little more of it is better
_FOLLOW = np.array([0.5, 0.7, 1.0, 2.0])  # of the step, after the best of SCALES, as in core/passes.cpp
_PROMISING = 5.0  # estimated gaps of so many times the target are looked into
_ROUNDS_TO_HALVE = 3.0  # the gap, at best


class Round(NamedTuple):
    """A round, as the algorithm sees a pass; the gap is an estimate."""

    violation: float
    visited: int
    worst_gap: float


class _Told(NamedTuple):
    """What a rank tells of its pass."""

    violation: float = 0.0
    visited: int = 0
    loss: float = 0.0  # terms of the objectives, as the pass saw them
    dual: float = 0.0


class Rounds:
    """The schedule of rounds, in the place of the core's schedule of passes."""

    def __init__(self, block: _core.Block, examples: SharedExamples, lanes: int):
        self.block, self.examples = block, examples
        self._passes = _core.Passes([block])
        self._sigma = examples.n / max(block.n_examples, 1)
        cost = float(examples.collective.allreduce(np.array([block.cost_of_pass]))[0]) / examples.collective.size
        dear = examples.collective.size > 1 and COST_OF_A_NUMBER * examples.n_summed * lanes > _DEAR * cost
        self.local_epochs = 2 if dear else 1
        self.seconds_of_passes = self.seconds_of_sums = 0.0  # to be told; nothing depends on them
        self._stages = Stages()
        self._mean: _core.Weights | None = None  # of W, the last ones above all
        self._before: np.ndarray | None = None  # W at the begin of a round
        self._scale_step = self._next_scale_step = _SCALE_STEP
        self._rounds = 0
        self._visit_all = False
        self._evaluate_at = 0  # the round from which on it may be worth while

    def scale_step(self, weights: _core.Weights) -> float:
        """Scales 1 + scale_step * SCALES of W are tried."""
        return self._scale_step if weights.kappa > 0 else 0.0

    def mean(self, out: _core.Weights) -> bool:
        """Write the mean of W over the last rounds; False if there is none."""
        if self._mean is None:
            return False
        out.array[:, : out.lanes] = self._mean.array[:, : out.lanes]
        return True

    def run(
        self,
        weights: _core.Weights,
        *,
        tolerance: float,
        certify_below: float,
        budget: float,
        max_epochs: float,
        shrinking: bool,
        permute: bool,
        rest_share: float,
        shrunk_effort: float,
    ) -> tuple[str, list[Round]]:
        """One round; as of the core's passes, why it stopped and what it was. There is no budget: all wait for all."""
        if self._rounds and weights.kappa > 0:
            self._stages.end(weights)
        self._rounds += 1
        array = weights.array
        if self._before is None or self._before.dtype != array.dtype:
            self._before = np.empty_like(array)
        before = self._before
        before[:] = array
        began = perf_counter()
        told = self._pass(weights, tolerance, permute, rest_share if shrinking else 0.0)
        self.seconds_of_passes += perf_counter() - began
        array = weights.array  # with what is along directions
        array -= before
        array /= array.dtype.type(self._sigma)
        began = perf_counter()
        self.examples.sum_weights(array)
        self.seconds_of_sums += perf_counter() - began
        array += before
        self._keep_mean(weights)
        of_all = self.examples.of_all(told)
        violation, (visited, loss, dual) = float(of_all[:, 0].max()), of_all[:, 1:].sum(axis=0).tolist()
        constant = self.examples.constant
        w, v = weights.squared_norms()
        primal, lower = 0.5 * float(w.sum()) + loss + constant, -(0.5 * float(v.sum()) + dual) + constant
        gap = (primal - lower) / max(abs(primal), 1e-300)
        if self._stages.stalled:
            primal, lower, gap = self._evaluated(weights)
        elif gap <= _PROMISING * certify_below and self._rounds >= self._evaluate_at:
            _, _, gap = self._evaluated(weights)
            halvings = log2(gap / certify_below) if certify_below < gap < inf else 0.0
            self._evaluate_at = self._rounds + max(1, ceil(_ROUNDS_TO_HALVE * halvings))
        elif gap <= certify_below:
            gap = nan  # too good to be true
        self._stages.saw(primal, lower)
        done = Round(violation, int(visited), gap)
        return self._judge(done, tolerance, certify_below), [done]

    def _keep_mean(self, weights: _core.Weights) -> None:
        if weights.kappa == 0:
            self._mean = None  # W is V, which the algorithm is about
        elif self._mean is None or self._mean.single_precision != weights.single_precision:
            self._mean = _core.Weights(weights.array.shape[0], weights.lanes, weights.single_precision)
            self._mean.array[:] = weights.array
        else:
            mean = self._mean.array
            moved = np.subtract(weights.array, mean, out=self._before)  # of no more use
            moved *= max(_LEAST_SHARE, _DECAY / (_DECAY + self._rounds))
            mean += moved

    def _evaluated(self, weights: _core.Weights) -> tuple[float, float, float]:
        """Objectives at the best of SCALES of the mean and the relative gap, or the worst of its parts; it is one but
        for rounding."""
        block, constant = self.block, self.examples.constant / self.block.n_parts
        self._scale_step = self._next_scale_step  # which a certificate then tries as well
        candidate, scale_step = weights if self._mean is None else self._mean, self.scale_step(weights)
        terms = np.zeros((len(SCALES) + 1, block.n_parts))
        if block.n_examples:
            terms[:-1], terms[-1] = block.evaluate(candidate, 0, block.n_examples, scale_step)
        self.examples.total(terms)
        (w, _), (_, v) = candidate.squared_norms(), weights.squared_norms()
        if block.n_parts == 1:
            w, v = w.sum(keepdims=True), v.sum(keepdims=True)
        primals = 0.5 * np.outer((1 + scale_step * SCALES) ** 2, w) + terms[:-1] + constant
        primal, lower = primals.min(axis=0), -(0.5 * v + terms[-1]) + constant
        gaps = (primal - lower) / np.maximum(np.abs(primal), 1e-300)
        worst = int(gaps.argmax())
        self._next_scale_step = float(np.clip(self._scale_step * _FOLLOW[primals[:, worst].argmin()], 1e-8, 0.25))
        return float(primal.sum()), float(lower.sum()), float(gaps[worst])

    def _pass(self, weights: _core.Weights, tolerance: float, permute: bool, rest_share: float) -> _Told:
        """A full pass over the own examples, or two; what the first one found to violate, and the last one lost."""
        if self.block.n_examples == 0:
            return _Told()
        violation, visited = 0.0, 0
        for _ in range(self.local_epochs):
            _, (record,) = self._passes.run(
                weights,
                tolerance=np.inf if self._visit_all else tolerance,
                certify_below=-np.inf,
                budget=np.inf,
                max_epochs=_ONE_PASS,
                shrinking=False,
                permute=permute,
                rest_share=0.0 if self._visit_all else rest_share,
                stages=False,
                scale=self._sigma,
            )
            violation, visited = max(violation, record.violation), visited + record.visited
            if record.violation < tolerance:  # as little is left; and whoever judges counts visits of single passes
                break
        loss, dual = record.primal - 0.5 * record.w_norm, -record.dual - 0.5 * record.v_norm
        return _Told(violation, visited, loss, dual)

    def _judge(self, done: Round, tolerance: float, certify_below: float) -> str:
        """What the algorithm is to think of a round. Below the tolerance it must have been over all examples: those
        that pass after pass leaves out come back within three rounds."""
        quiet = done.violation < tolerance
        if quiet and done.visited == self.examples.n:
            self._visit_all = False
            return "tolerance"
        self._visit_all = quiet
        return "certify" if -0.1 * certify_below <= done.worst_gap <= certify_below else "epochs"
