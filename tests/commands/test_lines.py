"""Lines of predictions, and rows that a model does not know all of."""

from types import SimpleNamespace

import numpy as np
import pytest

from multimargin.commands.errors import CommandError
from multimargin.commands.predict import _lines, _read_whole, _said
from multimargin.commands.terminal import Terminal

CLASSES = np.array(["a", "b"])


def lines(parts, **options):
    return list(_lines(iter(parts), CLASSES, SimpleNamespace(**{"proba": False, "top": None} | options)))


def test_labels_a_line():
    assert lines([(np.array(["a"]), None), (np.array(["b", "a"]), None)]) == ["a\n", "b\n", "a\n"]
    assert lines([]) == []


def test_probabilities_have_one_header():
    parts = [(np.array(["a"]), np.array([[0.75, 0.25]])), (np.array(["b"]), np.array([[1 / 3, 2 / 3]]))]
    assert lines(parts, proba=True) == ["label\ta\tb\n", "a\t0.75\t0.25\n", "b\t0.333333\t0.666667\n"]
    assert lines([], proba=True) == []


def test_the_best_classes_have_none():
    parts = [(np.array(["b"]), (np.array([[1, 0]]), np.array([[1.5, -1.5]])))]
    for proba in (False, True):
        assert lines(parts, proba=proba, top=2) == ["b\t1.5\ta\t-1.5\n"]


@pytest.mark.parametrize(
    ("out", "options", "stdout", "stderr"),
    [
        ("f", {}, "words\n", ""),
        ("f", {"quiet": True}, "", ""),
        ("f", {"as_json": True}, "", ""),
        ("-", {}, "", "words\n"),
        ("-", {"quiet": True}, "", ""),
        ("-", {"as_json": True}, "", ""),
    ],
)
def test_where_the_accuracy_is_said(capsys, out, options, stdout, stderr):
    _said(Terminal(**options), out, "words")
    assert capsys.readouterr() == (stdout, stderr)


def rows_of(tmp_path, text, based="auto", n_features=3, **options):
    path = tmp_path / "d.svm"
    path.write_text(text)
    args = SimpleNamespace(data=str(path), format=None, label=None, text=[], zero_based="auto", **options)
    return _read_whole(args, Terminal(), None, n_features, based), path


def test_features_that_are_not_known(tmp_path, capsys):
    data, path = rows_of(tmp_path, "1 1:1 4:9 9:9\n2 3:2 9:1\n")
    assert data.X.to_scipy().toarray().tolist() == [[1, 0, 0], [0, 0, 2]] and data.y.tolist() == [1, 2]
    said = capsys.readouterr().err
    assert said == (
        f"multimargin: note: {path}: 2 features that the model does not know are left out; the model has 3\n"
    )
    rows_of(tmp_path, "1 4:9\n")
    assert "1 feature that the model does not know is left out; the model has 3" in capsys.readouterr().err
    data, _ = rows_of(tmp_path, "1 3:9\n")
    assert capsys.readouterr().err == "" and data.X.shape == (1, 3)
    data, _ = rows_of(tmp_path, "1 1:9\n", based=True)
    assert data.X.to_scipy().toarray().tolist() == [[0, 9, 0]]


@pytest.mark.parametrize(
    ("label", "whole"), [("-3", True), (str(2**53 - 1), True), (str(2**53), False), ("2.5", False)]
)
def test_labels_that_are_no_whole_numbers(tmp_path, capsys, label, whole):
    data, path = rows_of(tmp_path, f"1 1:1\n{label} 1:1\n")
    said = capsys.readouterr().err
    if whole:
        assert data.y.tolist() == [1, int(label)] and said == ""
    else:
        assert data.y is None
        told = f"the label is {float(label):g}, no whole number: no accuracy"
        assert said == f"multimargin: note: {path}: row 2: {told}\n"


def test_text_that_is_none(tmp_path):
    with pytest.raises(CommandError, match=r"d\.svm, line 2"):
        rows_of(tmp_path, "1 1:1\n1 x\n")
