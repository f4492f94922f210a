"""The assignments that cuts are made of (cutting_plane.py): for every example its label or a wrong class.

``choose`` finds those of the largest loss, for a range of examples, from their scores: it writes their duals and
returns the sum of C_i over the examples with a wrong class, by part. ``chosen`` is what to remember of a pass, by part,
and ``combine`` adds up the duals of assignments that are weighted, by part.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

Weighted = Iterable[tuple[float, np.ndarray]]  # weights with what was chosen


class WorstClasses:
    """Crammer-Singer: a class for every example, C_i at its label and -C_i there."""

    def __init__(self, label: np.ndarray, cap: np.ndarray, lanes: int):
        self.label, self.cap = label, cap
        self.worst = np.empty(len(label), dtype=np.min_scalar_type(lanes - 1))

    def choose(self, begin: int, end: int, scores: np.ndarray, duals: np.ndarray) -> np.ndarray:
        here, every = slice(begin, end), np.arange(end - begin)
        label, cap = self.label[here], self.cap[here]
        scores[every, label] -= 1
        worst = self.worst[here] = scores.argmax(axis=1)
        duals[:] = 0.0
        duals[every, label] = cap
        duals[every, worst] -= cap
        return cap[worst != label].sum(keepdims=True)

    def chosen(self) -> list[np.ndarray]:
        return [self.worst.copy()]

    def combine(self, parts: list[Weighted], alpha: np.ndarray) -> None:
        every = np.arange(len(alpha))
        for weight, worst in parts[0]:
            alpha[every, worst] -= weight * self.cap
        alpha[every, self.label] = 0.0
        alpha[every, self.label] = -alpha.sum(axis=1)


class InsideMargins:
    """Separable lanes: for each lane the examples inside its margin, C_i with the sign of the lane."""

    def __init__(self, label: np.ndarray, cap: np.ndarray, lanes: int):
        self.label, self.cap = label, cap
        self.inside = np.empty((lanes, len(label)), dtype=bool)

    def choose(self, begin: int, end: int, scores: np.ndarray, duals: np.ndarray) -> np.ndarray:
        cap, sign = self.cap[begin:end], self._signs(begin, end)
        inside = sign * scores < 1
        self.inside[:, begin:end] = inside.T
        duals[:] = np.where(inside, sign * cap[:, None], 0.0)
        return cap @ inside

    def chosen(self) -> list[np.ndarray]:
        return list(np.packbits(self.inside, axis=1))

    def combine(self, parts: list[Weighted], alpha: np.ndarray) -> None:
        sign, n = self._signs(0, len(alpha)), len(alpha)
        for m, weighted in enumerate(parts):
            share = np.zeros(n)
            for weight, inside in weighted:
                share += weight * np.unpackbits(inside, count=n)
            alpha[:, m] += sign[:, m] * self.cap * share

    def _signs(self, begin: int, end: int) -> np.ndarray:
        """+1 in the label's lane, else -1."""
        lanes = np.arange(len(self.inside), dtype=self.label.dtype)
        return np.where(self.label[begin:end, None] == lanes, 1.0, -1.0)
