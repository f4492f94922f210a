"""LinearSVM keeps scikit-learn's contract: its estimator checks, and the tools that people put a classifier into."""

import copy
import io
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from multimargin import LinearSVM, LinearSVMCV

FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
LOSSES = ("hinge", "squared_hinge")

# The checks compare decision values to 1e-7. A gap of g leaves the weights sqrt(g) from optimal, except that the
# hinge loss lets the solver hit the optimal face exactly; so the squared hinge is stopped by the violation, which
# is of first order in the weights.
TIGHT = {"hinge": {"tol": 1e-10}, "squared_hinge": {"tol": 1e-10, "stopping": "violation"}}
INSTANCES = [LinearSVM(formulation, loss, **TIGHT[loss]) for formulation in FORMULATIONS for loss in LOSSES] + [
    LinearSVM(tol=1e-10, **options)
    for options in (
        {"solver": "sdm"},
        {"solver": "accelerated_sdm"},
        {"solver": "newton"},
        {"solver": "cutting_plane"},
        {"intercept_scaling": 0.5},
        {"solver_options": {"restricted_step": False}},
        {"shrinking": False, "cooling": False},
        {"n_jobs": 2},
        {"n_jobs": 2, "formulation": "one_vs_rest"},
        {"n_jobs": 2, "formulation": "one_vs_one"},
        {"probability": True},
        {"probability": True, "formulation": "one_vs_rest", "n_jobs": 2},
    )
]
# The primal methods have no other stopping: the gap of a squared hinge, down to what float64 holds.
INSTANCES += [LinearSVM("one_vs_rest", "squared_hinge", tol=1e-16, solver=solver) for solver in ("tron", "primal_cd")]
CROSS_VALIDATED = [
    LinearSVMCV(Cs=[1.0], cv=2, tol=1e-10),
    LinearSVMCV(Cs=[0.5, 1.0], cv=2, tol=1e-10, formulation="one_vs_rest", n_jobs=2),
    LinearSVMCV(Cs=[1.0], cv=2, tol=1e-10, probability=True),
]
# Instances that scikit-learn's own estimators cannot pass one check with either.
WITHOUT_CHECKS = [
    # Planes through the origin cannot put 87 % of the rows on one side, whatever the class weights.
    (LinearSVM(tol=1e-10, fit_intercept=False), {"check_class_weight_classifiers"}),
    # Balanced weights cannot be known in partial_fit, which refuses them as SGDClassifier does.
    (
        LinearSVM(tol=1e-10, class_weight="balanced"),
        {
            "check_fit_score_takes_y",
            "check_n_features_in_after_fitting",
            "check_estimators_partial_fit_n_features",
        },
    ),
]
CHECKS_OF_SKLEARN_1_9 = 64

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
@parametrize_with_checks(INSTANCES + CROSS_VALIDATED)
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
    ids=lambda value: repr(value) if isinstance(value, LinearSVM) else name_of(value),
)
def test_other_estimator_checks(estimator, check, array_api):
    check(estimator)


@pytest.mark.parametrize(
    "estimator", [*INSTANCES, *CROSS_VALIDATED, *(estimator for estimator, _ in WITHOUT_CHECKS)], ids=repr
)
def test_no_check_got_lost(estimator):
    assert sum(1 for _ in estimator_checks_generator(estimator)) >= CHECKS_OF_SKLEARN_1_9


def test_excluded_checks_exist():
    for estimator, excluded in WITHOUT_CHECKS:
        assert excluded <= {name_of(check) for _, check in estimator_checks_generator(estimator)}


# Parameters and copies


def test_clone_has_the_parameters_and_nothing_fitted(iris):
    model = LinearSVM("weston_watkins", "squared_hinge", 0.5, tol=1e-2, class_weight="balanced").fit(*iris)
    copied = clone(model)
    assert copied.get_params() == model.get_params()
    assert not [name for name in vars(copied) if name.endswith("_")]


def test_get_params_are_the_arguments_and_set_params_takes_them():
    model = LinearSVM()
    params = model.get_params()
    assert params["formulation"] == "crammer_singer"
    assert params["loss"] == "hinge"
    assert (params["C"], params["tol"], params["max_iter"]) == (1.0, 1e-3, 1000)
    assert params["solver"] == "auto"
    assert model.set_params(C=3.0, loss="squared_hinge") is model
    assert (model.C, model.loss) == (3.0, "squared_hinge")
    with pytest.raises(ValueError, match="penalty"):
        model.set_params(penalty="l1")


def test_set_params_before_fit_is_the_same_as_the_constructor(iris):
    by_constructor = LinearSVM("one_vs_rest", C=0.3).fit(*iris)
    by_set_params = LinearSVM().set_params(formulation="one_vs_rest", C=0.3).fit(*iris)
    np.testing.assert_array_equal(by_constructor.coef_, by_set_params.coef_)


# Meta-estimators


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_pipeline_equals_its_steps(iris, formulation):
    X, y = iris
    pipeline = make_pipeline(StandardScaler(), LinearSVM(formulation)).fit(X, y)
    scaled = StandardScaler().fit_transform(X)
    alone = LinearSVM(formulation).fit(scaled, y)
    np.testing.assert_array_equal(pipeline.decision_function(X), alone.decision_function(scaled))
    assert pipeline.score(X, y) > 0.9


def test_grid_search_finds_the_better_c_and_refits(iris):
    X, y = iris
    grid = make_pipeline(StandardScaler(), LinearSVM())
    search = GridSearchCV(grid, {"linearsvm__C": [1e-5, 1.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"linearsvm__C": 1.0}
    assert search.best_estimator_[-1].C == 1.0
    assert search.score(X, y) > 0.9


def test_grid_search_routes_sample_weight(iris):
    X, y = iris
    weight = np.where(y == 2, 0.0, 1.0)
    search = GridSearchCV(LinearSVM(), {"C": [1.0]}, cv=3).fit(X, y, sample_weight=weight)
    assert not np.any(search.predict(X[y != 2]) == 2)


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_cross_val_score(iris, formulation):
    X, y = iris
    scores = cross_val_score(make_pipeline(StandardScaler(), LinearSVM(formulation)), X, y, cv=3)
    assert scores.shape == (3,)
    assert scores.min() > 0.85


# Containers


def test_pandas_in_and_names_remembered(iris):
    X, y = iris
    frame = pd.DataFrame(X, columns=["sepal length", "sepal width", "petal length", "petal width"])
    labels = pd.Series(np.array(["setosa", "versicolor", "virginica"])[y])
    model = LinearSVM().fit(frame, labels)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.n_features_in_ == 4
    np.testing.assert_array_equal(model.coef_, LinearSVM().fit(X, y).coef_)
    assert set(model.predict(frame)) == {"setosa", "versicolor", "virginica"}
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[frame.columns[::-1]])
    with pytest.warns(UserWarning, match="feature names"):
        model.predict(X)


def test_pandas_sparse_frame(iris):
    X, y = iris
    frame = pd.DataFrame.sparse.from_spmatrix(sp.csr_matrix(X))
    frame.columns = list("abcd")
    model = LinearSVM().fit(frame, y)
    np.testing.assert_array_equal(model.predict(frame), model.predict(frame.sparse.to_dense()))


def test_output_container_is_no_concern_of_a_classifier(iris):
    X, y = iris
    plain = LinearSVM().fit(X, y)
    with config_context(transform_output="pandas"):
        model = make_pipeline(StandardScaler(with_mean=False, with_std=False), LinearSVM()).fit(X, y)
        assert isinstance(model.decision_function(X), np.ndarray)
        assert isinstance(model.predict(X), np.ndarray)
    np.testing.assert_array_equal(model[-1].coef_, plain.coef_)
    assert not hasattr(plain, "set_output")


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
@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_copy_predicts_bit_for_bit_the_same(iris, copier, formulation, fit_intercept):
    X, y = iris
    model = LinearSVM(formulation, fit_intercept=fit_intercept, intercept_scaling=3.0).fit(X, y)
    copied = copier(model)
    np.testing.assert_array_equal(copied.coef_, model.coef_)
    np.testing.assert_array_equal(copied.intercept_, model.intercept_)
    np.testing.assert_array_equal(copied.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(copied.predict(X), model.predict(X))
    np.testing.assert_array_equal(copied.dual_coef_.toarray(), model.dual_coef_.toarray())
    assert copied.history_.tobytes() == model.history_.tobytes()
    assert copied.dual_gap_ == model.dual_gap_


@pytest.mark.parametrize("copier", [by_pickle, by_joblib, copy.deepcopy], ids=lambda copier: copier.__name__)
def test_copy_shares_nothing(iris, copier):
    X, y = iris
    model = LinearSVM().fit(X, y)
    before = model.decision_function(X)
    copied = copier(model)
    copied.coef_ *= 2
    copied.intercept_ += 1
    np.testing.assert_array_equal(model.decision_function(X), before)


@pytest.mark.parametrize("copier", [lambda model: model, *COPIERS], ids=["fitted", *(c.__name__ for c in COPIERS)])
def test_changed_weights_are_seen(iris, copier):
    X, y = iris
    model = copier(LinearSVM().fit(X, y))
    model.coef_[1] = 0
    model.intercept_[:] = [1, 2, 3]
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_.T + [1, 2, 3], rtol=1e-12)
    model.coef_ = np.arange(12.0).reshape(3, 4)
    model.intercept_ = np.zeros(3)
    np.testing.assert_allclose(model.decision_function(X), X @ np.arange(12.0).reshape(3, 4).T, rtol=1e-12)
    assert set(model.predict(np.abs(X))) == {2}
    model.coef_[2] = -1  # the replacement may change in place as well
    assert set(model.predict(np.abs(X))) == {1}


def test_weights_changed_before_pickling_are_kept(iris):
    X, y = iris
    model = LinearSVM().fit(X, y)
    model.coef_ = model.coef_ * 2
    np.testing.assert_array_equal(by_pickle(model).decision_function(X), model.decision_function(X))


def test_pickle_of_an_online_model_goes_on_learning(iris):
    X, y = iris
    model = LinearSVM().partial_fit(X[::2], y[::2], classes=[0, 1, 2])
    copied = by_pickle(model)
    np.testing.assert_array_equal(copied.coef_, model.coef_)
    model.partial_fit(X[1::2], y[1::2])
    copied.partial_fit(X[1::2], y[1::2])
    np.testing.assert_array_equal(copied.coef_, model.coef_)
    np.testing.assert_array_equal(copied.intercept_, model.intercept_)


def test_unfitted_model_pickles():
    assert by_pickle(LinearSVM(C=7.0)).get_params() == LinearSVM(C=7.0).get_params()


@pytest.fixture
def iris():
    return load_iris(return_X_y=True)
