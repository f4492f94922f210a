"""What is wrong with a collection, one a line: what is given, the exact exception, and words of its message."""

from fractions import Fraction

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from dask import dataframe, delayed
from distributed import Client
from sklearn.datasets import load_iris

from multimargin.dask import LinearSVM, LinearSVMCV, presence
from multimargin.models import load, save

X, y = load_iris(return_X_y=True)
X, y = X[::3], y[::3]  # 50 rows, in two blocks
ROWS, LABELS = da.from_array(X, chunks=(25, 4)), da.from_array(y, chunks=25)

TABLE = dataframe.from_pandas(pd.DataFrame({"a": X[:, 0], "b": X[:, 2], "y": y}), npartitions=2)


@pytest.fixture(scope="module")
def here():
    """A cluster of threads: what is refused is refused before anybody trains."""
    with Client(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0", set_as_default=False
    ) as client:
        yield client


def halves(array):
    return [delayed(array[:25]), delayed(array[25:])]


def but(array, place, value):
    changed = np.array(array)
    changed[place] = value
    return changed


def objects(kind):
    """The labels as Python's objects."""
    return np.fromiter((kind(int(k)) for k in y), dtype=object, count=len(y))


def chunked(array):
    return da.from_array(array, chunks=(25, *array.shape[1:]))


def missing():
    raise FileNotFoundError("part-0007.parquet is not there")


FIT = [
    ("arrays", (X, y), TypeError, "X must be a Dask array", "got ndarray", "multimargin.LinearSVM"),
    ("a list of arrays", ([X[:25], X[25:]], halves(y)), TypeError, "list of delayed blocks, got list"),
    ("no blocks", ([], []), TypeError, "X must be a Dask array or DataFrame", "got list"),
    ("y in memory", (ROWS, y), TypeError, "y must be a Dask array, DataFrame or Series", "got ndarray"),
    ("y as a list", (ROWS, list(y)), TypeError, "y must be a list of delayed blocks, got int64 as number 0"),
    ("no y", (ROWS, None), TypeError, "y must be a Dask array", "got NoneType"),
    ("X of one dimension", (LABELS, LABELS), ValueError, "X must have rows and columns", "1 dimensions"),
    (
        "a table as y",
        (TABLE[["a"]], TABLE[["a", "y"]]),
        ValueError,
        "y must have one value a row, got a DataFrame with 2 columns: 'a', 'y'",
    ),
    ("a Series as X", (TABLE["a"], TABLE["y"]), ValueError, "X must have rows and columns", "X[['a']] is a DataFrame"),
    ("y of two", (ROWS, ROWS), ValueError, "y must have one value a row", "2 dimensions"),
    ("other blocks", (ROWS, LABELS.rechunk(50)), ValueError, "X has 2 blocks of rows and y has 1: rechunk"),
    ("shorter y", (ROWS, LABELS[:40]), ValueError, "block 1: X has 25 rows and y the shape (15,)"),
    (
        "other widths",
        ([delayed(X[:25]), delayed(X[25:, :3])], halves(y)),
        ValueError,
        "block 1",
        "3 columns",
        "0 has 4",
    ),
    ("NaN", (chunked(but(X, (28, 2), np.nan)), LABELS), ValueError, "block 1: X holds nan", "in row 3, column 2"),
    ("infinity", (chunked(but(X, (1, 0), np.inf)), LABELS), ValueError, "block 0: X holds inf", "row 1, column 0"),
    ("text", (halves(but(X.astype(object), (30, 1), "red")), halves(y)), ValueError, "block 1", "'red'"),
    ("NaN in y", (ROWS, chunked(but(y * 1.0, 26, np.nan))), ValueError, "block 1: y", "not finite in row 1"),
    ("no label", (ROWS, halves(but(y.astype(object), 27, None))), ValueError, "block 1: y has no label", "row 2"),
    ("mixed labels", (ROWS, halves(but(y.astype(object), 27, "a"))), ValueError, "block 1: y mixes int, strings"),
    (
        "masks",
        ([delayed(np.ma.masked_greater(X[:25], 5)), delayed(X[25:])], halves(y)),
        ValueError,
        "block 0: X has masked",
    ),
    ("masks of y", (ROWS, halves(np.ma.masked_equal(y, 2))), ValueError, "block 1: y has masked entries"),
    (
        "masks of weights",
        (ROWS, LABELS, halves(np.ma.masked_equal(y, 2))),
        ValueError,
        "block 1: sample_weight has masked",
    ),
    (
        "no labels",
        (ROWS, halves(objects(Fraction))),
        ValueError,
        "y holds Fraction(",
        "of Fraction: labels",
    ),
    ("other labels", (ROWS, [delayed(y[:25]), delayed(y[25:].astype(str))]), ValueError, "y mixes numbers (block 0)"),
    ("fractions", (ROWS, ROWS[:, 0]), ValueError, "y must hold classes; it holds fractions"),
    ("one class", (ROWS, da.ones(50, chunks=25, dtype=int)), ValueError, "at least 2 classes; y has only one class, 1"),
    ("no rows", (ROWS[:0], LABELS[:0]), ValueError, "X has no rows"),
    ("negative weights", (ROWS, LABELS, -LABELS), ValueError, "block", "sample_weight must be finite, not negative"),
    ("short weights", (ROWS, LABELS, LABELS[:40]), ValueError, "block 1: sample_weight", "one a row"),
    ("weights in memory", (ROWS, LABELS, np.ones(50)), TypeError, "sample_weight must be a Dask array", "ndarray"),
    ("no weight", (ROWS, LABELS, 0 * LABELS), ValueError, "all weights are zero"),
    ("no file", ([delayed(missing)(), delayed(X[25:])], halves(y)), FileNotFoundError, "part-0007.parquet"),
    ("a column of text", None, ValueError, "block ", "'b'"),
]


@pytest.mark.parametrize(("given", "error", "words"), [pytest.param(*c[1:3], c[3:], id=c[0]) for c in FIT])
def test_bad_input(here, given, error, words):
    if given is None:
        frame = dataframe.from_pandas(pd.DataFrame({"a": X[:, 0], "b": ["b"] * 50, "y": y}), npartitions=2)
        given = frame[["a", "b"]], frame["y"]
    with here.as_current(), pytest.raises(error) as refusal:
        LinearSVM(tol=0.1).fit(*given)
    assert type(refusal.value) is error
    for word in words:
        assert word in str(refusal.value)


WORDS = np.array(["red", "green", "blue"])[y]


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (WORDS.astype(np.dtypes.StringDType()), WORDS),
        (objects(lambda k: np.str_(WORDS[y == k][0])), WORDS),
        (objects(lambda k: k > 0), y > 0),
        (objects(lambda k: k), y),
        (pd.Series(y, dtype="Int64"), y),
        (pd.Series(WORDS, dtype="string"), WORDS),
    ],
    ids=["without a width", "NumPy's", "bools", "integers", "pandas' integers", "pandas' strings"],
)
def test_odd_labels_are_those_that_they_stand_for(here, given, plain, tmp_path):
    with here.as_current():
        model = LinearSVM(tol=0.1).fit(ROWS, halves(given))
        assert model.classes_.tolist() == np.unique(plain).tolist()
        assert model.score(ROWS, halves(given)) == model.score(ROWS, halves(plain)) > 0.6
        assert (model.predict(ROWS).compute() == plain).mean() == model.score(X, given)
    save(model.to_local(), tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))


def test_chunks_of_unknown_size_are_taken(here):
    chosen = ROWS[:, 0] > 0  # all, but Dask cannot know
    with here.as_current():
        model = LinearSVM(tol=0.1).fit(ROWS[chosen], LABELS[chosen])
        assert model.converged_ and np.isnan(ROWS[chosen].shape[0])
        assert model.score(ROWS[chosen], LABELS[chosen]) > 0.5
        with pytest.raises(ValueError, match="X has 2 blocks of rows and y has 1"):
            model.score(ROWS, LABELS.rechunk(50))
        with pytest.raises(ValueError, match="X has 2 blocks of rows and sample_weight has 1"):
            model.score(ROWS, LABELS, sample_weight=LABELS.rechunk(50))
        with pytest.raises(ValueError, match="block 1: X has 25 rows, y has 15 labels, and there are 15 weights"):
            model.score(ROWS, LABELS[:40])
        for nothing in ((ROWS[:0], LABELS[:0]), (ROWS, LABELS, 0 * LABELS)):
            with pytest.raises(ValueError, match="nothing to score"):
                model.score(*nothing)
        with pytest.raises(ValueError, match=r"y holds strings, such as '\d', and the classes are numbers, such as 0"):
            model.score(ROWS, LABELS.astype(str))
        with pytest.raises(ValueError, match=r"2 features.*4 features"):
            model.predict(ROWS[:, :2]).compute()


def test_labels_and_weights_may_be_tables_of_one_column(here):
    rows = TABLE[["a", "b"]]
    with here.as_current():
        model = LinearSVM(tol=0.1).fit(rows, TABLE[["y"]], sample_weight=TABLE[["b"]])
        series = LinearSVM(tol=0.1).fit(rows, TABLE["y"], sample_weight=TABLE["b"])
        np.testing.assert_array_equal(model.coef_, series.coef_)
        assert model.score(rows, TABLE[["y"]]) == series.score(rows, TABLE["y"]) > 0.5


def test_collections_do_not_come_to_the_client_unasked(here, tmp_path):
    with here.as_current():
        model = LinearSVM(tol=0.1).fit(ROWS, LABELS)
        wanted = r"X is a collection of Dask \(Array\).*fit, predict.*X\.compute\(\).*to_local\(\) on every block"
        for refused in (lambda: model.top_classes(ROWS, 2), lambda: model.partial_fit(ROWS, LABELS)):
            with pytest.raises(TypeError, match=wanted):
                refused()
        with pytest.raises(TypeError, match=r"y is a collection of Dask \(Array\).*y\.compute\(\)"):
            LinearSVM().partial_fit(X, LABELS, classes=[0, 1, 2])
        with pytest.raises(TypeError, match=r"X is a collection of Dask \(list\)"):
            model.top_classes(halves(X), 2)
        chosen = LinearSVMCV([0.1, 1.0], cv=2, tol=0.1).fit(ROWS, LABELS)
    labels, _ = model.top_classes(X, 2)
    np.testing.assert_array_equal(labels[:, 0], model.predict(X))
    assert model.partial_fit(X, y).n_iter_ == 1
    for fitted in (model, chosen):
        with pytest.raises(TypeError, match=r"of multimargin\.dask cannot be saved, .*to_local\(\)"):
            save(fitted, tmp_path / "model")
        save(fitted.to_local(), tmp_path / "model")
        np.testing.assert_array_equal(load(tmp_path / "model").predict(X), fitted.predict(X))


def test_no_client():
    with pytest.raises(ValueError, match=r"needs a cluster: make a distributed\.Client first"):
        LinearSVM().fit(ROWS, LABELS)


def test_no_workers(monkeypatch):
    monkeypatch.setattr(presence, "PATIENCE", 1.0)  # seconds, in the place of 45
    with (
        Client(n_workers=0, processes=False, dashboard_address=":0"),
        pytest.raises(RuntimeError, match="the cluster has no workers, and none came within 1 s"),
    ):
        LinearSVM().fit(ROWS, LABELS)
