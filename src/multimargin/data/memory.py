"""How much memory there is, and how that is said."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def in_mb(size: float) -> str:
    """Bytes in units of 2**20, as memory_mb has them: whole ones, of few two digits."""
    value = size / 2**20
    return f"{value:.0f} MB" if value >= 10 else f"{value:.2g} MB"


def memory_of_machine() -> int | None:
    """Bytes that the machine has, or that its container may use; None if nobody says."""
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    has = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError):  # "max" is no number
        has = min(has, int(_CONTAINER_LIMIT.read_text()))
    return has
