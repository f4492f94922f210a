"""scikit-learn's LinearSVC: its dual solvers."""

import warnings

from benchopt import BaseSolver
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC


class Solver(BaseSolver):
    name = "scikit-learn"
    requirements = ["scikit-learn"]

    def set_objective(self, X, y, formulation, loss, C):
        multi_class = {"one_vs_rest": "ovr", "crammer_singer": "crammer_singer"}[formulation]
        self.X, self.y = X, y
        self.model = LinearSVC(
            loss=loss, C=C, multi_class=multi_class, dual=True, fit_intercept=False, max_iter=10**6, random_state=0
        )

    def skip(self, X, y, formulation, loss, C):
        return (formulation, loss) == ("crammer_singer", "squared_hinge"), "its crammer_singer has the hinge loss only"

    def run(self, tolerance):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model.set_params(tol=min(tolerance, 1.0)).fit(self.X, self.y)

    def get_result(self):
        return {"W": self.model.coef_}
