"""How a model is judged: measures, rivals, and whether the rows are those of training."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import accuracy_score, balanced_accuracy_score, precision_recall_fscore_support
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from multimargin import KernelSVM, LinearSVM
from multimargin.report.judgement import judge

X, y = load_digits(return_X_y=True)
X, y = X[:500] / 16, y[:500]
FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")


def test_measures_are_those_of_scikit_learn():
    model = LinearSVM(C=0.01).fit(X[:300], y[:300])
    judged = judge(model, X[300:], y[300:])
    said = model.predict(X[300:])
    precision, recall, f1, support = precision_recall_fscore_support(y[300:], said, labels=np.arange(10))
    np.testing.assert_allclose(judged.precision, precision)
    np.testing.assert_allclose(judged.recall, recall)
    np.testing.assert_allclose(judged.f1, f1)
    np.testing.assert_array_equal(judged.support, support)
    assert judged.accuracy == accuracy_score(y[300:], said)
    assert judged.balanced_accuracy == pytest.approx(balanced_accuracy_score(y[300:], said))


@pytest.mark.parametrize("kind", [LinearSVM, KernelSVM])
@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_rivals_are_the_best_other_classes(kind, formulation, n_classes, monkeypatch):
    monkeypatch.setattr("multimargin.report.judgement._VALUES_AT_ONCE", 70)  # several slabs
    rows = y < n_classes
    model = kind(formulation).fit(X[rows], y[rows])
    judged = judge(model, X[rows], y[rows])
    rival, ahead = judged.rivals
    values = model.decision_function(X[rows])
    values = np.column_stack([-values / 2, values / 2]) if n_classes == 2 else values
    for value, label, other, by in zip(values, y[rows], rival, ahead, strict=True):
        others = np.delete(value, label)
        assert other != label
        assert value[other] == others.max()
        assert by == pytest.approx(others.max() - value[label])


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("data", [X, sp.csr_array(X)], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    "model", [LinearSVM(), LinearSVM(loss="squared_hinge"), KernelSVM()], ids=lambda m: str(m)[:30]
)
def test_rows_of_training_are_recognised(model, formulation, data):
    model.set_params(formulation=formulation)
    model.fit(data, y)
    assert judge(model, data, y).on_training_rows
    order = np.random.default_rng(0).permutation(len(y))
    assert judge(model, data[order], y[order]).on_training_rows is False
    assert judge(model, data[:-1], y[:-1]).on_training_rows is False


@pytest.mark.parametrize("model", [LinearSVM(), KernelSVM()], ids=["linear", "kernel"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_other_rows_with_the_same_labels_are_not_rows_of_training(model, n_classes):
    iris, label = load_iris(return_X_y=True)  # sorted by label: every other row has the same labels as the rest
    iris, label = iris[label < n_classes], label[label < n_classes]
    model.fit(iris[::2], label[::2])
    assert judge(model, iris[::2], label[::2]).on_training_rows
    assert not judge(model, iris[1::2], label[1::2]).on_training_rows


def test_a_precomputed_kernel():
    K = X @ X.T
    model = KernelSVM(kernel="precomputed").fit(K, y)
    assert judge(model, K, y).on_training_rows
    assert not judge(model, K[:100], y[:100]).on_training_rows


def test_after_partial_fit_no_row_is_known():
    model = LinearSVM().partial_fit(X, y, classes=np.arange(10))
    assert judge(model, X, y).on_training_rows is False


def test_labels_that_the_model_does_not_know():
    few = y < 8
    model = LinearSVM().fit(X[few], y[few])
    judged = judge(model, X, y)
    assert judged.n_classes == 10
    assert judged.accuracy == np.mean(model.predict(X) == y)
    assert judged.recall[9] == 0
    assert np.isnan(judged.precision[9])
    assert np.all(np.isneginf(judged.rivals[1][~few]))


def test_frames_keep_their_names_without_a_warning():
    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"pixel {j}" for j in range(64)])
    model = LinearSVM().fit(frame, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        judged = judge(model, frame, y)
        assert judged.on_training_rows
        assert len(judged.rivals[0]) == len(y)


@pytest.mark.parametrize("steps", [(), (StandardScaler(),), (StandardScaler(), MinMaxScaler())])
def test_pipelines_are_judged_on_what_their_machine_sees(steps):
    model = make_pipeline(*steps, LinearSVM(C=0.01)).fit(X[:300], y[:300])
    judged = judge(model, X[300:], y[300:])
    assert judged.accuracy == model.score(X[300:], y[300:])
    np.testing.assert_array_equal(judged.classes[judged.said], model.predict(X[300:]))
