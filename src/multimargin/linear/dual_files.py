"""The duals of blocks on disk, one file a block.

Duals that are written get a new name. So a state (checkpoint.py) can refer to them by name: what the last state on
disk refers to stays as it is, whatever training does meanwhile, until the next state is there. Whoever goes on from a
state finds its duals, and overwrites what was written after it.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np

from multimargin import _core
from multimargin.data.atomic import failed_write, sync_folder
from multimargin.data.container import Kind, read_container, write_container
from multimargin.linear.checkpoint import CheckpointError, FilesBeside
from multimargin.linear.state import State, number

_ANEW = "delete the checkpoint that it belongs to, to train from the beginning"
_KIND = Kind("file of duals", CheckpointError, _ANEW, _ANEW)
_FORMAT = {"format": "multimargin duals", "format_version": 1}
_PARTS = ("value", "lane", "indptr")
_OWN = re.compile(r"duals-\d+-\d+|\.[0-9a-f]+\.part")  # and those of writes that were cut short
_MOST_TURNS = 1 << 62


class DualsNotKept(Exception):
    """A block's duals cannot be written, as the disk is full, say; the error says why."""

    def __init__(self, error: OSError):
        super().__init__(str(error))
        self.error = error


class DualFiles(FilesBeside):
    """The duals of all blocks, in a folder that nobody else writes into.

    A block is known by its number, its file by the turn in which it was written, counted over all blocks; 0: never, its
    duals are zero.
    """

    def __init__(self, folder: Path, n_blocks: int):
        self.folder = folder
        self._turn = 0
        self._turns = np.zeros(n_blocks, np.int64)
        self._checksums = np.zeros(n_blocks, np.int64)
        self._unseen: set[int] = set()  # blocks whose files another process wrote
        self._on_disk: set[str] = set()  # files that the state on disk refers to,
        self._asked: set[str] = set()  # and the one that was last asked for
        self._lasting: set[str] = set()  # files that outlast a power cut

    def keep(self, block_number: int, block: _core.Block) -> None:
        """Write the duals of a block."""
        before, turn = self._name(block_number), self._turn + 1
        duals = dict(zip(_PARTS, block.duals(), strict=True))
        path = self.folder / _name(block_number, turn)
        try:
            write_container(path, _KIND, _FORMAT, duals, sync=False)
        except OSError as error:
            raise DualsNotKept(failed_write(error, self.folder)) from error
        self._turn = self._turns[block_number] = turn
        self._checksums[block_number] = _checksum(duals)
        self._unseen.discard(block_number)
        if before not in self._on_disk | self._asked:
            self._remove([before])

    def give(self, block_number: int, block: _core.Block, check: Callable[[_core.Block], None]) -> None:
        """Give a new block the duals that were last kept. ``check`` refuses impossible ones by a ValueError."""
        if not self._turns[block_number]:
            return
        path = self.folder / self._name(block_number)
        try:
            description, duals = read_container(path, _KIND)
        except FileNotFoundError:
            raise _KIND.refuse(path, "these duals are missing", _ANEW) from None
        if block_number not in self._unseen:
            block.set_duals(*(duals[name] for name in _PARTS))
            return
        if description != _FORMAT or set(duals) != set(_PARTS) or _checksum(duals) != self._checksums[block_number]:
            raise _KIND.refuse(path, "these are not the duals that the checkpoint refers to", _ANEW)
        try:
            block.set_duals(*(duals[name] for name in _PARTS))
            check(block)
        except (IndexError, TypeError, ValueError) as error:
            raise _KIND.refuse(path, f"its content does not hold together ({error})", _ANEW) from error
        self._unseen.discard(block_number)

    # Checkpoints

    def state(self) -> State:
        """Which files there are; they stay until another state is written."""
        self._asked = self._names()
        return {"turn": np.array([self._turn]), "turns": self._turns.copy(), "checksums": self._checksums.copy()}

    def set_state(self, state: State) -> None:
        """Go on with files that another process wrote. Those that it wrote later are removed."""
        turns, checksums, turn = state["turns"], state["checksums"], number(state, "turn")
        for values in (turns, checksums):
            if values.dtype != np.int64 or values.shape != self._turns.shape:
                raise ValueError(f"duals must be of {len(self._turns)} blocks")
        if type(turn) is not int or not (turns.min() >= 0 and turns.max() <= turn < _MOST_TURNS):
            raise ValueError("duals of a turn that has not been")
        self._turn, self._turns, self._checksums = turn, turns.copy(), checksums.copy()
        self._unseen = set(np.flatnonzero(turns).tolist())
        self._on_disk = self._asked = self._lasting = self._names()
        missing = [name for name in sorted(self._on_disk) if not (self.folder / name).is_file()]
        if missing:
            raise _KIND.refuse(self.folder / missing[0], "these duals are missing", _ANEW)
        self._sweep(self._on_disk)

    def make_last(self) -> None:
        for name in self._asked - self._lasting:
            descriptor = os.open(self.folder / name, os.O_RDWR)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        if self._asked - self._lasting:
            sync_folder(self.folder)
        self._lasting = set(self._asked)

    def state_is_written(self) -> None:
        self._on_disk = self._asked
        self._sweep(self._on_disk | self._names())

    def state_is_removed(self) -> None:
        self._sweep(set())
        with suppress(OSError):  # somebody put something else there
            self.folder.rmdir()

    def begin(self) -> None:
        """Without a state: what a killed process left is of no use."""
        self._sweep(set())

    def _sweep(self, but: set[str]) -> None:
        with suppress(OSError):
            self._remove(name for name in os.listdir(self.folder) if _OWN.fullmatch(name) and name not in but)

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            with suppress(OSError):
                (self.folder / name).unlink()

    def _names(self) -> set[str]:
        return {self._name(block) for block in np.flatnonzero(self._turns).tolist()}

    def _name(self, block_number: int) -> str:
        return _name(block_number, int(self._turns[block_number]))


def _name(block_number: int, turn: int) -> str:
    return f"duals-{block_number:06d}-{turn:06d}"


def _checksum(duals: State) -> int:
    checksum = 0
    for name in _PARTS:
        checksum = zlib.crc32(np.ascontiguousarray(duals[name]).view(np.uint8).data, checksum)
    return checksum
