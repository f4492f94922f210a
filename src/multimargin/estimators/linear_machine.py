"""A linear machine: its request, its weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from multimargin.data.csr import Csr
from multimargin.data.rows import as_rows, canonical, has_features
from multimargin.data.thread_pool import NoThreadsError, threads_start
from multimargin.estimators.margins import Margins
from multimargin.estimators.names import knows_other_names
from multimargin.estimators.parameters import check_linear, n_threads
from multimargin.linear.algorithm import Settings
from multimargin.linear.many_classes import as_csr, intercept_apart, is_sparse, weights_are_sparse
from multimargin.linear.outcome import Limits
from multimargin.linear.scoring import finite, padded_weights, scores
from multimargin.linear.solvers import SOLVERS
from multimargin.linear.sparse_scoring import sparse_scores, sparse_top
from multimargin.linear.training import Request, Trained, check_size_of_newton, choose_solver, train
from multimargin.problems.range import check_range, tiny_is_zero


class LinearMachine(Margins):
    """See :class:`multimargin.LinearSVM`, which has the same parameters."""

    @knows_other_names
    def __init__(
        self,
        formulation="crammer_singer",
        loss="hinge",
        C=1.0,
        *,
        solver="auto",
        tol=1e-3,
        stopping="gap",
        max_iter=1000,
        time_limit=None,
        fit_intercept=True,
        intercept_scaling=1.0,
        class_weight=None,
        shrinking=True,
        cooling=True,
        probability=False,
        warm_start=False,
        n_jobs=None,
        random_state=None,
        verbose=0,
        callbacks=None,
        decision_function_shape="ovr",
        break_ties=False,
        memory_mb=None,
        solver_options=None,
        checkpoint=None,
        checkpoint_every=600,
    ):
        self.formulation = formulation
        self.loss = loss
        self.C = C
        self.solver = solver
        self.tol = tol
        self.stopping = stopping
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.class_weight = class_weight
        self.shrinking = shrinking
        self.cooling = cooling
        self.probability = probability
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.memory_mb = memory_mb
        self.solver_options = solver_options
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    coef_: Any
    _W: Any

    def _check(self) -> None:
        check_linear(self)

    @tiny_is_zero
    def _request(self, X, encoded, cap, weight, *, many_passes=True) -> Request:
        rows = as_rows(X, self._constant_feature(), many_passes=many_passes)
        norm = rows.squared_norms()
        if not np.all(np.isfinite(norm)):
            row = int(np.flatnonzero(~np.isfinite(norm))[0])
            raise ValueError(f"the squared norm of row {row} overflows: scale the features down")
        if norm.max(initial=0.0) > 0 or has_features(X):
            check_range(cap, float(norm.max()))
        solver, sparse = self.solver, self._sparse_weights(rows.n_weights)
        if sparse:
            solver = "sdm"
        elif solver == "auto":
            # Not by BLAS: its threads would be awake for a while, and in the way of ours.
            curvature = float(np.einsum("i,i", cap, norm)) / max(len(norm), 1)
            solver = choose_solver(rows, curvature, self._n_lanes(), self.formulation, self.stopping, self.tol)
        if solver == "newton":
            check_size_of_newton(rows.n_weights, self._n_lanes(), self.formulation)
        return Request(
            X=X,
            rows=rows,
            norm=norm,
            y=encoded,
            cap=cap,
            n_classes=len(self.classes_),
            formulation=self.formulation,
            loss=self.loss,
            solver=solver,
            settings=self._settings(solver),
            limits=Limits(self.max_iter, self.time_limit),
            n_threads=n_threads(self.n_jobs),
            seed=self._seed(),
            sparse_weights=sparse,
        )

    def _sparse_weights(self, n_weights: int) -> bool:
        restricted = (self.solver_options or {}).get("restricted_step", True)
        lanes, limit = self._n_lanes(), self._memory_mb()
        sparse = weights_are_sparse(n_weights, lanes, self.formulation, self.solver, restricted, limit)
        if sparse and self.probability:
            raise ValueError(
                f"probability=True needs the scores of all rows and all {len(self.classes_)} classes at once, which "
                "are too many with sparse weights; set probability=False, or raise memory_mb"
            )
        return sparse

    def _memory_mb(self) -> float | None:
        limit = getattr(self, "memory_mb", None)  # LinearSVMCV has none
        return None if limit is None else float(limit)

    def _settings(self, solver: str) -> Settings:
        return Settings(
            tol=float(self.tol),  # NumPy's numbers compare to what is no bool
            stopping=self.stopping,
            shrinking=bool(self.shrinking),
            cooling=bool(self.cooling),
            options={**SOLVERS[solver].options, **(self.solver_options or {})},
        )

    def _constant_feature(self) -> float:
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    def _refit_request(self, request: Request, *, tol: float, **changes: Any) -> Request:
        return replace(request, settings=replace(request.settings, tol=tol), **changes)

    def _train(self, request: Request) -> Trained:
        try:
            return train(request)
        except MemoryError as error:
            if request.n_threads > 1 and not threads_start(request.n_threads - 1):  # of which the core says the same
                raise NoThreadsError from error
            lanes = self._n_lanes()
            weights, duals = 8e-6 * request.rows.n_weights * lanes, 8e-6 * len(request.y) * lanes
            use = "" if self.formulation == "crammer_singer" else "; formulation='crammer_singer' keeps few duals"
            raise MemoryError(
                f"no memory left in training: formulation={self.formulation!r} has {weights:.3g} MB of weights, "
                f"several times, and up to {duals:.3g} MB of duals; use fewer rows, features or classes{use}"
            ) from error

    def _store_model(self, trained: Trained, request: Request) -> None:
        self._hold(trained.W)

    def _decisions(self, X, finish) -> np.ndarray:
        rows, threads = as_rows(X, only_scored=True), n_threads(self.n_jobs)
        if is_sparse(self.coef_):
            return self._finite(sparse_scores(rows, self._sparse_W(), self.intercept_, threads))
        values = scores(rows, self._weights(), len(self.coef_), threads)
        values += self.intercept_
        return self._finite(values) if finish is None else finish(self._finite(values))

    def _finite(self, values: np.ndarray) -> np.ndarray:
        """Scores as they are; what is not finite is the fault of the rows, or of weights that somebody set."""
        try:
            return finite(values)
        except ValueError:
            for name in ("coef_", "intercept_"):
                weights = getattr(self, name)
                if not np.isfinite(weights.data if is_sparse(weights) else weights).all():
                    raise ValueError(
                        f"{name} of this {self._name} holds NaN or infinity, which no fit leaves there: set finite "
                        "numbers, or fit again"
                    ) from None
            raise

    @tiny_is_zero
    def _top(self, X, n: int) -> tuple[np.ndarray, np.ndarray]:
        if not is_sparse(self.coef_):
            return super()._top(X, n)
        rows = as_rows(X, only_scored=True)
        lanes, values = sparse_top(rows, self._sparse_W(), self.intercept_, n, n_threads(self.n_jobs))
        return lanes, self._finite(values)

    def _predicted(self, X) -> np.ndarray:
        if not is_sparse(self.coef_):
            return super()._predicted(X)
        return self.classes_[self._top(X, 1)[0][:, 0]]

    def _current(self, machine, request) -> dict[str, Any] | None:
        """As in the base; a model of many machines has none before its end."""
        lanes = machine.problem.lanes
        if lanes != self._n_lanes():
            return None
        if machine.algorithm.weights.is_sparse:
            sparse = as_csr(machine.algorithm.weights, machine.n_weights, take=False)
            features, intercept = intercept_apart(sparse, self._constant_feature())
            return {"coef_": features.to_scipy().T, "intercept_": intercept}
        W = np.array(machine.algorithm.weights.array[:, :lanes], dtype=np.float64)
        n_features = W.shape[0] - bool(self.fit_intercept)
        intercept = W[n_features] * self.intercept_scaling if self.fit_intercept else np.zeros(lanes)
        return {"coef_": W[:n_features].T, "intercept_": intercept}

    # The model's weights live in one padded array, or in sparse rows, feature-major as the core reads them; coef_ is a
    # view of it.

    def _hold(self, W: np.ndarray | Csr) -> None:
        if isinstance(W, Csr):
            self._W, self.intercept_ = intercept_apart(W, self._constant_feature())
            self.coef_ = self._coef_of_W = self._W.to_scipy().T
            return
        lanes = self._n_lanes()
        n_features = W.shape[0] - bool(self.fit_intercept)
        self._W = W
        self.coef_ = W[:n_features, :lanes].T
        if self.fit_intercept:
            self.intercept_ = W[n_features, :lanes] * self.intercept_scaling
        else:
            self.intercept_ = np.zeros(lanes)
        self._coef_of_W = self.coef_

    def _weights(self) -> np.ndarray:
        """W without the intercept, padded; built anew if somebody replaced ``coef_``."""
        held: Any = self.__dict__.get("_coef_of_W")
        if held is self.coef_:
            return self._W[: self.coef_.shape[1]]
        W = padded_weights(self.coef_.shape[1], len(self.coef_))
        W[:, : len(self.coef_)] = self.coef_.T
        return W

    def _sparse_W(self) -> Csr:
        """The sparse weights; built anew if somebody replaced ``coef_``."""
        if self.__dict__.get("_coef_of_W") is not self.coef_:
            W = canonical(self.coef_.T.tocsr().astype(np.float64, copy=False))
            self._W, self._coef_of_W = Csr(W.data, W.indices, W.indptr, W.shape), self.coef_
        return self._W

    def _whole_weights(self) -> np.ndarray:
        n_features = self.coef_.shape[1]
        W = padded_weights(n_features + bool(self.fit_intercept), len(self.coef_))
        W[:n_features, : len(self.coef_)] = self.coef_.T
        if self.fit_intercept:
            W[n_features, : len(self.coef_)] = self.intercept_ / self.intercept_scaling
        return W
