"""The search for C, and for gamma of a kernel: cross-validated, coarse to fine, in powers of two.

Every fold learns its own features (a scaler or the vocabulary of a text knows nothing of the rows held out). A fold
takes one gamma at a time and its values of C in ascending order, each fit from the duals of the last one. A kernel
matrix that fits into ``--cache-mb`` is computed once for all values of C.
"""

from __future__ import annotations

import math
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from multimargin.commands.checkpoints import note_going_on
from multimargin.commands.datasets import Dataset
from multimargin.commands.errors import CommandError
from multimargin.commands.finished_paths import FinishedPaths, Path, Told
from multimargin.commands.fitting import accuracy, folds_of, learn_features, no_threads
from multimargin.commands.words import duration
from multimargin.data.thread_pool import NoThreadsError, ThreadPool
from multimargin.estimators.identity import identity_of_folds
from multimargin.estimators.kernel_svm import KernelSVM
from multimargin.estimators.parameters import n_threads
from multimargin.estimators.splits import weights_of_part
from multimargin.kernel.functions import USE_GAMMA, Kernel, resolve_gamma, squared_norms
from multimargin.linear.checkpoint import StateFile

# Exponents of two, from the value that the scale of the data suggests.
_LINEAR_C = range(-6, 9, 2)
_KERNEL_C = range(-2, 9, 2)
_GAMMA = range(-4, 5, 2)
_STEP = 2
_FINER = (1.0, 0.5)
_BAR = 20  # characters
_MOST_EXTENSIONS = 3  # of the coarse grid, towards a winner at its edge

Point = tuple[float, float | None]  # log2 of C, log2 of gamma


@dataclass
class Found:
    """What was tried: the accuracy of every point in every fold; all folds that did not converge are counted."""

    scores: dict[Point, list[float]] = field(default_factory=dict)
    short: dict[Point, int] = field(default_factory=dict)
    seconds: float = 0.0
    n_fits: int = 0
    interrupted: bool = False
    at_edge: list[str] = field(default_factory=list)  # parameters whose best value is the last one tried

    def mean(self, point: Point) -> float:
        return float(np.mean(self.scores[point]))

    def ranked(self) -> list[Point]:
        """Best first; of equals the smallest C, then the smallest gamma: the smoothest machine."""
        return sorted(self.scores, key=lambda point: (-self.mean(point), point[0], point[1] or 0.0))

    @property
    def best(self) -> dict[str, float]:
        return parameters_of(self.ranked()[0])

    @property
    def best_score(self) -> float:
        return self.mean(self.ranked()[0])


def parameters_of(point: Point) -> dict[str, float]:
    """C, and gamma where there is one."""
    found = {"C": 2.0 ** point[0]}
    return found if point[1] is None else found | {"gamma": 2.0 ** point[1]}


@dataclass
class _Fold:
    X: Any
    y: np.ndarray
    X_out: Any
    y_out: np.ndarray


def search(args: Any, model: Any, data: Dataset, n_folds: int, terminal: Any) -> Found:
    """Try values until the best one is not at an edge and its neighbours at half steps are no better."""
    started = time.perf_counter()
    n_folds = args.folds = _possible_folds(n_folds, data, terminal)  # in args for those who tell the result
    folds = []
    for i, (train, test) in enumerate(folds_of(data.y, n_folds, args.seed, data.path)):
        terminal.status(f"features of fold {i + 1} of {n_folds}", now=True)
        learnt, held_out = data.take(train), data.take(test)
        features, X = learn_features(learnt, args)
        folds.append(_Fold(X, learnt.y, features(held_out), held_out.y))
    finished = FinishedPaths(_state_file(args, model, folds))
    note_going_on(args, terminal)  # it was not refused
    run = _Search(model, folds, n_threads(args.n_jobs), terminal, started, finished)
    exponents = _exponents(args, model, folds[0].X)
    try:
        run.later = len(_FINER) * (2 if exponents[1] == [None] else 8)
        run.evaluate(_product(*exponents))
        exponents = _extended(run, exponents, args)
        for i, step in enumerate(_FINER):
            run.later = (len(_FINER) - 1 - i) * (2 if exponents[1] == [None] else 8)
            run.evaluate(_neighbours(run.found.ranked()[0], step, exponents))
        finished.remove()
    except KeyboardInterrupt:
        finished.save()
        if not run.found.scores:
            raise
        run.found.interrupted = True
    run.found.at_edge = _edges(run.found.ranked()[0], exponents)
    run.found.seconds = time.perf_counter() - started
    terminal.clear()
    return run.found


def _state_file(args: Any, model: Any, folds: list[_Fold]) -> StateFile | None:
    if args.checkpoint is None:
        return None
    of = identity_of_folds(model, [(fold.X, fold.y, fold.X_out, fold.y_out) for fold in folds])
    return StateFile(args.checkpoint, args.checkpoint_every, of)


def _possible_folds(n_folds: int, data: Dataset, terminal: Any) -> int:
    """As many as asked for, if any class has a row for each; else as many as the smallest class has rows."""
    counts = np.unique(data.y, return_counts=True)[1]
    if n_folds <= counts.max():
        return n_folds
    if counts.max() < 2:
        raise CommandError(f"{data.path}: every class has one row only; cross-validation needs classes with more")
    possible = max(2, int(counts.min()))
    terminal.note(f"{data.path}: no class has {n_folds} rows: {possible} folds")
    return possible


def _exponents(args: Any, model: Any, X: Any) -> tuple[list[float], list[float | None]]:
    """The coarse grid: as it was asked for, else around what the scale of the data suggests."""
    kernel = isinstance(model, KernelSVM)
    centre = 0
    if not kernel or model.kernel == "linear":
        size = float(np.mean(squared_norms(X))) + (model.intercept_scaling**2 if model.fit_intercept else 0.0)
        centre = round(-math.log2(size)) if 0 < size < math.inf else 0
    Cs = _range(getattr(args, "C_range", None)) or [float(centre + e) for e in (_KERNEL_C if kernel else _LINEAR_C)]
    if not kernel or model.kernel not in USE_GAMMA:
        return Cs, [None]
    middle = round(math.log2(resolve_gamma("scale", X)))
    return Cs, [*(_range(getattr(args, "gamma_range", None)) or [float(middle + e) for e in _GAMMA])]


def _range(bounds: list[float] | None) -> list[float]:
    """From one bound to the other, in powers of four or a little less."""
    if bounds is None:
        return []
    low, high = (math.log2(bound) for bound in bounds)
    return np.linspace(low, high, math.ceil((high - low) / _STEP - 1e-9) + 1).tolist()


def _product(Cs: list[float], gammas: list[float | None]) -> list[Point]:
    return [(C, gamma) for gamma in gammas for C in Cs]


def _extended(run: _Search, exponents: tuple, args: Any) -> tuple[list[float], list[float | None]]:
    """Grow the grid towards a winner at its edge, where the range was ours to choose."""
    Cs, gammas = exponents
    for _ in range(_MOST_EXTENSIONS):
        best = run.found.ranked()[0]
        more_Cs = [] if getattr(args, "C_range", None) else _beyond(Cs, best[0])
        more_gammas = [] if getattr(args, "gamma_range", None) or best[1] is None else _beyond(gammas, best[1])
        if not more_Cs and not more_gammas:
            break
        Cs, gammas = sorted({*Cs, *more_Cs}), sorted({*gammas, *more_gammas})
        run.evaluate([point for point in _product(Cs, gammas) if _near(point, best)])
    return Cs, gammas


def _near(point: Point, other: Point) -> bool:
    """Whether two points are neighbours on the coarse grid."""
    return all(abs((a or 0.0) - (b or 0.0)) <= _STEP for a, b in zip(point, other, strict=True))


def _beyond(values: list[float], best: float) -> list[float]:
    return [best - _STEP] if best == values[0] else [best + _STEP] if best == values[-1] else []


def _neighbours(best: Point, step: float, exponents: tuple) -> list[Point]:
    """The points around the best one, within the grid."""
    Cs, gammas = exponents
    steps = (-step, 0.0, step)
    near_C = [best[0] + s for s in steps if Cs[0] <= best[0] + s <= Cs[-1]]
    if best[1] is None:
        return _product(near_C, [None])
    return _product(near_C, [best[1] + s for s in steps if gammas[0] <= best[1] + s <= gammas[-1]])


def _edges(best: Point, exponents: tuple) -> list[str]:
    values = zip(("C", "gamma"), best, exponents, strict=True)
    return [name for name, at, tried in values if at is not None and len(tried) > 1 and at in (tried[0], tried[-1])]


class _Search:
    """Fits of all folds, in threads, with a line of progress."""

    def __init__(
        self, model: Any, folds: list[_Fold], threads: int, terminal: Any, started: float, finished: FinishedPaths
    ):
        self.model, self.folds, self.threads, self.terminal = model, folds, threads, terminal
        self.started, self.finished = started, finished
        self.found = Found()
        self.total = 0  # fits of the points so far
        self.later = 0  # points that are still to come, probably
        self.stop = threading.Event()

    def evaluate(self, points: list[Point]) -> None:
        """Score the points that are new."""
        new = [point for point in points if point not in self.found.scores]
        by_gamma: dict[float | None, list[float]] = {}
        for C, gamma in sorted(new, key=lambda point: (point[1] or 0.0, point[0])):
            by_gamma.setdefault(gamma, []).append(C)
        paths = [Path(i, gamma, tuple(Cs)) for gamma, Cs in by_gamma.items() for i in range(len(self.folds))]
        self.total += len(new) * len(self.folds)
        told: dict[Point, dict[int, Told]] = {point: {} for point in new}
        # Not after the pool, whose threads end later than what is in the block.
        with warnings.catch_warnings(), ThreadPool(min(self.threads, max(len(paths), 1))) as pool:
            warnings.simplefilter("ignore", ConvergenceWarning)
            futures: list[Future] = []
            try:
                self._begin(paths, told, pool, futures)
                self._watch(futures)
            except BaseException:
                self.stop.set()
                for future in futures:
                    future.cancel()
                wait(futures)
                self._collect(told, partly=not self.found.scores)
                raise
            self._collect(told)

    def _begin(
        self, paths: list[Path], told: dict[Point, dict[int, Told]], pool: ThreadPool, futures: list[Future]
    ) -> None:
        """Have the paths walked; here and now, if one thread is wanted and not even that can be started."""
        try:
            for path in paths:
                futures.append(pool.submit(self._walk, path, told))
        except NoThreadsError as error:
            if self.threads > 1:
                raise no_threads(error) from None
            for path in paths:
                self._walk(path, told)

    def _watch(self, futures: list[Future]) -> None:
        """Wait, showing how far it is; an error in a fold is raised here."""
        waiting = set(futures)
        while waiting:
            finished, waiting = wait(waiting, timeout=0.1)
            for future in finished:
                future.result()
            done, seconds = self.found.n_fits, time.perf_counter() - self.started
            total = self.total + self.later * len(self.folds)
            left = f", about {duration(seconds / done * (total - done))} left" if done else ""
            bar = "#" * (_BAR * done // max(total, 1))
            self.terminal.status(f"[{bar:.<{_BAR}}] {done} of {total} fits  {duration(seconds)}{left}")

    def _collect(self, told: dict[Point, dict[int, Told]], *, partly: bool = False) -> None:
        """Keep the points that all folds have scored; partly: else those that most of them have."""
        wanted = max(map(len, told.values()), default=0) if partly else len(self.folds)
        for point, by_fold in told.items():
            if wanted and len(by_fold) == wanted:
                self.found.scores[point] = [by_fold[i].accuracy for i in sorted(by_fold)]
                self.found.short[point] = sum(not each.converged for each in by_fold.values())

    def _walk(self, path: Path, told: dict[Point, dict[int, Told]]) -> None:
        """One fold and one gamma: all values of C, each from where the last one ended."""
        known = self.finished.told(path)
        here = self._fits(path) if known is None else iter(known)
        walked = []
        for C, each in zip(path.Cs, here, strict=False):  # Ctrl-C ends a walk on its way
            told[C, path.gamma][path.fold] = each
            self.found.n_fits += 1
            walked.append(each)
        if known is None and len(walked) == len(path.Cs):
            self.finished.finish(path, walked)

    def _fits(self, path: Path) -> Iterator[Told]:
        fold, stop = self.folds[path.fold], self.stop
        inner = max(1, self.threads // len(self.folds))
        model = clone(self.model).set_params(
            warm_start=True, n_jobs=inner, callbacks=[lambda record: stop.is_set()], probability=False, verbose=0
        )
        model.set_params(class_weight=weights_of_part(model.class_weight, fold.y))
        X, X_out = fold.X, fold.X_out
        if isinstance(model, KernelSVM):
            model.set_params(**({} if path.gamma is None else {"gamma": 2.0**path.gamma}))
            X, X_out = self._kernel_values(model, fold)
        for C in path.Cs:
            if stop.is_set():
                return
            try:
                model.set_params(C=2.0**C).fit(X, fold.y)
            except NoThreadsError as error:
                raise no_threads(error) from None
            except ValueError as error:
                raise CommandError(f"C = {2.0**C:g}: {error}") from error
            if stop.is_set():
                return
            yield Told(accuracy(model, X_out, fold.y_out), bool(model.converged_))

    def _kernel_values(self, model: Any, fold: _Fold) -> tuple[Any, Any]:
        """The kernel matrix for all values of C, if every thread may have one; else the rows as they are."""
        size = 8.0 * fold.X.shape[0] * (fold.X.shape[0] + fold.X_out.shape[0])
        if size * min(self.threads, len(self.folds)) > model.cache_mb * 2**20:
            return fold.X, fold.X_out
        gamma = resolve_gamma(model.gamma, fold.X) if model.kernel in USE_GAMMA else 1.0
        kernel = Kernel(model.kernel, gamma, model.degree, model.coef0)
        model.set_params(kernel="precomputed")
        return kernel.block(fold.X, fold.X), kernel.block(fold.X_out, fold.X)
