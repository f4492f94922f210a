"""Reading svmlight text: against scikit-learn's reader, in any parts, and against damage of all kinds."""

import io
import re
import subprocess
import sys
from itertools import pairwise, product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from multimargin.data import svmlight
from multimargin.data.rows import check_sparse
from multimargin.data.svmlight import SvmlightFormatError, read_svmlight, read_svmlight_rows
from tests.data.texts import DTYPES, assert_same, fast, random_matrix, read

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


# Parts and threads


@fast
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
    (b"-1,2 3:4", "'-1,2' is more than one label; sklearn.datasets"),
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


@settings(fast, max_examples=300)
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
            check_sparse(X)
            assert np.isfinite(X.data).all()
            assert np.isfinite(y).all()
            results.append((X.data.tobytes(), X.indices.tobytes(), X.indptr.tobytes(), y.tobytes(), X.shape))
    assert len(set(results)) == 1


@fast
@given(st.binary(max_size=200))
def test_bytes_of_any_kind_never_crash(content):
    try:
        X, y = read_svmlight(io.BytesIO(content))
    except SvmlightFormatError:
        return
    assert X.shape[0] == len(y) > 0


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
        [sys.executable, "-c", PROGRAM, path, str(n_jobs)], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "interrupted 0\n"


def test_query_ids_are_given_only_when_asked_for():
    text = b"1 qid:7 1:2\n2 qid:8 1:3\n"
    assert len(read_svmlight_rows(io.BytesIO(text))) == len(read_svmlight(io.BytesIO(text))) == 2
    assert read_svmlight_rows(io.BytesIO(text), query_id=True)[2].tolist() == [7, 8]
