"""From options to an estimator, and back to the options that make it."""

from __future__ import annotations

import os
import shlex
from typing import Any

import numpy as np

from multimargin.commands.errors import CommandError, UsageError
from multimargin.commands.options import KERNEL_SOLVERS, LINEAR_SOLVERS
from multimargin.commands.terminal import Terminal

_SHARED = (
    "loss",
    "C",
    "tol",
    "stopping",
    "max_iter",
    "time_limit",
    "fit_intercept",
    "intercept_scaling",
    "class_weight",
    "n_jobs",
)
_OF_KERNELS = ("kernel", "gamma", "degree", "coef0", "cache_mb")
_NOT_OF_THE_WINNER = ("json", "quiet", "checkpoint", "checkpoint_every")  # options of a search, not of its result


def machine(args: Any, *, plain: bool = False, **different: Any) -> Any:
    """The estimator that the options describe, checked, not fitted; plain: a linear one without scikit-learn."""
    given = vars(args) | different
    kernel = given.get("kernel")
    names = (*_SHARED, *_OF_KERNELS) if kernel else _SHARED
    parameters = {name: given[name] for name in names if name in given}
    parameters |= {"formulation": given.get("formulation", "crammer_singer"), "random_state": given["seed"]}
    if given.get("probability"):
        parameters["probability"] = True
    if given.get("checkpoint"):
        parameters |= {name: given[name] for name in ("checkpoint", "checkpoint_every")}
    solver = given.get("solver")
    if solver is not None:
        if kernel and solver in LINEAR_SOLVERS:
            raise UsageError(f"--solver {solver} is for linear machines; with --kernel: {', '.join(KERNEL_SOLVERS)}")
        if not kernel and solver not in LINEAR_SOLVERS:
            raise UsageError(f"--solver {solver} is for kernel machines; without --kernel: {', '.join(LINEAR_SOLVERS)}")
        parameters["solver"] = solver
    if not kernel and given.get("gamma", "scale") != "scale":
        raise UsageError("--gamma is for kernel machines: add --kernel rbf")
    if given["weight"] and given["class_weight"]:
        raise UsageError("--weight and --class-weight exclude each other")
    model = _kind(kernel, plain)(**parameters)
    try:
        model._check()
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
    return model


def _kind(kernel: Any, plain: bool) -> Any:
    if plain:
        from multimargin.estimators.plain_linear import PlainLinearSVM

        return PlainLinearSVM
    from multimargin import KernelSVM, LinearSVM

    return KernelSVM if kernel else LinearSVM


def set_weights(model: Any, weights: list[tuple[str, float]], y: np.ndarray, path: str, terminal: Terminal) -> None:
    """Weights of classes by their labels as they are written; a note where LIBLINEAR's -wi is another thing."""
    if not weights:
        return
    classes = {str(label): label for label in np.unique(y).tolist()}
    for label, factor in weights:
        if label not in classes:
            known = ", ".join(list(classes)[:10]) + (", ..." if len(classes) > 10 else "")
            raise CommandError(f"{path}: --weight names class {label!r}, which no row has; there are {known}")
        if not 0 <= factor < float("inf"):
            raise UsageError(f"--weight {label}={factor:g}: must be a finite number of at least 0")
    model.set_params(class_weight={classes[label]: factor for label, factor in weights})
    if model.formulation == "one_vs_rest" and not hasattr(model, "kernel") and len(classes) > 2:
        terminal.note(
            "the weight of a class counts for its rows in the machines of all classes; LIBLINEAR's -wi with -s 1, 2 "
            "and 3 counts in the machine of that class alone"
        )


def describe(model: Any) -> str:
    """A machine in a few words."""
    if hasattr(model, "kernel"):
        kind = f"{model.kernel} kernel"
        gamma = getattr(model, "gamma_", None)
        kind += f", gamma = {gamma:g}" if gamma is not None else ""
    else:
        kind = f"linear, {model.loss.replace('_', ' ')}"
    return f"{model.formulation}, {kind}, C = {model.C:g}"


def parameters(model: Any) -> dict[str, Any]:
    """What a machine was trained with, for JSON."""
    left_out = ("verbose", "callbacks", "warm_start", "checkpoint", "checkpoint_every")
    return {name: value for name, value in model.get_params(deep=False).items() if name not in left_out}


def train_command(args: Any, best: dict[str, float]) -> str:
    """The command line that trains DATA with the options of ``args`` and the parameters that were found best."""
    from multimargin.commands.main import build_parser

    words = ["multimargin", "train", args.data, _name_for(args.data)]
    parser = build_parser().commands["train"]
    found = vars(args) | best
    for action in parser._actions:
        name = action.dest
        if not action.option_strings or name not in found or name.startswith("_") or name in _NOT_OF_THE_WINNER:
            continue
        value = found[name]
        if name in ("folds", "find_C") or (value == action.default and name not in best):
            continue
        option = action.option_strings[-1]
        if action.nargs == 0:
            words.append(option)
        elif name == "weight":
            words += [word for label, factor in value for word in _said(option, f"{label}={factor:g}")]
        elif isinstance(action.default, list) and action.nargs is None:
            words += [word for item in value for word in _said(option, str(item))]
        elif isinstance(value, list | tuple):
            words += [option, *map(str, value)]
        else:
            words += _said(option, f"{value:.6g}" if isinstance(value, float) else str(value))
    return shlex.join(words)


def _said(option: str, value: str) -> list[str]:
    """An option with its value; one that looks like another option needs the sign of equality."""
    return [f"{option}={value}"] if value.startswith("-") else [option, value]


def _name_for(data: str) -> str:
    """The file of a model: that of its data, here, with another suffix."""
    name = os.path.basename(data.removeprefix("@"))
    return (name.split(".")[0] or name) + ".model"
