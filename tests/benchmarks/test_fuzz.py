"""The fuzzer tries other inputs each time, unless it is told a seed."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "fuzz" / "run.py"


def seed_of(tmp_path, *words):
    command = [sys.executable, str(PROGRAM), "text_models", "--executions=3", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[0]


def test_the_seed(tmp_path):
    assert seed_of(tmp_path) != seed_of(tmp_path)
    assert seed_of(tmp_path, "--seed=5") == "--seed=5"
