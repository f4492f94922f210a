"""How time and memory of a fit grow, on generated data. See README.md in this folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from compare import Report, progress
from datasets import Data
from peers import Problem, Worker, memory_of_ours, run_ours

OWN_FEATURES = 5  # of each class
SIGNAL = 0.4  # share of a row's non-zeros that are features of its class
MISLABELLED = 0.05


class Shape(NamedTuple):
    """Rows, features, non-zeros in a row, classes."""

    examples: int
    features: int
    nonzeros: int
    classes: int


BASE = Shape(examples=20_000, features=20_000, nonzeros=50, classes=20)
SWEEPS = {
    "examples": (5_000, 10_000, 20_000, 40_000, 80_000),
    "features": (5_000, 10_000, 20_000, 40_000, 80_000),
    "nonzeros": (12, 25, 50, 100, 200),
    "classes": (5, 10, 20, 50, 100, 200),
}
QUICK_BASE = Shape(examples=2_000, features=2_000, nonzeros=20, classes=10)
QUICK_SWEEPS = {"examples": (1_000, 2_000), "features": (2_000, 4_000), "nonzeros": (20, 40), "classes": (5, 10)}
MANY_CLASSES = Shape(examples=50_000, features=20_000, nonzeros=20, classes=10_000)


def generate(*sizes: int) -> Data:
    """Unit-length sparse rows that can be learnt: part of a row are features of its class, the rest is noise."""
    shape = Shape(*sizes)
    random = np.random.RandomState(0)
    y = random.permutation(np.arange(shape.examples) % shape.classes)
    n_signal = max(1, round(SIGNAL * shape.nonzeros))
    own = random.randint(shape.features, size=(shape.classes, OWN_FEATURES))
    signal = own[y[:, None], random.randint(OWN_FEATURES, size=(shape.examples, n_signal))]
    noise = random.randint(shape.features, size=(shape.examples, shape.nonzeros - n_signal))
    columns = np.hstack([signal, noise])
    rows = np.repeat(np.arange(shape.examples), shape.nonzeros)
    values = random.uniform(0.5, 1.5, columns.size)
    X = sp.csr_matrix((values, (rows, columns.ravel())), shape=(shape.examples, shape.features))
    length = np.sqrt(np.asarray(X.power(2).sum(axis=1)).ravel())
    X.data /= np.repeat(length, np.diff(X.indptr))
    wrong = random.choice(shape.examples, int(MISLABELLED * shape.examples), replace=False)
    y[wrong] = random.permutation(y[wrong])
    return Data("generated", X, y)
