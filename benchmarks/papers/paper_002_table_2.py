"""Table II of paper 002: accuracy of five methods on ten sets, with the C and gamma that were found best.

As there: on dna, satimage, letter and shuttle, C and gamma are chosen by the rate on 30 % of the training rows of a
machine that was trained on the other 70 %; then the whole training set is trained and the test set predicted, and where
several pairs tie, the best test rate among them counts. The other six sets are cross-validated, in ten folds. The
default searches 3 x 3 pairs around the paper's optimum, ``--full`` the paper's 15 x 15.

    python benchmarks/papers/paper_002_table_2.py
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from experiment import Cell, Experiment, Results, main
from hsu_lin import (
    COLUMNS,
    CROSS_VALIDATED,
    FOLDINGS,
    LOG_C,
    LOG_GAMMA,
    MACHINES,
    NAMES,
    QUICK,
    TABLE_2,
    TESTED,
    cross_validated,
    fitted,
    machine,
    neighbours,
    rates,
    rows_of,
    validation_parts,
)
from kernel_rows import required
from page import Page
from plots import legend, panels, style

TEST_POINTS, CROSS_VALIDATED_POINTS = 0.5, 1.5  # how far from the paper's rate ours may be


def cells(size: str) -> list[Cell]:
    """One a set, machine and pair of C and gamma; with the columns of the table that it is for."""
    required(size)
    found = []
    for name in QUICK if size == "quick" else (*CROSS_VALIDATED[:4], *TESTED, *CROSS_VALIDATED[4:]):
        for trained, columns in MACHINES.items():
            wanted: dict[tuple[int, int], list[str]] = {}
            for column in columns:
                for pair in search(name, column, size):
                    wanted.setdefault(pair, []).append(column)
            for (C, gamma), served in wanted.items():
                cell = {"set": name, "machine": trained, "C": C, "gamma": gamma, "columns": served}
                found.append(cell | ({"quick": True} if size == "quick" else {}))
    return sorted(found, key=lambda cell: not is_papers(cell))  # a run that is stopped has something for every set


def is_papers(cell: Cell) -> bool:
    """Whether it is the paper's optimum of one of its columns."""
    optima = [TABLE_2[cell["set"]][column] for column in cell["columns"]]
    return any((cell["C"], cell["gamma"]) == (optimum.C, optimum.gamma) for optimum in optima)


def search(name: str, column: str, size: str) -> list[tuple[int, int]]:
    """Pairs of log2 C and log2 gamma."""
    optimum = TABLE_2[name][column]
    if size == "full":
        return [(C, gamma) for C in LOG_C for gamma in LOG_GAMMA]
    if size == "quick":
        return [(optimum.C, optimum.gamma)]
    return [(C, gamma) for C in neighbours(optimum.C, LOG_C) for gamma in neighbours(optimum.gamma, LOG_GAMMA)]


def run(cell: Cell) -> dict[str, Any]:
    """Rates by column: of every folding, or of the validation rows and of the test rows."""
    quick = "quick" in cell
    data = rows_of(cell["set"], quick)
    model = machine(cell["machine"], cell["C"], cell["gamma"])
    if cell["set"] in CROSS_VALIDATED:
        found, unfinished = cross_validated(model, data, range(1 if quick else FOLDINGS))
        return {"foldings": found, "unfinished": unfinished}
    train, held_out = validation_parts(data.y)
    validation = rates(fitted(model, data.X[train], data.y[train]), data.X[held_out], data.y[held_out])
    unfinished = int(not model.converged_)
    test = rates(fitted(model, data.X, data.y), data.X_test, data.y_test)
    return {"validation": validation, "test": test, "unfinished": unfinished + (not model.converged_)}


# The table


def chosen(results: Results, name: str, column: str) -> dict[str, Any] | None:
    """The best pair of the search, its rate, and what else the table shows; None if nothing is finished."""
    tried = [(cell, result) for cell, result in results.where(set=name) if column in cell["columns"]]
    if not tried:
        return None
    optimum = TABLE_2[name][column]
    at_optimum = [r for c, r in tried if (c["C"], c["gamma"]) == (optimum.C, optimum.gamma)]
    unfinished = sum(result["unfinished"] for _, result in tried)
    if name in TESTED:
        best = max(result["validation"][column] for _, result in tried)
        tied = [(c, r) for c, r in tried if r["validation"][column] == best]
        cell, result = max(tied, key=lambda pair: pair[1]["test"][column])
        rate, theirs = result["test"][column], [r["test"][column] for r in at_optimum]
        return {"cell": cell, "rate": rate, "tied": len(tied), "at_optimum": theirs, "unfinished": unfinished}
    cell, result = max(tried, key=lambda pair: np.mean(pair[1]["foldings"][column]))
    of_foldings = result["foldings"][column]
    best_of_each = np.max([r["foldings"][column] for _, r in tried], axis=0)
    return {
        "cell": cell,
        "rate": float(np.mean(of_foldings)),
        "spread": f"{min(of_foldings):.2f} to {max(of_foldings):.2f}",
        "best_of_each": float(np.mean(best_of_each)),
        "at_optimum": [float(np.mean(r["foldings"][column])) for r in at_optimum],
        "unfinished": unfinished,
    }


def pair(C: int, gamma: int) -> str:
    return f"{C}, {gamma}"


def write(page: Page, results: Results) -> None:
    found = {(name, column): chosen(results, name, column) for name in TABLE_2 for column in COLUMNS}
    found = {key: outcome for key, outcome in found.items() if outcome is not None}
    page.heading("Sets with test rows")
    page.text(f"Percent of the test rows. Ours should be within {TEST_POINTS} points of the paper's.")
    headers = ["set", "method", "paper's log2 C, gamma", "ours", "tied", "paper's rate", "ours at the paper's pair"]
    page.table([*headers, "our rate", "off by"], [tested_row(*key, found[key]) for key in found if key[0] in TESTED])
    page.heading("Sets that are cross-validated")
    page.text(
        f"Percent, ten-fold, mean over {FOLDINGS} random foldings: of the pair with the best mean, which should be "
        f"within {CROSS_VALIDATED_POINTS} points of the paper's, with the lowest and the highest folding. The paper "
        "took the best pair of one folding; what that would have given here, again as the mean over the foldings, is "
        "in the last column."
    )
    headers = ["set", "method", "paper's log2 C, gamma", "ours", "paper's rate", "ours at the paper's pair", "our rate"]
    rows = [cross_validated_row(*key, found[key]) for key in found if key[0] in CROSS_VALIDATED]
    page.table([*headers, "foldings", "off by", "best of each folding"], rows)
    page.heading("How far from the paper")
    page.text(verdict(found))
    page.figure(picture(found), "Our rate minus the paper's, in points; the grey band is how far it may be.")
    page.differs(
        "Rates of the six small sets are means over five foldings, where the paper has the best of one, whose folds "
        "are not known.",
        "Ours stops at a certified relative duality gap of 0.001, the paper at a violation of 0.001 of the optimality "
        "conditions (0.1 for C&S on letter and shuttle).",
        "glass has 9 features here, as at UCI; the paper's table of the sets says 13.",
    )


def tested_row(name: str, column: str, outcome: dict[str, Any]) -> list[Any]:
    optimum, cell = TABLE_2[name][column], outcome["cell"]
    rates_shown = [f"{optimum.rate:.2f}", shown(outcome["at_optimum"]), f"{outcome['rate']:.2f}"]
    pairs = [pair(optimum.C, optimum.gamma), pair(cell["C"], cell["gamma"])]
    return [name, NAMES[column], *pairs, outcome["tied"], *rates_shown, f"{outcome['rate'] - optimum.rate:+.2f}"]


def cross_validated_row(name: str, column: str, outcome: dict[str, Any]) -> list[Any]:
    optimum, cell = TABLE_2[name][column], outcome["cell"]
    rates_shown = [f"{optimum.rate:.2f}", shown(outcome["at_optimum"]), f"{outcome['rate']:.2f}", outcome["spread"]]
    pairs = [pair(optimum.C, optimum.gamma), pair(cell["C"], cell["gamma"])]
    off = f"{outcome['rate'] - optimum.rate:+.2f}"
    return [name, NAMES[column], *pairs, *rates_shown, off, f"{outcome['best_of_each']:.2f}"]


def shown(rate: list[float]) -> str | None:
    return f"{rate[0]:.2f}" if rate else None


def allowed(name: str) -> float:
    return TEST_POINTS if name in TESTED else CROSS_VALIDATED_POINTS


def verdict(found: dict[tuple[str, str], dict[str, Any]]) -> str:
    """In words: who is too far off, and whether all fits converged."""
    off = {key: outcome["rate"] - TABLE_2[key[0]][key[1]].rate for key, outcome in found.items()}
    far = [f"{name}, {NAMES[column]} ({by:+.2f})" for (name, column), by in off.items() if abs(by) > allowed(name)]
    unfinished = sum(outcome["unfinished"] for outcome in found.values())
    words = f"{len(found) - len(far)} of {len(found)} rates are as near as they should be"
    words += f"; too far: {'; '.join(far)}." if far else "."
    return words + (f" {unfinished} fits did not converge." if unfinished else "")


def picture(found: dict[tuple[str, str], dict[str, Any]]) -> Any:
    names = list(dict.fromkeys(name for name, _ in found))
    figure, axes = panels(1, 1, width=7.6, height=3.0)
    ax = axes[0, 0]
    for at, name in enumerate(names):
        ax.fill_between([at - 0.45, at + 0.45], -allowed(name), allowed(name), color="#7a7a7a", alpha=0.18, linewidth=0)
    for position, column in enumerate(COLUMNS):
        here = [at for at, name in enumerate(names) if (name, column) in found]
        off = [found[names[at], column]["rate"] - TABLE_2[names[at]][column].rate for at in here]
        looks = style(column) | {"linestyle": "", "markersize": 5}
        ax.plot([at + 0.13 * (position - 2) for at in here], off, label=NAMES[column], **looks)
    ax.axhline(0, color="#222222", linewidth=0.8)
    ax.set_xticks(range(len(names)), names)
    ax.grid(axis="x", visible=False)
    ax.set_ylabel("ours - paper, points")
    legend(figure, columns=5)
    return figure


EXPERIMENT = Experiment(
    name="paper_002_table_2",
    title="Hsu and Lin 2002, Table II: accuracy with an RBF kernel",
    cells=cells,
    run=run,
    write=write,
)

if __name__ == "__main__":
    sys.exit(main(EXPERIMENT))
