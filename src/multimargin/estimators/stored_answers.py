"""Answers to the rows of a store, block by block."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from multimargin.data.blocks import BlockStore


def of_blocks(store: BlockStore, ask: Callable[[Any], tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
    """What ``ask`` says of all rows: arrays with one row a row, as it gives them for the rows of a block. Beside them
    one block's are in memory."""
    whole: tuple[np.ndarray, ...] = ()
    done = 0
    for block in store:
        answers = ask(block.X)
        whole = whole or tuple(np.empty((store.n_rows, *each.shape[1:]), each.dtype) for each in answers)
        for out, each in zip(whole, answers, strict=True):
            out[done : done + len(each)] = each
        done += len(block.y)
    return whole
