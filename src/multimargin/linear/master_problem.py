"""The small quadratic program of the cutting-plane method, by SciPy's non-negative least squares.

    max  b.lambda - 1/2 lambda' G lambda,   lambda >= 0,   sum lambda <= 1

With G = R'R and without the bound on the sum this is min 1/2 ||R lambda - R^-T b||^2 over lambda >= 0. Where that
solution has a larger sum, the sum is 1, and the method of multipliers (Hestenes 1969) finds its multiplier xi:

    min  1/2 ||R lambda - R^-T b||^2 + 1/2 (rho sum lambda - (rho - xi / rho))^2,   lambda >= 0
    xi <- xi + rho^2 (sum lambda - 1)

which a large rho makes two problems or three. xi is the largest of 0 and the cuts at the solution.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import nnls

_PENALTY = 1e3  # rho^2, in units of the largest entry of G and b
_DAMPING = 1e-14  # of G, in units of its largest entry: cuts may depend on one another
_DAMPING_OF_FLAT = 1e-12  # and of the largest entry of b, beside which G may be nothing
_SUM = 1e-10  # by which the sum may miss 1; what remains is scaled away
_ROUNDS = 20


def solve_master(gram: np.ndarray, offset: np.ndarray, slack: float = 0.0) -> tuple[np.ndarray, float]:
    """lambda, feasible to the last digit, and xi; ``slack`` is a guess of xi."""
    largest = float(gram.diagonal().max())
    if largest <= 0:  # no cut depends on the weights
        return (np.arange(len(offset)) == offset.argmax()) * float(offset.max() > 0), max(float(offset.max()), 0.0)
    damping = max(_DAMPING * largest, _DAMPING_OF_FLAT * float(np.abs(offset).max()))
    while True:
        try:
            return _solve(cholesky(gram + damping * np.eye(len(offset))), largest, offset, slack)
        except (np.linalg.LinAlgError, RuntimeError):  # Cholesky found no root, or least squares ran in circles
            damping *= 100


def _solve(root: np.ndarray, largest: float, offset: np.ndarray, slack: float) -> tuple[np.ndarray, float]:
    n = len(offset)
    target = solve_triangular(root, offset, trans="T")
    rho = float(np.sqrt(_PENALTY * max(largest, float(np.abs(offset).max()))))
    bounded = np.vstack([root, np.full(n, rho)])
    for _ in range(_ROUNDS):
        if slack <= 0:
            slack = 0.0
            weight, _ = nnls(root, target, maxiter=30 * n)
            if weight.sum() <= 1:
                return weight, 0.0
        weight, _ = nnls(bounded, np.append(target, rho - slack / rho), maxiter=30 * n)
        excess = float(weight.sum()) - 1
        slack += rho**2 * excess
        if abs(excess) <= _SUM and slack > 0:
            break
    return weight / max(1.0, float(weight.sum())), max(slack, 0.0)
