"""Results in words: what is claimed stays true when it is rounded."""

from decimal import ROUND_CEILING, ROUND_FLOOR
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multimargin.commands.words import certificate, columns, counted, duration
from multimargin.estimators.claims import rounded


@given(st.floats(1e-300, 1e300), st.integers(1, 12))
def test_rounding_to_the_safe_side(value, digits):
    low, high = (float(rounded(value, digits, way)) for way in (ROUND_FLOOR, ROUND_CEILING))
    assert low <= value * (1 + 1e-15) and high >= value * (1 - 1e-15)
    assert high - low <= 10.0 ** (1 - digits) * value * 1.0001


@given(st.floats(1e-6, 1e9), st.floats(1e-10, 0.999))
def test_certificates_claim_no_more_than_was_proven(primal, gap):
    dual = primal * (1 - gap)
    model = SimpleNamespace(dual_gap_=gap, worst_gap_=gap, primal_objective_=primal, dual_objective_=dual)
    words = certificate(model).split()
    share, high, low = float(words[1]), float(words[words.index("objective") + 2].rstrip(",")), float(words[-1])
    assert share / 100 >= (primal - dual) / dual * (1 - 1e-5)
    assert high >= primal * (1 - 1e-12) and low <= dual * (1 + 1e-12)


def test_certificates_of_classes_and_of_nothing():
    model = SimpleNamespace(dual_gap_=1e-4, worst_gap_=5e-4, primal_objective_=2.0, dual_objective_=1.9998)
    assert certificate(model).startswith("every class or pair is within 0.051 % of its optimum: the objective is 2")
    model = SimpleNamespace(dual_gap_=1.5, worst_gap_=1.5, primal_objective_=2.0, dual_objective_=-1.0)
    assert certificate(model).startswith("none yet: ")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.123, "0.12 s"), (12.3, "12 s"), (125, "2 min 5 s"), (7500, "2 h 5 min")]
)
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_counts():
    assert [counted(1, "row"), counted(2, "row"), counted(2, "class")] == ["1 row", "2 rows", "2 classes"]


def test_columns_are_below_each_other():
    assert columns(["a", "b"], [["xx", "1"], ["y", "100"]]) == "a     b\n-------\nxx    1\ny   100"
