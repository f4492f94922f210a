"""Memory that cannot be had: every request of the core that fails is a MemoryError, and everything works after it.

    python benchmarks/allocations.py [--most 100] [--only "kernel pairs" ...]

A library that is loaded before all others (failing_new.cpp, compiled by c++; Linux) lets the n-th request of C++ code
for 256 bytes or more fail: of each operation all of them, or ``--most`` that lie evenly. (Smaller ones are mostly not
the core's own.) After some of the faults the operation is done again, and must give the same bits. Everything but a
MemoryError, or the same bits all the same, is wrong, and so is an operation without any request; the command ends with
code 1.
"""

from __future__ import annotations

import argparse
import ctypes
import io
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin import KernelSVM, LinearSVM, read_svmlight, write_svmlight

LEAST_BYTES = 256
AGAIN = 10  # faults after which the operation is done again
HERE = Path(__file__).parent

Y = np.arange(200) % 6
_RNG = np.random.default_rng(0)
X = _RNG.normal(size=(6, 30))[Y] + _RNG.normal(size=(200, 30))
S = sp.csr_array(X * (_RNG.random(X.shape) < 0.4))


def linear(*given: Any, on: Any = X, **parameters: Any) -> Callable[[], np.ndarray]:
    """Weights of a machine that is trained."""

    def weights() -> np.ndarray:
        found = LinearSVM(*given, random_state=0, **parameters).fit(on, Y).coef_
        return found.toarray() if sp.issparse(found) else found

    return weights


def kernel(*given: Any, on: Any = X, **parameters: Any) -> Callable[[], np.ndarray]:
    """Duals of a machine that is trained."""
    return lambda: KernelSVM(*given, random_state=0, **parameters).fit(on, Y).dual_coef_.toarray()


def svmlight(n_jobs: int) -> Callable[[], np.ndarray]:
    """Text that is written, and read again."""

    def there_and_back() -> np.ndarray:
        with tempfile.TemporaryDirectory() as folder:
            write_svmlight(Path(folder) / "data", S, Y)
            text = (Path(folder) / "data").read_bytes()
        return read_svmlight(io.BytesIO(text), n_jobs=n_jobs)[0].toarray()

    return there_and_back


def operations() -> dict[str, Callable[[], np.ndarray]]:
    """By name."""
    squared = ("one_vs_rest", "squared_hinge")
    return {
        "sdm": linear(solver="sdm"),
        "accelerated_sdm sparse": linear("weston_watkins", solver="accelerated_sdm", on=S),
        "one_vs_rest, 2 threads": linear("one_vs_rest", solver="sdm", n_jobs=2),
        "2 threads": linear(n_jobs=2),
        "one_vs_one": linear("one_vs_one", solver="sdm"),
        "sparse weights": linear(memory_mb=0.001, on=S),
        "newton": linear(*squared, solver="newton"),
        "tron": linear(*squared, solver="tron"),
        "primal_cd": linear(*squared, solver="primal_cd", on=S),
        "pegasos": linear("one_vs_rest", solver="pegasos", max_iter=20),
        "exponentiated_gradient": linear(solver="exponentiated_gradient", max_iter=20),
        "cutting_plane": linear(solver="cutting_plane", max_iter=20),
        "partial_fit": lambda: LinearSVM(random_state=0).partial_fit(X, Y, classes=np.arange(6)).coef_,
        "kernel": kernel(),
        "kernel sparse": kernel("weston_watkins", "poly", on=S),
        "kernel one_vs_rest": kernel("one_vs_rest"),
        "kernel one_vs_one": kernel("one_vs_one"),
        "kernel one_vs_one, 2 threads": kernel("one_vs_one", n_jobs=2),
        "kernel callable": kernel(kernel=lambda a, b: a @ b.T),
        "decomposition": kernel(solver="decomposition"),
        "decomposition, box": kernel("weston_watkins", solver="decomposition"),
        "svmlight": svmlight(1),
        "svmlight, 2 threads": svmlight(2),
    }


def endings(run: Callable[[], np.ndarray], most: int) -> tuple[int, Counter[str]]:
    """How many requests there are, and how often the operation ended how, when one of them failed."""
    library = ctypes.CDLL(os.environ["LD_PRELOAD"])
    library.fail_at.argtypes = [ctypes.c_long, ctypes.c_size_t]
    library.fail_no_more.restype = ctypes.c_long
    wanted = run()
    library.fail_at(2**40, LEAST_BYTES)
    run()
    requests = library.fail_no_more()
    found: Counter[str] = Counter()
    places = np.unique(np.linspace(0, requests - 1, min(requests, most)).astype(int)).tolist() if requests else []
    for place in places:
        print(f"request {place}", file=sys.stderr, flush=True)  # the last one, if the program ends here
        library.fail_at(place, LEAST_BYTES)
        try:
            ending = "worked" if np.array_equal(run(), wanted) else "wrong: other bits"
        except MemoryError:
            ending = "MemoryError"
        except BaseException as error:
            ending = f"wrong: {error!r}"[:200]
        library.fail_no_more()
        found[ending] += 1
        if places.index(place) % AGAIN == 0 and not np.array_equal(run(), wanted):
            found["wrong: other bits after it"] += 1
    return requests, found


def main() -> int:
    """All operations, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--most", type=int, default=100, help="requests of each operation that fail (default: 100)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some of the operations")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.inside:
        requests, found = endings(operations()[args.inside], args.most)
        wrong = {ending: count for ending, count in found.items() if ending.startswith("wrong")}
        failed = found["MemoryError"] + found["worked"] + sum(wrong.values())
        print(requests, failed, found["MemoryError"], sum(wrong.values()), *wrong)
        return 0
    total = bad = 0
    with tempfile.TemporaryDirectory() as folder:
        library = str(Path(folder) / "failing_new.so")
        words = [os.environ.get("CXX", "c++"), "-std=c++17", "-O1", "-fPIC", "-shared", "-o", library]
        subprocess.run([*words, str(HERE / "failing_new.cpp")], check=True)
        print(f"{'operation':30} {'requests':>9} {'failed':>7} {'MemoryError':>12} {'wrong':>6}")
        for name in args.only or operations():
            command = [sys.executable, __file__, f"--inside={name}", f"--most={args.most}"]
            done = subprocess.run(
                command, env=os.environ | {"LD_PRELOAD": library}, capture_output=True, text=True, timeout=3600
            )
            if done.returncode:
                print(f"{name:30} ended with code {done.returncode}: {done.stderr[-300:]}", flush=True)
                bad += 1
                continue
            requests, failed, errors, wrong, *what = done.stdout.split(maxsplit=4)
            print(f"{name:30} {requests:>9} {failed:>7} {errors:>12} {wrong:>6} {' '.join(what).strip()}", flush=True)
            total, bad = total + int(failed), bad + int(wrong) + (requests == "0")
    print(f"{total} failing requests, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
