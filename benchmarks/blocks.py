"""Training from blocks on disk, within a given memory, on generated svmlight text. See README.md in this folder.

    python benchmarks/blocks.py --gb 1 --folder /somewhere/with/room

Prints how fast text is written to a store, the peak of anonymous memory (mapped pages of files do not count), the
certified gap, and rows visited per second, against the same solver in memory on a slice of the rows.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from multimargin._core import write_svmlight_lines
from sklearn.exceptions import ConvergenceWarning

from multimargin import LinearSVM
from multimargin.data.blocks import open_blocks, write_blocks
from multimargin.data.rows import as_rows

FEATURES, NONZEROS, CLASSES = 100_000, 60, 50
SIGNAL = 12  # non-zeros of a row that are features of its class
CHUNK = 20_000


def generate(path: Path, size: float, seed: int = 0) -> int:
    """Text of at least ``size`` bytes; how many rows it has."""
    rng = np.random.default_rng(seed)
    of_class = rng.integers(0, FEATURES, (CLASSES, 40))
    rows = 0
    with path.open("wb") as file:
        while file.tell() < size:
            y = rng.integers(0, CLASSES, CHUNK)
            # Features of the background are the rarer the higher their number, as words are.
            columns = (FEATURES * rng.random((CHUNK, NONZEROS)) ** 3).astype(np.int32)
            columns[:, :SIGNAL] = of_class[y[:, None], rng.integers(0, 40, (CHUNK, SIGNAL))]
            wrong = rng.random(CHUNK) < 0.05
            y[wrong] = rng.integers(0, CLASSES, wrong.sum())
            values = (1 + rng.integers(0, 999, CHUNK * NONZEROS)) / 1000 / np.sqrt(NONZEROS / 3)
            X = sp.csr_array((values.round(4), columns.ravel(), np.arange(0, CHUNK * NONZEROS + 1, NONZEROS)))
            X.sum_duplicates()
            file.write(write_svmlight_lines(as_rows(X), 0, CHUNK, y.astype(float), np.empty(0, np.int64), 1))
            rows += CHUNK
    return rows


class PeakMemory:
    """The largest RssAnon of this process while it is open, in MB."""

    def __enter__(self) -> PeakMemory:
        self.mb, self._stop = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            lines = Path("/proc/self/status").read_text().splitlines()
            held = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))
            self.mb = max(self.mb, held / 1024)


def visits_per_second(model: LinearSVM, started: float, n_rows: int) -> float:
    """Rows visited per second of CPU time of the whole fit; a certificate is two passes."""
    certified = int(np.isfinite(model.history_["gap"]).sum())
    return (model.history_["active_rows"].sum() + 2 * certified * n_rows) / (time.process_time() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gb", type=float, default=1.0, help="of text")
    parser.add_argument("--memory-mb", type=float, default=1500.0)
    parser.add_argument("--tol", type=float, default=1e-2)
    parser.add_argument("--C", type=float, default=0.1)
    parser.add_argument("--block-mb", type=float, default=64.0)
    parser.add_argument("--compress", action="store_true")
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--max-iter", type=int, default=1000)
    parser.add_argument("--slice", type=int, default=100_000, help="rows of the fit in memory")
    parser.add_argument("--folder", type=Path, help="for text and store (default: a temporary one)")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="multimargin-blocks-"))
    folder.mkdir(exist_ok=True)
    text, blocks = folder / "data.txt", folder / "data.blocks"
    try:
        run(options, text, blocks)
    finally:
        if options.folder is None:
            shutil.rmtree(folder)


def run(options: argparse.Namespace, text: Path, blocks: Path) -> None:
    if not text.exists():
        begun = time.perf_counter()
        rows = generate(text, options.gb * 1e9)
        print(f"generated   {text.stat().st_size / 1e9:.2f} GB, {rows / (time.perf_counter() - begun):,.0f} rows/s")
    if not blocks.exists():
        begun = time.process_time()
        with PeakMemory() as peak:
            store = write_blocks(blocks, text, block_mb=options.block_mb, compress=options.compress, dtype=np.float32)
        rate = store.n_rows / (time.process_time() - begun)
        print(f"written     {len(store)} blocks, {rate:,.0f} rows per CPU second, peak {peak.mb:,.0f} MB anonymous")
    store = open_blocks(blocks)
    settings = {"C": options.C, "solver": options.solver, "random_state": 0}
    warnings.simplefilter("ignore", ConvergenceWarning)
    begun = time.process_time()
    with PeakMemory() as peak:
        model = LinearSVM(tol=options.tol, memory_mb=options.memory_mb, max_iter=options.max_iter, **settings).fit(
            store
        )
    streamed = visits_per_second(model, begun, store.n_rows)
    print(f"store       {store.n_rows:,} rows, {store.n_features:,} features, {len(store.classes)} classes")
    reached = f"gap {model.dual_gap_:.2e} of {options.tol:g}, converged {model.converged_}"
    print(f"trained     {reached}, {model.n_iter_} epochs")
    for record in model.history_[np.isfinite(model.history_["gap"])]:
        print(f"            after tour {record['epoch']}, {record['seconds']:.0f} s: gap {record['gap']:.2e}")
    print(f"memory      peak {peak.mb:,.0f} MB anonymous, memory_mb={options.memory_mb:g}")
    taken: list = []
    for block in store:
        taken.append((block.X, block.y))
        if sum(len(y) for _, y in taken) >= options.slice:
            break
    X, y = sp.vstack([X for X, _ in taken], "csr"), np.concatenate([y for _, y in taken])
    begun = time.process_time()
    slice_model = LinearSVM(tol=options.tol, max_iter=20, **settings | {"solver": "sdm"}).fit(X, y)
    in_memory = visits_per_second(slice_model, begun, len(y))
    print(
        f"speed       {streamed:,.0f} visits per CPU second from disk, {in_memory:,.0f} in memory on {len(y):,} rows:"
    )
    print(f"            ratio {streamed / in_memory:.2f}")


if __name__ == "__main__":
    main()
