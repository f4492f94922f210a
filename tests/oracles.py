"""Slow, obviously right answers that the package is compared with.

Conventions
-----------
policy
    "crammer_singer", "weston_watkins" or "one_vs_rest" (lanes that are binary machines of their own).
a
    Duals of an example in its lanes, signed so that w_m = sum_i a_i^m x_i for every policy.
label
    Lane of the example's class; -1 (one_vs_rest only): the example is a negative in every lane.
h(a)
    What the dual f adds to 1/2 sum_m ||w_m||^2, one term an example:

    - crammer_singer: -a_y [+ a_y^2 / (4 C)]
    - weston_watkins: -a_y [+ sum_{m != y} a_m^2 / (4 C)]
    - one_vs_rest: sum_m (-z_m a_m [+ a_m^2 / (4 C)]), z = +1 in the label's lane, else -1

    The terms in brackets belong to the squared hinge.
X
    In whole problems a dense array, the intercept's column included.

Steps of one example are computed with fractions, so that they have no rounding of their own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import clarabel
import numpy as np
import scipy.sparse as sp

from multimargin import _core

POLICIES = ("crammer_singer", "weston_watkins", "one_vs_rest")


# One example


@dataclass(frozen=True)
class Step:
    """One example: min over feasible a' of curvature/2 ||a' - a||^2 + scores.(a' - a) + h(a')."""

    policy: str
    squared: bool
    scores: Sequence[float]
    a: Sequence[float]
    label: int
    cap: float
    curvature: float

    @property
    def lanes(self) -> int:
        return len(self.scores)


def signs(label: int, lanes: int) -> np.ndarray:
    """z_m: +1 in the label's lane, -1 in the others."""
    z = np.full(lanes, -1.0)
    if label >= 0:
        z[label] = 1.0
    return z


def exact_step(step: Step) -> list[Fraction]:
    """The minimiser, exactly."""
    A, C = Fraction(step.curvature), Fraction(step.cap)
    s, a, y = [Fraction(v) for v in step.scores], [Fraction(v) for v in step.a], step.label
    diagonal = 1 / (2 * C) if step.squared else Fraction(0)
    solve = {
        "crammer_singer": _crammer_singer_step,
        "weston_watkins": _weston_watkins_step,
        "one_vs_rest": _one_vs_rest_step,
    }[step.policy]
    return solve(s, a, y, A, None if step.squared else C, diagonal)


def _crammer_singer_step(s, a, y, A, cap, diagonal):
    """a'_m = min(cap_m, (beta - B_m) / A_m) with sum a' = 0; B = s + e - A a, A_y = A + diagonal, cap_m = 0 but y's."""
    lanes = range(len(s))
    B = [s[m] + (m != y) - A * a[m] for m in lanes]
    curvature = [A + diagonal if m == y else A for m in lanes]
    caps = [cap if m == y else Fraction(0) for m in lanes]  # None: no cap

    def duals(beta):
        free = [(beta - B[m]) / curvature[m] for m in lanes]
        return [free[m] if caps[m] is None else min(caps[m], free[m]) for m in lanes]

    kinks = [B[m] + curvature[m] * caps[m] for m in lanes if caps[m] is not None]
    return duals(_root(lambda beta: sum(duals(beta)), kinks))


def _weston_watkins_step(s, a, y, A, cap, diagonal):
    """alpha'_m = clip((A (alpha_m + S - gamma) - g_m) / (A + diagonal), 0, cap), gamma = sum alpha', g = s_y - s_m - 1.

    S is the sum of the old alpha, and a_m = -alpha_m, a_y = S.
    """
    others = [m for m in range(len(s)) if m != y]
    total = -sum(a[m] for m in others)
    reach = {m: A * (total - a[m]) - (s[y] - s[m] - 1) for m in others}

    def duals(gamma):
        alpha = {m: max(Fraction(0), (reach[m] - A * gamma) / (A + diagonal)) for m in others}
        return alpha if cap is None else {m: min(cap, v) for m, v in alpha.items()}

    kinks = [reach[m] / A for m in others]
    if cap is not None:
        kinks += [(reach[m] - cap * (A + diagonal)) / A for m in others]
    alpha = duals(_root(lambda gamma: gamma - sum(duals(gamma).values()), kinks))
    return [sum(alpha.values(), Fraction(0)) if m == y else -alpha[m] for m in range(len(s))]


def _one_vs_rest_step(s, a, y, A, cap, diagonal):
    """alpha'_m = clip(alpha_m - g_m / (A + diagonal), 0, cap), g_m = z_m s_m - 1 + diagonal alpha_m, a = z alpha."""
    new = []
    for m in range(len(s)):
        z = 1 if m == y else -1
        alpha = max(Fraction(0), z * a[m] - (z * s[m] - 1 + diagonal * z * a[m]) / (A + diagonal))
        new.append(z * (alpha if cap is None else min(cap, alpha)))
    return new


def _root(increasing: Callable[[Fraction], Fraction], kinks: list[Fraction]) -> Fraction:
    """The root of a non-decreasing function that is linear between the kinks: bisect over them, then interpolate."""
    kinks = sorted(kinks)
    kinks = [kinks[0] - 1, *kinks, kinks[-1] + 1]
    left, right = 0, len(kinks) - 1
    while right - left > 1:
        middle = (left + right) // 2
        if increasing(kinks[middle]) <= 0:
            left = middle
        else:
            right = middle
    at_left, at_right = increasing(kinks[left]), increasing(kinks[right])
    if at_left == 0:
        return kinks[left]
    return kinks[left] - at_left * (kinks[right] - kinks[left]) / (at_right - at_left)


def step_objective(step: Step, a_new: Sequence) -> Fraction:
    """curvature/2 ||a' - a||^2 + scores.(a' - a) + h(a'), exactly."""
    moved = [Fraction(b) - Fraction(a) for b, a in zip(a_new, step.a, strict=True)]
    quadratic = Fraction(step.curvature) / 2 * sum(d * d for d in moved)
    linear = sum(Fraction(s) * d for s, d in zip(step.scores, moved, strict=True))
    return quadratic + linear + _h(step.policy, step.squared, [Fraction(b) for b in a_new], step.label, step.cap)


def _h(policy: str, squared: bool, a: list[Fraction], label: int, cap: float) -> Fraction:
    """h(a), exactly (see the conventions)."""
    z = [1 if m == label else -1 for m in range(len(a))]
    linear = -sum(z[m] * a[m] for m in range(len(a))) if policy == "one_vs_rest" else -a[label]
    carries = {
        "crammer_singer": [label],
        "weston_watkins": [m for m in range(len(a)) if m != label],
        "one_vs_rest": range(len(a)),
    }[policy]
    return linear + (sum(a[m] * a[m] for m in carries) / (4 * Fraction(cap)) if squared else 0)


def infeasibility(step: Step, a_new: np.ndarray) -> float:
    """By how much a' leaves its constraints at most; the sum over the lanes is judged apart by its callers."""
    a_new = np.asarray(a_new, dtype=float)
    z = signs(step.label, step.lanes)
    cap = np.inf if step.squared else step.cap
    wrong_sign = np.max(-z * a_new, initial=0.0)
    capped = {
        "crammer_singer": a_new[[step.label]],
        "weston_watkins": -np.delete(a_new, step.label),
        "one_vs_rest": z * a_new,
    }[step.policy]
    return max(float(wrong_sign), float(np.max(capped - cap, initial=0.0)))


def violation(step: Step) -> float:
    """How far a is from optimal for its scores.

    - crammer_singer, (6) of paper 000: max_m g_m - min of g over the duals below their cap,
      g = s + e [+ a_y / (2 C) in lane y]
    - weston_watkins, (18): the largest of -g over alpha < cap and of g over alpha > 0,
      g = s_y - s_m - 1 [+ alpha_m / (2 C)]
    - one_vs_rest: the largest projected gradient, the same with g = z s - 1 [+ alpha / (2 C)]
    """
    diagonal = 1 / (2 * step.cap) if step.squared else 0.0
    cap = np.inf if step.squared else step.cap
    y, s, a = step.label, list(step.scores), list(step.a)
    lanes = range(step.lanes)
    if step.policy == "crammer_singer":
        g = [s[m] + diagonal * a[m] if m == y else s[m] + 1 for m in lanes]
        below = [g[m] for m in lanes if a[m] < (cap if m == y else 0)]
        return max(g) - min(below)
    if step.policy == "weston_watkins":
        pairs = [(-a[m], s[y] - s[m] - 1) for m in lanes if m != y]
    else:
        z = signs(y, step.lanes)
        pairs = [(z[m] * a[m], z[m] * s[m] - 1) for m in lanes]
    worst = 0.0
    for alpha, g in pairs:
        g += diagonal * alpha
        worst = max(worst, -g if alpha < cap else 0.0, g if alpha > 0 else 0.0)
    return worst


# One example in the core


def one_example(step: Step, *, pooled: bool = False, single_precision: bool = False, norm: float = 1.0):
    """A block of one example with freely chosen scores, and its weights: X is a single 1, W the scores."""
    rows = _core.Rows.dense(np.ones((1, 1)), 0.0)
    block = _core.Block(
        rows,
        step.policy,
        step.squared,
        step.lanes,
        np.zeros(1, np.int64),
        np.array([step.label], np.int32),
        np.array([step.cap], np.float64),
        np.array([norm]),
        pooled,
        0,
    )
    a = sp.csr_array(np.atleast_2d(np.asarray(step.a, dtype=np.float64)))
    block.set_duals(a.data, a.indices.astype(np.int32), a.indptr.astype(np.int64))
    weights = _core.Weights(1, step.lanes, single_precision)
    weights.array[0, : step.lanes] = step.scores
    return block, weights


def core_step(step: Step) -> np.ndarray:
    """The core's minimiser for one example."""
    block, weights = one_example(step)
    out = np.full_like(block.alpha, np.nan)
    block.propose(weights, 0, step.curvature, out)
    return out[0, : step.lanes]


def duals_of(block, lanes: int) -> np.ndarray:
    """The duals of a block of any layout as examples x lanes."""
    value, lane, indptr = block.duals()
    return sp.csr_array((value, lane, indptr), shape=(block.n_examples, lanes)).toarray()


def run(passes, weights, **options):
    """``Passes.run`` with the options of a long, plain run unless given; a block stands for fresh passes over it."""
    passes = _core.Passes([passes]) if isinstance(passes, _core.Block) else passes
    plain = dict(tolerance=0.0, certify_below=-np.inf, budget=1e12, max_epochs=1.0, shrinking=False, permute=False)
    return passes.run(weights, **(plain | options))


# Whole problems


@dataclass(frozen=True)
class Problem:
    """Dense rows with labels in the lanes and caps C_i."""

    policy: str
    squared: bool
    lanes: int
    X: np.ndarray
    label: np.ndarray
    cap: np.ndarray

    def rows(self, which: np.ndarray) -> Problem:
        """The same problem on some of the rows."""
        return replace(self, X=self.X[which], label=self.label[which], cap=self.cap[which])

    def block(self, *, rows=None, which=None, pooled: bool = False, seed: int = 0):
        """A block of the core over all rows, or over some."""
        rows = _core.Rows.dense(self.X, 0.0) if rows is None else rows
        which = np.arange(len(self.X)) if which is None else which
        return _core.Block(
            rows,
            self.policy,
            self.squared,
            self.lanes,
            which.astype(np.int64),
            self.label[which].astype(np.int32),
            self.cap[which],
            rows.squared_norms()[which],
            pooled,
            seed,
        )

    def weights(self, single_precision: bool = False):
        """Zero weights for the block."""
        return _core.Weights(self.X.shape[1], self.lanes, single_precision)


def losses(problem: Problem, W: np.ndarray, rounding: tuple[float, float] = (0.0, 0.0)) -> np.ndarray:
    """Sum over the examples of C_i loss_i at W (lanes x columns of X), by part: a lane of one_vs_rest, else the whole.
    Margins (s_y - s_m, z_m s_m) are smaller by rounding[0] + rounding[1] ||x|| for every feature, and four times more.

    - crammer_singer: loss = max_m (s_m + e^m) - s_y [squared]
    - weston_watkins: loss = sum_{m != y} max(0, 1 - s_y + s_m) [each squared]
    - one_vs_rest: in lane m, loss = max(0, 1 - z_m s_m) [squared]
    """
    parts = np.zeros(problem.lanes if problem.policy == "one_vs_rest" else 1)
    for x, y, C in zip(problem.X, problem.label, problem.cap, strict=True):
        s, one = W @ x, 1 + (len(x) + 4) * (rounding[0] + rounding[1] * np.linalg.norm(x))
        if problem.policy == "crammer_singer":
            slack = np.array([max(s[m] + one * (m != y) for m in range(problem.lanes)) - s[y]])
        elif problem.policy == "weston_watkins":
            slack = np.maximum(0.0, one - s[y] + np.delete(s, y))
        else:
            slack = np.maximum(0.0, one - signs(y, problem.lanes) * s)
        loss = slack**2 if problem.squared else slack
        parts += C * (loss if problem.policy == "one_vs_rest" else loss.sum())
    return parts


def dual_terms(problem: Problem, a: np.ndarray) -> np.ndarray:
    """Sum over the examples of h(a_i), by part; a is examples x lanes."""
    separable = problem.policy == "one_vs_rest"
    parts = np.zeros(problem.lanes if separable else 1)
    for row, y, C in zip(a, problem.label, problem.cap, strict=True):
        if separable:
            parts += -signs(y, problem.lanes) * row + (row**2 / (4 * C) if problem.squared else 0)
        else:
            carrying = row[[y]] if problem.policy == "crammer_singer" else np.delete(row, y)
            parts += -row[y] + (np.sum(carrying**2) / (4 * C) if problem.squared else 0)
    return parts


def primal_objective(problem: Problem, W: np.ndarray) -> float:
    """1/2 sum_m ||w_m||^2 + sum_i C_i loss_i."""
    return 0.5 * float(np.sum(W**2)) + float(losses(problem, W).sum())


def dual_objective(problem: Problem, a: np.ndarray) -> float:
    """-f = -(1/2 sum_m ||sum_i a_i^m x_i||^2 + sum_i h(a_i)): a lower bound of the optimum for feasible a.

    Rows of zeros have no part in W: they count with their best duals (the loss at scores of zero), not with those in a.
    """
    zero = ~problem.X.any(axis=1)
    learns, rest = problem.rows(~zero), problem.rows(zero)
    f = 0.5 * float(np.sum((a.T @ problem.X) ** 2)) + float(dual_terms(learns, a[~zero]).sum())
    return float(losses(rest, np.zeros((problem.lanes, problem.X.shape[1]))).sum()) - f


def optimum(problem: Problem) -> tuple[float, np.ndarray]:
    """Optimal objective and W by an interior point method on the primal with slacks.

    min 1/2 ||W||^2 + sum C xi [C xi^2]  subject to  xi >= 0 and, one constraint a slack and a lane,

    - crammer_singer: xi_i >= s_m + 1 - s_y for m != y
    - weston_watkins: xi_im >= s_m + 1 - s_y for m != y
    - one_vs_rest: xi_im >= 1 - z_m s_m
    """
    n, k = problem.X.shape[1], problem.lanes
    constraints, slack_of, slack_caps = [], [], []  # each constraint: coefficients of W, >= 1 - xi
    for x, y, C in zip(problem.X, problem.label, problem.cap, strict=True):
        if problem.policy == "crammer_singer":
            slack_caps.append(C)
        for m in range(k):
            c = np.zeros((k, n))
            if problem.policy == "one_vs_rest":
                c[m] = x if m == y else -x
            elif m == y:
                continue
            else:
                c[y], c[m] = x, -x
            if problem.policy != "crammer_singer":
                slack_caps.append(C)
            constraints.append(c.ravel())
            slack_of.append(len(slack_caps) - 1)
    n_slacks, n_constraints = len(slack_caps), len(constraints)
    caps = np.array(slack_caps)
    # c.W + xi >= 1 and xi >= 0, as A v + s = b with s >= 0.
    slack = sp.csc_array(
        (np.ones(n_constraints), (np.arange(n_constraints), slack_of)), shape=(n_constraints, n_slacks)
    )
    A = sp.block_array([[sp.csc_array(-np.array(constraints)), -slack], [None, -sp.eye_array(n_slacks)]], format="csc")
    b = np.concatenate([-np.ones(n_constraints), np.zeros(n_slacks)])
    P = sp.diags_array(np.concatenate([np.ones(k * n), 2 * caps if problem.squared else np.zeros(n_slacks)]))
    q = np.concatenate([np.zeros(k * n), np.zeros(n_slacks) if problem.squared else caps])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    cones = [clarabel.NonnegativeConeT(len(b))]
    solution = clarabel.DefaultSolver(sp.csc_matrix(P), q, sp.csc_matrix(A), b, cones, settings).solve()
    W = np.array(solution.x[: k * n]).reshape(k, n)
    objective = primal_objective(problem, W)
    assert abs(objective - solution.obj_val_dual) <= 1e-7 * objective, solution.status
    return objective, W


# Fitted models


def problems_of(formulation: str, squared: bool, X: np.ndarray, y: np.ndarray, cap: np.ndarray) -> list[Problem]:
    """The problems whose objectives a model's are the sum of; X dense with the intercept's column, y encoded.

    One-vs-rest of two classes is one binary machine (class 1 positive), one-vs-one of more is one a pair (the smaller
    class positive).
    """
    k = int(y.max()) + 1
    if formulation in ("crammer_singer", "weston_watkins") or (formulation == "one_vs_rest" and k > 2):
        return [Problem(formulation, squared, k, X, y, cap)]
    if k == 2:
        return [Problem("one_vs_rest", squared, 1, X, y - 1, cap)]
    machines = []
    for i, j in itertools.combinations(range(k), 2):
        kept = (y == i) | (y == j)
        machines.append(Problem("one_vs_rest", squared, 1, X[kept], np.where(y[kept] == i, 0, -1), cap[kept]))
    return machines


def weights_of(model) -> np.ndarray:
    """coef_ and the weight of the intercept's constant feature, one row a lane or pair."""
    if not model.fit_intercept:
        return model.coef_
    return np.column_stack([model.coef_, model.intercept_ / model.intercept_scaling])


def objectives_of(model, squared: bool, X: np.ndarray, y: np.ndarray, cap: np.ndarray) -> tuple[float, float]:
    """Primal objective at ``coef_`` and ``intercept_`` and dual objective at ``dual_coef_``, from their formulas.

    Two classes: the joint formulations have w_1 = -w_0 = coef_ / 2, and duals likewise.
    """
    W, a = weights_of(model), model.dual_coef_.toarray()
    joint = model.formulation in ("crammer_singer", "weston_watkins")
    problems = problems_of(model.formulation, squared, X, y, cap)
    if len(problems) == 1:
        (problem,) = problems
        if joint and problem.lanes == 2:
            W, a = np.vstack([-W, W]) / 2, np.column_stack([-a, a]) / 2
        assert is_feasible(problem, a)
        return primal_objective(problem, W), dual_objective(problem, a)
    k = int(y.max()) + 1
    primal = dual = 0.0
    for machine, (problem, (i, j)) in enumerate(zip(problems, itertools.combinations(range(k), 2), strict=True)):
        own = a[(y == i) | (y == j), machine : machine + 1]
        assert is_feasible(problem, own)
        primal += primal_objective(problem, W[machine : machine + 1])
        dual += dual_objective(problem, own)
    return primal, dual


def is_feasible(problem: Problem, a: np.ndarray) -> bool:
    """Whether the duals meet all constraints, to rounding."""
    for row, label, cap in zip(a, problem.label, problem.cap, strict=True):
        step = Step(problem.policy, problem.squared, np.zeros(problem.lanes), row, int(label), float(cap), 1.0)
        if infeasibility(step, row) > 1e-12 * cap:
            return False
        if problem.policy != "one_vs_rest" and abs(row.sum()) > 1e-12 * np.abs(row).sum():
            return False
    return True
