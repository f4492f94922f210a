"""A fit is one step for whoever looks at the model: callbacks, other threads, and fits within fits."""

import threading

import numpy as np
import pytest
from sklearn.datasets import load_iris

from multimargin import KernelSVM, LinearSVM, LinearSVMCV
from multimargin.models import load, save

X, y = load_iris(return_X_y=True)
NAMES = np.array(["c", "b", "a"])[y]  # in another order than y
MODELS = [
    LinearSVM(tol=1e-6),
    LinearSVM("one_vs_rest", "squared_hinge", tol=1e-6),
    LinearSVM(tol=1e-4, probability=True),
    KernelSVM(tol=1e-6),
    KernelSVM("one_vs_one", tol=1e-4, probability=True),
    LinearSVMCV(Cs=[0.1, 1.0], cv=2),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{type(model).__name__}-{model.formulation}")


def once(what):
    """A callback that does something in the first round only."""
    rounds = []

    def callback(record):
        if not rounds:
            rounds.append(record)
            what()

    callback.rounds = rounds
    return callback


def copied(model, **parameters):
    return type(model)(**model.get_params() | parameters)


@every_model
def test_during_a_fit_the_last_model_is_there(model, tmp_path):
    seen = []

    def look():
        seen.append((again.predict(X) == y).mean())
        save(again, tmp_path / "during.mm")
        seen.append((load(tmp_path / "during.mm").predict(X) == y).mean())

    again = copied(model).fit(X, y)
    score = again.score(X, y)
    again.set_params(callbacks=[once(look)]).fit(X, NAMES)
    assert seen == [score, score] and score > 0.9
    assert again.score(X, NAMES) > 0.9 and set(again.classes_) == {"a", "b", "c"}


@every_model
def test_a_first_fit_has_nothing_to_show(model):
    seen = []
    model = copied(model, callbacks=[once(lambda: seen.extend(name for name in vars(model) if name[-1] == "_"))])
    model.fit(X, y)
    assert model.callbacks[0].rounds and seen == []


@every_model
def test_a_fit_within_a_fit_is_another_one(model):
    plain = copied(model).fit(X, y)
    model = copied(model)
    within = once(lambda: seen.append(model.fit(X[:100], y[:100]).predict(X[:100])))
    seen = []
    model.set_params(callbacks=[within]).fit(X, y)
    assert (seen[0] == y[:100]).mean() > 0.9
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    np.testing.assert_array_equal(model.decision_function(X), plain.decision_function(X))
    assert set(vars(model)) == set(vars(plain))


@pytest.mark.parametrize(
    ("model", "changed"),
    [
        (LinearSVM(), {"intercept_scaling": 100.0}),
        (LinearSVM(), {"fit_intercept": False}),
        (LinearSVM(), {"C": 1e-3, "tol": 0.5}),
        (KernelSVM(), {"gamma": 1e-3, "C": 1e3}),
        (LinearSVM(probability=True), {"probability": False}),
    ],
)
def test_parameters_that_change_during_a_fit_are_of_the_next_one(model, changed):
    plain = copied(model).fit(X, y)
    during = copied(model)
    during.set_params(callbacks=[once(lambda: during.set_params(**changed))]).fit(X, y)
    np.testing.assert_array_equal(during.decision_function(X), plain.decision_function(X))
    assert during.dual_gap_ == plain.dual_gap_ and during.get_params().items() >= changed.items()
    assert hasattr(during, "calibration_") == hasattr(plain, "calibration_")


@pytest.mark.parametrize(("machine", "before"), [(LinearSVM, "one_vs_rest"), (KernelSVM, "crammer_singer")])
def test_another_formulation_during_a_fit_is_not_taken_for_that_of_the_fit(machine, before):
    model = machine(before)
    model.set_params(callbacks=[once(lambda: model.set_params(formulation="one_vs_one"))]).fit(X, y)
    with pytest.raises(ValueError, match=f"changed from '{before}' to 'one_vs_one' after the fit"):
        model.predict(X)
    assert model.set_params(formulation=before).score(X, y) > 0.9


@every_model
def test_of_two_fits_at_once_the_later_one_is_kept_whole(model):
    model = copied(model)
    begun, over = threading.Event(), threading.Event()

    def wait():
        begun.set()
        assert over.wait(60)

    callback = once(wait)
    slow = threading.Thread(target=model.fit, args=(X, y))
    model.set_params(callbacks=[callback])
    slow.start()
    assert begun.wait(60)
    model.fit(X, NAMES)  # from the beginning to the end while the other one waits
    assert model.score(X, NAMES) > 0.9
    over.set()
    slow.join(60)
    assert not slow.is_alive()
    assert model.score(X, y) > 0.9 and set(model.classes_) == {0, 1, 2}


def test_a_row_of_a_stream_is_learnt_at_once():
    model = LinearSVM().partial_fit(X, y, classes=[0, 1, 2])
    before = model._as_it_is()
    coef = model.coef_.copy()
    model.partial_fit(X, y)
    np.testing.assert_array_equal(before.coef_, coef)
    assert (model.coef_ != coef).any()


def test_what_a_callback_does_to_the_model_stays():
    model = LinearSVM()
    model.note, model._count, model.seen_, model.passing = 0, 0, [], "before"

    def callback(record):
        model.note += 1
        model._count += 1
        model.seen_ = [*model.seen_, record["epoch"]]
        model.__dict__.pop("passing", None)
        model.new = "new"

    for fits in (1, 2):
        model.set_params(callbacks=[callback]).fit(X, y)
        assert model.note == model._count == len(model.seen_) == fits * len(model.history_) > 0
        assert not hasattr(model, "passing") and model.new == "new"
    assert model.score(X, y) > 0.9


def test_a_subclass_may_keep_what_callbacks_tell_it():
    class Counting(LinearSVM):
        def fit(self, X, y, sample_weight=None):
            self.n_calls = 0
            self.callbacks = [self._note]
            return super().fit(X, y, sample_weight)

        def _note(self, record):
            self.n_calls += 1

    model = Counting()
    assert model.fit(X, y).n_calls == len(model.history_) > 0
    assert model.fit(X, y).n_calls == len(model.history_)


def test_what_only_the_last_fit_had_goes():
    model = KernelSVM(probability=True).fit(X, y)
    model.set_params(probability=False).fit(X[:, :3], y)
    assert not hasattr(model, "calibration_") and model.n_features_in_ == 3


def test_fits_bear_attributes_that_come_and_go():
    model, stop = LinearSVM(tol=0.5), threading.Event()

    def change():
        while not stop.is_set():
            for number in range(50):
                setattr(model, f"note{number}", number)
            for number in range(50):
                delattr(model, f"note{number}")

    changing = threading.Thread(target=change, daemon=True)
    changing.start()
    try:
        for _ in range(200):
            model.fit(X[::10], y[::10])
    finally:
        stop.set()
        changing.join(60)
