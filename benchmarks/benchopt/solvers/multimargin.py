"""LinearSVM of this repository. ``solver`` is any that it has; more than the default ones can be asked for."""

import warnings

import numpy as np
from benchopt import BaseSolver
from sklearn.exceptions import ConvergenceWarning

from multimargin import LinearSVM


class Solver(BaseSolver):
    name = "multimargin"
    requirements = ["pip::multimargin"]
    parameters = {"solver": ["auto", "sdm", "accelerated_sdm", "cutting_plane"]}

    def set_objective(self, X, y, formulation, loss, C):
        self.X, self.y = X, y
        self.model = LinearSVM(formulation, loss, C, solver=self.solver, fit_intercept=False, max_iter=10**9)

    def skip(self, X, y, formulation, loss, C):
        try:  # what a solver does not do is refused by fit, with what it does
            LinearSVM(formulation, loss, C, solver=self.solver).fit(np.eye(3), np.arange(3))
        except ValueError as refusal:
            return True, str(refusal)
        return False, None

    def warm_up(self):
        self.run_once()

    def run(self, tolerance):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # at tolerances beyond float64
            self.model.set_params(tol=min(tolerance, 1.0)).fit(self.X, self.y)

    def get_result(self):
        return {"W": self.model.coef_}
