"""The cells of the numeric grid: every machine on every kind of rows at every scale and C, by number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin.linear.solvers import SOLVERS
from multimargin.problems.formulations import FORMULATIONS, LOSSES

CS = (1e-300, 1e-200, 1e-100, 1e-30, 1e-10, 1e-3, 1.0, 1e3, 1e8, 1e10, 1e30, 1e100, 1e200, 1e300)
SCALES = (
    *(("float64", s) for s in (1e-300, 1e-200, 1e-160, 1e-100, 1e-30, 1e-10, 1.0, 1e10, 1e30, 1e100, 1e150)),
    *(("float64", s) for s in (1e155, 1e200, 1e300)),
    *(("float32", s) for s in (1e-43, 1e-30, 1e-10, 1.0, 1e10, 1e19, 1e30, 1e37)),
)
LINEAR = tuple(
    (formulation, loss, solver, intercept)
    for formulation in FORMULATIONS
    for loss in LOSSES
    for solver in ("auto", *SOLVERS)
    if solver == "auto" or (formulation in SOLVERS[solver].formulations and loss in SOLVERS[solver].losses)
    for intercept in (True, False)
)
KERNELS = (("rbf", "scale"), ("rbf", 1e-300), ("rbf", 1.0), ("rbf", 1e300), ("linear", "scale"), ("poly", "scale"))
KERNEL = tuple(
    (formulation, kernel, solver, intercept)
    for formulation in FORMULATIONS
    for kernel in (*KERNELS, ("poly", 1.0), ("sigmoid", "scale"))
    for solver in ("block", "decomposition")
    for intercept in (True, False)
)
MANY_CLASSES = tuple(
    (formulation, loss, solver, classes, C)
    for formulation in FORMULATIONS
    for loss in LOSSES
    for solver in ("auto", "sdm", "accelerated_sdm")
    for classes in (100, 1000, 10_000, 100_000)
    for C in (1e-10, 1.0, 1e10)
)
CONTAINERS = ("dense", "csr")
LARGEST = {"float64": 1.7e308, "float32": 3.4e38}


def _plain(rng, n=24, features=5, classes=4):
    y = np.arange(n) % classes
    return rng.normal(size=(classes, features))[y] + 0.7 * rng.normal(size=(n, features)), y


def _two_classes(rng):
    return _plain(rng, classes=2)


def _duplicated(rng):
    X, y = _plain(rng, n=8)
    return np.repeat(X, 4, axis=0), np.repeat(y, 4)


def _contradicting(rng):
    X, _ = _plain(rng, n=6)
    return np.repeat(X, 4, axis=0), np.tile(np.arange(4), 6)


def _one_row(rng):
    return np.repeat(rng.normal(size=(1, 5)), 24, axis=0), np.arange(24) % 3


def _zero_rows(rng):
    X, y = _plain(rng)
    return X * (rng.random(24) < 0.5)[:, None], y


def _zero_columns(rng):
    X, y = _plain(rng)
    return X * [1, 0, 1, 0, 0], y


def _all_zero(rng):
    X, y = _plain(rng)
    return 0 * X, y


def _constant_features(rng):
    X, y = _plain(rng)
    return np.where([True, True, False, True, True], 3.0, X), y


def _one_example_a_class(rng):
    return rng.normal(size=(12, 5)), np.arange(12)


def _denormals(rng):
    X, y = _plain(rng)
    return np.round(X * 5) * 5e-324, y


def _mixed_columns(rng):
    X, y = _plain(rng)
    return X * [1e-140, 1e-8, 1.0, 1e8, 1e140], y


def _mixed_rows(rng):
    X, y = _plain(rng)
    return X * 10.0 ** rng.uniform(-100, 100, size=24)[:, None], y


def _one_feature(rng):
    X, y = _plain(rng, features=1, classes=3)
    return X, y


def _weighted(rng):  # weights from 1e-100 to 1e100 come with these rows
    return _plain(rng)


DATA = {
    rows.__name__[1:]: rows
    for rows in (
        *(_plain, _two_classes, _duplicated, _contradicting, _one_row, _zero_rows, _zero_columns, _all_zero),
        *(_constant_features, _one_example_a_class, _denormals, _mixed_columns, _mixed_rows, _one_feature, _weighted),
    )
}


@dataclass(frozen=True)
class Cell:
    """A fit: which estimator with which parameters on which rows."""

    family: str  # linear, kernel or classes
    parameters: dict[str, Any]
    data: str
    dtype: str
    scale: float
    container: str
    classes: int = 0  # of rows made for as many

    def rows(self) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """X, y and weights."""
        if self.classes:
            return (*_of_classes(self.classes), None)
        rng = np.random.default_rng(0)
        X, y = DATA[self.data](rng)
        with np.errstate(over="ignore", under="ignore"):
            X = X * self.scale
        largest = LARGEST[self.dtype]
        X = np.clip(X, -largest, largest).astype(self.dtype)
        weight = 10.0 ** rng.uniform(-100, 100, size=len(y)) if self.data == "weighted" else None
        return (sp.csr_array(X) if self.container == "csr" else X), y, weight

    def __str__(self) -> str:
        where = f"{self.classes} classes" if self.classes else f"{self.data} {self.container} {self.dtype}"
        given = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return f"{self.family}({given}) on {where} x {self.scale:g}"


def _of_classes(k: int) -> tuple[sp.csr_array, np.ndarray]:
    """Two rows a class with 5 of 500 features each: the class's own two, and noise."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(k), 2)
    column = np.column_stack([y % 499, (y * 7 + y // 499) % 500, rng.integers(0, 500, size=(2 * k, 3))])
    row = np.repeat(np.arange(2 * k), 5)
    X = sp.csr_array((rng.random(10 * k) + 0.1, (row, column.ravel())), shape=(2 * k, 500))
    return X, y


_SMALL = (len(DATA), len(SCALES), len(CS), len(CONTAINERS))
N_LINEAR = len(LINEAR) * int(np.prod(_SMALL))
N_KERNEL = len(KERNEL) * int(np.prod(_SMALL))
N_CELLS = N_LINEAR + N_KERNEL + len(MANY_CLASSES)


def cell(number: int) -> Cell:
    """The cell with this number, below ``N_CELLS``."""
    if number >= N_LINEAR + N_KERNEL:
        formulation, loss, solver, classes, C = MANY_CLASSES[number - N_LINEAR - N_KERNEL]
        parameters = dict(formulation=formulation, loss=loss, solver=solver, C=C)
        return Cell("classes", parameters, "many", "float64", 1.0, "csr", classes)
    family = "linear" if number < N_LINEAR else "kernel"
    machines = LINEAR if family == "linear" else KERNEL
    which, d, s, c, container = np.unravel_index(number - N_LINEAR * (family == "kernel"), (len(machines), *_SMALL))
    if family == "linear":
        formulation, loss, solver, intercept = LINEAR[which]
        parameters = dict(formulation=formulation, loss=loss, solver=solver)
    else:
        formulation, (kernel, gamma), solver, intercept = KERNEL[which]
        parameters = dict(formulation=formulation, kernel=kernel, gamma=gamma, solver=solver)
    parameters |= dict(C=CS[c], fit_intercept=intercept)
    dtype, scale = SCALES[s]
    return Cell(family, parameters, list(DATA)[d], dtype, scale, CONTAINERS[container])


_NUMBERS = {
    "linear": range(N_LINEAR),
    "kernel": range(N_LINEAR, N_LINEAR + N_KERNEL),
    "classes": range(N_LINEAR + N_KERNEL, N_CELLS),
}


def of_defaults(families: tuple[str, ...]) -> list[int]:
    """Numbers of all cells of machines whose solver, kernel and intercept are the estimators' own, on dense rows."""
    default = {
        "linear": [solver == "auto" and intercept for _, _, solver, intercept in LINEAR],
        "kernel": [of == ("rbf", "scale") and solver == "block" and b for _, of, solver, b in KERNEL],
        "classes": [solver == "auto" for _, _, solver, _, _ in MANY_CLASSES],
    }
    numbers: list[int] = []
    for family in families:
        chosen = np.array(default[family])
        if family != "classes":
            dense = np.arange(len(CONTAINERS)) == CONTAINERS.index("dense")
            chosen = chosen[:, None, None, None, None] & np.broadcast_to(dense, (len(chosen), *_SMALL))
        numbers += (_NUMBERS[family].start + np.flatnonzero(chosen)).tolist()
    return numbers


def sampled(n: int, seed: int, families: tuple[str, ...]) -> list[int]:
    """Numbers of n cells, spread over the families: all of those with many classes first come, in a random order."""
    rng = np.random.default_rng(seed)
    numbers: list[int] = []
    for family in families:
        of = _NUMBERS[family]
        numbers += (of.start + rng.choice(len(of), size=min(len(of), n // len(families)), replace=False)).tolist()
    return numbers
