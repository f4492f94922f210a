"""Training from blocks on disk, for DATA that memory does not hold."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

from multimargin.commands.errors import DONE, INTERRUPTED, NOT_CONVERGED, CommandError, UsageError
from multimargin.commands.stored_rows import is_store
from multimargin.commands.terminal import Terminal
from multimargin.data.memory import memory_of_machine

_GROWTH = 2.0  # what a byte of text becomes in memory, at most
_PACKED = 5.0  # times more, if it is compressed
_BLOCK_SHARE = 24  # a block is this part of the memory at most, so that text can be parsed beside some of them
_SMALLEST_BLOCK = 1 / 256  # MB
_ZERO_BASED = {"auto": "auto", "yes": True, "no": False}


def is_past_memory(args: argparse.Namespace) -> bool:
    """Whether DATA is to be trained from blocks: it is a store, blocks are asked for, or it is text that may exceed the
    memory. Features of a table are made in memory."""
    if args.data.startswith("@") or not os.path.exists(args.data):
        return False
    if os.path.isdir(args.data):
        return is_store(args.data)
    if args.blocks is not None:
        return True
    if not os.path.isfile(args.data) or args.kernel:
        return False
    from multimargin.commands.datasets import format_of

    kind = format_of(args.data, args.format)
    packed = _PACKED if args.data.lower().endswith((".gz", ".bz2", ".xz")) else 1.0
    return kind == "svmlight" and os.path.getsize(args.data) * _GROWTH * packed > memory_mb(args) * 2**20


def memory_mb(args: argparse.Namespace) -> float:
    """As it was said, or half of what the machine, or the container, has."""
    if args.memory_mb is not None:
        return args.memory_mb
    has = memory_of_machine()
    return 4096.0 if has is None else has / 2 / 2**20


def write_store(
    args: argparse.Namespace, path: str, terminal: Terminal, *, block_mb: float, compress: bool = False
) -> Any:
    """DATA as a store of blocks."""
    from multimargin.data.blocks import write_blocks

    data = getattr(args, "data", None) or args.model
    if not os.path.exists(data):
        raise CommandError(f"{data}: there is no such file")
    terminal.status(f"writing {path}", now=True)
    options = {"n_features": getattr(args, "n_features", None), "label": args.label}
    options["zero_based"] = _ZERO_BASED[getattr(args, "zero_based", "auto")]
    try:
        return write_blocks(path, data, block_mb=block_mb, compress=compress, **options)
    except ValueError as error:
        raise CommandError(str(error)) from None


def train_on_blocks(args: argparse.Namespace, model: Any, terminal: Terminal) -> int:
    """Write the blocks, unless they are there, train on them, and write the model."""
    _refuse(args)
    from multimargin.data.atomic import naming
    from multimargin.data.blocks import BlocksError, open_blocks

    memory = memory_mb(args)
    target = Path(args.model).absolute()
    with naming(target):
        temporary = tempfile.TemporaryDirectory(prefix=".multimargin-", dir=target.parent)
    with temporary as folder:
        kept = args.data if os.path.isdir(args.data) else args.blocks
        try:
            if kept is not None and os.path.exists(kept):
                _check_older(args.data, kept, terminal)
                store = open_blocks(kept)
            else:
                path = kept or os.path.join(folder, "data.blocks")
                terminal.note(f"{args.data}: is trained from blocks on disk, within {memory:.0f} MB ({path})")
                store = write_store(
                    args, path, terminal, block_mb=max(_SMALLEST_BLOCK, min(64.0, memory / _BLOCK_SHARE))
                )
        except (BlocksError, FileNotFoundError) as error:
            raise CommandError(str(error)) from None
        return _train(args, model, store, memory, terminal)


def _check_older(data: str, blocks: str, terminal: Terminal) -> None:
    """Blocks that are there stand for DATA: they must have been written after it."""
    manifest = Path(blocks, "manifest.json")
    if os.path.isdir(data) or not os.path.exists(data) or not manifest.exists():
        return
    if os.stat(data).st_mtime_ns > manifest.stat().st_mtime_ns:
        raise CommandError(f"{data}: has changed since {blocks} was written; remove that folder, or name another one")
    terminal.note(f"{data}: is not read; the rows are those of {blocks}, which was written before")


def _is_svmlight(args: argparse.Namespace) -> bool:
    from multimargin.commands.datasets import format_of

    return not os.path.isdir(args.data) and format_of(args.data, args.format) == "svmlight"


def _refuse(args: argparse.Namespace) -> None:
    """What needs the rows in memory."""
    from multimargin.data.tables import is_table

    if is_table(args.data):
        raise UsageError(
            f"{args.data}: features of a table are made in memory: leave out --blocks. If all columns are numbers that "
            "need no scaling: multimargin convert TABLE DATA.blocks --label COL, and train on DATA.blocks"
        )
    for option in ("holdout", "valid", "folds", "find_C", "probability", "kernel", "checkpoint"):
        if getattr(args, option):
            name = {"folds": "-v", "find_C": "-C"}.get(option, f"--{option}")
            raise UsageError(
                f"{name} needs DATA in memory, and {args.data} is trained from blocks on disk; raise --memory-mb, or "
                f"leave out {name}"
            )


def _train(args: argparse.Namespace, model: Any, store: Any, memory: float, terminal: Terminal) -> int:
    from multimargin.commands.fitting import Fit, fit
    from multimargin.commands.machines import set_weights
    from multimargin.commands.model_files import save_or_rescue
    from multimargin.commands.train import as_options, tell
    from multimargin.models import save

    if store.classes.dtype.kind == "f":
        raise CommandError(f"{args.data}: classes must be whole numbers (for regression: sklearn.svm.LinearSVR)")
    set_weights(model, args.weight, store.classes, args.data)
    if store.zero_based and args.zero_based == "auto":
        terminal.note(f"{args.data}: indices start at 0")
    terminal.clear()
    model.set_params(verbose=int(terminal.live), memory_mb=memory)
    interrupted = False
    try:
        trained = fit(model, store, None)
    except KeyboardInterrupt:
        if not hasattr(model, "dual_gap_"):
            raise
        interrupted, trained = True, Fit(float(model.history_["seconds"][-1]) if len(model.history_) else 0.0)
    except ValueError as error:
        raise CommandError(f"{args.data}: {error}") from None
    model.set_params(verbose=0)
    if store.zero_based or _is_svmlight(args):  # else the rows of a store may have come from anywhere
        model.first_index_ = 0 if store.zero_based else 1
    terminal.status(f"writing {args.model}", now=True)
    save_or_rescue(lambda path: save(model, path), args.model)
    score = float(model.score(store))
    shape = (store.n_rows, store.n_features)
    tell(args, terminal, model, shape, trained.seconds, score, store.n_rows, "the training rows")
    if interrupted:
        terminal.warn(f"interrupted: {args.model} holds the model as it was last certified")
        return INTERRUPTED
    if not model.converged_:
        terminal.warn(f"{as_options(trained.why_not)}; {args.model} holds the model as far as it came")
        return NOT_CONVERGED
    return DONE
