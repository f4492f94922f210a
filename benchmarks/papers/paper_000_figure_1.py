"""Figures 1 and 4 of paper 000: SDM with and without its heuristics, shrinking and cooling, on MNIST and COVER.

Figure 1 is Crammer-Singer, Figure 4 Weston-Watkins; C = 1. The paper's quantity is the dual function's relative
distance from its optimum against training time. How a curve is made: traces.py.
"""

from __future__ import annotations

import sys
from typing import Any

import samples
from curves import accuracy_panel, below, objective_panel, reference_and_curves, training_rows
from datasets import folder
from experiment import Cell, Experiment, Results, main
from page import Page
from plots import legend, panels
from traces import CLOCK, best_bounds, optimum, shown_time, time_to, trace

LABELS = {"sdm": "SDM, shrinking and cooling", "sdm_plain": "SDM without"}
FIGURES = {"crammer_singer": "Figure 1", "weston_watkins": "Figure 4"}


def cells(size: str) -> list[Cell]:
    if size == "quick":
        sets, seconds = {"generated:words": 150}, 0.05
    else:
        folder()
        sets = {"mnist": None, "covtype": None} if size == "full" else {"mnist": 15_000, "covtype": 80_000}
        seconds = 2000.0 if size == "full" else 25.0
    every = [(name, rows, f, m) for name, rows in sets.items() for f in FIGURES for m in ("optimum", *LABELS)]
    return [{"data": d, "rows": rows, "formulation": f, "method": m, "seconds": seconds} for d, rows, f, m in every]


def run(cell: Cell) -> dict[str, Any]:
    data = samples.with_test(cell["data"], cell["rows"])
    if cell["method"] == "optimum":
        return optimum(data, 1e-7, 4 * cell["seconds"], formulation=cell["formulation"], C=1.0)
    on = cell["method"] == "sdm"
    options = {"solver": "sdm", "shrinking": on, "cooling": on}
    return {"curve": trace(data, cell["seconds"], formulation=cell["formulation"], C=1.0, **options)}


def write(page: Page, results: Results) -> None:
    page.text(
        "The paper's claim: the heuristics are valuable when the dual is to be solved quite accurately. "
        "The dual function's relative distance from the best value known, and the accuracy on test rows, against "
        "training time; C = 1, hinge loss, no intercept."
    )
    rows = []
    for formulation, figure in FIGURES.items():
        sets = [
            data
            for data in results.values("data")
            if reference_and_curves(results.where(data=data, formulation=formulation), LABELS)[1]
        ]
        if not sets:
            continue
        picture, axes = panels(len(sets), 2)
        for line, data in zip(axes, sets, strict=True):
            reference, curves = _curves(results, data, formulation)
            _, best = best_bounds(reference, curves.values())
            objective_panel(line[0], curves, LABELS, "dual", best)
            accuracy_panel(line[1], curves, LABELS, reference["accuracy"])
            line[0].set_title(data)
            line[1].set_title(data)
            for distance in (1e-2, 1e-4, 1e-6):
                times = {m: time_to(curve, "dual", best, distance) for m, curve in curves.items()}
                ours, plain = times.get("sdm"), times.get("sdm_plain")
                ratio = f"{plain / ours:.1f}" if ours and plain else None
                shown = [shown_time(curves.get(m), "dual", best, distance) for m in LABELS]
                rows.append((figure, data, formulation, f"{distance:g}", *shown, ratio))
        below(axes)
        legend(picture)
        page.figure(picture, f"{figure}: {formulation}", suffix=f"_{formulation}")
    page.heading("Seconds until the dual is that near to its optimum (relative)")
    page.table(("figure", "set", "formulation", "distance", "with", "without", "ratio"), rows)
    page.text("The paper shows curves and no figures.")
    page.differs(
        f"Training rows: {training_rows(results)} (the paper: 60,000 and 522,911); covtype is cut, "
        "and its test rows are drawn, at random.",
        "The shrunk passes of ours skip the same rows; how they end (cooling) is described in docs/algorithms.md.",
        "The panels of accuracy are ours.",
        CLOCK,
    )


def _curves(results: Results, data: str, formulation: str) -> tuple[dict, dict]:
    return reference_and_curves(results.where(data=data, formulation=formulation), LABELS)


EXPERIMENT = Experiment(
    name="paper_000_figure_1",
    title="Paper 000, Figures 1 and 4: SDM with and without shrinking and cooling",
    cells=cells,
    run=run,
    write=write,
    timed=True,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
