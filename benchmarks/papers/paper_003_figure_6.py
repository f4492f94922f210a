"""Figure 6 of paper 003: the objective against iterations, with a fixed accuracy and with cooling.

Both have the active set: examples with duals come first, others only when none of these violates its conditions by more
than epsilon. With a fixed epsilon every new example is followed by many small steps; cooling begins with a large
epsilon. The paper shows logarithmic cooling and names two more, which are here, too.

    python benchmarks/papers/paper_003_figure_6.py
"""

from __future__ import annotations

import sys
from typing import Any

import kernel_rows
from decomposition_runs import PROBLEM, curve, decomposition, distance, first_within, optimum, outcome
from experiment import Cell, Experiment, Results, main
from page import Page
from plots import curve as draw
from plots import legend, log_scale, panels

EPSILON = 0.01
WITHIN = 0.01  # of the optimum: the objective that all are asked for
TIMES = 5  # fewer steps wanted
PROBLEMS = {  # C and gamma
    "satimage": (4.0, 1.0),
    "usps": (10.0, 1 / 128),
    "mnist": (PROBLEM["C"], PROBLEM["gamma"]),
    "vowel": (8.0, 1.0),
    "letter": (8.0, 1.0),
    "bundled:digits": (10.0, 0.02),
}
METHODS = {
    "fixed": {"threshold": "logarithmic", "cooling": False},
    "logarithmic": {"threshold": "logarithmic"},
    "linear": {"threshold": "linear"},
    "exponential": {"threshold": "exponential"},
}
LABELS = {"fixed": "fixed accuracy", **{name: f"{name} cooling" for name in list(METHODS)[1:]}}
# Rows of the default; a fixed accuracy takes hundreds of thousands of steps.
ROWS = {"satimage": 2000, "usps": 2000, "mnist": 1000, "vowel": None, "letter": 1000}


def cells(size: str) -> list[Cell]:
    kernel_rows.required(size)
    full = {"satimage": None, "usps": None, "mnist": 5000, "vowel": None, "letter": 5000}
    sets = {"quick": {"bundled:digits": 200}, "default": ROWS, "full": full}[size]
    return [{"data": d, "rows": rows, "method": m} for d, rows in sets.items() for m in ("optimum", *METHODS)]


def run(cell: Cell) -> dict[str, Any]:
    data = kernel_rows.scaled(cell["data"], cell["rows"])
    C, gamma = PROBLEMS[cell["data"]]
    if cell["method"] == "optimum":
        return optimum(data, C=C, gamma=gamma)
    options = {"selection": "kkt", "step": "fixed_point", "tol": EPSILON} | METHODS[cell["method"]]
    model = decomposition(data, C=C, gamma=gamma, **options)
    return outcome(model) | {"curve": curve(model)}


def write(page: Page, results: Results) -> None:
    page.text(
        f"Steps (iterations: the duals of one example) until no violation exceeds epsilon = {EPSILON}, and until the "
        f"dual objective is within {100 * WITHIN:g} % of its optimum."
    )
    rows, ratios, drawn = [], {}, []
    for data in results.values("data"):
        best = results.one(data=data, method="optimum")
        found = {method: results.one(data=data, method=method) for method in METHODS}
        if best is None or found["fixed"] is None:
            continue
        drawn.append(data)
        for method, result in found.items():
            if result is None:
                continue
            fewer = found["fixed"]["steps"] / result["steps"]
            near = first_within(result["curve"], best["dual"], WITHIN, "steps")
            if method != "fixed" and result["converged"]:
                ratios[data] = max(fewer, ratios.get(data, 0.0))
            size = next(c["rows"] for c, _ in results.where(data=data)) or "all"
            shown = f"{fewer:.1f}" + ("" if found["fixed"]["converged"] else " or more")
            rows.append([data, size, LABELS[method], result["steps"], shown, near])
    headers = ["set", "rows", "method", "steps to epsilon", "times fewer than fixed", f"steps to {100 * WITHIN:g} %"]
    page.table(headers, rows)
    reached = [f"{data} ({ratio:.0f})" for data, ratio in ratios.items() if ratio >= TIMES]
    page.text(
        "The paper: cooling reduces the iterations by an order of magnitude. Here the best cooling needs at least "
        f"{TIMES} times fewer steps on {len(reached)} of {len(ratios)} sets: {', '.join(reached) or 'none'}."
    )
    page.figure(picture(results, drawn), "Relative distance of the dual objective from its optimum against steps.")
    page.differs(
        "The paper does not say which set and which epsilon its figure shows; it plots the objective itself.",
        "The logarithmic cooling divides the last epsilon, not the first, by log10(t + 10): as printed it would stay "
        "above 0.1 for ten thousand million rounds.",
    )


def picture(results: Results, sets: list[str]) -> Any:
    columns = min(3, max(1, len(sets)))
    figure, axes = panels(-(-len(sets) // columns), columns, width=3.2)
    for ax in axes.flat[len(sets) :]:
        ax.remove()
    for ax, data in zip(axes.flat, sets, strict=False):
        best = results.one(data=data, method="optimum")["dual"]
        for position, method in enumerate(METHODS):
            if (result := results.one(data=data, method=method)) is not None:
                points = result["curve"]
                draw(ax, points["steps"], distance(points, best), method, LABELS[method], position)
        log_scale(ax, "xy")
        ax.set_title(data)
        ax.set_xlabel("steps")
    for line in axes:
        line[0].set_ylabel("distance from the optimum")
    legend(figure)
    return figure


EXPERIMENT = Experiment(
    name="paper_003_figure_6",
    title="Crammer and Singer 2001, Figure 6: cooling of the accuracy",
    cells=cells,
    run=run,
    write=write,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
