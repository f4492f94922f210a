"""Figure 4 of paper 004: thresholds for the SMO-like steps, against Crammer and Singer's baseline.

python benchmarks/papers/paper_004_figure_4.py
"""

from __future__ import annotations

import sys
from typing import Any

from aiolli_sperduti import (
    PRACTICAL,
    PRINTED,
    WITHIN,
    cells_of,
    differences,
    finished,
    in_the_long_run,
    introduce,
    picture,
    run,
    table,
)
from decomposition_runs import first_within
from experiment import Cell, Experiment, Results, main
from page import Page

NEW = ["SMO KKT MAX", "SMO KKT MEAN", "SMO BMG MAX", "SMO BMG MEAN"]
METHODS = [f"CS KKT {PRINTED}", f"SMO KKT {PRINTED}", "SMO KKT LOG", *NEW]


def cells(size: str) -> list[Cell]:
    return cells_of(size, METHODS)


def write(page: Page, results: Results) -> None:
    introduce(page, results, "MAX and MEAN are alike, and much better than the baseline with logarithmic cooling.")
    best, found = finished(results)
    if best is None or not found:
        return
    table(page, best, found)
    page.text(verdict(best, found))
    page.text(in_the_long_run(best, found))
    page.figure(picture(best, found), "Distance of the dual objective from its optimum, by threshold.")
    differences(page)


def verdict(best: float, found: dict[str, dict[str, Any]]) -> str:
    """Who comes first, by steps."""
    words = []
    for within in WITHIN:
        steps = {method: first_within(result["curve"], best, within, "steps") for method, result in found.items()}
        for cooled in [method for method in steps if "LOG" in method]:
            sooner = [m for m in NEW if steps.get(m) and (steps[cooled] is None or steps[m] < steps[cooled])]
            late = f"is not there in {PRACTICAL} rounds" if PRINTED in cooled else "never gets there"
            reached = late if steps[cooled] is None else f"takes {steps[cooled]} steps"
            words.append(
                f"- within {100 * within:g} %: {cooled} {reached}; sooner than it: {', '.join(sooner) or 'none'}"
            )
    return "\n".join(["By steps:", "", *words])


EXPERIMENT = Experiment(
    name="paper_004_figure_4",
    title="Aiolli and Sperduti 2002, Figure 4: thresholds",
    cells=cells,
    run=run,
    write=write,
    timed=True,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
