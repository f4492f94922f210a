"""Decision values of a kernel model: f(x) = sum_s k(x, s) coef_s + intercept, over the support vectors s.

A support vector is there once for all machines, so one block of kernel values serves them all. Rows come in slabs of
bounded memory, each of them a job for a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin.data.thread_pool import in_some_threads
from multimargin.kernel.functions import Kernel, mean_row, squared_norms
from multimargin.linear.blas import blas_threads

SLAB_BYTES = 1 << 25
_LITTLE_WORK = 1e7  # multiply-adds
_FULL = 0.5  # share of non-zeros above which rows are none that have to be sparse
_SPARSE_COEF = 0.06  # share of non-zeros below which coefficients are faster as sparse ones


def decisions(
    kernel: Kernel,
    X: Any,
    vectors: Any,
    coef: sp.csr_array,
    intercept: np.ndarray,
    n_threads: int,
    finish: Callable[[np.ndarray], np.ndarray] | None = None,
    width: int | None = None,
) -> np.ndarray:
    """Decision values of every row and machine, in float64.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray or CSR of shape (n_rows, n_features)
        For a precomputed kernel: of shape (n_rows, rows of training), the kernel values themselves.
    vectors : ndarray or CSR of shape (n_vectors, n_features)
        The support vectors. For a precomputed kernel: the columns of X that belong to them.
    coef : CSR of shape (n_vectors, n_machines)
    intercept : ndarray of shape (n_machines,)
    n_threads : int
    finish : callable or None
        Applied to the values of every slab: it makes ``width`` columns of those of the machines, which may be too
        many to be kept for all rows.
    width : int or None
        Columns of the result; None for n_machines.
    """
    n_rows, (n_vectors, n_machines) = X.shape[0], coef.shape
    out = np.empty((n_rows, n_machines if width is None else width))
    vectors = in_float64(kernel, vectors)
    values_of = _Expansion(kernel, vectors, coef, intercept)
    # Rows are made dense where they meet dense support vectors.
    sparse = sp.issparse(X) and sp.issparse(vectors)
    n_features = 0 if kernel.name == "precomputed" or sparse else X.shape[1]
    step = max(1, min(SLAB_BYTES // (8 * max(n_vectors, n_machines, n_features, 1)), -(-n_rows // n_threads)))
    starts = range(0, n_rows, step)

    def one(begin: int) -> None:
        values = values_of(in_float64(kernel, X[begin : begin + step]))
        out[begin : begin + step] = values if finish is None else finish(values)

    # BLAS gets one thread a worker; to say so takes longer than little work does.
    much = float(n_rows) * n_vectors * (n_features + n_machines) > _LITTLE_WORK
    with blas_threads(1) if much else nullcontext():
        in_some_threads(one, starts, n_threads)
    return out


def in_float64(kernel: Kernel, rows: Any) -> Any:
    """Rows whose kernel values are not rounding alone if they are far from zero: in float64 and, with few zeros, dense,
    so that they can be shifted."""
    if kernel.name in ("precomputed", "callable"):
        return rows
    if sp.issparse(rows) and rows.nnz > _FULL * rows.shape[0] * rows.shape[1]:
        rows = rows.toarray()
    return rows.astype(np.float64, copy=False)


class _Expansion:
    """The support vectors as the slabs need them, prepared once."""

    def __init__(self, kernel: Kernel, vectors: Any, coef: sp.csr_array, intercept: np.ndarray):
        self.kernel, self.intercept = kernel, intercept
        self.coef = coef if coef.nnz < _SPARSE_COEF * coef.shape[0] * coef.shape[1] else coef.toarray()
        self.dense = kernel.name != "precomputed" and not sp.issparse(vectors)
        self.shift: np.ndarray | None = None
        self.norms: np.ndarray | None = None
        if kernel.name == "rbf":
            with np.errstate(over="ignore", invalid="ignore"):
                if self.dense and len(vectors):  # see Kernel.block
                    self.shift = mean_row(vectors).astype(vectors.dtype)
                    vectors = vectors - self.shift
                self.norms = squared_norms(vectors)
        self.vectors = vectors

    def __call__(self, X: Any) -> np.ndarray:
        if not self.coef.shape[0]:
            return np.tile(self.intercept, (X.shape[0], 1))
        if self.kernel.name == "precomputed":
            return self.kernel.block(X[:, self.vectors], None) @ self.coef + self.intercept
        if self.dense and sp.issparse(X) and self.kernel.name != "callable":
            X = X.toarray()
        norms = None
        if self.kernel.name == "rbf":
            with np.errstate(over="ignore", invalid="ignore"):  # the kernel refuses what comes of it
                X = X if self.shift is None else X - self.shift
                norms = squared_norms(X)
        return self.kernel.block(X, self.vectors, norms, self.norms) @ self.coef + self.intercept
