"""Sparse rows as three arrays: what SciPy's csr_array is, for programs that have no time to import it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_MOST_NARROW = np.iinfo(np.int32).max


@dataclass(frozen=True)
class Csr:
    """CSR with sorted, unique columns in every row: whoever makes one sees to it."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    shape: tuple[int, int]

    format = "csr"
    ndim = 2

    @classmethod
    def of_entries(cls, row: np.ndarray, column: np.ndarray, value: np.ndarray, shape: tuple[int, int]) -> Csr:
        """From entries in any order, none twice."""
        if len(row) and not ((row[1:] > row[:-1]) | ((row[1:] == row[:-1]) & (column[1:] > column[:-1]))).all():
            order = np.lexsort((column, row))
            row, column, value = row[order], column[order], value[order]
        index = np.int32 if max(*shape, len(value)) <= _MOST_NARROW else np.int64
        indptr = np.zeros(shape[0] + 1, index)
        np.cumsum(np.bincount(row, minlength=shape[0]), out=indptr[1:])
        return cls(value, column.astype(index, copy=False), indptr, shape)

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    def tocsr(self) -> Csr:
        """As SciPy's matrices have it."""
        return self

    def to_scipy(self) -> Any:
        """A csr_array over the same memory."""
        import scipy.sparse as sp

        matrix = sp.csr_array((self.data, self.indices, self.indptr), shape=self.shape)
        matrix.has_canonical_format = True
        return matrix

    def first_columns(self, n: int) -> Csr:
        """The first ``n`` columns, whether there are more or less."""
        keep = self.indices < n
        if keep.all():
            return Csr(self.data, self.indices, self.indptr, (self.shape[0], n))
        before = np.concatenate([[0], np.cumsum(keep)])
        return Csr(
            self.data[keep], self.indices[keep], before[self.indptr].astype(self.indptr.dtype), (self.shape[0], n)
        )

    def filled_rows(self, rows: np.ndarray) -> Csr:
        """Only ``rows``, which are all that have entries."""
        indptr = np.concatenate([self.indptr[:1], self.indptr[rows + 1]])
        return Csr(self.data, self.indices, indptr, (len(rows), self.shape[1]))
