"""From scores to probabilities that never disagree with the scores on which class comes first.

Conventions: ``values`` has shape (n_samples, n_classes), or (n_samples,) for two classes, of which a positive value
means the second. With the margin to the top ``d_m = max_j s_j - s_m >= 0`` and the standard deviation ``sigma`` of the
scores of a row,

    p_m  is proportional to  exp(-(a d_m + b log(1 + d_m) + c d_m / (sigma + 0.1))),    a, b, c >= 0.

Each of the three grows with d_m, so that a row's classes keep their order. The first is a temperature; the second has
heavier tails, for rows far on the wrong side; the third judges a margin by how far apart the scores of its row are.
(a, b, c) minimise the log loss, which is convex in them. Only numpy is needed: models that merely predict use this.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from multimargin.problems.range import tiny_is_zero

N_PARAMETERS = 3
UNCALIBRATED = (1.0, 0.0, 0.0)  # the softmax of the scores, for want of rows to calibrate on

_SPREAD = 0.1  # in units of the margin: rows whose scores hardly differ stay undecided
_LARGEST_MARGIN = 1e150  # whose square is a number
_LARGEST_EXPONENT = 1e300
_MORE_THAN_HALF = np.nextafter(0.5, 1.0)
_CHUNK = 1 << 18  # values at a time
_RIDGE = 1e-7  # makes the minimum unique where the three measure the same
_NEWTON_STEPS = 100
_PRECISION = 1e-13  # of the loss, below which a step has nothing more to gain


@tiny_is_zero
def probabilities(values: np.ndarray, calibration: np.ndarray) -> np.ndarray:
    """Probabilities of the classes, whose arg max is that of the values.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_classes) or (n_samples,)
        Finite scores; for two classes one value a row, positive for the second.
    calibration : ndarray of shape (3,)
        What :func:`fit_calibration` found.

    Returns
    -------
    ndarray of shape (n_samples, n_classes)
        Rows sum to 1. For two classes the second has more than half exactly where the value is positive.
    """
    top, exponents = _exponents(values, calibration)
    shares = np.exp(exponents)
    shares /= shares.sum(axis=1, keepdims=True)
    if shares.shape[1] == 2:
        np.maximum(shares[:, 1], _MORE_THAN_HALF, out=shares[:, 1], where=top == 1)
    return _with_top_first(shares, top)


@tiny_is_zero
def log_probabilities(values: np.ndarray, calibration: np.ndarray) -> np.ndarray:
    """Logarithms of :func:`probabilities`, finite where those are too small for a float64."""
    top, exponents = _exponents(values, calibration)
    exponents -= np.log(np.exp(exponents).sum(axis=1, keepdims=True))
    return _with_top_first(exponents, top)


@tiny_is_zero
def fit_calibration(values: np.ndarray, y: np.ndarray, weight: np.ndarray, n_distinct: int) -> np.ndarray:
    """The three parameters that minimise the weighted log loss of scores on rows that the scores were not trained on.

    Parameters
    ----------
    values : ndarray of shape (n_samples, n_classes) or (n_samples,)
    y : ndarray of shape (n_samples,)
        Encoded classes.
    weight : ndarray of shape (n_samples,)
        A weight of 2 is the row twice; the scale does not matter.
    n_distinct : int
        How many rows there are, repeated ones counted once. As if one of ``n_distinct + 2`` rows were another class (as
        Platt does it), so that scores without a mistake do not become certainties.

    Returns
    -------
    ndarray of shape (3,)
    """
    loss = _LogLoss(_by_class(values), y, weight, 1.0 / (n_distinct + 2))
    return _minimise(loss) / loss.scale


# Scores and margins


def _by_class(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    return np.column_stack([np.zeros_like(values), values]) if values.ndim == 1 else values


def _measures(values: np.ndarray) -> Iterator[np.ndarray]:
    """What a, b and c are the factors of."""
    with np.errstate(over="ignore"):  # the difference of two large numbers
        margin = np.minimum(values.max(axis=1, keepdims=True) - values, _LARGEST_MARGIN)
    yield margin
    yield np.log1p(margin)
    yield margin / (margin.std(axis=1, keepdims=True) + _SPREAD)


def _exponents(values: np.ndarray, calibration: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The top class of every row, and the logarithms of all classes' shares relative to it."""
    calibration = np.asarray(calibration, dtype=np.float64)
    if calibration.shape != (N_PARAMETERS,) or not np.all(np.isfinite(calibration)) or np.any(calibration < 0):
        raise ValueError(f"calibration must be {N_PARAMETERS} finite numbers of at least 0, got {calibration!r}")
    values = _by_class(values)
    with np.errstate(over="ignore"):
        exponent = -sum(factor * measure for factor, measure in zip(calibration, _measures(values), strict=True))
    return values.argmax(axis=1), np.maximum(exponent, -_LARGEST_EXPONENT)


def _with_top_first(shares: np.ndarray, top: np.ndarray) -> np.ndarray:
    """Undo what rounding did: classes before the top one that came out equal to it would be taken for it."""
    lost = np.flatnonzero(shares.argmax(axis=1) != top)
    shares[lost, top[lost]] = np.nextafter(shares[lost].max(axis=1), np.inf)
    return shares


# The log loss and its minimum


class _LogLoss:
    """Mean weighted log loss with smoothed labels, plus a tiny ridge, of factors of measures of root mean square 1."""

    def __init__(self, values: np.ndarray, y: np.ndarray, weight: np.ndarray, smoothing: float):
        self.values, self.y = values, y
        self.weight = weight / weight.max()
        self.weight /= self.weight.sum()
        self.smoothing = smoothing
        self.scale = np.ones(N_PARAMETERS)
        squares = np.zeros(N_PARAMETERS)
        for _, _, weight, measures in self._chunks():
            squares += np.einsum("jim,jim,i->j", measures, measures, weight) / values.shape[1]
        self.scale = np.where(squares > 0, np.sqrt(squares), 1.0)

    def _chunks(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        step = max(1, _CHUNK // self.values.shape[1])
        for begin in range(0, len(self.y), step):
            rows = slice(begin, begin + step)
            measures = np.stack(list(_measures(self.values[rows]))) / self.scale[:, None, None]
            yield np.arange(measures.shape[1]), self.y[rows], self.weight[rows], measures

    def __call__(self, factors: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian."""
        value = 0.5 * _RIDGE * float(factors @ factors)
        gradient, hessian = _RIDGE * factors, _RIDGE * np.eye(N_PARAMETERS)
        for row, y, weight, measures in self._chunks():
            k = measures.shape[2]
            exponent = -np.tensordot(factors, measures, 1)
            share = np.exp(exponent)
            total = share.sum(axis=1)
            share /= total[:, None]
            target = np.full_like(share, self.smoothing / (k - 1))
            target[row, y] = 1.0 - self.smoothing
            value += float(weight @ (np.log(total) - (target * exponent).sum(axis=1)))
            gradient = gradient + np.einsum("jim,im,i->j", measures, target - share, weight)
            mean = np.einsum("jim,im->ji", measures, share)
            weighted = measures * (share * weight[:, None])
            hessian = hessian + np.einsum("jim,lim->jl", weighted, measures) - (mean * weight) @ mean.T
        return value, gradient, hessian


def _minimise(loss: _LogLoss) -> np.ndarray:
    """Newton steps over factors of at least zero, halved until they gain what they should."""
    factors = np.ones(N_PARAMETERS)
    value, gradient, hessian = loss(factors)
    for _ in range(_NEWTON_STEPS):
        step = _newton_step(factors, gradient, hessian)
        while (expected := float(gradient @ step)) < -_PRECISION * abs(value):
            following = loss(factors + step)
            if following[0] <= value + 1e-4 * expected:
                break
            step /= 2
        else:
            return factors + step  # too small to be seen in the loss, but not in the factors
        factors = factors + step
        value, gradient, hessian = following
    return factors


def _newton_step(factors: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    """The exact minimum of the quadratic model over factors of at least zero: the best of all sets of zeros."""
    best, lowest = np.zeros(N_PARAMETERS), 0.0
    for zeros in product([False, True], repeat=N_PARAMETERS):
        free = ~np.array(zeros)
        step = np.where(free, 0.0, -factors)
        right = -(gradient + hessian @ step)
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)], right[free])
        model = float(gradient @ step + 0.5 * step @ hessian @ step)
        if model < lowest and np.all(factors[free] + step[free] >= 0):
            best, lowest = step, model
    return best
