"""DATA that is a store of blocks on disk, for commands that read it once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from multimargin.commands.errors import CommandError


def is_store(path: str) -> bool:
    """Whether DATA is a folder that write_blocks wrote."""
    return os.path.isdir(path) and os.path.exists(os.path.join(path, "manifest.json"))


def datasets_of(path: str, n_features: int, terminal: Any) -> Iterator[Any]:
    """The blocks one after the other, each a Dataset as wide as the model: memory holds one of them."""
    from multimargin.commands.datasets import Dataset
    from multimargin.data.blocks import BlocksError, open_blocks
    from multimargin.data.csr import Csr

    try:
        store = open_blocks(path)
        if not store.layout.sparse and store.n_features != n_features:
            raise CommandError(f"{path}: has {store.n_features} features, the model has {n_features}")
        if store.n_features > n_features:
            terminal.note(f"{path}: features that the model does not know are left out; the model has {n_features}")
        for number, block in enumerate(store):
            terminal.status(f"reading {path}, block {number + 1} of {len(store)}")
            X = block.X
            if store.layout.sparse:
                X = Csr(X.data, X.indices, X.indptr, X.shape).first_columns(n_features)
            yield Dataset(path, X, block.y)
    except (BlocksError, FileNotFoundError) as error:
        raise CommandError(str(error)) from None
