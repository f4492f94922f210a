"""Labels of a second file, which may be of another type than those that were trained: 1 and "1" are the same."""

import numpy as np
import pytest

from multimargin import load
from multimargin.data.tables import labels_as

NUMBERS = "x,z,y\n" + "0,1,1\n9,1,2\n" * 4
WITH_TEXT = NUMBERS + "5,-9,x\n" * 4


def write(name, text):
    with open(name, "w") as file:
        file.write(text)


@pytest.fixture
def files(run):
    """The program, with numbers.csv and text.csv to read."""
    write("numbers.csv", NUMBERS)
    write("text.csv", WITH_TEXT)
    return run


TRAIN = ["--label", "y", "--C", "100", "--json"]


def test_valid_with_numbers_after_training_with_text(files):
    done = files("train", "text.csv", "m", "--valid", "numbers.csv", *TRAIN)
    assert done.json["classes"] == ["1", "2", "x"]
    assert (done.json["accuracy"], done.json["accuracy_rows"], done.err) == (1.0, 8, "")


def test_valid_with_text_after_training_with_numbers(files):
    done = files("train", "numbers.csv", "m", "--valid", "text.csv", *TRAIN)
    assert done.json["classes"] == [1, 2]
    assert done.json["accuracy"] == pytest.approx(8 / 12)
    assert "text.csv: 4 of 12 rows have a label that no training row has, such as 'x' of row 9" in done.err


def test_report_after_training_with_text(files, tmp_path):
    assert files("train", "text.csv", "m", *TRAIN).code == 0
    done = files("report", "m", "numbers.csv", "r.html", "--label", "y")
    assert done.code == 0, done.err
    assert (tmp_path / "r.html").stat().st_size > 1000


def test_report_refuses_text_where_classes_are_numbers(files, tmp_path):
    assert files("train", "numbers.csv", "m", *TRAIN).code == 0
    done = files("report", "m", "text.csv", "r.html", "--label", "y")
    assert done.code == 1
    assert "text.csv: row 9: the label is 'x', while the classes of the model are numbers" in done.err
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("classes", "labels", "expected"),
    [
        (["1", "2", "x"], [2, 1, 7], ["2", "1", "7"]),
        (["1", "2", "x"], [2.0, 0.5], ["2", "0.5"]),
        (["1.0", "2.0"], [1.0, 2.0], ["1.0", "2.0"]),
        ([1, 2], ["2", "1"], [2, 1]),
        ([1.0, 2.0], ["2", "1.0"], [2.0, 1.0]),
        ([1, 2], ["1", "01", "x"], [1, "01", "x"]),
        ([True, False], ["True", "False"], [True, False]),
        ([1, 2], [2.0, 3.0], [2.0, 3.0]),
        (["a"], ["b"], ["b"]),
    ],
)
def test_labels_as_classes(classes, labels, expected):
    made = labels_as(np.array(classes), np.array(labels))
    assert made.tolist() == expected
    assert [type(label) for label in made.tolist()] == [type(label) for label in expected]


def test_valid_with_two_columns_of_text(run):
    write("t.csv", "a,b,y\n" + "red,up,1\nblue,down,2\n" * 5)
    done = run("train", "t.csv", "m", "--valid", "t.csv", *TRAIN, "--text", "b", "--text", "a")
    assert done.code == 0 and done.json["accuracy"] == 1


@pytest.mark.parametrize("labels", [[np.nan, np.nan, 0, 1], [0.5, 0.7, 0, 1]])
def test_labels_of_npz_are_classes(run, tmp_path, labels):
    np.savez(tmp_path / "d.npz", X=np.eye(4), y=labels)
    refused = run("train", tmp_path / "d.npz", tmp_path / "m")
    assert refused.code == 1 and "row 1: the label is" in refused.err and "whole numbers" in refused.err
    assert not (tmp_path / "m").exists()
    np.savez(tmp_path / "d.npz", X=np.eye(4), y=[0.0, 1.0, 0.0, 1.0])
    assert run("train", tmp_path / "d.npz", tmp_path / "m").code == 0
    assert load(tmp_path / "m").classes_.tolist() == [0, 1]
