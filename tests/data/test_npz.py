"""X and y from .npz files: every layout gives the same rows, broken ones are refused by name."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from multimargin.data.npz import read_npz

DENSE = np.array([[0.0, 1.5, 0.0], [2.0, 0.0, -3.0]])
LABELS = np.array(["a", "b"])


def csr_parts(X, prefix=""):
    return {f"{prefix}{name}": value for name, value in zip(
        ("data", "indices", "indptr", "shape"), (X.data, X.indices, X.indptr, X.shape), strict=True
    )}  # fmt: skip


@pytest.mark.parametrize("layout", ["dense", "X_csr", "csr", "save_npz", "save_npz csc"])
def test_every_layout_gives_the_same_rows(tmp_path, layout):
    path = tmp_path / "x.npz"
    sparse = sp.csr_array(DENSE)
    if layout == "dense":
        np.savez(path, X=DENSE, y=LABELS)
    elif layout == "X_csr":
        np.savez_compressed(path, **csr_parts(sparse, "X_"), y=LABELS)
    elif layout == "csr":
        np.savez(path, **csr_parts(sparse), y=LABELS)
    else:
        sp.save_npz(path, sparse.tocsc() if layout.endswith("csc") else sparse)
    X, y = read_npz(path)
    assert sp.issparse(X) == (layout != "dense")
    np.testing.assert_array_equal(X.toarray() if sp.issparse(X) else X, DENSE)
    if layout.startswith("save_npz"):
        assert y is None
    else:
        np.testing.assert_array_equal(y, LABELS)


@pytest.mark.parametrize(
    ("given_type", "read_type"),
    [
        (np.float64, np.float64),
        (np.float32, np.float32),
        (np.uint8, np.float32),
        (np.int16, np.float32),
        (np.int32, np.float64),
        (np.int64, np.float64),
        (np.bool_, np.float32),
    ],
)
def test_numbers_become_floats_that_hold_them(tmp_path, given_type, read_type):
    np.savez(tmp_path / "x.npz", X=np.abs(DENSE).astype(given_type), y=LABELS)
    X, _ = read_npz(tmp_path / "x.npz")
    assert X.dtype == read_type
    np.testing.assert_array_equal(X, np.abs(DENSE).astype(given_type))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"X": np.ones(3), "y": LABELS}, "X has shape (3,); it must have rows and columns"),
        ({"X": DENSE, "y": np.ones((2, 2))}, "y has shape (2, 2); it must be one label a row"),
        ({"X": DENSE, "y": np.ones(3)}, "X has 2 rows, y has 3 labels"),
        ({"X": LABELS[:, None], "y": LABELS}, "X holds <U1, not numbers"),
        ({"X": DENSE + 1j, "y": LABELS}, "X holds complex128, not numbers"),
        ({"X": DENSE.astype(object), "y": LABELS}, "array 'X' holds Python objects"),
        ({"y": LABELS}, "has y; it needs X"),
        ({}, "has no arrays; it needs X"),
        (csr_parts(sp.csr_array(DENSE)) | {"shape": [2.5, 3.0]}, "shape is [2.5, 3.0]"),
        (csr_parts(sp.csr_array(DENSE)) | {"shape": [-1, 3]}, "shape is [-1, 3]"),
        (csr_parts(sp.csr_array(DENSE)) | {"shape": [2, 2]}, "outside 0..1"),
        (csr_parts(sp.csr_array(DENSE)) | {"indices": [0.5, 1.5, 2.5]}, "indices must be one row of integers"),
        (csr_parts(sp.csr_array(DENSE)) | {"indptr": [0, 9, 3]}, "CSR"),
        (csr_parts(sp.csr_array(DENSE)) | {"indptr": [0, 1, 99]}, "x.npz"),
        (csr_parts(sp.csr_array(DENSE)) | {"format": b"coo"}, "holds a sparse matrix in format 'coo'; save X.tocsr()"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(tmp_path, arrays, said):
    path = tmp_path / "x.npz"
    np.savez(path, **arrays)
    with pytest.raises(ValueError) as raised:
        read_npz(path)
    assert str(raised.value).startswith(f"{path}: ") and said in str(raised.value)


def test_a_single_array_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", DENSE)
    (tmp_path / "x.npy").rename(tmp_path / "x.npz")
    with pytest.raises(ValueError, match="holds a single array"):
        read_npz(tmp_path / "x.npz")


@given(cut=st.integers(0, 400), flip=st.integers(0, 400), value=st.integers(1, 255))
def test_damaged_files_are_value_errors_or_read(tmp_path_factory, cut, flip, value):
    """Never another exception, never a crash."""
    path = tmp_path_factory.mktemp("damaged") / "x.npz"
    np.savez(path, **csr_parts(sp.csr_array(DENSE)), y=np.array([1, 2]))
    whole = bytearray(path.read_bytes())
    whole[flip % len(whole)] ^= value
    path.write_bytes(whole[: len(whole) - cut])
    try:
        X, _ = read_npz(path)
    except ValueError as error:
        assert str(error).startswith(f"{path}: ")
    else:
        assert X.shape[1] >= 0
