"""What training on a cluster takes: rounds and local epochs, bytes a round and seconds, measured and predicted, and the
objective against the local solver's.

    python benchmarks/dask_rounds.py news20 --copies 20 --processes 1,2,8
    python benchmarks/dask_rounds.py news20 --processes 2 --kills 20
    python benchmarks/dask_rounds.py --model

``--kills N`` trains N times and kills a worker, with SIGKILL, at a random moment of each. ``--model`` prints what 10,
100 and 1000 machines would do with 1 TB (docs/laptop-to-cluster.md); it measures nothing.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import time
from dataclasses import dataclass
from importlib import import_module
from math import sqrt

import numpy as np
import scipy.sparse as sp


def replicated(name: str, copies: int, rows: int | None):
    """A data set ``copies`` times, each value of the copies with 20 % of noise, in random order."""
    import datasets

    data, random_numbers = datasets.load(name), np.random.default_rng(0)
    X, y = data.X, data.y
    if rows is not None:
        chosen = random_numbers.permutation(len(y))[:rows]
        X, y = X[chosen], y[chosen]
    if copies > 1:
        noisy = []
        for _ in range(copies):
            copy = X.copy()
            values = copy.data if sp.issparse(copy) else copy
            values *= 1 + 0.2 * random_numbers.standard_normal(values.shape)
            noisy.append(copy)
        X, y = sp.vstack(noisy, format="csr") if sp.issparse(X) else np.concatenate(noisy), np.tile(y, copies)
    order = random_numbers.permutation(len(y))
    return X[order].astype(np.float32), y[order]


def predicted_bytes(X, lanes: int, ranks: int, rounds: int, certificates: int) -> float:
    """Of a training, sent by all ranks. In a round W in float32 and a line of four numbers a rank go up and down the
    tree; for a certificate W in float64; once, which rows of W somebody has, in bits, and the sample that shows the
    directions, which then go down."""
    edges, n_weights, sample = ranks - 1, X.shape[1] + 1, shared_sample(X)
    of_directions = of_sample = 0
    if sample is not None:
        from multimargin.linear.directions import leading

        of_sample, of_directions = sample.nbytes, 8 * (n_weights + 1) * leading(sample)[0].shape[1]
    once = edges * (2 * (of_sample + -(-n_weights // 8)) + of_directions)
    of_round, of_certificate = 4 * -(-lanes // 8) * 8, 8 * -(-lanes // 4) * 4  # of a row of W
    of_weights = rows_sent(X, ranks, sample) * (rounds * of_round + certificates * of_certificate)
    return once + of_weights + 2 * edges * rounds * 8 * 4 * ranks


def rows_sent(X, ranks: int, sample) -> int:
    """Rows of W, over all connections, both ways (distributed/occupied_rows.py). Rank r has rows r, r + ranks, ..."""
    from multimargin.distributed.occupied_rows import WORTH

    n_weights = X.shape[1] + 1
    has = np.ones((ranks, n_weights), dtype=bool)
    if sp.issparse(X):
        for rank in range(ranks):
            has[rank, :-1] = False if sample is None else sample[:, :-1].any(axis=0)
            has[rank, X[rank::ranks].indices] = True
    for rank in range(ranks - 1, 0, -1):
        has[(rank - 1) // 2] |= has[rank]
    sent = [n_weights if count > WORTH * n_weights else int(count) for count in has.sum(axis=1)]
    return sum(sent[1:]) + (ranks - 1) * sent[0]


def shared_sample(X):
    """Rows that ranks tell each other; None where there are none, as distributed/shared_examples.py decides it."""
    from multimargin.distributed.shared_examples import LARGEST_SAMPLE
    from multimargin.linear.directions import SAMPLE, fill_sample, worth_sampling

    n_weights = X.shape[1] + 1
    nonzeros = X.nnz if sp.issparse(X) else X.size
    if 8 * SAMPLE * n_weights > LARGEST_SAMPLE or not worth_sampling(n_weights, nonzeros):
        return None
    sample = np.zeros((SAMPLE, n_weights))
    fill_sample(sample, X, 1.0)
    return sample


def run(X, y, processes: int, arguments, kill_after: float | None = None):
    """One training on a cluster of its own, on whose workers the rows are, and the library is loaded."""
    from dask import delayed
    from distributed import Client, LocalCluster, wait

    from multimargin.dask import LinearSVM

    with (
        LocalCluster(
            n_workers=processes, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        blocks = [np.arange(len(y))[i :: 2 * processes] for i in range(2 * processes)]
        workers = list(client.scheduler_info()["workers"])
        rows, labels = [], []
        for i, block in enumerate(blocks):
            parts = [delayed(X[block], pure=False), delayed(y[block], pure=False)]
            part, label = client.persist(parts, workers=[workers[i % processes]], allow_other_workers=True)
            rows.append(part)
            labels.append(label)
        wait([rows, labels])
        client.run(import_module, "multimargin.dask")  # which takes a second, once in the life of a worker
        pids = list(client.run(os.getpid).values())
        done = threading.Event()

        def kill() -> None:
            if not done.wait(kill_after):
                os.kill(random.choice(pids), signal.SIGKILL)

        killer = threading.Thread(target=kill)
        if kill_after is not None:
            killer.start()
        began = time.perf_counter()
        try:
            model = LinearSVM(arguments.formulation, arguments.loss, arguments.C, tol=arguments.tol).fit(rows, labels)
        finally:
            done.set()
            if kill_after is not None:
                killer.join()
        return model, time.perf_counter() - began


def measure(arguments) -> None:
    """Rounds, epochs, bytes and objectives for every number of processes."""
    from multimargin import LinearSVM

    X, y = replicated(arguments.data, arguments.copies, arguments.rows)
    local = LinearSVM(arguments.formulation, arguments.loss, arguments.C, tol=1e-3, solver="accelerated_sdm").fit(X, y)
    known = local.primal_objective_
    shape = f"{X.shape[0]} rows, {X.shape[1]} features, {len(local.classes_)} classes"
    print(f"{arguments.data}: {shape}, to {arguments.tol:g}")
    print(f"one process to 1e-3: {local.n_iter_} epochs, objective {known:.6g}, gap {local.dual_gap_:.2g}")
    print(
        "processes  rounds  epochs  gap       above local  MB a round  predicted  fit s  of it rounds s  passes s"
        "  sums s  predicted s  of it network"
    )
    nonzeros, cores = X.nnz if sp.issparse(X) else X.size, len(os.sched_getaffinity(0))
    for processes in arguments.processes:
        model, seconds = run(X, y, processes, arguments)
        rounds, lanes = len(model.history_), len(model.coef_)
        epochs = model.history_["active_rows"].sum() / len(y)
        certificates = int(np.isfinite(model.history_["gap"]).sum())
        predicted = predicted_bytes(X, lanes, processes, rounds, certificates) / rounds
        # A process counts as a machine, as long as it has a core of its own.
        compute, network = Machines().seconds(nonzeros / min(processes, cores), X.shape[1] + 1, lanes, processes)
        compute, network = epochs * compute, rounds * network
        above = model.primal_objective_ / known - 1
        print(
            f"{processes:9d}  {rounds:6d}  {epochs:6.1f}  {model.dual_gap_:.2e}  {above:10.3%}"
            f"  {model.bytes_sent_ / rounds / 1e6:10.3f}  {predicted / 1e6:9.3f}"
            f"  {seconds:5.1f}  {model.history_['seconds'][-1]:14.2f}  {model.seconds_of_passes_:8.2f}"
            f"  {model.seconds_of_sums_:6.2f}  {compute + network:11.2f}  {network:13.2f}",
            flush=True,
        )


def kill(arguments) -> None:
    """Trainings whose workers are killed at random moments."""
    X, y = replicated(arguments.data, arguments.copies, arguments.rows)
    processes = arguments.processes[0]
    calm, seconds = run(X, y, processes, arguments)
    print(f"undisturbed: {seconds:.1f} s, objective {calm.primal_objective_:.6g}, gap {calm.dual_gap_:.2e}")
    random.seed(0)
    wrong = lost = 0
    longest = 0.0
    for number in range(arguments.kills):
        model, took = run(X, y, processes, arguments, kill_after=random.uniform(0, seconds))
        lost += model.workers_lost_
        longest = max(longest, took)
        off = model.dual_objective_ > calm.primal_objective_ or model.primal_objective_ < calm.dual_objective_
        wrong += off or not model.converged_
        print(f"{number + 1:4d}: lost {model.workers_lost_}, gap {model.dual_gap_:.2e}, {took:.1f} s", flush=True)
    print(f"{arguments.kills} kills, {lost} noticed in training; {wrong} wrong results; longest {longest:.1f} s")
    sys.exit(wrong > 0)


@dataclass
class Machines:
    """Of the model: what a machine does in a second."""

    multiply_adds: float = 2e9  # in passes of all its cores
    bytes_a_second: float = 1.25e9  # of its network, each way: 10 Gbit/s
    latency: float = 2e-3  # of a message between two, with Dask's part of a round

    def seconds(self, nonzeros: float, n_weights: int, lanes: int, count: int) -> tuple[float, float]:
        """Of a round: the pass of one of ``count`` machines over its ``nonzeros``, and the sum of W over all."""
        lanes = -(-lanes // 8) * 8
        depth = np.ceil(np.log2(count + 1)) - 1
        # Up and down the tree; an inner rank hears two children, one after the other, and tells two.
        network = depth * (4 * (4 * n_weights * lanes) / self.bytes_a_second + 2 * self.latency)
        return nonzeros * lanes / self.multiply_adds, network


def model(arguments) -> None:
    """1 TB of sparse rows of 100 non-zeros (8 bytes each), 100,000 features and 20 classes."""
    features, classes, per_row = 100_000, 20, 100
    rows = 1e12 / (8 * per_row)
    print(f"1 TB: {rows:.3g} rows of {per_row} non-zeros, {features} features, {classes} classes; to a gap of 1e-2")
    print("machines  rounds  compute s  network s  a round s  hours   share of network")
    for count in (10, 100, 1000):
        # An assumption: 20 rounds for two, as measured, and more as the root of their number.
        rounds = 20 * sqrt(count / 2)
        compute, network = Machines().seconds(rows / count * per_row, features, classes, count)
        total = rounds * (compute + network) / 3600
        share = network / (compute + network)
        print(
            f"{count:8d}  {rounds:6.0f}  {compute:9.1f}  {network:9.2f}  {compute + network:9.1f}  {total:5.2f}"
            f"   {share:.1%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default="news20")
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--rows", type=int, help="so many at random, before they are copied")
    parser.add_argument("--processes", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2])
    parser.add_argument("--formulation", default="crammer_singer")
    parser.add_argument("--loss", default="hinge")
    parser.add_argument("-C", type=float, default=1.0)
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--model", action="store_true")
    arguments = parser.parse_args()
    if arguments.model:
        model(arguments)
    elif arguments.kills:
        kill(arguments)
    else:
        measure(arguments)


if __name__ == "__main__":
    main()
