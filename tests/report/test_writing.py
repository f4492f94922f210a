"""The file that write_report writes, and what it refuses."""

import os
import stat
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.svm import LinearSVC

from multimargin import LinearSVM
from multimargin.report import write_report

X, y = load_iris(return_X_y=True)
MODEL = LinearSVM().fit(X, y)


def test_a_file_is_replaced(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("before")
    path.chmod(0o640)
    write_report(MODEL, X, y, str(path))
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["report.html"]


def test_twenty_classes_stay_below_two_megabytes(tmp_path):
    digits, label = load_digits(return_X_y=True)
    label = label + 10 * (np.arange(len(label)) % 2)
    write_report(LinearSVM(C=0.01).fit(digits / 16, label), digits / 16, label, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 500_000


def test_places_that_cannot_be_written(tmp_path):
    with pytest.raises(FileNotFoundError):  # before anything is looked at
        write_report(None, None, None, tmp_path / "missing" / "report.html")
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"):
        write_report(MODEL, X, y, tmp_path)
    with pytest.raises(FileNotFoundError, match="missing is not a folder; make it first"):
        write_report(MODEL, X, y, tmp_path / "missing" / "report.html")


@pytest.mark.parametrize(
    "arguments, options, error, message",
    [
        ((LinearSVC().fit(X, y), X, y), {}, TypeError, "Pipelines that end in one; got LinearSVC"),
        ((LinearSVM(), X, y), {}, NotFittedError, "not fitted"),
        ((MODEL, X, y[:-1]), {}, ValueError, "inconsistent numbers of samples"),
        ((MODEL, X[:0], y[:0]), {}, ValueError, "no rows to judge"),
        ((MODEL, X[:, :3], y), {}, ValueError, "X has 3 features, but LinearSVM is expecting 4"),
        ((MODEL, X, y.astype(str)), {}, ValueError, "no label of y is a class of the model: y has '0', '1', '2', the"),
        ((MODEL, X, y), {"feature_names": ["a"]}, ValueError, "feature_names must have 4 names, one a feature; got 1"),
        ((MODEL, X, y), {"rows": ["a", "b"]}, ValueError, "one text for each of the 150 rows of X; got 2"),
    ],
)
def test_wrong_arguments_are_refused(arguments, options, error, message, tmp_path):
    with pytest.raises(error, match=message):
        write_report(*arguments, tmp_path / "report.html", **options)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_without_its_libraries_the_error_names_the_extra(missing):
    program = f"""
import sys
sys.modules[{missing!r}] = None
from multimargin.report import write_report
try:
    write_report(None, None, None, "nowhere.html")
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120)
    assert f'the report needs {missing}: pip install "multimargin[plot]"' in done.stdout, done.stderr
