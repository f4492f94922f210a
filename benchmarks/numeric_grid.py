"""Extreme numbers: does every fit converge, warn with its gap, or refuse with a clear error?

    python benchmarks/numeric_grid.py --sample 20000 [--seed 0] [--families linear kernel classes] [--results FILE]
    python benchmarks/numeric_grid.py --defaults          every cell of machines as they come: solver, kernel, intercept
    python benchmarks/numeric_grid.py --cell 12345        what becomes of one cell

Cells (grid_cells.py) are trained in child processes, many in each, so that one that crashes or takes longer than
``--seconds`` is seen. A fit is not believed: both objectives are computed again, in long doubles, from what the model
holds; in fractions, if the gap of a linear machine is larger then than it says. Kinds of endings:

- converged: the gap is at most ``tol`` and, computed again, what the model says (and what rounding leaves: ROUNDING)
- warned: a ConvergenceWarning that says the gap, which is computed again, too
- refused: a ValueError, or a MemoryError (children have 6 GB), that says what to change
- anything else is a failure, and listed: a crash, a hang, numbers that are not finite, weights of zero that are said to
  be right, a gap that is not what was said, stray warnings, other errors

With ``--results`` what is known of cells is kept in a file, one JSON record a line, and not computed again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from grid_cells import N_CELLS, Cell, cell, of_defaults, sampled
from recomputed import fractions, kernel_matrix, kernel_objectives, linear_objectives, long_doubles
from sklearn.exceptions import ConvergenceWarning

import multimargin

GOOD = ("converged", "warned", "refused")
TOL = 1e-3
# What the rounding of the judge, who has kernels in long doubles, or of coef_, which is made of W for two classes, may
# add to a gap.
ROUNDING = {"linear": 1e-14, "kernel": 1e-6}
LIMITS = {
    "linear": {"max_iter": 100},
    "kernel": {"max_iter": 100},
    "classes": {"max_iter": 3, "time_limit": 10.0},  # seconds; then comes one more pass, for the certificate
}
MEMORY = 6 << 30  # bytes of address space of a child
# An error is clear if it says one of these: which argument, and what to do about it.
ADVICE = r"scale the features|lower C|raise C|sample_weight|C must|gamma|choose|\buse\b|needs"


def ended(one: Cell) -> tuple[str, str]:
    """Kind of ending and a word about it."""
    X, y, weight = one.rows()
    estimator = multimargin.KernelSVM if one.family == "kernel" else multimargin.LinearSVM
    model = estimator(**one.parameters, tol=TOL, **LIMITS[one.family])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, y, weight)
            shown = X if X.shape[0] < 1000 else X[:5]
            outputs = [model.decision_function(shown), model.dual_coef_.data, model.intercept_]
            labels = model.predict(shown)
        except (ValueError, MemoryError) as error:
            return ("refused" if re.search(ADVICE, str(error)) else "unclear error"), str(error)
        except Exception as error:  # every other one is a failure of the package
            return "wrong error", f"{type(error).__name__}: {error}"
    outputs.append(np.array([model.primal_objective_, model.dual_objective_, model.dual_gap_, model.worst_gap_]))
    if one.family != "kernel":
        outputs.append(model.coef_)
    stray = [w for w in caught if not issubclass(w.category, ConvergenceWarning)]
    if stray:
        return "stray warning", f"{stray[0].category.__name__}: {stray[0].message}"
    if not all(np.isfinite(values).all() for values in outputs):
        return "not finite", ""
    if not np.isin(labels, y).all():
        return "not a class", ""
    said = [str(w.message) for w in caught]
    if not model.converged_:
        if not said:
            return "silent", "not converged, and nothing said"
        if not re.search(r"gap is [0-9.e+-]+", said[0]):
            return "unclear warning", said[0]
        kind, word = judged(one, model, X, y, weight)
        return ("warned", said[0]) if kind == "converged" else (kind, word)
    if model.dual_coef_.nnz == 0 and (abs(X).max() > 0):
        return "silent zero", "weights of zero for rows that are not"
    if not model.worst_gap_ <= TOL:
        return "wrong gap", f"converged, and says {model.worst_gap_:.3g}"
    return judged(one, model, X, y, weight)


def judged(one: Cell, model, X, y, weight) -> tuple[str, str]:
    """Whether the gap is what the model says."""
    if one.classes:
        return "converged", ""
    cap = model.C * (np.ones(len(y)) if weight is None else weight)
    with np.errstate(all="ignore"):
        if one.family == "kernel":
            K = kernel_matrix(model.kernel, X, model.gamma_ or 1.0, model.degree, model.coef0)
            found = kernel_objectives(model, K, y, cap, long_doubles)
        else:
            dense = X.toarray() if sp.issparse(X) else X
            found = linear_objectives(model, dense, y, cap, long_doubles)
            if not found.worst_gap <= model.worst_gap_:  # long doubles round, too
                found = linear_objectives(model, dense, y, cap, fractions)
    if found.excess > 1e-9:
        return "infeasible", f"duals leave their constraints by {found.excess:.2g}"
    if not found.worst_gap <= model.worst_gap_ + ROUNDING[one.family]:
        return "wrong gap", f"said {model.worst_gap_:.3g}, is {float(found.worst_gap):.3g}"
    return "converged", ""


def _work(numbers: Connection, answers: Connection) -> None:
    """A child: cells by number in, endings out."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    while (number := numbers.recv()) is not None:
        answers.send(ended(cell(number)))


def endings(numbers: list[int], seconds: float) -> Iterator[tuple[int, str, str]]:
    """Number, kind and word of every cell, each trained in a child that is replaced when it dies or takes too long."""
    context = get_context("spawn")
    child = None
    for number in numbers:
        if child is None:
            there, to_child = context.Pipe(duplex=False)
            from_child, here = context.Pipe(duplex=False)
            child = context.Process(target=_work, args=(there, here), daemon=True)
            child.start()
            there.close()
            here.close()
        to_child.send(number)
        try:
            if from_child.poll(seconds):
                yield number, *from_child.recv()
                continue
            kind, word = "hang", f"no end within {seconds:g} s"
        except EOFError:
            child.join()
            kind, word = "crash", f"exit code {child.exitcode}"
        child.kill()
        child.join()
        child = None
        yield number, kind, word
    if child is not None:
        to_child.send(None)
        child.join()


def known(path: Path | None) -> dict[int, tuple[str, str]]:
    """What a file says of cells; a line that was cut short is left out."""
    found: dict[int, tuple[str, str]] = {}
    if path is not None and path.exists():
        for line in path.read_text().splitlines():
            try:
                number, kind, word = json.loads(line)
            except ValueError:
                continue
            found[number] = (kind, word)
    return found


def table(found: dict[int, tuple[str, str]]) -> str:
    """Counts by family and kind."""
    counts: dict[str, Counter] = {}
    for number, (kind, _) in found.items():
        counts.setdefault(cell(number).family, Counter())[kind] += 1
    total = sum(counts.values(), Counter())
    kinds = [*GOOD, *sorted(set(total) - set(GOOD))]
    lines = [f"{'machines':10}" + "".join(f"{kind:>16}" for kind in ("cells", *kinds))]
    for name, of in (*counts.items(), ("all", total)):
        lines.append(f"{name:10}" + "".join(f"{count:16}" for count in (of.total(), *(of[kind] for kind in kinds))))
    return "\n".join(lines)


def main() -> None:
    """The table, the refusals by what they say, and every cell that ended otherwise."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sample", type=int, default=3000, help=f"cells, of {N_CELLS} (default: 3000)")
    parser.add_argument("--defaults", action="store_true", help="all cells of machines as they come, on dense rows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--families", nargs="+", choices=("linear", "kernel", "classes"), default=["linear", "kernel"])
    parser.add_argument("--seconds", type=float, default=60.0, help="that a cell may take (default: 60)")
    parser.add_argument("--results", type=Path, help="file of what is known; it grows")
    parser.add_argument("--cell", type=int, help="train this one here, and say what becomes of it")
    args = parser.parse_args()
    if args.cell is not None:
        print(cell(args.cell), *ended(cell(args.cell)), sep="\n")
        return
    found = known(args.results)
    families = tuple(args.families)
    numbers = of_defaults(families) if args.defaults else sampled(args.sample, args.seed, families)
    left = [number for number in numbers if number not in found]
    with open(args.results or os.devnull, "a") as file:
        for number, kind, word in endings(left, args.seconds):
            found[number] = (kind, word)
            print(json.dumps([number, kind, word]), file=file, flush=True)
            if kind not in GOOD:
                print(f"{kind}: cell {number}: {cell(number)}: {word}", flush=True)
    found = {number: found[number] for number in numbers}
    print(table(found))
    refusals = Counter(re.sub(r"\b[0-9][0-9.e+-]*\b", "#", word) for kind, word in found.values() if kind == "refused")
    for message, count in refusals.most_common():
        print(f"refused {count:7}: {message}")
    sys.exit(any(kind not in GOOD for kind, _ in found.values()))


if __name__ == "__main__":
    main()
