"""Labels that are legitimate, though not NumPy's plainest, behave like those that are, at every door of the package."""

import enum

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_iris

from multimargin import ConfusionPairsDisplay, KernelSVM, LinearSVM, LinearSVMCV, load, save
from multimargin.data.blocks import write_blocks
from multimargin.linear.checkpoint import CheckpointError
from multimargin.report import write_report

X, y = load_iris(return_X_y=True)
X, y = X[::3], y[::3]
WORDS = np.array(["red", "green", "blue"])[y]


class Number(enum.IntEnum):
    ZERO, ONE, TWO = range(3)


class Word(str, enum.Enum):  # noqa: UP042 - the str() of a StrEnum would be right
    red, green, blue = "red", "green", "blue"


def objects(labels):
    array = np.empty(len(y), dtype=object)
    array[:] = list(labels)
    return array


# Labels, and the plain ones that they are
ODD = {
    "strings without a width": (WORDS.astype(np.dtypes.StringDType()), WORDS),
    "with a missing one that is not there": (WORDS.astype(np.dtypes.StringDType(na_object=np.nan)), WORDS),
    "NumPy's strings as objects": (objects(map(np.str_, WORDS)), WORDS),
    "an enumeration of strings": (objects(map(Word, WORDS)), WORDS),
    "Python's bools as objects": (objects(map(bool, y > 0)), y > 0),
    "NumPy's bools as objects": (objects(y > 0), y > 0),
    "Python's integers as objects": (objects(map(int, y)), y),
    "integers of both as objects": (objects(np.int8(k) if i % 2 else int(k) for i, k in enumerate(y)), y),
    "an enumeration of integers": (objects(map(Number, y)), y),
    "large integers as objects": (objects(2**63 + int(k) for k in y), y.astype(np.uint64) + 2**63),
    "floats as objects": (objects(map(float, y)), y.astype(float)),
    "long doubles": (y.astype(np.longdouble), y.astype(float)),
}


@pytest.fixture(params=ODD.values(), ids=ODD)
def odd(request):
    return request.param


LISTS = {
    "strings": (list(WORDS), WORDS),
    "integers and floats": ([0, 1.0, 2], np.arange(3.0)),
    "long doubles": ([np.longdouble(k) for k in range(3)], np.arange(3.0)),
    "integers and truth values": ([False, 1, 2], np.arange(3)),
    "integers of 64 bits": ([2**63, 2**63 + 1, 2**63 + 2], np.arange(3, dtype=np.uint64) + 2**63),
    "strings that end in NUL": (["a", "a\0", "b"], np.array(["a", "a\0", "b"], dtype=object)),
}


@pytest.mark.parametrize(("labels", "plain"), LISTS.values(), ids=LISTS)
def test_lists_are_what_numpy_makes_of_them_unless_that_merges_labels(labels, plain):
    labels, plain = (labels, plain) if len(labels) == len(y) else ([labels[k] for k in y], plain[y])
    model, same = LinearSVM().fit(X, labels), LinearSVM().fit(X, plain)
    assert model.classes_.dtype == same.classes_.dtype and model.classes_.tolist() == same.classes_.tolist()
    assert model.predict(X).tolist() == same.predict(X).tolist()
    online = LinearSVM().partial_fit(X, tuple(labels), classes=sorted(set(labels)))
    assert online.classes_.tolist() == same.classes_.tolist()


MACHINES = [
    LinearSVM(),
    KernelSVM("one_vs_one"),
    LinearSVMCV(Cs=2, cv=2, tol=0.01),
    LinearSVM(probability=True, tol=0.1),
]


@pytest.mark.parametrize("machine", MACHINES, ids=["linear", "kernel", "cross-validated", "with probabilities"])
def test_a_model_is_that_of_the_plain_labels(odd, machine, tmp_path):
    given, plain = odd
    model, expected = machine.fit(X, given), type(machine)(**machine.get_params()).fit(X, plain)
    assert model.classes_.dtype.kind in ("O" if plain.dtype.kind == "U" else plain.dtype.kind)
    assert model.classes_.tolist() == expected.classes_.tolist()
    assert {type(label) for label in model.classes_.tolist()} == {type(expected.classes_.tolist()[0])}
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert model.score(X, given) == expected.score(X, plain) > 0.9
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), expected.predict(X))


def test_rows_that_come_piece_by_piece(odd):
    given, plain = odd
    online, expected = LinearSVM(), LinearSVM()
    for part in (slice(0, 20), slice(20, None)):
        online.partial_fit(X[part], given[part], classes=given)
        expected.partial_fit(X[part], plain[part], classes=plain)
    assert online.classes_.tolist() == expected.classes_.tolist()
    np.testing.assert_array_equal(online.coef_, expected.coef_)


def test_a_store_of_blocks(odd, tmp_path):
    given, plain = odd
    if plain.dtype == np.uint64:
        with pytest.raises(ValueError, match=r"labels must be whole numbers.*got uint64"):
            write_blocks(tmp_path / "store", [(X, given)])
        return
    store = write_blocks(tmp_path / "store", [(X, given)])
    assert store.classes.tolist() == np.unique(plain).tolist()
    np.testing.assert_array_equal(np.concatenate([block.y for block in store]), plain)


def test_a_checkpoint_is_that_of_the_plain_labels(odd, tmp_path):
    given, plain = odd
    path = tmp_path / "checkpoint"
    options = dict(solver="sdm", tol=1e-9, checkpoint=path, checkpoint_every=0)
    with pytest.warns(UserWarning, match="max_iter=2"):
        LinearSVM(max_iter=2, **options).fit(X, given)
    assert path.exists()
    as_kept = plain.astype(object) if plain.dtype.kind == "U" else plain
    with pytest.warns(UserWarning, match="max_iter=4"):  # and not refused as another training's
        LinearSVM(max_iter=4, **options).fit(X, as_kept)
    with pytest.raises(CheckpointError, match="y has other values"):
        LinearSVM(max_iter=4, **options).fit(X, as_kept[::-1])


def test_reports_and_displays(odd, tmp_path):
    given, plain = odd
    model = LinearSVM(C=1e-4).fit(X, given)  # some are confused
    shown = ConfusionPairsDisplay.from_estimator(model, X, given)
    assert shown.counts.tolist() == ConfusionPairsDisplay.from_estimator(model, X, plain).counts.tolist()
    write_report(model, X, given, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 0
    plt.close("all")


def test_chunks_without_rows_say_nothing_of_the_labels(tmp_path):
    store = write_blocks(tmp_path / "store", [(X[:0], np.array([], dtype=object)), (X, y), (X[:0], [])])
    assert store.n_rows == len(y) and store.classes.tolist() == [0, 1, 2]


def test_labels_of_a_store_that_numpy_would_cut_are_refused(tmp_path):
    labels = np.array(["a", "a\0"], dtype=object)[(y > 0).astype(int)]
    with pytest.raises(ValueError, match="chunk 0: a label ends in the character NUL"):
        write_blocks(tmp_path / "store", [(X, labels)])


def test_long_doubles_that_no_double_is_stay_what_they_are(tmp_path):
    labels = np.array([2**62, 2**62 + 1], dtype=np.longdouble)[(y > 0).astype(int)]
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("long doubles are doubles here")
    model = LinearSVM().fit(X, labels)
    assert model.classes_.tolist() == np.unique(labels).tolist() and model.score(X, labels) == 1
    with pytest.raises(ValueError, match=r"chunk 0: labels must be .* got float128"):
        write_blocks(tmp_path / "store", [(X, labels)])
