"""Votes and eliminations from the decisions of pairs, by hand and against plain Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import load_iris
from sklearn.svm import SVC

from multimargin import LinearSVM
from multimargin.reductions.pairwise import (
    pairs,
    rounds_of_elimination,
    rounds_with_confidence,
    votes,
    votes_with_confidence,
)

fast = settings(max_examples=100, deadline=None, derandomize=True, database=None)


@st.composite
def decisions(draw):
    """Decisions of all pairs for some rows; small integers among them, so that zeros and ties are common."""
    n_classes = draw(st.integers(2, 7))
    n_rows = draw(st.integers(0, 6))
    values = draw(st.sampled_from([st.integers(-2, 2).map(float), st.floats(-1e6, 1e6)]))
    shape = (n_rows, n_classes * (n_classes - 1) // 2)
    return draw(arrays(np.float64, shape, elements=values)), n_classes


def winner(row, n_classes, i, j):
    """Who wins the pair (i, j), i < j: the first of them at zero or above."""
    machine = [(a, b) for a in range(n_classes) for b in range(a + 1, n_classes)].index((i, j))
    return i if row[machine] >= 0 else j


def plain_votes(row, n_classes):
    won = [0] * n_classes
    for i in range(n_classes):
        for j in range(i + 1, n_classes):
            won[winner(row, n_classes, i, j)] += 1
    return won


def plain_elimination(row, n_classes):
    left, ruled_out = list(range(n_classes)), [n_classes - 1] * n_classes
    for step in range(n_classes - 1):
        loser = left[-1] if winner(row, n_classes, left[0], left[-1]) == left[0] else left[0]
        ruled_out[loser] = step
        left.remove(loser)
    return ruled_out


def test_pairs_in_the_order_of_the_machines():
    assert pairs(2) == [(0, 1)]
    assert pairs(4) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert len(pairs(20)) == 190


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([1.0, 1.0, 1.0], [2, 1, 0]),
        ([-1.0, -1.0, -1.0], [0, 1, 2]),
        ([-1.0, 1.0, -1.0], [1, 1, 1]),  # a cycle
        ([0.0, 0.0, 0.0], [2, 1, 0]),  # zero is the smaller class's
        ([-0.0, 0.0, -1e-300], [2, 0, 1]),
    ],
)
def test_votes_by_hand(row, expected):
    np.testing.assert_array_equal(votes(np.array([row]), 3), [expected])


def test_ties_go_to_the_smaller_index():
    cycle = np.array([[-1.0, 1.0, -5.0]])  # 1 beats 0, 0 beats 2, 2 beats 1 by far
    assert votes(cycle, 3).argmax() == 0
    assert votes_with_confidence(cycle, 3, break_ties=False).argmax() == 0
    assert votes_with_confidence(cycle, 3, break_ties=True).argmax() == 2


def test_confidence_by_hand():
    row = np.array([[2.0, 1.0, 4.0]])  # confidence 3, 2, -5
    expected = [2 + 3 / 12, 1 + 2 / 9, 0 - 5 / 18]
    np.testing.assert_allclose(votes_with_confidence(row, 3, break_ties=True), [expected], rtol=1e-12)


@fast
@given(decisions())
def test_votes_are_plain_pythons(drawn):
    values, n_classes = drawn
    expected = np.array([plain_votes(row, n_classes) for row in values]).reshape(len(values), n_classes)
    np.testing.assert_array_equal(votes(values, n_classes), expected)
    assert np.all(expected.sum(axis=1) == n_classes * (n_classes - 1) // 2)


@fast
@given(decisions())
def test_without_breaking_ties_confidence_leaves_the_winner(drawn):
    values, n_classes = drawn
    won = votes(values, n_classes)
    value = votes_with_confidence(values, n_classes, break_ties=False)
    np.testing.assert_array_equal(value.argmax(axis=1), won.argmax(axis=1))
    # The classes of a row share the same values as with broken ties, at most in other places.
    broken = votes_with_confidence(values, n_classes, break_ties=True)
    np.testing.assert_array_equal(np.sort(value, axis=1), np.sort(broken, axis=1))


@fast
@given(decisions())
def test_breaking_ties_prefers_votes_then_confidence(drawn):
    values, n_classes = drawn
    value = votes_with_confidence(values, n_classes, break_ties=True)
    for row, found in zip(values, value, strict=True):
        confidence = [0.0] * n_classes
        for machine, (i, j) in enumerate(pairs(n_classes)):
            confidence[i] += row[machine]
            confidence[j] -= row[machine]
        won = plain_votes(row, n_classes)
        assert np.all(np.abs(found - won) < 0.5)
        best = found.argmax()
        assert won[best] == max(won)
        rivals = [confidence[m] for m in range(n_classes) if won[m] == max(won)]
        assert confidence[best] >= max(rivals) - 1e-9 * (1 + abs(max(rivals))) ** 2


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("n_rows", "n_classes"), [(0, 5), (1, 2), (1, 40), (7, 3), (9, 40), (1000, 11)])
def test_confidence_is_summed_one_machine_after_the_other(n_rows, n_classes, order):
    """To the last bit: which of two classes is ahead must not depend on the rows that come with a row."""
    scale = 10.0 ** np.random.default_rng(1).integers(-9, 9, size=n_classes * (n_classes - 1) // 2)
    values = np.asarray(np.random.default_rng(0).normal(size=(n_rows, len(scale))) * scale, order=order)
    confidence = np.zeros((n_rows, n_classes))
    for machine, (i, j) in enumerate(pairs(n_classes)):
        for row in range(n_rows):
            confidence[row, i] += values[row, machine]
            confidence[row, j] -= values[row, machine]
    expected = votes(values, n_classes) + confidence / (3 * (np.abs(confidence) + 1))
    np.testing.assert_array_equal(votes_with_confidence(values, n_classes, break_ties=True), expected)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        # Pairs (0,1) (0,2) (0,3) (1,2) (1,3) (2,3).
        ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [3, 2, 1, 0]),  # 0 beats 3, 2, 1
        ([-1.0, -1.0, -1.0, -1.0, -1.0, -1.0], [0, 1, 2, 3]),  # 3 beats 0, 1, 2
        ([1.0, -1.0, 1.0, 1.0, -1.0, -1.0], [1, 3, 2, 0]),  # 0 beats 3, 2 beats 0, 1 beats 2
        ([1.0, 1.0, -1.0, -1.0, 1.0, 1.0], [0, 2, 3, 1]),  # 3 beats 0, 1 beats 3, 2 beats 1
        ([0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [3, 2, 1, 0]),
    ],
)
def test_elimination_by_hand(row, expected):
    np.testing.assert_array_equal(rounds_of_elimination(np.array([row]), 4), [expected])


@fast
@given(decisions())
def test_elimination_is_plain_pythons(drawn):
    values, n_classes = drawn
    expected = np.array([plain_elimination(row, n_classes) for row in values]).reshape(len(values), n_classes)
    np.testing.assert_array_equal(rounds_of_elimination(values, n_classes), expected)


# In the model


def overlapping():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    return X + rng.normal(size=X.shape), np.array(["a", "b", "c", "d"])[(y + (rng.random(len(y)) < 0.3)) % 4]


@fast
@given(decisions())
def test_rounds_with_confidence_have_the_class_that_is_left_on_top(drawn):
    values, n_classes = drawn
    graded = rounds_with_confidence(values, n_classes)
    np.testing.assert_array_equal(graded.argmax(axis=1), rounds_of_elimination(values, n_classes).argmax(axis=1))
    voted = votes_with_confidence(values, n_classes, break_ties=True)  # of which two have changed places
    np.testing.assert_allclose(np.sort(graded, axis=1), np.sort(voted, axis=1), rtol=1e-15)


@pytest.mark.parametrize("break_ties", [False, True])
def test_model_votes_by_its_own_machines(break_ties):
    X, y = overlapping()
    model = LinearSVM("one_vs_one", break_ties=break_ties).fit(X, y)
    machines = X @ model.coef_.T + model.intercept_
    assert machines.shape[1] == 6
    value = votes_with_confidence(machines, 4, break_ties)
    np.testing.assert_allclose(model.decision_function(X), value, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), model.classes_[value.argmax(axis=1)])
    if not break_ties:
        np.testing.assert_array_equal(model.predict(X), model.classes_[votes(machines, 4).argmax(axis=1)])
        model.set_params(decision_function_shape="ovo")
        np.testing.assert_allclose(model.decision_function(X), machines, atol=1e-9)
        np.testing.assert_array_equal(model.predict(X), model.classes_[value.argmax(axis=1)])


def test_dag_asks_the_machines_of_one_vs_one():
    X, y = overlapping()
    dag, ovo = LinearSVM("dag").fit(X, y), LinearSVM("one_vs_one").fit(X, y)
    np.testing.assert_array_equal(dag.coef_, ovo.coef_)
    rounds = rounds_of_elimination(X @ dag.coef_.T + dag.intercept_, 4)
    np.testing.assert_array_equal(dag.decision_function(X), rounds)
    np.testing.assert_array_equal(dag.predict(X), dag.classes_[rounds.argmax(axis=1)])


def test_signs_and_order_are_libsvms():
    X, y = load_iris(return_X_y=True)
    model = LinearSVM("one_vs_one", decision_function_shape="ovo", tol=1e-5).fit(X, y)
    theirs = SVC(kernel="linear", decision_function_shape="ovo").fit(X, y)
    ours, libsvm = model.decision_function(X), theirs.decision_function(X)
    for machine in range(3):
        assert np.corrcoef(ours[:, machine], libsvm[:, machine])[0, 1] > 0.9
