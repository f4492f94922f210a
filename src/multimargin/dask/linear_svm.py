"""LinearSVM on a Dask cluster."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
from dask import compute, delayed
from dask.delayed import Delayed
from distributed import Client, get_client
from sklearn.utils.validation import check_is_fitted

from multimargin.dask.collections import blocks_beside, blocks_of, feature_names, is_distributed, row_blocks
from multimargin.dask.presence import Presence
from multimargin.dask.training import ClusterRequest, train_on_cluster
from multimargin.dask.worker import Summary, summary
from multimargin.data.labels import check_comparable, plain_labels
from multimargin.distributed.rank import Effort, Job
from multimargin.estimators import linear_svm
from multimargin.estimators.base import NO_LABELS
from multimargin.linear.outcome import Limits
from multimargin.linear.solvers import STREAMING
from multimargin.linear.training import streamed_solver
from multimargin.problems.formulations import PAIRWISE, n_lanes


class LinearSVM(linear_svm.LinearSVM):
    """:class:`multimargin.LinearSVM` for Dask collections, trained where their partitions are.

    Every worker that holds partitions trains on them; after every local epoch the workers sum up what they changed, and
    all go on from the same weights (CoCoA+, accelerated). The relative duality gap over all partitions is the stop, as
    in one process, and the optimum is the same; which weights within the gap are found depends on which partitions a
    worker holds. The client is the current one: ``Client(...)`` before, or ``with client.as_current():``.

    Rows are copied once, into one array a worker; collections that are not persisted are computed for it and let go. If
    a worker is lost its partitions are computed again, on one that takes its place or on the others, and training goes
    on. Rows that were sent to a worker by hand and are in no graph cannot be: then, or if no worker is left for 45
    seconds, the fit fails and says so.

    Parameters
    ----------
    formulation : {"crammer_singer", "weston_watkins", "one_vs_rest"}
        Pairs of classes (one_vs_one, dag) are refused, unless there are but two classes.
    solver : {"auto", "accelerated_sdm", "sdm"}
        "auto" is the accelerated one, but for weights so large that its three copies would not do.

    Others are those of :class:`multimargin.LinearSVM`. ``stopping="violation"``, ``probability``, ``warm_start`` and
    ``checkpoint`` are refused; ``n_jobs`` and ``memory_mb`` are for predictions and have no say here.

    Attributes
    ----------
    n_ranks_ : int
        Workers that trained.
    bytes_sent_ : int
        What they sent to each other, all together, since the last loss of a worker.
    seconds_of_passes_, seconds_of_sums_ : float
        Of a worker, on average, since then: in passes over its rows, and in sums of weights, with the time in which it
        waited for the slowest.
    local_epochs_ : int
        Passes over its rows that a worker made in a round: 2 where sums cost about as much as a pass, else 1. That is
        counted, in numbers to be sent and multiply-adds, so that a result does not depend on the clock.
    workers_lost_ : int
        How often workers were lost.

    ``history_`` has a record a round. There are neither ``dual_coef_`` nor ``support_``: duals stay on the workers, and
    are gone.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from sklearn.datasets import load_iris
    >>> from multimargin.dask import LinearSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> with Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
    ...     model = LinearSVM(tol=0.05).fit(da.from_array(X, chunks=(50, 4)), da.from_array(y, chunks=50))
    >>> model.converged_, bool(model.dual_gap_ <= 0.05)
    (True, True)
    """

    def _requested(self, X, y, sample_weight):
        self._check()
        check_for_clusters(self)
        request = self._request_of(current_client(), blocks_of(X, y, sample_weight), feature_names(X))
        return request, X, y, sample_weight

    def _request_of(self, client: Client, blocks: list[Delayed], names: np.ndarray | None) -> ClusterRequest:
        """To train on blocks of rows with their labels."""
        prepared = client.compute(blocks)
        summaries = _summaries(client, prepared)
        counts = self._describe(names, summaries)
        k = len(self.classes_)
        if self.formulation in PAIRWISE and k > 2:
            raise ValueError(
                f"formulation={self.formulation!r} is not trained on a cluster, as every pair of classes has rows "
                "everywhere; there are 'crammer_singer', 'weston_watkins' and 'one_vs_rest'"
            )
        solver = self.solver
        if solver == "auto":
            solver = streamed_solver(self.n_features_in_ + 1, n_lanes(self.formulation, k))
        job = Job(
            formulation=self.formulation,
            loss=self.loss,
            n_classes=k,
            solver=solver,
            settings=self._settings(solver),
            intercept=self._constant_feature(),
            class_caps=self._caps(np.arange(k), np.ones(k), counts=counts),
            seed=self._seed(),
        )
        limits = Limits(self.max_iter, self.time_limit)
        n_rows = sum(each.shape[0] for each in summaries)
        return ClusterRequest(client, job, self.classes_, blocks, prepared, n_rows, limits)

    def _train(self, request):
        return train_on_cluster(request)

    def _describe(self, names: np.ndarray | None, summaries: list[Summary]) -> np.ndarray:
        """Set classes and features; the weight of every class."""
        width = summaries[0].shape[1] if summaries else 0
        for number, each in enumerate(summaries):
            if each.shape[1] != width:
                raise ValueError(f"block {number} of X has {each.shape[1]} columns, and block 0 has {width}")
        _check_kinds(summaries)
        labels = np.concatenate([each.labels for each in summaries if len(each.labels)] or [np.empty(0)])
        if not len(labels):
            raise ValueError("X has no rows")
        if labels.dtype.kind == "f" and np.any(labels != np.floor(labels)):
            raise ValueError("y must hold classes; it holds fractions, as for a regression")
        self.classes_, encoded = self._encoded(labels)
        self.n_features_in_ = width
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names
        counts = np.bincount(encoded, weights=np.concatenate([each.weights for each in summaries if len(each.labels)]))
        if not counts.any():
            raise ValueError("sample_weight must be positive somewhere: all weights are zero")
        return counts

    def _store(self, trained, request) -> None:
        super()._store(trained, request)
        self.n_ranks_ = trained.n_ranks
        self.workers_lost_ = trained.losses
        for name, value in trained.effort._asdict().items():
            setattr(self, f"{name}_", value)

    def _current(self, machine, request) -> dict[str, Any] | None:
        """Weights are on the workers until the end."""
        return None

    _local: type[linear_svm.LinearSVM] = linear_svm.LinearSVM

    def to_local(self) -> linear_svm.LinearSVM:
        """The same model as one of :mod:`multimargin`, for arrays in memory, to be saved and shown."""
        local = self._local(**self.get_params(deep=False))
        own = ("n_ranks_", "workers_lost_", *(f"{name}_" for name in Effort._fields))
        state = {name: value for name, value in self.__getstate__().items() if name not in own}
        local.__setstate__(state)
        return local

    def _validated(self, X, y=NO_LABELS, **options):
        """Rows in memory. What is done for collections does not come here, and the rest would call NumPy, to which they
        look like arrays: all rows would come to this process."""
        for given, name in ((X, "X"), (y, "y")):
            if is_distributed(given):
                raise TypeError(
                    f"{name} is a collection of Dask ({type(given).__name__}), and {type(self).__name__} takes those "
                    f"in fit, predict, decision_function and score only: pass an array, such as {name}.compute(), or "
                    "call the same method of to_local() on every block, by dask.delayed or map_blocks"
                )
        return super()._validated(X, y, **options)

    # Prediction: of collections as collections, lazily

    def decision_function(self, X):
        return self._lazily(X, "decision_function") if is_distributed(X) else super().decision_function(X)

    def predict(self, X):
        return self._lazily(X, "predict") if is_distributed(X) else super().predict(X)

    def score(self, X, y=None, sample_weight=None):
        """Accuracy, of collections too."""
        if not is_distributed(X):
            return super().score(X, y, sample_weight)
        check_is_fitted(self)
        right, model = delayed(weight_right), delayed(self.to_local())
        with_y = blocks_beside(X, y, "y")
        weights = [None] * len(with_y)
        if sample_weight is not None:
            weights = [weight for _, weight in blocks_beside(X, sample_weight, "sample_weight")]
        each = (
            right(model, rows, labels, weight, number)
            for number, ((rows, labels), weight) in enumerate(zip(with_y, weights, strict=True))
        )
        of_right, of_all = np.array(compute(*each)).reshape(-1, 2).sum(axis=0)
        if not of_all > 0:
            raise ValueError("there is nothing to score: X has no rows, or all weights are zero")
        return float(of_right / of_all)

    def _lazily(self, X, method: str):
        """A Dask array; rows of delayed blocks and of DataFrames are not counted before they are computed."""
        check_is_fitted(self)
        model, ask = delayed(self.to_local()), delayed(_ask)
        dtype = self.classes_.dtype if method == "predict" else np.dtype(np.float64)
        columns = () if method == "predict" or len(self.classes_) == 2 else (len(self.classes_),)
        known = X.chunks[0] if hasattr(X, "chunks") else None
        blocks = row_blocks(X, "X")
        sizes = known if known is not None else (np.nan,) * len(blocks)
        return da.concatenate(
            [
                da.from_delayed(ask(model, block, method, columns, dtype), (size, *columns), dtype=dtype)
                for block, size in zip(blocks, sizes, strict=True)
            ],
            allow_unknown_chunksizes=True,
        )


def _ask(model, X, method: str, columns: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    return getattr(model, method)(X) if X.shape[0] else np.empty((0, *columns), dtype)


def weight_right(model, X, y, weight, number: int) -> tuple[float, float]:
    """Weights of the rows of a block that are predicted right, and of all."""
    y = np.asarray(plain_labels(y))
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
    if not len(y) == len(weight) == X.shape[0]:
        raise ValueError(
            f"block {number}: X has {X.shape[0]} rows, y has {len(y)} labels, and there are {len(weight)} weights"
        )
    check_comparable(model.classes_, y)
    return float(weight[model.predict(X) == y].sum()) if len(y) else 0.0, float(weight.sum())


def current_client() -> Client:
    """The one that Dask says is the current one."""
    try:
        return get_client()
    except ValueError as error:
        raise ValueError(
            "multimargin.dask needs a cluster: make a distributed.Client first, or use it with client.as_current()"
        ) from error


def _summaries(client: Client, prepared: list) -> list[Summary]:
    """What blocks are; their errors are raised here."""
    presence = Presence(client)
    presence.wait(prepared)
    summaries = client.map(summary, prepared, pure=False)
    presence.wait(summaries)
    return presence.results(summaries)


def _check_kinds(summaries: list[Summary]) -> None:
    """Refuse labels that are numbers in one block and strings in another: they have no order."""
    kinds = {
        "numbers" if each.labels.dtype.kind in "biuf" else "other labels": number
        for number, each in reversed(list(enumerate(summaries)))
        if len(each.labels)
    }
    if len(kinds) > 1:
        places = " and ".join(f"{kind} (block {number})" for kind, number in sorted(kinds.items()))
        raise ValueError(f"y mixes {places}: labels must be all of a kind, such as strings")


def check_for_clusters(model: Any) -> None:
    """Refuse what is not done on a cluster."""
    if model.solver not in STREAMING:
        raise ValueError(
            f"solver={model.solver!r} is not done on a cluster; there are {', '.join(map(repr, STREAMING))}"
        )
    if model.stopping != "gap":
        raise ValueError(f"stopping={model.stopping!r} is not done on a cluster; stopping='gap' is")
    for name in ("probability", "warm_start"):
        if getattr(model, name):
            raise ValueError(f"{name}=True is not done on a cluster: set it to False")
    if model.checkpoint is not None:
        raise ValueError(
            f"checkpoint={str(model.checkpoint)!r} is not done on a cluster, whose workers keep copies of each other's "
            "duals; set it to None"
        )
