"""Where a command may write: refused before any work is done for it, and never what may be somebody's data."""

from __future__ import annotations

import os
from pathlib import Path

from multimargin.commands.errors import CommandError
from multimargin.commands.given_paths import check_name
from multimargin.commands.model_files import BEGINNING, begins_as_model

_OUR_REPORT = b'<meta name="generator" content="multimargin'  # near the beginning


def check_output(
    path: str, *, apart_from: tuple[str, ...] = (), outputs: tuple[str, ...] = (), replaces: str | None = None
) -> None:
    """Refuse a path that cannot be written, before any work is done for it; nor may it be one of the inputs, or of the
    other outputs.

    Where a model or a report is to be written, only such a file is replaced: what else is there may be data that was
    meant to be read. A pipe or a device needs no folder that can be written.
    """
    if not path or path.endswith(("/", os.sep)):
        raise CommandError(f"{path!r}: the output needs the name of a file")
    if path == "-" and replaces is not None:
        raise CommandError(f"-: a {replaces} is not written to standard output; give the name of a file")
    check_name(path)
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        _check_writable(path)
        return
    real = os.path.realpath(path)
    if os.path.islink(real):
        raise CommandError(f"{path}: its links lead back to themselves; choose another name")
    if any(_is_same(path, other) for other in apart_from if other):
        raise CommandError(f"{path}: is also an input, which would be lost; choose another name")
    if any(_is_same(path, other) for other in outputs if other):
        raise CommandError(f"{path}: is named for two outputs, and one would replace the other; choose another name")
    folder = Path(path).parent
    if not folder.exists():
        raise CommandError(f"{path}: there is no folder {folder}; make it first")
    if not folder.is_dir():
        raise CommandError(f"{path}: {folder} is not a folder")
    if os.path.isdir(path):
        raise CommandError(f"{path}: is a folder; the output needs the name of a file")
    if os.path.islink(path):  # the file is made beside the one that it will replace
        folder = Path(real).parent
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CommandError(f"{path}: no permission to write into {folder}")
    if not os.path.exists(path):
        return
    _check_writable(path)
    begins = {"model": _begins_as_model, "report": _begins_as_report}.get(replaces or "")
    if begins is not None and os.path.getsize(path) and not begins(path):
        raise CommandError(
            f"{path}: exists and is no {replaces}, and would be lost; delete it first, or choose another name"
        )


def _is_same(path: str, other: str) -> bool:
    """Whether two names are of one file, also of one that is not there yet."""
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    try:
        return os.path.realpath(path) == os.path.realpath(other)
    except FileNotFoundError:  # the working directory is gone, and with it all that is named by its place there
        return False


def _check_writable(path: str) -> None:
    if not os.access(path, os.W_OK):
        raise CommandError(f"{path}: exists, and may not be written")


def _begins_as_model(path: str) -> bool:
    with open(path, "rb") as file:
        return begins_as_model(file.read(BEGINNING))


def _begins_as_report(path: str) -> bool:
    with open(path, "rb") as file:
        return _OUR_REPORT in file.read(4096)
