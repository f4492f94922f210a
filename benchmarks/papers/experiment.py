"""What the papers' experiments share: cells that are run once, a command line, progress, results that are written.

An experiment is a list of cells, each a dict of settings, and a function from a cell to its result, a dict that JSON
can hold. Every finished cell is appended to ``results/.cells/<name>.jsonl``, so that a run that was stopped goes on
where it was. The results become one Markdown page and its plots (page.py, plots.py). Rows come from samples.py.

    EXPERIMENT = Experiment(
        name="paper_000_figure_1",
        title="...",
        cells=cells,      # cells(size) -> list of dicts; size is "quick", "default" or "full"
        run=run,          # run(cell) -> dict; a module-level function, as it may run in another process
        write=write,      # write(page, results)
        timed=True,       # one cell at a time, and finished cells of another machine do not count
    )
    if __name__ == "__main__":
        sys.exit(main(EXPERIMENT))
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from page import Page
from report import machine
from threadpoolctl import threadpool_limits

HERE = Path(__file__).resolve().parent
Cell = dict[str, Any]


@dataclass
class Experiment:
    """One table or figure of a paper."""

    name: str  # of its script, and of the files that it writes
    title: str
    cells: Callable[[str], list[Cell]]
    run: Callable[[Cell], dict[str, Any]]
    write: Callable[[Page, Results], None]
    timed: bool = False  # its results are seconds
    version: int = 1  # a new number forgets the finished cells


class Results:
    """The finished cells, in the order of the experiment's list."""

    def __init__(self, pairs: list[tuple[Cell, dict[str, Any]]]):
        self.pairs = pairs

    def where(self, **settings: Any) -> list[tuple[Cell, dict[str, Any]]]:
        """Cells and their results that have these settings."""
        return [(c, r) for c, r in self.pairs if all(c.get(key) == value for key, value in settings.items())]

    def one(self, **settings: Any) -> dict[str, Any] | None:
        """The result of the only cell that has these settings; None if it is not finished."""
        found = self.where(**settings)
        if len(found) > 1:
            raise LookupError(f"{len(found)} cells have {settings}")
        return found[0][1] if found else None

    def values(self, setting: str) -> list[Any]:
        """What a setting is in the finished cells, each value once."""
        return list(dict.fromkeys(cell[setting] for cell, _ in self.pairs if setting in cell))


class Store:
    """The finished cells of an experiment in a JSON-lines file; a line that was cut off by a kill is no cell."""

    def __init__(self, file: Path, experiment: Experiment):
        self.file = file
        self.version = experiment.version
        self.machine = machine() if experiment.timed else None
        self.finished: dict[str, dict[str, Any]] = {}
        self.dates: dict[str, str] = {}
        for line in self._lines():
            if line.get("version") == self.version and line.get("machine") == self.machine:
                self._keep(line)

    def _lines(self) -> Iterator[dict[str, Any]]:
        if not self.file.exists():
            return
        for text in self.file.read_text().splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict) and {"cell", "result", "date"} <= line.keys():
                yield line

    def _keep(self, line: dict[str, Any]) -> None:
        self.finished[key(line["cell"])] = line["result"]
        self.dates[key(line["cell"])] = line["date"]

    def add(self, cell: Cell, result: dict[str, Any]) -> None:
        today = datetime.date.today().isoformat()
        line = {"version": self.version, "machine": self.machine, "date": today, "cell": cell, "result": result}
        text = json.dumps(line) + "\n"
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a+b") as out:
            size = out.seek(0, os.SEEK_END)
            if size and self.file.read_bytes()[-1:] != b"\n":
                text = "\n" + text
            out.write(text.encode())
        self._keep(json.loads(text))  # as a later run will read it

    def forget(self) -> None:
        self.file.unlink(missing_ok=True)
        self.finished.clear()
        self.dates.clear()

    def results(self, cells: list[Cell]) -> Results:
        return Results([(cell, self.finished[key(cell)]) for cell in cells if key(cell) in self.finished])

    def date(self, cells: list[Cell]) -> str:
        """The day of these cells, or the first and the last one."""
        days = sorted({self.dates[key(cell)] for cell in cells if key(cell) in self.dates})
        return "nothing finished" if not days else " to ".join(dict.fromkeys((days[0], days[-1])))


def key(cell: Cell) -> str:
    return json.dumps(cell, sort_keys=True)


class Progress:
    """Done, left and the current cell on stderr; one line that is rewritten on a terminal, else a line a cell."""

    def __init__(self, name: str, total: int, done: int):
        self.name, self.total, self.done = name, total, done
        self.began, self.done_before = time.perf_counter(), done
        self.live = sys.stderr.isatty()

    def say(self, text: str) -> None:
        elapsed = time.perf_counter() - self.began
        line = f"{self.name}: {self.done} done, {self.total - self.done} left, {elapsed:.0f} s; {text}"
        if self.live:
            width = os.get_terminal_size(sys.stderr.fileno()).columns - 1
            print("\r" + line[:width].ljust(width), end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    def error(self, cell: Cell, text: str) -> None:
        begin = "\n" if self.live else ""
        print(f"{begin}{self.name}: {described(cell)} FAILED\n{text}", file=sys.stderr, flush=True)

    def end(self) -> None:
        self.say("finished" if self.done == self.total else "stopped")
        if self.live:
            print(file=sys.stderr)


def described(cell: Cell) -> str:
    return " ".join(f"{name}={value}" for name, value in cell.items())


def _run_alone(run: Callable[[Cell], dict[str, Any]], cell: Cell) -> dict[str, Any]:
    with threadpool_limits(1):
        return run(cell)


def run_cells(experiment: Experiment, cells: list[Cell], store: Store, jobs: int, deadline: float) -> dict[str, str]:
    """Run what is not finished, until the deadline; the errors by cell."""
    left = [cell for cell in cells if key(cell) not in store.finished]
    progress = Progress(experiment.name, len(cells), len(cells) - len(left))
    errors: dict[str, str] = {}

    def finish(cell: Cell, result: Callable[[], dict[str, Any]]) -> None:
        try:
            store.add(cell, result())
            progress.done += 1
        except Exception as error:
            errors[described(cell)] = f"{type(error).__name__}: {error}"
            progress.error(cell, traceback.format_exc())

    waiting = iter(left)
    if jobs == 1:
        for cell in waiting:
            if time.perf_counter() >= deadline:
                break
            progress.say(described(cell))
            finish(cell, lambda cell=cell: _run_alone(experiment.run, cell))
    else:
        running: dict[Future, Cell] = {}
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            while True:
                while len(running) < jobs and time.perf_counter() < deadline and (cell := next(waiting, None)):
                    progress.say(described(cell))
                    running[pool.submit(_run_alone, experiment.run, cell)] = cell
                if not running:
                    break
                for future in wait(running, return_when=FIRST_COMPLETED)[0]:
                    finish(running.pop(future), future.result)
    progress.end()
    return errors


def parser(experiment: Experiment) -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=experiment.title)
    size = options.add_mutually_exclusive_group()
    size.add_argument("--full", dest="size", action="store_const", const="full", help="the paper's sizes; long")
    size.add_argument(
        "--quick",
        dest="size",
        action="store_const",
        const="quick",
        help="seconds, on rows that scikit-learn brings along; does not touch the results of the other sizes",
    )
    options.set_defaults(size="default")
    options.add_argument("--fresh", action="store_true", help="forget the finished cells")
    options.add_argument(
        "--budget",
        type=float,
        default=float("inf"),
        metavar="SECONDS",
        help="begin no cell after that and write what there is; 0: only write what is finished",
    )
    jobs = "cells at a time; by default 1 where times are measured and with --quick, else one a core"
    options.add_argument("--jobs", type=int, metavar="N", help=jobs)
    options.add_argument("--results", type=Path, metavar="FOLDER", help="where results are written (results/)")
    return options


def main(experiment: Experiment, arguments: list[str] | None = None) -> int:
    """Run and write; 0 if all cells are there, 1 if some failed, 2 if the data sets are not there."""
    options = parser(experiment).parse_args(arguments)
    folder = options.results or (HERE / "results" / ".quick" if options.size == "quick" else HERE / "results")
    store = Store(folder / ".cells" / f"{experiment.name}.jsonl", experiment)
    if options.fresh:
        store.forget()
    try:
        cells = experiment.cells(options.size)
    except FileNotFoundError as error:
        print(f"{experiment.name}: {error} (or try --quick)", file=sys.stderr)
        return 2
    jobs = options.jobs or (1 if experiment.timed or options.size == "quick" else os.cpu_count() or 1)
    errors = run_cells(experiment, cells, store, jobs, time.perf_counter() + options.budget)
    results = store.results(cells)
    page = Page(folder, experiment.name)
    page.begin(experiment.title, options.size, store.date(cells))
    if results.pairs:
        experiment.write(page, results)
    page.end(len(cells) - len(results.pairs), errors)
    print(page.file)
    return 1 if errors else 0
