"""Stores of blocks: round trips, everything that can be damaged, writers that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from multimargin import write_svmlight
from multimargin.data import block_writing, svmlight_stream
from multimargin.data.block_files import manifest_of, write_block
from multimargin.data.blocks import BlocksError, open_blocks, write_blocks
from multimargin.data.svmlight import SvmlightFormatError

RNG = np.random.default_rng(0)
X = sp.random_array((700, 40), density=0.2, format="csr", rng=RNG)
Y = RNG.integers(-1, 4, 700)


def content(store):
    """All of a store at once."""
    blocks = list(store)
    stack = sp.vstack if store.layout.sparse else np.concatenate
    weights = None if blocks[0].sample_weight is None else np.concatenate([b.sample_weight for b in blocks])
    return stack([b.X for b in blocks]), np.concatenate([b.y for b in blocks]), weights


def assert_same(store, X, y, weights=None):
    found, labels, found_weights = content(store)
    dense = found.toarray() if sp.issparse(found) else found
    np.testing.assert_array_equal(dense, X.toarray() if sp.issparse(X) else X)
    np.testing.assert_array_equal(labels, y)
    np.testing.assert_array_equal(store.classes, np.unique(y))
    assert (store.n_rows, store.n_features) == X.shape
    if weights is None:
        assert found_weights is None
    else:
        np.testing.assert_array_equal(found_weights, weights)


@given(
    st.integers(1, 60),
    st.integers(1, 30),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["f4", "f8"]),
    st.sampled_from(["int", "float", "str", "bool"]),
    st.lists(st.integers(0, 60), max_size=3),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=40, deadline=None)
def test_chunks_come_back(tmp_path_factory, n, m, sparse, compress, weighted, dtype, kind, cuts, seed):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, m)) < 0.4, rng.standard_normal((n, m)), 0).astype(dtype)
    labels = {"int": [-3, 5, 7], "float": [0.5, 2.0, -1e300], "str": ["a", "ä b", ""], "bool": [True, False]}
    y = np.array(labels[kind])[rng.integers(0, len(labels[kind]), n)]
    weights = rng.random(n) if weighted else None
    ends = [0, *sorted(min(cut, n) for cut in cuts), n]
    parts = [slice(a, b) for a, b in pairwise(ends)]
    made = sp.csr_array(X) if sparse else X
    chunks = [(made[p], y[p], *(() if weights is None else (weights[p],))) for p in parts]
    path = tmp_path_factory.mktemp("store") / "x.blocks"
    store = write_blocks(path, iter(chunks), block_mb=0.001, compress=compress, n_features=m)
    assert_same(store, X, y, weights)
    assert store.layout.dtype == np.dtype(dtype)
    assert_same(open_blocks(path), X, y, weights)


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
@pytest.mark.parametrize("zero_based", [False, True])
def test_text_is_streamed(tmp_path, suffix, zero_based):
    path = tmp_path / f"data.txt{suffix}"
    wide = X.copy()
    wide.resize(700, 41)
    write_svmlight(path, X, Y, zero_based=zero_based)
    store = write_blocks(tmp_path / "s", path, block_mb=0.02)
    assert len(store) > 2 and store.classes.dtype == np.int64
    assert_same(store, X, Y)
    both = write_blocks(tmp_path / "two", [path, path], n_features=41, zero_based=zero_based)
    assert_same(both, sp.vstack([wide, wide]), np.concatenate([Y, Y]))


def test_a_byte_order_mark_is_left_out_once(tmp_path, monkeypatch):
    """At the beginning, and not where a later piece of a long line happens to begin with those bytes."""
    path = tmp_path / "data.txt"
    path.write_bytes(b"\xef\xbb\xbf1 1:2\n2 1:3\n")
    store = write_blocks(tmp_path / "s", path)
    assert (store.n_rows, store.classes.tolist()) == (2, [1, 2])
    monkeypatch.setattr(svmlight_stream, "stream_bytes", lambda path, byte: iter([b"1 1:2 ", b"\xef\xbb\xbf2:3\n"]))
    with pytest.raises(SvmlightFormatError, match="line 1"):
        write_blocks(tmp_path / "t", path)


@pytest.mark.parametrize(("digits", "kind"), [(17, "i"), (18, "U")])
def test_labels_of_text_are_integers_while_they_are_exact(tmp_path, digits, kind):
    pytest.importorskip("pandas")
    labels = ["1" * digits, "-" + "2" * 10, "3"]
    (tmp_path / "t.csv").write_text("a,label\n" + "".join(f"1,{label}\n" for label in labels))
    store = write_blocks(tmp_path / "s", tmp_path / "t.csv", label="label")
    assert store.classes.dtype.kind == kind
    assert sorted(map(str, store.classes)) == sorted(labels)


def test_index_zero_may_come_late(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("1 1:1\n" * 400_000 + "2 0:1\n")
    store = write_blocks(tmp_path / "s", path, block_mb=1)
    assert store.n_features == 2 and next(iter(store)).X[[0]].toarray().tolist() == [[0, 1]]


def test_tables_and_npz(tmp_path):
    pandas = pytest.importorskip("pandas")
    values = RNG.random((50, 3))
    labels = RNG.choice(["NA", "b"], 50)
    frame = pandas.DataFrame(values, columns=list("xyz")).assign(label=labels)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", X=values, y=labels)
    for name in ("t.csv", "t.parquet", "t.npz"):
        store = write_blocks(tmp_path / f"{name}.blocks", tmp_path / name, label="label", block_mb=0.001)
        np.testing.assert_allclose(content(store)[0], values, rtol=1e-15)
        np.testing.assert_array_equal(content(store)[1], labels)
    (tmp_path / "bad.csv").write_text("a,label\n1,x\nz,y\n")
    with pytest.raises(ValueError, match=r"bad.csv: row 2: column 'a' holds 'z'"):
        write_blocks(tmp_path / "bad", tmp_path / "bad.csv", label="label")
    with pytest.raises(ValueError, match="which column holds the labels"):
        write_blocks(tmp_path / "bad", tmp_path / "t.csv")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_of_later_tables_are_found_by_name(tmp_path, suffix):
    pandas = pytest.importorskip("pandas")
    values, labels = RNG.random((40, 3)), RNG.integers(0, 3, 40)
    frame = pandas.DataFrame(values, columns=list("xyz")).assign(label=labels)

    def table(name, part):
        path = tmp_path / f"{name}{suffix}"
        part.to_parquet(path) if suffix == ".parquet" else part.to_csv(path, index=False)
        return path

    a, b = table("a", frame[:15]), table("b", frame[15:][["z", "label", "x", "y"]])
    empty = table("empty", frame[:0])
    for number, files in enumerate(([a, b], [empty, b], [a, empty, b])):
        store = write_blocks(tmp_path / f"s{number}", files, label="label")
        np.testing.assert_allclose(content(store)[0], values if a in files else values[15:], rtol=1e-15)
    fewer, more = table("fewer", frame.drop(columns="y")), table("more", frame.assign(w=1.0))
    with pytest.raises(ValueError, match=rf"fewer{suffix}: there is no column 'y', which .*a{suffix} has"):
        write_blocks(tmp_path / "bad", [a, fewer], label="label")
    with pytest.raises(ValueError, match=rf"more{suffix}: has a column 'w', which .*a{suffix} has not"):
        write_blocks(tmp_path / "bad", [a, more], label="label")
    assert not list(tmp_path.glob("bad*"))


def test_a_writer_that_goes_on_knows_the_columns_of_the_first_table(tmp_path, monkeypatch):
    """It goes on in the second file, whose columns are in another order."""
    pytest.importorskip("pandas")
    (tmp_path / "a.csv").write_text("x,y,label\n" + "1,2,0\n" * 100)
    (tmp_path / "b.csv").write_text("y,x,label\n" + "2,1,1\n" * 100)
    add, written = block_writing._State.add, []

    def full_disk(state, *block):
        if len(written) == 5:
            raise OSError(28, "No space left on device")
        written.append(1)
        add(state, *block)

    options = {"label": "label", "block_mb": 600 / 2**20}  # 30 rows
    monkeypatch.setattr(block_writing._State, "add", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_blocks(tmp_path / "s", [tmp_path / "a.csv", tmp_path / "b.csv"], **options)
    assert json.loads((tmp_path / "s.part" / "journal.json").read_bytes())["begin"] == [1, 0]
    monkeypatch.setattr(block_writing._State, "add", add)
    store = write_blocks(tmp_path / "s", [tmp_path / "a.csv", tmp_path / "b.csv"], **options)
    assert_same(store, np.tile([1.0, 2.0], (200, 1)), np.repeat([0, 1], 100))


@pytest.mark.parametrize(
    ("source", "options", "error", "words"),
    [
        ([(X, Y[:-1])], {}, ValueError, "chunk 0: X has 700 rows, y has shape"),
        ([(X, Y), (X, Y, np.ones(700))], {}, ValueError, "chunk 1: either all chunks have weights or none"),
        ([(X, Y, -np.ones(700))], {}, ValueError, "not negative"),
        ([(X, Y), (X, Y.astype(str))], {}, ValueError, "labels are str, those before are int"),
        ([(np.full((2, 2), np.nan), [0, 1])], {}, ValueError, "NaN"),
        ([(np.full((2, 2), 1e200), [0, 1])], {"dtype": "f4"}, ValueError, "too large for float32"),
        ([(X, Y)], {"n_features": 3}, ValueError, "has 40 features, but n_features=3"),
        ([(np.ones((3, 2)), [0, 1, 1]), (np.ones((3, 3)), [0, 1, 1])], {}, ValueError, "the chunks before it have 2"),
        ([], {}, ValueError, "has no rows"),
        (X, {}, TypeError, r"one matrix in memory is \[\(X, y\)\]"),
        ([X], {}, TypeError, "a tuple"),
        ([(X, Y)], {"block_mb": 0}, ValueError, "block_mb"),
        ([(X, Y)], {"block_mb": 2000.5}, ValueError, "block_mb must be above 0 and at most 2000"),
        ([(X, Y)], {"zero_based": "maybe"}, ValueError, "zero_based must be True, False or 'auto', got 'maybe'"),
        ([(X, Y)], {"dtype": "i4"}, ValueError, "float32, float64"),
        ([(X, [None] * 700)], {}, ValueError, "labels must be"),
        ([(np.eye(3), [0.0, 1.0, np.nan])], {}, ValueError, "labels must be finite"),
    ],
)
def test_bad_sources_are_refused_and_leave_nothing(tmp_path, source, options, error, words):
    with pytest.raises(error, match=words):
        write_blocks(tmp_path / "s", source, **options)
    assert not list(tmp_path.iterdir())


def test_a_taken_name_is_refused(tmp_path):
    write_blocks(tmp_path / "s", [(X, Y)])
    with pytest.raises(FileExistsError, match="is there already"):
        write_blocks(tmp_path / "s", [(X, Y)])
    (tmp_path / "t.part").mkdir()
    (tmp_path / "t.part" / "mine").touch()
    with pytest.raises(FileExistsError, match="in the way"):
        write_blocks(tmp_path / "t", [(X, Y)])


@pytest.mark.parametrize("compress", [False, True])
def test_every_damage_is_refused(tmp_path, compress):
    store = write_blocks(tmp_path / "s", [(X, Y)], block_mb=0.02, compress=compress)
    files = sorted(store.path.iterdir())
    assert len(files) > 3
    for file in (files[1], files[-1]):  # a block and the manifest
        good = file.read_bytes()
        for at in RNG.choice(len(good), 25, replace=False):
            file.write_bytes(good[:at] + bytes([good[at] ^ (1 << int(RNG.integers(8)))]) + good[at + 1 :])
            with pytest.raises(BlocksError, match=file.name):
                list(open_blocks(store.path))
        for damaged in (good[:-1], good + b"x", b""):
            file.write_bytes(damaged)
            with pytest.raises(BlocksError, match=file.name):
                list(open_blocks(store.path))
        file.unlink()
        with pytest.raises(BlocksError, match=file.name):
            list(open_blocks(store.path))
        file.write_bytes(good)
    assert_same(open_blocks(store.path), X, Y)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rows": 3}, "the rows of its blocks"),
        ({"n_features": -1}, "damaged"),
        ({"n_features": 7}, "outside 0..6"),
        ({"labels": [0]}, "list of labels"),
        ({"labels": [0, 1, 2, 3, 3]}, "list of labels"),
        ({"version": 2}, "version 2"),
        ({"dtype": "float32"}, "cannot hold"),
        ({"weighted": True}, "cannot hold"),
        ({"label_weights": [-1.0] * 5}, "weights of labels"),
    ],
)
def test_a_manifest_is_not_trusted(tmp_path, change, words):
    """Not even one with the right checksum."""
    store = write_blocks(tmp_path / "s", [(X, Y)])
    manifest = store.path / "manifest.json"
    body = json.loads(manifest.read_bytes())["store"] | change
    manifest.write_bytes(manifest_of(body))
    with pytest.raises(BlocksError, match=words):
        list(open_blocks(store.path))


@pytest.mark.parametrize("label", [-1, 2])
def test_a_block_is_not_trusted(tmp_path, label):
    """Not even one with the right checksum, in the manifest, too."""
    labels = np.zeros(3, np.int32)
    labels[1] = label
    store = write_blocks(tmp_path / "s", [(np.ones((3, 2)), [0, 1, 0])])
    (entry,) = store.entries
    forged = write_block(store.path, entry.file, store.layout, np.ones((3, 2)), labels, None)
    manifest = store.path / "manifest.json"
    body = json.loads(manifest.read_bytes())["store"] | {"blocks": [forged._asdict()]}
    manifest.write_bytes(manifest_of(body))
    with pytest.raises(BlocksError, match="a label is outside of the 2 that the store has"):
        list(open_blocks(store.path))


def test_a_manifest_is_as_it_was_written(tmp_path):
    """Even where JSON does not care."""
    store = write_blocks(tmp_path / "s", [(X, Y)])
    manifest = store.path / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b", ", b",\t"))
    with pytest.raises(BlocksError, match="checksum is wrong"):
        open_blocks(store.path)


@pytest.mark.parametrize("file", ["../outside", "", "a/b", 3])
def test_blocks_are_in_their_folder(tmp_path, file):
    store = write_blocks(tmp_path / "s", [(X, Y)])
    manifest = store.path / "manifest.json"
    body = json.loads(manifest.read_bytes())["store"]
    body["blocks"][0]["file"] = file
    manifest.write_bytes(manifest_of(body))
    with pytest.raises(BlocksError, match="not the name of a file"):
        open_blocks(store.path)


def test_sizes_of_files_are_checked_when_a_store_is_opened(tmp_path):
    store = write_blocks(tmp_path / "s", [(X, Y)])
    file = store.path / store.entries[0].file
    os.truncate(file, store.entries[0].bytes - 1)
    with pytest.raises(BlocksError, match=f"should have {store.entries[0].bytes}: it was cut short or changed"):
        open_blocks(store.path)


def test_a_chunk_that_is_not_finite_names_the_place(tmp_path):
    bad = np.ones((3, 2))
    bad[0, 0] = np.nan
    with pytest.raises(ValueError, match=r"row 0\b.*(column|feature) 0\b"):
        write_blocks(tmp_path / "s", [(bad, [0, 1, 2])])


def test_what_is_no_store(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        open_blocks(tmp_path / "none")
    with pytest.raises(BlocksError, match="no store of blocks"):
        open_blocks(tmp_path)


WRITER = """
import sys
from multimargin.data import block_writing
from multimargin.data.blocks import write_blocks
add, left = block_writing._State.add, int(sys.argv[3])
def counted(self, *args):
    global left
    add(self, *args)
    left -= 1
    if left == 0:
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
block_writing._State.add = counted
write_blocks(sys.argv[2], sys.argv[1], block_mb=0.02)
"""


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_killed_writer_is_continued(tmp_path, suffix):
    path, target = tmp_path / f"data.txt{suffix}", tmp_path / "s"
    write_svmlight(path, X, Y)
    done = subprocess.run([sys.executable, "-c", WRITER, str(path), str(target), "3"], check=False)
    assert done.returncode == -signal.SIGKILL and not target.exists()
    kept = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "s.part").glob("block-*")}
    assert len(kept) == 3
    store = write_blocks(target, path, block_mb=0.02)
    assert_same(store, X, Y)
    assert {name: (target / name).stat().st_mtime_ns for name in kept} == kept
    assert sorted(file.name for file in tmp_path.iterdir()) == [path.name, "s"]
    whole = write_blocks(tmp_path / "whole", path, block_mb=0.02)
    assert [entry.checksum for entry in whole.entries] == [entry.checksum for entry in store.entries]


def test_another_source_begins_anew(tmp_path):
    path, target = tmp_path / "data.txt", tmp_path / "s"
    write_svmlight(path, X, Y)
    subprocess.run([sys.executable, "-c", WRITER, str(path), str(target), "3"], check=False)
    write_svmlight(path, X * 2, Y)
    assert_same(write_blocks(target, path, block_mb=0.02), X * 2, Y)


def test_broken_text_names_the_line(tmp_path):
    path = tmp_path / "data.txt"
    path.write_text("1 1:1\n" * 1_000_000 + "1 1:x\n")
    with pytest.raises(ValueError, match=r"data.txt, line 1000001: '1:x'"):
        write_blocks(tmp_path / "s", path)
    assert os.listdir(tmp_path) == ["data.txt"]


def test_text_from_zero_goes_on_too(tmp_path, monkeypatch):
    """What was killed had found that indices start at 0; the same call must not begin anew."""
    text = tmp_path / "rows.txt"
    text.write_text("".join(f"{i % 3} 0:{i + 1} 3:{i % 7 + 1}\n" for i in range(300)))
    written = []
    add = block_writing._State.add

    def full_disk(state, *block):
        if len(written) == 4:
            raise OSError(28, "No space left on device")
        written.append(1)
        add(state, *block)

    monkeypatch.setattr(block_writing._State, "add", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_blocks(tmp_path / "rows.blocks", text, block_mb=0.0005)
    monkeypatch.setattr(block_writing._State, "add", lambda state, *block: (written.append(1), add(state, *block))[1])
    store = write_blocks(tmp_path / "rows.blocks", text, block_mb=0.0005)
    assert store.n_rows == 300 and store.n_features == 4
    assert len(written) <= len(store) + 1  # the first try ended at its first row


def test_an_empty_folder_of_a_killed_writer_is_not_in_the_way(tmp_path):
    (tmp_path / "rows.blocks.part").mkdir()
    store = write_blocks(tmp_path / "rows.blocks", [(np.eye(3), [0, 1, 2])])
    assert store.n_rows == 3 and not (tmp_path / "rows.blocks.part").exists()
    assert not (tmp_path / "rows.blocks" / "journal.json").exists()


def test_two_writers_of_one_store(tmp_path):
    """The second is refused, and the first does not notice."""
    X, y = np.eye(3), np.arange(3)
    refused = []

    def chunks():
        yield X, y
        with pytest.raises(OSError, match=r"s\.part: another program is writing there; wait for it") as caught:
            write_blocks(tmp_path / "s", [(X, y)])
        refused.append(caught.value)
        yield X, y

    store = write_blocks(tmp_path / "s", chunks())
    assert store.n_rows == 6 and len(refused) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    with pytest.raises(FileExistsError):
        write_blocks(tmp_path / "s", [(X, y)])


def test_blocks_are_as_large_as_asked_for(tmp_path):
    rows, labels = np.random.default_rng(0).normal(size=(4096, 16)), np.arange(4096) % 3  # half a megabyte
    store = write_blocks(tmp_path / "s", [(rows, labels)], block_mb=0.125)
    sizes = [8 * 16 * entry.rows / 2**20 for entry in store.entries]
    assert all(0.1 < size <= 0.125 for size in sizes[:-1])
    assert len(write_blocks(tmp_path / "one", [(rows, labels)], block_mb=2000)) == 1  # the most


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [None, np.int32, np.int64])  # None: dense
def test_a_block_has_the_rows_that_fit_to_the_byte(tmp_path, dtype, index):
    """A row takes its values, a label of 4 bytes and, if it is sparse, its columns and its end."""
    rows, value = np.ones((40, 6), dtype), np.dtype(dtype).itemsize
    of_row = 4 + 6 * value
    if index is not None:
        rows = sp.csr_array(rows)
        rows.indices, rows.indptr = rows.indices.astype(index), rows.indptr.astype(index)
        of_row = 4 + 6 * (value + rows.indices.itemsize) + rows.indptr.itemsize
    for bytes_more, expected in ((0, 10), (-1, 9), (of_row, 11)):
        size = (10 * of_row + bytes_more) / 2**20
        store = write_blocks(tmp_path / f"{bytes_more}", [(rows, np.arange(40) % 2)], block_mb=size)
        assert store.entries[0].rows == expected


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_columns_whose_names_are_numbers(tmp_path, suffix):
    pandas = pytest.importorskip("pandas")
    values, labels = RNG.random((20, 2)), RNG.choice(["a", "b"], 20)
    frame = pandas.DataFrame({7: values[:, 0], 8: values[:, 1], 9: labels})
    path = tmp_path / f"t{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
    store = write_blocks(tmp_path / "store", path, label="9")
    np.testing.assert_allclose(content(store)[0], values, rtol=1e-15)
    np.testing.assert_array_equal(content(store)[1], labels)


def test_the_functions_are_in_the_package_and_loaded_on_first_use():
    program = (
        "import sys, multimargin.data; heavy = {'numpy', 'scipy', 'sklearn', 'pandas'} & set(sys.modules);"
        "from multimargin.data import open_blocks, write_blocks; from multimargin.data import blocks;"
        "print(sorted(heavy), open_blocks is blocks.open_blocks, write_blocks is blocks.write_blocks)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["[]", "True", "True"]
