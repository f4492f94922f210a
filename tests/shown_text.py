"""Printed text against the text that a document shows.

Words must be the same. Numbers must be, too, but for those that another processor, or BLAS, may change: what each may
be is said by the words beside it, or by the head of its column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
RULER = re.compile(r"-{5,}")
HERE = "\0"  # the place of a number in its line

Rule = Callable[[float, float], bool]


def _any(printed: float, shown: float) -> bool:
    """Seconds: the clock's."""
    return printed >= 0


def _gap(printed: float, shown: float) -> bool:
    """Where training stopped: of the same size, or both as good as nothing."""
    small, large = sorted((printed, shown))
    return large <= 5 * small or large < 1e-6


def _epochs(printed: float, shown: float) -> bool:
    """Passes: one more or less, or a fifth."""
    return abs(printed - shown) <= max(1.0, 0.2 * shown)


def _size(printed: float, shown: float) -> bool:
    """Files: to their last digit, or 5 %; they hold support vectors, and numbers of many digits as text."""
    return abs(printed - shown) <= max(0.05 * shown, 1.0 if shown >= 10 else 0.1)


def _objective(printed: float, shown: float) -> bool:
    """Bounds and objectives: to the gap that most trainings stop at."""
    return math.isclose(printed, shown, rel_tol=1e-3)


def _few_rows(printed: float, shown: float) -> bool:
    """Rows that were right: as accuracies are."""
    return math.isclose(printed, shown, rel_tol=5e-3)


# What stands around a number, "[head of its column]" before its line; the first that fits counts.
RULES: tuple[tuple[str, Rule], ...] = (
    (rf'{HERE} s\b|"seconds": {HERE}|^\[seconds\]', _any),
    (rf'gap"?:? +(is )?{HERE}|within {HERE} %|^\[gap\]', _gap),
    (rf'{HERE} epochs|(epochs|passes)"?: {HERE}', _epochs),
    (rf"{HERE} ([kMG]B|bytes)\b", _size),
    (
        rf'objective(:| is|":) {HERE}|below {HERE}|(lowest possible|reached) +{HERE}'
        rf"|{HERE} <= optimum|optimum <= {HERE}|^\[objective\]",
        _objective,
    ),
    (rf"\({HERE} of \d+ rows\)", _few_rows),
)


def difference(printed: str, shown: str) -> str | None:
    """What differs, in a line; None if nothing does."""
    ours, theirs = _lines(printed), _lines(shown)
    if len(ours) != len(theirs):
        return f"{len(ours)} lines printed, {len(theirs)} shown"
    for (line, _), (other, head) in zip(ours, theirs, strict=True):
        if NUMBER.sub("#", line).split() != NUMBER.sub("#", other).split():
            return f"printed {line!r}, shown {other!r}"
        for a, b in zip(NUMBER.finditer(line), NUMBER.finditer(other), strict=True):
            around = f"[{_column(head, b.end())}]{other[: b.start()]}{HERE}{other[b.end() :]}"
            if not _fits(a[0], b[0], around):
                return f"{a[0]} printed, {b[0]} shown, in {other!r}"
    return None


def _fits(printed: str, shown: str, around: str) -> bool:
    rule = next((rule for pattern, rule in RULES if re.search(pattern, around)), None)
    if rule is not None:
        return rule(float(printed), float(shown))
    if re.fullmatch(r"[-+]?\d+", shown) and re.fullmatch(r"[-+]?\d+", printed):
        return int(printed) == int(shown)
    return math.isclose(float(printed), float(shown), rel_tol=5e-3)  # two rows of 450, if it is an accuracy


def _lines(text: str) -> list[tuple[str, str]]:
    """Lines that say something, each with the heads of its table, if it is in one."""
    return list(_with_heads(text.splitlines()))


def _with_heads(lines: list[str]) -> Iterator[tuple[str, str]]:
    head = ""
    for i, line in enumerate(lines):
        if not line.strip():
            head = ""
        elif RULER.fullmatch(line.strip()):
            head = lines[i - 1] if i else ""
        else:
            yield line, head


def _column(head: str, end: int) -> str:
    """The head that ends nearest to where a number does: numbers are aligned to the right."""
    heads = list(re.finditer(r"\S+", head))
    return min(heads, key=lambda word: abs(word.end() - end))[0] if heads else ""
