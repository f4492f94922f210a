"""LinearSVMCV on a Dask cluster."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import closing
from typing import Any

import numpy as np
from dask import delayed
from dask.delayed import Delayed
from distributed import Client, futures_of
from sklearn.exceptions import ConvergenceWarning

from multimargin.dask.collections import blocks_of
from multimargin.dask.linear_svm import LinearSVM, check_for_clusters, current_client, weight_right
from multimargin.dask.presence import Presence
from multimargin.dask.training import train_path
from multimargin.dask.worker import Block, folds_of, rows_of, without_fold
from multimargin.estimators import linear_svm_cv
from multimargin.estimators.callbacks import check_callbacks
from multimargin.estimators.kept_search import Search
from multimargin.estimators.linear_svm_cv import OWN
from multimargin.estimators.parameters import check_number
from multimargin.estimators.progress import SearchProgress


class LinearSVMCV(LinearSVM, linear_svm_cv.LinearSVMCV):
    """:class:`multimargin.LinearSVMCV` for Dask collections: C is chosen, and the model trained, where partitions are.

    Every block of rows deals its rows to the folds, class by class. Fold after fold the workers train along the values
    of C in ascending order, each time from the duals of the last one, and predict the rows that were held out. Beside
    the rows that a training has, workers keep the blocks as they came.

    Parameters
    ----------
    Cs : int or array
        As in :class:`multimargin.LinearSVMCV`.
    cv : int
        The number of folds. Splitters are refused: they want all labels in one place.
    scoring : None or "accuracy"
        Others are refused: they are no sums over blocks. So are ``groups`` in fit.

    Others are those of :class:`multimargin.LinearSVMCV`, but for what :class:`LinearSVM` refuses.

    Attributes
    ----------
    C_, Cs_, scores_, gaps_, epochs_, best_score_
        As in :class:`multimargin.LinearSVMCV`; and those of :class:`LinearSVM`, of the model trained on all rows.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from sklearn.datasets import load_iris
    >>> from multimargin.dask import LinearSVMCV
    >>> X, y = load_iris(return_X_y=True)
    >>> with Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
    ...     rows, labels = da.from_array(X, chunks=(50, 4)), da.from_array(y, chunks=50)
    ...     model = LinearSVMCV(Cs=[0.01, 1.0], cv=3, tol=0.05).fit(rows, labels)
    >>> model.C_, model.scores_.shape, bool(model.best_score_ > 0.9)
    (1.0, (3, 2), True)
    """

    _local = linear_svm_cv.LinearSVMCV

    # Rows are dealt and scored by the model itself: there is nobody to hand anything on to.
    get_metadata_routing = LinearSVM.get_metadata_routing

    def _with_best_C(self, X, y, sample_weight, groups, params, lost) -> tuple[Any, Any, Any, Any]:
        values = self._grid()
        check_callbacks(self.callbacks)
        check_number("cv", self.cv, at_least=2, integer=True)
        if self.scoring not in (None, "accuracy"):
            raise ValueError(f"scoring={self.scoring!r} is not done on a cluster; None, which is accuracy, is")
        if groups is not None:
            raise ValueError("groups are not kept together on a cluster: leave them out")
        if params:
            raise ValueError(f"{', '.join(params)}: accuracy on a cluster needs nothing but weights: leave it out")
        of_fold = {name: value for name, value in self.get_params(deep=False).items() if name not in OWN}
        model = LinearSVM(C=1.0, **of_fold | {"verbose": 0})
        model._check()
        check_for_clusters(self)
        client = current_client()
        blocks = client.persist(blocks_of(X, y, sample_weight))
        Presence(client).wait(futures_of(blocks))
        chosen, search = (int(self.cv), self._seed()), Search(int(self.cv), len(values))
        self.Cs_, self.scores_ = values, search.told[:, 0]  # which the fits fill
        with warnings.catch_warnings(), SearchProgress(search.told, values, bool(self.verbose)) as progress:
            warnings.simplefilter("ignore", ConvergenceWarning)
            for fold in range(self.cv):
                with closing(_path(client, model, blocks, (*chosen, fold), values)) as path:
                    for number, told in enumerate(path):
                        search.finish(fold, number, model, told)
                        progress.finished(fold, number)
        del blocks
        self._choose(values, search.told, search.converged)
        return self._requested(X, y, sample_weight)


def _path(
    client: Client, model: LinearSVM, blocks: list[Delayed], fold: tuple[int, int, int], values: np.ndarray
) -> Generator[tuple[float, float, int], None, None]:
    """Score, gap and epochs for one C after the other. Fold: how many there are, the seed, and which it is."""
    learn, judge = delayed(without_fold, pure=False), delayed(_held_out, pure=False)
    request = model._request_of(client, [learn(block, i, *fold) for i, block in enumerate(blocks)], None)
    with closing(train_path(request, values.tolist())) as path:
        for trained in path:
            model._store(trained, request)
            local = delayed(model.to_local(), pure=False)
            right = _share(client, [judge(local, block, i, *fold) for i, block in enumerate(blocks)])
            yield right, model.worst_gap_, model.n_iter_


def _held_out(model: Any, block: Block, number: int, n_folds: int, seed: int, fold: int) -> tuple[float, float]:
    """Weights of the rows of a fold that are predicted right, and of all."""
    X, y, weight = rows_of(block, folds_of(block, number, n_folds, seed) == fold)
    return weight_right(model, X, y, weight, number)


def _share(client: Client, right: list[Delayed]) -> float:
    """Of the weight that is right, over all blocks."""
    presence, futures = Presence(client), client.compute(right)
    presence.wait(futures)
    of_right, of_all = np.array(presence.results(futures)).reshape(-1, 2).sum(axis=0)
    if not of_all > 0:
        raise ValueError("a fold holds out no row that has a weight: lower cv")
    return float(of_right / of_all)
