"""LIBLINEAR by its official binding. ``type`` is its option -s; the data is converted before the clock starts."""

import numpy as np
import scipy.sparse as sp
from benchopt import BaseSolver
from liblinear.liblinear import parameter, problem
from liblinear.liblinearutil import train

SOLVES = {
    1: ("one_vs_rest", "squared_hinge"),
    2: ("one_vs_rest", "squared_hinge"),
    3: ("one_vs_rest", "hinge"),
    4: ("crammer_singer", "hinge"),
}


class Solver(BaseSolver):
    name = "liblinear"
    requirements = ["pip::liblinear-official"]
    parameters = {"type": [1, 2, 3, 4]}
    test_config = {"type": 4}

    def set_objective(self, X, y, formulation, loss, C):
        self.C = C
        self.problem = problem(y.astype(np.float64), sp.csr_matrix(X), bias=-1)

    def skip(self, X, y, formulation, loss, C):
        solved = SOLVES[self.type]
        return (formulation, loss) != solved, f"-s {self.type} is {' with '.join(solved)}"

    def run(self, tolerance):
        self.model = train(self.problem, parameter(f"-s {self.type} -c {self.C!r} -e {min(tolerance, 1.0)!r} -q"))

    def get_result(self):
        labels = np.array(self.model.get_labels())  # in the order in which they first occur
        W = np.ctypeslib.as_array(self.model.w, (self.model.nr_feature * len(labels),)).reshape(-1, len(labels)).T
        return {"W": W[np.argsort(labels)]}
