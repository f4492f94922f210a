"""The papers' experiments: every script runs, its page and plots are there, and finished cells are not run again."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimargin.linear.solvers import SOLVERS

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks" / "papers"
SCRIPTS = sorted(file.stem for file in FOLDER.glob("paper_00[01]_*.py"))
RIVALS = {"exponentiated_gradient", "cutting_plane", "pegasos", "primal_cd", "tron"}
MISSING = RIVALS - set(SOLVERS)  # methods of cells that cannot run


def module(name: str) -> ModuleType:
    for folder in (str(FOLDER.parent), str(FOLDER)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    return importlib.import_module(name)


def experiment_of(script: str):
    """An experiment, without cells whose solver there is not."""
    whole = module(script).EXPERIMENT
    return dataclasses.replace(
        whole, cells=lambda size: [c for c in whole.cells(size) if c.get("method") not in MISSING]
    )


def never(cell):
    raise AssertionError(f"run again: {cell}")


def check_page(folder: Path, name: str) -> str:
    """The page, whose figures are all there."""
    text = (folder / f"{name}.md").read_text()
    assert "Not complete" not in text
    assert "failed" not in text
    assert "What differs from the paper" in text
    figures = re.findall(r"!\[[^]]*\]\((\S+)\.png\)", text)
    assert figures
    for figure in figures:
        assert (folder / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (folder / f"{figure}.svg").read_text()[:2000]
        assert f"({figure}.svg)" in text
    return text


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_writes_its_page_and_resumes(script, tmp_path, capsys):
    run = module("experiment").main
    experiment = experiment_of(script)
    assert experiment.name == script
    arguments = ["--quick", "--results", str(tmp_path)]
    assert run(experiment, arguments) == 0
    assert "\n| " in check_page(tmp_path, script)
    told = capsys.readouterr()
    assert "0 left" in told.err
    assert told.out.strip() == str(tmp_path / f"{script}.md")

    def write(page, results):
        page.text(f"{len(results.pairs)} finished")

    assert run(dataclasses.replace(experiment, run=never, write=write), arguments) == 0
    assert f"{len(experiment.cells('quick'))} finished" in (tmp_path / f"{script}.md").read_text()


def test_a_killed_run_goes_on(tmp_path):
    script = "paper_000_figure_5"
    store = tmp_path / ".cells" / f"{script}.jsonl"
    command = [sys.executable, str(FOLDER / f"{script}.py"), "--quick", "--results", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (store.exists() and store.read_text().count("\n") >= 2) and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait()
    before = store.read_bytes()
    with store.open("ab") as out:
        out.write(b'{"version": 1, "cell": {"data"')  # killed while it wrote

    run = module("experiment").main
    experiment = module(script).EXPERIMENT
    assert run(experiment, ["--quick", "--results", str(tmp_path)]) == 0
    assert store.read_bytes().startswith(before)
    lines = [json.loads(line) for line in store.read_text().splitlines() if line.endswith("}")]
    cells = [json.dumps(line["cell"], sort_keys=True) for line in lines]
    assert sorted(cells) == sorted(json.dumps(cell, sort_keys=True) for cell in experiment.cells("quick"))
    check_page(tmp_path, script)


# The cells


def write_all(page, results):
    page.table(("a", "b"), [(cell["a"], result["b"]) for cell, result in results.pairs])


def small(run, **options):
    experiment = module("experiment").Experiment
    cells = [{"a": 1}, {"a": 2}, {"a": 3}]
    return experiment("small", "Small", lambda size: cells, run, write_all, **options)


def test_a_failed_cell_is_told_and_tried_again(tmp_path, capsys):
    run = module("experiment").main

    def fails(cell):
        if cell["a"] == 2:
            raise ValueError("it is two\nand more")
        return {"b": cell["a"] * 10}

    assert run(small(fails), ["--jobs", "1", "--results", str(tmp_path)]) == 1
    page = (tmp_path / "small.md").read_text()
    assert "- failed: a=2: ValueError: it is two\n" in page
    assert "1 cells are missing" in page
    assert "| 3   |  30 |" in page
    assert "ValueError: it is two" in capsys.readouterr().err
    assert run(small(lambda cell: {"b": 0}), ["--jobs", "1", "--results", str(tmp_path)]) == 0
    page = (tmp_path / "small.md").read_text()
    assert "| 2   |   0 |" in page
    assert "| 3   |  30 |" in page


def test_fresh_and_a_new_version_forget(tmp_path):
    run = module("experiment").main
    arguments = ["--jobs", "1", "--results", str(tmp_path)]
    assert run(small(lambda cell: {"b": 1}), arguments) == 0
    assert run(small(never), arguments) == 0
    assert run(small(never), [*arguments, "--fresh"]) == 1
    assert run(small(lambda cell: {"b": 1}), arguments) == 0
    assert run(small(never, version=2), arguments) == 1


def test_a_budget_stops_before_the_next_cell(tmp_path, monkeypatch):
    run = module("experiment").main
    arguments = ["--jobs", "1", "--results", str(tmp_path)]
    assert run(small(never), [*arguments, "--budget", "0"]) == 0
    assert "3 cells are missing" in (tmp_path / "small.md").read_text()

    now = 0.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)

    def slow(cell):
        nonlocal now
        now += 5.0
        return {"b": 1}

    assert run(small(slow), [*arguments, "--budget", "4"]) == 0
    assert "2 cells are missing" in (tmp_path / "small.md").read_text()


def test_what_is_finished_is_written_after_an_interrupt(tmp_path, capsys):
    def interrupted(cell):
        if cell["a"] == 2:
            raise KeyboardInterrupt
        return {"b": 7}

    run = module("experiment").main
    assert run(small(interrupted), ["--jobs", "1", "--results", str(tmp_path)]) == 130
    assert "2 cells are missing" in (tmp_path / "small.md").read_text()
    assert "run it again to go on" in capsys.readouterr().err


def test_cells_run_in_other_processes(tmp_path):
    run = module("experiment").main
    identity = dict  # a cell is its own result; a function that other processes can import

    def write(page, results):
        assert [cell for cell, _ in results.pairs] == [result for _, result in results.pairs]
        page.text("seen")

    experiment = dataclasses.replace(small(identity), write=write)
    assert run(experiment, ["--jobs", "2", "--results", str(tmp_path)]) == 0
    assert "seen" in (tmp_path / "small.md").read_text()


def test_finished_times_of_another_machine_do_not_count(tmp_path, monkeypatch):
    experiment = module("experiment")
    arguments = ["--results", str(tmp_path)]
    assert experiment.main(small(lambda cell: {"b": 1}, timed=True), arguments) == 0
    assert experiment.main(small(never, timed=True), arguments) == 0
    monkeypatch.setattr(experiment, "machine", lambda: "an abacus")
    assert experiment.main(small(never, timed=True), arguments) == 1


def test_without_data_sets(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MULTIMARGIN_DATA", str(tmp_path / "nothing"))
    run = module("experiment").main
    assert run(experiment_of("paper_000_figure_5"), ["--results", str(tmp_path)]) == 2
    assert "--quick" in capsys.readouterr().err


def test_run_all_is_a_smoke_run_without_data_sets(tmp_path):
    command = [sys.executable, str(FOLDER / "run_all.py"), "paper_000_figure_5", "--results", str(tmp_path)]
    environment = {**os.environ, "MULTIMARGIN_DATA": str(tmp_path / "nothing")}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert "A smoke run instead" in ended.stderr
    assert re.search(r"paper_000_figure_5 +done, \d+ s", ended.stdout)
    check_page(tmp_path, "paper_000_figure_5")


def test_every_budget_has_its_script():
    run_all = module("run_all")
    assert set(run_all.BUDGETS) <= {script.stem for script in run_all.scripts([])}


# Rows and curves


@settings(max_examples=30, deadline=None)
@given(
    y=st.lists(st.integers(0, 3), min_size=5, max_size=60),
    shares=st.sampled_from([(0.6, 0.2, 0.2), (0.5, 0.5), (0.9, 0.1)]),
    seed=st.integers(0, 5),
)
def test_stratified_parts(y, shares, seed):
    y = np.array(y)
    parts = module("datasets").stratified_parts(y, shares, seed)
    assert sorted(np.concatenate(parts)) == list(range(len(y)))
    for part, share in zip(parts, shares, strict=True):
        for label in np.unique(y):
            assert abs(np.sum(y[part] == label) - share * np.sum(y == label)) <= 1


def test_a_curve_comes_down_to_the_optimum():
    traces, samples = module("traces"), module("samples")
    data = samples.with_test("generated:words", 100)
    problem = {"formulation": "crammer_singer", "C": 1.0}
    reference = traces.optimum(data, 1e-7, 60.0, **problem)
    curve = traces.trace(data, 0.2, solver="sdm", **problem)
    epochs = [point["epochs"] for point in curve]
    assert epochs[:4] == [1, 2, 3, 4]
    assert epochs == sorted(set(epochs))
    primal, dual = traces.best_bounds(reference, [curve])
    assert abs(primal - dual) <= 1e-6 * primal
    seconds, values = traces.distances(curve, "dual", dual)
    assert np.all(np.diff(seconds) >= 0)
    assert values[0] > 0.01 > values[3]
    assert traces.time_to(curve, "dual", dual, 0.01) <= seconds[3]
    assert traces.time_to(curve, "dual", dual, -1.0) is None
    assert traces.shown_time(curve, "dual", dual, -1.0).startswith("> ")


def test_the_page_aligns_numbers(tmp_path):
    page = module("page").Page(tmp_path, "page")
    page.table(("set", "rate"), [("iris", 97.333), ("wine", None), ("glass", "> 5")])
    assert page.lines[:5] == [
        "| set   | rate |",
        "|-------|-----:|",
        "| iris  | 97.3 |",
        "| wine  |    - |",
        "| glass |  > 5 |",
    ]
    with pytest.raises(ValueError, match="does not have 2 cells"):
        page.table(("a", "b"), [(1,)])
