"""LIBLINEAR's text models.

==========================================  =============================================================
solver_type                                 LinearSVM
==========================================  =============================================================
MCSVM_CS (4)                                crammer_singer; weston_watkins is written so, too: it decides alike
L2R_L1LOSS_SVC_DUAL (3)                     one_vs_rest, hinge; any formulation of two classes but crammer_singer
L2R_L2LOSS_SVC_DUAL (1), L2R_L2LOSS_SVC (2) one_vs_rest, squared hinge; written as 1
==========================================  =============================================================

Pairs of more than two classes (one_vs_one, dag) cannot be said there. Of two classes, the first column of weights is
positive for the first label of the file. Values that tie exactly go to the label that comes first in the file; those of
a model that was read, to the smaller label.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from multimargin.data.atomic import write_atomically
from multimargin.estimators.linear_svm import LinearSVM
from multimargin.estimators.parameters import LARGEST_INTERCEPT_SCALING
from multimargin.models.errors import refuse
from multimargin.models.fitted import check_dense
from multimargin.models.text import TextModel, integer_labels
from multimargin.problems.formulations import JOINT, PAIRWISE

_KEYS = ("solver_type", "nr_class", "label", "nr_feature", "bias", "rho")
_READ = {
    "MCSVM_CS": ("crammer_singer", "hinge"),
    "L2R_L1LOSS_SVC_DUAL": ("one_vs_rest", "hinge"),
    "L2R_L2LOSS_SVC_DUAL": ("one_vs_rest", "squared_hinge"),
    "L2R_L2LOSS_SVC": ("one_vs_rest", "squared_hinge"),
}
_NOT_READ = {
    "L2R_LR": "logistic regression",
    "L2R_LR_DUAL": "logistic regression",
    "L1R_LR": "logistic regression with an l1 penalty",
    "L1R_L2LOSS_SVC": "a machine with an l1 penalty",
    "L2R_L2LOSS_SVR": "a regression",
    "L2R_L2LOSS_SVR_DUAL": "a regression",
    "L2R_L1LOSS_SVR_DUAL": "a regression",
    "ONECLASS_SVM": "a one-class machine",
}


def write_liblinear(model: Any, path: str | os.PathLike) -> None:
    """Write a LinearSVM or LinearSVMCV as LIBLINEAR's text, which its ``predict`` reads.

    Parameters
    ----------
    model : LinearSVM or LinearSVMCV
        Fitted; labels must be integers.
    path : str or path

    Raises
    ------
    TypeError, ValueError
        If LIBLINEAR cannot say it: pairs of more than two classes, kernels, pipelines, labels that are no integers.
    """
    if not isinstance(model, LinearSVM):
        raise TypeError(
            f"{type(model).__name__} cannot be written for LIBLINEAR, which has LinearSVM and LinearSVMCV only"
            + ("; write its last step, and prepare the rows beforehand" if hasattr(model, "steps") else "")
        )
    model = model._as_it_is()
    if not hasattr(model, "coef_"):
        raise ValueError(f"this {type(model).__name__} is not fitted: there is nothing to write before fit")
    check_dense(model, "LIBLINEAR's file has a number for each of them")
    labels = integer_labels(model.classes_, "LIBLINEAR")
    coef, intercept = np.asarray(model.coef_), np.asarray(model.intercept_)
    if model.formulation in PAIRWISE and len(labels) > 2:
        raise ValueError(
            f"formulation={model.formulation!r} with {len(labels)} classes cannot be written for LIBLINEAR, which has "
            "no pairs of classes; crammer_singer, weston_watkins and one_vs_rest can"
        )
    squared = model.loss == "squared_hinge"
    solver = "L2R_L2LOSS_SVC_DUAL" if squared else "L2R_L1LOSS_SVC_DUAL"
    if model.formulation in JOINT:
        solver = "MCSVM_CS"
    if len(labels) == 2:  # the first column decides, for the first label
        labels = labels[::-1]
        if solver == "MCSVM_CS":  # which has a column for each class all the same
            coef, intercept = np.vstack([coef / 2, -coef / 2]), np.concatenate([intercept / 2, -intercept / 2])
    rows = [coef.T]
    bias = -1.0
    if model.fit_intercept or intercept.any():
        bias = float(model.intercept_scaling)
        rows.append(intercept[None, :] / bias)
    header = [
        f"solver_type {solver}",
        f"nr_class {len(labels)}",
        f"label {' '.join(map(str, labels))}",
        f"nr_feature {coef.shape[1]}",
        f"bias {bias!r}",
        "w",
    ]
    weights = (" ".join(map(repr, row)) + " " for part in rows for row in part.tolist())
    write_atomically(path, ["\n".join([*header, *weights, ""]).encode()])


def read_liblinear(path: str | os.PathLike) -> LinearSVM:
    """Read a model of LIBLINEAR: solver types 1 to 4.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    LinearSVM
        It predicts, and learns on by ``partial_fit``. ``C`` is not in the file: it has the default.

    Raises
    ------
    ModelFormatError
        With the line, if the file is broken or of another solver type.
    """
    text = TextModel(path, _KEYS, "w", "LIBLINEAR")
    solver = text.word("solver_type", (*_READ, *_NOT_READ))
    if solver not in _READ:
        raise refuse(path, f"solver_type {solver} is {_NOT_READ[solver]}, which LinearSVM is not")
    formulation, loss = _READ[solver]
    (k,) = text.integers("nr_class", 1, 2)
    (n_features,) = text.integers("nr_feature", 1, 1)
    labels = text.integers("label", k, -(2**31))
    (bias,) = text.floats("bias", 1)
    if len(set(labels)) != k:
        raise refuse(path, "a label is there twice")
    if bias > 0 and not 1 / LARGEST_INTERCEPT_SCALING <= bias <= LARGEST_INTERCEPT_SCALING:
        raise refuse(path, f"bias {bias:g} is beyond 1e-100 ... 1e100")
    one_column = k == 2 and solver != "MCSVM_CS"
    W = _weights(text, n_features + (bias >= 0), 1 if one_column else k)
    order = np.argsort(labels)
    if one_column and order[0] == 0:  # positive for the first label, and here for the larger one
        W = -W
    if not one_column:
        W = W[:, order] if k > 2 else W[:, order[1:]] - W[:, order[:1]]
    model = LinearSVM(formulation, loss, fit_intercept=bias > 0, intercept_scaling=bias if bias > 0 else 1.0)
    state = {
        "classes_": np.array(labels, dtype=np.int64)[order],
        "coef_": W[:n_features].T,
        "intercept_": W[n_features] * bias if bias > 0 else np.zeros(W.shape[1]),
        "n_features_in_": n_features,
        "n_iter_": 0,
    }
    model.__setstate__(vars(model) | state)
    return model


def _weights(text: TextModel, n_rows: int, n_columns: int) -> np.ndarray:
    if len(text.body) != n_rows:
        raise text.wrong(text.first, f"{len(text.body)} lines of weights follow, not {n_rows}")
    W = np.empty((n_rows, n_columns)) if sum(map(len, text.body)) >= n_rows * n_columns else None
    for i, line in enumerate(text.body):
        words = line.split()
        if len(words) != n_columns or W is None:
            raise text.wrong(text.first + i, f"there are {len(words)} weights, not {n_columns}")
        W[i] = [text.finite(text.first + i, word) for word in words]
    assert W is not None
    return W
