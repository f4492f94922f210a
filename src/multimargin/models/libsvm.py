"""LIBSVM's text models: c_svc, one-vs-one.

LIBSVM stores of every support vector k - 1 coefficients. In the machine of classes i < j (in the order of the file's
labels) a vector of class i has its coefficient in row j - 1, one of class j in row i. Values are ``K @ coef - rho`` and
positive for class i; a value of exactly zero is a vote for j there, for i here. Classes with the same number of votes
are decided by the order of the file's labels there, by that of the sorted labels here; what is written is sorted.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin.data.atomic import write_atomically
from multimargin.estimators.kernel_svm import KernelSVM
from multimargin.kernel.functions import USE_GAMMA, Kernel
from multimargin.models.errors import refuse
from multimargin.models.text import TextModel, integer_labels
from multimargin.reductions.pairwise import pairs

_KERNELS = {
    "linear": "linear",
    "polynomial": "poly",
    "rbf": "rbf",
    "sigmoid": "sigmoid",
    "precomputed": "precomputed",
}
_NAMES = {ours: theirs for theirs, ours in _KERNELS.items()}
_NOT_READ = {
    "nu_svc": "a nu-SVM",
    "one_class": "a one-class machine",
    "epsilon_svr": "a regression",
    "nu_svr": "a regression",
}
_PROBABILITIES = ("probA", "probB", "prob_density_marks")
_KEYS = ("svm_type", "kernel_type", "degree", "gamma", "coef0", "nr_class", "total_sv", "rho", "label", "nr_sv")
_MOST_ROWS = 1_000_000  # of a precomputed kernel, unless we are told: its matrix would take 8 terabytes
_DENSE = 0.25  # share of non-zeros from which support vectors are kept as a dense array


def write_libsvm(model: Any, path: str | os.PathLike) -> None:
    """Write a KernelSVM as LIBSVM's text.

    Parameters
    ----------
    model : KernelSVM
        Fitted, one_vs_one or of two classes; labels must be integers. ``break_ties=True`` is not known there.
    path : str or path

    Raises
    ------
    TypeError, ValueError
        If LIBSVM cannot say it: other formulations of more than two classes, callable kernels, pipelines.
    """
    if type(model) is not KernelSVM:
        raise TypeError(
            f"{type(model).__name__} cannot be written for LIBSVM, which has KernelSVM only"
            + ("; write its last step, and prepare the rows beforehand" if hasattr(model, "steps") else "")
        )
    model = model._as_it_is()
    if "_kernel" not in vars(model):
        raise ValueError("this KernelSVM is not fitted: there is nothing to write before fit")
    kernel: Kernel = model._kernel
    if kernel.name not in _NAMES:
        raise TypeError("a callable kernel cannot be written for LIBSVM; kernel='precomputed' can")
    labels = integer_labels(model.classes_, "LIBSVM")
    k = len(labels)
    if model.formulation != "one_vs_one" and k > 2:
        raise ValueError(
            f"formulation={model.formulation!r} with {k} classes cannot be written for LIBSVM, which only has votes "
            "over pairs of classes: formulation='one_vs_one' can"
        )
    coef = model.dual_coef_[model.support_].toarray()
    classes = model._dual_labels[model.support_]
    if k == 2:  # ours is positive for the larger label, theirs for the first
        labels, classes = labels[::-1], 1 - classes
    of_vectors = np.zeros((len(classes), k - 1))
    for machine, (i, j) in enumerate(pairs(k)):
        for of_class, row in ((i, j - 1), (j, i)):
            of_vectors[classes == of_class, row] = coef[classes == of_class, machine]
    order = np.argsort(classes, kind="stable")
    header = ["svm_type c_svc", f"kernel_type {_NAMES[kernel.name]}"]
    if kernel.name == "poly":
        header.append(f"degree {kernel.degree}")
    if kernel.name in USE_GAMMA:
        header.append(f"gamma {kernel.gamma!r}")
    if kernel.name in ("poly", "sigmoid"):
        header.append(f"coef0 {kernel.coef0!r}")
    header += [
        f"nr_class {k}",
        f"total_sv {len(classes)}",
        f"rho {' '.join(repr(-value) for value in model.intercept_.tolist())}",
        f"label {' '.join(map(str, labels))}",
        f"nr_sv {' '.join(map(str, np.bincount(classes, minlength=k).tolist()))}",
        "SV",
    ]
    vectors = _vector_words(model)
    lines = (f"{' '.join(map(repr, of_vectors[i].tolist()))} {vectors(i)} " for i in order)
    write_atomically(path, ["\n".join([*header, *lines, ""]).encode()])


def _vector_words(model: KernelSVM) -> Any:
    """A function from the number of a support vector to its words."""
    if model._kernel.name == "precomputed":
        return lambda i: f"0:{int(model.support_[i]) + 1}"
    vectors = sp.csr_array(model.support_vectors_, dtype=np.float64)
    indptr, indices, data = vectors.indptr.tolist(), vectors.indices, vectors.data

    def words(i: int) -> str:
        part = slice(indptr[i], indptr[i + 1])
        return " ".join(f"{j + 1}:{x!r}" for j, x in zip(indices[part].tolist(), data[part].tolist(), strict=True))

    return words


def read_libsvm(path: str | os.PathLike, *, n_features: int | None = None) -> KernelSVM:
    """Read a c_svc model of LIBSVM.

    Parameters
    ----------
    path : str or path
    n_features : int or None
        Columns of X, which are not in the file; None is the largest that a support vector has. For a precomputed
        kernel: the number of training rows, which must be told if it is more than a million.

    Returns
    -------
    KernelSVM
        one_vs_one. Its ``dual_coef_`` has a row for every support vector, as the training rows are not in the file.
        ``C`` is not, either, and has the default. Probabilities (probA, probB) are left out, with a warning.

    Raises
    ------
    ModelFormatError
        With the line, if the file is broken or of another type.
    """
    text = TextModel(path, (*_KEYS, *_PROBABILITIES), "SV", "LIBSVM")
    svm_type = text.word("svm_type", ("c_svc", *_NOT_READ))
    if svm_type != "c_svc":
        raise refuse(path, f"svm_type {svm_type} is {_NOT_READ[svm_type]}, which KernelSVM is not")
    if any(text.has(key) for key in _PROBABILITIES):
        warnings.warn(
            f"{os.fspath(path)!s}: the probabilities of LIBSVM (probA, probB) are left out", UserWarning, stacklevel=2
        )
    kernel = _read_kernel(text)
    (k,) = text.integers("nr_class", 1, 2)
    (total,) = text.integers("total_sv", 1, 0)
    labels = text.integers("label", k, -(2**31))
    counts = text.integers("nr_sv", k, 0)
    rho = np.array(text.floats("rho", k * (k - 1) // 2))
    if len(set(labels)) != k:
        raise refuse(path, "a label is there twice")
    if sum(counts) != total or len(text.body) != total:
        raise refuse(
            path, f"total_sv is {total}, the sum of nr_sv is {sum(counts)}, and {len(text.body)} support vectors follow"
        )
    coef, vectors = _read_vectors(text, k, kernel.name == "precomputed", n_features)
    position = np.argsort(labels)  # in the file, of the sorted classes
    classes = np.argsort(position)[np.repeat(np.arange(k), counts)]
    duals, intercept = _machines(coef, rho, position, classes)
    return _model(kernel, np.array(labels, dtype=np.int64)[position], classes, duals, intercept, vectors)


def _read_kernel(text: TextModel) -> Kernel:
    name = _KERNELS[text.word("kernel_type", _KERNELS)]
    gamma = text.floats("gamma", 1)[0] if name in USE_GAMMA else 1.0
    degree = text.integers("degree", 1, 0)[0] if name == "poly" else 3
    coef0 = text.floats("coef0", 1)[0] if name in ("poly", "sigmoid") else 0.0
    if gamma < 0:
        raise refuse(text.path, f"gamma {gamma:g} is negative")
    return Kernel(name, gamma, degree, coef0)


def _read_vectors(text: TextModel, k: int, precomputed: bool, n_features: int | None) -> tuple[np.ndarray, Any]:
    """Coefficients (vectors x (k - 1)), and the support vectors: CSR, or numbers of rows and how many there are."""
    coef: list[list[float]] = []
    data: list[float] = []
    indices: list[int] = []
    indptr = [0]
    most = n_features if n_features is not None else 2**31 - 1
    for line, content in enumerate(text.body, text.first):
        words = content.split()
        if len(words) < k - 1:
            raise text.wrong(line, f"there are {len(words)} coefficients, not {k - 1}")
        coef.append([text.finite(line, word) for word in words[: k - 1]])
        last = -1 if precomputed else 0
        for word in words[k - 1 :]:
            column, colon, value = word.partition(":")
            index = text.number(line, column, int, lambda j: last < j <= most)  # noqa: B023 (called at once)
            if not colon:
                raise text.wrong(line, f"{word[:40]!r} is not column:value")
            data.append(text.finite(line, value))
            indices.append(index - 1)
            last = index
        indptr.append(len(data))
    if precomputed:
        return np.array(coef).reshape(-1, k - 1), _serials(text, data, indices, indptr, n_features)
    width = n_features if n_features is not None else max(indices, default=0) + 1
    vectors = sp.csr_array((data, indices, indptr), shape=(len(coef), width), dtype=np.float64)
    if len(data) >= _DENSE * len(coef) * width:
        return np.array(coef).reshape(-1, k - 1), vectors.toarray()
    return np.array(coef).reshape(-1, k - 1), vectors


def _serials(text: TextModel, data: list, indices: list, indptr: list, n_features: int | None) -> tuple:
    """Numbers of the training rows that are support vectors: ``0:number`` is all that their lines have."""
    rows = np.array(data)
    bad = len(data) != len(indptr) - 1 or any(index != -1 for index in indices) or (np.diff(indptr) != 1).any()
    if bad or (rows != np.rint(rows)).any() or (rows < 1).any() or (rows > 2**31 - 1).any():
        raise refuse(text.path, "every support vector of a precomputed kernel must be 0:number of a training row")
    rows = rows.astype(np.int64) - 1
    if n_features is None and rows.max(initial=0) >= _MOST_ROWS:  # memory goes by the number of rows
        raise refuse(
            text.path,
            f"line {text.first + int(rows.argmax())}: training row {int(rows.max()) + 1} of a precomputed kernel is "
            f"beyond the {_MOST_ROWS} that are believed",
            "if there are so many, say how many by n_features",
        )
    count = n_features if n_features is not None else int(rows.max(initial=0)) + 1
    if len(np.unique(rows)) != len(rows) or rows.max(initial=0) >= count:
        raise refuse(text.path, f"the support vectors must be different rows of the {count} of training")
    return rows, count


def _machines(coef: np.ndarray, rho: np.ndarray, position: np.ndarray, classes: np.ndarray) -> tuple:
    """Duals (CSR) and intercepts of our machines: pairs of sorted classes, or one, positive for the larger label."""
    k = len(position)
    number = {pair: machine for machine, pair in enumerate(pairs(k))}
    rows, columns, values, intercept = [], [], [], []
    for machine, (first, second) in enumerate(pairs(k)):
        i, j = int(position[first]), int(position[second])
        sign = 1.0 if i < j else -1.0
        if k == 2:
            sign = -sign
        for of_class, other in ((first, j), (second, i)):
            members = np.flatnonzero(classes == of_class)
            mine = int(position[of_class])
            value = sign * coef[members, other - 1 if other > mine else other]
            rows.append(members[value != 0])
            columns.append(np.full(np.count_nonzero(value), machine))
            values.append(value[value != 0])
        intercept.append(-sign * rho[number[min(i, j), max(i, j)]])
    duals = sp.csr_array(
        (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))),
        shape=(len(classes), len(intercept)),
    )
    return duals, np.array(intercept)


def _model(
    kernel: Kernel, labels: np.ndarray, classes: np.ndarray, duals: sp.csr_array, intercept: np.ndarray, vectors: Any
) -> KernelSVM:
    used = np.flatnonzero(np.diff(duals.indptr))  # LIBSVM may keep vectors whose coefficients are all zero
    support = used
    if kernel.name == "precomputed":
        rows, count = vectors
        n_columns, vectors = count, np.empty((0, 0))
        order = np.argsort(rows[used])
        support = rows[used][order]
        of_rows = np.zeros(count, dtype=np.int64)
        of_rows[support] = classes[used][order]
        entries = sp.coo_array(duals)
        duals = sp.csr_array(
            (entries.data, (rows[entries.coords[0]], entries.coords[1])), shape=(count, duals.shape[1])
        )
        classes = of_rows
    else:
        vectors, classes, duals = vectors[used], classes[used], duals[used]
        support, n_columns = np.arange(len(used)), vectors.shape[1]
    model = KernelSVM(
        "one_vs_one",
        kernel.name,
        gamma=kernel.gamma if kernel.name in USE_GAMMA else "scale",
        degree=kernel.degree,
        coef0=kernel.coef0,
    )
    model.__dict__.update(
        classes_=labels,
        n_features_in_=n_columns,
        n_iter_=0,
        dual_coef_=duals,
        support_=support,
        support_vectors_=vectors,
        n_support_=np.bincount(classes[support], minlength=len(labels)),
        intercept_=intercept,
        gamma_=kernel.gamma if kernel.name in USE_GAMMA else None,
        shape_fit_=(duals.shape[0], n_columns),
        _kernel=kernel,
        _fitted_formulation="one_vs_one",
        # C is unknown: the least that each row's duals allow.
        _dual_caps=np.abs(duals).max(axis=1).toarray().ravel(),
        _dual_labels=classes,
        _dual_problem=("one_vs_one", "hinge", duals.shape),
    )
    return model
