"""Sparse weights in training: the same optimum, certificate and predictions as with weights in an array."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from multimargin import LinearSVM, LinearSVMCV, load, save
from multimargin.commands.main import main
from multimargin.data.rows import as_rows
from multimargin.estimators import linear_machine
from multimargin.estimators.plain_linear import PlainLinearSVM
from multimargin.linear import many_classes
from multimargin.models.errors import ModelFormatError
from multimargin.models.liblinear import write_liblinear
from multimargin.models.light import load_light
from multimargin.report import write_report

SPARSE = 1e-4  # memory_mb that no array of weights fits into


def rows(n_classes, per_class=4, n_features=None, nonzeros=8, seed=0):
    """Sparse rows whose classes are told apart by some of their features, and not all of them."""
    rng = np.random.default_rng(seed)
    n_features = n_features or 2 * n_classes
    y = rng.permutation(np.repeat(np.arange(n_classes), per_class))
    typical = rng.integers(n_features, size=(n_classes, nonzeros))
    columns = np.where(rng.random((len(y), nonzeros)) < 0.5, typical[y], rng.integers(n_features, size=(1, nonzeros)))
    X = sp.csr_array(
        (rng.uniform(0.5, 1.5, columns.size), (np.repeat(np.arange(len(y)), nonzeros), columns.ravel())),
        shape=(len(y), n_features),
    )
    return X, y


@pytest.fixture(scope="module")
def data():
    return rows(40)


@pytest.fixture(scope="module")
def model(data):
    return LinearSVM(memory_mb=SPARSE, tol=1e-3).fit(*data)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("n_classes", [3, 40])
def test_same_optimum_as_with_an_array(n_classes, loss, fit_intercept):
    X, y = rows(n_classes, per_class=12 if n_classes == 3 else 3, n_features=60)
    options = dict(loss=loss, fit_intercept=fit_intercept, intercept_scaling=2.0, tol=1e-6, C=0.5, max_iter=20000)
    sparse = LinearSVM(memory_mb=SPARSE, **options).fit(X, y)
    dense = LinearSVM(solver="sdm", **options).fit(X, y)
    assert sp.issparse(sparse.coef_)
    assert sparse.coef_.shape == dense.coef_.shape
    assert sparse.converged_
    assert sparse.dual_objective_ <= dense.primal_objective_
    assert dense.dual_objective_ <= sparse.primal_objective_
    apart = np.sqrt(2 * (dense.primal_objective_ - dense.dual_objective_)) + np.sqrt(
        2 * (sparse.primal_objective_ - sparse.dual_objective_)
    )
    assert np.linalg.norm(sparse.coef_.toarray() - dense.coef_) <= apart
    # The certificate is that of the weights and duals that are handed out.
    C, W, b = 0.5, sparse.coef_.toarray(), sparse.intercept_
    S = X @ W.T + b
    own = S[np.arange(len(y)), y]
    S[np.arange(len(y)), y] -= 1
    slack = (S + 1).max(axis=1) - own
    norm = (W**2).sum() + ((b / 2.0) ** 2).sum()
    primal = 0.5 * norm + C * (slack if loss == "hinge" else slack**2).sum()
    assert primal == pytest.approx(sparse.primal_objective_, rel=1e-9)
    V = (sparse.dual_coef_.T @ X).toarray()
    np.testing.assert_allclose(V, W, atol=1e-12)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_same_visits_as_with_an_array(loss, fit_intercept):
    """From so many classes on that an array is moved class by class, too, steps are the same, and so is the result:
    in the first passes, when features know few classes, and later, when they know more than it pays to note."""
    X, y = rows(300, per_class=2)
    X.data = np.round(X.data * 8) / 8  # sums of scores are exact, whatever their order
    options = dict(loss=loss, fit_intercept=fit_intercept, tol=1e-6, max_iter=40)
    with pytest.warns(ConvergenceWarning):
        sparse = LinearSVM(memory_mb=SPARSE, **options | {"tol": 1e-9, "max_iter": 6}).fit(X, y)
    with pytest.warns(ConvergenceWarning):
        dense = LinearSVM(solver="sdm", **options | {"tol": 1e-9, "max_iter": 6}).fit(X, y)
    np.testing.assert_allclose(sparse.dual_coef_.toarray(), dense.dual_coef_.toarray(), atol=1e-9)
    assert sparse.history_["violation"] == pytest.approx(dense.history_["violation"], abs=1e-9)


@pytest.mark.parametrize("storage", ["csr64", "csr of float32", "dense", "Fortran"])
def test_storages_of_rows(data, model, storage):
    X, y = data
    other = {
        "csr64": lambda: sp.csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape),
        "csr of float32": lambda: X.astype(np.float32),
        "dense": X.toarray,
        "Fortran": lambda: np.asfortranarray(X.toarray()),
    }[storage]()
    fitted = LinearSVM(memory_mb=SPARSE, tol=1e-3).fit(other, y)
    assert abs(fitted.primal_objective_ - model.primal_objective_) <= 2e-3 * model.primal_objective_
    np.testing.assert_allclose(model.decision_function(other), model.decision_function(X), atol=1e-6)


def test_predictions(data, model):
    X, y = data
    S = model.decision_function(X)
    np.testing.assert_allclose(S, X @ model.coef_.T.toarray() + model.intercept_, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[S.argmax(axis=1)])
    assert 0.5 < model.score(X, y) <= 1
    labels, scores = model.top_classes(X, 7)
    order = (-S).argsort(axis=1, kind="stable")[:, :7]
    np.testing.assert_array_equal(labels, model.classes_[order])
    np.testing.assert_array_equal(scores, np.take_along_axis(S, order, axis=1))


def test_top_classes_of_any_machine(data):
    X, y = data
    for formulation in ("weston_watkins", "one_vs_one"):
        few = y < 5
        dense = LinearSVM(formulation, tol=0.01).fit(X[few], y[few])
        S = dense.decision_function(X)
        labels, scores = dense.top_classes(X, 3)
        order = (-S).argsort(axis=1, kind="stable")[:, :3]
        np.testing.assert_array_equal(labels, dense.classes_[order])
        np.testing.assert_array_equal(scores, np.take_along_axis(S, order, axis=1))
    binary = LinearSVM().fit(X[y < 2], y[y < 2])
    labels, scores = binary.top_classes(X, 2)
    np.testing.assert_array_equal(labels[:, 0], binary.predict(X))
    np.testing.assert_array_equal(scores[:, 0], np.abs(binary.decision_function(X)))


def test_top_classes_are_five_unless_there_are_fewer(data, model):
    X, y = data
    for given, wanted in zip(model.top_classes(X), model.top_classes(X, 5), strict=True):
        np.testing.assert_array_equal(given, wanted)
    for classes in (2, 3, 5, 6):
        few = LinearSVM(tol=0.1).fit(X[y < classes], y[y < classes])
        labels, scores = few.top_classes(X)
        assert labels.shape == scores.shape == (len(y), min(classes, 5))
        with pytest.raises(ValueError, match=f"at most {classes}, got {classes + 1}"):
            few.top_classes(X, classes + 1)


@pytest.mark.parametrize("n", [0, 41, 2.5, "all"])
def test_top_of_a_number_that_cannot_be(data, model, n):
    with pytest.raises((ValueError, TypeError), match="n must be"):
        model.top_classes(data[0], n)


# What a model goes through


def test_warm_start_begins_at_the_end(data, model):
    X, y = data
    warm = LinearSVM(memory_mb=SPARSE, tol=1e-3, warm_start=True).fit(X, y)
    first = warm.n_iter_
    warm.fit(X, y)
    assert warm.n_iter_ < first
    warm.set_params(C=2.0).fit(X, y)
    assert warm.dual_gap_ <= 1e-3


def test_weights_that_somebody_replaced(data, model):
    X, _ = data
    changed = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(changed.decision_function(X), model.decision_function(X))
    changed.coef_ = sp.csr_array(model.coef_ * 2.0)
    changed.intercept_ = model.intercept_ * 2
    np.testing.assert_allclose(changed.decision_function(X), 2 * model.decision_function(X), atol=1e-12)


def test_files(data, model, tmp_path):
    X, _ = data
    save(model, tmp_path / "model")
    loaded, light = load(tmp_path / "model"), load_light(tmp_path / "model")
    assert sp.issparse(loaded.coef_)
    for other in (loaded, light):
        np.testing.assert_array_equal(other.decision_function(X), model.decision_function(X))
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
    assert loaded.dual_gap_ == model.dual_gap_
    for name in ("formulation", "rows"):
        _check_damage(model, tmp_path / "model", name)


def _check_damage(model, path, what):
    other = pickle.loads(pickle.dumps(model))
    if what == "formulation":
        other.formulation = "weston_watkins"
    else:
        other.coef_ = sp.vstack([other.coef_, other.coef_])
    with pytest.raises((ValueError, ModelFormatError)):
        save(other, path)
        load(path)


def test_a_checkpoint_goes_on_to_the_same_result(data, tmp_path):
    X, y = data
    options = dict(memory_mb=SPARSE, tol=1e-4)
    whole = LinearSVM(**options).fit(X, y)
    file = tmp_path / "state"
    seen = []
    stopped = LinearSVM(**options, checkpoint=file, callbacks=[lambda record: len(seen) >= 3 or seen.append(record)])
    with pytest.warns(ConvergenceWarning, match="callback"):
        stopped.fit(X, y)
    assert file.exists()
    resumed = LinearSVM(**options, checkpoint=file).fit(X, y)
    assert not file.exists()
    np.testing.assert_array_equal(resumed.coef_.toarray(), whole.coef_.toarray())
    assert resumed.dual_objective_ == whole.dual_objective_


def test_limits_and_callbacks(data):
    X, y = data
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        short = LinearSVM(memory_mb=SPARSE, tol=1e-9, max_iter=1).fit(X, y)
    assert 0 < short.dual_gap_ < 1
    assert np.isfinite(short.coef_.data).all()


def test_interrupted_before_anything_was_certified(data):
    X, y = data

    def interrupt(record):
        raise KeyboardInterrupt

    model = LinearSVM(memory_mb=SPARSE, callbacks=[interrupt])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert sp.issparse(model.coef_)
    model.predict(X)


def test_without_scikit_learn(data, model):
    X, y = data
    plain = PlainLinearSVM(memory_mb=SPARSE, tol=1e-3).fit(X, y)
    np.testing.assert_array_equal(plain.predict(X), model.predict(X))


def test_the_program_predicts_the_best_classes(data, model, tmp_path, capsys):
    from multimargin import write_svmlight

    X, y = data
    save(model, tmp_path / "model")
    write_svmlight(tmp_path / "rows.txt", X, y)
    assert main(["predict", str(tmp_path / "rows.txt"), str(tmp_path / "model"), "-", "--top", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    labels, scores = model.top_classes(X, 3)
    assert len(lines) == len(y)
    for line, label, score in zip(lines, labels, scores, strict=True):
        told = line.split("\t")
        assert [int(told[0]), int(told[2]), int(told[4])] == label.tolist()
        assert [float(told[1]), float(told[3]), float(told[5])] == pytest.approx(score, rel=1e-5)


# When weights are sparse


def test_the_rule(monkeypatch):
    monkeypatch.setattr(many_classes, "memory_of_machine", lambda: 100 << 30)
    rule = many_classes.weights_are_sparse
    assert not rule(100_001, 3_000, "crammer_singer", "auto", True, None)  # 3.4 GiB
    assert rule(100_001, 50_000, "crammer_singer", "auto", True, None)
    assert rule(100_001, 50_000, "crammer_singer", "sdm", True, None)
    assert not rule(100_001, 50_000, "weston_watkins", "auto", True, None)
    assert not rule(100_001, 50_000, "crammer_singer", "auto", True, 100_000)
    assert rule(101, 50, "crammer_singer", "auto", True, 0.05)
    assert not rule(101, 50, "crammer_singer", "auto", True, 0.06)


def test_weights_that_the_machine_has_no_memory_for(monkeypatch):
    rule = many_classes.weights_are_sparse
    monkeypatch.setattr(many_classes, "memory_of_machine", lambda: 1 << 33)
    assert not rule(2**33 // 24, 2, "crammer_singer", "auto", True, None)
    with pytest.raises(MemoryError, match=r"weights take 8.19e\+03 MB, .* number only the features"):
        rule(2**33 // 24 + 1, 2, "crammer_singer", "auto", True, None)
    assert not rule(2**33 // 24 + 1, 2, "crammer_singer", "auto", True, 10_000)  # who says what may be used has a say
    monkeypatch.setattr(many_classes, "memory_of_machine", lambda: None)
    assert not rule(10**12, 2, "crammer_singer", "auto", True, None)  # nobody knows


@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag"])
def test_an_absurd_number_of_features_is_refused_before_it_is_tried(formulation):
    X = sp.csr_array((np.ones(4), ([0, 1, 2, 3], [0, 1, 0, 10**13])), shape=(4, 10**13 + 1))
    with pytest.raises(MemoryError, match=r"^10000000000002 x .* features that occur, or hash them to fewer$"):
        LinearSVM(formulation).fit(X, [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("options", "todo"),
    [
        ({"formulation": "weston_watkins"}, "formulation='crammer_singer' keeps"),
        ({"formulation": "one_vs_rest"}, "formulation='crammer_singer' keeps"),
        ({"solver": "accelerated_sdm"}, "solver='auto' and solver='sdm' keep them sparse"),
        ({"solver": "newton"}, "solver='auto' and solver='sdm' keep them sparse"),
        ({"solver": "sdm", "solver_options": {"restricted_step": False}}, "restricted_step=True keeps them sparse"),
        ({"probability": True}, "set probability=False"),
    ],
)
def test_what_is_not_trained_with_sparse_weights(data, options, todo):
    with pytest.raises(ValueError, match=todo):
        LinearSVM(memory_mb=SPARSE, **options).fit(*data)


def test_two_classes_have_no_sparse_weights(data):
    X, y = data
    with pytest.raises(ValueError, match="two classes"):
        LinearSVM(memory_mb=SPARSE).fit(X[y < 2], y[y < 2])


def test_what_is_not_done_with_such_a_model(data, model, tmp_path):
    X, y = data
    for other in (pickle.loads(pickle.dumps(model)), LinearSVM(memory_mb=SPARSE)):
        with pytest.raises(ValueError, match="partial_fit keeps the weights in an array"):
            other.partial_fit(X, y, classes=np.arange(40))
    with pytest.raises(ValueError, match="LIBLINEAR's file has a number for each"):
        write_liblinear(model, tmp_path / "text")
    with pytest.raises(ValueError, match="this LinearSVM has sparse weights"):
        write_report(model, X, y, tmp_path / "report.html")


def test_cross_validation_chooses_by_the_same_rule(data, monkeypatch):
    monkeypatch.setattr(many_classes, "DENSE_BYTES", 100)
    chosen = LinearSVMCV(Cs=[0.1, 1.0], cv=2, tol=0.05).fit(*data)
    assert sp.issparse(chosen.coef_)
    assert as_rows(data[0]).n_rows == chosen.dual_coef_.shape[0]


@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins"])
def test_memory_that_ends_in_training_is_told(monkeypatch, formulation):
    def out_of_memory(request):
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr(linear_machine, "train", out_of_memory)
    with pytest.raises(MemoryError, match=r"no memory left in training: .* up to 0.0002 MB of duals") as error:
        LinearSVM(formulation).fit(np.eye(5), np.arange(5))
    assert ("crammer_singer' keeps few duals" in str(error.value)) == (formulation == "weston_watkins")
