"""Which problem do kernlab's spoc-svc and kbb-svc solve? Their coefficients against those of an independent QP solver.

The candidates: margin 1 or 2, half, once or twice the C that was given, and no bias, a regularised one (K + 1) or a
free one. With coef_i^m <= 0 for m != y_i and a row's sum of 0, w_m = sum_i coef_i^m phi(x_i), both duals are

    min 1/2 sum_m coef^m' K coef^m + margin * sum_i sum_{m != y_i} coef_i^m,

where Crammer-Singer has coef_i^{y_i} <= C and Weston-Watkins coef_i^m >= -C. A free bias adds sum_i coef_i^m = 0. The
kernel matrix is positive definite, so the coefficients are unique, and only the right candidate can have kernlab's.

    python benchmarks/kernlab_problem.py
"""

from __future__ import annotations

import argparse
import itertools

import clarabel
import kernlab
import numpy as np
import scipy.sparse as sp
from report import Report

SIZES = (30, 18, 12)
C, GAMMA, TOL = 3.0, 0.5, 1e-7
BIASES = ("none", "K + 1", "free")


def overlapping_classes() -> tuple[np.ndarray, np.ndarray]:
    """Sixty rows of three classes of different sizes, shuffled, off centre."""
    random = np.random.RandomState(0)
    y = random.permutation(np.repeat(np.arange(len(SIZES)), SIZES))
    centres = np.array([[0.0, 0.0], [1.0, 0.5], [0.0, 1.5]])
    return centres[y] + random.standard_normal((len(y), 2)), y


def optimum(K: np.ndarray, y: np.ndarray, formulation: str, margin: float, C: float, bias: str) -> np.ndarray:
    """Coefficients of one candidate, by Clarabel."""
    n_samples, n_classes = len(y), int(y.max()) + 1
    others = (np.arange(n_classes) != y[:, None]).ravel()
    every = sp.eye_array(others.size, format="csr")
    equal = [sp.kron(sp.eye_array(n_samples), np.ones((1, n_classes)))]
    if bias == "free":  # the last class follows from the rows' sums
        equal.append(sp.kron(np.ones((1, n_samples)), sp.eye_array(n_classes)).tocsr()[:-1])
    below = [every[others]]
    bounds = [np.zeros(others.sum())]
    if formulation == "crammer_singer":
        below.append(every[~others])
        bounds.append(np.full(n_samples, C))
    else:
        below.append(-every[others])
        bounds.append(np.full(others.sum(), C))
    A = sp.csc_matrix(sp.vstack([*equal, *below]))
    n_equal = sum(block.shape[0] for block in equal)
    b = np.concatenate([np.zeros(n_equal), *bounds])
    P = sp.triu(sp.kron(K + 1 if bias == "K + 1" else K, sp.eye_array(n_classes)), format="csc")
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    cones = [clarabel.ZeroConeT(n_equal), clarabel.NonnegativeConeT(len(b) - n_equal)]
    solution = clarabel.DefaultSolver(P, margin * others.astype(float), A, b, cones, settings).solve()
    return np.array(solution.x).reshape(n_samples, n_classes)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    X, y = overlapping_classes()
    K = np.exp(-GAMMA * np.sum((X[:, None] - X[None]) ** 2, axis=2))
    report = Report(None)
    for kind, formulation in (("spoc-svc", "crammer_singer"), ("kbb-svc", "weston_watkins")):
        _, coef = kernlab.train(X, y, kind, C, GAMMA, TOL, cache_mb=40)
        print(f"\n{kind} of kernlab {kernlab.version()}, C = {C:g}, gamma = {GAMMA:g}, {len(y)} rows, 3 classes\n")
        report.table("margin", "C", "bias", "difference", "verdict")
        for margin, factor, bias in itertools.product((1, 2), (0.5, 1, 2), BIASES):
            candidate = optimum(K, y, formulation, margin, factor * C, bias)
            difference = np.abs(coef - candidate).max() / np.abs(coef).max()
            verdict = "this one" if difference < 1e-3 else ""
            report.row(margin, f"{factor:g} C", bias, f"{difference:.1e}", verdict)
    print("\ndifference: of the coefficients, the largest, over kernlab's largest coefficient")


if __name__ == "__main__":
    main()
