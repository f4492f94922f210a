"""Numbers of the report: claims are rounded to the safe side."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multimargin.report.numbers import bounds, percent, percent_at_most, rounded, seconds, signed

POSITIVE = st.floats(1e-12, 1e12)


@given(POSITIVE, st.floats(0, 1))
def test_bounds_enclose(high, share):
    low = high * share
    below, above = (Decimal(text.replace(",", "")) for text in bounds(low, high))
    assert below <= Decimal(low)
    assert Decimal(high) <= above
    if low < high * (1 - 1e-12):
        assert below < above


@given(st.floats(1e-15, 1e6))
def test_distances_are_rounded_up_but_not_far(share):
    said = Decimal(percent_at_most(share).removesuffix("\u202f%").replace(",", "")) / 100
    assert Decimal(share) <= said * (1 + Decimal("1e-14"))
    assert said <= Decimal(share) * Decimal("1.1001")


@given(st.floats(-1e14, 1e14), st.integers(1, 12))
def test_rounding_keeps_its_digits(value, digits):
    said = float(rounded(value, digits).replace(",", ""))
    assert said == pytest.approx(value, rel=0.51 * 10.0 ** (1 - digits))


def test_texts():
    assert percent(0.12345) == "12.3\u202f%"
    assert percent(float("nan")) == "n/a"
    assert rounded(0.0, 3) == "0"
    assert rounded(1234567.0, 3) == "1,230,000"
    assert rounded(1e-9, 2) == "1.0e-9"
    assert signed(-0.5, 2) == "\u22120.50"
    assert rounded(float("inf"), 2) == "inf"
    assert [seconds(value) for value in (0.0123, 1.5, 600, 10800)] == [
        "12\u202fms",
        "1.5\u202fs",
        "10\u202fmin",
        "3.0\u202fh",
    ]
