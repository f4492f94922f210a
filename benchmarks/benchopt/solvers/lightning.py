"""The dual coordinate descent of sklearn-contrib-lightning, one-vs-rest."""

from benchopt import BaseSolver
from lightning.classification import LinearSVC


class Solver(BaseSolver):
    name = "lightning"
    install_cmd = "shell"
    install_script = "lightning.sh"
    test_config = {"objective": {"formulation": "one_vs_rest", "loss": "hinge"}}

    def set_objective(self, X, y, formulation, loss, C):
        self.X, self.y = X, y
        self.model = LinearSVC(loss=loss, C=C, max_iter=10**6, random_state=0)

    def skip(self, X, y, formulation, loss, C):
        return formulation != "one_vs_rest", "lightning's LinearSVC is one_vs_rest"

    def run(self, tolerance):
        self.model.set_params(tol=min(tolerance, 1.0)).fit(self.X, self.y)

    def get_result(self):
        return {"W": self.model.coef_}
