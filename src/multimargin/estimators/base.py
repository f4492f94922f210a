"""What the classifiers of scikit-learn's kind share: rows are validated, callbacks asked, warnings given."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from multimargin.data.blocks import BlockStore
from multimargin.data.kinds import check_kind
from multimargin.data.labels import check_labels, plain_labels
from multimargin.data.rows import check_masks, check_sparse, with_plain_parts
from multimargin.estimators.bad_rows import check_path, explained
from multimargin.estimators.calibration import log_probabilities, probabilities
from multimargin.estimators.callbacks import CallbackSupport, observed, with_callbacks
from multimargin.estimators.identity import identity
from multimargin.estimators.margins import Margins
from multimargin.estimators.out_of_fold import calibrated
from multimargin.estimators.parameters import check_decisions, check_number
from multimargin.linear.checkpoint import Checkpoint
from multimargin.linear.interrupts import deferred_interrupt, interruptible
from multimargin.problems.formulations import JOINT
from multimargin.problems.range import tiny_is_zero

NO_LABELS: Any = object()  # in the place of y, where rows alone are asked for
_TOP = 5  # classes of a row that are told unless it is said how many


def _of_callbacks(name: str) -> bool:
    return "callback" in name and name.startswith("_")


def _has_probabilities(model: Any) -> bool:
    if not model.probability:
        raise AttributeError("predict_proba and predict_log_proba are there with probability=True only")
    return True


class MarginClassifier(Margins, CallbackSupport, ClassifierMixin, BaseEstimator):
    """Base of the support vector machines."""

    # Training

    @with_callbacks
    def fit(self, X, y=None, sample_weight=None):
        """Train.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features)
            float32 and float64, dense or CSR, are read in place; anything else is converted. LinearSVM also takes a
            store of blocks on disk (:func:`multimargin.data.blocks.open_blocks`), which has labels and weights of its
            own: ``fit(store)``.
        y : array of shape (n_samples,)
            Class labels.
        sample_weight : array of shape (n_samples,) or None
            Weights of rows; a weight of 2 is the row twice.

        Returns
        -------
        self
        """
        return self._fit(lambda apart: apart._requested(X, y, sample_weight))

    def _fit(self, requested: Callable[[Any], tuple[Any, Any, Any, Any]]):
        """Train what is requested; if that is refused or fails, everything is as before."""
        started = time.perf_counter()
        with deferred_interrupt(), self._apart() as apart:  # what was trained is stored first
            with interruptible():
                request, X, y, sample_weight = requested(apart)
            with observed(self, apart, X, y, sample_weight, request) as request.observers:
                trained, interrupted = apart._trained(request)
            apart._store(trained, request)
            if apart.probability and not interrupted:
                interrupted = apart._calibrate(request, trained, started)
        if interrupted:
            raise KeyboardInterrupt
        if request.checkpoint is not None:
            if trained.outcome.stopped_by in self._over_when:
                request.checkpoint.remove()  # there is nothing left to do
            request.checkpoint.complain()
        why_not = apart._why_not_converged(trained.outcome)
        if why_not:
            warnings.warn(why_not, ConvergenceWarning, stacklevel=4)
        return self

    def _requested(self, X, y, sample_weight) -> tuple[Any, Any, Any, Any]:
        """What is asked for; rows, labels and weights as callbacks are told them."""
        self._check()
        X, y = self._validated(X, y, reset=True)
        integers = y.dtype.kind in "iub"
        if not integers:
            check_classification_targets(y)
        previous_classes = getattr(self, "classes_", None)
        self.classes_, encoded = self._encoded(y)
        if integers and 2 * len(self.classes_) > len(y):
            check_classification_targets(y)  # which takes long: integers are classes, but it warns of so many
        weight = self._weights_of_rows(X, sample_weight)
        cap = self._caps(encoded, weight)
        request = self._request(X, encoded, cap, weight)
        if self.warm_start and previous_classes is not None and np.array_equal(previous_classes, self.classes_):
            request.start_duals = self._scaled_duals(cap, encoded)
        if self.checkpoint is not None:
            of = identity(self, X, encoded, weight, request)
            request.checkpoint = self._checkpoint_of(of)
        return request, X, y, sample_weight

    _over_when: tuple[str, ...] = ("converged", "precision")  # after other stops the same fit may go on

    def _checkpoint_of(self, identity: dict[str, str]) -> Checkpoint:
        """The file of a fit."""
        return Checkpoint(self.checkpoint, self.checkpoint_every, identity)

    def _calibrate(self, request, trained, started: float) -> bool:
        """Fit the probabilities; whether an interrupt left the model without them."""
        left = None if self.time_limit is None else self.time_limit - (time.perf_counter() - started)
        try:
            with interruptible():
                self.calibration_ = calibrated(self, request, trained, left)
        except KeyboardInterrupt:
            return True
        return False

    @contextmanager
    def _apart(self) -> Iterator[Any]:
        """A copy to train, with the parameters of now. In the end this model becomes it, at once, unless that fails.

        Until then this one is as it was for whoever looks: callbacks, other threads, or fit itself, called again.
        """
        found = self.__dict__
        before = {name: value for name, value in dict(found).items() if not _of_callbacks(name)}
        apart = object.__new__(type(self))
        apart.__dict__ = dict(before)
        yield apart
        learnt, now = apart.__dict__, dict(self.__dict__)
        if self.__dict__ is found:  # what the fit has changed; what callbacks have changed meanwhile stays
            gone = before.keys() - learnt.keys()
            learnt = {name: value for name, value in learnt.items() if value is not before.get(name, before)}
        else:  # another fit has ended meanwhile: nothing of it stays
            gone = {name for name in now if name[0] == "_" or name[-1] == "_"}
        parameters = set(self._get_param_names())
        kept = {name: value for name, value in now.items() if name in parameters or _of_callbacks(name)}
        self.__dict__ = {name: value for name, value in now.items() if name not in gone} | learnt | kept

    def _validated(self, X, y=NO_LABELS, *, reset, accept_sparse: str | bool = "csr"):
        if isinstance(X, BlockStore):
            raise TypeError(
                f"{type(self).__name__} does not take a store of blocks here, only arrays and sparse matrices; "
                "LinearSVM takes one in fit, decision_function, predict, top_classes and score"
            )
        if not reset:
            self._check_as_fitted()
            check_decisions(self)
        check_path(X)
        check_kind(X, "X")
        check_masks(X, "X")
        if sp.issparse(X):
            check_sparse(X)
            X = with_plain_parts(X)
        if isinstance(y, str):
            raise ValueError(f"y must be labels, one a row, not a text, got {y!r}")
        if y is NO_LABELS:
            y = "no_validation"  # as scikit-learn calls it
        else:
            check_masks(y, "y")
            y = plain_labels(y)
            if isinstance(y, np.ndarray) and y.ndim == 1:
                check_labels(y)  # of which scikit-learn asks what pandas' NA has no answer to
        options: dict[str, Any] = dict(
            accept_sparse=accept_sparse, dtype=[np.float64, np.float32], order="C", reset=reset
        )
        try:
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # sums over X: is it finite?
                validated = validate_data(self, X, y, **options)
        except (ValueError, OverflowError) as error:
            raise explained(error, X, y) from None
        if isinstance(validated, tuple):
            check_labels(validated[1])
        return validated

    def _weights_of_rows(self, X, sample_weight) -> np.ndarray:
        check_kind(sample_weight, "sample_weight")
        check_masks(sample_weight, "sample_weight")
        try:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        except (TypeError, ValueError) as error:
            if "sample" in str(error).lower():
                raise
            raise ValueError(f"sample_weight must be a number, or numbers, one a row: {error}") from None
        if np.any(weight < 0):
            raise ValueError("sample_weight must not be negative")
        if not np.any(weight > 0):
            raise ValueError("sample_weight must be positive somewhere: all weights are zero")
        return weight

    @tiny_is_zero
    def _scaled_duals(self, cap, encoded):
        """The last fit's duals, if they are duals of this problem, made smaller where their caps are now smaller.

        They do not grow with their caps: weights change far less than C does.
        """
        duals = getattr(self, "dual_coef_", None)
        if duals is None or self._dual_problem != (self.formulation, self.loss, duals.shape):
            return None
        if duals.shape != (len(cap), self._n_lanes()) or not np.array_equal(self._dual_labels, encoded):
            return None
        smaller = np.minimum(cap, self._dual_caps)  # before they are divided, which could overflow
        factor = np.divide(smaller, self._dual_caps, out=np.zeros_like(cap), where=self._dual_caps > 0)
        return self._feasible(sp.csr_array(duals.multiply(factor[:, None])))

    def _feasible(self, duals: sp.csr_array) -> sp.csr_array:
        """Duals within their caps, as the solver takes them to start from."""
        return duals

    # Prediction

    def decision_function(self, X):
        """Confidence of every class.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            Scores of the classes. one_vs_one: votes, plus the summed decisions squeezed below half a vote; dag: the
            round in which a class was ruled out. With ``decision_function_shape="ovo"``: the decision of every
            pair. The arg max is what :meth:`predict` says.
        """
        return self._values(X, by_class=self.decision_function_shape != "ovo")

    def predict(self, X):
        """Class labels."""
        model = self._as_it_is()
        check_is_fitted(model)
        return model._predicted(model._validated(X, reset=False))

    def score(self, X, y, sample_weight=None):
        """Accuracy on X and y."""
        return super().score(X, plain_labels(y), sample_weight)

    def top_classes(self, X, n=None):
        """The best few classes of every row, exactly, without the scores of all rows and classes at once.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features), or a store of blocks
            The latter in :class:`~multimargin.LinearSVM`, block by block.
        n : int or None
            How many classes, at most as many as there are. None is 5, or all if there are fewer.

        Returns
        -------
        labels : ndarray of shape (n_samples, n)
            The best first, which is what :meth:`predict` says; of equal ones the first in ``classes_``.
        scores : ndarray of shape (n_samples, n)
            Their values in :meth:`decision_function` (for two classes: that, and minus that).
        """
        model = self._as_it_is()
        check_is_fitted(model)
        if n is None:
            n = min(_TOP, len(model.classes_))
        check_number("n", n, at_least=1, at_most=len(model.classes_), integer=True)
        numbers, scores = model._best_classes(X, int(n))
        return model.classes_[numbers], scores

    def _best_classes(self, X, n: int) -> tuple[np.ndarray, np.ndarray]:
        return self._top(self._validated(X, reset=False), n)

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Probabilities of the classes; there with ``probability=True``.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns as in ``classes_``. The arg max is what :meth:`predict` says, always.
        """
        return probabilities(*self._as_it_is()._to_calibrate(X))

    @available_if(_has_probabilities)
    def predict_log_proba(self, X):
        """Logarithms of the probabilities, finite also where those are too small for a float64.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return log_probabilities(*self._as_it_is()._to_calibrate(X))

    def _to_calibrate(self, X) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        if not hasattr(self, "calibration_"):
            raise NotFittedError(
                f"this {type(self).__name__} has no probabilities: it was fitted with probability=False, or its fit "
                "was interrupted before they were ready; fit it again"
            )
        return self._graded(self._validated(X, reset=False)), self.calibration_

    def _values(self, X, by_class: bool) -> np.ndarray:
        model = self._as_it_is()
        check_is_fitted(model)
        return model._of_rows(model._validated(X, reset=False), model._class_values if by_class else None)

    # Duals

    @tiny_is_zero
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
        model = self._as_it_is()
        check_is_fitted(model)
        formulation, loss, _ = vars(model).get("_dual_problem", (model.formulation, model.loss, ()))
        if formulation not in JOINT or loss != "hinge":
            raise ValueError(
                "label_doubt needs formulation='crammer_singer' or 'weston_watkins' and loss='hinge', "
                f"not {formulation!r} with {loss!r}"
            )
        if not hasattr(model, "dual_coef_"):
            raise NotFittedError(
                "label_doubt needs the duals of a model trained by fit on arrays: neither partial_fit nor a fit on a "
                "store of blocks keeps them"
            )
        duals = model.dual_coef_.tocoo()
        row, lane, value = duals.coords[0], duals.coords[1], duals.data
        if len(model.classes_) == 2:  # one signed dual: positive rows doubt towards class 0
            lane, share = np.where(value > 0, 0, 1), np.abs(value) / (2 * model._dual_caps[row])
        else:
            other = value < 0
            row, lane, share = row[other], lane[other], -value[other] / model._dual_caps[row[other]]
        total = np.bincount(row, weights=share, minlength=duals.shape[0])
        share = share / np.maximum(total, 1.0)[row]
        return sp.csr_array((share, (row, lane)), shape=(duals.shape[0], len(model.classes_)))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
