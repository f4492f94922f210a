"""Rows of X, as the core reads them, and the files that they come from. What is heavy is imported on first use."""

from __future__ import annotations

import importlib
from typing import Any

# Public name -> module that defines it; loaded on first use (PEP 562).
_PUBLIC = {
    "open_blocks": "multimargin.data.blocks",
    "write_blocks": "multimargin.data.blocks",
}

__all__ = [*_PUBLIC]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        value = getattr(importlib.import_module(_PUBLIC[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'multimargin.data' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_PUBLIC))
