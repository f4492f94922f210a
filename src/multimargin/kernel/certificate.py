"""Certificates of kernel machines: their scores computed anew in float64, and what the core makes of them.

A machine adds up what its steps do to the scores of its examples, with kernel values that may be float32, and its
objectives are as good as these sums. So a machine that has met its target is certified by scores that owe nothing to
them, but come from the duals alone. Rounds in float32, certified in float64: as linear machines do it.

Not all examples are needed. One without duals adds nothing but its loss, and that is zero, whatever rounding did, if it
is zero even with scores that are all worse by ``room``, at the bias that the certificate chose. Room is a bound of what
rounding can do to a score: of row i, by the duals a_j of a lane,

    eps (c sum_j |a_j| B_ij + max|K_ij| t)

- rounding of x_i, x_j and of their product changes K_ij by c eps B_ij at most. With n non-zeros in a row c is 4 + n/2,
  as each of n sums may be off by eps/2; for rbf 16 more, as distances below 16 eps (|x_i|^2 + |x_j|^2) count as none;
  for poly times the degree
- B_ij is b_i b_j with b^2 = |x|^2, (gamma |x|^2 + |coef0|)^degree, gamma |x|^2 + |coef0| + 1 of linear, poly and
  sigmoid, by Cauchy and Schwarz; gamma (|x_i|^2 + |x_j|^2) + 1 of rbf, whose exponent is what is rounded
- t is how far the duals of the lane have gone, times what their products and sums add (kernel_machine.hpp)

Of kernels that somebody else computes no such bound is known, nor of machines that do not count t: all their examples
are computed. So they are if a score that was computed is off by more than its room.
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
from multimargin.problems.range import SMALLEST_OBJECTIVE

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
EPS64 = float(np.finfo(np.float64).eps)
_BLURRED = 1e-3  # of a kernel value: where rounding may change one by more, that is looked at for every pair
ALLOWED = 0.25  # of tol, for what rounding in float64 may have changed in an objective
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
    eps : float
        Rounding of the machines' kernel values.
    """

    def __init__(self, kernel: Kernel, X: Any, rows: np.ndarray, bias: float, diagonal: np.ndarray, *, eps: float):
        self.kernel, self.X, self.rows, self.bias, self.eps = kernel, X, rows, bias, eps
        self.foreign = kernel.name in ("precomputed", "callable")
        with np.errstate(over="ignore", invalid="ignore"):  # where a size is no number, all rows are computed
            self.all_rows = None if kernel.name == "precomputed" else _Rows(kernel, X, rows)
            norms = np.zeros(len(rows)) if self.all_rows is None else self.all_rows.norms
            self.size = np.sqrt(np.abs(diagonal)) if self.foreign else _sizes(kernel, norms, bias)
            lost = 2 * SAME_ROW * kernel.gamma * norms.max(initial=0.0) if kernel.name == "rbf" else 0.0
        # Where float64 may take rows for equal that are not, too: which ones are.
        self.kinds = None if lost * EPS64 <= _BLURRED else _kinds(X[rows])
        self.units = _units(kernel, X)
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
    ) -> Generator[None, None, tuple[np.ndarray, np.ndarray]]:
        """Scores of the support rows, which have these duals (array or CSR), and of others, in slabs of about 50 ms;
        and how much of them float64 does not know, as rows are too near to each other."""
        n, rows = len(support), np.concatenate([support, others])
        by = self._prepared(support)
        out = np.tile(self.bias * np.asarray(duals.sum(axis=0)).ravel(), (len(rows), 1))
        blur = np.zeros(out.shape if self.kinds is not None else (1, 1))
        begin, work = 0, 0.0
        while n and begin < len(rows):
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite proves nothing, and says so
                if begin < n and not self.foreign:  # values of support rows with each other are computed once
                    end = min(n, begin + _ROWS_AT_ONCE, begin + self._rows_at_once(n - begin))
                    some = self._values([part[begin:end] for part in by], [part[begin:] for part in by])
                    out[begin:end] += some @ duals[begin:]
                    out[end:n] += some[:, end - begin :].T @ duals[begin:end]
                else:
                    end = min(len(rows), begin + self._rows_at_once(n))
                    some = self._values(self._prepared(rows[begin:end]), by)
                    out[begin:end] += some @ duals
                if self.kinds is not None:
                    blur[begin:end] = self._blurred(rows[begin:end], support, by) @ abs(duals)
            work += self.cost * some.size
            begin = end
            if work > _WORK_OF_SLAB:
                work = 0.0
                yield
        return out, np.broadcast_to(blur, out.shape)

    def _rows_at_once(self, columns: int) -> int:
        values = min(_VALUES_AT_ONCE, int(_WORK_OF_SLAB / self.cost))
        return max(1, min(values // columns, max(_ROWS_AT_ONCE, _WORTH_A_CALL // columns)))

    def _prepared(self, rows: np.ndarray) -> tuple[Any, np.ndarray]:
        """Rows of the store: vectors and squared norms; precomputed: which they are."""
        return (self.rows[rows], rows) if self.all_rows is None else self.all_rows.of(rows)

    def _values(self, some: Sequence[Any], by: Sequence[Any]) -> np.ndarray:
        """Kernel values of rows that are prepared with others."""
        if self.all_rows is None:
            return _float64(self.X[np.ix_(some[0], by[0])])
        (vectors, norms), (others, their_norms) = some, by
        return _float64(self.kernel.block(vectors, others, norms, their_norms))

    def _blurred(self, some: np.ndarray, support: np.ndarray, by: Sequence[Any]) -> np.ndarray:
        """By how much kernel values of some rows with support rows may be off, as rounding hides how near they are; not
        of rows that are equal."""
        assert self.kinds is not None
        vectors, norms = self._prepared(some)
        squares = np.add.outer(norms, by[1])
        lost = SAME_ROW * EPS64 * squares
        at_least = self.kernel.gamma * (squares - 2 * products(vectors, by[0]) - lost)
        off = np.minimum(2 * self.kernel.gamma * lost, 1.0) * np.exp(-np.maximum(at_least, 0.0))
        return np.where(self.kinds[some][:, None] == self.kinds[support], 0.0, off)

    def sums(self, support: np.ndarray, duals: Any) -> np.ndarray:
        """sum |a_j| and sum |a_j| b_j of every column of duals."""
        absolute = abs(duals)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.stack([np.asarray(absolute.sum(axis=0)).ravel(), absolute.T @ self.size[support]])

    def magnitude(self, rows: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """sum_j |a_j| B_ij of rows, each by the duals that have such sums."""
        with np.errstate(over="ignore", invalid="ignore"):
            if self.kernel.name == "rbf":
                return self.size[rows] * sums[0] + sums[1]
            return self.size[rows] * sums[1]

    def lost(self, rows: np.ndarray, sums: np.ndarray, off: np.ndarray, blur: np.ndarray) -> np.ndarray:
        """By how much scores computed anew may be off, if kept ones are by ``off``: by a unit of rounding at least, as
        both may be off alike. Beside float32, of which ``off`` says little, it is the whole bound: if that is too much,
        float64 goes on."""
        magnitude = self.magnitude(rows, sums) if self.kinds is None else (1 + self.bias) * sums[0]
        units = 1.0 if self.eps == EPS64 else self.units
        return np.maximum(EPS64 / self.eps * np.abs(off), EPS64 * units * magnitude) + blur

    def room(self, rows: np.ndarray, sums: np.ndarray, travelled: np.ndarray | float) -> np.ndarray:
        """By how much kept scores of rows may be off. What is no number is no bound."""
        if self.foreign:
            return np.full(len(rows), np.inf)
        with np.errstate(over="ignore", invalid="ignore"):
            largest = 1 + self.bias if self.kernel.name == "rbf" else self.size[rows] * self.size.max(initial=0.0)
            room = self.eps * (self.units * self.magnitude(rows, sums) + largest * travelled)
        return np.where(np.isnan(room), np.inf, room)


def _sizes(kernel: Kernel, norms: np.ndarray, bias: float) -> np.ndarray:
    """b of rows, of which B_ij is the product (rbf: the sum), with the bias of every kernel value; from |x|^2."""
    if kernel.name == "rbf":
        return kernel.gamma * norms + 0.5 * (1 + bias)
    if kernel.name in ("poly", "sigmoid"):
        norms = kernel.gamma * norms + abs(kernel.coef0)
    own = {"poly": norms**kernel.degree, "sigmoid": norms + 1}.get(kernel.name, norms)
    return np.sqrt(own + bias)


def _units(kernel: Kernel, X: Any) -> float:
    """c: units of rounding in a kernel value."""
    n = int(np.diff(X.indptr).max(initial=0)) if sp.issparse(X) else X.shape[1]
    units = 4 + n / 2 + (SAME_ROW if kernel.name == "rbf" else 0)
    return units * kernel.degree if kernel.name == "poly" else units


def _kinds(X: Any) -> np.ndarray:
    """A number for each row, which rows that are equal share."""
    if sp.issparse(X):
        rows = [slice(begin, end) for begin, end in pairwise(X.indptr)]
        keys: list[Any] = [(X.indices[row].tobytes(), (X.data[row] + 0.0).tobytes()) for row in rows]
    else:
        keys = [(row + 0.0).tobytes() for row in X]  # -0 is 0
    seen: dict[Any, int] = {}
    return np.array([seen.setdefault(key, len(seen)) for key in keys])


class _Rows:
    """Rows of the store as they enter products, in float64, and their squared norms; for rbf moved by their mean (see
    Kernel.block). They are prepared once where that takes little memory, else when they are asked for."""

    def __init__(self, kernel: Kernel, X: Any, rows: np.ndarray):
        self.X, self.rows, self.vectors = X, rows, None
        self.shift: Any = 0.0
        if kernel.name == "rbf" and not sp.issparse(X) and len(rows):
            self.shift = mean_row(X if len(rows) == len(X) else X[rows])
        pieces = np.array_split(np.arange(len(rows)), 1 + X.size // _PREPARED)
        if len(pieces) == 1:
            self.vectors = self._taken(pieces[0])
        self.norms = np.concatenate([squared_norms(self._taken(some)) for some in pieces])

    def _taken(self, which: np.ndarray) -> Any:
        if self.vectors is not None:
            return self.vectors[which]
        taken = _float64(self.X[self.rows[which]])
        return taken if sp.issparse(taken) else taken - self.shift

    def of(self, which: np.ndarray) -> tuple[Any, np.ndarray]:
        """Vectors and squared norms of some of them."""
        return self._taken(which), self.norms[which]


def _float64(values: Any) -> Any:
    return values.astype(np.float64, copy=False)


def at_risk(policy: str, label: np.ndarray, cap: np.ndarray, scores: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Examples with a loss at scores that are all off by ``room``, to the worse."""
    worse = scores + room[:, None]
    own = np.flatnonzero(label >= 0)
    worse[own, label[own]] -= 2 * room[own]
    _, violation = _core.lane_certificate(policy, label, cap, np.zeros_like(worse), worse)
    return (violation > 0) | ~np.isfinite(worse).all(axis=1)  # of duals of zero: where there is a loss, or no number


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

    def certificate(
        self, core: _core.KernelMachine, bias: float, most_work: float = np.inf
    ) -> Generator[None, None, Certificate | None]:
        """The certificate of a machine as it is, in slabs of about 50 ms; None if it would take more work than that."""
        duals = core.duals()
        held = np.asarray(duals.any(axis=1))
        support, free = np.flatnonzero(held), np.flatnonzero(~held)
        coef = duals[support]
        if np.count_nonzero(coef) < _SPARSE_DUALS * coef.size:
            coef = sp.csr_array(coef)
        sums = self.exact.sums(self.rows[support], coef).max(axis=1)  # more than those of any lane
        room = self.exact.room(self.rows, sums, core.travelled)
        needed = self._at_risk(core, free, bias, room)
        for chosen in (needed, np.ones(len(free), dtype=bool)):
            others = free[chosen]
            if self.exact.work(len(support), len(others)) > most_work:
                return None
            scores, blur = yield from self.exact.scores(self.rows[support], self.rows[others], coef)
            examples = np.concatenate([support, others])
            off = errors(scores, core.scores(examples))
            told = self._told(examples, duals[examples], scores)
            if chosen.all():
                break
            safe = bool(np.all(np.abs(off) <= room[examples, None]))
            if safe and (told.bias == bias or not self._at_risk(core, free[~chosen], told.bias, room).any()):
                break
        cap = self.cap[examples]
        off, blur = (np.abs(values).max(axis=1, initial=0.0) for values in (off, blur))
        machine, primal = np.zeros(len(off), dtype=np.int64), np.array([told.primal])
        with np.errstate(over="ignore", invalid="ignore"):  # as above
            off = self.exact.lost(self.rows[examples], sums, off, blur)
            near = at_risk(self.policy, self.label[examples], cap, scores + told.bias, off)
        return Certificate(told, float(doubts(off, cap, held[examples] | near, machine, primal)[0]))

    def of_kept_scores(self, core: _core.KernelMachine) -> _core.Round:
        """What the core says of a machine's own scores: no certificate, but of its duals as they are."""
        everyone = np.arange(len(self.cap))
        return self._told(everyone, core.duals(), core.scores(everyone))

    def _told(self, examples: np.ndarray, duals: np.ndarray, scores: np.ndarray) -> _core.Round:
        label, cap = self.label[examples], self.cap[examples]
        if not self.free_bias:
            return _core.lane_certificate(self.policy, label, cap, duals, scores)[0]
        begin, sign = np.array([0, len(examples)]), np.where(label == 0, 1, -1).astype(np.int32)
        return _core.binary_certificates(begin, sign, cap, duals.ravel(), scores.ravel())[0]

    def _at_risk(self, core: _core.KernelMachine, examples: np.ndarray, bias: float, room: np.ndarray) -> np.ndarray:
        n, step = len(examples), max(1, _SCORES_AT_ONCE // core.lanes)
        some = [examples[begin : begin + step] for begin in range(0, n, step)]
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


def errors(scores: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """By how much kept scores are off, as far as that has a square."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.clip(scores - kept, -_LARGEST, _LARGEST)


def doubts(off: np.ndarray, cap: np.ndarray, felt: np.ndarray, machine: np.ndarray, primal: np.ndarray) -> np.ndarray:
    """How far objectives of machines may be off, relative, if scores of their examples are by ``off``: the root of the
    mean of its squares (weighted by C_i, too, if that is more) times the sum of the caps where it is felt: where there
    are duals, or a loss at worse scores. 1 is anything."""

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(machine, values, len(primal))

    with np.errstate(all="ignore"):
        even = total(np.square(off)) / np.maximum(total(np.ones(len(off))), 1)
        weighted = total(cap * np.square(off)) / np.maximum(total(cap), SMALLEST_OBJECTIVE)
        by = np.sqrt(np.maximum(even, weighted)) * total(np.where(felt, cap, 0.0)) / np.abs(primal)
        return np.where(even == 0, 0.0, np.where(by <= 1.0, by, 1.0))
