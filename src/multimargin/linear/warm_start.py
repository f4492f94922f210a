"""Duals of an earlier fit, as far as they are worth starting from.

Other data can make them far worse than none: with features added, say, the same duals make far larger weights, and
steps that go back are as small as any. The dual objective tells: f = 1/2 ||V||^2 + h is zero without duals.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin.linear.machine import Machine


def start_from(machine: Machine, duals: sp.csr_array) -> bool:
    """Give a machine the duals, but not those of parts that are better off without. Whether any are left."""
    problem = machine.problem
    machine.set_duals(duals)
    V = machine.new_weights(single_precision=False)
    machine.rebuild(V)
    f = 0.5 * V.squared_norms()[0] + _terms_of_duals(machine, duals)
    if not problem.separable:
        f = np.full(problem.lanes, f.sum())
    worth = f < 0  # not where it is no number
    if not worth.all():
        duals = sp.csr_array(duals.multiply(worth))
        duals.eliminate_zeros()
        machine.set_duals(duals)
    return bool(worth.any())


def _terms_of_duals(machine: Machine, duals: Any) -> np.ndarray:
    """The sum of h over the examples (docs/algorithms.md, Problems and duals), by lane."""
    problem, entries = machine.problem, duals.tocoo()
    if problem.separable:
        counted = np.ones(entries.nnz, dtype=bool)
    else:  # a label's dual, or those of the other classes, of which it is the sum
        counted = entries.data < 0 if problem.policy == "weston_watkins" else entries.data > 0
    size = np.where(counted, np.abs(entries.data), 0.0)
    h = -size
    if problem.squared:
        h += size * (size / (4 * machine.examples.cap[entries.coords[0]]))
    return np.bincount(entries.coords[1], weights=h, minlength=problem.lanes)
