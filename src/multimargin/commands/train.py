"""``multimargin train``: from data to a model file, with the certificate in words."""

from __future__ import annotations

import argparse
import shlex
from functools import partial
from typing import TYPE_CHECKING, Any

from multimargin.commands.checkpoints import (
    Ending,
    add_checkpoint_options,
    check_checkpoint,
    has_checkpoint,
    note_going_on,
    terminable_work,
    to_go_on,
)
from multimargin.commands.errors import DONE, INTERRUPTED, NOT_CONVERGED, UsageError
from multimargin.commands.options import (
    DATA_HELP,
    Parser,
    add_data_options,
    add_machine_options,
    add_output_options,
    command,
    folds,
    share,
)
from multimargin.commands.output_paths import check_output
from multimargin.commands.terminal import Terminal, file_size

if TYPE_CHECKING:
    from multimargin.commands.fitting import Fit

_ABOUT = """Train a machine and write it to MODEL.

Every training ends with a certificate: how far the model may be from the optimum, proven.
A table (.csv, .tsv, .parquet) needs --label; its columns become features inside the model."""
_EXAMPLE = """multimargin train @digits digits.model --holdout 0.25
multimargin train @digits digits.model --kernel rbf --C 8 --n-jobs -1"""


def add_to(subparsers: Any) -> None:
    """The command's options."""
    parser: Parser = command(
        subparsers, "train", run, "DATA MODEL [options]", "train a machine and write it to a file", _ABOUT, _EXAMPLE
    )
    parser.add_argument("data", metavar="DATA", help=DATA_HELP)
    parser.add_argument("model", metavar="MODEL", nargs="?", help="file to write; not needed with -v")
    add_data_options(parser, training=True)
    add_machine_options(parser, probability=True, blocks=True)
    add_checkpoint_options(parser, "the state of the training")
    group = parser.add_argument_group("judging")
    group.add_argument("--valid", metavar="FILE", help="accuracy on the rows of this file")
    group.add_argument(
        "--holdout", metavar="SHARE", type=share, help="train without this share of the rows; accuracy on those"
    )
    group.add_argument(
        "-v", "--cross-validate", dest="folds", metavar="N", type=folds, help="accuracy in N folds, and no model"
    )
    group.add_argument(
        "-C",
        "--find-C",
        dest="find_C",
        action="store_true",
        help="find C (and gamma of a kernel) by cross-validation first, as the command tune does; -v N sets its folds",
    )
    add_output_options(parser)


def run(args: argparse.Namespace, terminal: Terminal) -> int:
    """Train, judge, write."""
    only_validate = args.folds is not None and not args.find_C
    if args.model is None and args.folds is None and not args.find_C:
        raise UsageError("train: the following arguments are required: MODEL, the file to write")
    if only_validate and (args.model is not None or args.holdout or args.valid):
        raise UsageError("-v only cross-validates: leave out MODEL, --holdout and --valid")
    if args.valid and args.holdout:
        raise UsageError("--valid and --holdout exclude each other")
    if args.model is not None:
        check_output(args.model, apart_from=(args.data, args.valid or ""), replaces="model")
    if args.checkpoint is not None:
        if args.folds is not None or args.find_C:
            raise UsageError("--checkpoint is of one training: leave out -v and -C (tune has one of its search)")
        check_checkpoint(args.checkpoint, apart_from=(args.data, args.valid or ""), outputs=(args.model or "",))

    from multimargin.commands.machines import machine, set_weights
    from multimargin.commands.past_memory import is_past_memory, note_in_memory, table_past_memory, train_on_blocks

    past_memory = is_past_memory(args)
    plain = not past_memory and _needs_no_scikit_learn(args)
    model = machine(args, plain=plain)  # wrong parameters are refused before anything is read
    if past_memory:
        return terminable_work(args, terminal, lambda ending: train_on_blocks(args, model, terminal, ending))
    table, why_table = table_past_memory(args, model, terminal)
    if table is not None:
        return terminable_work(args, terminal, lambda ending: train_on_blocks(args, model, terminal, ending, table))
    note_in_memory(args, terminal, why_table)
    from multimargin.commands.datasets import read_training_data

    data = read_training_data(args, terminal, plain=plain)
    set_weights(model, args.weight, data.y, data.path, terminal)
    _note_keys(data, terminal)
    if only_validate:
        return _cross_validate(args, model, data, terminal)
    if args.find_C:
        _find(args, model, data, terminal)
        if args.model is None:
            return DONE
    return terminable_work(args, terminal, lambda ending: _train(args, model, data, terminal, ending))


def _needs_no_scikit_learn(args: argparse.Namespace) -> bool:
    """Its import takes longer than most trainings of linear machines on a matrix."""
    if args.kernel or args.probability or args.folds is not None or args.find_C or args.holdout or args.checkpoint:
        return False
    from multimargin.commands.datasets import format_of

    return format_of(args.data, args.format) in ("svmlight", "npz")


def _note_keys(data: Any, terminal: Terminal) -> None:
    if data.columns is None:
        return
    from multimargin.data.tables import nearly_numeric, row_counters, suspicious_columns

    for name in row_counters(data.X, data.columns):
        terminal.note(
            f"{data.path}: column {name!r} counts the rows, as the index that pandas writes; "
            f"--drop {shlex.quote(name)} leaves it out"
        )
    numeric = nearly_numeric(data.X, data.columns)
    for name, row, value in numeric:
        terminal.note(
            f"{data.path}: column {name!r} is of categories, each value a feature, as row {row} has {value!r} among "
            f"numbers; leave such cells empty, and it is a number (--numeric {shlex.quote(name)} says where it is not)"
        )
    for name, n_values in suspicious_columns(data.X, data.columns):
        if name in {about for about, _, _ in numeric}:
            continue
        word = shlex.quote(name)
        terminal.note(
            f"{data.path}: column {name!r} has {n_values} different values in {data.n_rows} rows, each a feature; "
            f"is it a key, a date or text? (--drop {word}, --text {word})"
        )


def _note_unknown_labels(judged: Any, y: Any, terminal: Terminal) -> None:
    """Rows that cannot be right, as their label was not trained."""
    import numpy as np

    from multimargin.data.tables import labels_as

    classes = np.unique(y)
    labels = labels_as(classes, judged.y)
    unknown = np.flatnonzero(~np.isin(labels, classes))
    if len(unknown):
        first = unknown[0]
        terminal.note(
            f"{judged.path}: {len(unknown)} of {judged.n_rows} rows have a label that no training row has, "
            f"such as {str(labels[first])!r} of row {first + 1}"
        )


def _find(args: argparse.Namespace, model: Any, data: Any, terminal: Terminal) -> None:
    """Give the machine the best C, and gamma."""
    from multimargin.commands.search import search

    found = search(args, model, data, args.folds or 5, terminal)
    model.set_params(**found.best)
    args.C, args.gamma = found.best["C"], found.best.get("gamma", args.gamma)
    told = ", ".join(f"{name} = {value:g}" for name, value in found.best.items())
    text = f"best {told}: accuracy {found.best_score:.4f} in {args.folds or 5} folds"
    if args.model is None:
        terminal.say(text)
        terminal.answer({"command": "train", "best": found.best, "accuracy": found.best_score})
    else:
        terminal.summary(text)


def _train(args: argparse.Namespace, model: Any, data: Any, terminal: Terminal, ending: Ending) -> int:
    from multimargin.commands.datasets import format_beside, read_more_data
    from multimargin.commands.errors import CommandError
    from multimargin.commands.fitting import accuracy, learn_features, split
    from multimargin.commands.words import counted

    if data.zero_based and args.zero_based == "auto":
        terminal.note(f"{data.path}: indices start at 0")
    part, judged, where = data, data, "the training rows"
    if args.holdout:
        part, judged = split(data, args.holdout, args.seed)
        where = f"the {counted(judged.n_rows, 'row')} held out"
    features, X = learn_features(part, args)
    if args.valid:
        judged = read_more_data(
            args.valid,
            args,
            terminal,
            columns=data.columns,
            n_features=X.shape[1],
            kind=format_beside(args.valid, args.data, args.format),
            zero_based=data.zero_based,
        )
        if judged.y is None:
            raise CommandError(f"{args.valid}: has no labels (array y)")
        _note_unknown_labels(judged, part.y, terminal)
        where = f"the {judged.n_rows} rows of {args.valid}"
    first_index = None if data.zero_based is None else 0 if data.zero_based else 1
    trained = fit_and_write(args, model, (X, part.y), features, first_index, terminal, ending)
    score = accuracy(model, X if judged is data else features(judged), judged.y)
    tell(args, terminal, model, X.shape, trained.seconds, score, judged.n_rows, where)
    return how_it_ended(args, model, trained, terminal)


def fit_and_write(
    args: argparse.Namespace,
    model: Any,
    given: tuple[Any, Any],  # to fit
    features: Any,
    first_index: int | None,
    terminal: Terminal,
    ending: Ending,
) -> Fit:
    """Train, and write the model; the checkpoint stays until then."""
    from multimargin.commands.errors import CommandError
    from multimargin.commands.fitting import Fit, fit
    from multimargin.commands.model_files import save_or_rescue
    from multimargin.linear.checkpoint import states_stay

    terminal.clear()
    model.set_params(verbose=int(terminal.live))
    going_on = partial(note_going_on, args, terminal) if has_checkpoint(args) else None
    with states_stay():
        try:
            trained = fit(model, *given, going_on)
        except KeyboardInterrupt:
            if ending.came or not hasattr(model, "dual_gap_"):
                raise
            trained = Fit(float(model.history_["seconds"][-1]) if len(model.history_) else 0.0, interrupted=True)
        except ValueError as error:
            raise CommandError(f"{args.data}: {error}") from None
        model.set_params(verbose=0)
        if first_index is not None:
            model.first_index_ = first_index
        terminal.status(f"writing {args.model}", now=True)

        def write(path: str) -> None:
            _save(features, model, path)
            ending.written = path if path == args.model else ""  # a signal that waited comes now

        save_or_rescue(write, args.model)
    return trained


def how_it_ended(args: argparse.Namespace, model: Any, trained: Fit, terminal: Terminal) -> int:
    """The exit code, and why it is not 0."""
    if trained.interrupted:
        terminal.warn(f"interrupted: {args.model} holds the model as it was last certified{to_go_on(args)}")
        return INTERRUPTED
    if not model.converged_:
        held = f"{args.model} holds the model as far as it came"
        terminal.warn(f"{as_options(trained.why_not)}; {held}{to_go_on(args, past_limit=True)}")
        return NOT_CONVERGED
    if trained.why_not:  # a kernel for which the gap proves nothing
        terminal.warn(as_options(trained.why_not))
    return DONE


def _save(features: Any, model: Any, path: str) -> None:
    from multimargin.estimators.plain_linear import PlainLinearSVM

    if isinstance(model, PlainLinearSVM):
        from multimargin.models.plain import save_plain

        save_plain(model, path)
    else:
        from multimargin.models import save

        save(features.with_machine(model), path)


def as_options(text: str) -> str:
    """What the estimators say about their parameters, with the names that those have here."""
    for name in ("max_iter", "time_limit"):
        option = "--" + name.replace("_", "-")
        text = text.replace(f"{name}=", f"{option} ").replace(name, option)
    return text.replace("raise tol", "raise --tol").replace("lower C=", "lower --C ")


def tell(args, terminal, model, shape, seconds, score, n_judged, where) -> None:
    """The model in words, or in JSON."""
    from multimargin.commands.machines import describe, parameters
    from multimargin.commands.words import certificate, counted, duration, fields, verdict

    n_classes, solver = len(model.classes_), str(model.history_["solver"][-1]) if len(model.history_) else ""
    held_out = f", {n_judged} more held out" if args.holdout else ""
    terminal.summary(
        fields(
            [
                (
                    "data",
                    f"{counted(shape[0], 'row')}, {counted(shape[1], 'feature')}, "
                    f"{counted(n_classes, 'class')}{held_out}",
                ),
                ("machine", describe(model)),
                ("training", f"{duration(seconds)}, {counted(model.n_iter_, 'epoch')} of {solver}"),
                ("certificate", certificate(model)),
                ("target", verdict(model)),
                ("accuracy", f"{score:.4f} on {where}"),
                ("model", f"{args.model}, {file_size(args.model)}"),
            ]
        )
    )
    terminal.answer(
        {
            "command": "train",
            "data": args.data,
            "rows": shape[0],
            "features": shape[1],
            "classes": model.classes_,
            "parameters": parameters(model),
            "solver": solver,
            "seconds": seconds,
            "epochs": model.n_iter_,
            "primal_objective": model.primal_objective_,
            "dual_objective": model.dual_objective_,
            "gap": model.dual_gap_,
            "worst_gap": model.worst_gap_,
            "converged": model.converged_,
            "accuracy": score,
            "accuracy_on": "holdout" if args.holdout else "valid" if args.valid else "training",
            "accuracy_rows": n_judged,
            "model": args.model,
        }
    )


def _cross_validate(args: argparse.Namespace, model: Any, data: Any, terminal: Terminal) -> int:
    """LIBLINEAR's -v: how good such a machine is on rows that it has not seen."""
    import numpy as np
    from sklearn.base import clone

    from multimargin.commands.fitting import accuracy, fit, folds_of, learn_features
    from multimargin.commands.machines import describe, parameters
    from multimargin.commands.words import counted, duration, fields
    from multimargin.estimators.splits import weights_of_part

    scores, hits, seconds, short = [], 0.0, 0.0, 0
    parts = folds_of(data.y, args.folds, args.seed, data.path)
    for i, (train, test) in enumerate(parts):
        terminal.status(f"fold {i + 1} of {len(parts)}", now=True)
        learnt, held_out = data.take(train), data.take(test)
        features, X = learn_features(learnt, args)
        machine = clone(model).set_params(class_weight=weights_of_part(model.class_weight, learnt.y))
        seconds += fit(machine, X, learnt.y).seconds
        scores.append(accuracy(machine, features(held_out), held_out.y))
        hits += scores[-1] * len(test)
        short += not machine.converged_
    total = hits / data.n_rows
    terminal.say(
        fields(
            [
                ("data", f"{counted(data.n_rows, 'row')}, {counted(len(np.unique(data.y)), 'class')}"),
                ("machine", describe(model)),
                ("training", f"{duration(seconds)} for {len(parts)} folds"),
                ("accuracy", f"{total:.4f} of all rows; folds from {min(scores):.4f} to {max(scores):.4f}"),
            ]
        )
    )
    terminal.answer(
        {
            "command": "train",
            "data": args.data,
            "rows": data.n_rows,
            "parameters": parameters(model),
            "seconds": seconds,
            "accuracy": total,
            "fold_accuracies": scores,
            "converged": not short,
        }
    )
    if short:
        terminal.warn(f"{short} of {len(parts)} folds did not converge; raise --max-iter or --tol, or lower --C")
        return NOT_CONVERGED
    return DONE
