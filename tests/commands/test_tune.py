"""multimargin tune: the search, what it prints, and the command that trains the winner."""

import shlex
from types import SimpleNamespace

import numpy as np
import pytest

from multimargin.commands.options import FORMULATIONS
from multimargin.commands.search import _extended

KEYS = {"command", "data", "folds", "fits", "seconds", "best", "accuracy", "at_edge", "points", "train"}


def test_linear(run, folder):
    done = run("tune", folder / "digits.svm", "--folds", "3", "--json")
    assert done.code == 0 and set(done.json) == KEYS
    found = done.json
    points = found["points"]
    assert len(points) * 3 == found["fits"]
    Cs = [point["C"] for point in points]
    assert Cs == sorted(Cs) and len(set(Cs)) == len(Cs)
    best = max(point["accuracy"] for point in points)
    assert found["accuracy"] == best
    assert found["best"]["C"] == min(point["C"] for point in points if point["accuracy"] == best)
    assert np.isclose(points[0]["accuracy"], np.mean(points[0]["fold_accuracies"]))


def test_the_command_that_is_printed_trains_the_winner(run, folder):
    options = ["--formulation", "weston_watkins", "--no-intercept", "--weight", "3=2", "--n-jobs", "2"]
    done = run("tune", folder / "digits.svm", "--folds", "2", *options)
    line = done.out.splitlines()[-1].strip()
    words = shlex.split(line)
    assert words[:2] == ["multimargin", "train"]
    result = run(*words[1:], "--json").json
    assert result["model"] == "digits.model"
    parameters = result["parameters"]
    assert parameters["formulation"] == "weston_watkins" and parameters["fit_intercept"] is False
    assert parameters["class_weight"] == {"3": 2.0} and parameters["n_jobs"] == 2
    again = run("tune", folder / "digits.svm", "--folds", "2", *options, "--json").json
    assert parameters["C"] == pytest.approx(again["best"]["C"], rel=1e-4)


def test_kernel(run, folder):
    done = run("tune", folder / "digits.svm", "--folds", "2", "--kernel", "rbf", "--json", "--n-jobs", "2")
    found = done.json
    assert set(found["best"]) == {"C", "gamma"}
    assert len({point["gamma"] for point in found["points"]}) >= 5
    assert "--kernel rbf" in found["train"] and "--gamma" in found["train"]
    assert found["accuracy"] > 0.9


def test_a_shared_kernel_matrix_changes_nothing(run, folder):
    ranges = ["--C-range", "1", "16", "--gamma-range", "0.01", "0.04", "--folds", "2", "--kernel", "rbf", "--json"]
    shared = run("tune", folder / "digits.svm", *ranges).json
    alone = run("tune", folder / "digits.svm", *ranges, "--cache-mb", "0.5").json
    one, two = ({(p["C"], p["gamma"]): p["accuracy"] for p in found["points"]} for found in (shared, alone))
    both = set(one) & set(two)
    assert len(both) >= 4
    assert max(abs(one[point] - two[point]) for point in both) <= 0.011  # to within tol: few rows change sides


@pytest.mark.parametrize("threads", ["1", "2"])
def test_ranges_are_kept(run, folder, threads):
    found = run(
        "tune", folder / "digits.svm", "--folds", "2", "--C-range", "0.5", "1", "--n-jobs", threads, "--json"
    ).json
    assert all(0.49 < point["C"] < 1.01 for point in found["points"])


def test_a_winner_at_the_edge_of_a_given_range_is_noted(run, folder):
    done = run("tune", folder / "digits.svm", "--folds", "2", "--C-range", "1e-6", "1e-5")
    assert "widen --C-range" in done.err


def test_threads_change_nothing(run, folder):
    one, two = (
        run("tune", folder / "digits.svm", "--folds", "3", "--json", "--n-jobs", n).json["points"] for n in ("1", "2")
    )
    assert one == two


@pytest.mark.parametrize(("sizes", "expected"), [((4, 4, 3), 3), ((4, 4, 1), 2), ((2, 2), 2), ((7, 2), 5), ((5, 2), 5)])
def test_folds_of_few_rows(run, sizes, expected):
    with open("few.svm", "w") as file:
        file.writelines(f"{c} {c + 1}:{2 + i % 3}\n" for c, size in enumerate(sizes) for i in range(size))
    done = run("tune", "few.svm", "--C-range", "1", "2")
    assert done.code == 0 and f" fits in {expected} folds, " in done.out
    note = f"multimargin: note: few.svm: no class has 5 rows: {expected} folds\n"
    assert (note in done.err) == (expected < 5)
    found = run("tune", "few.svm", "--C-range", "1", "2", "--json").json
    assert found["folds"] == expected == len(found["points"][0]["fold_accuracies"])
    assert f"in {expected} folds" in run("train", "few.svm", "-C").out


def test_classes_of_one_row(run):
    with open("few.svm", "w") as file:
        file.write("1 1:1\n2 2:1\n3 3:1\n")
    done = run("tune", "few.svm")
    assert done.code == 1 and done.err.endswith(
        "few.svm: every class has one row only; cross-validation needs classes with more\n"
    )


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_every_formulation(run, formulation):
    done = run("tune", "@iris", "--formulation", formulation, "--folds", "2")
    assert done.code == 0, done.err
    assert "<- best" in done.out


@pytest.mark.parametrize("kernel", ["linear", "poly", "sigmoid"])
def test_other_kernels(run, kernel):
    ranges = [] if kernel == "linear" else ["--gamma-range", "0.01", "0.04"]
    done = run("tune", "@iris", "--kernel", kernel, "--folds", "2", "--C-range", "1", "4", *ranges)
    assert done.code == 0, done.err


@pytest.mark.parametrize("options", [[], ["--kernel", "rbf"]])
def test_plot(run, tmp_path, options):
    for name in ("plot.png", "plot.svg"):
        done = run("tune", "@iris", "--folds", "2", "--plot", name, *options)
        assert done.code == 0 and f"plot: {name}" in done.out
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "plot.svg").read_bytes()


def test_tuning_writes_no_model(run, tmp_path):
    run("tune", "@iris", "--folds", "2")
    assert list(tmp_path.iterdir()) == []


class Grid:
    """A search whose best C is always the largest one that was tried."""

    def __init__(self):
        self.tried, self.found = [], self

    def ranked(self):
        return sorted(self.tried, reverse=True)

    def evaluate(self, points):
        self.tried += points


def test_the_grid_grows_three_times_at_most_and_not_where_a_range_was_given():
    for given, expected in ((None, [0.0, 2.0, 4.0, 6.0, 8.0]), ((1, 4), [0.0, 2.0])):
        grid = Grid()
        grid.evaluate([(0.0, None), (2.0, None)])
        Cs, gammas = _extended(grid, ([0.0, 2.0], [None]), SimpleNamespace(C_range=given))
        assert (Cs, gammas) == (expected, [None])
        assert sorted({point[0] for point in grid.tried}) == expected
