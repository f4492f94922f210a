"""multimargin tune: the search, what it prints, and the command that trains the winner."""

import shlex
from types import SimpleNamespace

import numpy as np
import pytest

from multimargin.commands.finished_paths import FinishedPaths, Path, Told
from multimargin.commands.options import FORMULATIONS
from multimargin.commands.search import _extended
from multimargin.linear.checkpoint import CheckpointError, StateFile

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


SEARCH = (
    "tune",
    "digits.svm",
    "--folds",
    "2",
    "--kernel",
    "rbf",
    "--C-range",
    "1",
    "4",
    "--gamma-range",
    "0.01",
    "0.04",
)
KEPT = (*SEARCH, "--checkpoint", "state", "--checkpoint-every", "0")


def told(found):
    return {key: value for key, value in found.items() if key != "seconds"}


@pytest.fixture
def stopped(folder, monkeypatch):
    """Ctrl-C when so many paths are in the file, or a few more, until it is seen."""

    def stop(run, after, *words):
        finish, finished = FinishedPaths.finish, []

        def finishing(paths, path, fits):
            finish(paths, path, fits)
            finished.append(path)
            if len(finished) == after:
                raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(FinishedPaths, "finish", finishing)
            done = run(*words)
        return done, finished

    monkeypatch.chdir(folder)
    (folder / "state").unlink(missing_ok=True)
    return stop


@pytest.mark.parametrize("after", [1, 3])
def test_a_stopped_search_goes_on_to_the_same_end(run, folder, stopped, after):
    whole = run(*SEARCH, "--json").json
    first, walked = stopped(run, after, *KEPT)
    assert first.code == 130 and (folder / "state").exists()
    if after == 3:  # there are points that all folds have scored
        assert "interrupted: this is the best so far; state holds the search: the same command goes" in first.err
    second, walked_then = stopped(run, -1, *KEPT, "--json")
    assert second.code == 0 and "note: state: going on from this checkpoint" in second.err
    assert told(second.json) == told(whole)
    assert len(walked) >= after and not set(walked) & set(walked_then)  # no path was walked twice
    assert "--checkpoint" not in second.json["train"]
    assert not (folder / "state").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--folds", "3"], "X was 49 x 64 in the first of 2 folds"),
        (["--seed", "5"], "X has other values"),
        (["--formulation", "weston_watkins"], "formulation was 'crammer_singer' and is 'weston_watkins'"),
        (["--max-iter", "7"], "max_iter was"),
    ],
)
def test_a_search_of_something_else_is_refused(run, folder, stopped, more, said):
    stopped(run, 1, *KEPT)
    before = (folder / "state").read_bytes()
    other = run(*KEPT, *more)
    assert other.code == 1 and said.replace("49", str(n_rows(folder) // 2)) in other.err
    assert "going on" not in other.err
    assert (folder / "state").read_bytes() == before
    assert run(*KEPT).code == 0


def n_rows(folder):
    return len((folder / "digits.svm").read_text().splitlines())


def test_another_range_goes_on_with_the_paths_that_it_shares(run, folder, stopped):
    _, walked = stopped(run, 2, *KEPT)
    wider = [word if word != "0.04" else "0.16" for word in KEPT]
    done, walked_then = stopped(run, -1, *wider, "--json")
    assert done.code == 0
    assert {2.0**path.gamma for path in walked} <= {point["gamma"] for point in done.json["points"]}
    assert not set(walked) & set(walked_then)
    without = [word for word in wider if word not in ("--checkpoint", "state", "--checkpoint-every", "0")]
    assert told(done.json) == told(run(*without, "--json").json)


@pytest.mark.parametrize(
    "array",
    [
        np.array([0.0, 1.0]),
        np.array([0.0, 1.0, 0.0, 0.5]),
        np.array([0.0, 1.0, 0.0, 1.5, 1.0]),
        np.array([0.0, 1.0, 0.0, -0.5, 1.0]),
        np.array([0.0, 1.0, 0.0, np.nan, 1.0]),
        np.array([0.0, 1.0, 0.0, 0.5, 0.5]),
        np.array([np.nan, 1.0, 0.0, 0.5, 1.0]),
        np.array([0, 1, 0, 0, 1]),
    ],
)
def test_a_forged_path_is_refused(tmp_path, array):
    StateFile(tmp_path / "state", 0.0, {}).write({"path0": array})
    with pytest.raises(CheckpointError, match=r"does not hold together.*delete it"):
        FinishedPaths(StateFile(tmp_path / "state", 0.0, {}))


def test_finished_paths_are_read_as_they_were_written(tmp_path):
    paths = {
        Path(0, None, (-2.0, 0.0, 0.5)): [Told(0.25, True), Told(1.0, False), Told(0.0, True)],
        Path(1, -7.5, (3.0,)): [Told(0.5, True)],
    }
    kept = FinishedPaths(StateFile(tmp_path / "state", 1e9, {"X": "rows"}))
    for path, fits in paths.items():
        kept.finish(path, fits)
    assert not (tmp_path / "state").exists()  # it is not time for it
    kept.save()
    again = FinishedPaths(StateFile(tmp_path / "state", 1e9, {"X": "rows"}))
    assert {path: again.told(path) for path in paths} == paths
    assert again.told(Path(0, None, (-2.0, 0.0))) is None
    again.remove()
    assert not (tmp_path / "state").exists()
