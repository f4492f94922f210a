"""LinearSVM: linear multi-class support vector machines."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from multimargin.data.rows import as_rows, check_sparse
from multimargin.estimators.callbacks import CallbackSupport, observed, with_callbacks
from multimargin.estimators.parameters import SOLVER_OPTIONS, check_linear, n_threads
from multimargin.linear.loop import Limits
from multimargin.linear.online import visit_once
from multimargin.linear.scoring import padded_weights, scores
from multimargin.linear.sdm import SdmOptions
from multimargin.linear.training import Interrupted, Request, Trained, choose_solver, n_lanes, train
from multimargin.problems.formulations import PAIRWISE
from multimargin.reductions.pairwise import rounds_of_elimination, votes_with_confidence

# Attributes that only fit can set.
_CERTIFIED = (
    "dual_coef_",
    "support_",
    "primal_objective_",
    "dual_objective_",
    "dual_gap_",
    "worst_gap_",
    "converged_",
    "history_",
    "_dual_caps",
    "_dual_labels",
    "_dual_problem",
)


class LinearSVM(CallbackSupport, ClassifierMixin, BaseEstimator):
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
        Reserved; True is refused.
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
        self.solver_options = solver_options

    # Training

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Train.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features)
            float32 and float64, dense or CSR, are read in place; of dense arrays of mostly zeros the non-zeros
            are copied.
        y : array of shape (n_samples,)
            Class labels.
        sample_weight : array of shape (n_samples,) or None
            Weights of rows; a weight of 2 is the row twice.

        Returns
        -------
        self
        """
        check_linear(self)
        X, y = self._validated(X, y, reset=True)
        check_classification_targets(y)
        previous_classes = getattr(self, "classes_", None)
        classes, encoded = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"LinearSVM needs at least 2 classes; y has only one class, {classes[0]}")
        self.classes_ = classes
        cap = self._caps(X, encoded, sample_weight)
        request = self._request(X, encoded, cap)
        if self.warm_start and previous_classes is not None and np.array_equal(previous_classes, self.classes_):
            request.start_duals = self._scaled_duals(cap, encoded)
        with observed(self, X, y, sample_weight, request) as observers:
            request.observers = observers
            try:
                trained = train(request)
            except Interrupted as interrupt:
                self._store(interrupt.trained, cap, encoded)
                raise KeyboardInterrupt from None
        self._store(trained, cap, encoded)
        self._warn_unless_converged(trained)
        return self

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
        check_linear(self)
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
        cap = self._caps(X, encoded, sample_weight)
        W = self._whole_weights()
        visit_once(self._request(X, encoded, cap, many_passes=False), W)
        self._hold(W)
        self.n_iter_ = 1
        for certified in _CERTIFIED:  # by an earlier fit, of weights that are no more
            self.__dict__.pop(certified, None)
        return self

    # Prediction

    def decision_function(self, X):
        """Confidence of every class.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            Scores ``w_m x + b_m``. one_vs_one: votes, plus the summed decisions squeezed below half a vote; dag: the
            round in which a class was ruled out. With ``decision_function_shape="ovo"``: the decision of every
            pair. The arg max is what :meth:`predict` says.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        values = scores(as_rows(X), self._weights(), len(self.coef_), n_threads(self.n_jobs))
        values += self.intercept_
        if len(self.classes_) == 2:
            return values.ravel()
        if self.formulation not in PAIRWISE or self.decision_function_shape == "ovo":
            return values
        return self._class_values(values)

    def predict(self, X):
        """Class labels."""
        values = self.decision_function(X)
        if len(self.classes_) == 2:
            return self.classes_[(values > 0).astype(int)]
        if values.shape[1] != len(self.classes_) or self.decision_function_shape == "ovo":
            values = self._class_values(values)
        return self.classes_[values.argmax(axis=1)]

    def _class_values(self, decisions: np.ndarray) -> np.ndarray:
        if self.formulation == "dag":
            return rounds_of_elimination(decisions, len(self.classes_))
        return votes_with_confidence(decisions, len(self.classes_), self.break_ties)

    def label_doubt(self):
        """How much each training row's duals speak for other classes than its label.

        Crammer and Singer read ``-alpha_i^m / C_i`` as the share of class m in a distribution over the labels of
        row i. Rows with much mass on another class are likely mislabelled. For weston_watkins the shares of a row
        are scaled down where their sum would exceed 1.

        Returns
        -------
        sparse array of shape (n_samples, n_classes)
            Zero at a row's own label. A row whose largest share is near 1 is a suspect; many may tie there, and
            those on which the other class scores highest above the label come first.
        """
        check_is_fitted(self)
        if self.formulation not in ("crammer_singer", "weston_watkins") or self.loss != "hinge":
            raise ValueError(
                "label_doubt needs formulation='crammer_singer' or 'weston_watkins' and loss='hinge', "
                f"not {self.formulation!r} with {self.loss!r}"
            )
        if not hasattr(self, "dual_coef_"):
            raise NotFittedError("label_doubt needs a model trained by fit: partial_fit keeps no duals")
        duals = self.dual_coef_.tocoo()
        row, lane, value = duals.coords[0], duals.coords[1], duals.data
        if len(self.classes_) == 2:  # one signed dual: positive rows doubt towards class 0
            lane, share = np.where(value > 0, 0, 1), np.abs(value) / (2 * self._dual_caps[row])
        else:
            other = value < 0
            row, lane, share = row[other], lane[other], -value[other] / self._dual_caps[row[other]]
        total = np.bincount(row, weights=share, minlength=duals.shape[0])
        share = share / np.maximum(total, 1.0)[row]
        return sp.csr_array((share, (row, lane)), shape=(duals.shape[0], len(self.classes_)))

    # What fit and partial_fit share

    def _validated(self, X, y="no_validation", *, reset):
        if sp.issparse(X):
            check_sparse(X)
        options: dict[str, Any] = dict(accept_sparse="csr", dtype=[np.float64, np.float32], order="C", reset=reset)
        return validate_data(self, X, y, **options)

    def _caps(self, X, encoded, sample_weight) -> np.ndarray:
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if np.any(weight < 0):
            raise ValueError("sample_weight must not be negative")
        if not np.any(weight > 0):
            raise ValueError("sample_weight must be positive somewhere: all weights are zero")
        with np.errstate(over="ignore"):
            cap = self.C * weight
            if self.class_weight is not None:
                cap = cap * self._class_weights(encoded, weight)[encoded]
        if not np.all(np.isfinite(cap)):
            raise ValueError("C times the weights must be finite")
        return cap

    def _class_weights(self, encoded, weight) -> np.ndarray:
        k = len(self.classes_)
        if isinstance(self.class_weight, str):
            count = np.bincount(encoded, weights=weight, minlength=k)
            return np.divide(weight.sum(), k * count, out=np.zeros(k), where=count > 0)
        factors = np.ones(k)
        for label, factor in dict(self.class_weight).items():
            where = np.flatnonzero(self.classes_ == label)
            if not len(where):
                raise ValueError(f"class_weight names class {label!r}, which is not among {self.classes_!r}")
            factors[where] = factor
        return factors

    def _request(self, X, encoded, cap, *, many_passes=True) -> Request:
        rows = as_rows(X, float(self.intercept_scaling) if self.fit_intercept else 0.0, many_passes=many_passes)
        norm = rows.squared_norms()
        if not np.all(np.isfinite(norm)):
            row = int(np.flatnonzero(~np.isfinite(norm))[0])
            raise ValueError(f"the squared norm of row {row} overflows: scale the features down")
        solver = self.solver
        options = SOLVER_OPTIONS | (self.solver_options or {})
        if solver == "auto":
            solver = choose_solver(rows, n_lanes(self.formulation, len(self.classes_)), self.formulation, self.stopping)
        seed = 0 if self.random_state is None else int(check_random_state(self.random_state).randint(2**31 - 1))
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
            options=SdmOptions(
                tol=self.tol,
                stopping=self.stopping,
                shrinking=bool(self.shrinking),
                cooling=bool(self.cooling),
                permutation=bool(options["permutation"]),
                accelerated=solver == "accelerated_sdm",
            ),
            restricted_step=bool(options["restricted_step"]),
            limits=Limits(self.max_iter, self.time_limit),
            n_threads=n_threads(self.n_jobs),
            seed=seed,
        )

    def _n_lanes(self) -> int:
        return n_lanes(self.formulation, len(self.classes_))

    def _scaled_duals(self, cap, encoded):
        """The last fit's duals, if they are duals of this problem, scaled with C to be feasible."""
        duals = getattr(self, "dual_coef_", None)
        if duals is None or self._dual_problem != (self.formulation, self.loss, duals.shape):
            return None
        if duals.shape != (len(cap), self._n_lanes()) or not np.array_equal(self._dual_labels, encoded):
            return None
        factor = np.divide(cap, self._dual_caps, out=np.zeros_like(cap), where=self._dual_caps > 0)
        return sp.csr_array(duals.multiply(factor[:, None]))

    def _store(self, trained: Trained, cap: np.ndarray, encoded: np.ndarray) -> None:
        outcome = trained.outcome
        self._hold(trained.W)
        self.dual_coef_ = trained.dual_coef
        self._dual_caps, self._dual_labels = cap, encoded
        self._dual_problem = (self.formulation, self.loss, trained.dual_coef.shape)
        self.support_ = np.flatnonzero(np.diff(trained.dual_coef.indptr))
        self.primal_objective_ = trained.primal
        self.dual_objective_ = trained.dual
        self.dual_gap_ = max(trained.primal - trained.dual, 0.0) / max(abs(trained.primal), 1e-300)
        self.worst_gap_ = trained.worst_gap
        self.n_iter_ = outcome.n_iter
        self.converged_ = outcome.converged
        self.history_ = outcome.history_array()

    def _warn_unless_converged(self, trained: Trained) -> None:
        if trained.outcome.converged:
            return
        easier = f"scale the features, lower C={self.C:g} or raise tol"
        what = {
            "max_iter": f"after max_iter={self.max_iter} epochs; raise max_iter, {easier}",
            "time_limit": f"after time_limit={self.time_limit} s; raise time_limit, {easier}",
            "callback": "because a callback said so",
            "precision": f"because float64 cannot do better; {easier}",
        }[trained.outcome.stopped_by]
        if self.stopping == "violation":
            reached = f"the relative duality gap is {self.dual_gap_:.2g} and the violation is still above {self.tol:g}"
        else:
            reached = f"the relative duality gap is {max(self.dual_gap_, self.worst_gap_):.2g}, the target {self.tol:g}"
        warnings.warn(
            f"LinearSVM stopped {what}: {reached}",
            ConvergenceWarning,
            stacklevel=4,
        )

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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
