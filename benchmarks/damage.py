"""Damaged files: every length that a file can be cut to and every byte of it changed must be refused.

    python benchmarks/damage.py            # every byte changed in four ways
    python benchmarks/damage.py --all      # in all 255 ways
    python benchmarks/damage.py --all --only kernel calibrated

Five models of different kinds, a checkpoint, and the two files of a store of blocks; all are tiny, so nothing is left
out. Prints how many were tried and how many were refused with the error that is documented, and fails if one was not.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from multimargin import KernelSVM, LinearSVM
from multimargin.data.blocks import BlocksError, open_blocks, write_blocks
from multimargin.linear.checkpoint import CheckpointError
from multimargin.models import ModelFormatError, load, save

X = np.round(np.random.default_rng(0).normal(size=(12, 3)), 2)
Y = np.arange(12) % 3
TEXTS = ["red green", "blue sky", "green field", "sky and sea", "red rose", "blue sea"]
MODELS: dict[str, Callable[[], Any]] = {
    "linear": lambda: LinearSVM().fit(X, np.array(["one", "two", "three"])[Y]),
    "one-vs-one": lambda: LinearSVM("one_vs_one").fit(X, Y),
    "kernel": lambda: KernelSVM().fit(X, Y),
    "text pipeline": lambda: make_pipeline(TfidfVectorizer(), LinearSVM()).fit(TEXTS, list("abaaab")),
    "calibrated": lambda: LinearSVM(probability=True).fit(X, Y),
}


def case_of_model(name: str, folder: Path) -> tuple[Path, Callable[[], Any], type[ValueError]]:
    """The file of a model, how it is read, and the error that is documented."""
    path = folder / f"{name}.model"
    save(MODELS[name](), path)
    return path, lambda: load(path), ModelFormatError


def case_of_checkpoint(folder: Path) -> tuple[Path, Callable[[], Any], type[ValueError]]:
    """A training that was interrupted."""
    path = folder / "checkpoint"

    def interrupt(record: Any) -> None:
        raise KeyboardInterrupt

    options: dict[str, Any] = {"solver": "sdm", "checkpoint": str(path), "checkpoint_every": 1e9}
    with contextlib.suppress(KeyboardInterrupt), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        LinearSVM(**options, callbacks=[interrupt]).fit(X, Y)
    return path, lambda: LinearSVM(**options).fit(X, Y), CheckpointError


def case_of_store(file: str, folder: Path) -> tuple[Path, Callable[[], Any], type[ValueError]]:
    """One of the files of a store."""
    store = write_blocks(folder / f"{file}.blocks", [(X, Y)])
    path = store.path / (store.entries[0].file if file == "block" else "manifest.json")
    return path, lambda: [len(block.y) for block in open_blocks(store.path)], BlocksError


def changes(content: bytes, masks: int | None, seed: int = 0) -> Iterator[tuple[int, int]]:
    """Places and what they are changed by; masks is how many random ones, after three that are always there."""
    rng = random.Random(seed)
    for place in range(len(content)):
        for mask in (
            range(1, 256) if masks is None else (0x01, 0x80, 0xFF, *(rng.randrange(2, 128) for _ in range(masks)))
        ):
            yield place, mask


def refused(read: Callable[[], Any], error: type[ValueError]) -> bool:
    """Whether it is refused as it should be; other exceptions come out."""
    try:
        read()
    except error:
        return True
    return False


def damage(
    path: Path, read: Callable[[], Any], error: type[ValueError], masks: int | None
) -> tuple[int, int, list[str]]:
    """Cut and change a file: how many of each, and which were not refused."""
    content, let_in = path.read_bytes(), []
    for length in reversed(range(len(content))):
        os.truncate(path, length)
        if not refused(read, error):
            let_in.append(f"cut to {length} bytes")
    path.write_bytes(content)
    changed = 0
    with path.open("r+b", buffering=0) as file:
        for place, mask in changes(content, masks):
            file.seek(place)
            file.write(bytes([content[place] ^ mask]))
            changed += 1
            if not refused(read, error):
                let_in.append(f"byte {place} xor {mask:#04x}")
                if not path.exists():  # a checkpoint that was gone on from
                    raise AssertionError(f"{path.name}: {let_in[-1]} was let in")
            file.seek(place)
            file.write(content[place : place + 1])
    return len(content), changed, let_in


def main() -> int:
    """All cases, a line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="all 255 changes of every byte, not four")
    parser.add_argument("--only", nargs="+", metavar="FILE", help="these, as the table calls them")
    args = parser.parse_args()
    masks = None if args.all else 1
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    total = bad = 0
    with tempfile.TemporaryDirectory(dir=memory) as name:
        folder = Path(name)
        cases: dict[str, Callable[[], tuple]] = {
            kind: (lambda kind=kind: case_of_model(kind, folder)) for kind in MODELS
        }
        cases["checkpoint"] = lambda: case_of_checkpoint(folder)
        cases |= {f"store: {file}": (lambda file=file: case_of_store(file, folder)) for file in ("manifest", "block")}
        for kind in set(args.only or cases) - set(cases):
            parser.error(f"there is no {kind!r}; there are: {', '.join(cases)}")
        print(f"{'file':16} {'bytes':>6} {'cut':>6} {'changed':>8} {'refused':>8}  with")
        for kind in args.only or cases:
            path, read, error = cases[kind]()
            n_bytes, changed, let_in = damage(path, read, error, masks)
            tried = n_bytes + changed
            print(
                f"{kind:16} {n_bytes:6} {n_bytes:6} {changed:8} {tried - len(let_in):8}  {error.__name__}", flush=True
            )
            for what in let_in[:5]:
                print(f"    let in: {what}")
            total, bad = total + tried, bad + len(let_in)
            if "store" not in kind and "checkpoint" not in kind:
                read()  # whole again
    print(f"{total} damaged files, {total - bad} refused, {bad} let in")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
