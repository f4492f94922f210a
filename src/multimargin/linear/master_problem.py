"""The small quadratic program of the cutting-plane method, by SciPy's non-negative least squares.

    max  b.lambda - 1/2 lambda' G lambda,   lambda >= 0,   sum lambda <= 1

With a variable for the slack of the sum, which has neither curvature nor offset, the sum is 1, and with G = R'R the
method of multipliers (Hestenes 1969) makes of it the least squares problems, for the multiplier xi of the sum,

    min  1/2 ||R lambda - R^-T b||^2 + 1/2 (rho sum lambda - (rho - xi / rho))^2,   lambda >= 0,
    xi <- xi + rho^2 (sum lambda - 1).

A large rho needs two of them or three. xi is the value of the cuts' maximum at the solution.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

_PENALTY = 1e3  # rho^2, in units of the largest entry of G
_DAMPING = 1e-14  # of G, in the same units: cuts may depend on one another
_SUM = 1e-10  # by which the sum may miss 1; what remains is scaled away
_ROUNDS = 20


def solve_master(gram: np.ndarray, offset: np.ndarray, slack: float = 0.0) -> tuple[np.ndarray, float]:
    """lambda, feasible to the last digit, and xi; ``slack`` is a guess of xi."""
    damping = _DAMPING
    while True:
        try:
            return _solve(gram, offset, slack, damping)
        except (np.linalg.LinAlgError, RuntimeError):  # Cholesky found no root, or least squares ran in circles
            damping *= 100


def _solve(gram: np.ndarray, offset: np.ndarray, slack: float, damping: float) -> tuple[np.ndarray, float]:
    n = len(offset)
    largest = float(gram.diagonal().max())
    if largest <= 0:  # no cut depends on the weights
        weight = np.zeros(n)
        best = int(offset.argmax())
        weight[best] = float(offset[best] > 0)
        return weight, max(float(offset[best]), 0.0)
    rho = float(np.sqrt(_PENALTY * largest))
    root = cholesky(gram + damping * largest * np.eye(n))
    A = np.zeros((n + 1, n + 1))
    A[:n, :n] = root
    A[n] = rho
    target = np.append(solve_triangular(root, offset, trans="T"), 0.0)
    for _ in range(_ROUNDS):
        target[n] = rho - slack / rho
        weight, _ = nnls(A, target, maxiter=30 * (n + 1))
        excess = float(weight.sum()) - 1
        slack += rho**2 * excess
        if abs(excess) <= _SUM:
            break
    weight = weight[:n]
    return weight / max(1.0, float(weight.sum())), max(slack, 0.0)
