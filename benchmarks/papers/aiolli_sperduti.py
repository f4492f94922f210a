"""What the figures of paper 004 share (Aiolli and Sperduti, "An Efficient SMO-like Algorithm for Multiclass SVM").

The paper is of 2002.

A method has three parts, in the paper's words: how the duals of an example move, CS (Crammer and Singer's fixed point),
SMO (pairs of its duals until they gain little) or BAS (the best pair once); by which value examples are selected, KKT,
AMG or BMG; and which threshold the value must exceed, LOG, MAX or MEAN.

LOG, a threshold that cools, is there twice. As the papers print it, rho(t) = 0.999 / log10(t + 10) in round t; and as
KernelSVM has it, where every round divides the threshold of the last one, so that it can reach the optimum. The
printed one is run as a sequence of fits that each end when no violation exceeds rho(t), each from the duals of the one
before, at t = 0, 1, 2, 4, ... (rho hardly changes in between). That is possible for KKT only, and says nothing about
time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kernel_rows
import numpy as np
from datasets import Data
from decomposition_runs import PROBLEM, curve, decomposition, distance, first_within, optimum, outcome, rows_in_mb
from experiment import Cell, Results
from page import Page
from plots import curve as draw
from plots import legend, log_scale, panels

from multimargin import KernelSVM

STEPS = {"CS": "fixed_point", "SMO": "smo", "BAS": "basic_smo"}
THRESHOLDS = {"LOG": "logarithmic", "MAX": "max", "MEAN": "mean"}
PRINTED = "LOG as printed"
ROUNDS = (0, *(2**power for power in range(14)), 10**6, 10**9)  # t of the printed schedule
TOLERANCE = 1e-3  # of the violation, at which runs end
WITHIN = (0.01, 0.001)  # of the optimum: the objectives that all are asked for
CHECKPOINTS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0)  # of the steps of a run, where test rows are predicted
PRACTICAL = 2**13  # rounds; later ones are only told of
AXES = {"seconds": "seconds", "steps": "steps", "kernel_rows": "kernel rows computed"}


def cells_of(size: str, methods: list[str], **more: Any) -> list[Cell]:
    """One a method ("SMO BMG MEAN"), and one for the optimum."""
    kernel_rows.required(size)
    data, rows = {"quick": ("bundled:digits", 200), "default": ("mnist", 2000), "full": ("mnist", 5000)}[size]
    return [{"data": data, "rows": rows, "method": method} | more for method in ("optimum", *methods)]


def run(cell: Cell) -> dict[str, Any]:
    data = kernel_rows.scaled(cell["data"], cell["rows"])
    if cell["method"] == "optimum":
        return optimum(data, **PROBLEM)
    step, selection, threshold = cell["method"].split(" ", 2)
    options: dict[str, Any] = {"step": STEPS[step], "selection": selection.lower()} | PROBLEM
    if cell.get("cache_rows"):
        options["cache_mb"] = rows_in_mb(cell["cache_rows"], data)
    if threshold == PRINTED:
        return {"curve": printed_schedule(data, options)}
    options |= {"threshold": THRESHOLDS[threshold], "tol": TOLERANCE}
    model = decomposition(data, **options)
    result = outcome(model) | {"curve": curve(model)}
    return result | (tested(data, options, result) if cell.get("tested") else {})


def printed_schedule(data: Data, options: dict[str, Any]) -> dict[str, list[float]]:
    """The dual value after the rounds of the printed schedule, against steps."""
    model = KernelSVM("crammer_singer", fit_intercept=False, solver="decomposition", stopping="violation", **options)
    model.set_params(threshold="logarithmic", cooling=False, warm_start=True)
    found: dict[str, list[float]] = {"rounds": [], "steps": [], "dual": []}
    for t in ROUNDS:
        model.set_params(tol=0.999 / np.log10(t + 10)).fit(data.X, data.y)
        before = found["steps"][-1] if found["steps"] else 0
        found["rounds"].append(t)
        found["steps"].append(before + int(model.history_["active_rows"].sum()))
        found["dual"].append(model.dual_objective_)
    return found


def tested(data: Data, options: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Accuracy on the test rows after a part of the steps, in percent: the run again, stopped there."""
    accuracy, at = [], []
    for part in CHECKPOINTS:
        model = decomposition(data, **options, callbacks=[stop_after(part * result["steps"])])
        at.append(int(model.history_["active_rows"].sum()))
        accuracy.append(100 * float(np.mean(model.predict(data.X_test) == data.y_test)))
    points = result["curve"]
    moments = {what: np.interp(at, points["steps"], points[what]).tolist() for what in ("seconds", "kernel_rows")}
    return {"tested": {"steps": at, "accuracy": accuracy} | moments}


def stop_after(steps: float) -> Callable[[dict[str, Any]], bool]:
    """A callback that ends a run after so many steps."""
    seen = 0

    def callback(record: dict[str, Any]) -> bool:
        nonlocal seen
        seen += record["active_rows"]
        return seen >= steps

    return callback


# What is shown


def introduce(page: Page, results: Results, claim: str) -> None:
    cell = results.pairs[0][0]
    cache = (
        f"a cache of {cell['cache_rows']} kernel rows"
        if cell.get("cache_rows")
        else "a cache that holds all kernel rows"
    )
    page.text(
        f"{cell['data']}, {cell['rows']} training rows; RBF kernel, C = {PROBLEM['C']:g}, gamma = "
        f"{PROBLEM['gamma']:g}; {cache}. A step moves the duals of one example."
    )
    page.text(f"The paper's claim: {claim}")


def finished(results: Results) -> tuple[float | None, dict[str, dict[str, Any]]]:
    """The optimum, and the results of the methods; of the printed schedule the rounds that can be done in practice."""
    best = results.one(method="optimum")
    found = {method: results.one(method=method) for method in results.values("method") if method != "optimum"}
    for method, result in found.items():
        if PRINTED in method:
            whole = result["curve"]
            done = sum(t <= PRACTICAL for t in whole["rounds"])
            found[method] = {"curve": {what: values[:done] for what, values in whole.items()}, "whole": whole}
    return best["dual"] if best else None, found


def in_the_long_run(best: float, found: dict[str, dict[str, Any]]) -> str:
    """Where the printed schedule is after how many rounds, each of which looks at every example."""
    lines = []
    for method, result in found.items():
        if "whole" in result:
            off = dict(zip(result["whole"]["rounds"], distance(result["whole"], best), strict=True))
            parts = [f"{100 * off[t]:.2f} % after {t:,} rounds" for t in (2**10, PRACTICAL, 10**6, 10**9)]
            lines.append(f"- {method}: {', '.join(parts)}")
    return "\n".join(["Distance from the optimum of the schedule as printed:", "", *lines])


def table(page: Page, best: float, found: dict[str, dict[str, Any]]) -> None:
    """How soon the methods are near the optimum."""
    headers = ["method"]
    headers += [f"{AXES[what]} to {100 * within:g} %" for within in WITHIN for what in AXES]
    rows = []
    for method, result in found.items():
        points = result["curve"]
        reached = [
            first_within(points, best, within, what) if what in points else None for within in WITHIN for what in AXES
        ]
        rows.append([method, *(f"{value:.0f}" if value and value > 100 else value for value in reached)])
    page.table([*headers, "distance at the end"], [[*row, shown_end(found[row[0]], best)] for row in rows])


def shown_end(result: dict[str, Any], best: float) -> str:
    return f"{distance(result['curve'], best)[-1]:.1e}"


def moments(points: dict[str, list[float]], what: str) -> np.ndarray:
    """Points to draw: against seconds the last one of every slice of work, as the clock is read after slices."""
    if what != "seconds":
        return np.arange(len(points[what]))
    return np.flatnonzero(np.append(np.diff(points[what]) > 0.005, True))


def picture(best: float, found: dict[str, dict[str, Any]], axes_shown: tuple[str, ...] = ("seconds", "steps")) -> Any:
    """Distance from the optimum against what is asked for."""
    figure, axes = panels(1, len(axes_shown))
    for ax, what in zip(axes[0], axes_shown, strict=True):
        for position, (method, result) in enumerate(found.items()):
            points = result["curve"]
            if what in points:
                shown = moments(points, what)
                draw(ax, np.array(points[what])[shown], distance(points, best)[shown], method, method, position)
        if what != "seconds":  # before that they are all alike
            ax.set_xlim(left=ax.get_xlim()[1] / 200)
        ax.set_ylim(bottom=1e-5, top=1.5)
        log_scale(ax, "xy")
        ax.set_xlabel(AXES[what])
    axes[0, 0].set_ylabel("distance from the optimum")
    legend(figure, columns=3)
    return figure


def differences(page: Page, *more: str) -> None:
    page.differs(
        "The paper has 5000 digits of NIST-3; ours are of mnist, which was made of it (2000 by default, 5000 with "
        "`--full`). Kernel and C are not in the paper.",
        "The paper plots the Lagrangian itself; the relative distance of the dual objective from its optimum shows the "
        "end of a run, too.",
        "LOG is KernelSVM's: it divides the last threshold, not the first one, by log10(t + 10), and takes half of the "
        "largest "
        f'value where nobody exceeds it. "{PRINTED}" is the papers\' formula, at rounds 0, 1, 2, 4, ... 8192, a '
        "million and a "
        "thousand million.",
        *more,
    )
