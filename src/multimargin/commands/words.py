"""Results in words and in columns."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from math import floor, isfinite, log10
from typing import Any


def rounded(value: float, digits: int, rounding: str) -> str:
    """So many digits that matter, to the side on which a claim stays true."""
    if not isfinite(value) or value == 0:
        return f"{value:g}"
    exact = Decimal(value)
    number = exact.quantize(Decimal(1).scaleb(exact.adjusted() - digits + 1), rounding=rounding)
    return f"{number:f}" if -5 < number.adjusted() < 12 else f"{number:.{digits - 1}e}"


def certificate(model: Any) -> str:
    """What the fit proved: distances rounded up, bounds down."""
    gap = max(model.dual_gap_, model.worst_gap_)
    if not gap < 1:
        return f"none yet: the bound is too weak to tell how far from the optimum (relative gap {gap:.2g})"
    share = rounded(100 * gap / (1 - gap), 2, ROUND_CEILING)  # of the optimum; the gap is a share of our objective
    proven = f"every class or pair is within {share} % of its optimum" if model.worst_gap_ > model.dual_gap_ else ""
    high, low = model.primal_objective_, model.dual_objective_
    digits = min(max(6, 2 - floor(log10(max((high - low) / high, 1e-12)))), 14) if high > 0 else 6
    return (
        f"{proven or f'within {share} % of the optimum'}: the objective is {rounded(high, digits, ROUND_CEILING)}, "
        f"and no machine of this kind has one below {rounded(low, digits, ROUND_FLOOR)}"
    )


def verdict(model: Any) -> str:
    """Whether that is what was asked for."""
    what = "gap" if model.stopping == "gap" else "violation"
    return f"{'reached' if model.converged_ else 'NOT reached'}: {what} of at most {model.tol:g}"


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def counted(n: int, what: str) -> str:
    """1 row, 2 rows, 2 classes."""
    return f"{n} {what if n == 1 else what + 'es' if what.endswith('s') else what + 's'}"


def fields(pairs: Sequence[tuple[str, str]]) -> str:
    """Names and values, one a line, values below each other."""
    width = max(len(name) for name, _ in pairs) + 2
    return "\n".join(f"{name:<{width}}{value}" for name, value in pairs)


def columns(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table: the first ``left`` columns to the left, numbers to the right."""
    widths = [max(len(str(row[i])) for row in (header, *rows)) for i in range(len(header))]
    lines = [
        "  ".join(
            str(cell).ljust(width) if i < left else str(cell).rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (header, *rows)
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])
