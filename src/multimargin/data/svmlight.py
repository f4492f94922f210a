"""Reading svmlight text, the format of LIBLINEAR and LIBSVM: by the core in parts, by threads if wanted."""

from __future__ import annotations

import os
from itertools import pairwise
from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np

from multimargin import _core
from multimargin.data.csr import Csr
from multimargin.data.file_bytes import CompressionError, name_of, read_bytes
from multimargin.data.thread_pool import in_some_threads

# A part is read in one call of the core, some 10 ms: Ctrl-C is seen between two of them.
PART_BYTES = 1 << 22
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SHOWN = 40  # characters of a token
_MOST_FEATURES = np.iinfo(np.int64).max


class SvmlightFormatError(ValueError):
    """A file that is not svmlight text: says which, where, and what was expected."""


def read_svmlight(
    path: str | os.PathLike | int | Any,
    *,
    n_features: int | None = None,
    dtype: Any = np.float64,
    zero_based: bool | Literal["auto"] = "auto",
    query_id: bool = False,
    n_jobs: int | None = None,
) -> tuple:
    """Read svmlight text: the same arrays as scikit-learn's ``load_svmlight_file``, many times faster.

    A line is ``label [qid:N] index:value index:value ... [# comment]``. Indices increase within a line. Values that are
    written stay, zeros too. Blank lines and lines of comments are left out.

    Parameters
    ----------
    path : str, path, file descriptor or binary file object
        gzip, bzip2 and xz are unpacked, whatever the name of the file. What is given open stays open.
    n_features : int or None
        Columns of X. None: as many as the largest index needs. Give it for test data, which may lack the last features.
    dtype : float32 or float64
        Of the values. float32 values are those of float64, rounded.
    zero_based : bool or "auto"
        Whether the index of the first feature is 0. "auto": it is if index 0 occurs.
    query_id : bool
        Whether to return the numbers after ``qid:``, which every line must have then.
    n_jobs : int or None
        Threads. None is 1, -1 all processors. The result does not depend on it.

    Returns
    -------
    X : csr_array of shape (n_samples, n_features)
        Indices are int32, or int64 if they or their number need it.
    y : ndarray of shape (n_samples,)
        float64.
    query_ids : ndarray of shape (n_samples,)
        int64. Only with ``query_id=True``.

    Raises
    ------
    SvmlightFormatError
        With the file, the line, the token, and what was expected there. Labels and values must be finite.

    Examples
    --------
    >>> import io
    >>> from multimargin.data.svmlight import read_svmlight
    >>> X, y = read_svmlight(io.BytesIO(b"1 1:0.5 3:2\\n-1 2:1 # a comment\\n"))
    >>> X.toarray()
    array([[0.5, 0. , 2. ],
           [0. , 1. , 0. ]])
    >>> y
    array([ 1., -1.])
    """
    X, *rest = read_svmlight_rows(
        path, n_features=n_features, dtype=dtype, zero_based=zero_based, query_id=query_id, n_jobs=n_jobs
    )
    return (X.to_scipy(), *rest)


def read_svmlight_rows(
    path: str | os.PathLike | int | Any,
    *,
    n_features: int | None = None,
    dtype: Any = np.float64,
    zero_based: bool | Literal["auto"] = "auto",
    query_id: bool = False,
    n_jobs: int | None = None,
) -> tuple:
    """As :func:`read_svmlight`, with X as :class:`multimargin.data.csr.Csr`: SciPy is not imported."""
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, got {dtype!r}")
    if not (isinstance(zero_based, bool | np.bool_) or zero_based == "auto"):
        raise ValueError(f"zero_based must be True, False or 'auto', got {zero_based!r}")
    if n_features is not None and not (isinstance(n_features, Integral) and 1 <= n_features <= _MOST_FEATURES):
        raise ValueError(f"n_features must be None or a whole number of at least 1, got {n_features!r}")
    request = Request(
        name_of(path),
        n_features,
        np.dtype(dtype),
        zero_based if zero_based == "auto" else bool(zero_based),
        query_id,
        _n_threads(n_jobs),
    )
    try:
        text = np.frombuffer(read_bytes(path), np.uint8)
    except CompressionError as error:
        raise SvmlightFormatError(str(error)) from error
    return _read(text, request, PART_BYTES)


class Request(NamedTuple):
    """What is wanted of a text."""

    name: str
    n_features: int | None
    dtype: np.dtype
    zero_based: bool | str
    query_id: bool
    n_threads: int


class _Part(NamedTuple):
    """A part of the text, in bytes, and its place in the arrays: as large as it may need."""

    begin: int
    end: int
    first_row: int
    rows: int
    first_entry: int
    entries: int


class Arrays:
    """The arrays of a CSR matrix and its labels, for parts to be read into."""

    def __init__(self, parts: list[_Part], request: Request, index_dtype: type):
        rows, entries = parts[-1].first_row + parts[-1].rows, parts[-1].first_entry + parts[-1].entries
        self.data = np.empty(entries, request.dtype)
        self.indices: np.ndarray = np.empty(entries, index_dtype)
        self.row_end: np.ndarray = np.empty(rows, index_dtype)
        self.labels = np.empty(rows)
        self.query_ids = np.empty(rows if request.query_id else 0, np.int64)

    def read(self, text: np.ndarray, part: _Part, zero_based: bool | str) -> _core.SvmlightPart:
        rows = slice(part.first_row, part.first_row + part.rows)
        entries = slice(part.first_entry, part.first_entry + part.entries)
        return _core.read_svmlight_part(
            text,
            part.begin,
            part.end,
            self.data[entries],
            self.indices[entries],
            self.row_end[rows],
            self.labels[rows],
            self.query_ids[rows],
            part.first_entry,
            0 if zero_based is True else 1,
            zero_based is False,
        )

    def close_gaps(self, parts: list[_Part], found: list[_core.SvmlightPart]) -> None:
        """Parts with blank lines, comments or query ids left some of their room."""
        rows = entries = 0
        for part, got in zip(parts, found, strict=True):
            if (part.first_row, part.first_entry) != (rows, entries):
                for array in (self.data, self.indices):
                    array[entries : entries + got.entries] = array[part.first_entry : part.first_entry + got.entries]
                self.row_end[part.first_row : part.first_row + got.rows] -= part.first_entry - entries
                for array in (self.row_end, self.labels, self.query_ids):
                    array[rows : rows + got.rows] = array[part.first_row : part.first_row + got.rows]
            rows, entries = rows + got.rows, entries + got.entries
        self.data, self.indices = _cut(self.data, entries), _cut(self.indices, entries)
        self.row_end, self.labels = _cut(self.row_end, rows), _cut(self.labels, rows)
        self.query_ids = _cut(self.query_ids, min(rows, len(self.query_ids)))

    def matrix(self, n_features: int) -> Csr:
        """X, when the gaps are closed."""
        indptr = np.concatenate([np.zeros(1, self.row_end.dtype), self.row_end])
        return Csr(self.data, self.indices, indptr, (len(self.labels), n_features))  # the core has seen to the order


def _cut(array: np.ndarray, length: int) -> np.ndarray:
    """Its beginning; in memory of its own if much would be kept for nothing."""
    return array[:length] if length >= 0.9 * len(array) else array[:length].copy()


def _read(text: np.ndarray, request: Request, part_bytes: int) -> tuple:
    if bytes(text[:3]) == BYTE_ORDER_MARK:
        text = text[3:]
    if len(text) == 0:
        raise SvmlightFormatError(f"{request.name}: the file is empty")
    arrays, read = parse(text, request, part_bytes)
    if len(arrays.labels) == 0:
        raise SvmlightFormatError(f"{request.name}: nothing but blank lines and comments")

    zero_based = request.zero_based
    if zero_based == "auto":  # taken as one-based so far; without entries it does not matter
        zero_based = any(part.has_index_zero for part in read)
        if zero_based:
            for begin in range(0, len(arrays.indices), PART_BYTES):
                arrays.indices[begin : begin + PART_BYTES] += 1
    largest = max(part.largest_index for part in read)
    needed = max(1, largest + (1 if zero_based else 0))
    n_features = needed if request.n_features is None else int(request.n_features)
    if n_features < needed:
        raise SvmlightFormatError(
            f"{request.name}: the largest index is {largest}, {'zero' if zero_based else 'one'}-based, "
            f"so there are at least {needed} features, but n_features={n_features}"
        )
    X = arrays.matrix(n_features)
    return (X, arrays.labels, arrays.query_ids) if request.query_id else (X, arrays.labels)


def parse(
    text: np.ndarray, request: Request, part_bytes: int, first_line: int = 0
) -> tuple[Arrays, list[_core.SvmlightPart]]:
    """What a text of whole lines has, which are lines from ``first_line`` on of its file; with ``zero_based="auto"``
    indices are taken as one-based."""
    parts = _plan(text, request.n_threads, part_bytes)
    most = max(parts[-1].first_entry + parts[-1].entries, request.n_features or 0)
    for index_dtype in (np.int32, np.int64):
        if most > np.iinfo(index_dtype).max:
            continue
        arrays = Arrays(parts, request, index_dtype)
        found = _read_parts(text, parts, arrays, request)
        if not any(part is not None and part.needs_wide_indices for part in found):
            break
    read = _checked(text, parts, found, request.name, first_line)
    arrays.close_gaps(parts, read)
    return arrays, read


def _plan(text: np.ndarray, n_threads: int, part_bytes: int) -> list[_Part]:
    """Parts of whole lines, with room for what they can have at most."""
    cuts = _core.svmlight_cuts(text, part_bytes).tolist()
    spans = list(pairwise(cuts))
    sizes = in_some_threads(lambda span: _core.svmlight_size(text, *span), spans, n_threads)
    parts, first_row, first_entry = [], 0, 0
    for (begin, end), (rows, entries) in zip(spans, sizes, strict=True):
        parts.append(_Part(begin, end, first_row, rows, first_entry, entries))
        first_row, first_entry = first_row + rows, first_entry + entries
    return parts


def _read_parts(
    text: np.ndarray, parts: list[_Part], arrays: Arrays, request: Request
) -> list[_core.SvmlightPart | None]:
    """What the parts have; None for those that were not read, because there is a fault in one before them."""
    faulty: list[int] = []  # where those parts begin

    def read(part: _Part) -> _core.SvmlightPart | None:
        if any(begin < part.begin for begin in faulty):
            return None
        found = arrays.read(text, part, request.zero_based)
        if found.is_faulty:
            faulty.append(part.begin)
        return found

    return in_some_threads(read, parts, request.n_threads)


def _checked(
    text: np.ndarray, parts: list[_Part], found: list[_core.SvmlightPart | None], name: str, first_line: int
) -> list[_core.SvmlightPart]:
    """All parts, or the first fault as an error."""
    read = []
    for part, got in zip(parts, found, strict=True):
        assert got is not None  # those that were not read have a faulty one before them
        if got.is_faulty:
            line = first_line + part.first_row + got.fault_line + 1
            token = bytes(text[part.begin + got.token_begin : part.begin + got.token_end][: 4 * (_SHOWN + 1)])
            raise SvmlightFormatError(f"{name}, line {line}: {_shown(token)} {got.fault}")
        read.append(got)
    return read


def _shown(token: bytes) -> str:
    if not token:
        return "the end of the line"
    text = token.decode("utf-8", "backslashreplace")
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")


def _n_threads(n_jobs: Any) -> int:
    """As scikit-learn counts: None is 1, -1 all processors, -2 all but one."""
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ValueError(f"n_jobs must be None, which is one thread, or a whole number other than 0, got {n_jobs!r}")
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = int(n_jobs)
    return asked if asked > 0 else max(1, processors + 1 + asked)
