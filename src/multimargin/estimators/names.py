"""Parameters by the names that they have elsewhere: constructors say what is meant by names that they do not have."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar, cast

Init = TypeVar("Init", bound=Callable[..., None])

_FOR_KERNELS = "that is a parameter of KernelSVM"
# What the names of scikit-learn, LIBLINEAR and LIBSVM are here.
_ELSEWHERE = {
    "penalty": "the penalty is always l2; for l1: sklearn.svm.LinearSVC(penalty='l1', dual=False)",
    "dual": "both objectives bound the optimum in every fit; solver= says how it is found",
    "multi_class": "formulation= says how classes are told apart: 'crammer_singer', 'one_vs_rest', ...",
    "nu": "for nu-SVM: sklearn.svm.NuSVC",
    "epsilon": "for regression: sklearn.svm.SVR or LinearSVR; how exact a fit is says tol=",
    "eps": "how exact a fit is says tol=",
    "alpha": "C= is 1 / (alpha * n_samples)",
    "lambda_": "C= is 1 / (lambda * n_samples)",
    "l1_ratio": "the penalty is always l2; for others: sklearn.linear_model.SGDClassifier",
    "cache_size": "for kernels there is cache_mb=, in the same unit",
    "strategy": "formulation= may be 'one_vs_rest', 'one_vs_one', 'crammer_singer', ...",
    "kernel": _FOR_KERNELS,
    "gamma": _FOR_KERNELS,
    "degree": _FOR_KERNELS,
    "coef0": _FOR_KERNELS,
    "cache_mb": _FOR_KERNELS,
    "Cs": "that is a parameter of LinearSVMCV",
    "cv": "that is a parameter of LinearSVMCV",
    "C": "LinearSVMCV chooses it among Cs=",
    "class_weights": "did you mean class_weight=?",
    "sample_weight": "weights of rows are an argument of fit",
    "bias": "fit_intercept=, and intercept_scaling= where it is regularised",
}


def knows_other_names(init: Init) -> Init:
    """A constructor that names the class and what is meant when it is given a parameter that it does not have."""
    parameters_of = list(signature(init).parameters.values())[1:]
    known = [parameter.name for parameter in parameters_of]
    by_position = [parameter.name for parameter in parameters_of if parameter.kind != Parameter.KEYWORD_ONLY]

    @wraps(init)
    def checked(self: Any, *args: Any, **parameters: Any) -> None:
        if len(args) > len(by_position):
            raise TypeError(
                f"{type(self).__name__} takes {', '.join(by_position) or 'nothing'} by position, all others by name; "
                f"what is {args[len(by_position)]!r}?"
            )
        for name in parameters:
            if name not in known:
                near = [f"did you mean {close}=?" for close in get_close_matches(name, known, 1)]
                advice = _ELSEWHERE.get(name) or next(iter(near), f"it has {', '.join(known)}")
                raise TypeError(f"{type(self).__name__} has no parameter {name!r}: {advice}")
        init(self, *args, **parameters)

    return cast(Init, checked)
