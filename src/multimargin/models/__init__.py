"""Models in files: safetensors with a checksum, no pickle; LIBLINEAR's and LIBSVM's text; ONNX.

Nothing heavy is imported before it is needed: :func:`load_light` gives predictions without scikit-learn.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from multimargin.models.errors import ModelFormatError

# Public name -> module that defines it; loaded on first use (PEP 562).
_PUBLIC = {
    "load_light": "multimargin.models.light",
    "read_liblinear": "multimargin.models.liblinear",
    "read_libsvm": "multimargin.models.libsvm",
    "write_liblinear": "multimargin.models.liblinear",
    "write_libsvm": "multimargin.models.libsvm",
    "write_onnx": "multimargin.models.onnx",
}

__all__ = ["ModelFormatError", "load", "save", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        value = getattr(importlib.import_module(_PUBLIC[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'multimargin.models' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_PUBLIC))


def save(model: Any, path: str | os.PathLike, *, duals: bool = True) -> None:
    """Write a fitted model to a file.

    The file holds arrays and a description in JSON, in the safetensors layout, under one checksum. It is written
    atomically: whatever fails, an old file of that name stays as it was.

    Parameters
    ----------
    model : LinearSVM, LinearSVMCV, KernelSVM, or a Pipeline that ends in one of them
        Steps of a pipeline may be TfidfVectorizer, CountVectorizer, HashingVectorizer, TfidfTransformer,
        StandardScaler, MinMaxScaler, MaxAbsScaler, Normalizer, OneHotEncoder, SimpleImputer, ColumnTransformer and
        Pipeline. Callables in them, vectorizers that read files, and other steps are refused by name.
    path : str or path
    duals : bool
        False leaves out what only training wants: ``history_`` and, of linear models, ``dual_coef_`` and ``support_``.
        The file is small, but the loaded model has no warm start and no ``label_doubt``.

    Raises
    ------
    TypeError
        If something in the model cannot be stored.
    ValueError
        If it could not predict: parts that do not fit each other, numbers that are not finite, a broken token_pattern.
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
    if not isinstance(path, str | bytes | os.PathLike):
        raise TypeError(f"load needs the path of a model file, got {type(path).__name__}")
    from multimargin.models.store import read

    return read(path)
