"""A training in a file, from which it goes on as if it had never been stopped.

The file has the layout of the models (data/container.py): the state as arrays, and in its description who it is the
state of. Whoever goes on from it must have the same data and parameters.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from multimargin import __version__
from multimargin.data.atomic import checked_target, remove_leftovers, special_kind
from multimargin.data.container import Kind, read_container, write_container
from multimargin.linear.state import State, Stateful, number, part, prefixed

FORMAT = "multimargin checkpoint"
VERSION = 1
_ANEW = "delete it to train from the beginning"


class CheckpointError(ValueError):
    """A training cannot go on from a file: which file, why, what to do."""


CHECKPOINT = Kind("checkpoint", CheckpointError, _ANEW, "checkpoint names a file that training writes")


class FilesBeside:
    """Files that a state refers to. These are none."""

    def make_last(self) -> None:
        """A state is about to be written: what it refers to must not get lost before it does."""

    def state_is_written(self) -> None:
        """What only older states refer to may go."""

    def state_is_removed(self) -> None:
        """So may all of it."""

    def complain(self) -> None:
        """Raise what was to be an error, and waited for the end of the training."""


class StateFile:
    """A file for a state that somebody with the same data and parameters goes on from.

    Parameters
    ----------
    path : path
        A file that is there already must be of the same identity.
    every : float
        Seconds between two states that are written.
    identity : dict of str
        Everything that the result depends on, by the names that users know.

    Attributes
    ----------
    state : dict of arrays or None
        What there is to go on from.
    goes_on : bool
        Whether there was a file.
    beside : FilesBeside

    Raises
    ------
    CheckpointError
        If the file is damaged, or of something else; or no file, but a pipe, a device or a folder.
    """

    def __init__(self, path: str | os.PathLike, every: float, identity: Mapping[str, str]):
        check_no_special_file(path)
        self.path, self.every, self.identity = checked_target(path), every, dict(identity)
        self.state: State | None = None
        self.beside = FilesBeside()
        self.written = time.monotonic()
        remove_leftovers(self.path)
        self._stamp = _stamp_of(self.path)  # of what was read, or written here, last
        self.goes_on = self._stamp is not None
        self._complaint: Warning | None = None  # that was to be an error
        if self.goes_on:
            self.state = self._read()

    def _read(self) -> State:
        description, arrays = read_container(self.path, CHECKPOINT)
        if set(description) != {"format", "format_version", "version", "identity"} or description["format"] != FORMAT:
            raise self._refused("this is not a checkpoint", CHECKPOINT.advice)
        if (description["format_version"], description["version"]) != (VERSION, __version__):
            raise self._refused(f"multimargin {description['version']} wrote it, and this is multimargin {__version__}")
        was = description["identity"]
        if not isinstance(was, dict):
            raise self._refused("it does not say what it is of")
        if was != self.identity:
            differences = ", ".join(_differences(was, self.identity))
            raise self._refused(f"it is of another training: {differences}", f"go on with what it was, or {_ANEW}")
        return arrays

    def _refused(self, what: str, advice: str = _ANEW) -> ValueError:
        return CHECKPOINT.refuse(self.path, what, advice)

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Around all that reads the state: what does not hold together is the file's fault."""
        try:
            yield
        except CheckpointError:
            raise
        except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
            raise self._refused(f"its content does not hold together ({error})") from error

    def refused_later(self, error: ValueError) -> ValueError:
        """For what could not have come of a training that was let begin: if there is a file, it is the file's fault."""
        return self._refused(f"its numbers lead to others that are none ({error})") if self.goes_on else error

    def due(self) -> bool:
        """Whether it is time for the next one."""
        return time.monotonic() - self.written >= self.every

    def write(self, state: State) -> None:
        """Replace the state. A disk that is full is no reason to lose a training: it is said, the last file stays.

        So does a file that is somebody else's by now.
        """
        description = {
            "format": FORMAT,
            "format_version": VERSION,
            "version": __version__,
            "identity": self.identity,
        }
        try:
            if not self.is_ours():
                raise FileExistsError("another training has written it meanwhile; give each a checkpoint of its own")
            self.beside.make_last()
            write_container(self.path, CHECKPOINT, description, state)
            self._stamp = _stamp_of(self.path)
            self.beside.state_is_written()
        except (OSError, ValueError) as error:  # the latter if there are too many machines to describe
            self._warn(f"no checkpoint was written to {self.path} ({error}); training goes on")
        self.written = time.monotonic()

    def _warn(self, what: str) -> None:
        try:
            warnings.warn(what, RuntimeWarning, stacklevel=4)
        except RuntimeWarning as error:  # warnings are errors: this one waits until the training is over
            self._complaint = error

    def complain(self) -> None:
        """After the training: raise the warning that was to be an error."""
        if self._complaint is not None:
            raise self._complaint
        self.beside.complain()

    def is_ours(self) -> bool:
        """Whether the file is the one that was written here last, or at least of the same training."""
        if _stamp_of(self.path) in (None, self._stamp):
            return True
        try:
            self._read()
        except (CheckpointError, OSError):
            return False
        return True

    def remove(self) -> None:
        """There is nothing left to do. Where the result is still to be made safe (states_stay), not yet."""
        if (waiting := _waiting.get()) is not None:
            waiting.append(self)
            return
        if self.is_ours():
            try:
                self.path.unlink(missing_ok=True)
            except OSError as error:  # which is no reason to lose what came of the work
                self._warn(f"{self.path} could not be removed ({error.strerror}), and is of no more use; delete it")
        self.beside.state_is_removed()


_waiting: ContextVar[list[StateFile] | None] = ContextVar("_waiting", default=None)


@contextmanager
def states_stay() -> Iterator[None]:
    """Files of work that is over stay until the end of what is done inside, when its result is safe; for good, if that
    fails. Of work in this thread."""
    waiting: list[StateFile] = []
    before = _waiting.set(waiting)
    try:
        yield
    finally:
        _waiting.reset(before)
    for file in waiting:
        file.remove()
    for file in waiting:
        file.complain()


def _stamp_of(path: Path) -> tuple[int, int, int] | None:
    """What is another one for each file that is written."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


class Checkpoint(StateFile):
    """Where a training keeps its state: that of the loop, and what else the training has.

    ``every`` 0 is after every slice of the loop. ``state`` is None as soon as the loop goes on from it.

    Attributes
    ----------
    training : Stateful
        What the training keeps beside the loop and its machines.
    seconds : float
        Of the training up to there.
    """

    training: Stateful

    def __init__(self, path: str | os.PathLike, every: float, identity: Mapping[str, str]):
        super().__init__(path, every, identity)
        self.seconds = 0.0
        if self.state is not None:
            with self.restoring():
                self.seconds = float(number(self.state, "loop.seconds"))

    def of_loop(self) -> State | None:
        """What the loop goes on from."""
        return None if self.state is None else part(self.state, "loop")

    def of_training(self) -> State | None:
        """What the training goes on from."""
        return None if self.state is None else part(self.state, "training")

    def begin(self, training: Stateful) -> float:
        """Keep what a training has, and let it go on from its part of the state; the seconds that it took so far."""
        self.training = training
        if (state := self.of_training()) is not None:
            with self.restoring():
                training.set_state(state)
        return self.seconds

    def save(self, loop: State) -> None:
        """Write the state."""
        self.write(prefixed("loop", loop) | prefixed("training", self.training.state()))


def check_no_special_file(path: str | os.PathLike) -> None:
    """Refuse what is there and no file: a pipe keeps no state, and reading one may never end.

    Raises
    ------
    CheckpointError
        With what it is.
    """
    kind = ""
    with suppress(OSError, ValueError):  # nothing is there; or others tell why nothing can be
        kind = special_kind(os.stat(path).st_mode)
    if kind:
        raise CHECKPOINT.refuse(path, f"is {kind}, which keeps no checkpoint", "give the name of a file")


def _differences(was: dict[str, Any], now: dict[str, str]) -> list[str]:
    """In words. What is too long to be shown is a digest, behind a ``#``. Of trainings of different kinds, only one of
    which has a name, what they have in common says enough."""
    shared = [name for name in now if name in was and was[name] != now[name]]
    found = []
    for name in shared or sorted(was.keys() ^ now.keys()):
        before, after = (str(told.get(name, "not there")).partition("#")[0].strip() for told in (was, now))
        found.append(f"{name} has other values" if before == after else f"{name} was {before} and is {after}")
    return found
