"""``--checkpoint``: work that was ended goes on from a file when the same command is given again."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from multimargin.commands.options import Parser, seconds
from multimargin.commands.output_paths import check_output
from multimargin.commands.signals import adds_nothing, exit_code, handled
from multimargin.commands.terminal import Terminal


def add_checkpoint_options(parser: Parser, what: str) -> None:
    """``what`` is kept in the file."""
    group = parser.add_argument_group("checkpoints")
    group.add_argument(
        "--checkpoint",
        metavar="FILE",
        help=f"keep {what} in FILE; if it is there, go on from it; it is removed at the end",
    )
    group.add_argument(
        "--checkpoint-every",
        metavar="SECONDS",
        type=seconds,
        default=600.0,
        help="seconds between two states (default: 600)",
    )


def check_checkpoint(path: str, *, apart_from: tuple[str, ...], outputs: tuple[str, ...]) -> None:
    """Refuse a file that cannot be written, as of any output, and what is no file: before anything is read."""
    check_output(path, apart_from=apart_from, outputs=outputs)
    from multimargin.linear.checkpoint import check_no_special_file

    check_no_special_file(path)


def has_checkpoint(args: argparse.Namespace) -> bool:
    """Whether there is a file to go on from."""
    return args.checkpoint is not None and os.path.exists(args.checkpoint)


def note_going_on(args: argparse.Namespace, terminal: Terminal) -> None:
    """Say so if the work is not from the beginning."""
    if has_checkpoint(args):
        terminal.note(f"{args.checkpoint}: going on from this checkpoint")


def to_go_on(args: argparse.Namespace, work: str = "training", *, past_limit: bool = False) -> str:
    """What to do about work that ended before its time, if there is a checkpoint of it."""
    return f"; {_held(args, work, ' with a larger limit' if past_limit else '')}" if has_checkpoint(args) else ""


@dataclass
class Ending:
    """What work and whoever ends it tell each other."""

    came: list[int] = field(default_factory=list)  # of SIGTERM and SIGHUP, with a checkpoint
    written: str = ""  # the result, which is not lost any more


def terminable_work(
    args: argparse.Namespace, terminal: Terminal, run: Callable[[Ending], int], work: str = "training"
) -> int:
    """With a checkpoint SIGTERM and SIGHUP are a chance to write one."""
    ending = Ending()
    if args.checkpoint is None:
        return run(ending)
    with _terminable(ending.came):
        try:
            return run(ending)
        except KeyboardInterrupt:
            if not ending.came:
                raise
            held = _held(args, work) if has_checkpoint(args) else "there is no checkpoint yet"
            terminal.warn(f"terminated: {f'{ending.written} is written' if ending.written else held}")
            return exit_code(ending.came[0])


def _held(args: argparse.Namespace, work: str, changed: str = "") -> str:
    return f"{args.checkpoint} holds the {work}: the same command{changed} goes on from there"


@contextmanager
def _terminable(came: list[int]) -> Iterator[None]:
    """SIGTERM and SIGHUP end the work as Ctrl-C does, at a point to go on from; ``came`` gets which of them came."""
    from multimargin.linear.interrupts import interrupt

    def end(number: int, _: Any) -> None:
        if came and adds_nothing(number):
            return
        came.append(number)
        interrupt()

    with handled(end):
        yield
