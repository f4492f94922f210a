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

import threadpoolctl
from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_users = 0
_limits: Any = None


@contextmanager
def blas_threads(limit: int) -> Iterator[None]:
    """Limit BLAS to so many threads inside, or as many as it has, if they are fewer."""
    global _users, _limits
    with _lock:
        _users += 1
        if _users == 1:
            libraries = _libraries("scipy.linalg" in sys.modules)
            has = max((library["num_threads"] for library in libraries.info()), default=limit)
            with _for_any_thread():
                _limits = libraries.limit(limits=min(limit, has))
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                with _for_any_thread():
                    _limits.restore_original_limits()


@contextmanager
def _for_any_thread() -> Iterator[None]:
    """From threadpoolctl 3.8 on, only the thread that set OpenBLAS's number first may change it again, and what others
    set is silently ignored. Here the lock sees to it that threads do not fight over the number."""
    controller = getattr(threadpoolctl, "OpenBLASController", None)
    forget = getattr(controller, "clear_controlling_thread", lambda force: None)
    forget(force=True)
    try:
        yield
    finally:
        forget(force=True)


@lru_cache
def _libraries(scipy_too: bool) -> ThreadpoolController:
    """NumPy's BLAS and, once it is loaded, SciPy's; finding them takes longer than a small fit."""
    return ThreadpoolController().select(user_api="blas")
