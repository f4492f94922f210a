"""Data that may exceed the memory: when it does, what is said, the folders of its blocks, and how tables are read."""

import os
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from multimargin import LinearSVM, write_svmlight
from multimargin.commands import past_memory, streamed_table
from multimargin.commands.checkpoints import has_checkpoint, to_go_on
from multimargin.commands.errors import CommandError, UsageError
from multimargin.commands.main import build_parser
from multimargin.commands.past_memory import is_past_memory, memory_mb, note_in_memory, table_past_memory
from multimargin.commands.predict import _answer, _Told
from multimargin.commands.reused_folder import _empty, _is_own, reused_folder
from multimargin.commands.stored_rows import datasets_of, is_store
from multimargin.commands.train import _needs_no_scikit_learn
from multimargin.data import folder_lock
from multimargin.data.blocks import write_blocks
from multimargin.data.table_lines import TableError
from multimargin.data.tables import Wanted
from tests.commands.notes import Notes


def train_args(*words):
    return build_parser().parse_args(["train", *map(str, words)])


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# Whether it does


def test_memory_that_there_is(monkeypatch):
    assert memory_mb(train_args("d", "m", "--memory-mb", "7.5")) == 7.5
    for has, expected in ((8 * 2**30, 4096.0), (2**20, 0.5), (None, 4096.0)):
        monkeypatch.setattr(past_memory, "memory_of_machine", lambda has=has: has)
        assert memory_mb(train_args("d", "m")) == expected


def test_what_is_past_memory():
    with open("d.txt", "wb") as file:
        file.write(bytes(2**19))
    write_svmlight("rows.svm", np.eye(3), np.arange(3))
    write_blocks("s.blocks", "rows.svm")
    os.mkdir("folder")
    cases = [
        (("@digits", "m", "--blocks", "b"), False),
        (("missing", "m", "--blocks", "b"), False),
        (("s.blocks", "m"), True),
        (("folder", "m"), False),
        (("d.txt", "m", "--blocks", "b", "--memory-mb", "99"), True),
        (("d.txt", "m", "--memory-mb", "1"), False),  # which is what it may take
        (("d.txt", "m", "--memory-mb", "0.999"), True),
        (("d.txt", "m", "--memory-mb", "0.999", "--kernel", "rbf"), False),
        (("d.txt", "m", "--memory-mb", "0.999", "--format", "csv"), False),
    ]
    assert [is_past_memory(train_args(*words)) for words, _ in cases] == [past for _, past in cases]
    assert is_store("s.blocks") and not is_store("folder") and not is_store("d.txt")


def test_how_much_files_become():
    np.savez("d.npz", X=np.zeros((100, 10)))
    assert 8000 <= past_memory._bytes_in_memory("d.npz", "npz") <= 9000
    pd.DataFrame(np.zeros((50, 4)), columns=list("abcd")).to_parquet("d.parquet")
    assert past_memory._bytes_in_memory("d.parquet", "parquet") == 50 * 4 * 8
    with open("broken.npz", "wb") as file:
        file.write(bytes(100))
    assert past_memory._bytes_in_memory("broken.npz", "npz") == 0
    assert past_memory._bytes_in_memory("broken.npz", "csv") == 200
    for name, factor in (("t.csv", 2), ("t.csv.gz", 10), ("T.CSV.BZ2", 10), ("t.csv.xz", 10)):
        with open(name, "wb") as file:
            file.write(bytes(64))
        assert past_memory._bytes_of_text(name) == 64 * factor


@pytest.mark.parametrize(
    ("words", "parameters", "why"),
    [
        ((), {}, ""),
        (("--memory-mb", "99"), {}, ""),
        (("--label", "y", "--memory-mb", "99"), {}, ""),
        (("--label", "y", "-v", "3"), {}, "-v needs all rows there"),
        (("--label", "y", "--probability"), {}, "--probability needs all rows there"),
        (("--label", "y", "--text", "a"), {}, "features of text and categories are made there"),
        (("--label", "y", "--categorical", "a"), {}, "features of text and categories are made there"),
        (("--label", "y"), {"formulation": "one_vs_one"}, "blocks are for other formulations, solvers or stoppings"),
        (("--label", "y"), {"solver": "newton"}, "blocks are for other formulations, solvers or stoppings"),
        (("--label", "y"), {"stopping": "violation"}, "blocks are for other formulations, solvers or stoppings"),
        (("--label", "y", "--format", "tsv"), {}, "its name does not end with .tsv"),
        (("--label", "no"), {}, "there is no column 'no'"),
    ],
)
def test_tables_that_are_not_trained_from_blocks(words, parameters, why):
    pd.DataFrame({"a": np.arange(99.0), "y": np.arange(99) % 2}).to_csv("t.csv", index=False)
    words = ("t.csv", "m", "--memory-mb", "0.0001", *words)
    table, told = table_past_memory(train_args(*words), LinearSVM(**parameters), Notes())
    assert table is None and told.startswith(why) and bool(told) == bool(why)


def test_a_table_that_is():
    pd.DataFrame({"a": np.arange(99.0), "y": np.arange(99) % 2 + 0.5}).to_csv("t.csv", index=False)
    notes = Notes()
    table, why = table_past_memory(train_args("t.csv", "m", "--memory-mb", "0.001", "--label", "y"), LinearSVM(), notes)
    assert why == "" and [float(label) for label in table.labels] == [0.5, 1.5]
    assert len(notes.notes) == 1 and "numbers with decimals" in notes.notes[0]


@pytest.mark.parametrize(
    ("words", "why_table", "note"),
    [
        (("t.csv", "m"), "", "trained in memory: which column holds the labels?; tables of numbers, with none missing"),
        (("t.csv", "m"), "so it is", "trained in memory: so it is; tables of numbers, with none missing, are not"),
        (("t.csv", "m", "--kernel", "rbf"), "", "trained in memory: kernel machines are; linear ones"),
        (("t.npz", "m"), "", "trained in memory: an .npz file is read as a whole"),
        (("t.csv", "m", "--memory-mb", "1"), "", None),
        (("@digits", "m"), "", None),
        (("missing", "m"), "", None),
    ],
)
def test_what_is_said_of_training_in_memory(words, why_table, note):
    pd.DataFrame({"a": np.arange(99.0), "y": np.arange(99) % 2}).to_csv("t.csv", index=False)
    np.savez("t.npz", X=np.zeros((100, 3)))
    notes = Notes()
    note_in_memory(train_args(*words[:2], "--memory-mb", "0.0002", *words[2:]), notes, why_table)
    assert len(notes.notes) == (note is not None)
    if note is not None:
        assert note in notes.notes[0] and "which is more than --memory-mb 0.0002, and is" in notes.notes[0]


def test_half_of_the_memory_is_called_so(monkeypatch):
    np.savez("t.npz", X=np.zeros((2**17, 2)))
    monkeypatch.setattr(past_memory, "memory_of_machine", lambda: 2**21)
    notes = Notes()
    note_in_memory(train_args("t.npz", "m"), notes)
    assert notes.notes[0].startswith("t.npz: may take 2 MB, which is more than half of the memory, and is trained")


def test_blocks_that_are_older_than_their_data():
    write_svmlight("rows.svm", np.eye(3), np.arange(3))
    write_blocks("s.blocks", "rows.svm")
    os.utime("s.blocks/manifest.json", ns=(10, 10))
    notes = Notes()
    os.utime("rows.svm", ns=(10, 10))
    past_memory._check_older("rows.svm", "s.blocks", notes)
    assert notes.notes == ["rows.svm: is not read; the rows are those of s.blocks, which was written before"]
    os.utime("rows.svm", ns=(11, 11))
    with pytest.raises(CommandError, match=r"rows\.svm: has changed since s\.blocks was written"):
        past_memory._check_older("rows.svm", "s.blocks", notes)
    for data in ("s.blocks", "missing"):
        past_memory._check_older(data, "s.blocks", notes)
    past_memory._check_older("rows.svm", "missing", notes)
    assert len(notes.notes) == 1


def test_what_blocks_depend_on():
    write_svmlight("rows.svm", np.eye(3), np.arange(3))
    words = ("rows.svm", "m")
    told = past_memory._source(train_args(*words), 2.0)
    assert told == past_memory._source(train_args(*words, "--C", "3"), 2.0)
    others = [("--label", "y"), ("--numeric", "a"), ("--drop", "a"), ("--n-features", "9"), ("--zero-based", "yes")]
    found = {past_memory._source(train_args(*words, *more), 2.0) for more in others}
    found |= {told, past_memory._source(train_args(*words), 3.0)}
    os.utime("rows.svm", ns=(5, 5))
    assert len(found | {past_memory._source(train_args(*words), 2.0)}) == 8


def test_what_was_left_before():
    write_svmlight("rows.svm", np.eye(3), np.arange(3))
    write_blocks("s.blocks", "rows.svm")
    notes = Notes()
    assert past_memory._left_before("missing", notes) is None and notes.notes == []
    assert past_memory._left_before("s.blocks", notes).n_rows == 3 and "were left by a training" in notes.notes[0]
    os.unlink("s.blocks/manifest.json")
    assert past_memory._left_before("s.blocks", notes) is None and not os.path.exists("s.blocks")


@pytest.mark.parametrize("option", ["--valid=v", "--holdout=0.5", "-v=3", "-C", "--probability", "--kernel=rbf"])
def test_what_needs_the_rows(option):
    name, _, value = option.partition("=")
    args = train_args("d.svm", "m", name, *([value] if value else []))
    with pytest.raises(UsageError, match=f"^{name} needs DATA in memory, and d.svm is trained from blocks on disk"):
        past_memory._refuse(args)
    past_memory._refuse(train_args("d.svm", "m"))
    with pytest.raises(UsageError, match=r"t\.csv: blocks of a table are not kept"):
        past_memory._refuse(train_args("t.csv", "m"))


@pytest.mark.parametrize(("memory", "block_mb"), [(0.01, 1 / 256), (24.0, 1.0), (24 * 64.0, 64.0), (10**6, 64.0)])
def test_sizes_of_blocks(monkeypatch, memory, block_mb):
    """A part of the memory, and neither tiny nor huge."""
    write_svmlight("rows.svm", np.eye(3), np.arange(3))
    asked = []

    def noted(*args, **options):
        asked.append(options["block_mb"])
        raise CommandError("enough")

    monkeypatch.setattr(past_memory, "write_store", noted)
    args = train_args("rows.svm", "m", "--blocks", "b", "--memory-mb", str(memory))
    with pytest.raises(CommandError, match="enough"):
        past_memory.train_on_blocks(args, LinearSVM(), Notes(), ())
    assert asked == [block_mb]


# Folders


@contextmanager
def opened(tmp_path, source=b"s", wanted=False, reusable=("kept",)):
    with reused_folder(tmp_path, "data", source, reusable, lambda: wanted) as folder:
        yield folder


def test_a_folder_is_left_to_those_who_want_it(tmp_path):
    with opened(tmp_path) as folder:
        assert folder.parent == tmp_path and folder.name.endswith("-0") and folder.stat().st_mode & 0o777 == 0o700
        (folder / "kept").write_text("1")
    assert not folder.exists()
    with opened(tmp_path, wanted=True) as folder:
        (folder / "kept").write_text("1")
        (folder / "other").write_text("1")
        (folder / "inside").mkdir()
    assert folder.exists()
    with opened(tmp_path, wanted=True) as again:
        assert again == folder and sorted(path.name for path in again.iterdir() if path.name[0] != ".") == [
            "kept",
            "source.json",
        ]
    with opened(tmp_path, b"another") as again:
        assert (
            again == folder and not (folder / "kept").exists() and (folder / "source.json").read_bytes() == b"another"
        )
    assert not folder.exists()


def test_a_folder_is_removed_after_an_error_too(tmp_path):
    with pytest.raises(KeyError), opened(tmp_path) as folder:
        raise KeyError
    assert not folder.exists()


def test_two_at_a_time_have_a_folder_each(tmp_path):
    with opened(tmp_path) as first, opened(tmp_path) as second:
        assert first.name.endswith("-0") and second.name.endswith("-1") and first.name[:-1] == second.name[:-1]
        (first / "kept").write_text("1")
        with opened(tmp_path) as third:
            assert third.name.endswith("-2") and (first / "kept").exists() and second.exists()
    assert not list(tmp_path.glob(".multimargin-*"))


def test_what_others_put_there_is_not_used(tmp_path):
    with opened(tmp_path) as folder:
        pass
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with opened(tmp_path) as other:
        assert other.name.endswith("-1")
    assert folder.is_symlink() and (tmp_path / "elsewhere").is_dir()
    assert _is_own(tmp_path) and not _is_own(folder) and not _is_own(tmp_path / "missing")


def test_nobody_else_can_look_inside_from_the_beginning(tmp_path, monkeypatch):
    modes, locked = [], folder_lock.locked_folder

    def noted(folder):
        modes.append(folder.stat().st_mode & 0o777)
        return locked(folder)

    monkeypatch.setattr(folder_lock, "locked_folder", noted)
    before = os.umask(0)
    try:
        with opened(tmp_path):
            pass
    finally:
        os.umask(before)
    assert set(modes) == {0o700}


def test_a_folder_is_emptied_without_following_links(tmp_path):
    for name in ("full/a", "outside/b"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "full" / "kept").write_text("1")
    (tmp_path / "full" / "link").symlink_to(tmp_path / "outside")
    _empty(tmp_path / "full", ("kept",))
    assert os.listdir(tmp_path / "full") == ["kept"] and (tmp_path / "outside" / "b").is_dir()


# Tables and stores, part by part


def test_a_table_is_learnt_in_parts():
    frame = pd.DataFrame({"a": np.arange(10.0), "b": np.arange(10.0) ** 2, "y": list("ab") * 5})
    frame.to_csv("t.csv", index=False)
    table = streamed_table.learn_table("t.csv", "y", Wanted(), 2**-20 * 64 * 8 * 2 * 3)  # three rows
    assert table.n_rows == 3 and table.labels.tolist() == ["a", "b"]
    numbers = frame[["a", "b"]].to_numpy()
    scaled = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    parts = list(table.chunks())
    assert [len(y) for _, y in parts] == [3, 3, 3, 1]
    np.testing.assert_allclose(np.vstack([X for X, _ in parts]), scaled)
    np.testing.assert_allclose(table.transformer.transform(frame), scaled)
    assert streamed_table.learn_table("t.csv", "y", Wanted(), 1e-9).n_rows == 1
    assert streamed_table.learn_table("t.csv", "y", Wanted(), 1e9).n_rows == 20_000
    frame[:0].to_parquet("t.parquet")
    with pytest.raises(TableError, match=r"t\.parquet: has no rows"):
        streamed_table.learn_table("t.parquet", "y", Wanted(), 1.0)


def test_blocks_are_as_wide_as_the_model():
    X = np.arange(12.0).reshape(4, 3) + 1
    write_svmlight("rows.svm", X, np.arange(4) % 2)
    write_blocks("s.blocks", "rows.svm", block_mb=1e-4)
    notes = Notes()
    parts = list(datasets_of("s.blocks", 2, notes))
    assert notes.notes == ["s.blocks: features that the model does not know are left out; the model has 2"]
    np.testing.assert_array_equal(np.vstack([part.X.to_scipy().toarray() for part in parts]), X[:, :2])
    assert np.concatenate([part.y for part in parts]).tolist() == [0, 1, 0, 1]
    notes = Notes()
    assert all(part.X.shape[1] == 5 for part in datasets_of("s.blocks", 5, notes)) and not notes.notes
    np.savez("rows.npz", X=X, y=np.arange(4) % 2)
    write_blocks("d.blocks", "rows.npz")
    assert sum(part.n_rows for part in datasets_of("d.blocks", 3, notes)) == 4
    with pytest.raises(CommandError, match=r"d\.blocks: has 3 features, the model has 2"):
        list(datasets_of("d.blocks", 2, notes))


# What is said of predictions


def test_accuracy_of_parts():
    told = _Told(np.array([1, 2]), keeps=False)
    assert told.accuracy is None and not told.labelled
    told.add(np.array([1, 2]), None, np.array([7, 8]))
    assert told.accuracy is None and told.labelled and told.rows == 2
    told.add(np.array([1, 2]), None, np.array([1, 9]))
    assert told.accuracy == 0.25 and (told.right, told.rows) == (1, 4) and told.labels == []
    told.add(np.array([1]), None, None)
    assert told.accuracy == 0.2


def test_answers():
    told = _Told(np.array(["a", "b"]), keeps=True)
    told.add(np.array(["b"]), (np.array([[1, 0]]), np.array([[0.75, 0.25]])), None)
    args = SimpleNamespace(data="d", model="m", out="-", top=2, proba=False)
    answer = _answer(args, told)
    assert answer["top"] == [[["b", 0.75], ["a", 0.25]]] and answer["labels"].tolist() == ["b"]
    assert (answer["command"], answer["rows"], answer["accuracy"]) == ("predict", 1, None)
    told.values = [np.array([[0.25, 0.75]])]
    args.top, args.proba = None, True
    assert _answer(args, told)["probabilities"].tolist() == [[0.25, 0.75]]
    told.keeps = False
    assert not {"labels", "probabilities", "top"} & set(_answer(args, told))


# Training that goes on, or needs little


def test_checkpoints_that_are_there():
    args = train_args("d", "m", "--checkpoint", "c")
    assert not has_checkpoint(args) and to_go_on(args) == ""
    with open("c", "w"):
        pass
    assert has_checkpoint(args)
    assert to_go_on(args) == "; c holds the training: the same command goes on from there"
    assert not has_checkpoint(train_args("d", "m"))


@pytest.mark.parametrize(
    ("words", "little"),
    [
        ((), True),
        (("--format", "npz"), True),
        (("--format", "csv"), False),
        (("--kernel", "rbf"), False),
        (("--probability",), False),
        (("-v", "3"), False),
        (("-C",), False),
        (("--holdout", "0.5"), False),
        (("--checkpoint", "c"), False),
    ],
)
def test_what_needs_no_scikit_learn(words, little):
    with open("d.svm", "w"):
        pass
    assert _needs_no_scikit_learn(train_args("d.svm", "m", *words)) is little
