"""``multimargin compare``: formulations and solvers side by side."""

from __future__ import annotations

import argparse
from typing import Any

from multimargin.commands.errors import DONE, INTERRUPTED
from multimargin.commands.options import (
    DATA_HELP,
    FORMULATIONS,
    Parser,
    add_data_options,
    add_machine_options,
    add_output_options,
    command,
    share,
)
from multimargin.commands.terminal import Terminal

_ABOUT = """Train every formulation, and the default one by each of the fast solvers (newton, sdm,
accelerated_sdm), on the same rows.

accuracy   on the rows held out
objective  what was minimised: comparable within a formulation only
gap        how far above the optimum that may be, proven; of a peer: by our bound"""
_EXAMPLE = "multimargin compare @iris --peers"
_NEWTON_FEATURES = 1000  # beyond, its matrices take long


def add_to(subparsers: Any) -> None:
    """The command's options."""
    parser: Parser = command(
        subparsers,
        "compare",
        run,
        "DATA [--peers] [options]",
        "train all formulations and solvers side by side",
        _ABOUT,
        _EXAMPLE,
    )
    parser.add_argument("data", metavar="DATA", help=DATA_HELP)
    parser.add_argument("--peers", action="store_true", help="scikit-learn's LinearSVC and SVC, too")
    parser.add_argument(
        "--holdout", metavar="SHARE", type=share, default=0.25, help="share of the rows to judge on (default: 0.25)"
    )
    add_data_options(parser, training=True)
    add_machine_options(parser, formulation=False)
    add_output_options(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    """Train one after the other, and print the table; if it is interrupted, of those that are finished."""
    from multimargin.commands.machines import machine, set_weights

    first = machine(args)
    from multimargin.commands.datasets import read_training_data
    from multimargin.commands.fitting import learn_features, split

    data = read_training_data(args, terminal)
    set_weights(first, args.weight, data.y, data.path, terminal)
    if args.peers and not args.kernel and first.class_weight is not None and len(set(data.y.tolist())) > 2:
        terminal.note(
            "weights of classes in LinearSVC (one_vs_rest) count in the machine of their class alone; in one_vs_rest "
            "they count in all"
        )
    learnt, held_out = split(data, args.holdout, args.seed)
    features, X = learn_features(learnt, args)
    X_out = features(held_out)
    table: list[dict[str, Any]] = []
    runs = _runs(args.kernel, X.shape[1], args.stopping)
    code = DONE
    try:
        for i, (formulation, solver) in enumerate(runs):
            terminal.status(f"{i + 1} of {len(runs)}: {formulation} {solver or ''}", now=True)
            if any((row["machine"], row["solver"]) == (formulation, solver) for row in table):
                continue  # it was chosen by itself
            model = machine(args, formulation=formulation, solver=solver).set_params(class_weight=first.class_weight)
            table.append(_measured(model, X, learnt.y, X_out, held_out.y))
        if args.peers:
            from multimargin.commands.peers import peers

            for name, peer in peers(args, first.class_weight):
                terminal.status(name, now=True)
                table.append(peer(X, learnt.y, X_out, held_out.y, table))
    except KeyboardInterrupt:
        if not table:
            raise
        code = INTERRUPTED
    _tell(args, terminal, table, X.shape, held_out.n_rows)
    if code == INTERRUPTED:
        terminal.warn("interrupted: this is what was finished")
    return code


def _runs(kernel: str | None, n_features: int, stopping: str) -> list[tuple[str, str | None]]:
    """Formulation and solver of every row; None is the solver that is chosen by itself."""
    if kernel:
        return [*((name, "block") for name in FORMULATIONS), ("crammer_singer", "decomposition")]
    solvers = ["sdm", "accelerated_sdm"]
    if n_features <= _NEWTON_FEATURES and stopping == "gap":
        solvers.append("newton")
    return [*((name, None) for name in FORMULATIONS), *(("crammer_singer", solver) for solver in solvers)]


def _measured(model: Any, X: Any, y: Any, X_out: Any, y_out: Any) -> dict[str, Any]:
    from multimargin.commands.fitting import accuracy, fit

    seconds = fit(model, X, y).seconds
    return {
        "machine": model.formulation,
        "solver": str(model.history_["solver"][-1]),
        "seconds": seconds,
        "accuracy": accuracy(model, X_out, y_out),
        "objective": model.primal_objective_,
        "gap": model.dual_gap_,
        "dual_objective": model.dual_objective_,
        "converged": model.converged_,
        "by": "multimargin",
    }


def _tell(args: argparse.Namespace, terminal: Terminal, table: list, shape: tuple, n_out: int) -> None:
    from multimargin.commands.words import columns, counted

    kind = f"{args.kernel} kernel" if args.kernel else f"linear, {args.loss.replace('_', ' ')}"
    terminal.say(
        f"{args.data}: {counted(shape[0], 'row')} to train, {n_out} held out, {counted(shape[1], 'feature')}; "
        f"{kind}, C = {args.C:g}\n"
    )
    rows = [
        [
            row["machine"],
            row["solver"],
            f"{row['seconds']:.3f}",
            f"{row['accuracy']:.4f}",
            "-" if row["objective"] is None else f"{row['objective']:.6g}",
            "-" if row["gap"] is None else f"{row['gap']:.1e}",
            "yes" if row["converged"] else "NO",
        ]
        for row in table
    ]
    header = ["machine", "solver", "seconds", "accuracy", "objective", "gap", "converged"]
    terminal.say(columns(header, rows, left=2))
    terminal.answer(
        {
            "command": "compare",
            "data": args.data,
            "rows": shape[0],
            "rows_held_out": n_out,
            "features": shape[1],
            "C": args.C,
            "results": table,
        }
    )
