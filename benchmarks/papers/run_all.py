"""Runs every experiment of this folder at the default size, each within its share of the time.

    python benchmarks/papers/run_all.py                     # all of them: within 60 minutes on two cores
    python benchmarks/papers/run_all.py --quick             # a smoke run
    python benchmarks/papers/run_all.py paper_000           # those whose names begin so

Finished cells are not run again: a second call goes on where the first one stopped. Without the data sets (see
benchmarks/README.md) it is a smoke run.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import datasets

HERE = Path(__file__).resolve().parent

# Seconds after which an experiment begins no further cell; it takes three quarters of them or so.
BUDGETS: dict[str, float] = {
    "paper_000_figure_1": 320.0,
    "paper_000_figure_2": 450.0,
    "paper_000_figure_5": 200.0,
    "paper_000_table_4_2": 800.0,
    "paper_001_comparison": 340.0,
    "paper_002_table_2": 1000.0,
    "paper_002_table_3": 300.0,
    "paper_002_table_4": 500.0,
    "paper_002_table_5": 150.0,
    "paper_003_figure_5": 60.0,
    "paper_003_figure_6": 60.0,
    "paper_003_figure_7": 150.0,
    "paper_004_figure_3": 60.0,
    "paper_004_figure_4": 60.0,
    "paper_004_figure_5": 60.0,
    "paper_004_figure_6": 200.0,
}
GRACE = 240.0  # for the cell that is running then, and for the page


def scripts(prefixes: list[str]) -> list[Path]:
    """The experiments, by name."""
    found = sorted(HERE.glob("paper_*.py"))
    return [file for file in found if not prefixes or file.stem.startswith(tuple(prefixes))]


def run(script: Path, arguments: list[str], budget: float) -> str:
    """How it ended."""
    command = [sys.executable, str(script), *arguments]
    try:
        code = subprocess.run([*command, "--budget", str(budget)], timeout=budget + GRACE).returncode
    except subprocess.TimeoutExpired:
        kept = [argument for argument in command if argument != "--fresh"]
        code = subprocess.run([*kept, "--budget", "0"]).returncode
        return "stopped: a cell took too long" if code == 0 else "failed"
    return "done" if code == 0 else "failed"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("experiments", nargs="*", metavar="PREFIX", help="of the names of the scripts; all of them")
    options.add_argument("--quick", action="store_true", help="a smoke run")
    options.add_argument("--full", action="store_true", help="the papers' sizes, without budgets: days")
    options.add_argument("--fresh", action="store_true", help="forget the finished cells")
    options.add_argument("--results", metavar="FOLDER", help="where results are written (results/)")
    chosen = options.parse_args()
    chosen_scripts = scripts(chosen.experiments)
    if not chosen_scripts:
        options.error(f"no experiment begins with {' or '.join(chosen.experiments)}")
    quick = chosen.quick
    if not quick:
        try:
            datasets.folder()
        except FileNotFoundError as error:
            print(f"{error}\nA smoke run instead, on what scikit-learn brings along.", file=sys.stderr)
            quick = True
    flags = ["--quick"] if quick else ["--full"] if chosen.full else []
    flags += ["--fresh"] if chosen.fresh else []
    flags += ["--results", chosen.results] if chosen.results else []
    ends = {}
    for script in chosen_scripts:
        began = time.perf_counter()
        budget = 1e7 if chosen.full else BUDGETS.get(script.stem, 300.0)
        how = run(script, flags, budget)
        ends[script.stem] = f"{how}, {time.perf_counter() - began:.0f} s"
    width = max(map(len, ends))
    for name, end in ends.items():
        print(f"{name.ljust(width)}  {end}")
    return 1 if any(end.startswith("failed") for end in ends.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
