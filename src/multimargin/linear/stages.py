"""Stages of the acceleration where a pass is a tour of blocks (streamed.py) or a round of ranks (rounds.py).

The steering of kappa (core/acceleration.hpp) is for passes of one process; here it would lower kappa too soon, which
costs two to three times the passes. So kappa stays as long as the gap falls. Where it does not (large C, classes that
are nearly separable) kappa is too large, and the steering finds the way, if the objectives that it is told are true.
"""

from __future__ import annotations

from math import inf

import numpy as np

from multimargin import _core
from multimargin.linear.state import State, attributes, part, prefixed, set_attributes

_PATIENCE = 40  # stages in which the gap should halve
_KEPT = ("stalled", "_objectives", "_gap_to_halve", "_since")  # in a checkpoint


class Stages:
    """What is seen of the objectives, and the ends of stages."""

    def __init__(self) -> None:
        self.stalled = False  # whether kappa is steered
        self._acceleration = _core.Acceleration()
        self._objectives = np.zeros(2)  # primal, dual
        self._gap_to_halve = inf
        self._since = 0  # stages

    def saw(self, primal: float, dual: float) -> None:
        """Objectives of the last pass, estimated."""
        self._objectives = np.array([primal, dual])
        gap = (primal - dual) / max(abs(primal), 1e-300)
        if 0 < gap <= 0.5 * self._gap_to_halve:
            self._gap_to_halve, self._since = gap, 0

    def end(self, weights: _core.Weights) -> None:
        """Move Z, and kappa if need be."""
        self._since += 1
        self.stalled = self.stalled or self._since > _PATIENCE
        unknown = (0.0, 0.0)  # by which kappa stays
        self._acceleration.end_stage(weights, *(self._objectives if self.stalled else unknown))

    def state(self) -> State:
        """All that the next stages depend on."""
        return attributes(self, _KEPT) | prefixed("acceleration", self._acceleration.state())

    def set_state(self, state: State) -> None:
        """Go on from there."""
        set_attributes(self, _KEPT, state)
        self._acceleration.set_state(part(state, "acceleration"))
