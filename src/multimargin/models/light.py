"""Prediction by a linear model from a file without scikit-learn, whose import takes longer than anything else here."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from multimargin.data.csr import Csr
from multimargin.data.rows import as_rows, checked
from multimargin.estimators.calibration import probabilities
from multimargin.estimators.top_classes import with_best
from multimargin.linear.scoring import finite, padded_weights, scores
from multimargin.linear.sparse_scoring import sparse_scores, sparse_top
from multimargin.models.envelope import open_model
from multimargin.models.linear import read_first_index, read_linear
from multimargin.problems.formulations import FORMULATIONS, PAIRWISE
from multimargin.problems.range import tiny_is_zero
from multimargin.reductions.pairwise import rounds_of_elimination, rounds_with_confidence, votes_with_confidence

LINEAR_KINDS = ("LinearSVM", "LinearSVMCV")


class LightModel:
    """A linear model that predicts, bit for bit as the one that was saved, and does nothing else.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    n_features_in_ : int
    formulation : str
    calibration_ : ndarray or None
        Numbers of the calibration, if the model was trained with ``probability=True``.
    first_index_ : int or None
        0 or 1, if ``multimargin train`` read the rows from svmlight text: what its features count from.
    """

    def __init__(self, node: Any) -> None:
        parameters = node.value("parameters", dict)
        self.formulation: str = parameters.get("formulation", FORMULATIONS[0])
        if self.formulation not in FORMULATIONS:
            raise node.wrong(f"formulation {self.formulation!r} is unknown")
        self._pair_columns = parameters.get("decision_function_shape") == "ovo"
        self._break_ties = bool(parameters.get("break_ties"))
        linear = read_linear(node, self.formulation)
        self.classes_ = linear.classes
        self.n_features_in_, self._lanes = linear.weights.shape
        self._W: Any = linear.weights
        if not isinstance(self._W, Csr):
            self._W = padded_weights(*linear.weights.shape)
            self._W[:, : self._lanes] = linear.weights
        self._intercept = linear.intercept
        self.calibration_ = linear.calibration
        self.first_index_ = read_first_index(node)

    def decision_function(self, X: Any) -> np.ndarray:
        """Confidence of every class, as in :meth:`multimargin.LinearSVM.decision_function`."""
        return self._values(X, by_class=not self._pair_columns)

    def predict(self, X: Any) -> np.ndarray:
        """Class labels."""
        if isinstance(self._W, Csr):
            return self.classes_[self._best_classes(X, 1)[0][:, 0]]
        values = self._values(X, by_class=True)
        if len(self.classes_) == 2:
            return self.classes_[(values > 0).astype(int)]
        return self.classes_[values.argmax(axis=1)]

    @tiny_is_zero
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, for models that were trained with ``probability=True``."""
        if self.calibration_ is None:
            raise AttributeError("this model has no probabilities: it was not trained with probability=True")
        if self.formulation == "dag" and len(self.classes_) > 2:  # a round of elimination does not say how clear it was
            values = rounds_with_confidence(self._values(X, by_class=False), len(self.classes_))
        else:
            values = self._values(X, by_class=True)
        return probabilities(values, self.calibration_)

    @tiny_is_zero
    def _best_classes(self, X: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and scores of the n best classes, the best first."""
        if not isinstance(self._W, Csr):
            return with_best(self._values(X, by_class=True), n)
        rows = as_rows(checked(X, self.n_features_in_), only_scored=True)
        lanes, values = sparse_top(rows, self._W, self._intercept, n, 1)
        return lanes, finite(values)

    @tiny_is_zero
    def _values(self, X: Any, by_class: bool) -> np.ndarray:
        rows = as_rows(checked(X, self.n_features_in_), only_scored=True)
        if isinstance(self._W, Csr):
            return finite(sparse_scores(rows, self._W, self._intercept, 1))
        values = scores(rows, self._W, self._lanes, 1)
        values += self._intercept
        finite(values)
        if len(self.classes_) == 2:
            return values.ravel()
        if by_class and self.formulation == "dag":
            return rounds_of_elimination(values, len(self.classes_))
        if by_class and self.formulation in PAIRWISE:
            return votes_with_confidence(values, len(self.classes_), self._break_ties)
        return values


def load_light(path: str | os.PathLike) -> LightModel | None:
    """A linear model that predicts without importing scikit-learn.

    Parameters
    ----------
    path : str or path
        A file that :func:`multimargin.models.save` wrote.

    Returns
    -------
    LightModel or None
        None if the file holds something else than a LinearSVM or LinearSVMCV: :func:`multimargin.models.load` reads it.

    Raises
    ------
    ModelFormatError
        If the file is damaged, or no model.
    """
    node = open_model(path)
    return LightModel(node) if node.kind in LINEAR_KINDS else None


def load_to_predict(path: str | os.PathLike) -> Any:
    """As :func:`load_light`, or a linear model of text; others as :func:`multimargin.models.load` reads them."""
    node = open_model(path)
    if node.kind in LINEAR_KINDS:
        return LightModel(node)
    from multimargin.models.light_text import light_text_model

    light = light_text_model(node.copy())
    if light is not None:
        return light
    from multimargin.models.store import read_node  # and with it scikit-learn

    return read_node(node)
