"""Pipelines and column transformers, and which class is stored how."""

from __future__ import annotations

from collections import UserList
from string import Formatter
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from multimargin.estimators.kernel_svm import KernelSVM
from multimargin.estimators.linear_svm import LinearSVM
from multimargin.estimators.linear_svm_cv import LinearSVMCV
from multimargin.models.front_ends import FRONT_ENDS, read_names, write_names
from multimargin.models.machines import read_kernel_svm, read_linear_svm, write_kernel_svm, write_linear_svm
from multimargin.models.parameters import read_parameters, write_parameters
from multimargin.models.tree import Reader, Writer

_MACHINES: dict[type, tuple[Any, Any]] = {
    LinearSVM: (write_linear_svm, read_linear_svm),
    LinearSVMCV: (write_linear_svm, read_linear_svm),
    KernelSVM: (write_kernel_svm, read_kernel_svm),
}
_WORDS = ("passthrough", "drop")
_READERS = {kind.__name__: read for kind, (_, read) in (_MACHINES | FRONT_ENDS).items()}


def check_machine(model: Any) -> None:
    """Refuse what is no machine, and no pipeline that ends in one."""
    last = model
    while type(last) is Pipeline:
        last = last.steps[-1][1]
    if type(last) in _MACHINES:
        return
    what = type(last).__name__
    if isinstance(last, tuple(_MACHINES)) and hasattr(last, "to_local"):  # of multimargin.dask
        raise TypeError(f"{what} of multimargin.dask cannot be saved, the local model that to_local() gives can be")
    if isinstance(last, tuple(_MACHINES)):
        raise TypeError(f"{what} is a class of its own, derived from one of multimargin; {_STORABLE}")
    end = f"a pipeline that ends in {what}" if last is not model else what
    raise TypeError(f"{end} cannot be saved; {_STORABLE}")


_STORABLE = "LinearSVM, LinearSVMCV, KernelSVM and pipelines that end in one of them can be"


def write_model(node: Writer, model: Any, duals: bool) -> None:
    """Store an estimator of one of the known classes."""
    kind = type(model)
    if kind in _MACHINES:
        _MACHINES[kind][0](node, model._as_it_is(), duals)
    elif kind in FRONT_ENDS:
        FRONT_ENDS[kind][0](node, model)
    elif kind is Pipeline:
        _write_pipeline(node, model, duals)
    elif kind is ColumnTransformer:
        _write_columns(node, model)
    elif kind is FunctionTransformer:
        raise TypeError(
            "a FunctionTransformer cannot be stored in a file, as its function cannot; "
            "apply the function before the pipeline, or keep the model by joblib"
        )
    else:
        known = ", ".join(sorted(kind.__name__ for kind in (*FRONT_ENDS, ColumnTransformer, Pipeline)))
        raise TypeError(f"the step {kind.__name__} cannot be stored in a file; {known} can")


def read_model(node: Reader) -> Any:
    """The estimator of a node."""
    if node.kind in _READERS:
        model = _READERS[node.kind](node)
    elif node.kind == "Pipeline":
        model = _read_pipeline(node)
    elif node.kind == "ColumnTransformer":
        model = _read_columns(node)
    else:
        raise node.wrong("this kind of model is not known to this version of multimargin")
    node.finish()
    return model


# Steps in a row


def _write_pipeline(node: Writer, model: Pipeline, duals: bool) -> None:
    if model.memory is not None:
        raise TypeError("memory of Pipeline cannot be stored in a file; set_params(memory=None) before it is saved")
    write_parameters(node, model, without=("steps", "memory"))
    node.value("names", [name for name, _ in model.steps])
    for position, (_, step) in enumerate(model.steps):
        _write_part(node, str(position), "passthrough" if step is None else step, duals)


def _write_part(node: Writer, name: str, part: Any, duals: bool) -> None:
    """An estimator, or a word in the place of one."""
    if isinstance(part, str):
        node.child(name, part)
    else:
        write_model(node.child(name, type(part).__name__), part, duals)


def _read_part(node: Reader) -> Any:
    if node.kind in _WORDS:
        node.finish()
        return node.kind
    return read_model(node)


def _names(names: Any) -> bool:
    return all(type(name) is str for name in names) and len(set(names)) == len(names) > 0


def _read_pipeline(node: Reader) -> Pipeline:
    names = node.value("names", list, check=_names)
    steps = [(name, _read_part(node.child(str(position)))) for position, name in enumerate(names)]
    if any(step == "drop" for _, step in steps):
        raise node.wrong("a step of a pipeline cannot be 'drop'")
    model = read_parameters(node, Pipeline, steps=steps, memory=None)
    try:
        model._validate_params()
        model._validate_steps()
    except (TypeError, ValueError) as error:
        raise node.wrong(f"its steps do not make a pipeline: {error}") from None
    return model


# Steps side by side


def _write_columns(node: Writer, model: ColumnTransformer) -> None:
    """The fitted transformers; those of the parameters are clones of them."""
    if not hasattr(model, "transformers_"):
        raise NotFittedError("the step ColumnTransformer is not fitted: fit the pipeline before it is saved")
    _check_naming(model)
    write_parameters(node, model, without=("transformers", "remainder"))
    write_names(node, model)
    given = {name: part for name, part, _ in model.transformers} | {"remainder": model.remainder}
    node.value("names", [name for name, _, _ in model.transformers_])
    node.value("columns", [_columns(columns) for _, _, columns in model.transformers_])
    node.value("inputs", {name: [int(j) for j in found] for name, found in model._transformer_to_input_indices.items()})
    node.value("outputs", {name: [found.start, found.stop] for name, found in model.output_indices_.items()})
    node.value("sparse_output", bool(model.sparse_output_))
    for position, (name, part, _) in enumerate(model.transformers_):
        if isinstance(part, FunctionTransformer) and given[name] == "passthrough":
            below = node.child(str(position), "passthrough")
            write_names(below, part)
        elif not isinstance(part, str) and not model._transformer_to_input_indices[name]:
            raise TypeError(f"the transformer {name!r} has no columns; leave it out, and fit again")
        else:
            _write_part(node, str(position), part, False)
    if not isinstance(model.remainder, str) and "remainder" not in [name for name, _, _ in model.transformers_]:
        raise TypeError("remainder is a transformer that no columns were left for; set it to 'drop', and fit again")
    node.value("remainder", model.remainder if isinstance(model.remainder, str) else None)


def _check_naming(model: ColumnTransformer) -> None:
    """Refuse a format of names that does more than put two names together."""
    naming = model.verbose_feature_names_out
    if isinstance(naming, str):
        for _, field, width, conversion in Formatter().parse(naming):
            if field not in (None, "transformer_name", "feature_name") or width or conversion:
                raise TypeError(
                    f"verbose_feature_names_out={naming!r} of ColumnTransformer must consist of text, "
                    "{transformer_name} and {feature_name}"
                )


def _columns(columns: Any) -> Any:
    """Columns as values that can be stored: lists stand for what is like a list."""
    if isinstance(columns, UserList) or (hasattr(columns, "tolist") and not isinstance(columns, np.ndarray)):
        return list(columns)
    return columns


def _is_choice(columns: Any) -> bool:
    """Whether columns can be chosen so: by a name, a number, a slice, or a list of names, numbers or truth values."""
    if isinstance(columns, np.ndarray):
        return columns.dtype.kind in "biuU" or all(isinstance(column, str) for column in columns)
    listed = columns if isinstance(columns, list) else [columns]
    return isinstance(columns, slice) or all(isinstance(column, str | int) for column in listed)


def _read_columns(node: Reader) -> ColumnTransformer:
    names = node.value("names", list, check=_names)
    columns = node.value("columns", list, check=lambda told: len(told) == len(names) and all(map(_is_choice, told)))
    inputs = node.value("inputs", dict)
    outputs = node.value("outputs", dict)
    remainder = node.value("remainder", str, type(None), check=(None, *_WORDS).__contains__)
    parts = [_read_column_part(node.child(str(position))) for position in range(len(names))]
    fitted = list(zip(names, parts, columns, strict=True))
    of_rest = [entry for entry in fitted if entry[0] == "remainder"]
    if remainder is None and not of_rest:
        raise node.wrong("the transformer of the remaining columns is missing")
    given = [(name, _given(part), chosen) for name, part, chosen in fitted if name != "remainder"]
    rest = remainder if remainder is not None else _given(of_rest[0][1])
    model = read_parameters(node, ColumnTransformer, transformers=given, remainder=rest)
    count = read_names(node, model)
    if count is None:
        raise node.wrong("n_features is missing")
    model.transformers_ = fitted
    model._columns = [chosen for _, _, chosen in given]
    model._transformer_to_input_indices = _checked_inputs(node, inputs, {*names, "remainder"}, count)
    model._remainder = ("remainder", rest, of_rest[0][2] if of_rest else [])
    model.sparse_output_ = node.value("sparse_output", bool)
    model.output_indices_ = _checked_outputs(node, outputs, {*names, "remainder"})
    try:
        model._validate_params()
        model._validate_transformers()
        _check_naming(model)
    except (TypeError, ValueError) as error:
        raise node.wrong(f"its parameters are not possible: {error}") from None
    return model


def _read_column_part(node: Reader) -> Any:
    if node.kind != "passthrough":
        return _read_part(node)
    # What scikit-learn has in the place of the word after a fit.
    step = FunctionTransformer(accept_sparse=True, check_inverse=False, feature_names_out="one-to-one")
    read_names(node, step)
    node.finish()
    return step


def _given(part: Any) -> Any:
    """The parameter that a fitted transformer came from."""
    if isinstance(part, FunctionTransformer):
        return "passthrough"
    return part if isinstance(part, str) else clone(part)


def _checked_inputs(node: Reader, told: dict, names: set[str], count: int) -> dict[str, list[int]]:
    for name, found in told.items():
        good = name in names and isinstance(found, list) and all(type(j) is int and 0 <= j < count for j in found)
        if not good:
            raise node.wrong(f"inputs of {name!r} must be numbers of columns below {count}")
    if missing := names - {"remainder"} - set(told):
        raise node.wrong(f"inputs of {', '.join(sorted(missing))} are missing")
    return told


def _checked_outputs(node: Reader, told: dict, names: set[str]) -> dict[str, slice]:
    for name, found in told.items():
        good = name in names and isinstance(found, list) and len(found) == 2 and all(type(j) is int for j in found)
        if not good or not 0 <= found[0] <= found[1]:
            raise node.wrong(f"outputs of {name!r} must be two numbers of columns")
    return {name: slice(*found) for name, found in told.items()}
