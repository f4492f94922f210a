"""Which kernel machines a formulation is made of, and which rows of the store each learns from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from multimargin.problems.formulations import Formulation, formulation
from multimargin.reductions.pairwise import pairs

_EXAMPLES_OF_SMALL = 2048  # of a pair
_EXAMPLES_OF_BATCH = 16384  # of small pairs that are trained as one


@dataclass
class Task:
    """A machine to train: its problem, its columns of the model, its examples, and their labels.

    Small machines of pairs are trained several at a time: ``pairs`` has the groups of each, and ``examples``, which are
    many when there are many pairs, is empty.
    """

    problem: Formulation
    columns: slice
    groups: list[int] = field(default_factory=list)
    examples: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # rows of the store
    label: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int32))  # lanes, or signs with a free bias
    free_bias: bool = False
    pairs: np.ndarray | None = None

    def every_example(self, group_begin: np.ndarray) -> np.ndarray:
        """Rows of the store, once for every machine that learns from them."""
        return self.examples if self.pairs is None else rows_of(self.pairs, group_begin)

    def learns_from(self, row: np.ndarray, column: np.ndarray, group_begin: np.ndarray) -> np.ndarray:
        """Whether the rows are examples of the machines of these columns."""
        if self.pairs is None:
            return np.isin(row, self.examples)
        group = np.searchsorted(group_begin, row, side="right") - 1
        return (self.pairs[column - self.columns.start] == group[:, None]).any(axis=1)


def rows_of(groups: np.ndarray, group_begin: np.ndarray) -> np.ndarray:
    """Rows of the store that are in these groups, one group after the other."""
    begin, length = group_begin[groups.ravel()], np.diff(group_begin)[groups.ravel()]
    return np.arange(length.sum()) + np.repeat(begin - (np.cumsum(length) - length), length)


def sizes(groups: np.ndarray, group_begin: np.ndarray) -> np.ndarray:
    """Numbers of examples of machines of pairs."""
    return np.diff(group_begin)[groups].sum(axis=1)


def tasks(
    name: str, n_classes: int, y: np.ndarray, group_begin: np.ndarray, *, solver: str, free_bias: bool
) -> Iterator[Task]:
    """The machines of a formulation, for encoded classes y of the rows of the store, which has a group a class for
    machines of pairs and else one."""
    problem = formulation(name, "hinge", n_classes)
    everything = np.arange(len(y))
    if len(group_begin) > 2:
        yield from _pair_tasks(problem, n_classes, group_begin, solver=solver, free_bias=free_bias)
    elif problem.separable and n_classes > 2 and (free_bias or solver == "decomposition"):
        binary = Formulation("one_vs_rest", False, 1)
        for c in range(n_classes):
            yield _binary(binary, slice(c, c + 1), [0], everything, np.where(y == c, 1, -1), free_bias)
    elif problem.lanes == 1:
        yield _binary(problem, slice(0, 1), [0], everything, np.where(y == 1, 1, -1), free_bias)
    else:
        yield Task(problem, slice(0, problem.lanes), [0], everything, problem.lane_labels(y))


def _pair_tasks(
    problem: Formulation, n_classes: int, group_begin: np.ndarray, *, solver: str, free_bias: bool
) -> Iterator[Task]:
    """Pairs in order; small ones, where the core can train several in a call, in batches."""
    groups = np.array(pairs(n_classes), dtype=np.int64)
    size = sizes(groups, group_begin)
    batches = free_bias and solver == "block"
    first = 0
    while first < len(groups):
        end = first + 1
        while batches and end < len(groups) and size[first : end + 1].sum() <= _EXAMPLES_OF_BATCH:
            if size[first : end + 1].max() > _EXAMPLES_OF_SMALL:
                break
            end += 1
        pair = groups[first]
        if end - first > 1:
            yield Task(problem, slice(first, end), pairs=groups[first:end])
        else:
            sign = np.repeat([1, -1], np.diff(group_begin)[pair])
            examples = rows_of(pair, group_begin)
            yield _binary(problem, slice(first, end), pair.tolist(), examples, sign, free_bias)
        first = end


def _binary(
    problem: Formulation, columns: slice, groups: list[int], examples: np.ndarray, sign: np.ndarray, free_bias: bool
) -> Task:
    label = sign if free_bias else np.where(sign > 0, 0, -1)  # the lane of the positive class
    return Task(problem, columns, groups, examples, label.astype(np.int32), free_bias)
