"""What is fuzzed through Python: an input is bytes, and only the exceptions that are documented may come out.

A target makes its own small corpus, says how inputs are changed (with the checksums right again, most of the time: or
nothing behind them would ever be reached), and runs one.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import random
import re
import shutil
import struct
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from mutations import changed_arrays, changed_bytes, changed_json
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multimargin import KernelSVM, LinearSVM
from multimargin.commands.main import main
from multimargin.data.block_files import BlocksError, manifest_of
from multimargin.data.blocks import open_blocks, write_blocks
from multimargin.data.container import read_container, write_container
from multimargin.data.svmlight import SvmlightFormatError, read_svmlight
from multimargin.data.svmlight_writing import write_svmlight
from multimargin.linear.checkpoint import CHECKPOINT, CheckpointError
from multimargin.models import (
    ModelFormatError,
    load,
    load_light,
    read_liblinear,
    read_libsvm,
    save,
    write_liblinear,
    write_libsvm,
)
from multimargin.models.envelope import MODEL
from multimargin.models.light import load_to_predict

HERE = Path(__file__).parent
RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(12, 3)), 2)
Y = np.arange(12) % 3
TEXTS = ["red green", "blue sky", "green field", "sky and sea", "red rose", "blue sea"]


class Target:
    """One of them.

    Attributes
    ----------
    allowed : tuple of exceptions
        What may come out; anything else is a finding, as are a crash and a hang.
    """

    allowed: tuple[type[BaseException], ...] = ()

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def corpus(self) -> list[bytes]:
        """Inputs to begin with."""
        raise NotImplementedError

    def changed(self, data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
        """Another input."""
        return changed_bytes(data, rng, others)

    def run(self, data: bytes) -> None:
        """Try one."""
        raise NotImplementedError


class ContainerTarget(Target):
    """Files of arrays: half of the changes are made inside, under a checksum that is right."""

    kind: Any
    n_first = 0  # bytes before the file

    def changed(self, data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
        if rng.random() < 0.1:
            return changed_bytes(data, rng, others)
        path = self.folder / "changed"
        path.write_bytes(data[self.n_first :])
        try:
            description, arrays = read_container(path, self.kind)
            for _ in range(rng.choice((1, 1, 2, 4))):
                if rng.random() < 0.5:
                    description = changed_json(description, rng)
                else:
                    arrays = changed_arrays(arrays, rng)
            if not isinstance(description, dict):
                return changed_bytes(data, rng, others)
            write_container(path, self.kind, description, arrays)
        except ValueError:  # it was damaged already, or JSON cannot say it
            return changed_bytes(data, rng, others)
        return data[: self.n_first] + path.read_bytes()


class Load(ContainerTarget):
    """``load``, ``load_light`` and, if they let the file in, a prediction."""

    allowed = (ModelFormatError,)
    kind = MODEL

    def corpus(self) -> list[bytes]:
        names = np.array(["one", "two", "three"])
        models = [
            LinearSVM().fit(X, names[Y]),
            LinearSVM("one_vs_one", probability=True).fit(X, Y),
            LinearSVM("one_vs_rest", loss="squared_hinge", fit_intercept=False).fit(sp.csr_array(X), Y > 0),
            KernelSVM().fit(X, Y),
            KernelSVM("one_vs_one", kernel="poly").fit(sp.csr_array(X), Y),
            KernelSVM(kernel="precomputed").fit(X @ X.T, Y),
            make_pipeline(TfidfVectorizer(), LinearSVM()).fit(TEXTS, list("abaaab")),
            make_pipeline(StandardScaler(), LinearSVM("weston_watkins")).fit(X, Y),
        ]
        found = []
        for number, model in enumerate(models):
            save(model, self.folder / "model", duals=number % 2 == 0)
            found.append((self.folder / "model").read_bytes())
        return found

    def run(self, data: bytes) -> None:
        path = self.folder / "model"
        path.write_bytes(data)
        with contextlib.suppress(ModelFormatError):
            load_light(path)
        with contextlib.suppress(ModelFormatError):
            load_to_predict(path)
        model = load(path)
        with contextlib.suppress(ValueError):  # rows that this model does not take
            n = getattr(model, "n_features_in_", 3)
            model.predict(
                TEXTS
                if hasattr(model[0] if hasattr(model, "steps") else model, "get_stop_words")
                else np.ones((2, min(n, 1000)))
            )


class TextModels(Target):
    """``read_liblinear`` and ``read_libsvm``."""

    allowed = (ModelFormatError,)

    def corpus(self) -> list[bytes]:
        found = []
        for model in (LinearSVM().fit(X, Y), LinearSVM("one_vs_rest").fit(X, Y > 0)):
            write_liblinear(model, self.folder / "model")
            found.append((self.folder / "model").read_bytes())
        for model in (
            KernelSVM("one_vs_one").fit(X, Y),
            KernelSVM("one_vs_one", kernel="linear").fit(sp.csr_array(X), Y),
        ):
            write_libsvm(model, self.folder / "model")
            found.append((self.folder / "model").read_bytes())
        return found

    def run(self, data: bytes) -> None:
        path = self.folder / "model"
        path.write_bytes(data)
        model = read_libsvm(path) if data.startswith(b"svm_type") else read_liblinear(path)
        if model.n_features_in_ <= 1000:
            model.predict(np.ones((2, model.n_features_in_)))


class Svmlight(Target):
    """``read_svmlight``; the first byte chooses its options. The corpus is that of the C++ target."""

    allowed = (SvmlightFormatError,)

    def corpus(self) -> list[bytes]:
        import bz2
        import gzip
        import lzma

        found = [path.read_bytes()[1:] for path in sorted((HERE / "corpus" / "svmlight").iterdir())]
        return found + [b"\0" + pack(found[0][1:]) for pack in (gzip.compress, bz2.compress, lzma.compress)]

    def run(self, data: bytes) -> None:
        bits = data[0] if data else 0
        X, y, *_ = read_svmlight(
            io.BytesIO(data[1:]),
            n_features=(None, None, 5, 2**40)[bits & 3],
            dtype=np.float32 if bits & 4 else np.float64,
            zero_based=("auto", True, False, "auto")[bits >> 3 & 3],
            query_id=bool(bits & 32),
            n_jobs=2 if bits & 64 else None,
        )
        X.check_format()
        if not (np.isfinite(X.data).all() and np.isfinite(y).all() and X.shape[0] == len(y) > 0):
            raise AssertionError("what was read is not what the format promises")


class Blocks(Target):
    """``open_blocks`` and all blocks of the store: manifest and one block, each behind its length."""

    allowed = (BlocksError,)

    def corpus(self) -> list[bytes]:
        found = []
        weight = np.linspace(0, 1, len(X))
        chunks = [(X, Y), (sp.csr_array(X), Y), (sp.csr_array(X), Y, weight), (X.astype(np.float32), Y > 0)]
        for number, chunk in enumerate(chunks):
            path = self.folder / "made"
            shutil.rmtree(path, ignore_errors=True)
            store = write_blocks(path, [chunk], compress=number == 1)
            manifest = (path / "manifest.json").read_bytes()
            block = (path / store.entries[0].file).read_bytes()
            found.append(struct.pack("<I", len(manifest)) + manifest + block)
        return found

    @staticmethod
    def split(data: bytes) -> tuple[bytes, bytes]:
        length = struct.unpack("<I", data[:4].ljust(4, b"\0"))[0]
        return data[4 : 4 + length], data[4 + length :]

    def changed(self, data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
        manifest, block = self.split(data)
        try:
            body = json.loads(manifest)["store"]
            if rng.random() < 0.5:
                block = changed_bytes(block, rng, [block])
            if rng.random() < 0.5:
                body = changed_json(body, rng)
            if rng.random() < 0.8:  # and the store says so
                body["blocks"][0]["bytes"], body["blocks"][0]["checksum"] = len(block), zlib.crc32(block)
            manifest = manifest_of(body)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
            return changed_bytes(data, rng, others)
        if rng.random() < 0.1:
            manifest = changed_bytes(manifest, rng, [manifest])
        return struct.pack("<I", len(manifest)) + manifest + block

    def run(self, data: bytes) -> None:
        manifest, block = self.split(data)
        path = self.folder / "store"
        path.mkdir(exist_ok=True)
        (path / "manifest.json").write_bytes(manifest)
        names = set(re.findall(r'"file": "([\w.-]+)"', manifest.decode("utf-8", "replace")))
        for name in names - {"manifest.json", ".", ".."}:
            (path / name).write_bytes(block)
        store = open_blocks(path)
        for part in store:
            if part.X.shape != (len(part.y), store.n_features):
                raise AssertionError("a block that is not of the shape of its store")
        for name in names - {"manifest.json", ".", ".."}:
            (path / name).unlink(missing_ok=True)


class _Stop:
    """A callback that interrupts a training."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def __call__(self, record: Any) -> None:
        self.left -= 1
        if self.left <= 0:
            raise KeyboardInterrupt


class Checkpoints(ContainerTarget):
    """``fit`` that goes on from a checkpoint: the first byte says whose it is, the rest is the file."""

    allowed = (CheckpointError,)
    kind = CHECKPOINT
    n_first = 1

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        import multimargin.kernel.machine
        from multimargin.linear import cutting_plane, primal_cd, sdm, tron

        for solver in (sdm, tron, primal_cd, cutting_plane):
            solver.BUDGET = 2e3  # short slices: a checkpoint is of something that is under way
        multimargin.kernel.machine._BUDGET = 2e2

    def machines(self) -> list[Any]:
        options: dict[str, Any] = {"max_iter": 60, "checkpoint": str(self.folder / "checkpoint"), "checkpoint_every": 0}
        return [
            LinearSVM(solver="sdm", **options),
            LinearSVM("weston_watkins", "squared_hinge", solver="accelerated_sdm", **options),
            LinearSVM("one_vs_one", solver="sdm", **options),
            LinearSVM("one_vs_rest", "squared_hinge", solver="newton", **options),
            LinearSVM(solver="pegasos", **options),
            LinearSVM("one_vs_rest", solver="exponentiated_gradient", **options),
            LinearSVM(solver="cutting_plane", **options),
            LinearSVM("one_vs_one", solver="cutting_plane", **options),
            LinearSVM("one_vs_rest", "squared_hinge", solver="tron", **options),
            LinearSVM("one_vs_rest", "squared_hinge", solver="primal_cd", **options),
            KernelSVM(**options),
            KernelSVM("one_vs_one", **options),
        ]

    def fit(self, machine: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            machine.fit(X, Y)

    def corpus(self) -> list[bytes]:
        found = []
        for number, machine in enumerate(self.machines()):
            with contextlib.suppress(KeyboardInterrupt):
                self.fit(machine.set_params(callbacks=[_Stop(2)]))
            if (self.folder / "checkpoint").exists():
                found.append(bytes([number]) + (self.folder / "checkpoint").read_bytes())
                (self.folder / "checkpoint").unlink()
        return found

    def run(self, data: bytes) -> None:
        machines = self.machines()
        (self.folder / "checkpoint").write_bytes(data[1:])
        with contextlib.suppress(KeyboardInterrupt):
            self.fit(machines[data[0] % len(machines) if data else 0])


class CommandLine(Target):
    """``main(argv)`` in this process, over small files, whole and damaged: never a traceback, only the exit codes."""

    LINES = (
        "train data.svm out.model",
        "train data.csv out.model --label y --text t",
        "train data.npz out.model --kernel rbf --C 2",
        "train data.svm out.model --formulation one_vs_one --loss squared_hinge --probability",
        "train data.svm out.model -s 4 -e 0.1 -B 1 -w1 2",
        "train data.svm out.model --checkpoint out.checkpoint --holdout 0.3",
        "train data.blocks out.model --memory-mb 99",
        "train data.svm -v 2",
        "predict data.svm data.model",
        "predict data.svm data.model out.txt --proba",
        "predict data.csv text.model --top 2",
        "predict data.svm liblinear.model",
        "tune data.svm --quiet -v 2 --C-range 1 1",
        "convert data.model out.liblinear --to liblinear",
        "convert data.svm out.blocks",
        "convert liblinear.model out.model",
        "report data.model data.svm out.html",
        "completion bash",
        "--version",
    )
    # fmt: off
    WORDS = (
        "-", "--", "--json", "-q", "-v", "2", "0", "-1", "1e300", "nan", "0.5", "--C", "--tol", "--max-iter",
        "3", "--n-jobs", "1", "--seed", "--format", "svmlight", "csv", "tsv", "npz", "--label", "y", "t", "x",
        "--n-features", "2", "--zero-based", "yes", "no", "--text", "--numeric", "--drop", "--kernel", "rbf",
        "poly", "linear", "--gamma", "scale", "--formulation", "crammer_singer", "weston_watkins",
        "one_vs_rest", "dag", "--solver", "sdm", "newton", "tron", "--no-intercept", "--proba", "--top",
        "--time-limit", "0.1", "--valid", "data.svm", "data.csv", "data.model", "text.model", "liblinear.model",
        "data.npz", "missing", "empty", "folder", "--class-weight", "balanced", "--weight", "a=2", "-w1", "-s",
        "7", "-B", "-e", "-c", "--to", "--compress", "--title",
    )
    # fmt: on

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        import multimargin.commands.main as program
        import multimargin.report.writing as writing

        program.build_parser = functools.cache(program.build_parser)  # half of the time of a short command
        # Matplotlib's pictures take a second each, and are not what is looked at: one of each name will do.
        drawn, draw_one = {}, writing.svg
        writing.svg = lambda draw, name, text: drawn.get(name) or drawn.setdefault(name, draw_one(draw, name, text))
        os.chdir(folder)
        write_svmlight("data.svm", X, Y)
        np.savez("data.npz", X=X, y=Y)
        Path("data.csv").write_text("t,x,y\n" + "".join(f"{t},{i},{i % 2}\n" for i, t in enumerate(TEXTS)))
        Path("empty").touch()
        Path("folder").mkdir()
        save(LinearSVM(probability=True).fit(X, Y), "data.model")
        save(make_pipeline(TfidfVectorizer(), LinearSVM()).fit(TEXTS, list("abaaab")), "text.model")
        write_liblinear(LinearSVM().fit(X, Y), "liblinear.model")
        write_blocks("data.blocks", [(X, Y)])
        self.whole = {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}

    def corpus(self) -> list[bytes]:
        return ["\0".join(line.split()).encode() for line in self.LINES]

    def changed(self, data: bytes, rng: random.Random, others: list[bytes]) -> bytes:
        words = data.split(b"\0")
        for _ in range(rng.choice((1, 1, 2, 3))):
            at, kind = rng.randrange(len(words) + 1), rng.randrange(5)
            if kind == 0:
                words[at : at + 1] = []
            elif kind == 1:
                words.insert(at, rng.choice(self.WORDS).encode())
            elif kind == 2 and at < len(words):
                words[at] = rng.choice(self.WORDS).encode()
            elif kind == 3 and at < len(words):
                words[at] = changed_bytes(words[at], rng, others).replace(b"\0", b"")
            elif at < len(words) and words[at].decode("utf-8", "replace") in self.whole:
                words[at] = b"damaged-%d-" % rng.randrange(10**6) + words[at]
        return b"\0".join(words)

    def run(self, data: bytes) -> None:
        words = data.decode("utf-8", "replace").split("\0")
        # Nothing outside of the folder, nothing that takes long, no more threads than a few.
        if any(
            "/" in word or ".." in word or word.startswith("@") or re.fullmatch(r"\W*\d{3,}", word) for word in words
        ):
            return
        if "demo" in words or "compare" in words:
            return
        for word in words:
            damaged = re.fullmatch(r"damaged-(\d+)-(.+)", word)
            if damaged and damaged[2] in self.whole:
                content = self.whole[damaged[2]]
                Path(word).write_bytes(changed_bytes(content, random.Random(int(damaged[1])), [content]))
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(b"1 1:2\n"))
        shown = warnings.showwarning
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = main(words)
        finally:
            sys.stdin, warnings.showwarning = stdin, shown
        said = err.getvalue()
        errors = sum("multimargin: error: " in line for line in said.splitlines())
        if code not in (0, 1, 2, 3) or errors != (code in (1, 2)) or "Traceback" in said or "shows where" in said:
            raise AssertionError(f"exit code {code}: {said}")
        self.tidy()

    def tidy(self) -> None:
        """The folder as it was."""
        keep = {*self.whole, "folder", "data.blocks"}
        for path in Path().iterdir():
            if path.name not in keep:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name, content in self.whole.items():
            path = Path(name)
            if not path.is_file() or path.stat().st_size != len(content) or path.read_bytes() != content:
                path.write_bytes(content)


TARGETS: dict[str, type[Target]] = {
    "load": Load,
    "text_models": TextModels,
    "read_svmlight": Svmlight,
    "blocks": Blocks,
    "checkpoints": Checkpoints,
    "command_line": CommandLine,
}
