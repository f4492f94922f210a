"""What the cutting-plane method knows of a problem: its cuts and what their master problem says; in checkpoints too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from multimargin.linear.assignments import InsideMargins, WorstClasses
from multimargin.linear.examples import Examples
from multimargin.linear.master_problem import solve_master
from multimargin.linear.state import State, attributes, check_counts, set_attributes

_IDLE = 20  # masters that a cut may have no weight in before it is dropped
_RAISED = 1e-14
# What steps cost, in multiply-adds of a pass: vectors that come from memory, a master, least squares of n cuts (n^3).
_COST_OF_VECTOR, _COST_OF_MASTER, _COST_OF_SQUARES = 8.0, 1e6, 10.0
_KNOWN = ("slack", "dual", "here", "best", "stalled")  # of a bundle, in a checkpoint
_ROUNDING = 1e-6  # relative, of sums over examples or features
_ROUNDING_OF_WEIGHTS = 1e-12  # of their sum


@dataclass
class Cut:
    """R(w) >= offset - gradient.w, and the assignment that it is made of (None: the duals that training began with)."""

    gradient: np.ndarray
    offset: float
    assignment: np.ndarray | None
    weight: float = 0.0  # lambda
    idle: int = 0  # masters since it last had a weight


class Bundle:
    """The cuts of one problem, and what is known of its optimum."""

    def __init__(self, size: int):
        self.cuts: list[Cut] = []
        self.gram = np.zeros((0, 0))
        self.w = np.zeros(size)
        self.slack = self.dual = 0.0
        self.here = self.best = np.inf  # primal values: of w, the lowest
        self.stalled = 0

    def observe(self, cut: Cut) -> bool:
        """What the cut at w says of w, its primal value; whether it is the lowest so far."""
        self.here = 0.5 * float(self.w @ self.w) + cut.offset - float(cut.gradient @ self.w)
        better = self.here < self.best
        self.best = min(self.here, self.best)
        return better

    def add(self, cut: Cut) -> Iterator[float]:
        """Take in a cut, and find the next w; yields what it costs, step by step. Nothing changes before the last."""
        cuts = [*self.cuts, cut]
        row = np.empty(len(cuts))
        for t, other in enumerate(cuts):
            row[t] = cut.gradient @ other.gradient
            yield _COST_OF_VECTOR * cut.gradient.size
        gram = np.block([[self.gram, row[:-1, None]], [row]])
        offset = np.array([c.offset for c in cuts])
        weights, slack = solve_master(gram, offset, self.slack)
        yield _COST_OF_MASTER + _COST_OF_SQUARES * len(weights) ** 3
        w = np.zeros_like(self.w)
        for weight, gradient in ((weight, c.gradient) for weight, c in zip(weights, cuts, strict=True) if weight > 0):
            w += weight * gradient
            yield _COST_OF_VECTOR * w.size
        for c, weight in zip(cuts, weights, strict=True):
            c.weight = float(weight)
            c.idle = 0 if weight > 0 else c.idle + 1
        dual = float(offset @ weights) - 0.5 * float(w @ w)
        self.stalled = 0 if dual > self.dual + _RAISED * abs(dual) else self.stalled + 1
        self.w, self.dual, self.slack = w, dual, slack
        kept = [t for t, c in enumerate(cuts) if c.idle < _IDLE]
        self.cuts = [cuts[t] for t in kept]
        self.gram = gram[np.ix_(kept, kept)]

    def weighted(self) -> Iterator[tuple[float, np.ndarray]]:
        """Assignments with their weights."""
        for cut in self.cuts:
            if cut.weight > 0 and cut.assignment is not None:
                yield cut.weight, cut.assignment

    @property
    def weight_of_beginning(self) -> float:
        return sum(cut.weight for cut in self.cuts if cut.assignment is None)

    def state(self) -> State:
        """As it is between two cuts; w follows from it."""
        return attributes(self, ("gram", *_KNOWN)) | state_of_cuts(self.cuts)

    def set_state(self, state: State, limits: Limits) -> None:
        """Go on from there."""
        set_attributes(self, _KNOWN, state)
        check_counts(self, ("slack", "stalled"))
        if not (np.isfinite(self.dual) and self.here > -np.inf and self.best > -np.inf):
            raise ValueError("objectives that are no numbers")
        self.cuts = limits.cuts(state, self.w.size)
        self.gram = limits.gram(state["gram"], self.cuts)
        if sum(cut.weight for cut in self.cuts) > 1 + _ROUNDING_OF_WEIGHTS:
            raise ValueError("weights of cuts that sum to more than 1")
        self.w = np.zeros_like(self.w)
        for cut in self.cuts:  # as add() does, to the bit
            if cut.weight > 0:
                self.w += cut.weight * cut.gradient


def state_of_cuts(cuts: list[Cut]) -> State:
    """Cuts as arrays, one after the other."""
    assignments = [cut.assignment for cut in cuts if cut.assignment is not None]
    return {
        "gradient": np.concatenate([np.empty(0), *(cut.gradient for cut in cuts)]),
        "offset": np.array([cut.offset for cut in cuts]),
        "weight": np.array([cut.weight for cut in cuts]),
        "idle": np.array([cut.idle for cut in cuts], dtype=np.int64),
        "begins": np.array([cut.assignment is None for cut in cuts], dtype=bool),
        "assignment": np.concatenate(assignments) if assignments else np.empty(0, dtype=np.uint8),
    }


class Limits:
    """What cuts of these examples can be: others, from a checkpoint, are refused."""

    def __init__(self, examples: Examples, assignments: WorstClasses | InsideMargins, *, warm: bool):
        self.assignments, self.warm = assignments, warm
        self.offset = (1 + _ROUNDING) * float(examples.cap.sum())
        # Of a squared gradient: duals of an example have a norm of sqrt(2) C_i at most.
        with np.errstate(over="ignore"):
            self.square = 2 * (1 + _ROUNDING) * float((examples.cap * np.sqrt(examples.norm)).sum()) ** 2

    def check_offsets(self, offset: np.ndarray) -> None:
        if not ((offset >= 0) & (offset <= self.offset)).all():
            raise ValueError("offsets of cuts that are no sums of caps")

    def check_gradients(self, squares: np.ndarray) -> None:
        if not (squares <= self.square).all():
            raise ValueError("gradients that are no numbers, or too large")

    def cuts(self, state: State, size: int) -> list[Cut]:
        """Those of a state, with gradients of a given size."""
        offset, weight, idle, begins = (state[name] for name in ("offset", "weight", "idle", "begins"))
        gradient, count = state["gradient"], len(offset)
        if {offset.dtype, weight.dtype, gradient.dtype} != {np.dtype(np.float64)} or idle.dtype != np.int64:
            raise ValueError("cuts of other types")
        if not (len(weight) == len(idle) == len(begins) == count and gradient.size == count * size):
            raise ValueError("cuts that differ in number")
        if begins.dtype != np.bool_ or (begins.any() and not self.warm):
            raise ValueError("a cut of duals that training did not begin with")
        if not ((weight >= 0).all() and (idle >= 0).all() and (idle < _IDLE).all()):
            raise ValueError("weights of cuts out of range")
        self.check_offsets(offset)
        gradients = gradient.reshape(count, size)
        self.check_gradients(np.einsum("ij,ij->i", gradients, gradients))
        chosen = iter(self.assignments.restored(state["assignment"], count - int(begins.sum())))
        return [
            Cut(gradients[t].copy(), float(offset[t]), None if begins[t] else next(chosen).copy(), weight[t].item(), i)
            for t, i in enumerate(idle.tolist())
        ]

    def gram(self, gram: np.ndarray, cuts: list[Cut]) -> np.ndarray:
        """That of a state, which must be the products of the gradients."""
        if gram.dtype != np.float64 or gram.size != len(cuts) ** 2:
            raise ValueError("products of other cuts")
        gram = gram.reshape(len(cuts), len(cuts)).copy()
        length = np.sqrt([cut.gradient @ cut.gradient for cut in cuts])
        for row, cut, own in zip(gram, cuts, length, strict=True):
            products = np.array([cut.gradient @ other.gradient for other in cuts])
            if not (np.abs(row - products) <= _ROUNDING * own * length + 1e-300).all():
                raise ValueError("products that are not those of the gradients")
        return gram
