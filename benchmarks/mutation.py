"""Mutation testing: do the tests see small mistakes in the Python layers and in the steps of the core?

    pip install coverage
    python benchmarks/mutation.py lines                          # once: which lines each test runs
    python benchmarks/mutation.py python --count 300 --seed 1    # a random sample of the mutants of the Python layers
    python benchmarks/mutation.py again --seed 1 --budget 60     # what survived, with all tests of their lines
    python benchmarks/mutation.py steps --count 100 --seed 1     # and of the steps; needs a compiler, cmake and ninja
    python benchmarks/mutation.py report --seed 1                # a table, and what survived

Each mutant of a sample (mutants.py says which there are, and which are left out by rule) is put into a copy of the
installed package, and the tests that run its line are run until one fails, those of its own layer and the quick ones
first, up to a budget; then, if none failed, those whose lines are not known. So a mutant that survived might still be
killed by a test that was not asked, and never the other way round. A failed test, a crash, and too much processor time
(four times what the tests take, and 10 s) count as killed. Mutants that were read and found to change nothing that
anybody can see are listed with their reasons in mutation_equivalent.txt; they count neither way.

Everything is kept in --work, and every command goes on where it was ended. Half of `multimargin.dask` runs on workers,
processes in which no line is seen: its mutants ask all tests of clusters.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import re
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

from mutants import Mutant, all_python_mutants, is_python

ROOT = Path(__file__).resolve().parents[1]
EQUIVALENT = Path(__file__).with_name("mutation_equivalent.txt")
LAYERS = (
    "data", "problems", "reductions", "linear", "kernel", "estimators", "models", "displays", "report", "commands",
    "distributed", "dask",
)  # fmt: skip
# Tests that see no line of the package, or see all of it, slowly.
NOT_ASKED = ("tests/core/", "tests/spark/", "tests/benchmarks/", "tests/report/test_browser.py")
MOST_TESTS, MOST_FILES = 250, 4  # of a mutant: to collect tests takes time, too


class Covering:
    """Which tests run a line, from the files that `lines` wrote."""

    def __init__(self, folder: Path):
        self.seconds: dict[str, float] = {}
        self.unasked: dict[str, list[str]] = {}
        self.lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        self.files_of: dict[str, set[str]] = defaultdict(set)
        for file in sorted(folder.glob("*.json")):
            found = json.loads(file.read_text())
            tests = list(found["seconds"])
            if not tests:
                continue
            unasked = set(found["unasked"])
            name = tests[0].split("::")[0]
            self.unasked[name] = [test for test in tests if test in unasked]
            self.seconds |= {test: seconds for test, seconds in found["seconds"].items() if test not in unasked}
            for path, lines in found["lines"].items():
                self.files_of[path].add(name)
                for line, numbers in lines.items():
                    runs = range(len(tests)) if numbers == [-1] else numbers
                    self.lines[path][int(line)] |= {tests[i] for i in runs} - unasked

    def tests(self, mutant: Mutant, budget: float, all_files: bool) -> list[str]:
        """Tests that run the mutant's line, the likely and quick ones first."""
        of_file = self.lines[mutant.path]
        # A line inside a statement may have no instruction of its own: then those of the line above count.
        line = next((n for n in range(mutant.line, max(0, mutant.line - 15), -1) if of_file.get(n)), 0)
        layer = f"tests/{mutant.path.split('/')[0]}/"
        stem = Path(mutant.path).stem
        on_workers = (
            {test for test in self.seconds if test.startswith("tests/dask/")} if layer == "tests/dask/" else set()
        )
        chosen: list[str] = []
        files: set[str] = set()
        total = 0.0
        order = sorted(
            of_file.get(line, set()) | on_workers,
            key=lambda t: (not t.startswith(layer), stem not in t.split("::")[0], self.seconds[t]),
        )
        # Quick ones of all kinds before the slow ones of its own layer.
        for test in sorted(order, key=lambda t: self.seconds[t] > 1):
            if chosen and (total + self.seconds[test] > budget or (len(chosen) == MOST_TESTS and not all_files)):
                break
            files.add(test.split("::")[0])
            if len(files) > MOST_FILES and not all_files:
                files.remove(test.split("::")[0])
                continue
            chosen.append(test)
            total += self.seconds[test]
        return chosen

    def more_tests(self, mutant: Mutant) -> list[str]:
        """Tests of which nothing is known, from files of the mutant's layer with its module's name that run it."""
        layer, stem = f"tests/{mutant.path.split('/')[0]}/", Path(mutant.path).stem
        return [
            test
            for file, tests in self.unasked.items()
            if file.startswith(layer) and stem in file and file in self.files_of[mutant.path]
            for test in tests
        ]


def in_two(tests: list[str]) -> list[list[str]]:
    """Some of two files first, which are quickly collected and mostly enough; then the others."""
    files = list(dict.fromkeys(test.split("::")[0] for test in tests))[:2]
    first = [test for test in tests if test.split("::")[0] in files][:20]
    return [part for part in (first, [test for test in tests if test not in set(first)]) if part]


def equivalents() -> set[str]:
    """Names of mutants that change nothing, one a line; lines with # are the reasons."""
    lines = EQUIVALENT.read_text().splitlines() if EQUIVALENT.exists() else []
    return {line.strip() for line in lines if line.strip() and not line.startswith("#")}


def draw(mutants: list[Mutant], count: int, seed: int, valid: Callable[[Mutant], bool]) -> list[Mutant]:
    """A random sample of those that are valid."""
    shuffled = random.Random(seed).sample(mutants, len(mutants))
    return list(islice(filter(valid, shuffled), count))


class Results:
    """What became of the mutants: a line of JSON each, appended when it is known."""

    def __init__(self, path: Path):
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.found = [json.loads(line) for line in lines]

    def add(self, **result: Any) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(result) + "\n")
        self.found.append(result)


def make_copy(work: Path, name: str) -> Path:
    """A copy of the installed package, which is made anew: (its folder)/multimargin."""
    spec = importlib.util.find_spec("multimargin")
    if spec is None or spec.origin is None:
        sys.exit("multimargin is not installed")
    folder = work / name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(Path(spec.origin).parent, folder / "multimargin", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def lines(args: argparse.Namespace) -> None:
    from mutation_runs import Lines, in_child, prepare, run_tests

    copy = make_copy(args.work, "lines-copy")
    prepare(copy, ROOT)
    files = [str(file.relative_to(ROOT)) for file in sorted(ROOT.glob("tests/**/test_*.py"))]
    for file in args.only or [file for file in files if not file.startswith(NOT_ASKED)]:
        out = args.work / "lines" / (file.replace("/", "__") + ".json")
        if out.exists() and not args.only:
            continue
        plugin = [copy / "multimargin", out, args.budget]
        outcome = in_child(lambda: run_tests([file], Lines(*plugin)), 20 * args.budget, args.work / "lines.log")  # noqa: B023
        if outcome != "0":
            print((args.work / "lines.log").read_text()[-2000:])
            out.unlink(missing_ok=True)
        print(file, "passed" if outcome == "0" else f"ended with {outcome}: not asked", flush=True)


def python(args: argparse.Namespace) -> None:
    """A sample; or, ``again``, those that survived before."""
    from mutation_runs import in_child, prepare, run_tests

    again = args.command == "again"

    copy = make_copy(args.work, "python-copy")
    package = copy / "multimargin"
    covering = Covering(args.work / "lines")
    mutants = [m for m in all_python_mutants(package, args.layers) if not args.files or m.path in args.files]
    results = Results(args.work / "python.jsonl")
    skipped = equivalents()
    killed_before = {r["name"]: r["killed"] for r in results.found if r["seed"] == args.seed}  # the last word
    if again:
        sample = [m for m in mutants if not killed_before.get(m.name, True) and m.name not in skipped]
        print(f"{len(sample)} that survived", flush=True)
    else:
        valid = lambda m: is_python(m.apply((package / m.path).read_bytes()))  # noqa: E731
        sample = [m for m in draw(mutants, args.count, args.seed, valid) if m.name not in killed_before]
        print(f"{len(mutants)} mutants, a sample of {args.count}, {len(sample)} of it left", flush=True)
    prepare(copy, ROOT)
    for number, mutant in enumerate(sample, 1):
        if mutant.name in skipped:
            results.add(
                name=mutant.name, layer=mutant.path.split("/")[0], seed=args.seed, line=mutant.line, killed=False
            )
            continue
        file = package / mutant.path
        source, as_it_was = file.read_bytes(), file.stat().st_mtime
        tests = covering.tests(mutant, args.budget, all_files=again or args.all_tests)
        seconds = 10 + 4 * sum(covering.seconds[test] for test in tests)
        began = time.process_time()
        try:
            file.write_bytes(mutant.apply(source))
            os.utime(file, (number, number))  # a time of its own: compiled files are known by it
            log = args.work / "python.log"
            outcome = "5"
            for part in in_two(tests):
                outcome = in_child(lambda: run_tests(["-x", *part]), seconds, log)  # noqa: B023
                if outcome != "0":
                    break
            more = covering.more_tests(mutant) if outcome in ("0", "5") and args.more else []
            if more:
                outcome = in_child(lambda: run_tests(["-x", *more]), args.more, log)  # noqa: B023
                outcome = "0" if outcome == "time" else outcome  # slow, or a hang: not a proof
        finally:
            file.write_bytes(source)
            os.utime(file, (as_it_was, as_it_was))
        killed = outcome not in ("0", "5")
        failed = (
            re.search(r"^(?:FAILED|ERROR) (\S+)", log.read_text(errors="replace"), re.MULTILINE) if killed else None
        )
        results.add(
            name=mutant.name, layer=mutant.path.split("/")[0], seed=args.seed, line=mutant.line,
            operator=mutant.operator, killed=killed, outcome=outcome, tests=len(tests), more=len(more),
            by=failed[1] if failed else "", seconds=round(time.process_time() - began, 2),
        )  # fmt: skip
        print(
            "killed  " if killed else "SURVIVED",
            f"{outcome:4s} {len(tests):3d} tests",
            f"{mutant.line}:",
            mutant.name,
            flush=True,
        )


def steps(args: argparse.Namespace) -> None:
    from mutation_steps import run_steps

    run_steps(args, Results(args.work / "steps.jsonl"), equivalents())


def report(args: argparse.Namespace) -> None:
    skipped = equivalents()
    found = [
        r for name in ("python", "steps") for r in Results(args.work / f"{name}.jsonl").found if r["seed"] == args.seed
    ]
    last = {(r["layer"], r["name"]): r for r in found}.values()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for r in last:
        kind = "killed" if r["killed"] else "equivalent" if r["name"] in skipped else "survived"
        whole = "steps" if r["layer"].endswith(".hpp") else "python"
        for layer in (r["layer"], "all " + whole):
            counts[layer][kind] += 1
            counts[layer]["mutants"] += 1
    print("| layer | mutants | killed | equivalent | survived | killed of those that can be |")
    print("|---|---|---|---|---|---|")
    for layer, n in counts.items():
        share = n["killed"] / max(1, n["killed"] + n["survived"])
        print(
            f"| {layer} | {n['mutants']} | {n['killed']} | {n['equivalent']} | {n['survived']} | {100 * share:.1f} % |"
        )
    for r in last:
        if not r["killed"] and r["name"] not in skipped:
            print(f"{r['line']}: {r['name']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("lines", "python", "again", "steps", "report"))
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "mutation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument(
        "--budget", type=float, default=15, help="seconds of the tests of a file (lines) or of a mutant"
    )
    parser.add_argument("--all-tests", action="store_true", help="python: from the start those of all files, as again")
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=LAYERS)
    parser.add_argument(
        "--files", nargs="+", metavar="PATH", help="python: mutants of these alone, such as data/npz.py"
    )
    parser.add_argument(
        "--more",
        type=float,
        default=30,
        help="seconds for tests whose lines are not known; 0: nor the last of the steps",
    )
    parser.add_argument("--only", nargs="*", help="lines: these files, again")
    args = parser.parse_args()
    args.work = args.work.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    {"lines": lines, "python": python, "again": python, "steps": steps, "report": report}[args.command](args)


if __name__ == "__main__":
    sys.path.insert(0, os.fspath(Path(__file__).parent))
    main()
