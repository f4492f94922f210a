"""Ctrl-C: KeyboardInterrupt goes on to the user, and the model is what training had reached."""

import json
import signal
import subprocess
import sys
from itertools import combinations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from multimargin import KernelSVM, LinearSVM
from multimargin.estimators.plain_linear import PlainLinearSVM
from multimargin.kernel import training as kernel_training
from multimargin.linear import training as linear_training

FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
SOLVERS = ("sdm", "accelerated_sdm", "newton")


def hinge_objective(model, X, y):
    """At C = 1, from the definitions."""
    penalty = 0.5 * (np.sum(model.coef_**2) + np.sum(model.intercept_**2))
    scores, k, row = X @ model.coef_.T + model.intercept_, len(model.classes_), np.arange(len(y))
    if model.formulation in ("one_vs_one", "dag"):
        machines = enumerate(combinations(range(k), 2))
        signs = [((m, (y == i) | (y == j)), np.where(y == i, 1, -1)) for m, (i, j) in machines]
        return penalty + sum(np.maximum(1 - sign * scores[:, m], 0)[here].sum() for (m, here), sign in signs)
    if model.formulation == "one_vs_rest":
        sign = np.where(y[:, None] == np.arange(k), 1, -1)
        return penalty + np.maximum(1 - sign * scores, 0).sum()
    slack = 1 + scores - scores[row, y][:, None]
    slack[row, y] = 0
    joined = slack.max(axis=1) if model.formulation == "crammer_singer" else np.maximum(slack, 0).sum(axis=1)
    return penalty + joined.sum()


def assert_stopped_honestly(model, X, y):
    assert model.converged_ is False
    assert model.coef_.shape[1] == X.shape[1]
    assert np.isfinite(model.coef_).all()
    assert set(model.predict(X)) <= set(model.classes_)
    assert model.dual_coef_.shape == (len(y), len(model.coef_))
    assert len(model.history_) >= 1
    assert model.n_iter_ >= 1
    # A certificate is about these weights and all machines, or there is none.
    if not np.isnan(model.dual_gap_):
        assert model.primal_objective_ == pytest.approx(hinge_objective(model, X, y), rel=1e-9)
        assert model.dual_gap_ > 0


# Interrupts at a known place: raised where a callback runs


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


class InterruptAt:
    def __init__(self, call):
        self.calls, self.call = 0, call

    def __call__(self, record):
        self.calls += 1
        if self.calls == self.call:
            raise KeyboardInterrupt


def interrupted(X, y, call, *args, **options):
    model = LinearSVM(*args, callbacks=[InterruptAt(call)], **options)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    return model


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("call", [1, 4])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_interrupted_model_is_usable(iris, formulation, solver, call, n_jobs):
    X, y = iris
    model = interrupted(X, y, call, formulation, tol=1e-12, solver=solver, n_jobs=n_jobs)
    assert_stopped_honestly(model, X, y)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("call", [1, 4])
@pytest.mark.parametrize("solver", ["pegasos", "exponentiated_gradient"])
@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_rest", "one_vs_one"])
def test_interrupted_rival_is_usable(iris, formulation, solver, call, n_jobs):
    X, y = iris
    model = interrupted(X, y, call, formulation, tol=1e-12, solver=solver, n_jobs=n_jobs)
    assert_stopped_honestly(model, X, y)


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_history_ends_with_the_interrupt(iris, formulation):
    told = []
    model = LinearSVM(formulation, tol=1e-12, solver="sdm", callbacks=[told.append, InterruptAt(4)])
    with pytest.raises(KeyboardInterrupt):
        model.fit(*iris)
    assert [record["epoch"] for record in told] == list(model.history_["epoch"])
    assert len(told) == 4


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_interrupted_training_goes_on_with_warm_start(iris, formulation):
    X, y = iris
    model = interrupted(X, y, 3, formulation, warm_start=True, solver="sdm")
    model.set_params(callbacks=None).fit(X, y)
    cold = LinearSVM(formulation, solver="sdm").fit(X, y)
    assert model.converged_
    assert model.dual_objective_ <= cold.primal_objective_
    assert cold.dual_objective_ <= model.primal_objective_


def test_a_later_fit_is_not_the_worse_for_it(iris):
    X, y = iris
    model = interrupted(X, y, 2)
    np.testing.assert_array_equal(model.set_params(callbacks=None).fit(X, y).coef_, LinearSVM().fit(X, y).coef_)


# A real signal where training has ended


@pytest.fixture
def ctrl_c_in(monkeypatch):
    """Has Ctrl-C come when a method begins."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def arm(owner, name):
        method = getattr(owner, name)

        def interrupted(*args):
            signal.raise_signal(signal.SIGINT)
            return method(*args)

        monkeypatch.setattr(owner, name, interrupted)

    yield arm
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_one"])
@pytest.mark.parametrize(
    ("make", "owner", "name"),
    [
        (LinearSVM, linear_training._Results, "trained"),
        (LinearSVM, linear_training._Results, "collect"),
        (LinearSVM, LinearSVM, "_store"),
        (LinearSVM, LinearSVM, "_store_model"),
        (PlainLinearSVM, linear_training._Results, "trained"),
        (PlainLinearSVM, PlainLinearSVM, "_store"),
        (KernelSVM, kernel_training._Training, "_trained"),
        (KernelSVM, KernelSVM, "_store"),
        (KernelSVM, KernelSVM, "_store_model"),
    ],
)
def test_ctrl_c_after_the_last_pass_loses_nothing(iris, ctrl_c_in, make, owner, name, formulation):
    X, y = iris
    whole = make(formulation).fit(X, y)
    ctrl_c_in(owner, name)
    model = make(formulation)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    if name == "collect" and formulation == "one_vs_one":  # the first of three machines
        assert not model.converged_ and 0 < model.dual_objective_ < whole.dual_objective_
        return
    assert model.dual_gap_ == whole.dual_gap_
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    if name != "collect":
        assert model.converged_


def test_ctrl_c_while_weights_are_given_away(iris, ctrl_c_in):
    """Sparse ones are, to save memory: a machine that is collected twice has none left."""
    X, y = iris
    sparse = {"memory_mb": 1e-9, "solver": "sdm"}
    whole = LinearSVM(**sparse).fit(X, y)
    ctrl_c_in(linear_training._Results, "collect")
    model = LinearSVM(**sparse)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    np.testing.assert_array_equal(model.coef_.toarray(), whole.coef_.toarray())


def test_ctrl_c_before_the_training_leaves_the_model_as_it_was(iris, ctrl_c_in):
    model = LinearSVM().fit(*iris)
    coef = model.coef_
    ctrl_c_in(LinearSVM, "_caps")
    with pytest.raises(KeyboardInterrupt):
        model.set_params(C=5.0).fit(*iris)
    assert model.coef_ is coef


# Real signals, in a process of their own

PROGRAM = """
import json, os, signal, sys, threading
import numpy as np
from multimargin import LinearSVM
from multimargin.linear import training

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started us with Ctrl-C ignored
formulation, solver, n_jobs, n_samples, n_features, n_classes, trigger = json.loads(sys.argv[1])
rng = np.random.default_rng(0)
y = np.arange(n_samples) % n_classes
X = rng.normal(size=(n_classes, n_features))[y] + 2 * rng.normal(size=(n_samples, n_features))
interrupt = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))

def arm(record):
    if not interrupt.is_alive() and not interrupt.finished.is_set():
        interrupt.start()

def arm_and_solve(*args):
    interrupt.start()
    solve(*args)

model = LinearSVM(formulation, tol=1e-15, max_iter=10**9, solver=solver, n_jobs=n_jobs)
if trigger == "first epoch":
    model.set_params(callbacks=[arm])
else:
    solve, training.solve = training.solve, arm_and_solve
try:
    model.fit(X, y)
    print(json.dumps("trained to the end"))
except KeyboardInterrupt:
    scores = model.decision_function(X[:100])
    print(json.dumps({
        "converged": model.converged_,
        "coef": list(model.coef_.shape),
        "finite": bool(np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()),
        "epochs": len(model.history_),
        "gap": model.dual_gap_,
        "primal": model.primal_objective_,
        "duals": list(model.dual_coef_.shape),
        "predicted": [list(scores.shape), len(model.predict(X[:100]))],
        "alive_threads": sum(t.name.startswith("ThreadPool") for t in threading.enumerate()),
    }))
"""


def interrupted_by_signal(formulation, solver, n_jobs, shape, trigger):
    request = json.dumps([formulation, solver, n_jobs, *shape, trigger])
    done = subprocess.run([sys.executable, "-c", PROGRAM, request], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


JOINT, FEW_FEATURES, MANY_PAIRS = (30_000, 100, 8), (150_000, 8, 5), (20_000, 60, 25)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    ("formulation", "solver", "shape"),
    [
        ("crammer_singer", "sdm", JOINT),
        ("crammer_singer", "accelerated_sdm", JOINT),
        ("weston_watkins", "accelerated_sdm", JOINT),
        ("one_vs_rest", "sdm", JOINT),
        ("crammer_singer", "newton", FEW_FEATURES),
        ("crammer_singer", "cutting_plane", JOINT),
        ("one_vs_rest", "cutting_plane", JOINT),
        ("one_vs_one", "cutting_plane", MANY_PAIRS),
        ("crammer_singer", "pegasos", JOINT),
        ("one_vs_rest", "exponentiated_gradient", JOINT),
        ("one_vs_one", "sdm", MANY_PAIRS),
        ("one_vs_one", "accelerated_sdm", MANY_PAIRS),
    ],
)
def test_ctrl_c(formulation, solver, n_jobs, shape):
    report = interrupted_by_signal(formulation, solver, n_jobs, shape, "first epoch")
    n_samples, n_features, k = shape
    rows = k * (k - 1) // 2 if formulation == "one_vs_one" else k
    assert report["converged"] is False
    assert report["coef"] == [rows, n_features]
    assert report["duals"] == [n_samples, rows]
    assert report["finite"]
    assert report["epochs"] >= 1
    assert report["gap"] != 0
    assert report["predicted"] == [[100, k], 100]
    assert report["alive_threads"] == 0


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_before_the_first_pass_has_ended(n_jobs):
    """Passes of this one take longer than the interrupt takes to come."""
    shape = (12_000, 1000, 60)
    report = interrupted_by_signal("crammer_singer", "sdm", n_jobs, shape, "start of training")
    assert report["converged"] is False
    assert report["coef"] == [60, 1000]
    assert report["finite"]
    assert report["predicted"] == [[100, 60], 100]
