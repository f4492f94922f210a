"""Generated rows with many classes, which are neither easy nor hopeless to tell apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

FAMILY = 10  # classes that share most of their typical features
SHARED, OWN = 0.6, 0.3  # share of a row's non-zeros that are typical of its family, of its class; the rest is noise
SPARE = 1.1  # typical features, in those that a row shows
MISLABELLED = 0.2  # as a class of the same family


class Shape(NamedTuple):
    """Rows, features, non-zeros in a row, classes."""

    examples: int
    features: int
    nonzeros: int
    classes: int


def generate(shape: Shape, seed: int = 0) -> tuple[sp.csr_array, np.ndarray]:
    """Unit-length sparse rows, and their labels."""
    random = np.random.default_rng(seed)
    y = random.permutation(np.arange(shape.examples) % shape.classes)
    shared, own = round(SHARED * shape.nonzeros), round(OWN * shape.nonzeros)
    of_family = random.integers(shape.features, size=(-(-shape.classes // FAMILY), int(SPARE * shared)))
    of_class = random.integers(shape.features, size=(shape.classes, int(SPARE * own)))

    def some(typical: np.ndarray, n: int) -> np.ndarray:
        which = random.random(typical.shape).argpartition(n - 1, axis=1)[:, :n]
        return np.take_along_axis(typical, which, axis=1)

    noise = random.integers(shape.features, size=(shape.examples, shape.nonzeros - shared - own))
    columns = np.hstack([some(of_family[y // FAMILY], shared), some(of_class[y], own), noise])
    rows = np.repeat(np.arange(shape.examples), shape.nonzeros)
    values = random.uniform(0.5, 1.5, columns.size)
    X = sp.csr_array((values, (rows, columns.ravel())), shape=(shape.examples, shape.features))
    length = np.sqrt(np.asarray(X.power(2).sum(axis=1)).ravel())
    X.data /= np.repeat(length, np.diff(X.indptr))
    wrong = random.random(shape.examples) < MISLABELLED
    other = y // FAMILY * FAMILY + random.integers(FAMILY, size=shape.examples)
    y[wrong] = np.minimum(other, shape.classes - 1)[wrong]
    return X, y


def embeddings(
    examples: int = 20_000, features: int = 768, classes: int = 150, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Dense unit-length rows as networks make them: few directions hold most of the squares, all share some."""
    random = np.random.default_rng(seed)
    strength = 1 / np.sqrt(1 + np.arange(features))
    y = random.integers(classes, size=examples)
    centre = random.normal(size=(classes, features))[y]
    X = strength * (0.9 * centre + 1.3 * random.normal(size=(examples, features)) + random.normal(size=features))
    return X / np.linalg.norm(X, axis=1, keepdims=True), y
