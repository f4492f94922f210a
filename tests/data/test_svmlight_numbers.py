"""Numbers in svmlight text, against Python's float."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.data.texts import fast, finite, read


def values_of(texts, dtype=np.float64):
    X, _ = read(b"0\n" + b"".join(b"0 1:%s\n" % text.encode() for text in texts), dtype=dtype)
    return X.data


def assert_exact(texts):
    expected = np.array([float(text) for text in texts])
    assert values_of(texts).tobytes() == expected.tobytes()
    single = expected[np.abs(expected) < 3e38].astype(np.float32)
    small = [text for text, value in zip(texts, expected, strict=True) if abs(value) < 3e38]
    assert values_of(small, np.float32).tobytes() == single.tobytes()


@fast
@given(finite)
@example(5e-324)
@example(2.2250738585072014e-308)
@example(-0.0)
def test_every_way_to_write_a_float_is_read_exactly(x):
    ways = [f"{x!r}", f"{x:.17g}", f"{x:.16g}", f"{x:.18e}", f"{x:.25e}", f"{x:.9g}", f"{x:.6f}", f"{x:E}"]
    assert_exact([way for way in ways if math.isfinite(float(way))])


@fast
@given(st.integers(0, 10**22), st.integers(-80, 80), st.integers(0, 25), st.sampled_from(["", "+", "-"]))
def test_every_decimal_is_read_exactly(number, exponent, point, sign):
    digits = str(number).rjust(point + 1, "0")
    split = len(digits) - point
    assert_exact([f"{sign}{digits[:split]}.{digits[split:]}e{exponent}", f"{sign}{digits[:split]}.{digits[split:]}"])


@fast
@given(finite.filter(lambda x: 1e-300 < abs(x) < 1e300), st.sampled_from([-1, 0, 1]))
@example(0.5, 0)
@example(9007199254740992.0, 0)
@example(1e22, 0)
def test_ties_are_read_exactly(x, side):
    """Halfway to the next float, all digits, and a little to either side."""
    with localcontext() as context:
        context.prec = 1200
        middle = (Decimal(x) + Decimal(math.nextafter(x, math.inf))) / 2
        beside = middle * (1 + side * Decimal(10) ** -900)
        assert_exact([f"{middle:f}", f"{beside:e}", f"{middle:.25e}", f"{middle:.18e}"])


@pytest.mark.parametrize("magnitude", range(46, 64))
def test_ties_of_few_digits(magnitude):
    """Exactly halfway, in 19 digits or less: the product with a power of ten that was cut off lies below them."""
    spacing = 2.0 ** (magnitude - 53)
    base = 2.0**magnitude + spacing * np.random.default_rng(magnitude).integers(0, 2**52, 200)
    middles = [Decimal(x) + Decimal(spacing) / 2 for x in base.tolist()]
    assert_exact([f"{middle:f}" for middle in middles])
    assert_exact([f"{middle.scaleb(7):f}e-7" for middle in middles])
    assert_exact([f"{middle.scaleb(-5):f}e5" for middle in middles])


@pytest.mark.parametrize("exponent", range(-60, 60))
def test_powers_of_ten_times_many_significands(exponent):
    """Every entry of the table, with significands that reach the carries."""
    significands = [
        1,
        2,
        5,
        9,
        2**53 - 1,
        2**53,
        2**53 + 1,
        2**63,
        10**19 - 1,
        10**18 + 1,
        9007199254740993,
        2**64 // 10,
    ]
    rng = np.random.default_rng(exponent + 60)
    significands += rng.integers(1, 10**18, 300).tolist() + (2 ** rng.integers(0, 62, 50)).tolist()
    assert_exact([f"{significand}e{exponent}" for significand in significands])


def test_floats_that_are_halfway_between_float32_numbers():
    """Rounded once to float64 and once more, as scikit-learn does."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=500).astype(np.float32)
    middles = (base.astype(np.float64) + np.nextafter(base, np.float32(np.inf)).astype(np.float64)) / 2
    assert_exact([f"{Decimal(middle):f}" for middle in middles.tolist()])
    assert_exact([f"{Decimal(middle) + Decimal(10) ** -40:f}" for middle in middles.tolist()])
