"""The real sets of the other benchmarks, scaled as they use them: .npz files in the folder MULTIMARGIN_DATA."""

import importlib.util
import sys
from pathlib import Path

from benchopt import BaseDataset


def _load(name):
    """By benchmarks/datasets.py, which is found by its file: ``import datasets`` could be another package."""
    file, module = Path(__file__).resolve().parents[2] / "datasets.py", "multimargin_datasets"
    if module not in sys.modules:
        spec = importlib.util.spec_from_file_location(module, file)
        sys.modules[module] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[module])
    return sys.modules[module].load(name)


class Dataset(BaseDataset):
    name = "stored"
    parameters = {"set": ["news20", "reuters52", "banking77", "mnist", "usps", "letter"]}
    test_parameters = {"set": ["usps"]}

    def get_data(self):
        data = _load(self.set)
        return {"X": data.X, "y": data.y, "X_test": data.X_test, "y_test": data.y_test}
