"""Linear models, alone or at the end of a pipeline, as ONNX, through skl2onnx.

The graph has two outputs: ``label``, and ``scores``, which are the values of decision_function. One-vs-one becomes
products with tables of pairs, so that votes, confidence and the order of ties are those of
:func:`multimargin.reductions.pairwise.votes_with_confidence`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder

from multimargin.data.atomic import write_atomically
from multimargin.estimators.linear_svm import LinearSVM
from multimargin.estimators.linear_svm_cv import LinearSVMCV
from multimargin.models.fitted import check_dense
from multimargin.reductions.pairwise import pairs

_ALIAS = "MultimarginLinear"
_TOKEN_PATTERN = r"(?u)\b\w\w+\b"  # scikit-learn's default, and the same for the engine of onnxruntime
_TOKENS = r"[\p{L}\p{N}_]{2,}"
_OPTIONS = {"zipmap": [False, True]}  # which skl2onnx sets for all classifiers; scores are an array anyway


def write_onnx(model: Any, path: str | os.PathLike, *, dtype: Any = np.float32, locale: str = "C.UTF-8") -> None:
    """Write a linear model, or a pipeline that ends in one, as ONNX.

    Inputs of the graph: ``X`` (numbers), ``text`` for a pipeline that begins with a vectorizer, or one for every column
    of a pipeline that begins with a ColumnTransformer of named columns.

    Parameters
    ----------
    model : LinearSVM, LinearSVMCV, or a Pipeline that ends in one of them
        dag is refused; labels must be integers or str. Of the steps, those that skl2onnx knows.
    path : str or path
    dtype : {numpy.float32, numpy.float64}
        What the graph computes in. onnxruntime has its imputer for float32 only.
    locale : str
        By which texts are made lower case, a name that the machine knows where the graph runs.

    Raises
    ------
    ImportError
        If skl2onnx is not there: ``pip install "multimargin[onnx]"``.
    TypeError, ValueError
        If the model cannot be written.
    """
    try:
        from skl2onnx import convert_sklearn, update_registered_converter
    except ImportError as error:
        raise ImportError('write_onnx needs skl2onnx: pip install "multimargin[onnx]"') from error
    if np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be numpy.float32 or numpy.float64, got {dtype!r}")
    machine = model.steps[-1][1] if isinstance(model, Pipeline) else model
    _check(machine)
    for kind in (LinearSVM, LinearSVMCV):
        update_registered_converter(kind, _ALIAS, _shape, _convert, overwrite=True, parser=_parse, options=_OPTIONS)
    graph = convert_sklearn(
        model,
        "multimargin",
        initial_types=_inputs(model, np.dtype(dtype)),
        options={id(step): _of_text(step, locale) for step in _vectorizers(model)},
    )
    write_atomically(path, [graph.SerializeToString()])


def _check(machine: Any) -> None:
    if not isinstance(machine, LinearSVM):
        raise TypeError(
            f"{type(machine).__name__} cannot be written as ONNX; LinearSVM and LinearSVMCV, and pipelines that end in "
            "one of them, can"
        )
    if not hasattr(machine, "coef_"):
        raise NotFittedError(f"this {type(machine).__name__} is not fitted: there is nothing to write before fit")
    check_dense(machine, "ONNX multiplies with arrays")
    if machine.formulation == "dag" and len(machine.classes_) > 2:
        raise ValueError("formulation='dag' cannot be written as ONNX; one_vs_one, with the same machines, can")
    if machine.classes_.dtype.kind not in "iuU" and not all(type(label) is str for label in machine.classes_):
        raise TypeError(f"labels of ONNX are integers or str, not {machine.classes_.dtype}")


def _vectorizers(model: Any) -> Iterator[Any]:
    """All vectorizers, however deep."""
    if isinstance(model, Pipeline):
        for _, step in model.steps:
            yield from _vectorizers(step)
    elif isinstance(model, ColumnTransformer):
        for _, part, _ in model.transformers_:
            yield from _vectorizers(part)
    elif isinstance(model, CountVectorizer | TfidfVectorizer):
        yield model


def _of_text(step: Any, locale: str) -> dict[str, Any]:
    """Options of a vectorizer. skl2onnx knows the letters of English only, unless it is told others."""
    words = step.analyzer == "word" and step.token_pattern == _TOKEN_PATTERN
    return {"locale": locale} | ({"tokenexp": _TOKENS} if words else {})


# Inputs of the graph


def _inputs(model: Any, dtype: np.dtype) -> list[tuple[str, Any]]:
    from skl2onnx.common.data_types import StringTensorType

    first = model
    while isinstance(first, Pipeline):
        first = first.steps[0][1]
    if isinstance(first, CountVectorizer | TfidfVectorizer):
        return [("text", StringTensorType([None, 1]))]
    if isinstance(first, ColumnTransformer) and hasattr(first, "feature_names_in_"):
        text = _text_columns(first)
        used = {j for name, part, _ in first.transformers_ if part != "drop" for j in _inputs_of(first, name)}
        return [
            (name, StringTensorType([None, 1]) if j in text else _numbers(dtype, 1))
            for j, name in enumerate(first.feature_names_in_)
            if j in used
        ]
    strings = isinstance(first, OneHotEncoder) and all(part.dtype.kind in "OU" for part in first.categories_)
    return [("X", StringTensorType([None, first.n_features_in_]) if strings else _numbers(dtype, first.n_features_in_))]


def _numbers(dtype: np.dtype, width: int) -> Any:
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    return (FloatTensorType if dtype == np.float32 else DoubleTensorType)([None, width])


def _inputs_of(columns: ColumnTransformer, name: str) -> list[int]:
    return columns._transformer_to_input_indices[name]


def _text_columns(columns: ColumnTransformer) -> set[int]:
    """Columns that a vectorizer reads, or an encoder or imputer of str."""
    found: set[int] = set()
    for name, part, _ in columns.transformers_:
        first = part
        while isinstance(first, Pipeline):
            first = first.steps[0][1]
        numbers = _inputs_of(columns, name)
        if isinstance(first, CountVectorizer | TfidfVectorizer):
            found.update(numbers)
        elif isinstance(first, OneHotEncoder):
            found.update(j for j, of in zip(numbers, first.categories_, strict=True) if of.dtype.kind in "OU")
        elif isinstance(first, SimpleImputer) and first.statistics_.dtype.kind in "OU":
            found.update(j for j, value in zip(numbers, first.statistics_, strict=True) if isinstance(value, str))
    return found


# The machine


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the operator, its outputs label and scores."""
    from skl2onnx.common.data_types import DoubleTensorType, Int64TensorType, StringTensorType

    operator = scope.declare_local_operator(_ALIAS, model)
    operator.inputs = inputs
    strings = model.classes_.dtype.kind in "OU"
    operator.outputs.append(scope.declare_local_variable("label", StringTensorType() if strings else Int64TensorType()))
    double = isinstance(inputs[0].type, DoubleTensorType)
    operator.outputs.append(scope.declare_local_variable("scores", _numbers(np.dtype("f8" if double else "f4"), 1)))
    return operator.outputs


def _shape(operator: Any) -> None:
    k = len(operator.raw_operator.classes_)
    operator.outputs[0].type.shape = [None]
    operator.outputs[1].type.shape = [None] if k == 2 else [None, _width(operator.raw_operator)]


def _width(model: Any) -> int:
    by_pairs = model.formulation == "one_vs_one" and model.decision_function_shape == "ovo"
    return len(model.coef_) if by_pairs else len(model.classes_)


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the nodes of the machine to a graph."""
    from skl2onnx.algebra import onnx_ops as ops
    from skl2onnx.common.data_types import DoubleTensorType
    from skl2onnx.proto import onnx_proto

    model, (label, scores) = operator.raw_operator, operator.outputs
    version = {"op_version": container.target_opset}
    double = isinstance(scores.type, DoubleTensorType)
    dtype = np.float64 if double else np.float32
    X = ops.OnnxCast(
        operator.inputs[0], to=onnx_proto.TensorProto.DOUBLE if double else onnx_proto.TensorProto.FLOAT, **version
    )
    product = ops.OnnxMatMul(X, np.ascontiguousarray(model.coef_.T, dtype=dtype), **version)
    values = ops.OnnxAdd(product, np.asarray(model.intercept_, dtype=dtype), **version)
    k = len(model.classes_)
    if k == 2:
        told = ops.OnnxReshape(values, np.array([-1]), **version)
        positive = ops.OnnxGreater(told, np.zeros(1, dtype=dtype), **version)
        winner = ops.OnnxCast(positive, to=onnx_proto.TensorProto.INT64, **version)
    else:
        pairwise = model.formulation == "one_vs_one"
        by_class = _votes(values, k, bool(model.break_ties), dtype, version) if pairwise else values
        told = values if pairwise and model.decision_function_shape == "ovo" else by_class
        winner = ops.OnnxArgMax(by_class, axis=1, keepdims=0, **version)
    labels = model.classes_.astype(str) if model.classes_.dtype.kind in "OU" else model.classes_.astype(np.int64)
    chosen = ops.OnnxArrayFeatureExtractor(labels, winner, **version)
    shape = np.array([-1])
    ops.OnnxReshape(chosen, shape, output_names=[label.full_name], **version).add_to(scope, container)
    ops.OnnxIdentity(told, output_names=[scores.full_name], **version).add_to(scope, container)


def _votes(decisions: Any, k: int, break_ties: bool, dtype: Any, version: dict[str, Any]) -> Any:
    """Values of the classes from those of the pairs, as ``votes_with_confidence`` has them."""
    from skl2onnx.algebra import onnx_ops as ops
    from skl2onnx.proto import onnx_proto

    to = onnx_proto.TensorProto.DOUBLE if dtype is np.float64 else onnx_proto.TensorProto.FLOAT
    signs = np.zeros((k * (k - 1) // 2, k), dtype=dtype)  # of the first and the second class of every pair
    for machine, (i, j) in enumerate(pairs(k)):
        signs[machine, i], signs[machine, j] = 1, -1
    lost = ops.OnnxCast(ops.OnnxLess(decisions, np.zeros(1, dtype=dtype), **version), to=to, **version)
    # Every first class has a vote of its own; a negative decision takes it away and gives it to the second.
    at_first = (signs > 0).sum(axis=0).astype(dtype)
    won = ops.OnnxSub(at_first, ops.OnnxMatMul(lost, signs, **version), **version)
    confidence = ops.OnnxMatMul(decisions, signs, **version)
    scale = ops.OnnxAdd(ops.OnnxAbs(confidence, **version), np.ones(1, dtype=dtype), **version)
    below = ops.OnnxDiv(confidence, ops.OnnxMul(scale, np.array([3], dtype=dtype), **version), **version)
    value = ops.OnnxAdd(won, below, **version)
    if break_ties:
        return value

    def chosen(of: Any) -> Any:
        """1 at the first of the largest of every row, else 0."""
        where = ops.OnnxArgMax(of, axis=1, keepdims=1, **version)
        return ops.OnnxCast(ops.OnnxEqual(where, np.arange(k)[None, :], **version), to=to, **version)

    def total(of: Any) -> Any:
        return ops.OnnxReduceSum(of, np.array([1]), keepdims=1, **version)

    # The class that wins by votes and the one that confidence prefers change places.
    preferred, first = chosen(value), chosen(won)
    swap = ops.OnnxSub(preferred, first, **version)
    lead = total(ops.OnnxMul(value, swap, **version))
    return ops.OnnxSub(value, ops.OnnxMul(lead, swap, **version), **version)
