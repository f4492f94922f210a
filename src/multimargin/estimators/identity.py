"""What a fit is about, by name and in words, so that a checkpoint of another one can be told by what differs."""

from __future__ import annotations

import hashlib
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin.data.rows import canonical

# Parameters without influence on what is trained; those that say when to stop may be changed to go on.
_FREE = (
    "verbose",
    "callbacks",
    "checkpoint",
    "checkpoint_every",
    "max_iter",
    "time_limit",
    "warm_start",
    "probability",
    "decision_function_shape",
    "break_ties",
)
_CHUNK = 1 << 20
_ROWS_OF_A_KERNEL = 6


def identity(model: Any, X: Any, labels: np.ndarray, weight: np.ndarray, request: Any) -> dict[str, str]:
    """Parameters as they are written, data with a digest behind a ``#``."""
    told = {
        "the estimator": model._name,
        "X": _told(X),
        "y": f"labels of {len(model.classes_)} classes #{_digest(labels, *_as_arrays(model.classes_))}",
        "sample_weight": f"given #{_digest(weight)}" if np.any(weight != 1) else "None",
        "the start (warm_start)": "zero" if request.start_duals is None else _told(request.start_duals),
    }
    for name, value in model.get_params(deep=False).items():
        if name not in _FREE:
            told[name] = _word(value)
    kernel = getattr(request, "kernel", None)
    if kernel is not None and kernel.name == "callable":  # of which the name says little
        few = X[:_ROWS_OF_A_KERNEL]
        told["kernel"] += f" #{_digest(kernel.block(few, few).astype(np.float32))}"
    told["n_jobs"] = str(request.n_threads)
    told["random_state"] = (
        f"{_word_of_state(model.random_state)} #{request.seed}"  # what was drawn, for one that draws on
    )
    return told


def _told(X: Any) -> str:
    if not sp.issparse(X):
        return f"{X.shape[0]} x {X.shape[1]} dense {X.dtype} #{_digest(X)}"
    X = canonical(X)
    return f"{X.shape[0]} x {X.shape[1]} sparse {X.dtype} #{_digest(X.data, X.indices, X.indptr)}"


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{_word(key)}: {_word(item)}" for key, item in value.items())) + "}"
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, Real):
        return repr(float(value))
    if callable(value):
        return getattr(value, "__qualname__", type(value).__qualname__)
    return repr(value)


def _word_of_state(state: Any) -> str:
    return str(state) if state is None or isinstance(state, Integral) else type(state).__name__


def _as_arrays(classes: np.ndarray) -> tuple[np.ndarray, ...]:
    if classes.dtype.kind != "O":
        return (classes,)
    text = [repr(label).encode() for label in classes]
    return np.array([len(word) for word in text]), np.frombuffer(b"".join(text), dtype=np.uint8)


def _digest(*arrays: np.ndarray) -> str:
    """Of the values; whole numbers of any width are the same."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        flat = np.ascontiguousarray(array).reshape(-1)
        digest.update(f"{array.shape}{flat.dtype.kind}".encode())
        if flat.dtype.kind != "i":
            digest.update(flat.view(np.uint8).data)
            continue
        for begin in range(0, len(flat), _CHUNK):
            digest.update(flat[begin : begin + _CHUNK].astype(np.int64).view(np.uint8).data)
    return digest.hexdigest()
