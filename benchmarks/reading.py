"""Reading svmlight text, against scikit-learn's load_svmlight_file, and writing it. See README.md in this folder."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from datasets import load
from report import Report, progress
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from multimargin.data.svmlight import read_svmlight
from multimargin.data.svmlight_writing import write_svmlight

BARS = {1: 5, 2: 8}  # wanted ratio, by the number of threads


def measure(name: str, dtype: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Best times of everybody, who take turns, and what they disagree about."""
    data, path = load(name, dtype), folder / f"{name}.txt"
    runs: dict[str, Callable[[], Any]] = {"write": lambda: write_svmlight(path, data.X, data.y)}
    runs |= {str(n): lambda n=n: read_svmlight(path, dtype=dtype, n_jobs=n) for n in options.threads}
    runs["peer"] = lambda: load_svmlight_file(path, dtype=dtype)
    times: dict[str, list[float]] = {who: [] for who in runs}
    results: dict[str, Any] = {}
    for repeat in range(options.repeats):
        for who, run in runs.items():
            progress(f"{name} {dtype}: {who}, {repeat + 1}")
            results[who] = None
            begin = time.perf_counter()
            results[who] = run()
            times[who].append(time.perf_counter() - begin)
    if options.write:
        begin = time.perf_counter()
        dump_svmlight_file(data.X, data.y, str(folder / "peer"), zero_based=False)
        times["peer writes"] = [time.perf_counter() - begin]
    same = all(equal(results[str(n)], results["peer"]) for n in options.threads)
    return {
        "MB": path.stat().st_size / 1e6,
        "entries": results["peer"][0].nnz,
        "best": {who: min(found) for who, found in times.items()},
        "same": same,
    }


def equal(one: tuple, other: tuple) -> bool:
    """Bit by bit, but for the widths of the indices."""
    (X, y), (Z, z) = one, other
    parts = ((X.data, Z.data), (X.indices, Z.indices), (X.indptr, Z.indptr), (y, z))
    return X.shape == Z.shape and X.dtype == Z.dtype and all(np.array_equal(a, b) for a, b in parts)


def read(options: argparse.Namespace, report: Report) -> None:
    report.heading("Reading svmlight text")
    load_before = os.getloadavg()[0]
    headers = ("set", "dtype", "MB", "entries", "threads", "ours s", "MB/s", "peer s", "ratio", "bar", "notes")
    report.table(*headers)
    for name in options.sets:
        for dtype in options.dtypes:
            with tempfile.TemporaryDirectory() as folder:
                found = measure(name, dtype, options, Path(folder))
            best = found["best"]
            for n in options.threads:
                ratio, bar = best["peer"] / best[str(n)], BARS.get(n, "")
                notes = ("" if found["same"] else "ARRAYS DIFFER ") + ("MISSED" if bar and ratio < bar else "")
                speed = found["MB"] / best[str(n)]
                cells = (name, dtype, found["MB"], found["entries"], n, best[str(n)], speed, best["peer"], ratio, bar)
                report.row(*cells, notes)
            if options.write:
                progress(
                    f"{name} {dtype}: written in {best['write']:.3g} s, by the peer in {best['peer writes']:.3g} s"
                )
    report.line(f"\nLoad of the machine before and after: {load_before:.1f}, {os.getloadavg()[0]:.1f}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["news20", "mnist"])
    parser.add_argument("--dtypes", nargs="+", default=["float64"], choices=["float32", "float64"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeats", type=int, default=5, help="timed runs of each, of which the best counts")
    parser.add_argument("--write", action="store_true", help="tell the times of writing, too")
    parser.add_argument("--output", type=Path, metavar="FILE.md", help="append the table to this file")
    options = parser.parse_args()
    read(options, Report(options.output))


if __name__ == "__main__":
    main()
