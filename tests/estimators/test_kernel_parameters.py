"""What KernelSVM refuses, and that it says which parameter is wrong and what it may be."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from multimargin import KernelSVM

X, y = load_iris(return_X_y=True)

POSITIVE = r"number|finite and above 0"
SWITCH = r"True or False"
WRONG_VALUES = {
    "formulation": (
        [None, "svm", 3, ["crammer_singer"]],
        r"'crammer_singer', 'weston_watkins', 'one_vs_rest', 'one_vs_one', 'dag'",
    ),
    "kernel": ([None, "rbf2", 3, np.eye(150)], r"'linear', 'rbf', 'poly', 'sigmoid', 'precomputed' or a callable"),
    "loss": ([None, "hing", 1, "squared_hinge"], r"'hinge'"),
    "C": ([0, -1.0, np.nan, np.inf, "1", None, True, 1j, [1.0], 1e-310], r"number|finite and above 0|at least 1e-300"),
    "gamma": (
        [None, "large", -1.0, np.nan, np.inf, 10**400, True, [1.0]],
        r"'scale', 'auto' or a number|number|at least 0",
    ),
    "degree": ([None, "3", -1, 2.5, np.inf, True, 10**30, 10**400], r"integer|at least 0 and at most 2147483647"),
    "coef0": ([None, "0", np.nan, np.inf, True], r"number|finite"),
    "solver": ([None, "smo", "auto", 2], r"'block', 'decomposition'"),
    "selection": ([None, "best", 1], r"'kkt', 'cyclic', 'random', 'amg', 'bmg'"),
    "threshold": ([None, 0.1, "median"], r"'mean', 'max', 'exponential', 'linear', 'logarithmic'"),
    "step": ([None, "newton", 1], r"'exact', 'fixed_point', 'smo', 'basic_smo'"),
    "threshold_factor": ([None, -0.1, 1.1, np.nan, "0.5", True], r"number|at least 0|at most 1"),
    "cache_mb": ([None, 0, -1, np.nan, np.inf, "1 GB", True, 1e300], r"number|above 0 and at most 1099511627776"),
    "working_set": ([0, 1, -5, 2.5, "10", True, 10**30], r"integer|at least 2 and at most 2147483647"),
    "stopping": ([None, "kkt"], r"'gap', 'violation'"),
    "decision_function_shape": ([None, "ovx"], r"'ovr', 'ovo'"),
    "tol": ([0, -1e-3, np.nan, np.inf, "small", None, False], POSITIVE),
    "intercept_scaling": ([0, -1, np.nan, np.inf, "1", None, 1e300, 1e-200], rf"{POSITIVE}.*at most|at least 1e-100"),
    "time_limit": ([0, -1, np.nan, "1 s", True], POSITIVE),
    "max_iter": ([0, -1, 1.5, np.inf, "10", None, True], r"integer|at least 1"),
    "fit_intercept": (["no", None], SWITCH),
    "shrinking": (["no", None], SWITCH),
    "cooling": (["no", None], SWITCH),
    "warm_start": (["no", None], SWITCH),
    "break_ties": (["no", None], SWITCH),
    "checkpoint": ([5, ["state"], True], r"a path or None"),
    "checkpoint_every": ([-1, np.nan, np.inf, "often", None], r"number|at least 0"),
    "probability": (["no", None], SWITCH),
    "n_jobs": ([0, 1.5, "all", 10**30], r"integer|None is one|at most 2147483647"),
    "random_state": (["seed", -1, 1.5], r"integer|RandomState"),
    "verbose": (["loud", -1], r"integer|at least 0"),
    "callbacks": ([5, print, [5], ["print"]], r"callables|list"),
    "class_weight": (
        ["balance", 5, [1, 2, 3], {0: -1}, {0: np.nan}, {0: np.inf}, {0: "1"}, {0: None}],
        r"dict|negative|finite|number",
    ),
}


@pytest.mark.parametrize(
    ("name", "value", "may_be"),
    [(name, value, may_be) for name, (values, may_be) in WRONG_VALUES.items() for value in values],
    ids=lambda value: str(value)[:20],
)
def test_wrong_value_is_refused_by_name(name, value, may_be):
    model = KernelSVM(**{name: value})  # scikit-learn: constructors check nothing
    with pytest.raises((ValueError, TypeError)) as refusal:
        model.fit(X, y)
    message = str(refusal.value)
    assert name in message
    assert re.search(may_be, message), f"{message!r} does not say what {name} may be"


def test_every_parameter_has_a_wrong_value_here():
    assert set(WRONG_VALUES) == set(KernelSVM().get_params())


@pytest.mark.parametrize(
    "right",
    [
        {"C": np.float32(2)},
        {"gamma": 1},
        {"gamma": 0},
        {"gamma": np.float32(0.5)},
        {"kernel": "poly", "degree": np.int64(2)},
        {"kernel": "poly", "degree": 0},
        {"kernel": "poly", "coef0": -1},
        {"cache_mb": 0.5},
        {"cache_mb": np.int64(64)},
        {"working_set": np.int64(10)},
        {"max_iter": np.int64(500)},
        {"time_limit": 100},
        {"fit_intercept": np.bool_(False)},
        {"n_jobs": -1},
        {"random_state": np.random.RandomState(0)},
        {"callbacks": ()},
        {"class_weight": {}},
        {"verbose": False},
        {"loss": "hinge"},
    ],
)
@pytest.mark.filterwarnings("ignore:KernelSVM converged, but its gap proves nothing")
def test_right_value_is_taken(right):
    assert KernelSVM(**right).fit(X, y).converged_


# What is known from elsewhere


@pytest.mark.parametrize(
    ("name", "value", "library"),
    [
        ("loss", "log_loss", "sklearn.linear_model.LogisticRegression"),
        ("loss", "epsilon_insensitive", "sklearn.svm.LinearSVR"),
        ("formulation", "nu_svc", "sklearn.svm.NuSVC"),
        ("formulation", "one_class", "sklearn.svm.OneClassSVM"),
        ("formulation", "svr", "sklearn.svm.SVR"),
    ],
)
def test_refusal_names_the_library_that_does_it(name, value, library):
    with pytest.raises(ValueError, match=rf"{name}='{value}'.*{re.escape(library)}"):
        KernelSVM(**{name: value}).fit(X, y)


def test_squared_hinge_is_refused_with_the_class_that_has_it():
    with pytest.raises(ValueError, match=r"loss='squared_hinge'.*kernels.*LinearSVM"):
        KernelSVM(loss="squared_hinge").fit(X, y)


@pytest.mark.parametrize(
    ("name", "alias", "meant"),
    [
        ("formulation", "ovr", "one_vs_rest"),
        ("formulation", "CS", "crammer_singer"),
        ("kernel", "gaussian", "rbf"),
        ("kernel", "polynomial", "poly"),
        ("kernel", "RBF", "rbf"),
        ("formulation", "One-vs-Rest", "one_vs_rest"),
        ("gamma", "Scale", "scale"),
    ],
)
def test_aliases_are_suggested(name, alias, meant):
    with pytest.raises(ValueError, match=f"{name}='{alias}'.*did you mean '{meant}'"):
        KernelSVM(**{name: alias}).fit(X, y)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (("rbf",), "KernelSVM(kernel='rbf')"),
        (("Gaussian",), "KernelSVM(kernel='rbf')"),
        ((1.0,), "C=1.0"),
        (("one_vs_one", 10), "C=10"),
        (("crammer_singer", "ovo"), "formulation='one_vs_one'"),
        (("squared_hinge",), "loss='squared_hinge'"),
    ],
)
def test_values_in_the_place_of_others_are_recognised(given, meant):
    with pytest.raises(ValueError, match=rf"unknown.*did you mean {re.escape(meant)}\?$"):
        KernelSVM(*given).fit(X, y)


def test_nothing_is_suggested_where_nothing_is_near():
    for model in (KernelSVM("svm"), KernelSVM(solver=2), KernelSVM(kernel=None), KernelSVM(True)):
        with pytest.raises(ValueError, match="is unknown") as refusal:
            model.fit(X, y)
        assert "did you mean" not in str(refusal.value)


def test_no_limit_is_a_large_number():
    with pytest.raises(ValueError, match=r"max_iter.*at least 1, got -1; for no limit, as -1 is in scikit-learn, give"):
        KernelSVM(max_iter=-1).fit(X, y)
    assert KernelSVM(max_iter=10**9).fit(X, y).converged_


def test_probabilities_are_there_when_asked_for():
    assert hasattr(KernelSVM(probability=True), "predict_proba")
    assert not hasattr(KernelSVM(), "predict_proba")


# Combinations

OTHERS = ("weston_watkins", "one_vs_rest", "one_vs_one", "dag")
CHANGED = {"selection": "cyclic", "threshold": "max", "step": "smo"}


@pytest.mark.parametrize("name", CHANGED)
@pytest.mark.parametrize(
    ("solver", "formulation"),
    [("block", "crammer_singer"), ("block", "one_vs_one"), *(("decomposition", other) for other in OTHERS)],
)
def test_parts_of_the_papers_algorithms_are_for_crammer_singer(name, solver, formulation):
    message = (
        rf"{name}='{CHANGED[name]}' is for solver='decomposition' with formulation='crammer_singer'; "
        rf"solver='{solver}' with formulation='{formulation}' needs {name}='"
    )
    with pytest.raises(ValueError, match=message):
        KernelSVM(formulation, solver=solver, **{name: CHANGED[name]}).fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threshold_factor": 0.3}, "threshold_factor=0.3 is for solver='decomposition'"),
        (
            {"solver": "decomposition", "threshold_factor": 0.3},
            "threshold_factor=0.3 is for threshold='max'; threshold='mean' needs threshold_factor=0.5",
        ),
        (
            {"solver": "decomposition", "working_set": 10},
            "working_set=10 is for solver='block', or .*'weston_watkins'.*'crammer_singer' needs working_set=None",
        ),
        ({"solver": "decomposition", "formulation": "dag", "working_set": 10}, "working_set=10.*'dag' needs"),
        (
            {"formulation": "one_vs_one", "intercept_scaling": 2.0},
            "intercept_scaling=2.0 is for .*'crammer_singer' and 'weston_watkins'.*regularised.*'one_vs_one'",
        ),
        (
            {"solver": "decomposition", "formulation": "weston_watkins", "working_set": 10**6},
            "working_set must be at most 1000 with solver='decomposition', got 1000000",
        ),
        ({"decision_function_shape": "ovo"}, "decision_function_shape='ovo'.*'one_vs_one'.*'dag'.*'crammer_singer'"),
        (
            {"formulation": "one_vs_one", "decision_function_shape": "ovo", "break_ties": True},
            "break_ties.*decision_function_shape",
        ),
    ],
    ids=str,
)
def test_combinations_that_do_not_apply(options, message):
    with pytest.raises(ValueError, match=message):
        KernelSVM(**options).fit(X, y)


# Labels and weights


def test_one_class_is_not_enough():
    with pytest.raises(ValueError, match=r"KernelSVM needs at least 2 classes.*only one class, '?a"):
        KernelSVM().fit(X, np.full(len(y), "a").astype(object))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (y + 0.5, "continuous"),
        (np.where(y == 1, np.nan, y), r"y has no label \(None or NaN\) in row"),
        (np.eye(3)[y], "1d"),
        (y[:-1], "inconsistent numbers of samples"),
        (None, "y"),
    ],
    ids=["continuous", "NaN", "one-hot", "too short", "None"],
)
def test_labels_that_are_none(labels, message):
    with pytest.raises(ValueError, match=message):
        KernelSVM().fit(X, labels)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.where(y == 0, -1.0, 1.0), "sample_weight must not be negative"),
        (np.zeros(len(y)), "(?i)sample.weight.*(non-zero|all weights are zero)"),
        (np.where(y == 0, np.nan, 1.0), "sample_weight contains NaN"),
        (np.ones(3), "sample_weight.shape"),
        (np.full(len(y), 1e300), "C times the weights must be finite"),
    ],
    ids=["negative", "all zero", "NaN", "too short", "overflow"],
)
def test_wrong_sample_weights(weight, message):
    with pytest.raises(ValueError, match=message):
        KernelSVM(C=1e10).fit(X, y, sample_weight=weight)


@pytest.mark.parametrize("class_weight", [{7: 1.0}, {"0": 1.0}], ids=str)
def test_class_weight_of_an_unknown_class(class_weight):
    (label,) = class_weight
    with pytest.raises(ValueError, match=re.escape(f"class_weight names class {label!r}")):
        KernelSVM(class_weight=class_weight).fit(X, y)


# Numbers in X


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, sp.csc_array], ids=["dense", "csr", "csc"])
@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_nan_and_infinity(convert, value, name):
    spoiled = X.copy()
    spoiled[17, 2] = value
    spoiled = convert(spoiled)
    with pytest.raises(ValueError, match=f"X contains {name}"):
        KernelSVM().fit(spoiled, y)
    with pytest.raises(ValueError, match=f"X contains {name}"):
        KernelSVM().fit(X, y).predict(spoiled)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_one"])
@pytest.mark.parametrize(
    ("kernel", "factor", "message"),
    [
        ("linear", 1e200, r"linear kernel are not finite: scale the features down"),
        ("poly", 1e100, r"poly kernel are not finite: scale the features down or"),
        ("rbf", 1e200, r"rbf kernel are not finite|gamma='scale'.*scale the features down"),
    ],
)
def test_kernels_that_overflow_are_refused_with_advice(kernel, factor, message, formulation, convert):
    gamma = 1.0 if kernel == "poly" else "scale"
    with pytest.raises(ValueError, match=message):
        KernelSVM(formulation, kernel, gamma=gamma).fit(convert(X * factor), y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("exponent", [100, 30, -30, -100])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one"])
def test_extreme_features_give_finite_models(kernel, exponent, formulation):
    model = KernelSVM(formulation, kernel, max_iter=30).fit(X * 10.0**exponent, y)
    assert np.isfinite(model.decision_function(X * 10.0**exponent)).all()
    assert np.isfinite([model.primal_objective_, model.dual_objective_]).all()


def test_scaled_features_are_the_same_to_gamma_scale():
    plain, scaled = (KernelSVM(tol=1e-6).fit(X * factor, y) for factor in (1.0, 1e30))
    np.testing.assert_allclose(scaled.decision_function(X * 1e30), plain.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins", "one_vs_one"])
def test_tiny_c_is_a_model_of_nothing(formulation):
    model = KernelSVM(formulation, C=1e-300).fit(X, y)
    assert np.abs(model.dual_coef_.toarray()).max() <= 1e-290


# Sparse arrays whose parts do not fit together


@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix, sp.csc_array])
@pytest.mark.parametrize(("part", "at", "value"), [("indices", 37, 1000), ("indices", 37, -1), ("indptr", 2, 590)])
def test_broken_sparse_arrays_are_refused(container, part, at, value):
    broken = container(X)
    getattr(broken, part)[at] = value
    trained = KernelSVM().fit(X, y)
    for use in (lambda broken: KernelSVM().fit(broken, y), trained.predict, trained.decision_function):
        with pytest.raises(ValueError, match=r"broken|ind(ex|ices|ptr)"):
            use(broken)


# Precomputed kernels


def test_precomputed_kernel_must_be_square():
    with pytest.raises(ValueError, match=r"kernel='precomputed' needs a square X.*got 150 x 4"):
        KernelSVM(kernel="precomputed").fit(X, y)


@pytest.mark.parametrize(("i", "j"), [(3, 140), (140, 3), (149, 148), (100, 0)])
def test_precomputed_kernel_must_be_symmetric(i, j):
    K = rbf_kernel(X, gamma=0.1)
    K[i, j] += 0.01
    a, b = sorted((i, j))
    with pytest.raises(ValueError, match=rf"symmetric X; X\[{a}, {b}\] = .*, but X\[{b}, {a}\] = "):
        KernelSVM(kernel="precomputed").fit(K, y)


def test_rounding_is_no_asymmetry():
    K = rbf_kernel(X.astype(np.float32), gamma=0.1)
    K[3, 140] *= 1 + 1e-6
    assert KernelSVM(kernel="precomputed").fit(K, y).converged_


def test_precomputed_values_are_needed_for_all_training_rows():
    K = rbf_kernel(X, gamma=0.1)
    model = KernelSVM(kernel="precomputed").fit(K, y)
    for method in (model.predict, model.decision_function):
        with pytest.raises(ValueError, match=r"X has 4 features, but KernelSVM is expecting 150") as refusal:
            method(X)
        assert "a column of kernel values for every row of training" in refusal.value.__notes__[0]


def test_precomputed_kernel_must_be_dense():
    K = rbf_kernel(X, gamma=0.1)
    model = KernelSVM(kernel="precomputed").fit(K, y)
    with pytest.raises(TypeError, match=r"(?i)sparse data was passed.*toarray"):
        KernelSVM(kernel="precomputed").fit(sp.csr_array(K), y)
    with pytest.raises(TypeError, match=r"(?i)sparse data was passed.*toarray"):
        model.predict(sp.csr_array(K))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_precomputed_kernel_must_be_finite(value):
    K = rbf_kernel(X, gamma=0.1)
    K[3, 7] = K[7, 3] = value
    with pytest.raises(ValueError, match="X contains"):
        KernelSVM(kernel="precomputed").fit(K, y)


# Callables


def wrong_shape(X, Y):
    return np.ones((Y.shape[0], X.shape[0] + 1))


def not_finite(X, Y):
    return np.full((X.shape[0], Y.shape[0]), np.nan)


def failing(X, Y):
    raise LookupError("mine")


@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_one"])
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (wrong_shape, ValueError, r"kernel <function wrong_shape.*must return an array of shape"),
        (not_finite, ValueError, r"callable kernel are not finite: check <function not_finite"),
        (failing, LookupError, "mine"),
    ],
    ids=["wrong shape", "not finite", "failing"],
)
def test_what_a_callable_does_wrong_is_said(kernel, error, message, formulation, n_jobs):
    with pytest.raises(error, match=message):
        KernelSVM(formulation, kernel, n_jobs=n_jobs).fit(X, y)


def test_errors_of_a_callable_late_in_training_are_the_users():
    def at_first_fine(X, Y):
        calls.append(len(X))
        if len(calls) > 5:
            raise LookupError("mine")
        return rbf_kernel(X, Y)

    calls = []
    with pytest.raises(LookupError, match="mine"):
        KernelSVM(kernel=at_first_fine, working_set=4, tol=1e-9).fit(X, y)


# Prediction


@pytest.mark.parametrize("method", ["predict", "decision_function", "label_doubt"])
def test_prediction_needs_training(method):
    with pytest.raises(NotFittedError):
        getattr(KernelSVM(), method)(*([] if method == "label_doubt" else [X]))


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_prediction_needs_the_features_of_training(method, convert):
    model = KernelSVM().fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features, but KernelSVM is expecting 4"):
        getattr(model, method)(convert(X[:, :3]))


# A refused fit leaves no trace


def fails_late(X, Y):
    """Values of pairs of the first rows, as the diagonal needs them, and then none."""
    if X is not Y:
        raise LookupError("mine")
    return X @ Y.T


def stops(record):
    raise LookupError("mine")


REFUSED = {
    "class_weight": ({"class_weight": {7: 1.0}}, {}, X),
    "weights": ({}, {"sample_weight": -np.ones(len(y))}, X),
    "kernel overflows": ({"kernel": "poly", "gamma": 1.0}, {}, X * 1e200),
    "kernel fails": ({"kernel": fails_late}, {}, X),
    "callbacks": ({"callbacks": [5]}, {}, X),
    "callback fails": ({"callbacks": [stops]}, {}, X),
}


@pytest.mark.parametrize("how", REFUSED)
def test_a_refused_fit_leaves_the_model_as_it_was(how):
    parameters, arguments, rows = REFUSED[how]
    model = KernelSVM().fit(X[:100], y[:100])
    before = dict(vars(model.set_params(**parameters)))
    narrow = np.ascontiguousarray(rows[:, :3])  # other features and more classes than before
    with pytest.raises((ValueError, TypeError, LookupError)):
        model.fit(narrow, y, **arguments)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    fresh = KernelSVM(**parameters)
    with pytest.raises((ValueError, TypeError, LookupError)):
        fresh.fit(rows, y, **arguments)
    assert vars(fresh).keys() == vars(KernelSVM()).keys()
