"""Models in files: safetensors with a checksum, no pickle; LIBLINEAR's and LIBSVM's text; ONNX.

Nothing heavy is imported before it is needed: :mod:`multimargin.models.light` predicts without scikit-learn.
"""

from __future__ import annotations

import os
from typing import Any

from multimargin.models.errors import ModelFormatError

__all__ = ["ModelFormatError", "load", "save"]


def save(model: Any, path: str | os.PathLike, *, duals: bool = True) -> None:
    """Write a fitted model to a file.

    The file holds arrays and a description in JSON, in the safetensors layout, under one checksum. It is written
    atomically: whatever fails, an old file of that name stays as it was.

    Parameters
    ----------
    model : LinearSVM, LinearSVMCV, KernelSVM, or a Pipeline that ends in one of them
        Steps of a pipeline may be TfidfVectorizer, CountVectorizer, HashingVectorizer, TfidfTransformer,
        StandardScaler, MinMaxScaler, MaxAbsScaler, Normalizer, OneHotEncoder, SimpleImputer, ColumnTransformer and
        Pipeline. Callables in them, and other steps, are refused by name.
    path : str or path
    duals : bool
        False leaves out what only training wants: ``history_`` and, of linear models, ``dual_coef_`` and ``support_``.
        The file is small, but the loaded model has no warm start and no ``label_doubt``.

    Raises
    ------
    TypeError
        If something in the model cannot be stored.
    NotFittedError
        If it is not fitted.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from multimargin import LinearSVM
    >>> from multimargin.models import load, save
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearSVM().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, os.path.join(folder, "iris.mm"))
    ...     again = load(os.path.join(folder, "iris.mm"))
    >>> bool((again.decision_function(X) == model.decision_function(X)).all())
    True
    """
    from multimargin.models.store import write

    write(model, path, duals=duals)


def load(path: str | os.PathLike) -> Any:
    """Read a model that :func:`save` wrote. It predicts the same bits.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    the model

    Raises
    ------
    ModelFormatError
        If the file is damaged, of a newer version, or something else, such as a pickle, which is never read.
    OSError
        If it cannot be read.
    """
    from multimargin.models.store import read

    return read(path)
