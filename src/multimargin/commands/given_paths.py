"""Names of files as they were given: whether something is there, and what keeps a name from being one."""

from __future__ import annotations

import errno
import os

from multimargin.commands.errors import CommandError


def is_there(path: str) -> bool:
    """Whether something has this name.

    Raises
    ------
    PermissionError
        If a folder on the way may not be searched: nobody can say, then.
    CommandError
        If no file can be called so.
    """
    check_name(path)
    try:
        os.stat(path)
    except PermissionError:
        raise
    except (OSError, ValueError):
        return False
    return True


def check_name(path: str) -> None:
    """Refuse a name that is too long, or relative to a working directory that is gone."""
    try:
        os.lstat(path)
    except (OSError, ValueError) as error:
        if getattr(error, "errno", None) == errno.ENAMETOOLONG:
            size = len(os.fsencode(os.path.basename(path)))
            raise CommandError(
                f"{path}: is too long for a file there (a name of {size} bytes); choose a shorter one"
            ) from None
        if not os.path.isabs(path) and _working_directory_is_gone():
            raise CommandError(
                f"{path}: the working directory is gone; change to one that is there, or give a path from the root on"
            ) from None


def _working_directory_is_gone() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False
