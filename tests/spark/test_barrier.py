"""The recipe of docs/laptop-to-cluster.md on local Spark: ``make spark``. Spark is large and slow to start, and no part
of the extra [test]: without it, or without Java, this is skipped."""

import os
import shutil
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

from multimargin import LinearSVM

pyspark = pytest.importorskip("pyspark", reason="there is no pyspark here: make spark installs it")
N_FEATURES = 64  # of every row: a partition without rows does not know


def train_partition(rows):
    import secrets

    from pyspark import BarrierTaskContext

    from multimargin.distributed.collective import Listener, connect
    from multimargin.distributed.fitting import fit_shared

    context = BarrierTaskContext.get()
    rows = list(rows)
    X = np.array([features for features, _ in rows], dtype=np.float64).reshape(len(rows), N_FEATURES)
    y = np.array([label for _, label in rows], dtype=np.int64)
    host = context.getTaskInfos()[context.partitionId()].address.split(":")[0]
    listener = Listener(host)
    told = context.allGather(f"{listener.address[0]} {listener.address[1]} {secrets.token_hex(16)}")
    addresses = [(line.split()[0], int(line.split()[1])) for line in told]
    secret = told[0].split()[2].encode()  # rank 0's
    collective = connect(listener, context.partitionId(), addresses, secret)
    try:
        model = fit_shared(LinearSVM(C=0.1, tol=0.05), X, y, collective, classes=np.arange(10))
    finally:
        collective.close()
    if context.partitionId() == 0:
        yield model


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("there is no Java here")
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else it takes the first python3 of the path
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    yield session
    session.stop()


@pytest.mark.parametrize("empty", [False, True])
def test_barrier_mode_trains_to_the_local_optimum(spark, empty):
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] / 16, y[:400]
    rows = spark.sparkContext.parallelize(
        [(features.tolist(), int(label)) for features, label in zip(X, y, strict=True)], 2
    )
    if empty:  # the second partition has no rows
        rows = rows.mapPartitionsWithIndex(lambda number, there: there if number == 0 else iter(()))
        X, y = X[:200], y[:200]
    pyspark.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Spark's processes cannot import this file
    (model,) = rows.barrier().mapPartitions(train_partition).collect()
    local = LinearSVM(C=0.1, tol=1e-4).fit(X, y)
    assert model.converged_
    assert local.dual_objective_ * (1 - 1e-9) <= model.primal_objective_ <= local.primal_objective_ / 0.95
    assert model.score(X, y) > 0.9
