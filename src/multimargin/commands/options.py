"""Options that several commands share, and the parser that reports mistakes in one line. Imports nothing heavy."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from multimargin.commands.errors import USAGE
from multimargin.commands.liblinear_flags import Bias, Epsilon, SolverType
from multimargin.commands.terminal import tell, written

# As in multimargin.problems and multimargin.kernel, which load NumPy; a test compares them.
FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")
LOSSES = ("hinge", "squared_hinge")
KERNELS = ("rbf", "linear", "poly", "sigmoid")
LINEAR_SOLVERS = (
    "auto",
    "sdm",
    "accelerated_sdm",
    "newton",
    "pegasos",
    "exponentiated_gradient",
    "cutting_plane",
    "tron",
    "primal_cd",
)
KERNEL_SOLVERS = ("block", "decomposition")
SOLVERS = (*LINEAR_SOLVERS, *KERNEL_SOLVERS)
FORMATS = ("svmlight", "npz", "csv", "tsv", "parquet")

DATA_HELP = "svmlight text, .npz, .csv, .tsv, .parquet; or @digits, @iris, which scikit-learn brings along"


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as every error of this program."""

    def __init__(self, *args: Any, **options: Any):
        defaults: dict[str, Any] = {"allow_abbrev": False, "formatter_class": Layout}
        super().__init__(*args, **defaults | options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As ever; a second ``--`` in the place of a name, of which argparse makes an empty list, is a name missing.

        What is left over a command refuses itself: its help is meant, not the program's.
        """
        found, rest = super().parse_known_args(args, namespace)
        for action in self._actions:
            if not action.option_strings and action.nargs in (None, "?") and getattr(found, action.dest, None) == []:
                self.error(f"the following arguments are required: {action.metavar or action.dest}")
        if rest:
            again = self._once_each(rest[0], list(sys.argv[1:] if args is None else args))
            self.error(f"unrecognized arguments: {' '.join(rest)}{again}")
        return found, rest

    def _once_each(self, word: str, args: list[str]) -> str:
        """What to say if a word is the second one after an option that takes one, and may come again."""
        for said in reversed(args[: args.index(word)] if not word.startswith("-") else []):
            option = said.partition("=")[0]
            if option in self._option_string_actions:
                action = self._option_string_actions[option]
                again = f"; {option} takes one {action.metavar}: say it again for another"
                return again if isinstance(action, argparse._AppendAction) else ""
        return ""

    def error(self, message: str) -> NoReturn:
        tell(f"multimargin: error: {' '.join(message.split())} (see {self.prog} --help)")
        raise SystemExit(USAGE)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Help and version; argparse would not say that they could not be written."""
        if file is sys.stdout:
            written(message, flush=True)
        else:
            tell(message, end="")


class Layout(argparse.RawDescriptionHelpFormatter):
    """Help with a little more room for the names of options, and examples as they are written."""

    def __init__(self, prog: str, **options: Any):
        super().__init__(prog, **{"max_help_position": 30} | options)


def command(
    subparsers: Any, name: str, run: Callable[..., int], words: str, summary: str, about: str, example: str
) -> Parser:
    """A command, whose help ends with an example that works."""
    parser = subparsers.add_parser(
        name,
        usage=f"multimargin {name} {words}",
        help=summary,
        description=about,
        epilog="example:\n" + "\n".join(f"  {line}" for line in example.split("\n")),
    )
    parser.set_defaults(run=run)
    return parser


def share(text: str) -> float:
    """A number between 0 and 1."""
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must be between 0 and 1, got {text}")
    return value


def count(text: str) -> int:
    """A whole number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return value


def folds(text: str) -> int:
    """A whole number of at least 2."""
    value = int(text)
    if value < 2:
        raise argparse.ArgumentTypeError(f"must be at least 2, got {text}")
    return value


def positive(text: str) -> float:
    """A number above 0."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be above 0 and finite, got {text}")
    return value


def seconds(text: str) -> float:
    """A number of at least 0."""
    value = float(text)
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be at least 0 and finite, got {text}")
    return value


def gamma(text: str) -> float | str:
    """A number, or the name of a rule."""
    return text if text in ("scale", "auto") else float(text)


def weight(text: str) -> tuple[str, float]:
    """``LABEL=NUMBER``."""
    label, sign, value = text.rpartition("=")
    if not sign or not label:
        raise argparse.ArgumentTypeError(f"must be LABEL=NUMBER, got {text!r}")
    try:
        return label, float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{value!r} is no number, in {text!r}") from None


for _kind, _name in (
    (share, "number"),
    (positive, "number"),
    (seconds, "number"),
    (gamma, "number"),
    (count, "whole number"),
    (folds, "whole number"),
):
    _kind.__name__ = _name  # argparse says "invalid number value"


def add_output_options(parser: Parser) -> None:
    """What is said, and how."""
    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="the result as one line of JSON on stdout")
    group.add_argument("-q", "--quiet", action="store_true", help="no progress, no notes, no summary of written files")


def add_data_options(parser: Parser, *, training: bool) -> None:
    """How DATA is read; roles of columns are only asked for in training: a model knows them."""
    each = "--text, --numeric, --categorical and --drop take one column, and may be given again" if training else None
    group = parser.add_argument_group("data", each)
    group.add_argument("--format", choices=FORMATS, help="of DATA, where its suffix does not say it")
    group.add_argument("--label", metavar="COL", help="table: the column of the labels")
    if training:
        group.add_argument(
            "--text",
            metavar="COL",
            action="append",
            default=[],
            help="table: a column of text, as TF-IDF of its words; other columns are then only used when named",
        )
        group.add_argument(
            "--numeric", metavar="COL", action="append", default=[], help="table: a column of numbers (found by itself)"
        )
        group.add_argument(
            "--categorical",
            metavar="COL",
            action="append",
            default=[],
            help="table: a column of categories, though it may hold numbers",
        )
        group.add_argument(
            "--drop",
            metavar="COL",
            action="append",
            default=[],
            help="table: a column to leave out; two are --drop COL --drop COL",
        )
        group.add_argument(
            "--ngrams",
            metavar=("MIN", "MAX"),
            type=count,
            nargs=2,
            default=[1, 1],
            help="text: runs of so many words (default: 1 1)",
        )
        group.add_argument(
            "--min-df", metavar="N", type=count, default=1, help="text: words of at least N rows (default: 1)"
        )
        group.add_argument("--n-features", metavar="N", type=count, help="svmlight: number of features, if not found")
    else:
        group.add_argument(
            "--text",
            metavar="COL",
            action="append",
            default=[],
            help="table: the column of the text, for a model from Python that begins with a vectorizer",
        )
    group.add_argument(
        "--zero-based",
        choices=("auto", "yes", "no"),
        default="auto",
        help="svmlight: whether indices start at 0 (default: auto, as in the training rows; of these, if there is a 0)",
    )


def add_machine_options(
    parser: Parser, *, formulation: bool = True, C: bool = True, probability: bool = False, blocks: bool = False
) -> None:
    """The parameters of LinearSVM and KernelSVM, with LIBLINEAR's short names."""
    group = parser.add_argument_group("machine")
    if formulation:
        group.add_argument(
            "--formulation",
            choices=FORMULATIONS,
            default="crammer_singer",
            metavar="NAME",
            help=f"{', '.join(FORMULATIONS)} (default: crammer_singer)",
        )
    group.add_argument("--loss", choices=LOSSES, default="hinge", help="(default: hinge; kernels have no other)")
    if formulation:
        group.add_argument(
            "-s",
            dest="_solver_type",
            metavar="TYPE",
            type=int,
            action=SolverType,
            default=argparse.SUPPRESS,
            help="as in LIBLINEAR: 4 crammer_singer, 3 one_vs_rest with hinge, 1 and 2 with squared_hinge",
        )
    if C:
        group.add_argument(
            "-c", "--C", dest="C", type=positive, default=1.0, metavar="C", help="weight of the loss (default: 1)"
        )
    group.add_argument("--kernel", choices=KERNELS, help="a kernel machine; without, a linear one")
    if C:
        group.add_argument("--gamma", type=gamma, default="scale", help="of the kernel: a number, scale or auto")
    group.add_argument("--degree", type=count, default=3, metavar="N", help="of kernel poly (default: 3)")
    group.add_argument("--coef0", type=float, default=0.0, metavar="X", help="of kernels poly and sigmoid (default: 0)")
    group.add_argument(
        "--class-weight", choices=("balanced",), help="every class counts the same, however many rows it has"
    )
    group.add_argument(
        "--weight",
        metavar="LABEL=X",
        type=weight,
        action="append",
        default=[],
        help="C of the rows of a class times X, in every machine; LIBLINEAR's form -wLABEL X is understood",
    )
    group.add_argument("--no-intercept", dest="fit_intercept", action="store_false", help="without an intercept")
    group.add_argument(
        "--intercept-scaling",
        type=positive,
        default=1.0,
        metavar="X",
        help="larger values regularise the intercept less (default: 1)",
    )
    group.add_argument(
        "-B",
        dest="_bias",
        type=float,
        action=Bias,
        default=argparse.SUPPRESS,
        metavar="X",
        help="as in LIBLINEAR: --intercept-scaling X; --no-intercept if negative",
    )
    if probability:
        group.add_argument("--probability", action="store_true", help="calibrate, for predict --proba")

    group = parser.add_argument_group("training")
    if formulation:
        group.add_argument(
            "--solver",
            choices=SOLVERS,
            metavar="NAME",
            help=f"{', '.join(LINEAR_SOLVERS)}; kernels: {', '.join(KERNEL_SOLVERS)}",
        )
    group.add_argument("--tol", type=positive, default=1e-3, help="relative duality gap to reach (default: 0.001)")
    group.add_argument(
        "--stopping", choices=("gap", "violation"), default="gap", help="what --tol is about (default: gap)"
    )
    group.add_argument(
        "-e",
        dest="_epsilon",
        type=positive,
        action=Epsilon,
        default=argparse.SUPPRESS,
        metavar="TOL",
        help="as in LIBLINEAR: --stopping violation --tol TOL",
    )
    group.add_argument("--max-iter", type=count, default=1000, metavar="N", help="most epochs (default: 1000)")
    group.add_argument("--time-limit", type=positive, metavar="SECONDS", help="most seconds of one training")
    group.add_argument("--cache-mb", type=positive, default=1024.0, metavar="MB", help="kernel rows (default: 1024)")
    if blocks:
        group.add_argument(
            "--memory-mb",
            type=positive,
            metavar="MB",
            help="svmlight text that needs more is trained from blocks on disk (default: half of the memory)",
        )
        group.add_argument(
            "--blocks",
            metavar="DIR",
            help="folder of those blocks: kept, and used again if it is there (default: a temporary one beside MODEL)",
        )
    group.add_argument(
        "--n-jobs", type=int, metavar="N", help="threads; -1 is all (default: 1; svmlight text is read by all)"
    )
    group.add_argument("--seed", type=int, default=0, metavar="N", help="of all random choices (default: 0)")
