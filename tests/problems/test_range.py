"""What float64 has room for, and fits at its edges: each of these once ended wrongly, or not at all."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from multimargin import KernelSVM, LinearSVM
from multimargin.kernel.functions import Kernel, resolve_gamma
from multimargin.linear.newton import _solve, _whole
from multimargin.problems.range import LARGEST_REACH, SMALLEST_NORM, check_range

X, y = load_iris(return_X_y=True)
X, y = X[::5], y[::5]


def test_both_ends_are_refused():
    cap = np.ones(4)
    check_range(cap, 1.0)
    check_range(cap, (LARGEST_REACH / 5) ** 2)
    check_range(cap, 2 * SMALLEST_NORM)
    for largest in ((LARGEST_REACH / 3) ** 2, np.inf):
        with pytest.raises(
            ValueError,
            match=r"sum of C_i .* may reach .*scale the features down, .* product is 1",
        ):
            check_range(cap, largest)
    with pytest.raises(ValueError, match="scale the features up"):
        check_range(cap, 0.5 * SMALLEST_NORM)


def test_a_sum_of_caps_that_overflows_is_refused():
    with pytest.raises(ValueError, match="may reach inf"):
        LinearSVM(C=1e308).fit(X, y)


def test_rows_that_are_negligible_beside_others_are_as_zero_rows():
    tiny, zero = (np.where(np.arange(len(y))[:, None] % 3 == 0, factor, 1.0) * X for factor in (1e-200, 0.0))
    ours, theirs = (LinearSVM(fit_intercept=False, tol=1e-6).fit(rows, y) for rows in (tiny, zero))
    assert ours.converged_ and np.array_equal(ours.coef_, theirs.coef_)
    assert ours.primal_objective_ == theirs.primal_objective_


@pytest.mark.parametrize("solver", ["auto", "sdm", "accelerated_sdm", "newton"])
@pytest.mark.parametrize("C", [1e-200, 1e-300])
def test_squares_of_tiny_duals_are_not_lost(solver, C):
    model = LinearSVM("weston_watkins", "squared_hinge", C, solver=solver).fit(X, y)
    assert model.converged_
    assert model.dual_objective_ <= model.primal_objective_ * (1 + 1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_caps_whose_squares_are_no_numbers_have_gradients_that_are():
    model = LinearSVM("dag", "squared_hinge", 1e200, solver="primal_cd", fit_intercept=False, max_iter=5)
    model.fit(1e-100 * X, y)  # an overflow would be an error here
    assert np.isfinite(model.coef_).all() and np.isfinite(model.dual_gap_)


def test_a_row_is_near_itself_whatever_gamma_is():
    twice = np.repeat(X, 2, axis=0)
    for dtype in (np.float32, np.float64):
        K = Kernel("rbf", gamma=1e20).block(twice.astype(dtype), twice.astype(dtype))
        assert np.array_equal(K.diagonal(), np.ones(len(K))) and np.array_equal(K[::2], K[1::2])


@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_one"])
def test_rows_that_are_there_twice_are_one_whatever_gamma_is(formulation):
    one, again = (
        KernelSVM(formulation, gamma=1e20, fit_intercept=False, tol=1e-6).fit(rows, labels, weights)
        for rows, labels, weights in ((X, y, np.full(len(y), 2.0)), (np.repeat(X, 2, axis=0), np.repeat(y, 2), None))
    )
    assert again.primal_objective_ == pytest.approx(one.primal_objective_, rel=1e-5)


def test_a_variance_that_is_no_number_is_no_constant():
    assert resolve_gamma("scale", np.ones((3, 2))) == 1.0
    assert resolve_gamma("scale", X, np.eye(len(X))[0]) > 0
    with pytest.raises(ValueError, match=r"variance of X is 0: scale the features up"):
        resolve_gamma("scale", X * 1e-200)


def test_newton_has_no_step_where_its_system_is_not_finite():
    H = np.array([[np.inf, 0.0], [0.0, -1.0]])
    assert np.array_equal(_whole(_solve(H, np.ones(2))), np.zeros(2))


def test_smo_stops_where_rounding_lets_no_dual_move():
    rows = np.where(np.arange(len(y))[:, None] % 2 == 0, 0.0, X * 1e30)
    with pytest.warns(ConvergenceWarning, match="gap is"):
        KernelSVM("one_vs_rest", "linear", 1e-3, solver="decomposition", max_iter=100).fit(rows, y)


@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins", "one_vs_one"])
@pytest.mark.parametrize("solver", ["block", "decomposition"])
def test_a_gap_within_rounding_is_not_claimed(formulation, solver):
    """Scores of 1e30 known to 1e14 say nothing of margins of 1."""
    with pytest.warns(ConvergenceWarning, match="gap is"):
        KernelSVM(formulation, "linear", 1.0, solver=solver, max_iter=30).fit(X * 1e15, y)
