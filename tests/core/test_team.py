"""Blocks that threads visit in lockstep: deterministic to the bit, whoever does the work, and exact."""

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin import _core

N_ROWS, N_FEATURES, N_CLASSES = 600, 80, 7


def data(storage):
    random = np.random.RandomState(3)
    X = random.standard_normal((N_ROWS, N_FEATURES)) * (random.uniform(size=(N_ROWS, N_FEATURES)) < 0.3)
    y = random.randint(0, N_CLASSES, N_ROWS).astype(np.int32)
    X[np.arange(N_ROWS), y] += 2.0
    if storage == "csr":
        matrix = sp.csr_array(X)
        return _core.Rows.csr(matrix.data, matrix.indices, matrix.indptr, N_FEATURES, 0.5), y
    return _core.Rows.dense(X, storage == "dense_with_zeros", 0.5), y


def train(storage, policy, n_blocks, *, single_precision=False, budget=1e12, tolerance=1e-7, kappa=0.0):
    rows, y = data(storage)
    norm = rows.squared_norms()
    pooled = policy != "one_vs_rest"
    blocks = [
        _core.Block(
            rows,
            policy,
            False,
            N_CLASSES,
            part.astype(np.int64),
            y[part],
            np.full(len(part), 0.3),
            norm[part],
            pooled,
            i,
        )
        for i, part in enumerate(np.array_split(np.arange(N_ROWS), n_blocks))
    ]
    weights = _core.Weights(rows.n_weights, N_CLASSES, single_precision)
    if kappa:
        weights.set_kappa(kappa)
    passes = _core.Passes(blocks)
    stopped = "budget"
    while stopped == "budget":
        stopped, _ = passes.run(
            weights,
            tolerance=tolerance,
            certify_below=-1.0,
            budget=budget,
            max_epochs=5000.0,
            shrinking=True,
            permute=True,
            momentum=0.2 if kappa else 0.0,
        )
    return weights.array.copy(), blocks, weights


@pytest.mark.parametrize("storage", ["csr", "dense", "dense_with_zeros"])
@pytest.mark.parametrize("policy", ["crammer_singer", "weston_watkins", "one_vs_rest"])
@pytest.mark.parametrize("single_precision", [False, True])
def test_a_team_gives_the_same_bits_every_time(storage, policy, single_precision):
    # Small budgets make many calls; some are done by the threads together and some by one of them alone.
    options = {"single_precision": single_precision, "tolerance": 1e-3, "kappa": 1.0}
    first, _, _ = train(storage, policy, 2, budget=2e4, **options)
    for budget in (2e4, 1e5, 1e12):
        again, _, _ = train(storage, policy, 2, budget=budget, **options)
        np.testing.assert_array_equal(again, first)


@pytest.mark.parametrize("storage", ["csr", "dense", "dense_with_zeros"])
@pytest.mark.parametrize("policy", ["crammer_singer", "weston_watkins", "one_vs_rest"])
@pytest.mark.parametrize("n_blocks", [2, 3])
def test_a_team_reaches_the_optimum_of_one_thread(storage, policy, n_blocks):
    alone, _, _ = train(storage, policy, 1)
    team, blocks, weights = train(storage, policy, n_blocks)
    np.testing.assert_allclose(team, alone, atol=1e-4)
    rebuilt = _core.Weights(len(team), N_CLASSES, False)
    for block in blocks:
        block.accumulate(rebuilt, 0, block.n_examples)
    np.testing.assert_allclose(weights.array, rebuilt.array, atol=1e-9)


def test_blocks_of_a_team_share_rows_and_problem():
    rows, y = data("dense")
    norm = rows.squared_norms()
    part = np.arange(10)

    def block(rows, policy):
        return _core.Block(rows, policy, False, N_CLASSES, part, y[part], np.ones(10), norm[part], False, 0)

    other_rows, _ = data("dense")
    with pytest.raises(ValueError, match="share rows and problem"):
        _core.Passes([block(rows, "crammer_singer"), block(other_rows, "crammer_singer")])
    with pytest.raises(ValueError, match="share rows and problem"):
        _core.Passes([block(rows, "crammer_singer"), block(rows, "weston_watkins")])
    with pytest.raises(ValueError, match="need a block"):
        _core.Passes([])
