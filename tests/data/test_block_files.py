"""Files of blocks whose checksums are right and whose content is not, and manifests likewise."""

import json
import os
import zlib

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin.data.block_files import (
    BlocksError,
    Entry,
    Layout,
    manifest_of,
    read_block,
    unpacked_bytes,
    write_block,
)
from multimargin.data.blocks import open_blocks, write_blocks
from multimargin.data.memory import memory_of_machine
from multimargin.data.thread_pool import NoThreadsError, ThreadPool

LABELS = np.array([1, 0, 1], np.int32)
X = sp.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [0.0, 4.0, 5.0]]))


def layout(sparse=True, dtype="<f8", weighted=False, compressed=False):
    return Layout(sparse, np.dtype(dtype), 3, 2, weighted, compressed)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dtype", ["<f4", "<f8"])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_block_comes_back(tmp_path, sparse, dtype, compressed, weighted):
    of, weights = layout(sparse, dtype, weighted, compressed), np.array([0.0, 0.5, 2.0]) if weighted else None
    entry = write_block(tmp_path, "block", of, X if sparse else X.toarray(), LABELS, weights)
    assert (entry.rows, entry.nonzeros, entry.wide) == (3, 5 if sparse else 0, False)
    content = (tmp_path / "block").read_bytes()
    assert entry.bytes == len(content) and entry.checksum == zlib.crc32(content)
    assert compressed or entry.bytes == unpacked_bytes(of, entry)
    for first in (True, False):
        found, labels, told = read_block(tmp_path, of, entry, first=first)
        np.testing.assert_array_equal(found.toarray() if sparse else found, X.toarray())
        assert labels.tolist() == [1, 0, 1] and found.dtype == np.dtype(dtype)
        assert (told is None) is (weights is None) and (weights is None or told.tolist() == weights.tolist())
        assert not sparse or found.has_canonical_format


def forged(folder, of, labels=LABELS, weights=None, **parts):
    """A block that says what it is told, and its entry."""
    whole = X.copy() if of.sparse else X.toarray()
    for name, value in parts.items():
        setattr(whole, name, np.asarray(value))
    return write_block(folder, "block", of, whole, np.asarray(labels, np.int32), weights)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": [1, 2, 0]}, "a label is outside of the 2 that the store has"),
        ({"labels": [-1, 1, 0]}, "a label is outside of the 2 that the store has"),
        ({"indices": [0, 3, 1, 1, 2]}, "broken CSR matrix: column index 3 in row 0"),
        ({"indices": [2, 0, 1, 1, 2]}, "columns of a row must increase"),
        ({"indices": [0, 0, 1, 1, 2]}, "columns of a row must increase"),
        ({"indptr": [0, 2, 3, 4]}, "broken CSR matrix: indptr ends at 4"),
        ({"indptr": [0, 3, 2, 5]}, "indptr decreases at row 1"),
        ({"data": [1.0, np.nan, 3.0, 4.0, 5.0]}, "holds NaN or infinity"),
        ({"data": [1.0, 2.0, 3.0, 4.0, np.inf]}, "holds NaN or infinity"),
    ],
)
def test_sparse_blocks_are_looked_at_when_they_are_first_read(tmp_path, changes, words):
    of, given = layout(), dict(changes)
    nonzeros = 5
    entry = forged(tmp_path, of, **given)._replace(nonzeros=nonzeros)
    if "indptr" in changes and changes["indptr"][-1] != nonzeros:  # SciPy counts by it
        made = forged(tmp_path, of)
        content = bytearray((tmp_path / "block").read_bytes())
        content[64:80] = np.array(changes["indptr"], "<i4").tobytes()
        (tmp_path / "block").write_bytes(content)
        entry = made._replace(checksum=zlib.crc32(bytes(content)))
    with pytest.raises(BlocksError, match=words) as caught:
        read_block(tmp_path, of, entry, first=True)
    assert str(caught.value).startswith(str(tmp_path / "block"))


@pytest.mark.parametrize("weight", [-1e-9, np.nan, np.inf])
def test_weights_of_a_block(tmp_path, weight):
    of = layout(sparse=False, weighted=True)
    entry = forged(tmp_path, of, weights=np.array([1.0, weight, 1.0]))
    with pytest.raises(BlocksError, match="weights must be finite and not negative"):
        read_block(tmp_path, of, entry, first=True)
    dense = layout(sparse=False)
    entry = write_block(tmp_path, "block", dense, np.full((3, 3), np.nan), LABELS, None)
    with pytest.raises(BlocksError, match="holds NaN or infinity"):
        read_block(tmp_path, dense, entry, first=True)


def test_files_that_are_not_what_the_manifest_says(tmp_path):
    of = layout(sparse=False)
    entry = forged(tmp_path, of)
    with pytest.raises(BlocksError, match=f"has {entry.bytes} bytes, and should have {entry.bytes + 1}: it was cut"):
        read_block(tmp_path, of, entry._replace(bytes=entry.bytes + 1), first=False)
    with pytest.raises(BlocksError, match="its checksum is wrong: it was changed"):
        read_block(tmp_path, of, entry._replace(checksum=entry.checksum ^ 1), first=True)
    read_block(tmp_path, of, entry._replace(checksum=entry.checksum ^ 1), first=False)  # which is looked at once
    with pytest.raises(BlocksError, match="this block is missing"):
        read_block(tmp_path, of, entry._replace(file="other"), first=True)


def test_what_unpacks_to_something_else(tmp_path):
    of = layout(sparse=False, compressed=True)
    size = unpacked_bytes(of, Entry("block", 3, 0, False, 0, 0))
    packed = zlib.compress(bytes(size))
    for content, words in (
        (zlib.compress(bytes(size - 1)), f"unpacks to other than the {size} bytes"),
        (zlib.compress(bytes(size + 1)), f"unpacks to other than the {size} bytes"),
        (zlib.compress(bytes(10 * size)), f"unpacks to other than the {size} bytes"),
        (packed[:-1], f"unpacks to other than the {size} bytes"),
        (b"x" * 20, "broken zlib data"),
        (packed, ""),
    ):
        (tmp_path / "block").write_bytes(content)
        entry = Entry("block", 3, 0, False, len(content), zlib.crc32(content))
        if words:
            with pytest.raises(BlocksError, match=words):
                read_block(tmp_path, of, entry, first=True)
        else:
            assert not read_block(tmp_path, of, entry, first=True)[0].any()


# Manifests


def of_block(**changes):
    return lambda body: {"blocks": [body["blocks"][0] | changes]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda body: {"blocks": []}, "its list of labels or of blocks is damaged"),
        (lambda body: {"labels": [[0, 1]]}, "its list of labels or of blocks is damaged"),
        (lambda body: {"labels": [0, 0]}, "its list of labels or of blocks is damaged"),
        (lambda body: {"label_weights": [1.0]}, "its list of labels or of blocks is damaged"),
        (lambda body: {"label_weights": [1.0, np.inf]}, "weights of labels must be finite and not negative"),
        (lambda body: {"label_weights": [1.0, -1e-9]}, "weights of labels must be finite and not negative"),
        (lambda body: {"rows": body["rows"] + 1}, "the rows of its blocks are not the 4 that it has"),
        (lambda body: {"n_features": 0}, "is damaged: .*0 is no number from 1 on"),
        (lambda body: {"n_features": True}, "is damaged"),
        (lambda body: {"sparse": 1}, "1 is neither true nor false"),
        (lambda body: {"weighted": None}, "None is neither true nor false"),
        (lambda body: {"compressed": "no"}, "'no' is neither true nor false"),
        (lambda body: {"zero_based": 1}, "1 is neither true nor false"),
        (lambda body: {"dtype": "float16"}, "is damaged: KeyError"),
        (lambda body: {"label_kind": "object"}, "is damaged: KeyError"),
        (lambda body: {"labels": ["a", "b"]}, "is damaged: ValueError"),
        (lambda body: {"version": 0}, "is of version 0; this program reads version 1"),
        (of_block(rows=0), "0 is no number from 1 on"),
        (of_block(nonzeros=-1), "-1 is no number from 0 on"),
        (of_block(bytes=0), "0 is no number from 1 on"),
        (of_block(checksum=-1), "-1 is no number from 0 on"),
        (of_block(wide=0), "0 is neither true nor false"),
        (of_block(rows=2), "bytes cannot hold 2 rows as described|rows of its blocks"),
        (of_block(file=".."), "'..' is not the name of a file in the store"),
        (of_block(file="."), "is not the name of a file in the store"),
    ],
)
def test_manifests_that_are_wrong(tmp_path, change, words):
    store = write_blocks(tmp_path / "s", [(np.ones((3, 2)), [0, 1, 0])])
    manifest = store.path / "manifest.json"
    body = json.loads(manifest.read_bytes())["store"]
    manifest.write_bytes(manifest_of(body | change(body)))
    with pytest.raises(BlocksError, match=words):
        open_blocks(store.path)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"store": 3}', b"[" * 100_000, b"\xff"])
def test_what_is_no_manifest(tmp_path, text):
    store = write_blocks(tmp_path / "s", [(np.ones((3, 2)), [0, 1, 0])])
    (store.path / "manifest.json").write_bytes(text)
    with pytest.raises(BlocksError, match=r"is no manifest of a store of blocks|its checksum is wrong"):
        open_blocks(store.path)
    with pytest.raises(FileNotFoundError, match="is no folder"):
        open_blocks(store.path / "manifest.json")


def test_a_store_tells_what_it_has(tmp_path):
    store = write_blocks(tmp_path / "s", [(np.arange(8.0).reshape(4, 2), list("bcab"))], block_mb=2 * 20 / 2**20)
    assert (len(store), store.n_rows, store.n_features, store.zero_based) == (2, 4, 2, False)
    assert store.classes.tolist() == ["a", "b", "c"] and store.class_weights.tolist() == [1.0, 2.0, 1.0]
    assert store.load(0)[1].tolist() == [1, 2] and store.load(1)[1].tolist() == [0, 1]
    assert [block.y.tolist() for block in store] == [["b", "c"], ["a", "b"]]
    assert [block.sample_weight for block in store] == [None, None]
    assert repr(store).endswith("4 rows, 2 features, 3 classes, 2 blocks)") and store.unpacked_bytes(0) == 128


# Beside


@pytest.mark.skipif(not hasattr(os, "sysconf"), reason="this system does not say")
def test_memory_of_a_container(monkeypatch, tmp_path):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr("multimargin.data.memory._CONTAINER_LIMIT", limit)
    monkeypatch.setattr("multimargin.data.memory.os.sysconf", {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}.get)
    assert memory_of_machine() == 4_096_000
    for text, has in (("max\n", 4_096_000), ("1000\n", 1000), ("99999999999\n", 4_096_000)):
        limit.write_text(text)
        assert memory_of_machine() == has
    monkeypatch.setattr("multimargin.data.memory.os.sysconf_names", {})
    assert memory_of_machine() is None


def test_a_thread_that_cannot_be_had(monkeypatch):
    from concurrent.futures import ThreadPoolExecutor

    for said, error in (("can't start new thread", NoThreadsError), ("cannot schedule new futures", RuntimeError)):

        def fails(*args, said=said):
            raise RuntimeError(said)

        with ThreadPool(1) as pool, monkeypatch.context() as patch:
            patch.setattr(ThreadPoolExecutor, "submit", fails)
            with pytest.raises(error, match=said):
                pool.submit(int)
    with ThreadPool(2) as pool:
        assert pool.submit(max, 1, 2).result() == 2
