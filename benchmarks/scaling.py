"""How time and memory of a fit grow, on generated data. See README.md in this folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from datasets import Data
from peers import Problem, memory_of_ours, run_ours
from report import Report, progress
from worker import Worker

SIGNAL = 0.3  # share of a row's non-zeros that are features of its class; a class has twice as many as a row shows
MISLABELLED = 0.05


class Shape(NamedTuple):
    """Rows, features, non-zeros in a row, classes."""

    examples: int
    features: int
    nonzeros: int
    classes: int


BASE = Shape(examples=20_000, features=20_000, nonzeros=50, classes=20)
SWEEPS = {
    "examples": (5_000, 10_000, 20_000, 40_000, 80_000),
    "features": (5_000, 10_000, 20_000, 40_000, 80_000),
    "nonzeros": (12, 25, 50, 100, 200),
    "classes": (5, 10, 20, 50, 100, 200),
}
QUICK_BASE = Shape(examples=2_000, features=2_000, nonzeros=20, classes=10)
QUICK_SWEEPS = {"examples": (1_000, 2_000), "features": (2_000, 4_000), "nonzeros": (20, 40), "classes": (5, 10)}
MANY_CLASSES = Shape(examples=50_000, features=20_000, nonzeros=20, classes=10_000)


def generate(*sizes: int) -> Data:
    """Unit-length sparse rows that can be learnt: part of a row are features of its class, the rest is noise."""
    shape = Shape(*sizes)
    random = np.random.RandomState(0)
    y = random.permutation(np.arange(shape.examples) % shape.classes)
    n_signal = max(1, round(SIGNAL * shape.nonzeros))
    own = random.randint(shape.features, size=(shape.classes, 2 * n_signal))
    which = random.uniform(size=(shape.examples, 2 * n_signal)).argpartition(n_signal, axis=1)[:, :n_signal]
    signal = own[y[:, None], which]
    noise = random.randint(shape.features, size=(shape.examples, shape.nonzeros - n_signal))
    columns = np.hstack([signal, noise])
    rows = np.repeat(np.arange(shape.examples), shape.nonzeros)
    values = random.uniform(0.5, 1.5, columns.size)
    X = sp.csr_matrix((values, (rows, columns.ravel())), shape=(shape.examples, shape.features))
    length = np.sqrt(np.asarray(X.power(2).sum(axis=1)).ravel())
    X.data /= np.repeat(length, np.diff(X.indptr))
    wrong = random.choice(shape.examples, int(MISLABELLED * shape.examples), replace=False)
    y[wrong] = random.permutation(y[wrong])
    return Data("generated", X, y)


def measure(shape: Shape, options: argparse.Namespace) -> dict:
    """Best of several fits in one process; the peak memory of one in another."""
    problem = Problem(options.formulation, options.loss, options.C)
    progress(f"{shape}")
    with Worker(generate, *shape, threads=options.threads) as worker:
        runs = [worker.call(run_ours, problem, options.threads, tol=options.tol) for _ in range(options.repeats)]
    with Worker(generate, *shape, threads=options.threads) as worker:
        memory = worker.call(memory_of_ours, problem, options.threads, tol=options.tol)
    return min(runs, key=lambda run: run["seconds"]) | {"memory": memory}


def cells(shape: Shape, run: dict) -> tuple:
    gap = f"{run['gap']:.1e}" + ("" if run["converged"] else " NOT CONVERGED")
    return *shape, run["seconds"], run["epochs"], gap, run["solver"], run["memory"]


HEADERS = ("examples", "features", "nonzeros", "classes", "seconds", "epochs", "gap", "solver", "peak MB")


def scale(options: argparse.Namespace, report: Report) -> None:
    """One size after another is varied, the others stay at their base."""
    base, sweeps = (QUICK_BASE, QUICK_SWEEPS) if options.quick else (BASE, SWEEPS)
    report.heading(f"Scaling of {options.formulation}, {options.loss}, C={options.C:g}, tol={options.tol:g}")
    report.table("varied", *HEADERS)
    measured: dict[Shape, dict] = {}
    for varied, sizes in sweeps.items():
        for size in sizes:
            shape = base._replace(**{varied: size})
            if shape not in measured:
                measured[shape] = measure(shape, options)
            report.row(varied, *cells(shape, measured[shape]))
    report.line()
    report.table("varied", "seconds grow like its power", "seconds of an epoch")
    for varied, sizes in sweeps.items():
        runs = [measured[base._replace(**{varied: size})] for size in sizes]
        an_epoch = [run["seconds"] / run["epochs"] for run in runs]
        report.row(varied, growth(sizes, [run["seconds"] for run in runs]), growth(sizes, an_epoch))
    if options.plot:
        plot(base, sweeps, measured, options.plot)


def growth(sizes: tuple[int, ...], values: list[float]) -> float:
    """p, if values are about in proportion to sizes ** p: 1 is linear."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def plot(base: Shape, sweeps: dict, measured: dict[Shape, dict], file: Path) -> None:
    """Seconds above, memory below, a column for each size that is varied."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(sweeps), figsize=(3.4 * len(sweeps), 6), sharex="col", sharey="row")
    for column, (varied, sizes) in enumerate(sweeps.items()):
        runs = [measured[base._replace(**{varied: size})] for size in sizes]
        for axis, quantity, label in zip(axes[:, column], ("seconds", "memory"), ("seconds", "peak MB"), strict=True):
            values = [run[quantity] for run in runs]
            axis.loglog(sizes, values, "o-")
            axis.loglog(
                sizes, [values[0] * size / sizes[0] for size in sizes], ":", color="grey", label="in proportion"
            )
            axis.grid(alpha=0.3)
            if column == 0:
                axis.set_ylabel(label)
        axes[0, column].set_title(f"{varied}: seconds ~ power {growth(sizes, [run['seconds'] for run in runs]):.2f}")
        axes[1, column].set_xlabel(varied)
        axes[1, column].set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=30)
        axes[1, column].minorticks_off()
    axes[0, 0].legend()
    figure.tight_layout()
    figure.savefig(file, dpi=120)


def many_classes(options: argparse.Namespace, report: Report) -> None:
    """Ten thousand classes."""
    shape = QUICK_BASE._replace(classes=500) if options.quick else MANY_CLASSES
    report.heading(f"Many classes: {options.formulation}, {options.loss}, C={options.C:g}, tol={options.tol:g}")
    report.table(*HEADERS)
    report.row(*cells(shape, measure(shape, options)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--formulation", default="crammer_singer")
    parser.add_argument("--loss", default="hinge")
    parser.add_argument("--C", type=float, default=1.0)
    parser.add_argument("--tol", type=float, help="default: 1e-3; for many classes 1e-2")
    parser.add_argument("--repeats", type=int, help="timed fits of each, of which the best counts; default: 3, or 1")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--many-classes", action="store_true", help="10,000 classes instead of the sweeps")
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    parser.add_argument("--output", type=Path, metavar="FILE.md", help="append the tables to this file")
    options = parser.parse_args()
    options.tol = options.tol or (1e-2 if options.many_classes else 1e-3)
    options.repeats = options.repeats or (1 if options.many_classes or options.quick else 3)
    (many_classes if options.many_classes else scale)(options, Report(options.output))


if __name__ == "__main__":
    main()
