"""A store of blocks as the examples of a machine: what they weigh, and what is known of all of them together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from multimargin import _core
from multimargin.data.blocks import BlockStore
from multimargin.data.rows import as_rows, has_features
from multimargin.linear.directions import (
    SAMPLE,
    fill_sample,
    held_by_sample,
    intercept_direction,
    kept_directions,
    leading,
    share_of_sample,
    without_rows,
    worth_sampling,
)
from multimargin.linear.dual_files import DualFiles
from multimargin.linear.examples import Examples
from multimargin.linear.state import State, part, prefixed
from multimargin.linear.streamed import DiskBlocks, Tours
from multimargin.problems.formulations import Formulation
from multimargin.problems.range import SMALLEST_C, check_reach


class Weighed(NamedTuple):
    """The rows of a block: numbers of classes, squared norms, C_i."""

    X: Any
    rows: _core.Rows
    norm: np.ndarray
    y: np.ndarray
    cap: np.ndarray

    def examples(self, problem: Formulation) -> Examples:
        """Those of them that a machine learns from."""
        return Examples.of(
            problem, self.X, self.rows, self.norm, self.y, self.cap, np.arange(len(self.y), dtype=np.int64)
        )


@dataclass
class StoredProblem:
    """A store as a problem: what its rows and classes weigh."""

    store: BlockStore
    intercept: float  # 0: none
    class_caps: np.ndarray  # C times the weight of every class

    @property
    def n_weights(self) -> int:
        return self.store.n_features + (self.intercept != 0)

    @property
    def sampled(self) -> bool:
        """Whether a sample of the rows says along which directions accelerated weights are held back."""
        store = self.store
        nonzeros = sum(entry.nonzeros or entry.rows * store.n_features for entry in store.entries)
        return worth_sampling(self.n_weights, nonzeros)

    def examples(self, problem: Formulation, block: int) -> Examples:
        """The examples of a block, read from disk."""
        return self.weighed(block).examples(problem)

    def weighed(self, block: int) -> Weighed:
        """All rows of a block, read from disk, with what they weigh."""
        X, y, weight = self.store.load(block)
        rows = as_rows(X, self.intercept, only_scored=True)  # columns were checked when the block was first read
        norm = rows.squared_norms()
        if not np.isfinite(norm).all():
            file, row = self.store.path / self.store.entries[block].file, int(np.isfinite(norm).argmin())
            raise ValueError(f"{file}: the squared norm of row {row} overflows: scale the features down")
        with np.errstate(over="ignore"):
            cap = self.class_caps[y] if weight is None else self.class_caps[y] * weight
        if not np.isfinite(cap).all():
            file, row = self.store.path / self.store.entries[block].file, int(np.isfinite(cap).argmin())
            raise ValueError(f"{file}: C times the weights must be finite, in row {row}: lower C or the weights")
        return Weighed(X, rows, norm, y, np.where(cap < SMALLEST_C, 0.0, cap))


class _Reach:
    """What float64 must have room for (problems/range.py), found block by block."""

    def __init__(self) -> None:
        self.total = self.highest = self.largest = 0.0
        self.has_features = False

    def add(self, rows: Weighed) -> None:
        with np.errstate(over="ignore"):
            self.total += float(rows.cap.sum())
        self.highest = max(self.highest, float(rows.cap.max(initial=0.0)))
        self.largest = max(self.largest, float(rows.norm.max(initial=0.0)))
        self.has_features = self.has_features or self.largest > 0 or has_features(rows.X)

    def check(self) -> None:
        if self.has_features:
            check_reach(self.total, self.highest, self.largest)


class StoredExamples:
    """What a machine knows of its examples when they are on disk; found in one pass over them."""

    # A certificate is two passes over the disk, but without one an interrupt would leave nothing.
    first_certificate = 4.0
    strength = Examples.strength
    hands_out_duals = False  # they are on disk
    n_blocks = Examples.n_blocks
    estimates_gaps_high = Examples.estimates_gaps_high

    def __init__(
        self, stored: StoredProblem, problem: Formulation, files: DualFiles, *, read_ahead: bool, accelerated: bool
    ):
        self.stored, self.files, self.read_ahead = stored, files, read_ahead
        self.n_weights = stored.n_weights
        self.n, self.constant, self._cost = 0, 0.0, 0.0
        curvature, caps, norms, smallest, largest = 0.0, 0.0, 0.0, np.inf, 0.0
        reach = _Reach()
        sample, sampled = np.zeros((SAMPLE if accelerated and stored.sampled else 0, self.n_weights)), 0
        with np.errstate(over="ignore", invalid="ignore"):  # reach.check() finds it
            for block in range(len(stored.store)):
                weighed = stored.weighed(block)
                reach.add(weighed)
                here = weighed.examples(problem)
                if len(sample):
                    share = share_of_sample(block, len(stored.store))
                    sampled += fill_sample(sample[share], weighed.X, stored.intercept)
                self.n += here.n
                self.constant += here.constant
                if here.n:
                    smallest, largest = min(smallest, here.norm_range[0]), max(largest, here.norm_range[1])
                    curvature += here.n * here.mean_curvature
                    caps += float(here.cap.sum())
                    norms += float(here.norm.sum())
                    per_row = stored.store.entries[block].nonzeros / here.rows.n_rows or here.rows.n_features
                    self._cost += here.n * problem.lanes * per_row
        reach.check()
        self.norm_range = (smallest, largest)
        self._weighs = (caps, curvature, norms / max(self.n, 1), problem.n_parts)
        self._sampled: State = {}  # directions of the sample, and how much of its rows is along them
        if sampled:
            U, squares = leading(sample)
            self._sampled = {"U": U.ravel(), "squares": squares / sampled}
        self._hold_back()

    def _hold_back(self) -> None:
        """Find the directions along which accelerated weights are held back, and what is left of the curvature."""
        directions = intercept_direction(self.n_weights, self.stored.intercept)
        squares = np.array([self.stored.intercept]) ** 2
        if self._sampled:
            directions = without_rows(self._sampled["U"].reshape(self.n_weights, -1))
            squares = self._sampled["squares"]
        self.directions, left = held_by_sample(directions, squares, *self._weighs)
        self.mean_curvature = left / max(self.n, 1)

    def state(self) -> State:
        """The directions of the sample: another BLAS may find them with other signs and last bits."""
        return dict(self._sampled)

    def set_state(self, state: State) -> None:
        """Before there is a machine."""
        if set(state) != set(self._sampled):
            raise ValueError("directions of a sample where none is taken, or none where one is")
        if state:
            U, squares = kept_directions(state["U"], self.n_weights), state["squares"].astype(np.float64)
            if squares.shape != U.shape[1:] or not (np.isfinite(squares) & (squares > 0)).all():
                raise ValueError("directions along which nothing is")
            self._sampled = {"U": U.ravel(), "squares": squares}
            self._hold_back()

    def schedule(self, problem: Formulation, lists: bool, seed: int) -> tuple[DiskBlocks, Tours]:
        """The blocks of a machine, and the passes over them."""
        blocks = DiskBlocks(self, problem, lists, seed)
        return blocks, Tours(blocks)

    def candidate(self, passes: Tours, out: _core.Weights) -> bool:
        """Write the mean of W over the last tour into ``out``, if there was one."""
        return passes.mean(out)

    def complete(self, weights: _core.Weights) -> None:
        """As of examples in memory: these are all."""

    def total(self, sums: np.ndarray) -> None:
        """As of examples in memory: these are all."""

    def cost_of_pass(self, blocks: DiskBlocks) -> float:
        """In multiply-adds."""
        return self._cost

    def state_of(self, blocks: DiskBlocks) -> State:
        """Of those on disk: which they are."""
        return prefixed("blocks", blocks.state())

    def set_state_of(self, blocks: DiskBlocks, problem: Formulation, state: State) -> None:
        """Go on from there."""
        blocks.set_state(part(state, "blocks"))
