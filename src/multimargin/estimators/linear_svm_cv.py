"""LinearSVMCV: a LinearSVM whose C is chosen by cross-validation along a path."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from numbers import Integral
from threading import Event
from typing import Any

import joblib
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.metadata_routing import (
    UNUSED,
    MetadataRouter,
    MethodMapping,
    _raise_for_params,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_method_params

from multimargin.data.rows import check_masks
from multimargin.estimators.callbacks import check_callbacks, with_callbacks
from multimargin.estimators.identity import identity_of_search
from multimargin.estimators.kept_search import KeptSearch, Search, refit_file
from multimargin.estimators.linear_svm import LinearSVM
from multimargin.estimators.names import knows_other_names
from multimargin.estimators.parameters import SMALLEST_C, check_number, n_threads
from multimargin.estimators.progress import SearchProgress
from multimargin.estimators.splits import checked_folds, checked_score, naming_fold, weights_of_part
from multimargin.estimators.threads import in_threads
from multimargin.linear.checkpoint import Checkpoint, StateFile

_FIRST_C, _LAST_C = 1e-3, 1e3  # of the default grid


class LinearSVMCV(LinearSVM):
    """:class:`LinearSVM` with ``C`` chosen by cross-validation.

    For every fold the values of C are taken in ascending order, each fit starting from the duals of the last one; folds
    run in parallel. Every fit is certified to ``tol`` as any other. Then a model is trained on all rows with the C of
    the best mean score (the smallest, if there are several).

    Ctrl-C in the search leaves ``Cs_`` and ``scores_``, NaN where there was no fit yet, and no model; one that was
    fitted before stays as it was.

    Parameters
    ----------
    Cs : int or array
        Values of C to try. An integer is that many from 1e-3 to 1e3, evenly spaced in their logarithms.
    cv : int, splitter or iterable
        Folds, as in scikit-learn: an integer is that many stratified folds, not shuffled.
    scoring : str, callable or None
        What is to be large, as in scikit-learn; None is accuracy.
    formulation, loss, solver, tol, stopping, max_iter, time_limit, fit_intercept, intercept_scaling, class_weight, \
shrinking, cooling, probability, n_jobs, random_state, verbose, callbacks, decision_function_shape, break_ties, \
solver_options, checkpoint_every
        As in :class:`LinearSVM`. ``max_iter`` and ``time_limit`` are those of every single fit, ``callbacks`` and
        ``probability`` are for the last one, on all rows. ``verbose`` also shows a line a fit of the search. ``n_jobs``
        threads train the folds, then the model.
    checkpoint : path or None
        A file for the state of the search. If it is there, :meth:`fit` goes on from it: finished fits are not repeated,
        and those under way, as well as the last one, have files of their own, whose names begin with this one. Limits
        may not change meanwhile. See docs/checkpoints.md.

    Attributes
    ----------
    C_ : float
        The best C.
    Cs_ : ndarray of shape (n_Cs,)
        Values that were tried, in ascending order.
    scores_ : ndarray of shape (n_folds, n_Cs)
        Of the rows held out.
    gaps_ : ndarray of shape (n_folds, n_Cs)
        The certified relative duality gap (the worst of the machines) of every fit.
    epochs_ : ndarray of shape (n_folds, n_Cs)
        Epochs that every fit took from where the last one had ended.
    best_score_ : float
        Mean score of ``C_`` over the folds.
    and all those of :class:`LinearSVM`, of the model trained on all rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from multimargin import LinearSVMCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearSVMCV(Cs=[0.01, 0.1, 1.0], cv=5).fit(X, y)
    >>> model.C_ in model.Cs_, model.scores_.shape, bool(model.best_score_ > 0.95)
    (True, (5, 3), True)
    """

    warm_start = False
    __metadata_request__fit = {"groups": UNUSED}  # by the model: they are the splitter's

    @knows_other_names
    def __init__(
        self,
        Cs=10,
        cv=5,
        *,
        scoring=None,
        formulation="crammer_singer",
        loss="hinge",
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
        n_jobs=None,
        random_state=None,
        verbose=0,
        callbacks=None,
        decision_function_shape="ovr",
        break_ties=False,
        solver_options=None,
        checkpoint=None,
        checkpoint_every=600,
    ):
        self.Cs = Cs
        self.cv = cv
        self.scoring = scoring
        self.formulation = formulation
        self.loss = loss
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
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.solver_options = solver_options
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every

    @property
    def C(self) -> float:
        """The C of the model that is trained on all rows."""
        return self.C_

    @property
    def partial_fit(self):
        """Not here: to choose C, all rows must be there."""
        raise AttributeError("LinearSVMCV has no partial_fit: choose C on the rows at hand, then use LinearSVM")

    def __sklearn_is_fitted__(self) -> bool:
        """What an interrupted search leaves is no model."""
        return "coef_" in vars(self)

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None, groups=None, **params):
        """Choose C, and train with it on all rows.

        Parameters
        ----------
        X, y, sample_weight
            As in :class:`LinearSVM`. Weights count in training and, where ``scoring`` takes them, in the scores.
        groups : array of shape (n_samples,) or None
            For splitters that keep groups together.
        **params
            With scikit-learn's metadata routing: what else ``scoring`` and ``cv`` request. Weights then count in the
            scores if ``scoring`` requests them by ``set_score_request``.

        Returns
        -------
        self
        """
        _raise_for_params(params, self, "fit")
        lost: list[KeptSearch] = []
        self._fit(lambda apart: apart._with_best_C(X, y, sample_weight, groups, params, lost))
        for search in lost:
            search.complain()
        return self

    @contextmanager
    def _apart(self) -> Iterator[Any]:
        """As in the base. Where there is no model, what an interrupted search has found stays."""
        apart = None
        try:
            with super()._apart() as apart:
                yield apart
        except KeyboardInterrupt:
            if apart is not None and not self.__sklearn_is_fitted__():
                found = vars(apart)
                self.__dict__.update({name: found[name] for name in ("Cs_", "scores_") if name in found})
            raise

    def get_metadata_routing(self):
        """What :meth:`fit` hands on, for scikit-learn's metadata routing: to ``scoring`` and to ``cv``.

        Returns
        -------
        MetadataRouter
        """
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
            .add(scorer=self._scorer(), method_mapping=MethodMapping().add(caller="fit", callee="score"))
        )

    def _scorer(self) -> Any:
        if not (self.scoring is None or isinstance(self.scoring, str) or callable(self.scoring)):
            raise ValueError(f"scoring must be one score, by name or as a callable, got {self.scoring!r}")
        return check_scoring(self, scoring="accuracy" if self.scoring is None else self.scoring)

    def _handed_on(self, scorer: Any, sample_weight: Any, groups: Any, params: dict) -> tuple[dict, dict]:
        """What the splitter is given, and what the scorer is, of all rows."""
        if not _routing_enabled():
            weighs = sample_weight is not None and _accepts_weights(scorer)
            return {"groups": groups}, {"sample_weight": sample_weight} if weighs else {}
        if groups is not None:
            params = params | {"groups": groups}
        routed = process_routing(self, "fit", sample_weight=sample_weight, **params)
        return dict(routed.splitter.split), dict(routed.scorer.score)

    def _with_best_C(self, X, y, sample_weight, groups, params, lost: list[KeptSearch]) -> tuple[Any, Any, Any, Any]:
        """What is requested, with the C that is best. To ``lost`` comes a search whose folder has gone away."""
        values = self._grid()
        check_callbacks(self.callbacks)
        of_fold = {name: value for name, value in self.get_params(deep=False).items() if name not in OWN}
        of_all = LinearSVM(**of_fold)
        of_all._check()
        scorer = self._scorer()
        if getattr(scorer, "_response_method", None) == "predict_proba":
            raise ValueError(f"scoring={self.scoring!r} needs probabilities, which machines of folds do not have")
        rows, labels = self._validated(X, y, reset=True)
        check_classification_targets(labels)
        if isinstance(self.class_weight, Mapping):  # a fold may lack classes, but what none has is a mistake
            of_all.classes_ = np.unique(labels)
            of_all._class_weights(np.ones(len(of_all.classes_)))
        weights = None if sample_weight is None else self._weights_of_rows(rows, sample_weight)
        of_splitter, of_scorer = self._handed_on(scorer, weights, groups, params)
        folds = list(check_cv(self.cv, labels, classifier=True).split(rows, labels, **of_splitter))
        folds = checked_folds(self.cv, folds, len(labels), weights)
        threads = n_threads(self.n_jobs)
        of_fold |= {"n_jobs": max(1, threads // len(folds)), "verbose": 0, "probability": False}
        stop, search = Event(), self._search(rows, labels, sample_weight, folds, values, of_scorer)
        self.Cs_, self.scores_ = values, search.told[:, 0]  # which the fits fill
        progress = SearchProgress(search.told, values, bool(self.verbose))

        def unless_stopped(record: Any) -> None:
            if stop.is_set():
                raise KeyboardInterrupt  # which, unlike a stop, leaves the fit as it is, to go on with

        def path(fold: int) -> None:
            train, test = folds[fold]
            weight = None if weights is None else weights[train]
            of_classes = weights_of_part(self.class_weight, labels[train])
            handed_on = _check_method_params(rows, of_scorer, indices=test)
            learnt, held_out = ((rows[part], labels[part]) for part in (train, test))
            own = {"warm_start": True, "callbacks": [unless_stopped], "class_weight": of_classes}
            model = LinearSVM(**of_fold | own)
            for number in range(search.begin(fold, model, values, *learnt, weight), len(values)):
                model.set_params(C=values[number], checkpoint=search.fit_file(fold, number))
                with naming_fold(fold, values[number]):
                    model.fit(*learnt, weight)
                    score = checked_score(scorer(model, *held_out, **handed_on), self.scoring)
                search.finish(fold, number, model, (score, model.worst_gap_, model.n_iter_))
                progress.finished(fold, number)

        with warnings.catch_warnings(), progress:
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                in_threads(path, list(range(len(folds))), threads, stop)
            finally:
                search.save()
        self._choose(values, search.told, search.converged)
        if isinstance(search, KeptSearch) and not search.has_folder():
            lost.append(search)
            self.checkpoint = None  # of this copy, for the last fit
        request, *given = self._requested(X, y, sample_weight)
        if request.checkpoint is not None:
            request.checkpoint.beside = search  # it is over when the last fit is
        return request, *given

    def _search(self, rows, labels, sample_weight, folds, values, of_scorer) -> Search:
        """The search, from where its checkpoint has it."""
        if self.checkpoint is None:
            return Search(len(folds), len(values))
        if not (self.random_state is None or isinstance(self.random_state, Integral)):
            raise ValueError(
                f"checkpoint needs fits that can come again: random_state must be an integer or None, not "
                f"{self.random_state!r}"
            )
        of = identity_of_search(self, rows, labels, self._weights_of_rows(rows, sample_weight), folds, values)
        if _routing_enabled():
            of["metadata of scoring"] = f"{sorted(of_scorer)} #{joblib.hash(of_scorer)}"
        return KeptSearch(len(folds), len(values), StateFile(self.checkpoint, self.checkpoint_every, of))

    # Other limits are of another search, as they have a say in the scores.
    _over_when = ("converged", "precision", "max_iter", "time_limit")

    def _checkpoint_of(self, identity: dict[str, str]) -> Checkpoint:
        """That of the last fit, beside that of the search."""
        return Checkpoint(refit_file(self.checkpoint), self.checkpoint_every, identity)

    def _choose(self, values: np.ndarray, results: np.ndarray, converged: np.ndarray) -> None:
        """The best C, by score, gap and epochs of every fold (first axis) and C (last), and whether it converged."""
        self.Cs_ = values
        self.scores_, self.gaps_ = results[:, 0], results[:, 1]
        self.epochs_ = results[:, 2].astype(np.int64)
        with np.errstate(over="ignore", invalid="ignore"):
            means = self.scores_.mean(axis=0)
        unknown = ~np.isfinite(means)
        if unknown.all():
            raise ValueError(f"scoring={self.scoring!r} gives NaN or infinity for every C: there is none to choose")
        if unknown.any():
            which = values[unknown].tolist()
            warnings.warn(f"scores of C = {which} are NaN or infinite: others are chosen from", stacklevel=7)
        best = int(np.where(unknown, -np.inf, means).argmax())
        self.C_, self.best_score_ = float(values[best]), float(means[best])
        if self.stopping == "gap":  # also of a checkpoint that does not say which converged
            converged = converged & (self.gaps_ <= self.tol)
        short = int((~converged).sum())
        if short:
            warnings.warn(
                f"{short} of the {self.gaps_.size} fits of LinearSVMCV did not reach tol={self.tol:g} (gaps_ has their "
                f"gaps, the largest is {self.gaps_.max():.2g}): raise max_iter or time_limit, leave out the largest of "
                "Cs, or scale the features",
                ConvergenceWarning,
                stacklevel=7,
            )

    def _grid(self) -> np.ndarray:
        if isinstance(self.Cs, Integral):
            check_number("Cs", self.Cs, at_least=1, integer=True)
            return np.geomspace(_FIRST_C, _LAST_C, int(self.Cs))
        check_masks(self.Cs, "Cs")
        values = np.asarray(self.Cs, dtype=object).ravel()
        if not len(values):
            raise ValueError(f"Cs must be an integer or an array of numbers, got {self.Cs!r}")
        for value in values:
            check_number("each of Cs", value, at_least=SMALLEST_C)
        return np.unique(values.astype(np.float64))


# Parameters that a fit of one C does not have.
OWN = ("Cs", "cv", "scoring", "callbacks")


def _accepts_weights(scorer: Any) -> bool:
    asked = getattr(scorer, "_accept_sample_weight", None)  # of scikit-learn's scorers
    return asked() if asked else "sample_weight" in signature(scorer).parameters
