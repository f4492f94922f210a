"""Training from blocks on disk, for DATA that memory does not hold."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

from multimargin.commands.checkpoints import Ending, has_checkpoint
from multimargin.commands.errors import CommandError, UsageError
from multimargin.commands.given_paths import is_there
from multimargin.commands.reused_folder import reused_folder
from multimargin.commands.stored_rows import is_store
from multimargin.commands.terminal import Terminal
from multimargin.data.memory import in_mb, memory_of_machine

_GROWTH = 2.0  # what a byte of text becomes in memory, at most
_PACKED = 5.0  # times more, if it is compressed
_BLOCK_SHARE = 24  # a block is this part of the memory at most, so that text can be parsed beside some of them
_SMALLEST_BLOCK = 1 / 256  # MB
_STORE = "data.blocks"
_TABLES = ("csv", "tsv", "parquet")
_ZERO_BASED = {"auto": "auto", "yes": True, "no": False}
# What needs the rows in memory, by the names of the options.
_IN_MEMORY = {
    "holdout": "--holdout",
    "valid": "--valid",
    "folds": "-v",
    "find_C": "-C",
    "probability": "--probability",
    "kernel": "--kernel",
}


def is_past_memory(args: argparse.Namespace) -> bool:
    """Whether DATA is to be trained from blocks: it is a store, blocks are asked for, or it is text that may exceed the
    memory. Of a table its columns decide: :func:`table_past_memory`."""
    if args.data.startswith("@") or not os.path.exists(args.data):
        return False
    if os.path.isdir(args.data):
        return is_store(args.data)
    if args.blocks is not None:
        return True
    if not os.path.isfile(args.data) or args.kernel:
        return False
    from multimargin.commands.datasets import format_of

    return format_of(args.data, args.format) == "svmlight" and _bytes_of_text(args.data) > memory_mb(args) * 2**20


def table_past_memory(args: argparse.Namespace, model: Any, terminal: Terminal) -> tuple[Any, str]:
    """A table that is to be trained from blocks, as it may exceed the memory: it is read once here. Else None and, of
    one that may, why it is trained in memory."""
    from multimargin.commands.datasets import format_of, note_fractions, wanted_of
    from multimargin.data.table_lines import CutShort, TableError
    from multimargin.data.tables import suffix_of
    from multimargin.linear.solvers import STREAMING
    from multimargin.problems.formulations import PAIRWISE

    if args.data.startswith("@") or not os.path.isfile(args.data) or args.label is None:
        return None, ""
    kind = format_of(args.data, args.format)
    if kind not in _TABLES or _bytes_in_memory(args.data, kind) <= memory_mb(args) * 2**20:
        return None, ""
    if needing := _needing_memory(args):
        return None, f"{needing[0]} needs all rows there"
    if args.text or args.categorical:
        return None, "features of text and categories are made there"
    if model.formulation in PAIRWISE or model.solver not in STREAMING or model.stopping != "gap":
        return None, "blocks are for other formulations, solvers or stoppings"
    if suffix_of(args.data) != f".{kind}":
        return None, f"its name does not end with .{kind}"
    from multimargin.commands.streamed_table import learn_table

    terminal.status(f"reading {args.data}", now=True)
    try:
        table = learn_table(args.data, args.label, wanted_of(args), memory_mb(args))
    except CutShort:
        raise
    except TableError as error:
        return None, str(error).removeprefix(f"{args.data}: ")
    note_fractions(table.labels, args.label, args.data, terminal)
    return table, ""


def note_in_memory(args: argparse.Namespace, terminal: Terminal, why_table: str = "") -> None:
    """Say so where DATA may exceed the memory and is trained there all the same."""
    from multimargin.commands.datasets import format_of

    if args.data.startswith("@") or not os.path.isfile(args.data):
        return
    kind = format_of(args.data, args.format)
    needed, memory = _bytes_in_memory(args.data, kind) / 2**20, memory_mb(args)
    if needed <= memory:
        return
    if args.kernel:
        why = "kernel machines are; linear ones (without --kernel) can be trained from blocks on disk"
    elif kind == "npz":
        why = (
            "an .npz file is read as a whole; write blocks from parts of it (multimargin.data.write_blocks), and train "
            "on those"
        )
    else:
        why = f"{why_table or 'which column holds the labels?'}; tables of numbers, with none missing, are not"
    bound = "half of the memory" if args.memory_mb is None else f"--memory-mb {memory:g}"
    much = f"may take {needed:.3g} MB, which is more than {bound}"
    terminal.note(f"{args.data}: {much}, and is trained in memory: {why}")


def _bytes_of_text(path: str) -> float:
    packed = _PACKED if path.lower().endswith((".gz", ".bz2", ".xz")) else 1.0
    return os.path.getsize(path) * _GROWTH * packed


def _bytes_in_memory(path: str, kind: str) -> float:
    """What DATA becomes, about; of files that cannot be read, which others will tell, any number."""
    try:
        if kind == "npz":
            from zipfile import ZipFile

            with ZipFile(path) as file:
                return sum(part.file_size for part in file.infolist())
        if kind == "parquet":
            from pyarrow.parquet import read_metadata

            described = read_metadata(path)
            return described.num_rows * described.num_columns * 8
    except Exception:
        return 0
    return _bytes_of_text(path)


def memory_mb(args: argparse.Namespace) -> float:
    """As it was said, or half of what the machine, or the container, has."""
    if args.memory_mb is not None:
        return args.memory_mb
    has = memory_of_machine()
    return 4096.0 if has is None else has / 2 / 2**20


def write_store(
    args: argparse.Namespace,
    path: str,
    terminal: Terminal,
    *,
    block_mb: float,
    compress: bool = False,
    table: Any = None,
) -> Any:
    """DATA as a store of blocks; a table as it was learnt."""
    from multimargin.data.blocks import write_blocks

    data = getattr(args, "data", None) or args.model
    if not is_there(data):
        raise CommandError(f"{data}: there is no such file")
    terminal.status(f"writing {path}", now=True)
    options = {"n_features": getattr(args, "n_features", None), "label": args.label}
    options["zero_based"] = _ZERO_BASED[getattr(args, "zero_based", "auto")]
    try:
        source = data if table is None else table.chunks()
        return write_blocks(path, source, block_mb=block_mb, compress=compress, **options)
    except ValueError as error:
        raise CommandError(str(error)) from None


def train_on_blocks(args: argparse.Namespace, model: Any, terminal: Terminal, ending: Ending, table: Any = None) -> int:
    """Write the blocks, unless they are there, train on them, and write the model. A table: as it was learnt."""
    if table is None:
        _refuse(args)
    from multimargin.data.atomic import naming
    from multimargin.data.blocks import BlocksError, open_blocks

    memory = memory_mb(args)
    block_mb = max(_SMALLEST_BLOCK, min(64.0, memory / _BLOCK_SHARE))
    kept = args.data if os.path.isdir(args.data) else args.blocks
    target = Path(args.model).absolute()
    with contextlib.ExitStack() as held:
        try:
            if kept is not None and os.path.exists(kept):
                _check_older(args.data, kept, terminal)
                store = open_blocks(kept)
            else:
                path = kept
                if path is None:
                    left = (_STORE, f"{_STORE}.part")
                    with naming(target):
                        source = _source(args, block_mb)
                        # A training that goes on will want its blocks again.
                        folder = reused_folder(target.parent, args.data, source, left, lambda: has_checkpoint(args))
                        path = str(held.enter_context(folder) / _STORE)
                terminal.note(f"{args.data}: is trained from blocks on disk, within {in_mb(memory * 2**20)} ({path})")
                store = _left_before(path, terminal) or write_store(
                    args, path, terminal, block_mb=block_mb, table=table
                )
        except (BlocksError, FileNotFoundError) as error:
            raise CommandError(str(error)) from None
        return _train(args, model, store, memory, terminal, ending, table)


def _source(args: argparse.Namespace, block_mb: float) -> bytes:
    """All that the blocks depend on."""
    from multimargin import __version__

    found = os.stat(args.data)
    data = [os.path.realpath(args.data), found.st_size, found.st_mtime_ns]
    columns = [args.label, args.numeric, args.drop]
    return json.dumps([__version__, data, block_mb, args.n_features, args.zero_based, columns]).encode()


def _left_before(path: str, terminal: Terminal) -> Any:
    """The store that a killed training left, if it is whole; else None, and nothing in the way."""
    from multimargin.data.blocks import BlocksError, open_blocks

    if not os.path.exists(path):
        return None
    try:
        store = open_blocks(path)
    except (BlocksError, FileNotFoundError):
        shutil.rmtree(path)
        return None
    terminal.note(f"{path}: these blocks were left by a training that did not come to its end, and are used")
    return store


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
            f"{args.data}: blocks of a table are not kept, as the model has to know how its columns were scaled: leave "
            "out --blocks. If all columns are numbers that need no scaling: multimargin convert TABLE DATA.blocks "
            "--label COL, and train on DATA.blocks"
        )
    for name in _needing_memory(args):
        raise UsageError(
            f"{name} needs DATA in memory, and {args.data} is trained from blocks on disk; raise --memory-mb, or "
            f"leave out {name}"
        )


def _needing_memory(args: argparse.Namespace) -> list[str]:
    return [name for option, name in _IN_MEMORY.items() if getattr(args, option)]


def _train(
    args: argparse.Namespace, model: Any, store: Any, memory: float, terminal: Terminal, ending: Ending, table: Any
) -> int:
    from multimargin.commands.fitting import Features
    from multimargin.commands.machines import set_weights
    from multimargin.commands.train import fit_and_write, how_it_ended, tell

    if store.classes.dtype.kind == "f":
        raise CommandError(f"{args.data}: classes must be whole numbers (for regression: sklearn.svm.LinearSVR)")
    set_weights(model, args.weight, store.classes, args.data, terminal)
    if store.zero_based and args.zero_based == "auto":
        terminal.note(f"{args.data}: indices start at 0")
    model.set_params(memory_mb=memory)
    features = Features(None if table is None else table.transformer)
    # The rows of a store may have come from anywhere.
    first_index = 0 if store.zero_based else 1 if _is_svmlight(args) else None
    trained = fit_and_write(args, model, (store, None), features, first_index, terminal, ending)
    shape = (store.n_rows, store.n_features)
    tell(args, terminal, model, shape, trained.seconds, float(model.score(store)), store.n_rows, "the training rows")
    return how_it_ended(args, model, trained, terminal)
