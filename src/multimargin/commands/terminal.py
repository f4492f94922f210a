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
from pathlib import Path
from typing import Any

from multimargin.commands.errors import CommandError
from multimargin.commands.given_paths import check_name

_REFRESH = 0.1  # seconds between two states of the live line
_LINES = 1000  # that are written at once
_OUR_MODEL = b'{"__metadata__":{"checksum":"'  # after eight bytes of length; see multimargin.data.container
_OUR_REPORT = b'<meta name="generator" content="multimargin'  # near the beginning
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
            if text != _encodable(text):
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


def check_output(
    path: str, *, apart_from: tuple[str, ...] = (), outputs: tuple[str, ...] = (), replaces: str | None = None
) -> None:
    """Refuse a path that cannot be written, before any work is done for it; nor may it be one of the inputs, or of the
    other outputs.

    Where a model or a report is to be written, only such a file is replaced: what else is there may be data that was
    meant to be read. A pipe or a device needs no folder that can be written.
    """
    if not path or path.endswith(("/", os.sep)):
        raise CommandError(f"{path!r}: the output needs the name of a file")
    if path == "-" and replaces is not None:
        raise CommandError(f"-: a {replaces} is not written to standard output; give the name of a file")
    check_name(path)
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        _check_writable(path)
        return
    real = os.path.realpath(path)
    if os.path.islink(real):
        raise CommandError(f"{path}: its links lead back to themselves; choose another name")
    if any(_is_same(path, other) for other in apart_from if other):
        raise CommandError(f"{path}: is also an input, which would be lost; choose another name")
    if any(_is_same(path, other) for other in outputs if other):
        raise CommandError(f"{path}: is named for two outputs, and one would replace the other; choose another name")
    folder = Path(path).parent
    if not folder.exists():
        raise CommandError(f"{path}: there is no folder {folder}; make it first")
    if not folder.is_dir():
        raise CommandError(f"{path}: {folder} is not a folder")
    if os.path.isdir(path):
        raise CommandError(f"{path}: is a folder; the output needs the name of a file")
    if os.path.islink(path):  # the file is made beside the one that it will replace
        folder = Path(real).parent
    if not os.access(folder, os.W_OK | os.X_OK):
        raise CommandError(f"{path}: no permission to write into {folder}")
    if not os.path.exists(path):
        return
    _check_writable(path)
    begins = {"model": _begins_as_model, "report": _begins_as_report}.get(replaces or "")
    if begins is not None and os.path.getsize(path) and not begins(path):
        raise CommandError(
            f"{path}: exists and is no {replaces}, and would be lost; delete it first, or choose another name"
        )


def _is_same(path: str, other: str) -> bool:
    """Whether two names are of one file, also of one that is not there yet."""
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    try:
        return os.path.realpath(path) == os.path.realpath(other)
    except FileNotFoundError:  # the working directory is gone, and with it all that is named by its place there
        return False


def _check_writable(path: str) -> None:
    if not os.access(path, os.W_OK):
        raise CommandError(f"{path}: exists, and may not be written")


def _begins_as_model(path: str) -> bool:
    """Whether a file may be a model of ours, LIBLINEAR's or LIBSVM's; damaged ones may."""
    from multimargin.commands.model_files import kind_of

    with open(path, "rb") as file:
        ours = begins_as_ours(file.read(64))
    return ours or kind_of(path) != "multimargin"  # which is what kind_of calls all the rest


def begins_as_ours(begin: bytes) -> bool:
    """Whether these are the first bytes of a model that multimargin wrote."""
    return begin[8:].startswith(_OUR_MODEL)


def _begins_as_report(path: str) -> bool:
    with open(path, "rb") as file:
        return _OUR_REPORT in file.read(4096)


def file_size(path: str) -> str:
    """How large a file is, in words."""
    size = float(os.path.getsize(path))
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
