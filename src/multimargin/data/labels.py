"""Labels of whatever kind as NumPy's numbers, truth values and strings; what is none of these is refused."""

from __future__ import annotations

from reprlib import repr as shortened
from typing import Any

import numpy as np

from multimargin.data.kinds import records

_INTEGERS = (int, np.integer)
_BOOLEANS = (bool, np.bool_)
_FLOATS = (float, np.float16, np.float32)  # float64 is a float
_EXACT = 2**53  # integers up to there are different numbers in float64


def plain_labels(y: Any) -> Any:
    """Labels of pandas' types, of NumPy's strings without a width, and numbers, truth values and strings that are
    objects or in a list, as NumPy's; anything else as it is. Nothing goes through float64, in which large integers are
    the same."""
    if isinstance(y, list | tuple):
        return _of_list(y)
    dtype = getattr(y, "dtype", None)
    if dtype is None or np.ndim(y) != 1:
        return y
    if getattr(dtype, "kind", "") == "V":
        raise ValueError(records("y", dtype))
    if not isinstance(dtype, np.dtype):
        return _of_pandas(y, dtype)
    if dtype.kind in "OT":
        return _of_objects(np.asarray(y).astype(object))
    if dtype.kind == "f" and dtype.itemsize > 8:
        narrow = np.asarray(y).astype(np.float64)
        return narrow if np.array_equal(narrow, y) else y
    return y


def _of_list(y: Any) -> Any:
    """What NumPy makes of a list, unless it would make one label of two, or strings of all that is among strings."""
    types = {type(label) for label in y}
    if any(hasattr(each, "__len__") and not issubclass(each, str) for each in types):
        return y  # of more than one dimension
    if all(issubclass(each, (*_BOOLEANS, *_INTEGERS, float, np.floating)) for each in types):
        integers = y if types == {int} else [label for label in y if isinstance(label, _INTEGERS)]
        if not integers or (min(integers) >= -_EXACT and max(integers) <= _EXACT):
            return plain_labels(np.asarray(y)) if np.longdouble in types else y
    if all(issubclass(each, str) for each in types) and "\0" not in "".join(y):  # which NumPy drops at an end
        return np.asarray(y if types == {str} else [str.__str__(label) for label in y])
    objects = np.empty(len(y), dtype=object)
    objects[:] = y
    return _of_objects(objects)


def _of_pandas(y: Any, dtype: Any) -> Any:
    if not hasattr(y, "to_numpy") or not hasattr(y, "isna"):
        return y
    missing = np.flatnonzero(np.asarray(y.isna()))
    if len(missing):
        raise no_label(missing[0])
    kinds = {"i": np.int64, "u": np.uint64, "b": np.bool_}
    return y.to_numpy(dtype=kinds[dtype.kind]) if getattr(dtype, "kind", "") in kinds else y


def _of_objects(labels: np.ndarray) -> np.ndarray:
    types = {type(label) for label in labels}

    def all_are(*kinds: type) -> bool:
        return all(issubclass(each, kinds) for each in types)

    if not types or types == {str}:
        return labels
    if all_are(*_BOOLEANS):
        return labels.astype(bool)
    if all_are(*_INTEGERS) and bool not in types:
        numbers = np.array([int(label) for label in labels])
        return numbers if numbers.dtype.kind in "iu" else labels  # there are larger ones than those of 64 bits
    if all_are(*_FLOATS):
        return labels.astype(np.float64)
    if all_are(str):
        strings = np.empty_like(labels)
        strings[:] = [str.__str__(label) for label in labels]  # of an enumeration str(label) would be its name
        return strings
    return labels


def encoded_by(classes: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number of each label's class, and which labels are of none. Signed and unsigned integers do not meet in
    float64, in which large ones are the same."""
    integers = classes.dtype.kind in "biu" and y.dtype.kind in "biu"
    encoded = np.searchsorted(classes, y.astype(classes.dtype) if integers else y)
    encoded = np.minimum(encoded, len(classes) - 1)
    return encoded, classes[encoded] != y


def check_comparable(classes: np.ndarray, y: np.ndarray) -> None:
    """Refuse labels that are numbers where the classes are strings, or the other way round: none would be right."""
    kinds = ["numbers" if labels.dtype.kind in "biuf" else "strings" for labels in (classes, y)]
    if len(y) and kinds[0] != kinds[1]:
        first, other = y.tolist()[0], classes.tolist()[0]
        raise ValueError(f"y holds {kinds[1]}, such as {first!r}, and the classes are {kinds[0]}, such as {other!r}")


def no_label(row: int) -> ValueError:
    """The error of a row without one."""
    return ValueError(f"y has no label (None or NaN) in row {row}: leave out rows without one")


def is_missing(label: Any) -> bool:
    """None, NaN, or pandas' NA."""
    return label is None or type(label).__name__ == "NAType" or label != label


def check_labels(y: np.ndarray, name: str = "y") -> None:
    """Refuse labels, plain where they can be, that are missing, of several kinds, or of none that is a label."""
    if y.dtype.kind in "mM":
        raise ValueError(
            f"{name} holds dates or durations ({y.dtype}), which no model is saved with: {name}.astype(str)"
        )
    if y.dtype.kind not in "OV":
        return
    missing = np.flatnonzero([is_missing(label) for label in y])
    if len(missing):
        raise no_label(missing[0])
    kinds = {"strings" if isinstance(label, str) else type(label).__name__ for label in y}
    if kinds <= {"strings"}:
        return
    what = f"mixes {', '.join(sorted(kinds))}" if len(kinds) > 1 else f"holds {shortened(y[0])}, of {kinds.pop()}"
    raise ValueError(
        f"{name} {what}: labels must be all of a kind, integers (of 64 bits), floats, truth values or strings, such "
        f"as [str(label) for label in {name}]"
    )
