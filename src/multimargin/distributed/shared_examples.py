"""The examples of a machine that are shared out to ranks: a rank's own, and what all know of all."""

from __future__ import annotations

from math import sqrt

import numpy as np

from multimargin import _core
from multimargin.distributed.collective import Collective, Tree
from multimargin.distributed.occupied_rows import OccupiedRows
from multimargin.distributed.rounds import Rounds
from multimargin.linear.directions import (
    SAMPLE,
    fill_sample,
    held_by_sample,
    intercept_direction,
    leading,
    share_of_sample,
    without_rows,
    worth_sampling,
)
from multimargin.linear.examples import Examples
from multimargin.problems.formulations import Formulation
from multimargin.problems.range import check_reach

_STRENGTH = 8.0  # of the acceleration, for one rank and examples with C ||x||^2 = 1
LARGEST_SAMPLE = 1 << 24  # bytes that ranks tell each other, to find directions


class SharedExamples:
    """A rank's examples, and what all know of all."""

    first_certificate = Examples.first_certificate
    hands_out_duals = False  # they stay with the ranks
    n_blocks = Examples.n_blocks
    estimates_gaps_high = False  # those that promise the target are evaluated

    def __init__(self, own: Examples, problem: Formulation, collective: Collective, *, accelerated: bool):
        self.own, self.collective = own, collective
        self.row, self.n_weights = own.row, own.n_weights
        with np.errstate(over="ignore", invalid="ignore"):  # the range is checked next
            of_own = (own.n, own.constant, own.n * own.mean_curvature, own.norm.sum(), own.cap.sum())
        nonzeros = len(own.X.data) if hasattr(own.X, "indptr") else own.X.size
        sums = collective.allreduce(np.array([*of_own, nonzeros]))
        rows, self.constant, curvature, norms, caps, nonzeros = sums.tolist()
        self.n = int(rows)
        smallest, largest = own.norm_range if own.n else (np.finfo(np.float64).max, 0.0)
        extremes = self.of_all((smallest, largest, own.cap.max(initial=0.0)))
        self.norm_range = (float(extremes[:, 0].min()), float(extremes[:, 1].max())) if self.n else (0.0, 0.0)
        if self.n:
            check_reach(caps, float(extremes[:, 2].max()), self.norm_range[1])
        n, intercept = max(self.n, 1), own.rows.intercept
        directions, squares = intercept_direction(self.n_weights, intercept), np.array([intercept]) ** 2
        cheap = collective.size == 1 or 8 * SAMPLE * self.n_weights <= LARGEST_SAMPLE
        if accelerated and cheap and worth_sampling(self.n_weights, nonzeros):
            directions, squares = self._directions()
        self.directions, left = held_by_sample(directions, squares, caps, curvature, norms / n, problem.n_parts)
        self.mean_curvature = left / n
        self._rows = OccupiedRows(collective, self._own_rows()) if isinstance(collective, Tree) else None
        self.n_summed = self.n_weights if self._rows is None else self._rows.count  # rows of W in a sum
        self.strength = _STRENGTH * sqrt(collective.size) / sqrt(sqrt(max(self.mean_curvature, 1.0)))

    def _directions(self) -> tuple[_core.Directions | None, np.ndarray]:
        """Directions, and means of the squares along them, as the first rank finds them: BLAS and LAPACK may give
        others on another machine, and all must have the same bits."""
        sample, sampled = self._sample()
        found = np.zeros((self.n_weights + 1, 0))
        if self.collective.rank == 0:
            U, squares = leading(sample)
            found = np.ascontiguousarray(np.vstack([U, squares / sampled]))
        count = int(self.collective.broadcast(np.array([float(found.shape[1])]))[0])
        if self.collective.rank:
            found = np.zeros((self.n_weights + 1, count))
        found = self.collective.broadcast(found)
        return without_rows(found[:-1]), found[-1]

    def _sample(self) -> tuple[np.ndarray, int]:
        """Rows of all ranks, and how many; where a rank has fewer than its share they are zero."""
        sample, collective = np.zeros((SAMPLE, self.n_weights)), self.collective
        share = share_of_sample(collective.rank, collective.size)
        own = fill_sample(sample[share], self.own.X, self.own.rows.intercept)
        return collective.allreduce(sample), int(collective.allreduce(np.array([float(own)]))[0])

    def _own_rows(self) -> np.ndarray:
        """Rows of W that the own examples can move."""
        own, X = np.ones(self.n_weights, dtype=bool), self.own.X
        if hasattr(X, "indptr"):
            own[: X.shape[1]] = False
            own[X.indices] = True
        if self.directions is not None:  # by what all rows have in common
            own |= self.directions.U.reshape(self.n_weights, -1).any(axis=1)
        return own

    def of_all(self, own: tuple[float, ...]) -> np.ndarray:
        """A row of numbers from every rank."""
        rows = np.zeros((self.collective.size, len(own)))
        rows[self.collective.rank] = own
        return self.collective.allreduce(rows)

    def complete(self, weights: _core.Weights) -> None:
        """V of the own examples <- V of all."""
        self.sum_weights(weights.array)

    def sum_weights(self, array: np.ndarray) -> None:
        """W, or a change of it, by the own examples <- by those of all ranks."""
        (self.collective if self._rows is None else self._rows).allreduce(array)

    def total(self, sums: np.ndarray) -> None:
        """Sums over the own examples <- sums over those of all ranks."""
        self.collective.allreduce(sums)

    def schedule(self, problem: Formulation, lists: bool, seed: int) -> tuple[list[_core.Block], Rounds]:
        """The blocks of a machine, and the rounds over them."""
        own_seed = np.random.SeedSequence([seed, self.collective.rank]).generate_state(1)[0]
        block = self.own.block(problem, lists, int(own_seed))
        return [block], Rounds(block, self, problem.lanes)

    def candidate(self, passes: Rounds, out: _core.Weights) -> bool:
        """Write the mean of W over the last rounds into ``out``, if there were any that are accelerated."""
        return passes.mean(out)

    def cost_of_pass(self, blocks: list[_core.Block]) -> float:
        """In multiply-adds, of this rank's."""
        return sum(block.cost_of_pass for block in blocks)
