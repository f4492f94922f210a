"""The blocks of README.md and of the pages in docs/ run, in their order, and print what stands below them.

``python`` and ``console`` blocks of a page share a folder, the former their names too; a ``text`` block is what Python
printed, and what follows a ``$`` line of a console is what that command printed.
"""

from __future__ import annotations

import contextlib
import gc
import io
import math
import os
import re
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import matplotlib
import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND_LINE = ROOT / "docs" / "command-line.md"  # see commands/test_guide.py
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SECONDS = re.compile(r"\b[\d.]+ (?=s\b)")
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def blocks(page: Path) -> list[tuple[str, str, int]]:
    """(language, text, line) of the fenced blocks that are Python or printed text."""
    content = page.read_text(encoding="utf-8")
    return [
        (match[1], match[2], content[: match.start()].count("\n") + 1)
        for match in BLOCK.finditer(content)
        if match[1] in ("python", "console", "text")
    ]


def run_python(text: str, page: Path, line: int, names: dict) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output), warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        exec(compile("\n" * line + text, str(page), "exec"), names)
    return output.getvalue()


def run_console(text: str, page: Path, line: int, programs: Path) -> None:
    env = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = step.partition("\n")
        done = subprocess.run(["bash", "-ec", command], env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{page.name}, line {line}: {command}: exit code {done.returncode}\n{done.stderr}"
        assert same(done.stdout, shown), f"{page.name}, line {line}: shown\n{shown}\nprinted\n{done.stdout}"


@pytest.fixture
def programs(tmp_path) -> Path:
    """A folder with ``multimargin`` and ``python`` as they are here, whatever PATH says."""
    folder = tmp_path / "programs"
    folder.mkdir()
    starts = {
        "python": f'exec "{sys.executable}" "$@"\n',
        "multimargin": f'exec "{sys.executable}" -m multimargin "$@"\n',
    }
    for name, start in starts.items():
        (folder / name).write_text("#!/bin/sh\n" + start)
        (folder / name).chmod(0o755)
    return folder


def same(printed: str, shown: str) -> bool:
    """Same words, and numbers of the same size but for seconds: last digits may differ from machine to machine."""
    printed, shown = SECONDS.sub("", printed), SECONDS.sub("", shown)
    if NUMBER.sub("#", printed).split() != NUMBER.sub("#", shown).split():
        return False
    pairs = zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=0.2, abs_tol=1e-9) for a, b in pairs)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_run_and_print_what_is_shown(page, tmp_path, programs, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    names: dict = {"__name__": page.stem}
    printed = None
    for language, text, line in blocks(page):
        if language == "python":
            printed = run_python(text, page, line, names)
        elif language == "console":
            if page != COMMAND_LINE:
                run_console(text, page, line, programs)
        elif page != COMMAND_LINE:
            assert printed, f"{page.name}, line {line}: nothing printed this text"
            assert same(printed, text), f"{page.name}, line {line}: shown\n{text}\nprinted\n{printed}"
            printed = None
    with warnings.catch_warnings():  # temporary folders that a page leaves to the end of its program
        warnings.simplefilter("ignore")
        names.clear()
        gc.collect()


def test_targets_and_extras_of_the_readme_exist():
    """What sets up environments is not run here: .ci/run and whoever reads README do that."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shell = "\n".join(match.group(2) for match in BLOCK.finditer(readme) if match.group(1) == "sh")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    targets = re.findall(r"^make (\w+)", shell, re.MULTILINE)
    assert {"demo", "test"} <= set(targets)
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    named = [name for group in re.findall(r"\[([\w,]+)\]", shell) for name in group.split(",")]
    assert named and set(named) <= set(extras)


def test_comparison_of_printed_text():
    assert same("gap 1.0e-04, 12 epochs\n", "gap 1.1e-04,  12 epochs")
    assert not same("gap 1.0e-04, 12 epochs", "gap 1.0e-04, 40 epochs")
    assert same("0.05 s, 12 epochs", "9.00 s, 12 epochs")
    assert not same("accuracy 0.96", "accuracy 0.5")
    assert not same("gap 9.3e-04", "gap 0.04")
    assert not same("converged: True", "converged: False")
    assert not same("1 2", "1 2 3")
