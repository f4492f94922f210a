"""The parameters of estimators in a file.

What only matters to training, and has no place in a file, is left out: callbacks silently, the others with a warning.
The loaded estimator has the default in its place. What matters to prediction is refused by name.
"""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np

from multimargin.models.tree import Reader, Writer
from multimargin.models.values import NotStorable, encode

# Parameters that only matter to training and may be objects.
_ONLY_TRAINING = ("callbacks", "random_state", "cv", "scoring")
_SILENT = ("callbacks",)
_TYPES = ("dtype",)  # parameters that may be a type; elsewhere it would be something to call
_MOST_JOBS = 1024  # processes or threads that a file may ask for


def write_parameters(node: Writer, model: Any, *, without: tuple[str, ...] = ()) -> None:
    """Store the parameters, except those that the caller stores itself."""
    stored = {}
    for name, value in model.get_params(deep=False).items():
        if name in without or name == "checkpoint":  # the state of a training that is over
            continue
        try:
            what = f"the parameter {name} of {type(model).__name__}"
            encode(value, what)
            if callable(value) and name not in _TYPES:
                raise NotStorable(f"{what} cannot be stored in a file: it is the callable {value.__qualname__}")
        except NotStorable as error:
            if name not in _ONLY_TRAINING:
                raise TypeError(f"{error}; set it to something else, or keep the model by joblib") from None
            if name not in _SILENT:
                warnings.warn(
                    f"{error}; it is left out, and the loaded model has {name}={_default(type(model), name)!r}",
                    UserWarning,
                    stacklevel=2,
                )
            continue
        # A file may not ask for more; a trained model is not refused for it.
        stored[name] = _MOST_JOBS if _too_many_jobs(name, value) else value
    node.value("parameters", stored)


def _too_many_jobs(name: str, value: Any) -> bool:
    return name == "n_jobs" and isinstance(value, int | float | np.integer) and bool(value > _MOST_JOBS)


def _default(kind: type, name: str) -> Any:
    return inspect.signature(kind).parameters[name].default


def read_parameters(node: Reader, kind: type, **own: Any) -> Any:
    """An estimator of the kind with the stored parameters, and those that the caller has read itself."""
    told = node.value("parameters", dict)
    known = inspect.signature(kind).parameters
    unknown = [name for name in told if name not in known]
    if unknown:
        raise node.wrong(
            f"its parameters {', '.join(map(repr, sorted(map(str, unknown))))} are not known to this version of "
            f"{kind.__module__.split('.')[0]}"
        )
    for name, value in told.items():
        if name in own:
            raise node.wrong(f"its parameter {name!r} has no place in a file")
        if callable(value) and name not in _TYPES:
            raise node.wrong(f"its parameter {name!r} cannot be the callable {value.__qualname__}")
        if _too_many_jobs(name, value):
            raise node.wrong(f"n_jobs={value} is more than the {_MOST_JOBS} a file may ask for")
    return kind(**told, **own)
