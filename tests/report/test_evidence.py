"""What speaks for and against classes, computed by hand; and plots as markup for the page."""

from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

from multimargin import KernelSVM, LinearSVM
from multimargin.report.doubts import _DifferenceOfWeights
from multimargin.report.evidence import _of_vectors, _ShareOfClass, _Vectors, _vectors_to_show, evidence
from multimargin.report.judgement import judge
from multimargin.report.plots import _for_page, svg
from multimargin.report.rows import Rows, Shown
from multimargin.report.writing import write_report

X, Y = load_iris(return_X_y=True)
NAMES = ["a", "b", "c", "d"]


def share(formulation, k, vectors, m):
    machine = SimpleNamespace(classes_=np.arange(k), formulation=formulation)
    dense = _ShareOfClass(machine, np.array(vectors, dtype=float))(m)
    sparse = _ShareOfClass(machine, sp.csr_array(np.array(vectors, dtype=float)))(m)
    np.testing.assert_allclose(np.asarray(sparse).ravel(), dense)
    return dense.tolist()


@pytest.mark.parametrize(
    ("formulation", "k", "vectors", "m", "expected"),
    [
        ("crammer_singer", 2, [[1, -2]], 1, [1, -2]),
        ("one_vs_one", 2, [[1, -2]], 0, [-1, 2]),
        ("crammer_singer", 3, [[1, 0], [2, 3], [3, 3]], 0, [-1, -2]),
        ("one_vs_rest", 3, [[1, 0], [2, 3], [3, 3]], 1, [0, 1]),
        ("one_vs_one", 3, [[1, 0], [2, 3], [5, 7]], 0, [1.5, 1.5]),  # pairs 01, 02, 12
        ("dag", 3, [[1, 0], [2, 3], [5, 7]], 1, [2, 3.5]),
        ("one_vs_one", 3, [[1, 0], [2, 3], [5, 7]], 2, [-3.5, -5]),
    ],
)
def test_what_speaks_for_a_class(formulation, k, vectors, m, expected):
    assert share(formulation, k, vectors, m) == expected


def test_evidence_of_features():
    judged = judge(LinearSVM("one_vs_rest").fit(X, Y), X, Y)
    found = evidence(judged, NAMES, Rows(X, NAMES))
    assert [each.label for each in found] == [str(label) for label in np.argsort(judged.f1, kind="stable")]
    weights = judged.machine.coef_ - judged.machine.coef_.mean(axis=0)
    for each in found:
        own = weights[int(each.label)]
        assert each.f1 == judged.f1[int(each.label)]
        assert [item.name for item in each.speaks_for] == [NAMES[j] for j in np.argsort(-own) if own[j] > 0]
        assert [item.name for item in each.speaks_against] == [NAMES[j] for j in np.argsort(own) if own[j] < 0]
        widths = [item.width for item in (*each.speaks_for, *each.speaks_against)]
        assert max(widths) == pytest.approx(100) and min(widths) > 0


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_evidence_of_vectors(kernel):
    rows = X @ X.T if kernel == "precomputed" else X
    model = KernelSVM(kernel=kernel, gamma=0.5).fit(rows, Y)
    judged = judge(model, rows, Y)
    found = {each.label: each for each in evidence(judged, NAMES, Rows(rows, NAMES))}
    duals = model.dual_coef_[model.support_].toarray()
    for m in range(3):
        own = np.flatnonzero(m == Y)
        if kernel == "precomputed":
            likeness = rows[np.ix_(own, model.support_)].mean(axis=0)
        else:
            distances = ((X[own][:, None] - model.support_vectors_[None]) ** 2).sum(axis=2)
            likeness = np.exp(-0.5 * distances).mean(axis=0)
        adds = (duals[:, m] - duals.mean(axis=1)) * likeness
        best = np.argsort(-adds, kind="stable")[:4]
        names = [f"row {model.support_[j]}, labelled {Y[model.support_[j]]}" for j in best if adds[j] > 0]
        assert [item.name for item in found[str(m)].speaks_for] == names
        assert len(found[str(m)].speaks_against) <= 4
        shown = found[str(m)].speaks_for[0].shown
        assert (shown is None) == (kernel == "precomputed")


def test_a_class_without_rows_has_its_duals():
    model = KernelSVM().fit(X, Y)
    judged = judge(model, X[:100], Y[:100])
    vectors = _vectors_to_show(judged, NAMES, Rows(X, NAMES))
    share = np.zeros(len(model.support_))
    share[2] = -1.5
    found = _of_vectors(judged, 2, share, vectors)
    assert found.speaks_for == [] and found.speaks_against[0].value == "\u22121.5"


def test_how_vectors_are_shown():
    support = np.array([4, 7])
    of_vectors, of_training = Rows(np.array([[1.0], [2.0]]), ["v"]), Rows(np.arange(8.0)[:, None], ["t"])
    told = _Vectors(support, ["x", "y"], of_vectors, of_training).describe(1)
    assert told == ("row 7, labelled y", Shown(features=[("t", "7.00")]))
    assert _Vectors(support, None, of_vectors, None).describe(1) == ("row 7", Shown(features=[("v", "2.00")]))
    assert _Vectors(support, None, None, None).describe(0) == ("row 4", None)
    model = KernelSVM().fit(X, Y)
    on_training = _vectors_to_show(judge(model, X, Y), NAMES, of_training)
    assert on_training.training_rows is of_training and on_training.labels[0] == str(Y[model.support_[0]])
    assert _vectors_to_show(judge(model, X[::2], Y[::2]), NAMES, of_training).training_rows is None
    gram = judge(KernelSVM(kernel="precomputed").fit(X @ X.T, Y), X @ X.T, Y)
    assert _vectors_to_show(gram, NAMES, of_training).training_rows is None
    with_texts = Rows(X, NAMES, texts=["t"] * 150)
    assert _vectors_to_show(gram, NAMES, with_texts).training_rows is with_texts
    assert _vectors_to_show(gram, NAMES, with_texts).rows is None


def test_weights_of_a_label_against_its_rival():
    model = LinearSVM().fit(X, Y)
    between = _DifferenceOfWeights(judge(model, X, Y))
    np.testing.assert_array_equal(between(0, 2), model.coef_[2] - model.coef_[0])
    assert _DifferenceOfWeights(judge(LinearSVM().fit(X, Y > 0), X, Y > 0))(0, 1) is None
    assert _DifferenceOfWeights(judge(KernelSVM().fit(X, Y), X, Y))(0, 1) is None


# Plots


def test_markup_of_a_plot():
    text = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9" height="8" '
        'version="1.1" viewBox="0 0 9 8"><metadata/><style>x</style><defs><path id="used"/><path id="idle"/></defs>'
        '<use xlink:href="#used" style="fill: #0072b2"/><g clip-path="url(#used)"/></svg>'
    )
    root = ElementTree.fromstring(_for_page(text, "p-wide", "wide", "a <plot>"))
    assert root.attrib == {"viewBox": "0 0 9 8", "class": "plot wide", "role": "img", "aria-label": "a <plot>"}
    tags = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert tags == ["svg", "defs", "path", "path", "use", "g"]
    used, idle, use, group = list(root.iter())[2:]
    assert used.attrib == {"id": "p-wide-used"} and idle.attrib == {}
    assert use.attrib == {"href": "#p-wide-used", "style": "fill: var(--blue)"}
    assert group.attrib == {"clip-path": "url(#p-wide-used)"}


def test_a_plot_is_drawn_twice():
    sizes = []
    text = svg(lambda ax: sizes.append(tuple(ax.figure.get_size_inches())), "name", "words")
    assert sizes == [(7.4, 3.5), (3.5, 3.2)]
    assert text.count('aria-label="words"') == 2 and 'class="plot wide"' in text and 'class="plot narrow"' in text


def test_titles(tmp_path):
    model = LinearSVM().fit(X, Y)
    write_report(model, X, Y, tmp_path / "r.html", title="A <b>title</b>")
    page = (tmp_path / "r.html").read_text()
    assert "A &lt;b&gt;title&lt;/b&gt;" in page and "<b>title" not in page
