"""What parameters may be, and what is refused by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from decimal import Decimal
from math import inf, isfinite
from numbers import Integral, Real
from typing import Any

import numpy as np

from multimargin.linear.solvers import SOLVERS, STREAMING, Solver
from multimargin.problems.formulations import FORMULATIONS, JOINT, LOSSES, PAIRWISE
from multimargin.problems.range import SMALLEST_C

LINEAR_SOLVERS = ("auto", *SOLVERS)
LARGEST_INTERCEPT_SCALING = 1e100  # whose square is a number, too, as is that of its inverse
LARGEST_INTEGER = 2**31 - 1
LARGEST_CACHE_MB = 2**40
MOST_VARIABLES = 1000  # of a working set of single duals, whose problem is solved directly
KERNEL_SOLVERS = ("block", "decomposition")
# What the papers' decompositions of Crammer-Singer are put together from; the first is the default.
DECOMPOSITION = {
    "selection": ("kkt", "cyclic", "random", "amg", "bmg"),
    "threshold": ("mean", "max", "exponential", "linear", "logarithmic"),
    "step": ("exact", "fixed_point", "smo", "basic_smo"),
}
THRESHOLD_FACTOR = 0.5

# What people know from elsewhere, and where to find it.
_ELSEWHERE = {
    "loss": {
        "log": "logistic loss: sklearn.linear_model.LogisticRegression",
        "log_loss": "logistic loss: sklearn.linear_model.LogisticRegression",
        "logistic": "logistic loss: sklearn.linear_model.LogisticRegression",
        "modified_huber": "sklearn.linear_model.SGDClassifier",
        "perceptron": "sklearn.linear_model.Perceptron",
        "epsilon_insensitive": "regression: sklearn.svm.LinearSVR",
        "squared_epsilon_insensitive": "regression: sklearn.svm.LinearSVR",
        "squared_error": "regression: sklearn.linear_model.Ridge",
    },
    "formulation": {
        "nu_svc": "nu-SVM: sklearn.svm.NuSVC",
        "nu": "nu-SVM: sklearn.svm.NuSVC",
        "one_class": "one-class SVM: sklearn.svm.OneClassSVM",
        "svr": "regression: sklearn.svm.SVR",
        "regression": "regression: sklearn.svm.LinearSVR",
        "l1": "l1 penalty: sklearn.svm.LinearSVC(penalty='l1', dual=False)",
    },
}
_ALIASES = {
    "ovr": "one_vs_rest",
    "ovo": "one_vs_one",
    "cs": "crammer_singer",
    "ww": "weston_watkins",
    "gaussian": "rbf",
    "polynomial": "poly",
}


def check_choice(name: str, value: Any, choices: tuple[str, ...], or_else: str = "") -> None:
    """Refuse a value that is not one of the choices, helpfully."""
    if isinstance(value, str) and value in choices:
        return
    elsewhere = _ELSEWHERE.get(name, {}).get(value.lower()) if isinstance(value, str) else None
    if elsewhere:
        raise ValueError(f"{name}={value!r} is not done here; for {elsewhere}")
    meant = _meant(name, value, choices)
    hint = f"; did you mean {meant}?" if meant else ""
    raise ValueError(f"{name}={value!r} is unknown; it may be {', '.join(map(repr, choices))}{or_else}{hint}")


def _meant(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """What somebody who gave a wrong choice had in mind, perhaps."""
    if name in ("formulation", "kernel", "loss") and isinstance(value, Real) and not isinstance(value, bool):
        return f"C={value!r}"  # which comes after those, by position
    if not isinstance(value, str):
        return ""
    word = value.lower().replace("-", "_").replace(" ", "_")
    word = _ALIASES.get(word, word)
    if word in choices:
        return repr(word)
    from multimargin.kernel.functions import KERNELS  # here, as it imports SciPy

    for where, names in (
        ("KernelSVM(kernel={!r})", KERNELS),
        ("formulation={!r}", FORMULATIONS),
        ("loss={!r}", LOSSES),
    ):
        if word in names:
            return where.format(word)
    return ""


def check_number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    integer: bool = False,
    hint: str = "",
) -> None:
    """Refuse a value that is not a finite number in range, or that a file of a model would have no place for."""
    kinds = (int, np.integer) if integer else (int, float, np.integer, np.floating)
    if isinstance(value, bool | np.longdouble) or not isinstance(value, kinds):
        advice = "; float(...) makes one of it" if isinstance(value, Real | Decimal) and not integer else ""
        raise TypeError(f"{name} must be {'an integer' if integer else 'a number'}, got {value!r}{advice}")
    try:
        number = float(value)
    except OverflowError:
        number = inf
    wanted, good = ["finite"], isfinite(number)
    if above is not None:
        wanted.append(f"above {above}")
        good = good and number > above
    if at_least is not None:
        wanted.append(f"at least {at_least}")
        good = good and number >= at_least
    if at_most is not None:
        wanted.append(f"at most {at_most}")
        good = good and number <= at_most
    if not good:
        raise ValueError(f"{name} must be {' and '.join(wanted)}, got {value!r}{hint}")


def check_boolean(name: str, value: Any) -> None:
    """Refuse what is not True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def check_seed(value: Any) -> None:
    """Refuse what does not seed random numbers."""
    if value is None or (isinstance(value, Integral) and not isinstance(value, bool) and 0 <= int(value) < 2**32):
        return
    from sklearn.utils import check_random_state

    try:
        check_random_state(value)
    except ValueError as error:
        raise ValueError(
            f"random_state must be None, an integer from 0 to 2**32 - 1 or a RandomState, got {value!r}"
        ) from error


def check_class_weight(value: Any) -> None:
    """Refuse what does not weigh classes."""
    if value is None or (isinstance(value, str) and value == "balanced"):
        return
    if not isinstance(value, Mapping):
        raise TypeError(f"class_weight must be a dict, 'balanced' or None, got {value!r}")
    for label, factor in value.items():
        check_number(f"class_weight of {label!r} must not be negative: it", factor, at_least=0)


def check_solver_options(value: Any, solver: str) -> None:
    """Refuse options that the solver does not have; "auto" has those of the solvers that it may choose."""
    if value is None:
        return
    known = SOLVERS["sdm" if solver == "auto" else solver].options
    has = f"may have {', '.join(sorted(known))}" if known else "must be None"
    if not isinstance(value, Mapping):
        raise TypeError(f"solver_options must be a dict or None, got {value!r}; with solver={solver!r} it {has}")
    unknown = set(value) - set(known)
    if unknown:
        raise ValueError(
            f"solver_options has unknown keys {sorted(map(str, unknown))}; with solver={solver!r} it {has}"
        )
    for name, option in value.items():
        if isinstance(known[name], bool):
            check_boolean(f"solver_options[{name!r}]", option)
        else:
            check_number(f"solver_options[{name!r}]", option, at_least=1, at_most=LARGEST_INTEGER, integer=True)


def check_combination(model: Any) -> None:
    """Refuse a solver for a problem that it does not solve, with those that do and those that it does solve."""
    if model.solver == "auto":
        return
    chosen = SOLVERS[model.solver]
    has = {"formulation": chosen.formulations, "loss": chosen.losses, "stopping": chosen.stoppings}
    wrong = {name: choices for name, choices in has.items() if getattr(model, name) not in choices}
    if wrong:
        needed = " and ".join(f"{name} {' or '.join(map(repr, choices))}" for name, choices in wrong.items())
        given = " and ".join(f"{name}={getattr(model, name)!r}" for name in wrong)
        others = [key for key, solver in SOLVERS.items() if _solves(solver, model)]
        raise ValueError(
            f"solver={model.solver!r} has {needed}, not {given}; for formulation={model.formulation!r}, "
            f"loss={model.loss!r}, stopping={model.stopping!r} there are solver={', '.join(map(repr, others))}"
        )


def _solves(solver: Solver, model: Any) -> bool:
    return (
        model.formulation in solver.formulations and model.loss in solver.losses and model.stopping in solver.stoppings
    )


def n_threads(n_jobs: Any) -> int:
    """Threads for n_jobs as scikit-learn counts it: None is 1, -1 all processors, -2 all but one."""
    if n_jobs is None:
        return 1
    check_number("n_jobs", n_jobs, integer=True, at_least=-LARGEST_INTEGER, at_most=LARGEST_INTEGER)
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0; None is one thread, -1 all")
    if n_jobs > 0:
        return int(n_jobs)
    from joblib import cpu_count

    return max(1, cpu_count() + 1 + int(n_jobs))


def check_checkpoint(model: Any) -> None:
    """Refuse what is no path, and solvers that have no checkpoints."""
    check_number("checkpoint_every", model.checkpoint_every, at_least=0)
    if model.checkpoint is None:
        return
    if not isinstance(model.checkpoint, str | os.PathLike):
        raise TypeError(f"checkpoint must be a path or None, got {model.checkpoint!r}")
    if model.solver in SOLVERS and not SOLVERS[model.solver].has_checkpoints:
        others = [name for name, solver in SOLVERS.items() if solver.has_checkpoints]
        raise ValueError(
            f"solver={model.solver!r} has no checkpoints yet; solver={', '.join(map(repr, others))} have them"
        )


def check_decisions(model: Any) -> None:
    """Check the parameters that say how decisions are told; they may be set after a fit, too."""
    check_choice("decision_function_shape", model.decision_function_shape, ("ovr", "ovo"))
    check_boolean("break_ties", model.break_ties)
    if model.decision_function_shape == "ovo" and model.formulation not in PAIRWISE:
        raise ValueError(
            f"decision_function_shape='ovo' needs pairs of classes: formulation {' or '.join(map(repr, PAIRWISE))}, "
            f"not {model.formulation!r}"
        )
    if model.break_ties and model.decision_function_shape == "ovo":
        raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")


def check_shared(model: Any) -> None:
    """Check the parameters that all classifiers have."""
    check_choice("formulation", model.formulation, FORMULATIONS)
    check_choice("stopping", model.stopping, ("gap", "violation"))
    check_number("C", model.C, above=0)
    if model.C < SMALLEST_C:
        raise ValueError(f"C must be at least {SMALLEST_C:g}, got {model.C!r}")
    check_number("tol", model.tol, above=0)
    no_limit = "; for no limit, as -1 is in scikit-learn, give a large number, such as 10**9"
    unlimited = isinstance(model.max_iter, Integral) and model.max_iter == -1
    check_number("max_iter", model.max_iter, at_least=1, integer=True, hint=no_limit if unlimited else "")
    if model.time_limit is not None:
        check_number("time_limit", model.time_limit, above=0)
    check_number("intercept_scaling", model.intercept_scaling, above=0, at_most=LARGEST_INTERCEPT_SCALING)
    if model.intercept_scaling < 1 / LARGEST_INTERCEPT_SCALING:
        raise ValueError(
            f"intercept_scaling must be at least {1 / LARGEST_INTERCEPT_SCALING:g}, got {model.intercept_scaling!r}; "
            "fit_intercept=False is without an intercept"
        )
    n_threads(model.n_jobs)
    for name in ("fit_intercept", "shrinking", "cooling", "probability", "warm_start"):
        check_boolean(name, getattr(model, name))
    check_seed(model.random_state)
    check_class_weight(model.class_weight)
    if not isinstance(model.verbose, bool):
        check_number("verbose", model.verbose, at_least=0, integer=True)
    check_decisions(model)


def check_linear(model: Any) -> None:
    """Check the parameters of a LinearSVM."""
    check_shared(model)
    check_choice("loss", model.loss, LOSSES)
    check_choice("solver", model.solver, LINEAR_SOLVERS)
    check_solver_options(model.solver_options, model.solver)
    check_combination(model)
    check_checkpoint(model)
    if getattr(model, "memory_mb", None) is not None:  # LinearSVMCV has none
        check_number("memory_mb", model.memory_mb, above=0)


def check_stored(model: Any, store: Any, y: Any, sample_weight: Any) -> None:
    """Refuse what a fit on a store of blocks does not do, with what does."""
    if y is not None or sample_weight is not None:
        raise ValueError("labels and weights of a store are in it: fit(store) takes no y and no sample_weight")
    if len(store.classes) < 2:
        raise ValueError(f"LinearSVM needs at least 2 classes; {store.path} has only one class, {store.classes[0]}")
    if model.formulation in PAIRWISE and len(store.classes) > 2:
        raise ValueError(
            f"formulation={model.formulation!r} is not trained on a store of blocks, as every pair of classes would "
            "read all of it; there are 'crammer_singer', 'weston_watkins' and 'one_vs_rest'"
        )
    if model.solver not in STREAMING:
        raise ValueError(
            f"solver={model.solver!r} needs X in memory, and {store.path} is a store of blocks; there are "
            f"solver={', '.join(map(repr, STREAMING))}"
        )
    for name in ("probability", "warm_start"):
        if getattr(model, name):
            raise ValueError(f"{name}=True needs X in memory, and {store.path} is a store of blocks: set it to False")
    if not store.class_weights.any():
        raise ValueError(f"{store.path}: weights must be positive somewhere: all are zero")


def check_kernel(model: Any) -> None:
    """Check the parameters of a KernelSVM."""
    check_shared(model)
    if model.loss == "squared_hinge":
        raise ValueError("loss='squared_hinge' is not done with kernels, which have loss='hinge'; LinearSVM does both")
    check_choice("loss", model.loss, ("hinge",))
    from multimargin.kernel.functions import KERNELS

    if not callable(model.kernel):
        check_choice("kernel", model.kernel, KERNELS, " or a callable")
    if isinstance(model.gamma, str):
        check_choice("gamma", model.gamma, ("scale", "auto"), " or a number")
    else:
        check_number("gamma", model.gamma, at_least=0)
    check_number("degree", model.degree, at_least=0, at_most=LARGEST_INTEGER, integer=True)
    check_number("coef0", model.coef0)
    check_number("cache_mb", model.cache_mb, above=0, at_most=LARGEST_CACHE_MB)
    check_choice("solver", model.solver, KERNEL_SOLVERS)
    for name, choices in DECOMPOSITION.items():
        check_choice(name, getattr(model, name), choices)
    check_number("threshold_factor", model.threshold_factor, at_least=0, at_most=1)
    if model.working_set is not None:
        check_number("working_set", model.working_set, at_least=2, at_most=LARGEST_INTEGER, integer=True)
    _check_kernel_combinations(model)
    check_checkpoint(model)


def _check_kernel_combinations(model: Any) -> None:
    decomposes = model.solver == "decomposition" and model.formulation == "crammer_singer"
    defaults = {name: choices[0] for name, choices in DECOMPOSITION.items()} | {"threshold_factor": THRESHOLD_FACTOR}
    for name, default in defaults.items():
        if getattr(model, name) != default and not decomposes:
            raise ValueError(
                f"{name}={getattr(model, name)!r} is for solver='decomposition' with formulation='crammer_singer'; "
                f"solver={model.solver!r} with formulation={model.formulation!r} needs {name}={default!r}"
            )
    if model.threshold_factor != THRESHOLD_FACTOR and model.threshold != "max":
        raise ValueError(
            f"threshold_factor={model.threshold_factor!r} is for threshold='max'; "
            f"threshold={model.threshold!r} needs threshold_factor={THRESHOLD_FACTOR!r}"
        )
    if model.working_set is not None and model.solver == "decomposition" and model.formulation != "weston_watkins":
        raise ValueError(
            f"working_set={model.working_set!r} is for solver='block', or for solver='decomposition' with "
            f"formulation='weston_watkins'; solver='decomposition' with formulation={model.formulation!r} needs "
            "working_set=None"
        )
    if model.working_set is not None and model.solver == "decomposition" and model.working_set > MOST_VARIABLES:
        raise ValueError(
            f"working_set must be at most {MOST_VARIABLES} with solver='decomposition', got {model.working_set!r}"
        )
    if model.intercept_scaling != 1 and model.formulation not in JOINT:
        raise ValueError(
            f"intercept_scaling={model.intercept_scaling!r} is for formulation='crammer_singer' and 'weston_watkins', "
            f"whose intercept is regularised; the one of {model.formulation!r} is not, and needs intercept_scaling=1"
        )
