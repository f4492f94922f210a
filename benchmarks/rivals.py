"""The papers' rivals: TRON against LIBLINEAR's, and what a pass of Pegasos and of the exponentiated gradient costs.

python benchmarks/rivals.py                        # both
python benchmarks/rivals.py --part tron --sets news20 sentiment_mds --repeats 3
python benchmarks/rivals.py --part passes --sets news20 mnist letter banking77
"""

from __future__ import annotations

import argparse
import functools
import time
import warnings
from collections.abc import Callable, Sequence

import datasets
import peers
from datasets import Data
from sklearn.exceptions import ConvergenceWarning

from multimargin import LinearSVM

# From loose to tight: the first that ends within 0.1 % of the optimum is timed, for both sides.
TOLERANCES = (0.1, 0.05, 0.03, 0.02, 0.01, 0.005, 0.002, 1e-3, 1e-4)
WITHIN = 1.001
PASSES = 6
TRON = peers.Problem("one_vs_rest", "squared_hinge", 1.0)


def ours(data: Data, problem: peers.Problem, **parameters) -> LinearSVM:
    """A fit without an intercept, as long as it takes."""
    model = LinearSVM(*problem, fit_intercept=False, **{"max_iter": 100_000, **parameters})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(data.X, data.y)


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def tron(names: Sequence[str], repeats: int) -> None:
    """Seconds to within 0.1 % of the optimum, best of several."""
    print("| set | LIBLINEAR -s 2 | tron | ours / LIBLINEAR's | tron to a certified 0.1 % |\n|---|---|---|---|---|")
    for name in names:
        data = datasets.load(name)
        target = WITHIN * ours(data, TRON, tol=1e-4).primal_objective_
        liblinear = functools.partial(peers.liblinear, data, TRON.loss, TRON.C, solver=2)
        runs = ((tol, liblinear(tol)) for tol in TOLERANCES)
        theirs = next(tol for tol, run in runs if peers.objective(data, TRON, run.W) <= target)
        fit = functools.partial(ours, data, TRON, solver="tron")
        mine = next(tol for tol in TOLERANCES if fit(tol=tol).primal_objective_ <= target)
        best = [
            min(liblinear(theirs).seconds for _ in range(repeats)),
            min(seconds(functools.partial(fit, tol=mine)) for _ in range(repeats)),
            min(seconds(functools.partial(fit, tol=1e-3)) for _ in range(repeats)),
        ]
        print(f"| {name} | {best[0]:.3g} s | {best[1]:.3g} s | {best[1] / best[0]:.2f} | {best[2]:.3g} s |", flush=True)


def passes(names: Sequence[str], repeats: int) -> None:
    """Seconds of a pass, by the difference between fits of several passes and of one."""
    print("| set | formulation | sdm, a pass | pegasos / sdm | exponentiated_gradient / sdm |\n|---|---|---|---|---|")
    for name in names:
        data = datasets.load(name)
        for formulation in ("crammer_singer", "one_vs_rest"):
            problem = peers.Problem(formulation, "hinge", 1.0)
            cost = {}
            for solver in ("sdm", "pegasos", "exponentiated_gradient"):
                fit = functools.partial(ours, data, problem, solver=solver, tol=1e-8, shrinking=False)
                many, one = (
                    min(seconds(functools.partial(fit, max_iter=n)) for _ in range(repeats)) for n in (1 + PASSES, 1)
                )
                cost[solver] = (many - one) / PASSES
            shares = " | ".join(f"{cost[s] / cost['sdm']:.2f}" for s in ("pegasos", "exponentiated_gradient"))
            print(f"| {name} | {formulation} | {1e3 * cost['sdm']:.3g} ms | {shares} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("tron", "passes"))
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if options.part != "passes":
        tron(options.sets or ("rcv1_small", "sentiment_mds", "spamassassin", "news20", "mnist"), options.repeats)
    if options.part != "tron":
        passes(options.sets or ("news20", "mnist", "letter", "banking77"), options.repeats)


if __name__ == "__main__":
    main()
