"""Certificates of linear machines against exact fractions, where C makes much of the roundings of float64."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from multimargin import LinearSVM


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins"])
@pytest.mark.parametrize("seed", range(12))
def test_certificates_at_a_huge_C_promise_no_more_than_is_true(formulation, squared, seed):
    rng, sums = np.random.default_rng(seed), formulation == "weston_watkins"
    y = np.array([0, 1, 2, *rng.integers(0, 3, seed % 5)])
    X = np.round(rng.normal(size=(len(y), 3)), 1) + 6 * np.eye(3)[y] * (seed % 4 > 0)
    C = 10.0 ** (9 + 2 * seed)
    model = LinearSVM(formulation, "squared_hinge" if squared else "hinge", C, fit_intercept=False, max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(random_state=0).fit(X, y)

    def fractions(values):
        return np.frompyfunc(Fraction, 1, 1)(np.asarray(values, dtype=np.float64))

    W, rows, duals = fractions(model.coef_), fractions(X), fractions(model.dual_coef_.toarray())
    scores = rows @ W.T
    own = scores[np.arange(len(y)), y]
    slack = [
        [max(Fraction(0), 1 - s_y + s[m]) for m in range(3) if m != c] for s, s_y, c in zip(scores, own, y, strict=True)
    ]
    losses = [sum(xi**2 if squared else xi for xi in (each if sums else [max(each)])) for each in slack]
    primal = (W**2).sum() / 2 + Fraction(C) * sum(losses)
    of_label = duals[np.arange(len(y)), y]
    squares = (duals**2).sum(axis=1) - of_label**2 if sums else of_label**2
    dual = of_label.sum() - ((duals.T @ rows) ** 2).sum() / 2 - (squares.sum() / (4 * Fraction(C)) if squared else 0)
    assert model.primal_objective_ >= primal * (1 - Fraction(1, 10**12))
    assert model.dual_gap_ >= float((primal - max(dual, 0)) / primal) - 1e-9  # duals of zero are feasible, too


def test_roundings_of_equal_features_add_up():
    """100,000 of them: the margin of the second row is 1 in float64, and 1e-12 less in truth."""
    C, X = 2.1e14, np.full((3, 100_000), 0.08697722634388531)
    X[0] *= -1
    X[2] *= 1.2
    model = LinearSVM("one_vs_rest", C=C, fit_intercept=False, max_iter=300, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, [0, 1, 1])
    w = model.coef_[0].astype(np.longdouble)
    slack = np.maximum(0, 1 - np.array([-1, 1, 1]) * (X.astype(np.longdouble) @ w))
    assert model.primal_objective_ >= 0.5 * (w @ w) + C * slack.sum()


@pytest.mark.parametrize("offset", [1e4, 4240386.25])
def test_roundings_of_equal_rows_add_up(offset):
    """In the order of their classes, so that sums grow to 1e15 before they fall again."""
    C, n = 8008.05, 200_000
    y = np.repeat([0, 1], n // 2)
    sign = 2.0 * y - 1
    X = np.column_stack([np.full(n, offset), np.where(np.random.default_rng(1).random(n) < 0.6, sign, -sign)])
    model = LinearSVM("one_vs_rest", C=C, fit_intercept=False, random_state=0, max_iter=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    rows, w, a = (v.astype(np.longdouble) for v in (X, model.coef_[0], model.dual_coef_.toarray()[:, 0]))
    v = rows.T @ a
    primal = 0.5 * (w @ w) + C * np.maximum(0, 1 - sign * (rows @ w)).sum()
    gap = 1 - max(np.abs(a).sum() - 0.5 * (v @ v), 0) / primal
    assert model.dual_gap_ >= float(gap) - 1e-6
