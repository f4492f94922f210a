"""KernelSVM: multi-class support vector machines with kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from multimargin.data.rows import canonical
from multimargin.estimators.base import NO_LABELS, MarginClassifier
from multimargin.estimators.names import knows_other_names
from multimargin.estimators.parameters import THRESHOLD_FACTOR, check_kernel, n_threads
from multimargin.kernel.functions import USE_GAMMA, Kernel, resolve_gamma
from multimargin.kernel.prediction import decisions
from multimargin.kernel.training import KERNEL_HISTORY, KernelRequest, KernelTrained, train
from multimargin.linear.outcome import Limits
from multimargin.problems.formulations import JOINT
from multimargin.problems.range import tiny_is_zero

_ASYMMETRY = 1e-4  # of a precomputed kernel, relative to its largest value: float32 matrices have some
_SLAB_ROWS = 256


class KernelSVM(MarginClassifier):
    """Multi-class support vector machine with a kernel, trained exactly and certified.

    Minimises ``1/2 sum_m ||w_m||^2 + sum_i C_i loss_i`` over weights in the feature space of the kernel, with
    ``C_i = C * sample_weight_i * class_weight[y_i]``, and stops when the relative duality gap, a proof of optimality,
    is at most ``tol``.

    Parameters
    ----------
    formulation : {"crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag"}
        How classes are told apart.

        - crammer_singer: ``loss_i = max_m (s_im + [m != y_i]) - s_iy``
        - weston_watkins: ``loss_i = sum_{m != y_i} max(0, 1 - s_iy + s_im)``
        - one_vs_rest: one binary machine a class
        - one_vs_one: one binary machine a pair of classes; the class that wins most pairs, ties to the smaller
        - dag: the same machines, asked as a decision graph
    kernel : {"rbf", "linear", "poly", "sigmoid", "precomputed"} or callable
        - rbf: ``exp(-gamma ||x - y||^2)``
        - linear: ``x . y``
        - poly: ``(gamma x . y + coef0) ** degree``
        - sigmoid: ``tanh(gamma x . y + coef0)``
        - precomputed: X holds kernel values: of the training rows with each other in :meth:`fit`, of the rows to
          predict with all training rows later
        - a callable gives ``kernel(X, Y)``, an array of shape (rows of X, rows of Y)
    C : float
        Weight of the loss against the regulariser.
    gamma : float, "scale" or "auto"
        "scale" is ``1 / (n_features * X.var())`` (rows count by their sample_weight), "auto" is ``1 / n_features``. For
        rbf, poly and sigmoid.
    degree : int
        For poly.
    coef0 : float
        For poly and sigmoid.
    loss : {"hinge"}
        The squared hinge is refused: :class:`LinearSVM` has it.
    solver : {"block", "decomposition"}
        "block" solves working sets of examples, all of whose kernel values come from one matrix product.
        "decomposition" is the papers': one example at a time (crammer_singer), a few variables at a time
        (weston_watkins), two variables at a time (the others).
    selection : {"kkt", "cyclic", "random", "amg", "bmg"}
        Decomposition of crammer_singer: which example is next: by violation, in order, at random, by the approximate
        or by the true gain of its step.
    threshold : {"mean", "max", "exponential", "linear", "logarithmic"}
        Decomposition of crammer_singer: what an example must exceed to be selected. "mean" and "max" are of the values
        by which examples are selected, the others cool down with the number of rounds.
    step : {"exact", "fixed_point", "smo", "basic_smo"}
        Decomposition of crammer_singer: how the duals of an example are moved.
    cache_mb : float
        Memory for rows of the kernel matrix, in units of 2**20 bytes.
    working_set : int or None
        At most so many examples in a working set (block), or variables (decomposition of weston_watkins). None is a
        good number.
    threshold_factor : float
        With ``threshold="max"``, this much of the largest value.
    tol : float
        Target for the relative duality gap or, with ``stopping="violation"``, for the violation of optimality.
    stopping : {"gap", "violation"}
        "violation" is the papers' criterion, in units of the margin.
    max_iter : int
        Most epochs. An epoch is as many visits of examples as there are rows.
    time_limit : float or None
        Most seconds to train; the last model is certified and kept.
    fit_intercept : bool
        Learn an intercept. For crammer_singer and weston_watkins it is regularised: ``intercept_scaling ** 2`` is added
        to every kernel value. For one_vs_rest, one_vs_one and dag it is free, as in LIBSVM.
    intercept_scaling : float
        Larger values regularise the intercept less. For crammer_singer and weston_watkins.
    class_weight : dict, "balanced" or None
        Weights of classes: factors of C for their rows, in every machine that learns from them, as a sample_weight is
        (and as in LIBSVM, which has one-vs-one only). "balanced" gives every class the same total weight; rows count
        by their sample_weight, which SVC leaves out there.
    shrinking, cooling : bool
        Heuristics: leave out examples at rest (paper 003's active set); begin with a loose tolerance.
    probability : bool
        Fit probabilities, too, for :meth:`predict_proba`: five more fits, each on four fifths of the rows and from
        where this one ended, score the rows left out, and ``calibration_`` is fitted to those scores.
    warm_start : bool
        Start from the duals of the last fit when it had the same labels and formulation.
    n_jobs : int or None
        Threads. None is 1, -1 all. They share the machines of one_vs_rest, one_vs_one and dag with an intercept, the
        matrix products of the others, the folds of ``probability=True``, and the rows of predictions.
    random_state : int, RandomState or None
        Seed of random choices. None is 0: fits are reproducible.
    verbose : int
        1 shows progress on stderr.
    callbacks : list or None
        Called after every round: scikit-learn callbacks (1.9 and later), or callables that take a dict with the
        round's record and may return True to stop.
    decision_function_shape : {"ovr", "ovo"}
        For one_vs_one and dag: one column a class, or one a pair.
    break_ties : bool
        For one_vs_one: break ties of votes by confidence instead of by index.
    checkpoint : path or None
        A file for the state of the training. If it is there, :meth:`fit` goes on from it, to the result that it would
        have had without a stop; other data or parameters are refused. It is removed when there is nothing left to do.
        See docs/checkpoints.md.
    checkpoint_every : float
        Seconds between two states that are written.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    support_ : ndarray of shape (n_support,)
        Training rows with a non-zero dual in any machine.
    support_vectors_ : ndarray or sparse array of shape (n_support, n_features)
        Those rows, each once for all machines; empty for a precomputed kernel.
    n_support_ : ndarray of shape (n_classes,)
        How many of them each class has.
    dual_coef_ : sparse array of shape (n_samples, n_machines)
        Scores are ``K @ dual_coef_ + intercept_``. One column a class; for two classes one, positive for
        ``classes_[1]``; for one_vs_one and dag one a pair, positive for the first of it.
    intercept_ : ndarray of shape (n_machines,)
    coef_ : ndarray of shape (n_machines, n_features)
        Weights of the features, for the linear kernel only.
    gamma_ : float or None
        The number that ``gamma`` stands for; None for kernels without it.
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
        One record a round: machine, epoch (the number of the round), seconds, violation, active_rows, solver; primal,
        dual, gap where they were certified (else NaN); hits, misses and kernel_evaluations so far.
    shape_fit_ : tuple
        Shape of the X of training.
    calibration_ : ndarray of shape (3,)
        With ``probability=True``: what turns scores into probabilities, see docs/probabilities.md.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multimargin import KernelSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelSVM(C=10.0).fit(X, y)
    >>> model.converged_, bool(model.dual_gap_ <= 1e-3)
    (True, True)
    >>> float(model.score(X, y)) > 0.95
    True
    """

    _history_fields = KERNEL_HISTORY.names

    @knows_other_names
    def __init__(
        self,
        formulation="crammer_singer",
        kernel="rbf",
        C=1.0,
        *,
        gamma="scale",
        degree=3,
        coef0=0.0,
        loss="hinge",
        solver="block",
        selection="kkt",
        threshold="mean",
        step="exact",
        cache_mb=1024,
        working_set=None,
        threshold_factor=THRESHOLD_FACTOR,
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
        checkpoint=None,
        checkpoint_every=600,
    ):
        self.formulation = formulation
        self.kernel = kernel
        self.C = C
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.solver = solver
        self.selection = selection
        self.threshold = threshold
        self.step = step
        self.cache_mb = cache_mb
        self.working_set = working_set
        self.threshold_factor = threshold_factor
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
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    @property
    @tiny_is_zero
    def coef_(self):
        """Weights of the features, for the linear kernel."""
        if "_kernel" not in self.__dict__ or self._kernel.name != "linear":
            raise AttributeError("coef_ is there after a fit with kernel='linear' only")
        return np.asarray((self.support_vectors_.T @ self.dual_coef_[self.support_].toarray()).T, dtype=np.float64)

    @property
    def partial_fit(self):
        """Refused: every row of a stream may become a support vector."""
        raise AttributeError(
            "KernelSVM has no partial_fit, as every row of a stream may become a support vector; LinearSVM has one"
        )

    # Training

    def _check(self) -> None:
        check_kernel(self)

    @tiny_is_zero
    def _validated(self, X, y=NO_LABELS, *, reset, accept_sparse="csr"):
        if (self.kernel if reset else self._kernel.name) != "precomputed":
            validated = super()._validated(X, y, reset=reset)
            X, *labels = validated if reset else (validated,)
            X = canonical(X) if sp.issparse(X) else X
            return (X, *labels) if reset else X
        try:
            validated = super()._validated(X, y, reset=reset, accept_sparse=False)
        except ValueError as error:
            if "features, but" in str(error):
                error.add_note("kernel='precomputed' needs a column of kernel values for every row of training")
            raise
        if reset:
            _check_square(validated[0])
        return validated

    @tiny_is_zero
    def _request(self, X, encoded, cap, weight) -> KernelRequest:
        name = "callable" if callable(self.kernel) else self.kernel
        gamma = resolve_gamma(self.gamma, X, weight) if name in USE_GAMMA else 1.0
        joint = self.formulation in JOINT
        function = self.kernel if name == "callable" else None
        kernel = Kernel(name, gamma, int(self.degree), float(self.coef0), function)
        kernel.check_pairs(X)
        return KernelRequest(
            X=X,
            y=encoded,
            cap=cap,
            n_classes=len(self.classes_),
            formulation=self.formulation,
            kernel=kernel,
            bias=float(self.intercept_scaling) ** 2 if self.fit_intercept and joint else 0.0,
            free_bias=bool(self.fit_intercept) and not joint,
            solver=self.solver,
            selection=self.selection,
            threshold=self.threshold,
            step=self.step,
            threshold_factor=float(self.threshold_factor),
            working_set=None if self.working_set is None else int(self.working_set),
            cache_bytes=int(float(self.cache_mb) * 2**20),
            tol=float(self.tol),
            stopping=self.stopping,
            shrinking=bool(self.shrinking),
            cooling=bool(self.cooling),
            limits=Limits(self.max_iter, self.time_limit),
            n_threads=n_threads(self.n_jobs),
            seed=self._seed(),
            observers=[],
            start_duals=None,
        )

    def _feasible(self, duals: sp.csr_array) -> sp.csr_array:
        return duals if self.formulation in JOINT or not self.fit_intercept else _balanced(duals)

    def _refit_request(self, request: KernelRequest, *, tol: float, **changes: Any) -> KernelRequest:
        return replace(request, tol=tol, **changes)

    def _train(self, request: KernelRequest) -> KernelTrained:
        try:
            return train(request)
        except MemoryError as error:
            rows, features = request.X.shape
            columns = f" and {8e-6 * features:.3g} MB for the columns of a sparse X" if sp.issparse(request.X) else ""
            raise MemoryError(
                f"no memory left in training on {rows} rows of {features} features, beside cache_mb={self.cache_mb:g} "
                f"for kernel values{columns}; use fewer rows or features, or a smaller cache_mb"
            ) from error

    def _store_model(self, trained: KernelTrained, request: KernelRequest) -> None:
        for name, value in self._model(trained.dual_coef, trained.intercept, request).items():
            setattr(self, name, value)

    def _model(self, duals: sp.csr_array, intercept: np.ndarray, request: KernelRequest) -> dict[str, Any]:
        """Attributes of the model that duals and intercepts make."""
        kernel = request.kernel
        support = np.flatnonzero(np.diff(duals.indptr))
        return {
            "dual_coef_": duals,
            "intercept_": intercept,
            "support_": support,
            "support_vectors_": np.empty((0, 0)) if kernel.name == "precomputed" else request.X[support],
            "n_support_": np.bincount(request.y[support], minlength=request.n_classes),
            "gamma_": kernel.gamma if kernel.name in USE_GAMMA else None,
            "shape_fit_": request.X.shape,
            "_kernel": kernel,
        }

    def _current(self, machine, request) -> dict[str, Any] | None:
        """As in the base; a model of many machines has none before its end."""
        if machine.problem.lanes != self._n_lanes():
            return None
        learns = np.flatnonzero(request.cap > 0)
        of_examples = sp.coo_array(machine.core.duals())
        row, lane = of_examples.coords
        duals = sp.csr_array(
            (of_examples.data, (learns[row], lane)), shape=(len(request.y), machine.problem.lanes), dtype=np.float64
        )
        return self._model(duals, duals.sum(axis=0) * request.bias + machine.bias, request)

    # Prediction

    def _decisions(self, X, finish) -> np.ndarray:
        precomputed = self._kernel.name == "precomputed"
        return decisions(
            self._kernel,
            X,
            self.support_ if precomputed else self.support_vectors_,
            self.dual_coef_[self.support_],
            self.intercept_,
            n_threads(self.n_jobs),
            finish,
            None if finish is None else len(self.classes_),
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = not tags.input_tags.pairwise
        return tags


def _check_square(K: np.ndarray) -> None:
    """Refuse what cannot be the kernel values of rows with each other."""
    if K.shape[0] != K.shape[1]:
        raise ValueError(
            f"kernel='precomputed' needs a square X, the kernel values of all training rows with each other; "
            f"got {K.shape[0]} x {K.shape[1]}"
        )
    allowed = _ASYMMETRY * max(float(K.max()), -float(K.min()))
    for begin in range(0, len(K), _SLAB_ROWS):
        rows = slice(begin, begin + _SLAB_ROWS)
        apart = np.abs(K[rows, begin:] - K[begin:, rows].T)
        if apart.max() > allowed:
            i, j = np.unravel_index(apart.argmax(), apart.shape)
            i, j = int(i) + begin, int(j) + begin
            raise ValueError(
                f"kernel='precomputed' needs a symmetric X; X[{i}, {j}] = {K[i, j]:g}, but X[{j}, {i}] = {K[j, i]:g}"
            )


def _balanced(duals: sp.csr_array) -> sp.csr_array:
    """Duals scaled down until those of either sign have the same sum in every machine, as a free bias wants it."""
    up, down = (np.asarray(duals.multiply(sign * duals > 0).sum(axis=0)).ravel() * sign for sign in (1.0, -1.0))
    less = np.minimum(up, down)
    of_up = np.divide(less, up, out=np.zeros_like(up), where=up > 0)
    of_down = np.divide(less, down, out=np.zeros_like(down), where=down > 0)
    balanced = duals.copy()
    balanced.data *= np.where(duals.data > 0, of_up[duals.indices], of_down[duals.indices])
    balanced.eliminate_zeros()
    return balanced
