"""A loaded machine is the one that was saved, to the last bit."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import StratifiedKFold

from multimargin import KernelSVM, LinearSVM, LinearSVMCV
from multimargin.models import load, save
from multimargin.models.values import decode, encode
from tests.models.examples import FORMULATIONS, KERNELS, LABELS, STORAGES, WORDS, X, Y, assert_same_state, same


def round_trip(model, path, **options):
    save(model, path, **options)
    return load(path)


def check(model, path, rows):
    loaded = round_trip(model, path)
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    assert_same_state(loaded, model)
    assert same(loaded.decision_function(rows), model.decision_function(rows))
    assert same(loaded.predict(rows), model.predict(rows))
    return loaded


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_linear(tmp_path, formulation, loss, storage):
    rows = STORAGES[storage](X)
    check(LinearSVM(formulation, loss).fit(rows, Y), tmp_path / "model", rows)
    check(LinearSVM(formulation, loss, fit_intercept=False).fit(rows, Y > 4), tmp_path / "model", rows)


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_kernel(tmp_path, formulation, kernel, storage):
    rows = STORAGES[storage](X)
    if kernel == "precomputed":
        if sp.issparse(rows):
            rows = rows.toarray()
        rows = rows @ rows.T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # sigmoid is not positive semidefinite
        many = KernelSVM(formulation, kernel, gamma=0.01, coef0=0.5, max_iter=20).fit(rows, Y)
        two = KernelSVM(formulation, kernel, max_iter=20).fit(rows, Y > 4)
    for model in (many, two):
        loaded = check(model, tmp_path / "model", rows)
        if kernel == "linear":
            assert same(loaded.coef_, model.coef_)


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("kind", [LinearSVM, KernelSVM])
def test_labels(tmp_path, kind, labels):
    check(kind().fit(X, LABELS[labels](Y)), tmp_path / "model", X)


def test_labels_of_bytes(tmp_path):
    # fit refuses them, as scikit-learn does; partial_fit learns them
    labels = WORDS[Y].astype("U6").astype(object)
    labels = np.array([word.encode() for word in labels])
    model = LinearSVM().partial_fit(X, labels, classes=np.unique(labels))
    loaded = round_trip(model, tmp_path / "model")
    assert_same_state(loaded, model)
    assert same(loaded.predict(X), model.predict(X))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=6).map(lambda text: text.rstrip("\0")), min_size=2, max_size=8, unique=True))
def test_labels_of_any_text(tmp_path_factory, names):
    path = tmp_path_factory.getbasetemp() / "texts"
    names = np.array(names)
    labels = names[np.arange(24) % len(names)]
    for given_labels in (labels, labels.astype(object)):
        model = LinearSVM(max_iter=1000).partial_fit(X[:24], given_labels, classes=np.unique(given_labels))
        loaded = round_trip(model, path)
        assert same(loaded.classes_, model.classes_)
        assert same(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["2024-01-01", "2024-01-02"], dtype="M8[D]"),
        np.array([1 + 2j, 3j]),
        np.array([b"a", 2], dtype=object),
    ],
)
def test_other_labels_are_refused_by_name(tmp_path, labels):
    model = LinearSVM().fit(X, Y > 4)
    model.classes_ = labels
    with pytest.raises(TypeError, match=r"classes of LinearSVM cannot be stored.*(datetime64|complex128|bytes, int)"):
        save(model, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_cross_validated(tmp_path):
    model = LinearSVMCV(Cs=[0.01, 1.0], cv=3, formulation="one_vs_rest").fit(X, Y)
    check(model, tmp_path / "model", X)
    given_array = LinearSVMCV(Cs=np.array([0.1, 1.0]), cv=3).fit(X, Y)
    loaded = round_trip(given_array, tmp_path / "model")
    assert same(loaded.Cs, given_array.Cs)


def test_names_of_features(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X[:, :5], columns=["ä", "b c", "", "d", "'"])
    for kind in (LinearSVM, KernelSVM):
        check(kind().fit(frame, Y), tmp_path / "model", frame)


def test_certificate_history_and_duals(tmp_path):
    for model in (LinearSVM().fit(X, Y), KernelSVM().fit(X, Y)):
        loaded = round_trip(model, tmp_path / "model")
        assert loaded.history_.dtype == model.history_.dtype
        assert same(loaded.label_doubt(), model.label_doubt())
        assert isinstance(loaded.converged_, bool)
        assert loaded.dual_gap_ == model.dual_gap_


def test_without_duals(tmp_path):
    model = LinearSVM().fit(X, Y)
    save(model, tmp_path / "whole")
    loaded = round_trip(model, tmp_path / "small", duals=False)
    assert (tmp_path / "small").stat().st_size < (tmp_path / "whole").stat().st_size / 2
    assert same(loaded.decision_function(X), model.decision_function(X))
    for name in ("dual_coef_", "support_", "history_"):
        assert not hasattr(loaded, name)
    assert loaded.dual_gap_ == model.dual_gap_
    with pytest.raises(NotFittedError, match="label_doubt needs"):
        loaded.label_doubt()
    loaded.set_params(warm_start=True).fit(X, Y)
    assert loaded.converged_
    kernel = KernelSVM().fit(X, Y)  # which needs its duals to predict
    loaded = round_trip(kernel, tmp_path / "small", duals=False)
    assert not hasattr(loaded, "history_")
    assert same(loaded.decision_function(X), kernel.decision_function(X))


@pytest.mark.parametrize("kind", [LinearSVM, KernelSVM])
def test_warm_start_goes_on(tmp_path, kind):
    model = kind(C=0.1, warm_start=True).fit(X, Y)
    loaded = round_trip(model, tmp_path / "model")
    model.set_params(C=0.2).fit(X, Y)
    loaded.set_params(C=0.2).fit(X, Y)
    assert loaded.n_iter_ == model.n_iter_
    assert same(loaded.decision_function(X), model.decision_function(X))


def test_partial_fit_goes_on(tmp_path):
    model = LinearSVM(intercept_scaling=3.0).partial_fit(X[:60], Y[:60], classes=np.arange(10))
    loaded = check(model, tmp_path / "model", X)
    model.partial_fit(X[60:], Y[60:])
    loaded.partial_fit(X[60:], Y[60:])
    assert_same_state(loaded, model)


def test_calibration(tmp_path):
    for model in (LinearSVM().fit(X, Y), KernelSVM().fit(X, Y)):
        model.calibration_ = np.array([1.5, 0.25, 0.0])
        assert_same_state(round_trip(model, tmp_path / "model"), model)
        model.calibration_ = np.array([np.nan])
        with pytest.raises(ValueError, match="calibration_ has values that are not finite"):
            save(model, tmp_path / "model")
        for wrong in ([1.0, 0.5], [1.0, -0.5, 0.0]):
            model.calibration_ = np.array(wrong)
            with pytest.raises(ValueError, match="calibration_ must be 3 numbers of at least 0"):
                save(model, tmp_path / "model")


def test_replaced_weights(tmp_path):
    model = LinearSVM().fit(X, Y)
    model.coef_ = np.asfortranarray(model.coef_ * 2).astype(np.float32)
    loaded = round_trip(model, tmp_path / "model")
    assert same(loaded.decision_function(X), model.decision_function(X))
    model.coef_ = model.coef_[:, :-1]
    with pytest.raises(ValueError, match="do not belong to formulation='crammer_singer'"):
        save(model, tmp_path / "model")
    model.coef_ = np.full((10, 64), np.inf)
    with pytest.raises(ValueError, match="coef_ has values that are not finite"):
        save(model, tmp_path / "model")


# What is refused, and what is left out


@pytest.mark.parametrize("model", [LinearSVM(), LinearSVMCV(), KernelSVM()])
def test_not_fitted(tmp_path, model):
    with pytest.raises(NotFittedError, match="is not fitted: there is nothing to save before fit"):
        save(model, tmp_path / "model")


def test_callable_kernels_are_refused_by_name(tmp_path):
    def my_kernel(A, B):
        return A @ B.T

    with pytest.raises(TypeError, match=r"callable .*my_kernel, which cannot be stored.*precomputed"):
        save(KernelSVM(kernel=my_kernel).fit(X, Y), tmp_path / "model")
    model = KernelSVM().fit(X, Y).set_params(kernel=my_kernel)
    with pytest.raises(TypeError, match="my_kernel"):
        save(model, tmp_path / "model")


class Mine(LinearSVM):
    """Somebody else's."""


@pytest.mark.parametrize("model", [Mine(), 3, "model", StratifiedKFold()])
def test_other_models_are_refused_by_name(tmp_path, model):
    with pytest.raises(TypeError, match=r"(Mine|int|str|StratifiedKFold).*LinearSVM, LinearSVMCV, KernelSVM and pipe"):
        save(model, tmp_path / "model")


def test_callbacks_are_left_out(tmp_path):
    loaded = round_trip(LinearSVM(callbacks=[lambda record: False]).fit(X, Y), tmp_path / "model")
    assert loaded.callbacks is None


def test_objects_that_only_matter_to_training_are_left_out_with_a_warning(tmp_path):
    model = LinearSVM(random_state=np.random.RandomState(0)).fit(X, Y)
    with pytest.warns(UserWarning, match="random_state of LinearSVM cannot be stored.*left out.*random_state=None"):
        save(model, tmp_path / "model")
    assert load(tmp_path / "model").random_state is None
    model = LinearSVMCV(Cs=[1.0], cv=StratifiedKFold(3), scoring=lambda model, X, y: 1.0).fit(X, Y)
    with pytest.warns(UserWarning) as told:
        save(model, tmp_path / "model")
    assert [str(warning.message).split(" of ")[0] for warning in told] == ["the parameter cv", "the parameter scoring"]
    assert load(tmp_path / "model").cv == 5


def test_parameters_of_every_type(tmp_path):
    model = LinearSVM(
        C=np.float32(0.1),
        max_iter=np.int64(500),
        class_weight={0: 2.0, np.int64(1): 0.5},
        solver_options={"permutation": False},
        time_limit=60,
        verbose=False,
    ).fit(X, Y)
    loaded = round_trip(model, tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    loaded.fit(X, Y)
    assert same(loaded.coef_, model.coef_)


def test_wrong_parameters_set_after_fit_are_refused(tmp_path):
    with pytest.raises(ValueError, match="C must be"):
        save(LinearSVM().fit(X, Y).set_params(C=-1.0), tmp_path / "model")
    with pytest.raises(ValueError, match="formulation was changed from 'crammer_singer' to 'one_vs_one'"):
        save(KernelSVM().fit(X, Y).set_params(formulation="one_vs_one"), tmp_path / "model")


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()


def nested(inner):
    """Containers of values."""
    lists = st.lists(inner, max_size=3)
    return lists | lists.map(tuple) | st.dictionaries(st.text() | st.integers(), inner, max_size=3)


FLAT = nested(SCALARS)


@settings(deadline=None)
@given(SCALARS | FLAT | nested(SCALARS | FLAT))
def test_values_survive_json(value):
    assert decode(encode(value, "it")) == value


@pytest.mark.parametrize(
    "told", [{}, {"tuple": 3, "more": 1}, {"object": []}, {"tuple": 3}, {"slice": []}, {"dict": [1]}]
)
def test_what_is_not_written_so_is_not_read(told):
    with pytest.raises(ValueError, match=r"no value is written as|cannot be made of"):
        decode(told)


# The file


def test_the_library_reads_the_arrays(tmp_path):
    model = LinearSVM().fit(X, WORDS[Y])
    save(model, tmp_path / "model.safetensors")
    arrays = load_file(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(arrays["weights"].T, model.coef_)
    np.testing.assert_array_equal(arrays["intercept"], model.intercept_)
    assert bytes(arrays["classes.text"]).decode() == "".join(model.classes_)


def test_the_same_model_is_the_same_file(tmp_path):
    model = KernelSVM().fit(sp.csr_array(X), WORDS[Y])
    save(model, tmp_path / "one")
    save(load(tmp_path / "one"), tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_loaded_arrays_can_be_changed_and_do_not_touch_the_file(tmp_path):
    save(LinearSVM().fit(X, Y), tmp_path / "model")
    before = (tmp_path / "model").read_bytes()
    loaded = load(tmp_path / "model")
    loaded.coef_[:] = 0
    loaded.intercept_ += 1
    loaded.classes_[0] = -7
    assert (tmp_path / "model").read_bytes() == before


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(FORMULATIONS),
    st.integers(2, 7),
    st.integers(1, 9),
    st.booleans(),
    st.floats(1e-3, 1e3),
    st.randoms(use_true_random=False),
)
def test_any_shape(tmp_path_factory, formulation, n_classes, n_features, fit_intercept, scaling, random):
    path = tmp_path_factory.getbasetemp() / "shapes"
    rng = np.random.default_rng(random.randrange(2**32))
    rows = rng.standard_normal((3 * n_classes, n_features))
    model = LinearSVM(formulation, fit_intercept=fit_intercept, intercept_scaling=scaling, max_iter=10**6, tol=0.5)
    check(model.fit(rows, np.arange(3 * n_classes) % n_classes), path, rows)
