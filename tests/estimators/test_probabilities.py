"""Probabilities: they agree with predict, whatever the scores, and minimise the log loss of rows that were held out."""

import functools
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss

from multimargin import KernelSVM, LinearSVM, LinearSVMCV
from multimargin.estimators.calibration import UNCALIBRATED, fit_calibration, log_probabilities, probabilities
from multimargin.estimators.folds import N_FOLDS, row_keys, stratified_folds

FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
ESTIMATORS = (LinearSVM, KernelSVM)
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS)
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS)

scores = st.floats(allow_nan=False, allow_infinity=False)
near_ties = st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1e-17, 1.0, np.nextafter(1.0, 2), -1.0, 1e300, -1e300])
factors = st.sampled_from([0.0, 1e-300, 1e-9, 0.5, 3.0, 1e4, 1e200])
calibrations = arrays(np.float64, 3, elements=factors)
of_classes = st.integers(3, 6).flatmap(lambda k: arrays(np.float64, (4, k), elements=scores | near_ties))
of_two = arrays(np.float64, 6, elements=scores | near_ties)


@pytest.fixture(scope="module")
def three():
    X, y = make_classification(150, 6, n_informative=4, n_classes=3, class_sep=0.8, random_state=0)
    return X, y


@pytest.fixture(scope="module")
def two():
    return make_classification(120, 5, class_sep=0.7, flip_y=0.1, random_state=1)


# The map


@settings(deadline=None)
@given(of_classes | of_two, calibrations)
def test_argmax_sums_and_no_nan_whatever_the_scores(values, calibration):
    share, logarithm = probabilities(values, calibration), log_probabilities(values, calibration)
    expected = (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)
    np.testing.assert_array_equal(share.argmax(axis=1), expected)
    np.testing.assert_array_equal(logarithm.argmax(axis=1), expected)
    assert np.all((share >= 0) & (share <= 1))
    assert np.isfinite(logarithm).all()
    np.testing.assert_allclose(share.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(np.exp(logarithm), share, rtol=1e-12, atol=1e-300)


@settings(deadline=None)
@given(of_two, calibrations)
def test_more_than_half_exactly_where_the_decision_is_positive(values, calibration):
    share = probabilities(values, calibration)
    np.testing.assert_array_equal(share[:, 1] > 0.5, values > 0)


@settings(deadline=None)
@given(of_classes, calibrations)
def test_classes_keep_the_order_of_their_scores(values, calibration):
    share = probabilities(values, calibration)
    for score, p in zip(values, share, strict=True):
        assert np.all(np.diff(p[np.argsort(score)]) >= -1e-15)  # of equal scores the first may be an ulp ahead


@settings(deadline=None)
@given(arrays(np.float64, 20, elements=st.floats(-50, 50)), calibrations)
def test_of_two_classes_probability_grows_with_the_decision(values, calibration):
    share = probabilities(np.sort(values), calibration)[:, 1]
    assert np.all(np.diff(share) >= -1e-15)


def test_is_the_formula():
    values = np.random.RandomState(0).randn(7, 4)
    a, b, c = calibration = np.array([0.7, 1.3, 0.4])
    margin = values.max(axis=1, keepdims=True) - values
    share = np.exp(-(a * margin + b * np.log(1 + margin) + c * margin / (values.std(axis=1, keepdims=True) + 0.1)))
    np.testing.assert_allclose(probabilities(values, calibration), share / share.sum(axis=1, keepdims=True), rtol=1e-12)


def test_two_columns_are_one_difference():
    values = np.random.RandomState(0).randn(9)
    both = np.column_stack([np.zeros(9), values])
    np.testing.assert_array_equal(probabilities(values, UNCALIBRATED), probabilities(both, UNCALIBRATED))
    np.testing.assert_allclose(probabilities(values, UNCALIBRATED)[:, 1], 1 / (1 + np.exp(-values)))


@pytest.mark.parametrize("bad", [[1.0], [1.0, -1.0, 0.0], [np.nan, 0.0, 0.0], [np.inf, 0.0, 0.0], [[1.0, 0.0, 0.0]]])
def test_a_broken_calibration_is_refused(bad):
    with pytest.raises(ValueError, match="calibration must be 3 finite numbers"):
        probabilities(np.zeros((2, 3)), np.array(bad))


def test_needs_no_scikit_learn():
    code = (
        "import sys, numpy as np; from multimargin.estimators.calibration import probabilities;"
        "probabilities(np.zeros((2, 3)), np.ones(3));"
        "assert not {'sklearn', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# Its parameters


def noisy_scores(n, k, seed, temperature=0.4):
    random = np.random.RandomState(seed)
    y = random.randint(k, size=n)
    values = random.randn(n, k) * temperature + np.eye(k)[y]
    return (values[:, 1] - values[:, 0] if k == 2 else values), y, random.randint(1, 4, size=n).astype(float)


@pytest.mark.parametrize("k", [2, 3, 8])
def test_no_other_parameters_have_a_smaller_loss(k):
    values, y, weight = noisy_scores(300, k, seed=k)
    found = fit_calibration(values, y, weight, n_distinct=10**9)

    def loss(calibration):
        return -np.average(log_probabilities(values, calibration)[np.arange(300), y], weights=weight)

    starts = np.sqrt([[1.0, 1.0, 1.0], [3.0, 0.1, 0.1], [0.1, 3.0, 0.1], [0.1, 0.1, 3.0]])
    brute = min(minimize(lambda t: loss(t**2), start, method="Nelder-Mead").fun for start in starts)
    assert loss(found) <= brute + 1e-6
    assert np.all(found >= 0)


def test_a_weight_of_two_is_the_row_twice():
    values, y, weight = noisy_scores(200, 4, 0)
    again = np.repeat(np.arange(200), weight.astype(int))
    weighted = fit_calibration(values, y, weight, 200)
    repeated = fit_calibration(values[again], y[again], np.ones(len(again)), 200)
    scaled = fit_calibration(values, y, weight * 1e-9, 200)
    at = [probabilities(values, calibration) for calibration in (weighted, repeated, scaled)]
    np.testing.assert_allclose(at[1], at[0], rtol=1e-8)
    np.testing.assert_allclose(at[2], at[0], rtol=1e-8)


def test_true_temperature_is_found():
    random = np.random.RandomState(0)
    values = 2 * random.randn(20000, 5)
    share = np.exp(1.7 * values)
    share /= share.sum(axis=1, keepdims=True)
    y = (share.cumsum(axis=1) > random.rand(20000, 1)).argmax(axis=1)
    found = probabilities(values, fit_calibration(values, y, np.ones(20000), 20000))
    assert np.abs(found - share).mean() < 0.01


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1e3, 1e140])
@pytest.mark.parametrize("k", [2, 4])
def test_scores_without_a_mistake_or_of_any_size_are_fine(k, scale):
    values, y, weight = noisy_scores(60, k, 0, temperature=0.0)
    calibration = fit_calibration(values * scale, y, weight, 60)
    share = probabilities(values * scale, calibration)
    assert np.isfinite(calibration).all()
    assert np.all(share.max(axis=1) < 1 - 1e-3)  # one of 62 may be wrong


def test_scores_that_say_nothing_give_equal_shares():
    y = np.arange(60) % 3
    calibration = fit_calibration(np.random.RandomState(0).randn(60, 3) * 0 + 1.0, y, np.ones(60), 60)
    np.testing.assert_allclose(probabilities(np.ones((1, 3)), calibration), 1 / 3)


# Folds


def test_folds_follow_what_is_in_the_rows():
    random = np.random.RandomState(0)
    X, y = random.randn(80, 3).round(1), random.randint(3, size=80)
    everywhere = np.ones(80, dtype=bool)
    fold, n_distinct = stratified_folds(X, y, everywhere, 0)
    order = random.permutation(80)
    np.testing.assert_array_equal(stratified_folds(X[order], y[order], everywhere, 0)[0], fold[order])
    twice, n_twice = stratified_folds(np.vstack([X, X]), np.tile(y, 2), np.tile(everywhere, 2), 0)
    np.testing.assert_array_equal(twice, np.tile(fold, 2))
    assert n_twice == n_distinct
    np.testing.assert_array_equal(stratified_folds(sp.csr_array(X), y, everywhere, 0)[0], fold)
    assert not np.array_equal(stratified_folds(X, y, everywhere, 1)[0], fold)
    for c in range(3):
        sizes = np.bincount(fold[y == c], minlength=N_FOLDS)
        assert sizes.max() - sizes.min() <= 2  # some rows are there twice


def folds_class_by_class(X, y, counts, seed):
    """Slow, and obviously right."""
    keys = row_keys(X, seed)
    fold = np.full(len(y), -1)
    dealt = 0
    for c in np.unique(y[counts]):
        rows = np.flatnonzero(counts & (y == c))
        distinct, rank = np.unique(keys[rows], return_inverse=True)
        if len(distinct) > 1:
            fold[rows] = (dealt + rank) % N_FOLDS
            dealt += len(distinct)
    return fold, dealt


@pytest.mark.parametrize("n_classes", [1, 2, 7, 60, 400])
@pytest.mark.parametrize("n_values", [1, 3, 10**6])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_folds_are_those_of_a_loop_over_classes(n_classes, n_values, share):
    for seed in range(5):
        random = np.random.RandomState(seed)
        X = random.randint(n_values, size=(200, 2)).astype(float)
        y, counts = random.randint(n_classes, size=200), random.random_sample(200) < share
        fold, n_distinct = stratified_folds(X, y, counts, seed)
        expected, n_expected = folds_class_by_class(X, y, counts, seed)
        np.testing.assert_array_equal(fold, expected)
        assert fold.dtype == expected.dtype
        assert n_distinct == n_expected


def test_a_class_of_two_is_in_every_training_set_and_one_of_one_is_never_held_out():
    X = np.arange(24.0).reshape(-1, 1)
    y = np.array([0] * 20 + [1] * 2 + [2] + [0])
    counts = np.ones(24, dtype=bool)
    fold, n_distinct = stratified_folds(X, y, counts, 0)
    assert len(set(fold[y == 1])) == 2
    assert fold[y == 2] == -1
    assert n_distinct == 23
    counts[0] = False
    assert stratified_folds(X, y, counts, 0)[0][0] == -1


def test_keys_tell_rows_apart():
    X = np.array([[1.0, 2.0], [2.0, 1.0], [0.0, 0.0], [-0.0, 0.0], [1.0, 2.0], [4.0, 0.0], [2.0, 0.0]])
    keys = row_keys(X, 0)
    assert keys[0] == keys[4]
    assert keys[2] == keys[3]
    assert len(set(keys)) == 5
    np.testing.assert_array_equal(row_keys(X.astype(np.float32), 0), keys)


# The estimators


@every_estimator
@every_formulation
@pytest.mark.parametrize("break_ties", [False, True])
def test_predict_is_the_most_probable_class(three, estimator, formulation, break_ties):
    X, y = three
    model = estimator(formulation, probability=True, break_ties=break_ties).fit(X, y)
    share = model.predict_proba(X)
    np.testing.assert_array_equal(model.classes_[share.argmax(axis=1)], model.predict(X))
    np.testing.assert_allclose(share.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), share, rtol=1e-12)
    assert model.calibration_.shape == (3,)
    assert model.calibration_.dtype == np.float64
    assert log_loss(y, share) < 0.9 * np.log(3)
    plain = estimator(formulation, break_ties=break_ties).fit(X, y)
    np.testing.assert_array_equal(plain.decision_function(X), model.decision_function(X))


@functools.cache
def of_unit_vectors(formulation):
    model = LinearSVM(formulation, probability=True, fit_intercept=False)
    return model.fit(np.tile(np.eye(5), (4, 1))[:16], np.arange(16) % 4)


@every_formulation
@settings(deadline=None, max_examples=30)
@given(pair_decisions=arrays(np.float64, (5, 6), elements=st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.5, 1e-300])))
def test_predict_is_the_most_probable_class_of_any_weights(formulation, pair_decisions):
    model = of_unit_vectors(formulation)
    lanes = len(model.coef_)
    model.coef_ = pair_decisions[:, :lanes].T.copy()  # scores of the unit vectors, full of ties
    X = np.eye(5)
    np.testing.assert_array_equal(model.classes_[model.predict_proba(X).argmax(axis=1)], model.predict(X))
    np.testing.assert_array_equal(model.classes_[model.predict_log_proba(X).argmax(axis=1)], model.predict(X))


@every_estimator
@every_formulation
def test_two_classes(two, estimator, formulation):
    X, y = two
    model = estimator(formulation, probability=True).fit(X, np.array(["no", "yes"])[y])
    share = model.predict_proba(X)
    assert share.shape == (len(X), 2)
    np.testing.assert_array_equal(share[:, 1] > 0.5, model.decision_function(X) > 0)
    np.testing.assert_array_equal(model.classes_[share.argmax(axis=1)], model.predict(X))


@every_estimator
def test_scores_are_of_models_that_did_not_see_the_row(estimator):
    random = np.random.RandomState(0)
    X, y = random.randn(200, 300), random.randint(3, size=200)  # nothing to learn, everything to remember
    model = estimator(probability=True).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.predict_proba(X).max() < 0.7


@every_estimator
def test_refits_from_duals_agree_with_refits_from_nothing(three, estimator):
    X, y = three
    model = estimator(probability=True, tol=1e-8, max_iter=10**5).fit(X, y)
    fold, n_distinct = stratified_folds(X, y, np.ones(len(y), dtype=bool), 0)
    values = np.zeros((len(y), 3))
    fixed = {"gamma": model.gamma_} if estimator is KernelSVM else {}
    for f in range(N_FOLDS):
        train = fold != f
        other = estimator(tol=1e-8, max_iter=10**5, **fixed).fit(X[train], y[train])
        values[~train] = other.decision_function(X[~train])
    expected = probabilities(model.decision_function(X), fit_calibration(values, y, np.ones(len(y)), n_distinct))
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=2e-3)


@every_estimator
def test_weights_are_repetitions_and_zero_is_absence(three, estimator):
    X, y = three
    weight = np.random.RandomState(0).randint(0, 3, size=len(y))
    options = {"probability": True, "tol": 1e-9, "max_iter": 10**5}
    weighted = estimator(**options).fit(X, y, weight)
    again = np.repeat(np.arange(len(y)), weight)
    repeated = estimator(**options).fit(X[again], y[again])
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-4)


def test_a_class_weight_is_a_weight_of_its_rows(three):
    X, y = three
    factor = {0: 1.0, 1: 3.0, 2: 0.5}
    by_class = LinearSVM(probability=True, class_weight=factor).fit(X, y)
    by_row = LinearSVM(probability=True).fit(X, y, np.vectorize(factor.get)(y))
    np.testing.assert_array_equal(by_class.calibration_, by_row.calibration_)


@every_estimator
def test_sparse_float32_and_pickled(three, estimator):
    X, y = three
    X = np.where(np.abs(X) < 0.5, 0, X).astype(np.float32)
    options = {"probability": True, "tol": 1e-6, "max_iter": 10**5}
    dense = estimator(**options).fit(X, y)
    share = dense.predict_proba(X)
    assert share.dtype == np.float64
    np.testing.assert_allclose(share, estimator(**options).fit(sp.csr_array(X), y).predict_proba(X), atol=5e-3)
    np.testing.assert_allclose(share, estimator(**options).fit(X.astype(float), y).predict_proba(X), atol=5e-3)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(dense)).predict_proba(X), share)
    assert not hasattr(clone(dense), "calibration_")
    assert clone(dense).probability is True


@every_estimator
def test_is_reproducible_and_seeded(three, estimator):
    X, y = three
    first, again, other = (estimator(probability=True, random_state=s).fit(X, y) for s in (0, 0, 1))
    np.testing.assert_array_equal(first.calibration_, again.calibration_)
    assert not np.array_equal(first.calibration_, other.calibration_)


@every_estimator
def test_threads_give_the_same(three, estimator):
    X, y = three
    one, many = (estimator(probability=True, n_jobs=jobs).fit(X, y) for jobs in (1, 3))
    np.testing.assert_allclose(many.predict_proba(X), one.predict_proba(X), rtol=1e-9)


def test_precomputed_kernel(three):
    X, y = three
    kernel = X @ X.T
    model = KernelSVM(kernel="precomputed", probability=True).fit(kernel, y)
    assert log_loss(y, model.predict_proba(kernel)) < 0.9 * np.log(3)


def test_scaled_problem_has_the_same_probabilities(three):
    X, y = three
    options = {"probability": True, "fit_intercept": False, "tol": 1e-8, "max_iter": 10**5, "random_state": 0}
    # Powers of two keep every bit but the exponent; the folds are by content, so those of the two differ.
    model = LinearSVM(C=1.0, **options).fit(X, y)
    scaled = LinearSVM(C=1 / 16, **options).fit(4 * X, y)
    np.testing.assert_allclose(scaled.decision_function(4 * X), model.decision_function(X), atol=1e-4)
    np.testing.assert_allclose(scaled.predict_proba(4 * X), model.predict_proba(X), atol=0.05)


@every_estimator
def test_classes_with_a_single_row(three, estimator):
    X, y = three
    X, y = np.vstack([X, X[:1] + 9]), np.append(y, 7)
    share = estimator(probability=True).fit(X, y).predict_proba(X)
    assert share.shape == (len(X), 4)
    np.testing.assert_allclose(share.sum(axis=1), 1)


@every_estimator
@every_formulation
def test_nothing_to_hold_out(estimator, formulation):
    model = estimator(formulation, probability=True).fit(np.eye(3), [0, 1, 2])
    np.testing.assert_array_equal(model.calibration_, UNCALIBRATED)
    np.testing.assert_array_equal(model.predict_proba(np.eye(3)).argmax(axis=1), model.predict(np.eye(3)))


@every_estimator
def test_warm_start(three, estimator):
    X, y = three
    model = estimator(probability=True, warm_start=True, tol=1e-6, max_iter=10**5)
    cold = estimator(probability=True, C=2.0, tol=1e-6, max_iter=10**5).fit(X, y)
    warm = model.fit(X, y).set_params(C=2.0).fit(X, y)
    np.testing.assert_allclose(warm.predict_proba(X), cold.predict_proba(X), atol=1e-2)


def test_cross_validated_model_has_them(three):
    X, y = three
    model = LinearSVMCV(Cs=[0.1, 1.0], cv=3, probability=True).fit(X, y)
    chosen = LinearSVM(C=model.C_, probability=True).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), chosen.predict_proba(X))


# What there is not


@every_estimator
@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba"])
def test_without_probability_there_are_none(three, estimator, method):
    model = estimator().fit(*three)
    assert not hasattr(model, method)
    assert not hasattr(model, "calibration_")
    with pytest.raises(AttributeError) as refused:
        getattr(model, method)
    assert "probability=True" in str(refused.value.__cause__)
    model.set_params(probability=True)
    with pytest.raises(NotFittedError, match="fitted with probability=False"):
        getattr(model, method)(three[0])
    with pytest.raises(NotFittedError):
        getattr(estimator(probability=True), method)(three[0])


def test_a_fit_without_forgets_the_calibration_of_one_with(three):
    model = LinearSVM(probability=True).fit(*three).set_params(probability=False).fit(*three)
    assert not hasattr(model, "calibration_")
    model = LinearSVM(probability=True).fit(*three).set_params(probability=False).partial_fit(*three)
    assert not hasattr(model, "calibration_")


def test_partial_fit_is_refused_by_name(three):
    model = LinearSVM(probability=True)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError) as refused:
        model.partial_fit(*three, classes=[0, 1, 2])
    assert "partial_fit is not there with probability=True" in str(refused.value.__cause__)


# Limits and interrupts


@every_estimator
def test_history_callbacks_and_warnings_are_of_the_fit_alone(three, estimator, capsys):
    told = []
    model = estimator(probability=True, callbacks=[told.append], verbose=0).fit(*three)
    plain = estimator().fit(*three)
    assert len(told) == len(model.history_) == len(plain.history_)
    assert model.n_iter_ == plain.n_iter_
    assert capsys.readouterr().err == ""


@every_estimator
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_time_limit_that_is_used_up(three, estimator):
    X, y = three
    model = estimator(probability=True, time_limit=1e-9, tol=1e-12).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X).argmax(axis=1), model.predict(X))


def test_stopped_by_a_callback_is_calibrated_too(three):
    X, y = three
    with pytest.warns(match="callback"):
        model = LinearSVM(probability=True, solver="sdm", tol=1e-12, callbacks=[lambda record: True]).fit(X, y)
    assert model.predict_proba(X).shape == (len(y), 3)


class InterruptedKernel:
    """A kernel during whose so-manieth call somebody presses Ctrl-C."""

    def __init__(self, at=None):
        self.at, self.calls = at, 0

    def __call__(self, X, Y):
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        return X @ Y.T


def test_interrupt_of_the_refits_leaves_the_model(three):
    X, y = three
    kernel = InterruptedKernel()
    plain = KernelSVM(kernel=kernel).fit(X, y)
    model = KernelSVM(kernel=InterruptedKernel(at=kernel.calls + 1), probability=True)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.converged_
    np.testing.assert_array_equal(model.dual_coef_.toarray(), plain.dual_coef_.toarray())
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    with pytest.raises(NotFittedError, match="interrupted before they were ready"):
        model.predict_proba(X)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_interrupt_of_linear_refits(three, n_jobs):
    X, y = three

    class Interrupted(LinearSVM):
        fits = 0

        def _train(self, request):
            Interrupted.fits += 1
            if Interrupted.fits > 1:
                raise KeyboardInterrupt
            return super()._train(request)

    model = Interrupted(probability=True, n_jobs=n_jobs)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    np.testing.assert_array_equal(model.predict(X), LinearSVM(n_jobs=n_jobs).fit(X, y).predict(X))
    with pytest.raises(NotFittedError, match="interrupted"):
        model.predict_proba(X)


def test_interrupt_of_the_fit_has_no_calibration(three):
    def stop(record):
        raise KeyboardInterrupt

    model = LinearSVM(probability=True, callbacks=[stop])
    with pytest.raises(KeyboardInterrupt):
        model.fit(*three)
    assert not hasattr(model, "calibration_")


def test_iris_is_well_calibrated():
    X, y = load_iris(return_X_y=True)
    held_out = np.arange(len(y)) % 3 == 0
    model = LinearSVM(C=10.0, probability=True).fit(X[~held_out], y[~held_out])
    assert log_loss(y[held_out], model.predict_proba(X[held_out])) < 0.2
