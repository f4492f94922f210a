"""Files piece by piece: bytes from anywhere, and svmlight text."""

import bz2
import gzip
import io
import lzma
import os

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin.data import file_bytes, svmlight
from multimargin.data.file_bytes import CompressionError, compressed, name_of, read_bytes, stream_bytes
from multimargin.data.folder_lock import FolderInUse, locked_folder
from multimargin.data.svmlight import SvmlightFormatError, _n_threads, read_svmlight
from multimargin.data.svmlight_stream import IndexZero, Place, stream_svmlight
from multimargin.data.svmlight_writing import write_svmlight

TEXT = b"".join(b"%d 1:%d 3:0.5\n" % (row % 2, row) for row in range(1, 41))
PACK = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


# Bytes


@pytest.mark.parametrize("suffix", PACK)
def test_bytes_from_anywhere(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(file_bytes, "_CHUNK", 64)
    path = tmp_path / f"text{suffix}"
    path.write_bytes(PACK[suffix](TEXT))
    assert bytes(read_bytes(path)) == bytes(read_bytes(str(path))) == TEXT
    assert bytes(read_bytes(io.BytesIO(PACK[suffix](TEXT)))) == TEXT
    with path.open("rb") as file:
        assert bytes(read_bytes(file.fileno())) == TEXT and not file.closed
    for begin in (0, 1, 100, len(TEXT)):
        pieces = list(stream_bytes(path, begin))
        assert b"".join(pieces) == TEXT[begin:] and all(0 < len(piece) <= 64 for piece in pieces)
    assert b"".join(compressed([TEXT[:50], TEXT[50:]], path))[:4] == path.read_bytes()[:4]
    assert PACK[suffix] is bytes or len(b"".join(compressed([TEXT], path))) < len(TEXT)


def test_a_name_that_promises_a_compression_must_keep_it(tmp_path):
    for suffix in (".gz", ".BZ2", ".xz"):
        path = tmp_path / f"text{suffix}"
        path.write_bytes(TEXT)
        for read in (read_bytes, lambda path: list(stream_bytes(path))):
            with pytest.raises(CompressionError, match=f"no .* data, although its name ends with {suffix.lower()}"):
                read(path)
        path.write_bytes(b"")
        assert bytes(read_bytes(path)) == b"" and list(stream_bytes(path)) == []
    path = tmp_path / "plain"
    path.write_bytes(gzip.compress(TEXT))
    assert bytes(read_bytes(path)) == TEXT
    path.write_bytes(gzip.compress(TEXT)[:-9])
    for read in (read_bytes, lambda path: list(stream_bytes(path))):
        with pytest.raises(CompressionError, match="plain: broken gzip data"):
            read(path)


def test_an_open_file_is_read_from_where_it_is_to_its_end(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(TEXT)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.lseek(descriptor, 100, os.SEEK_SET)
        assert bytes(read_bytes(descriptor)) == TEXT[100:]
        assert os.lseek(descriptor, 0, os.SEEK_CUR) == len(TEXT)
        assert bytes(read_bytes(descriptor)) == b""
    finally:
        os.close(descriptor)
    read, write = os.pipe()
    os.write(write, TEXT[:100])
    os.close(write)
    assert bytes(read_bytes(read)) == TEXT[:100]
    os.close(read)


def test_what_is_no_file():
    for wrong in (None, 1.5, True, [1]):
        with pytest.raises(TypeError, match=f"a binary file object is needed, got {type(wrong).__name__}"):
            read_bytes(wrong)
    with pytest.raises(TypeError, match="must be opened in binary mode"):
        read_bytes(io.StringIO("text"))
    assert name_of(3) == "file descriptor 3" and name_of(b"a") == "<bytes>" and name_of("a") == "a"
    assert name_of(io.BytesIO()) == "<BytesIO>"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="this system does not list what is open")
def test_a_folder_that_is_refused_leaves_nothing_open(tmp_path):
    def opened():
        return len(os.listdir("/proc/self/fd"))

    with locked_folder(tmp_path / "f"):
        before = opened()
        for _ in range(3):
            with pytest.raises(FolderInUse, match="another program is writing there"), locked_folder(tmp_path / "f"):
                pass
        assert opened() == before
    with locked_folder(tmp_path / "f"):
        pass
    assert opened() < before


# svmlight text


@pytest.mark.parametrize("chunk", [7, 64, 10**6])
def test_pieces_of_text_are_whole_lines(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(file_bytes, "_CHUNK", chunk)
    path = tmp_path / "text"
    for content in (TEXT, TEXT[:-1], b"\xef\xbb\xbf" + TEXT, b"\n# nothing\n" + TEXT):
        path.write_bytes(content)
        found = list(stream_svmlight(path, dtype=np.dtype(np.float64)))
        assert np.concatenate([X.toarray()[:, 0] for X, _, _ in found]).tolist() == [*range(1, 41)]
        assert np.concatenate([y for _, y, _ in found]).tolist() == [1.0, 0.0] * 20
        for X, _, place in found:  # it can be begun again at any piece, and may have others then
            rest = list(stream_svmlight(path, dtype=np.dtype(np.float64), start=place))
            values = np.concatenate([X.toarray()[:, 0] for X, _, _ in rest])
            assert values.tolist() == [*range(int(X.toarray()[0, 0]), 41)]
            assert rest[0][2] == place and content[: place.byte].count(b"\n") == place.line


def test_faults_of_text_name_their_lines(tmp_path, monkeypatch):
    path, options = tmp_path / "text", {"dtype": np.dtype(np.float64)}
    path.write_bytes(TEXT + b"1 2:x\n")
    for chunk in (50, 10**6):
        monkeypatch.setattr(file_bytes, "_CHUNK", chunk)
        with pytest.raises(SvmlightFormatError, match="line 41: "):
            list(stream_svmlight(path, **options))
    path.write_bytes(b"1 0:1\n")
    with pytest.raises(IndexZero, match="index 0 occurs"):
        list(stream_svmlight(path, **options))
    ((X, _, place),) = stream_svmlight(path, zero_based=True, **options)
    assert X.shape == (1, 1) and place == Place(0, 0)
    path.write_bytes(b"1 3:1\n")
    for zero_based, needed in ((True, 4), (False, 3)):
        ((X, _, _),) = stream_svmlight(path, zero_based=zero_based, n_features=needed, **options)
        assert X.shape == (1, needed)
        with pytest.raises(SvmlightFormatError, match=f"at least {needed} features, but n_features={needed - 1}"):
            list(stream_svmlight(path, zero_based=zero_based, n_features=needed - 1, **options))
    path.write_bytes(b"1\n")
    ((X, _, _),) = stream_svmlight(path, **options)
    assert X.shape == (1, 1)
    path.write_bytes(gzip.compress(TEXT)[:-9])
    with pytest.raises(SvmlightFormatError, match="broken gzip data"):
        list(stream_svmlight(path, **options))


def test_errors_in_threads_are_raised(monkeypatch):
    def fails(*args):
        raise RuntimeError("of a thread")

    monkeypatch.setattr(svmlight, "PART_BYTES", 64)
    monkeypatch.setattr(svmlight.Arrays, "read", fails)
    for n_jobs in (1, 2):
        with pytest.raises(RuntimeError, match="of a thread"):
            read_svmlight(io.BytesIO(TEXT), n_jobs=n_jobs)


def test_numbers_of_threads(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3}, raising=False)
    assert [_n_threads(n) for n in (None, 1, 7, -1, -2, -4, -5, np.int64(2))] == [1, 1, 7, 4, 3, 1, 1, 2]
    for wrong in (0, 1.0, True, "2"):
        with pytest.raises(ValueError, match="n_jobs must be None"):
            _n_threads(wrong)


@pytest.mark.parametrize("largest", [2**53, -(2**53)])
def test_whole_numbers_that_read_back(tmp_path, largest):
    path, beyond = tmp_path / "text", largest + (1 if largest > 0 else -1)
    write_svmlight(path, np.array([[largest]]), np.array([largest]))
    X, y = read_svmlight(path)
    assert X.toarray().tolist() == [[largest]] and y.tolist() == [largest]
    for X, y in ((np.array([[beyond]]), [1]), (np.array([[1]]), np.array([beyond])), (sp.csr_array([[beyond]]), [1])):
        with pytest.raises(ValueError, match=r"beyond 2\*\*53"):
            write_svmlight(path, X, y)
    write_svmlight(path, np.eye(2), [0, 1], query_id=np.array([1, 2**63 - 1], np.uint64))
    assert read_svmlight(path, query_id=True)[2].tolist() == [1, 2**63 - 1]
    with pytest.raises(ValueError, match="query_id must fit into int64"):
        write_svmlight(path, np.eye(2), [0, 1], query_id=np.array([1, 2**63], np.uint64))


def test_matrices_that_are_broken_are_not_written(tmp_path):
    """Of any format, and before SciPy reads through their parts."""
    for make, name, part in (
        (sp.csr_array, "indices", np.array([9, 9])),
        (sp.csc_array, "indices", np.array([9, 9])),
        (sp.csc_array, "indptr", np.array([0, 5, 2])),
        (sp.coo_array, "coords", (np.array([0, 9]), np.array([0, 1]))),
    ):
        X = make(np.eye(2))
        setattr(X, name, part)
        with pytest.raises(ValueError, match=f"broken {X.format.upper()} matrix"):
            write_svmlight(tmp_path / "text", X, [0, 1])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("character", "length"), [("x", 1), ("é", 2), ("😀", 4)])
def test_long_tokens_are_shown_in_part(character, length):
    assert len(character.encode()) == length
    most = svmlight._SHOWN
    with pytest.raises(SvmlightFormatError) as short:
        read_svmlight(io.BytesIO(f"1 {character * most}\n".encode()))
    assert f"'{character * most}' " in str(short.value)
    with pytest.raises(SvmlightFormatError) as long:
        read_svmlight(io.BytesIO(f"1 {character * 9 * most}\n".encode()))
    assert f"'{character * most}...' " in str(long.value)
