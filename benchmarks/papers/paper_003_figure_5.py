"""Figure 5 of paper 003: run time and test error of Crammer and Singer's algorithm against its epsilon, on MNIST.

All that its section 7 describes is in use: selection by the optimality conditions, active set, cooling, cache,
fixed-point steps. The default trains 2000 rows, ``--full`` all 60,000.

    python benchmarks/papers/paper_003_figure_5.py
"""

from __future__ import annotations

import sys
from typing import Any

import kernel_rows
import numpy as np
from decomposition_runs import PROBLEM, decomposition, outcome
from experiment import Cell, Experiment, Results, main
from page import Page
from plots import curve, log_scale, panels

METHOD = {"selection": "kkt", "threshold": "logarithmic", "step": "fixed_point"}
EPSILON = (0.9, 0.5, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)


def cells(size: str) -> list[Cell]:
    kernel_rows.required(size)
    data, rows = {"quick": ("bundled:digits", 300), "default": ("mnist", 2000), "full": ("mnist", None)}[size]
    every = EPSILON[::4] if size == "quick" else EPSILON
    return [{"data": data, "rows": rows, "epsilon": epsilon} for epsilon in every]


def run(cell: Cell) -> dict[str, Any]:
    data = kernel_rows.scaled(cell["data"], cell["rows"])
    model = decomposition(data, tol=cell["epsilon"], **METHOD, **PROBLEM)
    error = 100 * float(np.mean(model.predict(data.X_test) != data.y_test))
    return outcome(model) | {"error": error, "gap": model.dual_gap_}


def write(page: Page, results: Results) -> None:
    cell = results.pairs[0][0]
    page.text(
        f"{cell['data']}, {cell['rows'] or 'all'} training rows; RBF kernel, C = {PROBLEM['C']:g}, gamma = "
        f"{PROBLEM['gamma']:g}. A step is an iteration of the paper, the duals of one example; kernel rows are those "
        "computed."
    )
    rows = [
        [c["epsilon"], r["seconds"], r["steps"], f"{r['kernel_rows']:.0f}", f"{r['error']:.2f}", f"{r['gap']:.1e}"]
        for c, r in results.pairs
    ]
    page.table(["epsilon", "seconds", "steps", "kernel rows", "test error, %", "duality gap"], rows)
    page.text(claims(results))
    figure, axes = panels(1, 2)
    epsilon = [c["epsilon"] for c, _ in results.pairs]
    for ax, what, label in zip(axes[0], ("seconds", "error"), ("run time, s", "test error, %"), strict=True):
        curve(ax, epsilon, [r[what] for _, r in results.pairs], "crammer_singer", label)
        log_scale(ax, "x")
        ax.set_xlabel("epsilon")
        ax.set_ylabel(label)
    axes[0, 0].set_ylim(bottom=0)
    page.figure(figure, "Run time and test error as functions of the required accuracy.")
    page.differs(
        "Kernel and C are not in the paper's text (it ends before its experiments); ours are an RBF kernel and what "
        "suits mnist.",
        "The default has 2000 training rows, the paper 60,000: errors are higher than its 1.4 to 1.9 %.",
        "The logarithmic cooling divides the last epsilon, not the first, by log10(t + 10): as printed it would stay "
        "above 0.1 for ten thousand million rounds.",
    )


def claims(results: Results) -> str:
    """The paper's: 0.1 is accurate enough, and smaller values take 20 to 30 % more time."""
    found = {c["epsilon"]: r for c, r in results.pairs}
    if not {0.1, 0.0001} <= found.keys():
        return ""
    moderate, small = found[0.1], found[0.0001]
    best = min(result["error"] for result in found.values())
    return (
        f"The paper: an epsilon of 0.1 already generalises well (here its error is {moderate['error']:.2f} %, the "
        f"lowest of all {best:.2f} %), and smaller ones take 20 to 30 % more time (here 0.0001 takes "
        f"{small['steps'] / moderate['steps']:.1f} times the steps, "
        f"{small['kernel_rows'] / moderate['kernel_rows']:.2f} times the kernel rows and "
        f"{small['seconds'] / moderate['seconds']:.2f} times the seconds of 0.1)."
    )


EXPERIMENT = Experiment(
    name="paper_003_figure_5",
    title="Crammer and Singer 2001, Figure 5: run time and test error against epsilon",
    cells=cells,
    run=run,
    write=write,
    timed=True,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
