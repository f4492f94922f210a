"""What the machines share whoever checks their rows: caps, certificate, how decision values become classes.

A subclass says what its parameters may be (``_check``), what is to be trained (``_request``), how (``_train``), what
of it predicts (``_store_model``), and what its machines decide (``_decisions``). Nothing here needs scikit-learn, whose
import takes longer than many a training: see plain_linear.py for a machine without, base.py for those with it.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from multimargin.estimators.top_classes import best_in_slabs
from multimargin.linear.outcome import HISTORY
from multimargin.problems.formulations import PAIRWISE, n_lanes
from multimargin.problems.range import SMALLEST_C, SMALLEST_OBJECTIVE, tiny_is_zero
from multimargin.reductions.pairwise import rounds_of_elimination, rounds_with_confidence, votes_with_confidence

MOST_MACHINES = 5_000_000  # of pairs of classes: those of about 3,000 classes
# Attributes that only fit can set.
CERTIFIED = (
    "dual_coef_",
    "support_",
    "primal_objective_",
    "dual_objective_",
    "dual_gap_",
    "worst_gap_",
    "converged_",
    "history_",
    "calibration_",
    "_dual_caps",
    "_dual_labels",
    "_dual_problem",
)


class Margins:
    """A machine: parameters, and what was learnt."""

    @property
    def _name(self) -> str:
        """By which users know it."""
        return type(self).__name__

    _history_fields = HISTORY.names

    # Which formulation, loss and so on: the subclasses' parameters.
    formulation: Any
    loss: Any
    C: Any
    tol: Any
    stopping: Any
    max_iter: Any
    time_limit: Any
    class_weight: Any
    probability: Any
    warm_start: Any
    n_jobs: Any
    random_state: Any
    decision_function_shape: Any
    break_ties: Any
    verbose: Any
    checkpoint: Any
    checkpoint_every: Any

    classes_: np.ndarray

    def _as_it_is(self) -> Any:
        """This model as a fit has left it, also if another thread fits it meanwhile: that gives it other attributes."""
        now = object.__new__(type(self))
        now.__dict__ = vars(self)
        return now

    def _check(self) -> None:
        """Refuse wrong parameters."""
        raise NotImplementedError

    def _request(self, X, encoded: np.ndarray, cap: np.ndarray, weight: np.ndarray) -> Any:
        """Everything that a fit is about; it has ``limits``, ``observers`` and ``start_duals``."""
        raise NotImplementedError

    def _train(self, request) -> Any:
        """Train; an interrupt that carries a model as ``trained`` is raised again when that is stored."""
        raise NotImplementedError

    def _refit_request(self, request, *, tol: float, **changes: Any) -> Any:
        """The same request with another tolerance and other changes."""
        raise NotImplementedError

    def _store_model(self, trained, request) -> None:
        """Keep what predicts."""
        raise NotImplementedError

    def _decisions(self, X, finish: Callable[[np.ndarray], np.ndarray] | None) -> np.ndarray:
        """Values of all machines for the rows of X, or what ``finish`` makes of them: one column a class."""
        raise NotImplementedError

    def _current(self, machine, request) -> dict[str, Any] | None:
        """Attributes of a model as if training had stopped here, for callbacks that ask for it."""
        raise NotImplementedError

    def _encoded(self, y) -> tuple[np.ndarray, np.ndarray]:
        """The classes, and the number of each label's."""
        classes, encoded = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(f"{self._name} needs at least 2 classes; y has only one class, {classes[0]}")
        machines = n_lanes(self.formulation, len(classes))
        if self.formulation in PAIRWISE and machines > MOST_MACHINES:
            raise ValueError(
                f"formulation={self.formulation!r} of {len(classes)} classes is {machines} machines, and "
                f"{MOST_MACHINES} are the most; use 'crammer_singer', 'weston_watkins' or 'one_vs_rest'"
            )
        return classes, encoded

    @tiny_is_zero
    def _caps(self, encoded, weight, counts=None) -> np.ndarray:
        """C_i of rows; ``counts``, the weight of every class, is that of the rows if it is not given."""
        present = weight if counts is None else counts
        with np.errstate(over="ignore"):
            cap = float(self.C) * weight
            if self.class_weight is not None:
                if counts is None:
                    counts = np.bincount(encoded, weights=weight, minlength=len(self.classes_))
                cap = cap * self._class_weights(counts)[encoded]
        if not np.all(np.isfinite(cap)):
            raise ValueError(f"C times the weights must be finite: lower C={self.C:g}, sample_weight or class_weight")
        cap[cap < SMALLEST_C] = 0.0  # as is a weight of zero, but for duals that float64 has no numbers for
        if not cap[present > 0].any():
            raise ValueError(
                f"C times the weights is 0, or below {SMALLEST_C:g}, for all rows: raise C={self.C:g}, sample_weight "
                "or class_weight"
            )
        return cap

    def _class_weights(self, counts: np.ndarray) -> np.ndarray:
        k = len(self.classes_)
        if isinstance(self.class_weight, str):
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused as a cap
                return np.divide(counts.sum(), k * counts, out=np.zeros(k), where=counts > 0)
        factors = np.ones(k)
        for label, factor in dict(self.class_weight).items():
            single = np.isscalar(label)  # a tuple would be compared class by class
            where = np.flatnonzero(self.classes_ == label) if single else ()
            if not len(where):
                hint = "" if single else "; a key is one label, with a factor of its own"
                raise ValueError(f"class_weight names class {label!r}, which is not among {self.classes_!r}{hint}")
            factors[where] = factor
        return factors

    def _seed(self) -> int:
        state = self.random_state
        if isinstance(state, Integral):
            state = np.random.RandomState(int(state))
        return 0 if state is None else int(state.randint(2**31 - 1))

    def _n_lanes(self) -> int:
        return n_lanes(self.formulation, len(self.classes_))

    def _check_as_fitted(self) -> None:
        """Refuse a model whose formulation was changed after its fit: its machines are not those of the new one."""
        was = self.__dict__.get("_fitted_formulation", self.formulation)
        if was != self.formulation:
            raise ValueError(
                f"formulation was changed from {was!r} to {self.formulation!r} after the fit: set it back, or fit again"
            )

    @tiny_is_zero
    def _trained(self, request) -> tuple[Any, bool]:
        """What came of a request, and whether an interrupt cut it short."""
        try:
            return self._train(request), False
        except KeyboardInterrupt as interrupt:
            if not hasattr(interrupt, "trained"):
                raise
            return interrupt.trained, True

    @tiny_is_zero
    def _store(self, trained, request) -> None:
        outcome = trained.outcome
        self._fitted_formulation = self.formulation
        for stale in (*CERTIFIED, "first_index_"):  # of an earlier fit
            self.__dict__.pop(stale, None)
        if trained.dual_coef is not None:
            self.dual_coef_ = trained.dual_coef
            self._dual_caps, self._dual_labels = request.cap, request.y
            self._dual_problem = (self.formulation, self.loss, trained.dual_coef.shape)
            self.support_ = np.flatnonzero(np.diff(trained.dual_coef.indptr))
        self.primal_objective_ = trained.primal
        self.dual_objective_ = trained.dual
        gap = max(trained.primal - trained.dual, 0.0) / max(abs(trained.primal), SMALLEST_OBJECTIVE)
        self.dual_gap_ = gap + trained.doubt
        self.worst_gap_ = trained.worst_gap
        self.n_iter_ = outcome.n_iter
        self.converged_ = outcome.converged
        self.history_ = outcome.history_array()
        self._store_model(trained, request)

    def _why_not_converged(self, outcome) -> str:
        """What stopped the training, how far it came and what to change; empty if it converged to what is proven."""
        if outcome.converged:
            return f"{self._name} converged, but its gap proves nothing: {outcome.remark}" if outcome.remark else ""
        easier = f"scale the features, lower C={self.C:g} or raise tol"
        what = {
            "max_iter": f"after max_iter={self.max_iter} epochs; raise max_iter, {easier}",
            "time_limit": f"after time_limit={self.time_limit} s; raise time_limit, {easier}",
            "callback": "because a callback said so",
            "precision": f"because float64 cannot do better; {easier}",
            "disk": "because the duals of a block could not be written; the model is as it was last certified",
        }[outcome.stopped_by]
        gap = f"the relative duality gap is {self.dual_gap_:.2g} of the objective"
        if self.stopping == "violation":
            above = f" and the violation is still above {self.tol:g}"
            reached = gap if outcome.stopped_by == "precision" else gap + above
        else:
            if self.worst_gap_ > self.dual_gap_:
                gap += f", that of the worst machine {self.worst_gap_:.2g}"
            reached = f"{gap}, the target {self.tol:g}"
        remark = f"; {outcome.remark}" if outcome.remark else ""
        return f"{self._name} stopped {what}: {reached}{remark}"

    def _labels(self, values: np.ndarray) -> np.ndarray:
        """Class labels of values by class."""
        if len(self.classes_) == 2:
            return self.classes_[(values > 0).astype(int)]
        return self.classes_[values.argmax(axis=1)]

    def _predicted(self, X) -> np.ndarray:
        """Class labels of validated rows."""
        return self._labels(self._of_rows(X, self._class_values))

    def _top(self, X, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and scores of the n best classes of validated rows, the best first."""
        return best_in_slabs(X, n, len(self.classes_), lambda rows: self._of_rows(rows, self._class_values))

    @tiny_is_zero
    def _of_rows(self, X, pairs_to_classes: Callable[[np.ndarray], np.ndarray] | None) -> np.ndarray:
        """Values of validated rows."""
        if len(self.classes_) == 2:
            return self._decisions(X, None).ravel()
        return self._decisions(X, pairs_to_classes if self.formulation in PAIRWISE else None)

    @tiny_is_zero
    def _graded(self, X) -> np.ndarray:
        """Values by class of validated rows, to make probabilities of. A round of elimination says nothing of how
        clear it was: dag has the votes of one_vs_one here, with the class that is predicted on top."""
        if self.formulation == "dag":
            return self._of_rows(X, lambda decisions: rounds_with_confidence(decisions, len(self.classes_)))
        return self._of_rows(X, self._class_values)

    def _class_values(self, decisions: np.ndarray) -> np.ndarray:
        if self.formulation == "dag":
            return rounds_of_elimination(decisions, len(self.classes_))
        return votes_with_confidence(decisions, len(self.classes_), self.break_ties)
