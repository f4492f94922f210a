"""What a store of blocks is made of: chunks that fit together, labels as codes, journals to go on from, and options."""

import json
import shutil

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin.data import block_writing
from multimargin.data.block_files import Entry, Layout, arrays_of, check_entry, unpacked_bytes
from multimargin.data.block_writing import _as_integers, _is_plain, _State
from multimargin.data.blocks import BlocksError, _count, open_blocks, write_blocks
from multimargin.data.chunks import Chunk, checked

Y = np.array([0, 1, 1])


def chunk(X, y=Y, weight=None):
    return Chunk(X, np.asarray(y), weight, [0], "chunk 0")


def state(n_features=None):
    return _State(None, None, False, n_features)


# Options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"block_mb": 0.0}, "block_mb must be above 0 and at most 2000"),
        ({"block_mb": 2000.1}, "block_mb must be"),
        ({"block_mb": True}, "block_mb must be"),
        ({"block_mb": "1"}, "block_mb must be"),
        ({"block_mb": float("nan")}, "block_mb must be"),
        ({"n_features": 0}, "n_features must be None or a whole number of at least 1"),
        ({"n_features": 2**62}, "n_features must be"),
        ({"n_features": 3.0}, "n_features must be"),
        ({"dtype": np.int64}, "dtype must be float32, float64 or None"),
        ({"zero_based": 1}, "zero_based must be True, False or 'auto', got 1"),
    ],
)
def test_options_that_are_refused(tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        write_blocks(tmp_path / "s", [(np.eye(3), Y)], **options)
    assert not list(tmp_path.iterdir())


def test_options_at_their_bounds(tmp_path):
    for number, options in enumerate(
        ({"block_mb": 2000}, {"zero_based": False}, {"n_features": np.int64(3)}, {"compress": np.True_})
    ):
        assert len(write_blocks(tmp_path / str(number), [(np.eye(3), Y)], **options)) == 1
    wide = write_blocks(tmp_path / "wide", [(sp.csr_array(np.eye(3)), Y)], n_features=7)
    assert wide.n_features == 7 and wide.load(0)[0].shape == (3, 7)
    widest = write_blocks(tmp_path / "widest", [(sp.csr_array(np.eye(3)), Y)], n_features=2**62 - 1)
    assert widest.n_features == 2**62 - 1 and widest.entries[0].wide and not wide.entries[0].wide
    assert write_blocks(str(tmp_path / "bytes").encode(), [(np.eye(3), Y)]).n_rows == 3
    with pytest.raises(TypeError, match="the path of the store comes first, got list"):
        write_blocks([(np.eye(3), Y)], tmp_path / "s")
    with pytest.raises(FileNotFoundError, match="is not a folder; make it first, or write s elsewhere"):
        write_blocks(tmp_path / "none" / "s", [(np.eye(3), Y)])


# Chunks


def zeros_but(share, width):
    X = np.zeros((3, width))
    X.ravel()[: int(share * X.size)] = 1.0
    return X


@pytest.mark.parametrize(
    ("X", "sparse"),
    [
        (np.eye(3), False),
        (sp.csr_array(np.ones((3, 3))), True),
        (zeros_but(0.3, 20), True),
        (zeros_but(0.3, 16), True),
        (zeros_but(0.3, 15), False),
        (zeros_but(0.5, 20), False),
    ],
)
def test_the_first_chunk_decides_how_rows_are_stored(X, sparse):
    made = state()
    fitted = made.fit(chunk(X))
    assert made.sparse is sparse and sp.issparse(fitted.X) is sparse and made.n_features == X.shape[1]
    assert made.dtype == np.float64 and made.weighted is False
    for other in (X, sp.csr_array(X).astype(np.float32)):
        again = made.fit(chunk(other)).X
        assert sp.issparse(again) is sparse and again.dtype == np.float64
        np.testing.assert_array_equal(again.toarray() if sparse else again, X.toarray() if sp.issparse(X) else X)


def test_how_wide_chunks_may_be():
    dense = state()
    dense.fit(chunk(np.ones((3, 2))))
    for width in (1, 3):
        with pytest.raises(ValueError, match=f"chunk 0: has {width} features, the chunks before it have 2"):
            dense.fit(chunk(np.ones((3, width))))
    sparse = state()
    for width, wanted in ((2, 2), (5, 5), (3, 5)):
        sparse.fit(chunk(sp.csr_array(np.ones((3, width)))))
        assert sparse.n_features == wanted
    for X in (np.ones((3, 4)), sp.csr_array(np.ones((3, 4)))):
        limited = state(n_features=4)
        limited.fit(chunk(X))
        assert limited.n_features == 4
        limited = state(n_features=3)
        with pytest.raises(ValueError, match="has 4 features, but n_features=3"):
            limited.fit(chunk(X))


def test_weights_are_everywhere_or_nowhere():
    for first, second in ((None, np.ones(3)), (np.ones(3), None)):
        made = state()
        assert made.fit(chunk(np.eye(3), weight=first)).weight is first and made.weighted is (first is not None)
        with pytest.raises(ValueError, match="either all chunks have weights or none has"):
            made.fit(chunk(np.eye(3), weight=second))


@pytest.mark.parametrize(
    ("X", "y", "weight", "dtype", "words"),
    [
        (np.ones(3), Y, None, None, r"chunk 7: X must have rows and columns, got shape \(3,\)"),
        (np.array([["a"]]), [0], None, None, "X must hold numbers, got dtype"),
        (np.ones((3, 2)), [0, 1], None, None, r"X has 3 rows, y has shape \(2,\)"),
        (np.ones((3, 2)), Y[:, None], None, None, r"X has 3 rows, y has shape \(3, 1\)"),
        (np.ones((3, 2)), Y, np.ones(2), None, r"X has 3 rows, the weights have shape \(2,\)"),
        (np.ones((3, 2)), Y, np.array([1, -1e-9, 1]), None, "weights must be finite and not negative"),
        (np.ones((3, 2)), Y, np.array([1, np.nan, 1]), None, "weights must be finite and not negative"),
        (np.ones((3, 2)), Y, np.array([1, np.inf, 1]), None, "weights must be finite and not negative"),
        (np.full((3, 2), 1e39), Y, None, np.dtype("f4"), "too large for float32; the first is in row 0, column 0"),
        (np.array([[1, 2], [1, np.inf], [1, 2.0]]), Y, None, None, "for float64; the first is in row 1, column 1"),
        (sp.csr_array([[0, 2], [0, np.nan], [1, 2.0]]), Y, None, None, "the first is in row 1, column 1"),
        (np.ma.masked_equal(np.eye(3), 0), Y, None, None, "X has masked entries"),
        (np.eye(3), np.ma.masked_equal(Y, 0), None, None, "y has masked entries"),
        (np.eye(3), Y, np.ma.masked_equal(Y, 0), None, "weights has masked entries"),
    ],
)
def test_chunks_that_do_not_fit_together(X, y, weight, dtype, words):
    with pytest.raises(ValueError, match=words):
        checked(X, y, weight, [7], "chunk 7", dtype)


def test_chunks_are_made_plain():
    for given, wanted in (
        (np.int32, np.float64),
        (np.float32, np.float32),
        (bool, np.float64),
        (np.float16, np.float64),
    ):
        assert checked(np.eye(3).astype(given), Y, None, [0], "c", None).X.dtype == wanted
    made = checked(np.asfortranarray(np.eye(3)), list("aba"), [0, 1, 2], [3, 1], "c", np.dtype("f4"))
    assert made.X.dtype == np.float32 and made.X.flags.c_contiguous and made.y.tolist() == ["a", "b", "a"]
    assert made.weight.dtype == np.float64 and made.begin == [3, 1] and made.name == "c"
    twice = sp.coo_array((np.ones(2), (np.array([1, 1]), np.array([2, 2]))), shape=(3, 3))
    assert checked(twice, Y, None, [0], "c", None).X.data.tolist() == [2.0]


# Labels


def test_labels_are_numbered_as_they_come():
    made = state()
    assert made.codes(np.array([5, 3, 5]), "c").tolist() == [1, 0, 1]
    assert made.codes(np.array([], dtype="U1"), "c").tolist() == [] and made.label_kind == "int"
    assert made.codes(np.array([9, 3], np.uint8), "c").tolist() == [2, 0]
    assert made.labels == {3: 0, 5: 1, 9: 2}
    with pytest.raises(ValueError, match="c: labels are float, those before are int"):
        made.codes(np.array([0.5]), "c")


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (np.array([True, False]), "bool"),
        (np.array([0.5]), "float"),
        (np.array(["a"]), "str"),
        (np.array(["a", "bc"], object), "str"),
        (np.array([2**63 - 1], np.uint64), "int"),
        (np.array([2**63], np.uint64), None),
        (np.array([0.5], np.longdouble), None),
        (np.array([np.inf]), None),
        (np.array([1 + 1j]), None),
        (np.array(["a", 1], object), None),
        (np.array(["a", "b\0"], object), None),
    ],
)
def test_what_labels_can_be(y, kind):
    made = state()
    if kind is None:
        with pytest.raises(ValueError, match=r"labels must be|ends in the character NUL"):
            made.codes(y, "c")
    else:
        assert made.codes(y, "c").dtype == np.int32 and made.label_kind == kind


@pytest.mark.parametrize(
    ("labels", "kind", "wanted"),
    [
        ([1.0, -2.0], "float", ([1, -2], "int")),
        ([1.0, 0.5], "float", ([1.0, 0.5], "float")),
        ([2.0**53 - 1], "float", ([2**53 - 1], "int")),
        ([2.0**53], "float", ([2.0**53], "float")),
        (["1", "-2"], "str", ([1, -2], "int")),
        (["1", "02"], "str", (["1", "02"], "str")),
        ([True], "bool", ([True], "bool")),
        ([3], "int", ([3], "int")),
    ],
)
def test_labels_of_text_are_integers_if_all_of_them_are(labels, kind, wanted):
    assert _as_integers(labels, kind) == wanted


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("0", True), ("-1", True), ("12", True), ("1" * 17, True), ("1" * 18, False), ("-0", False), ("01", False),
        ("+1", False), ("1.0", False), ("", False), ("-", False), ("--1", False), ("٣", False), ("²", False),
    ],
)  # fmt: skip
def test_whole_numbers_as_they_are_written(text, plain):
    assert _is_plain(text) is plain


def test_the_weight_of_every_label(tmp_path):
    """Also of those that come with a later block."""
    chunks = [(np.eye(2), [7, 3], [0.5, 2.0]), (np.eye(2), [3, 9], [1.0, 4.0])]
    store = write_blocks(tmp_path / "s", chunks, block_mb=(8 * 2 + 4) / 2**20)
    assert [entry.rows for entry in store.entries] == [1, 1, 1, 1]
    assert store.classes.tolist() == [3, 7, 9] and store.class_weights.tolist() == [3.0, 0.5, 4.0]
    plain = write_blocks(tmp_path / "t", [(X, y) for X, y, _ in chunks])
    assert plain.class_weights.tolist() == [2.0, 1.0, 1.0] and len(plain) == 1 and plain.n_rows == 4


# Journals


@pytest.fixture
def journal(tmp_path, monkeypatch):
    """Of a writer that was stopped by the disk after two of its blocks; the folder and what would go on."""
    text = tmp_path / "rows.txt"
    text.write_text("".join(f"{row % 3} 1:{row + 1} 2:0.5\n" for row in range(20)))
    options = {"block_mb": 150 / 2**20}
    add = _State.add

    def full(self, *block):
        if len(self.entries) == 2:
            raise OSError(28, "No space left on device", str(self.folder / "block-000002"))
        add(self, *block)

    with monkeypatch.context() as patch:
        patch.setattr(_State, "add", full)
        with pytest.raises(OSError, match=r"No space left on device; make room.*the same call goes on from there"):
            write_blocks(tmp_path / "s", text, **options)
    return tmp_path / "s.part", lambda: write_blocks(tmp_path / "s", text, **options)


def written(folder):
    return {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in folder.glob("block-*")}


def test_what_was_written_is_not_written_again(journal):
    folder, go_on = journal
    before = written(folder)
    assert set(before) == {"block-000000", "block-000001"}
    store = go_on()
    assert before.items() <= written(store.path).items() and len(store) > 2
    assert store.n_rows == 20 and store.class_weights.tolist() == [7, 7, 6]
    values = np.concatenate([block.X.toarray()[:, 0] for block in store])
    assert values.tolist() == [*range(1, 21)]
    assert {file.name for file in store.path.iterdir()} == {entry.file for entry in store.entries} | {"manifest.json"}


def test_a_text_that_is_begun_again_may_come_in_other_pieces(tmp_path, monkeypatch):
    """The piece of a block's end begins with what was left of a long line, and is shorter the second time."""
    monkeypatch.setattr("multimargin.data.file_bytes._CHUNK", 400)
    text, rows = tmp_path / "rows.txt", 60
    more = {15: " " + " ".join(f"{feature}:1" for feature in range(2, 80))}
    text.write_text("".join(f"{row % 2} 1:{row}{more.get(row, '')}\n" for row in range(1, rows + 1)))
    for stop in (1, 5, 6, 8, 12, 15):
        add, left = _State.add, stop

        def killed(self, *block, add=add):
            nonlocal left
            add(self, *block)
            left -= 1
            if not left:
                raise KeyboardInterrupt

        options = {"block_mb": 80 / 2**20, "n_features": 80, "zero_based": False}
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(_State, "add", killed)
            write_blocks(tmp_path / str(stop), text, **options)
        store = write_blocks(tmp_path / str(stop), text, **options)
        values = np.concatenate([block.X.toarray()[:, 0] for block in store])
        assert values.tolist() == [*range(1, rows + 1)]


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "journal.json").write_text("{"),
        lambda folder: (folder / "journal.json").write_text("[]"),
        lambda folder: (folder / "block-000001").unlink(),
        lambda folder: (folder / "block-000001").write_bytes(b"short"),
        lambda folder: change(folder, signature=["another"]),
        lambda folder: change(folder, blocks=[{"file": "block-000000"}]),
        lambda folder: change(folder, dtype="no type"),
    ],
)
def test_a_journal_that_cannot_be_gone_on_from(journal, damage):
    folder, go_on = journal
    before = written(folder)
    damage(folder)
    store = go_on()
    assert store.n_rows == 20 and not before.items() & written(store.path).items()


def change(folder, **changes):
    journal = json.loads((folder / "journal.json").read_bytes())
    (folder / "journal.json").write_text(json.dumps(journal | changes))


def test_a_source_that_cannot_be_read_again_leaves_nothing(tmp_path, monkeypatch):
    def full(self, *block):
        raise OSError(28, "No space left on device", str(self.folder / "block-000000"))

    monkeypatch.setattr(_State, "add", full)
    with pytest.raises(OSError, match="make room, or write elsewhere") as caught:
        write_blocks(tmp_path / "s", iter([(np.eye(3), Y)]))
    assert "goes on" not in str(caught.value) and not list(tmp_path.iterdir())


def test_errors_of_the_source_are_its_own(tmp_path):
    def chunks():
        raise OSError(5, "Input/output error", "/elsewhere")
        yield

    with pytest.raises(OSError, match="Input/output error: '/elsewhere'") as caught:
        write_blocks(tmp_path / "s", chunks())
    assert "write elsewhere" not in str(caught.value) and not list(tmp_path.iterdir())


def test_errors_come_through_where_there_is_nothing_left_to_remove(tmp_path):
    def chunks():
        yield np.eye(3), Y
        shutil.rmtree(tmp_path / "s.part")
        raise ValueError("of the source")

    with pytest.raises(ValueError, match="of the source"):
        write_blocks(tmp_path / "s", chunks())
    assert not list(tmp_path.iterdir())


def test_a_store_that_somebody_else_has_just_written(tmp_path, monkeypatch):
    monkeypatch.setattr(block_writing, "_check", lambda *options: None)
    write_blocks(tmp_path / "s", [(np.eye(3), Y)])
    with pytest.raises(FileExistsError, match="another program has just written it"):
        write_blocks(tmp_path / "s", [(np.eye(3), Y)])
    assert open_blocks(tmp_path / "s").n_rows == 3


# Sizes


@pytest.mark.parametrize(
    ("layout", "entry", "arrays"),
    [
        (
            (False, "f8", 3, 2, False, False),
            (10, 0, False),
            [("labels", "i4", 10, 0), ("values", "f8", 30, 64), ("", "u1", 0, 320)],
        ),
        (
            (True, "f4", 3, 2, True, False),
            (16, 5, False),
            [("labels", "i4", 16, 0), ("weights", "f8", 16, 64), ("indptr", "i4", 17, 192), ("indices", "i4", 5, 320),
             ("values", "f4", 5, 384), ("", "u1", 0, 448)],
        ),
        (
            (True, "f8", 3, 2, False, True),
            (1, 1, True),
            [("labels", "i4", 1, 0), ("indptr", "i8", 2, 64), ("indices", "i8", 1, 128), ("values", "f8", 1, 192),
             ("", "u1", 0, 256)],
        ),
    ],
)  # fmt: skip
def test_arrays_begin_at_multiples_of_64(layout, entry, arrays):
    sparse, dtype, *rest = layout
    layout, entry = Layout(sparse, np.dtype(dtype), *rest), Entry("block", *entry, 0, 0)
    found = [(name, kind.str[1:], length, offset) for name, kind, length, offset in arrays_of(layout, entry)]
    assert found == arrays
    size = unpacked_bytes(layout, entry)
    assert size == arrays[-1][-1]
    if not layout.compressed:
        check_entry("manifest", layout, entry._replace(bytes=size))
        for wrong in (size - 1, size + 1):
            with pytest.raises(BlocksError, match=f"block: {wrong} bytes cannot hold {entry.rows} rows"):
                check_entry("manifest", layout, entry._replace(bytes=wrong))


def test_no_block_is_packed_more_than_zlib_can():
    layout = Layout(False, np.dtype("f8"), 1, 2, False, True)
    # 1,100 times ten bytes and an alignment hold so many: labels of 4 bytes, padded, and values of 8.
    most = max(n for n in range(800, 1000) if unpacked_bytes(layout, Entry("b", n, 0, False, 0, 0)) <= 11_064)
    check_entry("manifest", layout, Entry("b", most, 0, False, 10, 0))
    with pytest.raises(BlocksError, match="10 bytes cannot hold"):
        check_entry("manifest", layout, Entry("b", most + 8, 0, False, 10, 0))


def test_counts_of_a_manifest():
    assert [_count(0), _count(1, 1), _count(2**62 - 1)] == [0, 1, 2**62 - 1]
    for value, least in ((-1, 0), (0, 1), (2**62, 0), (True, 0), (1.0, 0), ("1", 0), (None, 0)):
        with pytest.raises(ValueError, match="is no number from"):
            _count(value, least)
