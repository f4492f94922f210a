"""Pegasos, the stochastic subgradient method that paper 001 compares with (Shalev-Shwartz, Singer, Srebro 2007).

The core keeps W as a sum of duals (pegasos.hpp), feasible at any time: after T passes alpha_i is C_i times the share of
the passes in which example i violated its margin, so every pass ends with a primal and a dual value. The weights that
are certified are the last ones, not an average.
"""

from __future__ import annotations

from multimargin import _core
from multimargin.linear.algorithm import Settings
from multimargin.linear.sdm import OtherSteps


class Pegasos(OtherSteps):
    """Passes of Pegasos over one machine."""

    name = "pegasos"

    def __init__(self, settings: Settings):
        super().__init__(settings)
        self.projection = bool(settings.options["projection"])
        self.batch_size = int(settings.options["batch_size"])

    def use_steps(self, block: _core.Block, *, warm: bool) -> None:
        """Duals that there are count as the outcome of one pass."""
        block.use_pegasos(self.batch_size, self.projection, 1 if warm else 0)
