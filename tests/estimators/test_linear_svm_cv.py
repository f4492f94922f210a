"""LinearSVMCV: the same choice as a grid search over LinearSVM, for less work."""

import signal
import threading
from fractions import Fraction
from inspect import signature

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError, UnsetMetadataPassedError
from sklearn.metrics import accuracy_score, get_scorer, make_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from multimargin import LinearSVM, LinearSVMCV, save
from multimargin.data.blocks import write_blocks

FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
CS = [1e-3, 1e-2, 0.1, 1.0]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:600] / 16, y[:600]


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_same_choice_as_a_grid_search(digits, formulation, loss):
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    model = LinearSVMCV(CS, folds, formulation=formulation, loss=loss, tol=1e-5).fit(*digits)
    search = GridSearchCV(LinearSVM(formulation, loss, tol=1e-5), {"C": CS}, cv=folds).fit(*digits)
    expected = [search.cv_results_[f"split{fold}_test_score"] for fold in range(3)]
    np.testing.assert_allclose(model.scores_, expected, atol=1.5 / 200)  # a row on the edge
    assert search.best_params_["C"] == model.C_
    np.testing.assert_array_equal(model.coef_, search.best_estimator_.coef_)
    assert model.best_score_ == pytest.approx(model.scores_.mean(axis=0).max())


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_every_fit_is_certified(digits, formulation):
    model = LinearSVMCV(CS, cv=3, formulation=formulation).fit(*digits)
    assert model.gaps_.shape == model.epochs_.shape == model.scores_.shape == (3, 4)
    assert np.all(model.gaps_ <= 1e-3)
    assert np.all(model.gaps_ >= 0)
    assert model.dual_gap_ <= 1e-3


def test_the_path_starts_from_the_last_fit(digits):
    X, y = digits
    Cs = np.geomspace(0.5, 1.0, 6)
    folds = StratifiedKFold(2)
    model = LinearSVMCV(Cs, folds, solver="sdm").fit(X, y)
    for fold, (train, _) in enumerate(folds.split(X, y)):
        cold = [LinearSVM(C=C, solver="sdm").fit(X[train], y[train]).n_iter_ for C in Cs]
        assert model.epochs_[fold, 0] == cold[0]
        assert model.epochs_[fold].sum() < 0.8 * sum(cold)


def test_default_grid_and_order(iris):
    model = LinearSVMCV(4, tol=1e-2).fit(*iris)
    np.testing.assert_allclose(model.Cs_, [1e-3, 1e-1, 1e1, 1e3])
    assert model.scores_.shape == (5, 4)
    unsorted = LinearSVMCV([1.0, 0.1, 1.0], tol=1e-2).fit(*iris)
    np.testing.assert_array_equal(unsorted.Cs_, [0.1, 1.0])


def test_of_equal_scores_the_smallest_c(iris):
    X, y = iris
    model = LinearSVMCV([1.0, 1.0001], cv=3).fit(X, y)
    assert model.scores_[:, 0].mean() == model.scores_[:, 1].mean()
    assert model.C_ == 1.0


@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_rest"])
def test_threads_change_nothing(digits, formulation):
    options = {"Cs": CS, "cv": 4, "formulation": formulation}
    one, two = (LinearSVMCV(n_jobs=n, **options).fit(*digits) for n in (1, 2))
    np.testing.assert_array_equal(one.scores_, two.scores_)
    np.testing.assert_allclose(one.gaps_, two.gaps_, rtol=1e-6)  # BLAS rounds by where arrays begin in memory
    assert one.C_ == two.C_


def test_containers_and_types(iris):
    X, y = iris
    dense = LinearSVMCV(CS, cv=3, tol=1e-6).fit(X, y)
    sparse = LinearSVMCV(CS, cv=3, tol=1e-6).fit(sp.csr_array(X), y)
    single = LinearSVMCV(CS, cv=3, tol=1e-6).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(dense.scores_, sparse.scores_)
    np.testing.assert_allclose(dense.scores_, single.scores_)
    names = ["a", "b", "c", "d"]
    frame = LinearSVMCV(CS, cv=3, tol=1e-6).fit(pd.DataFrame(X, columns=names), np.array(["x", "y", "z"])[y])
    assert list(frame.feature_names_in_) == names
    assert list(frame.classes_) == ["x", "y", "z"]
    np.testing.assert_array_equal(frame.coef_, dense.coef_)


def test_weights_count_in_training_and_scores(iris):
    X, y = iris
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    weight = np.random.default_rng(0).integers(0, 3, size=len(y)).astype(float)
    model = LinearSVMCV(CS, folds, tol=1e-6).fit(X, y, sample_weight=weight)
    for fold, (train, test) in enumerate(folds.split(X, y)):
        for j, C in enumerate(CS):
            alone = LinearSVM(C=C, tol=1e-6).fit(X[train], y[train], weight[train])
            assert model.scores_[fold, j] == pytest.approx(alone.score(X[test], y[test], weight[test]), abs=2.5 / 50)
    unweighted = LinearSVMCV(CS, folds, tol=1e-6, scoring=lambda m, X, y: m.score(X, y)).fit(X, y, sample_weight=weight)
    assert not np.array_equal(model.scores_, unweighted.scores_)
    np.testing.assert_allclose(unweighted.scores_ * 50, np.round(unweighted.scores_ * 50), atol=1e-9)


def test_weights_of_classes_that_a_fold_lacks(iris):
    """A class of one row is in no more than all folds but one."""
    X, y = np.r_[iris[0], iris[0][:1]], np.r_[iris[1], 9]
    folds = [(np.arange(0, 150, 2), np.arange(1, 151, 2)), (np.arange(1, 151), np.arange(0, 150, 2))]
    model = LinearSVMCV(CS, folds, class_weight={1: 3.0, 9: 2.0}).fit(X, y)
    without = LinearSVMCV(CS, folds[:1], class_weight={1: 3.0}).fit(X[:150], y[:150])
    assert model.classes_.tolist() == [0, 1, 2, 9]
    np.testing.assert_allclose(model.gaps_[0], without.gaps_[0])


def test_groups_stay_together(iris):
    X, y = iris
    groups = np.arange(len(y)) % 7
    model = LinearSVMCV(CS, GroupKFold(3)).fit(X, y, groups=groups)
    assert model.scores_.shape == (3, 4)
    with pytest.raises(ValueError, match="groups"):
        LinearSVMCV(CS, GroupKFold(3)).fit(X, y)


def test_scoring(digits):
    model = LinearSVMCV(CS, cv=3, scoring="f1_macro").fit(*digits)
    folds = StratifiedKFold(3)
    train, test = next(folds.split(*digits))
    single = LinearSVM(C=CS[0]).fit(digits[0][train], digits[1][train])
    assert model.scores_[0, 0] == get_scorer("f1_macro")(single, digits[0][test], digits[1][test])


@pytest.mark.parametrize("stopping", ["gap", "violation"])
def test_fits_that_do_not_converge_are_counted_in_one_warning(digits, stopping):
    with pytest.warns(ConvergenceWarning) as caught:
        LinearSVMCV([1.0, 100.0], cv=3, max_iter=1, solver="sdm", stopping=stopping).fit(*digits)
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 2  # that of the folds, that of the model
    assert "6 of the 6 fits" in messages[0]
    assert "max_iter" in messages[0]
    assert "max_iter=1" in messages[1]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_ends_all_folds(digits, n_jobs):
    scored = []

    def fail_once(model, X, y):
        scored.append(model.C)
        if len(scored) == 5:
            raise LookupError("mine")
        return 0.0

    with pytest.raises(LookupError, match="mine"):
        LinearSVMCV(np.geomspace(1e-3, 1e-2, 200), cv=4, n_jobs=n_jobs, scoring=fail_once).fit(*digits)
    assert len(scored) < 200  # of the 800 fits; other folds have ended before their time
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("multimargin-fit")]


def test_callbacks_see_the_last_fit_only(iris):
    records = []
    model = LinearSVMCV(CS, cv=3, callbacks=[records.append]).fit(*iris)
    assert len(records) == len(model.history_)


def test_it_is_a_linear_svm(iris):
    X, y = iris
    model = LinearSVMCV(CS, cv=3).fit(X, y)
    alone = LinearSVM(C=model.C_).fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), alone.decision_function(X))
    np.testing.assert_array_equal(model.label_doubt().toarray(), alone.label_doubt().toarray())
    assert not hasattr(model, "partial_fit")
    assert "C" not in model.get_params()
    assert not [name for name in vars(clone(model)) if name.endswith("_")]


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"Cs": 0}, ValueError, "Cs must be finite and at least 1"),
        ({"Cs": []}, ValueError, "Cs must be an integer or an array of numbers"),
        ({"Cs": [0.0, 1.0]}, ValueError, "each of Cs must be finite and at least"),
        ({"Cs": [1.0, np.inf]}, ValueError, "each of Cs must be finite"),
        ({"Cs": "many"}, TypeError, "each of Cs must be a number, got 'many'"),
        ({"Cs": True}, TypeError, "Cs must be an integer"),
        ({"formulation": "cs"}, ValueError, "did you mean 'crammer_singer'"),
        ({"tol": -1.0}, ValueError, "tol must be"),
        ({"scoring": "nonsense"}, ValueError, "scoring"),
        ({"cv": 1}, ValueError, "n_splits"),
    ],
)
def test_bad_parameters(iris, options, error, words):
    with pytest.raises(error, match=words):
        LinearSVMCV(**options).fit(*iris)


def test_a_store_is_for_linear_svm(iris, tmp_path):
    store = write_blocks(tmp_path / "rows.blocks", [iris])
    for given in ((store,), (store, iris[1])):
        with pytest.raises(TypeError, match=r"LinearSVMCV does not take a store of blocks.*LinearSVM takes one"):
            LinearSVMCV().fit(*given)
    with pytest.raises(ValueError, match="requires y to be passed"):
        LinearSVMCV().fit(iris[0])


def test_bad_data(iris):
    X, y = iris
    with pytest.raises(ValueError, match="only one class"):
        LinearSVMCV().fit(X, np.zeros(len(y)))
    with pytest.raises(ValueError, match="NaN"):
        LinearSVMCV().fit(np.where(X > 2, np.nan, X), y)
    with pytest.raises(ValueError, match="continuous"):
        LinearSVMCV().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="must not be negative"):
        LinearSVMCV().fit(X, y, sample_weight=-np.ones(len(y)))


def not_a_number_above(limit):
    return lambda model, X, y: np.nan if limit < model.C else 0.3


def test_scores_that_are_no_numbers_are_not_the_best(iris):
    with pytest.warns(UserWarning, match=r"scores of C = \[1.0, 10.0\] are NaN"):
        model = LinearSVMCV(Cs=[0.1, 0.5, 1.0, 10.0], scoring=not_a_number_above(0.7), tol=0.1).fit(*iris)
    assert (model.C_, model.best_score_) == (0.1, 0.3)
    with pytest.raises(ValueError, match="gives NaN or infinity for every C"):
        LinearSVMCV(Cs=[1.0, 10.0], scoring=not_a_number_above(0.7), tol=0.1).fit(*iris)


def test_infinite_scores_are_not_the_best(iris):
    with pytest.warns(UserWarning, match=r"scores of C = \[0.1, 0.5\] are NaN or infinite"):
        model = LinearSVMCV([0.1, 0.5, 1.0], scoring=lambda model, X, y: np.inf if model.C < 1 else 0.3, tol=0.1)
        model.fit(*iris)
    assert (model.C_, model.best_score_) == (1.0, 0.3)


@pytest.mark.parametrize("score", [np.float32(0.5), np.array([0.5]), Fraction(1, 2), 0.5])
def test_scores_of_any_kind_of_number(iris, score):
    assert LinearSVMCV([1.0], cv=3, scoring=lambda model, X, y: score, tol=0.1).fit(*iris).best_score_ == 0.5


def test_folds_may_be_masks(iris):
    X, y = iris
    folds = list(StratifiedKFold(3).split(X, y))
    masks = [tuple(np.isin(np.arange(len(y)), rows) for rows in fold) for fold in folds]
    by_number, by_mask = (LinearSVMCV([0.1, 1.0], cv=each, tol=0.1).fit(X, y) for each in (folds, masks))
    np.testing.assert_array_equal(by_number.scores_, by_mask.scores_)


def test_a_fit_that_is_refused_leaves_the_model_as_it_was(iris):
    X, y = iris
    model = LinearSVMCV(Cs=[0.1, 1.0], tol=0.01).fit(X, y)
    before, wanted = dict(vars(model)), model.predict(X)

    def fails(record):
        raise RuntimeError("enough")

    for options, error in (
        ({"cv": 1000}, ValueError),
        ({"cv": 5, "Cs": [5.0, 6.0], "callbacks": [fails]}, RuntimeError),
    ):
        with pytest.raises(error):
            model.set_params(**options).fit(X[:, :2], y)
        assert before["C_"] == model.C_ and model.primal_objective_ == before["primal_objective_"]
        np.testing.assert_array_equal(model.predict(X), wanted)
    for options, error in (({"cv": 1000}, ValueError), ({"callbacks": [fails]}, RuntimeError)):
        new = LinearSVMCV(Cs=[0.1, 1.0], tol=0.01, **options)
        with pytest.raises(error):
            new.fit(X, y)
        with pytest.raises(NotFittedError):
            new.predict(X)


def ctrl_c_at(call):
    """A score, with Ctrl-C before one of them."""
    calls = []

    def scoring(model, X, y):
        calls.append(model.C)
        if len(calls) == call:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        return model.score(X, y)

    return scoring


@pytest.mark.parametrize(("call", "n_jobs"), [(1, 1), (4, 1), (4, 2)])
def test_an_interrupt_of_the_folds_keeps_their_scores_and_no_half_model(iris, call, n_jobs, tmp_path):
    Cs = [0.1, 1.0, 10.0] if n_jobs == 1 else np.geomspace(1e-3, 1e3, 500)  # threads go on until the main one has heard
    scoring = ctrl_c_at(call)
    model = LinearSVMCV(Cs=Cs, cv=3, scoring=scoring, tol=0.01, n_jobs=n_jobs)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*iris)
    assert model.scores_.shape == (3, len(Cs)) and not hasattr(model, "C_")
    np.testing.assert_array_equal(model.Cs_, Cs)
    scored = np.isfinite(model.scores_)
    if n_jobs == 1:
        assert scored.ravel().tolist() == [i < call - 1 for i in range(9)]
    else:
        assert scored.any() and not scored.all()
    for ask in (model.predict, model.decision_function, model.top_classes, lambda X: check_is_fitted(model)):
        with pytest.raises(NotFittedError):
            ask(iris[0])
    with pytest.raises(NotFittedError):
        save(model, tmp_path / "model")
    again = clone(model).set_params(Cs=[0.1, 1.0], scoring=None).fit(*iris)
    model.set_params(Cs=[0.1, 1.0], scoring=None).fit(*iris)
    np.testing.assert_array_equal(model.coef_, again.coef_)
    np.testing.assert_array_equal(model.scores_, again.scores_)


def test_an_interrupt_before_the_last_fit_has_begun_keeps_the_scores(iris, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    model = LinearSVMCV(Cs=[0.1, 1.0], cv=3, tol=0.01)
    with monkeypatch.context() as patched:
        patched.setattr(LinearSVMCV, "_requested", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(*iris)
    assert np.isfinite(model.scores_).all() and not hasattr(model, "C_")
    with pytest.raises(NotFittedError):
        model.predict(iris[0])


def test_an_interrupt_of_the_folds_leaves_a_fitted_model_as_it_was(iris):
    model = LinearSVMCV(Cs=[0.1, 1.0], cv=3, tol=0.01).fit(*iris)
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        model.set_params(Cs=[5.0, 6.0], scoring=ctrl_c_at(2)).fit(*iris)
    for name in ("Cs_", "scores_", "C_", "coef_"):
        assert getattr(model, name) is before[name]


def test_verbose_shows_a_line_a_fit(iris, capsys):
    model = LinearSVMCV(Cs=[0.1, 1.0], cv=3, tol=0.01, verbose=1).fit(*iris)
    search, last = (text.splitlines() for text in capsys.readouterr().err.partition("epoch")[::2])
    assert [line[:13] for line in search] == [f"fit    {i} of 6" for i in range(1, 7)]
    assert "fold   3  C = 1 " in search[-1] and f"score {model.scores_[2, 1]:.6g}" in search[-1]
    assert last
    LinearSVMCV(Cs=[0.1, 1.0], cv=3, tol=0.01).fit(*iris)
    assert not capsys.readouterr().err


# Metadata routing


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


class Heard:
    """A measure that remembers what it was given."""

    def __init__(self):
        self.weights = []

    def __call__(self, y, predicted, sample_weight=None):
        self.weights.append(sample_weight)
        return accuracy_score(y, predicted, sample_weight=sample_weight)


WEIGHT = 1.0 + np.arange(150) % 4


@pytest.mark.parametrize("requested", [True, False, "of_scores"])
def test_weights_go_to_the_scorer_that_requests_them(iris, routing, requested):
    heard, folds = Heard(), StratifiedKFold(3)
    scorer = make_scorer(heard).set_score_request(sample_weight=requested)
    more = {"of_scores": WEIGHT**2} if requested == "of_scores" else {}
    model = LinearSVMCV(Cs=[0.1], cv=folds, scoring=scorer, tol=0.01).fit(*iris, sample_weight=WEIGHT, **more)
    for given, (_, test) in zip(heard.weights, folds.split(*iris), strict=True):
        expected = {True: WEIGHT, False: None, "of_scores": WEIGHT**2}[requested]
        np.testing.assert_array_equal(given, expected if expected is None else expected[test])
    alone = LinearSVM(C=0.1, tol=0.01).fit(*iris, sample_weight=WEIGHT)
    np.testing.assert_array_equal(model.coef_, alone.coef_)  # training has them in any case


def test_without_routing_the_scorer_has_the_weights_that_it_takes(iris):
    heard = Heard()
    LinearSVMCV(Cs=[0.1], cv=3, scoring=make_scorer(heard), tol=0.01).fit(*iris, sample_weight=WEIGHT)
    assert all(given is not None for given in heard.weights)
    with pytest.raises(ValueError, match="enable_metadata_routing=True"):
        LinearSVMCV(Cs=[0.1]).fit(*iris, of_scores=WEIGHT)


@pytest.mark.parametrize("scoring", [None, "accuracy"])
def test_weights_that_nobody_has_spoken_about_are_refused_as_in_scikit_learn(iris, routing, scoring):
    LinearSVMCV(Cs=[0.1], cv=3, scoring=scoring, tol=0.01).fit(*iris)
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        LinearSVMCV(Cs=[0.1], cv=3, scoring=scoring).fit(*iris, sample_weight=WEIGHT)


def test_groups_go_to_the_splitter(iris, routing):
    groups = np.arange(len(iris[1])) % 7
    model = LinearSVMCV(Cs=[0.1], cv=GroupKFold(3), tol=0.01).fit(*iris, groups=groups)
    assert model.scores_.shape == (3, 1)
    with pytest.raises(TypeError, match="groups"):
        LinearSVMCV(Cs=[0.1], cv=3).fit(*iris, groups=groups)


def test_a_router_within_a_router(iris, routing):
    groups, heard = np.arange(len(iris[1])) % 7, Heard()
    scorer = make_scorer(heard).set_score_request(sample_weight=True)
    inner = LinearSVMCV(Cs=[0.1], cv=GroupKFold(3), scoring=scorer, tol=0.01).set_fit_request(sample_weight=True)
    outer = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), inner)
    outer.fit(*iris, sample_weight=WEIGHT, groups=groups)
    assert len(heard.weights) == 3 and all(given is not None for given in heard.weights)


def test_a_checkpoint_knows_what_the_scorer_was_given(iris, routing, tmp_path):
    scorer = make_scorer(Heard()).set_score_request(sample_weight="of_scores")
    model = LinearSVMCV(Cs=[0.1], cv=3, scoring=scorer, tol=0.01, checkpoint=tmp_path / "state", checkpoint_every=0)
    model.set_params(callbacks=[lambda record: True])  # which leaves the file
    with pytest.warns(ConvergenceWarning):
        model.fit(*iris, of_scores=WEIGHT)
    with pytest.raises(ValueError, match="metadata of scoring"):
        model.fit(*iris, of_scores=WEIGHT**2)


@pytest.mark.parametrize(
    ("options", "weight", "words"),
    [
        ({"callbacks": ["x"]}, None, "callbacks must be callables"),
        ({"cv": []}, None, "has no folds"),
        ({"scoring": "neg_log_loss", "probability": True}, None, "needs probabilities"),
        ({}, "x", "sample_weight"),
        ({"cv": 3}, np.arange(150) == 7, "sample_weight is zero for all rows that fold 0 trains on"),
    ],
)
def test_refusals_before_any_fold(iris, options, weight, words, monkeypatch):
    monkeypatch.setattr(LinearSVM, "fit", None)
    with pytest.raises((TypeError, ValueError), match=words):
        LinearSVMCV(**options).fit(*iris, sample_weight=weight)


def test_parameters_begin_as_those_of_linear_svm():
    own, others = (signature(each.__init__).parameters for each in (LinearSVMCV, LinearSVM))
    assert {name: own[name].default for name in own.keys() & others.keys()} == {
        name: others[name].default for name in own.keys() & others.keys()
    }
    assert others.keys() - own.keys() == {"C", "memory_mb", "warm_start"}
