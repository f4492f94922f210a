"""Files that are there as a whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

# What to do about a write that failed.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_OTHERWISE = "check the disk, or write elsewhere"
_ADVICE = dict.fromkeys(_FULL, "make room, or write elsewhere") | {errno.EACCES: "write elsewhere"}


def checked_target(path: str | os.PathLike) -> Path:
    """Where a file will be written; what cannot work is refused here, before there is work to lose.

    Raises
    ------
    OSError
        If it is a folder, or in none.
    ValueError
        If no file can have such a name.
    """
    target = Path(os.fsdecode(path))
    if "\0" in str(target):  # of which Python says no more than that there is no such file
        raise ValueError(f"no file can be called {str(target)!r}, with a character NUL in it; give another name")
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; give the name of a file")
    if target.exists() and not target.is_file():  # /dev/stdout is a link to what has no path
        return target
    if target.is_symlink():  # the link stays one
        target = Path(os.path.realpath(target))
        if target.is_symlink():
            raise OSError(errno.ELOOP, "its links lead back to themselves; write elsewhere", str(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent} is not a folder; make it first, or write {target.name} elsewhere")
    return target


def special_kind(mode: int) -> str:
    """What something that is no file is, by its mode; nothing of a file."""
    kinds = {stat.S_ISDIR: "a folder", stat.S_ISFIFO: "a pipe", stat.S_ISSOCK: "a socket"}
    found = (kind for is_one, kind in kinds.items() if is_one(mode))
    return "" if stat.S_ISREG(mode) else next(found, "a device")


def write_atomically(path: str | os.PathLike, parts: Iterable[bytes | memoryview], *, sync: bool = True) -> None:
    """Write a file from its parts: under a name of its own first, then renamed.

    Whatever fails, a file that was there before stays as it was, and nothing else is left behind. Other programs see
    the old file or the new one. With ``sync`` (fsync of file and folder) that also holds when the machine stops.
    A pipe or a device, such as ``/dev/stdout``, is written to as it is.

    Raises
    ------
    OSError
        What the system says (no such folder, no permission, no space), of this file, and what to do.
    """
    target = checked_target(path)
    if target.exists() and not target.is_file():
        with naming(target), target.open("wb") as file:
            file.writelines(parts)
        return
    with naming(target):
        _replace(target, parts, sync)
    if sync:
        sync_folder(target.parent)


@contextlib.contextmanager
def naming(target: Path) -> Iterator[None]:
    """Around writes: what fails is said of the target, and what to do. The system tells of a descriptor, or of the name
    that the file has while it is written; users know the target."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise failed_write(error, target) from error


def failed_write(error: OSError, target: Path) -> OSError:
    """The error for a file, and what to do: to be raised."""
    advice, said = f"; {_ADVICE.get(error.errno or 0, _OTHERWISE)}", error.strerror or ""
    if error.errno == errno.EPIPE or said.endswith(advice):
        advice = ""
    return OSError(error.errno, f"{said}{advice}", str(target))


def _replace(target: Path, parts: Iterable[bytes | memoryview], sync: bool) -> None:
    temporary = target.parent / f"{_beginning(target)}{secrets.token_hex(8)}.part"
    # What replaces a file that only its owner reads is never, not even for a moment, readable by others.
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(temporary, flags, 0o666 if mode is None else 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(parts)
            file.flush()
            if mode is not None:
                os.chmod(temporary, mode)
            if sync:
                os.fsync(descriptor)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def remove_leftovers(target: Path) -> None:
    """What is left of writes that were killed. Only for files that nobody else writes."""
    for left in target.parent.glob(f"{_beginning(target)}*.part"):
        with contextlib.suppress(OSError):
            left.unlink()


def _beginning(target: Path) -> str:
    """Of the name that a file has while it is written; that of the target may already be as long as names can be."""
    return f".{hashlib.blake2b(os.fsencode(target.name), digest_size=8).hexdigest()}"


def sync_folder(folder: Path) -> None:
    """Make the new name last. Systems that cannot open folders do not need it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
