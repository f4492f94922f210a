"""What LinearSVM refuses, and that it says which parameter is wrong and what it may be."""

import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from joblib import cpu_count
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from multimargin import LinearSVM
from multimargin.estimators.parameters import n_threads

X, y = load_iris(return_X_y=True)

POSITIVE = r"number|finite and above 0"
SWITCH = r"True or False|boolean|a bool"
WRONG_VALUES = {
    "formulation": (
        [None, "svm", 3, ["crammer_singer"]],
        r"'crammer_singer', 'weston_watkins', 'one_vs_rest', 'one_vs_one', 'dag'",
    ),
    "loss": ([None, "hing", 1], r"'hinge', 'squared_hinge'"),
    "solver": ([None, "liblinear", 2], r"'auto', 'sdm', 'accelerated_sdm', 'newton'"),
    "stopping": ([None, "kkt"], r"'gap', 'violation'"),
    "decision_function_shape": ([None, "ovx"], r"'ovr', 'ovo'"),
    "C": ([0, -1.0, np.nan, np.inf, "1", None, True, 1j, [1.0]], POSITIVE),
    "tol": ([0, -1e-3, np.nan, np.inf, "small", None, False], POSITIVE),
    "intercept_scaling": ([0, -1, np.nan, np.inf, "1", None, 1e300, 1e-200], rf"{POSITIVE}.*at most|at least 1e-100"),
    "time_limit": ([0, -1, np.nan, "1 s", True], POSITIVE),
    "max_iter": ([0, -1, 1.5, np.inf, "10", None, True], r"integer|at least 1"),
    "fit_intercept": (["no", None], SWITCH),
    "shrinking": (["no", None], SWITCH),
    "cooling": (["no", None], SWITCH),
    "warm_start": (["no", None], SWITCH),
    "break_ties": (["no", None], SWITCH),
    "memory_mb": ([0, -1, "all", np.nan], r"number|above 0"),
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
    "solver_options": ([5, "permutation", ["permutation"], {"step": 1}, {"permutation": "no"}], r"permutation|dict"),
}


@pytest.mark.parametrize(
    ("name", "value", "may_be"),
    [(name, value, may_be) for name, (values, may_be) in WRONG_VALUES.items() for value in values],
    ids=lambda value: str(value)[:20],
)
def test_wrong_value_is_refused_by_name(name, value, may_be):
    model = LinearSVM(**{name: value})  # scikit-learn: constructors check nothing
    with pytest.raises((ValueError, TypeError)) as refusal:
        model.fit(X, y)
    message = str(refusal.value)
    assert name in message
    assert re.search(may_be, message), f"{message!r} does not say what {name} may be"


def test_every_parameter_has_a_wrong_value_here():
    assert set(WRONG_VALUES) == set(LinearSVM().get_params())


@pytest.mark.parametrize(
    "right",
    [
        {"C": np.float32(2)},
        {"C": 2},
        {"max_iter": np.int64(500)},
        {"time_limit": 100},
        {"fit_intercept": np.bool_(False)},
        {"n_jobs": -1},
        {"n_jobs": np.int64(1)},
        {"random_state": np.random.RandomState(0)},
        {"random_state": np.int64(3)},
        {"callbacks": []},
        {"callbacks": ()},
        {"class_weight": {}},
        {"solver_options": {}},
        {"verbose": False},
    ],
)
def test_right_value_is_taken(right):
    assert LinearSVM(**right).fit(X, y).converged_


@pytest.mark.parametrize("name", ["C", "tol", "formulation", "loss", "solver", "solver_options"])
def test_partial_fit_checks_parameters_too(name):
    wrong = WRONG_VALUES[name][0][1]
    with pytest.raises((ValueError, TypeError), match=name):
        LinearSVM(**{name: wrong}).partial_fit(X, y, classes=[0, 1, 2])


# What is known from elsewhere


@pytest.mark.parametrize(
    ("name", "value", "library"),
    [
        ("loss", "log_loss", "sklearn.linear_model.LogisticRegression"),
        ("loss", "logistic", "sklearn.linear_model.LogisticRegression"),
        ("loss", "epsilon_insensitive", "sklearn.svm.LinearSVR"),
        ("loss", "squared_error", "sklearn.linear_model.Ridge"),
        ("loss", "modified_huber", "sklearn.linear_model.SGDClassifier"),
        ("loss", "perceptron", "sklearn.linear_model.Perceptron"),
        ("formulation", "nu_svc", "sklearn.svm.NuSVC"),
        ("formulation", "one_class", "sklearn.svm.OneClassSVM"),
        ("formulation", "regression", "sklearn.svm.LinearSVR"),
        ("formulation", "svr", "sklearn.svm.SVR"),
        ("formulation", "l1", "sklearn.svm.LinearSVC(penalty='l1'"),
    ],
)
def test_refusal_names_the_library_that_does_it(name, value, library):
    with pytest.raises(ValueError, match=rf"{name}='{value}'.*{re.escape(library)}"):
        LinearSVM(**{name: value}).fit(X, y)


@pytest.mark.parametrize(
    ("alias", "meant"),
    [("ovr", "one_vs_rest"), ("ovo", "one_vs_one"), ("cs", "crammer_singer"), ("WW", "weston_watkins")],
)
def test_aliases_are_suggested(alias, meant):
    with pytest.raises(ValueError, match=f"formulation='{alias}'.*did you mean '{meant}'"):
        LinearSVM(formulation=alias).fit(X, y)


def test_probabilities_are_there_when_asked_for():
    assert hasattr(LinearSVM(probability=True), "predict_proba")
    assert not hasattr(LinearSVM(), "predict_proba")


# Combinations


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "newton", "stopping": "violation"}, "stopping='violation'.*'sdm'.*'accelerated_sdm'"),
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
        LinearSVM(**options).fit(X, y)


# Labels and weights


def test_one_class_is_not_enough():
    with pytest.raises(ValueError, match=r"at least 2 classes.*only one class, '?a"):
        LinearSVM().fit(X, np.full(len(y), "a").astype(object))
    with pytest.raises(ValueError, match="at least 2 classes"):
        LinearSVM().fit(X, np.zeros(len(y), dtype=int))
    with pytest.raises(ValueError, match="at least 2 classes"):
        LinearSVM().partial_fit(X, np.zeros(len(y), dtype=int), classes=[0])


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
        LinearSVM().fit(X, labels)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.where(y == 0, -1.0, 1.0), "sample_weight must not be negative"),
        (np.zeros(len(y)), "(?i)sample.weight.*(non-zero|all weights are zero)"),
        (np.where(y == 0, np.nan, 1.0), "sample_weight contains NaN"),
        (np.where(y == 0, np.inf, 1.0), "sample_weight contains infinity"),
        (np.ones(3), "sample_weight.shape"),
        (np.ones((len(y), 2)), "(?i)sample weights must be 1D"),
    ],
    ids=["negative", "all zero", "NaN", "infinite", "too short", "two columns"],
)
def test_wrong_sample_weights(weight, message):
    with pytest.raises(ValueError, match=message):
        LinearSVM().fit(X, y, sample_weight=weight)
    with pytest.raises(ValueError, match=message):
        LinearSVM().partial_fit(X, y, classes=[0, 1, 2], sample_weight=weight)


def test_weights_must_not_overflow():
    with pytest.raises(ValueError, match="C times the weights must be finite"):
        LinearSVM(C=1e300).fit(X, y, np.full(len(y), 1e300))


@pytest.mark.parametrize("class_weight", [{7: 1.0}, {"0": 1.0}], ids=str)
def test_class_weight_of_an_unknown_class(class_weight):
    (label,) = class_weight
    with pytest.raises(ValueError, match=re.escape(f"class_weight names class {label!r}")):
        LinearSVM(class_weight=class_weight).fit(X, y)


# Numbers in X


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array, sp.csc_array], ids=["dense", "csr", "csc"])
@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_nan_and_infinity(convert, value, name):
    spoiled = X.copy()
    spoiled[17, 2] = value
    spoiled = convert(spoiled)
    with pytest.raises(ValueError, match=f"X contains {name}"):
        LinearSVM().fit(spoiled, y)
    with pytest.raises(ValueError, match=f"X contains {name}"):
        LinearSVM().partial_fit(spoiled, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=f"X contains {name}"):
        LinearSVM().fit(X, y).predict(spoiled)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_norms_that_overflow_are_refused_with_advice(convert):
    big = X.copy()
    big[17] *= 1e200
    with pytest.raises(ValueError, match=r"norm of row 17 overflows.*scale the features"):
        LinearSVM().fit(convert(big), y)
    with pytest.raises(ValueError, match=r"norm of row 0 overflows.*scale the features"):
        LinearSVM().partial_fit(convert(X * 1e200), y, classes=[0, 1, 2])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("exponent", [140, 100, 30, -30, -100, -200])
@pytest.mark.parametrize("solver", ["auto", "sdm", "accelerated_sdm", "newton"])
def test_extreme_features_give_finite_models(solver, exponent):
    model = LinearSVM(solver=solver, max_iter=30).fit(X * 10.0**exponent, y)
    assert np.isfinite(model.coef_).all()
    assert 0 <= model.dual_gap_ <= 1e6


def test_features_that_are_nearly_zero_leave_the_intercept():
    model = LinearSVM().fit(X * 1e-30, y)
    assert model.converged_


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_tiny_c_is_a_model_of_nothing(loss):
    model = LinearSVM(loss=loss, C=1e-300).fit(X, y)
    assert np.abs(model.coef_).max() <= 1e-290
    with pytest.raises(ValueError, match="C must be at least 1e-300"):
        LinearSVM(loss=loss, C=1e-310).fit(X, y)


# Sparse arrays whose parts do not fit together: assigned afterwards, as scipy checks them only when it builds one


def changed(name, change):
    def build(container):
        array = container(X)
        part = getattr(array, name).copy()
        setattr(array, name, change(part))
        return array

    return build


def put(position, value):
    def change(part):
        part[position] = value
        return part

    return change


BROKEN = {
    "index too large": changed("indices", put(37, 1000)),
    "index far too large": changed("indices", put(37, 2**31 - 1)),
    "index negative": changed("indices", put(37, -1)),
    "wide index too large": changed("indices", lambda part: put(37, 2**40)(part.astype(np.int64))),
    "indptr decreases": changed("indptr", put(2, 590)),
    "indptr past the end": changed("indptr", put(-1, 10**6)),
    "indptr starts late": changed("indptr", put(0, 3)),
    "indptr starts early": changed("indptr", put(0, -3)),
    "indptr too short": changed("indptr", lambda part: part[:-1]),
    "indices too short": changed("indices", lambda part: part[:-9]),
    "data too short": changed("data", lambda part: part[:-9]),
}


@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.csc_matrix])
@pytest.mark.parametrize("how", BROKEN)
def test_broken_sparse_arrays_are_refused(how, container):
    trained = LinearSVM().fit(X, y)
    for use in (
        lambda broken: LinearSVM().fit(broken, y),
        lambda broken: LinearSVM().partial_fit(broken, y, classes=[0, 1, 2]),
        lambda broken: trained.partial_fit(broken, y),
        trained.predict,
        trained.decision_function,
    ):
        with pytest.raises(ValueError, match=r"broken|ind(ex|ices|ptr)"):
            use(BROKEN[how](container))


def test_refusal_says_where_the_array_is_broken():
    with pytest.raises(ValueError, match=r"CSR.*column index 1000 in row 9 is outside 0\.\.3"):
        LinearSVM().fit(BROKEN["index too large"](sp.csr_array), y)
    with pytest.raises(ValueError, match=r"CSR.*indptr decreases at row 2"):
        LinearSVM().fit(BROKEN["indptr decreases"](sp.csr_array), y)
    with pytest.raises(ValueError, match=r"CSC.*row index 1000 in column 0 is outside 0\.\.149"):
        LinearSVM().fit(BROKEN["index too large"](sp.csc_array), y)


@pytest.mark.parametrize("bad_row", [150, 10**8, -1, -(10**6)])
def test_broken_coordinates_are_refused(bad_row):
    """scipy converts such an array without a look: in a process of its own, as it may crash."""
    program = f"""
import scipy.sparse as sp
from sklearn.datasets import load_iris
from multimargin import LinearSVM
X, y = load_iris(return_X_y=True)
broken = sp.coo_array(X)
broken.coords[0][37] = {bad_row}
try:
    LinearSVM().fit(broken, y)
except ValueError as refusal:
    print("refused:", refusal)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"crashed with {done.returncode}"
    assert "refused: broken COO" in done.stdout


BROKEN_BLOCKS = {
    "bsr, indptr past the end": "broken = sp.bsr_array(X, blocksize=(2, 2)); broken.indptr[-1] = 10**8",
    "bsr, indptr below zero": "broken = sp.bsr_array(X, blocksize=(2, 2)); broken.indptr[1] = -10**7",
    "bsr, indptr too short": "broken = sp.bsr_array(X, blocksize=(2, 2)); broken.indptr = broken.indptr[:-5]",
    "bsr, index too large": "broken = sp.bsr_array(X, blocksize=(2, 2)); broken.indices[3] = 10**7",
    "bsr, data too short": "broken = sp.bsr_array(X, blocksize=(2, 2)); broken.data = broken.data[:2]",
    "bsr, other blocks": "broken = sp.bsr_array(X, blocksize=(2, 2)); broken.data = broken.data.reshape(-1, 4, 1)",
    "bsr, empty blocks": "broken = sp.bsr_array(X, blocksize=(2, 2)); broken.data = broken.data[:, :0]",
    "dia, data too short": "broken = sp.dia_array(X); broken.data = broken.data[:1]",
    "csr, decimal indices": "broken = sp.csr_array(X); broken.indices = broken.indices.astype(float)",
}


@pytest.mark.parametrize(
    "use", ["LinearSVM().fit(broken, y)", "model.predict(broken)", "write_svmlight(os.devnull, broken, y)"]
)
@pytest.mark.parametrize("how", BROKEN_BLOCKS)
def test_broken_parts_of_other_formats_are_refused(how, use):
    """In a process of its own, as SciPy's conversions may crash."""
    program = f"""
import os
import scipy.sparse as sp
from sklearn.datasets import load_iris
from multimargin import KernelSVM, LinearSVM, write_svmlight
X, y = load_iris(return_X_y=True)
model = KernelSVM().fit(X, y)
{BROKEN_BLOCKS[how]}
try:
    {use}
except ValueError as refusal:
    print("refused:", refusal)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stderr[-300:]}"
    assert f"refused: broken {how[:3].upper()} matrix" in done.stdout


@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
@pytest.mark.parametrize("container", ["bsr", "dia", "lil", "dok", "coo", "csc"])
def test_every_format_trains_the_same(container):
    sparse = sp.csr_array(X).asformat(container)
    np.testing.assert_array_equal(LinearSVM().fit(sparse, y).coef_, LinearSVM().fit(sp.csr_array(X), y).coef_)


@pytest.mark.parametrize("classes", [[0, 1, 2, np.nan], [0, 1, None], [[0, 1, 2]]])
def test_classes_that_are_announced_are_labels(classes):
    with pytest.raises(ValueError, match="classes must be a list of labels"):
        LinearSVM().partial_fit(X, y, classes=classes)


@pytest.mark.parametrize(
    ("n_jobs", "threads"), [(None, 1), (3, 3), (-1, cpu_count()), (-2, max(1, cpu_count() - 1)), (-999, 1)]
)
def test_jobs_are_counted_as_by_scikit_learn(n_jobs, threads):
    assert n_threads(n_jobs) == threads


# Prediction


@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_prediction_needs_training(method):
    with pytest.raises(NotFittedError):
        getattr(LinearSVM(), method)(X)


@pytest.mark.parametrize("convert", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_prediction_needs_the_features_of_training(method, convert):
    model = LinearSVM().fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features, but LinearSVM is expecting 4"):
        getattr(model, method)(convert(X[:, :3]))
    with pytest.raises(ValueError, match="X has 3 features, but LinearSVM is expecting 4"):
        model.partial_fit(convert(X[:, :3]), y)


# What is refused leaves no trace


@pytest.mark.parametrize(
    ("parameters", "arguments"),
    [({"class_weight": {7: 1.0}}, {}), ({}, {"sample_weight": -np.ones(len(y))}), ({"callbacks": [5]}, {})],
    ids=["class_weight", "weights", "callbacks"],
)
def test_a_refused_fit_leaves_the_model_as_it_was(parameters, arguments):
    model = LinearSVM().fit(X[:100, :3], y[:100])
    before = dict(vars(model.set_params(**parameters)))
    with pytest.raises((ValueError, TypeError)):
        model.fit(X, y, **arguments)
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())


def test_a_refused_partial_fit_is_not_the_first():
    model = LinearSVM()
    with pytest.raises(ValueError, match="sample_weight must not be negative"):
        model.partial_fit(X[:, :3], y, classes=[0, 1, 2, 3], sample_weight=-np.ones(len(y)))
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, y)
    model.partial_fit(X, y, classes=[0, 1, 2])
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
