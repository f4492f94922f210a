"""The guide to the command line: its commands run, and say what it shows."""

import re
import shlex
from pathlib import Path

from tests.shown_text import difference

GUIDE = Path(__file__).parents[2] / "docs" / "command-line.md"


def test_the_guide_shows_what_the_program_says(run):
    guide = GUIDE.read_text(encoding="utf-8")
    (table,) = re.findall(r"```csv\n(.*?)```", guide, re.DOTALL)
    Path("tickets.csv").write_text(table)
    blocks = re.findall(r"```console\n(.*?)```", guide, re.DOTALL)
    assert len(blocks) >= 9
    for block in blocks:
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = step.partition("\n")
            program, *words = shlex.split(command)
            assert program == "multimargin"
            done = run(*words)
            assert done.code == 0 and done.err == "", (command, done)
            assert difference(done.out, shown) is None, (command, difference(done.out, shown), done.out)
    (line,) = re.findall(r"```text\n(billing.*?)\n```", guide)
    assert difference(Path("best.txt").read_text().splitlines()[0], line) is None


def test_every_command_is_in_the_guide():
    from multimargin.commands.main import build_parser

    guide = GUIDE.read_text(encoding="utf-8")
    for name in build_parser().commands:
        assert f"| `multimargin {name}" in guide
