"""One-vs-one and DAG: which pairs there are, and how their decisions become a class (paper 002, section II).

Machine (i, j), i < j, decides for class i when its value is positive, as in LIBSVM.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np


def pairs(n_classes: int) -> list[tuple[int, int]]:
    """(0, 1), (0, 2), ..., in the order of the rows of ``coef_``."""
    return list(combinations(range(n_classes), 2))


def machines_of_first(n_classes: int) -> list[slice]:
    """The machines (i, i + 1), ..., (i, n_classes - 1) of every class i."""
    ends = np.cumsum(np.arange(n_classes - 1, -1, -1))
    return [slice(int(end) - n_classes + 1 + i, int(end)) for i, end in enumerate(ends)]


def votes(decisions: np.ndarray, n_classes: int) -> np.ndarray:
    """Max wins: how many of its pairs each class won. A value of zero goes to the smaller class."""
    won = np.zeros((len(decisions), n_classes))
    for i, machines in enumerate(machines_of_first(n_classes)):
        first = decisions[:, machines] >= 0
        won[:, i] += first.sum(axis=1)
        won[:, i + 1 :] += ~first
    return won


def votes_with_confidence(decisions: np.ndarray, n_classes: int, break_ties: bool) -> np.ndarray:
    """Votes plus the summed decisions squeezed below half a vote.

    Without ``break_ties`` the arg max is max wins with ties to the smaller index: where the confidence would
    prefer another of the tied classes, the two change places.
    """
    confidence = np.zeros((len(decisions), n_classes))
    for i, machines in enumerate(machines_of_first(n_classes)):
        against = decisions[:, machines]
        # One machine after the other, whatever the number of rows: classes that tie do so exactly.
        confidence[:, i] = np.add.accumulate(np.column_stack([confidence[:, i], against]), axis=1)[:, -1]
        confidence[:, i + 1 :] -= against
    won = votes(decisions, n_classes)
    value = won + confidence / (3 * (np.abs(confidence) + 1))
    if not break_ties:
        row = np.arange(len(value))
        preferred, first = value.argmax(axis=1), won.argmax(axis=1)
        value[row, preferred], value[row, first] = value[row, first], value[row, preferred]
    return value


def rounds_of_elimination(decisions: np.ndarray, n_classes: int) -> np.ndarray:
    """DAG: the round in which each class was ruled out (0 first), n_classes - 1 for the winner.

    Every round compares the first and the last of the classes that are left and drops the loser.
    """
    machine_of = np.zeros((n_classes, n_classes), dtype=np.int64)
    machine_of[np.triu_indices(n_classes, 1)] = np.arange(n_classes * (n_classes - 1) // 2)
    row = np.arange(len(decisions))
    first = np.zeros(len(decisions), dtype=np.int64)
    last = np.full(len(decisions), n_classes - 1)
    eliminated = np.zeros((len(decisions), n_classes))
    for step in range(n_classes - 1):
        first_wins = decisions[row, machine_of[first, last]] >= 0
        eliminated[row, np.where(first_wins, last, first)] = step
        last = np.where(first_wins, last - 1, last)
        first = np.where(first_wins, first, first + 1)
    eliminated[row, first] = n_classes - 1
    return eliminated


def rounds_with_confidence(decisions: np.ndarray, n_classes: int) -> np.ndarray:
    """DAG: votes with confidence, in which the class that is left in the end has changed places with the first."""
    value = votes_with_confidence(decisions, n_classes, break_ties=True)
    winner = rounds_of_elimination(decisions, n_classes).argmax(axis=1)
    row, first = np.arange(len(value)), value.argmax(axis=1)
    value[row, winner], value[row, first] = value[row, first], value[row, winner]
    tied = np.flatnonzero(value.argmax(axis=1) != winner)
    value[tied, winner[tied]] = np.nextafter(value[tied, winner[tied]], np.inf)
    return value
