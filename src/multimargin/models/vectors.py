"""Labels, names and sparse matrices as arrays of numbers.

Strings are one buffer of UTF-8 and the place where each one ends, so that a vocabulary takes little more than its
letters. A vector has a ``type`` among the values of its node; see :func:`write_vector`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from multimargin.models.tree import Reader, Writer

_NUMBERS = "biuf"
_WIDE = 2**20  # characters: an array of str may be wider than its longest string if it has no more


def write_strings(node: Writer, name: str, strings: list[str]) -> None:
    """Store strings."""
    pieces = [string.encode("utf-8", "surrogatepass") for string in strings]
    node.array(f"{name}.text", np.frombuffer(b"".join(pieces), dtype=np.uint8))
    node.array(f"{name}.ends", np.cumsum([len(piece) for piece in pieces], dtype=np.int64))


def read_strings(node: Reader, name: str, count: int | None = None) -> list[str]:
    """The strings, ``count`` of them if that is known."""
    text = node.array(f"{name}.text", "u", (None,))
    ends = node.array(f"{name}.ends", "i", (count,))
    if text.dtype != np.uint8:
        raise node.wrong(f"{name}: text must be bytes")
    begins = np.concatenate([[0], ends])[:-1]
    if (ends < begins).any() or (int(ends[-1]) if len(ends) else 0) != len(text):
        raise node.wrong(f"{name}: the ends of the strings do not fit their text")
    content = text.tobytes()
    try:
        return [
            content[begin:end].decode("utf-8", "surrogatepass")
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
        ]
    except UnicodeDecodeError as error:
        raise node.wrong(f"{name}: not UTF-8: {error}") from None


def write_vector(node: Writer, name: str, vector: np.ndarray, *, mixed: bool = False) -> None:
    """Store a one-dimensional array of numbers, truth values, str or bytes; as ``mixed``, of any of them and None.

    Raises
    ------
    TypeError
        If it holds something else.
    """
    kind = vector.dtype.kind
    if kind in _NUMBERS and vector.dtype.itemsize <= 8:
        node.value(f"{name}.type", "number")
        node.array(name, vector)
    elif kind == "U":
        node.value(f"{name}.type", "str")
        strings = vector.tolist()
        width, longest = vector.dtype.itemsize // 4, max(map(len, strings), default=0)
        node.value(f"{name}.width", width if width * len(vector) <= _WIDE else max(longest, 1))
        write_strings(node, name, strings)
    elif kind == "S":
        node.value(f"{name}.type", "bytes")
        width = vector.dtype.itemsize
        node.array(name, np.ascontiguousarray(vector).view(np.uint8).reshape(len(vector), width))
    elif kind == "O" and all(type(item) is str for item in vector):
        node.value(f"{name}.type", "objects of str")
        write_strings(node, name, vector.tolist())
    elif kind == "O" and mixed:
        node.value(f"{name}.type", "mixed")
        node.value(name, vector)
    else:
        raise TypeError(f"{name} of {node.kind} cannot be stored in a file: {_reason(vector)}")


def _reason(vector: np.ndarray) -> str:
    can = "integers, floats, truth values, str and bytes can"
    if vector.dtype.kind == "O":
        types = sorted({type(item).__name__ for item in vector})
        return f"it holds objects of {', '.join(types)}; {can}"
    return f"it is of {vector.dtype}; {can}"


def read_vector(
    node: Reader, name: str, length: int | None = None, *, mixed: bool = False, finite: bool = True
) -> np.ndarray:
    """The vector, of ``length`` if that is known."""
    known = ("number", "str", "bytes", "objects of str", "mixed")
    told = node.value(f"{name}.type", str, check=known[: 5 if mixed else 4].__contains__)
    if told == "number":
        return node.array(name, _NUMBERS, (length,), finite=finite)
    if told == "bytes":
        raw = node.array(name, "u", (length, None))
        if raw.dtype != np.uint8 or not raw.shape[1]:
            raise node.wrong(f"{name}: not an array of bytes")
        return np.ascontiguousarray(raw).view(f"S{raw.shape[1]}").ravel()
    if told == "mixed":
        vector = node.value(name, np.ndarray, check=lambda value: value.dtype.kind == "O")
        if length is not None and len(vector) != length:
            raise node.wrong(f"{name} has {len(vector)} entries, not {length}")
        return vector
    if told == "str":
        width = node.value(f"{name}.width", int, check=lambda value: 0 < value < 2**24)
        strings = read_strings(node, name, length)
        longest = max(map(len, strings), default=0)
        # The width decides how much is allocated, so it is not taken on trust.
        if width < longest or (width > max(longest, 1) and width * len(strings) > _WIDE):
            raise node.wrong(f"{name} is {width} characters wide, but the longest string has {longest}")
        return np.array(strings, dtype=f"U{width}")
    strings = read_strings(node, name, length)
    vector = np.empty(len(strings), dtype=object)
    vector[:] = strings
    return vector


def write_csr(node: Writer, name: str, matrix: Any) -> None:
    """Store a CSR matrix, except for its shape."""
    node.array(f"{name}.data", matrix.data[: matrix.indptr[-1]])
    node.array(f"{name}.indices", matrix.indices[: matrix.indptr[-1]])
    node.array(f"{name}.indptr", matrix.indptr)


def read_csr(node: Reader, name: str, shape: tuple[int, int]) -> Any:
    """A CSR array of the shape, with sorted, unique columns."""
    import scipy.sparse as sp

    from multimargin.data.rows import check_csr

    data = node.array(f"{name}.data", "f", (None,))
    indices = node.array(f"{name}.indices", "i", (len(data),))
    indptr = node.array(f"{name}.indptr", "i", (shape[0] + 1,))
    if indices.dtype != indptr.dtype or indices.dtype.itemsize < 4 or data.dtype.itemsize < 4:
        raise node.wrong(f"{name}: indices and indptr must be int32 or int64 alike, data float32 or float64")
    if indptr[0] != 0 or indptr[-1] != len(data):
        raise node.wrong(f"{name}: indptr must go from 0 to the number of values, {len(data)}")
    parts = _Parts(data, indices, indptr, shape)
    try:
        check_csr(parts)
    except ValueError as error:
        raise node.wrong(f"{name}: {error}") from None
    matrix = sp.csr_array((data, indices, indptr), shape=shape)
    if not matrix.has_canonical_format:
        raise node.wrong(f"{name}: the columns of every row must be sorted and unique")
    return matrix


class _Parts:
    """CSR parts before SciPy sees them."""

    def __init__(self, data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]) -> None:
        self.data, self.indices, self.indptr, self.shape = data, indices, indptr, shape
