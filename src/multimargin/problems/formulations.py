"""The formulations: which core policy each one is, what its lanes and parts mean.

Conventions
-----------
lanes
    Columns of W that one example touches: the classes, or 1 for a binary machine.
parts
    Problems that are separable, each with objectives of its own: the lanes of one-vs-rest, else 1.
duals
    alpha_i^m, signed so that w_m = sum_i alpha_i^m x_i for every formulation.

Two classes need one lane only. With w = w_1 - w_0 and w_0 = -w_1, Crammer-Singer and Weston-Watkins
are the binary machine at 2 C, and their objectives are half of its objectives (for both losses);
one-vs-rest is the binary machine itself, once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LOSSES = ("hinge", "squared_hinge")
FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
PAIRWISE = ("one_vs_one", "dag")
JOINT = ("crammer_singer", "weston_watkins")


def n_lanes(formulation_name: str, n_classes: int) -> int:
    """Columns of a model's W."""
    if n_classes == 2:
        return 1
    return n_classes * (n_classes - 1) // 2 if formulation_name in PAIRWISE else n_classes


@dataclass(frozen=True)
class Formulation:
    """A formulation as the core solves it.

    Attributes
    ----------
    policy : str
        Name of the core's policy.
    squared : bool
        Squared hinge instead of hinge.
    lanes : int
        Columns of W.
    cap_scale, objective_scale : float
        The core solves at ``cap_scale * C``; its objectives times ``objective_scale`` are the formulation's.
    """

    policy: str
    squared: bool
    lanes: int
    cap_scale: float = 1.0
    objective_scale: float = 1.0

    @property
    def separable(self) -> bool:
        """Whether every lane is a problem of its own."""
        return self.policy == "one_vs_rest"

    @property
    def n_parts(self) -> int:
        """Problems with objectives of their own."""
        return self.lanes if self.separable else 1

    def lane_labels(self, y: np.ndarray) -> np.ndarray:
        """Encoded classes as lanes; in a binary machine class 1 is the lane and class 0 has none (-1)."""
        return (y if self.lanes > 1 else y - 1).astype(np.int32)

    @property
    def loss_of_zero_row(self) -> float:
        """Loss, at cap 1, of an example without features: a constant of both objectives."""
        return float(self.lanes - 1 if self.policy == "weston_watkins" else self.lanes if self.separable else 1)


_ROUNDING = 1e-8  # of caps and of sums that are zero, relative


def check_feasible(
    problem: Formulation, label: np.ndarray, cap: np.ndarray, example: np.ndarray, lane: np.ndarray, value: np.ndarray
) -> None:
    """Refuse duals, given by their entries, that no certificate may be built on: outside of the bounds that the
    policies (src/core/subproblem_*.hpp, binary.hpp) keep.

    Raises
    ------
    ValueError
    """
    own, bound = lane == label[example], cap[example] * (1 + _ROUNDING)
    room = _ROUNDING * np.maximum(cap[example], np.abs(value))
    capped = np.full(len(value), np.inf) if problem.squared else bound
    if problem.separable:  # each dual with the sign of its label
        inside = (np.where(own, value, -value) >= -room) & (np.abs(value) <= capped)
    elif problem.policy == "weston_watkins":  # one cap for each of the other classes
        inside = own | ((value <= room) & (value >= -capped))
    else:  # one for the label
        inside = np.where(own, value <= capped, value <= room)
    if not inside.all():
        raise ValueError("duals are outside of their bounds")
    if not problem.separable:
        total, size = (np.bincount(example, weights=x, minlength=len(cap)) for x in (value, np.abs(value)))
        if not (np.abs(total) <= _ROUNDING * np.maximum(size, cap)).all():
            raise ValueError("the duals of an example do not sum to zero")


def formulation(name: str, loss: str, n_classes: int) -> Formulation:
    """The core's form of a formulation (pairwise ones: of one of their machines)."""
    squared = loss == "squared_hinge"
    if n_classes == 2 or name in PAIRWISE:
        joint = name in JOINT
        return Formulation("one_vs_rest", squared, 1, 2.0 if joint else 1.0, 0.5 if joint else 1.0)
    return Formulation(name, squared, n_classes)
