"""Figure 3 of paper 004: the logarithmic cooling scheme with different selections and steps.

python benchmarks/papers/paper_004_figure_3.py
"""

from __future__ import annotations

import sys

from aiolli_sperduti import PRINTED, cells_of, differences, finished, in_the_long_run, introduce, picture, run, table
from experiment import Cell, Experiment, Results, main
from page import Page

METHODS = [f"CS KKT {PRINTED}", f"SMO KKT {PRINTED}", "CS KKT LOG", "SMO KKT LOG", "SMO AMG LOG", "SMO BMG LOG"]


def cells(size: str) -> list[Cell]:
    return cells_of(size, METHODS)


def write(page: Page, results: Results) -> None:
    introduce(
        page,
        results,
        "the new selections converge faster, but with logarithmic cooling the optimum cannot be reached, as the "
        "threshold stays near 0.1 for many iterations.",
    )
    best, found = finished(results)
    if best is None or not found:
        return
    table(page, best, found)
    page.text(in_the_long_run(best, found))
    page.figure(picture(best, found), "Distance of the dual objective from its optimum, with logarithmic cooling.")
    differences(page)


EXPERIMENT = Experiment(
    name="paper_004_figure_3",
    title="Aiolli and Sperduti 2002, Figure 3: logarithmic cooling",
    cells=cells,
    run=run,
    write=write,
    timed=True,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
