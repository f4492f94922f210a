"""From a store of blocks to a trained linear model, within a given memory."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

import numpy as np

from multimargin.data.atomic import naming
from multimargin.data.blocks import BlockStore
from multimargin.data.folder_lock import locked_folder
from multimargin.data.memory import in_mb
from multimargin.linear.algorithm import Settings
from multimargin.linear.checkpoint import Checkpoint
from multimargin.linear.directions import SAMPLE
from multimargin.linear.dual_files import DualFiles, DualsNotKept
from multimargin.linear.interrupts import interruptible
from multimargin.linear.loop import positions_left, solve
from multimargin.linear.machine import Machine, NotFinite
from multimargin.linear.outcome import Limits, Observer, Outcome
from multimargin.linear.solvers import SOLVERS
from multimargin.linear.stored_examples import StoredExamples, StoredProblem
from multimargin.linear.training import Interrupted, Trained, weights_of
from multimargin.problems.formulations import Formulation, formulation

_DUALS = "multimargin-duals-"  # their folder, while training lasts
_MB = 2**20
_TWO_MODELS = 1 << 29  # bytes: a larger W is certified without the last one beside it (machine.py)
# Bytes that a row takes in memory beside its features: row, label, cap, norm, order; a list of duals and its copy.
_ROW = 64
_LIST = 200


@dataclass
class StoredRequest:
    """Everything that a fit on a store is about."""

    stored: StoredProblem
    n_classes: int
    formulation: str
    loss: str
    solver: str
    settings: Settings
    limits: Limits
    seed: int
    memory_mb: float | None
    observers: list[Observer] = field(default_factory=list)
    checkpoint: Checkpoint | None = None


def train_stored(request: StoredRequest) -> Trained:
    """Train on a store, from where its checkpoint has it.

    The duals are beside the checkpoint; without one beside the store, or in the folder for temporary files. A disk that
    gets full ends the training with the model as it was last certified.
    """
    started = time.perf_counter()  # the first pass over the store counts, too
    store, checkpoint = request.stored.store, request.checkpoint
    problem = formulation(request.formulation, request.loss, request.n_classes)
    algorithm = SOLVERS[request.solver].make(request.settings)
    lists = algorithm.lists and not problem.separable
    read_ahead = request.memory_mb is None or _fits(request, problem, lists)
    outcome = Outcome()
    results: list[tuple[np.ndarray, tuple[float, float, float]]] = []

    def trained() -> Trained:
        W, (primal, dual, worst_gap) = results[0]
        return Trained(W, problem.lanes, None, primal, dual, worst_gap, outcome)

    with _files_of_duals(store, checkpoint) as files:
        accelerated = request.solver == "accelerated_sdm"
        with interruptible():
            examples = StoredExamples(request.stored, problem, files, read_ahead=read_ahead, accelerated=accelerated)
            if checkpoint is not None:
                started -= checkpoint.begin(examples)
            machine = Machine(problem, examples, algorithm, seed=request.seed)
        try:
            with interruptible():
                algorithm.start(machine, warm=False)
                collect = lambda position, machine: results.append(weights_of(machine))  # noqa: E731
                left = [machine for _ in positions_left(1, checkpoint)]
                solve(left, collect, request.limits, 1, request.observers, outcome, started, checkpoint)
        except DualsNotKept as stopped:
            if machine.certificate is None:
                raise stopped.error from None
            outcome.converged, outcome.stopped_by, outcome.remark = False, "disk", str(stopped.error)
            outcome.n_iter = min(ceil(machine.epochs), request.limits.max_iter)
            results.append(weights_of(machine))
        except KeyboardInterrupt as interrupt:
            if not results:
                raise
            raise Interrupted(trained()) from interrupt
        except NotFinite as error:
            raise error if checkpoint is None else checkpoint.refused_later(error) from None
        finally:
            machine.blocks.close()
    return trained()


@contextmanager
def _files_of_duals(store: BlockStore, checkpoint: Checkpoint | None) -> Iterator[DualFiles]:
    """Where the duals are while training lasts; with a checkpoint as long as that is there, beside it."""
    if checkpoint is None:
        beside = _folder_beside(store)
        with naming(Path(beside or tempfile.gettempdir()) / _DUALS):
            temporary = tempfile.TemporaryDirectory(prefix=_DUALS, dir=beside, ignore_cleanup_errors=True)
        with temporary as scratch:
            yield DualFiles(Path(scratch), len(store))
        return
    folder = checkpoint.path.with_name(f"{checkpoint.path.name}.duals")
    with ExitStack() as held:
        with naming(folder):
            held.enter_context(locked_folder(folder))
        files = DualFiles(folder, len(store))
        if not checkpoint.goes_on:
            files.begin()
        checkpoint.beside = files
        try:
            yield files
        finally:
            if not checkpoint.path.exists():
                files.state_is_removed()


def _folder_beside(store: BlockStore) -> str | None:
    """A folder on the disk of the store, which has room; else that for temporary files."""
    parent = store.path.absolute().parent
    return str(parent) if os.access(parent, os.W_OK | os.X_OK) else None


def _fits(request: StoredRequest, problem: Formulation, lists: bool) -> bool:
    """Whether two blocks fit into memory beside the weights, so that one can be read ahead; one must."""
    assert request.memory_mb is not None
    store, lanes = request.stored.store, -(-problem.lanes // 8) * 8
    numbers = request.stored.n_weights * lanes
    shape = f"{request.stored.n_weights} x {problem.lanes}"
    accelerated = request.solver == "accelerated_sdm"
    copies = 6 if accelerated else 4  # W, its sum, its mean, the certified one; Z, the last W
    # A state that is read is there beside what it takes the place of, and once more on its way there.
    times = 1 if request.checkpoint is None else 3
    weights = 8 * numbers * (times * copies + (8 * numbers <= _TWO_MODELS))
    # It is gone before there are weights.
    sample = 8 * SAMPLE * request.stored.n_weights if accelerated and request.stored.sampled else 0
    beside, what = max((weights, f"the weights ({shape}) take"), (sample, "a sample of the rows takes"))
    of_row = times * (_ROW + (_LIST if lists else 20 * lanes))
    packed = store.layout.compressed
    block = max(
        of_row * entry.rows + (store.unpacked_bytes(number) if packed else 0)
        for number, entry in enumerate(store.entries)
    )
    limit = request.memory_mb * _MB
    if weights > limit:
        raise ValueError(
            f"memory_mb={request.memory_mb:g} is too little: the weights alone ({shape}, in {weights // (8 * numbers)} "
            f"copies) take {in_mb(weights)}; raise memory_mb, or hash the features to fewer"
        )
    if beside + block > limit:
        raise ValueError(
            f"memory_mb={request.memory_mb:g} is too little: {what} {in_mb(beside)} and the largest block "
            f"{in_mb(block)}; raise memory_mb, or write the store with a smaller block_mb"
        )
    return weights + 2 * block <= limit
