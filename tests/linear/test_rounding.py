"""Certificates of very many rows: rounding that goes the same way in all of them is within what they take off."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin.data.rows import as_rows
from multimargin.linear.algorithm import Settings
from multimargin.linear.examples import Examples
from multimargin.linear.machine import Machine
from multimargin.linear.rounding import Sums, rounding_of_margins, sizes_of_terms
from multimargin.linear.sdm import SequentialDual
from multimargin.problems.formulations import Formulation

UNIT = Fraction(1, 2**53)
# An addend that is a little over half a unit of the sum's last place, while the sum is in its largest power of two.
N = 2**18
STEP = 2.0**-35
ODD = np.round(1.98 / STEP) * STEP + STEP * (0.5 + 1 / 256)


def machine_of(X, label, cap, formulation="one_vs_rest", squared=False, lanes=1, lists=True):
    rows = as_rows(X, 0.0)
    examples = Examples(X, rows, np.arange(len(label)), label, cap, rows.squared_norms(), 0.0)
    algorithm = SequentialDual(Settings(options={"permutation": True, "restricted_step": lists}))
    machine = Machine(Formulation(formulation, squared, lanes), examples, algorithm, seed=0)
    algorithm.start(machine, warm=False)
    return machine


def test_equal_rows_are_summed_within_the_roundings_that_are_counted():
    one_after_the_other = Fraction(float(np.add.accumulate(np.full(N, ODD))[-1]))
    exact = N * Fraction(ODD)
    X = np.full((N, 1), ODD)
    machine = machine_of(X, np.zeros(N, np.int32), np.ones(N))
    machine.blocks[0].alpha[:, 0] = 1.0
    V, sums = machine._summed()
    allowed = Fraction(sums.roundings) * UNIT * exact
    assert abs(one_after_the_other - exact) > 2 * allowed  # so V must not be one sum
    assert abs(Fraction(float(V.array[0, 0])) - exact) <= allowed
    assert sums.roundings < 4500


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins", "one_vs_rest"])
def test_the_dual_value_is_below_the_exact_one(formulation, squared):
    n = 3 * 2**13
    X = np.repeat([[ODD, 1.0], [-ODD, 1.0], [0.5, -1.0]], n // 3, axis=0)
    label = np.repeat(np.arange(3, dtype=np.int32), n // 3)
    C = 0.37
    machine = machine_of(X, label, np.full(n, C), formulation, squared, 3)
    alpha = np.zeros((n, 3))  # the same duals in every row of a class, feasible ones
    own = np.arange(3) == label[:, None]
    if formulation == "one_vs_rest":
        alpha[:] = np.where(own, 1e-5, -3e-6)
        size = np.abs(alpha)
    else:
        alpha[:] = np.where(own, 1e-5, -0.5e-5)
        size = np.where(own, 1e-5, 0) if formulation == "crammer_singer" else np.where(own, 0, 0.5e-5)
    machine.set_duals(sp.csr_array(alpha))
    certified = machine.certify()
    V = [
        [sum(n // 3 * Fraction(float(alpha[i, m])) * Fraction(X[i, j]) for i in range(0, n, n // 3)) for m in range(3)]
        for j in range(2)
    ]
    terms = sum(n // 3 * Fraction(float(size[i, m])) for i in range(0, n, n // 3) for m in range(3))
    if squared:
        squares = sum(n // 3 * Fraction(float(size[i, m])) ** 2 for i in range(0, n, n // 3) for m in range(3))
        terms -= squares / (4 * Fraction(C))
    exact = terms - sum(v * v for row in V for v in row) / 2
    assert exact > 0
    assert Fraction(certified.dual) <= exact
    assert certified.dual == pytest.approx(float(exact), rel=1e-6)


def test_many_weights_are_one_sum_and_few_are_many():
    dense = Sums.of(10**6, 1e6 * 100, 10, 10, False, 3)
    assert dense.most == 4096 and dense.roundings < 4096 + 256 + 100 and dense.of_norms < 30
    text = Sums.of(10**6, 1e6 * 50 * 20, 10**5, 20, False, 3)  # 50 of 10^5 features in a row
    assert text.most == 32 * 10**5 / 50 and text.of_norms > 10**5
    for n_weights, one_sum in ((10, True), (10**7, False)):
        assert Sums.of(10**6, 1e8, n_weights, 10, one_sum, 3).most == 10**6
        assert Sums.of(10**6, 1e8, n_weights, 10, one_sum, 3).roundings >= 10**6
    assert Sums.of(0, 0.0, 5, 2, False, 1).roundings > 0 and Sums.of(7, 70.0, 5, 2, False, 1).roundings < 120


def test_margins_of_weights_that_are_no_numbers_are_not_rounded():
    assert rounding_of_margins(np.array([np.inf]), 1.0)[1] == 0.0
    assert rounding_of_margins(np.array([4.0, 1.0]), 3.0)[1] == pytest.approx(2.0**-53 * 2 * 4 * 2)


@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize(("formulation", "sizes"), [("weston_watkins", [12.0]), ("one_vs_rest", [12.0, 6.0, 6.0])])
def test_terms_are_the_duals_of_other_classes(formulation, sizes, lists):
    """Of a joint problem: the label's own is minus their sum."""
    machine = machine_of(np.eye(4), np.zeros(4, np.int32), np.full(4, 9.0), formulation, True, 3, lists)
    machine.set_duals(sp.csr_array(np.tile([3.0, -1.5, -1.5], (4, 1))))
    (block,) = machine.blocks
    assert block.pooled == (lists and formulation == "weston_watkins")
    parts = [sizes_of_terms(machine.problem, block, begin, begin + 2) for begin in (0, 2)]
    assert sum(parts).tolist() == sizes
