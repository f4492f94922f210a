"""Fuzzes through Python: ``python fuzz/run.py [TARGET ...] [--seconds N] [--executions N] [--seed N]``.

Every target runs in a process of its own, so that a crash or a hang (60 s of computing, or 600 s of waiting, in one
input) is seen and told, with the file that holds the input; ``--replay FILE`` tries such a file again. If atheris is
installed (``pip install "multimargin[fuzz]"``), it chooses, by what they reach, which inputs are changed on; else, or
with ``--no-atheris``, that is random. The changes are those of the target either way.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib.util
import mmap
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

LONGEST_SECONDS = 60  # of one input, on the processor: the machine may have other things to do
LONGEST_WAIT = 600  # by the clock
_ROOM = 1 << 22


class Last:
    """A file that always holds the input that is being tried, whatever ends the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(bytes(_ROOM))
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), _ROOM)

    def set(self, data: bytes) -> None:
        data = data[: _ROOM - 4]
        self.memory[: 4 + len(data)] = struct.pack("<I", len(data)) + data

    def keep(self, data: bytes | None = None) -> None:
        """The input as a file of its own; or none, if all went well."""
        self.memory.close()
        if data is None:
            self.path.unlink()
        else:
            self.path.write_bytes(struct.pack("<I", len(data)) + data)


def folder_of_files() -> Any:
    """For the files of a run: in memory where there is such a place, as all writes are synced."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)


def try_one(target: Any, data: bytes) -> None:
    """One input: what is not allowed comes out."""
    signal.setitimer(signal.ITIMER_PROF, LONGEST_SECONDS)  # whose signals end the process, in C++ too
    signal.setitimer(signal.ITIMER_REAL, LONGEST_WAIT)
    try:
        target.run(data)
    except target.allowed:
        pass
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def fuzz(name: str, seconds: float, executions: float, seed: int, folder: Path) -> None:
    """One target, here."""
    from targets import TARGETS

    warnings.simplefilter("ignore")
    faulthandler.enable()
    last = Last(Path(f"crash-{name}").absolute())
    target = TARGETS[name](folder)
    corpus = target.corpus()
    rng, done, begin = random.Random(seed), 0, time.monotonic()
    queue, kept = list(corpus), list(corpus)
    data = b""
    try:
        while done < executions and time.monotonic() - begin < seconds:
            if queue:
                data = queue.pop()
            else:
                data = target.changed(rng.choice(kept), rng, corpus)
                if rng.random() < 0.02 and len(kept) < 500:  # changes upon changes
                    kept.append(data)
                elif rng.random() < 0.01 and len(kept) > len(corpus):
                    kept.pop(rng.randrange(len(corpus), len(kept)))
            last.set(data)
            try_one(target, data)
            done += 1
    except BaseException:
        last.keep(data)
        print(f"{name}: after {done} executions; the input is in {last.path}", file=sys.stderr)
        raise
    last.keep()
    print(f"{name}: {done} executions, {time.monotonic() - begin:.0f} s, {len(corpus)} inputs of the corpus, no fault")


def fuzz_with_atheris(name: str, seconds: float, executions: float, seed: int, folder: Path) -> None:
    """One target, by atheris, which ends the process. The input of a fault stays in a file; the parent removes it."""
    try:
        import atheris
    except ImportError:
        raise ImportError('atheris is not there; install it with: pip install "multimargin[fuzz]"') from None
    warnings.simplefilter("ignore")
    last = Last(Path(f"crash-{name}").absolute())
    start, files = folder / "corpus", folder / "files"
    for made in (start, files):
        made.mkdir()

    def run(data: bytes) -> None:
        last.set(data)
        try_one(target, data)

    # Only what is imported here tells what inputs reach, and much is imported on first use.
    with atheris.instrument_imports(include=["multimargin"]):
        from targets import TARGETS

        target = TARGETS[name](files)
        for number, data in enumerate(target.corpus()):
            (start / str(number)).write_bytes(data)
            run(data)

    def changed(data: bytes, most: int, seed: int) -> bytes:
        return target.changed(data, random.Random(seed), [data])[:most]

    options = [f"-max_total_time={int(seconds)}", f"-seed={seed}", f"-timeout={LONGEST_WAIT}", "-max_len=100000"]
    if executions < float("inf"):
        options.append(f"-runs={int(executions)}")
    options += [f"-artifact_prefix={folder}/", "-print_final_stats=1", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *options, str(start)], run, custom_mutator=changed)
    atheris.Fuzz()


def main() -> int:
    """All targets that are asked for, one after the other."""
    names = ["load", "text_models", "read_svmlight", "blocks", "checkpoints", "command_line"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(names) + "; all, if none is given")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--executions", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=random.randrange(2**31), help="another one each time, if not given")
    parser.add_argument(
        "--atheris", action=argparse.BooleanOptionalAction, default=importlib.util.find_spec("atheris") is not None
    )
    parser.add_argument("--replay", metavar="FILE", help="what a fault has left, for one TARGET")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)  # the child's
    args = parser.parse_args()
    if unknown := set(args.targets) - set(names):
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    if args.replay:
        from targets import TARGETS

        content = Path(args.replay).read_bytes()
        with folder_of_files() as folder:
            try_one(TARGETS[args.targets[0]](Path(folder)), content[4 : 4 + struct.unpack("<I", content[:4])[0]])
        return 0
    if args.here:
        with folder_of_files() as folder:
            engine = fuzz_with_atheris if args.atheris else fuzz
            engine(args.targets[0], args.seconds, args.executions, args.seed, Path(folder))
        return 0
    print(f"--seed={args.seed}", flush=True)
    faults = 0
    for name in args.targets or names:
        command = [sys.executable, __file__, name, "--here", f"--seconds={args.seconds}", f"--seed={args.seed}"]
        command += [f"--executions={args.executions}", "--atheris" if args.atheris else "--no-atheris"]
        code = subprocess.run(command).returncode
        if not code:
            Path(f"crash-{name}").unlink(missing_ok=True)
        else:
            print(
                f"{name}: FAULT ({'signal ' + str(-code) if code < 0 else 'exit code ' + str(code)})", file=sys.stderr
            )
            faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
