"""Random changes of bytes, of JSON and of arrays; the same seed makes the same ones."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import numpy as np

COMMON = b'0123456789 \n:.-+eE#\t\rqidnanfx,{}[]"\\\0\xff\x80\x7f'
ODD = [None, True, False, 0, 1, -1, 2, 3, 7, 255, 2**31, 2**40, 2**63, -(2**70), 0.5, -0.0, 1e300, 1e-300, "", "x"]
ODD += [
    "nan",
    "float64",
    "one_vs_one",
    "rbf",
    "\x00",
    "é" * 5,
    [],
    {},
    [1],
    [[]],
    {"float": "nan"},
    {"dtype": "float64"},
]
ODD += [{"tuple": [1, 2]}, {"dict": []}, {"array": ["<f8", [1.5]]}, {"float": "inf"}, {"bytes": "00"}]
ODD_NUMBERS = [0.0, -0.0, 1.0, -1.0, 2.0, 5e-324, 1e-300, 1e300, 1.8e308, np.inf, -np.inf, np.nan, 2.0**31, 2.0**53]
DTYPES = ["<f8", "<f4", "<f2", "<i8", "<i4", "<i2", "|i1", "<u8", "<u4", "|u1", "|b1"]


def changed_bytes(data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
    """Some bytes changed, added, taken away or copied from elsewhere."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        at, kind = rng.randrange(len(out) + 1), rng.randrange(8)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(out):
            out[at] = rng.choice(COMMON)
        elif kind == 2:
            out.insert(at, rng.choice(COMMON) if rng.random() < 0.5 else rng.randrange(256))
        elif kind == 3:
            del out[at : at + rng.randrange(1, 17)]
        elif kind == 4:
            out[at:at] = out[at : at + rng.randrange(1, 40)]
        elif kind == 5:
            other = rng.choice(others)
            begin = rng.randrange(len(other) + 1)
            out[at:at] = other[begin : begin + rng.randrange(1, 40)]
        elif kind == 6:
            out[at:at] = bytes([rng.choice(COMMON)]) * rng.randrange(1, 30)
        elif rng.random() < 0.2:
            del out[at:]
    return bytes(out)


def changed_json(value: Any, rng: random.Random) -> Any:
    """A copy with one place changed: another value, one from elsewhere, a key less or more."""
    value = json.loads(json.dumps(value))  # ten times faster than deepcopy
    places = list(_places(value))
    if not places:
        return rng.choice(ODD)
    holder, key = rng.choice(places)
    kind = rng.randrange(6)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        other, name = rng.choice(places)
        holder[key] = copy.deepcopy(other[name])
    elif kind == 2 and isinstance(holder, dict):
        holder[rng.choice(["more", "kind", "values", "nodes", ""])] = copy.deepcopy(rng.choice(ODD))
    elif kind == 2:
        holder.insert(rng.randrange(len(holder) + 1), copy.deepcopy(rng.choice(ODD)))
    elif kind == 3 and type(holder[key]) in (int, float):
        holder[key] = holder[key] + rng.choice((-1, 1, 0.5, 2**31, -1000))
    elif kind == 4 and isinstance(holder[key], str):
        holder[key] = changed_bytes(holder[key].encode(), rng, [b"abc"]).decode("utf-8", "replace")
    else:
        holder[key] = copy.deepcopy(rng.choice(ODD))
    return value


def _places(value: Any):
    """All places in JSON, as what holds them and their key."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def changed_arrays(arrays: dict[str, np.ndarray], rng: random.Random) -> dict[str, np.ndarray]:
    """A copy with something changed in one array: values, size, type, name."""
    arrays = dict(arrays)
    if not arrays:
        return arrays
    name = rng.choice(sorted(arrays))
    array = arrays[name].copy()
    kind = rng.randrange(9)
    with np.errstate(all="ignore"):
        if kind == 0:
            del arrays[name]
            return arrays
        if kind == 1:
            arrays[rng.choice(["more", name + "x", *arrays])] = array
            return arrays
        if kind == 2:
            array = array.astype(rng.choice(DTYPES))
        elif kind == 3 and array.ndim == 1:
            array = array[: rng.randrange(len(array) + 1)]
        elif kind == 4 and array.ndim == 1:
            array = np.concatenate([array, array[: rng.randrange(len(array) + 1)]])
        elif kind == 5:
            array = array.reshape(-1) if array.ndim == 2 else array.reshape(1, -1)
        elif array.size:
            flat = array.reshape(-1)
            at = rng.randrange(flat.size)
            if kind == 6:
                flat[at] = flat[rng.randrange(flat.size)]
            elif array.dtype.kind == "f" or rng.random() < 0.2:
                flat[at] = np.array(rng.choice(ODD_NUMBERS)).astype(array.dtype)
            else:
                value = rng.choice([0, 1, -1, 2, 127, 2**31 - 1, int(flat[at]) + 1, int(flat[at]) - 1])
                flat[at] = np.uint64(value % 2**64).astype(array.dtype)  # of any width, and with its sign
    arrays[name] = array
    return arrays
