"""What can go wrong, and the exit codes that say so."""

from __future__ import annotations

DONE, FAILED, USAGE, NOT_CONVERGED = 0, 1, 2, 3
INTERRUPTED = 130  # as shells number a program that Ctrl-C ended
CLOSED_PIPE = 141  # and one whose reader went away


class CommandError(Exception):
    """Something failed; the message is one line that names the file and what to do."""

    exit_code = FAILED


class UsageError(CommandError):
    """The command line itself is wrong."""

    exit_code = USAGE
