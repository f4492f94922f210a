"""The Python blocks of README.md and of the pages in docs/ run, in their order, and print what stands below them."""

from __future__ import annotations

import contextlib
import io
import math
import re
import warnings
from pathlib import Path

import matplotlib
import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def blocks(page: Path) -> list[tuple[str, str, int]]:
    """(language, text, line) of the fenced blocks that are Python or printed text."""
    content = page.read_text(encoding="utf-8")
    return [
        (match[1], match[2], content[: match.start()].count("\n") + 1)
        for match in BLOCK.finditer(content)
        if match[1] in ("python", "text")
    ]


def same(printed: str, shown: str) -> bool:
    """Same words, and numbers of the same size: seconds and last digits may differ from machine to machine."""
    if NUMBER.sub("#", printed).split() != NUMBER.sub("#", shown).split():
        return False
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=0.5, abs_tol=0.05) for a, b in pairs)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_run_and_print_what_is_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    names: dict = {"__name__": page.stem}
    printed = None
    for language, text, line in blocks(page):
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output), warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                exec(compile("\n" * line + text, str(page), "exec"), names)
            printed = output.getvalue()
        elif printed is not None:
            assert same(printed, text), f"{page.name}, line {line}: shown\n{text}\nprinted\n{printed}"
            printed = None


def test_comparison_of_printed_text():
    assert same("gap 1.0e-04, 12 epochs\n", "gap 1.1e-04,  12 epochs")
    assert not same("gap 1.0e-04, 12 epochs", "gap 1.0e-04, 40 epochs")
    assert not same("converged: True", "converged: False")
    assert not same("1 2", "1 2 3")
