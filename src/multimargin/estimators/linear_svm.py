"""LinearSVM: linear multi-class support vector machines."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from multimargin.data.blocks import BlockStore
from multimargin.data.labels import check_comparable, check_labels, encoded_by, is_missing, plain_labels
from multimargin.estimators.base import MarginClassifier
from multimargin.estimators.identity import identity_of_stored
from multimargin.estimators.linear_machine import LinearMachine
from multimargin.estimators.margins import CERTIFIED
from multimargin.estimators.parameters import check_stored
from multimargin.estimators.stored_answers import of_blocks
from multimargin.linear.many_classes import is_sparse
from multimargin.linear.online import visit_once
from multimargin.linear.outcome import Limits
from multimargin.linear.scoring import padded_weights
from multimargin.linear.stored_examples import StoredProblem
from multimargin.linear.stored_training import StoredRequest, train_stored
from multimargin.linear.training import Request, Trained, streamed_solver
from multimargin.problems.range import tiny_is_zero


def _learns_online(model: Any) -> bool:
    if model.probability:
        raise AttributeError(
            "partial_fit is not there with probability=True: rows that were seen once cannot be held out; set "
            "probability=False, or use fit"
        )
    return True


class LinearSVM(LinearMachine, MarginClassifier):
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
    solver : {"auto", "sdm", "accelerated_sdm", "newton", "pegasos", "exponentiated_gradient", "cutting_plane", \
"tron", "primal_cd"}
        "sdm" is the sequential dual method (for binary machines: dual coordinate descent); "accelerated_sdm"
        wraps it in an accelerated proximal-point loop; "newton" is a second-order method for few features.
        The others are the papers' rivals, to compare with. For the hinge loss, not for weston_watkins: "pegasos"
        (stochastic subgradients), "exponentiated_gradient" and "cutting_plane" (for binary machines: SVMperf). For the
        squared hinge with one_vs_rest, one_vs_one and dag: "tron", trust-region Newton, and "primal_cd", primal
        coordinate descent, which copies X by columns.
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
        Weights of classes: factors of C for their rows, in every machine that learns from them, as a sample_weight is.
        (In LIBLINEAR and LinearSVC, one-vs-rest with more than two classes, the weight of a class counts in the machine
        of that class alone.) "balanced" gives every class the same total weight; rows count by their sample_weight.
    shrinking, cooling : bool
        Heuristics of the sequential dual method: leave out examples at rest; begin with a loose tolerance.
    probability : bool
        Fit probabilities, too, for :meth:`predict_proba`: five more fits, each on four fifths of the rows and from
        where this one ended, score the rows left out, and ``calibration_`` is fitted to those scores.
    warm_start : bool
        Start from the duals of the last fit when it had the same labels, formulation and loss.
    n_jobs : int or None
        Threads. None is 1, -1 all. They share the classes of one_vs_rest, the pairs of one_vs_one and dag, the folds of
        ``probability=True``, the rows of predictions, and what newton and cutting_plane leave to BLAS; and the examples
        of crammer_singer and weston_watkins where scoring a row is much work (dense rows and many classes), which else
        are trained by one thread, as two classes are. The result depends on (random_state, n_jobs) only.
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
        mapped pages of files do not count. None is no limit, but no more than two blocks are held in any case.
        For arrays, which are read where they are, whatever they take: if the weights as an array would take more (None:
        more than 4096), crammer_singer keeps them sparse, whatever that takes; other formulations are refused. See
        docs/many-classes.md.
    solver_options : dict or None
        Of sdm and accelerated_sdm. ``permutation`` (True): visit in random order. ``restricted_step`` (True): step only
        on the classes that matter to an example and store only non-zero duals; False steps on all, with dense duals.
        Of pegasos: ``projection`` (True): project W to the ball that holds the optimum; ``batch_size`` (1): examples a
        step.
    checkpoint : path or None
        A file for the state of the training. If it is there, :meth:`fit` goes on from it, to the result that it would
        have had without a stop; other data or parameters are refused. It is removed when there is nothing left to do.
        ``fit(store)`` has its duals beside it, in a folder whose name ends with ``.duals``. See docs/checkpoints.md.
    checkpoint_every : float
        Seconds between two states that are written.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (n_classes, n_features), or sparse array where the weights are (see ``memory_mb``)
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

    def _trained(self, request: Request | StoredRequest) -> tuple[Trained, bool]:
        trained, interrupted = super()._trained(request)
        if trained.dual_coef is not None:
            trained.dual_coef = trained.dual_coef.to_scipy()
        return trained, interrupted

    def _train(self, request: Request | StoredRequest) -> Trained:
        return super()._train(request) if isinstance(request, Request) else train_stored(request)

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
        with self._apart() as apart:
            apart._learn(X, y, classes, sample_weight)
        return self

    @tiny_is_zero
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
            self.classes_ = _announced(classes)
            if len(self.classes_) < 2:
                raise ValueError(f"LinearSVM needs at least 2 classes; got only one class, {self.classes_[0]}")
        elif classes is not None and not np.array_equal(self.classes_, _announced(classes)):
            raise ValueError(
                f"classes={classes!r} is not the same as on the last call to partial_fit: {self.classes_!r}"
            )
        encoded, unknown = encoded_by(self.classes_, y)
        if unknown.any():
            raise ValueError(f"y has labels that are not among classes: {np.unique(y[unknown])!r}")
        too_large = self._sparse_weights(X.shape[1] + bool(self.fit_intercept))
        if too_large or (not first and is_sparse(self.coef_)):
            raise ValueError(
                "partial_fit keeps the weights in an array, and does not go on from sparse ones: raise memory_mb, and "
                "begin anew, or use fit on all rows"
            )
        if first:
            self._fitted_formulation = self.formulation
            self._hold(padded_weights(X.shape[1] + bool(self.fit_intercept), self._n_lanes()))
        weight = self._weights_of_rows(X, sample_weight)
        W = self._whole_weights()
        visit_once(self._request(X, encoded, self._caps(encoded, weight), weight, many_passes=False), W)
        self._hold(W)
        self.n_iter_ = 1
        for certified in CERTIFIED:  # by an earlier fit, of weights that are no more
            self.__dict__.pop(certified, None)

    # A store of blocks on disk

    def _requested(self, X, y, sample_weight):
        if not isinstance(X, BlockStore):
            return super()._requested(X, y, sample_weight)
        self._check()
        check_stored(self, X, y, sample_weight)
        self.classes_, self.n_features_in_ = X.classes, X.n_features
        self.__dict__.pop("feature_names_in_", None)
        solver = self.solver
        if solver == "auto":
            solver = streamed_solver(X.n_features + 1, self._n_lanes())
        request = StoredRequest(
            stored=StoredProblem(X, self._constant_feature(), self._caps_of_classes(X)),
            n_classes=len(X.classes),
            formulation=self.formulation,
            loss=self.loss,
            solver=solver,
            settings=self._settings(solver),
            limits=Limits(self.max_iter, self.time_limit),
            seed=self._seed(),
            memory_mb=self._memory_mb(),
        )
        if self.checkpoint is not None:
            of = identity_of_stored(self, X, request)
            request.checkpoint = self._checkpoint_of(of)
        return request, X, None, None

    def _caps_of_classes(self, store: BlockStore) -> np.ndarray:
        k = len(store.classes)
        return self._caps(np.arange(k), np.ones(k), counts=store.class_weights)

    def decision_function(self, X):
        of_rows = super(LinearSVM, self._as_it_is()).decision_function  # one model for all blocks
        return of_blocks(X, lambda rows: (of_rows(rows),))[0] if isinstance(X, BlockStore) else of_rows(X)

    def predict(self, X):
        of_rows = super(LinearSVM, self._as_it_is()).predict
        return of_blocks(X, lambda rows: (of_rows(rows),))[0] if isinstance(X, BlockStore) else of_rows(X)

    def _best_classes(self, X, n: int) -> tuple[np.ndarray, np.ndarray]:
        if not isinstance(X, BlockStore):
            return super()._best_classes(X, n)
        of_rows = super()._best_classes
        numbers, scores = of_blocks(X, lambda rows: of_rows(rows, n))
        return numbers, scores

    def score(self, X, y=None, sample_weight=None):
        """Accuracy on X and y, or on a store, which has labels of its own; weights are those given here, or none."""
        if not isinstance(X, BlockStore):
            return super().score(X, y, sample_weight)
        check_is_fitted(self)
        if y is not None or sample_weight is not None:
            raise ValueError("the labels of a store are in it: score(store) takes no y and no sample_weight")
        model = self._as_it_is()
        check_comparable(model.classes_, X.classes)
        return sum(int((model.predict(block.X) == block.y).sum()) for block in X) / X.n_rows

    def __getstate__(self):
        state = super().__getstate__().copy()
        state.pop("_W", None)
        state.pop("_coef_of_W", None)
        if "coef_" in state and not is_sparse(state["coef_"]):
            state["coef_"] = np.ascontiguousarray(state["coef_"])
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        if "coef_" in state and not is_sparse(state["coef_"]):
            intercept = self.intercept_
            self._hold(self._whole_weights())
            self.intercept_ = intercept


def _announced(classes: Any) -> np.ndarray:
    """The classes of partial_fit, sorted."""
    given = np.asarray(plain_labels(classes))
    if given.ndim != 1 or not len(given) or any(map(is_missing, given.tolist())):
        raise ValueError(f"classes must be a list of labels, none of them None or NaN, got {classes!r}")
    check_labels(given, "classes")
    return np.unique(given)
