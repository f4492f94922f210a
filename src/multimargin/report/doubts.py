"""Rows whose label is most doubtful."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from multimargin.problems.formulations import JOINT
from multimargin.report.judgement import Judgement
from multimargin.report.numbers import MINUS, rounded
from multimargin.report.rows import Rows, Shown

_MOST_ROWS = 15


@dataclass
class Doubt:
    """A row, its label, and the class that speaks against it."""

    row: int
    label: str
    rival: str
    share: float | None  # of the row's dual mass that is on other classes
    ahead: str
    shown: Shown


def doubts(judged: Judgement, rows: Rows) -> tuple[list[Doubt], bool]:
    """The most doubtful rows, and whether the duals know of them.

    Of the rows of training, duals say how much of a label is left to other classes (``label_doubt``); where several
    rows leave all of it, those come first on which another class is furthest ahead. Of other rows, and for
    formulations whose duals cannot be read like that, only the latter is known.
    """
    rival, ahead = judged.rivals
    machine = judged.machine
    by_duals = judged.on_training_rows and machine.formulation in JOINT and machine.loss == "hinge"
    share = np.asarray(machine.label_doubt().sum(axis=1)).ravel().round(6) if by_duals else np.zeros(len(ahead))
    order = np.lexsort((-ahead, -share))
    suspect = order[(share[order] > 0) if by_duals else (ahead[order] > 0)][:_MOST_ROWS]
    weights = _DifferenceOfWeights(judged)
    return [
        Doubt(
            int(row),
            str(judged.classes[judged.true[row]]),
            str(judged.classes[rival[row]]),
            float(share[row]) if by_duals else None,
            _difference(float(ahead[row])),
            rows.show(int(row), weights(judged.true[row], rival[row])),
        )
        for row in suspect
    ], by_duals


def _difference(ahead: float) -> str:
    """Two decimals where they say something, as margins are 1."""
    return (f"{ahead:.2f}" if abs(ahead) < 100 else rounded(ahead, 3)).replace("-", MINUS)


class _DifferenceOfWeights:
    """What features count for one class against another; None where the machine has no weights of classes."""

    def __init__(self, judged: Judgement):
        machine = judged.machine
        self.coef = getattr(machine, "coef_", None)
        self.position = {int(known): m for m, known in enumerate(judged.known)}
        if self.coef is not None and len(self.coef) != len(machine.classes_):
            self.coef = None

    def __call__(self, label: int, rival: int) -> np.ndarray | None:
        if self.coef is None:
            return None
        return self.coef[self.position[int(rival)]] - self.coef[self.position[int(label)]]
