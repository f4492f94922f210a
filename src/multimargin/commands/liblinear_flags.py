"""LIBLINEAR's short flags as other names of our options."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

# Its solver types that are machines of ours: formulation and loss.
TYPES = {
    1: ("one_vs_rest", "squared_hinge"),
    2: ("one_vs_rest", "squared_hinge"),
    3: ("one_vs_rest", "hinge"),
    4: ("crammer_singer", "hinge"),
}
# And those that are not: what they are, and who does that.
_ELSEWHERE = {
    0: ("logistic regression", "sklearn.linear_model.LogisticRegression"),
    5: ("an l1 penalty", "sklearn.svm.LinearSVC(penalty='l1', dual=False)"),
    6: ("logistic regression with an l1 penalty", "sklearn.linear_model.LogisticRegression(penalty='l1')"),
    7: ("logistic regression", "sklearn.linear_model.LogisticRegression"),
    11: ("regression", "sklearn.svm.LinearSVR"),
    12: ("regression", "sklearn.svm.LinearSVR"),
    13: ("regression", "sklearn.svm.LinearSVR"),
    21: ("a one-class machine", "sklearn.svm.OneClassSVM"),
}
_WEIGHT = re.compile(r"-w(?P<label>[^=].*)", re.DOTALL)


def with_weights_in_words(argv: Sequence[str]) -> list[str]:
    """``-w1 0.5`` becomes ``--weight=1=0.5``: argparse has no flags with a label inside."""
    words: list[str] = []
    rest = iter(argv)
    for word in rest:
        weight = _WEIGHT.fullmatch(word)
        if not weight or "--" in words:
            words.append(word)
            continue
        value = next(rest, None)  # if there is none, argparse says so
        words.append("--weight" if value is None else f"--weight={weight['label']}={value}")
    return words


class SolverType(argparse.Action):
    """``-s``: formulation and loss in one number."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: Any = None) -> None:
        if values in _ELSEWHERE:
            what, who = _ELSEWHERE[values]
            parser.error(f"-s {values} is {what}, which is not done here; {who} does it")
        if values not in TYPES:
            parser.error(f"-s {values} is no solver type; those done here are 1, 2, 3 and 4, see --help")
        namespace.formulation, namespace.loss = TYPES[values]


class Epsilon(argparse.Action):
    """``-e``: a tolerance for the violation of optimality, not for the gap."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: Any = None) -> None:
        namespace.tol, namespace.stopping = values, "violation"


class Bias(argparse.Action):
    """``-B``: the value of the constant feature; without one, if it is negative (or 0, which is no feature)."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: Any = None) -> None:
        namespace.fit_intercept = values > 0
        if values > 0:
            namespace.intercept_scaling = values
