"""Bad inputs, one a line: what is given, the exact exception, and words that its message must have.

The words say which argument it is, where, and what to do. What single parameters may be is in
tests/estimators/test_parameters.py and test_kernel_parameters.py, the command line's own table in
tests/commands/test_errors.py; here is what people try who come from elsewhere, and every other door of the package.
"""

import os
import pickle
from fractions import Fraction

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from dask import delayed
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC

import multimargin.dask
from multimargin import (
    ConfusionPairsDisplay,
    ConvergenceDisplay,
    KernelSVM,
    LinearSVM,
    LinearSVMCV,
    PathDisplay,
    load,
    read_svmlight,
    save,
    write_svmlight,
)
from multimargin.commands.main import main
from multimargin.data.blocks import BlocksError, open_blocks, write_blocks
from multimargin.data.svmlight import SvmlightFormatError
from multimargin.linear.checkpoint import CheckpointError
from multimargin.models import ModelFormatError
from multimargin.models.light import load_light

X, y = load_iris(return_X_y=True)
ROWS, LABELS = X[::5], y[::5]  # 30 rows, for what is trained before it goes wrong
PARTS = da.from_array(ROWS, chunks=(10, 4))
DAYS = np.arange("2024-01-01", "2024-01-31", dtype="datetime64[D]")
HALVES = (np.arange(0, 30, 2), np.arange(1, 30, 2))
STRINGS = np.dtypes.StringDType(na_object=None)
MIXED = np.array([1, "a", 2] * 10, dtype=object)


CHANGED = ("formulation was changed from 'dag' to 'one_vs_rest' after the fit", "set it back, or fit again")


def but(array, *place_and_value):
    """A copy with one entry changed."""
    *place, value = place_and_value
    changed = np.array(array)
    changed[tuple(place)] = value
    return changed


def fit(*given, on=None, labels=None, weights=None, of=LinearSVM, **parameters):
    return of(*given, **parameters).fit(ROWS if on is None else on, LABELS if labels is None else labels, weights)


def with_set(**attributes):
    model = fit()
    vars(model).update(attributes)
    return model


def of_objects(kind):
    """The labels as Python's objects."""
    return np.fromiter((kind(int(k)) for k in LABELS), dtype=object, count=len(LABELS))


def online(labels, classes=(0, 1, 2)):
    return LinearSVM().partial_fit(ROWS, labels, classes=classes)


def cluster(**parameters):
    return multimargin.dask.LinearSVM(**parameters).fit(PARTS, da.from_array(LABELS, chunks=10))


def kernel(*given, **parameters):
    return fit(*given, of=KernelSVM, **parameters)


def cv(**parameters):
    return fit(of=LinearSVMCV, **parameters)


def frame(**columns):
    return pd.DataFrame(columns)


def test_what_may_be_given_by_position_may_be():
    linear, kernel = LinearSVM("dag", "squared_hinge", 2.0), KernelSVM("dag", "poly", 2.0)
    assert (linear.formulation, linear.loss, linear.C) == ("dag", "squared_hinge", 2.0)
    assert (kernel.formulation, kernel.kernel, kernel.C) == ("dag", "poly", 2.0)


# Names that parameters have elsewhere, and values in the wrong place
PARAMETERS = [
    (lambda: LinearSVM(penalty="l1"), TypeError, "LinearSVM", "'penalty'", "always l2", "LinearSVC(penalty='l1'"),
    (lambda: LinearSVM(dual=False), TypeError, "LinearSVM", "'dual'", "solver="),
    (lambda: LinearSVM(multi_class="ovr"), TypeError, "LinearSVM", "'multi_class'", "formulation="),
    (lambda: LinearSVM(kernel="rbf"), TypeError, "LinearSVM", "'kernel'", "KernelSVM"),
    (lambda: LinearSVM(alpha=1e-4), TypeError, "'alpha'", "C= is 1 / (alpha * n_samples)"),
    (lambda: LinearSVM(epsilon=0.1), TypeError, "'epsilon'", "SVR", "tol="),
    (lambda: LinearSVM(maxiter=10), TypeError, "'maxiter'", "did you mean max_iter=?"),
    (lambda: LinearSVM(zzz=10), TypeError, "'zzz'", "it has formulation, loss, C, solver"),
    (lambda: LinearSVM("dag", "hinge", 1.0, "sdm"), TypeError, "LinearSVM takes formulation, loss, C by", "'sdm'"),
    (lambda: KernelSVM(nu=0.5), TypeError, "KernelSVM", "'nu'", "sklearn.svm.NuSVC"),
    (lambda: KernelSVM(cache_size=200), TypeError, "'cache_size'", "cache_mb="),
    (lambda: LinearSVMCV(C=1.0), TypeError, "LinearSVMCV", "'C'", "Cs="),
    (lambda: LinearSVM().set_params(penalty="l2"), ValueError, "'penalty'", "LinearSVM"),
    (lambda: fit("hinge"), ValueError, "formulation='hinge'", "did you mean loss='hinge'?"),
    (lambda: fit(10), ValueError, "formulation=10", "did you mean C=10?"),
    (lambda: fit("crammer-singer"), ValueError, "formulation='crammer-singer'", "did you mean 'crammer_singer'?"),
    (lambda: fit("multinomial"), ValueError, "formulation='multinomial'", "may be 'crammer_singer'"),
    (lambda: fit("nu_svc"), ValueError, "formulation='nu_svc'", "NuSVC"),
    (lambda: fit(loss="log"), ValueError, "loss='log'", "LogisticRegression"),
    (lambda: fit(loss="l2"), ValueError, "loss='l2'", "'hinge', 'squared_hinge'"),
    (lambda: fit(solver="liblinear"), ValueError, "solver='liblinear'", "'auto', 'sdm'"),
    (lambda: fit(solver="tron"), ValueError, "solver='tron'", "loss 'squared_hinge'", "there are solver='sdm'"),
    (lambda: fit(on=np.ones((len(ROWS), 2000)), solver="newton"), ValueError, "systems of 6003", "'accelerated_sdm'"),
    (lambda: fit(max_iter=-1), ValueError, "max_iter", "at least 1, got -1", "10**9"),
    (lambda: fit(C="1"), TypeError, "C must be a number, got '1'"),
    (lambda: fit(C=1e-310), ValueError, "C must be at least 1e-300, got 1e-310"),
    (
        lambda: fit(C=1e200),
        ValueError,
        "sum of C_i ||x_i||",
        "1e+150",
        "product is 1e+200",
    ),
    (lambda: fit(n_jobs=0), ValueError, "n_jobs must not be 0", "-1 all"),
    (lambda: fit(callbacks=print), TypeError, "callbacks must be a list"),
    (lambda: fit(callbacks=[lambda record: ROWS]), TypeError, "the callback <function", "True to stop", "of ndarray"),
    (lambda: fit(solver_options={"step": 1}), ValueError, "solver_options", "'step'", "may have permutation"),
    (lambda: fit(intercept_scaling=1e300), ValueError, "intercept_scaling", "at most 1e+100, got 1e+300"),
    (lambda: kernel("rbf"), ValueError, "formulation='rbf'", "did you mean KernelSVM(kernel='rbf')?"),
    (lambda: kernel(kernel="RBF"), ValueError, "kernel='RBF'", "did you mean 'rbf'?"),
    (lambda: kernel(kernel="laplacian"), ValueError, "kernel='laplacian'", "'precomputed' or a callable"),
    (lambda: kernel(gamma=-1), ValueError, "gamma must be finite and at least 0, got -1"),
    (lambda: kernel(gamma="1"), ValueError, "gamma='1'", "'scale', 'auto' or a number"),
    (lambda: kernel(gamma=None), TypeError, "gamma must be a number, got None"),
    (lambda: kernel(degree=2.5), TypeError, "degree must be an integer, got 2.5"),
    (lambda: kernel(loss="squared_hinge"), ValueError, "loss='squared_hinge'", "LinearSVM does both"),
    (lambda: kernel(cache_mb=1e30), ValueError, "cache_mb", "at most", "got 1e+30"),
    (lambda: kernel(working_set=10**12), ValueError, "working_set", "at most 2147483647"),
    (lambda: kernel(C=1e200), ValueError, "sum of C_i sqrt(K(x_i, x_i))", "or lower C or the weights", "1e+200"),
    (lambda: kernel(kernel="precomputed"), ValueError, "'precomputed' needs a square X", "got 30 x 4"),
    (lambda: kernel(kernel=lambda A, B: A @ B.T + A[:, :1]), ValueError, "is not symmetric", "k(z, x)"),
    (lambda: kernel(kernel=lambda A, B: A @ (B - B.mean(axis=0)).T), ValueError, "other rows are in the call"),
    (lambda: kernel(kernel=lambda A, B: np.negative(A, out=A) @ B.T), ValueError, "read-only"),
    (lambda: kernel(kernel=lambda A, B: np.ma.masked_less(A @ B.T, 40)), ValueError, "returned masked entries", "fill"),
    (lambda: cv(scoring=["accuracy", "f1_macro"]), ValueError, "scoring must be one score", "'f1_macro'"),
    (lambda: cv(cv=1), ValueError, "n_splits=2 or more, got n_splits=1"),
    (lambda: cv(cv=[([0, 15, 29], [1, 99])]), ValueError, "cv=[([0, 15, 29], [1, 99])]", "fold 0 holds out", "got 99"),
    (lambda: cv(cv=[HALVES, ([-31], [1])]), ValueError, "what fold 1 trains on must be numbers of rows from 0 to 29"),
    (
        lambda: cv(cv=[([0.0, 15.0], [1])]),
        ValueError,
        "what fold 0 trains on must be",
        "array of float64 of shape (2,)",
    ),
    (lambda: cv(cv=[HALVES, ([], [1])]), ValueError, "what fold 1 trains on is no row at all: choose other folds"),
    (lambda: cv(cv=[([0, 15], LABELS > 2)]), ValueError, "what fold 0 holds out is no row at all"),
    (lambda: cv(cv=[(LABELS[1:] > 0, [1])]), ValueError, "what fold 0 trains on", "a mask of 30, got a mask of 29"),
    (
        lambda: cv(scoring=lambda *of: "good"),
        ValueError,
        "fold 0, C=0.001: scoring=",
        "must give a number, got 'good', of str",
    ),
    (lambda: cv(scoring=lambda *of: np.ones(3)), ValueError, "fold 0, C=0.001: scoring=<function", "of ndarray"),
    (lambda: cv(scoring=lambda *of: None), ValueError, "must give a number, got None, of NoneType"),
    (lambda: cv(scoring=lambda *of: 10**400), ValueError, "fold 0, C=0.001: ", "a number that float64 has no room for"),
    (lambda: cv(labels=LABELS > 0, cv=[(HALVES[0][:2], [9]), HALVES]), ValueError, "fold 0, C=0.001: ", "one class"),
    (lambda: cv(class_weight={7: 2.0}), ValueError, "class_weight names class 7, which is not among"),
    (lambda: cv(Cs=np.ma.masked_array([1.0, 1e4], [0, 1])), ValueError, "Cs", "mask"),
    (lambda: cv(scoring=lambda *of: np.inf), ValueError, "gives NaN or infinity for every C: there is none to choose"),
    (lambda: cv(cv=1000), ValueError, "n_splits=1000", "n_samples=30"),
    (lambda: cv(Cs=0), ValueError, "Cs must be", "at least 1, got 0"),
    (lambda: cv(Cs=[]), ValueError, "Cs must be an integer or an array of numbers, got []"),
    (lambda: cv(Cs=[1, -1]), ValueError, "each of Cs must be finite and at least 1e-300, got -1"),
    (lambda: cv(Cs="many"), TypeError, "each of Cs must be a number, got 'many'"),
]

# Weights and labels
LABELLED = [
    (lambda: fit(class_weight={"setosa": 2}), ValueError, "class_weight names class 'setosa'", "array([0, 1, 2])"),
    (lambda: fit(class_weight={(0, 1, 2): 100.0}), ValueError, "names class (0, 1, 2)", "among", "a key is one label"),
    (lambda: kernel(class_weight={(0, 1, 9): 9.0}), ValueError, "class_weight names class (0, 1, 9)", "is one label"),
    (lambda: fit(class_weight={(1,): 100.0}), ValueError, "names class (1,)", "array([0, 1, 2])", "one label"),
    (lambda: fit(class_weight="auto"), TypeError, "class_weight must be a dict, 'balanced' or None, got 'auto'"),
    (lambda: fit(class_weight={0: -1}), ValueError, "class_weight of 0 must not be negative"),
    (lambda: fit(class_weight={0: 0, 1: 0, 2: 0}), ValueError, "C times the weights is 0", "raise C=1", "class_weight"),
    (lambda: fit(weights=np.ones(3)), ValueError, "sample_weight.shape == (3,), expected (30,)"),
    (lambda: fit(weights=DAYS), ValueError, "sample_weight holds dates or durations (it is datetime64[D])", "make"),
    (lambda: kernel(weights=DAYS - DAYS[0]), ValueError, "sample_weight holds dates or durations", "np.timedelta64"),
    (lambda: cv(weights=pd.Series(DAYS)), ValueError, "sample_weight holds dates or durations (it is datetime64"),
    (lambda: fit(weights=list(DAYS - DAYS[0])), ValueError, "sample_weight holds dates or durations (it is timedelta"),
    (
        lambda: fit(weights=np.array([*DAYS], object)),
        ValueError,
        "sample_weight holds dates",
        "it is datetime64",
    ),
    (lambda: fit(weights=np.timedelta64(1, "D")), ValueError, "sample_weight holds dates or durations"),
    (lambda: fit(weights=np.rec.fromarrays([ROWS[:, 0]])), ValueError, "sample_weight holds records", "['f0']"),
    (lambda: fit(weights=np.full(30, np.nan)), ValueError, "sample_weight contains NaN"),
    (lambda: fit(weights=-np.ones(30)), ValueError, "sample_weight must not be negative"),
    (lambda: fit(weights=np.zeros(30)), ValueError, "Sample weights must contain at least one non-zero number"),
    (lambda: fit(weights="balanced"), ValueError, "sample_weight must be a number", "'balanced'"),
    (lambda: fit(weights=np.full(30, 1e-310)), ValueError, "C times the weights is 0, or below 1e-300", "raise C=1"),
    (
        lambda: fit(class_weight="balanced", weights=np.full(30, 1e308)),
        ValueError,
        "C times the weights must be finite",
    ),
    (lambda: fit(C=1e300, weights=np.full(30, 1e10)), ValueError, "C times the weights must be finite: lower C=1e+300"),
    (lambda: fit(labels=ROWS[:, 0]), ValueError, "Unknown label type: continuous"),
    (lambda: fit(labels=np.zeros(30)), ValueError, "needs at least 2 classes; y has only one class, 0.0"),
    (lambda: fit(labels=MIXED), ValueError, "y mixes int, strings", "[str(label) for label in y]"),
    (lambda: fit(labels=DAYS), ValueError, "y holds dates or durations (datetime64[D])", "y.astype(str)"),
    (lambda: fit(labels=pd.Series(DAYS)), ValueError, "y holds dates or durations (datetime64[", "y.astype(str)"),
    (lambda: fit(labels=list(MIXED)), ValueError, "y mixes int, strings", "[str(label) for label in y]"),
    (lambda: fit(labels=["a", "b", np.nan] * 10), ValueError, "y has no label (None or NaN) in row 2"),
    (lambda: fit(labels=["a", "b", pd.NA] * 10), ValueError, "y has no label (None or NaN) in row 2"),
    (lambda: fit(labels=np.array(["a", "b", pd.NA] * 10, object)), ValueError, "y has no label", "in row 2"),
    (lambda: fit(labels=[2**53, 2**53 + 1, 0.0] * 10), ValueError, "y mixes float, int"),
    (lambda: store((X, [2**63, -1, 0.5] * 50)), ValueError, "chunk 0: labels must be whole numbers", "got object"),
    (lambda: fit(labels=of_objects(Fraction)), ValueError, "y holds Fraction(0, 1), of Fraction: labels must be all"),
    (
        lambda: fit(labels=of_objects(lambda k: k > 1 or k)),
        ValueError,
        "y mixes bool, int: labels must be all of a kind",
    ),
    (lambda: fit(labels=of_objects(lambda k: k + 2**70)), ValueError, "of int: labels must be", "(of 64 bits)"),
    (
        lambda: fit(labels=LABELS.astype([("k", int)])),
        ValueError,
        "y holds records",
        "plain values: one field (y['k'])",
    ),
    (lambda: fit(labels=np.rec.fromarrays([LABELS], names="k")), ValueError, "y holds records", "one field (y['k'])"),
    (lambda: fit(labels=np.array(["a", None] * 15, STRINGS)), ValueError, "y has no label (None or NaN) in row 1"),
    (lambda: cv(labels=of_objects(Fraction)), ValueError, "y holds Fraction(0, 1)", "[str(label) for label in y]"),
    (lambda: online(of_objects(Fraction)), ValueError, "y holds Fraction(0, 1)", "[str(label) for label in y]"),
    (lambda: online(LABELS, [*"ab", None]), ValueError, "classes must be a list of labels, none of them None or NaN"),
    (lambda: online(LABELS, [*"ab", np.nan]), ValueError, "classes must be a list of labels, none of them None or NaN"),
    (lambda: online(LABELS, [*"ab", pd.NA]), ValueError, "classes must be a list of labels, none of them None or NaN"),
    (lambda: online(LABELS, []), ValueError, "classes must be a list of labels, none of them None or NaN, got []"),
    (
        lambda: online(LABELS, [Fraction(1), 2]),
        ValueError,
        "classes mixes Fraction, int: labels",
        "for label in classes",
    ),
    (lambda: fit(labels=but(MIXED, 4, None)), ValueError, "y has no label (None or NaN) in row 4", "leave out rows"),
    (lambda: fit(labels=pd.Series([*"ab" * 14, None, "a"])), ValueError, "y has no label (None or NaN) in row 28"),
    (lambda: fit(labels=but(LABELS * 1.0, 3, np.nan)), ValueError, "y has no label (None or NaN) in row 3"),
    (lambda: fit(labels=but(LABELS * 1.0, 3, np.inf)), ValueError, "y contains infinity", "row 3"),
    (lambda: fit(labels=pd.Series(LABELS, dtype="Int64").mask(LABELS == 1)), ValueError, "in row 10", "leave out rows"),
    (lambda: fit(labels=pd.Series([*"abc"] * 10, dtype="string").mask(LABELS == 2)), ValueError, "in row 20"),
    (lambda: fit(labels=np.ma.masked_equal(LABELS, 2)), ValueError, "y has masked entries", "y.filled(...)"),
    (lambda: fit(weights=np.ma.masked_equal(LABELS, 2)), ValueError, "sample_weight has masked entries", "filled(...)"),
    (lambda: fit("dag").set_params(formulation="one_vs_rest").predict(ROWS), ValueError, *CHANGED),
    (lambda: kernel("dag").set_params(formulation="one_vs_rest").score(ROWS, LABELS), ValueError, *CHANGED),
    (lambda: fit("dag").set_params(formulation="one_vs_rest").partial_fit(ROWS, LABELS), ValueError, *CHANGED),
    (lambda: save(fit("dag").set_params(formulation="one_vs_rest"), "never"), ValueError, *CHANGED),
    (lambda: save(kernel("dag").set_params(formulation="one_vs_rest"), "never"), ValueError, *CHANGED),
    (
        lambda: fit().set_params(decision_function_shape="all").predict(ROWS),
        ValueError,
        "'all' is unknown; it may be 'ovr', 'ovo'",
    ),
    (lambda: kernel().set_params(break_ties="no").predict(ROWS), TypeError, "break_ties must be True or False"),
    (lambda: fit(random_state=2**64), ValueError, "random_state", "from 0 to 2**32 - 1"),
    (lambda: fit("dag").set_params(formulation="crammer_singer").label_doubt(), ValueError, "not 'dag' with 'hinge'"),
    (lambda: fit(labels=np.eye(3)[LABELS]), ValueError, "y should be a 1d array", "(30, 3)"),
    (lambda: fit(labels=LABELS[:-1]), ValueError, "inconsistent numbers of samples: [30, 29]"),
    (lambda: LinearSVM().fit(X, "no_validation"), ValueError, "y must be labels, one a row", "got 'no_validation'"),
    (lambda: KernelSVM().fit(X, "species"), ValueError, "y must be labels, one a row, not a text, got 'species'"),
    (lambda: cv(labels="no_validation"), ValueError, "y must be labels, one a row, not a text"),
    (lambda: online("no_validation"), ValueError, "y must be labels, one a row, not a text"),
    (lambda: LinearSVM().fit(X), ValueError, "requires y to be passed"),
    (lambda: fit("dag", on=np.eye(19998, 1), labels=[*range(9999)] * 2), ValueError, "49985001 machines", "use"),
]

# Rows
OF_ROWS = [
    (lambda: fit(on=but(ROWS, 17, 2, np.nan)), ValueError, "X contains NaN", "row 17, column 2"),
    (lambda: fit(on=sp.csr_array(but(ROWS, 17, 2, np.inf))), ValueError, "X contains infinity", "row 17, column 2"),
    (lambda: kernel(on=sp.csc_array(but(ROWS, 9, 0, np.nan))), ValueError, "X contains NaN", "row 9, column 0"),
    (lambda: fit(on=pd.DataFrame(but(ROWS, 3, 1, np.nan))), ValueError, "X contains NaN", "row 3, column 1"),
    (lambda: fit().predict(but(ROWS, 5, 3, -np.inf)), ValueError, "X contains infinity", "row 5, column 3"),
    (lambda: fit().predict(but(ROWS, 5, 1.7e308)), ValueError, "scores of 1 of the rows overflow", "scale them"),
    (
        lambda: with_set(coef_=np.full((3, 4), np.nan)).predict(ROWS),
        ValueError,
        "coef_ of this LinearSVM holds NaN",
        "fit",
    ),
    (lambda: with_set(intercept_=np.full(3, np.inf)).predict(ROWS), ValueError, "intercept_ of this LinearSVM holds"),
    (lambda: fit().top_classes(but(ROWS, 5, 1.7e308), 2), ValueError, "scores of 1 of the rows overflow"),
    (lambda: fit("dag").decision_function(but(ROWS, 5, 1.7e308)), ValueError, "scores of 1 of the rows overflow"),
    (lambda: fit(on=np.ma.masked_greater(ROWS, 6)), ValueError, "X has masked entries", "X.filled(...)"),
    (lambda: fit().predict(np.ma.masked_greater(ROWS, 6)), ValueError, "X has masked entries", "X.filled(...)"),
    (lambda: fit(on=ROWS[:, 0]), ValueError, "Expected 2D array, got 1D array", "reshape(-1, 1)"),
    (lambda: fit(on=ROWS[None]), ValueError, "Found array with dim 3"),
    (lambda: fit(on=ROWS[:0], labels=[]), ValueError, "0 sample(s)", "minimum of 1 is required by LinearSVM"),
    (lambda: fit(on=ROWS[:, :0]), ValueError, "0 feature(s)", "minimum of 1 is required by LinearSVM"),
    (lambda: fit(on=[["a", "b"], ["c", "d"]], labels=[0, 1]), ValueError, "X holds 'a' in row 0, column 0", "Encoder"),
    (lambda: fit(on=np.array([[1, 2], [3, "x"]], object), labels=[0, 1]), ValueError, "'x' in row 1, column 1"),
    (lambda: fit(on=frame(b=[1, 2], a=pd.Categorical(["u", "v"])), labels=[0, 1]), ValueError, "row 0, column 'a'"),
    (lambda: fit(on=["one text", "another"], labels=[0, 1]), ValueError, "'one text'", "TfidfVectorizer"),
    (lambda: fit(on=[[10**400], [1]], labels=[0, 1]), ValueError, "in row 0, column 0", "scale the features down"),
    (lambda: fit(on="data.svm"), TypeError, "X must be an array", "'data.svm'", "read_svmlight(path)"),
    (lambda: fit(on=DAYS[:, None]), ValueError, "X holds dates or durations (it is datetime64[D])", "make numbers"),
    (lambda: kernel(on=frame(when=DAYS)), ValueError, "X holds dates or durations (column 'when' is", "such as days"),
    (lambda: fit().predict(DAYS[:, None] - DAYS[0]), ValueError, "X holds dates or durations", "np.timedelta64"),
    (
        lambda: fit(on=but(np.ones((30, 2), object), 9, 1, DAYS[1] - DAYS[0])),
        ValueError,
        "X holds dates",
        "(it is timedelta64)",
    ),
    (lambda: fit(on=[[day] for day in DAYS]), ValueError, "X holds dates or durations (it is datetime64[D])"),
    (lambda: fit(on=DAYS.astype(object)[:, None]), ValueError, "X holds dates or durations (it is date)"),
    (lambda: fit(on=np.rec.fromarrays([*ROWS.T], names="a,b,c,d")), ValueError, "X holds records", "unstructured(X)"),
    (lambda: fit().predict(ROWS.astype([("k", float)])), ValueError, "X holds records", "give plain values"),
    (lambda: fit(on=ROWS * 1j), ValueError, "Complex data not supported"),
    (lambda: fit(on=[[1, 2], [3]], labels=[0, 1]), ValueError, "inhomogeneous shape"),
    (lambda: fit(on=ROWS * 1e200), ValueError, "squared norm of row 0 overflows: scale the features down"),
    (lambda: fit(on=ROWS * 1e-200, fit_intercept=False), ValueError, "too small a number", "scale the features up"),
    (lambda: kernel(kernel="linear", on=ROWS * 1e-150, fit_intercept=False), ValueError, "scale the features up"),
    (lambda: kernel(kernel="linear", on=ROWS * 1e200), ValueError, "linear kernel are not finite", "features down"),
    (lambda: kernel(on=ROWS * 1e-200), ValueError, "gamma='scale' overflows", "scale the features up"),
    (lambda: LinearSVM().predict(X), NotFittedError, "LinearSVM instance is not fitted yet"),
    (lambda: KernelSVM().decision_function(X), NotFittedError, "KernelSVM instance is not fitted yet"),
    (lambda: fit().predict(X[:, :3]), ValueError, "X has 3 features, but LinearSVM is expecting 4"),
    (lambda: fit().predict(X[0]), ValueError, "Expected 2D array, got 1D array", "reshape(1, -1)"),
    (lambda: fit(on=frame(a=[1, 2]), labels=[0, 1]).predict(frame(b=[1])), ValueError, "feature names", "- b", "- a"),
    (lambda: fit().predict_proba(X), AttributeError, "'LinearSVM' has no attribute 'predict_proba'"),
    (lambda: fit("one_vs_one").label_doubt(), ValueError, "label_doubt needs", "not 'one_vs_one'"),
    (lambda: kernel().coef_, AttributeError, "kernel='linear' only"),
    (lambda: KernelSVM().partial_fit(X, y), AttributeError, "KernelSVM has no partial_fit", "LinearSVM has one"),
    (lambda: LinearSVM().partial_fit(X, y), ValueError, "classes must be passed on the first call"),
    (lambda: LinearSVM().partial_fit(X, y, classes=[0, 1]), ValueError, "labels that are not among classes", "[2]"),
    (lambda: ConvergenceDisplay.from_estimator(LinearSVM()), NotFittedError, "LinearSVM instance is not fitted"),
    (lambda: ConvergenceDisplay.from_estimator(5), TypeError, "5 is not an estimator"),
    (lambda: ConvergenceDisplay.from_estimator(fit(), x="steps"), ValueError, "'epochs', 'seconds'", "got 'steps'"),
    (lambda: PathDisplay.from_estimator(fit()), ValueError, "no path of C", "LinearSVMCV has one"),
    (lambda: ConfusionPairsDisplay.from_predictions(y, y[:3]), ValueError, "numbers of samples: [150, 3]"),
]


def text(content):
    with open("data.svm", "wb") as file:
        file.write(content)
    return read_svmlight("data.svm")


def damaged(change):
    save(fit(), "model")
    with open("model", "rb") as file:
        content = file.read()
    with open("model", "wb") as file:
        file.write(change(content))
    return load("model")


def store(*chunks):
    return write_blocks("rows.blocks", iter(chunks))


# Files, in an empty folder with one folder in it
OF_FILES = [
    (lambda: read_svmlight("missing"), FileNotFoundError, "missing"),
    (lambda: read_svmlight("folder"), IsADirectoryError, "folder"),
    (lambda: read_svmlight(None), TypeError, "a path, a file descriptor or a binary file", "NoneType"),
    (lambda: text(b""), SvmlightFormatError, "data.svm: the file is empty"),
    (lambda: text(b"# nothing\n"), SvmlightFormatError, "data.svm: nothing but blank lines and comments"),
    (lambda: text(b"1 1:1\n2 1:x\n"), SvmlightFormatError, "data.svm, line 2: '1:x'", "no number"),
    (lambda: text(b"1 7\n"), SvmlightFormatError, "line 1: '7' is not index:value (there is no colon)"),
    (lambda: text(b"1 -1:2\n"), SvmlightFormatError, "line 1: '-1:2'", "the index is negative"),
    (lambda: text(b"1 3:1 2:1\n"), SvmlightFormatError, "line 1: '2:1'", "indices of a line must increase"),
    (lambda: text(b"1 1:1\n1 1:nan\n"), SvmlightFormatError, "line 2: '1:nan'", "not finite"),
    (lambda: text(b"1 1:1e999\n"), SvmlightFormatError, "line 1: '1:1e999'", "too large"),
    (lambda: text(b"cat 1:1\n"), SvmlightFormatError, "line 1: 'cat' is no label (a number is expected)"),
    (lambda: text(b"1,2 1:1\n"), SvmlightFormatError, "line 1: '1,2' is more than one label", "multilabel=True"),
    (lambda: text(b" 1:1\n"), SvmlightFormatError, "line 1: '1:1' stands where the label should be"),
    (lambda: text(b"1 99999999999999999999:1\n"), SvmlightFormatError, "line 1", "more than 18 digits"),
    (lambda: write_svmlight(X, y, "out.svm"), TypeError, "write_svmlight(path, X, y): the path comes first", "ndarray"),
    (lambda: write_svmlight("out.svm", X, y[:3]), ValueError, "y"),
    (lambda: write_svmlight("out.svm", but(X, 17, 2, np.nan), y), ValueError, "row 17", "value that is not finite"),
    (lambda: write_svmlight("no/out.svm", X, y), FileNotFoundError, "no is not a folder; make it first"),
    (lambda: write_svmlight("folder", X, y), IsADirectoryError, "folder is a folder; give the name of a file"),
    (lambda: save(LinearSVM(), "model"), NotFittedError, "LinearSVM is not fitted", "before fit"),
    (lambda: save(SVC().fit(ROWS, LABELS), "model"), TypeError, "SVC cannot be saved; LinearSVM"),
    (lambda: save("model", fit()), TypeError, "str cannot be saved; LinearSVM"),
    (lambda: save(kernel(kernel=np.inner), "model"), TypeError, "callable", "precomputed", "joblib"),
    (lambda: save(fit(), "no/model"), FileNotFoundError, "no is not a folder; make it first"),
    (lambda: save(fit(), "folder"), IsADirectoryError, "folder is a folder"),
    (lambda: load("missing"), FileNotFoundError, "missing"),
    (lambda: load("folder"), IsADirectoryError, "folder"),
    (lambda: load(None), TypeError, "load needs the path of a model file, got NoneType"),
    (lambda: damaged(lambda content: b""), ModelFormatError, "model: the file is empty; load reads what"),
    (lambda: damaged(lambda content: b"hello " * 100), ModelFormatError, "model: this is not a model of multimargin"),
    (lambda: damaged(lambda content: content[:-1]), ModelFormatError, "model: ", "save the model again"),
    (lambda: damaged(lambda content: content[:-1] + b"\1"), ModelFormatError, "checksum", "save the model again"),
    (lambda: damaged(lambda content: pickle.dumps(fit())), ModelFormatError, "pickle", "could run any program"),
    (lambda: open_blocks("missing"), FileNotFoundError, "missing: there is no such folder"),
    (lambda: open_blocks("folder"), BlocksError, "folder: is no store of blocks", "write_blocks writes one"),
    (lambda: write_blocks([(X, y)], "rows.blocks"), TypeError, "the path of the store comes first, got list"),
    (lambda: write_blocks("rows.blocks", "missing.svm"), FileNotFoundError, "missing.svm"),
    (lambda: store(), ValueError, "no rows"),
    (lambda: store((X, y[:3])), ValueError, "150", "3"),
    (lambda: store((X, y), (X[:, :3], y)), ValueError, "3", "4", "features"),
    (lambda: store((but(X, 17, 2, np.nan), y)), ValueError, "chunk 0: X holds NaN", "row 17, column 2"),
    (
        lambda: store((X, y), (np.ma.masked_greater(X, 6), y)),
        ValueError,
        "chunk 1: X has masked entries",
        "X.filled(...)",
    ),
    (lambda: store((X, np.ma.masked_equal(y, 2))), ValueError, "chunk 0: y has masked entries"),
    (lambda: store((X, y, np.ma.masked_equal(y, 2))), ValueError, "chunk 0: weights has masked entries"),
    (lambda: store((X, y, y.astype("m8[s]"))), ValueError, "chunk 0: weights holds dates or durations", "make numbers"),
    (lambda: store((X, y, ["heavy"] * 150)), ValueError, "chunk 0", "'heavy'"),
    (lambda: store(([[1], [1, 2]], [0, 1])), ValueError, "chunk 0", "inhomogeneous shape"),
    (lambda: store((X, pd.Series(y, dtype="Int64").mask(y == 1))), ValueError, "chunk 0: y has no label", "in row 50"),
    (
        lambda: LinearSVM(class_weight=dict.fromkeys(range(3), 0)).fit(store((X, y))),
        ValueError,
        "C times the weights is 0",
    ),
    (
        lambda: fit().score(store((X, y.astype(str)))),
        ValueError,
        "y holds strings, such as '0', and the classes are numbers",
    ),
    (
        lambda: fit(labels=LABELS.astype(str)).score(store((X, y))),
        ValueError,
        "y holds numbers",
        "classes are strings, such as '0'",
    ),
    (lambda: LinearSVM().fit(store((X, y)), y), ValueError, "fit(store) takes no y"),
    (lambda: LinearSVM("dag").fit(store((X, y))), ValueError, "formulation='dag'", "store of blocks", "one_vs_rest"),
    (lambda: KernelSVM().fit(store((X, y)), y), TypeError, "KernelSVM does not take a store", "LinearSVM takes one"),
    (lambda: fit(checkpoint="a\0b"), ValueError, "no file can be called 'a\\x00b'", "give another name"),
    (lambda: save(fit(), "a\0b"), ValueError, "no file can be called 'a\\x00b'", "give another name"),
    (lambda: fit(checkpoint="data"), CheckpointError, "data: this is not a checkpoint", "file that training writes"),
    (lambda: fit(checkpoint="no/state"), FileNotFoundError, "no is not a folder; make it first"),
    (lambda: fit(checkpoint="folder"), CheckpointError, "folder: is a folder, which keeps no", "give the name"),
    (lambda: fit(checkpoint=5), TypeError, "checkpoint must be a path or None, got 5"),
]

# Clusters: what is refused before there is one (tests/dask has what a cluster finds)
ON_CLUSTERS = [
    (lambda: cluster(C=-1), ValueError, "C must be finite and above 0, got -1"),
    (lambda: cluster(stopping="violation"), ValueError, "stopping='violation' is not done on a cluster", "'gap' is"),
    (lambda: cluster(checkpoint="file"), ValueError, "checkpoint='file' is not done on a cluster", "set it to None"),
    (lambda: cluster(probability=True), ValueError, "probability=True is not done on a cluster"),
]

# What is not fitted says so, whatever the rows are in
ASKED = ("predict", "decision_function", "top_classes", "score", "predict_proba", "predict_log_proba")
CONTAINERS = {
    "arrays": lambda: (ROWS, LABELS),
    "a store": lambda: (store((X, y)),),
    "a collection": lambda: (PARTS, PARTS[:, 0]),
    "delayed blocks": lambda: ([delayed(ROWS)], [delayed(LABELS)]),
}
UNFITTED = {
    LinearSVM: ("arrays", "a store"),
    LinearSVMCV: ("arrays", "a store"),
    KernelSVM: ("arrays",),
    multimargin.dask.LinearSVM: tuple(CONTAINERS),
    multimargin.dask.LinearSVMCV: tuple(CONTAINERS),
}


@pytest.mark.parametrize("method", ASKED)
@pytest.mark.parametrize(("of", "container"), [(of, each) for of, all_of in UNFITTED.items() for each in all_of])
def test_a_model_that_is_not_fitted_says_so(of, container, method, folder):
    given = CONTAINERS[container]()
    model = of(probability=method.endswith("proba"))
    with pytest.raises(NotFittedError, match=f"This {of.__name__} instance is not fitted yet"):
        getattr(model, method)(*(given if method == "score" else given[:1]))


# The command line: exit code and words
COMMANDS = [
    ("train data.svm model --penalty l1", 2, "unrecognized arguments: --penalty l1"),
    ("train data.svm model -c 1e200", 1, "sum of C_i ||x_i||", "or lower C or the weights", "1e+200"),
    ("train data.svm model -c 1e-310", 2, "C must be at least 1e-300"),
    ("train huge.svm model", 1, "squared norm of row 0 overflows: scale the features down"),
    ("train data.svm model --kernel RBF", 2, "invalid choice: 'RBF'"),
    ("train data.svm model --max-iter -1", 2, "at least 1, got -1"),
    ("train data model", 1, "data"),
    ("predict data.svm data.svm -", 1, "data.svm"),
    ("predict data.svm missing -", 1, "missing: there is no such model file"),
    ("convert data.svm out.onnx", 1, "data.svm"),
]

CASES = [*PARAMETERS, *LABELLED, *OF_ROWS, *OF_FILES, *ON_CLUSTERS]


def numbered(cases):
    return [pytest.param(*case[:2], case[2:], id=f"{i}-{case[2][:40]}") for i, case in enumerate(cases)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    os.mkdir(tmp_path / "folder")
    (tmp_path / "data").write_text("nothing of the kind")
    (tmp_path / "data.svm").write_text("1 1:1\n2 1:2\n")
    (tmp_path / "huge.svm").write_text("1 1:1e200\n2 1:2e200\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MULTIMARGIN_TRACEBACK", raising=False)
    return tmp_path


def test_there_are_enough_cases():
    assert len(CASES) + len(COMMANDS) >= 100


@pytest.mark.parametrize(("case", "error", "words"), numbered(CASES))
def test_bad_input(case, error, words, folder):
    with pytest.raises(error) as refusal:
        case()
    assert type(refusal.value) is error
    for word in words:
        assert word in str(refusal.value)


@pytest.mark.parametrize(("line", "code", "words"), [(line, code, words) for line, code, *words in COMMANDS])
def test_bad_command(line, code, words, folder, capsys):
    assert main(line.split()) == code
    said = capsys.readouterr().err
    assert said.startswith("multimargin: error: ") and said.count("\n") == 1 and "Traceback" not in said
    for word in words:
        assert word in said


# What is odd, but has a meaning


def strided(rows):
    """CSR whose values and indices are every other entry of arrays."""
    X = sp.csr_array(rows)
    return sp.csr_array((np.repeat(X.data, 2)[::2], np.repeat(X.indices, 2)[::2], X.indptr), shape=X.shape)


def longer(rows, **by):
    """CSR with entries behind its last row: they belong to nobody."""
    X = sp.csr_array(rows)
    X.data = np.append(X.data, [np.nan] * by["values"])
    X.indices = np.append(X.indices, np.full(by["indices"], 99, X.indices.dtype))
    return X


def swapped(rows):
    """CSR with indices as another kind of machine has them."""
    X = sp.csr_array(rows)
    X.indices, X.indptr = (part.astype(part.dtype.newbyteorder()) for part in (X.indices, X.indptr))
    return X


TAKEN = {
    "COO": sp.coo_array(ROWS),
    "CSC": sp.csc_array(ROWS),
    "DOK": sp.dok_array(ROWS),
    "bool": ROWS >= 3,
    "int": ROWS.astype(int),
    "int8, sparse": sp.csr_array(ROWS.astype(np.int8)),
    "float16": ROWS.astype(np.float16),
    "objects": ROWS.astype(object),
    "Fortran order": np.asfortranarray(ROWS),
    "lists": ROWS.tolist(),
    "CSR whose parts are strided": strided(ROWS),
    "CSR with bytes in the other order": swapped(ROWS),
    "CSR with unused entries": longer(ROWS, values=3, indices=3),
    "CSR with unused values": longer(ROWS, values=3, indices=0),
    "CSR with unused indices": longer(ROWS, values=0, indices=3),
    "nothing masked": np.ma.masked_greater(ROWS, 100),
    "a frame of mixed numbers": pd.DataFrame(ROWS, columns=[*"abcd"]).assign(flag=LABELS == 1, count=LABELS),
}


@pytest.mark.parametrize("kind", TAKEN)
@pytest.mark.parametrize("of", [LinearSVM, KernelSVM])
def test_other_kinds_of_rows_are_taken(of, kind):
    model = fit(of=of, on=TAKEN[kind])
    assert model.predict(TAKEN[kind]).shape == LABELS.shape
    if "CSR" in kind:
        usual = sp.csr_array(ROWS)
        np.testing.assert_array_equal(
            model.decision_function(TAKEN[kind]), fit(of=of, on=usual).decision_function(usual)
        )


@pytest.mark.parametrize("kind", [kind for kind in TAKEN if kind.startswith("CSR")])
def test_other_kinds_of_sparse_parts_are_taken_at_every_door(kind, folder):
    rows, usual = TAKEN[kind], sp.csr_array(ROWS)
    model = fit()
    save(model, "model")
    np.testing.assert_array_equal(load_light("model").decision_function(rows), model.decision_function(usual))
    block = next(iter(store((rows, LABELS))))
    np.testing.assert_array_equal(block.X.toarray(), ROWS)
    one, other = (LinearSVM().partial_fit(X, LABELS, classes=[0, 1, 2]) for X in (rows, usual))
    np.testing.assert_array_equal(one.coef_, other.coef_)


LARGE = np.array([2**60, 2**60 + 1, 7])[LABELS]  # the first two are the same in float64


@pytest.mark.parametrize("dtype", ["Int64", "UInt64", "int64[pyarrow]", object])
@pytest.mark.parametrize("of", [LinearSVM, KernelSVM])
def test_large_labels_stay_apart(of, dtype):
    labels = pd.Series(LARGE, dtype=dtype)
    model = fit(of=of, labels=labels)
    assert model.classes_.tolist() == [7, 2**60, 2**60 + 1]
    assert np.array_equal(model.predict(ROWS), np.unique(LARGE)[fit(of=of, labels=(LABELS + 1) % 3).predict(ROWS)])


@pytest.mark.parametrize("of_classes", ["int64", "uint64"])
@pytest.mark.parametrize("of_labels", ["int64", "uint64", object])
def test_large_labels_come_in_turn(of_classes, of_labels):
    classes = np.array([1, 2**53, 2**53 + 1])
    model = LinearSVM().partial_fit(ROWS, classes[LABELS].astype(of_labels), classes=classes.astype(of_classes))
    np.testing.assert_array_equal(model.coef_, online(LABELS).coef_)
    for unknown in (2**53 + 2, -1):
        labels = but(classes[LABELS].astype(object), 3, unknown)
        with pytest.raises(ValueError, match=f"labels that are not among classes: .*{unknown}"):
            model.partial_fit(ROWS, labels)


def test_labels_of_pandas_are_what_they_are():
    assert fit(labels=pd.Series(LABELS == 1, dtype="boolean")).classes_.tolist() == [False, True]
    for dtype in ("string", "category"):
        assert fit(labels=pd.Series([*"abc"] * 10, dtype=dtype)).classes_.tolist() == [*"abc"]


@pytest.mark.parametrize("number", [np.float64, np.float32])
@pytest.mark.parametrize("of", [LinearSVM, KernelSVM])
def test_numbers_of_numpy_are_numbers(of, number):
    values = dict(C=1.0, tol=1e-6, intercept_scaling=2.0, time_limit=60.0)
    given = {name: number(value) for name, value in values.items()}
    numbers = {name: float(value) for name, value in given.items()}
    np.testing.assert_array_equal(fit(of=of, **given).intercept_, fit(of=of, **numbers).intercept_)


def test_a_fit_after_a_change_of_the_formulation_is_a_fresh_one():
    again = fit("dag").set_params(formulation="one_vs_rest").fit(ROWS, LABELS)
    np.testing.assert_array_equal(again.coef_, fit("one_vs_rest").coef_)


def test_a_warm_start_with_other_classes_begins_anew():
    two = LABELS < 2
    again = LinearSVM(warm_start=True).fit(ROWS, LABELS).fit(ROWS[two], LABELS[two])
    fresh = LinearSVM().fit(ROWS[two], LABELS[two])
    assert again.converged_ and np.array_equal(again.coef_, fresh.coef_)
