"""What a certificate claims, as numbers that people read: rounded to the side on which the claim stays true."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from math import ceil, isfinite, log10


def rounded(value: float, digits: int, rounding: str = ROUND_HALF_EVEN, *, grouped: bool = False) -> str:
    """So many significant digits, without an exponent where that can be read; ``grouped``: 1,234."""
    if not isfinite(value) or value == 0:
        return f"{value:g}"
    exact = Decimal(value)
    number = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=rounding)
    if -7 < number.adjusted() < 15:
        return f"{number:,f}" if grouped else f"{number:f}"
    return f"{number:.{digits - 1}e}"


def bounds(low: float, high: float, *, grouped: bool = False) -> tuple[str, str]:
    """``low`` rounded down and ``high`` up, with so many digits that they tell the two apart."""
    apart = abs(high - low) / max(abs(low), abs(high), 1e-300)
    digits = min(max(6, ceil(-log10(max(apart, 1e-13))) + 2), 15)
    return rounded(low, digits, ROUND_FLOOR, grouped=grouped), rounded(high, digits, ROUND_CEILING, grouped=grouped)


def percent_at_most(share: float, *, grouped: bool = False) -> str:
    """A share of one in percent, two digits, rounded up."""
    return rounded(100 * share, 2, ROUND_CEILING, grouped=grouped)


def above_optimum(gap: float) -> float:
    """How far above the optimum a model may be, relative to the optimum, when its gap is relative to its objective."""
    return gap / (1 - gap) if gap < 1 else float("inf")
