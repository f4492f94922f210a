"""Certificates of kernel machines: their scores computed anew in float64, and what the core makes of them.

A machine adds up what its steps do to the scores of its examples, with kernel values that may be float32, and its
objectives are as good as these sums. So a machine that has met its target is certified by scores that owe nothing to
them, but come from the duals alone. Rounds in float32, certified in float64: as linear machines do it.

Not all examples are needed. One without duals adds nothing but its loss, and that is zero, whatever rounding did, if it
is zero even with scores that are all off by ``_ROOM`` to the worse, at the bias that the certificate chose. That is far
more than float32's errors are. They grow with the length of a row (``rbf``: with its squared distance from the mean),
and so does the room of rows that are longer than the others. And it is not taken on trust: some rows, the longest among
them, are always computed, and if the largest error seen is not ``_SAFE`` times smaller, all examples are. With few
examples they are anyway.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp

from multimargin import _core
from multimargin.kernel.functions import SAME_ROW, Kernel, mean_row, products, squared_norms

_ROOM = 0.01  # of a margin of 1
_SAFE = 8.0
# Rows that are always computed: all of so few, else a share of them and so many of the longest.
_FEW_ROWS, _SHARE, _LONGEST = 2048, 1 / 32, 128
_WORK_OF_SLAB = 1e9  # multiply-adds of a matrix product, about 50 ms
_VALUES_AT_ONCE = 1 << 18  # that stay in cache
_ROWS_AT_ONCE, _WORTH_A_CALL = 128, 1 << 15  # rows, or values where that is more rows
_PREPARED = 1 << 22  # values of X that are held in float64
_SPARSE_DUALS = 0.06  # share of non-zeros below which they are faster as sparse ones
_OF_VALUE = 100.0  # of a kernel value beside the product, in multiply-adds
_OF_SPARSE = 20.0  # of a multiply-add with sparse rows
_OF_CALL = 1e5  # of a value that somebody's function computes, in Python perhaps
_SCORES_AT_ONCE = 1 << 20
# Of tol: what machines aim at. Errors of the scores add to the gap (float32's up to a tenth of 1e-3 on real data), and
# the last rounds cost less than a second certificate.
AIM = 0.9
_EPS64 = float(np.finfo(np.float64).eps)
_BLURRED = 1e-3  # by which rounding changes the logarithm of a kernel value that is not known any more
_NOTHING = 35.0  # of which exp(-x) is less than rounding
ALLOWED = 0.25  # of tol, for what rounding in float64 may have changed in an objective
FLOAT64 = 2.0**-29  # rounding there, beside that of float32
_LARGEST = 1e150

Made = TypeVar("Made")


class ExactScores:
    """Scores in float64 of rows of a store, by duals of other rows.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray or CSR
        Training rows; precomputed: their kernel values.
    rows : ndarray of int64
        Which of them are in the store, in its order.
    bias : float
        Added to every kernel value.
    diagonal : ndarray
        K(x, x) of the rows of the store.
    largest_cap, eps : float
        Of the machines: the largest C_i, and the rounding of their kernel values.
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Any,
        rows: np.ndarray,
        bias: float,
        diagonal: np.ndarray,
        *,
        largest_cap: float,
        eps: float,
    ):
        self.kernel, self.X, self.rows, self.bias = kernel, X, rows, bias
        self.foreign = kernel.name in ("precomputed", "callable")
        with np.errstate(over="ignore", invalid="ignore"):  # where that is no number, all rows are computed
            self.all_rows = None if kernel.name == "precomputed" else _Rows(kernel, X, rows)
            # The squared length of a row, as far as errors of its scores grow with it.
            size = np.abs(diagonal) if self.all_rows is None or kernel.name != "rbf" else self.all_rows.norms
            longer = np.maximum(size / max(float(size.mean()) if len(size) else 0.0, 1e-300), 1.0)
        self.unit = longer if kernel.name == "rbf" else np.sqrt(longer)
        with np.errstate(over="ignore"):  # of what may be lost in a distance, in units of rounding
            lost = 2 * SAME_ROW * kernel.gamma * size.max(initial=0.0) if kernel.name == "rbf" else 0.0
            self.always = _always_computed(size, largest_cap * eps * lost)
            # Where float64 may take rows for equal that are not, too: which ones are.
            self.kinds = None if lost * _EPS64 <= _BLURRED else _kinds(X[rows])
        of_product = 0.0 if kernel.name == "precomputed" else float(X.shape[1])
        if sp.issparse(X):
            of_product = _OF_SPARSE * X.nnz / max(1, X.shape[0])
        # Of a kernel value, in multiply-adds of a matrix product.
        self.cost = _OF_CALL if kernel.name == "callable" else of_product + _OF_VALUE

    def work(self, n_support: int, n_others: int) -> float:
        """What scores cost, in multiply-adds of a matrix product."""
        return self.cost * n_support * ((1.0 if self.foreign else 0.5) * n_support + n_others)

    def scores(
        self, support: np.ndarray, others: np.ndarray, duals: Any
    ) -> Generator[None, None, tuple[np.ndarray, bool]]:
        """Scores of the support rows, which have these duals (array or CSR), and of others, in slabs of about 50 ms;
        and whether float64 does not know some of the kernel values."""
        n, rows = len(support), np.concatenate([support, others])
        by = self._prepared(support)
        out = np.tile(self.bias * np.asarray(duals.sum(axis=0)).ravel(), (len(rows), 1))
        begin, work, blurred = 0, 0.0, False
        while n and begin < len(rows):
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite proves nothing, and says so
                if begin < n and not self.foreign:  # values of support rows with each other are computed once
                    end = min(n, begin + _ROWS_AT_ONCE, begin + _rows_at_once(n - begin))
                    some = self._values([part[begin:end] for part in by], [part[begin:] for part in by])
                    out[begin:end] += some @ duals[begin:]
                    out[end:n] += some[:, end - begin :].T @ duals[begin:end]
                else:
                    end = min(len(rows), begin + _rows_at_once(n))
                    some = self._values(self._prepared(rows[begin:end]), by)
                    out[begin:end] += some @ duals
                blurred = blurred or self._blurred(rows[begin:end], support, by)
            work += self.cost * some.size
            begin = end
            if work > _WORK_OF_SLAB:
                work = 0.0
                yield
        return out, blurred

    def _prepared(self, rows: np.ndarray) -> tuple[Any, np.ndarray]:
        """Rows of the store: vectors and squared norms; precomputed: which they are."""
        return (self.rows[rows], rows) if self.all_rows is None else self.all_rows.of(rows)

    def _values(self, some: Sequence[Any], by: Sequence[Any]) -> np.ndarray:
        """Kernel values of rows that are prepared with others."""
        if self.all_rows is None:
            return _float64(self.X[np.ix_(some[0], by[0])])
        (vectors, norms), (others, their_norms) = some, by
        return _float64(self.kernel.block(vectors, others, norms, their_norms))

    def _blurred(self, some: np.ndarray, support: np.ndarray, by: Sequence[Any]) -> bool:
        """Whether rounding in float64 hides how near some rows are to support rows that are not equal to them."""
        if self.kinds is None:
            return False
        vectors, norms = self._prepared(some)
        squares = np.add.outer(norms, by[1])
        lost = SAME_ROW * _EPS64 * squares
        at_least = squares - 2 * products(vectors, by[0]) - lost
        unknown = (self.kernel.gamma * lost > _BLURRED) & ~(self.kernel.gamma * at_least >= _NOTHING)
        return bool(np.any(unknown & (self.kinds[some][:, None] != self.kinds[support])))

    def room(self, rows: np.ndarray) -> np.ndarray:
        """By how much scores may be off before a loss is overlooked."""
        return _ROOM * self.unit[rows]

    def safe(self, rows: np.ndarray, off: np.ndarray) -> bool:
        """Whether scores that are off by so much, rows x lanes, are far from overlooking one."""
        return bool(np.all(_SAFE * np.abs(off) <= self.room(rows)[:, None]))


def _kinds(X: Any) -> np.ndarray:
    """A number for each row, which rows that are equal share."""
    if sp.issparse(X):
        rows = [slice(begin, end) for begin, end in pairwise(X.indptr)]
        keys: list[Any] = [(X.indices[row].tobytes(), (X.data[row] + 0.0).tobytes()) for row in rows]
    else:
        keys = [(row + 0.0).tobytes() for row in X]  # -0 is 0
    seen: dict[Any, int] = {}
    return np.array([seen.setdefault(key, len(seen)) for key in keys])


def _always_computed(size: np.ndarray, same: float) -> np.ndarray:
    """Which rows are not left out, whatever their scores say; ``same``: by how much those of a row can be off that is
    taken for equal to another one."""
    n = len(size)
    if n <= _FEW_ROWS or not same <= _ROOM:
        return np.ones(n, dtype=bool)
    always = np.random.RandomState(0).random_sample(n) < _SHARE
    always[np.argpartition(size, -_LONGEST)[-_LONGEST:]] = True
    return always


class _Rows:
    """Rows of the store as they enter products, in float64; for rbf moved by their mean (see Kernel.block), and with
    squared norms, which others do not need. They are prepared once where that takes little memory, else when they are
    asked for."""

    def __init__(self, kernel: Kernel, X: Any, rows: np.ndarray):
        self.X, self.rows, self.vectors = X, rows, None
        self.shift: Any = 0.0
        self.norms = np.zeros(len(rows))
        if kernel.name == "rbf" and not sp.issparse(X) and len(rows):
            self.shift = mean_row(X if len(rows) == len(X) else X[rows])
        pieces = np.array_split(np.arange(len(rows)), 1 + X.size // _PREPARED)
        if len(pieces) == 1:
            self.vectors = self._taken(pieces[0])
        if kernel.name == "rbf":
            self.norms = np.concatenate([squared_norms(self._taken(some)) for some in pieces])

    def _taken(self, which: np.ndarray) -> Any:
        if self.vectors is not None:
            return self.vectors[which]
        taken = _float64(self.X[self.rows[which]])
        return taken if sp.issparse(taken) else taken - self.shift

    def of(self, which: np.ndarray) -> tuple[Any, np.ndarray]:
        """Vectors and squared norms of some of them."""
        return self._taken(which), self.norms[which]


def _rows_at_once(columns: int) -> int:
    return max(1, min(_VALUES_AT_ONCE // columns, max(_ROWS_AT_ONCE, _WORTH_A_CALL // columns)))


def _float64(values: Any) -> Any:
    return values.astype(np.float64, copy=False)


def at_risk(policy: str, label: np.ndarray, cap: np.ndarray, scores: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Examples with a loss at scores that are all off by ``room``, to the worse."""
    worse = scores + room[:, None]
    own = np.flatnonzero(label >= 0)
    worse[own, label[own]] -= 2 * room[own]
    _, violation = _core.lane_certificate(policy, label, cap, np.zeros_like(worse), worse)
    return (violation > 0) | ~np.isfinite(scores).all(axis=1)  # of duals of zero: where there is a loss, or no number


class Certificate(NamedTuple):
    """What the core says of scores computed anew; by how much rounding in float64 may have changed the objectives,
    relative."""

    told: _core.Round
    doubt: float


@dataclass
class Certifier:
    """What a machine's certificate is about: lanes of its examples (-1: none), caps, rows of the store."""

    exact: ExactScores
    policy: str
    label: np.ndarray
    cap: np.ndarray
    free_bias: bool
    rows: np.ndarray
    rounding: float  # of float64, beside that of the machine: FLOAT64 or 1

    def certificate(
        self, core: _core.KernelMachine, bias: float, most_work: float = np.inf
    ) -> Generator[None, None, Certificate | None]:
        """The certificate of a machine as it is, in slabs of about 50 ms; None if it would take more work than that."""
        duals = core.duals()
        held = duals.any(axis=1)
        support, free = np.flatnonzero(held), np.flatnonzero(~held)
        coef = duals[support]
        if np.count_nonzero(coef) < _SPARSE_DUALS * coef.size:
            coef = sp.csr_array(coef)
        needed = self.exact.always[self.rows[free]] | self._at_risk(core, free, bias)
        for chosen in (needed, np.ones(len(free), dtype=bool)):
            others = free[chosen]
            if self.exact.work(len(support), len(others)) > most_work:
                return None
            scores, blurred = yield from self.exact.scores(self.rows[support], self.rows[others], coef)
            examples = np.concatenate([support, others])
            off = errors(scores, core.scores(examples))
            label, cap, dual = self.label[examples], self.cap[examples], duals[examples]
            if self.free_bias:
                everyone = np.array([0, len(examples)])
                (told,) = _core.binary_certificates(everyone, signs(label), cap, dual.ravel(), scores.ravel())
            else:
                told, _ = _core.lane_certificate(self.policy, label, cap, dual, scores)
            safe = chosen.all() or self.exact.safe(self.rows[examples], off)
            if safe and (told.bias == bias or not self._at_risk(core, free[~chosen], told.bias).any()):
                break
        with np.errstate(over="ignore"):
            squared = np.average(np.square(off), axis=0, weights=cap).max() if len(off) else 0.0
        off_by = self.rounding * float(doubt(squared, self.cap[support].sum(), told.primal))
        return Certificate(told, 1.0 if blurred else off_by)

    def _at_risk(self, core: _core.KernelMachine, examples: np.ndarray, bias: float) -> np.ndarray:
        n, step = len(examples), max(1, _SCORES_AT_ONCE // core.lanes)
        some = [examples[begin : begin + step] for begin in range(0, n, step)]
        room = self.exact.room(self.rows)
        with np.errstate(over="ignore", invalid="ignore"):  # who has no number is at risk
            given = ((self.label[i], self.cap[i], core.scores(i) + bias, room[i]) for i in some)
            return np.concatenate([np.zeros(0, dtype=bool), *(at_risk(self.policy, *one) for one in given)])


def at_once(slabs: Generator[None, None, Made]) -> Made:
    """All slabs, and what comes of them."""
    while True:
        try:
            next(slabs)
        except StopIteration as end:
            return end.value


def signs(label: np.ndarray) -> np.ndarray:
    """Of binary machines, whose one lane is that of the label 0."""
    return np.where(label == 0, 1, -1).astype(np.int32)


def errors(scores: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """By how much kept scores are off, as far as that has a square."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.clip(scores - kept, -_LARGEST, _LARGEST)


def doubt(squared: Any, felt: Any, primal: Any) -> Any:
    """How far objectives may be off, relative, if squares of errors of the scores are so much in the mean, weighted by
    C_i: |sum C_i error_i| is at most its root times ``felt``, the sum of the caps of rows with duals. 1 is anything."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        off = np.sqrt(squared) * felt
        return np.minimum(np.divide(off, np.abs(primal), out=np.zeros_like(off), where=off > 0), 1.0)
