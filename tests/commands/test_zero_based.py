"""svmlight text whose indices start at 0: the model knows, as a file to predict may not show it."""

import os
import subprocess
import sys

import numpy as np
import pytest

from multimargin.data.svmlight_writing import write_svmlight
from multimargin.models import load

NOTE = "multimargin: note: {}: indices start at 0\n"


@pytest.fixture
def files(run):
    """zero.svm to train on, part.svm with rows that have no feature 0, one.svm the same from 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5)) * (rng.random((60, 5)) < 0.6)
    y = np.argmax(X[:, 1:4], axis=1)
    X[0, 0] = 1
    write_svmlight("zero.svm", X, y, zero_based=True)
    write_svmlight("one.svm", X, y)
    without = X[:, 0] == 0
    write_svmlight("part.svm", X[without], y[without], zero_based=True)
    return run


def test_training_says_that_indices_start_at_0(files):
    done = files("train", "zero.svm", "m")
    assert (done.code, done.err) == (0, NOTE.format("zero.svm"))
    assert files("train", "zero.svm", "m", "--quiet").err == ""
    assert files("train", "zero.svm", "m", "--zero-based", "yes").err == ""
    assert files("train", "one.svm", "n").err == ""
    np.testing.assert_array_equal(load("m").coef_, load("n").coef_)
    assert files("train", "zero.svm", "-v", "3").err == ""  # writes no model


def test_valid_is_read_as_the_training_rows(files):
    options = ["--n-features", "6", "--json"]
    right = files("train", "zero.svm", "m", "--valid", "part.svm", *options, "--zero-based", "yes").json
    found = files("train", "zero.svm", "m", "--valid", "part.svm", *options).json
    assert found["accuracy"] == right["accuracy"] > 0.8
    refused = files("train", "one.svm", "m", "--valid", "zero.svm", *options)
    assert refused.code == 1 and "zero.svm" in refused.err


@pytest.mark.parametrize("options", [[], ["--kernel", "rbf"]], ids=["light", "kernel"])
def test_the_model_remembers(files, options):
    for name in ("zero", "one"):
        assert files("train", f"{name}.svm", name, *options).code == 0
        assert load(name).first_index_ == (name == "one")
    right = files("predict", "part.svm", "zero", "-", "--zero-based", "yes").out
    wrong = files("predict", "part.svm", "zero", "-", "--zero-based", "no").out
    assert files("predict", "part.svm", "zero", "-").out == right != wrong
    refused = files("predict", "zero.svm", "one", "-")
    assert refused.code == 1 and "zero.svm, line 1" in refused.err
    assert files("predict", "zero.svm", "one", "-", "--zero-based", "auto").code == 1
    for name, first in (("zero", "x0"), ("one", "x1")):
        assert files("report", name, f"{name}.svm", f"{name}.html").code == 0
        with open(f"{name}.html") as page:
            text = page.read()
        assert ">x4<" in text and (">x5<" in text) == (first == "x1")


@pytest.mark.parametrize(("name", "first"), [("zero", 0), ("one", 1)])
def test_a_model_from_blocks_remembers(files, name, first):
    assert files("train", f"{name}.svm", "m", "--blocks", f"{name}.blocks", "-q").code == 0
    assert load("m").first_index_ == first


def test_a_fit_from_elsewhere_forgets(files):
    assert files("train", "zero.svm", "m", "-q").code == 0
    model = load("m")
    model.fit(np.eye(3), [0, 1, 2])
    assert not hasattr(model, "first_index_")


def test_errors_are_those_of_the_file(files):
    with open("bad.svm", "w") as file:
        file.write("1 0:1\n2 1:x\n")
    done = files("train", "bad.svm", "m")
    assert done.code == 1 and "bad.svm, line 2" in done.err
    assert "line 1" in files("train", "zero.svm", "m", "--zero-based", "no").err


@pytest.mark.skipif(not os.path.exists("/dev/stdin"), reason="needs /dev/stdin")
def test_a_pipe_is_read_once(files):
    words = [sys.executable, "-m", "multimargin", "train", "/dev/stdin", "p"]
    with open("zero.svm", "rb") as file:
        done = subprocess.run(words, input=file.read(), capture_output=True, timeout=120)
    assert (done.returncode, done.stderr.decode()) == (0, NOTE.format("/dev/stdin"))
    assert files("train", "zero.svm", "m", "-q").code == 0
    np.testing.assert_array_equal(load("m").coef_, load("p").coef_)
