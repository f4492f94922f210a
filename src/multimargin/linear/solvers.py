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
        return getattr(import_module(f"multimargin.linear.{self.module}"), self.algorithm)(settings)


SOLVERS = {
    "sdm": Solver("sdm", "SequentialDual", **_SDM),
    "accelerated_sdm": Solver("sdm", "AcceleratedSequentialDual", **_SDM),
    "newton": Solver("newton", "Newton"),
}
