"""``multimargin``: reads the command line, runs the command, and makes one line and an exit code of what goes wrong."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import multimargin
from multimargin.commands import compare, completion, convert, demo, predict, report, train, tune
from multimargin.commands.errors import CLOSED_PIPE, FAILED, INTERRUPTED, USAGE, CommandError
from multimargin.commands.liblinear_flags import with_weights_in_words
from multimargin.commands.options import Parser
from multimargin.commands.signals import Terminated, terminable
from multimargin.commands.terminal import Terminal, send_nowhere, tell, written

_ABOUT = "Multi-class support vector machines, trained exactly and certified."
_CODES = """exit codes: 0 done, 1 failed, 2 wrong usage, 3 trained but not converged, 130 interrupted, 143 terminated,
129 hung up

example:
  multimargin train @digits digits.model --holdout 0.25
  multimargin predict @digits digits.model labels.txt"""


class ProgramParser(Parser):
    """The parser of the program, which knows those of its commands."""

    commands: dict[str, Parser]


def build_parser() -> ProgramParser:
    """All commands with all their options."""
    parser = ProgramParser(prog="multimargin", description=_ABOUT, epilog=_CODES)
    parser.add_argument("--version", action="version", version=f"multimargin {multimargin.__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", parser_class=Parser)
    for module in (demo, train, predict, tune, compare, report, convert, completion):
        module.add_to(subparsers)
    parser.commands = dict(subparsers.choices)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    argv : list of str or None
        The words after ``multimargin``; None takes them from the shell.
    """
    try:
        for name in ("stdout", "stderr"):  # one that was closed takes everything, and keeps nothing
            if getattr(sys, name) is None:
                setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        with terminable():
            code = _run(list(sys.argv[1:] if argv is None else argv))
            written("", flush=True)
            return code
    except Terminated as end:
        tell("multimargin: terminated")
        return end.code
    except KeyboardInterrupt:
        tell("multimargin: interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # as `| head` does it
        send_nowhere(sys.stdout)
        return CLOSED_PIPE
    except OSError as error:  # the last words have nowhere to go
        tell(f"multimargin: error: {_in_words(error)}")
        return FAILED


def _run(argv: list[str]) -> int:
    parser = build_parser()
    try:
        args = parser.parse_args(with_weights_in_words(argv))
    except SystemExit as end:
        return int(end.code or 0)
    except BrokenPipeError:
        raise
    except OSError as error:  # the help has nowhere to go
        tell(f"multimargin: error: {_in_words(error)}")
        return FAILED
    if args.command is None:
        parser.print_help(sys.stderr)
        return USAGE
    terminal = Terminal(quiet=getattr(args, "quiet", False), as_json=getattr(args, "json", False))
    try:
        with warnings.catch_warnings():
            _say_warnings(terminal)
            return args.run(args, terminal)
    except BrokenPipeError:
        raise
    except Exception as error:
        if os.environ.get("MULTIMARGIN_TRACEBACK") == "1":
            raise
        terminal.clear()
        tell(f"multimargin: error: {_in_words(error)}")
        return error.exit_code if isinstance(error, CommandError) else FAILED
    finally:
        terminal.clear()


def _say_warnings(terminal: Terminal) -> None:
    """Warnings in one line each; those that are for the authors of libraries are not for users of the shell."""
    warnings.simplefilter("default")
    for kind in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
        warnings.simplefilter("ignore", kind)

    def say(message: Any, *_: Any, **__: Any) -> None:
        terminal.warn(str(message))

    warnings.showwarning = say


def _in_words(error: Exception) -> str:
    """One line. What we and the libraries raise on purpose speaks for itself; anything else is called by its name."""
    said = str(error).strip()
    if isinstance(error, CommandError):
        said = said.replace("\n", "\\n")  # in the name of a file
    if isinstance(error, ImportError) and "NumPy version" in said:  # a page of advice, and the reason at its end
        said = f"NumPy could not be loaded: {said.splitlines()[-1].removeprefix('Original error was: ')}"
    first = " ".join((said.splitlines() or [""])[0].split())
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {(error.strerror or first).lower()}"
    if isinstance(error, UnicodeEncodeError):
        missing = ascii(error.object[error.start])
        return f"the output's encoding, {error.encoding}, has no {missing}: set PYTHONIOENCODING=utf-8, or give a file"
    if isinstance(error, MemoryError):
        told = f": {first}" if first and first != "std::bad_alloc" else " for so many rows or features"
        return f"not enough memory{told}"
    if isinstance(error, CommandError | ValueError | TypeError | ImportError | OSError) and first:
        return first
    return f"{type(error).__name__}: {first} (MULTIMARGIN_TRACEBACK=1 shows where)"


if __name__ == "__main__":
    sys.exit(main())
