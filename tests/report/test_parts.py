"""Parts of the report by themselves: measures, shades, sentences and numbers at their bounds."""

import platform
from importlib.metadata import version
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from matplotlib.figure import Figure
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import multimargin
from multimargin import KernelSVM, LinearSVM, LinearSVMCV
from multimargin.displays.confusion_pairs import confused_pairs
from multimargin.report import numbers
from multimargin.report.calibration import Calibration, calibration
from multimargin.report.certificate import _n_machines, certificate, kind, warning
from multimargin.report.doubts import _difference, doubts
from multimargin.report.evidence import _strongest, classes_to_explain
from multimargin.report.judgement import Judgement, _equal, _ratio, _some, judge
from multimargin.report.plots import _themed
from multimargin.report.provenance import _brief, parameters, versions
from multimargin.report.rows import Rows, _name, feature_names_of, rows_to_show
from multimargin.report.writing import _convergence_plot, _facts, _matrix, _pairs, _path_plot, _subtitle, _title

X, Y = load_iris(return_X_y=True)
MODEL = LinearSVM().fit(X, Y)


# Where a model comes from


def test_versions():
    found = versions()
    assert [name for name, _ in found] == ["multimargin", "Python", "numpy", "scipy", "scikit-learn", "System"]
    told = dict(found)
    assert told["multimargin"].startswith(f"{multimargin.__version__}, ") and "instructions" in told["multimargin"]
    assert told["Python"] == platform.python_version() and told["numpy"] == version("numpy")
    assert told["System"] == f"{platform.system()} {platform.machine()}"


def test_parameters_of_steps():
    model = make_pipeline(StandardScaler(), "passthrough", LinearSVM(C=2.0))
    listed = parameters(model)
    assert [title for title, _ in listed] == ["StandardScaler (standardscaler)", "LinearSVM (linearsvm)"]
    assert ("C", "2.0") in listed[1][1] and ("with_mean", "True") in listed[0][1]
    assert [title for title, _ in parameters(LinearSVM())] == ["LinearSVM"]
    assert [title for title, _ in parameters(make_pipeline(LinearSVM()))] == ["LinearSVM"]
    nested = make_pipeline(make_pipeline(StandardScaler()), LinearSVM())
    assert "standardscaler__with_mean" not in dict(parameters(nested)[0][1])  # as it is a part of the step


def test_long_values_are_cut():
    assert _brief("x" * 298) == repr("x" * 298)
    assert _brief("x" * 299) == "'" + "x" * 298 + "…"
    assert _name("x" * 60) == "x" * 60 and _name("x" * 61) == "x" * 59 + "…"


# The certificate


def machine(**changes):
    return SimpleNamespace(
        **{
            "primal_objective_": 2.0,
            "dual_objective_": 1.0,
            "dual_gap_": 0.5,
            "worst_gap_": 0.5,
            "classes_": np.arange(4),
            "formulation": "crammer_singer",
            "stopping": "gap",
            "tol": 1e-3,
            "converged_": True,
        }
        | changes
    )


def test_sentences_of_the_certificate():
    assert certificate(machine()) == [
        "No linear machine of this kind can have an objective below 1.00000 on the rows of training.",
        "This one has 2.00000, which is at most 100\u202f% above the best there is.",
    ]
    assert certificate(machine(kernel="rbf"))[0].startswith("No machine of this kind, with this kernel, can have")
    assert "too weak to say" in certificate(machine(dual_gap_=1.0))[1]
    several = certificate(machine(formulation="one_vs_one", worst_gap_=0.75))
    assert several[2] == (
        "It consists of 6 machines, each certified by itself: the worst is at most 300\u202f% above its own optimum."
    )
    assert len(certificate(machine(formulation="one_vs_one", worst_gap_=1.0))) == 2
    for changes in ({"primal_objective_": None}, {"dual_objective_": None}):
        assert certificate(machine(**changes))[0].startswith("There is no certificate: this model learnt from a stream")
    for changes in ({"primal_objective_": np.inf}, {"dual_objective_": -np.inf}):
        assert certificate(machine(**changes))[0].startswith("There is no certificate: training was interrupted")


@pytest.mark.parametrize(
    ("formulation", "k", "machines"),
    [("crammer_singer", 5, 1), ("one_vs_rest", 2, 1), ("one_vs_rest", 3, 3), ("dag", 5, 10), ("one_vs_one", 2, 1)],
)
def test_machines_are_counted(formulation, k, machines):
    assert _n_machines(machine(formulation=formulation, classes_=np.arange(k))) == machines


def test_warnings_and_kinds():
    assert warning(machine()) is None and warning(SimpleNamespace()) is None
    assert "target gap of 0.0010 was" in warning(machine(converged_=False))
    assert "target violation of 0.0010 was" in warning(machine(converged_=False, stopping="violation"))
    assert [kind(SimpleNamespace()), kind(KernelSVM()), kind(KernelSVM(kernel=print))] == [
        "linear machine",
        "machine with rbf kernel",
        "machine with a kernel of its own",
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.9994, "999 ms"), (1.0, "1.0 s"), (119.9, "119.9 s"), (120.0, "2 min"), (7199.0, "120 min"), (7200.0, "2.0 h")],
)
def test_seconds(value, words):
    assert numbers.seconds(value) == words.replace(" ", "\u202f")


def test_numbers():
    assert numbers.percent(0.12345) == "12.3\u202f%" and numbers.percent(0.12345, 2) == "12.35\u202f%"
    assert numbers.percent(np.nan) == "n/a"
    assert numbers.signed(-1234.0, 2) == "\u22121,200"
    assert [_difference(value) for value in (-0.5, 99.994, 100.0, -1234.0)] == [
        "\u22120.50",
        "99.99",
        "100",
        "\u22121,230",
    ]


# Judging


def judged_by_hand(true, said, known=3):
    true, said = np.array(true), np.array(said)
    classes = np.arange(max(known, true.max() + 1, said.max() + 1))
    return Judgement(SimpleNamespace(classes_=np.arange(known)), None, None, classes, true, said)


def test_measures_by_hand():
    judged = judged_by_hand([0, 0, 1, 3], [0, 1, 1, 0])
    assert judged.support.tolist() == [2, 1, 0, 1] and judged.right.tolist() == [1, 1, 0, 0]
    np.testing.assert_array_equal(judged.recall, [0.5, 1.0, np.nan, 0.0])
    np.testing.assert_array_equal(judged.precision, [0.5, 0.5, np.nan, np.nan])
    np.testing.assert_allclose(judged.f1, [0.5, 2 / 3, np.nan, 0.0])
    assert (judged.accuracy, judged.balanced_accuracy) == (0.5, 0.5)
    assert judged.known.tolist() == [0, 1, 2]
    assert classes_to_explain(judged).tolist() == [0, 1, 2]  # of the model; what nobody said comes last


def test_shades_of_the_matrix():
    cells = _matrix(judged_by_hand([0, 0, 0, 0, 1, 1, 2], [0, 0, 1, 2, 0, 1, 2]))
    assert [[cell["count"] for cell in row] for row in cells] == [[2, 1, 1], [1, 1, 0], [0, 0, 1]]
    assert [[cell["shade"] for cell in row] for row in cells] == [[50, 50, 50], [100, 50, 0], [0, 0, 100]]
    assert [[cell["own"] for cell in row] for row in cells] == np.eye(3, dtype=bool).tolist()
    assert _matrix(judged_by_hand([0, 1, 2], [0, 1, 2]))[0][1]["shade"] == 0


def test_pairs_of_the_page():
    true, said = [0] * 8 + [1] * 4, [1] * 4 + [0] * 4 + [0] * 2 + [1] * 2
    (pair,) = _pairs(confused_pairs(true, said))
    assert pair["labels"] == ["0", "1"]
    assert pair["sides"] == [{"count": 4, "share": 0.5, "width": 100.0}, {"count": 2, "share": 0.5, "width": 50.0}]
    assert _pairs(confused_pairs([0, 1], [0, 1])) == []
    (pair,) = _pairs(confused_pairs([0], [1]))  # a class of one row, and one of none
    assert pair["sides"] == [{"count": 1, "share": 1.0, "width": 100.0}, {"count": 0, "share": 0.0, "width": 0.0}]
    rng = np.random.default_rng(0)
    assert len(_pairs(confused_pairs(*rng.integers(0, 9, (2, 999))))) == 12


def test_what_is_said_first():
    judged = judge(MODEL, X, Y)
    facts = {name: (value, remark) for name, value, remark in _facts(judged)}
    right = int((MODEL.predict(X) == Y).sum())
    assert facts["Accuracy"] == (numbers.percent(right / 150), f"{right} of 150 rows")
    assert facts["Support vectors"] == (str(len(MODEL.support_)), "of 150 rows of training")
    assert facts["Training"][1] == f"{MODEL.n_iter_} epochs, {MODEL.history_['solver'][0]}"
    assert set(facts) == {"Accuracy", "Balanced accuracy", "Above the optimum", "Support vectors", "Training"}
    online = LinearSVM().partial_fit(X, Y, classes=[0, 1, 2])
    judged_online = judge(online, X, Y)
    assert [name for name, _, _ in _facts(judged_online)] == ["Accuracy", "Balanced accuracy"]
    assert _title(judged) == "A Crammer-Singer machine for 3 classes"
    assert _subtitle(judged) == "Linear machine, hinge loss, C = 1, 4 features"
    assert _subtitle(judged_online) == "Linear machine, hinge loss, 4 features"
    assert _convergence_plot(online) is None and _path_plot(MODEL) is None
    assert f"the target {MODEL.tol:g}" in _convergence_plot(MODEL)
    path = LinearSVMCV(Cs=[0.1, 1.0], cv=2).fit(X, Y)
    assert f"the best is {path.best_score_:.4g} at C = {path.C_:.4g}" in _path_plot(path)


def test_what_is_refused():
    for model, rows, labels, words in (
        (MODEL, X[:0], Y[:0], "X and y have no rows to judge the model on"),
        (MODEL, X, Y + 7, r"no label of y is a class of the model: y has 7, 8, 9, the model 0, 1, 2$"),
        (MODEL, X[:6], np.arange(6) + 7, r"y has 7, 8, 9, 10, 11, \.\.\., the model"),
        (LinearSVM(memory_mb=1e-5).fit(X, Y), X, Y, "this LinearSVM has sparse weights for 3 of them"),
    ):
        with pytest.raises(ValueError, match=words):
            judge(model, rows, labels)
    with pytest.raises(TypeError, match=r"write_report is for LinearSVM.*; got StandardScaler"):
        judge(StandardScaler().fit(X), X, Y)


def test_small_parts_of_judging():
    np.testing.assert_array_equal(_ratio(np.array([1, 0, 2]), np.array([2, 0, 4])), [0.5, np.nan, 0.5])
    assert _equal(X, X.copy()) and not _equal(X, X + 1) and not _equal(X, X[:, :3])
    assert _equal(sp.csr_array(X), sp.csr_array(X)) and not _equal(sp.csr_array(X), sp.csr_array(X * 2))
    assert _some(np.arange(5)) == "0, 1, 2, 3, 4" and _some(np.arange(6)) == "0, 1, 2, 3, 4, ..."


def test_rivals_of_rows():
    judged = judge(MODEL, X[::7], np.append(Y[::7][:-1], 9))
    rival, ahead = judged.rivals
    scores = MODEL.decision_function(X[::7])
    for row, label in enumerate(judged.true[:-1].tolist()):
        others = np.delete(np.arange(3), label)
        assert rival[row] == others[scores[row, others].argmax()]
        assert ahead[row] == pytest.approx(scores[row, others].max() - scores[row, label])
    assert ahead[-1] == -np.inf


def test_doubts_of_other_rows_are_those_that_are_wrong():
    judged = judge(LinearSVM(C=1e-4).fit(X[::2], Y[::2]), X[1::3], Y[1::3])
    found, by_duals = doubts(judged, Rows(judged.X, list("abcd")))
    _, ahead = judged.rivals
    assert not by_duals and 0 < len(found) <= 15
    assert len(found) == min(15, int((ahead > 0).sum()))
    assert [doubt.row for doubt in found] == np.argsort(-ahead, kind="stable")[: len(found)].tolist()
    assert all(doubt.share is None and doubt.label != doubt.rival for doubt in found)


# What speaks


def test_the_strongest_on_either_side():
    values = np.array([0.5, -2.0, 1.0, 0.0, -0.25])
    speaks_for, against = _strongest(values, 2, lambda j: (f"n{j}", None))
    assert [(item.name, item.value, item.width) for item in speaks_for] == [("n2", "1.0", 50.0), ("n0", "0.50", 25.0)]
    assert [(item.name, item.value, item.width) for item in against] == [
        ("n1", "\u22122.0", 100.0),
        ("n4", "\u22120.25", 12.5),
    ]
    assert _strongest(np.zeros(0), 2, None) == ([], []) and _strongest(np.zeros(3), 2, None) == ([], [])


def test_rows_that_are_shown():
    rows = np.array([[0.0, -3.0, 1.0, 0.0, 2.0, 5.0, 4.0, 7.0, 6.0]])
    names = list("abcdefghi")
    for given in (rows, sp.csr_array(rows)):
        shown = Rows(given, names).show(0)
        assert [name for name, _ in shown.features] == ["h", "i", "f", "g", "b", "e"] and shown.n_more == 1
        weights = np.array([9.0, 9, 9, 0, 0, 0, 0, 0, 1])
        assert [name for name, _ in Rows(given, names).show(0, weights).features][:3] == ["b", "c", "i"]
    assert Rows(rows, names).show(0).features[0] == ("h", "7.00")
    table = pd.DataFrame([range(7)], columns=list("pqrstuv"))
    shown = Rows(rows, names, table=table).show(0)
    assert shown.features[-1] == ("u", "5") and len(shown.features) == 6 and shown.n_more == 1
    assert Rows(rows, names, table=table[["p"]]).show(0).n_more == 0
    assert Rows(rows, names, texts=[" a\n b "]).show(0).text == "a b"
    for length, cut in ((2000, False), (2001, True)):
        text = Rows(rows, names, texts=["x" * length]).show(0).text
        assert len(text) == 2000 and text.endswith("…") == cut


def test_which_rows_are_shown():
    pipeline = SimpleNamespace(steps=[])
    assert rows_to_show(MODEL, X, X, [], ["t"] * 150).texts == ["t"] * 150
    with pytest.raises(ValueError, match="rows must have one text for each of the 150 rows of X; got 149"):
        rows_to_show(MODEL, X, X, [], ["t"] * 149)
    assert rows_to_show(pipeline, ["a", "b"], X, [], None).texts == ["a", "b"]
    assert rows_to_show(pipeline, ["a", 3], X, [], None).texts is None
    frame = pd.DataFrame(X)
    assert rows_to_show(pipeline, frame, X, [], None).table is frame
    assert rows_to_show(MODEL, frame, X, [], None).table is None


def test_names_of_features():
    def names(of_machine, given=None, n=2):
        return feature_names_of(of_machine, of_machine, n, given)

    assert names(SimpleNamespace()) == ["x0", "x1"]
    assert names(SimpleNamespace(first_index_=1)) == ["x1", "x2"] and names(SimpleNamespace(first_index_=0))[0] == "x0"
    assert names(SimpleNamespace(feature_names_in_=["a", "b"])) == ["a", "b"]
    assert names(SimpleNamespace(feature_names_in_=["a"])) == ["x0", "x1"]
    assert names(SimpleNamespace(), [1, "b"]) == ["1", "b"]
    with pytest.raises(ValueError, match="feature_names must have 2 names, one a feature; got 3"):
        names(SimpleNamespace(), "abc")
    alone = make_pipeline(LinearSVM().fit(pd.DataFrame(X, columns=list("abcd")), Y))
    assert feature_names_of(alone, alone[-1], 4, None) == list("abcd")


# Probabilities


def test_calibration_by_hand():
    probability = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [0.7, 0.3]])
    judged = judged_by_hand([0, 1, 0, 2], [0, 1, 1, 0], known=2)
    judged.machine.predict_proba = lambda rows: probability
    found = calibration(judged)
    np.testing.assert_allclose(found.confidence, [0.6, 0.7, 0.8, 0.9])
    np.testing.assert_array_equal(found.right, [1, 0, 0, 1])
    assert found.size.tolist() == [1, 1, 1, 1]
    assert found.error == pytest.approx((0.4 + 0.7 + 0.8 + 0.1) / 4)
    assert found.log_loss == pytest.approx(-np.log([0.9, 0.6, 0.2, 1e-15]).mean())
    assert calibration(judge(MODEL, X, Y)) is None
    assert calibration(judge(LinearSVM().fit(X, Y).set_params(probability=True), X, Y)) is None


def test_bins_of_the_calibration():
    probability = np.column_stack([np.linspace(0.51, 0.99, 25), np.linspace(0.49, 0.01, 25)])
    judged = judged_by_hand([0] * 25, [0] * 25, known=2)
    judged.machine.predict_proba = lambda rows: probability
    assert sorted(calibration(judged).size.tolist()) == [2] * 5 + [3] * 5


@pytest.mark.parametrize(("confidence", "right", "low"), [(0.55, 0.8, 0.5), (0.9, 0.32, 0.2), (0.04, 0.5, 0.0)])
def test_where_the_diagonal_begins(confidence, right, low):
    ax = Figure().subplots()
    Calibration(np.array([confidence]), np.array([right]), np.array([4]), 0.1, 0.1).plot(ax)
    assert ax.get_xlim() == ax.get_ylim() == pytest.approx((low, 1.01))
    np.testing.assert_allclose(ax.lines[0].get_xdata(), [low, 1])
    ((x, bottom), (_, top)) = ax.collections[0].get_segments()[0]
    assert x == confidence and top - bottom == pytest.approx(2 * np.sqrt(right * (1 - right) / 4))


def test_colours_of_the_page():
    assert _themed("fill: #0072b2; stroke: #010203") == "fill: var(--blue); stroke: var(--ink)"
    assert _themed("font: 9.5px 'DejaVu Sans', sans-serif; x: y") == "font: 9.5px sans-serif; x: y"
