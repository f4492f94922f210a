"""Small kernel problems, and how to run a machine of the core on them."""

import clarabel
import numpy as np
import scipy.sparse as sp
from scipy.linalg import cython_blas

from multimargin import _core
from tests.oracles import Problem


def store_of(X, kind="linear", gamma=1.0, dtype=np.float64, groups=None, budget=1 << 24, bias=0.0):
    """Rows of a kernel of dense X."""
    gemm = cython_blas.__pyx_capi__["sgemm" if dtype == np.float32 else "dgemm"]
    groups = np.array([0, len(X)] if groups is None else groups, dtype=np.int64)
    X = np.ascontiguousarray(X, dtype=dtype)
    return _core.KernelStore.dense(X, kind, gamma, 0.0, 3, bias, gemm, groups, budget)


def run(machine, tol=1e-7, most=20000):
    """Rounds until the worst gap is at most tol."""
    for _ in range(most):
        told = machine.advance()
        if told.complete and (told.worst_gap <= tol or told.stuck):
            return told
    raise AssertionError(f"no end: {told.worst_gap}")


def rows_with_kernel(K):
    """Rows whose inner products are K."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0))


def clusters(n, k, features=3, seed=0, apart=1.0):
    """Rows around a centre a class, and their classes."""
    random = np.random.RandomState(seed)
    label = np.arange(n) % k
    return random.normal(size=(k, features))[label] * apart + random.normal(size=(n, features)), label


def problem_of(policy, n=40, k=4, seed=0, C=2.0, X=None):
    """Clusters with caps of all sizes."""
    made, label = clusters(n, k, seed=seed)
    cap = C * np.random.RandomState(seed + 9).uniform(0.2, 1.5, size=n)
    lanes = k
    return Problem(policy, False, lanes, made if X is None else X, label, cap)


def optimum_with_bias(X, sign, cap):
    """min_{w,b} 1/2 ||w||^2 + sum C_i max(0, 1 - y_i (w.x_i + b)), as a quadratic program with slacks."""
    n, d = X.shape
    A = sp.block_array(
        [
            [sp.csc_array(-sign[:, None] * X), sp.csc_array(-sign[:, None].astype(float)), -sp.eye_array(n)],
            [None, None, -sp.eye_array(n)],
        ],
        format="csc",
    )
    b = np.concatenate([-np.ones(n), np.zeros(n)])
    P = sp.diags_array(np.concatenate([np.ones(d), np.zeros(n + 1)]))
    q = np.concatenate([np.zeros(d + 1), cap])
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-10
    cones = [clarabel.NonnegativeConeT(2 * n)]
    return clarabel.DefaultSolver(sp.csc_matrix(P), q, sp.csc_matrix(A), b, cones, options).solve().obj_val


def feasible(problem, a):
    """Whether the duals of the hinge meet all constraints."""
    own = np.arange(problem.lanes) == problem.label[:, None]
    cap = problem.cap[:, None]
    if problem.policy == "one_vs_rest":
        z = np.where(own, 1.0, -1.0)
        return bool(np.all(z * a >= 0) and np.all(z * a <= cap))
    others = np.where(own, 0.0, a)
    good = np.all(others <= 0) and np.all(np.abs(a.sum(axis=1)) <= 1e-9 * problem.cap)
    if problem.policy == "crammer_singer":
        return bool(good and np.all(a[own] <= problem.cap))
    return bool(good and np.all(others >= -cap))
