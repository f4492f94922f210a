"""decision_function and predict of KernelSVM: what machines decide in every storage and thread, and the class of it."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel

from multimargin import KernelSVM
from multimargin.kernel import prediction

FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
PAIRWISE = ("one_vs_one", "dag")
every_formulation = pytest.mark.parametrize("formulation", FORMULATIONS)
every_k = pytest.mark.parametrize("k", [2, 3, 4, 9])


def blobs(k, n_samples=200, n_features=7, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % k
    return rng.normal(size=(k, n_features))[y] + rng.normal(size=(n_samples, n_features)), y


@pytest.fixture(scope="module")
def models():
    """Trained models by (formulation, k)."""
    return {(f, k): KernelSVM(f, gamma=0.1).fit(*blobs(k)) for f in FORMULATIONS for k in (2, 3, 4, 9)}


def machine_values(model, X):
    vectors = model.support_vectors_
    coef = model.dual_coef_.toarray()[model.support_]
    return rbf_kernel(X, vectors, gamma=model.gamma_) @ coef + model.intercept_


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "container",
    [np.asarray, np.asfortranarray, sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array],
    ids=lambda container: container.__name__,
)
@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins", "one_vs_rest"])
def test_scores_are_kernel_values_times_duals(models, formulation, container, dtype, n_jobs):
    model = models[formulation, 9].set_params(n_jobs=n_jobs)
    X = blobs(9, n_samples=500, seed=1)[0].astype(dtype)
    scores = model.decision_function(container(X))
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, machine_values(model, X.astype(np.float64)), atol=1e-10)


@every_formulation
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_slabs_and_threads_make_no_difference(models, formulation, n_jobs, monkeypatch):
    model, X = models[formulation, 9], blobs(9, n_samples=100, seed=1)[0]
    whole, classes = model.decision_function(X), model.predict(X)
    monkeypatch.setattr(prediction, "SLAB_BYTES", 8 * 200 * 7)
    model.set_params(n_jobs=n_jobs)
    np.testing.assert_allclose(model.decision_function(X), whole, atol=1e-10)
    np.testing.assert_array_equal(model.predict(X), classes)


@every_formulation
@every_k
def test_rows_do_not_depend_on_each_other(models, formulation, k):
    model, X = models[formulation, k], blobs(k)[0]
    whole = model.decision_function(X)
    for row in (0, 17, 199):
        np.testing.assert_allclose(model.decision_function(X[row : row + 1])[0], whole[row], atol=1e-12)
        np.testing.assert_array_equal(model.predict(X[row : row + 1]), model.predict(X)[row : row + 1])


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
    assert models[formulation, k].score(X, y) > 0.65


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
    expected = [rule(decisions, k) for decisions in machine_values(model, X)]
    np.testing.assert_array_equal(model.predict(X), expected)


@pytest.mark.parametrize("formulation", PAIRWISE)
@pytest.mark.parametrize("k", [3, 4])
def test_decisions_of_the_pairs(models, formulation, k):
    (X, y), by_class = blobs(k), models[formulation, k]
    by_pair = KernelSVM(formulation, gamma=0.1, decision_function_shape="ovo").fit(X, y)
    decisions = by_pair.decision_function(X)
    assert decisions.shape == (200, k * (k - 1) // 2)
    np.testing.assert_allclose(decisions, machine_values(by_pair, X), atol=1e-12)
    np.testing.assert_array_equal(by_pair.predict(X), by_class.predict(X))
    for machine, (i, j) in enumerate(combinations(range(k), 2)):  # positive: the first of the pair
        of_pair = (y == i) | (y == j)
        assert np.mean((decisions[of_pair, machine] > 0) == (y[of_pair] == i)) > 0.7


def with_decisions(formulation, rows, **options):
    """A model of three classes whose pairs (0, 1), (0, 2), (1, 2) decide as one of the rows says."""
    rows = np.array(rows)
    model = KernelSVM(formulation, "linear", **options).fit(*blobs(3, n_features=len(rows)))
    model.support_, model.support_vectors_ = np.arange(len(rows)), np.eye(len(rows))
    model.dual_coef_ = sp.csr_array(np.vstack([rows, np.zeros((200 - len(rows), 3))]))
    model.intercept_ = np.zeros(3)
    return model, np.eye(len(rows))


CYCLE = [  # 0 beats 1, 1 beats 2, 2 beats 0: one vote each
    [1.0, -2.0, 1.0],  # confidence -1, 0, 1
    [1.0, -1.0, 3.0],  # 0, 2, -2
    [3.0, -1.0, 1.0],  # 2, -2, 0
]


def test_ties_of_votes_go_to_the_smaller_class_or_to_confidence():
    model, X = with_decisions("one_vs_one", CYCLE)
    np.testing.assert_array_equal(model.predict(X), [0, 0, 0])
    np.testing.assert_array_equal(model.decision_function(X).argmax(axis=1), [0, 0, 0])
    model.set_params(break_ties=True)
    np.testing.assert_array_equal(model.predict(X), [2, 1, 0])
    np.testing.assert_array_equal(model.decision_function(X).argmax(axis=1), [2, 1, 0])


def test_rounds_of_the_dag():
    model, X = with_decisions("dag", CYCLE)
    # 0 against 2 first: 2 wins. Then 1 against 2: 1 wins.
    np.testing.assert_array_equal(model.predict(X), [1, 1, 1])
    np.testing.assert_array_equal(model.decision_function(X), np.tile([0, 2, 1], (3, 1)))


@every_formulation
def test_a_row_far_from_all_is_decided_by_the_intercepts(models, formulation):
    model = models[formulation, 4]
    far = np.full((2, 7), 1e6)
    np.testing.assert_allclose(machine_values(model, far), np.tile(model.intercept_, (2, 1)), atol=1e-15)
    model.set_params(decision_function_shape="ovo" if formulation in PAIRWISE else "ovr")
    np.testing.assert_allclose(model.decision_function(far), np.tile(model.intercept_, (2, 1)), atol=1e-15)
    model.set_params(decision_function_shape="ovr")


@every_formulation
def test_two_classes_have_one_sign(formulation):
    X, y = blobs(2)
    labels = np.array(["no", "yes"])[y]
    model = KernelSVM(formulation, gamma=0.1).fit(X, labels)
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, machine_values(model, X).ravel(), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), np.where(scores > 0, "yes", "no"))
    assert model.score(X, labels) > 0.7


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_no_rows_are_refused_as_everywhere(models, method, container):
    X = blobs(3)[0]
    with pytest.raises(ValueError, match=r"Found array with 0 sample\(s\)"):
        getattr(models["crammer_singer", 3], method)(container(X[:0]))


def test_changed_duals_are_seen(models):
    X, y = blobs(3)
    model = KernelSVM(gamma=0.1).fit(X, y)
    before = model.decision_function(X)
    model.dual_coef_ = 2 * model.dual_coef_
    model.intercept_ = 2 * model.intercept_ + 1
    np.testing.assert_allclose(model.decision_function(X), 2 * before + 1, atol=1e-12)
