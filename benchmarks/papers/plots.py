"""How the papers' plots look: one colour, line and marker a method in all figures, quiet axes, the legend below."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

# Okabe and Ito's palette, whose colours remain apart for colour-blind readers; its yellow is too light for lines.
BLUE, SKY, GREEN, ORANGE = "#0072b2", "#56b4e9", "#009e73", "#e69f00"
VERMILLION, PURPLE, BLACK, GREY = "#d55e00", "#cc79a7", "#222222", "#7a7a7a"

# Method: colour, line, marker. Add yours here.
STYLES: dict[str, tuple[str, Any, str]] = {
    "sdm": (BLUE, "-", "o"),
    "sdm_plain": (ORANGE, "--", "s"),
    "exponentiated_gradient": (VERMILLION, "--", "s"),
    "cutting_plane": (GREEN, "-.", "^"),
    "pegasos": (PURPLE, ":", "D"),
    "primal_cd": (ORANGE, "--", "v"),
    "tron": (BLACK, "-.", "P"),
    "dcd": (SKY, "--", "s"),
    "dcd_shrinking": (BLUE, "-", "o"),
    "crammer_singer": (BLUE, "-", "o"),
    "weston_watkins": (VERMILLION, "--", "s"),
    "one_vs_rest": (GREEN, "-.", "^"),
    "one_vs_one": (PURPLE, ":", "D"),
    "dag": (BLACK, (0, (3, 1, 1, 1)), "v"),
}
_OTHERS = [(BLUE, "-", "o"), (VERMILLION, "--", "s"), (GREEN, "-.", "^"), (PURPLE, ":", "D"), (ORANGE, "--", "v")]
_OTHERS += [(BLACK, "-.", "P"), (SKY, "-", "X")]

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

LOOK = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GREY,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "lines.markersize": 3.5,
    "svg.hashsalt": "multimargin",  # the same picture is the same file
    "savefig.facecolor": "white",
}


def style(method: str, position: int = 0) -> dict[str, Any]:
    """Keywords of ``plot`` for a method; one that has no style gets one by its position."""
    colour, line, marker = STYLES.get(method) or _OTHERS[position % len(_OTHERS)]
    return {"color": colour, "linestyle": line, "marker": marker}


def panels(rows: int, columns: int, *, width: float = 3.8, height: float = 2.6, **options: Any) -> tuple[Any, Any]:
    """A figure and its axes, always an array of (rows, columns)."""
    with mpl.rc_context(LOOK):
        size = (width * columns + 0.2, height * rows + 0.5)
        return plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **options)


def curve(ax: Any, x: Sequence[float], y: Sequence[float], method: str, label: str, position: int = 0) -> None:
    """One method's line; few enough markers to see the line."""
    with mpl.rc_context(LOOK):
        ax.plot(x, y, label=label, markevery=max(1, len(x) // 12), **style(method, position))


def log_scale(ax: Any, which: str) -> None:
    """Make the x, y or both ("xy") axes logarithmic, with ticks at powers of ten, or also between if these are few.

    After the curves are drawn: what is few depends on them.
    """
    for name in which:
        ax.set(**{f"{name}scale": "log"})
        axis = getattr(ax, f"{name}axis")
        low, high = sorted(axis.get_view_interval())
        decades = log10(high / low) if low > 0 else 1.0
        subs = (1.0,) if decades > 1.5 else (1.0, 2.0, 5.0) if decades > 0.5 else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
        axis.set_major_locator(LogLocator(subs=subs, numticks=8))
        axis.set_major_formatter(FuncFormatter(_tick))
        axis.set_minor_formatter(NullFormatter())


def _tick(value: float, position: Any = None) -> str:
    """Plain near one, else with a power of ten; no mathtext, which is slow and in another font."""
    if 1e-3 <= value < 1e4:
        return f"{value:g}"
    exponent = floor(log10(value) + 1e-9)
    power = "10" + str(exponent).translate(_SUPERSCRIPT)
    factor = value / 10.0**exponent
    return power if abs(factor - 1) < 1e-6 else f"{factor:.2g}·{power}"


def legend(figure: Any, columns: int = 4) -> None:
    """One legend below all panels, each label once."""
    found = {}
    for ax in figure.axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    if found:
        place = {"loc": "outside lower center", "ncols": min(columns, len(found)), "frameon": False}
        figure.legend(found.values(), found.keys(), **place)
