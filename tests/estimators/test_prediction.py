"""decision_function and predict: the scores of every storage and thread, and how they become a class."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin import LinearSVM

JOINT = ("crammer_singer", "weston_watkins", "one_vs_rest")
PAIRWISE = ("one_vs_one", "dag")


def blobs(k, n_samples=200, n_features=7, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % k
    return rng.normal(size=(k, n_features))[y] + rng.normal(size=(n_samples, n_features)), y


@pytest.fixture(scope="module")
def models():
    """Trained models by (formulation, k)."""
    return {(f, k): LinearSVM(f).fit(*blobs(k)) for f in JOINT + PAIRWISE for k in (2, 3, 4, 9)}


every_formulation = pytest.mark.parametrize("formulation", JOINT + PAIRWISE)
every_k = pytest.mark.parametrize("k", [2, 3, 4, 9])


def machine_scores(model, X):
    return X @ model.coef_.T + model.intercept_


# Scores


@every_formulation
def test_order_and_duplicates_of_sparse_entries_do_not_matter(models, formulation):
    """Every entry in two halves, in reverse order."""
    X, _ = blobs(4, seed=3)
    n_rows, n_features = X.shape
    columns = np.tile(np.repeat(np.arange(n_features)[::-1], 2), n_rows)
    halves = np.repeat(X[:, ::-1], 2, axis=1).ravel() / 2
    odd = sp.csr_array((halves, columns, np.arange(n_rows + 1) * 2 * n_features), shape=X.shape)
    assert not odd.has_canonical_format
    model = models[formulation, 4]
    np.testing.assert_allclose(model.decision_function(odd), model.decision_function(X), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "container",
    [np.asarray, np.asfortranarray, sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array],
    ids=lambda container: container.__name__,
)
@pytest.mark.parametrize("formulation", JOINT)
def test_scores_are_x_w_plus_b(models, formulation, container, dtype, n_jobs):
    model = models[formulation, 9].set_params(n_jobs=n_jobs)
    X = blobs(9, n_samples=500, seed=1)[0].astype(dtype)
    scores = model.decision_function(container(X))
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, machine_scores(model, X.astype(np.float64)), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("share_of_zeros", [0.0, 0.3, 0.7, 1.0])
def test_zeros_in_dense_rows_are_skipped_rightly(share_of_zeros):
    rng = np.random.default_rng(0)
    X, y = blobs(5, n_features=70)
    model = LinearSVM().fit(X, y)
    X[rng.random(X.shape) < share_of_zeros] = 0
    np.testing.assert_allclose(model.decision_function(X), machine_scores(model, X), atol=1e-11)
    np.testing.assert_allclose(model.decision_function(sp.csr_array(X)), machine_scores(model, X), atol=1e-11)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("k", [2, 5, 300])
def test_chunks_and_threads_make_no_difference(k, storage):
    X, y = blobs(k, n_samples=3 * k, n_features=20)
    model = LinearSVM(tol=0.1).fit(X, y)
    many = np.random.default_rng(1).normal(size=(400_000 // max(k, 4), 20))
    scores = model.decision_function(storage(many))
    np.testing.assert_allclose(scores, machine_scores(model, many).reshape(scores.shape), atol=1e-10)
    np.testing.assert_array_equal(model.set_params(n_jobs=2).decision_function(storage(many)), scores)


@pytest.mark.parametrize("k", [255, 256, 257, 1000])
def test_wide_models(k):
    X, y = blobs(k, n_samples=3 * k, n_features=12)
    model = LinearSVM(max_iter=2, tol=1.0).partial_fit(X, y, classes=np.arange(k))
    assert model.coef_.shape == (k, 12)
    np.testing.assert_allclose(model.decision_function(X), machine_scores(model, X), atol=1e-10)
    np.testing.assert_array_equal(model.predict(X), machine_scores(model, X).argmax(axis=1))


@every_formulation
@every_k
def test_rows_do_not_depend_on_each_other(models, formulation, k):
    model, X = models[formulation, k], blobs(k)[0]
    whole = model.decision_function(X)
    for row in (0, 17, 199):
        np.testing.assert_array_equal(model.decision_function(X[row : row + 1])[0], whole[row])
        np.testing.assert_array_equal(model.predict(X[row : row + 1]), model.predict(X)[row : row + 1])


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_no_rows_are_refused_as_everywhere(models, method, container):
    X = blobs(3)[0]
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        getattr(models["crammer_singer", 3], method)(container(X[:0]))


def test_one_dimension_is_refused_as_everywhere(models):
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        models["crammer_singer", 3].predict(blobs(3)[0][0])


def test_empty_rows_get_the_intercept(models):
    model = models["one_vs_rest", 4]
    scores = model.decision_function(sp.csr_array((3, 7)))
    np.testing.assert_array_equal(scores, np.tile(model.intercept_, (3, 1)))


# Classes


@every_formulation
@every_k
def test_argmax_is_predict(models, formulation, k):
    model, X = models[formulation, k], np.vstack([blobs(k)[0], blobs(k, seed=5)[0]])
    scores = model.decision_function(X)
    if k == 2:
        assert scores.shape == (400,)
        np.testing.assert_array_equal(model.predict(X), (scores > 0).astype(int))
    else:
        assert scores.shape == (400, k)
        np.testing.assert_array_equal(model.predict(X), scores.argmax(axis=1))


@every_formulation
@every_k
def test_most_training_rows_are_right(models, formulation, k):
    X, y = blobs(k)
    assert models[formulation, k].score(X, y) > 0.6


def most_votes(decisions, k):
    votes = [0] * k
    for (i, j), value in zip(combinations(range(k), 2), decisions, strict=True):
        votes[i if value >= 0 else j] += 1
    return votes.index(max(votes))


def last_left(decisions, k):
    value = dict(zip(combinations(range(k), 2), decisions, strict=True))
    left = list(range(k))
    while len(left) > 1:
        left.remove(left[-1] if value[left[0], left[-1]] >= 0 else left[0])
    return left[0]


@pytest.mark.parametrize(("formulation", "rule"), [("one_vs_one", most_votes), ("dag", last_left)])
@pytest.mark.parametrize("k", [3, 4, 9])
def test_pairs_become_a_class(models, formulation, rule, k):
    model, X = models[formulation, k], 0.3 * blobs(k, n_samples=1000, seed=3)[0]
    expected = [rule(decisions, k) for decisions in machine_scores(model, X)]
    np.testing.assert_array_equal(model.predict(X), expected)


@pytest.mark.parametrize("formulation", PAIRWISE)
@pytest.mark.parametrize("k", [3, 4])
def test_decisions_of_the_pairs(formulation, k):
    X, y = blobs(k)
    by_class = LinearSVM(formulation).fit(X, y)
    by_pair = LinearSVM(formulation, decision_function_shape="ovo").fit(X, y)
    decisions = by_pair.decision_function(X)
    assert decisions.shape == (200, k * (k - 1) // 2)
    np.testing.assert_allclose(decisions, machine_scores(by_pair, X), atol=1e-12)
    np.testing.assert_array_equal(by_pair.predict(X), by_class.predict(X))
    for machine, (i, j) in enumerate(combinations(range(k), 2)):  # positive: the first of the pair
        of_pair = (y == i) | (y == j)
        assert np.mean((decisions[of_pair, machine] > 0) == (y[of_pair] == i)) > 0.7


def with_decisions(formulation, rows, **options):
    """A model of three classes whose pairs (0, 1), (0, 2), (1, 2) decide as one of the rows says."""
    model = LinearSVM(formulation, fit_intercept=False, **options).fit(*blobs(3, n_features=len(rows)))
    model.coef_ = np.array(rows, dtype=float).T
    return model, np.eye(len(rows))


CYCLE = [  # 0 beats 1, 1 beats 2, 2 beats 0: one vote each
    [1.0, -2.0, 1.0],  # confidence -1, 0, 1
    [1.0, -1.0, 3.0],  # 0, 2, -2
    [3.0, -1.0, 1.0],  # 2, -2, 0
]


def test_ties_of_votes_go_to_the_smaller_class():
    model, X = with_decisions("one_vs_one", CYCLE)
    np.testing.assert_array_equal(model.predict(X), [0, 0, 0])
    np.testing.assert_array_equal(model.decision_function(X).argmax(axis=1), [0, 0, 0])


def test_ties_of_votes_may_be_broken_by_confidence():
    model, X = with_decisions("one_vs_one", CYCLE, break_ties=True)
    np.testing.assert_array_equal(model.predict(X), [2, 1, 0])
    np.testing.assert_array_equal(model.decision_function(X).argmax(axis=1), [2, 1, 0])


def test_confidence_never_outvotes():
    model, X = with_decisions("one_vs_one", [[1e-3, 1e-3, 1e6], [1e-9, 1e-9, -1e9]], break_ties=True)
    np.testing.assert_array_equal(model.predict(X), [0, 0])
    votes = model.decision_function(X)
    np.testing.assert_array_equal(np.round(votes), [[2, 1, 0], [2, 0, 1]])


def test_rounds_of_the_dag():
    model, X = with_decisions("dag", CYCLE)
    # 0 against 2 first: 2 wins. Then 1 against 2: 1 wins.
    np.testing.assert_array_equal(model.predict(X), [1, 1, 1])
    np.testing.assert_array_equal(model.decision_function(X), np.tile([0, 2, 1], (3, 1)))


@every_formulation
def test_a_row_of_zeros_is_the_first_class(formulation):
    model = LinearSVM(formulation, fit_intercept=False).fit(*blobs(4))
    np.testing.assert_array_equal(model.predict(np.zeros((2, 7))), [0, 0])
    binary = LinearSVM(formulation, fit_intercept=False).fit(*blobs(2))
    np.testing.assert_array_equal(binary.predict(np.zeros((2, 7))), [0, 0])
    np.testing.assert_array_equal(binary.decision_function(np.zeros((2, 7))), [0, 0])


@every_formulation
def test_two_classes_have_one_sign(formulation):
    X, y = blobs(2)
    model = LinearSVM(formulation).fit(X, np.array(["no", "yes"])[y])
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, (X @ model.coef_.T + model.intercept_).ravel(), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), np.where(scores > 0, "yes", "no"))
    assert model.score(X, np.array(["no", "yes"])[y]) > 0.7
