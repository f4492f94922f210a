"""What the tests of svmlight text share: reading from memory, in parts of any size; comparing bit by bit."""

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from multimargin.data import svmlight

DTYPES = (np.float32, np.float64)
fast = settings(max_examples=100, deadline=None, derandomize=True, database=None)
finite = st.floats(allow_nan=False, allow_infinity=False)


def read(content, part_bytes=1 << 22, n_threads=1, **options):
    """As from a file of this content, cut into parts of this size."""
    defaults = dict(name="data.txt", n_features=None, dtype=np.float64, zero_based="auto", query_id=False)
    request = svmlight.Request(**{**defaults, **options}, n_threads=n_threads)
    text = np.frombuffer(bytearray(content), np.uint8)  # memory that ends where the text ends
    X, *rest = svmlight._read(text, request, part_bytes)
    return X.to_scipy(), *rest


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
