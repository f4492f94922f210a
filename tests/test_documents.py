"""The blocks of README.md and of the pages in docs/ run, in their order, and print what stands below them.

``python`` and ``console`` blocks of a page share a folder, the former their names too; a ``text`` block is what Python
printed, and what follows a ``$`` line of a console is what that command printed.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import matplotlib
import pytest

from tests.shown_text import difference

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMAND_LINE = ROOT / "docs" / "command-line.md"  # see commands/test_guide.py
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


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
        differs = difference(done.stdout, shown)
        assert differs is None, f"{page.name}, line {line}: {command}: {differs}\nprinted\n{done.stdout}"


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
            differs = difference(printed, text)
            assert differs is None, f"{page.name}, line {line}: {differs}\nprinted\n{printed}"
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


TABLE = """machine         seconds  accuracy  objective      gap
-----------------------------------------------------
crammer_singer    0.019    0.9737     18.866  6.2e-04
"""


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("gap 1.0e-04, 12 epochs\n", "gap 1.1e-04,  12 epochs"),
        ("0.05 s, 12 epochs", "9.00 s, 14 epochs"),
        (
            "within 0.016 % of the optimum: the objective is 193.518",
            "within 0.057 % of the optimum: the objective is 193.597",
        ),
        ("accuracy 0.9644 on the 450 rows", "accuracy 0.9622 on the 450 rows"),
        ("accuracy: 0.9872 (1774 of 1797 rows)", "accuracy: 0.9866 (1773 of 1797 rows)"),
        ("m.model, 54 kB", "m.model, 55 kB"),
        ('{"seconds": 0.1, "epochs": 20, "gap": 0.0007}', '{"seconds": 3.0, "epochs": 21, "gap": 0.0005}'),
        ("91.20 <= optimum <= 91.27", "91.21 <= optimum <= 91.29"),
        (TABLE, TABLE),
        (TABLE.replace("0.019", "8.125").replace("6.2e-04", "4.0e-04"), TABLE),
        (TABLE.replace(" 0.019", "18.125").replace("18.866", "18.867"), TABLE),
    ],
)
def test_what_may_differ(printed, shown):
    assert difference(printed, shown) is None


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("gap 1.0e-04, 12 epochs", "gap 1.0e-04, 40 epochs"),
        ("gap 9.3e-04", "gap 0.04"),
        ("gap of at most 0.001", "gap of at most 0.002"),
        ("accuracy 0.96", "accuracy 0.95"),
        ("accuracy 0.9644", "accuracy 0.9722"),
        ("250 of 1347 rows matter", "251 of 1347 rows matter"),
        ("1347 rows, 64 features", "1348 rows, 64 features"),
        ("1347 rows, 64 features", "1347 rows, 65 features"),
        ("accuracy: 0.9872 (1774 of 1797 rows)", "accuracy: 0.9872 (1774 of 1798 rows)"),
        ("accuracy: 0.9872 (1774 of 1797 rows)", "accuracy: 0.9872 (1704 of 1797 rows)"),
        ("the objective is 91.27", "the objective is 91.47"),
        ("rest.liblinear, 13 kB", "rest.liblinear, 11 kB"),
        ("again.safetensors, 6.4 kB", "again.safetensors, 6.8 kB"),
        ("converged: True", "converged: False"),
        ("1 2", "1 2 3"),
        ("1\n2", "1 2"),
        (TABLE.replace("0.9737", "0.9474"), TABLE),
        (TABLE.replace("18.866", "19.866"), TABLE),
        (TABLE.replace("6.2e-04", "6.2e-03"), TABLE),
    ],
)
def test_what_may_not_differ(printed, shown):
    assert difference(printed, shown) is not None
