"""Where svmlight text comes from: paths, open files, descriptors, pipes, compressed or not."""

import bz2
import gzip
import io
import lzma
import mmap
import os
import re
import threading

import pytest
from sklearn.datasets import load_svmlight_file

from multimargin.data.file_bytes import CompressionError, compressed, stream_bytes
from multimargin.data.svmlight import SvmlightFormatError, read_svmlight
from tests.data.texts import assert_same, read

CONTENT = b"1 1:0.5 3:2\n2 2:1\n"


def packed(content, suffix):
    return {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[suffix](content)


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz"])
def test_every_source_gives_the_same(tmp_path, suffix):
    expected = read(CONTENT)
    content = packed(CONTENT[:12], suffix) + packed(CONTENT[12:], suffix)  # two members, one after the other
    named, unnamed = tmp_path / f"data.txt{suffix}", tmp_path / "data"
    named.write_bytes(content)
    unnamed.write_bytes(content)
    assert_same(read_svmlight(named), expected)
    assert_same(read_svmlight(str(named)), expected)
    assert_same(read_svmlight(unnamed), expected)
    assert_same(read_svmlight(io.BytesIO(content)), expected)
    for buffering in (-1, 0):
        with open(unnamed, "rb", buffering=buffering) as file:
            assert_same(read_svmlight(file), expected)
            assert not file.closed
    descriptor = os.open(unnamed, os.O_RDONLY)
    try:
        assert_same(read_svmlight(descriptor), expected)
        with pytest.raises(SvmlightFormatError, match=f"file descriptor {descriptor}: the file is empty"):
            read_svmlight(descriptor)  # open still, and read to its end
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_pipe(suffix):
    out, into = os.pipe()

    def feed():
        with open(into, "wb") as file:
            file.write(packed(CONTENT, suffix))

    writer = threading.Thread(target=feed)
    writer.start()
    try:
        assert_same(read_svmlight(out), read(CONTENT))
    finally:
        writer.join()
        os.close(out)


@pytest.mark.parametrize("tail", [b" 2:1234567", b" 2:0.12", b" 2:3\n", b"\n1", b"\n1\n2\n3\n4\n5\n6"])
def test_a_file_that_ends_with_its_page(tmp_path, tail):
    """Digits are read eight bytes at a time, but never behind the last page."""
    path = tmp_path / "data"
    path.write_bytes(b"1 1:" + b"0" * (4 * mmap.PAGESIZE - 4 - len(tail)) + tail)
    assert path.stat().st_size == 4 * mmap.PAGESIZE
    assert_same(read_svmlight(path), load_svmlight_file(path))


def test_open_files_are_read_from_where_they_are(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"what is this\n" + CONTENT)
    with open(path, "rb") as file:
        file.readline()
        assert_same(read_svmlight(file), read(CONTENT))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.lseek(descriptor, 13, os.SEEK_SET)
        assert_same(read_svmlight(descriptor), read(CONTENT))
    finally:
        os.close(descriptor)


def test_a_stream_that_unpacks_itself(tmp_path):
    path = tmp_path / "data.gz"
    path.write_bytes(packed(CONTENT, ".gz"))
    with gzip.open(path) as stream:
        assert_same(read_svmlight(stream), read(CONTENT))


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_broken_compressed_files(tmp_path, suffix):
    content = packed(b"1 1:2\n" * 1000, suffix)
    path = tmp_path / f"data{suffix}"
    for broken in (content[: len(content) // 2], content[:20] + b"????" + content[24:]):
        path.write_bytes(broken)
        with pytest.raises(SvmlightFormatError, match=f"^{re.escape(str(path))}: broken (gzip|bzip2|xz) data: "):
            read_svmlight(path)
    path.write_bytes(CONTENT)
    with pytest.raises(SvmlightFormatError, match=r"no (gzip|bzip2|xz) data, although its name ends with \."):
        read_svmlight(path)


def test_what_is_no_file():
    with pytest.raises(FileNotFoundError, match="missing"):
        read_svmlight("missing.txt")
    with pytest.raises(TypeError, match=r"binary mode \('rb'\), but gives str"):
        read_svmlight(io.StringIO("1 1:2\n"))
    for wrong in (None, 1.5, True, [1]):
        with pytest.raises(TypeError, match="a path, a file descriptor or a binary file object is needed"):
            read_svmlight(wrong)


def test_a_file_may_be_deleted_while_its_arrays_live(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(CONTENT)
    X, y = read_svmlight(path)
    path.unlink()
    assert_same((X, y), read(CONTENT))


@pytest.mark.parametrize("suffix", [".bz2", ".xz"])
def test_streams_one_after_the_other(tmp_path, suffix):
    """None of them is left out; xz's tools, and tapes, fill up with zeros."""
    path = tmp_path / f"data.svm{suffix}"
    first, second = (packed(text, suffix) for text in (b"1 1:1\n", b"2 1:2\n2 1:3\n"))
    padding = bytes(100_000)
    path.write_bytes(first + padding + second + padding)
    assert read_svmlight(path)[1].tolist() == [1, 2, 2]
    assert b"".join(stream_bytes(path, 6)) == b"2 1:2\n2 1:3\n"
    for after in (b"garbage", second[:-9], padding + b"x"):
        path.write_bytes(first + after)
        with pytest.raises(SvmlightFormatError, match=f"^{re.escape(str(path))}: broken (bzip2|xz) data: "):
            read_svmlight(path)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_streams_of_broken_compressed_files(tmp_path, suffix):
    """Are called so, and the disk's own errors are not."""
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(b"".join(compressed([b"1 1:2\n" * 1000], path)))
    assert b"".join(stream_bytes(path, 0)) == b"1 1:2\n" * 1000
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(CompressionError, match=r"a\.txt.*broken"):
        list(stream_bytes(path, 0))
    with pytest.raises(IsADirectoryError):
        list(stream_bytes(tmp_path, 0))
