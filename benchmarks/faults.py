"""Every write that can fail fails once: ``python benchmarks/faults.py``.

A library that is loaded before all others (failing_writes.c, compiled by cc) lets the n-th write, sync, rename, new
file or new folder fail, n = 1, 2, 3, ... until the work is done without having met it; once with a disk that is full
from there on, once with a single I/O error; and the n-th removal of a file or folder, and all after it, as on a disk
that has become read-only when the work is done. After each: what was there before is there with the same bytes, the
error names the file and says what to do (a command: in one line), nothing else is left behind; and what claims to be
done is. That a file stays is no error.
With ``--disk`` the same is done on a file system that is really full (root only).
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import gc
import io
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
STAYS = "read-only"  # of removals: what stays is left behind, but the work is done
ERRORS = {"full disk": (errno.ENOSPC, True), "I/O error": (errno.EIO, False), STAYS: (errno.EROFS, True)}
ROWS, FEATURES, CLASSES = 60, 6, 3
FAILED = 1  # exit code
ADVICE = ("make room", "write elsewhere", "go on")


def rows() -> tuple[np.ndarray, np.ndarray]:
    """A small problem that takes a few passes."""
    rng = np.random.default_rng(0)
    y = np.arange(ROWS) % CLASSES
    return rng.normal(size=(CLASSES, FEATURES))[y] + rng.normal(size=(ROWS, FEATURES)), y


@dataclass
class Operation:
    """Something that writes.

    ``act`` does it in a folder. ``target`` is what it writes; ``whole`` looks at that when it is said to be done.
    ``leaves`` are names that may stay behind, to go on from.
    """

    target: str
    act: Callable[[Path], Any]
    whole: Callable[[Path], Any]
    old: bool = True  # whether a file of that name is there before
    leaves: tuple[str, ...] = ()
    command: bool = False
    where: str = "\0"  # a name that an error may say instead of the target's


def operations() -> dict[str, Operation]:
    """By name."""
    import multimargin
    from multimargin.data.blocks import open_blocks, write_blocks
    from multimargin.models import read_liblinear, read_libsvm, write_liblinear, write_libsvm
    from multimargin.report import write_report

    X, y = rows()
    model = multimargin.LinearSVM(C=0.1).fit(X, y)
    kernel = multimargin.KernelSVM("one_vs_one").fit(X, y)

    def checkpointed(folder: Path) -> None:
        changed = multimargin.LinearSVM(solver="sdm", tol=1e-2, checkpoint=folder / "state", checkpoint_every=0)
        same = multimargin.LinearSVM(solver="sdm", tol=1e-2).fit(X, y)
        assert np.array_equal(changed.fit(X, y).coef_, same.coef_), "a training that went on came to another result"

    def streamed(folder: Path) -> None:
        fitted = multimargin.LinearSVM(C=0.1, tol=0.02).fit(open_blocks(folder / "rows.blocks"))
        assert fitted.predict(X).shape == (ROWS,)
        assert fitted.primal_objective_ >= fitted.dual_objective_

    def stored(folder: Path, **more: Any) -> Any:
        options = {"solver": "sdm", "C": 0.1, "tol": 0.05, "checkpoint": folder / "state"}
        return multimargin.LinearSVM(**options, **more).fit(open_blocks(folder / "rows.blocks"))

    def goes_on(folder: Path) -> None:
        same = multimargin.LinearSVM(solver="sdm", C=0.1, tol=0.05).fit(open_blocks(folder / "rows.blocks"))
        assert np.array_equal(stored(folder).coef_, same.coef_), "a training that went on came to another result"
        assert not list(folder.glob("state*")), "a checkpoint was left"

    def command(*words: str) -> Callable[[Path], Any]:
        return lambda folder: run_command([word.replace("=", f"{folder}/") for word in words])

    def text_is(name: str, lines: int) -> Callable[[Path], Any]:
        def check(folder: Path) -> None:
            assert len((folder / name).read_text().splitlines()) == lines

        return check

    def not_empty(name: str, end: bytes) -> Callable[[Path], Any]:
        def check(folder: Path) -> None:
            assert (folder / name).read_bytes().rstrip().endswith(end)

        return check

    def nothing(folder: Path) -> None:
        assert not (folder / "state").exists() or (folder / "state").stat().st_size

    load: Callable[[str], Callable[[Path], Any]] = lambda name: lambda folder: multimargin.load(folder / name)  # noqa: E731
    blocks: Callable[[Path], Any] = lambda folder: [block.X.shape for block in open_blocks(folder / "new.blocks")]  # noqa: E731
    train = ("train", "=rows.svm", "=model")
    svmlight = lambda folder: multimargin.write_svmlight(folder / "out.svm", X, y)  # noqa: E731
    chunks = lambda folder: write_blocks(folder / "new.blocks", [(X[:30], y[:30]), (X[30:], y[30:])], block_mb=0.001)  # noqa: E731
    files = lambda folder: write_blocks(folder / "new.blocks", folder / "rows.svm", block_mb=0.001)  # noqa: E731
    page = lambda folder: write_report(model, X, y, folder / "out.html")  # noqa: E731
    return {
        "save": Operation("model", lambda folder: multimargin.save(model, folder / "model"), load("model")),
        "save, kernel": Operation("model", lambda folder: multimargin.save(kernel, folder / "model"), load("model")),
        "checkpoint": Operation("state", checkpointed, nothing, old=False, leaves=("state",)),
        "write_blocks, chunks": Operation("new.blocks", chunks, blocks, old=False),
        "write_blocks, files": Operation("new.blocks", files, blocks, old=False, leaves=("new.blocks.part",)),
        "fit from blocks": Operation("multimargin-duals-", streamed, lambda folder: None, old=False),
        "blocks, checkpoint": Operation(
            "state.duals",
            lambda folder: stored(folder, checkpoint_every=0),
            goes_on,
            old=False,
            leaves=("state", "state.duals"),
        ),
        "write_svmlight": Operation("out.svm", svmlight, text_is("out.svm", ROWS)),
        "write_liblinear": Operation(
            "model",
            lambda folder: write_liblinear(model, folder / "model"),
            lambda folder: read_liblinear(folder / "model"),
        ),
        "write_libsvm": Operation(
            "model", lambda folder: write_libsvm(kernel, folder / "model"), lambda folder: read_libsvm(folder / "model")
        ),
        "write_report": Operation("out.html", page, not_empty("out.html", b"</html>")),
        "train": Operation("model", command(*train), load("model"), command=True),
        "train --checkpoint": Operation(
            "model",
            command(*train, "--solver", "sdm", "--checkpoint", "=state", "--checkpoint-every", "0"),
            load("model"),
            leaves=("state",),
            command=True,
        ),
        "train --blocks": Operation(
            "model",
            command(*train, "--blocks", "=new.blocks", "--C", "0.01", "--tol", "0.02"),
            load("model"),
            leaves=("new.blocks", "new.blocks.part"),
            command=True,
            where="multimargin-duals-",
        ),
        "predict": Operation(
            "labels", command("predict", "=rows.svm", "=old.model", "=labels"), text_is("labels", ROWS), command=True
        ),
        "report": Operation(
            "out.html",
            command("report", "=old.model", "=rows.svm", "=out.html"),
            not_empty("out.html", b"</html>"),
            command=True,
        ),
        "tune --plot": Operation(
            "plot.svg",
            command("tune", "=rows.svm", "-v", "2", "--C-range", "1", "1", "--plot", "=plot.svg"),
            not_empty("plot.svg", b"</svg>"),
            command=True,
        ),
        "convert": Operation(
            "model",
            command("convert", "=old.model", "=model", "--to", "liblinear"),
            lambda folder: read_liblinear(folder / "model"),
            command=True,
        ),
        "convert to blocks": Operation(
            "new.blocks",
            command("convert", "=rows.svm", "=new.blocks", "--block-mb", "0.001"),
            blocks,
            old=False,
            leaves=("new.blocks.part",),
            command=True,
        ),
    }


class CommandFailed(Exception):
    """A command that ended with another code than 0."""

    def __init__(self, code: int, said: str):
        super().__init__(said)
        self.code = code


def run_command(words: list[str]) -> str:
    """Run the program in this process."""
    from multimargin.commands.main import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    if code:
        raise CommandFailed(code, err.getvalue())
    return err.getvalue()


def prepare(folder: Path) -> None:
    """What is there before: inputs, and a file under each name that will be written."""
    import multimargin
    from multimargin.data.blocks import write_blocks

    X, y = rows()
    folder.mkdir()
    (folder / "temporary").mkdir()
    multimargin.write_svmlight(folder / "rows.svm", X, y)
    write_blocks(folder / "rows.blocks", [(X[:30], y[:30]), (X[30:], y[30:])], block_mb=0.002)
    multimargin.save(multimargin.LinearSVM("one_vs_rest").fit(X, y), folder / "old.model")
    shutil.copy(folder / "old.model", folder / "model")
    for name in ("out.svm", "labels", "plot.svg"):
        (folder / name).write_text("what was there before\n")
    (folder / "out.html").write_text('<meta name="generator" content="multimargin">\n')  # no other page is replaced


def files_of(folder: Path) -> dict[str, bytes]:
    """All files below a folder, by their names."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextlib.contextmanager
def fresh(template: Path, operation: Operation, parent: Path) -> Iterator[Path]:
    """A copy of the prepared folder, also for temporary files."""
    folder = parent / "work"
    shutil.copytree(template, folder)
    if not operation.old:
        with contextlib.suppress(FileNotFoundError):
            (folder / operation.target).unlink()
    tempfile.tempdir = str(folder / "temporary")
    try:
        yield folder
    finally:
        tempfile.tempdir = None
        shutil.rmtree(folder)


def wrongs(operation: Operation, folder: Path, before: dict[str, bytes], error: Exception | None) -> list[str]:
    """What is not as it should be after a fault."""
    import multimargin

    found = []
    after = files_of(folder)
    if error is None:
        try:
            operation.whole(folder)
        except Exception as problem:
            found.append(f"claims to be done, but: {problem!r}")
    else:
        said = str(error)
        if operation.old and after.get(operation.target) != before[operation.target]:
            found.append("the old file has changed")
        if not operation.old and (folder / operation.target).exists() and operation.target not in operation.leaves:
            found.append("there is a file, although it failed")
        if operation.command:
            if not isinstance(error, CommandFailed) or error.code != FAILED:
                found.append(f"not the exit code of a failure: {error!r}")
            if "Traceback" in said or sum("multimargin: error: " in line for line in said.splitlines()) != 1:
                found.append(f"not one line: {said!r}")
        elif not isinstance(error, OSError):
            found.append(f"not an OSError: {error!r}")
        naming = said.replace("the model is not lost", "")  # which names no file
        if not any(name in naming for name in (operation.target, *operation.leaves, operation.where)):
            found.append(f"does not name the file: {said!r}")
        if not any(advice in said for advice in ADVICE):
            found.append(f"does not say what to do: {said!r}")
    written = {operation.target, *operation.leaves}
    for name, content in before.items():
        if name.split("/")[0] not in written and after.get(name) != content:
            found.append(f"{name} has changed")
    rescued = [name for name in after if name.startswith("temporary/multimargin-") and name in str(error)]
    for name in rescued:  # a model that could not be written where it was wanted
        multimargin.load(folder / name)
    for name in after:
        if name not in before and name not in rescued and name.split("/")[0] not in written:
            found.append(f"left behind: {name}")
    return found


def attempt(operation: Operation, folder: Path) -> Exception | None:
    """The error, if there is one; what is only warned of, is no error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            operation.act(folder)
        except Exception as error:
            return error
    return None


def check(operation: Operation, template: Path, parent: Path, kind: str, step: int) -> tuple[int, int, list[str]]:
    """Faults met, those of them that were an error, and what went wrong."""
    shim: Any = ctypes.CDLL(None)
    number, always = ERRORS[kind]
    faults = errors = 0
    wrong: list[str] = []
    for n in count(1, step):
        with fresh(template, operation, parent) as folder:
            before = files_of(folder)
            shim.fail_at(os.fsencode(folder), n, number, int(always), int(kind == STAYS))
            error = attempt(operation, folder)
            met = shim.failed()
            shim.fail_at(None, 0, 0, 0, 0)
            if not met:
                if error is not None:
                    wrong.append(f"fails without a fault: {error!r}")
                break
            faults += 1
            errors += error is not None
            found = wrongs(operation, folder, before, error)
            if kind == STAYS:
                found = [what for what in found if not what.startswith("left behind")]
                found += [f"an error because of what stays: {error!r}"] * (error is not None)
            wrong += [f"{kind} at call {n}: {what}" for what in found]
    return faults, errors, wrong


def on_full_disk(operation: Operation, template: Path, parent: Path) -> tuple[int, int, list[str]]:
    """The same with a file system of its own, which has less and less room beside what was there."""
    faults = errors = 0
    wrong: list[str] = []
    page = os.sysconf("SC_PAGE_SIZE")
    disk = parent / "disk"
    disk.mkdir(exist_ok=True)
    for room in range(400):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(disk)], check=True)
        try:
            with fresh(template, operation, disk) as folder:
                ballast = disk / "ballast"
                free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
                with ballast.open("wb") as file:
                    os.posix_fallocate(file.fileno(), 0, free - room * page)
                before = files_of(folder)
                error = attempt(operation, folder)
                left = wrongs(operation, folder, before, error)
                failed = error is not None
        finally:
            error = None  # whose traceback holds blocks that are mapped
            gc.collect()
            subprocess.run(["umount", str(disk)], check=True)
        if not failed and not left:
            break
        faults += 1
        errors += failed
        wrong += [f"{room} free pages: {what}" for what in left]
    return faults, errors, wrong


def inside(args: argparse.Namespace) -> int:
    """The table."""
    chosen = operations()
    if args.only:
        chosen = {name: chosen[name] for name in args.only}
    kinds = ["real disk"] if args.disk else list(ERRORS)
    failures: list[str] = []
    totals = np.zeros(2, dtype=int)
    print(f"{'writes of':22} {'fault':10} {'faults':>7} {'errors':>7} {'wrong':>6}")
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # where a sync costs nothing
    with tempfile.TemporaryDirectory(dir=memory) as parent:
        template = Path(parent) / "template"
        prepare(template)
        for name, operation in chosen.items():
            with fresh(template, operation, Path(parent)) as folder:  # everything is imported, and works
                error = attempt(operation, folder)
            if error is not None:
                raise error
            for kind in kinds:
                if args.disk:
                    result = on_full_disk(operation, template, Path(parent))
                else:
                    result = check(operation, template, Path(parent), kind, args.step)
                faults, errors, wrong = result
                totals += [faults, errors]
                failures += [f"{name}: {what}" for what in wrong]
                print(f"{name:22} {kind:10} {faults:7} {errors:7} {len(wrong):6}", flush=True)
    print(f"{'all':22} {'':10} {totals[0]:7} {totals[1]:7} {len(failures):6}")
    print("\n".join(failures))
    return int(bool(failures))


def main() -> int:
    """Compile the library, and run this script again under it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="some of the operations")
    parser.add_argument("--step", type=int, default=1, help="let only each so-manieth write fail (default: 1, all)")
    parser.add_argument("--disk", action="store_true", help="on a small file system that is really full (root)")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside or args.disk:
        return inside(args)
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "failing_writes.so"
        compiler = os.environ.get("CC", "cc")
        words = [compiler, "-O1", "-fPIC", "-shared", "-o", str(library), str(HERE / "failing_writes.c"), "-ldl"]
        subprocess.run(words, check=True)
        environment = os.environ | {"LD_PRELOAD": str(library)}
        return subprocess.run([sys.executable, __file__, "--inside", *sys.argv[1:]], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
