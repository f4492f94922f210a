"""The lines of ConvergenceDisplay are those of history_."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_digits

from multimargin import KernelSVM, LinearSVM
from multimargin.displays import ConvergenceDisplay
from multimargin.displays.convergence import _carry_on
from multimargin.displays.drawing import power_of_ten

X, y = load_digits(return_X_y=True)
X, y = X[:400] / 16, y[:400]


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


def line(display, words):
    (found,) = [line for line in display.lines_ if words in line.get_label()]
    return found.get_xdata(), found.get_ydata()


@pytest.mark.parametrize("x, field", [("epochs", "epoch"), ("seconds", "seconds")])
def test_one_machine(x, field):
    model = LinearSVM(solver="sdm").fit(X, y)
    display = ConvergenceDisplay.from_estimator(model, x=x)
    certified = model.history_[np.isfinite(model.history_["gap"])]
    at, gap = line(display, "gap")
    np.testing.assert_array_equal(at, certified[field])
    np.testing.assert_array_equal(gap, certified["gap"])
    assert gap[-1] == model.dual_gap_
    at, violation = line(display, "violation")
    assert set(at) <= set(model.history_[field])
    assert violation.max() == model.history_["violation"].max()
    assert display.target_.get_ydata()[0] == model.tol
    assert display.ax_.get_yscale() == "log"


def test_several_machines_have_a_dot_each_and_the_worst_violation():
    model = LinearSVM("one_vs_one").fit(X, y)
    display = ConvergenceDisplay.from_estimator(model)
    _, gaps = line(display, "gaps of 45 machines")
    assert len(gaps) == 45
    assert gaps[0] == pytest.approx(model.worst_gap_)
    at, worst = line(display, "worst")
    first = model.history_[model.history_["epoch"] == 1]
    assert at[0] == 1
    assert worst[0] == first["violation"].max()


def test_seconds_of_several_machines_begin_with_each_of_them():
    model = LinearSVM("one_vs_one").fit(X, y)
    at, _ = line(ConvergenceDisplay.from_estimator(model, x="seconds"), "worst")
    assert at[0] == 0
    assert at[-1] < model.history_["seconds"].max()


def test_machines_that_only_told_their_end_stand_side_by_side():
    model = KernelSVM("one_vs_one").fit(X, y)
    assert len(model.history_) == 45
    display = ConvergenceDisplay.from_estimator(model)
    at, gaps = line(display, "gap")
    np.testing.assert_array_equal(at, np.arange(1, 46))
    assert gaps[0] == pytest.approx(model.worst_gap_)
    assert np.all(np.diff(gaps) <= 0)
    assert "machines" in display.ax_.get_xlabel()


def test_kernel_machines_have_rounds():
    display = ConvergenceDisplay.from_estimator(KernelSVM().fit(X, y))
    assert display.ax_.get_xlabel() == "rounds"


def test_what_is_zero_is_still_drawn():
    history = LinearSVM().fit(X, y).history_.copy()
    history["gap"][-1] = 0.0
    display = ConvergenceDisplay(history=history, tol=1e-3).plot()
    _, gap = line(display, "gap")
    low, high = display.ax_.get_ylim()
    assert low < gap[-1] < high


def test_wrong_arguments_are_refused():
    model = LinearSVM().fit(X, y)
    with pytest.raises(ValueError, match="x must be one of 'epochs', 'seconds'; got 'hours'"):
        ConvergenceDisplay.from_estimator(model, x="hours")
    with pytest.raises(ValueError, match="history is empty"):
        ConvergenceDisplay(history=model.history_[:0]).plot()
    online = LinearSVM().partial_fit(X, y, classes=np.unique(y))
    with pytest.raises(ValueError, match="has no history_ to draw"):
        ConvergenceDisplay.from_estimator(online)


@pytest.mark.parametrize(
    ("value", "words"),
    [(1.0, "1"), (0.001, "0.001"), (1000.0, "1000"), (1e-4, "10⁻⁴"), (1e12, "10¹²"), (2.0, ""), (300.0, "")],
)
def test_ticks_are_powers_of_ten(value, words):
    assert power_of_ten(value) == words


def test_nothing_is_carried_on_to_before_the_first_value():
    out = np.full(5, np.nan)
    _carry_on(np.array([2.0, 4.0]), np.array([20.0, 40.0]), np.array([0.0, 1.9, 2.0, 3.0, 9.0]), out)
    np.testing.assert_array_equal(out, [np.nan, np.nan, 20.0, 20.0, 40.0])
