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
_ROWS = 4096  # of a sum, at least
_ROWS_PER_WEIGHT = 32  # times the weights, in rows: so that adding sums to V costs little beside the rows
_MOST_WEIGHTS = 1 << 24  # with more, V is one sum: there would be two of them in memory


class Sums(NamedTuple):
    """How the rows of a problem are added up."""

    most: float  # rows of a sum
    roundings: float  # one after the other, at most, on the way to V or to the sum of the dual's terms

    @classmethod
    def of(cls, n: int, cost_of_pass: float, weights: int | None, n_slices: float) -> Sums:
        """``weights`` is None where they cannot be added up."""
        most = float(n)
        if weights is not None and weights <= _MOST_WEIGHTS:
            most = max(_ROWS, sqrt(n), _ROWS_PER_WEIGHT * weights * n / max(cost_of_pass, 1.0))
        longest = min(most, float(n))
        return cls(most, 4 + longest + n / max(longest, 1.0) + n_slices)

    def rounding_of_duals(self, v_norms: np.ndarray, sizes: np.ndarray, longest_row: float) -> np.ndarray:
        """By how much the dual may be smaller than it was computed, by part: its terms, and V = sum alpha x."""
        of_terms = _UNIT * self.roundings * sizes
        with np.errstate(over="ignore"):
            of_V = 2 * longest_row * of_terms
            return of_terms + of_V * (np.sqrt(v_norms) + 0.5 * of_V)


def rounding_of_margins(w_norms: np.ndarray, largest_step: float) -> tuple[float, float]:
    """By how much margins may be smaller than they were computed, for every term of their sums, and times ||x||.

    A margin that is 1 in float64 may be 1 - 1e-15, of which a C_i of 1e16 makes a loss of 10.
    """
    largest = float(w_norms.max())
    length = sqrt(largest) if isfinite(largest) else 0.0  # else there is no certificate
    return _UNIT, 2 * _UNIT * (1 + largest_step) * length


def sizes_of_terms(problem: Formulation, block: _core.Block, begin: int, end: int) -> np.ndarray:
    """Of the squared hinge, the sums of |alpha| + alpha^2 / (4 C) by part, or more.

    Of duals that are worth anything, the latter is the smaller one.
    """
    if block.pooled:  # all at once, in the first range
        return np.array([2 * np.abs(block.duals()[0]).sum() if begin == 0 else 0.0])
    sums = 2 * np.abs(block.alpha[begin:end, : problem.lanes]).sum(axis=0)
    return sums if problem.n_parts > 1 else sums.sum(keepdims=True)
