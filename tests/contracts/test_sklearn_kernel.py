"""KernelSVM keeps scikit-learn's contract: its estimator checks, and the tools that people put a classifier into."""

import copy
import io
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from multimargin import KernelSVM

FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
SOLVERS = ("block", "decomposition")
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS)


class Laplacian:
    """A callable kernel with a name that is the same in every process."""

    def __call__(self, X, Y):
        X, Y = (part.toarray() if sp.issparse(part) else part for part in (X, Y))
        return laplacian_kernel(X, Y, gamma=0.2)

    def __repr__(self):
        return "Laplacian()"


# The checks compare decision values to 1e-7: see tests/contracts/test_sklearn.py.
TIGHT = {"tol": 1e-10, "max_iter": 2000}
INSTANCES = [KernelSVM(formulation, solver=solver, **TIGHT) for formulation in FORMULATIONS for solver in SOLVERS] + [
    KernelSVM(**TIGHT, **options)
    for options in (
        {"kernel": "linear"},
        {"kernel": "poly", "coef0": 1.0},
        {"kernel": Laplacian()},
        {"intercept_scaling": 0.5},
        {"shrinking": False, "cooling": False},
        {"class_weight": "balanced"},
        {"n_jobs": 2},
        {"n_jobs": 2, "formulation": "one_vs_rest"},
        {"n_jobs": 2, "formulation": "one_vs_one"},
        {"probability": True},
        {"probability": True, "formulation": "one_vs_one"},
    )
]
# Instances with a check that is not for them.
NO_KERNEL = {"check_classifiers_one_label_sample_weights"}  # hands over a matrix that is not symmetric
WITHOUT_CHECKS = [
    # Planes through the origin cannot put 87 % of the rows on one side, whatever the class weights.
    (KernelSVM(kernel="linear", fit_intercept=False, **TIGHT), {"check_class_weight_classifiers"}),
    (KernelSVM(kernel="precomputed", **TIGHT), NO_KERNEL),
    (KernelSVM("one_vs_one", "precomputed", **TIGHT), NO_KERNEL),
]
CHECKS_OF_SKLEARN_1_9, OF_PRECOMPUTED = 64, 61

# The checks feed data without structure or scale and do not care whether the target gap was reached.
unconverged_is_fine = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def name_of(check):
    while hasattr(check, "func"):
        check = check.func
    return check.__name__


@pytest.fixture
def array_api(monkeypatch):
    """Without this variable one check skips itself."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


@unconverged_is_fine
@parametrize_with_checks(INSTANCES)
def test_estimator_checks(estimator, check, array_api):
    check(estimator)


@unconverged_is_fine
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        (estimator, check)
        for estimator, excluded in WITHOUT_CHECKS
        for _, check in estimator_checks_generator(estimator)
        if name_of(check) not in excluded
    ],
    ids=lambda value: repr(value) if isinstance(value, KernelSVM) else name_of(value),
)
def test_other_estimator_checks(estimator, check, array_api):
    check(estimator)


@pytest.mark.parametrize("estimator", [*INSTANCES, *(estimator for estimator, _ in WITHOUT_CHECKS)], ids=repr)
def test_no_check_got_lost(estimator):
    least = OF_PRECOMPUTED if estimator.kernel == "precomputed" else CHECKS_OF_SKLEARN_1_9
    assert sum(1 for _ in estimator_checks_generator(estimator)) >= least


def test_excluded_checks_exist():
    for estimator, excluded in WITHOUT_CHECKS:
        assert excluded <= {name_of(check) for _, check in estimator_checks_generator(estimator)}


# Parameters and copies


@pytest.fixture
def iris():
    return load_iris(return_X_y=True)


def test_clone_has_the_parameters_and_nothing_fitted(iris):
    model = KernelSVM("weston_watkins", "poly", 0.5, degree=2, coef0=1.0, tol=1e-2, class_weight="balanced").fit(*iris)
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    assert not [name for name in vars(copied) if name.endswith("_") or name.startswith("_kernel")]


def test_get_params_are_the_arguments_and_set_params_takes_them():
    model = KernelSVM()
    params = model.get_params()
    assert (params["formulation"], params["kernel"], params["C"]) == ("crammer_singer", "rbf", 1.0)
    assert (params["gamma"], params["degree"], params["coef0"]) == ("scale", 3, 0.0)
    assert (params["solver"], params["cache_mb"], params["working_set"]) == ("block", 1024, None)
    assert (params["selection"], params["threshold"], params["step"]) == ("kkt", "mean", "exact")
    assert (params["tol"], params["max_iter"]) == (1e-3, 1000)
    assert model.set_params(C=3.0, kernel="linear") is model
    assert (model.C, model.kernel) == (3.0, "linear")
    with pytest.raises(ValueError, match="nu"):
        model.set_params(nu=0.5)


def test_positional_arguments_are_formulation_kernel_and_c():
    model = KernelSVM("dag", "linear", 2.0)
    assert (model.formulation, model.kernel, model.C) == ("dag", "linear", 2.0)
    with pytest.raises(TypeError):
        KernelSVM("dag", "linear", 2.0, 0.1)


def test_there_is_no_partial_fit():
    assert not hasattr(KernelSVM(), "partial_fit")
    with pytest.raises(AttributeError, match=r"KernelSVM has no partial_fit.*LinearSVM"):
        KernelSVM().partial_fit([[0.0], [1.0]], [0, 1], classes=[0, 1])


# Meta-estimators


@every_formulation
def test_pipeline_equals_its_steps(iris, formulation):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), KernelSVM(formulation)).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    alone = KernelSVM(formulation).fit(scaled, y)
    np.testing.assert_array_equal(pipeline.decision_function(X), alone.decision_function(scaled))
    assert pipeline.score(X, y) > 0.9


def test_grid_search_finds_the_better_gamma_and_refits(iris):
    X, y = iris
    search = GridSearchCV(KernelSVM(), {"gamma": [1e-6, 0.1]}, cv=3).fit(X, y)
    assert search.best_params_ == {"gamma": 0.1}
    assert search.best_estimator_.gamma_ == 0.1
    assert search.score(X, y) > 0.9


def test_grid_search_routes_sample_weight(iris):
    X, y = iris
    weight = np.where(y == 2, 0.0, 1.0)
    search = GridSearchCV(KernelSVM(), {"C": [1.0]}, cv=3).fit(X, y, sample_weight=weight)
    assert not np.any(search.predict(X[y != 2]) == 2)


@every_formulation
def test_cross_validation_cuts_precomputed_kernels_both_ways(iris, formulation):
    """Rows and columns: the pairwise tag says so."""
    X, y = iris
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    scores = cross_val_score(KernelSVM(formulation, "precomputed"), rbf_kernel(X, gamma=0.1), y, cv=3)
    np.testing.assert_array_equal(scores, cross_val_score(KernelSVM(formulation, gamma=0.1), X, y, cv=3))
    assert scores.min() > 0.9


# Containers


def test_pandas_in_and_names_remembered(iris):
    X, y = iris
    frame = pd.DataFrame(X, columns=["sepal length", "sepal width", "petal length", "petal width"])
    labels = pd.Series(np.array(["setosa", "versicolor", "virginica"])[y])
    model = KernelSVM().fit(frame, labels)
    assert list(model.feature_names_in_) == list(frame.columns)
    np.testing.assert_array_equal(model.dual_coef_.toarray(), KernelSVM().fit(X, y).dual_coef_.toarray())
    assert set(model.predict(frame)) == {"setosa", "versicolor", "virginica"}
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[frame.columns[::-1]])


# Saved and copied models


def by_pickle(model):
    return pickle.loads(pickle.dumps(model))


def by_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


COPIERS = [by_pickle, by_joblib, copy.deepcopy, copy.copy]


@pytest.mark.parametrize("copier", COPIERS, ids=lambda copier: copier.__name__)
@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed", Laplacian()], ids=str)
@every_formulation
def test_copy_predicts_bit_for_bit_the_same(iris, copier, formulation, kernel):
    X, y = iris
    X = rbf_kernel(X) if kernel == "precomputed" else X
    model = KernelSVM(formulation, kernel).fit(X, y)
    copied = copier(model)
    np.testing.assert_array_equal(copied.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(copied.predict(X), model.predict(X))
    np.testing.assert_array_equal(copied.dual_coef_.toarray(), model.dual_coef_.toarray())
    assert copied.history_.tobytes() == model.history_.tobytes()
    assert (copied.dual_gap_, copied.gamma_) == (model.dual_gap_, model.gamma_)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_a_model_holds_its_support_vectors_and_not_x(container):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(1000, 50)) + 10, rng.normal(size=(1000, 50)) - 10])
    X = container(X * (rng.random(X.shape) < 0.8))
    model = KernelSVM(gamma=1e-5).fit(X, np.arange(2000) // 1000)
    assert len(model.support_) < 200
    assert len(pickle.dumps(model)) < 0.25 * len(pickle.dumps(X))


@pytest.mark.parametrize("copier", [by_pickle, by_joblib, copy.deepcopy], ids=lambda copier: copier.__name__)
def test_copy_shares_nothing(iris, copier):
    X, y = iris
    model = KernelSVM().fit(X, y)
    before = model.decision_function(X)
    copied = copier(model)
    copied.dual_coef_.data *= 2
    copied.support_vectors_ *= 2
    copied.intercept_ += 1
    np.testing.assert_array_equal(model.decision_function(X), before)


def test_a_fitted_model_keeps_its_kernel(iris):
    X, y = iris
    model = KernelSVM().fit(X, y)
    before = model.decision_function(X)
    model.set_params(kernel="linear", gamma=3.0)
    np.testing.assert_array_equal(model.decision_function(X), before)
    assert not hasattr(model, "coef_")


def test_unfitted_model_pickles():
    assert by_pickle(KernelSVM(C=7.0)).get_params() == KernelSVM(C=7.0).get_params()
