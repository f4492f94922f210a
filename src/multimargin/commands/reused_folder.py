"""A folder whose content a killed program leaves to the next one."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

_SOURCE = "source.json"


@contextlib.contextmanager
def reused_folder(
    parent: Path, data: str, source: bytes, reusable: tuple[str, ...], wanted: Callable[[], bool]
) -> Iterator[Path]:
    """A folder for what is made of a file, removed at the end, unless it is ``wanted`` then.

    Its name is made of the file's, so that what a killed program left is found by the next one: the ``reusable`` parts
    stay, if ``source``, all that they depend on, is the same, and else nothing does. Programs at the same time have a
    folder each. Where folders cannot be locked nobody knows whether one is in use: the name is random there, and what
    is left stays.
    """
    from multimargin.data.atomic import write_atomically
    from multimargin.data.folder_lock import locked_folder

    name = f".multimargin-{hashlib.sha256(os.fsencode(os.path.realpath(data))).hexdigest()[:16]}"
    with contextlib.ExitStack() as held:
        folder = _locked_among(parent, name, held)
        if folder is None:
            scratch = tempfile.TemporaryDirectory(prefix=".multimargin-", dir=parent, ignore_cleanup_errors=True)
            yield Path(held.enter_context(scratch))
            return
        for other in parent.glob(f"{name}-*"):
            with contextlib.suppress(OSError):  # in use, or just removed
                if other != folder and _is_own(other):
                    with locked_folder(other):
                        shutil.rmtree(other)
        same = (folder / _SOURCE).is_file() and (folder / _SOURCE).read_bytes() == source
        _empty(folder, (_SOURCE, *reusable) if same else ())
        try:
            write_atomically(folder / _SOURCE, [source])
            yield folder
        finally:
            if not wanted():
                shutil.rmtree(folder, ignore_errors=True)


def _locked_among(parent: Path, name: str, held: contextlib.ExitStack) -> Path | None:
    """The first of the folders NAME-0, NAME-1, ... that nobody uses, locked; None where there are no locks."""
    from multimargin.data.folder_lock import FolderInUse, locked_folder

    for number in itertools.count():
        folder = parent / f"{name}-{number}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)  # the rows may be nobody else's business
        if not _is_own(folder):
            continue
        try:
            held.enter_context(locked_folder(folder))
        except FolderInUse:
            continue
        try:
            with locked_folder(folder):
                pass
        except FolderInUse:  # as it should be
            folder.chmod(0o700)
            return folder
        held.close()
        with contextlib.suppress(OSError):
            folder.rmdir()
        return None
    raise AssertionError


def _is_own(folder: Path) -> bool:
    """Whether it is a folder of this user: anybody can know the name, and may have put something there."""
    with contextlib.suppress(FileNotFoundError):
        found = folder.lstat()
        return stat.S_ISDIR(found.st_mode) and (not hasattr(os, "getuid") or found.st_uid == os.getuid())
    return False


def _empty(folder: Path, but: tuple[str, ...]) -> None:
    for inside in folder.iterdir():
        if inside.name in but:
            continue
        if inside.is_dir() and not inside.is_symlink():
            shutil.rmtree(inside)
        else:
            inside.unlink()
