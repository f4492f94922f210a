"""Parameters as JSON, and back: numbers, text and containers of them; everything else is refused by name.

Plain JSON stands for itself. What JSON does not have is an object with one key: ``{"tuple": [...]}``, ``{"dict":
[[key, value], ...]}``, ``{"slice": [...]}``, ``{"bytes": hexadecimal}``, ``{"float": "nan"}``, ``{"array": [dtype,
values]}`` (one dimension), ``{"dtype": name}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_DTYPES = {
    name: getattr(np, name)
    for name in (
        "bool_",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float32",
        "float64",
    )
}
_NAMES = {np.dtype(scalar): name for name, scalar in _DTYPES.items()}
_TYPES = {"bool": bool, "int": int, "float": float}
_NO_NUMBERS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


class NotStorable(TypeError):
    """A value has no place in a file; the message says which."""


def encode(value: Any, what: str) -> Any:
    """JSON of a value; ``what`` names it in the error."""
    if isinstance(value, np.generic) and not isinstance(value, np.longdouble | np.clongdouble):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        finite = value - value == 0
        return value if finite else {"float": repr(value)}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, list):
        return [encode(item, what) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [encode(item, what) for item in value]}
    if isinstance(value, slice):
        return {"slice": [encode(part, what) for part in (value.start, value.stop, value.step)]}
    if isinstance(value, Mapping):
        return {"dict": [[encode(key, what), encode(item, what)] for key, item in value.items()]}
    if isinstance(value, np.ndarray) and value.ndim == 1 and (value.dtype in _NAMES or value.dtype.kind in "OU"):
        name = "str" if value.dtype.kind == "U" else _NAMES.get(value.dtype, "object")
        return {"array": [name, [encode(item, what) for item in value.tolist()]]}
    if isinstance(value, np.dtype) and value in _NAMES:
        return {"dtype": _NAMES[value]}
    if isinstance(value, type) and value in (bool, int, float):  # an array would compare its entries
        return {"dtype": value.__name__}
    if isinstance(value, type) and issubclass(value, np.generic) and np.dtype(value) in _NAMES:
        return {"dtype": _NAMES[np.dtype(value)]}
    raise NotStorable(f"{what} cannot be stored in a file: it is {_named(value)}")


def _named(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    return f"the callable {name or type(value).__name__}" if callable(value) else f"a {type(value).__name__}"


def decode(value: Any) -> Any:
    """The value that :func:`encode` made JSON of.

    Raises
    ------
    ValueError
        If nothing makes such JSON.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [decode(item) for item in value]
    if len(value) == 1:
        ((tag, inner),) = value.items()
        if tag in _DECODERS:
            try:
                return _DECODERS[tag](inner)
            except (TypeError, KeyError, OverflowError) as error:
                raise ValueError(f"{tag} cannot be made of {inner!r}") from error
    raise ValueError(f"no value is written as {value!r}")


def _sequence(inner: Any) -> list:
    if not isinstance(inner, list):
        raise TypeError("a list is needed")
    return [decode(item) for item in inner]


def _array(inner: Any) -> np.ndarray:
    name, values = inner
    if name == "str":
        if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
            raise TypeError("strings are needed")
        return np.array(values, dtype=str)
    items = _sequence(values)
    dtype = np.dtype(object if name == "object" else _DTYPES[name])
    if dtype.kind != "O" and not all(isinstance(item, bool | int | float) for item in items):
        raise TypeError("numbers are needed")
    array = np.empty(len(items), dtype=dtype)
    array[:] = items
    return array


_DECODERS = {
    "tuple": lambda inner: tuple(_sequence(inner)),
    "slice": lambda inner: slice(*_sequence(inner)),
    "dict": lambda inner: {decode(key): decode(item) for key, item in inner},
    "bytes": bytes.fromhex,
    "float": lambda inner: _NO_NUMBERS[inner],
    "array": _array,
    "dtype": lambda inner: (_TYPES | _DTYPES)[inner],
}
