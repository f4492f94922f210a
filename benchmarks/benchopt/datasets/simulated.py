"""Noisy classes around random centres, with rows to test on; needs no files."""

import numpy as np
from benchopt import BaseDataset


class Dataset(BaseDataset):
    name = "simulated"
    parameters = {"n_samples, n_features, n_classes": [(2000, 100, 10)]}
    test_parameters = {"n_samples, n_features, n_classes": [(90, 8, 3)]}

    def get_data(self):
        rng = np.random.default_rng(self.get_seed(use_repetition=True))
        y = rng.permutation(2 * self.n_samples) % self.n_classes
        centres = rng.normal(size=(self.n_classes, self.n_features))
        X = (centres[y] + 2 * rng.normal(size=(len(y), self.n_features))) / np.sqrt(self.n_features)
        learnt = slice(self.n_samples)
        rest = slice(self.n_samples, None)
        return {"X": X[learnt], "y": y[learnt], "X_test": X[rest], "y_test": y[rest]}
