"""The part of a linear model that predicts, as it stands in a file; nothing here needs scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multimargin.data.csr import Csr
from multimargin.estimators.calibration import N_PARAMETERS
from multimargin.models.tree import Reader
from multimargin.models.vectors import read_csr, read_vector
from multimargin.problems.formulations import n_lanes


@dataclass
class Linear:
    """Classes, weights (features x machines), intercepts, and the numbers of the calibration if there is one."""

    classes: np.ndarray
    weights: np.ndarray | Csr
    intercept: np.ndarray
    calibration: np.ndarray | None


def read_classes(node: Reader) -> np.ndarray:
    """Labels: at least two, sorted and unique."""
    classes = read_vector(node, "classes")
    if len(classes) < 2 or not (classes[:-1] < classes[1:]).all():
        raise node.wrong("classes must be two labels or more, sorted and different")
    return classes


def read_linear(node: Reader, formulation: str) -> Linear:
    """Classes, weights and intercept of a node, checked."""
    classes = read_classes(node)
    weights: np.ndarray | Csr
    if node.has("weights.rows"):
        matrix = read_csr(node, "weights", (node.size("weights.rows"), n_lanes(formulation, len(classes))))
        weights = Csr(matrix.data, matrix.indices, matrix.indptr, matrix.shape)
        if formulation != "crammer_singer" or len(classes) == 2:
            raise node.wrong("weights may be sparse in crammer_singer only, with three classes or more")
    else:
        weights = node.array("weights", "f", (None, n_lanes(formulation, len(classes))))
    intercept = node.array("intercept", "f", (weights.shape[1],))
    if weights.dtype != np.float64 or intercept.dtype != np.float64:
        raise node.wrong("weights and intercept must be float64")
    return Linear(classes, weights, intercept, read_calibration(node))


def read_first_index(node: Reader) -> int | None:
    """What features of svmlight text count from, if the rows of training came from there."""
    return node.value("first_index", int, check=lambda first: first in (0, 1)) if node.has("first_index") else None


def read_calibration(node: Reader) -> np.ndarray | None:
    """The numbers that make probabilities of scores, if the node has them."""
    if not node.has("calibration"):
        return None
    calibration = node.array("calibration", "f", (N_PARAMETERS,))
    if calibration.dtype != np.float64 or (calibration < 0).any():
        raise node.wrong("calibration must be numbers of float64, and not negative")
    return calibration
