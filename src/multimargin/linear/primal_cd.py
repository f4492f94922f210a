"""Primal coordinate descent for the squared hinge (Chang, Hsieh and Lin 2008; PCD in paper 001).

One feature after the other, in random order, takes a Newton step with a line search (src/core/primal_loops.hpp). That
needs the columns of X, of which a copy is made, and the residuals 1 - z s of all examples and lanes, which the steps
keep up to date.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin import _core
from multimargin.data.rows import as_rows
from multimargin.linear.algorithm import Certificate, PassRecord, Settings
from multimargin.linear.examples import Examples
from multimargin.linear.machine import BUDGET, Machine
from multimargin.linear.state import State, check_counts
from multimargin.problems.range import SMALLEST_OBJECTIVE

# The gradient is seen feature by feature before its step, so half its square, the gap, is estimated too high.
_PROMISING = 4.0
_CERTIFY_EVERY = 25  # passes
_COST = 8.0  # of an entry of X and a lane, in multiply-adds: it is read, and the residual moves
_LARGEST = 1e150  # residual: its square is a number
_MOST_PASSES = 10**6  # that a checkpoint may have behind it
_STALLED = 1e-15  # entries of the gradient, relative to those that a loss can cause, that are rounding


class PrimalCoordinateDescent:
    """Passes over the features of one machine."""

    name = "primal_cd"
    lists = False
    kept = ("certify_below", "residual", "n_passes", "cursor", "squared_gradient", "steepest")

    def __init__(self, settings: Settings):
        self.tol, self.stopping = settings.tol, settings.stopping
        self.done = self.converged = False
        self.weights: _core.Weights  # set by start
        self.certify_below = _PROMISING * settings.tol

    def start(self, machine: Machine, *, warm: bool) -> None:
        """From the weights that the machine's duals make, which else are zero."""
        machine.examples.check_curvature()
        self.weights = machine.new_weights(single_precision=False)
        examples, (block,) = machine.examples, machine.blocks
        self.residual = np.zeros_like(block.alpha)
        self.residual[:, : machine.problem.lanes] = 1.0
        columns = _columns(examples)
        self.columns = as_rows(columns, many_passes=True)
        if warm:
            machine.rebuild(self.weights)
            sign = np.where(examples.label[:, None] == np.arange(machine.problem.lanes), 1.0, -1.0)
            self.residual[:, : machine.problem.lanes] -= sign * (columns.T @ self.weights.array)[:, : sign.shape[1]]
        per_column = np.diff(columns.indptr) if sp.issparse(columns) else np.count_nonzero(columns, axis=1)
        self.cost = _COST * (per_column + 1) * self.residual.shape[1]
        self.largest_gradient = float(np.linalg.norm(examples.cap * np.sqrt(examples.norm)))
        self.random = np.random.default_rng(machine.seed)
        self.n_passes = 0
        self.squared_gradient = np.zeros(machine.problem.lanes)
        self._begin_pass()

    def _begin_pass(self) -> None:
        self.cursor = 0
        self.squared_gradient = np.zeros_like(self.squared_gradient)
        self.steepest = 0.0
        self._shuffle()

    def _shuffle(self) -> None:
        self.order = self.random.permutation(len(self.cost)).astype(np.int32)
        self.ends = np.cumsum(self.cost[self.order])

    def check_kept(self) -> None:
        """Refuse what, restored from a checkpoint, no pass can have had."""
        check_counts(self, ("certify_below", "n_passes", "cursor", "squared_gradient", "steepest"))
        whole = type(self.n_passes) is int and type(self.cursor) is int
        if not whole or self.cursor >= len(self.cost) or self.n_passes > _MOST_PASSES:
            raise ValueError("a pass that there is not, or one that has gone past its end")
        if not (np.abs(self.residual) <= _LARGEST).all():
            raise ValueError("residuals that are no numbers, or too large")

    def more_state(self) -> State:
        """Nothing more."""
        return {}

    def set_more_state(self, machine: Machine, state: State) -> None:
        """The pass that is under way has its order again: the orders of all passes are drawn once more."""
        self.random = np.random.default_rng(machine.seed)
        for _ in range(self.n_passes + 1):
            self._shuffle()

    def advance(self, machine: Machine, max_epochs: float) -> list[PassRecord]:
        if machine.examples.n == 0:
            machine.certify()
            self.done = self.converged = True
            return []
        records: list[PassRecord] = []
        budget = BUDGET
        while budget > 0 and len(records) < max_epochs and not self.done:
            before = self.ends[self.cursor - 1] if self.cursor else 0.0
            end = max(self.cursor + 1, int(np.searchsorted(self.ends, before + budget)))
            features = self.order[self.cursor : end]
            squares, steepest = _core.descend(machine.blocks[0], self.weights, self.columns, self.residual, features)
            self.cursor += len(features)
            self.squared_gradient += squares
            self.steepest = max(self.steepest, steepest)
            budget -= self.ends[self.cursor - 1] - before
            if self.cursor == len(self.order):
                records.append(self._end_pass(machine))
                self._begin_pass()
        return records

    def _end_pass(self, machine: Machine) -> PassRecord:
        self.n_passes += 1
        loss = _core.imply(machine.blocks[0], self.residual)
        primal = 0.5 * self.weights.squared_norms()[0] + loss
        with np.errstate(over="ignore"):
            share = 0.5 * self.squared_gradient / np.maximum(primal, SMALLEST_OBJECTIVE)
        estimate = float(np.max(share, initial=0.0))
        record = PassRecord(self.steepest, machine.examples.n, self.name, estimate=estimate)
        self.done = self.steepest <= _STALLED * self.largest_gradient
        if self.done or estimate <= self.certify_below or self.n_passes % _CERTIFY_EVERY == 0:
            certified = machine.certify()
            record = record._replace(primal=certified.primal, dual=certified.dual, gap=certified.gap)
            self._judge(certified, estimate)
        return record

    def _judge(self, certified: Certificate, estimate: float) -> None:
        """Stop, or wait for an estimate that promises a certificate, judging by how far this one was off."""
        self.converged = certified.worst_gap <= self.tol
        self.done = self.done or self.converged
        if estimate <= self.certify_below and not self.converged:
            self.certify_below = 0.95 * min(self.certify_below, estimate * self.tol / certified.worst_gap)

    def candidate(self, out: _core.Weights) -> bool:
        out.array[:] = self.weights.array
        return True


def _columns(examples: Examples) -> Any:
    """The transpose of the examples' rows, the intercept's constant column included."""
    X, intercept = examples.matrix, examples.rows.intercept
    constant = np.full((1, examples.n), intercept, dtype=X.dtype)
    if sp.issparse(X):
        columns = sp.csr_array(X.T)
        return sp.vstack([columns, sp.csr_array(constant)], format="csr") if intercept else columns
    return np.vstack([X.T, constant]) if intercept else np.ascontiguousarray(X.T)
