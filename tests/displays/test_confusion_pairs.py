"""ConfusionPairsDisplay: the pairs of a confusion matrix, worst first, both directions."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix

from multimargin.displays import ConfusionPairsDisplay
from multimargin.displays.confusion_pairs import confused_pairs

LABELS = st.integers(0, 6)


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


@settings(deadline=None)
@given(st.lists(st.tuples(LABELS, LABELS), min_size=1, max_size=60))
def test_pairs_are_those_of_the_confusion_matrix(rows):
    true, said = np.array(rows).T
    found = confused_pairs(true, said)
    matrix = confusion_matrix(true, said, labels=np.arange(7))
    np.testing.assert_array_equal(found.support, matrix.sum(axis=1)[found.classes])
    for (a, b), counts in zip(found.classes[found.pairs], found.counts, strict=True):
        assert counts.tolist() == [matrix[a, b], matrix[b, a]]
        assert counts[0] >= counts[1]
        matrix[a, b] = matrix[b, a] = 0
    assert not np.any(matrix[~np.eye(len(matrix), dtype=bool)])
    assert np.all(np.diff(found.counts.sum(axis=1)) <= 0)


def test_bars_point_at_what_was_said():
    display = ConfusionPairsDisplay.from_predictions(list("aaaabbbbc"), list("abbbabbbc"))
    assert display.pairs == [("a", "b")]
    assert display.counts.tolist() == [[3, 1]]
    assert display.support.tolist() == [[4, 4]]
    assert [bar.get_width() for bar in display.right_bars_] == [3]
    assert [bar.get_width() for bar in display.left_bars_] == [-1]
    assert [text.get_text() for text in display.ax_.texts] == ["3 (75%)", "1 (25%)"]


def test_no_more_pairs_than_asked_for():
    rng = np.random.default_rng(0)
    true, said = rng.integers(0, 200, (2, 5000))
    display = ConfusionPairsDisplay.from_predictions(true, said, n_pairs=7)
    assert len(display.pairs) == len(display.right_bars_) == 7
    with pytest.raises(ValueError, match="n_pairs must be at least 1"):
        ConfusionPairsDisplay.from_predictions(true, said, n_pairs=0)


def test_labels_are_drawn_as_they_are():
    display = ConfusionPairsDisplay.from_predictions(["$x^", "<b>"], ["<b>", "<b>"])
    display.figure_.canvas.draw()  # "$x^" would not be mathematics
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["$x^"]


def test_nothing_confused():
    display = ConfusionPairsDisplay.from_predictions([0, 1, 2], [0, 1, 2])
    assert display.pairs == []
    assert "no two classes" in display.ax_.texts[-1].get_text()
    display.figure_.canvas.draw()


def test_the_picture_ends_where_the_pairs_do():
    display = ConfusionPairsDisplay.from_predictions([0, 1, 2, 0], [1, 0, 1, 2], n_pairs=1)
    assert len(display.pairs) == 1
    bottom, top = display.ax_.get_ylim()
    assert -1 < top < -0.33 and 0.33 < bottom < 1  # a bar is 0.66 high


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ConfusionPairsDisplay.from_predictions([0, 1], [0])
    with pytest.raises(ValueError, match="Unknown label type"):
        ConfusionPairsDisplay.from_predictions([0.5, 1.5], [0.5, 0.5])
