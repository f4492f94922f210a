"""KernelSVM against the peers, side by side, to the same objective. See README.md in this folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

from contest import OUR_TOL, Cache, Contest, Outcome
from datasets import load_for_kernels
from kernel_peers import (
    BIAS,
    CACHE_MB,
    FAMILIES,
    PEERS,
    KernelProblem,
    full_run_of_ours,
    memory_of_ours,
    run_ours,
    run_peer,
    sizes,
)
from report import Report, progress
from worker import Worker

CONTEST = Contest(run_ours, run_peer, memory_of_ours, PEERS)
MNIST = ("mnist", 5.0, 0.02)
MNIST_ACCURACY = 0.985


class Bar(NamedTuple):
    """A problem, and the ratio to reach against each family of peers."""

    name: str  # of the set
    problem: KernelProblem
    ratios: dict[str, float]


def _pairs(name: str, C: float, gamma: float, ratio: float) -> Bar:
    return Bar(name, KernelProblem("one_vs_one", C, gamma), {"svc": ratio, "intelex": 1.0})


def _joint(name: str, C: float, gamma: float, ratio: float) -> list[Bar]:
    """Crammer-Singer at C; Weston-Watkins at C/2, which is what kernlab and paper 002, whose margin is 2, call C."""
    problems = (KernelProblem("crammer_singer", C, gamma), KernelProblem("weston_watkins", C / 2, gamma))
    return [Bar(name, problem, {"kernlab": ratio}) for problem in problems]


# C and gamma of satimage, shuttle and the first letter: paper 002, Table II, one-against-one
BARS = [
    _pairs("mnist:20000", *MNIST[1:], 5),
    _pairs("letter", 2.0**4, 2.0**2, 2),
    _pairs("letter", 10.0, 1 / 128, 2),
    _pairs("usps", 10.0, 1 / 128, 2),
    _pairs("satimage", 2.0**4, 2.0**0, 1.2),
    _pairs("shuttle", 2.0**11, 2.0**3, 1.2),
    *_joint("letter", 8.0, 4.0, 10),
    *_joint("usps", 10.0, 1 / 128, 10),
    *_joint("satimage", 4.0, 1.0, 4),
]
# Seconds of BSVM itself on the problems of the joint formulations
BSVM = {
    ("letter", "crammer_singer"): 47.0,
    ("letter", "weston_watkins"): 50.0,
    ("usps", "crammer_singer"): 9.1,
    ("usps", "weston_watkins"): 8.2,
    ("satimage", "crammer_singer"): 1.25,
    ("satimage", "weston_watkins"): 0.77,
}
# Default; and the largest violation first, by the exact step: Hsu and Lin
DECOMPOSITIONS: dict[str, list[dict]] = {
    "crammer_singer": [{}, {"threshold": "max", "threshold_factor": 1.0}],
    "weston_watkins": [{}],
}
QUICK = [_pairs("usps:1000", 10.0, 1 / 128, 2), *_joint("usps:1000", 10.0, 1 / 128, 10)]


def compare(options: argparse.Namespace, report: Report) -> None:
    """The bars: our training time against the peers'."""
    cache = Cache(options.cache)
    report.heading(f"Kernel machines: training to within 0.1 % of the optimum, {options.threads} thread(s)")
    report.table(
        *("set", "formulation", "C", "gamma", "P*", "P* gap", "ours s", "epochs", "gap", "K", "MB"),
        *("peer", "setting", "peer s", "ratio", "bar", "notes"),
    )
    for bar in chosen_bars(options):
        formulation, C, gamma = bar.problem
        key = f"kernel {bar.name} {options.dtype} | {formulation} C={C:g} gamma={gamma:g}"
        progress(key)
        with Worker(load_for_kernels, bar.name, options.dtype, threads=options.threads) as worker:
            n_samples = worker.call(sizes)[0]
            try:
                outcome = CONTEST.hold(worker, bar.problem, cache.entry(key), cache, options)
                cells_of = rows(bar, outcome, n_samples)
            except RuntimeError as error:  # one failure should not cost the rest of a long run
                progress(str(error))
                cells_of = [[""] * 12 + [f"FAILED: {str(error).strip().splitlines()[-1]}"]]
        for cells in cells_of:
            report.row(bar.name, *bar.problem, *cells)


def chosen_bars(options: argparse.Namespace) -> list[Bar]:
    bars = QUICK if options.quick else BARS
    return [
        bar
        for bar in bars
        if bar.problem.formulation in options.formulations
        and (not options.sets or {bar.name, bar.name.partition(":")[0]} & set(options.sets))
    ]


def rows(bar: Bar, outcome: Outcome, n_samples: int) -> list[list]:
    """The cells of one problem: a row a peer, or one row where there is none."""
    run = outcome.ours
    common = [outcome.optimum, outcome.optimum_gap, run["seconds"], run["epochs"], f"{run['gap']:.1e}"]
    common += [run["kernel_evaluations"] / n_samples**2, outcome.memory]
    cells = []
    for duel in outcome.duels:
        wanted = bar.ratios.get(PEERS[duel.peer].family, "")
        below = ["BELOW THE BAR"] if wanted and duel.ratio and duel.at_least < wanted else []
        notes = "; ".join(outcome.flaws + below + duel.notes)
        cells.append([*common, duel.peer, duel.setting, duel.seconds, duel.ratio, wanted, notes])
    return cells or [[*common, "", "", "", "", "", "; ".join(outcome.flaws)]]


# Memory, and the whole of mnist


def allowed_mb(cache_mb: float, n_samples: int, n_classes: int, X_mb: float) -> float:
    """cache_mb, three times X, four arrays of n_samples x n_classes, and 100."""
    return cache_mb + 3 * X_mb + 4 * n_samples * n_classes * 8 / 2**20 + 100


def memory(options: argparse.Namespace, report: Report) -> None:
    """Peak memory of a fit above that before it, each in a process of its own."""
    report.heading("Kernel machines: peak memory of a fit")
    report.table("set", "formulation", "C", "gamma", "cache_mb", "X MB", "peak MB", "allowed", "within")
    for bar in chosen_bars(options):
        for cache_mb in options.cache_mb or (50, CACHE_MB):
            progress(f"{bar.name} {bar.problem} cache_mb={cache_mb:g}")
            with Worker(load_for_kernels, bar.name, options.dtype, threads=options.threads) as worker:
                n_samples, n_classes, X_mb = worker.call(sizes)
                peak = worker.call(memory_of_ours, bar.problem, options.threads, tol=OUR_TOL, cache_mb=cache_mb)
            allowed = allowed_mb(cache_mb, n_samples, n_classes, X_mb)
            within = "yes" if peak <= allowed else "NO"
            report.row(bar.name, *bar.problem, cache_mb, X_mb, peak, allowed, within)


def full_mnist(options: argparse.Namespace, report: Report) -> None:
    """60,000 rows, Crammer-Singer and Weston-Watkins."""
    name, C, gamma = MNIST
    rows_of = "" if not options.quick else ":2000"
    cache_mb = (options.cache_mb or [4096])[0]
    report.heading(f"{name}, all rows, C={C:g}, gamma={gamma:g}, cache_mb={cache_mb:g}, {options.threads} thread(s)")
    report.table(
        *("formulation", "bias", "seconds", "epochs", "gap", "kernel evaluations", "K", "peak MB", "allowed"),
        *("support vectors", "accuracy", "predict s", "notes"),
    )
    for formulation in options.formulations:
        if formulation not in ("crammer_singer", "weston_watkins"):
            continue
        progress(formulation)
        problem = KernelProblem(formulation, C, gamma)
        with Worker(load_for_kernels, name + rows_of, options.dtype, threads=options.threads) as worker:
            run = worker.call(full_run_of_ours, problem, options.threads, tol=OUR_TOL, cache_mb=cache_mb)
        allowed = allowed_mb(cache_mb, run["n_samples"], run["n_classes"], run["X_mb"])
        flaws = ["DID NOT CONVERGE"] * (not run["converged"]) + ["TOO MUCH MEMORY"] * (run["memory"] > allowed)
        flaws += [f"ACCURACY BELOW {MNIST_ACCURACY:.1%}"] * (run["accuracy"] < MNIST_ACCURACY)
        report.row(
            *(formulation, BIAS[formulation], run["seconds"], run["epochs"], f"{run['gap']:.1e}"),
            *(f"{run['kernel_evaluations']:.3g}", run["kernel_evaluations"] / run["n_samples"] ** 2),
            *(run["memory"], allowed, run["support_vectors"], f"{run['accuracy']:.2%}"),
            *(run["predict_seconds"], "; ".join(flaws)),
        )


def decomposition(options: argparse.Namespace, report: Report) -> None:
    """The papers' methods on the problems of the joint formulations, against twice BSVM's time."""
    report.heading(f"solver='decomposition', {options.threads} thread(s)")
    report.table("set", "formulation", "options", "C", "gamma", "seconds", "records", "gap", "limit", "notes")
    for bar in chosen_bars(options):
        formulation = bar.problem.formulation
        limit = 2 * BSVM.get((bar.name, formulation), 0)
        for extra in DECOMPOSITIONS.get(formulation, ()):
            progress(f"{bar.name} {formulation} {extra}")
            with Worker(load_for_kernels, bar.name, options.dtype, threads=options.threads) as worker:
                parameters = {"solver": "decomposition", "tol": OUR_TOL, "time_limit": options.limit} | extra
                runs = [
                    worker.call(run_ours, bar.problem, options.threads, **parameters) for _ in range(options.repeats)
                ]
            best = min(runs, key=lambda run: run["seconds"])
            named = ", ".join(f"{name}={value}" for name, value in extra.items()) or "default"
            flaws = ["DID NOT CONVERGE"] * (not best["converged"])
            flaws += ["OVER THE LIMIT"] * bool(limit and best["seconds"] > limit)
            row = (
                bar.name,
                formulation,
                named,
                *bar.problem[1:],
                best["seconds"],
                best["epochs"],
                f"{best['gap']:.1e}",
            )
            report.row(*row, limit or "", "; ".join(flaws))


# The command line


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", metavar="SET", help="only the bars on these sets")
    parser.add_argument("--formulations", nargs="+", choices=list(BIAS), default=list(BIAS))
    parser.add_argument("--peers", nargs="+", choices=FAMILIES, default=["svc", "intelex", "kernlab"])
    parser.add_argument("--repeats", type=int, default=3, help="timed runs of each, of which the best counts")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds after which a run is given up")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of ours and of BLAS; peers have one")
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64", help="of the data")
    parser.add_argument("--quick", action="store_true", help="few rows, to see that it works")
    parser.add_argument("--cache", type=Path, default=Path(__file__).parent / ".cache.json", metavar="FILE")
    parser.add_argument("--peers-from-cache", action="store_true", help="do not time known settings of peers again")
    parser.add_argument("--output", type=Path, metavar="FILE.md", help="append the tables to this file")
    modes = parser.add_argument_group("instead of the comparison")
    modes.add_argument("--memory", action="store_true", help="peak memory on the sets of the bars")
    modes.add_argument("--full-mnist", action="store_true", help="all 60,000 rows, Crammer-Singer and Weston-Watkins")
    modes.add_argument("--decomposition", action="store_true", help="the papers' methods, against twice BSVM's time")
    modes.add_argument("--cache-mb", type=float, nargs="+", metavar="MB", help="of --memory and --full-mnist")
    return parser.parse_args(arguments)


def main() -> None:
    options = parsed()
    report = Report(options.output, PEERS.values())
    asked = [(memory, options.memory), (full_mnist, options.full_mnist), (decomposition, options.decomposition)]
    for mode in [mode for mode, wanted in asked if wanted] or [compare]:
        mode(options, report)


if __name__ == "__main__":
    main()
