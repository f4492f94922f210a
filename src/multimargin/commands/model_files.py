"""Models of the command line: our own files, and LIBLINEAR's and LIBSVM's text, told apart by how they begin."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from multimargin.commands.errors import CommandError
from multimargin.commands.given_paths import is_there
from multimargin.commands.signals import unhurried
from multimargin.data.atomic import special_kind
from multimargin.models.errors import ModelFormatError

_OUR_MODEL = b'{"__metadata__":{"checksum":"'  # after eight bytes of length; see multimargin.data.container
BEGINNING = 64  # bytes that tell what it is
_BEGIN = {b"solver_type": "liblinear", b"svm_type": "libsvm"}


def check_model_file(path: str) -> None:
    """Refuse what is no file, before anything is loaded for it."""
    if not is_there(path):
        raise CommandError(f"{path}: there is no such model file")
    if (kind := special_kind(os.stat(path).st_mode)) not in ("", "a pipe"):
        raise CommandError(f"{path}: is {kind}, not a model file")


@contextlib.contextmanager
def model_file(path: str) -> Iterator[str]:
    """A model file by a name under which it can be read more than once: what comes through a pipe is in a file of its
    own meanwhile. What does not begin as a model is not read to its end, which may never come."""
    check_model_file(path)
    if not special_kind(os.stat(path).st_mode):
        yield path
        return
    with tempfile.NamedTemporaryFile(prefix="multimargin-", suffix=".model") as copy:
        with open(path, "rb") as pipe:
            copy.write(begin := pipe.read(BEGINNING))
            if begins_as_model(begin):
                shutil.copyfileobj(pipe, copy)
        copy.flush()
        try:
            yield copy.name
        except (CommandError, ModelFormatError) as error:
            raise type(error)(str(error).replace(copy.name, path)) from None


def begins_as_model(begin: bytes) -> bool:
    """Whether these are the first bytes of a model, ours, LIBLINEAR's or LIBSVM's; of damaged ones, too."""
    return begin[8:].startswith(_OUR_MODEL) or begin.startswith(tuple(_BEGIN))


def kind_of(path: str) -> str:
    """multimargin, liblinear or libsvm."""
    check_model_file(path)
    with open(path, "rb") as file:
        begin = file.read(BEGINNING)
    if not begin:
        raise CommandError(f"{path}: is empty, no model")
    return next((kind for word, kind in _BEGIN.items() if begin.startswith(word)), "multimargin")


def save_or_rescue(save: Callable[[str], None], path: str) -> None:
    """Write a model. If that fails, after a training of hours perhaps, it goes to the folder for temporary files."""
    # A pipe takes no moment to write: nobody may ever read it, and then a signal is the only way out.
    waits = not os.path.exists(path) or os.path.isfile(path)
    with unhurried() if waits else contextlib.nullcontext():
        try:
            save(path)
        except OSError as error:
            with unhurried():  # up to the words of where it is, which end the command, too
                raise _rescued(save, path, error) from None


def _rescued(save: Callable[[str], None], path: str, error: OSError) -> Exception:
    """The error that says where the model is; or the one that there was, if it is nowhere."""
    descriptor, elsewhere = -1, ""
    try:
        descriptor, elsewhere = tempfile.mkstemp(prefix="multimargin-", suffix=".model")
        save(elsewhere)
    except BaseException as again:
        if elsewhere:
            with contextlib.suppress(OSError):
                os.unlink(elsewhere)
        if not isinstance(again, OSError):
            raise
        return error
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    why = (error.strerror or str(error)).lower()
    return CommandError(f"{path}: {why}; the model is not lost: it is in {elsewhere}")


def load_model(path: str) -> Any:
    """An estimator, or a pipeline that ends in one."""
    with model_file(path) as there:
        kind = kind_of(there)
        if kind == "liblinear":
            from multimargin.models.liblinear import read_liblinear

            return read_liblinear(there)
        if kind == "libsvm":
            from multimargin.models.libsvm import read_libsvm

            return read_libsvm(there)
        from multimargin.models import load

        return load(there)
