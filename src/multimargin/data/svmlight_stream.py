"""svmlight text piece by piece: a file of any size, never all of it in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from multimargin.data.file_bytes import CompressionError, name_of, stream_bytes
from multimargin.data.svmlight import BYTE_ORDER_MARK, PART_BYTES, Request, SvmlightFormatError, parse


class IndexZero(ValueError):
    """Index 0 occurs in text that was taken as one-based so far."""


class Place(NamedTuple):
    """Where in the unpacked text of a file a line begins."""

    byte: int = 0
    line: int = 0


def stream_svmlight(
    path: str | os.PathLike,
    *,
    dtype: np.dtype,
    n_features: int | None = None,
    zero_based: bool | str = "auto",
    start: Place = Place(),  # noqa: B008 (immutable)
) -> Iterator[tuple[sp.csr_array, np.ndarray, Place]]:
    """X, y and the place where they begin, piece by piece.

    X has ``n_features`` columns or, without, as many as the piece needs. Other parameters are those of
    :func:`~multimargin.data.svmlight.read_svmlight`; with "auto" the text is one-based until index 0 occurs.

    Raises
    ------
    SvmlightFormatError
        With the file, the line and the token.
    IndexZero
        With ``zero_based="auto"``: read it all again, with True.
    """
    request = Request(name_of(path), n_features, dtype, zero_based, False, 1)
    for text, place in _whole_lines(path, start):
        arrays, parts = parse(np.frombuffer(text, np.uint8), request, PART_BYTES, place.line)
        if zero_based == "auto" and any(part.has_index_zero for part in parts):
            raise IndexZero(f"{request.name}: index 0 occurs")
        largest = max(part.largest_index for part in parts)
        needed = max(1, largest + (1 if zero_based is True else 0))
        if n_features is not None and needed > n_features:
            raise SvmlightFormatError(
                f"{request.name}: there is an index {largest}, {'zero' if zero_based is True else 'one'}-based, "
                f"so there are at least {needed} features, but n_features={n_features}"
            )
        if len(arrays.labels):
            yield arrays.matrix(n_features or needed).to_scipy(), arrays.labels, place


def _whole_lines(path: str | os.PathLike, start: Place) -> Iterator[tuple[bytes, Place]]:
    """The text from a place on, in pieces that end where a line does."""
    byte, line = start
    rest = b""
    try:
        for piece in stream_bytes(path, byte):
            if byte == 0 and not rest and piece.startswith(BYTE_ORDER_MARK):
                piece, byte = piece[3:], 3
            text = rest + piece
            end = text.rfind(b"\n") + 1
            if end:
                yield text[:end], Place(byte, line)
            byte, line, rest = byte + end, line + text.count(b"\n"), text[end:]
    except CompressionError as error:
        raise SvmlightFormatError(str(error)) from error
    if rest:
        yield rest, Place(byte, line)
