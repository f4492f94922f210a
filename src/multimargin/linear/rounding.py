"""What rounding can do to the sums that a certificate is made of.

A sum of n terms of float64 is off by at most n units of rounding of the sum of their sizes, and comes near to it: equal
rows round the same way again and again. So V = sum alpha x is a sum of sums, which takes no more than a few thousand
roundings one after the other.
"""

from __future__ import annotations

from math import isfinite, sqrt
from typing import NamedTuple

import numpy as np

from multimargin import _core
from multimargin.problems.formulations import Formulation

_UNIT = float(np.finfo(np.float64).eps) / 2
# Of the duals of a row, whose sum is not quite zero: steps take 1 - 1e-14 of a cap for all of it.
_ROUNDINGS_OF_ROW = 100
_ROWS = 4096  # of a sum, at least
_ROWS_PER_WEIGHT = 32  # times the weights, in rows: so that adding sums to V costs little beside the rows
_MOST_WEIGHTS = 1 << 24  # with more, V is one sum: there would be two of them in memory


class Sums(NamedTuple):
    """How the rows of a problem are added up, and the squares of its weights."""

    most: float  # rows of a sum
    roundings: float  # one after the other, at most, on the way to V, or to a sum over all rows
    of_norms: float  # and to the sum of the squares

    @classmethod
    def of(cls, n: int, cost_of_pass: float, n_weights: int, lanes: int, one_sum: bool, n_slices: float) -> Sums:
        """``one_sum``, where weights cannot be added up."""
        most, weights = float(n), n_weights * lanes
        if not one_sum and weights <= _MOST_WEIGHTS:
            most = max(_ROWS, sqrt(n), _ROWS_PER_WEIGHT * weights * n / max(cost_of_pass, 1.0))
        longest = min(most, float(n))
        return cls(most, _ROUNDINGS_OF_ROW + longest + n / max(longest, 1.0) + n_slices, 4 + n_weights + lanes)

    def rounded_up(self, primal: np.ndarray) -> np.ndarray:
        """The primal by part, all of whose terms are positive, as it may be at most."""
        return primal * (1 + _UNIT * (self.roundings + self.of_norms))

    def rounding_of_duals(
        self, v_norms: np.ndarray, sizes: np.ndarray, longest_row: float, squared: bool
    ) -> np.ndarray:
        """By how much the dual may be smaller than it was computed, by part: its terms, V = sum alpha x, and ||V||."""
        of_terms = _UNIT * self.roundings * sizes
        with np.errstate(over="ignore"):
            of_V = 2 * longest_row * of_terms
            of_norms = 0.5 * _UNIT * self.of_norms * v_norms
            return (2 if squared else 1) * of_terms + of_V * (np.sqrt(v_norms) + 0.5 * of_V) + of_norms


def rounding_of_margins(w_norms: np.ndarray, largest_step: float) -> tuple[float, float]:
    """By how much margins may be smaller than they were computed, for every term of their sums, and times ||x||.

    A margin that is 1 in float64 may be 1 - 1e-15, of which a C_i of 1e16 makes a loss of 10.
    """
    largest = float(w_norms.max())
    length = sqrt(largest) if isfinite(largest) else 0.0  # else there is no certificate
    return _UNIT, 2 * _UNIT * (1 + largest_step) * length


def sizes_of_terms(problem: Formulation, block: _core.Block, begin: int, end: int) -> np.ndarray:
    """Sums of the terms |alpha| of the squared hinge, by part: for joint problems of the other classes than the label,
    whose own dual is minus the sum of theirs.

    Sums of alpha^2 / (4 C) are smaller wherever the dual value is positive, and only there it counts.
    """
    if block.pooled:  # all at once, in the first range
        return np.array([0.5 * np.abs(block.duals()[0]).sum() if begin == 0 else 0.0])
    sums = np.abs(block.alpha[begin:end, : problem.lanes]).sum(axis=0)
    return sums if problem.separable else 0.5 * sums.sum(keepdims=True)
