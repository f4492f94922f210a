"""A linear machine for programs, without scikit-learn, whose import takes longer than most of its trainings."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from typing import Any

import numpy as np

from multimargin.data.rows import checked
from multimargin.estimators.linear_machine import LinearMachine
from multimargin.estimators.progress import Progress
from multimargin.linear.interrupts import deferred_interrupt


class PlainLinearSVM(LinearMachine):
    """The same parameters, weights and certificate as :class:`multimargin.LinearSVM`; no callbacks, no warm start."""

    n_features_in_: int
    why_not = ""  # it did not converge

    @property
    def _name(self) -> str:
        return "LinearSVM"

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """The parameters by name."""
        names = sorted(inspect.signature(LinearMachine.__init__).parameters)
        return {name: getattr(self, name) for name in names if name != "self"}

    def set_params(self, **parameters: Any) -> PlainLinearSVM:
        """Change parameters."""
        vars(self).update(parameters)
        return self

    def fit(self, X: Any, y: np.ndarray) -> PlainLinearSVM:
        """Train; an interrupt is raised again when the model is stored."""
        X = checked(X)
        self.classes_, encoded = self._encoded(y)
        weight = np.ones(len(y))
        request = self._request(X, encoded, self._caps(encoded, weight), weight)
        self.n_features_in_ = X.shape[1]
        with deferred_interrupt():
            with Progress(self.max_iter) if self.verbose else nullcontext() as progress:
                request.observers = [progress] if progress is not None else []
                trained, interrupted = self._trained(request)
            self._store(trained, request)
        if interrupted:
            raise KeyboardInterrupt
        self.why_not = self._why_not_converged(trained.outcome)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Class labels."""
        return self._predicted(checked(X, self.n_features_in_))
