"""Kernel functions: blocks of kernel values by matrix products, and what gamma="scale" means.

Conventions
-----------
X, Y
    Rows, dense or CSR, float32 or float64; neither needs to be the same as the other.
block
    ``K[i, j] = k(x_i, y_j)``, dense, in the wider dtype of the two; X is the shorter of the two, of which dense
    copies may be made.

===========  ==================================
linear       x . y
rbf          exp(-gamma ||x - y||^2)
poly         (gamma x . y + coef0) ** degree
sigmoid      tanh(gamma x . y + coef0)
precomputed  X holds the kernel values
callable     function(X, Y)
===========  ==================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

KERNELS = ("linear", "rbf", "poly", "sigmoid", "precomputed")
USE_GAMMA = ("rbf", "poly", "sigmoid")

SAME_ROW = 16  # squared distances below so many units of rounding of the squared norms are zero
_SEEN = 1e-4  # by which such a distance must change a value for that to be worth a pass
_ROWS_OF_A_CALL = 64  # rows of which a callable is asked for all values, for the sake of their diagonal
_ROWS_OF_A_CHECK = 6  # by which a callable shows whether it is a kernel
_APART = 1e-4  # of the largest value, by which values of a pair may differ: functions may compute in float32
_VARIANCE_BYTES = 1 << 24
# A multiply-add of a product of two sparse matrices costs as much as this many of a sparse with a dense one.
_SPARSE_COST = 5.0


@dataclass(frozen=True)
class Kernel:
    """A kernel function with its parameters.

    Attributes
    ----------
    name : {"linear", "rbf", "poly", "sigmoid", "precomputed", "callable"}
    gamma, degree, coef0 : float, int, float
        As in the table above; see :func:`resolve_gamma`.
    function : callable or None
        ``function(X, Y)`` gives an array of shape (rows of X, rows of Y); for "callable".
    """

    name: str
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0
    function: Callable[[Any, Any], Any] | None = None

    def block(self, X: Any, Y: Any, x_norms: np.ndarray | None = None, y_norms: np.ndarray | None = None) -> np.ndarray:
        """Kernel values of all rows of X with all rows of Y (precomputed: X itself).

        The squared norms of the rows may be passed where they are known, for rbf. Without them dense rows are
        moved first, all by the mean of Y: distances do not change, but would drown in the rounding of norms and
        products if the features were far from zero.

        Raises
        ------
        ValueError
            If a value is not finite, or a callable returns something else than such an array.
        """
        if self.name == "precomputed":
            values = X.toarray() if sp.issparse(X) else np.asarray(X)
        elif self.name == "callable":
            values = self._called(X, Y)
        elif self.name == "rbf":
            values = self._rbf(X, Y, x_norms, y_norms)
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                values = self._of_products(products(X, Y))
        self.check_finite(values)
        return values

    def diagonal(self, X: Any) -> np.ndarray:
        """k(x, x) of every row, in float64."""
        if self.name == "rbf":
            return np.ones(X.shape[0])
        if self.name == "precomputed":
            values = np.asarray(X.diagonal(), dtype=np.float64)
        elif self.name == "callable":
            values = np.empty(X.shape[0])
            for begin in range(0, len(values), _ROWS_OF_A_CALL):
                few = X[begin : begin + _ROWS_OF_A_CALL]
                values[begin : begin + _ROWS_OF_A_CALL] = self._called(few, few).diagonal()
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                values = self._of_products(squared_norms(X))
        self.check_finite(values)
        return values

    def check_finite(self, values: np.ndarray) -> None:
        """Refuse kernel values that are not finite."""
        if values.size and not (np.isfinite(values.min()) and np.isfinite(values.max())):
            if self.name in ("precomputed", "callable"):
                advice = "" if self.name == "precomputed" else f": check {self.function!r}"
            else:
                smaller = " or take a smaller gamma, degree or coef0" if self.name == "poly" else ""
                advice = f": scale the features down{smaller}"
            raise ValueError(f"values of the {self.name} kernel are not finite{advice}")

    def check_pairs(self, X: Any) -> None:
        """Refuse a callable whose value of a pair depends on the other rows of the call, or on which row comes first;
        as a few rows of X show it."""
        if self.name != "callable" or X.shape[0] < 2:
            return
        few = X[:: max(1, X.shape[0] // _ROWS_OF_A_CHECK)][:_ROWS_OF_A_CHECK]
        values = self.block(few, few)
        allowed = _APART * float(np.abs(values).max())
        half = len(values) // 2
        for x, y in ((1, len(values)), (half, half)):
            if not np.all(np.abs(self.block(few[:x], few[:y]) - values[:x, :y]) <= allowed):
                raise ValueError(
                    f"the kernel {self.function!r} gives a pair of rows another value when other rows are in the call: "
                    "it must be a function of the two rows alone (without means or scales of what it is given)"
                )
        if not np.all(np.abs(values - values.T) <= allowed):
            raise ValueError(
                f"the kernel {self.function!r} is not symmetric: k(x, z) must be k(z, x) for all rows x and z"
            )

    def _of_products(self, products: np.ndarray) -> np.ndarray:
        """The kernels of x . y, in place."""
        if self.name == "linear":
            return products
        products *= self.gamma
        products += self.coef0
        if self.name == "poly":
            return _power(products, self.degree)
        self.check_finite(products)  # the tangent of what overflowed is a number
        return np.tanh(products, out=products)

    def _rbf(self, X: Any, Y: Any, x_norms: np.ndarray | None, y_norms: np.ndarray | None) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            if x_norms is None and y_norms is None and not sp.issparse(Y):
                X = X.toarray() if sp.issparse(X) else X
                shift = mean_row(Y)
                X, Y = X - shift.astype(X.dtype), Y - shift.astype(Y.dtype)
            values = products(X, Y)
            x_norms = squared_norms(X) if x_norms is None else x_norms
            y_norms = squared_norms(Y) if y_norms is None else y_norms
            values *= -2.0
            x_norms, y_norms = x_norms.astype(values.dtype), y_norms.astype(values.dtype)
            values += x_norms[:, None]
            values += y_norms
            # As the core does: a distance within the rounding of what it is the difference of is none.
            share = SAME_ROW * np.finfo(values.dtype).eps
            if self.gamma * share * (x_norms.max(initial=0.0) + y_norms.max(initial=0.0)) > _SEEN:
                np.copyto(values, 0.0, where=values < np.add.outer(share * x_norms, share * y_norms))
            np.maximum(values, 0.0, out=values)
            values *= -self.gamma
            return np.exp(values, out=values)

    def _called(self, X: Any, Y: Any) -> np.ndarray:
        assert self.function is not None
        given = self.function(_not_to_be_written(X), _not_to_be_written(Y))
        if np.ma.is_masked(given):
            raise ValueError(
                f"the kernel {self.function!r} returned masked entries, whose values would be taken as they are: fill "
                "them (filled(...))"
            )
        values = given.toarray() if sp.issparse(given) else np.asarray(given)
        wanted = (X.shape[0], Y.shape[0])
        if values.shape != wanted:
            raise ValueError(f"the kernel {self.function!r} must return an array of shape {wanted}, got {values.shape}")
        if values.dtype.kind not in "fiub":
            raise ValueError(f"the kernel {self.function!r} must return real numbers, got dtype {values.dtype}")
        return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def _not_to_be_written(X: Any) -> Any:
    """Dense rows that a function cannot change."""
    if sp.issparse(X):
        return X
    view = X.view()
    view.flags.writeable = False
    return view


def resolve_gamma(gamma: float | str, X: Any, weight: np.ndarray | None = None) -> float:
    """The number that gamma stands for, as in scikit-learn's SVC.

    "scale" is ``1 / (n_features * X.var())`` (1 if the variance is zero), "auto" is ``1 / n_features``. Rows may have
    weights, so that a row of weight 2 counts as two in the variance.
    """
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if gamma == "scale":
        variance = _variance(X, np.ones(X.shape[0]) if weight is None else weight / weight.max())
        if variance == 0 and _is_constant(X if weight is None else X[weight > 0]):
            return 1.0
        scale = 1.0 / (X.shape[1] * variance) if variance > 0 else np.inf
        if not np.isfinite(scale):
            raise ValueError(f"gamma='scale' overflows, as the variance of X is {variance:g}: scale the features up")
        return scale
    return float(gamma)


def _is_constant(X: Any) -> bool:
    """Whether all entries are the same."""
    return bool(X.min() == X.max())


def squared_norms(X: Any) -> np.ndarray:
    """x . x of every row, in float64."""
    if sp.issparse(X):
        return sp.csr_array((X.data.astype(np.float64) ** 2, X.indices, X.indptr), shape=X.shape).sum(axis=1)
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


def mean_row(Y: np.ndarray) -> np.ndarray:
    """The mean of the rows, summed in float64."""
    return Y.mean(axis=0, dtype=np.float64)


def _variance(X: Any, weight: np.ndarray) -> float:
    """X.var() over all entries, in float64: in two passes, as squares minus the mean would lose what they differ by."""
    n_rows, n_features = X.shape
    step = max(1, _VARIANCE_BYTES // (8 * n_features))
    slabs = [slice(begin, begin + step) for begin in range(0, n_rows, step)]
    size = n_features * float(weight.sum())
    with np.errstate(over="ignore", invalid="ignore"):
        mean = sum(float(weight[slab] @ np.ravel(X[slab].sum(axis=1, dtype=np.float64))) for slab in slabs) / size
        total = sum(float(weight[slab] @ _squared_distances(X[slab], mean)) for slab in slabs)
    if not np.isfinite(total):
        raise ValueError("gamma='scale' needs the variance of X, which overflows: scale the features down")
    return total / size


def _squared_distances(X: Any, mean: float) -> np.ndarray:
    """sum_j (x_ij - mean)^2 of every row."""
    if not sp.issparse(X):
        return ((X.astype(np.float64) - mean) ** 2).sum(axis=1)
    stored = sp.csr_array(((X.data.astype(np.float64) - mean) ** 2, X.indices, X.indptr), shape=X.shape)
    return stored.sum(axis=1) + (X.shape[1] - np.diff(X.indptr)) * (mean * mean)


def products(X: Any, Y: Any) -> np.ndarray:
    """x . y of all rows, dense. X is the side to make dense where that is faster, as it may be short."""
    if not sp.issparse(Y):
        return (X.toarray() if sp.issparse(X) else X) @ Y.T
    if sp.issparse(X):
        meetings = float(np.bincount(X.indices, minlength=X.shape[1]) @ np.bincount(Y.indices, minlength=Y.shape[1]))
        if _SPARSE_COST * meetings < float(X.shape[0]) * Y.nnz:
            return (X @ Y.T).toarray()
        X = X.toarray()
    return (Y @ np.ascontiguousarray(X.T)).T


def _power(base: np.ndarray, degree: int) -> np.ndarray:
    """base ** degree by repeated squaring: several times faster than pow."""
    power = np.ones_like(base)
    while degree:
        if degree & 1:
            power *= base
        degree >>= 1
        if degree:
            base *= base
    return power
