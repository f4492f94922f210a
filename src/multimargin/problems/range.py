"""Which problems float64 has room for: what goes beyond is refused, with what to change.

With duals at most C_i, ||W|| is at most the sum of C_i ||x_i||, and both objectives at most about its square. An
optimum that separates has an objective of at least 1 / (2 ||x||^2). So the first must not be too large, nor the second
too small; in between, all that is ever computed is a finite number that is not rounded to zero.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import inf, isfinite, sqrt
from typing import ParamSpec, TypeVar

import numpy as np

_Given = ParamSpec("_Given")
_Got = TypeVar("_Got")

SMALLEST_C = 1e-300  # float64 has no numbers for the duals of smaller ones
LARGEST_REACH = 1e150  # of sum C_i ||x_i||, whose square is a number
SMALLEST_NORM = 1e-240  # of the largest ||x||^2: the inverse of its square root squared is one, and times C, too
NEGLIGIBLE_NORM = 1e-290  # ||x||^2 of rows that change nothing beside those, and whose inverse may be infinite
SMALLEST_OBJECTIVE = float(np.finfo(np.float64).tiny)  # by which a gap is divided at least


def tiny_is_zero(function: Callable[_Given, _Got]) -> Callable[_Given, _Got]:
    """A function in which what is too small for float64 is zero, also where NumPy was told to raise an error of it.

    All that trains or predicts may meet such numbers: products of small features, exp of large distances, duals of
    small caps. All of it can bear a zero in their place.
    """

    @functools.wraps(function)
    def bearing(*args: _Given.args, **kwargs: _Given.kwargs) -> _Got:
        with np.errstate(under="ignore"):
            return function(*args, **kwargs)

    return bearing


def check_range(cap: np.ndarray, largest: float, what: str = "||x_i||", scale: str = "scale the features") -> None:
    """Refuse caps and a largest squared norm (or kernel value) that are too much, or too little, together."""
    with np.errstate(over="ignore"):
        total = float(cap.sum())
    check_reach(total, float(cap.max(initial=0.0)), largest, what, scale)


def check_reach(
    total: float, highest: float, largest: float, what: str = "||x_i||", scale: str = "scale the features"
) -> None:
    """As :func:`check_range`, where the sum and the maximum of the caps is all that is known of them."""
    reach = total * sqrt(largest) if largest < inf else inf
    if not (isfinite(reach) and reach <= LARGEST_REACH):
        raise ValueError(
            f"the sum of C_i {what} may reach {reach:.1g}, and float64 has room for {LARGEST_REACH:g} only: "
            f"{scale} down, or lower C or the weights, whose largest product is {highest:.3g}"
        )
    if largest < SMALLEST_NORM:
        raise ValueError(
            f"the largest {what}^2 is {largest:.1g}, too small a number to learn from in float64: {scale} up"
        )
