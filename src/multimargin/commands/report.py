"""``multimargin report``: one HTML file about a model."""

from __future__ import annotations

import argparse
from typing import Any

from multimargin.commands.errors import DONE, CommandError
from multimargin.commands.options import DATA_HELP, Parser, add_data_options, add_output_options, command
from multimargin.commands.output_paths import check_output
from multimargin.commands.terminal import Terminal, file_size

_ABOUT = """Write a report about MODEL, judged on DATA, as one HTML file that needs no network.

The certificate in words, convergence, confusions, what speaks for and against each class, doubtful labels."""
_EXAMPLE = """multimargin train @digits digits.model
multimargin report digits.model @digits digits.html"""


def add_to(subparsers: Any) -> None:
    """The command's options."""
    parser: Parser = command(
        subparsers,
        "report",
        run,
        "MODEL DATA OUT.html [options]",
        "write an HTML report about a model",
        _ABOUT,
        _EXAMPLE,
    )
    parser.add_argument("model", metavar="MODEL", help="file that train wrote")
    parser.add_argument("data", metavar="DATA", help=DATA_HELP + "; with labels")
    parser.add_argument("out", metavar="OUT.html", help="file to write")
    parser.add_argument("--title", metavar="TEXT", help="of the report")
    add_data_options(parser, training=False)
    add_output_options(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    """Load, read, write."""
    check_output(args.out, apart_from=(args.data, args.model), replaces="report")
    from multimargin.commands.model_files import check_model_file, load_model

    check_model_file(args.model)
    from multimargin.report import write_report

    model = load_model(args.model)
    from multimargin.commands.datasets import based_as, read_more_data
    from multimargin.data.table_features import columns_of, n_features_of
    from multimargin.data.tables import labels_as, rows_as_text

    columns = columns_of(model)
    n_features = None if columns is not None else n_features_of(model)
    based = based_as(model, args)
    data = read_more_data(
        args.data, args, terminal, columns=columns, n_features=n_features, kind=args.format, zero_based=based
    )
    if data.y is None:
        how = "say --label COL" if columns is not None else "array y"
        raise CommandError(f"{args.data}: a report needs the labels of the rows ({how})")
    labels = labels_as(model.classes_, data.y)
    if labels.dtype.kind == "O" and model.classes_.dtype.kind != "O":
        row = next(i for i, label in enumerate(labels.tolist()) if isinstance(label, str))
        raise CommandError(
            f"{args.data}: row {row + 1}: the label is {labels[row]!r}, while the classes of the model are numbers"
        )
    terminal.status(f"writing {args.out}", now=True)
    rows = rows_as_text(data.X, columns) if columns is not None else None
    try:
        write_report(model, data.X, labels, args.out, rows=rows, title=args.title)
    except ValueError as error:
        raise CommandError(f"{args.data}: {error}") from None
    terminal.summary(f"report: {args.out}, {file_size(args.out)}")
    terminal.answer(
        {"command": "report", "model": args.model, "data": args.data, "rows": data.n_rows, "report": args.out}
    )
    return DONE
