"""Training as the commands do it: features of a table first, then the machine; and how good the result is."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from multimargin.commands.datasets import Dataset
from multimargin.commands.errors import CommandError
from multimargin.data.tables import labels_as
from multimargin.data.thread_pool import NoThreadsError
from multimargin.estimators.plain_linear import PlainLinearSVM


@dataclass
class Features:
    """What makes a matrix of the rows: the fitted transformer of a table, or nothing."""

    transformer: Any = None

    def __call__(self, data: Dataset) -> Any:
        if self.transformer is None:
            return data.X
        return self.transformer.transform(data.X)

    def with_machine(self, machine: Any) -> Any:
        """What is saved: the machine, or a pipeline that ends in it. Both are fitted already."""
        if self.transformer is None:
            return machine
        from sklearn.pipeline import Pipeline

        return Pipeline([("features", self.transformer), ("svm", machine)])


def learn_features(data: Dataset, args: Any) -> tuple[Features, Any]:
    """The features of training rows, and their matrix."""
    if data.columns is None:
        return Features(), data.X
    from multimargin.data.table_features import transformer

    fitted = transformer(data.columns, ngrams=tuple(args.ngrams), min_df=args.min_df)
    try:
        X = fitted.fit_transform(data.X)
    except ValueError as error:
        raise CommandError(f"{data.path}: {error}") from None
    return Features(fitted), X


@dataclass
class Fit:
    """How a training went."""

    seconds: float
    why_not: str = ""  # it did not converge, in the machine's words
    interrupted: bool = False  # by Ctrl-C


def fit(machine: Any, X: Any, y: np.ndarray | None, begun: Callable[[], None] | None = None) -> Fit:
    """Train. That it did not converge is not said here, but kept for the command to say.

    ``begun`` is called when nothing was refused.
    """
    try:
        return _fit(machine, X, y, begun)
    except NoThreadsError as error:
        raise no_threads(error) from None


def no_threads(error: NoThreadsError) -> CommandError:
    """With the option in the place of the parameter."""
    return CommandError(str(error).replace("n_jobs=1", "--n-jobs 1"))


def _fit(machine: Any, X: Any, y: np.ndarray | None, begun: Callable[[], None] | None) -> Fit:
    started = time.perf_counter()
    if isinstance(machine, PlainLinearSVM) and y is not None:  # stores, which have their labels, are not for it
        machine.fit(X, y)
        return Fit(time.perf_counter() - started, machine.why_not)
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(record=True) as caught, _telling(machine, begun):
        warnings.simplefilter("always", ConvergenceWarning)
        machine.fit(X, y)
    why_not = ""
    for warning in caught:
        if issubclass(warning.category, ConvergenceWarning):
            why_not = str(warning.message)
        else:
            warnings.warn(warning.message, stacklevel=2)
    return Fit(time.perf_counter() - started, why_not)


@contextmanager
def _telling(machine: Any, begun: Callable[[], None] | None) -> Iterator[None]:
    """After the first epoch; or after the training, if there was none."""
    if begun is None:
        yield
        return
    left = [begun]

    def tell(record: Any = None) -> None:
        if left:
            left.pop()()

    machine.set_params(callbacks=[tell])
    try:
        yield
        tell()
    finally:
        machine.set_params(callbacks=None)


def split(data: Dataset, share: float, seed: int) -> tuple[Dataset, Dataset]:
    """Rows to train on and rows held out: every class has one to train on; one held out, too, where there is room."""
    from sklearn.model_selection import train_test_split

    _, counts = np.unique(data.y, return_counts=True)
    held_out = ceil(share * data.n_rows)
    if held_out >= data.n_rows:
        raise CommandError(
            f"{data.path}: cannot hold out {share:g} of {data.n_rows} rows: none would be left to train on"
        )
    stratify = data.y if counts.min() >= 2 and min(held_out, data.n_rows - held_out) >= len(counts) else None
    try:
        train, test = train_test_split(np.arange(data.n_rows), test_size=held_out, random_state=seed, stratify=stratify)
    except ValueError as error:
        raise CommandError(f"{data.path}: cannot hold out {share:g} of {data.n_rows} rows: {error}") from None
    train, test = _with_all_classes(data.y, train, test)
    if not len(test):
        raise CommandError(
            f"{data.path}: cannot hold out {share:g} of {data.n_rows} rows: all are needed, as every class must have "
            "one to train on"
        )
    return data.take(np.sort(train)), data.take(np.sort(test))


def _with_all_classes(y: np.ndarray, train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A row of every class to train on, in exchange for one of the class that has most there, if that has two."""
    _, codes = np.unique(y, return_inverse=True)
    there = np.bincount(codes[train], minlength=codes.max() + 1)
    held_out = np.zeros(len(y), dtype=bool)
    held_out[test] = True
    for missing in np.flatnonzero(there == 0):
        held_out[test[codes[test] == missing][0]] = False
        largest = there.argmax()
        if there[largest] > 1:
            given = train[(codes[train] == largest) & ~held_out[train]][0]
            held_out[given] = True
            there[largest] -= 1
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def folds_of(y: np.ndarray, n_folds: int, seed: int, path: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows to train on and to test on, for every fold; classes are spread evenly."""
    from sklearn.model_selection import StratifiedKFold

    if n_folds > len(y):
        raise CommandError(f"{path}: {n_folds} folds need as many rows; there are {len(y)}")
    with warnings.catch_warnings():  # a class with fewer rows than folds is missing in some: no reason to stop
        warnings.simplefilter("ignore", UserWarning)
        try:
            folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
            parts = list(folds.split(np.zeros(len(y)), y))
        except ValueError as error:
            raise CommandError(f"{path}: cannot make {n_folds} folds: {error}") from None
    for train, _ in parts:
        if len(np.unique(y[train])) < 2:
            raise CommandError(f"{path}: a fold of {n_folds} has only one class to train on; take fewer folds")
    return parts


def accuracy(machine: Any, X: Any, y: np.ndarray) -> float:
    """The share of rows whose label is predicted; another file than that of training may spell labels as text."""
    return float(np.mean(machine.predict(X) == labels_as(machine.classes_, y)))
