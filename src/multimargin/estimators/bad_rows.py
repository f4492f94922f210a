"""What is wrong with X or y: which entry it is, and what to do about it."""

from __future__ import annotations

import os
import re
from reprlib import repr as shortened
from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin.data.block_writing import MANIFEST
from multimargin.data.labels import check_labels, no_label
from multimargin.data.rows import where_not_finite


def check_path(X: Any) -> None:
    """Refuse the name of a file in the place of its rows."""
    if isinstance(X, str | os.PathLike):
        is_store = os.path.isfile(os.path.join(os.fsdecode(X), MANIFEST))
        raise TypeError(
            f"X must be an array or a sparse matrix, not a path or a text, got {os.fspath(X)!r}; "
            + (
                "it is a store of blocks, on which LinearSVM().fit(open_blocks(path)) trains, with open_blocks of "
                "multimargin.data.blocks"
                if is_store
                else "X, y = read_svmlight(path) reads a file"
            )
        )


def explained(error: ValueError | OverflowError, X: Any, y: Any) -> ValueError | OverflowError:
    """The same error; where it leaves open which entry it is about, that is said."""
    first, _, rest = str(error).partition("\n")
    if re.match(r"Input X contains (NaN|infinity)", first):
        place = _not_finite(X)
        if place is not None:
            first = f"{first.rstrip('.')}; the first is in row {place[0]}, column {place[1]}."
            return ValueError(f"{first}\n{rest}".rstrip())
    elif re.match(r"Input y contains (NaN|infinity)", first):
        labels = np.asarray(y, dtype=np.float64)
        row = np.flatnonzero(~np.isfinite(labels.ravel()))[0]
        return no_label(row) if np.isnan(labels.ravel()[row]) else ValueError(f"{first.rstrip('.')}, in row {row}")
    elif isinstance(error, OverflowError) or first.startswith("could not convert string to float"):
        row, column, value = _no_number(X)
        advice = "make numbers of texts (TfidfVectorizer) and categories (OneHotEncoder) first"
        where = f"X holds {shortened(value)} in row {row}, column {column!r}" if row is not None else "X"
        if isinstance(error, OverflowError):
            return ValueError(f"{where}: {first}: scale the features down")
        return ValueError(f"{where}: {first}; {advice}")
    elif first == "Input contains NaN" and not isinstance(y, str):  # of labels that are objects
        check_labels(np.asarray(y, dtype=object))
    return error


def _not_finite(X: Any) -> tuple[int, int] | None:
    try:
        place = where_not_finite(X.tocsr() if sp.issparse(X) else np.asarray(X, dtype=np.float64))
    except (TypeError, ValueError):
        return None
    return None if place is None else place[:2]


def _no_number(X: Any) -> tuple[int | None, Any, Any]:
    """Row, column (its name, if it has one) and value of the first entry that is no number."""
    names = list(getattr(X, "columns", []))
    for column, values in enumerate(np.asarray(X, dtype=object).T if np.ndim(X) == 2 else []):
        for row, value in enumerate(values):
            try:
                float(value)
            except (TypeError, ValueError, OverflowError):
                return row, names[column] if names else column, value
    return None, None, None
