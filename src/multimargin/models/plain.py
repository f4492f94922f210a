"""A plain machine to a file, without scikit-learn."""

from __future__ import annotations

import os

import numpy as np

from multimargin.data.container import write_container
from multimargin.estimators.plain_linear import PlainLinearSVM
from multimargin.models.envelope import MODEL, wrap
from multimargin.models.fitted import write_linear
from multimargin.models.tree import Writer


def save_plain(model: PlainLinearSVM, path: str | os.PathLike) -> None:
    """As :func:`multimargin.models.save` saves the LinearSVM that it stands for."""
    arrays: dict[str, np.ndarray] = {}
    node = Writer("LinearSVM", arrays)
    write_linear(node, model, duals=True)
    write_container(path, MODEL, wrap(node.description()), arrays)
