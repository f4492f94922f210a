"""``multimargin demo``: every formulation on digits that scikit-learn brings along, and a report."""

from __future__ import annotations

import argparse
from typing import Any

from multimargin.commands.errors import DONE
from multimargin.commands.options import Parser, add_output_options, command
from multimargin.commands.output_paths import check_output
from multimargin.commands.terminal import Terminal

_ABOUT = """Train all formulations on the digits that scikit-learn brings along (1797 images of 8 x 8 pixels), print
what every training proved, and write a report about the first one."""
_EXAMPLE = "multimargin demo --report digits.html"
_RUNS = (
    ("crammer_singer", "hinge"),
    ("crammer_singer", "squared_hinge"),
    ("weston_watkins", "hinge"),
    ("one_vs_rest", "hinge"),
    ("one_vs_one", "hinge"),
    ("dag", "hinge"),
)
_REPORT = "report.html"
_HEADER = ("formulation", "loss", "solver", "accuracy", "epochs", "seconds", "relative gap", "converged")


def add_to(subparsers: Any) -> None:
    """The command's options."""
    parser: Parser = command(
        subparsers, "demo", run, "[--report FILE] [options]", "train all formulations on bundled data", _ABOUT, _EXAMPLE
    )
    parser.add_argument("--report", metavar="FILE", default=_REPORT, help=f"report to write (default: {_REPORT})")
    add_output_options(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    """Train, print, report."""
    check_output(args.report, replaces="report")
    from sklearn.model_selection import train_test_split

    from multimargin.commands.fitting import accuracy, fit
    from multimargin.commands.words import columns
    from multimargin.data.bundled import load_bundled
    from multimargin.estimators.linear_svm import LinearSVM

    X, y = load_bundled("digits")
    X, X_out, y, y_out = train_test_split(X, y, test_size=0.25, random_state=0, stratify=y)
    terminal.say(
        f"scikit-learn's digits: {len(X)} rows to train, {len(X_out)} held out, {X.shape[1]} features, "
        f"{len(set(y.tolist()))} classes; C = 1, one thread\n"
    )
    models, results = [], []
    for formulation, loss in _RUNS:
        terminal.status(f"training {formulation}, {loss}", now=True)
        model = LinearSVM(formulation, loss)
        seconds = fit(model, X, y).seconds
        models.append(model)
        results.append(
            {
                "formulation": formulation,
                "loss": loss,
                "solver": str(model.history_["solver"][-1]),
                "accuracy": accuracy(model, X_out, y_out),
                "epochs": model.n_iter_,
                "seconds": seconds,
                "gap": model.dual_gap_,
                "converged": model.converged_,
            }
        )
    rows = [
        [
            *(result[name] for name in ("formulation", "loss", "solver")),
            f"{result['accuracy']:.4f}",
            str(result["epochs"]),
            f"{result['seconds']:.2f}",
            f"{result['gap']:.1e}",
            "yes" if result["converged"] else "NO",
        ]
        for result in results
    ]
    terminal.say(columns(_HEADER, rows, left=3))
    terminal.say(f"""
accuracy      on the rows held out
epochs        passes over the training rows (newton: steps); of the longest one of several machines
relative gap  proof: no machine of its kind has an objective lower than this one by more than this share
converged     every class or pair that is a problem of its own has a relative gap of at most {models[0].tol:g}
""")
    report = _report(args.report, models[0], X_out, y_out, terminal)
    if report:
        terminal.summary(f"report: {report}")
    terminal.summary("try next: multimargin train @digits digits.model --kernel rbf --holdout 0.25")
    terminal.answer(
        {"command": "demo", "rows": len(X), "rows_held_out": len(X_out), "results": results, "report": report}
    )
    return DONE


def _report(path: str, model: Any, X: Any, y: Any, terminal: Terminal) -> str | None:
    """Written, unless the libraries for it are missing: the table is the larger part of the demo."""
    terminal.status(f"writing {path}", now=True)
    try:
        from multimargin.report import write_report

        write_report(model, X, y, path, title="The demo: digits")
    except ImportError as error:
        terminal.note(f"no report: {error}")
        return None
    return path
