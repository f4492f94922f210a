"""Writing svmlight text: what is written reads back; what cannot be is refused, and nothing is left behind."""

import os
import re
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from multimargin.data.svmlight import read_svmlight
from multimargin.data.svmlight_writing import write_svmlight
from tests.data.texts import DTYPES, assert_same, fast, finite, random_matrix


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
@fast
@given(data=st.data())
def test_floats_of_all_magnitudes_read_back(tmp_path_factory, dtype, data):
    bits = np.uint32 if dtype == np.float32 else np.uint64
    drawn = data.draw(st.lists(st.integers(0, np.iinfo(bits).max), min_size=1, max_size=20))
    values = np.array(drawn, bits).view(dtype)
    values = values[np.isfinite(values)]
    X = sp.csr_array((values, np.arange(len(values)), [0, len(values)]), shape=(1, len(values) + 1))
    y = data.draw(finite)
    assert_same(round_trip(tmp_path_factory.getbasetemp(), X, np.array([y])), (X, np.array([y])))


def test_a_float32_whose_shortest_form_is_read_as_its_neighbour(tmp_path):
    """Its seven digits are a float64 that is halfway to the next float32."""
    value = np.array([0x15AE43FD], np.uint32).view(np.float32)
    assert str(value[0]) == "7.038531e-26"
    assert np.float32(7.038531e-26) != value[0]
    X = sp.csr_array(value[None, :])
    assert_same(round_trip(tmp_path, X, np.zeros(1)), (X, np.zeros(1)))


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
