"""Rows held out: no class is lost to training."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimargin.commands.datasets import Dataset
from multimargin.commands.errors import CommandError
from multimargin.commands.fitting import split


@settings(max_examples=150, deadline=None)
@given(
    y=st.lists(st.integers(0, 5), min_size=4, max_size=40),
    share=st.sampled_from([0.05, 0.1, 0.25, 0.3, 0.5, 0.75, 0.9]),
    seed=st.integers(0, 5),
)
def test_every_class_is_trained_on(y, share, seed):
    y = np.array(y)
    rows = np.arange(len(y)).reshape(-1, 1)
    n_classes, n_held_out = len(np.unique(y)), int(np.ceil(share * len(y)))
    try:
        train, test = split(Dataset("d", rows, y), share, seed)
    except CommandError:
        assert n_classes == len(y) or n_held_out >= len(y)
        return
    assert sorted([*train.X[:, 0], *test.X[:, 0]]) == list(range(len(y)))
    np.testing.assert_array_equal(train.y, y[train.X[:, 0]])
    assert set(train.y) == set(y)
    assert test.n_rows == min(n_held_out, len(y) - n_classes)


def test_a_class_where_there_is_room_is_in_both():
    y = np.repeat([0, 1, 2], [20, 10, 4])
    train, test = split(Dataset("d", np.zeros((34, 1)), y), 0.3, 0)
    assert set(train.y) == set(test.y) == {0, 1, 2}


@pytest.mark.parametrize("seed", range(8))
def test_eleven_rows_of_four_classes(run, seed):
    labels = [1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4]
    with open("few.svm", "w") as file:
        file.writelines(f"{label} {label}:1 5:{i}\n" for i, label in enumerate(labels))
    result = run("train", "few.svm", "m", "--holdout", "0.3", "--seed", seed, "--json").json
    assert result["classes"] == [1, 2, 3, 4]
    assert result["rows"] + result["accuracy_rows"] == 11


def test_nothing_is_left_to_hold_out(run):
    with open("few.svm", "w") as file:
        file.writelines(f"{label} {label}:1\n" for label in range(1, 6))
    done = run("train", "few.svm", "m", "--holdout", "0.4")
    assert done.code == 1
    assert "few.svm: cannot hold out 0.4 of 5 rows: all are needed, as every class must have one" in done.err
