"""Data sets that scikit-learn brings along, by name: something to try without a file."""

from __future__ import annotations

import numpy as np

NAMES = ("digits", "iris")


def load_bundled(name: str) -> tuple[np.ndarray, np.ndarray]:
    """X and y; the pixels of the digits are scaled from 0..16 to 0..1."""
    if name not in NAMES:
        raise ValueError(f"there is no bundled data set {name!r}; there are {', '.join(NAMES)}")
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return (X / 16 if name == "digits" else X), y
