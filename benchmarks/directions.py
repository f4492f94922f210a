"""Epochs with and without directions along which accelerated weights are held back (linear/directions.py).

python benchmarks/directions.py --sets usps isolet news20 --C 1
python benchmarks/directions.py --sets usps --shares 0.08 0.04 0.02 0.01 0.005
"""

from __future__ import annotations

import argparse
import warnings
from itertools import product
from typing import Any

import datasets

from multimargin import LinearSVM
from multimargin.linear import directions, training

LEADING = training.leading_directions


def epochs(data: datasets.Data, formulation: str, loss: str, C: float, share: float | None, intercept: bool) -> str:
    """Of one fit to the default gap; without directions if no share of the squares is given."""
    found: list[Any] = []

    def noted(*arguments: Any) -> Any:
        found.append(LEADING(*arguments) if share is not None else None)
        return found[-1]

    directions._SHARE = share or directions._SHARE
    training.leading_directions = noted
    model = LinearSVM(formulation, loss, C, solver="accelerated_sdm", fit_intercept=intercept).fit(data.X, data.y)
    count = found[0].count if found[0] is not None else 0
    return f"{model.n_iter_}{'' if model.converged_ else ' (not converged)'} / {count}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["news20", "usps", "isolet", "letter"])
    parser.add_argument("--C", nargs="+", type=float, default=[0.1, 1.0, 10.0])
    parser.add_argument("--shares", nargs="+", type=float, default=[directions._SHARE])
    parser.add_argument("--no-intercept", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("Epochs / directions, by the share of the squares that is left along a direction.\n")
    columns = ["set", "problem", "C", "none", *(str(share) for share in arguments.shares)]
    print("|", " | ".join(columns), "|")
    print("|" + "---|" * len(columns))
    problems = product(("crammer_singer", "weston_watkins", "one_vs_rest"), ("hinge", "squared_hinge"))
    for name, (formulation, loss), C in product(arguments.sets, list(problems), arguments.C):
        data = datasets.load(name)
        cells = [
            epochs(data, formulation, loss, C, share, not arguments.no_intercept) for share in (None, *arguments.shares)
        ]
        print("|", " | ".join([name, f"{formulation} {loss}", str(C), *cells]), "|", flush=True)


if __name__ == "__main__":
    main()
