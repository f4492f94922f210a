"""A second-order method for few features: the proximal-point method on the dual, each step by semismooth Newton.

The proximal step from alpha, min_a f(a) + tau/2 ||a - alpha||^2, has the smooth dual

    Phi(W) = 1/2 ||W||^2 - sum_i min_a [ s_i.a + h_i(a) + tau/2 ||a - alpha_i||^2 ],   s_i = W' x_i,

where h_i holds the linear and diagonal terms of f and its constraints. The inner minimisers a_i(W) are the
core's step for one example with curvature tau, grad Phi = W - sum a_i x_i', and a_i is piecewise linear in the
scores with Jacobian -J_i,

    J_i = diag(d) - d d' / sum d    (separable lanes: diag(d)),    d_m = 1 / (tau + diagonal_m) on free lanes, else 0.

Newton's system I + sum_i x_i x_i' (x) J_i has (features x lanes)^2 entries: this is for problems where that is
small. It does not care how features are scaled, which coordinate descent does. a_i(W) is feasible, so every
iterate has a certificate.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from multimargin import _core
from multimargin.linear.algorithm import PassRecord, Settings
from multimargin.linear.examples import Examples
from multimargin.linear.machine import BUDGET, Machine
from multimargin.linear.state import check_counts
from multimargin.problems.range import SMALLEST_OBJECTIVE

# tau falls as long as Newton's method solves the inner problems in a few steps. It starts at the scale of the
# problem: duals are of the size of C or smaller, scores of the size of the margin, 1, and curvatures ||x||^2.
_CURVATURE_SHARE = 1e-3
_TAU_FALLS_BY = 0.1
_TAU_RISES_BY = 30.0
_INNER_STEPS = 15
_ARMIJO = 1e-4
_STALLED_STAGES = 5
_TAU_RANGE = (1e-290, 1e290)  # in which it, its inverse and what it rises to are numbers
# A step may take seconds. It is done in pieces of at most so many multiply-adds of BLAS, about 50 ms; after as many of
# them as make up that, limits are minded and Ctrl-C is heard. Products of few rows, and narrow panels, would be bound
# by memory.
_PIECE = 1e9
_ROWS_OF_PRODUCT = 1024
_PANEL = 192

# Something in pieces: tells of each how many multiply-adds it took, and gives a result in the end.
T = TypeVar("T")
Pieces: TypeAlias = Generator[float, None, T]


class Newton:
    """Proximal-point iterations on one machine, a Newton step a pass."""

    name = "newton"
    lists = False
    kept = ("tau", "smallest_tau", "steps", "stage_start", "primal", "stalled_stages", "gap_at_stall")

    def __init__(self, settings: Settings):
        self.tol = settings.tol
        self.stopping = "gap"
        self.done = self.converged = False
        self.weights: _core.Weights  # set by start

    def start(self, machine: Machine, *, warm: bool) -> None:
        """Prepare W, from the machine's duals when it has any."""
        self.weights = machine.new_weights(single_precision=False)
        if warm:
            machine.rebuild(self.weights)
        self.X = _dense(machine.examples)
        (self.block,) = machine.blocks
        problem, examples = machine.problem, machine.examples
        n, lanes = examples.n, problem.lanes
        self.proposal = np.empty_like(self.block.alpha)
        self.cap = np.where(problem.squared, np.inf, examples.cap)
        diagonal = 1 / (2 * examples.cap) if problem.squared else np.zeros(n)
        own = np.zeros((n, lanes), dtype=bool)
        inside = examples.label >= 0
        own[np.flatnonzero(inside), examples.label[inside]] = True
        self.own = own
        # Which lanes carry the diagonal term: Crammer-Singer its label's, Weston-Watkins the others, lanes all.
        carries = {"crammer_singer": own, "weston_watkins": ~own, "one_vs_rest": np.ones_like(own)}[problem.policy]
        self.diagonal = diagonal[:, None] * carries
        self.tau = 1.0
        if n:
            self.tau = max(1 / float(np.mean(examples.cap)), _CURVATURE_SHARE * float(np.mean(examples.norm)))
        self.smallest_tau = 0.0
        self.steps = 0  # of Newton's method in this stage
        self.stage_start = self.weights.array.copy()
        self.primal = 0.0
        self.stalled_stages = 0
        self.gap_at_stall = np.inf
        # The step that is under way. No checkpoint has it: W and alpha are as it found them, so it can begin anew.
        self.under_way: Pieces[list[PassRecord]] | None = None
        self.trial = machine.new_weights(single_precision=False)

    def check_kept(self) -> None:
        """Refuse attributes, restored from a checkpoint, that no stage can have had."""
        check_counts(self, ("smallest_tau", "steps", "stalled_stages"))
        if not (_TAU_RANGE[0] <= self.tau <= _TAU_RANGE[1] and self.smallest_tau <= self.tau):
            raise ValueError("'tau' is out of its range")
        if not np.isfinite(self.stage_start).all():
            raise ValueError("'stage_start' must be finite")

    def advance(self, machine: Machine, max_epochs: float) -> list[PassRecord]:
        if machine.examples.n == 0:
            machine.certify()
            self.done = self.converged = True
            return []
        step, self.under_way, spent = self.under_way or self._step(machine), None, 0.0
        while spent < _PIECE:
            try:
                spent += next(step)
            except StopIteration as end:
                return end.value
        self.under_way = step
        return []

    def _step(self, machine: Machine) -> Pieces[list[PassRecord]]:
        """A step of Newton's method; before its end only what `_evaluate` writes has changed, and the trial."""
        W = self.weights.array[:, : machine.problem.lanes]
        phi, gradient, gap = yield from self._evaluate(machine, self.weights)
        record = PassRecord(float(np.abs(gradient).max()), machine.examples.n, self.name, estimate=gap)
        certified = gap <= self.tol
        if certified:
            # The certificate belongs to the proposal: it becomes alpha before it is certified.
            self.block.alpha[:] = self.proposal
            found = machine.certify()
            self.converged = self.done = found.worst_gap <= self.tol
            record = record._replace(primal=found.primal, dual=found.dual, gap=found.gap)
            if self.done:
                return [record]

        direction = self._newton_step(machine, gradient)
        # From other duals a step does not begin anew: what is left of this one is one piece.
        step = _whole(direction) if certified else (yield from direction)
        search = self._search(machine, phi, gradient, step)
        exact, gradient, gap = _whole(search) if certified else (yield from search)
        self.steps += 1
        if not exact:
            self.weights.array[:] = self.trial.array
        # Solved well enough: what W - V adds to the gap is small against the gap itself.
        apart = float(np.linalg.norm(gradient))
        error = apart * (float(np.linalg.norm(W)) + 0.5 * apart) / max(self.primal, SMALLEST_OBJECTIVE)
        if error <= 0.1 * max(min(gap, 1.0), self.tol):
            self._next_stage(machine)
            self.stalled_stages = self.stalled_stages if gap > 0.5 * self.gap_at_stall else 0
        elif exact or self.steps >= _INNER_STEPS:  # too small a tau for float64, or for Newton's method
            self.stalled_stages += 1
            self.done = self.stalled_stages >= _STALLED_STAGES
            self.gap_at_stall = gap
            self.tau *= _TAU_RISES_BY
            self.smallest_tau = self.tau
            self.weights.array[:] = self.stage_start
            self.steps = 0
        return [record]

    def _search(
        self, machine: Machine, phi: float, gradient: np.ndarray, step: np.ndarray
    ) -> Pieces[tuple[bool, np.ndarray, float]]:
        """A trial that is lower by the step, with the gradient and the gap there; True if Phi cannot be lowered any
        more, with those at W."""
        lanes = machine.problem.lanes
        slope, length = float(np.vdot(gradient, step)), 1.0
        while length > 1e-10 and -slope > 1e-15 * abs(phi):
            self.trial.array[:, :lanes] = self.weights.array[:, :lanes] + length * step
            lower, gradient, gap = yield from self._evaluate(machine, self.trial)
            if lower <= phi + _ARMIJO * length * slope:
                return False, gradient, gap
            length *= 0.5
        _, gradient, gap = yield from self._evaluate(machine, self.weights)
        return True, gradient, gap

    def _next_stage(self, machine: Machine) -> None:
        """alpha becomes the proposal; tau falls, slowly where it fell too far before."""
        self.block.alpha[:] = self.proposal
        self.stage_start[:] = self.weights.array
        self.steps = 0
        self.smallest_tau *= 0.5
        self.tau = max(self.tau * _TAU_FALLS_BY, self.smallest_tau, _TAU_RANGE[0])

    def _evaluate(self, machine: Machine, weights: _core.Weights) -> Pieces[tuple[float, np.ndarray, float]]:
        """Phi, its gradient and the relative gap at W; the proposal is left in ``self.proposal``."""
        lanes = machine.problem.lanes
        W = weights.array[:, :lanes]
        loss, dual = np.zeros((2, machine.problem.n_parts))
        V = np.zeros_like(W)
        cost_of_row = machine.cost_of_pass / max(machine.examples.n, 1) * _PIECE / BUDGET
        for _, begin, end in machine.slices(machine.blocks):
            here = self.proposal[begin:end]
            loss_here, dual_here = self.block.propose(weights, begin, self.tau, here)
            loss += loss_here
            dual += dual_here
            V += self.X[begin:end].T @ here[:, :lanes]
            yield cost_of_row * (end - begin)
        proposal = self.proposal[:, :lanes]
        moved = proposal - self.block.alpha[:, :lanes]
        phi = 0.5 * np.vdot(W, W) - np.vdot(W, V) - dual.sum() - 0.5 * self.tau * np.vdot(moved, moved)
        parts = (lambda A: (A * A).sum(axis=0)) if machine.problem.n_parts > 1 else (lambda A: np.vdot(A, A))
        primal, f = 0.5 * parts(W) + loss, 0.5 * parts(V) + dual
        self.primal = float(np.sum(primal))
        gap = float(np.max((primal + f) / np.maximum(np.abs(primal), SMALLEST_OBJECTIVE)))
        return float(phi), W - V, gap

    def _newton_step(self, machine: Machine, gradient: np.ndarray) -> Pieces[np.ndarray]:
        lanes, X = machine.problem.lanes, self.X
        n_weights = X.shape[1]
        d = self._free(machine) / (self.tau + self.diagonal)
        identity = np.eye(n_weights)
        if machine.problem.separable:
            step = np.empty_like(gradient)
            for m in range(lanes):
                H = yield from _weighted_gram(X, d[:, m])
                H += identity
                step[:, m] = yield from _solve(H, -gradient[:, m])
            return step
        active = np.flatnonzero(np.count_nonzero(d, axis=1) >= 2)
        d, Xa = d[active], X[active]
        total = d.sum(axis=1, keepdims=True)
        H = np.zeros((lanes, n_weights, lanes, n_weights))
        for m in range(lanes):
            for other in range(m + 1):
                J = -d[:, m] * d[:, other] / total[:, 0]
                if m == other:
                    J = J + d[:, m]
                H[m, :, other] = H[other, :, m] = yield from _weighted_gram(Xa, J)
            H[m, :, m] += identity
        step = yield from _solve(H.reshape(lanes * n_weights, -1), -gradient.T.ravel())
        return step.reshape(lanes, n_weights).T

    def _free(self, machine: Machine) -> np.ndarray:
        """Lanes whose proposal is strictly between its bounds."""
        policy, lanes = machine.problem.policy, machine.problem.lanes
        value = np.abs(self.proposal[:, :lanes])
        cap = self.cap[:, None]
        if policy == "crammer_singer":
            return np.where(self.own, value < cap, value > 0)
        if policy == "weston_watkins":
            return np.where(self.own, True, (value > 0) & (value < cap))
        return (value > 0) & (value < cap)

    def candidate(self, out: _core.Weights) -> bool:
        out.array[:] = self.weights.array
        return True


def _whole(pieces: Pieces[T]) -> T:
    """The result, of all pieces at once."""
    while True:
        try:
            next(pieces)
        except StopIteration as end:
            return end.value


def _dense(examples: Examples) -> np.ndarray:
    """Examples as dense float64 rows, the intercept's feature included."""
    X = examples.matrix
    X = (X.toarray() if sp.issparse(X) else X).astype(np.float64, copy=False)
    if examples.rows.n_weights > examples.rows.n_features:
        X = np.column_stack([X, np.full(len(X), examples.rows.intercept)])
    return X


def _weighted_gram(X: np.ndarray, weight: np.ndarray) -> Pieces[np.ndarray]:
    """X' diag(weight) X, piece by piece; of its symmetric halves but one is computed."""
    used, n_weights = np.flatnonzero(weight), X.shape[1]
    n_rows = max(_ROWS_OF_PRODUCT, int(_PIECE / n_weights**2))
    n_columns = max(1, int(_PIECE / (n_rows * n_weights)))
    gram = np.zeros((n_weights, n_weights))
    for begin in range(0, len(used), n_rows):
        here = used[begin : begin + n_rows]
        rows = X[here]
        weighted = (weight[here, None] * rows).T
        for first in range(0, n_weights, n_columns):
            end = first + n_columns
            gram[first:end, :end] += weighted[first:end] @ rows[:, :end]
            yield float(len(here) * min(n_columns, n_weights) * min(end, n_weights))
    for first in range(0, n_weights, n_columns):
        gram[:first, first : first + n_columns] = gram[first : first + n_columns, :first].T
    return gram


def _solve(H: np.ndarray, b: np.ndarray) -> Pieces[np.ndarray]:
    """H^-1 b for a positive definite H, damped until Cholesky takes it."""
    largest = float(np.abs(H).max(initial=0.0))
    if not 1e-300 < largest < np.inf:  # there is no step; and Cholesky may take NaN, or refuse it however damped
        return np.zeros_like(b)
    # By a power of four, so that square roots are scaled without rounding: entries are below 8 then, and a damping of
    # 8 len(H), at the latest, makes the diagonal dominant.
    scale = 4.0 ** (np.frexp(largest)[1] // 2 - 1)
    H = H / scale
    damping = 0.0
    while damping < 100 * len(H):
        try:
            root = yield from _cholesky(H + damping * np.eye(len(H)) if damping else H.copy())
            return scipy.linalg.cho_solve((root, True), b, check_finite=False) / scale
        except np.linalg.LinAlgError:
            damping = 10 * damping or 1e-14 * max(float(np.trace(H)) / len(H), 1e-3)
    return np.zeros_like(b)


def _cholesky(H: np.ndarray) -> Pieces[np.ndarray]:
    """The lower factor of H, in its place and panel by panel; above its diagonal is what was there."""
    size = len(H)
    for begin in range(0, size, _PANEL):
        end = begin + _PANEL
        panel = H[begin:, begin:end]
        panel -= H[begin:, :begin] @ H[begin:end, :begin].T
        panel[:_PANEL] = scipy.linalg.cholesky(panel[:_PANEL], lower=True, check_finite=False)
        if end < size:
            panel[_PANEL:] = scipy.linalg.solve_triangular(
                panel[:_PANEL], panel[_PANEL:].T, lower=True, check_finite=False
            ).T
        yield float((size - begin) * min(_PANEL, size) * (begin + _PANEL))
    return H
