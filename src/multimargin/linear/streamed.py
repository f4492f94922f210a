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
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from multimargin import _core
from multimargin.data.thread_pool import NoThreadsError, ThreadPool
from multimargin.linear.stages import Stages
from multimargin.linear.state import State, attributes, check_counts, index, part, prefixed, set_attributes
from multimargin.problems.formulations import Formulation

if TYPE_CHECKING:
    from multimargin.linear.stored_examples import StoredExamples

_ONE_PASS = 1e-9  # epochs: the core ends a call after the pass that exceeds them
_MOST_TOURS = 1 << 62
# Of the tours, in a checkpoint.
_SCHEDULE = ("_on_tour", "_full", "_next_full", "_shrunk_effort", "_violation", "_visited", "_loss", "_dual")


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
            self.examples.files.keep(self.loaded.number, self.loaded.block)
            self.loaded = None

    def close(self) -> None:
        """No more reading ahead."""
        self._ahead = None
        self._reader.shutdown(cancel_futures=True)

    def _get(self, number: int, following: Sequence[int]) -> Loaded:
        ahead, self._ahead = self._ahead, None
        loaded = ahead[1].result() if ahead is not None and ahead[0] == number else self._load(number)
        if following and self.examples.read_ahead:
            with suppress(NoThreadsError):  # then it is read when it has its turn
                self._ahead = (following[0], self._reader.submit(self._load, following[0]))
        return loaded

    def _load(self, number: int, state: State | None = None) -> Loaded:
        """A block with its duals on disk, or as it was within its turn."""
        examples = self.examples.stored.examples(self.problem, number)
        seed = int(np.random.SeedSequence([self.seed, self._tours, number]).generate_state(1)[0])
        block = examples.block(self.problem, self.lists, seed)
        check = lambda block: examples.check_duals(block, self.problem)  # noqa: E731
        if state is None:
            self.examples.files.give(number, block, check)
        else:
            block.set_state(state)
            check(block)
        return Loaded(number, block)

    def state(self) -> State:
        """Which duals are on disk, what is left of the tour, and the block that has its turn."""
        state = {"tour": np.array(self._tour, dtype=np.int64)} | attributes(self, ("_tours", "_last"))
        state |= prefixed("files", self.examples.files.state())
        if self.loaded is not None:
            state |= {"number": np.array([self.loaded.number])} | prefixed("block", self.loaded.block.state())
            if self.loaded.passes is not None:
                state |= prefixed("passes", self.loaded.passes.state())
        return state

    def set_state(self, state: State) -> None:
        """Go on from there."""
        tour, n = state["tour"], len(self)
        loaded = [index(state, "number", n)] if "number" in state else []
        left = [*tour.tolist(), *loaded]
        if tour.dtype != np.int64 or len({*left}) != len(left) or not all(0 <= block < n for block in left):
            raise ValueError("blocks of a tour that are not there, or twice")
        self._tour, self._tours = tour.tolist(), index(state, "_tours", _MOST_TOURS)
        set_attributes(self, ("_last",), state)
        self.examples.files.set_state(part(state, "files"))
        for block in loaded:
            self.loaded = self._load(block, part(state, "block"))
            if passes := part(state, "passes"):
                self.loaded.passes = _core.Passes([self.loaded.block])
                self.loaded.passes.set_state(passes)


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

    def state(self) -> State:
        """All that the next turns depend on, but for the blocks and W."""
        means = {"sum": self._sum, "mean": self._mean}
        state = attributes(self, _SCHEDULE) | prefixed("stages", self._stages.state())
        return state | {name: W.reshape(-1).copy() for name, W in means.items() if W is not None}

    def set_state(self, state: State) -> None:
        """Go on from there."""
        set_attributes(self, _SCHEDULE, state)
        check_counts(self, ("_shrunk_effort", "_violation", "_visited"))
        self._visited = index(state, "_visited", self.blocks.examples.n + 1)
        if not np.isfinite([self._loss, self._dual]).all():
            raise ValueError("objectives that are no numbers")
        self._stages.set_state(part(state, "stages"))
        self._sum, self._mean = (self._weights_in(state, name) for name in ("sum", "mean"))

    def _weights_in(self, state: State, name: str) -> np.ndarray | None:
        if name not in state:
            return None
        W, n, lanes = state[name], self.blocks.examples.n_weights, self.blocks.problem.lanes
        shape = _core.Weights(1, lanes, W.dtype == np.float32).array.shape[1]
        if W.dtype not in (np.float32, np.float64) or W.size != n * shape or not np.isfinite(W).all():
            raise ValueError(f"{name!r} must be {n} x {shape} finite weights")
        return W.reshape(n, shape).copy()

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
                self._count(record)
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

    def _count(self, record: _core.PassRecord) -> None:
        self._visited += record.visited
        self._violation = max(self._violation, record.violation)
        if self._full:  # objectives of the block alone
            self._loss += record.primal - 0.5 * record.w_norm
            self._dual += -record.dual - 0.5 * record.v_norm

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
