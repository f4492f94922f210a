"""--format: files whose names do not say what they hold, and pipes."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pandas
import pytest

from multimargin.models import load

LABEL = ["--label", "price"]


@pytest.fixture
def houses(run, folder):
    """The table of houses under names that say nothing."""
    shutil.copy(folder / "houses.csv", "houses.txt")
    frame = pandas.read_csv(folder / "houses.csv", dtype={"kind": str}, keep_default_na=False)
    frame["rooms"] = pandas.to_numeric(frame["rooms"])
    frame.to_csv("houses.tabs", sep="\t", index=False)
    frame.to_parquet("houses.data")
    shutil.copy("houses.data", "houses.parquet")
    return run


@pytest.mark.parametrize(("kind", "name"), [("csv", "houses.txt"), ("tsv", "houses.tabs"), ("parquet", "houses.data")])
def test_every_command_honours_the_format(houses, folder, kind, name):
    said = ["--format", kind, *LABEL]
    assert houses("train", folder / "houses.csv", "expected", *LABEL, "-q").code == 0
    done = houses("train", name, "m", *said, "--valid", name, "--json")
    assert done.code == 0, done.err
    assert done.json["accuracy_on"] == "valid" and done.json["accuracy"] > 0.95
    np.testing.assert_allclose(load("m")[-1].coef_, load("expected")[-1].coef_)
    assert houses("predict", name, "m", "out.txt", *said).code == 0
    assert houses("report", "m", name, "r.html", *said).code == 0


def test_the_suffix_of_valid_counts_where_it_is_another(houses, folder):
    for data, valid in (("houses.txt", "houses.parquet"), ("houses.txt", folder / "houses.csv")):
        done = houses("train", data, "m", "--format", "csv", *LABEL, "--valid", valid)
        assert done.code == 0, done.err
    shutil.copy(folder / "digits.svm", "digits.csv")  # a suffix that is wrong is so for both
    assert houses("train", "digits.csv", "m", "--format", "svmlight", "--valid", "digits.csv").code == 0


@pytest.mark.skipif(not os.path.exists("/dev/stdin"), reason="needs /dev/stdin")
@pytest.mark.parametrize(("kind", "name"), [("csv", "houses.txt"), ("parquet", "houses.data")])
def test_tables_through_pipes(houses, kind, name):
    words = [sys.executable, "-m", "multimargin", "train", "/dev/stdin", "p", "--format", kind, *LABEL, "-q"]
    with open(name, "rb") as file:
        done = subprocess.run(words, input=file.read(), capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")
    assert houses("train", name, "m", "--format", kind, *LABEL, "-q").code == 0
    np.testing.assert_array_equal(load("p")[-1].coef_, load("m")[-1].coef_)


def test_without_a_label_the_columns_are_listed(houses, folder):
    shown = "which column holds the labels? Say --label COL; the file has 'rooms', 'kind', 'price', 'zip'"
    for name, *more in ([folder / "houses.csv"], ["houses.parquet"], ["houses.tabs", "--format", "tsv"]):
        done = houses("train", name, "m", *more)
        assert done.code == 2
        assert shown in done.err


def test_hints_can_be_pasted_into_a_shell(run):
    with open("t.csv", "w") as file:
        file.write("age in years,y\n,1\n,2\n")
    assert "leave it out (--drop 'age in years')" in run("train", "t.csv", "m", "--label", "y").err
    with open("t.csv", "w") as file:
        file.write("my key,x,y\n" + "".join(f"T{i},{i % 7},{i % 2}\n" for i in range(60)))
    assert "(--drop 'my key', --text 'my key')" in run("train", "t.csv", "m", "--label", "y").err
