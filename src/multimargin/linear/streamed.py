"""Examples in blocks on disk: block minimisation (Yu, Hsieh, Chang, Lin, KDD 2010).

There is one W in memory. A tour takes the blocks in random order: each gets a few passes of the sequential dual method
against W, the same steps as in memory, and its duals go back to disk; meanwhile a thread reads the next block. As every
step raises the dual, tours converge whatever the blocks are. After its turn a block is fitted better than the others,
which costs the primal; so the mean of W, after every turn of a tour, is what is certified. To the algorithm (sdm.py) a
tour is a pass; the certificate (machine.py) is that of any machine, its sums over the blocks as they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from multimargin import _core
from multimargin.data.atomic import failed_write
from multimargin.data.blocks import BlockStore
from multimargin.data.rows import as_rows, has_features
from multimargin.data.thread_pool import ThreadPool
from multimargin.linear.directions import (
    SAMPLE,
    fill_sample,
    held_by_sample,
    intercept_direction,
    leading,
    share_of_sample,
    without_rows,
    worth_sampling,
)
from multimargin.linear.examples import Examples
from multimargin.linear.stages import Stages
from multimargin.problems.formulations import Formulation
from multimargin.problems.range import SMALLEST_C, check_reach

_ONE_PASS = 1e-9  # epochs: the core ends a call after the pass that exceeds them


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
    estimates_gaps_high = Examples.estimates_gaps_high

    def __init__(
        self, stored: StoredProblem, problem: Formulation, scratch: Path, *, read_ahead: bool, accelerated: bool
    ):
        self.stored, self.scratch, self.read_ahead = stored, scratch, read_ahead
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
        n = max(self.n, 1)
        directions, squares = intercept_direction(stored.n_weights, stored.intercept), np.array([stored.intercept]) ** 2
        if sampled:
            U, squares = leading(sample)
            directions, squares = without_rows(U), squares / sampled
        self.directions, left = held_by_sample(directions, squares, caps, curvature, norms / n, problem.n_parts)
        self.mean_curvature = left / n

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


class DualsNotKept(Exception):
    """A block's duals cannot be written, as the disk is full, say; the error says why."""

    def __init__(self, error: OSError):
        super().__init__(str(error))
        self.error = error


class Loaded:
    """A block in memory, and where its turn stands."""

    def __init__(self, number: int, block: _core.Block):
        self.number, self.block = number, block
        self.passes: _core.Passes | None = None  # until its turn


class DiskBlocks:
    """The blocks of a machine. Iterated over they come one after the other; on a tour they come one by one, and go back
    with new duals."""

    def __init__(self, examples: StoredExamples, problem: Formulation, lists: bool, seed: int):
        self.examples, self.problem, self.lists, self.seed = examples, problem, lists, seed
        self.loaded: Loaded | None = None  # on a tour
        self._tour: list[int] = []  # the blocks that are still to come
        self._tours, self._last = 0, -1
        self._reader = ThreadPool(1, "multimargin-reader")
        self._ahead: tuple[int, Future] | None = None

    def __len__(self) -> int:
        return len(self.examples.stored.store)

    def __iter__(self) -> Iterator[_core.Block]:
        self.put_back()
        for number in range(len(self)):
            yield self._get(number, [number + 1] if number + 1 < len(self) else []).block

    def begin_tour(self) -> None:
        """All blocks, in an order that depends on the seed and the number of the tour only, but for this: a block that
        was the last has just been fitted, and is not the first."""
        self._tours += 1
        self._tour = np.random.default_rng([self.seed, self._tours]).permutation(len(self)).tolist()
        if self._tour[0] == self._last:
            self._tour = self._tour[1:] + self._tour[:1]
        self._last = self._tour[-1]

    def next_of_tour(self) -> Loaded | None:
        """The block that has its turn; None at the end of the tour."""
        if self.loaded is None and self._tour:
            number, *self._tour = self._tour
            self.loaded = self._get(number, self._tour[:1])
        return self.loaded

    def put_back(self) -> None:
        """End the turn of a block: its duals go to disk."""
        if self.loaded is not None:
            value, lane, indptr = self.loaded.block.duals()
            try:
                np.savez(self._duals(self.loaded.number), value=value, lane=lane, indptr=indptr)
            except OSError as error:
                raise DualsNotKept(failed_write(error, self.examples.scratch)) from error
            self.loaded = None

    def close(self) -> None:
        """No more reading ahead."""
        self._ahead = None
        self._reader.shutdown(cancel_futures=True)

    def _get(self, number: int, following: Sequence[int]) -> Loaded:
        ahead, self._ahead = self._ahead, None
        loaded = ahead[1].result() if ahead is not None and ahead[0] == number else self._load(number)
        if following and self.examples.read_ahead:
            self._ahead = (following[0], self._reader.submit(self._load, following[0]))
        return loaded

    def _load(self, number: int) -> Loaded:
        examples = self.examples.stored.examples(self.problem, number)
        seed = int(np.random.SeedSequence([self.seed, self._tours, number]).generate_state(1)[0])
        block = examples.block(self.problem, self.lists, seed)
        duals = self._duals(number)
        if duals.exists():
            with np.load(duals) as kept:
                block.set_duals(kept["value"], kept["lane"], kept["indptr"])
        return Loaded(number, block)

    def _duals(self, number: int) -> Path:
        return self.examples.scratch / f"duals-{number:06d}.npz"


class Tour(NamedTuple):
    """One tour of the blocks, as the algorithm sees a pass; the gap is an estimate, and of full tours only."""

    violation: float
    visited: int
    worst_gap: float = np.nan


class Tours:
    """The schedule of tours, in the place of the core's schedule of passes, and with its rules: a full tour, then
    shrunk ones over the examples with duals, until they meet the tolerance or have cost ``shrunk_effort``."""

    def __init__(self, blocks: DiskBlocks):
        self.blocks = blocks
        self._stages = Stages()
        self._on_tour = False
        self._full = self._next_full = True
        self._shrunk_effort = 0.0  # in epochs, since the last full tour
        self._violation, self._visited = 0.0, 0
        self._loss = self._dual = 0.0  # terms of the objectives, as the full passes saw them
        self._sum: np.ndarray | None = None  # of W after the turns of this tour
        self._mean: np.ndarray | None = None  # of the last tour

    def mean(self, out: _core.Weights) -> bool:
        """Write the mean of W over the last tour; False before there was one."""
        if self._mean is None:
            return False
        out.array[:, : out.lanes] = self._mean[:, : out.lanes]
        return True

    def scale_step(self, weights: _core.Weights) -> float:
        """W is certified as it is."""
        return 0.0

    def run(
        self,
        weights: _core.Weights,
        *,
        tolerance: float,
        certify_below: float,
        budget: float,
        max_epochs: float,
        shrinking: bool,
        permute: bool,
        rest_share: float,
        shrunk_effort: float,
    ) -> tuple[str, list[Tour]]:
        """As the core's: work for about a budget; why it stopped, and the tour if one was finished. ``rest_share`` does
        not apply: examples on disk do not know their last violation."""
        while budget > 0:
            if not self._on_tour:
                self._begin(weights)
            loaded = self.blocks.next_of_tour()
            if loaded is None:
                tour = self._end(weights)
                return self._judge(tour, tolerance, certify_below, shrinking, shrunk_effort), [tour]
            n = loaded.block.n_examples
            passes: list[_core.PassRecord] = []
            if n:
                loaded.passes = loaded.passes or _core.Passes([loaded.block], self._full)
                _, passes = loaded.passes.run(
                    weights,
                    tolerance=0.0,
                    certify_below=-np.inf,
                    budget=budget,
                    max_epochs=_ONE_PASS,
                    shrinking=shrinking,
                    permute=permute,
                    shrunk_effort=np.inf,
                    stages=False,
                )
                if not passes:
                    return "budget", []
            for record in passes:  # one: a second would fit W to the block
                self._count(weights, record)
                budget -= loaded.block.cost_of_pass * record.visited / n
            self._turned(weights)
            self.blocks.put_back()
        return "budget", []

    def _turned(self, weights: _core.Weights) -> None:
        W = weights.array
        if self._sum is None or self._sum.shape != W.shape or self._sum.dtype != W.dtype:
            self._sum = np.zeros_like(W)
        self._sum += W

    def _begin(self, weights: _core.Weights) -> None:
        if self._next_full and self._visited and weights.kappa > 0:
            self._stages.end(weights)  # a stage is a full tour and the shrunk ones after it
        self._on_tour, self._full = True, self._next_full
        self.blocks.begin_tour()
        self._violation, self._visited = 0.0, 0
        self._loss = self._dual = 0.0

    def _count(self, weights: _core.Weights, record: _core.PassRecord) -> None:
        self._visited += record.visited
        self._violation = max(self._violation, record.violation)
        if self._full:  # objectives of the block alone
            w, v = weights.squared_norms()
            self._loss += record.primal - 0.5 * float(w.sum())
            self._dual += -record.dual - 0.5 * float(v.sum())

    def _end(self, weights: _core.Weights) -> Tour:
        self._on_tour = False
        if self._sum is not None:
            self._mean, self._sum = self._sum / len(self.blocks), None
        if not self._full:
            return Tour(self._violation, self._visited)
        w, v = weights.squared_norms()
        constant = self.blocks.examples.constant
        primal = 0.5 * float(w.sum()) + self._loss + constant
        dual = -0.5 * float(v.sum()) - self._dual + constant
        self._stages.saw(primal, dual)
        return Tour(self._violation, self._visited, (primal - dual) / max(abs(primal), 1e-300))

    def _judge(self, tour: Tour, tolerance: float, certify_below: float, shrinking: bool, shrunk_effort: float) -> str:
        """What kind of tour is next, and what the algorithm is to think of this one."""
        quiet = tour.violation < tolerance
        if not self._full:
            self._shrunk_effort += tour.visited / max(1, self.blocks.examples.n)
            self._next_full = quiet or self._shrunk_effort >= shrunk_effort
            return "epochs"
        self._shrunk_effort = 0.0
        self._next_full = quiet or not shrinking
        if quiet and tour.visited == self.blocks.examples.n:
            return "tolerance"
        return "certify" if -0.1 * certify_below <= tour.worst_gap <= certify_below else "epochs"
