"""Kills (kill -9) of trainings with checkpoints: does every one that goes on end as if it had not been killed?

    python benchmarks/kills.py --kills 500
    python benchmarks/kills.py --kills 30 --only blocks search

A process trains, with a checkpoint after every slice, and is killed at a random moment within a third of the time that
a whole training takes; then the next one goes on from the file, until one gets to its end. Its result must be, bit for
bit, that of a training that was not killed, and no checkpoint may be left. The table has a row for each kind of
machine: in memory, from blocks on disk, and with C searched for by cross-validation.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import signal
import sys
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

import multimargin
from multimargin.data import open_blocks, write_blocks

PRIMAL = {"formulation": "one_vs_one", "loss": "squared_hinge", "C": 10.0}
SEARCH = {"Cs": [0.001, 0.01, 0.1], "cv": 3, "tol": 1e-2}
KINDS = {
    "crammer_singer sdm": ("LinearSVM", {"solver": "sdm"}),
    "weston_watkins accelerated_sdm": ("LinearSVM", {"formulation": "weston_watkins", "solver": "accelerated_sdm"}),
    "one_vs_rest sdm": ("LinearSVM", {"formulation": "one_vs_rest", "solver": "sdm", "tol": 1e-2}),
    "one_vs_one accelerated_sdm": ("LinearSVM", {"formulation": "one_vs_one", "solver": "accelerated_sdm"}),
    "crammer_singer newton": ("LinearSVM", {"solver": "newton", "tol": 1e-8}),
    "crammer_singer rbf block": ("KernelSVM", {"working_set": 10, "tol": 1e-4}),
    "one_vs_one rbf block": ("KernelSVM", {"formulation": "one_vs_one", "working_set": 4, "tol": 1e-6}),
    "crammer_singer rbf decomposition": ("KernelSVM", {"solver": "decomposition", "tol": 1e-4}),
    "weston_watkins rbf decomposition": ("KernelSVM", {"formulation": "weston_watkins", "solver": "decomposition"}),
    "one_vs_rest rbf decomposition": ("KernelSVM", {"formulation": "one_vs_rest", "solver": "decomposition"}),
    "crammer_singer pegasos": ("LinearSVM", {"solver": "pegasos", "tol": 0.2}),
    "crammer_singer exponentiated": ("LinearSVM", {"solver": "exponentiated_gradient", "tol": 0.02}),
    "crammer_singer cutting_plane": ("LinearSVM", {"solver": "cutting_plane", "tol": 1e-2}),
    "one_vs_one tron": ("LinearSVM", PRIMAL | {"solver": "tron", "tol": 1e-9}),
    "one_vs_one primal_cd": ("LinearSVM", PRIMAL | {"solver": "primal_cd", "tol": 1e-9}),
    "blocks, crammer_singer sdm": ("blocks", {"solver": "sdm", "C": 0.1, "tol": 0.02}),
    "blocks, weston_watkins accelerated": ("blocks", {"formulation": "weston_watkins", "tol": 1e-2}),
    "search, crammer_singer sdm": ("LinearSVMCV", SEARCH | {"solver": "sdm"}),
    "search, one_vs_one accelerated": ("LinearSVMCV", SEARCH | {"formulation": "one_vs_one"}),
}
ROWS, FEW_ROWS = {"KernelSVM": 1500}, 400  # of other machines
FEATURES, CLASSES = 20, 5
STORE = "rows.blocks"


def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    """X and y."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % CLASSES
    return rng.normal(size=(CLASSES, FEATURES))[y] + 3 * rng.normal(size=(n, FEATURES)), y


def train(kind: str, path: Path, answer: Connection) -> None:
    """In a process of its own: a digest of all that training gives, apart from the clock."""
    name, parameters = KINDS[kind]
    stored = name == "blocks"
    X, y = rows(ROWS.get(name, FEW_ROWS))
    made = getattr(multimargin, "LinearSVM" if stored else name)
    model = made(max_iter=10**6, checkpoint=path, checkpoint_every=0, **parameters)
    answer.send("ready")
    model.fit(*((open_blocks(path.parent / STORE),) if stored else (X, y)))
    told = [model.history_[name] for name in model.history_.dtype.names or () if name != "seconds"]
    coef = model.coef_ if "coef_" in vars(model) else np.zeros(0)  # kernel machines have their duals
    told += [model.intercept_, coef.toarray() if hasattr(coef, "toarray") else coef]
    if hasattr(model, "dual_coef_"):
        told += [model.dual_coef_.data, model.dual_coef_.indices, model.dual_coef_.indptr]
    if hasattr(model, "scores_"):
        told += [model.scores_, model.gaps_, model.epochs_]
    digest = hashlib.sha256()
    for array in told:
        digest.update(np.ascontiguousarray(array).tobytes())
    answer.send([model.primal_objective_, model.dual_objective_, model.n_iter_, digest.hexdigest()])


def run(kind: str, path: Path, seconds: float | None) -> tuple[list | None, float]:
    """The result, or None if it was killed, and the seconds that training took."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["multimargin.estimators.linear_svm_cv", "multimargin.estimators.kernel_svm"])
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=train, args=(kind, path, there))
    process.start()
    there.close()
    here.recv()
    began = time.perf_counter()
    process.join(seconds)
    if process.is_alive():
        process.kill()
    process.join()
    took = time.perf_counter() - began
    if process.exitcode == -signal.SIGKILL:
        return None, took
    if process.exitcode:
        raise SystemExit(f"{kind}: a training failed")
    return here.recv(), took


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=500, help="in all (default: 500)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="kinds with one of these words in their names")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    kinds = [kind for kind in KINDS if not args.only or any(word in kind for word in args.only)]
    print(f"{'machine':34} {'kills':>6} {'trainings':>10} {'goings-on':>10} {'different':>10}")
    totals = np.zeros(4, dtype=int)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        write_blocks(path.parent / STORE, [rows(FEW_ROWS)], block_mb=0.02)
        kept = lambda: any(path.parent.glob("state*"))  # noqa: E731
        for i, kind in enumerate(kinds):
            whole, took = run(kind, path, None)
            wanted = args.kills * (i + 1) // len(kinds) - args.kills * i // len(kinds)
            kills = trainings = resumes = different = 0
            result = None
            while kills < wanted or result is None:
                resumes += kept()
                # Early, for many kills of one training; or at any moment, as short ones have no state early.
                share = rng.choice((0.3, 0.9))
                result, _ = run(kind, path, rng.uniform(0, share * took) if kills < wanted else None)
                kills += result is None
                if result is not None:
                    trainings += 1
                    different += result != whole or kept()
            print(f"{kind:34} {kills:6} {trainings:10} {resumes:10} {different:10}", flush=True)
            totals += [kills, trainings, resumes, different]
    print(f"{'all':34} {totals[0]:6} {totals[1]:10} {totals[2]:10} {totals[3]:10}")
    sys.exit(int(totals[3] > 0))


if __name__ == "__main__":
    main()
