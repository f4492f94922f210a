"""The certificate in words."""

from __future__ import annotations

from typing import Any

from numpy import isfinite

from multimargin.estimators.claims import above_optimum
from multimargin.problems.formulations import JOINT, PAIRWISE
from multimargin.report.numbers import bounds, percent_at_most, rounded

NAMES = {
    "crammer_singer": "Crammer-Singer",
    "weston_watkins": "Weston-Watkins",
    "one_vs_rest": "one-vs-rest",
    "one_vs_one": "one-vs-one",
    "dag": "decision-graph (DAG)",
}


def kind(machine: Any) -> str:
    """ "linear machine", "machine with rbf kernel"."""
    kernel = getattr(machine, "kernel", None)
    if kernel is None:
        return "linear machine"
    return f"machine with {kernel} kernel" if isinstance(kernel, str) else "machine with a kernel of its own"


def certificate(machine: Any) -> list[str]:
    """Sentences: what is proven about a trained model."""
    primal, dual = (getattr(machine, name, None) for name in ("primal_objective_", "dual_objective_"))
    if primal is None or dual is None:
        return ["There is no certificate: this model learnt from a stream, or was read from a file that has none."]
    if not isfinite(primal) or not isfinite(dual):
        return ["There is no certificate: training was interrupted before the model could be certified."]
    low, high = bounds(dual, primal)
    rivals = "machine of this kind, with this kernel," if hasattr(machine, "kernel") else "linear machine of this kind"
    said = [f"No {rivals} can have an objective below {low} on the rows of training."]
    above = above_optimum(machine.dual_gap_)
    if isfinite(above):
        said.append(f"This one has {high}, which is at most {percent_at_most(above)} above the best there is.")
    else:
        said.append(f"This one has {high}; the bound is too weak to say how far that is above the best there is.")
    n_machines = _n_machines(machine)
    if n_machines > 1 and isfinite(worst := above_optimum(machine.worst_gap_)):
        said.append(
            f"It consists of {n_machines:,} machines, each certified by itself: the worst is at most "
            f"{percent_at_most(worst)} above its own optimum."
        )
    return said


def warning(machine: Any) -> str | None:
    """What to say of a model that missed its target."""
    if getattr(machine, "converged_", True):
        return None
    target = "violation" if machine.stopping == "violation" else "gap"
    return (
        f"Training stopped before the target {target} of {rounded(machine.tol, 2)} was reached. The bounds above hold "
        "all the same. To get closer: scale the features, raise max_iter or time_limit, or lower C."
    )


def _n_machines(machine: Any) -> int:
    k = len(machine.classes_)
    if k == 2 or machine.formulation in JOINT:
        return 1
    return k * (k - 1) // 2 if machine.formulation in PAIRWISE else k
