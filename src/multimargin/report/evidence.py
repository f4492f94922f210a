"""What speaks for and against each class: weights of features, or support vectors.

Of a linear machine with one vector a class: its weights less their mean over the classes, as adding one vector to all
classes changes no decision. Of pairs: the mean over the machines of the class, each with the sign that favours it.
Of a kernel machine: what a support vector adds, on average, to the class's score on the rows of that class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from multimargin.problems.formulations import PAIRWISE
from multimargin.reductions.pairwise import pairs
from multimargin.report.judgement import Judgement
from multimargin.report.numbers import signed
from multimargin.report.rows import Rows, Shown

_MOST_CLASSES = 200
_FEATURES = 10  # on either side
_VECTORS = 4
_ROWS_OF_CLASS = 100  # that support vectors are compared with


@dataclass
class Item:
    """A feature or support vector, and how much it speaks; ``width`` is relative to the largest of its class."""

    name: str
    value: str
    width: float
    shown: Shown | None = None


@dataclass
class Evidence:
    """Of one class, strongest first."""

    label: str
    f1: float
    speaks_for: list[Item]
    speaks_against: list[Item]


def classes_to_explain(judged: Judgement) -> np.ndarray:
    """Positions in the model's classes, hardest class first; not more than can be read."""
    f1 = np.nan_to_num(judged.f1[judged.known], nan=np.inf)
    return np.argsort(f1, kind="stable")[:_MOST_CLASSES]


def evidence(judged: Judgement, names: list[str], rows: Rows) -> list[Evidence]:
    """Of every class that :func:`classes_to_explain` says."""
    machine = judged.machine
    if hasattr(machine, "coef_"):
        share = _ShareOfClass(machine, np.asarray(machine.coef_))
        return [_of_features(judged, m, share(m), names) for m in classes_to_explain(judged).tolist()]
    share = _ShareOfClass(machine, machine.dual_coef_[machine.support_].T.tocsr())
    vectors = _vectors_to_show(judged, names, rows)
    return [_of_vectors(judged, m, share(m), vectors) for m in classes_to_explain(judged).tolist()]


class _ShareOfClass:
    """From the machines' vectors (rows) to the one that speaks for a class."""

    def __init__(self, machine: Any, of_machines: Any):
        self.k = len(machine.classes_)
        self.of_machines = of_machines
        self.pairwise = machine.formulation in PAIRWISE and self.k > 2
        if self.k > 2 and not self.pairwise:
            self.mean = np.asarray(of_machines.mean(axis=0)).ravel()
        if self.pairwise:
            self.first, self.second = np.array(pairs(self.k)).T

    def __call__(self, m: int) -> np.ndarray:
        if self.k == 2:
            return self._dense(0) * (1.0 if m == 1 else -1.0)
        if not self.pairwise:
            return self._dense(m) - self.mean
        sign = (self.first == m).astype(np.float64) - (self.second == m)
        its_machines = np.flatnonzero(sign)
        return self.of_machines[its_machines].T @ sign[its_machines] / (self.k - 1)

    def _dense(self, j: int) -> np.ndarray:
        row = self.of_machines[[j]]
        return (row.toarray() if hasattr(row, "toarray") else row).ravel()


def _of_features(judged: Judgement, m: int, weight: np.ndarray, names: list[str]) -> Evidence:
    items = _strongest(weight, _FEATURES, lambda j: (names[j], None))
    return _evidence(judged, m, *items)


def _of_vectors(judged: Judgement, m: int, share: np.ndarray, vectors: _Vectors) -> Evidence:
    own = np.flatnonzero(judged.true == judged.known[m])
    own = own[np.linspace(0, len(own) - 1, min(len(own), _ROWS_OF_CLASS)).round().astype(int)]
    machine: Any = judged.machine
    if not len(own):  # nothing to compare with: the duals themselves
        likeness = np.ones(len(share))
    elif machine._kernel.name == "precomputed":
        likeness = judged.X[np.ix_(own, machine.support_)].mean(axis=0)
    else:
        likeness = machine._kernel.block(judged.X[own], machine.support_vectors_).mean(axis=0)
    items = _strongest(share * np.asarray(likeness).ravel(), _VECTORS, vectors.describe)
    return _evidence(judged, m, *items)


def _evidence(judged: Judgement, m: int, speaks_for: list[Item], speaks_against: list[Item]) -> Evidence:
    return Evidence(str(judged.machine.classes_[m]), float(judged.f1[judged.known[m]]), speaks_for, speaks_against)


def _strongest(values: np.ndarray, most: int, describe: Any) -> tuple[list[Item], list[Item]]:
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    sides = []
    for sign in (1.0, -1.0):
        strength = sign * values
        few = np.argpartition(-strength, min(most, len(strength) - 1))[:most] if len(strength) else np.array([], int)
        few = few[np.argsort(-strength[few], kind="stable")]
        items = []
        for j in few[strength[few] > 0].tolist():
            name, shown = describe(j)
            items.append(Item(name, signed(float(values[j]), 2), 100 * float(strength[j]) / largest, shown))
        sides.append(items)
    return sides[0], sides[1]


@dataclass
class _Vectors:
    """Support vectors by their position."""

    support: np.ndarray
    labels: list[str] | None
    rows: Rows | None  # by position of the support vector
    training_rows: Rows | None  # by row of training

    def describe(self, j: int) -> tuple[str, Shown | None]:
        row = int(self.support[j])
        name = f"row {row}" + (f", labelled {self.labels[j]}" if self.labels is not None else "")
        if self.training_rows is not None:
            return name, self.training_rows.show(row)
        return name, self.rows.show(j) if self.rows is not None else None


def _vectors_to_show(judged: Judgement, names: list[str], rows: Rows) -> _Vectors:
    machine: Any = judged.machine
    encoded = getattr(machine, "_dual_labels", None)
    labels = None if encoded is None else [str(label) for label in machine.classes_[encoded[machine.support_]]]
    precomputed = machine._kernel.name == "precomputed"
    of_training = rows if judged.on_training_rows and (not precomputed or rows.texts is not None) else None
    of_vectors = None if precomputed else Rows(machine.support_vectors_, names)
    return _Vectors(machine.support_, labels, of_vectors, of_training)
