"""Certificates checked by other means: exact fractions, and Clarabel, an interior point solver.

    PYTHONPATH=. python benchmarks/certificates.py --problems 2000 [--seed 0] [--problem 17]

Random small problems (formulation, loss, solver, C, weights, intercept, tolerance, kernel) are trained. From ``coef_``,
``intercept_`` and ``dual_coef_`` alone both objectives are computed again in exact fractions (recomputed.py); kernel
values are exact, too: those of the linear and polynomial kernels, and matrices of numbers ("precomputed").

An objective agrees if it differs by at most 1e-6 of the primal objective, a relative gap if it does by 1e-6. Kernel
machines that train in float32, which is where ``tol`` is 1e-5 or more, have a column of their own. Clarabel's optimum
must lie between the two exact objectives, to 1e-6 of the primal one. Objectives of LinearSVM must be on the safe side
of the exact ones: the primal not below, the dual not above. It needs the extra "test", and the repository's tests.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from grid_cells import LINEAR
from recomputed import JOINT, Objectives, fractions, kernel_objectives, linear_objectives, parts
from sklearn.exceptions import ConvergenceWarning

from multimargin import KernelSVM, LinearSVM
from multimargin.problems.formulations import FORMULATIONS
from tests.kernel.problems import optimum_with_bias, rows_with_kernel
from tests.oracles import optimum, problems_of

AGREES = 1e-6
TOLD_ONLY = ("Clarabel found one",)
SOLVERS = ("block", "decomposition")


class Problem(NamedTuple):
    """A problem, and who is to solve it."""

    model: Any
    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray

    @property
    def cap(self) -> np.ndarray:
        """C_i."""
        return self.model.C * self.weight


def problem(number: int, seed: int) -> Problem:
    """A random one, two thirds of them linear."""
    rng = np.random.default_rng([seed, number])
    n, features, k = int(rng.integers(5, 16)), int(rng.integers(1, 5)), int(rng.integers(2, 5))
    y = np.concatenate([np.arange(k), rng.integers(0, k, size=n - k)])
    X = np.round(rng.normal(size=(k, features))[y] + rng.normal(size=(n, features)), 3)
    if rng.random() < 0.3:  # rows that are there twice, perhaps with another label, and rows of zeros
        X[-2:] = X[0], 0 * X[0]
    weight = np.ones(n) if rng.random() < 0.5 else rng.choice([0.0, 0.5, 1.0, 3.0], size=n)
    weight[:k] = 1.0
    shared = dict(C=float(10.0 ** rng.uniform(-3, 3)), tol=float(10.0 ** -rng.integers(2, 8)), max_iter=3000)
    shared |= dict(fit_intercept=bool(rng.random() < 0.7), random_state=number)
    if rng.random() < 2 / 3:
        formulation, loss, solver, _ = LINEAR[rng.integers(len(LINEAR))]
        scaling = float(rng.choice([0.5, 1.0, 4.0]))
        model = LinearSVM(formulation, loss, solver=solver, intercept_scaling=scaling, **shared)
    else:
        formulation = str(rng.choice(FORMULATIONS))
        kernel, solver = str(rng.choice(["linear", "poly", "precomputed"])), str(rng.choice(SOLVERS))
        scaling = float(rng.choice([0.5, 1.0, 4.0])) if formulation in JOINT else 1.0
        model = KernelSVM(
            formulation, kernel, gamma=0.25, degree=2, coef0=1.0, solver=solver, intercept_scaling=scaling, **shared
        )
        if kernel == "precomputed":
            X = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    return Problem(model, X, y, weight)


def exact(one: Problem) -> tuple[Objectives, np.ndarray | None]:
    """Both objectives in fractions, and the kernel matrix."""
    model, X = one.model, one.X
    if isinstance(model, LinearSVM):
        return linear_objectives(model, X, one.y, one.cap, fractions), None
    K = fractions(X)
    if model.kernel != "precomputed":
        K = K @ K.T
    if model.kernel == "poly":
        K = (K * Fraction(model.gamma) + Fraction(model.coef0)) ** model.degree
    return kernel_objectives(model, K, one.y, one.cap, fractions), K


def of_clarabel(one: Problem, K: np.ndarray | None) -> float:
    """The optimum, or NaN where Clarabel does not find it to its own satisfaction."""
    model, X, cap = one.model, one.X, one.cap
    held = cap > 0
    if K is not None:
        X = rows_with_kernel(K.astype(np.float64))
    try:
        if K is not None and model.fit_intercept and model.formulation not in JOINT:
            return sum(
                float(part.scale) * optimum_with_bias(X[part.rows], part.label.astype(float), part.cap)
                for part in parts(model.formulation, one.y, cap)
            )
        if model.fit_intercept:
            X = np.column_stack([X, np.full(len(X), model.intercept_scaling)])
        squared = model.loss == "squared_hinge"
        return sum(optimum(p)[0] for p in problems_of(model.formulation, squared, X[held], one.y[held], cap[held]))
    except AssertionError:
        return np.nan


def kind(model: Any) -> str:
    """Which column it is counted in."""
    if isinstance(model, LinearSVM):
        return "LinearSVM"
    return "KernelSVM, float32" if model.tol >= 1e-5 else "KernelSVM, float64"


def size(found: Objectives) -> float:
    """What errors of objectives are relative to."""
    return max(abs(float(sum(found.primal))), np.finfo(float).tiny)


def agreement(model: Any, found: Objectives) -> dict[str, bool]:
    """Whether what a model says is what was found."""
    return {
        "primal": abs(float(sum(found.primal)) - model.primal_objective_) <= AGREES * size(found),
        "dual": abs(float(sum(found.dual)) - model.dual_objective_) <= AGREES * size(found),
        "gap": abs(found.gap - model.dual_gap_) <= AGREES,
    }


def safe_side(model: Any, found: Objectives) -> dict[str, bool]:
    """Whether a linear machine's objectives are bounds, as it says: what rounding did is in them, but that of the last
    operation. Of kernel machines only the gap has it."""
    if not isinstance(model, LinearSVM):
        return {}
    unit = Fraction(float(np.finfo(float).eps)) * Fraction(size(found)) / 2
    primal, dual = Fraction(model.primal_objective_), Fraction(model.dual_objective_)
    return {"on the safe side": primal >= sum(found.primal) - unit and dual <= sum(found.dual) + unit}


def verdicts(one: Problem) -> dict[str, bool]:
    """What agrees. Trains the model."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        one.model.fit(one.X, one.y, one.weight)
    model = one.model
    found, K = exact(one)
    best, unit = of_clarabel(one, K), AGREES * size(found)
    dual, primal = float(sum(found.dual)), float(sum(found.primal))
    return {
        "feasible": found.excess <= 1e-9,
        **agreement(model, found),
        **safe_side(model, found),
        "converged is true": not model.converged_ or found.worst_gap <= model.tol + AGREES,
        "Clarabel's optimum between": np.isnan(best) or dual - unit <= best <= primal + unit,
        "Clarabel found one": not np.isnan(best),
    }


def main() -> None:
    """Counts of what agrees, and every problem where something does not."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--problems", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--problem", type=int, help="only this one, in full")
    args = parser.parse_args()
    numbers = range(args.problems) if args.problem is None else [args.problem]
    counts = {name: Counter() for name in ("LinearSVM", "KernelSVM, float64", "KernelSVM, float32")}
    for number in numbers:
        one = problem(number, args.seed)
        found = verdicts(one)
        of = counts[kind(one.model)]
        of["problems"] += 1
        of["converged"] += one.model.converged_
        of.update({name: bool(good) for name, good in found.items()})
        wrong = [name for name, good in found.items() if not good and name not in TOLD_ONLY]
        if wrong or args.problem is not None:
            again, _ = exact(one)
            model = " ".join(str(one.model).split())
            said, are = (one.model.primal_objective_, one.model.dual_objective_), (sum(again.primal), sum(again.dual))
            print(f"problem {number}: {model}: not {', '.join(wrong)}: excess {again.excess:.2g}", flush=True)
            print(
                *("  {} {:.9g} and {:.9g}".format(word, *map(float, o)) for word, o in (("said", said), ("are", are)))
            )
    names = list(dict.fromkeys(name for of in counts.values() for name in of))
    print(f"{'':28}" + "".join(f"{name:>20}" for name in counts))
    for name in names:
        print(f"{name:28}" + "".join(f"{of.get(name, '-'):>20}" for of in counts.values()))
    must = [name for name in names if name not in ("problems", "converged", *TOLD_ONLY)]
    found = sum(of["Clarabel found one"] for of in counts.values())
    wrong = any(of[name] < of["problems"] for of in counts.values() for name in must if name in of)
    sys.exit(wrong or found < 0.9 * len(numbers))


if __name__ == "__main__":
    main()
