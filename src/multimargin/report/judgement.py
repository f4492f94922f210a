"""A model judged on rows: what it says about them, and by how much; whether it was trained on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from multimargin.data.labels import plain_labels
from multimargin.displays.drawing import fitted_machine
from multimargin.estimators.base import MarginClassifier
from multimargin.linear.many_classes import is_sparse
from multimargin.problems.formulations import PAIRWISE

_VALUES_AT_ONCE = 2**22  # decision values in memory


@dataclass
class Judgement:
    """Labels are positions in ``classes``; those that the model knows come as in ``machine.classes_``."""

    machine: MarginClassifier
    given: Any  # rows that the machine is asked about: after the other steps of a Pipeline
    X: Any  # the same as an array
    classes: np.ndarray
    true: np.ndarray
    said: np.ndarray

    @property
    def n_classes(self) -> int:
        return len(self.classes)

    @cached_property
    def support(self) -> np.ndarray:
        """Rows of each class."""
        return np.bincount(self.true, minlength=self.n_classes)

    @cached_property
    def right(self) -> np.ndarray:
        """Rows of each class that were recognised."""
        return np.bincount(self.true[self.true == self.said], minlength=self.n_classes)

    @cached_property
    def recall(self) -> np.ndarray:
        """NaN for a class without rows."""
        return _ratio(self.right, self.support)

    @cached_property
    def precision(self) -> np.ndarray:
        """NaN for a class that was never said."""
        return _ratio(self.right, np.bincount(self.said, minlength=self.n_classes))

    @cached_property
    def f1(self) -> np.ndarray:
        """NaN for a class that neither occurred nor was said."""
        return _ratio(2 * self.right, self.support + np.bincount(self.said, minlength=self.n_classes))

    @property
    def accuracy(self) -> float:
        return float(np.mean(self.true == self.said))

    @property
    def balanced_accuracy(self) -> float:
        return float(np.nanmean(self.recall))

    @cached_property
    def known(self) -> np.ndarray:
        """Position in ``classes`` of each of the model's classes."""
        return np.searchsorted(self.classes, self.machine.classes_)

    @cached_property
    def rivals(self) -> tuple[np.ndarray, np.ndarray]:
        """For every row the best class other than its label, and how far that is ahead of the label.

        A row whose label the model does not know has nothing to compare: -infinity.
        """
        n_rows, k = len(self.true), len(self.machine.classes_)
        column = np.full(self.n_classes, -1)
        column[self.known] = np.arange(k)
        own = column[self.true]
        rival, ahead = np.zeros(n_rows, dtype=np.int64), np.full(n_rows, -np.inf)
        to_classes = self.machine._class_values if k > 2 and self.machine.formulation in PAIRWISE else None
        at_once = max(1, _VALUES_AT_ONCE // k)
        for begin in range(0, n_rows, at_once):
            rows = slice(begin, begin + at_once)
            values = self.machine._decisions(self.X[rows], to_classes)
            if k == 2:  # one value: that of the second class against the first
                values = np.column_stack([np.zeros(len(values)), values.ravel()])
            inside = np.flatnonzero(own[rows] >= 0)
            label = own[rows][inside]
            values = values[inside]
            at = np.arange(len(inside))
            of_label = values[at, label].copy()
            values[at, label] = -np.inf
            best = values.argmax(axis=1)
            rival[begin + inside] = self.known[best]
            ahead[begin + inside] = values[at, best] - of_label
        return rival, ahead

    @cached_property
    def on_training_rows(self) -> bool:
        """Whether these are the rows that the machine was trained on, in their order.

        Labels must be the same, and the rows must be those of the duals: the weights are ``dual_coef_.T @ X`` up to
        the duality gap, and support vectors are kept as they are.
        """
        machine, labels = self.machine, getattr(self.machine, "_dual_labels", None)
        duals = getattr(machine, "dual_coef_", None)
        if labels is None or duals is None or not len(labels) == len(self.true) == duals.shape[0]:
            return False
        if not np.array_equal(self.known[labels], self.true):
            return False
        if hasattr(machine, "support_vectors_"):
            if not machine.support_vectors_.shape[1]:  # precomputed: a row of kernel values, one for each row
                return self.X.shape == machine.shape_fit_
            return _equal(self.X[machine.support_], machine.support_vectors_)
        V = duals.T @ self.X
        apart = float(np.linalg.norm(machine.coef_ - (V.toarray() if sp.issparse(V) else V)))
        gap = max(machine.primal_objective_ - machine.dual_objective_, 0.0)
        return apart <= 2 * np.sqrt(2 * gap) + 1e-6 * float(np.linalg.norm(machine.coef_))


def judge(model: Any, X: Any, y: Any) -> Judgement:
    """Check model and rows, and predict."""
    machine = fitted_machine(model)
    if not isinstance(machine, MarginClassifier):
        raise TypeError(
            "write_report is for LinearSVM, LinearSVMCV, KernelSVM and Pipelines that end in one; "
            f"got {type(machine).__name__}"
        )
    check_is_fitted(machine)
    if is_sparse(getattr(machine, "coef_", None)):
        raise ValueError(
            f"a report shows the scores of all classes, and this {type(machine).__name__} has sparse weights for "
            f"{len(machine.classes_)} of them; score(X, y) and top_classes(X, n) judge it"
        )
    y = column_or_1d(plain_labels(y))
    check_consistent_length(X, y)
    if not len(y):
        raise ValueError("X and y have no rows to judge the model on")
    if not set(y.tolist()) & set(machine.classes_.tolist()):
        raise ValueError(
            f"no label of y is a class of the model: y has {_some(np.unique(y))}, the model {_some(machine.classes_)}"
        )
    seen = X if machine is model else model[:-1].transform(X) if len(model) > 1 else X
    predicted = machine.predict(seen)
    classes, codes = np.unique(np.concatenate([machine.classes_, y]), return_inverse=True)
    said = np.searchsorted(classes, predicted)
    true = codes[len(machine.classes_) :]
    return Judgement(machine, seen, machine._validated(seen, reset=False), classes, true, said)


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.full(len(part), np.nan), where=whole > 0)


def _equal(A: Any, B: Any) -> bool:
    if A.shape != B.shape:
        return False
    different = A != B
    return not (different.nnz if hasattr(different, "nnz") else np.any(different))


def _some(labels: np.ndarray) -> str:
    listed = ", ".join(repr(label) for label in labels[:5].tolist())
    return listed + (", ..." if len(labels) > 5 else "")
