"""Who is told about a fit of KernelSVM while it runs: plain callables, scikit-learn's callbacks, the progress line."""

import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel

from multimargin import KernelSVM

FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
SOLVERS = ("block", "decomposition")
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS)
every_solver = pytest.mark.parametrize("solver", SOLVERS)


@pytest.fixture
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:500] / 16, y[:500]


# Plain callables


@every_solver
@every_formulation
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_callables_get_the_records_of_the_history(iris, formulation, solver, n_jobs):
    records = []
    model = KernelSVM(formulation, solver=solver, n_jobs=n_jobs, callbacks=[records.append]).fit(*iris)
    assert len(records) == len(model.history_) > 0
    for told, kept in zip(records, model.history_, strict=True):
        assert tuple(told) == model.history_.dtype.names
        for name, value in told.items():
            np.testing.assert_equal(value, kept[name].item())
    assert set(model.history_["solver"]) == {solver}


@every_solver
@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins"])
def test_true_stops_and_the_model_is_certified(digits, formulation, solver):
    X, y = digits
    small = {"working_set": 8} if solver == "block" else {}

    def stop_after_three(record):
        return record["epoch"] >= 3

    with pytest.warns(ConvergenceWarning, match="KernelSVM stopped because a callback said so") as caught:
        model = KernelSVM(
            formulation, "linear", 100.0, solver=solver, tol=1e-12, callbacks=[stop_after_three], **small
        ).fit(X, y)
    assert caught[0].filename == __file__
    assert not model.converged_
    assert 0 < model.dual_gap_ < np.inf
    assert model.primal_objective_ * (1 - model.dual_gap_) == pytest.approx(model.dual_objective_, rel=1e-9)
    assert model.predict(X).shape == y.shape


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_stopping_pairs_leaves_a_model_of_the_right_shape(n_jobs):
    rng = np.random.default_rng(0)
    y = np.arange(4800) % 4
    X = rng.normal(size=(4, 5))[y] + rng.normal(size=(4800, 5))
    with pytest.warns(ConvergenceWarning, match="callback said so"):
        model = KernelSVM("one_vs_one", tol=1e-12, n_jobs=n_jobs, callbacks=[lambda record: True]).fit(X, y)
    assert model.dual_coef_.shape == (4800, 6)
    assert set(model.history_["machine"]) <= set(range(n_jobs))  # no pair is begun after that
    assert not model.converged_
    assert not model.dual_gap_ < 0.1  # it is about all pairs, or there is none
    assert set(model.predict(X)) <= set(range(4))


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_one"])
def test_errors_of_a_callback_are_the_users(iris, formulation, n_jobs):
    def fail(record):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        KernelSVM(formulation, callbacks=[fail], n_jobs=n_jobs).fit(*iris)


def test_callbacks_are_no_part_of_the_result(iris):
    records = []
    watched = KernelSVM(callbacks=[records.append]).fit(*iris)
    np.testing.assert_array_equal(watched.dual_coef_.toarray(), KernelSVM().fit(*iris).dual_coef_.toarray())


# scikit-learn's callbacks


class Recorder:
    """Follows scikit-learn's FitCallback protocol and keeps what it is told."""

    def __init__(self):
        self.events, self.models = [], []

    def setup(self, estimator, context):
        self.events.append(("setup", context.task_name))

    def teardown(self, estimator, context):
        self.events.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.events.append(("end", context.task_name))
        if fitted_estimator is not None:
            self.models.append(fitted_estimator)
        return False


@every_formulation
def test_hooks_are_called_in_order(iris, formulation):
    recorder = Recorder()
    model = KernelSVM(formulation).set_callbacks(recorder).fit(*iris)
    events = recorder.events
    assert events[:2] == [("setup", "fit"), ("begin", "fit")]
    assert events[-2:] == [("end", "fit"), ("teardown", "fit")]
    assert events[2:-2] == [("begin", "epoch"), ("end", "epoch")] * len(model.history_)


@every_solver
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("intercept", [{"fit_intercept": False}, {}, {"intercept_scaling": 5.0}], ids=str)
@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins"])
def test_the_model_of_a_round_predicts(iris, formulation, intercept, k, solver):
    X, y = iris
    X, y = X[y < k], y[y < k]
    recorder = Recorder()
    weight = np.where(np.arange(len(y)) % 5 == 0, 0.0, 1.0)  # rows without weight are no examples
    model = KernelSVM(formulation, solver=solver, **intercept).set_callbacks(recorder).fit(X, y, weight)
    assert recorder.models
    last = recorder.models[-1]
    assert last is not model
    np.testing.assert_allclose(last.decision_function(X), model.decision_function(X), atol=1e-9)
    np.testing.assert_array_equal(last.n_support_, model.n_support_)
    assert last.gamma_ == model.gamma_


@pytest.mark.parametrize("formulation", ["one_vs_rest", "one_vs_one", "dag"])
def test_two_classes_with_a_free_bias_have_models_of_a_round(iris, formulation):
    X, y = iris[0][50:], iris[1][50:]
    recorder = Recorder()
    model = KernelSVM(formulation).set_callbacks(recorder).fit(X, y)
    np.testing.assert_allclose(recorder.models[-1].decision_function(X), model.decision_function(X), atol=1e-9)


@pytest.mark.parametrize("kernel", ["precomputed", "csr"])
def test_models_of_a_round_have_any_kernel(iris, kernel):
    X, y = iris
    X = rbf_kernel(X, gamma=0.1) if kernel == "precomputed" else sp.csr_array(X)
    recorder = Recorder()
    model = KernelSVM(kernel="precomputed" if kernel == "precomputed" else "rbf").set_callbacks(recorder).fit(X, y)
    np.testing.assert_allclose(recorder.models[-1].decision_function(X), model.decision_function(X), atol=1e-9)


def test_several_machines_have_no_model_before_their_end(iris):
    recorder = Recorder()
    KernelSVM("one_vs_one").set_callbacks(recorder).fit(*iris)
    assert not recorder.models


def test_scoring_monitor_scores_every_round(iris):
    monitor = ScoringMonitor(scoring="accuracy")
    model = KernelSVM(callbacks=[monitor]).fit(*iris)
    scores = [record["accuracy"] for record in monitor.get_logs().data if record["task_name"] == "epoch"]
    assert len(scores) == len(model.history_)
    assert scores[-1] > 0.9


def test_progress_bar_runs(iris, capsys):
    KernelSVM().set_callbacks(ProgressBar()).fit(*iris)
    assert "KernelSVM" in capsys.readouterr().out


# The progress lines, in a process of their own, where stderr is a pipe

FIT = """
from sklearn.datasets import load_iris
from multimargin import KernelSVM
X, y = load_iris(return_X_y=True)
print("fitted", KernelSVM({formulation!r}, verbose=1).fit(X, y).converged_)
"""


@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_one"])
def test_progress_is_plain_lines_on_stderr(formulation):
    program = FIT.format(formulation=formulation)
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "fitted True\n"
    lines = done.stderr.splitlines()
    assert lines
    for line in lines:
        assert re.fullmatch(r"(machine +\d+ +)?epoch +\d+ +gap [=~] +\S+ +active rows +\d+ +[\d.]+ s", line), line
    assert float(re.search(r"gap = +(\S+)", lines[-1]).group(1)) <= 1e-3


def test_silence_is_the_default(capfd, iris):
    KernelSVM().fit(*iris)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
