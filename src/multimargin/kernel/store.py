"""The kernel rows of one fit: X laid out for the core, and the store that computes and keeps its kernel values."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin import _core
from multimargin.data.rows import as_rows
from multimargin.kernel.functions import USE_GAMMA, Kernel, mean_row
from multimargin.problems.range import check_range

# Numbers whose squares, and cubes of small ones, are safe in float32.
_SMALLEST_IN_FLOAT32, _LARGEST_IN_FLOAT32 = 1e-12, 1e12
_LARGEST_BIAS = 1e3  # beside the values that it is added to: float32 has seven digits for both


def kernel_store(
    kernel: Kernel,
    X: Any,
    rows: np.ndarray,
    group_begin: np.ndarray,
    *,
    bias: float,
    budget: int,
    single_precision: bool,
) -> _core.KernelStore:
    """A store of the kernel values of some rows of X among each other.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray or CSR
        Training rows; precomputed: their kernel values.
    rows : ndarray of int64
        Which of them, in the order of the store.
    group_begin : ndarray of int64
        Where the groups of columns begin (and the last one ends): a machine asks for values by groups.
    bias : float
        Added to every value.
    budget : int
        Bytes of kernel values to keep.
    single_precision : bool
        float32 values instead of float64.
    """
    dtype = np.float32 if single_precision else np.float64
    if kernel.name in ("precomputed", "callable"):
        diagonal = kernel.diagonal(X)[rows]
        fill = _filler(kernel, X, rows, dtype)
        return _core.KernelStore.foreign(diagonal, fill, single_precision, bias, group_begin, budget)
    parameters = (kernel.name, kernel.gamma, kernel.coef0, kernel.degree, bias)
    if sp.issparse(X):
        taken = sp.csr_array(X[rows], dtype=dtype)
        return _core.KernelStore.sparse(as_rows(taken), single_precision, *parameters, group_begin, budget)
    from scipy.linalg import cython_blas

    gemm = cython_blas.__pyx_capi__["sgemm" if single_precision else "dgemm"]
    return _core.KernelStore.dense(_dense(kernel, X, rows, dtype), *parameters, gemm, group_begin, budget)


def fits_float32(kernel: Kernel, X: Any, bias: float, cap: np.ndarray) -> bool:
    """Whether rows, parameters and values of the kernel are far from the ends of float32, and not lost beside the bias;
    refuses kernels, and values of C_i with them, that even float64 cannot hold."""
    diagonal = np.abs(kernel.diagonal(X))
    advice = "scale the kernel" if kernel.name in ("precomputed", "callable") else "scale the features"
    if (size := float(diagonal.max(initial=0.0)) + bias) > 0:
        check_range(cap, size, "sqrt(K(x_i, x_i))", advice)
    entries = X.data if sp.issparse(X) else X
    largest = max(float(v) for v in (entries.max(initial=0.0), -entries.min(initial=0.0), diagonal.max(initial=0.0)))
    sizes = [largest, abs(kernel.gamma), abs(kernel.coef0)] if kernel.name in USE_GAMMA else [largest]
    drowned = bias > _LARGEST_BIAS * diagonal.max(initial=0.0) > 0
    return not drowned and all(size == 0 or _SMALLEST_IN_FLOAT32 < size < _LARGEST_IN_FLOAT32 for size in sizes)


def _dense(kernel: Kernel, X: np.ndarray, rows: np.ndarray, dtype: type) -> np.ndarray:
    """The rows as the core wants them. For rbf they are moved by their mean, or their distances would drown in the
    rounding of norms and products where features are far from zero."""
    taken = X[rows]
    if kernel.name == "rbf" and len(taken):
        wider = np.result_type(taken, dtype)  # rows in float32 may have differences that are no numbers there
        taken = taken.astype(wider, copy=False) - mean_row(taken).astype(wider)
    return np.ascontiguousarray(taken, dtype=dtype)


def _filler(kernel: Kernel, X: Any, rows: np.ndarray, dtype: type) -> Any:
    """What the core calls for kernel values that are not its own: fill(rows, begin, end) of the store's order."""

    def fill(asked: np.ndarray, begin: int, end: int) -> np.ndarray:
        columns = rows[begin:end]
        if kernel.name == "precomputed":
            values = X[np.ix_(rows[asked], columns)]
        else:
            values = kernel.block(X[rows[asked]], X[columns])
        with np.errstate(over="ignore"):  # what float32 cannot hold proves nothing there, and float64 takes over
            return np.ascontiguousarray(values, dtype=dtype)

    return fill
