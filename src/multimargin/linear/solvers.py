"""The solvers by name: which problems each one solves, which options it takes, where it is.

A solver is a class with the members of ``Algorithm`` (machine.py), made of ``Settings``. Its module is imported when
it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from multimargin.linear.machine import Algorithm, Settings
from multimargin.problems.formulations import FORMULATIONS, LOSSES

_SDM_OPTIONS = {"permutation": True, "restricted_step": True}


@dataclass(frozen=True)
class Solver:
    """What there is to know of a solver before it runs."""

    module: str
    algorithm: str  # name of the class
    formulations: tuple[str, ...] = FORMULATIONS
    losses: tuple[str, ...] = LOSSES
    stoppings: tuple[str, ...] = ("gap",)
    options: Mapping[str, Any] = field(default_factory=dict)  # with their defaults

    def make(self, settings: Settings) -> Algorithm:
        """A fresh algorithm."""
        return self._class()(settings)

    @property
    def has_checkpoints(self) -> bool:
        """Whether it says what a checkpoint has to keep of it."""
        return hasattr(self._class(), "kept")

    def _class(self) -> Any:
        return getattr(import_module(f"multimargin.linear.{self.module}"), self.algorithm)


SOLVERS = {
    "sdm": Solver("sdm", "SequentialDual", stoppings=("gap", "violation"), options=_SDM_OPTIONS),
    "accelerated_sdm": Solver("sdm", "AcceleratedSequentialDual", stoppings=("gap", "violation"), options=_SDM_OPTIONS),
    "newton": Solver("newton", "Newton"),
}
