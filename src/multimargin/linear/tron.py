"""Trust-region Newton for the squared hinge (Lin, Weng and Keerthi 2008): LIBLINEAR's ``-s 2`` as paper 001 has it.

The core does the passes (src/core/tron.hpp). Every w implies a feasible dual point whose gap is half the squared norm
of the gradient (src/core/primal_loops.hpp), so each record of the history is certified; the last one is certified anew,
from the duals, like that of any other solver.
"""

from __future__ import annotations

import numpy as np

from multimargin import _core
from multimargin.linear.algorithm import PassRecord, Settings
from multimargin.linear.machine import BUDGET, Machine
from multimargin.linear.state import State

_TIGHTER = 0.1  # by which the target gap falls when the certificate is worse than the passes said
_ATTEMPTS = 3


class Tron:
    """Passes of the trust-region method over one machine."""

    name = "tron"
    lists = False
    kept = ("target", "attempts")

    def __init__(self, settings: Settings):
        self.tol, self.stopping = settings.tol, settings.stopping
        self.done = self.converged = False
        self.weights: _core.Weights  # set by start
        self.target = settings.tol
        self.attempts = 0

    def start(self, machine: Machine, *, warm: bool) -> None:
        """From the weights that the machine's duals make, which else are zero."""
        machine.examples.check_curvature()
        self.weights = machine.new_weights(single_precision=False)
        if warm:
            machine.rebuild(self.weights)
        self.core: _core.Tron | None = None
        if machine.examples.n:
            self.core = _core.Tron(machine.blocks[0], self.weights, self.target)

    def advance(self, machine: Machine, max_epochs: float) -> list[PassRecord]:
        if self.core is None:  # no examples
            machine.certify()
            self.done = self.converged = True
            return []
        records = [self._record(machine, one) for one in self.core.run(BUDGET, max(1, int(max_epochs)))]
        if self.core.finished:
            certified = machine.certify()
            self.converged = certified.worst_gap <= self.tol
            self.attempts += 1
            self.done = self.converged or self.attempts == _ATTEMPTS
            records[-1] = records[-1]._replace(primal=certified.primal, dual=certified.dual, gap=certified.gap)
            if not self.done:
                self.target *= _TIGHTER
                self.core = _core.Tron(machine.blocks[0], self.weights, self.target)
        return records

    def check_kept(self) -> None:
        """Refuse targets, restored from a checkpoint, that no attempt can have had."""
        if not 0 < self.target <= self.tol:
            raise ValueError("'target' is out of its range")
        if not (type(self.attempts) is int and 0 <= self.attempts <= _ATTEMPTS - (not self.done)):
            raise ValueError("'attempts' is out of its range")

    def more_state(self) -> State:
        """Where the lanes are."""
        return {} if self.core is None else self.core.state()

    def set_more_state(self, machine: Machine, state: State) -> None:
        if self.core is not None:
            self.core = _core.Tron(machine.blocks[0], self.weights, self.target)
            self.core.set_state(state)
            if self.core.finished and not self.done:
                raise ValueError("all lanes are finished, and the method is not")

    def _record(self, machine: Machine, one: _core.TronRecord) -> PassRecord:
        scale = machine.problem.objective_scale
        primal = one.primal + machine.examples.constant
        gap = one.gap / max(primal, np.finfo(float).tiny)
        return PassRecord(
            one.steepest, one.visited, self.name, scale * primal, scale * (primal - one.gap), gap, one.worst_gap
        )

    def candidate(self, out: _core.Weights) -> bool:
        out.array[:] = self.weights.array
        return True
