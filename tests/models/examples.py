"""Small models of every kind, and when two models are the same."""

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_digits

FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
KERNELS = ("rbf", "linear", "poly", "sigmoid", "precomputed")
WORDS = np.array(["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"])
LABELS = {
    "int64": lambda y: y,
    "int8": lambda y: (y - 5).astype(np.int8),
    "uint16": lambda y: y.astype(np.uint16),
    "float64": lambda y: y.astype(np.float64),
    "float32": lambda y: y.astype(np.float32) * 2,
    "bool": lambda y: y > 4,
    "str": lambda y: WORDS[y],
    "wide str": lambda y: WORDS[y].astype("U40"),
    "objects": lambda y: WORDS[y].astype(object),
}
X, Y = load_digits(return_X_y=True)
X, Y = X[:120] / 16, Y[:120]
STORAGES = {
    "dense": lambda X: X,
    "dense float32": lambda X: X.astype(np.float32),
    "sparse": lambda X: sp.csr_array(X),
    "sparse float32": lambda X: sp.csr_array(X.astype(np.float32)),
}


def same(a, b):
    """Whether two values are equal to the last bit, types included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return bool((a == b).all()) if a.dtype.kind == "O" else a.tobytes() == b.tobytes()
    if sp.issparse(a):
        return a.shape == b.shape and all(
            np.array_equal(getattr(a, part), getattr(b, part)) for part in ("data", "indices", "indptr")
        )
    return bool(a == b)


def assert_same_state(loaded, model):
    """All attributes, private ones included, are the same; the core's copy of weights follows from the others."""
    ours, theirs = ({name: value for name, value in vars(of).items() if name != "_W"} for of in (loaded, model))
    assert sorted(ours) == sorted(theirs)
    different = [name for name in theirs if not same(ours[name], theirs[name])]
    assert not different
