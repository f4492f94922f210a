"""Figure 5 of paper 004: selections with the threshold MEAN.

python benchmarks/papers/paper_004_figure_5.py
"""

from __future__ import annotations

import sys

from aiolli_sperduti import cells_of, differences, finished, introduce, picture, run, table
from experiment import Cell, Experiment, Results, main
from page import Page

METHODS = ["SMO KKT MEAN", "SMO AMG MEAN", "SMO BMG MEAN"]


def cells(size: str) -> list[Cell]:
    return cells_of(size, METHODS)


def write(page: Page, results: Results) -> None:
    introduce(page, results, "with a large cache, AMG and BMG are slightly better than KKT.")
    best, found = finished(results)
    if best is None or not found:
        return
    table(page, best, found)
    page.figure(picture(best, found), "Distance of the dual objective from its optimum, by selection.")
    differences(page)


EXPERIMENT = Experiment(
    name="paper_004_figure_5",
    title="Aiolli and Sperduti 2002, Figure 5: selections",
    cells=cells,
    run=run,
    write=write,
    timed=True,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
