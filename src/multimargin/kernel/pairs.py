"""Many small machines of pairs, trained by one call of the core after the other.

One-vs-one with 200 classes has 19,900 machines: what Python does for each machine of its own would cost more than their
training. They have one record in the history each, when they are finished.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from multimargin import _core
from multimargin.kernel.machine import Result
from multimargin.linear.state import State, attributes, check_counts, part, prefixed, set_attributes
from multimargin.problems.formulations import Formulation

# Of the machines, in a checkpoint.
_KEPT = ("epochs", "n_passes", "primal", "dual", "gap", "bias", "felt", "met", "out_of_epochs")


_ROUNDING = 1e-8  # of caps, relative


class PairRecord(NamedTuple):
    """A finished machine; ``active_rows`` counts the visits of all its rounds."""

    violation: float
    active_rows: int
    solver: str
    primal: float
    dual: float
    gap: float
    hits: int
    misses: int
    kernel_evaluations: int
    pair: int

    @property
    def estimate(self) -> float:
        """The gap is certified."""
        return self.gap

    def history(self) -> tuple:
        """The record's part of the history's fields."""
        return self[:9]


class PairsMachine:
    """Some pairs of classes, as one machine under the loop's rules.

    Parameters
    ----------
    problem : Formulation
        Of one of the machines.
    store : _core.KernelStore
        With one group of columns a class.
    pairs : ndarray of shape (n_pairs, 2)
        Groups.
    first : int
        Column of the model that belongs to the first of them.
    size, at_zero : ndarray
        Examples of each pair, and the objective without duals.
    cap : ndarray
        Of all rows of the store.
    start : CSR or None
        Duals to start from, rows of the store x pairs.
    sample : ndarray of int64
        Rows of the store whose scores are wanted in the end.
    passes, counted : int, ndarray
        Records that each machine has already, and what another store counted, where they go on in another precision.
    """

    def __init__(
        self,
        problem: Formulation,
        store: _core.KernelStore,
        pairs: np.ndarray,
        first: int,
        size: np.ndarray,
        at_zero: np.ndarray,
        cap: np.ndarray,
        start: sp.csr_array | None,
        sample: np.ndarray,
        *,
        passes: int,
        counted: np.ndarray,
        working_set: int,
        tol: float,
        stopping: str,
    ):
        self.problem, self.store, self.first, self.size, self.cap = problem, store, first, size, cap
        self.tol, self.stopping, self.n_passes, self.counted = tol, stopping, passes, counted
        self.epochs = 0.0
        self.cancelled = False
        n = len(pairs)
        self.primal, self.dual, self.gap = np.array(at_zero), np.zeros(n), np.ones(n)  # as if not trained
        self.bias, self.felt = np.zeros(n), np.zeros(n)
        self.met = np.zeros(n, dtype=bool)
        self.out_of_epochs = False
        by_pair = sp.coo_array((cap.shape[0], n)) if start is None else sp.coo_array(start)
        row, pair = by_pair.coords
        order = np.lexsort((row, pair))
        started = (pair[order].astype(np.int64), row[order].astype(np.int64), by_pair.data[order].astype(np.float64))
        self.core = _core.PairBatch(store, pairs, cap, working_set, *started, sample)

    @property
    def ready(self) -> bool:
        """Pairs without a turn keep the duals that they started from, or none."""
        return True

    @property
    def done(self) -> bool:
        """Whether all pairs are finished."""
        return self.core.done

    @property
    def converged(self) -> bool:
        """Whether all pairs met the target."""
        return bool(self.met.all())

    def advance(self, max_epochs: float) -> list[PairRecord]:
        """About 50 ms of work."""
        if self.cancelled:
            return []
        trained = self.core.advance(self.tol, self.stopping == "violation", max_epochs)
        return [self._record(pair, max_epochs) for pair in trained]

    def _record(self, told: _core.TrainedPair, max_epochs: float) -> PairRecord:
        p = told.pair
        self.primal[p], self.dual[p], self.gap[p] = told.primal, told.dual, max(told.worst_gap, 0.0)
        self.bias[p], self.felt[p], self.met[p] = told.bias, told.felt, told.converged
        self.out_of_epochs |= not told.converged and told.visited >= max_epochs * self.size[p]
        hits, misses, evaluations = (int(count) for count in self.counted + self.store.counts())
        return PairRecord(
            told.violation,
            told.visited,
            "block",
            told.primal,
            told.dual,
            max(told.worst_gap, 0.0),
            hits,
            misses,
            evaluations,
            p,
        )

    def count(self, position: int, record: PairRecord) -> tuple[int, int]:
        """A machine has one record; the epochs are those of the machine with the most."""
        self.epochs = max(self.epochs, record.active_rows / max(1, int(self.size[record.pair])))
        return self.first + record.pair, self.n_passes + 1

    def exhausted(self, max_iter: int) -> bool:
        """Whether a pair used up ``max_iter`` epochs, when all have had theirs."""
        return self.done and self.out_of_epochs

    def conclude(self) -> tuple[float, float, float]:
        """Objectives of the last machine, taken as it is."""
        for told in self.core.abandon():
            self._record(told, np.inf)
        return float(self.primal[-1]), float(self.dual[-1]), float(self.gap[-1])

    def salvage(self) -> None:
        """After an interrupt: take the machine that was being trained as it is."""
        self.conclude()

    def state(self) -> State:
        """All that the next slices depend on, but the store."""
        return attributes(self, _KEPT) | prefixed("core", self.core.state())

    def set_state(self, state: State) -> None:
        """Go on from there."""
        set_attributes(self, _KEPT, state)
        check_counts(self, ("epochs", "n_passes"))
        self.core.set_state(part(state, "core"))
        _, row, value = self.core.duals()
        if np.any(np.abs(value) > self.cap[row] * (1 + _ROUNDING)):
            raise ValueError("duals are outside of their bounds")

    def result(self) -> Result:
        """What came of all pairs."""
        pair, row, value = self.core.duals()
        of, sampled, score = self.core.scores()
        return Result(
            row,
            pair + self.first,
            value,
            self.bias,
            self.primal,
            self.dual,
            self.gap,
            self.felt,
            (sampled, of + self.first, score),
            self.converged,
        )
