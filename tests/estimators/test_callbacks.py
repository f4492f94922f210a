"""Who is told about a fit while it runs: plain callables, scikit-learn's callbacks, the progress lines on stderr."""

import os
import pty
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from multimargin import LinearSVM

FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS)
every_solver = pytest.mark.parametrize("solver", ["sdm", "accelerated_sdm", "newton"])


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
    model = LinearSVM(formulation, solver=solver, n_jobs=n_jobs, callbacks=[records.append]).fit(*iris)
    assert len(records) == len(model.history_)
    for told, kept in zip(records, model.history_, strict=True):
        assert tuple(told) == model.history_.dtype.names
        for name, value in told.items():
            np.testing.assert_equal(value, kept[name].item())


def test_every_callable_is_called(iris):
    one, two = [], []
    model = LinearSVM(callbacks=[one.append, two.append]).fit(*iris)
    assert len(one) == len(two) == len(model.history_) > 0


@every_solver
@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins", "one_vs_rest"])
def test_true_stops_and_the_model_is_certified(digits, formulation, solver):
    X, y = digits[0][:, 20:30], digits[1]

    def stop_after_three(record):
        return record["epoch"] == 3

    with pytest.warns(ConvergenceWarning, match="callback said so") as caught:
        model = LinearSVM(formulation, solver=solver, tol=1e-12, callbacks=[stop_after_three]).fit(X, y)
    assert caught[0].filename == __file__
    assert not model.converged_
    assert model.n_iter_ < 100  # a call into the core may hold many passes; all of them are told
    assert 0 < model.dual_gap_ < np.inf
    assert model.primal_objective_ * (1 - model.dual_gap_) == pytest.approx(model.dual_objective_, rel=1e-9)
    assert model.predict(X).shape == y.shape


@pytest.mark.parametrize("answer", [None, False, 0])
def test_other_answers_go_on(iris, answer):
    assert LinearSVM(callbacks=[lambda record: answer]).fit(*iris).converged_


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_stopping_pairs_leaves_a_model_of_the_right_shape(digits, n_jobs):
    X, y = digits
    with pytest.warns(ConvergenceWarning, match="callback said so"):
        model = LinearSVM("one_vs_one", tol=1e-12, n_jobs=n_jobs, callbacks=[lambda record: True]).fit(X, y)
    assert model.coef_.shape == (45, 64)
    assert set(model.history_["machine"]) == set(range(n_jobs))  # no pair is begun after that
    assert not model.converged_
    assert not model.dual_gap_ < 0.1  # it is about all pairs, or there is none
    assert set(model.predict(X)) <= set(range(10))


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_one"])
def test_errors_of_a_callback_are_the_users(iris, formulation, n_jobs):
    def fail(record):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        LinearSVM(formulation, callbacks=[fail], n_jobs=n_jobs).fit(*iris)


def test_callbacks_are_no_part_of_the_result(iris):
    records = []
    watched = LinearSVM(callbacks=[records.append]).fit(*iris)
    np.testing.assert_array_equal(watched.coef_, LinearSVM().fit(*iris).coef_)


# scikit-learn's callbacks


class Recorder:
    """Follows scikit-learn's FitCallback protocol and keeps what it is told."""

    def __init__(self, stop_after=np.inf):
        self.events, self.models, self.told = [], [], []
        self.stop_after = stop_after

    def setup(self, estimator, context):
        self.events.append(("setup", context.task_name))

    def teardown(self, estimator, context):
        self.events.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.events.append(("end", context.task_name))
        self.told.append((X, y, metadata))
        if fitted_estimator is not None:
            self.models.append(fitted_estimator)
        return context.task_name == "epoch" and context.task_id + 1 >= self.stop_after


def by_set_callbacks(model, *callbacks):
    return model.set_callbacks(*callbacks)


def by_parameter(model, *callbacks):
    return model.set_params(callbacks=list(callbacks))


either_way = pytest.mark.parametrize("register", [by_set_callbacks, by_parameter])


@either_way
@every_formulation
def test_hooks_are_called_in_order(iris, register, formulation):
    recorder = Recorder()
    model = register(LinearSVM(formulation), recorder).fit(*iris)
    events = recorder.events
    assert events[:2] == [("setup", "fit"), ("begin", "fit")]
    assert events[-2:] == [("end", "fit"), ("teardown", "fit")]
    assert events[2:-2] == [("begin", "epoch"), ("end", "epoch")] * len(model.history_)


@either_way
def test_hooks_are_told_the_data(iris, register):
    X, y = iris
    weight = np.ones(len(y))
    recorder = Recorder()
    register(LinearSVM(), recorder).fit(X, y, sample_weight=weight)
    for told_X, told_y, metadata in recorder.told:
        np.testing.assert_array_equal(told_X, X)
        np.testing.assert_array_equal(told_y, y)
        np.testing.assert_array_equal(metadata["sample_weight"], weight)


@either_way
@every_solver
@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins", "one_vs_rest"])
@pytest.mark.parametrize("intercept", [{"fit_intercept": False}, {}, {"intercept_scaling": 5.0}], ids=str)
def test_the_model_of_an_epoch_predicts(iris, register, formulation, solver, intercept):
    X, y = iris
    recorder = Recorder()
    model = register(
        LinearSVM(formulation, solver=solver, tol=1e-5 if solver == "accelerated_sdm" else 1e-3, **intercept), recorder
    ).fit(X, y)
    assert recorder.models
    last = recorder.models[-1]
    assert last is not model
    np.testing.assert_allclose(last.decision_function(X), X @ last.coef_.T + last.intercept_, rtol=1e-9)
    assert np.mean(last.predict(X) == model.predict(X)) > 0.9
    first = recorder.models[0]
    assert not np.array_equal(first.coef_, last.coef_)  # a snapshot, not a view of what goes on changing


def test_two_classes_have_models_of_an_epoch_too(iris):
    X, y = iris[0][:100], iris[1][:100]
    recorder = Recorder()
    LinearSVM().set_callbacks(recorder).fit(X, y)
    assert recorder.models[-1].score(X, y) == 1.0


def test_refitting_hands_out_models_of_the_new_fit(iris):
    X, y = iris
    recorder = Recorder()
    model = LinearSVM().fit(X[:100, :2], y[:100])
    model.set_callbacks(recorder).fit(X, y)
    assert recorder.models[-1].decision_function(X).shape == (150, 3)


@either_way
def test_hooks_may_stop(digits, register):
    recorder = Recorder(stop_after=2)
    with pytest.warns(ConvergenceWarning, match="callback said so"):
        model = register(LinearSVM(tol=1e-12, solver="accelerated_sdm"), recorder).fit(*digits)
    assert not model.converged_
    assert 0 < model.dual_gap_ < np.inf
    assert recorder.events[-1] == ("teardown", "fit")


@either_way
def test_teardown_happens_after_errors_as_well(iris, register):
    class Failing(Recorder):
        def on_fit_task_end(self, estimator, context):
            raise LookupError("mine")

    failing = Failing()
    with pytest.raises(LookupError, match="mine"):
        register(LinearSVM(), failing).fit(*iris)
    assert failing.events[-1] == ("teardown", "fit")


def test_both_ways_at_once_and_again(iris):
    registered, given, records = Recorder(), Recorder(), []
    model = LinearSVM(callbacks=[given, records.append]).set_callbacks(registered).fit(*iris)
    assert registered.events == given.events
    assert len(records) == len(model.history_)
    once = Counter(registered.events)
    model.fit(*iris)  # parameters are not registered for good
    assert Counter(registered.events) == {event: 2 * count for event, count in once.items()}
    assert Counter(given.events) == Counter(registered.events)


def test_callbacks_survive_clone_as_parameters(iris):
    recorder = Recorder()
    clone(LinearSVM(callbacks=[recorder.on_fit_task_begin]))
    model = clone(LinearSVM(callbacks=[recorder]))
    model.fit(*iris)
    assert len(model.callbacks) == 1


def test_a_callback_class_is_not_a_callback(iris):
    with pytest.raises(TypeError, match="callbacks"):
        LinearSVM(callbacks=[Recorder]).fit(*iris)


def test_progress_bar_runs(iris, capsys):
    LinearSVM().set_callbacks(ProgressBar()).fit(*iris)
    assert "LinearSVM" in capsys.readouterr().out


def test_scoring_monitor_scores_every_epoch(iris):
    monitor = ScoringMonitor(scoring="accuracy")
    model = LinearSVM().set_callbacks(monitor).fit(*iris)
    scores = [record["accuracy"] for record in monitor.get_logs().data if record["task_name"] == "epoch"]
    assert len(scores) == len(model.history_)
    assert scores[-1] > 0.9


def test_progress_bar_over_a_grid_search(iris, capsys):
    search = GridSearchCV(LinearSVM(), {"C": [0.1, 1.0]}, cv=2)
    search.set_callbacks(ProgressBar()).fit(*iris)
    assert search.best_score_ > 0.9
    assert "GridSearchCV" in capsys.readouterr().out


# The progress lines; in processes of their own, where stderr is a pipe

# Everything of scikit-learn that multimargin needs, then as if the module had never existed.
BLOCK = """
import sys
import sklearn.base, sklearn.datasets, sklearn.exceptions, sklearn.utils.multiclass, sklearn.utils.validation
for name in [name for name in sys.modules if name.split(".")[: {depth}] == {parts}]:
    del sys.modules[name]
sys.modules[{module!r}] = None
"""
FIT = """
from sklearn.datasets import load_iris
from multimargin import LinearSVM
X, y = load_iris(return_X_y=True)
model = LinearSVM({arguments}).fit(X, y)
assert model.score(X, y) > 0.9
print("fitted", model.converged_)
"""


def block(module):
    parts = module.split(".")
    return BLOCK.format(depth=len(parts), parts=parts, module=module)


def run(program):
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("blocked", [None, "rich"])
@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_one"])
def test_progress_is_plain_lines_on_stderr(formulation, blocked):
    program = (block(blocked) if blocked else "") + FIT.format(arguments=f"{formulation!r}, verbose=1")
    done = run(program)
    assert done.stdout == "fitted True\n"
    lines = done.stderr.splitlines()
    assert lines
    assert "\x1b" not in done.stderr
    assert "\r" not in done.stderr
    for line in lines:
        assert re.fullmatch(r"(machine +\d+ +)?epoch +\d+ +gap [=~] +\S+ +active rows +\d+ +[\d.]+ s", line), line
    assert float(re.search(r"gap = +(\S+)", lines[-1]).group(1)) <= 1e-3


@pytest.mark.parametrize("blocked", [None, "rich"])
def test_progress_on_a_terminal_is_one_line_that_moves(blocked):
    program = (block(blocked) if blocked else "") + FIT.format(arguments="verbose=1")
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
        text=True,
        timeout=120,
    )
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert done.stdout == "fitted True\n", shown
    assert re.search(r"epoch +\d+ +gap = ", re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", shown))
    assert ("\x1b[" in shown) == (blocked is None)


def test_progress_speaks_even_when_a_fit_is_short_and_unfinished(capsys, iris):
    with pytest.warns(ConvergenceWarning):
        LinearSVM(max_iter=2, tol=1e-12, verbose=1).fit(*iris)
    assert "epoch" in capsys.readouterr().err


def test_silence_is_the_default(capsys, iris):
    LinearSVM().fit(*iris)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.parametrize("arguments", ["", "callbacks=[print], n_jobs=2"])
def test_old_scikit_learn_without_callbacks_fits(arguments):
    done = run(block("sklearn.callback") + FIT.format(arguments=arguments))
    assert done.stdout.endswith("fitted True\n")
    assert ("'epoch': 1" in done.stdout) == bool(arguments)


WARNED = """
import warnings
from sklearn.datasets import load_iris
from multimargin import LinearSVM
def user():
    return LinearSVM(max_iter=1, tol=1e-12).fit(*load_iris(return_X_y=True))  # here
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    user()
print([warning.lineno for warning in caught])
"""


@pytest.mark.parametrize("prelude", ["", block("sklearn.callback")], ids=["with callbacks", "without callbacks"])
def test_warning_points_at_the_line_of_the_user(prelude):
    program = prelude + WARNED
    (line,) = (number for number, text in enumerate(program.splitlines(), 1) if text.endswith("# here"))
    assert run(program).stdout.strip() == f"[{line}]"
