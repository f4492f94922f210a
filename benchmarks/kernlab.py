"""kernlab's multi-class machines, BSVM's code in R: ``spoc-svc`` (Crammer-Singer) and ``kbb-svc`` (Weston-Watkins).

What they solve was found with `kernlab_problem.py`, from their coefficients:

- spoc-svc: ``1/2 sum_m ||w_m||^2 + C sum_i max_m (s_im + e_i^m - s_iy)``: margin 1, no bias.
- kbb-svc: ``1/2 sum_m (||w_m||^2 + b_m^2) + C sum_i sum_{m != y_i} max(0, 2 - s_iy + s_im)``: margin 2, the bias
  regularised, K + 1. That is margin 1 with C/2 where w is half as long and the objective a quarter.

One coefficient of every model is lost (kernlab.R says which): kernlab writes an objective over it, and not even that
one is computed. It is put back here: for spoc-svc by the sum of its row, which is 0; for kbb-svc by the exact step on
this one variable, which can only help kernlab.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.metadata
import os
import shutil
import signal
import subprocess
from pathlib import Path

import numpy as np

SCRIPT = Path(__file__).with_name("kernlab.R")


@functools.cache
def version(package: str = "kernlab") -> str:
    """Of the R package; PackageNotFoundError without it."""
    if shutil.which("Rscript"):
        command = ["Rscript", "-e", f'cat(as.character(packageVersion("{package}")))']
        found = subprocess.run(command, capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout
    raise importlib.metadata.PackageNotFoundError(package)


def train(
    X: np.ndarray, y: np.ndarray, kind: str, C: float, gamma: float, tol: float, cache_mb: float
) -> tuple[float, np.ndarray]:
    """Seconds of kernlab's training call, and coefficients in its own units: ``w_m = sum_i coef[i, m] phi(x_i)``.

    Parameters
    ----------
    X, y : ndarray of shape (n_samples, n_features) and (n_samples,), classes as 0..k-1, k at least 3
    kind : {"spoc-svc", "kbb-svc"}

    Returns
    -------
    seconds : float
    coef : ndarray of shape (n_samples, n_classes)
    """
    order = np.argsort(y, kind="stable")  # it wants the rows of a class together
    n_samples, n_classes = len(y), int(y.max()) + 1
    rows, labels = np.asarray(X, dtype=np.float64)[order], y[order]
    numbers = (*rows.shape, C, gamma, tol, cache_mb)
    command = ["Rscript", str(SCRIPT), kind, *(repr(float(number)) for number in numbers)]
    sent = (labels + 1).astype(np.int32).tobytes() + rows.tobytes(order="F")
    single = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    done = subprocess.run(command, input=sent, capture_output=True, env=single, preexec_fn=_end_with_parent)
    if done.returncode:
        raise RuntimeError(f"kernlab: {done.stderr.decode()}")
    answer = np.frombuffer(done.stdout)
    seconds, row, column, width = float(answer[0]), *(int(value) for value in answer[1:4])
    alpha = answer[4:].reshape(width, n_samples).T.copy()

    alpha[row - 1, column - 1] = 0.0
    if kind == "spoc-svc":
        coef = alpha
        coef[row - 1, column - 1] = -coef[row - 1].sum()
    else:
        coef = _weston_watkins_coefficients(alpha, labels, n_classes)
        lost_class = column - 1 if column - 1 < labels[row - 1] else column  # its own class has no column
        _step(rows, labels, coef, row - 1, lost_class, C, gamma)
    in_given_order = np.empty((n_samples, n_classes))
    in_given_order[order] = coef
    return seconds, in_given_order


def _weston_watkins_coefficients(alpha: np.ndarray, y: np.ndarray, n_classes: int) -> np.ndarray:
    """alpha_i^m of the other classes in class order -> ``-alpha_i^m``, and their sum for the own class."""
    others = np.arange(n_classes) != y[:, None]
    coef = np.zeros((len(y), n_classes))
    coef[others] = -alpha.ravel()
    coef[~others] = alpha.sum(axis=1)
    return coef


def _step(X: np.ndarray, y: np.ndarray, coef: np.ndarray, i: int, m: int, C: float, gamma: float) -> None:
    """kbb-svc's dual minimised over alpha_i^m, which is 0; along it, curvature is 2 (K_ii + 1) and K_ii = 1."""
    row = np.exp(-gamma * np.sum((X - X[i]) ** 2, axis=1)) + 1
    scores = row @ coef
    alpha = np.clip((2 - scores[y[i]] + scores[m]) / (2 * row[i]), 0, C)
    coef[i, m] -= alpha
    coef[i, y[i]] += alpha


def _end_with_parent() -> None:
    """Linux: a run that is given up takes R with it."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
