"""Numbers as the report writes them. What is claimed is rounded to the safe side: bounds down, distances up."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from math import ceil, isfinite, log10

MINUS = "\u2212"  # as wide as a plus
THIN_SPACE = "\u202f"  # does not break


def rounded(value: float, digits: int, rounding: str = ROUND_HALF_EVEN) -> str:
    """So many significant digits, without an exponent where that can be read."""
    if not isfinite(value) or value == 0:
        return f"{value:g}"
    exact = Decimal(value)
    number = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=rounding)
    if -7 < number.adjusted() < 15:
        return f"{number:,f}"
    return f"{number:.{digits - 1}e}"


def signed(value: float, digits: int) -> str:
    """As :func:`rounded`, with the minus of the typographers."""
    return rounded(value, digits).replace("-", MINUS)


def bounds(low: float, high: float) -> tuple[str, str]:
    """``low`` rounded down and ``high`` up, with so many digits that they tell the two apart."""
    apart = abs(high - low) / max(abs(low), abs(high), 1e-300)
    digits = min(max(5, ceil(-log10(max(apart, 1e-13))) + 2), 15)
    return rounded(low, digits, ROUND_FLOOR), rounded(high, digits, ROUND_CEILING)


def percent(share: float, decimals: int = 1) -> str:
    """A share of one; n/a where there is none."""
    return f"{100 * share:.{decimals}f}{THIN_SPACE}%" if isfinite(share) else "n/a"


def percent_at_most(share: float) -> str:
    """A share of one, two digits, rounded up."""
    return f"{rounded(100 * share, 2, ROUND_CEILING)}{THIN_SPACE}%"


def seconds(value: float) -> str:
    """A duration in seconds, as a person would say it."""
    if value < 1:
        return f"{1000 * value:.0f}{THIN_SPACE}ms"
    if value < 120:
        return f"{value:.1f}{THIN_SPACE}s"
    return f"{value / 60:.0f}{THIN_SPACE}min" if value < 7200 else f"{value / 3600:.1f}{THIN_SPACE}h"
