"""Figures of traces: how far from the optimum and how accurate, against training time."""

from __future__ import annotations

from typing import Any

from experiment import Results
from plots import GREY, curve, log_scale
from traces import Point, distances

FLOOR = 1e-8  # what is nearer to the best value known is drawn there


def reference_and_curves(
    found: list[tuple[dict[str, Any], dict[str, Any]]], labels: dict[str, str]
) -> tuple[dict[str, float], dict[str, list[Point]]]:
    """Of the cells of one problem: the result of its "optimum", and the methods' curves; none without the optimum."""
    by_method = {cell["method"]: result for cell, result in found}
    reference = by_method.pop("optimum", None)
    if reference is None:
        return {}, {}
    return reference, {method: by_method[method]["curve"] for method in labels if method in by_method}


def training_rows(results: Results) -> str:
    """How many rows of which set, in words."""
    rows = {cell["data"]: cell["rows"] for cell, _ in results.pairs}
    return ", ".join(f"{data} {'all' if n is None else format(n, ',')}" for data, n in rows.items())


def objective_panel(ax: Any, curves: dict[str, list[Point]], labels: dict[str, str], which: str, best: float) -> None:
    """Relative distance from the best value known, both axes logarithmic."""
    for position, (method, points) in enumerate(curves.items()):
        seconds, values = distances(points, which, best)
        curve(ax, seconds, values.clip(FLOOR), method, labels[method], position)
    ax.set(yscale="log")
    ax.set_ylim(top=min(ax.get_ylim()[1], 5.0))  # far above that a method has not begun
    log_scale(ax, "xy")
    ax.set_ylabel(f"{which}: relative distance")


def accuracy_panel(ax: Any, curves: dict[str, list[Point]], labels: dict[str, str], final: float | None = None) -> None:
    """Percent of the test rows; a line where it ends at the optimum."""
    for position, (method, points) in enumerate(curves.items()):
        seconds, _ = distances(points, "dual", 1.0)
        curve(ax, seconds, [point["accuracy"] for point in points], method, labels[method], position)
    if final is not None:
        ax.axhline(final, color=GREY, linewidth=1, linestyle=":", label="at the optimum")
    log_scale(ax, "x")
    ax.set_ylabel("test accuracy, %")
    everything = [point["accuracy"] for points in curves.values() for point in points]
    if everything:  # the first passes of a slow method may be far below what is of interest
        top = max(everything)
        ax.set_ylim(bottom=max(min(everything), top - 30) - 0.5, top=top + 0.5 + 0.02 * (top - min(everything)))


def below(axes: Any) -> None:
    """The time is named under the lowest panels only."""
    for ax in axes[-1]:
        ax.set_xlabel("training time, s")
