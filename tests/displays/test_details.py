"""Details of the pictures that say something: places, ends of axes, names, what is left out."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pytest
from matplotlib.figure import Figure

from multimargin.displays import ConfusionPairsDisplay, ConvergenceDisplay, PathDisplay
from multimargin.displays.drawing import BLUE, ORANGE, power_of_ten, shortened
from multimargin.displays.path import _name_of

FIELDS = [("machine", "i8"), ("epoch", "i8"), ("seconds", "f8"), ("violation", "f8"), ("gap", "f8"), ("solver", "U20")]


def history(*records, more=()):
    """machine, epoch, seconds, violation, gap."""
    fields = [*FIELDS, *more]
    rows = [(*record, "sdm", *(0 for _ in more)) for record in records]
    return np.array(rows, dtype=fields)


def drawn(of, x="epochs", **options):
    return ConvergenceDisplay(history=of, **options).plot(Figure().subplots(), x=x)


def points(line):
    return list(zip(np.asarray(line.get_xdata()).tolist(), np.asarray(line.get_ydata()).tolist(), strict=True))


def by_name(display, word):
    (found,) = [line for line in display.lines_ if word in line.get_label()]
    return found


NAN = np.nan
ONE = history((0, 1, 0.5, 1.0, NAN), (0, 2, 1.0, 0.0, 0.5), (0, 3, 2.0, 0.25, NAN), (0, 4, 3.0, 0.1, 0.01))


def test_one_machine():
    display = drawn(ONE, tol=0.1)
    assert points(by_name(display, "gap")) == [(2, 0.5), (4, 0.01)]
    assert points(by_name(display, "violation, in margins")) == [(1, 1.0), (3, 0.25), (4, 0.1)]
    assert by_name(display, "gap").get_color() == BLUE and by_name(display, "violation").get_color() == ORANGE
    assert display.target_.get_ydata()[0] == 0.1 and display.target_.get_label() == "target gap: 0.1"
    assert display.ax_.get_ylim()[0] == pytest.approx(0.005)
    assert display.ax_.get_xlabel() == "passes over the rows"
    assert display.ax_.get_ylabel() == "relative gap, violation"
    assert display.ax_.get_legend() is not None


def test_what_is_far_below_the_target_is_drawn_at_the_floor():
    display = drawn(history((0, 1, 1.0, 1.0, 1e-3), (0, 2, 1.0, 1.0, 1e-9)), tol=0.1)
    assert points(by_name(display, "gap")) == [(1, 1e-3), (2, 1e-3)]
    display = drawn(history((0, 1, 1.0, 1.0, 0.5), (0, 2, 1.0, 1.0, 0.9e-5)))  # without a target: 0.001
    assert points(by_name(display, "gap")) == [(1, 0.5), (2, 1e-3)]
    assert display.target_ is None


def test_other_axes():
    display = drawn(ONE, "seconds", tol=0.1, stopping="violation")
    assert points(by_name(display, "gap")) == [(1.0, 0.5), (3.0, 0.01)]
    assert display.ax_.get_xlabel() == "seconds of training" and display.target_.get_label() == "target violation: 0.1"
    newton = ONE.copy()
    newton["solver"] = "newton"
    assert by_name(drawn(newton), "violation").get_label() == "violation: largest gradient"
    kernel = history((0, 1, 0.5, 1.0, 0.5), more=[("kernel_evaluations", "i8")])
    assert drawn(kernel).ax_.get_xlabel() == "rounds"
    assert drawn(kernel, "seconds").ax_.get_xlabel() == "seconds of training"


SEVERAL = history(
    (1, 1, 11.0, 0.8, NAN),
    (0, 1, 1.0, 0.4, NAN),
    (0, 2, 2.0, 0.2, 0.3),
    (1, 2, 14.0, 0.6, 0.9),
    (0, 3, 4.0, 0.1, 0.05),
    (2, 1, 5.0, 0.5, NAN),
)


def test_several_machines():
    display = drawn(SEVERAL, tol=0.1)
    assert points(by_name(display, "worst machine")) == [(1, 0.8), (2, 0.6), (3, 0.6)]
    assert points(by_name(display, "median")) == [(1, 0.5), (2, 0.5), (3, 0.5)]
    gaps = points(by_name(display, "relative gaps of 3 machines"))
    assert gaps[:2] == [(2, 0.9), (3, 0.05)] and np.isnan(gaps[2][1])
    assert display.ax_.get_xlabel() == "passes over the rows of each machine"


def test_several_machines_by_seconds_of_their_own():
    display = drawn(SEVERAL, "seconds", tol=0.1)
    assert [x for x, _ in points(by_name(display, "worst machine"))] == [0.0, 1.0, 3.0]
    assert points(by_name(display, "relative gaps"))[:2] == [(3.0, 0.9), (3.0, 0.05)]


def test_ends_of_machines_stand_side_by_side():
    display = drawn(history((0, 1, 1.0, 0.1, 0.2), (1, 1, 1.0, 0.3, NAN), (2, 1, 1.0, 0.2, 0.4)), tol=0.1)
    assert points(by_name(display, "violation, in margins")) == [(1, 0.3), (2, 0.2), (3, 0.1)]
    assert points(by_name(display, "relative gap")) == [(1, 0.4), (2, 0.2)]
    assert display.ax_.get_xlabel() == "the 3 machines, worst first"


def test_ticks_near_and_far():
    told = [power_of_ten(10.0**e) for e in (-4, -3, 0, 3, 4)]
    assert told == ["10⁻⁴", "0.001", "1", "1000", "10⁴"]
    assert power_of_ten(5.0) == "" and power_of_ten(0.1 * (1 + 1e-9)) == "0.1"


def test_names_are_shortened():
    assert shortened(" a \n b ", 3) == "a b"
    assert shortened("abcd", 4) == "abcd" and shortened("abcde", 4) == "abc…"
    assert shortened("ab cde", 4) == "ab…"


def test_the_path():
    scores = np.array([[0.5, 0.8, 0.6], [0.7, 1.0, 0.8]])
    display = PathDisplay(Cs=np.array([0.1, 1.0, 10.0]), scores=scores, C=1.0, score_name="x" * 50)
    display.plot(Figure().subplots())
    np.testing.assert_allclose(display.line_.get_ydata(), [0.6, 0.9, 0.7])
    assert display.chosen_.get_label() == "chosen: C = 1, mean 0.9"
    assert display.spread_.get_label() == "± 1 standard deviation of 2 folds"
    corners = display.spread_.get_paths()[0].vertices
    assert corners[:, 1].min() == pytest.approx(0.5) and corners[:, 1].max() == pytest.approx(1.0)
    assert display.ax_.get_ylabel() == "x" * 39 + "…, rows held out" and display.ax_.get_xlabel() == "C"
    assert [_name_of(scoring) for scoring in (None, "f1_macro", len, object())] == [
        "accuracy",
        "f1 macro",
        "len",
        "score",
    ]


def test_confused_pairs():
    display = ConfusionPairsDisplay(
        pairs=[("a", "b" * 29), (3, 4)], counts=np.array([[5000, 0], [2, 1]]), support=np.array([[10000, 4], [0, 2]])
    ).plot(Figure().subplots())
    assert [text.get_text() for text in display.ax_.texts] == ["5,000 (50%)", "2 (200%)", "", "1 (50%)"]
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == ["a", "3"]
    (right,) = display.ax_.child_axes
    assert [tick.get_text() for tick in right.get_yticklabels()] == ["b" * 27 + "…", "4"]
    assert display.ax_.get_xlim() == pytest.approx((-7000, 7000)) and display.ax_.get_ylim() == pytest.approx(
        (1.6, -0.6)
    )
    assert display.ax_.xaxis.get_major_formatter()(-3.0, 0) == "3"
    assert [bar.get_y() + bar.get_height() / 2 for bar in display.right_bars_] == pytest.approx([0, 1])
    assert not display.ax_.spines["left"].get_visible() and not right.spines["right"].get_visible()
    assert display.right_bars_[0].get_facecolor() != display.left_bars_[0].get_facecolor()


def test_nothing_confused():
    display = ConfusionPairsDisplay(pairs=[], counts=np.zeros((0, 2), int), support=np.zeros((0, 2), int))
    display.plot(Figure().subplots())
    assert display.ax_.get_xlim() == pytest.approx((-1.4, 1.4)) and display.ax_.get_ylim() == pytest.approx((0.6, -0.6))
    assert [text.get_text() for text in display.ax_.texts] == ["no two classes are confused"]
    one = ConfusionPairsDisplay.from_predictions([0, 1], [1, 1], n_pairs=1, ax=Figure().subplots())
    assert one.pairs == [(0, 1)] and "no two" not in [text.get_text() for text in one.ax_.texts]
