"""Models and pipelines to files and back; see :func:`multimargin.models.save`."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import sklearn

from multimargin.data.container import write_container
from multimargin.models.envelope import MODEL, open_model, wrap
from multimargin.models.pipelines import check_machine, read_model, write_model
from multimargin.models.tree import Reader, Writer


def write(model: Any, path: str | os.PathLike, *, duals: bool = True) -> None:
    """Save."""
    check_machine(model)
    arrays: dict[str, np.ndarray] = {}
    node = Writer(type(model).__name__, arrays)
    write_model(node, model, duals)
    write_container(path, MODEL, wrap(node.description(), **{"scikit-learn": sklearn.__version__}), arrays)


def read(path: str | os.PathLike) -> Any:
    """Load."""
    return read_node(open_model(path))


def read_node(node: Reader) -> Any:
    """The model of a file that is open."""
    model = read_model(node)
    try:
        check_machine(model)
    except TypeError:
        raise node.wrong("it does not end in a machine") from None
    return model
