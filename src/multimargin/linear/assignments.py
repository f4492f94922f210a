"""The assignments that cuts are made of (cutting_plane.py): for every example its label or a wrong class.

``choose`` finds those of the largest loss, for a range of examples, from their scores: it writes their duals and
returns the sum of C_i over the examples with a wrong class, by part. ``chosen`` is what to remember of a pass, by part,
and ``combine`` adds up the duals of assignments that are weighted, by part.

Checkpoints have what was remembered, which comes back by ``restored``, and the attributes ``kept`` of the pass that is
under way, at which ``check_kept`` looks when they are back.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

Weighted = Iterable[tuple[float, np.ndarray]]  # weights with what was chosen


class WorstClasses:
    """Crammer-Singer: a class for every example, C_i at its label and -C_i there."""

    kept = ("worst",)

    def __init__(self, label: np.ndarray, cap: np.ndarray, lanes: int):
        self.label, self.cap, self.lanes = label, cap, lanes
        self.worst = np.zeros(len(label), dtype=np.min_scalar_type(lanes - 1))

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

    def check_kept(self) -> None:
        self.restored(self.worst, 1)

    def restored(self, chosen: np.ndarray, count: int) -> np.ndarray:
        """What was chosen in ``count`` passes, one row each."""
        if chosen.max(initial=0) >= self.lanes:
            raise ValueError("a class that there is not is assigned")
        return _rows(chosen, count, len(self.label), self.worst.dtype)

    def combine(self, parts: list[Weighted], alpha: np.ndarray) -> None:
        every = np.arange(len(alpha))
        for weight, worst in parts[0]:
            alpha[every, worst] -= weight * self.cap
        alpha[every, self.label] = 0.0
        alpha[every, self.label] = -alpha.sum(axis=1)


class InsideMargins:
    """Separable lanes: for each lane the examples inside its margin, C_i with the sign of the lane."""

    kept = ("inside",)

    def __init__(self, label: np.ndarray, cap: np.ndarray, lanes: int):
        self.label, self.cap = label, cap
        self.inside = np.zeros((lanes, len(label)), dtype=bool)

    def choose(self, begin: int, end: int, scores: np.ndarray, duals: np.ndarray) -> np.ndarray:
        cap, sign = self.cap[begin:end], self._signs(begin, end)
        inside = sign * scores < 1
        self.inside[:, begin:end] = inside.T
        duals[:] = np.where(inside, sign * cap[:, None], 0.0)
        return cap @ inside

    def chosen(self) -> list[np.ndarray]:
        return list(np.packbits(self.inside, axis=1))

    def check_kept(self) -> None:
        """Any examples may be inside."""

    def restored(self, chosen: np.ndarray, count: int) -> np.ndarray:
        """What was chosen in ``count`` passes, one row each."""
        return _rows(chosen, count, (len(self.label) + 7) // 8, np.dtype(np.uint8))

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


def _rows(chosen: np.ndarray, count: int, length: int, dtype: np.dtype) -> np.ndarray:
    """Nothing is of any type."""
    if (count > 0 and chosen.dtype != dtype) or chosen.size != count * length:
        raise ValueError(f"assignments must be {count} times {length} values of {dtype}")
    return chosen.reshape(count, length)
