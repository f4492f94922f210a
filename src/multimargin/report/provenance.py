"""Where a model comes from: its parameters, and the versions of what made the report."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from multimargin import __version__, _core

_LONGEST = 300


def parameters(model: Any) -> list[tuple[str, list[tuple[str, str]]]]:
    """Every step's name and its parameters, the machine last."""
    steps = model.steps if hasattr(model, "steps") else [("", model)]
    listed = []
    for name, step in steps:
        if not hasattr(step, "get_params"):  # "passthrough"
            continue
        title = f"{type(step).__name__} ({name})" if len(steps) > 1 else type(step).__name__
        listed.append((title, [(key, _brief(value)) for key, value in step.get_params(deep=False).items()]))
    return listed


def versions() -> list[tuple[str, str]]:
    """Of multimargin, of what it calls, and of the machine."""
    found = [("multimargin", f"{__version__}, {_core.instruction_set()} instructions")]
    found.append(("Python", platform.python_version()))
    for name in ("numpy", "scipy", "scikit-learn"):
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            found.append((name, "unknown"))
    found.append(("System", f"{platform.system()} {platform.machine()}"))
    return found


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
