"""What machines are made of: defaults, doubts, warm starts, weights that are replaced, grids of C, kernels by value."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from multimargin import KernelSVM, LinearSVM, LinearSVMCV
from multimargin.estimators import kernel_svm, linear_machine
from multimargin.estimators.kernel_svm import _balanced, _check_square
from multimargin.estimators.linear_svm import _announced
from multimargin.estimators.linear_svm_cv import _accepts_weights
from multimargin.problems.range import SMALLEST_C

X, Y = load_iris(return_X_y=True)
SHARED = {
    "formulation": "crammer_singer",
    "loss": "hinge",
    "tol": 1e-3,
    "stopping": "gap",
    "max_iter": 1000,
    "time_limit": None,
    "fit_intercept": True,
    "intercept_scaling": 1.0,
    "class_weight": None,
    "shrinking": True,
    "cooling": True,
    "probability": False,
    "n_jobs": None,
    "random_state": None,
    "verbose": 0,
    "callbacks": None,
    "decision_function_shape": "ovr",
    "break_ties": False,
    "checkpoint": None,
    "checkpoint_every": 600,
}
OF_LINEAR = SHARED | {"solver": "auto", "solver_options": None}
OF_KERNEL = {
    "kernel": "rbf",
    "gamma": "scale",
    "degree": 3,
    "coef0": 0.0,
    "solver": "block",
    "selection": "kkt",
    "threshold": "mean",
    "step": "exact",
    "cache_mb": 1024,
    "working_set": None,
    "threshold_factor": 0.5,
}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (LinearSVM, OF_LINEAR | {"C": 1.0, "warm_start": False, "memory_mb": None}),
        (LinearSVMCV, OF_LINEAR | {"Cs": 10, "cv": 5, "scoring": None}),
        (KernelSVM, SHARED | OF_KERNEL | {"C": 1.0, "warm_start": False}),
    ],
)
def test_defaults(kind, expected):
    found = kind().get_params()
    assert found == expected
    assert all(type(found[name]) is type(value) for name, value in expected.items())


# Doubt


@pytest.mark.parametrize("kind", [LinearSVM, KernelSVM])
def test_doubt_of_two_classes(kind):
    rows = Y > 0
    labels = np.where(Y[rows] == 1, "a", "b")
    labels[3], labels[-2] = "b", "a"
    model = kind(C=0.5).fit(X[rows], labels, sample_weight=np.where(np.arange(100) < 50, 1.0, 2.0))
    doubt = model.label_doubt()
    assert doubt.shape == (100, 2)
    own = np.searchsorted(model.classes_, labels)
    assert doubt.toarray()[np.arange(100), own].max() == 0
    shares = doubt.toarray()[np.arange(100), 1 - own]
    duals = np.abs(model.dual_coef_.toarray()).max(axis=1)
    caps = 0.5 * np.where(np.arange(100) < 50, 1.0, 2.0)
    np.testing.assert_allclose(shares, np.minimum(duals / (2 * caps), 1))
    assert shares[3] == shares.max() > 0 and shares[-2] > 0


def test_doubt_of_three_classes():
    model = LinearSVM("weston_watkins", C=0.5).fit(X, Y)
    duals, doubt = model.dual_coef_.toarray(), model.label_doubt().toarray()
    shares = np.where(duals < 0, -duals, 0) / 0.5
    np.testing.assert_allclose(doubt, shares / np.maximum(shares.sum(axis=1, keepdims=True), 1))
    assert doubt.sum(axis=1).max() <= 1 + 1e-12


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (LinearSVM("one_vs_rest"), "label_doubt needs formulation='crammer_singer' or 'weston_watkins'"),
        (LinearSVM(loss="squared_hinge"), "and loss='hinge', not 'crammer_singer' with 'squared_hinge'"),
    ],
)
def test_doubt_of_others(model, words):
    with pytest.raises(ValueError, match=words):
        model.fit(X, Y).label_doubt()


def test_doubt_needs_duals():
    with pytest.raises(NotFittedError, match="neither partial_fit nor a fit on a store"):
        LinearSVM().partial_fit(X, Y, classes=[0, 1, 2]).label_doubt()


# The best classes


def test_five_classes_are_told_unless_others_are_asked_for():
    rows, labels = load_digits(return_X_y=True)
    model = LinearSVM(tol=0.1).fit(rows[:300] / 16, labels[:300])
    found, scores = model.top_classes(rows[:4] / 16)
    assert found.shape == scores.shape == (4, 5)
    np.testing.assert_array_equal(found[:, 0], model.predict(rows[:4] / 16))
    np.testing.assert_allclose(scores, -np.sort(-model.decision_function(rows[:4] / 16))[:, :5])
    assert model.top_classes(rows[:4] / 16, 10)[0].shape == (4, 10)
    for n in (0, 11, 1.5):
        with pytest.raises((TypeError, ValueError), match="n must be"):
            model.top_classes(rows[:4] / 16, n)


# Warm starts


def test_duals_to_start_from_are_those_of_the_same_problem():
    model = LinearSVM(C=1.0).fit(X, Y)
    encoded, caps = Y, np.ones(150)
    assert (model._scaled_duals(caps, encoded) != model.dual_coef_).nnz == 0
    assert (model._scaled_duals(2 * caps, encoded) != model.dual_coef_).nnz == 0  # they do not grow
    half = model._scaled_duals(caps / 2, encoded)
    np.testing.assert_allclose(half.toarray(), model.dual_coef_.toarray() / 2)
    assert model._scaled_duals(caps, Y[::-1]) is None
    assert model._scaled_duals(caps[:-1], encoded[:-1]) is None
    assert model.set_params(loss="squared_hinge")._scaled_duals(caps, encoded) is None
    assert LinearSVM()._scaled_duals(caps, encoded) is None


def test_duals_of_a_free_bias_are_balanced():
    duals = sp.csr_array(np.array([[3.0, 0.0, 1.0], [-1.0, -2.0, -4.0], [0.0, 0.0, 1.0], [-1.0, 0.0, 0.0]]))
    balanced = _balanced(duals)
    np.testing.assert_allclose(balanced.toarray(), [[2, 0, 1], [-1, 0, -2], [0, 0, 1], [-1, 0, 0]])
    assert balanced.nnz == 6 and duals.nnz == 7
    for formulation, fit_intercept, kept in (
        ("one_vs_rest", True, 6),
        ("one_vs_rest", False, 7),
        ("crammer_singer", True, 7),
    ):
        assert KernelSVM(formulation, fit_intercept=fit_intercept)._feasible(duals).nnz == kept


# Linear weights


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_weights_that_are_replaced(fit_intercept):
    model = LinearSVM(fit_intercept=fit_intercept, intercept_scaling=4.0).fit(X, Y)
    before = model.decision_function(X)
    np.testing.assert_allclose(before, X @ model.coef_.T + model.intercept_)
    whole = model._whole_weights()
    assert whole.shape[0] == 4 + fit_intercept
    np.testing.assert_array_equal(whole[:4, :3], model.coef_.T)
    if fit_intercept:
        np.testing.assert_allclose(whole[4, :3] * 4, model.intercept_)
    else:
        assert not model.intercept_.any() and model.intercept_.shape == (3,)
    model.coef_ = model.coef_ * 2
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_.T + model.intercept_)


def test_sparse_weights_that_are_replaced():
    model = LinearSVM(memory_mb=1e-5).fit(X, Y)
    assert sp.issparse(model.coef_)
    model.coef_ = model.coef_ * 2
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_.toarray().T + model.intercept_, rtol=1e-9)
    assert model._sparse_W() is model._sparse_W()
    labels, scores = model.top_classes(X, 2)
    np.testing.assert_array_equal(labels[:, 0], model.predict(X))
    assert (scores[:, 0] >= scores[:, 1]).all()
    with pytest.raises(ValueError, match="probability=True needs the scores of all rows and all 3 classes at once"):
        LinearSVM(memory_mb=1e-5, probability=True).fit(X, Y)
    with pytest.raises(ValueError, match="partial_fit keeps the weights in an array"):
        LinearSVM(memory_mb=1e-5).partial_fit(X, Y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="partial_fit keeps the weights in an array"):
        model.set_params(memory_mb=None).partial_fit(X, Y)


@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_rest"])
def test_no_memory_left_says_how_much_there_would_be(monkeypatch, formulation):
    def full(request):
        raise MemoryError

    monkeypatch.setattr(linear_machine, "train", full)
    with pytest.raises(MemoryError) as left:
        LinearSVM(formulation).fit(np.ones((1000, 499)), np.arange(1000) % 2000 // 500 + np.arange(1000) % 2)
    assert "has 0.012 MB of weights, several times, and up to 0.024 MB of duals" in str(left.value)
    assert ("formulation='crammer_singer' keeps few duals" in str(left.value)) == (formulation != "crammer_singer")


@pytest.mark.parametrize("sparse", [False, True])
def test_kernel_machines_say_how_much_memory_they_wanted(monkeypatch, sparse):
    def full(request):
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr(kernel_svm, "train", full)
    rows = np.ones((1000, 500))
    with pytest.raises(MemoryError) as left:
        KernelSVM(cache_mb=7).fit(sp.csr_array(rows) if sparse else rows, np.arange(1000) % 2)
    assert "no memory left in training on 1000 rows of 500 features, beside cache_mb=7" in str(left.value)
    assert ("and 0.004 MB for the columns of a sparse X;" in str(left.value)) == sparse


def test_rows_that_overflow_are_named():
    rows = X.copy()
    rows[7] = 1e200
    with pytest.raises(ValueError, match="the squared norm of row 7 overflows: scale the features down"):
        LinearSVM().fit(rows, Y)


@pytest.mark.parametrize(
    ("classes", "found"),
    [(["b", "a", "b"], ["a", "b"]), (np.array([2, 0]), [0, 2]), ([True, False], [False, True])],
)
def test_classes_that_are_announced(classes, found):
    assert _announced(classes).tolist() == found


@pytest.mark.parametrize("classes", [[[0, 1]], [0.0, np.nan], [None, "a"], 3])
def test_classes_that_are_none(classes):
    with pytest.raises(ValueError, match="classes must be a list of labels, none of them None or NaN"):
        _announced(classes)


def test_partial_fit_refuses_what_it_was_not_told():
    model = LinearSVM()
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"y has labels that are not among classes: array\(\[2\]\)"):
        model.partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(ValueError, match=r"y has labels that are not among classes: array\(\[0\]\)"):
        model.partial_fit(X, Y, classes=[1, 2, 3])
    with pytest.raises(ValueError, match="LinearSVM needs at least 2 classes; got only one class, 0"):
        model.partial_fit(X[:50], Y[:50], classes=[0])
    with pytest.raises(ValueError, match="class_weight='balanced' cannot be known in partial_fit"):
        LinearSVM(class_weight="balanced").partial_fit(X, Y, classes=[0, 1, 2])
    model.fit(X, Y)
    assert model.partial_fit(X, Y, classes=[2, 1, 0]).n_iter_ == 1
    assert not hasattr(model, "dual_gap_") and not hasattr(model, "history_") and not hasattr(model, "converged_")
    with pytest.raises(ValueError, match="is not the same as on the last call"):
        model.partial_fit(X, Y, classes=[0, 1, 2, 3])


def test_the_model_of_an_epoch():
    model = LinearSVM(intercept_scaling=2.0)
    model.classes_ = np.arange(3)
    weights = SimpleNamespace(is_sparse=False, array=np.arange(32.0, dtype=np.float32).reshape(4, 8))
    machine = SimpleNamespace(problem=SimpleNamespace(lanes=3), algorithm=SimpleNamespace(weights=weights))
    found = model._current(machine, None)
    np.testing.assert_array_equal(found["coef_"], weights.array[:3, :3].T)
    np.testing.assert_array_equal(found["intercept_"], 2 * weights.array[3, :3])
    found = model.set_params(fit_intercept=False)._current(machine, None)
    assert found["coef_"].shape == (3, 4) and found["intercept_"].tolist() == [0, 0, 0]
    machine.problem.lanes = 2
    assert model._current(machine, None) is None


# Why it did not converge


@pytest.mark.parametrize(
    ("stopped_by", "words"),
    [
        (
            "max_iter",
            "LinearSVM stopped after max_iter=7 epochs; raise max_iter, scale the features, lower C=2 or raise",
        ),
        ("time_limit", "LinearSVM stopped after time_limit=3 s; raise time_limit, scale"),
        ("callback", "LinearSVM stopped because a callback said so: "),
        ("precision", "LinearSVM stopped because float64 cannot do better; scale the features"),
        ("disk", "LinearSVM stopped because the duals of a block could not be written"),
    ],
)
def test_why_it_did_not_converge(stopped_by, words):
    model = LinearSVM(C=2.0, max_iter=7, time_limit=3, tol=0.01)
    model.dual_gap_ = model.worst_gap_ = 0.5
    outcome = SimpleNamespace(converged=False, stopped_by=stopped_by, remark="")
    said = model._why_not_converged(outcome)
    assert said.startswith(words) and said.endswith(
        ": the relative duality gap is 0.5 of the objective, the target 0.01"
    )
    model.worst_gap_, outcome.remark = 0.75, "so be it"
    assert model._why_not_converged(outcome).endswith(
        ": the relative duality gap is 0.5 of the objective, that of the worst machine 0.75, the target 0.01; so be it"
    )
    model.stopping = "violation"
    said = model._why_not_converged(outcome)
    above = "the relative duality gap is 0.5 of the objective and the violation is still above 0.01"
    assert (above in said) is (stopped_by != "precision")  # where it may be below, but is not known
    assert model._why_not_converged(SimpleNamespace(converged=True, remark="")) == ""
    proves = model._why_not_converged(SimpleNamespace(converged=True, remark="indefinite"))
    assert proves == "LinearSVM converged, but its gap proves nothing: indefinite"


# The search for C


def test_grids_of_C():
    assert LinearSVMCV(Cs=1)._grid().tolist() == [LinearSVMCV()._grid()[0]]
    np.testing.assert_allclose(LinearSVMCV(Cs=3)._grid(), [1e-3, 1.0, 1e3])
    assert len(LinearSVMCV()._grid()) == 10
    np.testing.assert_allclose(LinearSVMCV(Cs=[3, 1, 3.0])._grid(), [1.0, 3.0])
    assert LinearSVMCV(Cs=[SMALLEST_C])._grid().tolist() == [SMALLEST_C]
    for wrong, words in (
        (0, "Cs must be finite and at least 1"),
        ([], "Cs must be an integer or an array of numbers"),
        ([1.0, SMALLEST_C / 2], "each of Cs must be finite and at least"),
        ([1.0, "2"], "each of Cs must be a number"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            LinearSVMCV(Cs=wrong)._grid()


def chosen(scores, gaps=0.0, converged=True, **options):
    model = LinearSVMCV(**options)
    scores = np.array(scores)
    told = np.stack([scores, np.broadcast_to(gaps, scores.shape), np.full(scores.shape, 7.0)], axis=1)
    model._choose(np.array([1.0, 2.0, 4.0]), told, np.broadcast_to(converged, scores.shape))
    return model


def test_the_best_C():
    model = chosen([[0.5, 0.9, 0.9], [0.7, 0.9, 0.9]])
    assert model.C == model.C_ == 2.0 and model.best_score_ == pytest.approx(0.9)  # of equals the smallest
    assert model.epochs_.dtype == np.int64 and model.epochs_.tolist() == [[7] * 3] * 2
    with pytest.warns(UserWarning, match=r"scores of C = \[2\.0\] are NaN"):
        assert chosen([[0.5, np.nan, 0.4]]).C_ == 1.0
    for number in (np.inf, -np.inf, np.nan):
        with pytest.warns(UserWarning, match=r"scores of C = \[2\.0\] are NaN or infinite"):
            assert chosen([[0.5, number, 0.4], [0.5, np.inf, 0.6]]).C_ == 1.0
        with pytest.raises(ValueError, match="gives NaN or infinity for every C"):
            chosen([[number] * 3])
    with pytest.warns(ConvergenceWarning, match=r"2 of the 3 fits of LinearSVMCV did not reach tol=0\.1 .*is 0\.3\)"):
        chosen([[0.5] * 3], np.array([[0.1, 0.2, 0.3]]), tol=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen([[0.5] * 3], np.array([[0.1, 0.2, 0.3]]), tol=0.1, stopping="violation")
    for options in ({"stopping": "violation"}, {}):
        with pytest.warns(ConvergenceWarning, match="1 of the 3 fits of LinearSVMCV did not reach tol=0.1"):
            chosen([[0.5] * 3], 0.05, [True, False, True], tol=0.1, **options)


def test_who_takes_weights():
    assert _accepts_weights(lambda model, X, y, sample_weight=None: 0)
    assert not _accepts_weights(lambda model, X, y: 0)


def test_searches_that_cannot_be():
    for options, words in (
        ({"scoring": 3}, "scoring must be one score, by name or as a callable, got 3"),
        ({"scoring": "neg_log_loss"}, "needs probabilities, which machines of folds do not have"),
        ({"cv": []}, r"cv=\[\] has no folds"),
    ):
        with pytest.raises(ValueError, match=words):
            LinearSVMCV(Cs=[1.0], **options).fit(X, Y)
    halves = [(np.arange(0, 150, 2), np.arange(1, 150, 2)), (np.arange(1, 150, 2), np.arange(0, 150, 2))]
    with pytest.raises(ValueError, match="sample_weight is zero for all rows that fold 1 trains on"):
        LinearSVMCV(Cs=[1.0], cv=halves).fit(X, Y, sample_weight=np.arange(150) % 2 == 0)
    with pytest.raises(AttributeError, match="LinearSVMCV has no partial_fit"):
        LinearSVMCV().partial_fit(X, Y)


# Kernels


def test_kernel_values_must_be_symmetric():
    K = np.eye(600)
    K[599, 0] = K[0, 599] = 3.0
    K[599, 2] = 2.9e-4  # of a largest value of 3
    _check_square(K)
    _check_square(-K)
    K[599, 2] = 3.1e-4
    with pytest.raises(ValueError, match=r"X\[2, 599\] = 0, but X\[599, 2\] = 0\.00031"):
        _check_square(K)
    with pytest.raises(ValueError, match="got 2 x 3"):
        _check_square(np.ones((2, 3)))


def test_what_a_kernel_machine_has():
    model = KernelSVM(kernel="linear").fit(X, Y)
    np.testing.assert_allclose(model.coef_, model.dual_coef_.toarray().T @ X)
    assert model.gamma_ is None and model.shape_fit_ == (150, 4)
    np.testing.assert_array_equal(model.n_support_, np.bincount(Y[model.support_], minlength=3))
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    for other in (KernelSVM(kernel="linear"), KernelSVM().fit(X, Y)):
        with pytest.raises(AttributeError, match="coef_ is there after a fit with kernel='linear' only"):
            _ = other.coef_
    with pytest.raises(AttributeError, match="KernelSVM has no partial_fit"):
        _ = model.partial_fit
    gram = KernelSVM(kernel="precomputed")
    assert gram.__sklearn_tags__().input_tags.pairwise and not gram.__sklearn_tags__().input_tags.sparse
    assert not model.__sklearn_tags__().input_tags.pairwise and model.__sklearn_tags__().input_tags.sparse
    gram.fit(X @ X.T, Y)
    assert gram.support_vectors_.shape == (0, 0) and gram.gamma_ is None
    with pytest.raises(ValueError, match="features, but") as refused:
        gram.predict(np.ones((2, 3)))
    assert refused.value.__notes__ == ["kernel='precomputed' needs a column of kernel values for every row of training"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"intercept_scaling": 3.0}, {"bias": 9.0, "free_bias": False}),
        ({"fit_intercept": False}, {"bias": 0.0, "free_bias": False}),
        ({"formulation": "one_vs_rest"}, {"bias": 0.0, "free_bias": True}),
        ({"formulation": "dag", "fit_intercept": False}, {"bias": 0.0, "free_bias": False}),
        ({"cache_mb": 1.5, "working_set": np.int64(4)}, {"cache_bytes": 3 << 19, "working_set": 4}),
    ],
)
def test_what_is_asked_of_a_kernel_machine(options, expected):
    model = KernelSVM(**options)
    model.classes_ = np.arange(3)
    request = model._request(X, Y, np.ones(150), np.ones(150))
    assert {name: getattr(request, name) for name in expected} == expected
    assert request.kernel.gamma == pytest.approx(1 / (4 * X.var()))
