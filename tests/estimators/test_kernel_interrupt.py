"""Ctrl-C in KernelSVM: KeyboardInterrupt goes on to the user, and the model is what training had reached."""

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from multimargin import KernelSVM

FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
SOLVERS = ("block", "decomposition")
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS)

# Slow on purpose: small working sets, and a target that is out of reach.
SLOW = {"tol": 1e-12, "kernel": "linear", "C": 100.0}


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def slow(formulation, solver):
    small = {"working_set": 4} if solver == "block" else {}
    return KernelSVM(formulation, solver=solver, **SLOW, **small)


class InterruptAt:
    def __init__(self, call):
        self.calls, self.call = 0, call

    def __call__(self, record):
        self.calls += 1
        if self.calls == self.call:
            raise KeyboardInterrupt


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("solver", SOLVERS)
@every_formulation
def test_interrupted_model_is_usable(iris, formulation, solver, call, n_jobs):
    X, y = iris
    model = slow(formulation, solver).set_params(callbacks=[InterruptAt(call)], n_jobs=n_jobs)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert model.converged_ is False
    assert model.dual_coef_.shape == (len(y), 3)
    assert np.isfinite(model.decision_function(X)).all()
    assert set(model.predict(X)) <= set(model.classes_)
    assert len(model.history_) >= call
    assert model.n_iter_ >= 0
    # A certificate is about these duals and all machines, or there is none.
    if not np.isnan(model.dual_gap_):
        assert model.dual_gap_ > 0
        penalty = 0.5 * np.sum(model.dual_coef_.toarray() * (X @ X.T @ model.dual_coef_.toarray()))
        assert 0 <= penalty <= model.primal_objective_ * (1 + 1e-9)


@every_formulation
def test_history_ends_with_the_interrupt(iris, formulation):
    told = []
    model = slow(formulation, "block").set_params(callbacks=[told.append, InterruptAt(2)])
    with pytest.raises(KeyboardInterrupt):
        model.fit(*iris)
    assert [record["epoch"] for record in told] == list(model.history_["epoch"])
    assert len(told) == 2


@every_formulation
def test_interrupted_training_goes_on_with_warm_start(iris, formulation):
    X, y = iris
    model = KernelSVM(formulation, warm_start=True, working_set=4, callbacks=[InterruptAt(2)])
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    model.set_params(callbacks=None).fit(X, y)
    cold = KernelSVM(formulation).fit(X, y)
    assert model.converged_
    assert model.dual_objective_ <= cold.primal_objective_ * (1 + 1e-4)
    assert cold.dual_objective_ <= model.primal_objective_ * (1 + 1e-4)


# Real signals, in a process of their own

PROGRAM = """
import json, os, signal, sys, threading
import numpy as np
from multimargin import KernelSVM
from multimargin.kernel import training

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started us with Ctrl-C ignored
formulation, solver, kernel, n_jobs, n_samples, n_features, n_classes, trigger = json.loads(sys.argv[1])
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

def called(X, Y):
    return X @ Y.T

kernel = called if kernel == "callable" else kernel
model = KernelSVM(formulation, kernel, 1000.0, tol=1e-15, max_iter=10**9, solver=solver, n_jobs=n_jobs)
if trigger == "first round":
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
        "finite": bool(np.isfinite(scores).all() and np.isfinite(model.intercept_).all()),
        "rounds": len(model.history_),
        "gap": model.dual_gap_,
        "duals": list(model.dual_coef_.shape),
        "predicted": [list(scores.shape), len(model.predict(X[:100]))],
        "alive_threads": sum(t.name.startswith("ThreadPool") for t in threading.enumerate()),
    }))
"""


def interrupted_by_signal(formulation, solver, kernel, n_jobs, shape, trigger):
    request = json.dumps([formulation, solver, kernel, n_jobs, *shape, trigger])
    done = subprocess.run([sys.executable, "-c", PROGRAM, request], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    n_samples, _, k = shape
    machines = k * (k - 1) // 2 if formulation in ("one_vs_one", "dag") else k
    assert report["converged"] is False
    assert report["duals"] == [n_samples, machines]
    assert report["finite"]
    assert report["predicted"] == [[100, k], 100]
    assert report["alive_threads"] == 0
    return report


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(
    ("formulation", "solver", "kernel"),
    [
        ("crammer_singer", "block", "linear"),
        ("crammer_singer", "block", "callable"),
        ("crammer_singer", "decomposition", "linear"),
        ("weston_watkins", "block", "linear"),
        ("weston_watkins", "decomposition", "linear"),
        ("one_vs_rest", "block", "linear"),
        ("one_vs_one", "block", "linear"),
        ("one_vs_one", "decomposition", "linear"),
    ],
)
def test_ctrl_c(formulation, solver, kernel, n_jobs):
    # Pairs are told of when they are finished, which these never are.
    trigger = "start of training" if formulation == "one_vs_one" else "first round"
    report = interrupted_by_signal(formulation, solver, kernel, n_jobs, (3000, 30, 8), trigger)
    assert report["rounds"] >= (trigger == "first round")
    assert report["gap"] != 0


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_rest"])
def test_ctrl_c_before_the_first_round_has_ended(formulation, n_jobs):
    """The first kernel rows of this one take longer than the interrupt takes to come."""
    interrupted_by_signal(formulation, "block", "rbf", n_jobs, (12_000, 2000, 3), "start of training")
