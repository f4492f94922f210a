"""What every description begins with: name and version of the format, who wrote it, and the model."""

from __future__ import annotations

import os
from typing import Any

from multimargin import __version__
from multimargin.data.container import Kind, read_container
from multimargin.models.errors import ModelFormatError, refuse
from multimargin.models.tree import Reader

FORMAT = "multimargin model"
VERSION = 1
MODEL = Kind(
    "model", ModelFormatError, "copy it anew, or save the model again", "load reads what multimargin.save wrote"
)


def wrap(model: dict[str, Any], **libraries: str) -> dict[str, Any]:
    """The description of a file whose model is described so."""
    return {
        "format": FORMAT,
        "format_version": VERSION,
        "versions": {"multimargin": __version__} | libraries,
        "model": model,
    }


def open_model(path: str | os.PathLike) -> Reader:
    """The topmost node of a file."""
    description, arrays = read_container(path, MODEL)
    if set(description) != {"format", "format_version", "versions", "model"} or description["format"] != FORMAT:
        raise refuse(path, "the description is not one of a model of multimargin", "save the model again")
    version, versions = description["format_version"], description["versions"]
    if type(version) is not int or version < 1:
        raise refuse(path, f"the version of the format cannot be {version!r}", "save the model again")
    if not isinstance(versions, dict) or not all(type(told) is str for told in versions.values()):
        raise refuse(path, "versions must name who wrote the file", "save the model again")
    if version > VERSION:
        raise refuse(
            path,
            f"the version of the format is {version}, written by multimargin {versions.get('multimargin', '?')}; "
            f"this is multimargin {__version__}, which reads versions up to {VERSION}",
            "upgrade multimargin",
        )
    return Reader(path, description["model"], arrays)
