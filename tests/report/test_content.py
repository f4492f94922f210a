"""What the report says is what the model is."""

import re
from decimal import Decimal
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from multimargin import KernelSVM, LinearSVM, LinearSVMCV
from multimargin.report.calibration import Calibration
from multimargin.report.provenance import parameters
from multimargin.report.rows import Rows
from tests.report.pages import report, texts_and_labels

X, y = load_digits(return_X_y=True)
X = X / 16
X_train, y_train, X_test, y_test = X[:700], y[:700], X[700:], y[700:]
MODEL = LinearSVM(C=0.1).fit(X_train, y_train)
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def page():
    return report(MODEL, X_test, y_test)


def numbers_in(text):
    return [Decimal(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\.?\d*(?:e[-+]?\d+)?", text)]


def facts(page):
    found = {}
    for tile in page.one("dl", "facts").all("div"):
        found[tile.one("dt").text] = tile.one("dd", "value").text
    return found


def doubt_table(page):
    rows = page.by_id("doubts").one("table").one("tbody").all("tr")
    return [[cell.text for cell in row.all("td")] for row in rows]


def items(element):
    """Name and value of what speaks, from one side of a class."""
    return [
        (item.one("span", "name").text, float(item.one("span", "number").text.replace("\u2212", "-")))
        for item in element.all("li")
    ]


def evidence(page):
    """From class to what speaks for and against it."""
    found = {}
    for details in page.by_id("evidence").all("details"):
        sides = details.all("div", "sides")
        if len(sides) == 1:
            found[details.one("strong").text] = [items(side) for side in sides[0].children if hasattr(side, "tag")]
    return found


# The summary


@pytest.mark.parametrize(
    "model", [LinearSVM(C=0.1), LinearSVM(tol=1e-7), KernelSVM()], ids=["linear", "exact", "kernel"]
)
def test_certificate_in_words_is_true(model):
    model.fit(X_train, y_train)
    low, high, above = numbers_in(report(model, X_test, y_test).one("p", "proof").text)
    primal, dual = Decimal(model.primal_objective_), Decimal(model.dual_objective_)
    assert dual * (1 - Decimal("1e-4")) < low <= dual
    assert primal <= high < primal * (1 + Decimal("1e-4"))
    assert low < high
    assert (primal - dual) / dual <= above / 100 * (1 + Decimal("1e-6"))
    assert above / 100 <= (primal - dual) / dual * Decimal("1.11")


@pytest.mark.parametrize("formulation, n_machines", [("one_vs_rest", 10), ("one_vs_one", 45), ("dag", 45)])
def test_certificate_of_several_machines_names_the_worst(formulation, n_machines):
    model = LinearSVM(formulation, C=0.1).fit(X_train, y_train)
    *_, number, worst = numbers_in(report(model, X_test, y_test).one("p", "proof").text)
    assert number == n_machines
    assert model.worst_gap_ <= float(worst) / 100 <= 1.12 * model.worst_gap_


def test_facts_are_the_models(page):
    found = facts(page)
    assert found["Accuracy"] == f"{100 * MODEL.score(X_test, y_test):.1f} %"
    assert found["Support vectors"] == f"{len(MODEL.support_)}"
    assert found["Above the optimum"].startswith("≤")
    assert "rows that were given" in page.by_id("summary").text


def test_a_model_without_certificate_says_so():
    online = LinearSVM().partial_fit(X_train, y_train, classes=np.arange(10))
    page = report(online, X_test, y_test)
    assert page.one("p", "proof").text.startswith("There is no certificate")
    assert not [section for section in page.all("section") if section.attributes["id"] == "convergence"]
    assert "Above the optimum" not in facts(page)


def test_a_model_that_missed_its_target_says_so():
    with pytest.warns(ConvergenceWarning):
        model = LinearSVM(solver="sdm", max_iter=1).fit(X_train, y_train)
    page = report(model, X_test, y_test)
    assert "Training stopped before the target gap of 0.0010" in page.one("p", "notice").text
    assert not report(MODEL, X_test, y_test).all("p", "notice")


def test_rows_of_training_are_called_so():
    page = report(MODEL, X_train, y_train)
    assert "trained on: expect less" in page.by_id("summary").text
    assert "Rows of training whose duals" in page.by_id("doubts").text


# Classes and confusion


def test_table_of_classes(page):
    said = MODEL.predict(X_test)
    precision, recall, f1, support = precision_recall_fscore_support(y_test, said)
    rows = page.by_id("table-of-classes").one("tbody").all("tr")
    order = [int(row.one("th").text) for row in rows]
    np.testing.assert_array_equal(order, np.argsort(f1, kind="stable"))
    for label, row in zip(order, rows, strict=True):
        values = [float(cell.attributes["data-value"]) for cell in row.all("td")]
        np.testing.assert_allclose(values, [support[label], precision[label], recall[label], f1[label]])
        assert row.all("td")[2].text == f"{100 * recall[label]:.1f} %"


def test_the_worst_pair_comes_first(page):
    matrix = confusion_matrix(y_test, MODEL.predict(X_test))
    np.fill_diagonal(matrix, 0)
    both = matrix + matrix.T
    rows = page.by_id("confusion").one("table", "pairs").one("tbody").all("tr")
    totals = []
    for row in rows:
        first, second = (int(label) for label in row.one("th").text.split(" and "))
        counts = [int(cell.text.split()[0]) for cell in row.all("td")]
        assert counts == [matrix[first, second], matrix[second, first]]
        totals.append(sum(counts))
    assert totals[0] == both.max()
    assert totals == sorted(totals, reverse=True)


def test_the_matrix_is_the_confusion_matrix(page):
    rows = page.by_id("confusion").one("table", "matrix").one("tbody").all("tr")
    counts = [[int(cell.text) for cell in row.all("td")] for row in rows]
    np.testing.assert_array_equal(counts, confusion_matrix(y_test, MODEL.predict(X_test)))


def test_many_classes_have_pairs_but_no_matrix():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(210, 20))
    label = np.repeat(np.arange(210), 6)
    rows = centres[label] + 0.9 * rng.normal(size=(len(label), 20))
    model = LinearSVM(C=0.1).fit(rows, label)
    page = report(model, rows, label)
    assert not page.all("table", "matrix")
    assert "210 classes cannot be read" in page.by_id("confusion").text
    assert page.by_id("confusion").one("table", "pairs").one("tbody").all("tr")
    assert len(page.by_id("table-of-classes").one("tbody").all("tr")) == 210
    assert len(evidence(page)) == 200
    assert "The 200 hardest of 210 classes." in page.by_id("evidence").text


def test_nothing_confused():
    page = report(KernelSVM(C=100.0).fit(X_train, y_train), X_train, y_train)
    assert "No two classes were confused" in page.by_id("confusion").text


def test_labels_that_the_model_does_not_know_are_counted_wrong():
    few = y_train < 9
    model = LinearSVM(C=0.1).fit(X_train[few], y_train[few])
    page = report(model, X_test, y_test)
    assert "1 label of these rows is unknown to the model" in page.by_id("summary").text
    assert facts(page)["Accuracy"] == f"{100 * model.score(X_test, y_test):.1f} %"
    assert len(evidence(page)) == 9


# What speaks for and against


def test_weights_less_their_mean(page):
    model = LinearSVM("one_vs_rest", C=0.1).fit(X_train, y_train)
    names = [f"pixel {j}" for j in range(64)]
    found = evidence(report(model, X_test, y_test, feature_names=names))
    weight = model.coef_ - model.coef_.mean(axis=0)
    for label in range(10):
        speaks_for, speaks_against = found[str(label)]
        order = np.argsort(weight[label])
        assert [name for name, _ in speaks_for] == [names[j] for j in order[::-1][:10]]
        assert [name for name, _ in speaks_against] == [names[j] for j in order[:10]]
        assert speaks_for[0][1] == pytest.approx(weight[label].max(), rel=0.05)
        assert speaks_against[0][1] == pytest.approx(weight[label].min(), rel=0.05)


def test_weights_of_pairs():
    rows = y_train < 3
    model = LinearSVM("one_vs_one", C=0.1).fit(X_train[rows], y_train[rows])
    found = evidence(report(model, X_train[rows], y_train[rows]))
    of_01, of_02, of_12 = model.coef_
    for label, weight in enumerate([of_01 + of_02, of_12 - of_01, -of_02 - of_12]):
        assert found[str(label)][0][0][0] == f"x{weight.argmax()}"
        assert found[str(label)][0][0][1] == pytest.approx(weight.max() / 2, rel=0.05)


@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_one"])
def test_two_classes_speak_against_each_other(formulation):
    rows = y_train < 2
    model = LinearSVM(formulation, C=0.1).fit(X_train[rows], y_train[rows])
    page = report(model, X_train[rows], y_train[rows])
    found = evidence(page)
    assert found["1"][0][0] == (f"x{model.coef_[0].argmax()}", pytest.approx(model.coef_.max(), rel=0.05))
    assert [name for name, _ in found["0"][0]] == [name for name, _ in found["1"][1]]
    assert page.one("h1").text.endswith("for 2 classes")


def test_support_vectors_that_speak():
    model = KernelSVM(C=10.0).fit(X_train, y_train)
    found = evidence(report(model, X_test, y_test))
    own = np.flatnonzero(y_test == 8)
    own = own[np.linspace(0, len(own) - 1, 100).round().astype(int)]  # rows evenly taken
    K = rbf_kernel(X_test[own], model.support_vectors_, gamma=model.gamma_)
    duals = model.dual_coef_[model.support_].toarray()
    adds = (duals[:, 8] - duals.mean(axis=1)) * K.mean(axis=0)
    speaks_for, speaks_against = found["8"]
    best, worst = model.support_[adds.argmax()], model.support_[adds.argmin()]
    assert speaks_for[0] == (f"row {best}, labelled {y_train[best]}", pytest.approx(adds.max(), rel=0.05))
    assert speaks_against[0] == (f"row {worst}, labelled {y_train[worst]}", pytest.approx(adds.min(), rel=0.05))
    assert y_train[best] == 8 != y_train[worst]


def test_support_vectors_of_a_precomputed_kernel_are_only_named():
    model = KernelSVM(kernel="precomputed").fit(X_train @ X_train.T, y_train)
    page = report(model, X_test @ X_train.T, y_test)
    assert len(evidence(page)) == 10
    assert not page.by_id("evidence").all("div", "chips")


def test_a_linear_kernel_has_features():
    model = KernelSVM(kernel="linear", C=0.1).fit(X_train, y_train)
    assert evidence(report(model, X_test, y_test))["0"][0][0][0].startswith("x")


# Doubtful labels


def test_wrong_labels_are_found():
    wrong = np.random.default_rng(0).choice(700, 12, replace=False)
    labels = y_train.copy()
    labels[wrong] = (labels[wrong] + 3) % 10
    model = LinearSVM(C=0.1).fit(X_train, labels)
    table = doubt_table(report(model, X_train, labels))
    found = [int(row[0]) for row in table]
    assert len(set(found) & set(wrong)) >= 10
    share = np.asarray(model.label_doubt().sum(axis=1)).ravel()
    for row, label, rival, doubt, _, _ in table:
        assert int(label) == labels[int(row)] != int(rival)
        assert doubt == f"{100 * share[int(row)]:.0f} %"


@pytest.mark.parametrize(
    "model, data",
    [
        (MODEL, "test"),
        (LinearSVM("one_vs_rest", C=0.1), "train"),
        (LinearSVM(loss="squared_hinge", C=0.001), "train"),
    ],
)
def test_without_duals_to_read_the_margins_decide(model, data):
    rows, labels = (X_test, y_test) if data == "test" else (X_train, y_train)
    if model is not MODEL:
        model.fit(X_train, y_train)
    scores = model.decision_function(rows)
    at = np.arange(len(labels))
    own = scores[at, labels].copy()
    scores[at, labels] = -np.inf
    ahead = scores.max(axis=1) - own
    table = doubt_table(report(model, rows, labels))
    expected = np.argsort(-ahead, kind="stable")[: min(15, int((ahead > 0).sum()))]
    assert [int(row[0]) for row in table] == expected.tolist()
    assert [int(row[2]) for row in table] == scores.argmax(axis=1)[expected].tolist()


def test_rows_that_nobody_doubts_are_not_listed():
    labels = np.arange(60) % 3
    rows = np.eye(3)[labels] * (1 + labels[:, None] + np.arange(60)[:, None])  # those far out are at rest
    model = LinearSVM(tol=1e-6).fit(rows, labels)
    share = np.asarray(model.label_doubt().sum(axis=1)).ravel().round(6)
    assert 0 < (share > 0).sum() < 15
    table = doubt_table(report(model, rows, labels))
    assert sorted(int(row[0]) for row in table) == np.flatnonzero(share > 0).tolist()


def test_features_of_doubtful_rows_are_theirs(page):
    for row, *_, content in doubt_table(page):
        shown = re.findall(r"x(\d+) ([\d.]+)", content)
        assert shown
        for j, value in shown:
            assert X_test[int(row), int(j)] == pytest.approx(float(value), abs=5.1e-4)


def test_given_texts_are_shown():
    page = report(MODEL, X_test, y_test, rows=[f"image {i} of <b>" for i in range(len(y_test))])
    for row, *_, content in doubt_table(page):
        assert content == f"image {row} of <b>"


# Pipelines


def test_texts():
    texts, labels = texts_and_labels(["alpha", "beta", "gamma"])
    model = make_pipeline(TfidfVectorizer(), LinearSVM(C=0.05)).fit(texts, labels)
    page = report(model, texts, labels)
    words = set(model[0].get_feature_names_out())
    assert {name for sides in evidence(page).values() for side in sides for name, _ in side} <= words
    assert "trained on" in page.by_id("summary").text
    for row, label, *_, content in doubt_table(page):
        assert content == texts[int(row)]
        assert label == labels[int(row)]
    assert "TfidfVectorizer" in page.by_id("parameters").text
    assert page.one("h1").text == "A Crammer-Singer machine for 3 classes"


def test_tables_are_shown_as_they_were():
    import pandas as pd

    frame = pd.DataFrame(X_train, columns=[f"pixel {j}" for j in range(64)])
    model = make_pipeline(StandardScaler(), LinearSVM(C=0.01)).fit(frame, y_train)
    page = report(model, frame, y_train)
    assert evidence(page)["0"][0][0][0].startswith("pixel ")
    row, *_, content = doubt_table(page)[0]
    assert content.startswith(f"pixel 0 {frame.iloc[int(row), 0]} pixel 1 {frame.iloc[int(row), 1]} ")


def test_steps_without_names_of_features():
    model = make_pipeline(FunctionTransformer(), LinearSVM(C=0.1)).fit(X_train, y_train)
    assert evidence(report(model, X_test, y_test))["0"][0][0][0].startswith("x")
    alone = make_pipeline(LinearSVM(C=0.1)).fit(X_train, y_train)
    assert facts(report(alone, X_test, y_test))["Accuracy"]


def test_long_texts_are_cut_and_short_ones_are_whole():
    for length, shown in ((2000, "x" * 2000), (2001, "x" * 1999 + "…")):
        rows = Rows(X_test, [], texts=["x" * length] * len(y_test))
        assert rows.show(0).text == shown


def test_a_step_is_named_only_where_there_are_several():
    assert [title for title, _ in parameters(MODEL)] == ["LinearSVM"]
    steps = make_pipeline(StandardScaler(), LinearSVM())
    assert [title for title, _ in parameters(steps)] == ["StandardScaler (standardscaler)", "LinearSVM (linearsvm)"]


def test_the_diagonal_of_the_calibration_is_one():
    judged = Calibration(np.array([0.55, 0.9]), np.array([0.5, 0.95]), np.array([10, 20]), 0.1, 0.05)
    _, ax = plt.subplots()
    judged.plot(ax)
    across, up = ax.lines[0].get_data()
    assert list(across) == list(up) == [pytest.approx(0.4), 1.0]
    assert ax.get_xlim() == ax.get_ylim() == (pytest.approx(0.4), 1.01)
    plt.close("all")


def test_the_path_of_C():
    model = LinearSVMCV(Cs=[0.01, 0.1], cv=3).fit(X_train, y_train)
    section = report(model, X_test, y_test).by_id("path")
    assert len(section.all("svg")) == 2
    assert f"C = {model.C_:.4g}" in section.all("svg")[0].attributes["aria-label"]


# Calibration


class WithProbabilities(LinearSVM):
    """Softmax of the scores."""

    def predict_proba(self, X):
        scores = self.decision_function(X)
        scores = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
        e = np.exp(3 * (scores - scores.max(axis=1, keepdims=True)))
        return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_classes", [2, 10])
def test_calibration(n_classes):
    from sklearn.metrics import log_loss

    train, test = y_train < n_classes, y_test < n_classes
    model = WithProbabilities(C=0.1).fit(X_train[train], y_train[train])
    section = report(model, X_test[test], y_test[test]).by_id("calibration")
    probability = model.predict_proba(X_test[test])
    error, loss = numbers_in(section.all("p")[0].text)[-2:]
    assert float(loss) == pytest.approx(log_loss(y_test[test], probability), rel=1e-3)
    confidence = probability.max(axis=1)
    right = model.predict(X_test[test]) == y_test[test]
    parts = np.array_split(np.argsort(confidence, kind="stable"), 10)
    expected = sum(abs((confidence[part] - right[part]).sum()) for part in parts) / len(right)
    assert float(error) / 100 == pytest.approx(expected, abs=5.1e-4)
    assert len(section.all("svg")) == 2


def test_no_probabilities_no_calibration(page):
    assert not [section for section in page.all("section") if section.attributes["id"] == "calibration"]


# The page itself


def test_all_that_comes_from_data_is_escaped():
    labels = np.array(["&amp;", SCRIPT, '"><img src=x onerror=alert(1)>'])[y_train % 3]
    names = [f"{SCRIPT}{j}" for j in range(64)]
    rows = [f"{SCRIPT}&lt;{i}" for i in range(700)]
    model = LinearSVM(C=0.01).fit(X_train, labels)
    page = report(model, X_train, labels, feature_names=names, rows=rows, title=f"{SCRIPT}'")
    (script,) = page.all("script")
    assert "alert" not in script.text
    assert not page.all("img")
    assert page.one("h1").text == page.one("title").text == f"{SCRIPT}'"
    assert set(evidence(page)) == set(labels)
    assert evidence(page)[SCRIPT][0][0][0] in names
    row, label, *_, content = doubt_table(page)[0]
    assert label == labels[int(row)]
    assert content == rows[int(row)]


def test_the_page_needs_nothing_else(page):
    for element in page:
        for name, value in element.attributes.items():
            assert not name.startswith("on")
            if name in ("href", "src", "xlink:href"):
                assert value.startswith("#")
            if name != "xmlns":
                assert "//" not in (value or "")
    assert "url(" not in page.one("style").text
    assert "@import" not in page.one("style").text


def test_ids_are_unique_and_references_point_somewhere(page):
    ids = [element.attributes["id"] for element in page if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    for element in page:
        for name in ("aria-labelledby", "aria-describedby"):
            assert element.attributes.get(name, ids[0]) in ids
        if element.attributes.get("href"):
            assert element.attributes["href"][1:] in ids
        for reference in re.findall(r"url\(#([^)]+)\)", " ".join(str(value) for value in element.attributes.values())):
            assert reference in ids


def test_headings_are_in_order(page):
    levels = [int(element.tag[1]) for element in page if re.fullmatch("h[1-6]", element.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_plots_are_described_and_take_their_colours_from_the_page(page):
    plots = page.all("svg")
    assert len(plots) == 2
    for plot in plots:
        assert plot.attributes["role"] == "img"
        assert "gap" in plot.attributes["aria-label"]
        styles = " ".join(element.attributes.get("style") or "" for element in plot)
        assert "var(--blue)" in styles
        assert "var(--ink)" in styles
        assert set(re.findall(r"#[0-9a-f]{6}\b", styles)) <= {"#000000"}  # strokes of width zero


def test_parameters_and_versions(page):
    import sklearn

    import multimargin

    text = page.by_id("parameters").text
    assert "C 0.1" in text
    assert "formulation 'crammer_singer'" in text
    assert f"multimargin {multimargin.__version__}" in text
    assert f"scikit-learn {sklearn.__version__}" in text
