"""``multimargin predict``: labels, probabilities or the best few classes of every row."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from multimargin.commands.errors import DONE, CommandError, UsageError
from multimargin.commands.options import DATA_HELP, Parser, add_data_options, add_output_options, command, count
from multimargin.commands.terminal import CONTROL_CHARACTERS, Terminal, check_output

_ABOUT = """Predict the label of every row of DATA by the model in MODEL, one a line, into OUT (- is stdout).

--proba   a header with the classes, then label and probabilities, separated by tabs
--top N   the N best classes of a row, each followed by its score (or probability, with --proba);
          with --json and OUT -: "top", pairs of class and score

Where DATA has labels (a table: with --label), the accuracy is said, too."""
_EXAMPLE = """multimargin train @digits digits.model
multimargin predict @digits digits.model labels.txt
multimargin predict @digits digits.model - --top 3"""
_ESCAPES = CONTROL_CHARACTERS | {ord(c): e for c, e in {"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"}.items()}


def add_to(subparsers: Any) -> None:
    """The command's options."""
    parser: Parser = command(
        subparsers, "predict", run, "DATA MODEL OUT [options]", "predict labels or probabilities", _ABOUT, _EXAMPLE
    )
    parser.add_argument("data", metavar="DATA", help=DATA_HELP)
    parser.add_argument("model", metavar="MODEL", help="file that train wrote, or a model of LIBLINEAR or LIBSVM")
    parser.add_argument("out", metavar="OUT", nargs="?", default="-", help="file to write (default: -, stdout)")
    parser.add_argument("--proba", action="store_true", help="probabilities (of a model trained with --probability)")
    parser.add_argument("--top", metavar="N", type=count, help="the N best classes with their scores")
    add_data_options(parser, training=False)
    add_output_options(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    """Load, read, predict, write."""
    if args.out != "-":
        check_output(args.out, apart_from=(args.data, args.model))
    model = _load(args.model)

    from multimargin.data.atomic import write_atomically
    from multimargin.data.tables import columns_of, n_features_of

    columns = columns_of(model)
    machine = model
    while hasattr(machine, "steps"):
        machine = machine.steps[-1][1]
    if args.proba and getattr(machine, "calibration_", None) is None:
        raise UsageError(f"--proba: {args.model} has no probabilities; train it with --probability")
    data = _read(args, terminal, columns, None if columns is not None else n_features_of(model))
    if hasattr(data.X, "to_scipy") and hasattr(model, "get_params"):  # an estimator, which is not light
        data.X = data.X.to_scipy()
    labels, values = _predict(model, machine, data, args)
    accuracy, remark = _accuracy(labels, data.y, machine.classes_)

    if args.out == "-" and not args.json:
        terminal.clear()
        sys.stdout.writelines(_lines(labels, values, machine.classes_, args))
        sys.stdout.flush()
    elif args.out != "-":
        lines = _lines(labels, values, machine.classes_, args)
        write_atomically(args.out, (line.encode() for line in lines), sync=False)
        terminal.summary(f"{len(labels)} labels: {args.out}")
    if accuracy is not None:
        _said(terminal, args.out, f"accuracy: {accuracy:.4f} ({round(accuracy * len(labels))} of {len(labels)} rows)")
    elif remark:
        terminal.note(remark)
    terminal.answer(_answer(args, labels, values, machine.classes_, accuracy))
    return DONE


def _said(terminal: Terminal, out: str, text: str) -> None:
    """Beside the labels on stdout, the accuracy goes to stderr."""
    if out != "-":
        terminal.summary(text)
    elif not terminal.quiet and not terminal.as_json:
        print(text, file=sys.stderr)


def _load(path: str) -> Any:
    """A model; a linear one of ours without scikit-learn, whose import takes longer than most predictions."""
    from multimargin.commands.model_files import kind_of, load_model

    if kind_of(path) != "multimargin":
        return load_model(path)
    from multimargin.models.light import load_to_predict

    return load_to_predict(path)


def _read(args: argparse.Namespace, terminal: Terminal, columns: Any, n_features: Any) -> Any:
    """The rows. svmlight text may have features that the model does not know, and numbers of any kind as labels:
    LIBLINEAR predicts it all the same."""
    from multimargin.commands.datasets import Dataset, format_of, read_more_data

    of_tables = columns is not None or any(getattr(args, option, None) for option in ("label", "text"))
    if of_tables or format_of(args.data, args.format) != "svmlight":
        return read_more_data(args.data, args, terminal, columns=columns, n_features=n_features, kind=args.format)
    import numpy as np

    from multimargin.commands.words import counted
    from multimargin.data.svmlight import read_svmlight_rows

    terminal.status(f"reading {args.data}", now=True)
    based: Any = {"auto": "auto", "yes": True, "no": False}[args.zero_based]
    try:
        X, y = read_svmlight_rows(args.data, zero_based=based)
    except ValueError as error:
        raise CommandError(str(error)) from None
    unknown = len(np.unique(X.indices[X.indices >= n_features]))
    if unknown:
        left_out = (
            f"{counted(unknown, 'feature')} that the model does not know {'is' if unknown == 1 else 'are'} left out"
        )
        terminal.note(f"{args.data}: {left_out}; the model has {n_features}")
    X = X.first_columns(n_features)
    whole = (np.abs(y) < 2**53) & (y == np.trunc(y))
    if not whole.all():
        row = int(whole.argmin())
        terminal.note(f"{args.data}: row {row + 1}: the label is {y[row]:g}, no whole number: no accuracy")
    return Dataset(args.data, X, y.astype(np.int64) if whole.all() else None)


def _predict(model: Any, machine: Any, data: Any, args: argparse.Namespace) -> tuple[Any, Any]:
    """Labels, and what is asked for beside: probabilities of every class, or the best ones and their values."""
    from multimargin.estimators.top_classes import with_best

    try:
        if args.proba:
            values = model.predict_proba(data.X)
            return machine.classes_[values.argmax(axis=1)], values if args.top is None else with_best(values, args.top)
        if args.top is None:
            return model.predict(data.X), None
        X, last = data.X, model
        while last is not machine:
            X = last[:-1].transform(X) if len(last) > 1 else X
            last = last[-1]
        ranked = machine._best_classes(X, min(args.top, len(machine.classes_)))
    except ValueError as error:
        raise CommandError(f"{data.path}: {error}") from None
    return machine.classes_[ranked[0][:, 0]], ranked


def _accuracy(labels: Any, y: Any, classes: Any) -> tuple[float | None, str]:
    """The share of labels that are right, or why that cannot be said."""
    import numpy as np

    from multimargin.data.tables import labels_as

    if y is None or not len(y):
        return None, ""
    y = labels_as(classes, y)
    if not np.isin(y, classes).any():
        return None, "no label of the data is a class of the model: no accuracy"
    return float(np.mean(labels == y)), ""


def _lines(labels: Any, values: Any, classes: Any, args: argparse.Namespace) -> Any:
    names = [_label(name) for name in classes.tolist()]
    if args.top is not None:
        for first, scores in zip(*values, strict=True):
            yield "\t".join(f"{names[j]}\t{score:.6g}" for j, score in zip(first, scores, strict=True)) + "\n"
    elif args.proba:
        yield "\t".join(["label", *names]) + "\n"
        for label, row in zip(labels.tolist(), values.tolist(), strict=True):
            yield "\t".join([_label(label), *(f"{value:.6g}" for value in row)]) + "\n"
    else:
        for label in labels.tolist():
            yield _label(label) + "\n"


def _label(label: Any) -> str:
    """A label as it stands in the data; what would break the line, or a terminal would obey, is escaped."""
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label).translate(_ESCAPES)


def _answer(args: argparse.Namespace, labels: Any, values: Any, classes: Any, accuracy: float | None) -> dict[str, Any]:
    result: dict[str, Any] = {
        "command": "predict",
        "data": args.data,
        "model": args.model,
        "out": args.out,
        "rows": len(labels),
        "classes": classes,
        "accuracy": accuracy,
    }
    if args.out == "-":
        result["labels"] = labels
        if args.top is not None:
            names = classes.tolist()
            rows = zip(values[0].tolist(), values[1].tolist(), strict=True)
            result["top"] = [[[names[j], score] for j, score in zip(*row, strict=True)] for row in rows]
        elif args.proba:
            result["probabilities"] = values
    return result
