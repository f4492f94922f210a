"""The page of an experiment: Markdown with tables and figures beside it as PNG and SVG."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from report import machine, versions

SIZES = {"quick": "a smoke run (`--quick`)", "default": "the default size", "full": "the paper's size (`--full`)"}


class Page:
    """``<folder>/<name>.md``, written at ``end``; figures are written at once."""

    def __init__(self, folder: Path, name: str):
        self.folder, self.name = folder, name
        self.file = folder / f"{name}.md"
        self.lines: list[str] = []

    def begin(self, title: str, size: str, date: str) -> None:
        self.text(f"# {title}")
        flag = "" if size == "default" else f" --{size}"
        self.text(
            f"`python benchmarks/papers/{self.name}.py{flag}`: {SIZES[size]}; "
            f"{machine()}, one thread; {date}; {versions()}."
        )

    def text(self, text: str) -> None:
        """A paragraph."""
        self.lines += [text, ""]

    def heading(self, text: str) -> None:
        self.text(f"## {text}")

    def differs(self, *what: str) -> None:
        """What is not as in the paper."""
        self.heading("What differs from the paper")
        self.lines += [*(f"- {line}" for line in what), ""]

    def table(self, headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Numbers are right-aligned; None is a dash, floats have three digits (format them to have others)."""
        body = [[_shown(cell) for cell in row] for row in rows]
        if any(len(row) != len(headers) for row in body):
            raise ValueError(f"a row of the table does not have {len(headers)} cells")
        widths = [max(3, *(len(line[at]) for line in [list(headers), *body])) for at in range(len(headers))]
        right = [at > 0 and all(_is_number(row[at]) for row in body) for at in range(len(headers))]

        def line(cells: Sequence[str]) -> str:
            padded = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True))
            return "| " + " | ".join(padded) + " |"

        ruler = ("-" * (w + 1) + ":" if r else "-" * (w + 2) for w, r in zip(widths, right, strict=True))
        self.lines += [line(headers), "|" + "|".join(ruler) + "|", *map(line, body), ""]

    def figure(self, figure: Any, caption: str, suffix: str = "") -> None:
        """Save a matplotlib figure as ``<name><suffix>.png`` and ``.svg`` and show it."""
        import matplotlib.pyplot as plt

        self.folder.mkdir(parents=True, exist_ok=True)
        stem = f"{self.name}{suffix}"
        figure.savefig(self.folder / f"{stem}.png", dpi=110)
        figure.set_layout_engine("none")  # it is laid out
        figure.savefig(self.folder / f"{stem}.svg", metadata={"Date": None})
        plt.close(figure)
        self.text(f"![{caption}]({stem}.png)")
        self.text(f"{caption} ([SVG]({stem}.svg))")

    def end(self, missing: int, errors: dict[str, str]) -> None:
        if missing:
            self.text(f"**Not complete: {missing} cells are missing.** Run it again to go on.")
        if errors:
            self.lines += [*(f"- failed: {cell}: {error.splitlines()[0]}" for cell, error in errors.items()), ""]
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file.write_text("\n".join(self.lines).rstrip() + "\n")


def _shown(cell: Any) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.0f}" if 1000 <= abs(cell) < 1e7 else f"{cell:.3g}"
    return str(cell)


def _is_number(text: str) -> bool:
    """Whether a cell of the table looks like one: digits, signs, dashes."""
    return text == "-" or text.lstrip("<>=+- ")[:1].isdigit()
