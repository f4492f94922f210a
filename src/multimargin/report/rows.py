"""How single rows are shown: their text, or their largest features."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin.report.numbers import rounded

_LONGEST_TEXT = 2000
_LONGEST_NAME = 60
_MOST_FEATURES = 6


@dataclass
class Shown:
    """A row: text, or features with their values and how many more there are."""

    text: str | None = None
    features: list[tuple[str, str]] = field(default_factory=list)
    n_more: int = 0


class Rows:
    """The rows of X, ready to be shown.

    Parameters
    ----------
    X : array or sparse array
        As the machine sees it.
    names : list of str
        Of its columns.
    texts : sequence or None
        The rows as text.
    table : DataFrame or None
        What the rows were before a Pipeline's other steps.
    """

    def __init__(self, X: Any, names: Sequence[str], texts: Sequence[Any] | None = None, table: Any = None):
        self.X, self.names, self.texts, self.table = X, names, texts, table

    def show(self, row: int, weights: np.ndarray | None = None) -> Shown:
        """One row; with weights of the features, those come first that count most."""
        if self.texts is not None:
            text = " ".join(str(self.texts[row]).split())
            return Shown(text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…")
        if self.table is not None:
            values = self.table.iloc[row]
            pairs = [(_name(str(name)), _name(str(value))) for name, value in values.items()]
            return Shown(features=pairs[:_MOST_FEATURES], n_more=max(0, len(pairs) - _MOST_FEATURES))
        column, value = _non_zeros(self.X, row)
        importance = np.abs(value if weights is None else value * weights[column])
        order = np.argsort(-importance, kind="stable")[:_MOST_FEATURES]
        pairs = [(_name(self.names[column[j]]), rounded(float(value[j]), 3)) for j in order]
        return Shown(features=pairs, n_more=len(column) - len(order))


def rows_to_show(model: Any, X: Any, seen: Any, names: Sequence[str], texts: Sequence[Any] | None) -> Rows:
    """Texts where they were given or are what the Pipeline reads; else its table, else the features."""
    if texts is not None:
        texts = list(texts)
        if len(texts) != seen.shape[0]:
            raise ValueError(f"rows must have one text for each of the {seen.shape[0]} rows of X; got {len(texts)}")
        return Rows(seen, names, texts)
    if hasattr(model, "steps"):
        if hasattr(X, "columns"):
            return Rows(seen, names, table=X)
        if all(isinstance(row, str) for row in X):
            return Rows(seen, names, list(X))
    return Rows(seen, names)


def feature_names_of(model: Any, machine: Any, n_features: int, given: Sequence[Any] | None) -> list[str]:
    """Names of the columns that the machine sees: given, or the Pipeline's, or the machine's, or x0, x1, ...,
    or x1, x2, ... if the text that it was trained on counts so."""
    if given is not None:
        names = [str(name) for name in given]
        if len(names) != n_features:
            raise ValueError(f"feature_names must have {n_features} names, one a feature; got {len(names)}")
        return names
    found = getattr(machine, "feature_names_in_", None)
    if hasattr(model, "steps") and len(model.steps) > 1:
        with suppress(AttributeError, ValueError):  # a step that does not know them
            found = model[:-1].get_feature_names_out()
    if found is None or len(found) != n_features:
        first = getattr(machine, "first_index_", None) or 0
        return [f"x{j}" for j in range(first, first + n_features)]
    return [str(name) for name in found]


def _non_zeros(X: Any, row: int) -> tuple[np.ndarray, np.ndarray]:
    if sp.issparse(X):
        one = X[[row]].tocsr()
        return one.indices, one.data
    column = np.flatnonzero(X[row])
    return column, X[row][column]


def _name(text: str) -> str:
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"
