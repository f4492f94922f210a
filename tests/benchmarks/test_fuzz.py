"""The fuzzer tries other inputs each time, unless it is told a seed; what is a fault, it says and keeps."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "fuzz" / "run.py"


def seed_of(tmp_path, *words):
    command = [sys.executable, str(PROGRAM), "text_models", "--executions=3", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[0]


ONLY_EVEN = """
import sys
sys.path.insert(0, {folder!r})
import random, run, targets

class OnlyEven(targets.Target):
    allowed = (ValueError,)

    def corpus(self):
        return [b"\\0\\2", b"\\4"]

    def changed(self, data, rng, others):
        return bytes(rng.randrange(256) for _ in range(3))

    def run(self, data):
        if data and data[0] == 4:
            raise ValueError("that is documented")
        if data and data[0] % 2:
            raise RuntimeError("that is a fault")

targets.TARGETS["load"] = OnlyEven
run.__file__ = __file__  # children run this, too
sys.exit(run.main())
"""


@pytest.mark.parametrize("engine", ["--no-atheris", "--atheris"])
def test_a_fault_is_told_and_its_input_kept(tmp_path, engine):
    if engine == "--atheris":
        pytest.importorskip("atheris")
    program = tmp_path / "only_even.py"
    program.write_text(ONLY_EVEN.format(folder=str(PROGRAM.parent)))

    def said(*words):
        command = [sys.executable, str(program), "load", "--seed=1", "--executions=10000", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=900)

    done = said(engine)
    assert done.returncode == 1 and "RuntimeError: that is a fault" in done.stdout + done.stderr
    assert "load: FAULT" in done.stderr
    again = said("--replay", "crash-load")
    assert again.returncode == 1 and "RuntimeError: that is a fault" in again.stderr


def test_the_seed(tmp_path):
    assert seed_of(tmp_path) != seed_of(tmp_path)
    assert seed_of(tmp_path, "--seed=5") == "--seed=5"
