"""Our training time against the peers', side by side, to the same objective. See README.md in this folder."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from datasets import NAMES, Data, load, names
from peers import (
    FAMILIES,
    PEERS,
    UNLIMITED,
    Peer,
    Problem,
    Worker,
    best_of,
    memory_of_ours,
    run_ours,
    run_peer,
    seconds_of_product,
)
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.svm import LinearSVC

from multimargin import LinearSVM

TARGET = 1e-3  # a run counts when its primal is at most (1 + TARGET) P*
OUR_TOL = 1e-3
TIGHT_TOL = 1e-5  # of the run that finds P*
LOSSES = {"crammer_singer": ["hinge"], "weston_watkins": ["hinge"], "one_vs_rest": ["hinge", "squared_hinge"]}


# Reports


def machine() -> str:
    """CPU model and number of cores."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    return f"{model}, {os.cpu_count()} cores"


def versions() -> str:
    """Of everything that takes part."""
    packages = ("multimargin", "numpy", "scipy", "scikit-learn", "liblinear-official", "sklearn-contrib-lightning")
    named = [f"Python {platform.python_version()}"]
    for package in packages:
        try:
            named.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            named.append(f"{package} not installed")
    return ", ".join(named)


# Columns wider than their header
WIDTHS = {"set": 13, "formulation": 14, "loss": 13, "P*": 12, "solver": 15, "peer": 14, "setting": 9, "statement": 35}


class Report:
    """Markdown on stdout, and appended to a file when there is one; line by line, so that nothing is lost."""

    def __init__(self, file: Path | None):
        self.file = file
        self.widths: list[int] = []

    def line(self, text: str = "") -> None:
        print(text, flush=True)
        if self.file:
            with self.file.open("a") as out:
                out.write(text + "\n")

    def heading(self, title: str) -> None:
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        self.line(f"\n## {title}\n")
        self.line(f"{machine()}; {datetime.date.today()}; {versions()}; `{command}`\n")

    def table(self, *headers: str) -> None:
        self.widths = [WIDTHS.get(header, max(len(header), 7)) for header in headers]
        self.row(*headers)
        self.line("|" + "|".join("-" * (width + 2) for width in self.widths) + "|")

    def row(self, *cells: Any) -> None:
        padded = (f"{shown(cell):<{width}}" for cell, width in zip(cells, self.widths, strict=True))
        self.line("| " + " | ".join(padded) + " |")


def shown(cell: Any) -> str:
    """Numbers to three digits."""
    if isinstance(cell, float):
        return f"{cell:.0f}" if 1000 <= abs(cell) < 1e7 else f"{cell:.3g}"
    return str(cell)


def percent(primal: float, best: float) -> str:
    return f"{100 * (primal / best - 1):.2g} % above P*"


def progress(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


# P* and the peers' best settings, which are found once


class Cache:
    """A JSON file: for each problem the best primal and dual values known, and what each peer's settings gave."""

    def __init__(self, file: Path):
        self.file = file
        self.content: dict[str, Any] = {"machine": machine(), "problems": {}}
        if file.exists():
            stored = json.loads(file.read_text())
            if stored["machine"] == machine():
                self.content = stored
            else:
                progress(f"{file} is of another machine ({stored['machine']}): starting anew")

    def entry(self, key: str) -> dict[str, Any]:
        return self.content["problems"].setdefault(key, {"peers": {}})

    def save(self) -> None:
        unfinished = self.file.with_suffix(".part")
        unfinished.write_text(json.dumps(self.content, indent=1))
        unfinished.replace(self.file)


def find_optimum(worker: Worker, problem: Problem, entry: dict, limit: float) -> None:
    """A tight run of ours: ``entry`` gets an upper and a lower bound of the optimum."""
    if entry.get("converged") or entry.get("limit", 0) >= limit:
        return
    run = worker.call(run_ours, problem, tol=TIGHT_TOL, max_iter=UNLIMITED, time_limit=limit)
    progress(f"P* = {run['primal']:.8g}, gap {run['gap']:.1e}, {run['epochs']} epochs, {run['seconds']:.2f} s")
    entry["primal"] = min(run["primal"], entry.get("primal", np.inf))
    entry["dual"] = max(run["dual"], entry.get("dual", -np.inf))
    entry["converged"], entry["limit"] = run["converged"], limit


def reached(record: dict, entry: dict) -> bool:
    return record.get("primal", np.inf) <= (1 + TARGET) * entry["primal"]


def best_setting(worker: Worker, peer: Peer, problem: Problem, entry: dict, cache: Cache, limit: float) -> float:
    """The loosest setting that reaches the target; else the first that takes too long; else the one that came nearest.

    Every record, {seconds, primal, exhausted} or {at_least: seconds}, stays in the cache.
    """
    records = entry["peers"].setdefault(f"{peer.name} {peer.version}", {})

    def record_of(setting: float) -> dict:
        record = records.get(str(setting))
        if record is None or record.get("at_least", np.inf) < limit:
            try:
                record = worker.call(run_peer, peer.name, problem, setting, limit=limit)
                entry["primal"] = min(entry["primal"], record["primal"])
                result = f"{percent(record['primal'], entry['primal'])}, {record['seconds']:.2f} s"
            except TimeoutError:
                record = {"at_least": limit}
                result = f"more than {limit:g} s"
            records[str(setting)] = record
            cache.save()
            progress(f"{peer.name} {peer.setting} {setting:g}: {result}")
        return record

    missed: dict[float, dict] = {}
    for setting in peer.ladder:
        record = record_of(setting)
        if reached(record, entry):
            finer = peer.between(list(missed)[-1], setting) if missed else []
            return next((s for s in finer if reached(record_of(s), entry)), setting)
        if "at_least" in record:
            return setting
        before = list(missed.values())[-1] if missed else None
        missed[setting] = record
        if before and before["exhausted"] and np.isclose(record["primal"], before["primal"], rtol=1e-4, atol=0):
            break  # at its own iteration limit, where a tighter tolerance changes nothing
    return min(missed, key=lambda setting: missed[setting]["primal"])


# The comparison


def compare(options: argparse.Namespace, report: Report) -> None:
    """All sets, formulations and C."""
    if unknown := set(options.sets) - set(names()):
        raise SystemExit(f"no data sets {', '.join(sorted(unknown))}; the folder has {', '.join(names())}")
    cache = Cache(options.cache)
    report.heading("Training to within 0.1 % of the optimum")
    report.table(
        *("set", "formulation", "loss", "C", "P*", "P* gap", "ours s", "epochs", "gap", "solver", "X@W", "MB"),
        *("peer", "setting", "peer s", "ratio", "notes"),
    )
    for name in options.sets:
        with Worker(load, name, options.dtype, threads=options.threads) as worker:
            product = worker.call(seconds_of_product)
            for problem in problems(options):
                key = f"{name} {options.dtype} | {problem.formulation} {problem.loss} C={problem.C:g}"
                progress(key)
                try:
                    rows = compare_one(worker, problem, cache.entry(key), cache, options, product)
                except RuntimeError as error:  # one failure should not cost the rest of a long run
                    progress(str(error))
                    rows = [[""] * 12 + [f"FAILED: {str(error).splitlines()[-1]}"]]
                for cells in rows:
                    report.row(name, *problem, *cells)


def problems(options: argparse.Namespace) -> list[Problem]:
    return [
        Problem(formulation, loss, C)
        for formulation in options.formulations
        for loss in options.losses or LOSSES[formulation]
        for C in options.C
    ]


def compare_one(worker: Worker, problem: Problem, entry: dict, cache: Cache, options, product: float) -> list[list]:
    """The cells of one problem: a row a peer."""
    find_optimum(worker, problem, entry, options.limit)
    cache.save()
    rivals = [peer for peer in PEERS.values() if peer.family in options.peers and peer.solves(problem)]
    present = [peer for peer in rivals if peer.version]
    best = None
    while best != entry["primal"]:  # a peer may have lowered P*, and so the target of the others
        best = entry["primal"]
        chosen = {p: best_setting(worker, p, problem, entry, cache, options.limit) for p in present}
    records = {p: entry["peers"][f"{p.name} {p.version}"][str(setting)] for p, setting in chosen.items()}
    timed = [] if options.peers_from_cache else [p for p in present if reached(records[p], entry)]

    ours, seconds = [], {peer: [] for peer in timed}
    for _ in range(options.repeats):
        ours.append(worker.call(run_ours, problem, options.threads, tol=OUR_TOL, time_limit=options.limit))
        for peer in timed:
            try:
                run = worker.call(run_peer, peer.name, problem, chosen[peer], limit=options.limit)
                seconds[peer].append(run["seconds"])
            except TimeoutError:
                progress(f"{peer.name}: more than {options.limit:g} s this time")
    for peer in timed:
        if seconds[peer]:
            records[peer]["timed"] = min(seconds[peer])
    cache.save()
    with Worker(*worker.source, threads=options.threads) as fresh:
        memory = fresh.call(memory_of_ours, problem, options.threads, tol=OUR_TOL, time_limit=options.limit)

    run = min(ours, key=lambda run: run["seconds"])
    entry["primal"] = min(entry["primal"], run["primal"])
    gap_of_best = max(0.0, entry["primal"] - entry["dual"]) / entry["primal"]
    common = [f"{entry['primal']:.8g}", f"{gap_of_best:.1e}", run["seconds"], run["epochs"], f"{run['gap']:.1e}"]
    common += [run["solver"], run["seconds"] / product, memory]
    flags = flaws(run, entry)
    rows = []
    for peer in rivals:
        if peer not in present:
            rows.append([*common, peer.name, "", "", "", "; ".join([*flags, "not installed"])])
            continue
        cells, notes = peer_cells(peer, chosen[peer], records[peer], entry, run["seconds"])
        if peer not in timed and reached(records[peer], entry):
            notes = [*notes, "peer from cache"]
        rows.append([*common, peer.name, *cells, "; ".join(flags + notes)])
    return rows or [[*common, "", "", "", "", "; ".join(flags)]]


def peer_cells(peer: Peer, setting: float, record: dict, entry: dict, ours: float) -> tuple[list, list[str]]:
    """Setting, seconds, ratio; and notes."""
    name = f"{peer.setting} {setting:g}"
    if "at_least" in record:
        return [name, f">= {record['at_least']:g}", f">= {shown(record['at_least'] / ours)}"], []
    if not reached(record, entry):
        return [name, record["seconds"], ""], [f"peer ends {percent(record['primal'], entry['primal'])}"]
    seconds = record.get("timed", record["seconds"])
    return [name, seconds, seconds / ours], []


def flaws(run: dict, entry: dict) -> list[str]:
    """What is wrong with a run of ours; nothing, one hopes."""
    found = []
    if not run["converged"]:
        found.append("OURS DID NOT CONVERGE")
    if max(run["gap"], run["worst_gap"]) > OUR_TOL:
        found.append(f"OUR GAP IS ABOVE {OUR_TOL:g}")
    if not reached(run, entry):
        found.append(f"OURS IS {percent(run['primal'], entry['primal']).upper()}")
    if not np.isclose(run["primal"], run["claimed_primal"], rtol=1e-6):
        found.append(f"OURS CLAIMS PRIMAL {run['claimed_primal']:.8g}, IT IS {run['primal']:.8g}")
    if entry["primal"] < entry["dual"] * (1 - 1e-9) or run["dual"] > entry["primal"] * (1 + 1e-9):
        found.append("A DUAL VALUE OF OURS IS ABOVE P*")
    return found


# Smaller questions


def predict(options: argparse.Namespace, report: Report) -> None:
    """decision_function against LinearSVC's on the test rows of news20."""
    report.heading("decision_function on the test rows of news20")
    report.table("ours s", "LinearSVC s", "ratio", "same labels")
    with Worker(load, "news20", options.dtype, threads=options.threads) as worker:
        ours, theirs, agree = worker.call(time_prediction, options.threads, 10 * options.repeats)
    report.row(ours, theirs, theirs / ours, f"{agree:.2%}")


def time_prediction(data: Data, threads: int, repeats: int) -> tuple[float, float, float]:
    """Best seconds of ours and of LinearSVC, and the share of rows on which they agree; for a worker."""
    ours = LinearSVM(fit_intercept=False, n_jobs=threads).fit(data.X, data.y)
    theirs = LinearSVC(multi_class="crammer_singer", fit_intercept=False, tol=0.05, random_state=0)
    theirs.fit(data.X, data.y)
    best = {ours: np.inf, theirs: np.inf}
    for _ in range(repeats):
        for model in best:
            best[model] = min(best[model], best_of(1, lambda model=model: model.decision_function(data.X_test)))
    return best[ours], best[theirs], float(np.mean(ours.predict(data.X_test) == theirs.predict(data.X_test)))


def threads(options: argparse.Namespace, report: Report) -> None:
    """Two threads against one."""
    report.heading("Two threads against one")
    report.table("set", "formulation", "1 thread s", "2 threads s", "ratio", "repeats exactly", "equals 1 thread")
    for name in options.sets or ("news20", "mnist"):
        with Worker(load, name, options.dtype) as alone, Worker(load, name, options.dtype, threads=2) as pair:
            for formulation in ("one_vs_rest", "crammer_singer"):
                problem = Problem(formulation, "hinge", 1.0)
                one, two = [], []
                for _ in range(max(2, options.repeats)):
                    one.append(alone.call(run_ours, problem, 1, tol=OUR_TOL))
                    two.append(pair.call(run_ours, problem, 2, tol=OUR_TOL))
                best_one, best_two = (min(run["seconds"] for run in runs) for runs in (one, two))
                prints = [{run["fingerprint"] for run in runs} for runs in (one, two)]
                repeats = "yes" if all(len(p) == 1 for p in prints) else "NO"
                equal = "yes" if prints[0] == prints[1] else "no"
                report.row(name, formulation, best_one, best_two, best_one / best_two, repeats, equal)


def small(options: argparse.Namespace, report: Report) -> None:
    """The bundled sets, as they are, with default parameters."""
    report.heading("Small sets, unscaled, default parameters")
    report.table("set", "seconds", "epochs", "gap", "solver", "converged", "warnings")
    for make in (load_iris, load_wine, load_digits, load_breast_cancer):
        X, y = make(return_X_y=True)
        seconds = []
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            for _ in range(options.repeats):
                start = time.perf_counter()
                model = LinearSVM().fit(X, y)
                seconds.append(time.perf_counter() - start)
        solver = model.history_["solver"][-1]
        name, gap = make.__name__.removeprefix("load_"), f"{model.dual_gap_:.1e}"
        kinds = ", ".join(sorted({warning.category.__name__ for warning in raised})) or "none"
        report.row(name, min(seconds), model.n_iter_, gap, solver, "yes" if model.converged_ else "NO", kinds)


def imports(options: argparse.Namespace, report: Report) -> None:
    """What an import costs, in fresh processes."""
    report.heading("Imports, best of 10")
    report.table("statement", "after", "seconds")
    for statement, after in (
        ("import multimargin", ""),
        ("import sklearn.base", ""),
        ("from multimargin import LinearSVM", "import sklearn.base"),
        ("from multimargin import LinearSVM", ""),
    ):
        code = f"{after}\nimport time\nstart = time.perf_counter()\n{statement}\nprint(time.perf_counter() - start)"
        command = [sys.executable, "-P", "-c", code]
        runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(10)]
        report.row(f"`{statement}`", f"`{after}`" if after else "", min(float(run.stdout) for run in runs))


# The command line


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", metavar="SET", help=f"default: {' '.join(NAMES)}")
    parser.add_argument("--formulations", nargs="+", choices=list(LOSSES), default=["crammer_singer", "one_vs_rest"])
    parser.add_argument("--losses", nargs="+", choices=["hinge", "squared_hinge"], help="default: those with a peer")
    parser.add_argument("--C", nargs="+", type=float, metavar="C", help="default: 0.1 1 10")
    parser.add_argument("--peers", nargs="+", choices=FAMILIES, default=["liblinear"])
    parser.add_argument("--repeats", type=int, help="timed runs of each, of which the best counts; default: 3")
    parser.add_argument("--limit", type=float, help="seconds after which a run is given up; default: 300")
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64", help="of the data")
    parser.add_argument("--quick", action="store_true", help="two small sets, C=1, one timed run, limit of 30 s")
    parser.add_argument("--cache", type=Path, default=Path(__file__).parent / ".cache.json", metavar="FILE")
    parser.add_argument("--peers-from-cache", action="store_true", help="do not time known settings of peers again")
    parser.add_argument("--output", type=Path, metavar="FILE.md", help="append the tables to this file")
    modes = parser.add_argument_group("instead of the comparison")
    modes.add_argument("--predict", action="store_true", help="decision_function against LinearSVC's")
    modes.add_argument("--small", action="store_true", help="small sets with default parameters")
    modes.add_argument("--imports", action="store_true", help="what an import costs")
    modes.add_argument(
        "--threads",
        nargs="?",
        type=int,
        default=1,
        const=0,
        metavar="N",
        help="without N: two threads against one; with N: threads of ours (and of BLAS) in the comparison",
    )
    options = parser.parse_args(arguments)
    quick = {"sets": ["banking77", "dna"], "C": [1.0], "repeats": 1, "limit": 30.0}
    usual = {"sets": None, "C": [0.1, 1.0, 10.0], "repeats": 3, "limit": 300.0}
    for name, value in (quick if options.quick else usual).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def main() -> None:
    options = parsed()
    report = Report(options.output)
    modes = [predict] * options.predict + [small] * options.small + [imports] * options.imports
    if options.threads == 0:
        modes.append(threads)
        options.threads = 1
    elif not modes:
        options.sets = options.sets or NAMES
        modes = [compare]
    for mode in modes:
        mode(options, report)


if __name__ == "__main__":
    main()
