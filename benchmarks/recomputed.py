"""Both objectives of a fitted model from ``coef_``, ``intercept_`` and ``dual_coef_`` alone, in numbers of any kind.

Numbers are exact fractions (``fractions.Fraction``, in arrays of objects) or long doubles, whose exponents reach far
beyond those of float64. Nothing of the package is used but the model's attributes: the formulas are written again.

Conventions
-----------
part
    A problem with objectives of its own: a class of one_vs_rest, a pair of one_vs_one and dag, else the whole.
scale
    Two classes are one lane: the joint formulations are then half the binary machine at 2 C.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

JOINT = ("crammer_singer", "weston_watkins")


class Part(NamedTuple):
    """Rows of X, columns of the model, labels (classes or signs), caps, and what the objectives are multiplied by."""

    policy: str  # crammer_singer, weston_watkins or binary
    rows: np.ndarray
    columns: slice
    label: np.ndarray
    cap: Any
    scale: Any


class Objectives(NamedTuple):
    """Of every part; ``excess``: by how much duals leave their constraints, relative to their caps."""

    primal: list
    dual: list
    excess: float

    @property
    def gap(self) -> float:
        """Relative to the primal objective, of the sum over all parts."""
        primal = sum(self.primal)
        return float((primal - sum(self.dual)) / primal) if primal else 0.0

    @property
    def worst_gap(self) -> float:
        """The largest of any part."""
        pairs = zip(self.primal, self.dual, strict=True)
        return max(float((primal - dual) / primal) if primal else 0.0 for primal, dual in pairs)


def fractions(values: Any) -> np.ndarray:
    """Floats as they are, exactly."""
    values = np.asarray(values)
    return np.array([Fraction(float(v)) for v in values.ravel()], dtype=object).reshape(values.shape)


def long_doubles(values: Any) -> np.ndarray:
    """Floats with more digits and a far larger range."""
    return np.asarray(values).astype(np.longdouble)


def parts(formulation: str, y: np.ndarray, cap: Any) -> Iterator[Part]:
    """The problems of a formulation; y encoded."""
    k, every = int(y.max()) + 1, np.arange(len(y))
    if k == 2:
        joint = formulation in JOINT
        yield Part("binary", every, slice(0, 1), 2 * y - 1, cap * 2 if joint else cap, Fraction(1, 2) if joint else 1)
    elif formulation in JOINT:
        yield Part(formulation, every, slice(0, k), y, cap, 1)
    elif formulation == "one_vs_rest":
        for c in range(k):
            yield Part("binary", every, slice(c, c + 1), np.where(y == c, 1, -1), cap, 1)
    else:
        for machine, (i, j) in enumerate(itertools.combinations(range(k), 2)):
            rows = np.flatnonzero((y == i) | (y == j))
            yield Part("binary", rows, slice(machine, machine + 1), np.where(y[rows] == i, 1, -1), cap[rows], 1)


def loss(policy: str, squared: bool, scores: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Loss of every row at its scores."""
    zero = 0 * scores
    if policy == "binary":
        slack = np.maximum(1 - label[:, None] * scores, zero)
    else:
        every = np.arange(len(scores))
        margin = scores + 1 - scores[every, label][:, None]
        margin[every, label] = zero[:, 0]
        slack = margin.max(axis=1)[:, None] if policy == "crammer_singer" else np.maximum(margin, zero)
    return (slack * slack if squared else slack).sum(axis=1)


def dual_terms(policy: str, squared: bool, a: np.ndarray, label: np.ndarray, cap: Any) -> Any:
    """What f adds to half the squared norm of V: -a_y, or -z a, and for the squared hinge a^2 / (4 C)."""
    every = np.arange(len(a))
    if policy == "binary":
        linear, carries = (label[:, None] * a).sum(), a
    else:
        linear = a[every, label].sum()
        carries = a[every, label][:, None] if policy == "crammer_singer" else a.copy()
        if policy == "weston_watkins":
            carries[every, label] = 0 * a[:, 0]
    if not squared:
        return -linear
    held = cap > 0
    return -linear + ((carries * carries).sum(axis=1)[held] / (4 * cap[held])).sum()


def excess(policy: str, squared: bool, a: np.ndarray, label: np.ndarray, cap: Any) -> float:
    """How far duals are from their constraints at most, relative to the caps (squared: to the largest dual)."""
    every = np.arange(len(a))
    if policy == "binary":
        alpha, balance = label[:, None] * a, 0 * cap
        wrong, size = (-alpha).max(axis=1), alpha.max(axis=1)
    else:
        others = a.copy()
        others[every, label] = 0 * a[:, 0]
        own, wrong, balance = a[every, label], others.max(axis=1), abs(a.sum(axis=1))
        size = own if policy == "crammer_singer" else (-others).max(axis=1)
    unit = np.maximum(cap, abs(a).max(axis=1)) if squared else cap
    over = np.maximum(np.maximum(wrong, balance), 0 * cap if squared else size - cap)
    held = unit > 0
    free = over[~held].max() > 0 if not held.all() else False
    return np.inf if free else float((over[held] / unit[held]).max()) if held.any() else 0.0


def linear_objectives(model: Any, X: Any, y: np.ndarray, cap: np.ndarray, numbers: Callable) -> Objectives:
    """Of a LinearSVM on rows X (an array), classes y (encoded) and caps C_i."""
    W = np.asarray(model.coef_, dtype=np.float64)
    X, constant = np.asarray(X, dtype=np.float64), float(model.intercept_scaling)
    W, X = numbers(W), numbers(X)
    if model.fit_intercept:
        X = np.column_stack([X, numbers(np.full(len(X), constant))])
        W = np.column_stack([W, numbers(model.intercept_) / numbers(constant)[()]])
    a, cap = numbers(model.dual_coef_.toarray()), numbers(cap)
    # Rows with a squared norm so small that float64 has no inverse of it count with the loss that no weights change.
    empty = ((X * X).sum(axis=1)).astype(np.float64) <= 1e-290
    squared = model.loss == "squared_hinge"
    primal, dual, apart = [], [], 0.0
    for part in parts(model.formulation, y, cap):
        rows, own, w, scale = X[part.rows], a[part.rows, part.columns], W[part.columns], numbers(float(part.scale))[()]
        held = ~empty[part.rows] & (part.cap > 0)
        V = own[held].T @ rows[held]
        rest = loss(part.policy, squared, 0 * (rows[~held] @ w.T), part.label[~held])
        f = (V * V).sum() / 2 + dual_terms(part.policy, squared, own[held], part.label[held], part.cap[held])
        primal.append(
            scale * ((w * w).sum() / 2 + (part.cap * loss(part.policy, squared, rows @ w.T, part.label)).sum())
        )
        dual.append(scale * ((part.cap[~held] * rest).sum() + max(-f, 0 * f)))  # duals of zero are feasible, too
        apart = max(apart, excess(part.policy, squared, own[held], part.label[held], part.cap[held]))
    return Objectives(primal, dual, apart)


def kernel_objectives(model: Any, K: np.ndarray, y: np.ndarray, cap: np.ndarray, numbers: Callable) -> Objectives:
    """Of a KernelSVM whose training rows have the kernel values K (of any kind of numbers) with each other."""
    if model.fit_intercept and model.formulation in JOINT:
        K = K + numbers(float(model.intercept_scaling) ** 2)[()]
    a, cap, bias = numbers(model.dual_coef_.toarray()), numbers(cap), numbers(model.intercept_)
    if model.fit_intercept and model.formulation in JOINT:
        bias = 0 * bias  # it is in the scores
    primal, dual, apart = [], [], 0.0
    for part in parts(model.formulation, y, cap):
        own, scale = a[part.rows, part.columns], numbers(float(part.scale))[()]
        scores = K[np.ix_(part.rows, part.rows)] @ own
        norm = (own * scores).sum()
        with_bias = scores + bias[part.columns]
        primal.append(scale * (norm / 2 + (part.cap * loss(part.policy, False, with_bias, part.label)).sum()))
        f = norm / 2 + dual_terms(part.policy, False, own, part.label, part.cap)
        dual.append(scale * max(-f, 0 * f))
        apart = max(apart, excess(part.policy, False, own, part.label, part.cap))
        if model.fit_intercept and model.formulation not in JOINT:  # a free bias wants duals whose sum is zero
            apart = max(apart, float(abs(own.sum()) / abs(part.cap).sum()))
    return Objectives(primal, dual, apart)


def kernel_matrix(kernel: str, X: Any, gamma: float, degree: int, coef0: float) -> np.ndarray:
    """Kernel values in long doubles."""
    X = long_doubles(X.toarray() if sp.issparse(X) else X)
    if kernel == "rbf":
        apart = X[:, None, :] - X[None, :, :]
        return np.exp(-np.longdouble(gamma) * (apart * apart).sum(axis=2))
    products = X @ X.T
    if kernel == "linear":
        return products
    inner = np.longdouble(gamma) * products + np.longdouble(coef0)
    return inner**degree if kernel == "poly" else np.tanh(inner)
