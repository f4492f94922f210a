"""PathDisplay draws the means, the spread and the choice."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_iris

from multimargin import LinearSVM, LinearSVMCV
from multimargin.displays import PathDisplay

X, y = load_iris(return_X_y=True)


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


def test_lines_are_the_scores():
    model = LinearSVMCV(Cs=[0.001, 0.01, 0.1], cv=4).fit(X, y)
    display = PathDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.line_.get_xdata(), model.Cs_)
    np.testing.assert_array_equal(display.line_.get_ydata(), model.scores_.mean(axis=0))
    assert display.chosen_.get_xdata()[0] == model.C_
    assert display.ax_.get_xscale() == "log"
    assert display.ax_.get_ylabel() == "accuracy, rows held out"
    corners = display.spread_.get_paths()[0].vertices[:, 1]
    mean, deviation = model.scores_.mean(axis=0), model.scores_.std(axis=0)
    assert corners.max() == pytest.approx((mean + deviation).max())
    assert corners.min() == pytest.approx((mean - deviation).min())


@pytest.mark.parametrize("scoring, name", [("f1_macro", "f1 macro"), (lambda model, X, y: 0.5, "<lambda>")])
def test_scores_are_named(scoring, name):
    model = LinearSVMCV(Cs=[0.01, 0.1], cv=3, scoring=scoring).fit(X, y)
    assert PathDisplay.from_estimator(model).score_name == name


def test_a_path_of_one_value():
    display = PathDisplay.from_estimator(LinearSVMCV(Cs=[0.1], cv=3).fit(X, y))
    display.figure_.canvas.draw()


def test_a_model_without_a_path_is_refused():
    with pytest.raises(ValueError, match="a LinearSVM has no path of C to draw; LinearSVMCV has one"):
        PathDisplay.from_estimator(LinearSVM().fit(X, y))
