"""The line above the tables of a benchmark."""

import importlib.metadata
import sys
from pathlib import Path
from types import SimpleNamespace

import multimargin

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from report import versions


def test_our_version_is_known_where_the_package_is_not_installed(monkeypatch):
    def not_found(package):
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "version", not_found)
    told = versions([SimpleNamespace(package="peer", version="2.0"), SimpleNamespace(package="other", version=None)])
    assert f"multimargin {multimargin.__version__}" in told and "multimargin not" not in told
    assert "numpy not installed" in told and told.endswith("peer 2.0, other not installed")
