"""Kills (kill -9) of trainings with checkpoints: does every one that goes on end as if it had not been killed?

    python benchmarks/kills.py --kills 500

A process trains, with a checkpoint after every slice, and is killed at a random moment within a third of the time that
a whole training takes; then the next one goes on from the file, until one gets to its end. Its result must be, bit for
bit, that of a training that was not killed. The table has a row for each kind of machine.
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
}
ROWS, FEATURES, CLASSES = {"LinearSVM": 400, "KernelSVM": 1500}, 20, 5


def train(kind: str, path: Path, answer: Connection) -> None:
    """In a process of its own: a digest of all that training gives, apart from the clock."""
    rng = np.random.default_rng(0)
    name, parameters = KINDS[kind]
    y = np.arange(ROWS[name]) % CLASSES
    X = rng.normal(size=(CLASSES, FEATURES))[y] + 3 * rng.normal(size=(len(y), FEATURES))
    model = getattr(multimargin, name)(max_iter=10**6, checkpoint=path, checkpoint_every=0, **parameters)
    answer.send("ready")
    model.fit(X, y)
    digest = hashlib.sha256()
    history = [np.ascontiguousarray(model.history_[n]) for n in model.history_.dtype.names or () if n != "seconds"]
    duals = model.dual_coef_
    for array in (model.intercept_, duals.data, duals.indices, duals.indptr, *history):
        digest.update(np.ascontiguousarray(array).tobytes())
    answer.send([model.primal_objective_, model.dual_objective_, model.n_iter_, digest.hexdigest()])


def run(kind: str, path: Path, seconds: float | None) -> tuple[list | None, float]:
    """The result, or None if it was killed, and the seconds that training took."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["multimargin.estimators.linear_svm", "multimargin.estimators.kernel_svm"])
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
    args = parser.parse_args()
    rng = random.Random(args.seed)
    print(f"{'machine':34} {'kills':>6} {'trainings':>10} {'goings-on':>10} {'different':>10}")
    totals = np.zeros(4, dtype=int)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        for i, kind in enumerate(KINDS):
            whole, took = run(kind, path, None)
            wanted = args.kills * (i + 1) // len(KINDS) - args.kills * i // len(KINDS)
            kills = trainings = resumes = different = 0
            while kills < wanted:
                resumes += path.exists()
                result, _ = run(kind, path, rng.uniform(0, 0.3 * took))
                kills += result is None
                if result is not None:
                    trainings += 1
                    different += result != whole
            resumes += path.exists()
            trainings += 1
            different += run(kind, path, None)[0] != whole
            print(f"{kind:34} {kills:6} {trainings:10} {resumes:10} {different:10}", flush=True)
            totals += [kills, trainings, resumes, different]
    print(f"{'all':34} {totals[0]:6} {totals[1]:10} {totals[2]:10} {totals[3]:10}")
    sys.exit(int(totals[3] > 0))


if __name__ == "__main__":
    main()
