"""The examples of a machine: rows of X in memory with labels and caps, as the core visits them.

Whoever keeps them elsewhere has the same members: on disk (stored_examples.py), shared out to ranks
(distributed/rounds.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from multimargin import _core
from multimargin.data.csr import Csr
from multimargin.linear.directions import coherence, held_back
from multimargin.linear.state import State, part, prefixed
from multimargin.problems.formulations import Formulation, check_feasible
from multimargin.problems.range import NEGLIGIBLE_NORM

# Threads do not see each other's steps at once: so rows have to be this far apart, by the mean of |cos|.
_APART = 0.25


@dataclass
class Examples:
    """The rows of X that a machine learns from, with what the core needs to know of them.

    Rows without weight have no influence, nor have those without features (or with too small ones: see
    problems/range.py): they are left out, and the loss of the latter is ``constant`` in both objectives.
    """

    X: Any  # a matrix or an array, as ``rows`` reads it
    rows: _core.Rows
    row: np.ndarray  # int64, which rows of X
    label: np.ndarray  # int32, lanes
    cap: np.ndarray  # float64, C_i
    norm: np.ndarray  # float64, ||x_i||^2
    constant: float
    directions: _core.Directions | None = None  # along which accelerated weights are held back
    n_blocks: int = 1  # which threads visit side by side

    # Epochs after which there is a certificate at the latest, so that Ctrl-C finds one.
    first_certificate = 25.0
    # Of the acceleration, against that of passes over all examples.
    strength = 1.0
    hands_out_duals = True
    estimates_gaps_high = True

    @property
    def n(self) -> int:
        return len(self.row)

    @property
    def n_weights(self) -> int:
        """Rows of W: features and the intercept."""
        return self.rows.n_weights

    @property
    def norm_range(self) -> tuple[float, float]:
        """The smallest and the largest squared norm."""
        return (float(self.norm.min()), float(self.norm.max())) if self.n else (0.0, 0.0)

    @property
    def mean_curvature(self) -> float:
        """Mean of C_i ||x_i||^2, less what is held back."""
        norm = self.norm if self.directions is None else self.directions.curvatures(self.row, self.norm)
        return float(np.mean(self.cap * norm)) if self.n else 0.0

    def block(self, problem: Formulation, lists: bool, seed: int, which: slice = slice(None)) -> _core.Block:
        """Examples as the core visits them, with duals of zero."""
        return _core.Block(
            self.rows,
            problem.policy,
            problem.squared,
            problem.lanes,
            self.row[which],
            self.label[which],
            self.cap[which],
            self.norm[which],
            lists,
            seed,
        )

    def schedule(self, problem: Formulation, lists: bool, seed: int) -> tuple[list[_core.Block], _core.Passes]:
        """The blocks of a machine, and the passes over them."""
        parts = enumerate(self._parts())
        blocks = [self.block(problem, lists, seed + number, which) for number, which in parts]
        return blocks, _core.Passes(blocks, side_by_side=True)

    def _parts(self) -> list[slice]:
        """The examples of every block."""
        cuts = [self.n * number // self.n_blocks for number in range(self.n_blocks + 1)]
        return [slice(begin, end) for begin, end in pairwise(cuts)]

    def candidate(self, passes: _core.Passes, out: _core.Weights) -> bool:
        """As the algorithm's, which may be overruled; here it is not."""
        return False

    def complete(self, weights: _core.Weights) -> None:
        """V of these examples <- V of all that the machine learns from; here they are all."""

    def total(self, sums: np.ndarray) -> None:
        """Sums over these examples <- sums over all."""

    def cost_of_pass(self, blocks: list[_core.Block]) -> float:
        """In multiply-adds."""
        return sum(block.cost_of_pass for block in blocks)

    def state_of(self, blocks: list[_core.Block]) -> State:
        """What the blocks go on from."""
        states = (prefixed(f"block{i}", block.state()) for i, block in enumerate(blocks))
        return {name: values for state in states for name, values in state.items()}

    def set_state_of(self, blocks: list[_core.Block], problem: Formulation, state: State) -> None:
        """Go on from there."""
        for i, (block, which) in enumerate(zip(blocks, self._parts(), strict=True)):
            block.set_state(part(state, f"block{i}"))
            self.check_duals(block, problem, which)

    def check_duals(self, block: _core.Block, problem: Formulation, which: slice = slice(None)) -> None:
        """Refuse duals of the examples of a block that no certificate may be built on."""
        value, lane, indptr = block.duals()
        example = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        check_feasible(problem, self.label[which], self.cap[which], example, lane, value)

    @property
    def matrix(self) -> Any:
        """The examples alone, as a matrix of SciPy or an array."""
        X = self.X.to_scipy() if isinstance(self.X, Csr) else self.X
        return X[self.row]

    def check_curvature(self) -> None:
        """Refuse what methods that add up ``C_i ||x_i||^2`` cannot."""
        with np.errstate(over="ignore"):
            if not np.isfinite((self.cap * self.norm).sum()):
                raise ValueError("C times the squared norms of the rows overflows: scale the features down, or lower C")

    @classmethod
    def of(
        cls,
        problem: Formulation,
        X: Any,
        rows: _core.Rows,
        norm: np.ndarray,
        y: np.ndarray,
        cap: np.ndarray,
        row: np.ndarray,
        directions: _core.Directions | None = None,
        n_blocks: int = 1,
    ) -> Examples:
        """Examples from rows ``row`` of X with encoded classes ``y`` and caps ``cap`` (one of each a row)."""
        cap = cap * problem.cap_scale
        norm = norm[row]
        learns = (norm > NEGLIGIBLE_NORM) & (cap > 0)
        constant = problem.loss_of_zero_row * float(cap[(norm <= NEGLIGIBLE_NORM) & (cap > 0)].sum())
        label = problem.lane_labels(y)
        row, label, cap, norm = row[learns], label[learns], cap[learns], norm[learns]
        held = held_back(directions, row, norm, cap, problem.n_parts)
        if n_blocks > 1 and not coherence(X, row, rows.intercept, held) <= _APART:
            n_blocks = 1
        return cls(X, rows, row, label, cap, norm, constant, held, n_blocks)
