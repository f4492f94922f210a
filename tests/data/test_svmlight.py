"""svmlight text against scikit-learn's reader and writer, against Python's float, and against damage of all kinds."""

import bz2
import gzip
import io
import lzma
import math
import os
import re
import subprocess
import sys
import threading
from decimal import Decimal, localcontext
from itertools import pairwise, product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from multimargin.data import svmlight
from multimargin.data.svmlight import SvmlightFormatError, read_svmlight, write_svmlight

DTYPES = (np.float32, np.float64)


def read(content, part_bytes=1 << 22, n_threads=1, **options):
    """As from a file of this content, cut into parts of this size."""
    defaults = dict(name="data.txt", n_features=None, dtype=np.float64, zero_based="auto", query_id=False)
    request = svmlight._Request(**{**defaults, **options}, n_threads=n_threads)
    text = np.frombuffer(bytearray(content), np.uint8)  # memory that ends where the text ends
    return svmlight._read(text, request, part_bytes)


def assert_same(found, expected):
    """Equal bits, equal shapes; X, y and query ids."""
    assert len(found) == len(expected)
    for one, other in zip(found[1:], expected[1:], strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()
    X, Z = found[0], expected[0]
    assert X.shape == Z.shape
    assert X.data.dtype == Z.data.dtype
    assert X.data.tobytes() == Z.data.tobytes()
    np.testing.assert_array_equal(X.indices, Z.indices)
    np.testing.assert_array_equal(X.indptr, Z.indptr)


def random_matrix(n_rows, n_features, density, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) * 10.0 ** rng.integers(-12, 12, size=(n_rows, n_features))
    return (X * (rng.random((n_rows, n_features)) < density)).astype(dtype)


# The arrays of scikit-learn


@pytest.mark.parametrize("query_id", [False, True])
@pytest.mark.parametrize("zero_based", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (200, 1), (37, 50), (300, 7)])
def test_reads_what_scikit_learn_writes(tmp_path, shape, dtype, zero_based, query_id):
    for density, seed in ((0.0, 0), (0.1, 1), (1.0, 2)):
        X = random_matrix(*shape, density, seed)
        y = np.random.default_rng(seed).choice([-1.5, 0, 3, 1e9], shape[0])
        ids = np.random.default_rng(seed).integers(-5, 1 << 40, shape[0]) if query_id else None
        path = tmp_path / f"{seed}.txt"
        dump_svmlight_file(X, y, str(path), zero_based=zero_based, query_id=ids, comment="two\nlines: 3:4 #")
        for mode in ("auto", zero_based):
            options = dict(dtype=dtype, zero_based=mode, query_id=query_id)
            expected = load_svmlight_file(path, **options)
            assert_same(read_svmlight(path, **options), expected)
            assert_same(read_svmlight(path, n_jobs=2, **options), expected)
            for part_bytes in (1, 100, 5000):
                assert_same(read(path.read_bytes(), part_bytes, n_threads=3, **options), expected)


TEXTS = (
    b"1\n",
    b"1",
    b"1 1:2",
    b"-1 3:4\n+1 1:+2 7:-3\n",
    b"1 0:4\n2 5:1\n",
    b"1\t1:2  3:4 \t \n\n \n2   \n",
    b"\r\n1 1:2\r\n2 1:3 \r\n",
    b"# only 1:2 comment\n1 1:2 # c 7:8\n#\n2#\n3 #x\n4 2:3#4:5\n",
    b"1 qid:7 1:2\n2 qid:8 1:3 2:4\n",
    b"1 qid:-7\n2 qid:+8 # 1:3\n",
    b"1 1:0 2:-0 3:0.0 4:00.500 5:5. 6:.5 7:1e3 8:1E-3 9:1e+3\n",
    b"1e2 0001:1\n-.5 2:2\n",
    b"1 1:1\x0b2:2\x0c3:3\n",
    b"1 1:1e-400 2:4.9e-324 3:2e-324 4:1.7976931348623157e308\n",
    b"1 1:0."
    + b"0" * 60
    + b"1 2:"
    + b"1" * 60
    + b" 3:0."
    + b"3" * 60
    + b" 4:0.00000000000000000000 5:"
    + b"0" * 500
    + b"7\n",
    b"1 12345678:1 123456789:2 2147483646:3\n",
    b"\n".join(b"%d 1:%d" % (i, i) for i in range(300)),
)


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: repr(text[:20]))
def test_reads_every_form_as_scikit_learn(text):
    for dtype, query_id in product(DTYPES, (False, True)):
        if query_id and b"qid" not in text:
            continue
        if dtype == np.float32 and (b"e308" in text or b"1" * 60 in text):
            continue  # refused; scikit-learn gives inf
        options = dict(dtype=dtype, query_id=query_id)
        expected = load_svmlight_file(io.BytesIO(text), **options)
        for part_bytes in (1, 3, 20, 1 << 20):
            assert_same(read(text, part_bytes, **options), expected)


def test_a_byte_order_mark_is_left_out():
    assert_same(read(b"\xef\xbb\xbf1 1:2\n"), read(b"1 1:2\n"))


def test_n_features_may_be_larger():
    X, _ = read(b"1 1:2\n", n_features=10)
    assert X.shape == (1, 10)
    assert read(b"1 10:2\n", n_features=10)[0].shape == (1, 10)
    assert read(b"1 9:2\n", n_features=10, zero_based=True)[0].shape == (1, 10)


def test_one_based_is_the_answer_without_an_index_of_zero():
    assert read(b"1 1:2 3:4\n")[0].indices.tolist() == [0, 2]
    assert read(b"1 1:2 3:4\n2 0:1\n", part_bytes=1)[0].indices.tolist() == [1, 3, 0]
    assert read(b"1 1:2 3:4\n", zero_based=True)[0].indices.tolist() == [1, 3]


def test_X_is_canonical_csr_of_int32():
    X, y = read(b"2 1:2 3:4\n1 qid:3 5:0\n")
    assert isinstance(X, sp.csr_array)
    assert X.indices.dtype == X.indptr.dtype == np.int32
    assert sp.csr_array((X.data, X.indices, X.indptr), shape=X.shape).has_canonical_format
    assert y.dtype == np.float64


@pytest.mark.parametrize(("index", "wide"), [(2**31 - 1, True), (2**31 - 2, False), (3 * 10**9, True), (10**17, True)])
def test_large_indices_are_int64(index, wide):
    text = b"1 1:5 7:6\n2 %d:2.5 %d:3\n3\n" % (index - 1, index)
    for part_bytes, n_threads, dtype in product((1, 1 << 20), (1, 2), DTYPES):
        X, _ = read(text, part_bytes, n_threads, dtype=dtype)
        assert X.indices.dtype == X.indptr.dtype == (np.int64 if wide else np.int32)
        assert X.shape == (3, index)
        assert X.indices.tolist() == [0, 6, index - 2, index - 1]
        assert X.data.tolist() == [5, 6, 2.5, 3]
        assert X.indptr.tolist() == [0, 2, 4, 4]


def test_n_features_beyond_int32_gives_int64():
    X, _ = read(b"1 1:5\n", n_features=2**40)
    assert X.shape == (1, 2**40)
    assert X.indices.dtype == X.indptr.dtype == np.int64


# Numbers, against Python's float


def values_of(texts, dtype=np.float64):
    X, _ = read(b"0\n" + b"".join(b"0 1:%s\n" % text.encode() for text in texts), dtype=dtype)
    return X.data


def assert_exact(texts):
    expected = np.array([float(text) for text in texts])
    assert values_of(texts).tobytes() == expected.tobytes()
    single = expected[np.abs(expected) < 3e38].astype(np.float32)
    small = [text for text, value in zip(texts, expected, strict=True) if abs(value) < 3e38]
    assert values_of(small, np.float32).tobytes() == single.tobytes()


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite)
@example(5e-324)
@example(2.2250738585072014e-308)
@example(-0.0)
def test_every_way_to_write_a_float_is_read_exactly(x):
    ways = [f"{x!r}", f"{x:.17g}", f"{x:.16g}", f"{x:.18e}", f"{x:.25e}", f"{x:.9g}", f"{x:.6f}", f"{x:E}"]
    assert_exact([way for way in ways if math.isfinite(float(way))])


@given(st.integers(0, 10**22), st.integers(-80, 80), st.integers(0, 25), st.sampled_from(["", "+", "-"]))
def test_every_decimal_is_read_exactly(number, exponent, point, sign):
    digits = str(number).rjust(point + 1, "0")
    split = len(digits) - point
    assert_exact([f"{sign}{digits[:split]}.{digits[split:]}e{exponent}", f"{sign}{digits[:split]}.{digits[split:]}"])


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


# Parts and threads


@given(st.integers(0, 2**32), st.integers(1, 400), st.integers(1, 3))
def test_parts_and_threads_change_nothing(seed, part_bytes, n_threads):
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(rng.integers(1, 40)):
        columns = np.flatnonzero(rng.random(30) < rng.random())
        entries = " ".join(f"{j + 1}:{float(rng.choice([0, 1, rng.normal(), 1e-30]))!r}" for j in columns.tolist())
        kind = rng.choice(["plain", "plain", "query", "comment", "blank", "only comment"])
        lines += {
            "plain": [f"{rng.integers(5)} {entries}"],
            "query": [f"{rng.integers(5)} qid:{rng.integers(99)} {entries}"],
            "comment": [f"1 {entries} # 5:6 and a: lot: of: colons"],
            "blank": ["  ", ""],
            "only comment": ["# 1:2 3:4"],
        }[str(kind)]
    text = ("\n".join(["1 2:3", *lines]) + "\n" * int(rng.integers(2))).encode()
    assert_same(read(text, part_bytes, n_threads), load_svmlight_file(io.BytesIO(text)))


def test_parts_begin_and_end_with_lines():
    text = b"1 1:2\n\n2 2:3\n3"
    for part_bytes in range(1, 20):
        cuts = svmlight._core.svmlight_cuts(np.frombuffer(text, np.uint8), part_bytes).tolist()
        assert cuts[0] == 0
        assert cuts[-1] == len(text)
        assert all(text[cut - 1 : cut] == b"\n" for cut in cuts[1:-1])
        assert all(begin < end for begin, end in pairwise(cuts))


def test_what_the_core_is_given_is_checked():
    text = np.frombuffer(b"1 1:2\n", np.uint8)
    ends, labels, no_ids = np.empty(1, np.int32), np.empty(1), np.empty(0, np.int64)
    values, indices = np.empty(1), np.empty(1, np.int32)

    def core(begin=0, end=6, values=values, ends=ends, ids=no_ids, first_entry=0, first_index=1):
        arguments = (text, begin, end, values, indices, ends, labels, ids, first_entry, first_index, False)
        return svmlight._core.read_svmlight_part(*arguments)

    assert not core().is_faulty
    for begin, end in ((-1, 6), (0, 7), (4, 3)):
        with pytest.raises(IndexError, match="no such part"):
            core(begin, end)
    for wrong in (
        dict(values=np.empty(2)),
        dict(ends=np.empty(2, np.int32)),
        dict(ids=np.empty(2, np.int64)),
        dict(first_index=2),
        dict(first_entry=-1),
    ):
        with pytest.raises(ValueError, match=r"differ|first"):
            core(**wrong)
    # Arrays that are too small, as they are if the file grows in between: a fault, not a write behind their end.
    indices = np.empty(0, np.int32)
    found = core(values=np.empty(0))
    assert found.is_faulty
    assert "the file has changed" in found.fault
    ends, labels = np.empty(0, np.int32), np.empty(0)
    assert "the file has changed" in core(values=np.empty(0), ends=ends).fault


# Errors

FAULTS = (
    (b"1 3:abc", "'3:abc' is not index:value (the value is no number)"),
    (b"1 3:", "'3:' is not index:value (the value is missing)"),
    (b"1 3: 4", "'3:' is not index:value (the value is missing)"),
    (b"1 3", "'3' is not index:value (there is no colon)"),
    (b"1 x", "'x' is not index:value (there is no colon)"),
    (b"1 a:1", "'a:1' is not index:value (the index is no whole number)"),
    (b"1 :1", "':1' is not index:value (the index is no whole number)"),
    (b"1 1.5:1", "'1.5:1' is not index:value (the index is no whole number)"),
    (b"1 -3:1", "'-3:1' is not index:value (the index is negative)"),
    (b"1 1234567890123456789:1", "'1234567890123456789:1' is not index:value (the index has more than 18 digits)"),
    (b"1 2:1 2:1", "'2:1' comes after an index that is as large or larger (the indices of a line must increase)"),
    (b"1 2:1 1:1", "'1:1' comes after an index that is as large or larger (the indices of a line must increase)"),
    (b"1 0:1 0:2", "'0:2' comes after an index that is as large or larger (the indices of a line must increase)"),
    (b"1 2:nan", "'2:nan' is not index:value (the value is not finite)"),
    (b"1 2:-inf", "'2:-inf' is not index:value (the value is not finite)"),
    (b"1 2:Infinity", "'2:Infinity' is not index:value (the value is not finite)"),
    (b"1 2:1e309", "'2:1e309' is not index:value (the value is too large for the dtype)"),
    (b"1 2:1" + b"0" * 400, f"'2:1{'0' * 37}...' is not index:value (the value is too large for the dtype)"),
    (b"1 2:1:3", "'2:1:3' is not index:value (the value is no number)"),
    (b"1 2:1_0", "'2:1_0' is not index:value (the value is no number)"),
    (b"1 2:0x1", "'2:0x1' is not index:value (the value is no number)"),
    (b"1 2:--1", "'2:--1' is not index:value (the value is no number)"),
    (b"1 2:+-1", "'2:+-1' is not index:value (the value is no number)"),
    (b"1 2:.", "'2:.' is not index:value (the value is no number)"),
    (b"1 2:1e", "'2:1e' is not index:value (the value is no number)"),
    (b"1 2:1e+", "'2:1e+' is not index:value (the value is no number)"),
    (b"1 2:1,5", "'2:1,5' is not index:value (the value is no number)"),
    (b"1 2:1;3:4", "'2:1;3:4' is not index:value (the value is no number)"),
    (b"1 2:1\x00", "'2:1\\x00' is not index:value (the value is no number)"),
    (b"1 2:\xff", "'2:\\\\xff' is not index:value (the value is no number)"),
    ("1 2:½".encode(), "'2:½' is not index:value (the value is no number)"),
    (b"a 1:2", "'a' is no label (a number is expected)"),
    (b"1-2 1:2", "'1-2' is no label (a number is expected)"),
    (b"nan 1:2", "'nan' is no label (a finite number is expected)"),
    (b"-inf 1:2", "'-inf' is no label (a finite number is expected)"),
    (b"1e999 1:2", "'1e999' is no label (it is beyond the range of float64)"),
    (b"3:4 5:6", "'3:4' stands where the label should be (a line begins with its label)"),
    (b"qid:3 5:6", "'qid:3' stands where the label should be (a line begins with its label)"),
    (b"1,2 3:4", "'1,2' is more than one label; sklearn.datasets.load_svmlight_file(..., multilabel=True)"),
    (b"1 qid:x 1:2", "'qid:x' is not qid:N (a whole number is expected)"),
    (b"1 qid: 1:2", "'qid:' is not qid:N (a whole number is expected)"),
    (b"1 qid:1.5", "'qid:1.5' is not qid:N (a whole number is expected)"),
    (b"1 qid:9223372036854775808", "'qid:9223372036854775808' is not qid:N (a whole number is expected)"),
    (b"1 1:2 qid:3", "'qid:3' is in the wrong place (qid:N comes straight after the label, once)"),
    (b"1 qid:3 qid:3", "'qid:3' is in the wrong place (qid:N comes straight after the label, once)"),
)


@pytest.mark.parametrize(("line", "message"), FAULTS, ids=[repr(line[:30]) for line, _ in FAULTS])
def test_faults_are_named_with_file_line_and_token(tmp_path, line, message):
    before = b"# 1:2\n1 1:1\n\n2 2:2 # x\n"
    for number, text in (
        (1, line),
        (1, line + b"\n1 1:1\n"),
        (5, before + line),
        (5, before + line + b" # 1:1\r\n1 1:bad\n"),
    ):
        for part_bytes, n_threads in ((1, 1), (1, 3), (30, 2), (1 << 20, 1)):
            with pytest.raises(SvmlightFormatError, match=f"^{re.escape(f'data.txt, line {number}: {message}')}"):
                read(text, part_bytes, n_threads)
    path = tmp_path / "data.svm"
    path.write_bytes(before + line)
    with pytest.raises(ValueError, match=re.escape(f"{path}, line 5: {message}")):
        read_svmlight(path)


@pytest.mark.parametrize(
    ("options", "line", "message"),
    [
        (
            dict(zero_based=False),
            b"1 0:2",
            "data.txt, line 2: '0:2' has index 0, but zero_based=False says that indices begin with 1",
        ),
        (
            dict(query_id=True),
            b"1 7:2",
            "data.txt, line 2: '7:2' stands where qid:N should be (query_id=True asks for it in every line)",
        ),
        (
            dict(query_id=True),
            b"1",
            "data.txt, line 2: the end of the line stands where qid:N should be "
            "(query_id=True asks for it in every line)",
        ),
        (
            dict(dtype=np.float32),
            b"1 1:3.5e38",
            "data.txt, line 2: '1:3.5e38' is not index:value (the value is too large for the dtype)",
        ),
        (
            dict(n_features=2),
            b"1 3:1",
            "data.txt: the largest index is 3, one-based, so there are at least 3 features, but n_features=2",
        ),
        (
            dict(n_features=2, zero_based=True),
            b"1 3:1",
            "data.txt: the largest index is 3, zero-based, so there are at least 4 features, but n_features=2",
        ),
    ],
)
def test_faults_that_depend_on_options(options, line, message):
    with pytest.raises(SvmlightFormatError, match=f"^{re.escape(message)}$"):
        read(b"1 qid:3 1:1\n" + line + b"\n", **options)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "data.txt: the file is empty"),
        (b"\xef\xbb\xbf", "data.txt: the file is empty"),
        (b"\n \r\n# 1 1:2\n", "data.txt: nothing but blank lines and comments"),
        (b"#", "data.txt: nothing but blank lines and comments"),
    ],
)
def test_a_file_without_examples_is_an_error(text, message):
    for part_bytes in (1, 1 << 20):
        with pytest.raises(SvmlightFormatError, match=f"^{message}$"):
            read(text, part_bytes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(dtype=np.int32), "dtype must be float32 or float64"),
        (dict(dtype=np.float16), "dtype must be float32 or float64"),
        (dict(zero_based="yes"), "zero_based must be True, False or 'auto', got 'yes'"),
        (dict(zero_based=1), "zero_based must be True, False or 'auto', got 1"),
        (dict(n_features=0), "n_features must be None or a whole number of at least 1, got 0"),
        (dict(n_features=2.5), "n_features must be None or a whole number of at least 1, got 2.5"),
        (dict(n_features=2**63), "n_features must be None or a whole number of at least 1"),
        (dict(n_jobs=0), "n_jobs must be None, which is one thread, or a whole number other than 0, got 0"),
        (dict(n_jobs=1.5), "n_jobs must be None"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read_svmlight(io.BytesIO(b"1 1:1\n"), **options)


DAMAGE = (b":", b"\n", b"9" * 20, b"#", b" ", b"-", b".", b"e", b"\x00", b"qid:")


@settings(max_examples=300)
@given(st.data())
def test_damage_is_an_error_or_arrays_but_never_a_crash(data):
    text = bytearray(b"1 qid:3 1:0.25 17:-3e5 # c\n\n-1 2:12345678.87654321 3:4\r\n2.5\n+3 1:1 1000:7")
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        change = data.draw(st.sampled_from(["set", "insert", "cut", "repeat"]))
        if change == "set":
            text[at] = data.draw(st.integers(0, 255))
        elif change == "insert":
            text[at:at] = data.draw(
                st.sampled_from([b":", b"\n", b"9" * 20, b"#", b" ", b"-", b".", b"e", b"\x00", b"qid:"])
            )
        elif change == "cut":
            del text[at + 1 :]
        else:
            text += text[at:]
    results = []
    for part_bytes, n_threads in ((1, 1), (9, 2), (1 << 20, 1)):
        try:
            X, y = read(bytes(text), part_bytes, n_threads)
        except SvmlightFormatError as error:
            results.append(str(error))
        else:
            svmlight.check_sparse(X)
            assert np.isfinite(X.data).all()
            assert np.isfinite(y).all()
            results.append((X.data.tobytes(), X.indices.tobytes(), X.indptr.tobytes(), y.tobytes(), X.shape))
    assert len(set(results)) == 1


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_never_crash(content):
    try:
        X, y = read_svmlight(io.BytesIO(content))
    except SvmlightFormatError:
        return
    assert X.shape[0] == len(y) > 0


# Where it comes from

CONTENT = b"1 1:0.5 3:2\n2 2:1\n"


def packed(content, suffix):
    return {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[suffix](content)


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz"])
def test_every_source_gives_the_same(tmp_path, suffix):
    expected = read(CONTENT)
    content = packed(CONTENT[:12], suffix) + packed(CONTENT[12:], suffix)  # two members, one after the other
    named, unnamed = tmp_path / f"data.txt{suffix}", tmp_path / "data"
    named.write_bytes(content)
    unnamed.write_bytes(content)
    assert_same(read_svmlight(named), expected)
    assert_same(read_svmlight(str(named)), expected)
    assert_same(read_svmlight(unnamed), expected)
    assert_same(read_svmlight(io.BytesIO(content)), expected)
    for buffering in (-1, 0):
        with open(unnamed, "rb", buffering=buffering) as file:
            assert_same(read_svmlight(file), expected)
            assert not file.closed
    descriptor = os.open(unnamed, os.O_RDONLY)
    try:
        assert_same(read_svmlight(descriptor), expected)
        with pytest.raises(SvmlightFormatError, match=f"file descriptor {descriptor}: the file is empty"):
            read_svmlight(descriptor)  # open still, and read to its end
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_pipe(suffix):
    out, into = os.pipe()

    def feed():
        with open(into, "wb") as file:
            file.write(packed(CONTENT, suffix))

    writer = threading.Thread(target=feed)
    writer.start()
    try:
        assert_same(read_svmlight(out), read(CONTENT))
    finally:
        writer.join()
        os.close(out)


def test_open_files_are_read_from_where_they_are(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"what is this\n" + CONTENT)
    with open(path, "rb") as file:
        file.readline()
        assert_same(read_svmlight(file), read(CONTENT))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.lseek(descriptor, 13, os.SEEK_SET)
        assert_same(read_svmlight(descriptor), read(CONTENT))
    finally:
        os.close(descriptor)


def test_a_stream_that_unpacks_itself(tmp_path):
    path = tmp_path / "data.gz"
    path.write_bytes(packed(CONTENT, ".gz"))
    with gzip.open(path) as stream:
        assert_same(read_svmlight(stream), read(CONTENT))


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz"])
def test_broken_compressed_files(tmp_path, suffix):
    content = packed(b"1 1:2\n" * 1000, suffix)
    path = tmp_path / f"data{suffix}"
    for broken in (content[: len(content) // 2], content[:20] + b"????" + content[24:]):
        path.write_bytes(broken)
        with pytest.raises(SvmlightFormatError, match=f"^{re.escape(str(path))}: broken (gzip|bzip2|xz) data: "):
            read_svmlight(path)
    path.write_bytes(CONTENT)
    with pytest.raises(SvmlightFormatError, match=r"no (gzip|bzip2|xz) data, although its name ends with \."):
        read_svmlight(path)


def test_what_is_no_file():
    with pytest.raises(FileNotFoundError, match="missing"):
        read_svmlight("missing.txt")
    with pytest.raises(TypeError, match=r"binary mode \('rb'\), but gives str"):
        read_svmlight(io.StringIO("1 1:2\n"))
    for wrong in (None, 1.5, True, [1]):
        with pytest.raises(TypeError, match="a path, a file descriptor or a binary file object is needed"):
            read_svmlight(wrong)


def test_a_file_may_be_deleted_while_its_arrays_live(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(CONTENT)
    X, y = read_svmlight(path)
    path.unlink()
    assert_same((X, y), read(CONTENT))


PROGRAM = """
import os, signal, sys, threading, time
from multimargin.data.svmlight import read_svmlight
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    for _ in range(1000):
        read_svmlight(sys.argv[1], n_jobs=int(sys.argv[2]))
    print("read to the end")
except KeyboardInterrupt:
    print("interrupted", sum(thread.name.startswith("ThreadPool") for thread in threading.enumerate()))
"""


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c(tmp_path, n_jobs):
    path = tmp_path / "data"
    path.write_bytes(b"1 1:0.123456789 2:0.5 3:0.25 4:123\n" * 1_000_000)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, path, str(n_jobs)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "interrupted 0\n"


# Writing


def round_trip(tmp_path, X, y, **options):
    path = tmp_path / "written"
    write_svmlight(path, X, y, **options)
    read_options = dict(query_id=True) if "query_id" in options else {}
    dtype = X.dtype if X.dtype == np.float32 else np.float64
    zero_based = options.get("zero_based", "auto")
    return read_svmlight(path, n_features=X.shape[1], dtype=dtype, zero_based=zero_based, **read_options)


@pytest.mark.parametrize("zero_based", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (200, 1), (37, 50)])
def test_what_is_written_reads_back(tmp_path, shape, dtype, zero_based):
    for density in (0.0, 0.1, 1.0):
        X = random_matrix(*shape, density, dtype=dtype)
        y = np.random.default_rng(0).normal(size=shape[0])
        expected = sp.csr_array(X), y
        for given_as in (
            X,
            np.asfortranarray(X),
            X[:, ::-1][:, ::-1],
            sp.csr_array(X),
            sp.csc_matrix(X),
            sp.coo_array(X),
        ):
            assert_same(round_trip(tmp_path, given_as, y, zero_based=zero_based), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_floats_of_all_magnitudes_read_back(tmp_path_factory, dtype, data):
    bits = np.uint32 if dtype == np.float32 else np.uint64
    drawn = data.draw(st.lists(st.integers(0, np.iinfo(bits).max), min_size=1, max_size=20))
    values = np.array(drawn, bits).view(dtype)
    values = values[np.isfinite(values)]
    X = sp.csr_array((values, np.arange(len(values)), [0, len(values)]), shape=(1, len(values) + 1))
    y = data.draw(finite)
    assert_same(round_trip(tmp_path_factory.getbasetemp(), X, np.array([y])), (X, np.array([y])))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_million_random_bit_patterns_read_back(tmp_path, dtype):
    """And denormals, which are few among them."""
    bits = np.uint32 if dtype == np.float32 else np.uint64
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, np.iinfo(bits).max, 1_000_000, dtype=bits, endpoint=True)
    values = patterns.view(dtype)
    denormals = (patterns[:10_000] & bits(np.finfo(dtype).smallest_normal.view(bits) - 1)).view(dtype)
    values = np.concatenate([values[np.isfinite(values)], denormals])[:1_000_000].reshape(1000, 1000)
    X = sp.csr_array((values.ravel(), np.tile(np.arange(1000), 1000), 1000 * np.arange(1001)), shape=values.shape)
    assert_same(round_trip(tmp_path, X, np.arange(1000.0)), (X, np.arange(1000.0)))


def test_query_ids_and_comments(tmp_path):
    X, y = sp.csr_array(random_matrix(9, 4, 0.5)), np.arange(9) % 3
    ids = np.array([-1, 0, 1, 2**62, -(2**63), 5, 6, 7, 2**63 - 1])
    found = round_trip(tmp_path, X, y, query_id=ids, comment="Ünï: 1:2\nsecond # line\r\n\nlast")
    assert_same(found, (X, y.astype(float), ids))
    text = (tmp_path / "written").read_text(encoding="utf-8")
    assert text.startswith("# Ünï: 1:2\n# second # line\n# \n# last\n0 qid:-1 ")


def test_the_text(tmp_path):
    path = tmp_path / "data"
    X = np.array([[1, 0.1, -2.5e-7, 100000, 0], [0, 0, 0, 0, 0], [1e22, 123456789.5, -3, 1e15, 5e-324]])
    for y in ([1, -2, 100000], [1.0, -2.0, 100000.0], np.array([1, -2, 100000], ">i4")):
        write_svmlight(path, X, y)
        assert path.read_bytes() == (
            b"1 1:1 2:0.1 3:-2.5e-07 4:100000\n-2\n100000 1:1e+22 2:123456789.5 3:-3 4:1e+15 5:5e-324\n"
        )
    write_svmlight(path, np.float32([[0.1, 16777216, 1e10]]), [True], zero_based=True)
    assert path.read_bytes() == b"1 0:0.1 1:16777216 2:1e+10\n"


def test_stored_zeros_stay(tmp_path):
    X = sp.csr_array(([0.0, -0.0, 1.0], [0, 2, 3], [0, 3]), shape=(1, 5))
    found = round_trip(tmp_path, X, [1])
    assert_same(found, (X, np.ones(1)))


def test_unsorted_and_duplicate_entries_are_put_in_order(tmp_path):
    X = sp.csr_array(([1.0, 2.0, 3.0], [2, 0, 2], [0, 3]), shape=(1, 3))
    (found, _) = round_trip(tmp_path, X, [1])
    assert found.toarray().tolist() == [[2, 0, 4]]
    assert X.indices.tolist() == [2, 0, 2]


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint16, np.int64, np.uint64, np.float16, ">f8", ">f4"])
def test_other_types_of_numbers(tmp_path, dtype):
    X = np.array([[0, 1, 1], [1, 0, 0]]).astype(dtype)
    path = tmp_path / "data"
    for given_as in (X, X.tolist()):
        write_svmlight(path, given_as, X[:, 0])
        assert path.read_bytes() == b"0 2:1 3:1\n1 1:1\n"


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".GZ"])
def test_compressed_by_the_name(tmp_path, suffix):
    path = tmp_path / f"data{suffix}"
    X, y = sp.csr_array(random_matrix(500, 20, 0.5)), np.zeros(500)
    write_svmlight(path, X, y)
    plain = tmp_path / "plain"
    write_svmlight(plain, X, y)
    assert path.stat().st_size < plain.stat().st_size
    assert_same(read_svmlight(path), (X, y))


def test_scikit_learn_reads_it(tmp_path):
    X, y = sp.csr_array(random_matrix(30, 8, 0.6)), np.random.default_rng(0).normal(size=30)
    write_svmlight(tmp_path / "data", X, y, query_id=np.arange(30))
    assert_same(load_svmlight_file(tmp_path / "data", n_features=8, query_id=True), (X, y, np.arange(30)))


@pytest.mark.parametrize(
    ("X", "y", "options", "message"),
    [
        ([[1.0, np.nan]], [1], {}, "row 0 has a label or value that is not finite"),
        (sp.csr_array([[0.0], [np.inf]]), [1, 2], {}, "row 1 has a label or value that is not finite"),
        ([[1.0], [2.0]], [1, np.inf], {}, "row 1 has a label or value that is not finite"),
        ([[1.0]], [1, 2], {}, "y must have one entry for each of the 1 rows of X, got shape (2,)"),
        ([[1.0]], [[1]], {}, "y must have one entry for each of the 1 rows of X, got shape (1, 1)"),
        ([[1.0]], ["a"], {}, "y must hold numbers, got dtype"),
        ([[1.0]], [2**53 + 1], {}, "y has whole numbers beyond 2**53"),
        ([[-(2**53) - 1]], [1], {}, "X has whole numbers beyond 2**53"),
        ([1.0, 2.0], [1, 2], {}, "X must have two dimensions, got shape (2,)"),
        ([["a"]], [1], {}, "X must hold numbers, float32 or float64, got dtype"),
        ([[1j]], [1], {}, "X must hold numbers, float32 or float64, got dtype"),
        (np.ones((1, 1), np.longdouble), [1], {}, "X must hold numbers, float32 or float64, got dtype"),
        (np.ones((0, 1)), [], {}, "X has no rows"),
        ([[1.0]], [1], dict(query_id=[1, 2]), "query_id must have one entry for each of the 1 rows"),
        ([[1.0]], [1], dict(query_id=[1.5]), "query_id must hold whole numbers, got dtype float64"),
        ([[1.0]], [1], dict(query_id=np.array([2**63], np.uint64)), "query_id must fit into int64"),
    ],
)
def test_what_cannot_be_written(tmp_path, X, y, options, message):
    path = tmp_path / "data"
    path.write_text("as it was")
    with pytest.raises(ValueError, match=re.escape(message)):
        write_svmlight(path, X, y, **options)
    assert path.read_text() == "as it was"
    assert [file.name for file in tmp_path.iterdir()] == ["data"]


def test_broken_matrices_are_refused(tmp_path):
    X = sp.csr_array(np.eye(3))
    X.indices[1] = 7
    with pytest.raises(ValueError, match="broken CSR matrix"):
        write_svmlight(tmp_path / "data", X, [1, 2, 3])


def test_files_keep_their_permissions_and_links(tmp_path):
    path, link = tmp_path / "data", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_svmlight(link, [[1.0]], [1])
    assert link.is_symlink()
    assert path.read_text() == "1 1:1\n"
    assert path.stat().st_mode & 0o777 == 0o640
    (tmp_path / "touched").touch()
    write_svmlight(tmp_path / "new", [[1.0]], [1])
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "touched").stat().st_mode


def test_folders_and_missing_folders(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"):
        write_svmlight(tmp_path, [[1.0]], [1])
    with pytest.raises(FileNotFoundError, match="is not a folder; make it first"):
        write_svmlight(tmp_path / "missing" / "data", [[1.0]], [1])


def test_a_pipe_stays_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    told = []
    reader = threading.Thread(target=lambda: told.append(path.read_bytes()))
    reader.start()
    write_svmlight(path, [[1.0]], [1])
    reader.join()
    assert told == [b"1 1:1\n"]
    assert path.is_fifo()
