"""LinearSVM, LinearSVMCV and KernelSVM in a file: what is stored of each, and what it must be.

linear   weights (features x machines, as the core has them), intercept
kernel   support vectors, their duals (CSR, rows of the support only), intercept, the kernel's numbers
both     classes, certificate, history (one array a field), duals with what they belong to
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin.data.csr import Csr
from multimargin.data.rows import canonical
from multimargin.estimators.kernel_svm import KernelSVM
from multimargin.estimators.linear_svm import LinearSVM
from multimargin.estimators.linear_svm_cv import LinearSVMCV
from multimargin.estimators.parameters import LOSSES
from multimargin.kernel.functions import KERNELS, USE_GAMMA, Kernel
from multimargin.kernel.training import KERNEL_HISTORY
from multimargin.linear.outcome import HISTORY
from multimargin.models.fitted import CERTIFICATE, check_finite, check_fitted, write_duals, write_linear, write_shared
from multimargin.models.linear import read_calibration, read_classes, read_first_index, read_linear
from multimargin.models.parameters import read_parameters, write_parameters
from multimargin.models.tree import Reader, Writer
from multimargin.models.vectors import read_csr, read_vector, write_csr
from multimargin.problems.formulations import FORMULATIONS, n_lanes

_PATH = ("scores_", "gaps_")  # of LinearSVMCV: folds x values of C


# Writing


def write_linear_svm(node: Writer, model: LinearSVM, duals: bool) -> None:
    """Store a LinearSVM or LinearSVMCV."""
    write_linear(node, model, duals)
    if isinstance(model, LinearSVMCV):
        node.value("C", model.C_)
        node.value("best_score", model.best_score_)
        node.array("Cs", model.Cs_)
        node.array("epochs", model.epochs_)
        for name in _PATH:
            node.array(name, getattr(model, name))


def write_kernel_svm(node: Writer, model: KernelSVM, duals: bool) -> None:
    """Store a KernelSVM; its duals are needed to predict, and always there."""
    check_fitted(model, "_kernel")
    model._check()
    model._check_as_fitted()
    kernel = model._kernel
    if kernel.name == "callable" or callable(model.kernel):
        function = model.kernel if callable(model.kernel) else kernel.function
        raise TypeError(
            f"the kernel of KernelSVM is the callable {getattr(function, '__qualname__', type(function).__name__)}, "
            "which cannot be stored in a file; train with kernel='precomputed', or keep the model by joblib"
        )
    write_parameters(node, model)
    vectors = model.support_vectors_
    check_finite(
        support_vectors_=vectors.data if sp.issparse(vectors) else vectors,
        intercept_=model.intercept_,
        dual_coef_=model.dual_coef_.data,
    )
    write_shared(node, model, duals)
    node.value("kernel", [kernel.name, float(kernel.gamma), int(kernel.degree), float(kernel.coef0)])
    node.value("shape_fit", tuple(int(n) for n in model.shape_fit_))
    node.array("intercept", model.intercept_)
    node.array("n_support", model.n_support_)
    if kernel.name != "precomputed":
        node.value("sparse", sp.issparse(vectors))
        if sp.issparse(vectors):
            write_csr(node, "vectors", canonical(vectors))
        else:
            node.array("vectors", vectors)
    write_duals(node, model)


# Reading


def read_linear_svm(node: Reader) -> LinearSVM:
    """The LinearSVM or LinearSVMCV of a node."""
    cross_validated = node.kind == "LinearSVMCV"
    model = read_parameters(node, LinearSVMCV if cross_validated else LinearSVM)
    if cross_validated:
        _read_path(node, model)
    _check_parameters(node, model)
    linear = read_linear(node, model.formulation)
    state = {
        "classes_": linear.classes,
        "coef_": linear.weights.to_scipy().T if isinstance(linear.weights, Csr) else linear.weights.T,
        "intercept_": linear.intercept,
        "n_features_in_": linear.weights.shape[0],
        "_fitted_formulation": model.formulation,
    }
    if linear.calibration is not None:
        state["calibration_"] = linear.calibration
    state |= _read_shared(node, linear.weights.shape[0], HISTORY)
    if node.has("problem"):
        state |= _read_duals(node, len(linear.classes), model.formulation)
    model.__setstate__(vars(model) | state)
    return model


def _read_path(node: Reader, model: LinearSVMCV) -> None:
    model.C_ = node.number("C", finite=True)
    model.best_score_ = node.number("best_score")
    model.Cs_ = node.array("Cs", "f", (None,))
    model.epochs_ = node.array("epochs", "i", (None, len(model.Cs_)))
    for name in _PATH:
        setattr(model, name, node.array(name, "f", model.epochs_.shape, finite=False))
    if not (model.Cs_ == model.C_).any():
        raise node.wrong(f"C_={model.C_!r} is not among the values of C that were tried")


def read_kernel_svm(node: Reader) -> KernelSVM:
    """The KernelSVM of a node."""
    model = read_parameters(node, KernelSVM)
    _check_parameters(node, model)
    name, gamma, degree, coef0 = node.value("kernel", list, check=_is_kernel)
    kernel = Kernel(name, gamma, degree, coef0)
    n_rows, n_columns = node.value(
        "shape_fit", tuple, check=lambda shape: len(shape) == 2 and all(map(_is_size, shape))
    )
    if name == "precomputed" and n_rows != n_columns:
        raise node.wrong(f"a precomputed kernel cannot have the shape {n_rows} x {n_columns}")
    classes = read_classes(node)
    state: dict[str, Any] = {"classes_": classes, "n_features_in_": n_columns, "_kernel": kernel}
    state["_fitted_formulation"] = model.formulation
    state |= _read_shared(node, n_columns, KERNEL_HISTORY)
    state |= _read_duals(node, len(classes), model.formulation)
    duals, support = state["dual_coef_"], state["support_"]
    if duals.shape[0] != n_rows:
        raise node.wrong(f"there are duals of {duals.shape[0]} rows, but {n_rows} were trained on")
    state["intercept_"] = node.array("intercept", "f", (duals.shape[1],))
    state["n_support_"] = node.array("n_support", "i", (len(classes),))
    if not np.array_equal(np.bincount(state["_dual_labels"][support], minlength=len(classes)), state["n_support_"]):
        raise node.wrong("n_support does not fit the labels of the support vectors")
    if name == "precomputed":
        state["support_vectors_"] = np.empty((0, 0))
    elif node.value("sparse", bool):
        state["support_vectors_"] = read_csr(node, "vectors", (len(support), n_columns))
    else:
        state["support_vectors_"] = node.array("vectors", "f", (len(support), n_columns))
    calibration = read_calibration(node)
    if calibration is not None:
        state["calibration_"] = calibration
    state |= {"gamma_": gamma if name in USE_GAMMA else None, "shape_fit_": (n_rows, n_columns)}
    model.__dict__.update(state)
    return model


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**48


def _is_kernel(told: Any) -> bool:
    name, gamma, degree, coef0 = told
    numbers = type(gamma) is float and type(coef0) is float and gamma - gamma == 0 and coef0 - coef0 == 0
    return name in KERNELS and numbers and gamma >= 0 and _is_size(degree)


def _check_parameters(node: Reader, model: Any) -> None:
    try:
        model._check()
    except (TypeError, ValueError) as error:
        raise node.wrong(f"its parameters are not possible: {error}") from None


def _read_shared(node: Reader, n_features: int, fields: np.dtype) -> dict[str, Any]:
    state: dict[str, Any] = {"n_iter_": node.size("n_iter")}
    if node.has("n_features") and node.size("n_features") != n_features:
        raise node.wrong(f"n_features is not that of the weights, {n_features}")
    if node.has("feature_names.type"):
        state["feature_names_in_"] = read_vector(node, "feature_names", n_features)
    if (first := read_first_index(node)) is not None:
        state["first_index_"] = first
    if node.has("certificate"):
        told = node.value(
            "certificate", list, check=lambda told: len(told) == 4 and all(type(x) is float for x in told)
        )
        state |= dict(zip(CERTIFICATE, told, strict=True)) | {"converged_": node.value("converged", bool)}
    if node.has("history.epoch.type"):
        epochs = read_vector(node, "history.epoch")
        history = np.empty(len(epochs), dtype=fields)
        history["epoch"] = epochs
        for name in fields.names or ():
            if name != "epoch":
                column = read_vector(node, f"history.{name}", len(epochs), finite=False)
                if column.dtype.kind != fields[name].kind:
                    raise node.wrong(f"history.{name} cannot be of {column.dtype}")
                history[name] = column
        state["history_"] = history
    return state


def _read_duals(node: Reader, n_classes: int, formulation: str) -> dict[str, Any]:
    told, loss = node.value(
        "problem", list, check=lambda told: len(told) == 2 and told[0] in FORMULATIONS and told[1] in LOSSES
    )
    n_machines = node.size("n_machines")
    if n_machines != n_lanes(formulation, n_classes) or n_machines != n_lanes(told, n_classes):
        raise node.wrong(f"{n_machines} machines are not those of {formulation} with {n_classes} classes")
    support = node.array("support", "i", (None,))
    caps = node.array("caps", "f", (None,))
    labels = node.array("labels", "i", (len(caps),))
    if caps.dtype != np.float64 or (caps < 0).any():
        raise node.wrong("caps must be numbers of float64, and not negative")
    if len(labels) and (labels.min() < 0 or labels.max() >= n_classes):
        raise node.wrong("labels must be numbers of classes")
    if len(support) and (support[0] < 0 or support[-1] >= len(caps) or (np.diff(support) <= 0).any()):
        raise node.wrong(f"support must be ascending numbers of the {len(caps)} rows")
    compact = read_csr(node, "duals", (len(support), n_machines))
    if compact.dtype != np.float64 or (np.diff(compact.indptr) == 0).any():
        raise node.wrong("every row of the support must have a dual, in float64")
    counts = np.zeros(len(caps) + 1, dtype=compact.indptr.dtype)
    counts[support + 1] = np.diff(compact.indptr)
    matrix = sp.csr_array(
        (compact.data, compact.indices, np.cumsum(counts, dtype=counts.dtype)), shape=(len(caps), n_machines)
    )
    return {
        "dual_coef_": matrix,
        "support_": support.astype(np.intp, copy=False),
        "_dual_caps": caps,
        "_dual_labels": labels.astype(np.intp, copy=False),
        "_dual_problem": (told, loss, matrix.shape),
    }
