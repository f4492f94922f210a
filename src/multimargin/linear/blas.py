"""How many threads BLAS may use, for a while.

The number is the whole process's: of fits that overlap in time, the first sets it and the last restores it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_users = 0
_limits: Any = None


@contextmanager
def blas_threads(limit: int) -> Iterator[None]:
    """Limit BLAS to so many threads inside."""
    global _users, _limits
    with _lock:
        _users += 1
        if _users == 1:
            _limits = _libraries("scipy.linalg" in sys.modules).limit(limits=limit)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limits.restore_original_limits()


@lru_cache
def _libraries(scipy_too: bool) -> ThreadpoolController:
    """NumPy's BLAS and, once it is loaded, SciPy's; finding them takes longer than a small fit."""
    return ThreadpoolController().select(user_api="blas")
