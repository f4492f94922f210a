"""Many small machines of pairs, trained by one call of the core after the other.

One-vs-one with 200 classes has 19,900 machines: what Python does for each machine of its own would cost more than their
training. They have one record in the history each, when they are finished and certified: a certificate, by exact scores
(certificate.py), is for some pairs at a time, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from multimargin import _core
from multimargin.kernel.certificate import AIM, ALLOWED, ExactScores, at_once, doubts, errors
from multimargin.kernel.machine import Result
from multimargin.kernel.tasks import rows_of, sizes
from multimargin.linear.state import State, attributes, check_counts, part, prefixed, set_attributes
from multimargin.problems.formulations import Formulation

# Of the machines, in a checkpoint.
_KEPT = ("epochs", "n_passes", "primal", "dual", "gap", "bias", "doubt", "met", "out_of_epochs")

_ROUNDING = 1e-8  # of caps, relative
_EXAMPLES_AT_ONCE = 1024  # of pairs that are certified together


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
    group_begin : ndarray
        First row of the store of every group, and the end of the last one.
    cap : ndarray
        Of all rows of the store.
    start : CSR or None
        Duals to start from, rows of the store x pairs.
    exact : ExactScores
        For certificates.
    passes, counted : int, ndarray
        Records that each machine has already, and what another store counted, where they go on in another precision.
    """

    def __init__(
        self,
        problem: Formulation,
        store: _core.KernelStore,
        pairs: np.ndarray,
        first: int,
        group_begin: np.ndarray,
        cap: np.ndarray,
        start: sp.csr_array | None,
        exact: ExactScores,
        *,
        passes: int,
        counted: np.ndarray,
        working_set: int,
        tol: float,
        stopping: str,
    ):
        self.problem, self.store, self.first, self.cap, self.exact = problem, store, first, cap, exact
        self.pairs, self.group_begin = pairs, group_begin
        self.size = sizes(pairs, group_begin)
        self.tol, self.stopping, self.n_passes, self.counted = tol, stopping, passes, counted
        self.epochs = 0.0
        self.cancelled = False
        n = len(pairs)
        before = np.append(0.0, np.cumsum(cap))[group_begin]
        at_zero = np.diff(before)[pairs].sum(axis=1)
        self.primal, self.dual, self.gap = at_zero, np.zeros(n), np.ones(n)  # as if not trained
        self.bias, self.doubt = np.zeros(n), np.zeros(n)
        self.met = np.zeros(n, dtype=bool)
        self.out_of_epochs = False
        self.trained: list[_core.TrainedPair] = []  # and not certified yet: none between two slices
        by_pair = sp.coo_array((cap.shape[0], n)) if start is None else sp.coo_array(start)
        row, pair = by_pair.coords
        order = np.lexsort((row, pair))
        started = (pair[order].astype(np.int64), row[order].astype(np.int64), by_pair.data[order].astype(np.float64))
        self.core = _core.PairBatch(store, pairs, cap, working_set, *started)

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
        self.trained += self.core.advance(AIM * self.tol, self.stopping == "violation", max_epochs)
        return self._certified(max_epochs)

    def _certified(self, max_epochs: float) -> list[PairRecord]:
        """The records of the trained pairs, certified as many at a time as are small together."""
        records = []
        hits, misses, evaluations = (self.counted + self.store.counts()).tolist()
        end = np.cumsum([self.size[one.pair] for one in self.trained])
        begin = 0
        while begin < len(self.trained):
            before = end[begin - 1] if begin else 0
            until = max(begin + 1, int(np.searchsorted(end, before + _EXAMPLES_AT_ONCE, side="right")))
            some = self.trained[begin:until]
            certificates = zip(some, self._certificates(some), strict=True)
            records += [self._record(one, told, (hits, misses, evaluations), max_epochs) for one, told in certificates]
            begin = until
        self.trained = []
        return records

    def _certificates(self, trained: list[_core.TrainedPair]) -> list[_core.Round]:
        """What the core says of the exact scores of some pairs. One table has all examples of all of them."""
        groups = self.pairs[[one.pair for one in trained]]
        row, lengths = rows_of(groups, self.group_begin), np.diff(self.group_begin)[groups]
        sign = np.repeat(np.tile(np.array([1, -1], dtype=np.int32), len(trained)), lengths.ravel())
        pair = np.repeat(np.arange(len(trained)), lengths.sum(axis=1))
        dual, kept = (np.concatenate([getattr(one, name) for one in trained]) for name in ("duals", "scores"))
        bias = np.array([one.bias for one in trained])
        held = np.flatnonzero(dual)
        support, at = np.unique(row[held], return_inverse=True)
        coef = np.zeros((len(support), len(trained)))
        coef[at, pair[held]] = dual[held]
        place = np.full(len(self.cap), -1)  # of a row among those that are scored
        place[support] = np.arange(len(support))
        sums = self.exact.sums(support, coef)[:, pair]
        room = self.exact.room(row, sums, np.array([one.travelled for one in trained])[pair])

        def losing(some: np.ndarray, scores: np.ndarray, bias: np.ndarray, room: np.ndarray) -> np.ndarray:
            """Who has a loss at scores that are off to the worse, or none that is a number."""
            with np.errstate(over="ignore", invalid="ignore"):
                return ~(sign[some] * (scores + bias[pair[some]]) - room >= 1)

        def risky(some: np.ndarray, bias: np.ndarray) -> np.ndarray:
            return losing(some, kept[some], bias, room[some])

        free = np.flatnonzero(dual == 0)
        needed = risky(free, bias)
        for chosen in (needed, np.ones(len(free), dtype=bool)):
            examples = np.sort(np.concatenate([held, free[chosen]]))
            rows = row[examples]
            others = np.unique(rows[place[rows] < 0])
            place[others] = np.arange(len(support), len(support) + len(others))
            scores, blurs = at_once(self.exact.scores(support, others, coef))
            score, blur = (values[place[rows], pair[examples]] for values in (scores, blurs))
            place[others] = -1
            off = errors(score, kept[examples])
            begin, cap = np.searchsorted(pair[examples], np.arange(len(trained) + 1)), self.cap[rows]
            told = _core.binary_certificates(begin, sign[examples], cap, dual[examples], score)
            if chosen.all():
                break
            if (
                np.all(np.abs(off) <= room[examples])
                and not risky(free[~chosen], np.array([one.bias for one in told])).any()
            ):
                break
        with np.errstate(over="ignore", invalid="ignore"):
            off = self.exact.lost(rows, sums[:, examples], off, blur)
        primal, bias = (np.array([getattr(one, name) for one in told]) for name in ("primal", "bias"))
        felt = (dual[examples] != 0) | losing(examples, score, bias, off)
        self.doubt[[one.pair for one in trained]] = doubts(off, cap, felt, pair[examples], primal)
        return told

    def _record(
        self, trained: _core.TrainedPair, told: _core.Round, counts: tuple[int, int, int], max_epochs: float
    ) -> PairRecord:
        p, gap = trained.pair, max(told.worst_gap, 0.0)
        self.primal[p], self.dual[p], self.gap[p], self.bias[p] = told.primal, told.dual, gap, told.bias
        left = told.violation if self.stopping == "violation" else gap + self.doubt[p]
        self.met[p] = left <= self.tol and self.doubt[p] <= ALLOWED * self.tol
        self.out_of_epochs |= not trained.converged and trained.visited >= max_epochs * self.size[p]
        return PairRecord(told.violation, trained.visited, "block", told.primal, told.dual, gap, *counts, p)

    def count(self, position: int, record: PairRecord) -> tuple[int, int]:
        """A machine has one record; the epochs are those of the machine with the most."""
        self.epochs = max(self.epochs, record.active_rows / max(1, int(self.size[record.pair])))
        return self.first + record.pair, self.n_passes + 1

    def exhausted(self, max_iter: int) -> bool:
        """Whether a pair used up ``max_iter`` epochs, when all have had theirs."""
        return self.done and self.out_of_epochs

    def conclude(self) -> tuple[float, float, float]:
        """Objectives of the last machine, taken as it is."""
        self.trained += self.core.abandon()
        self._certified(np.inf)
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

    def result(self, columns: slice) -> Result:
        """What came of all pairs."""
        pair, row, value = self.core.duals()
        return Result(
            row,
            pair + columns.start,
            value,
            self.bias,
            self.primal,
            self.dual,
            self.gap,
            self.doubt,
            self.converged,
            certified=True,
        )
