"""Multi-class linear SVMs without an intercept, as a benchopt benchmark.

    min_W  1/2 sum_m ||w_m||^2 + C sum_i loss_i

A solver gets ``X`` (dense or CSR, float64), ``y`` (0..k-1, k > 2), ``formulation``, ``loss`` and ``C``; its result is
``W``, one row a class.
"""

import numpy as np
from benchopt import BaseObjective


class Objective(BaseObjective):
    """The primal objective; benchopt plots its relative distance from the lowest value that any solver reached."""

    name = "Multi-class linear SVM"
    min_benchopt_version = "1.7"
    sampling_strategy = "tolerance"  # run after run with smaller tolerances: they mean something else to every solver
    parameters = {
        "formulation, loss": [
            ("crammer_singer", "hinge"),
            ("one_vs_rest", "hinge"),
            ("one_vs_rest", "squared_hinge"),
        ],
        "C": [1.0],
    }

    def set_data(self, X, y, X_test=None, y_test=None):
        self.X, self.y, self.X_test, self.y_test = X, y, X_test, y_test

    def get_objective(self):
        return {"X": self.X, "y": self.y, "formulation": self.formulation, "loss": self.loss, "C": self.C}

    def evaluate_result(self, W):
        losses = self._losses(np.asarray(self.X @ W.T))
        loss = (losses**2 if self.loss == "squared_hinge" else losses).sum()
        measures = {"value": float(0.5 * np.vdot(W, W) + self.C * loss)}
        if self.X_test is not None:
            predicted = np.asarray(self.X_test @ W.T).argmax(axis=1)
            measures["test_error"] = float(np.mean(predicted != self.y_test))
        return measures

    def _losses(self, scores):
        """max_m (s_m + [m != y]) - s_y; one-vs-rest: max(0, 1 - z_m s_m), z_m = 1 for the label, else -1."""
        every = np.arange(len(self.y))
        if self.formulation == "one_vs_rest":
            margins = -scores
            margins[every, self.y] *= -1
            return np.maximum(0, 1 - margins)
        own = scores[every, self.y]
        scores = scores + 1
        scores[every, self.y] -= 1
        return scores.max(axis=1) - own

    def get_one_result(self):
        return {"W": np.zeros((int(self.y.max()) + 1, self.X.shape[1]))}
