"""The online setting (paper 001): every row is a new example, visited once with the exact step."""

from __future__ import annotations

import numpy as np

from multimargin.linear.algorithm import Settings
from multimargin.linear.machine import BUDGET, Machine
from multimargin.linear.training import Request, machine_of, tasks


def visit_once(request: Request, W: np.ndarray) -> None:
    """One pass over the rows of a request, in their order, from duals of zero; moves the padded W in place."""
    request.n_threads = 1
    request.solver = "sdm"
    # Duals are not kept: no need to keep them few.
    request.settings = Settings(options={"permutation": False, "restricted_step": False})
    for position, task in enumerate(tasks(request)):
        machine = machine_of(request, task, position)
        _pass(machine, W, task.columns)


def _pass(machine: Machine, W: np.ndarray, columns: slice) -> None:
    weights = machine.new_weights(single_precision=False)
    weights.array[:, : machine.problem.lanes] = W[:, columns]
    passes: list = []
    while not passes and machine.examples.n:
        _, passes = machine.passes.run(
            weights, tolerance=0.0, certify_below=0.0, budget=BUDGET, max_epochs=1.0, shrinking=False, permute=False
        )
    W[:, columns] = weights.array[:, : machine.problem.lanes]
