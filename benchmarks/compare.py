"""Our training time against the peers', side by side, to the same objective. See README.md in this folder."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from contest import OUR_TOL, Cache, Contest, Outcome
from datasets import NAMES, Data, load, names
from peers import FAMILIES, PEERS, Problem, memory_of_ours, run_ours, run_peer, seconds_of_product
from report import Report, progress
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.svm import LinearSVC
from worker import Worker, best_of

from multimargin import LinearSVM, LinearSVMCV, _core
from multimargin.data.rows import as_rows

CONTEST = Contest(run_ours, run_peer, memory_of_ours, PEERS)
LOSSES = {"crammer_singer": ["hinge"], "weston_watkins": ["hinge"], "one_vs_rest": ["hinge", "squared_hinge"]}


# The comparison


def compare(options: argparse.Namespace, report: Report) -> None:
    """All sets, formulations and C."""
    if unknown := set(options.sets) - set(names()):
        raise SystemExit(f"no data sets {', '.join(sorted(unknown))}; the folder has {', '.join(names())}")
    cache = Cache(options.cache)
    contest = replace(CONTEST, within=options.within)
    report.heading(f"Training to within {100 * options.within:g} % of the optimum")
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
                    outcome = contest.hold(worker, problem, cache.entry(key), cache, options)
                    cells_of = rows(outcome, product)
                except RuntimeError as error:  # one failure should not cost the rest of a long run
                    progress(str(error))
                    cells_of = [[""] * 12 + [f"FAILED: {str(error).strip().splitlines()[-1]}"]]
                for cells in cells_of:
                    report.row(name, *problem, *cells)


def problems(options: argparse.Namespace) -> list[Problem]:
    return [
        Problem(formulation, loss, C)
        for formulation in options.formulations
        for loss in options.losses or LOSSES[formulation]
        for C in options.C
    ]


def rows(outcome: Outcome, product: float) -> list[list]:
    """The cells of one problem: a row a peer, or one row where there is none."""
    run = outcome.ours
    common = [outcome.optimum, outcome.optimum_gap, run["seconds"], run["epochs"], f"{run['gap']:.1e}"]
    common += [run["solver"], run["seconds"] / product, outcome.memory]
    return [
        [*common, duel.peer, duel.setting, duel.seconds, duel.ratio, "; ".join(outcome.flaws + duel.notes)]
        for duel in outcome.duels
    ] or [[*common, "", "", "", "", "; ".join(outcome.flaws)]]


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
    for name in options.sets or ("news20", "mnist", "embeddings"):
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


def path(options: argparse.Namespace, report: Report) -> None:
    """LinearSVMCV in units of one fit."""
    report.heading("LinearSVMCV, 10 values of C and 5 folds, against one fit of the hardest C")
    report.table("set", "threads", "hardest C", "fit s", "LinearSVMCV s", "ratio", "best C", "worst gap")
    for name in options.sets or ("news20",):
        for n_threads in (1, 2):
            with Worker(load, name, options.dtype, threads=n_threads) as worker:
                hardest, fit, whole, best, gap = worker.call(time_path, n_threads, options.repeats)
            report.row(name, n_threads, hardest, fit, whole, whole / fit, best, f"{gap:.1e}")


def time_path(data: Data, n_threads: int, repeats: int) -> tuple[float, float, float, float, float]:
    """The C whose fit takes longest (one thread), its seconds, those of the path, the best C and gap; for a worker."""
    search = LinearSVMCV(n_jobs=n_threads)
    seconds = best_of(repeats, lambda: search.fit(data.X, data.y))
    alone = {C: best_of(repeats, lambda C=C: LinearSVM(C=C).fit(data.X, data.y)) for C in search.Cs_}
    hardest = max(alone, key=alone.__getitem__)
    return hardest, alone[hardest], seconds, search.C_, float(search.gaps_.max())


def epochs(options: argparse.Namespace, report: Report) -> None:
    """What an epoch costs, in units of one product of all rows with W in float32 by the core's own row kernel."""
    report.heading("An epoch against one X @ W")
    report.table("set", "formulation", "loss", "X @ W ms", "epochs", "epoch ms", "epoch / X @ W", "whole fit / X @ W")
    for name in options.sets or ("news20", "mnist"):
        with Worker(load, name, options.dtype, threads=1) as worker:
            for formulation in options.formulations:
                for loss in options.losses or ("hinge", "squared_hinge"):
                    problem = Problem(formulation, loss, options.C[0] if len(options.C) == 1 else 1.0)
                    product, done, seconds = worker.call(time_epoch, problem, options.repeats)
                    each = seconds / done
                    report.row(
                        *(name, formulation, loss, 1e3 * product, done, 1e3 * each, each / product, seconds / product)
                    )


def time_epoch(data: Data, problem: Problem, repeats: int) -> tuple[float, float, float]:
    """Seconds of a product, and epochs and seconds of a whole fit; for a worker."""
    rows = as_rows(data.X, many_passes=True)
    W = _core.Weights(data.X.shape[1], data.n_classes, True).array  # float32
    W[:] = np.random.RandomState(0).standard_normal(W.shape)
    out = np.empty((data.X.shape[0], data.n_classes))
    product = seconds = np.inf
    for _ in range(repeats):
        product = min(product, best_of(3, lambda: rows.scores(W, out, 0)))
        model = LinearSVM(*problem, fit_intercept=False)
        seconds = min(seconds, best_of(1, lambda model=model: model.fit(data.X, data.y)))
    return product, model.history_["active_rows"].sum() / len(data.y), seconds


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
    parser.add_argument(
        "--within", type=float, default=OUR_TOL, metavar="SHARE", help="of P*, that a primal may be above it (0.001)"
    )
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64", help="of the data")
    parser.add_argument("--quick", action="store_true", help="two small sets, C=1, one timed run, limit of 30 s")
    parser.add_argument("--cache", type=Path, default=Path(__file__).parent / ".cache.json", metavar="FILE")
    parser.add_argument("--peers-from-cache", action="store_true", help="do not time known settings of peers again")
    parser.add_argument("--output", type=Path, metavar="FILE.md", help="append the tables to this file")
    modes = parser.add_argument_group("instead of the comparison")
    modes.add_argument("--predict", action="store_true", help="decision_function against LinearSVC's")
    modes.add_argument("--small", action="store_true", help="small sets with default parameters")
    modes.add_argument("--path", action="store_true", help="LinearSVMCV against one fit")
    modes.add_argument("--epochs", action="store_true", help="an epoch against one product of all rows")
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
    report = Report(options.output, PEERS.values())
    modes = [predict] * options.predict + [small] * options.small
    modes += [imports] * options.imports + [path] * options.path + [epochs] * options.epochs
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
