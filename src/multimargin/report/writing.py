"""write_report: a page about a model, in one file."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from multimargin.data.atomic import checked_target, write_atomically
from multimargin.displays.confusion_pairs import ConfusedPairs, confused_pairs
from multimargin.displays.convergence import ConvergenceDisplay
from multimargin.displays.path import PathDisplay
from multimargin.report import numbers
from multimargin.report.calibration import calibration
from multimargin.report.certificate import NAMES, above_optimum, certificate, kind, warning
from multimargin.report.doubts import doubts
from multimargin.report.evidence import evidence
from multimargin.report.judgement import Judgement, judge
from multimargin.report.plots import svg
from multimargin.report.provenance import parameters, versions
from multimargin.report.rows import feature_names_of, rows_to_show

_MOST_OF_MATRIX = 20  # classes
_MOST_PAIRS = 12


def write_report(
    model: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    feature_names: Sequence[Any] | None = None,
    rows: Sequence[Any] | None = None,
    title: str | None = None,
) -> None:
    """Write a report about a trained model: one HTML file that needs nothing else.

    It has the certificate in words, accuracy, a table of the classes, the convergence, what is confused, what speaks
    for and against each class, the most doubtful labels, calibration (of a model with probabilities), parameters and
    versions.

    Parameters
    ----------
    model : LinearSVM, LinearSVMCV, KernelSVM, or Pipeline that ends in one
        Fitted.
    X, y : rows and labels to judge the model on
        For a Pipeline what its first step takes. When they are the rows of training, in their order, which is found out
        by comparing them with the duals, doubtful labels come from the duals; otherwise from the margins.
    path : str or path
        The file, replaced if it is there, whole or not at all.
    feature_names : sequence of str or None
        Names of the features that the machine sees; None asks the Pipeline and the machine.
    rows : sequence of str or None
        The rows as text, to show the doubtful ones. None shows texts if a Pipeline reads texts, else the features.
    title : str or None
        Of the page.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_iris
    >>> from multimargin import LinearSVM
    >>> from multimargin.report import write_report
    >>> iris = load_iris()
    >>> model = LinearSVM().fit(iris.data, iris.target)
    >>> with TemporaryDirectory() as directory:
    ...     path = Path(directory) / "report.html"
    ...     write_report(model, iris.data, iris.target, path, feature_names=iris.feature_names)
    ...     "petal width" in path.read_text(encoding="utf-8")
    True
    """
    page = _template()
    target = checked_target(path)
    judged = judge(model, X, y)
    names = feature_names_of(model, judged.machine, judged.X.shape[1], feature_names)
    shown = rows_to_show(model, X, judged.X, names, rows)
    doubtful, by_duals = doubts(judged, shown)
    pairs = confused_pairs(judged.classes[judged.true], judged.classes[judged.said])
    calibrated = calibration(judged)
    script = page.environment.get_template("page.js").render()
    text = page.render(
        title=title or _title(judged),
        subtitle=_subtitle(judged),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        certificate=certificate(judged.machine),
        warning=warning(judged.machine),
        facts=_facts(judged),
        on_training_rows=judged.on_training_rows,
        n_unknown=int(judged.n_classes - len(judged.known)),
        judged=judged,
        labels=[str(label) for label in judged.classes.tolist()],
        order_of_classes=np.argsort(np.nan_to_num(judged.f1, nan=np.inf), kind="stable").tolist(),
        convergence=_convergence_plot(judged.machine),
        path=_path_plot(judged.machine),
        pairs=_pairs(pairs),
        n_pairs=len(pairs.pairs),
        matrix=_matrix(judged) if judged.n_classes <= _MOST_OF_MATRIX else None,
        most_of_matrix=_MOST_OF_MATRIX,
        evidence=evidence(judged, names, shown),
        linear=hasattr(judged.machine, "coef_"),
        doubts=doubtful,
        by_duals=by_duals,
        calibration=calibrated,
        calibration_plot=calibrated and svg(calibrated.plot, "calibration", _CALIBRATION_IN_WORDS),
        parameters=parameters(model),
        versions=versions(),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    write_atomically(target, [text.encode()])


_CALIBRATION_IN_WORDS = "Share of right answers against the probability that the model gave them; ideal is the diagonal"


def _template() -> Any:
    try:
        import jinja2
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(f'the report needs {error.name}: pip install "multimargin[plot]"') from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("multimargin.report", "page"),
        autoescape=True,  # all that comes from data
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": numbers.percent, "rounded": numbers.rounded}
    return environment.get_template("page.html")


def _title(judged: Judgement) -> str:
    return f"A {NAMES[judged.machine.formulation]} machine for {len(judged.machine.classes_):,} classes"


def _subtitle(judged: Judgement) -> str:
    machine = judged.machine
    loss = machine.loss.replace("_", " ")
    # A model that was trained elsewhere does not say by which C.
    C = f", C = {machine.C:.6g}" if hasattr(machine, "dual_gap_") else ""
    return f"{kind(machine).capitalize()}, {loss} loss{C}, {judged.X.shape[1]:,} features"


def _facts(judged: Judgement) -> list[tuple[str, str, str]]:
    """Name, value and remark of the numbers that one looks for first."""
    machine: Any = judged.machine
    n_rows, n_right = len(judged.true), int(judged.right.sum())
    facts = [
        ("Accuracy", numbers.percent(judged.accuracy), f"{n_right:,} of {n_rows:,} rows"),
        ("Balanced accuracy", numbers.percent(judged.balanced_accuracy), "mean recall of the classes"),
    ]
    gap = getattr(machine, "dual_gap_", np.nan)
    if np.isfinite(above := above_optimum(gap)):
        facts.append(("Above the optimum", f"≤\u202f{numbers.percent_at_most(above)}", "proven by the duality gap"))
    if hasattr(machine, "support_"):
        n_trained = machine.dual_coef_.shape[0] if hasattr(machine, "dual_coef_") else None
        remark = f"of {n_trained:,} rows of training" if n_trained else "rows of training"
        facts.append(("Support vectors", f"{len(machine.support_):,}", remark))
    if len(getattr(machine, "history_", ())):
        remark = f"{machine.n_iter_:,} epochs, {machine.history_['solver'][0]}"
        facts.append(("Training", numbers.seconds(float(machine.history_["seconds"].max())), remark))
    return facts


def _convergence_plot(machine: Any) -> str | None:
    if not len(getattr(machine, "history_", ())):
        return None
    description = (
        f"Relative duality gap and violation of optimality during training, on a logarithmic scale; "
        f"the last certified gap is {machine.dual_gap_:.2g}, the target {machine.tol:g}"
    )
    return svg(lambda ax: ConvergenceDisplay.from_estimator(machine, ax=ax), "convergence", description)


def _path_plot(machine: Any) -> str | None:
    if not hasattr(machine, "scores_"):
        return None
    description = f"Mean score of the folds against C; the best is {machine.best_score_:.4g} at C = {machine.C_:.4g}"
    return svg(lambda ax: PathDisplay.from_estimator(machine, ax=ax), "path", description)


def _pairs(found: ConfusedPairs) -> list[dict[str, Any]]:
    most = max(1, int(found.counts[:_MOST_PAIRS].max(initial=1)))
    listed = []
    for pair, counts in zip(found.pairs[:_MOST_PAIRS], found.counts[:_MOST_PAIRS], strict=True):
        sides = [
            {"count": int(count), "share": count / max(1, found.support[label]), "width": 100 * count / most}
            for label, count in zip(pair, counts, strict=True)
        ]
        listed.append({"labels": [str(label) for label in found.classes[pair]], "sides": sides})
    return listed


def _matrix(judged: Judgement) -> list[list[dict[str, Any]]]:
    """Counts, and how dark they are: the share of the class's rows; errors relative to the largest of them."""
    k = judged.n_classes
    counts = np.bincount(judged.true * k + judged.said, minlength=k * k).reshape(k, k)
    share = counts / np.maximum(judged.support, 1)[:, None]
    largest = max(share[~np.eye(k, dtype=bool)].max(initial=0.0), 1e-300)
    return [
        [
            {"count": int(counts[i, j]), "shade": 100 * float(share[i, j] / (1 if i == j else largest)), "own": i == j}
            for j in range(k)
        ]
        for i in range(k)
    ]
