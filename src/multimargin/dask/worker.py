"""What runs on a worker: its rank, which lives from call to call, and the preparation of its rows."""

from __future__ import annotations

import time
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import scipy.sparse as sp
from distributed import get_worker, secede

from multimargin.data.kinds import check_kind
from multimargin.data.labels import check_labels, plain_labels
from multimargin.data.rows import check_masks, checked
from multimargin.distributed.collective import Listener, connect, why_unreachable
from multimargin.distributed.rank import Job, Part, Rank, Reply

# Ranks by worker and training: workers may share a process. A training that ends takes its rank away; one whose client
# was killed leaves it until another begins, an hour or more after its last round.
_FORGOTTEN_AFTER = 3600.0  # seconds
_JOIN_SECONDS = 30.0  # within which all ranks call each other
_REACH_SECONDS = 10.0  # for a connection to an open port
_ranks: dict[tuple[str, str], Rank] = {}
_used: dict[tuple[str, str], float] = {}
_listeners: dict[tuple[str, str], Listener] = {}


class RankGone(Exception):
    """The worker was started anew, and has no rank."""


class Block(NamedTuple):
    """Rows as they came, checked, with their labels."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None


class Summary(NamedTuple):
    """What the client has to know of a block."""

    shape: tuple[int, int]
    labels: np.ndarray
    weights: np.ndarray  # of the rows of each label


def prepared(X: Any, y: Any, weight: Any, number: int) -> Block:
    """A block of rows, as core and labels take them. Errors name the block."""
    try:
        if hasattr(X, "to_numpy"):
            X = X.to_numpy()
        X = checked(X)
        check_masks(y, "y")
        y = np.asarray(plain_labels(y))
        if weight is not None:
            check_kind(weight, "sample_weight")
            check_masks(weight, "sample_weight")
            weight = np.asarray(weight, dtype=np.float64)
            if weight.shape != y.shape or not np.isfinite(weight).all() or (weight < 0).any():
                raise ValueError("sample_weight must be finite, not negative, and one a row")
        if y.ndim != 1 or len(y) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and y the shape {y.shape}")
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise ValueError(f"y holds a value that is not finite in row {np.flatnonzero(~np.isfinite(y))[0]}")
        check_labels(y)
        return Block(X, y, weight)
    except (ValueError, TypeError) as error:
        raise type(error)(f"block {number}: {error}") from error


def summary(block: Block) -> Summary:
    """Of a block of rows."""
    labels, encoded = np.unique(block.y, return_inverse=True)
    return Summary(block.X.shape, labels, np.bincount(encoded, weights=block.weight, minlength=len(labels)))


def folds_of(block: Block, number: int, n_folds: int, seed: int) -> np.ndarray:
    """The fold in which each row is held out: the rows of every class, shuffled, are dealt to one after the other, and
    the classes of every block begin elsewhere."""
    rng = np.random.default_rng([seed, number])
    order = rng.permutation(len(block.y))
    order = order[np.argsort(block.y[order], kind="stable")]
    _, first, encoded = np.unique(block.y[order], return_index=True, return_inverse=True)
    folds = np.empty(len(order), dtype=np.int64)
    begin = rng.integers(n_folds, size=len(first))
    folds[order] = (np.arange(len(order)) - first[encoded] + begin[encoded]) % n_folds
    return folds


def rows_of(block: Block, chosen: np.ndarray) -> Block:
    """Some rows of a block."""
    X, y, weight = block
    return Block(X[chosen], y[chosen], None if weight is None else weight[chosen])


def without_fold(block: Block, number: int, n_folds: int, seed: int, fold: int) -> Block:
    """Rows to train on."""
    return rows_of(block, folds_of(block, number, n_folds, seed) != fold)


def holds(training: str) -> list[int]:
    """Which blocks this worker has a rank for."""
    rank = _ranks.get(_key(training))
    return [] if rank is None else rank.numbers


def take(
    training: str,
    job: Job,
    classes: np.ndarray,
    kept: list[int],
    numbers: list[int],
    blocks: list[Block],
    duals: list[Any],
) -> None:
    """These blocks join those that are ``kept`` here; others, which somebody else has by now, go. Duals: of blocks that
    had some elsewhere, else None."""
    now = time.monotonic()
    for other in [key for key, used in list(_used.items()) if now - used > _FORGOTTEN_AFTER and key[1] != training]:
        _used.pop(other, None)
        if (forgotten := _ranks.pop(other, None)) is not None:
            forgotten.leave()
    rank = _ranks.pop(_key(training), None)
    parts: dict[int, Part] = {}
    known: dict[int, Any] = {}
    if rank is not None:
        parts = {number: part for number, part in rank.parts().items() if number in kept}
        known = {number: dual for number, dual in rank.duals().items() if number in kept}
        rank.leave()
    if set(parts) != set(kept):
        raise RankGone(f"{_address()} has not the blocks that it had")
    for number, block, dual in zip(numbers, blocks, duals, strict=True):
        X = sp.csr_array(block.X) if sp.issparse(block.X) else block.X
        parts[number] = Part(X, np.searchsorted(classes, block.y), block.weight)
        if dual is not None:
            known[number] = dual
    _ranks[_key(training)] = Rank(job, parts, known)
    _used[_key(training)] = now


def change(training: str, job: Job, numbers: list[int]) -> None:
    """A larger C for this worker's blocks, from the duals that there are; nothing if it has that C."""
    rank = _rank(training)
    if rank.numbers != numbers:
        raise RankGone(f"{_address()} has not the blocks that it had")
    if not np.array_equal(rank.job.class_caps, job.class_caps):
        duals = rank.duals()
        rank.leave()
        _ranks[_key(training)] = Rank(job, rank.parts(), duals)


def listen(training: str) -> tuple[str, int]:
    """Leave the ranks that are no more; the address at which others reach this one."""
    _rank(training).leave()
    if (old := _listeners.pop(_key(training), None)) is not None:
        old.close()
    host = urlsplit(_address()).hostname or "127.0.0.1"
    try:
        listener = _listeners[_key(training)] = Listener(host)
    except OSError as error:  # which would be taken for the loss of a worker
        raise RuntimeError(
            f"the worker {_address()} cannot open a port at {host}, where the others would call it: {error}; start it "
            "with an address of its own machine (dask worker --host)"
        ) from error
    return listener.address


def unreachable(training: str, number: int, addresses: list[tuple[str, int]]) -> str | None:
    """Whom this rank cannot call, though all of them listen, and why."""
    return why_unreachable(number, addresses, _REACH_SECONDS)


def join(training: str, number: int, addresses: list[tuple[str, int]], secret: bytes) -> None:
    """Go on together with the others."""
    _together(
        training,
        lambda rank: rank.join(
            connect(_listeners.pop(_key(training)), number, addresses, secret, seconds=_JOIN_SECONDS)
        ),
    )


def advance(training: str, number: int, max_epochs: float) -> Reply | None:
    """A round or more; rank 0 tells of them."""
    reply = _together(training, lambda rank: rank.advance(max_epochs))
    return reply if number == 0 else None


def conclude(training: str, number: int) -> Reply | None:
    """A certificate of what there is; rank 0 has it."""
    reply = _together(training, lambda rank: rank.conclude())
    return reply if number == 0 else None


def duals(training: str) -> dict[int, Any]:
    """The duals of this worker's blocks, to be kept elsewhere."""
    return _rank(training).duals()


def keep(training: str, duals: dict[int, Any]) -> dict[int, Any]:
    """Another worker's duals."""
    return duals


def forget(training: str) -> None:
    """The training is over."""
    if (rank := _ranks.pop(_key(training), None)) is not None:
        rank.leave()
    _used.pop(_key(training), None)
    if (listener := _listeners.pop(_key(training), None)) is not None:
        listener.close()


def _address() -> str:
    return get_worker().address


def _key(training: str) -> tuple[str, str]:
    return _address(), training


def _rank(training: str) -> Rank:
    try:
        _used[_key(training)] = time.monotonic()
        return _ranks[_key(training)]
    except KeyError:
        raise RankGone(f"{_address()} has no rank of this training") from None


def _together(training: str, work: Any) -> Any:
    """Whoever fails hangs up, so that nobody waits for it. Other tasks go on meanwhile: if those of another training
    had to wait for this one's, and this one's for them on another worker, that would be for ever."""
    rank = _rank(training)
    secede()
    try:
        return work(rank)
    except BaseException:
        rank.leave()
        raise
