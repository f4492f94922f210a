"""Kinds of values that NumPy makes numbers of without a word, though they are none."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import numpy as np

_TIMES = (np.datetime64, np.timedelta64, datetime.date, datetime.timedelta)  # pandas' are of these, too


def check_kind(values: Any, name: str) -> None:
    """Refuse records, and dates and durations, which NumPy takes for numbers of whatever unit they happen to be in."""
    for where, part in _parts(values):
        dtype = part.dtype
        kind = getattr(dtype, "kind", "")
        if kind == "V":
            raise ValueError(records(name, dtype))
        if kind == "O" and not hasattr(part, "tocsr"):
            types = {type(value) for value in np.asarray(part).ravel().tolist()}
            dtype = ", ".join(sorted(each.__name__ for each in types if issubclass(each, _TIMES)))
        if kind in ("M", "m") or (kind == "O" and dtype):
            raise ValueError(
                f"{name} holds dates or durations ({where} is {dtype}): make numbers of them first, such as days: "
                'x.astype("datetime64[D]").astype(float), or x / np.timedelta64(1, "D") for durations'
            )


def records(name: str, dtype: Any) -> str:
    """What is wrong with an array of records."""
    one = f"one field ({name}[{dtype.names[0]!r}]), or " if dtype.names else ""
    return (
        f"{name} holds records ({dtype}): give plain values: {one}all of them by "
        f"numpy.lib.recfunctions.structured_to_unstructured({name})"
    )


def _parts(values: Any) -> Iterator[tuple[str, Any]]:
    """What has a kind of its own, and what to call it: the columns of a frame, or all of it."""
    if hasattr(values, "dtypes") and hasattr(values, "columns"):
        kinds = [getattr(dtype, "kind", "") for dtype in values.dtypes]
        for number, (name, kind) in enumerate(zip(values.columns, kinds, strict=False)):
            if kind in "OMmV":  # others are numbers of some sort, and there may be very many of them
                yield f"column {name!r}", values.iloc[:, number] if hasattr(values, "iloc") else values[name]
        return
    if isinstance(values, list | tuple):
        try:
            values = np.asarray(values)
        except ValueError:  # of no shape, which others say
            return
    if hasattr(values, "dtype"):
        yield "it", values
