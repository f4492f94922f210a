"""What all displays have in common: scikit-learn's contract."""

import subprocess
import sys

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multimargin import LinearSVM, LinearSVMCV
from multimargin.displays import ConfusionPairsDisplay, ConvergenceDisplay, PathDisplay

X, y = load_iris(return_X_y=True)
MODEL = LinearSVMCV(Cs=[0.01, 0.1, 1.0], cv=3).fit(X, y)
ARGUMENTS = {
    ConvergenceDisplay: (MODEL,),
    PathDisplay: (MODEL,),
    ConfusionPairsDisplay: (MODEL, X, y),
}
KEPT = {
    ConvergenceDisplay: ("history", "tol", "stopping"),
    PathDisplay: ("Cs", "scores", "C", "score_name"),
    ConfusionPairsDisplay: ("pairs", "counts", "support"),
}


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


@pytest.fixture(params=list(ARGUMENTS), ids=lambda display: display.__name__)
def display_class(request):
    return request.param


def test_from_estimator_makes_a_figure(display_class):
    display = display_class.from_estimator(*ARGUMENTS[display_class])
    assert isinstance(display, display_class)
    assert isinstance(display.ax_, matplotlib.axes.Axes)
    assert display.figure_ is display.ax_.figure
    assert plt.fignum_exists(display.figure_.number)
    assert display.ax_.get_xlabel()
    display.figure_.canvas.draw()


def test_from_estimator_draws_where_it_is_told(display_class):
    figure, ax = plt.subplots()
    display = display_class.from_estimator(*ARGUMENTS[display_class], ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert plt.get_fignums() == [figure.number]


def test_arguments_are_attributes_and_make_the_same_display(display_class):
    display = display_class.from_estimator(*ARGUMENTS[display_class])
    again = display_class(**{name: getattr(display, name) for name in KEPT[display_class]})
    assert not hasattr(again, "ax_")
    for name in KEPT[display_class]:
        assert getattr(again, name) is getattr(display, name)
    assert again.plot() is again
    assert again.ax_ is not display.ax_
    assert again.ax_.get_xlabel() == display.ax_.get_xlabel()
    assert again.ax_.get_xlim() == display.ax_.get_xlim()


def test_keywords_go_to_what_is_drawn(display_class):
    display = display_class.from_estimator(*ARGUMENTS[display_class], alpha=0.25)
    drawn = {
        ConvergenceDisplay: lambda: display.lines_,
        PathDisplay: lambda: [display.line_],
        ConfusionPairsDisplay: lambda: display.right_bars_.patches,
    }[display_class]()
    assert drawn
    assert all(artist.get_alpha() == 0.25 for artist in drawn)


def test_pipelines_are_drawn_as_their_last_step(display_class):
    pipeline = make_pipeline(StandardScaler(), LinearSVMCV(Cs=[0.01, 0.1], cv=3)).fit(X, y)
    arguments = (pipeline, *ARGUMENTS[display_class][1:])
    assert display_class.from_estimator(*arguments).ax_.get_xlabel()


def test_models_that_are_not_fitted_are_refused(display_class):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        display_class.from_estimator(LinearSVM(), *ARGUMENTS[display_class][1:])
    assert not plt.get_fignums()


def test_without_matplotlib_the_error_names_the_extra(display_class):
    program = f"""
import sys
sys.modules["matplotlib"] = None
sys.modules["matplotlib.pyplot"] = None
from multimargin.displays import {display_class.__name__} as Display
try:
    Display(**dict.fromkeys({KEPT[display_class]!r}, [1])).plot()
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120)
    assert 'pip install "multimargin[plot]"' in done.stdout, done.stderr
