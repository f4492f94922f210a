"""Figure 6 of paper 004: the methods with a cache of 100 kernel rows, objective and test accuracy against time.

python benchmarks/papers/paper_004_figure_6.py
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from aiolli_sperduti import AXES, CHECKPOINTS, cells_of, differences, distance, finished, introduce, moments, run, table
from experiment import Cell, Experiment, Results, main
from page import Page
from plots import curve, legend, log_scale, panels

CACHE_ROWS = 100
METHODS = ["CS KKT LOG", "SMO KKT MEAN", "SMO AMG MEAN", "SMO BMG MEAN", "BAS BMG MEAN"]


def cells(size: str) -> list[Cell]:
    return cells_of(size, METHODS, cache_rows=20 if size == "quick" else CACHE_ROWS, tested=True)


def write(page: Page, results: Results) -> None:
    introduce(
        page,
        results,
        "all methods suffer from a small cache, those that select by KKT most; BAS is poor, as it takes more steps and "
        "so computes more kernel rows.",
    )
    best, found = finished(results)
    if best is None or not found:
        return
    table(page, best, found)
    page.figure(picture(best, found), "Distance from the optimum and test accuracy against seconds and kernel rows.")
    rows = [[method, *(f"{a:.2f}" for a in result["tested"]["accuracy"])] for method, result in found.items()]
    page.text("Test accuracy in percent, at the end of the slice in which a part of the method's steps was done:")
    page.table(["method", *(f"{100 * part:g} %" for part in CHECKPOINTS)], rows)
    differences(page)


def picture(best: float, found: dict[str, dict[str, Any]]) -> Any:
    figure, axes = panels(2, 2)
    for column, what in enumerate(("seconds", "kernel_rows")):
        for position, (method, result) in enumerate(found.items()):
            points, tests = result["curve"], result["tested"]
            shown = moments(points, what)
            x, y = np.array(points[what])[shown], distance(points, best)[shown]
            curve(axes[0, column], x, y, method, method, position)
            curve(axes[1, column], tests[what], tests["accuracy"], method, method, position)
        log_scale(axes[0, column], "y")
        axes[0, column].set_ylim(bottom=1e-5)
        for ax in axes[:, column]:
            log_scale(ax, "x")
            ax.set_xlabel(AXES[what])
    axes[0, 0].set_ylabel("distance from the optimum")
    axes[1, 0].set_ylabel("test accuracy, %")
    legend(figure, columns=3)
    return figure


EXPERIMENT = Experiment(
    name="paper_004_figure_6",
    title="Aiolli and Sperduti 2002, Figure 6: a cache of 100 kernel rows",
    cells=cells,
    run=run,
    write=write,
    timed=True,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
