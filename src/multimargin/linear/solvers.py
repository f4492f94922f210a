"""The solvers by name: which problems each one solves, which options it takes, where it is.

A solver is a class with the members of ``Algorithm`` (algorithm.py), made of ``Settings``. Its module is imported when
it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from multimargin.linear.algorithm import Algorithm, Settings
from multimargin.problems.formulations import FORMULATIONS, LOSSES

_SEPARABLE = ("one_vs_rest", "one_vs_one", "dag")
_BINARY_OR_CRAMMER_SINGER = ("crammer_singer", "one_vs_rest", "one_vs_one", "dag")
_SDM: dict[str, Any] = {
    "stoppings": ("gap", "violation"),
    "options": {"permutation": True, "restricted_step": True},
    "streams": True,
}


@dataclass(frozen=True)
class Solver:
    """What there is to know of a solver before it runs."""

    module: str
    algorithm: str  # name of the class
    formulations: tuple[str, ...] = FORMULATIONS
    losses: tuple[str, ...] = LOSSES
    stoppings: tuple[str, ...] = ("gap",)
    options: Mapping[str, Any] = field(default_factory=dict)  # with their defaults
    streams: bool = False  # whether it can take blocks from disk, one after the other

    def make(self, settings: Settings) -> Algorithm:
        """A fresh algorithm."""
        return self._class()(settings)

    @property
    def has_checkpoints(self) -> bool:
        """Whether it says what a checkpoint has to keep of it."""
        return getattr(self._class(), "kept", None) is not None

    def _class(self) -> Any:
        return getattr(import_module(f"multimargin.linear.{self.module}"), self.algorithm)


SOLVERS = {
    "sdm": Solver("sdm", "SequentialDual", **_SDM),
    "accelerated_sdm": Solver("sdm", "AcceleratedSequentialDual", **_SDM),
    "newton": Solver("newton", "Newton"),
    "pegasos": Solver(
        "pegasos",
        "Pegasos",
        formulations=_BINARY_OR_CRAMMER_SINGER,
        losses=("hinge",),
        options={"projection": True, "batch_size": 1},
    ),
    "exponentiated_gradient": Solver(
        "exponentiated", "ExponentiatedGradient", formulations=_BINARY_OR_CRAMMER_SINGER, losses=("hinge",)
    ),
    "cutting_plane": Solver(
        "cutting_plane",
        "CuttingPlane",
        formulations=_BINARY_OR_CRAMMER_SINGER,
        losses=("hinge",),
    ),
    "tron": Solver("tron", "Tron", _SEPARABLE, ("squared_hinge",)),
    "primal_cd": Solver("primal_cd", "PrimalCoordinateDescent", _SEPARABLE, ("squared_hinge",)),
}

# Those that take their examples in parts: from disk, or shared out to ranks.
STREAMING = ("auto", *(name for name, solver in SOLVERS.items() if solver.streams))
