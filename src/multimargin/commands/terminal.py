"""What a command says, and where: results on stdout, everything else on stderr, a live line only on a terminal."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any

_REFRESH = 0.1  # seconds between two states of the live line
_LINES = 1000  # that are written at once
# Characters that end a line, or command a terminal: C0, DEL, C1, and the separators of Unicode.
CONTROL_CHARACTERS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
CONTROL_CHARACTERS |= {0x2028: "\\u2028", 0x2029: "\\u2029"}


class Terminal:
    """The voice of one command."""

    def __init__(self, *, quiet: bool = False, as_json: bool = False):
        self.quiet = quiet
        self.as_json = as_json
        self.live = sys.stderr.isatty() and not quiet
        self._shown = 0  # characters of the live line
        self._next = 0.0

    def say(self, text: str = "") -> None:
        """A line of the result, for people; letters that the output's encoding lacks are escaped."""
        if not self.as_json:
            self.clear()
            self.write([_encodable(f"{text}\n")])

    def write(self, lines: Iterable[str]) -> None:
        """A result, as it is: one that the output's encoding cannot tell is an error."""
        lines = iter(lines)
        while some := "".join(islice(lines, _LINES)):
            self.clear()
            written(some, flush=False)
        written("", flush=True)

    def summary(self, text: str) -> None:
        """A line about a result that went into a file; --quiet does without."""
        if not self.quiet:
            self.say(text)

    def answer(self, result: dict[str, Any]) -> None:
        """The result, for programs."""
        if self.as_json:
            self.clear()
            text = json.dumps(_plain(result), ensure_ascii=False)
            if text != _encodable(text) or not _is_text(text):
                text = json.dumps(_plain(result))  # JSON's own escapes: nothing is lost
            self.write([text, "\n"])

    def note(self, text: str) -> None:
        """Something worth knowing, on stderr."""
        if not self.quiet:
            self.warn(text, "note")

    def warn(self, text: str, kind: str = "warning") -> None:
        """Something that must be known, on stderr."""
        self.clear()
        tell(f"multimargin: {kind}: {one_line(text)}")

    def status(self, text: str, *, now: bool = False) -> None:
        """What is going on, as a line that the next one replaces."""
        if not self.live or (not now and time.monotonic() < self._next):
            return
        self._next = time.monotonic() + _REFRESH
        text = text[: max(shutil.get_terminal_size().columns - 1, 20)]
        tell("\r" + text.ljust(self._shown), end="")
        self._shown = len(text)

    def clear(self) -> None:
        """Take the live line away."""
        if self._shown:
            tell("\r" + " " * self._shown + "\r", end="")
            self._shown = 0


def tell(text: str, end: str = "\n") -> None:
    """Say something on stderr; that nobody can hear it is no reason to fail."""
    try:
        print(text, end=end, file=sys.stderr, flush=True)
    except OSError:
        send_nowhere(sys.stderr)


def send_nowhere(stream: Any) -> None:
    """What is still in a buffer that cannot be written goes nowhere, or Python would end with words and a code of its
    own."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def written(text: str, *, flush: bool) -> None:
    """Write to stdout; an error says what is full."""
    try:
        sys.stdout.write(text)
        if flush:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        send_nowhere(sys.stdout)
        raise OSError(error.errno, f"{error.strerror}; write elsewhere", "standard output") from None


def _is_text(text: str) -> bool:
    """Whether it is without what Python makes of bytes that are no letters, in names of files."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _encodable(text: str) -> str:
    """With a backslash and a number for letters that the encoding of stdout lacks."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding, getattr(sys.stdout, "errors", None) or "strict")
    except UnicodeEncodeError:
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text


def one_line(text: object) -> str:
    """A message of a library without its line breaks, and without what a terminal obeys."""
    return " ".join(str(text).split()).translate(CONTROL_CHARACTERS)


def _plain(value: Any) -> Any:
    """As JSON can hold it: NumPy's numbers and arrays are Python's, what is not finite is null."""
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return value


def file_size(path: str) -> str:
    """How large a file is, in words."""
    size = float(os.path.getsize(path))
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
