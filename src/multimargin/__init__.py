"""multimargin: exact multi-class support vector machines with a certificate of optimality."""

import importlib

__version__ = "0.1.0"

# Public name -> module that defines it; loaded on first use (PEP 562), so that importing the package is free.
_PUBLIC = {
    "ConfusionPairsDisplay": "multimargin.displays.confusion_pairs",
    "ConvergenceDisplay": "multimargin.displays.convergence",
    "KernelSVM": "multimargin.estimators.kernel_svm",
    "LinearSVM": "multimargin.estimators.linear_svm",
    "LinearSVMCV": "multimargin.estimators.linear_svm_cv",
    "PathDisplay": "multimargin.displays.path",
    "load": "multimargin.models",
    "read_svmlight": "multimargin.data.svmlight",
    "save": "multimargin.models",
    "write_svmlight": "multimargin.data.svmlight_writing",
}

__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> object:
    if name in _PUBLIC:
        value = getattr(importlib.import_module(_PUBLIC[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'multimargin' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_PUBLIC))
