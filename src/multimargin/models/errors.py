"""What is wrong with a file of a model."""

from __future__ import annotations

import os


class ModelFormatError(ValueError):
    """A file is not a model that can be loaded: which file, what is wrong with it, what to do."""


def refuse(path: str | os.PathLike, what: str, advice: str = "") -> ModelFormatError:
    """The error for a file, to be raised."""
    return ModelFormatError(f"{os.fspath(path)!s}: {what}{'; ' + advice if advice else ''}")
