"""Tables in Markdown, with the machine and the versions above them."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import multimargin


def machine() -> str:
    """CPU model and number of cores."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    return f"{model}, {os.cpu_count()} cores"


def versions(peers: Iterable[Any] = ()) -> str:
    """Of everything that takes part."""
    named = {"multimargin": f"{multimargin.__version__}{_commit()}"}  # of what is imported, installed or not
    named |= {package: _version(package) for package in ("numpy", "scipy", "scikit-learn")}
    named |= {peer.package: peer.version for peer in peers if peer.package not in named}
    parts = [f"{package} {version or 'not installed'}" for package, version in named.items()]
    return ", ".join([f"Python {platform.python_version()}", *parts])


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str:
    """Of the repository that these benchmarks are in, if they are in one: " (1a2b3c4)"."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" ({found})"


# Columns wider than their header
WIDTHS = {"set": 13, "formulation": 14, "loss": 13, "P*": 12, "solver": 15, "peer": 14, "setting": 9, "statement": 35}


class Report:
    """Markdown on stdout, and appended to a file when there is one; line by line, so that nothing is lost."""

    def __init__(self, file: Path | None, peers: Iterable[Any] = ()):
        self.file = file
        self.peers = list(peers)
        self.widths: list[int] = []

    def line(self, text: str = "") -> None:
        print(text, flush=True)
        if self.file:
            with self.file.open("a") as out:
                out.write(text + "\n")

    def heading(self, title: str) -> None:
        command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
        self.line(f"\n## {title}\n")
        self.line(f"{machine()}; {datetime.date.today()}; {versions(self.peers)}; `{command}`\n")

    def table(self, *headers: str) -> None:
        self.widths = [WIDTHS.get(header, max(len(header), 7)) for header in headers]
        self.row(*headers)
        self.line("|" + "|".join("-" * (width + 2) for width in self.widths) + "|")

    def row(self, *cells: Any) -> None:
        padded = (f"{shown(cell):<{width}}" for cell, width in zip(cells, self.widths, strict=True))
        self.line("| " + " | ".join(padded) + " |")


def shown(cell: Any) -> str:
    """Numbers to three digits."""
    if isinstance(cell, float):
        return f"{cell:.0f}" if 1000 <= abs(cell) < 1e7 else f"{cell:.3g}"
    return str(cell)


def progress(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)
