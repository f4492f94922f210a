"""The exponentiated gradient method that paper 000 compares with (Collins et al. 2008).

Passes in random order like those of the sequential dual method, with another step (exponentiated.hpp): an example's
duals are a probability distribution that moves by a factor exp(rate * gradient) and a normalisation.
"""

from __future__ import annotations

import numpy as np

from multimargin import _core
from multimargin.linear.machine import Machine
from multimargin.linear.sdm import OtherSteps

_INSIDE = 1e-3  # share of the uniform distribution in the first one: factors cannot move what is zero


class ExponentiatedGradient(OtherSteps):
    """Passes of exponentiated gradient steps over one machine."""

    name = "exponentiated_gradient"

    def use_steps(self, block: _core.Block, *, warm: bool) -> None:
        block.use_exponentiated_gradient()

    def begin(self, machine: Machine, *, warm: bool) -> None:
        """Move the duals, zero or given, a little towards the centre of their simplex, and W with them."""
        examples, problem = machine.examples, machine.problem
        (block,) = machine.blocks
        alpha, share = block.alpha[:, : problem.lanes], _INSIDE * examples.cap
        alpha *= 1 - _INSIDE
        alpha -= (share / (2 if problem.separable else problem.lanes))[:, None]
        own = np.flatnonzero(examples.label >= 0)
        alpha[own, examples.label[own]] += share[own]
        self.use_steps(block, warm=warm)
        self.weights.array[:] = 0
        machine.rebuild(self.weights)
