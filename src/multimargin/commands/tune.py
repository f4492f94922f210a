"""``multimargin tune``: the best C, and gamma of a kernel, by cross-validation."""

from __future__ import annotations

import argparse
import io
from typing import Any

from multimargin.commands.checkpoints import Ending, add_checkpoint_options, check_checkpoint, terminable_work, to_go_on
from multimargin.commands.errors import DONE, INTERRUPTED, UsageError
from multimargin.commands.options import (
    DATA_HELP,
    Parser,
    add_data_options,
    add_machine_options,
    add_output_options,
    command,
    folds,
    positive,
)
from multimargin.commands.output_paths import check_output
from multimargin.commands.signals import exit_code
from multimargin.commands.terminal import Terminal

_ABOUT = """Find the best C, and gamma of a kernel, by cross-validation.

Powers of four first, then smaller steps around the best; every fold learns its own features.
Ends with the command that trains the winner."""
_EXAMPLE = """multimargin tune @iris --folds 5
multimargin tune @iris --kernel rbf --n-jobs -1"""
_SHOWN = 10  # best points of a kernel
_PICTURES = (".png", ".svg", ".pdf")


def add_to(subparsers: Any) -> None:
    """The command's options."""
    parser: Parser = command(subparsers, "tune", run, "DATA [options]", "find the best C (and gamma)", _ABOUT, _EXAMPLE)
    parser.add_argument("data", metavar="DATA", help=DATA_HELP)
    group = parser.add_argument_group("search")
    group.add_argument(
        "-v", "--folds", dest="folds", metavar="N", type=folds, default=5, help="of cross-validation (default: 5)"
    )
    for name in ("C", "gamma"):
        group.add_argument(
            f"--{name}-range",
            dest=f"{name}_range",
            metavar=("LOW", "HIGH"),
            nargs=2,
            type=positive,
            help=f"values of {name} to try (default: by the scale of the data)",
        )
    group.add_argument("--plot", metavar="FILE", help="draw the scores (.png, .svg, .pdf)")
    add_data_options(parser, training=True)
    add_machine_options(parser, C=False)
    add_checkpoint_options(parser, "what the search has found so far")
    add_output_options(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    """Search, print, draw."""
    for name in ("C", "gamma"):
        low, high = getattr(args, f"{name}_range") or (1.0, 1.0)
        if low > high:
            raise UsageError(f"--{name}-range {low:g} {high:g}: LOW is above HIGH")
    if args.gamma_range and args.kernel not in ("rbf", "poly", "sigmoid"):
        raise UsageError("--gamma-range is for kernels with gamma: add --kernel rbf")
    if args.plot:
        check_output(args.plot, apart_from=(args.data,))
        if not args.plot.lower().endswith(_PICTURES):
            raise UsageError(f"--plot {args.plot}: the suffix must be one of {', '.join(_PICTURES)}")
        _check_matplotlib()
    if args.checkpoint is not None:
        check_checkpoint(args.checkpoint, apart_from=(args.data,), outputs=(args.plot or "",))

    from multimargin.commands.machines import machine, set_weights

    model = machine(args, checkpoint=None)  # it is the search's
    from multimargin.commands.datasets import read_training_data
    from multimargin.commands.search import search

    data = read_training_data(args, terminal)
    set_weights(model, args.weight, data.y, data.path, terminal)

    def find(ending: Ending) -> int:
        from multimargin.linear.checkpoint import states_stay

        with states_stay():
            found = search(args, model, data, args.folds, terminal)
            _tell(args, terminal, found)
            if args.plot:
                _draw(found, args.plot)
                terminal.summary(f"plot: {args.plot}")
        if not found.interrupted:
            return DONE
        scored = len(next(iter(found.scores.values())))
        some = "" if scored == args.folds else f", of {scored} of {args.folds} folds"
        why = "terminated" if ending.came else "interrupted"
        terminal.warn(f"{why}: this is the best so far{some}{to_go_on(args, 'search')}")
        return exit_code(ending.came[0]) if ending.came else INTERRUPTED

    return terminable_work(args, terminal, find, "search")


def _tell(args: argparse.Namespace, terminal: Terminal, found: Any) -> None:
    import numpy as np

    from multimargin.commands.machines import train_command
    from multimargin.commands.search import parameters_of
    from multimargin.commands.words import columns, counted, duration

    ranked = found.ranked()
    best = ranked[0]
    kernel = best[1] is not None
    shown = ranked[:_SHOWN] if kernel else sorted(found.scores)
    rows = [
        [
            *(f"{value:.4g}" for value in parameters_of(point).values()),
            f"{found.mean(point):.4f}",
            f"{np.std(found.scores[point]):.4f}",
            "<- best" if point == best else f"{found.short[point]} not converged" if found.short[point] else "",
        ]
        for point in shown
    ]
    terminal.say(columns(["C", *(["gamma"] if kernel else []), "accuracy", "+-", ""], rows, left=0))
    line = train_command(args, found.best)
    more = f"; the best {_SHOWN} of {len(ranked)} are shown" if len(ranked) > len(shown) else ""
    terminal.say(f"\n{counted(found.n_fits, 'fit')} in {args.folds} folds, {duration(found.seconds)}{more}")
    for name in found.at_edge:
        terminal.note(f"the best {name} is the last one tried on its side; widen --{name}-range")
    if found.short[best]:
        terminal.note(f"{found.short[best]} of {args.folds} fits of the best point did not converge; raise --max-iter")
    terminal.say(f"train the winner:\n  {line}")
    terminal.answer(
        {
            "command": "tune",
            "data": args.data,
            "folds": args.folds,
            "fits": found.n_fits,
            "seconds": found.seconds,
            "best": found.best,
            "accuracy": found.best_score,
            "at_edge": found.at_edge,
            "points": [
                parameters_of(point)
                | {"accuracy": found.mean(point), "fold_accuracies": found.scores[point], "short": found.short[point]}
                for point in sorted(found.scores, key=lambda point: (point[1] or 0.0, point[0]))
            ],
            "train": line,
        }
    )


def _check_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ImportError('--plot needs matplotlib: pip install "multimargin[plot]"') from None


def _draw(found: Any, path: str) -> None:
    """The path of C, or the map of C and gamma."""
    import numpy as np
    from matplotlib.figure import Figure

    from multimargin.data.atomic import write_atomically

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    ax = figure.subplots()
    points = sorted(found.scores)
    best = found.ranked()[0]
    if best[1] is None:
        from multimargin.displays import PathDisplay

        scores = np.array([found.scores[point] for point in points]).T
        Cs = np.array([2.0 ** point[0] for point in points])
        PathDisplay(Cs=Cs, scores=scores, C=2.0 ** best[0], score_name="accuracy").plot(ax)
    else:
        Cs, gammas = (np.array([2.0 ** point[i] for point in points]) for i in (0, 1))
        colours = ax.scatter(Cs, gammas, c=[found.mean(point) for point in points], s=110, cmap="viridis")
        ax.scatter([2.0 ** best[0]], [2.0 ** best[1]], s=260, facecolors="none", edgecolors="tab:red", linewidths=2)
        ax.set(xscale="log", yscale="log", xlabel="C", ylabel="gamma", title=f"best: {found.best_score:.4f} (circle)")
        figure.colorbar(colours, label="accuracy, rows held out")
    picture = io.BytesIO()
    figure.savefig(picture, format=path.lower().rsplit(".", 1)[1], dpi=130)
    write_atomically(path, [picture.getvalue()], sync=False)
