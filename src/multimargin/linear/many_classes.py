"""Very many classes: weights that no memory would hold as an array, kept as lists of the classes that a feature knows.

W_jm is not zero only where an example with feature j has a dual of class m. So with sparse rows and few classes that
matter to each, sparse weights (sparse_weights.hpp in the core) are small where an array is not: 50,000 classes and
100,000 features are 5e9 numbers, of which a training on 200,000 rows moves about one in a hundred.

The algorithm is the sequential dual method, the certificate that of any machine. Only Crammer-Singer is trained so:
its examples have few duals. There is no acceleration, which would fill W.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from multimargin import _core
from multimargin.data.csr import Csr
from multimargin.data.memory import memory_of_machine
from multimargin.linear.examples import Examples
from multimargin.linear.machine import Machine
from multimargin.problems.formulations import Formulation

# Arrays of weights up to so many bytes are arrays, if no memory_mb says otherwise.
DENSE_BYTES = 1 << 32
_BYTES = 12  # of a weight: float32 in training, float64 in the certificate
_EXPECTED_LANES = 1000  # that a visit scores: what slices of work are measured by
_MOST_NARROW = np.iinfo(np.int32).max
_MB = 2**20


def weights_are_sparse(
    n_weights: int, lanes: int, formulation: str, solver: str, restricted_step: bool, memory_mb: float | None
) -> bool:
    """Whether a fit keeps its weights sparse: when as arrays they would take more than ``memory_mb``, or more than
    ``DENSE_BYTES`` if that is None.

    Raises
    ------
    ValueError
        If they would take more than ``memory_mb``, and cannot be sparse.
    MemoryError
        If nothing is said of ``memory_mb``, and the machine does not have as much.
    """
    dense = _BYTES * n_weights * lanes
    if dense <= (DENSE_BYTES if memory_mb is None else memory_mb * _MB):
        return False
    if formulation == "crammer_singer" and lanes > 2 and solver in ("auto", "sdm") and restricted_step:
        return True
    has = memory_of_machine() if memory_mb is None else None
    if memory_mb is None and (has is None or dense <= has):
        return False
    if formulation != "crammer_singer" or lanes <= 2:
        why = f"formulation={formulation!r}" + (" with two classes" if lanes <= 2 else "")
        todo = "formulation='crammer_singer' keeps the weights of three classes or more sparse"
    elif solver not in ("auto", "sdm"):
        why, todo = f"solver={solver!r}", "solver='auto' and solver='sdm' keep them sparse"
    else:
        why, todo = "restricted_step=False", "restricted_step=True keeps them sparse"
    weights = f"{n_weights} x {lanes} weights take {dense / _MB:.3g} MB"
    if has is not None:
        others = f", or {todo}" if lanes > 2 else ""
        raise MemoryError(
            f"{weights}, and the machine has {has / _MB:.3g}; number only the features that occur, or hash them to "
            f"fewer{others}"
        )
    raise ValueError(
        f"memory_mb={memory_mb:g} is too little: {weights}, and {why} needs all of them; {todo}, or raise memory_mb, "
        "or hash the features to fewer"
    )


class SparselyScored(Examples):
    """Examples whose visits score few of the lanes."""

    def schedule(self, problem: Formulation, lists: bool, seed: int) -> tuple[list[_core.Block], _core.Passes]:
        block = self.block(problem, lists, seed)
        block.expect_lanes(_EXPECTED_LANES)
        return [block], _core.Passes([block])


class ManyClassMachine(Machine):
    """A machine with sparse weights."""

    def new_weights(self, single_precision: bool) -> _core.Weights:
        intercept = self.examples.rows.intercept != 0
        return _core.Weights.sparse(self.n_weights, self.problem.lanes, single_precision, intercept)

    def take_weights(self) -> None:
        """Let go of the weights of the training, which is over; the certified ones stay."""
        if self.certificate is not None:
            self.algorithm.weights = self.new_weights(self.algorithm.weights.single_precision)


def as_csr(weights: _core.Weights, n_weights: int, *, take: bool) -> Csr:
    """Sparse weights, features (and the intercept) x classes; ``take`` leaves none behind."""
    data, lanes, indptr = weights.to_csr(take)
    if len(data) <= _MOST_NARROW:
        indptr = indptr.astype(np.int32)
    else:
        lanes = lanes.astype(np.int64)
    return Csr(data, lanes, indptr, (n_weights, weights.lanes))


def without_weights(n_weights: int, lanes: int) -> Csr:
    """Weights of zero."""
    return Csr(np.empty(0), np.empty(0, np.int32), np.zeros(n_weights + 1, np.int32), (n_weights, lanes))


def intercept_apart(W: Csr, scaling: float) -> tuple[Csr, np.ndarray]:
    """Weights of the features, and the intercepts; ``scaling`` 0: W has no row for them."""
    intercept = np.zeros(W.shape[1])
    if scaling == 0:
        return W, intercept
    end = int(W.indptr[-2])
    intercept[W.indices[end:]] = W.data[end:] * scaling
    return Csr(W.data[:end], W.indices[:end], W.indptr[:-1], (W.shape[0] - 1, W.shape[1])), intercept


def is_sparse(coef: Any) -> bool:
    """Whether a model's ``coef_`` is a sparse array."""
    return hasattr(coef, "indptr")
