"""LinearSVM: linear multi-class support vector machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if

from multimargin.data.blocks import BlockStore
from multimargin.data.rows import as_rows
from multimargin.estimators.base import CERTIFIED, MarginClassifier
from multimargin.estimators.parameters import check_linear, check_stored, n_threads
from multimargin.linear.loop import Limits
from multimargin.linear.machine import Settings
from multimargin.linear.online import visit_once
from multimargin.linear.scoring import padded_weights, scores
from multimargin.linear.solvers import SOLVERS
from multimargin.linear.stored_training import StoredRequest, train_stored
from multimargin.linear.streamed import StoredProblem
from multimargin.linear.training import Request, Trained, choose_solver, train


def _learns_online(model: Any) -> bool:
    if model.probability:
        raise AttributeError(
            "partial_fit is not there with probability=True: rows that were seen once cannot be held out; set "
            "probability=False, or use fit"
        )
    return True


class LinearSVM(MarginClassifier):
    """Linear multi-class support vector machine, trained exactly and certified.

    Minimises ``1/2 sum_m ||w_m||^2 + sum_i C_i loss_i`` with ``C_i = C * sample_weight_i * class_weight[y_i]``
    and stops when the relative duality gap, a proof of optimality, is at most ``tol``.

    Parameters
    ----------
    formulation : {"crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag"}
        How classes are told apart.

        - crammer_singer: ``loss_i = max_m (s_im + [m != y_i]) - s_iy``
        - weston_watkins: ``loss_i = sum_{m != y_i} max(0, 1 - s_iy + s_im)``
        - one_vs_rest: one binary machine a class, trained as lanes of one pass
        - one_vs_one: one binary machine a pair of classes; the class that wins most pairs, ties to the smaller
        - dag: the same machines, asked as a decision graph
    loss : {"hinge", "squared_hinge"}
        Squared: ``C_i loss_i^2`` (summed over the terms of the loss).
    C : float
        Weight of the loss against the regulariser.
    solver : {"auto", "sdm", "accelerated_sdm", "newton"}
        "sdm" is the sequential dual method (for binary machines: dual coordinate descent); "accelerated_sdm"
        wraps it in an accelerated proximal-point loop; "newton" is a second-order method for few features.
        "auto" takes newton for few features and rows, else the accelerated loop; sdm for ``stopping="violation"``.
    tol : float
        Target for the relative duality gap or, with ``stopping="violation"``, for the violation of optimality.
    stopping : {"gap", "violation"}
        "violation" is the papers' criterion, in units of the margin.
    max_iter : int
        Most epochs. An epoch is as many visits as there are rows: one full pass, or several shrunk ones.
    time_limit : float or None
        Most seconds to train; the last model is certified and kept.
    fit_intercept : bool
        Learn an intercept, as the weight of a constant feature ``intercept_scaling``; it is regularised.
    intercept_scaling : float
        Larger values regularise the intercept less.
    class_weight : dict, "balanced" or None
        Weights of classes.
    shrinking, cooling : bool
        Heuristics of the sequential dual method: leave out examples at rest; begin with a loose tolerance.
    probability : bool
        Fit probabilities, too, for :meth:`predict_proba`: five more fits, each on four fifths of the rows and from
        where this one ended, score the rows left out, and ``calibration_`` is fitted to those scores.
    warm_start : bool
        Start from the duals of the last fit when it had the same labels, formulation and loss.
    n_jobs : int or None
        Threads. None is 1, -1 all. The result depends on (random_state, n_jobs) only.
    random_state : int, RandomState or None
        Seed of the order of visits. None is 0: fits are reproducible.
    verbose : int
        1 shows progress on stderr.
    callbacks : list or None
        Called after every epoch: scikit-learn callbacks (1.9 and later), or callables that take a dict with the
        epoch's record and may return True to stop.
    decision_function_shape : {"ovr", "ovo"}
        For one_vs_one and dag: one column a class, or one a pair.
    break_ties : bool
        For one_vs_one: break ties of votes by confidence instead of by index.
    memory_mb : float or None
        For ``fit(store)``, with blocks on disk: most memory, in units of 2**20 bytes, for weights, blocks and duals;
        mapped pages of files do not count. None is no limit, but no more than two blocks are held in any case. Arrays
        are read where they are, whatever they take.
    solver_options : dict or None
        ``permutation`` (True): visit in random order. ``restricted_step`` (True): step only on the classes that
        matter to an example and store only non-zero duals; False steps on all, with dense duals.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (n_classes, n_features)
        One row a class; for two classes one row, ``w_1 - w_0``; for one_vs_one and dag one row a pair.
    intercept_ : ndarray of shape (n_rows_of_coef,)
    dual_coef_ : sparse array of shape (n_samples, n_rows_of_coef)
        ``coef_ = dual_coef_.T @ X`` to within ``sqrt(2 (primal_objective_ - dual_objective_))``, up to a factor of two.
        Not there, nor is ``support_``, after a fit on a store: they were on disk, and are gone.
    support_ : ndarray
        Training rows with a non-zero dual.
    n_iter_ : int
        Epochs (of the longest machine).
    primal_objective_, dual_objective_ : float
        Upper and lower bound of the optimal objective.
    dual_gap_ : float
        ``(primal - dual) / primal``: how far the model may be from optimal, proven.
    worst_gap_ : float
        The largest relative gap of any class or pair that is a problem of its own; else ``dual_gap_``.
    converged_ : bool
    history_ : structured ndarray
        One record a pass: machine, epoch (the number of the pass), seconds, violation, active_rows, solver, and
        primal, dual, gap where they were certified (else NaN).
    calibration_ : ndarray of shape (3,)
        With ``probability=True``: what turns scores into probabilities, see docs/probabilities.md.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multimargin import LinearSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearSVM().fit(X, y)
    >>> model.converged_, bool(model.dual_gap_ <= 1e-3)
    (True, True)
    >>> float(model.score(X, y)) > 0.95
    True
    """

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

    def _check(self) -> None:
        check_linear(self)

    @available_if(_learns_online)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn from more rows, each visited once with the exact step (the online setting of paper 001).

        Every row of a call is a new example; its duals are not kept, so memory does not grow with the calls. There
        is no certificate.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`.
        classes : array or None
            All classes that will ever come; required in the first call.

        Returns
        -------
        self
        """
        with self._unchanged_if_refused():
            self._learn(X, y, classes, sample_weight)
        return self

    def _learn(self, X, y, classes, sample_weight) -> None:
        self._check()
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' cannot be known in partial_fit: pass a dict, or sample_weight to every call"
            )
        first = not hasattr(self, "coef_")
        X, y = self._validated(X, y, reset=first)
        if first:
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit")
            self.classes_ = np.unique(classes)
            if len(self.classes_) < 2:
                raise ValueError(f"LinearSVM needs at least 2 classes; got only one class, {self.classes_[0]}")
        elif classes is not None and not np.array_equal(self.classes_, np.unique(classes)):
            raise ValueError(
                f"classes={classes!r} is not the same as on the last call to partial_fit: {self.classes_!r}"
            )
        encoded = np.searchsorted(self.classes_, y)
        unknown = (encoded == len(self.classes_)) | (self.classes_[np.minimum(encoded, len(self.classes_) - 1)] != y)
        if unknown.any():
            raise ValueError(f"y has labels that are not among classes: {np.unique(y[unknown])!r}")
        if first:
            self._hold(padded_weights(X.shape[1] + bool(self.fit_intercept), self._n_lanes()))
        weight = self._weights_of_rows(X, sample_weight)
        W = self._whole_weights()
        visit_once(self._request(X, encoded, self._caps(encoded, weight), weight, many_passes=False), W)
        self._hold(W)
        self.n_iter_ = 1
        for certified in CERTIFIED:  # by an earlier fit, of weights that are no more
            self.__dict__.pop(certified, None)

    def _request(self, X, encoded, cap, weight, *, many_passes=True) -> Request:
        rows = as_rows(X, self._constant_feature(), many_passes=many_passes)
        norm = rows.squared_norms()
        if not np.all(np.isfinite(norm)):
            row = int(np.flatnonzero(~np.isfinite(norm))[0])
            raise ValueError(f"the squared norm of row {row} overflows: scale the features down")
        solver = self.solver
        if solver == "auto":
            solver = choose_solver(rows, self._n_lanes(), self.formulation, self.stopping)
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
        )

    def _settings(self, solver: str) -> Settings:
        return Settings(
            tol=self.tol,
            stopping=self.stopping,
            shrinking=bool(self.shrinking),
            cooling=bool(self.cooling),
            options={**SOLVERS[solver].options, **(self.solver_options or {})},
        )

    def _refit_request(self, request: Request, *, tol: float, **changes: Any) -> Request:
        return replace(request, settings=replace(request.settings, tol=tol), **changes)

    def _train(self, request: Request | StoredRequest) -> Trained:
        return train(request) if isinstance(request, Request) else train_stored(request)

    # A store of blocks on disk

    def _fitted(self, X, y, sample_weight):
        if not isinstance(X, BlockStore):
            return super()._fitted(X, y, sample_weight)
        self._check()
        check_stored(self, X, y, sample_weight)
        self.classes_, self.n_features_in_ = X.classes, X.n_features
        self.__dict__.pop("feature_names_in_", None)
        request = StoredRequest(
            stored=StoredProblem(X, self._constant_feature(), self._caps_of_classes(X)),
            n_classes=len(X.classes),
            formulation=self.formulation,
            loss=self.loss,
            solver="sdm" if self.solver == "auto" else self.solver,
            settings=self._settings("sdm" if self.solver == "auto" else self.solver),
            limits=Limits(self.max_iter, self.time_limit),
            seed=self._seed(),
            memory_mb=self.memory_mb,
        )
        return self._observed_training(request, X, None, None)

    def _constant_feature(self) -> float:
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    def _caps_of_classes(self, store: BlockStore) -> np.ndarray:
        k = len(store.classes)
        return self._caps(np.arange(k), np.ones(k), counts=store.class_weights)

    def decision_function(self, X):
        if isinstance(X, BlockStore):
            return np.concatenate([super(LinearSVM, self).decision_function(block.X) for block in X])
        return super().decision_function(X)

    def predict(self, X):
        if isinstance(X, BlockStore):
            return np.concatenate([super(LinearSVM, self).predict(block.X) for block in X])
        return super().predict(X)

    def score(self, X, y=None, sample_weight=None):
        """Accuracy on X and y, or on a store, which has labels of its own; weights are those given here, or none."""
        if not isinstance(X, BlockStore):
            return super().score(X, y, sample_weight)
        if y is not None or sample_weight is not None:
            raise ValueError("the labels of a store are in it: score(store) takes no y and no sample_weight")
        return sum(int((self.predict(block.X) == block.y).sum()) for block in X) / X.n_rows

    def _store_model(self, trained: Trained, request: Request) -> None:
        self._hold(trained.W)

    def _decisions(self, X, finish) -> np.ndarray:
        values = scores(as_rows(X, only_scored=True), self._weights(), len(self.coef_), n_threads(self.n_jobs))
        values += self.intercept_
        return values if finish is None else finish(values)

    def _current(self, machine, request) -> dict[str, Any] | None:
        """As in the base; a model of many machines has none before its end."""
        lanes = machine.problem.lanes
        if lanes != self._n_lanes():
            return None
        W = np.array(machine.algorithm.weights.array[:, :lanes], dtype=np.float64)
        n_features = W.shape[0] - bool(self.fit_intercept)
        intercept = W[n_features] * self.intercept_scaling if self.fit_intercept else np.zeros(lanes)
        return {"coef_": W[:n_features].T, "intercept_": intercept}

    # The model's weights live in one padded array, feature-major as the core reads it; coef_ is a view of it.

    def _hold(self, W: np.ndarray) -> None:
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
        if self.__dict__.get("_coef_of_W") is self.coef_:
            return self._W[: self.coef_.shape[1]]
        W = padded_weights(self.coef_.shape[1], len(self.coef_))
        W[:, : len(self.coef_)] = self.coef_.T
        return W

    def _whole_weights(self) -> np.ndarray:
        n_features = self.coef_.shape[1]
        W = padded_weights(n_features + bool(self.fit_intercept), len(self.coef_))
        W[:n_features, : len(self.coef_)] = self.coef_.T
        if self.fit_intercept:
            W[n_features, : len(self.coef_)] = self.intercept_ / self.intercept_scaling
        return W

    def __getstate__(self):
        state = super().__getstate__().copy()
        state.pop("_W", None)
        state.pop("_coef_of_W", None)
        if "coef_" in state:
            state["coef_"] = np.ascontiguousarray(state["coef_"])
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        if "coef_" in state:
            intercept = self.intercept_
            self._hold(self._whole_weights())
            self.intercept_ = intercept
