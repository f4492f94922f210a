"""Results in words and in columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from multimargin.estimators.claims import above_optimum, bounds, percent_at_most


def certificate(model: Any) -> str:
    """What the fit proved: distances rounded up, bounds down."""
    gap = max(model.dual_gap_, model.worst_gap_)
    if not gap < 1:
        return f"none yet: the bound is too weak to tell how far from the optimum (relative gap {gap:.2g})"
    share = percent_at_most(above_optimum(gap))
    proven = f"every class or pair is within {share} % of its optimum" if model.worst_gap_ > model.dual_gap_ else ""
    low, high = bounds(model.dual_objective_, model.primal_objective_)
    return (
        f"{proven or f'within {share} % of the optimum'}: the objective is {high}, "
        f"and no machine of this kind has one below {low}"
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
