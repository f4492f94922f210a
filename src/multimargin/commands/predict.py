"""``multimargin predict``: labels, probabilities or the best few classes of every row."""

from __future__ import annotations

import argparse
from typing import Any

from multimargin.commands.errors import DONE, CommandError, UsageError
from multimargin.commands.options import DATA_HELP, Parser, add_data_options, add_output_options, command, count
from multimargin.commands.output_paths import check_output
from multimargin.commands.terminal import CONTROL_CHARACTERS, Terminal, tell

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
    from multimargin.data.table_features import columns_of

    columns = columns_of(model)
    machine = model
    while hasattr(machine, "steps"):
        machine = machine.steps[-1][1]
    if args.proba and getattr(machine, "calibration_", None) is None:
        raise UsageError(f"--proba: {args.model} has no probabilities; train it with --probability")
    told = _Told(machine.classes_, keeps=args.out == "-" and args.json)
    lines = _lines(
        _predicted(model, machine, _read(args, terminal, columns, model), args, told), machine.classes_, args
    )

    if args.out != "-":
        write_atomically(args.out, (line.encode() for line in lines), sync=False)
        terminal.summary(f"{told.rows} labels: {args.out}")
    elif args.json:
        for _ in lines:  # they are in the answer
            pass
    else:
        terminal.write(lines)
    if told.accuracy is not None:
        _said(terminal, args.out, f"accuracy: {told.accuracy:.4f} ({told.right} of {told.rows} rows)")
    elif told.labelled:
        terminal.note("no label of the data is a class of the model: no accuracy")
    terminal.answer(_answer(args, told))
    return DONE


class _Told:
    """What is said of all predictions, which come part by part."""

    def __init__(self, classes: Any, *, keeps: bool):
        self.classes, self.keeps = classes, keeps
        self.rows = self.right = 0
        self.labelled = self.known = False
        self.labels: list[Any] = []  # and values, of the parts: if they are kept
        self.values: list[Any] = []

    def add(self, labels: Any, values: Any, y: Any) -> None:
        """Count a part."""
        import numpy as np

        from multimargin.data.tables import labels_as

        self.rows += len(labels)
        if self.keeps:
            self.labels.append(labels)
            self.values.append(values)
        if y is None or not len(y):
            return
        y = labels_as(self.classes, y)
        self.labelled = True
        self.known = self.known or bool(np.isin(y, self.classes).any())
        self.right += int(np.sum(labels == y))

    @property
    def accuracy(self) -> float | None:
        """The share of labels that are right, where any can be."""
        return self.right / self.rows if self.known else None


def _predicted(model: Any, machine: Any, parts: Any, args: argparse.Namespace, told: _Told) -> Any:
    """Labels and values of the parts."""
    for data in parts:
        if hasattr(data.X, "to_scipy") and hasattr(model, "get_params"):  # an estimator, which is not light
            data.X = data.X.to_scipy()
        labels, values = _predict(model, machine, data, args)
        told.add(labels, values, data.y)
        yield labels, values


def _said(terminal: Terminal, out: str, text: str) -> None:
    """Beside the labels on stdout, the accuracy goes to stderr."""
    if out != "-":
        terminal.summary(text)
    elif not terminal.quiet and not terminal.as_json:
        tell(text)


def _load(path: str) -> Any:
    """A model; a linear one of ours without scikit-learn, whose import takes longer than most predictions."""
    from multimargin.commands.model_files import kind_of, load_model, model_file

    with model_file(path) as there:
        if kind_of(there) != "multimargin":
            return load_model(there)
        from multimargin.models.light import load_to_predict

        return load_to_predict(there)


def _read(args: argparse.Namespace, terminal: Terminal, columns: Any, model: Any) -> Any:
    """The rows, in parts: the blocks of a store, else all of them."""
    from multimargin.commands.datasets import based_as
    from multimargin.commands.stored_rows import datasets_of, is_store
    from multimargin.data.table_features import n_features_of, unfamiliar

    n_features = None if columns is not None else n_features_of(model)
    if n_features is None or not is_store(args.data):
        data = _read_whole(args, terminal, columns, n_features, based_as(model, args))
        for word in unfamiliar(model, data.X) if columns is not None and hasattr(data.X, "columns") else ():
            terminal.note(f"{args.data}: {word}")
        return [data]
    return datasets_of(args.data, n_features, terminal)


def _read_whole(args: argparse.Namespace, terminal: Terminal, columns: Any, n_features: Any, based: Any) -> Any:
    """svmlight text may have features that the model does not know, and numbers of any kind as labels:
    LIBLINEAR predicts it all the same."""
    from multimargin.commands.datasets import Dataset, format_of, read_more_data

    of_tables = columns is not None or any(getattr(args, option, None) for option in ("label", "text"))
    if of_tables or format_of(args.data, args.format) != "svmlight":
        return read_more_data(args.data, args, terminal, columns=columns, n_features=n_features, kind=args.format)
    import numpy as np

    from multimargin.commands.words import counted
    from multimargin.data.svmlight import read_svmlight_rows

    terminal.status(f"reading {args.data}", now=True)
    try:
        X, y = read_svmlight_rows(args.data, zero_based=based, n_jobs=-1)
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


def _lines(predicted: Any, classes: Any, args: argparse.Namespace) -> Any:
    names = [_label(name) for name in classes.tolist()]
    header = args.proba and args.top is None
    for labels, values in predicted:
        if header:  # not before the first rows: they may be refused
            yield "\t".join(["label", *names]) + "\n"
            header = False
        if args.top is not None:
            for best, scores in zip(*values, strict=True):
                yield "\t".join(f"{names[j]}\t{score:.6g}" for j, score in zip(best, scores, strict=True)) + "\n"
        elif args.proba:
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


def _answer(args: argparse.Namespace, told: _Told) -> dict[str, Any]:
    result: dict[str, Any] = {
        "command": "predict",
        "data": args.data,
        "model": args.model,
        "out": args.out,
        "rows": told.rows,
        "classes": told.classes,
        "accuracy": told.accuracy,
    }
    if told.keeps:
        import numpy as np

        result["labels"] = np.concatenate(told.labels)
        if args.top is not None:
            names = told.classes.tolist()
            best, scores = (np.concatenate(part).tolist() for part in zip(*told.values, strict=True))
            rows = zip(best, scores, strict=True)
            result["top"] = [[[names[j], score] for j, score in zip(*row, strict=True)] for row in rows]
        elif args.proba:
            result["probabilities"] = np.concatenate(told.values)
    return result
