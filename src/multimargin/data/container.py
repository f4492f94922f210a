"""The file: arrays and a JSON header in the safetensors layout, under one checksum.

Layout (https://github.com/huggingface/safetensors)
---------------------------------------------------
8 bytes   length of the header, little endian
header    JSON: ``__metadata__`` and, of every array, its dtype, shape and place; padded with spaces
rest      the arrays, one after the other, without gaps

``__metadata__`` holds two strings. ``checksum`` comes first, so its place is always the same: SHA-256 of the whole file
with zeros in that place. ``multimargin`` is the description of the content, JSON as well. So every byte of the file is
covered: a file that was cut short or changed anywhere is refused. A checksum is no signature: what a file says is
checked all the same, here (sizes, before anything is allocated by them) and where it is used.

The library of that name reads these files, too; reading them here takes one copy less, and no import.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from multimargin.data.atomic import special_kind, write_atomically
from multimargin.data.file_bytes import naming_reads

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}
_BEGIN = b'{"__metadata__":{"checksum":"'
_BLANK = b"0" * 64
_CHECKSUM = slice(8 + len(_BEGIN), 8 + len(_BEGIN) + len(_BLANK))
_ALIGNMENT = 64
LARGEST_HEADER = 100_000_000  # as in the library
_DEEPEST = 100  # of nested JSON
_LARGEST_SIZE = 2**48


@dataclass(frozen=True)
class Kind:
    """What a file is to hold, and what is said of one that does not."""

    noun: str
    error: type[ValueError]
    damaged: str  # what to do about a damaged file
    advice: str  # and about one that is something else

    def refuse(self, path: Any, what: str, advice: str = "") -> ValueError:
        """The error for a file, to be raised."""
        return self.error(f"{os.fspath(path)!s}: {what}{'; ' + advice if advice else ''}")


# What other files begin with, and what they are.
_OTHERS = (
    (b"\x80", "a pickle (or a joblib dump), which is not read: it could run any program"),
    (b"ccopy_reg", "a pickle, which is not read: it could run any program"),
    (b"PK\x03\x04", "a zip archive (.npz, skops or PyTorch, perhaps)"),
    (b"\x1f\x8b", "compressed by gzip (a joblib dump, perhaps)"),
    (b"BZh", "compressed by bz2 (a joblib dump, perhaps)"),
    (b"\xfd7zXZ", "compressed by xz (a joblib dump, perhaps)"),
    (b"\x04\x22\x4d\x18", "compressed by lz4 (a joblib dump, perhaps)"),
    (b"\x78\x9c", "compressed by zlib (a joblib dump, perhaps)"),
    (b"\x78\x5e", "compressed by zlib (a joblib dump, perhaps)"),
    (b"\x93NUMPY", "a NumPy array"),
    (b"solver_type ", "a model of LIBLINEAR; multimargin.models.read_liblinear reads it"),
    (b"svm_type ", "a model of LIBSVM; multimargin.models.read_libsvm reads it"),
)


def write_container(
    path: str | os.PathLike,
    kind: Kind,
    description: dict[str, Any],
    arrays: dict[str, np.ndarray],
    *,
    sync: bool = True,
) -> None:
    """Write a description (JSON) and arrays, atomically; ``sync`` as in :func:`write_atomically`.

    Arrays with large items come first, so that all of them are aligned.
    """
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    data = [np.ascontiguousarray(arrays[name], dtype=arrays[name].dtype.newbyteorder("<")) for name in order]
    places: dict[str, Any] = {}
    end = 0
    for name, array in zip(order, data, strict=True):
        begin, end = end, end + array.nbytes
        places[name] = {
            "dtype": _NAMES[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(description, allow_nan=False, separators=(",", ":"))
    metadata = {"checksum": _BLANK.decode(), "multimargin": text}
    header = json.dumps({"__metadata__": metadata} | places, separators=(",", ":")).encode()
    header += b" " * (-(8 + len(header)) % _ALIGNMENT)
    if len(header) > LARGEST_HEADER:
        raise ValueError(
            f"the description of the {kind.noun} takes {len(header)} bytes; at most {LARGEST_HEADER} can be stored"
        )
    head = bytearray(len(header).to_bytes(8, "little") + header)
    contents = [array.reshape(-1).view(np.uint8).data for array in data]
    digest = hashlib.sha256(head)
    for content in contents:
        digest.update(content)
    head[_CHECKSUM] = digest.hexdigest().encode()
    write_atomically(path, [memoryview(head), *contents], sync=sync)


def read_container(path: str | os.PathLike, kind: Kind) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Description and arrays of a file; every array has memory of its own.

    Raises
    ------
    ValueError
        The kind's error, if anything is wrong with the file.
    OSError
        If it cannot be read.
    """
    if (special := special_kind(os.stat(path).st_mode)) and special != "a folder":
        raise kind.refuse(path, f"is {special}, not a file", kind.advice)
    with naming_reads(path), open(path, "rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(_CHECKSUM.stop)
        n_header = _check_beginning(path, kind, start, size)
        head = bytearray(8 + n_header)
        head[: len(start)] = start
        _fill(path, kind, file, memoryview(head)[len(start) :])
        told = bytes(head[_CHECKSUM])
        head[_CHECKSUM] = _BLANK
        digest = hashlib.sha256(head)
        header = parse_json(path, kind, bytes(head[8:]))
        description = _description(path, kind, header.pop("__metadata__"))
        arrays = {}
        for name, (dtype, shape) in _places(path, kind, header, size - len(head)).items():
            arrays[name] = np.empty(shape, dtype=dtype)
            content = arrays[name].reshape(-1).view(np.uint8).data
            _fill(path, kind, file, content)
            digest.update(content)
        if file.read(1):
            raise kind.refuse(path, "it grew while it was read", kind.damaged)
    if digest.hexdigest().encode() != told:
        raise kind.refuse(path, "the checksum does not fit the content: the file is damaged", kind.damaged)
    for name, array in arrays.items():
        if array.dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
            raise kind.refuse(path, f"array {name!r} has a truth value that is neither 0 nor 1", kind.damaged)
    return description, arrays


def _fill(path: Any, kind: Kind, file: Any, content: memoryview) -> None:
    done = 0
    while done < len(content):
        count = file.readinto(content[done:])
        if not count:
            raise kind.refuse(path, "it got shorter while it was read", kind.damaged)
        done += count


def _check_beginning(path: Any, kind: Kind, start: bytes, size: int) -> int:
    """The length of the header, if this is a file of ours at all."""
    if not size:
        raise kind.refuse(path, "the file is empty", kind.advice)
    if start[8 : 8 + len(_BEGIN)] != _BEGIN:
        for signature, what in _OTHERS:
            if start.startswith(signature):
                raise kind.refuse(path, f"this is {what}", kind.advice)
        if size <= _CHECKSUM.stop and start[8:] == _BEGIN[: len(start) - 8]:
            raise kind.refuse(path, f"the file ends after {size} bytes: it was cut short", kind.damaged)
        if start[8:9] == b"{":
            raise kind.refuse(path, "this is a safetensors file that multimargin did not write", kind.advice)
        raise kind.refuse(path, f"this is not a {kind.noun} of multimargin", kind.advice)
    n_header = int.from_bytes(start[:8], "little")
    if n_header > LARGEST_HEADER:
        raise kind.refuse(
            path, f"the header claims {n_header} bytes, more than the {LARGEST_HEADER} allowed", kind.damaged
        )
    if 8 + n_header > size or n_header < _CHECKSUM.stop - 8:
        raise kind.refuse(
            path, f"the header claims {n_header} bytes, but the file has {size}: it was cut short", kind.damaged
        )
    return n_header


def parse_json(path: Any, kind: Kind, text: bytes) -> dict[str, Any]:
    """A JSON object without duplicate keys, numbers that are none, or absurd depth."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise ValueError(f"the key {name!r} is there twice")
            found[name] = value
        return found

    def no_number(word: str) -> Any:
        raise ValueError(f"{word} is not a number in JSON")

    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=unique, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        raise kind.refuse(path, f"the header is not JSON as it should be: {error}", kind.damaged) from None
    if not isinstance(value, dict):
        raise kind.refuse(path, "the header is not a JSON object", kind.damaged)
    if _depth(value) > _DEEPEST:
        raise kind.refuse(path, f"the header is nested more than {_DEEPEST} levels deep", kind.damaged)
    return value


def _depth(value: Any) -> int:
    """How deep JSON is nested, counted no further than needed."""
    depth, level = 0, [value]
    while level and depth <= _DEEPEST:
        depth += 1
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return depth


def _description(path: Any, kind: Kind, metadata: Any) -> dict[str, Any]:
    if not isinstance(metadata, dict) or set(metadata) != {"checksum", "multimargin"}:
        raise kind.refuse(path, "__metadata__ must hold checksum and multimargin, and nothing else", kind.advice)
    if not isinstance(metadata["multimargin"], str):
        raise kind.refuse(path, f"the description of the {kind.noun} must be a string", kind.advice)
    return parse_json(path, kind, metadata["multimargin"].encode("utf-8", "replace"))


def _places(path: Any, kind: Kind, header: dict[str, Any], size: int) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    """Dtypes and shapes of the arrays, in their order, whose places must cover all that follows the header."""
    found = {}
    expected = 0
    for name, place in header.items():
        dtype, shape, (begin, end) = _place(path, kind, name, place)
        if begin != expected:
            raise kind.refuse(
                path, f"array {name!r} begins at {begin}, not where the last one ends, {expected}", kind.damaged
            )
        if end > size:
            raise kind.refuse(
                path, f"array {name!r} ends at {end}, but only {size} bytes follow the header", kind.damaged
            )
        if end - begin != math.prod(shape) * dtype.itemsize:
            raise kind.refuse(
                path,
                f"array {name!r} has {end - begin} bytes, but its shape is {shape} of {dtype.name}",
                kind.damaged,
            )
        found[name] = dtype, shape
        expected = end
    if expected != size:
        raise kind.refuse(path, f"{size - expected} bytes at the end belong to no array", kind.damaged)
    return found


def _place(path: Any, kind: Kind, name: str, place: Any) -> tuple[np.dtype, tuple[int, ...], tuple[int, int]]:
    if not isinstance(place, dict) or set(place) != {"dtype", "shape", "data_offsets"}:
        raise kind.refuse(path, f"array {name!r} must have dtype, shape and data_offsets", kind.damaged)
    if not isinstance(place["dtype"], str) or place["dtype"] not in _DTYPES:
        raise kind.refuse(path, f"array {name!r} has the unknown dtype {place['dtype']!r}", kind.damaged)
    for key in ("shape", "data_offsets"):
        sizes = place[key]
        if not isinstance(sizes, list) or not all(type(size) is int and 0 <= size < _LARGEST_SIZE for size in sizes):
            raise kind.refuse(path, f"array {name!r} has the impossible {key} {sizes!r}", kind.damaged)
    if len(place["data_offsets"]) != 2 or place["data_offsets"][0] > place["data_offsets"][1]:
        raise kind.refuse(
            path, f"array {name!r} has the impossible data_offsets {place['data_offsets']!r}", kind.damaged
        )
    if len(place["shape"]) > 2:
        raise kind.refuse(path, f"array {name!r} has {len(place['shape'])} dimensions; 2 are the most", kind.damaged)
    begin, end = place["data_offsets"]
    return np.dtype(_DTYPES[place["dtype"]]), tuple(place["shape"]), (begin, end)
