"""Numbers as the report writes them. What is claimed is rounded to the safe side: bounds down, distances up."""

from __future__ import annotations

from functools import partial
from math import isfinite

from multimargin.estimators import claims

MINUS = "\u2212"  # as wide as a plus
THIN_SPACE = "\u202f"  # does not break

rounded = partial(claims.rounded, grouped=True)
bounds = partial(claims.bounds, grouped=True)


def signed(value: float, digits: int) -> str:
    """As :func:`rounded`, with the minus of the typographers."""
    return rounded(value, digits).replace("-", MINUS)


def percent(share: float, decimals: int = 1) -> str:
    """A share of one; n/a where there is none."""
    return f"{100 * share:.{decimals}f}{THIN_SPACE}%" if isfinite(share) else "n/a"


def percent_at_most(share: float) -> str:
    """A share of one, two digits, rounded up."""
    return f"{claims.percent_at_most(share, grouped=True)}{THIN_SPACE}%"


def seconds(value: float) -> str:
    """A duration in seconds, as a person would say it."""
    if value < 1:
        return f"{1000 * value:.0f}{THIN_SPACE}ms"
    if value < 120:
        return f"{value:.1f}{THIN_SPACE}s"
    return f"{value / 60:.0f}{THIN_SPACE}min" if value < 7200 else f"{value / 3600:.1f}{THIN_SPACE}h"
