"""Parts of the estimators by themselves, at their bounds: claims, identities, caps, lines of progress."""

import sys
import threading
from decimal import ROUND_CEILING, ROUND_FLOOR
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

from multimargin import LinearSVM, LinearSVMCV
from multimargin.data.kinds import check_kind
from multimargin.estimators import bad_rows, calibration, callbacks, folds, identity, out_of_fold, progress
from multimargin.estimators.claims import above_optimum, bounds, percent_at_most, rounded
from multimargin.estimators.plain_linear import PlainLinearSVM
from multimargin.estimators.stored_answers import of_blocks
from multimargin.estimators.threads import in_threads
from multimargin.estimators.top_classes import best, best_in_slabs, with_best
from multimargin.problems.range import SMALLEST_C

X, Y = load_iris(return_X_y=True)

# What is wrong with rows


def test_which_entry_is_wrong():
    rows = np.ones((3, 2))
    rows[2, 1] = np.nan
    for given in (rows, sp.csr_array(rows)):
        with pytest.raises(ValueError, match=r"Input X contains NaN; the first is in row 2, column 1\."):
            LinearSVM().fit(given, [0, 1, 0])
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [1, "x", 2]})
    with pytest.raises(
        ValueError, match=r"X holds 'x' in row 1, column 'b': could not convert .*; make numbers of texts"
    ):
        LinearSVM().fit(frame, [0, 1, 0])
    with pytest.raises(ValueError, match="X holds 'x' in row 1, column 1: could not convert"):
        LinearSVM().fit(frame.to_numpy(), [0, 1, 0])
    with pytest.raises(ValueError, match=r"X holds 10\S* in row 1, column 0: .*: scale the features down"):
        LinearSVM().fit(np.array([[1], [10**400], [2]], dtype=object), [0, 1, 0])
    with pytest.raises(ValueError, match=r"Input y contains infinity.*, in row 1$"):
        LinearSVM().fit(np.ones((3, 1)), [0.0, np.inf, 1.0])


def test_dates_and_paths(tmp_path):
    days = np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]")
    for given, where in (
        (days[:, None], r"it is datetime64\[D\]"),
        (days[:, None] - days[0], "it is timedelta64"),
        (pd.DataFrame({"n": [1, 2], "when": days}), "column 'when' is datetime64"),
    ):
        with pytest.raises(ValueError, match=rf"X holds dates or durations \({where}"):
            check_kind(given, "X")
    check_kind(pd.DataFrame({"n": [1, 2]}), "X")
    with pytest.raises(TypeError, match=r"X, y = read_svmlight\(path\) reads a file"):
        bad_rows.check_path(str(tmp_path))
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(TypeError, match="it is a store of blocks"):
        bad_rows.check_path(tmp_path)


# Claims


@pytest.mark.parametrize(
    ("value", "digits", "way", "words"),
    [
        (1234.5, 2, ROUND_CEILING, "1300"),
        (1234.5, 2, ROUND_FLOOR, "1200"),
        (0.00012345, 3, ROUND_CEILING, "0.000124"),
        (1.25e-6, 2, ROUND_FLOOR, "0.0000012"),
        (1.25e-7, 2, ROUND_CEILING, "1.3e-7"),
        (1e15, 2, ROUND_FLOOR, "1.0e+15"),
        (9.9e14, 2, ROUND_FLOOR, "990000000000000"),
        (0.0, 2, ROUND_FLOOR, "0"),
        (float("inf"), 2, ROUND_FLOOR, "inf"),
        (-1234.5, 2, ROUND_FLOOR, "-1300"),
    ],
)
def test_rounding(value, digits, way, words):
    assert rounded(value, digits, way) == words


def test_bounds_are_told_apart():
    assert bounds(1.0, 1.0) == ("1.00000000000000", "1.00000000000000")
    assert bounds(1.0, 2.0) == ("1.00000", "2.00000")
    assert bounds(1.0, 1.0000001) == ("1.000000000", "1.000000101")
    assert bounds(1234.5, 2345.6, grouped=True) == ("1,234.50", "2,345.60")
    assert bounds(0.0, 0.0) == ("0", "0")
    assert percent_at_most(0.00121) == "0.13"
    assert [above_optimum(gap) for gap in (0.0, 0.5, 1.0, 2.0)] == [0.0, 1.0, float("inf"), float("inf")]


# Identities


def digest(*arrays):
    return identity._digest(*arrays)


def test_digests_are_of_values_and_shapes():
    numbers = np.arange(6)
    assert digest(numbers) == digest(numbers.astype(np.int8)) != digest(numbers + 1)
    assert digest(numbers) != digest(numbers.reshape(2, 3)) != digest(numbers.reshape(3, 2))
    assert digest(numbers.astype(float)) != digest(numbers) != digest(numbers.astype(np.uint64))
    assert digest(numbers[:3], numbers[3:]) != digest(numbers[:4], numbers[4:])
    assert digest(np.asfortranarray(X)) == digest(X)
    large = np.zeros((1 << 20) + 2, dtype=np.int32)
    changed = large.copy()
    changed[-1] = 1
    assert digest(large) != digest(changed) and digest(large) == digest(large.astype(np.int64))


def test_words_of_parameters():
    words = [identity._word(value) for value in (1, np.float32(0.5), True, np.bool_(False), None, "a", {2: 1, 1: "b"})]
    assert words == ["1", "0.5", "True", "False", "None", "'a'", "{1: 'b', 2: 1}"]
    assert [identity._word(value) for value in (1.0, 1e300, -np.inf, 2.0**60)] == ["1", "1e+300", "-inf", repr(2.0**60)]
    assert identity._word(np.log1p) == "log1p" and identity._word(LinearSVM) == "LinearSVM"
    states = (None, 3, np.int64(4), np.random.RandomState(0))
    assert [identity._word_of_state(state) for state in states] == ["None", "3", "4", "RandomState"]


def test_rows_of_an_identity():
    told = identity._rows(X, Y, np.unique(Y), np.ones(150))
    assert told["X"].startswith("150 x 4 dense float64 #") and told["y"].startswith("labels of 3 classes #")
    assert told["sample_weight"] == "None"
    assert identity._rows(X, Y, np.unique(Y), np.full(150, 2.0))["sample_weight"].startswith("given #")
    sparse = identity._rows(sp.csr_array(X), Y, np.unique(Y), np.ones(150))["X"]
    assert sparse.startswith("150 x 4 sparse float64 #")
    names = np.array(["a", "bc"], dtype=object)
    others = np.array(["ab", "c"], dtype=object)
    assert identity._as_arrays(np.arange(3))[0].tolist() == [0, 1, 2]
    assert digest(*identity._as_arrays(names)) != digest(*identity._as_arrays(others))


def test_what_goes_on_in_spite_of_a_change():
    plain, other = LinearSVM(), LinearSVM(verbose=1, max_iter=7, time_limit=3, warm_start=True, break_ties=True)
    assert identity._parameters(plain, 3) == identity._parameters(other, 3)
    assert identity._parameters(plain, 3) != identity._parameters(plain, 4)
    assert identity._parameters(plain, 3) != identity._parameters(LinearSVM(C=2.0), 3)
    assert identity._parameters(plain, 3)["random_state"] == "None #3"
    assert identity._parameters(LinearSVMCV(), 0)["the estimator"] == "LinearSVMCV"


# Observers


def record(gap=np.nan, estimate=np.nan, machine=0, seconds=1.25, rows=7):
    return SimpleNamespace(
        record=SimpleNamespace(gap=gap, estimate=estimate, active_rows=rows), machine=machine, seconds=seconds
    )


def test_lines_of_progress(capsys):
    with progress.Progress(10) as line:
        line(record(estimate=0.5), SimpleNamespace(epochs=0.2))
        assert capsys.readouterr().err == ""  # not certified, and not two seconds later
        line(record(gap=0.25, estimate=0.3), SimpleNamespace(epochs=2.5))
        assert capsys.readouterr().err == "epoch    3  gap = 2.50e-01  active rows        7      1.2 s\n"
        line(record(machine=1), SimpleNamespace(epochs=99.0))
    assert capsys.readouterr().err == "machine    2  epoch   10  gap ~ 2.50e-01  active rows        7      1.2 s\n"
    with progress.Progress(10) as line:
        line(record(gap=0.25), SimpleNamespace(epochs=1.0))
    assert capsys.readouterr().err.count("\n") == 1  # what was said is not said again


def test_lines_of_progress_now_and_then(capsys, monkeypatch):
    clock = SimpleNamespace(now=10.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    line = progress.Progress(10)
    for seconds, said in ((1.9, 0), (0.2, 1), (1.9, 0), (0.1, 1)):
        clock.now += seconds
        line(record(estimate=0.5), SimpleNamespace(epochs=1.0))
        assert capsys.readouterr().err.count("\n") == said


@pytest.mark.parametrize("wrong", [print, "print", {1: print}])
def test_callbacks_are_a_list(wrong):
    with pytest.raises(TypeError, match="callbacks must be a list, got"):
        callbacks.check_callbacks(wrong)


def test_callbacks_are_callables():
    assert callbacks.check_callbacks(None) == []
    assert callbacks.check_callbacks((print,)) == [print]
    for wrong in (3, LinearSVM):
        with pytest.raises(TypeError, match="callbacks must be callables or scikit-learn callbacks, got"):
            callbacks.check_callbacks([wrong])


# Folds, threads, the best classes


def test_work_in_threads():
    stop = threading.Event()
    assert in_threads(lambda item: item * 2, [1, 2, 3], 2, stop) == [2, 4, 6]
    assert stop.is_set()  # for those that are still at it
    alone = threading.Event()
    assert in_threads(lambda item: threading.current_thread(), [1], 4, alone) == [threading.current_thread()]
    assert in_threads(lambda item: threading.current_thread(), [1, 2], 1, alone) == [threading.current_thread()] * 2
    assert not alone.is_set()
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda item: 1 // item, [1, 0, 2, 3], 2, threading.Event())


def test_best_classes():
    values = np.array([[1.0, 3.0, 3.0], [0.0, -1.0, -2.0]])
    assert best(values, 2).tolist() == [[1, 2], [0, 1]]
    columns, scores = with_best(np.array([2.0, -1.0]), 2)
    assert columns.tolist() == [[1, 0], [0, 1]] and scores.tolist() == [[2.0, -2.0], [1.0, -1.0]]
    columns, scores = best_in_slabs(values, 1, 3, lambda rows: rows)
    assert columns.tolist() == [[1], [0]] and scores.tolist() == [[3.0], [0.0]]
    many = np.arange(20.0).reshape(10, 2)
    columns, scores = best_in_slabs(many, 1, 1 << 21, lambda rows: rows)  # four rows at a time
    assert columns.ravel().tolist() == [1] * 10 and scores.ravel().tolist() == many[:, 1].tolist()


def test_folds_of_rows_that_do_not_count():
    fold, n_distinct = folds.stratified_folds(X[:4], Y[:4], np.zeros(4, dtype=bool), 0)
    assert fold.tolist() == [-1] * 4 and n_distinct == 0
    rows = np.array([[0.0], [1], [2], [2], [5]])
    fold, n_distinct = folds.stratified_folds(rows, np.array([0, 0, 0, 0, 1]), np.ones(5, dtype=bool), 0)
    assert n_distinct == 3 and fold[4] == -1 and fold[2] == fold[3] and sorted(fold[:3]) == [0, 1, 2]
    zeros = np.array([[0.0, 1.0], [-0.0, 1.0]])
    assert len(set(folds.row_keys(zeros, 0).tolist())) == 1
    np.testing.assert_array_equal(folds.row_keys(X, 3), folds.row_keys(sp.csr_array(X), 3))


def test_tolerances_of_refits():
    def tolerance(tol, stopping="gap", worst=0.0):
        return out_of_fold._tolerance(SimpleNamespace(tol=tol, stopping=stopping), SimpleNamespace(worst_gap=worst))

    assert tolerance(1e-4) == pytest.approx(5e-3)
    assert tolerance(1e-2) == 0.05 and tolerance(0.3) == 0.3
    assert tolerance(1e-4, worst=0.7) == 0.7 and tolerance(1e-4, "violation", 0.7) == pytest.approx(5e-3)


def test_a_calibration_is_the_minimum_over_factors_of_at_least_zero():
    hessian = np.diag([1.0, 2.0, 4.0])
    step = calibration._newton_step(np.array([1.0, 1.0, 1.0]), np.array([3.0, -2.0, 2.0]), hessian)
    np.testing.assert_allclose(step, [-1.0, 1.0, -0.5])
    flat = calibration._newton_step(np.zeros(3), np.ones(3), hessian)
    assert flat.tolist() == [0.0, 0.0, 0.0]


# Caps and labels


def test_caps_of_rows():
    model = LinearSVM(C=2.0, class_weight={1: 0.5})
    model.classes_ = np.array([0, 1])
    encoded, weight = np.array([0, 1, 1]), np.array([1.0, 3.0, 0.0])
    assert model._caps(encoded, weight).tolist() == [2.0, 3.0, 0.0]
    model.class_weight = "balanced"
    assert model._caps(encoded, weight).tolist() == [4.0, 4.0, 0.0]  # half of 4 a class
    model.class_weight = None
    assert model._caps(encoded, np.array([SMALLEST_C, SMALLEST_C / 4, 1.0])).tolist() == [2 * SMALLEST_C, 0.0, 2.0]
    with pytest.raises(ValueError, match="C times the weights is 0, or below"):
        model._caps(encoded, np.full(3, SMALLEST_C / 4))
    with pytest.raises(ValueError, match="C times the weights must be finite: lower C=2"):
        model._caps(encoded, np.full(3, 1e308))


def test_most_machines(monkeypatch):
    monkeypatch.setattr("multimargin.estimators.margins.MOST_MACHINES", 3)
    model = LinearSVM("one_vs_one")
    assert len(model._encoded([0, 1, 2])[0]) == 3
    with pytest.raises(ValueError, match="of 4 classes is 6 machines, and 3 are the most"):
        model._encoded([0, 1, 2, 3])
    assert len(LinearSVM()._encoded([0, 1, 2, 3, 4])[0]) == 5


def test_seeds_of_states():
    assert LinearSVM()._seed() == 0
    first = LinearSVM(random_state=5)._seed()
    assert (
        first == LinearSVM(random_state=np.random.RandomState(5))._seed() == np.random.RandomState(5).randint(2**31 - 1)
    )


def test_a_plain_machine():
    plain = PlainLinearSVM(C=0.5).fit(X, Y)
    model = LinearSVM(C=0.5).fit(X, Y)
    np.testing.assert_array_equal(plain.predict(X), model.predict(X))
    np.testing.assert_array_equal(plain.coef_, model.coef_)
    assert plain.why_not == "" and plain.n_features_in_ == 4 and plain._name == "LinearSVM"
    assert plain.get_params() == {
        name: value for name, value in model.get_params().items() if name in plain.get_params()
    }
    assert plain.set_params(max_iter=1, tol=1e-12, solver="sdm") is plain
    assert "max_iter=1" in plain.fit(X, Y).why_not
    with pytest.raises(ValueError, match="rows of 4 features"):
        plain.predict(X[:, :3])


def test_answers_to_the_rows_of_a_store():
    blocks = [SimpleNamespace(X=np.full((n, 2), float(n)), y=np.zeros(n)) for n in (2, 1, 3)]

    class Store:
        n_rows = 6

        def __iter__(self):
            return iter(blocks)

    labels, scores = of_blocks(Store(), lambda rows: (rows[:, 0].astype(np.int8), rows * 2))
    assert labels.dtype == np.int8 and labels.tolist() == [2, 2, 1, 3, 3, 3]
    assert scores.shape == (6, 2) and scores[:, 1].tolist() == [4, 4, 2, 6, 6, 6]


def test_a_live_line_on_a_terminal(monkeypatch, capsys):
    shown = []

    class Live:
        def __init__(self, **options):
            assert options["transient"] is False and options["console"] == "stderr"

        def __enter__(self):
            shown.append("begins")

        def __exit__(self, *exception):
            shown.append("ends")

        def update(self, line):
            shown.append(line)

    monkeypatch.setitem(sys.modules, "rich.live", SimpleNamespace(Live=Live))
    monkeypatch.setitem(
        sys.modules, "rich.console", SimpleNamespace(Console=lambda stderr: "stderr" if stderr else "stdout")
    )
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=SimpleNamespace(isatty=lambda: True)))
    with progress.Progress(10) as line:
        line(record(gap=0.25), SimpleNamespace(epochs=1.0))
    assert shown[0] == "begins" and shown[2] == "ends" and shown[1].startswith("epoch    1  gap = 2.50e-01")
    assert capsys.readouterr().err == ""


def test_bits_are_stirred_as_by_splitmix64():
    def stirred(value):
        bits = int(np.float64(value + 0.0).view(np.uint64))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            bits = (bits ^ (bits >> shift)) * factor % 2**64
        return bits ^ (bits >> 31)

    values = np.array([0.0, -0.0, 1.0, -2.5, 1e300], dtype=np.float64)
    assert folds._mixed(values).tolist() == [stirred(value) for value in values.tolist()]
    assert folds._mixed(values[:4].astype(np.float32)).tolist() == [stirred(value) for value in values.tolist()[:4]]
    assert stirred(0.0) == 0
