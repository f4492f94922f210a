"""The bytes of a file, whatever it is: mapped if it is plain, read if it is a pipe, unpacked if it is compressed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import mmap
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

_CHUNK = 1 << 22  # Ctrl-C is seen between two of them
_PACKED = 1 << 16  # what is left of it is copied for every stream that ends in it


class _Compression(NamedTuple):
    name: str
    suffix: str
    magic: bytes
    open: Any
    compressor: Any


def _open_gzip(packed: Any) -> gzip.GzipFile:
    return gzip.GzipFile(fileobj=packed, mode="rb")


_PADDING = b"\0"  # as xz's tools and tapes have it


class _Streams(io.RawIOBase):
    """Streams of bzip2 or xz, one after the other, zeros between them. What follows them and is none is refused;
    Python's own files would leave it out, and with it the rest of a file that is damaged there."""

    def __init__(self, packed: Any, decompressor: Any):
        self._packed, self._new = packed, decompressor
        self._stream = decompressor()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while len(buffer):
            given = b""
            if self._stream.eof:
                given = self._stream.unused_data.lstrip(_PADDING)
                while not given and (more := self._packed.read(_PACKED)):
                    given = more.lstrip(_PADDING)
                if not given:
                    return 0
                self._stream = self._new()
            elif self._stream.needs_input and not (given := self._packed.read(_PACKED)):
                raise EOFError("it ends in the middle of a stream")
            piece = self._stream.decompress(given, len(buffer))
            if piece:
                buffer[: len(piece)] = piece
                return len(piece)
        return 0

    def seek(self, offset: int, whence: int = 0) -> int:
        """Forward, from the beginning."""
        left = offset
        while left and (piece := self.read(min(left, _CHUNK))):
            left -= len(piece)
        return offset - left


_COMPRESSIONS = (
    _Compression("gzip", ".gz", b"\x1f\x8b", _open_gzip, partial(zlib.compressobj, wbits=31)),
    _Compression("bzip2", ".bz2", b"BZh", partial(_Streams, decompressor=bz2.BZ2Decompressor), bz2.BZ2Compressor),
    _Compression(
        "xz", ".xz", b"\xfd7zXZ\x00", partial(_Streams, decompressor=lzma.LZMADecompressor), lzma.LZMACompressor
    ),
)


class CompressionError(ValueError):
    """Compressed data that cannot be unpacked."""


def name_of(file: Any) -> str:
    """What to call a file in messages."""
    if isinstance(file, int):
        return f"file descriptor {file}"
    if isinstance(file, str | os.PathLike):
        return os.fsdecode(file)
    name = getattr(file, "name", None)
    return name if isinstance(name, str) else f"<{type(file).__name__}>"


def read_bytes(file: str | os.PathLike | int | Any) -> memoryview:
    """All bytes of a file, unpacked.

    Parameters
    ----------
    file : str, path, file descriptor or binary file object
        Files that are given open are read from where they are, and stay open. What is compressed is known by its
        first bytes; a name that promises a compression must keep it.

    Raises
    ------
    CompressionError
        If compressed data is broken, cut short, or not what the name of the file says.
    """
    if isinstance(file, bool) or not (isinstance(file, int | str | os.PathLike) or hasattr(file, "read")):
        raise TypeError(f"a path, a file descriptor or a binary file object is needed, got {type(file).__name__}")
    name = name_of(file)
    with naming_reads(name):
        return _bytes_of(file, name)


@contextmanager
def naming_reads(name: str | os.PathLike) -> Iterator[None]:
    """Around reads: the system does not say of which file one failed that is open already."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(name)) from error


def _bytes_of(file: str | os.PathLike | int | Any, name: str) -> memoryview:
    if hasattr(file, "read"):
        return _unpacked(_read_all(file), name)
    promised = name if isinstance(file, str | os.PathLike) else ""
    with open(file, "rb", closefd=not isinstance(file, int)) as opened:
        status = os.fstat(opened.fileno())
        start = opened.tell() if opened.seekable() else 0
        if not stat.S_ISREG(status.st_mode) or status.st_size <= start:  # a pipe, one of /proc, or empty
            return _unpacked(_read_all(opened), name, promised)
        kind = _compression_of(opened.peek(8), promised)
        if kind is not None:
            return _unpack(opened, kind, name)
        mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_SEQUENTIAL"):
            mapped.madvise(mmap.MADV_SEQUENTIAL)
        if isinstance(file, int):
            opened.seek(0, os.SEEK_END)  # as if it had been read
        return memoryview(mapped)[start:]


def stream_bytes(path: str | os.PathLike, begin: int = 0) -> Iterator[bytes]:
    """The bytes of a file from ``begin`` on, unpacked, in pieces: never more than one of them is in memory.

    Raises
    ------
    CompressionError
        As :func:`read_bytes` does.
    """
    with opened_bytes(path) as stream:
        if begin:
            stream.seek(begin)
        while piece := stream.read(_CHUNK):
            yield piece


@contextmanager
def opened_bytes(path: str | os.PathLike) -> Iterator[Any]:
    """A file to read bytes from, unpacked.

    Raises
    ------
    CompressionError
        As :func:`read_bytes` does, from what is done inside.
    """
    name = name_of(path)
    with naming_reads(name), open(path, "rb") as opened:
        kind = _compression_of(opened.peek(8), name)
        try:
            with opened if kind is None else kind.open(opened) as stream:
                yield stream
        except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
            if kind is None or getattr(error, "errno", None) is not None:  # the disk's, not the data's
                raise
            raise CompressionError(f"{name}: broken {kind.name} data: {error}") from error


def buffered(stream: Any) -> Any:
    """What can be read in pieces of any size."""
    return io.BufferedReader(stream) if isinstance(stream, io.RawIOBase) else stream


def compressed(parts: Iterable[bytes], path: str | os.PathLike) -> Iterator[bytes]:
    """The parts as they go into a file of this name."""
    suffix = Path(os.fsdecode(path)).suffix.lower()
    kind = next((kind for kind in _COMPRESSIONS if kind.suffix == suffix), None)
    if kind is None:
        yield from parts
        return
    compressor = kind.compressor()
    for part in parts:
        yield compressor.compress(part)
    yield compressor.flush()


def _compression_of(head: bytes | bytearray, promised: str) -> _Compression | None:
    """By the first bytes; a file whose name promises one must have one."""
    for kind in _COMPRESSIONS:
        if head.startswith(kind.magic):
            return kind
    suffix = Path(promised).suffix.lower()
    for kind in _COMPRESSIONS:
        if suffix == kind.suffix and head:
            raise CompressionError(f"{promised}: no {kind.name} data, although its name ends with {suffix}")
    return None


def _unpacked(content: bytearray, name: str, promised: str = "") -> memoryview:
    kind = _compression_of(content[:8], promised)
    return memoryview(content) if kind is None else _unpack(io.BytesIO(content), kind, name)


def _unpack(packed: Any, kind: _Compression, name: str) -> memoryview:
    try:
        with kind.open(packed) as stream:
            return memoryview(_read_all(stream))
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        if getattr(error, "errno", None) is not None:  # the disk's, not the data's
            raise
        raise CompressionError(f"{name}: broken {kind.name} data: {error}") from error


def _read_all(file: Any) -> bytearray:
    content = bytearray()
    while chunk := file.read(_CHUNK):
        if not isinstance(chunk, bytes | bytearray | memoryview):
            raise TypeError(f"{name_of(file)} must be opened in binary mode ('rb'), but gives {type(chunk).__name__}")
        content += chunk
    return content
