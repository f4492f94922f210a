"""What is written of a fitted machine, of scikit-learn's kind or plain; nothing here needs scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from multimargin.data.csr import Csr
from multimargin.data.rows import canonical
from multimargin.estimators.calibration import N_PARAMETERS
from multimargin.linear.many_classes import is_sparse
from multimargin.models.parameters import write_parameters
from multimargin.models.tree import Writer
from multimargin.models.vectors import write_csr, write_vector
from multimargin.problems.formulations import n_lanes

CERTIFICATE = ("primal_objective_", "dual_objective_", "dual_gap_", "worst_gap_")


def write_linear(node: Writer, model: Any, duals: bool) -> None:
    """Store a linear machine."""
    check_fitted(model, "coef_")
    model._check()
    model._check_as_fitted()
    write_parameters(node, model)
    sparse = is_sparse(model.coef_)
    coef: Any = model.coef_ if sparse else np.asarray(model.coef_)
    intercept = np.asarray(model.intercept_)
    k = len(model.classes_)
    if coef.shape != (n_lanes(model.formulation, k), model.n_features_in_) or intercept.shape != (coef.shape[0],):
        raise ValueError(
            f"coef_ of shape {coef.shape} and intercept_ of shape {intercept.shape} do not belong to "
            f"formulation={model.formulation!r}, {k} classes and {model.n_features_in_} features: fit the model again"
        )
    check_finite(coef_=coef.data if sparse else coef, intercept_=intercept)
    write_shared(node, model, duals)
    # Feature-major, as they lie in memory: no transposition, neither here nor there.
    if sparse:
        node.value("weights.rows", int(coef.shape[1]))
        write_csr(node, "weights", model._sparse_W())
    else:
        node.array("weights", np.asarray(coef.T, dtype=np.float64))
    node.array("intercept", np.asarray(intercept, dtype=np.float64))
    if duals and hasattr(model, "dual_coef_"):
        write_duals(node, model)


def write_shared(node: Writer, model: Any, history: bool) -> None:
    """What all machines have."""
    write_vector(node, "classes", model.classes_)
    node.value("n_features", int(model.n_features_in_))
    if hasattr(model, "feature_names_in_"):
        write_vector(node, "feature_names", model.feature_names_in_)
    if hasattr(model, "first_index_"):
        node.value("first_index", int(model.first_index_))
    node.value("n_iter", int(model.n_iter_))
    if hasattr(model, "calibration_"):
        calibration = np.asarray(model.calibration_, dtype=np.float64)
        check_finite(calibration_=calibration)
        if calibration.shape != (N_PARAMETERS,) or (calibration < 0).any():
            raise ValueError(f"calibration_ must be {N_PARAMETERS} numbers of at least 0: fit the model again")
        node.array("calibration", calibration)
    if hasattr(model, "primal_objective_"):
        node.value("certificate", [float(getattr(model, name)) for name in CERTIFICATE])
        node.value("converged", bool(model.converged_))
    if history and hasattr(model, "history_"):
        for field in model.history_.dtype.names:
            write_vector(node, f"history.{field}", np.ascontiguousarray(model.history_[field]))


def write_duals(node: Writer, model: Any) -> None:
    """Rows of the support only: the others are zero. And what warm starts and label_doubt want to know."""
    matrix = model.dual_coef_
    k = len(model.classes_)
    if matrix.shape[1] != n_lanes(model.formulation, k):
        raise ValueError(
            f"dual_coef_ of shape {matrix.shape} does not belong to formulation={model.formulation!r} and {k} classes: "
            "fit the model again"
        )
    formulation, loss, _ = model._dual_problem
    node.value("problem", [formulation, loss])
    node.value("n_machines", int(matrix.shape[1]))
    if isinstance(matrix, Csr):
        write_csr(node, "duals", matrix.filled_rows(model.support_))
    else:
        write_csr(node, "duals", canonical(matrix.tocsr()[model.support_]))
    node.array("support", model.support_)
    node.array("caps", model._dual_caps)
    node.array("labels", model._dual_labels)


def check_fitted(model: Any, attribute: str) -> None:
    if attribute not in vars(model):
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(f"this {type(model).__name__} is not fitted: there is nothing to save before fit")


def check_dense(model: Any, where: str) -> None:
    """Refuse a model with sparse weights."""
    if is_sparse(getattr(model, "coef_", None)):
        k, n_features = model.coef_.shape
        raise ValueError(
            f"the weights of this {type(model).__name__} are sparse ({k} classes, {n_features} features), and {where}; "
            "multimargin.save writes it as it is"
        )


def check_finite(**arrays: np.ndarray) -> None:
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name} has values that are not finite: fit the model again")
