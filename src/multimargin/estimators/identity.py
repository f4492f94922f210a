"""What a fit is about, by name and in words, so that a checkpoint of another one can be told by what differs."""

from __future__ import annotations

import hashlib
import pickle
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin.data.rows import canonical
from multimargin.estimators.parameters import n_threads
from multimargin.linear.solvers import STREAMING
from multimargin.linear.training import blocks_side_by_side, tasks
from multimargin.problems.formulations import JOINT

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
    # Of a search, which has them in its own identity; a fit has one C.
    "Cs",
    "cv",
    "scoring",
)
_CHUNK = 1 << 20
_ROWS_OF_A_KERNEL = 6


def identity(model: Any, X: Any, labels: np.ndarray, weight: np.ndarray, request: Any) -> dict[str, str]:
    """Parameters as they are written, data with a digest behind a ``#``."""
    told = _rows(X, labels, model.classes_, weight) | {"C": _word(model.C)} | _parameters(model, request.seed)
    kernel = getattr(request, "kernel", None)
    if kernel is not None and kernel.name == "callable":  # of which the name says little
        few = X[:_ROWS_OF_A_KERNEL]
        told["kernel"] += f" #{_digest(kernel.block(few, few).astype(np.float32))}"
    told["n_jobs"] = str(request.n_threads)
    if request.formulation in JOINT and request.solver in STREAMING:  # one machine: the threads that do train it
        (machine,) = tasks(request)
        told["n_jobs"] = str(blocks_side_by_side(request, machine))
    return told


def identity_of_stored(model: Any, store: Any, request: Any) -> dict[str, str]:
    """The same of a store of blocks, by the checksums in its manifest. One thread trains, whatever memory there is."""
    layout = f"{'sparse' if store.layout.sparse else 'dense'} {store.layout.dtype.name}"
    content = repr((store.layout, store.entries, store.class_weights.tolist()))
    digest = _digest(_bytes(content), *_as_arrays(store.classes))
    rows = f"{store.n_rows} x {store.n_features} {layout} of {len(store.classes)} classes"
    told = {"X": f"{rows} in {len(store)} blocks #{digest}"} | _parameters(model, request.seed)
    return {name: word for name, word in told.items() if name not in ("n_jobs", "memory_mb")}


def identity_of_search(
    model: Any, X: Any, labels: np.ndarray, weight: np.ndarray, folds: list[tuple[np.ndarray, np.ndarray]], values: Any
) -> dict[str, str]:
    """The same of a search for C. Limits are those of every fit, and have a say in the scores."""
    classes, encoded = np.unique(labels, return_inverse=True)
    rows_of_folds = _digest(*(np.asarray(rows) for fold in folds for rows in fold))
    told = _rows(X, encoded, classes, weight) | {
        "Cs": str(values.tolist()),
        "cv": f"{len(folds)} folds #{rows_of_folds}",
        "scoring": _scoring(model.scoring),
        "max_iter": _word(model.max_iter),
        "time_limit": _word(model.time_limit),
    }
    return told | _parameters(model, model._seed()) | {"n_jobs": str(n_threads(model.n_jobs))}


def identity_of_folds(model: Any, folds: list[tuple[Any, ...]]) -> dict[str, str]:
    """The same of a search whose folds, (X, y) to learn from and (X, y) held out, have features of their own."""
    X, y = folds[0][0], [np.asarray(labels) for fold in folds for labels in fold[1::2]]
    of_rows = "".join(_told(rows) for fold in folds for rows in fold[::2])
    of_labels = _digest(*(array for labels in y for array in _as_arrays(labels)))
    told = {
        "X": f"{X.shape[0]} x {X.shape[1]} in the first of {len(folds)} folds #{_digest(_bytes(of_rows))}",
        "y": f"labels of {len(np.unique(y[0]))} classes #{of_labels}",
        "max_iter": _word(model.max_iter),
        "time_limit": _word(model.time_limit),
    }
    return told | _parameters(model, model._seed()) | {"n_jobs": str(n_threads(model.n_jobs))}


def _rows(X: Any, labels: np.ndarray, classes: np.ndarray, weight: np.ndarray) -> dict[str, str]:
    return {
        "X": _told(X),
        "y": f"labels of {len(classes)} classes #{_digest(labels, *_as_arrays(classes))}",
        "sample_weight": f"given #{_digest(weight)}" if np.any(weight != 1) else "None",
    }


def _parameters(model: Any, seed: int) -> dict[str, str]:
    told = {name: _word(value) for name, value in model.get_params(deep=False).items() if name not in _FREE}
    drawn = f"{_word_of_state(model.random_state)} #{seed}"  # by a state that draws on
    return {"the estimator": model._name} | told | {"random_state": drawn}


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
        value = float(value)
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if callable(value):
        return getattr(value, "__qualname__", type(value).__qualname__)
    return repr(value)


def _scoring(scoring: Any) -> str:
    """With all that a scorer is made of: many have one name."""
    if not callable(scoring):
        return _word(scoring)
    try:
        made_of = pickle.dumps(scoring, protocol=4)
    except Exception as error:  # whatever an object's own way to be written raises
        raise ValueError(
            f"scoring={scoring!r} cannot be told from another one in a checkpoint ({error}): give the name of a score, "
            "or a function that a module has by name"
        ) from None
    return f"{_word(scoring)} #{_digest(np.frombuffer(made_of, dtype=np.uint8))}"


def _word_of_state(state: Any) -> str:
    return str(state) if state is None or isinstance(state, Integral) else type(state).__name__


def _bytes(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), dtype=np.uint8)


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
