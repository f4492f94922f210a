"""A folder that one program at a time writes into."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where folders cannot be locked
    fcntl = None  # type: ignore[assignment]


class FolderInUse(OSError):
    """Another program writes into the folder."""


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Make the folder, if it is not there, and keep others out of this function while it is used.

    The system takes the lock away when the program ends, however it ends: nothing is left behind. It stays with the
    folder when that is renamed. A file system without locks (some that are mounted over a network) has none here.

    Raises
    ------
    FolderInUse
        If another program, or another thread, is here with the same folder.
    """
    if fcntl is None:
        folder.mkdir(exist_ok=True)
        yield
        return
    descriptor = _opened(folder)
    try:
        yield
    finally:
        os.close(descriptor)


def _opened(folder: Path) -> int:
    """A descriptor of the folder that has its lock."""
    while True:
        folder.mkdir(exist_ok=True)
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue  # renamed in between, by the one who was here before
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise FolderInUse(
                f"{folder}: another program is writing there; wait for it, or choose another name"
            ) from None
        except OSError:
            return descriptor
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(folder)):
                return descriptor
        os.close(descriptor)
