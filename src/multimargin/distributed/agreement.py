"""Ranks that solve one problem, or none: before the first round all tell each other what they are about to do.

A rank that refused its rows and said nothing would leave the others waiting; ranks with different parameters would add
numbers that have nothing to do with each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np

from multimargin.distributed.collective import Collective

_BITS = 52  # of a hash, as a number of float64


def agree(collective: Collective, error: Exception | None, facts: Mapping[str, Any]) -> None:
    """Raise on every rank if one of them has an error, or if their facts differ.

    Parameters
    ----------
    error : Exception or None
        Why this rank cannot take part; it is raised here, and the others are told that there is one.
    facts : mapping of str to object
        What must be the same everywhere, under names for messages; with an error they do not matter, but there must be
        as many. Equal facts have an equal ``repr``; arrays are compared value by value.
    """
    rows = np.zeros((collective.size, 1 + len(facts)))
    rows[collective.rank] = [error is not None, *map(_hashed, facts.values())]
    told = collective.allreduce(rows)
    if error is not None:
        raise error
    if refusing := np.flatnonzero(told[:, 0]).tolist():
        raise ValueError(
            f"rank {', '.join(map(str, refusing))} refused its rows or parameters, with an error of its own"
        )
    differing = [name for name, values in zip(facts, told[:, 1:].T, strict=True) if len(set(values.tolist())) > 1]
    if differing:
        raise ValueError(f"ranks differ in {', '.join(differing)}: give all of them the same")


def _hashed(fact: Any) -> float:
    text = f"{fact.dtype.kind}{fact.tolist()!r}" if isinstance(fact, np.ndarray) else repr(fact)
    return float(int.from_bytes(sha256(text.encode()).digest()[:8], "little") >> (64 - _BITS))
