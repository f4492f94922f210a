"""Short runs of the long ones: writes that fail, Ctrl-C at random moments, many threads at once."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs LD_PRELOAD, /proc and fork")


def run(script, *words):
    command = [sys.executable, str(FOLDER / script), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@linux
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize(
    ("step", "operations"),
    [
        (1, ["save", "write_svmlight", "predict"]),
        (13, ["checkpoint", "blocks, checkpoint", "write_blocks, files", "train --blocks"]),
    ],
)
def test_writes_that_fail(step, operations):
    lines = run("faults.py", "--step", step, "--only", *operations).splitlines()
    faults, errors, wrong = map(int, lines[1 + 3 * len(operations)].split()[1:])
    assert faults >= errors > 0 and wrong == 0


@linux
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_every_operation_meets_a_fault():
    lines = run("faults.py", "--step", 1000).splitlines()[1:]
    met = {line[:22].strip(): int(line.split()[-3]) for line in lines if "full disk" in line}
    assert len(met) == 19 and all(met.values())


@linux
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_full_disk_keeps_the_last_certified_model():
    """Of a training from blocks: before there is one it is an error, later a model with its gap."""
    _, full, error, stays, *_ = run("faults.py", "--step", 15, "--only", "fit from blocks").splitlines()
    for line in (full, error):
        faults, errors, wrong = map(int, line.split()[-3:])
        assert faults > errors > 0 and wrong == 0
    faults, errors, wrong = map(int, stays.split()[-3:])
    assert faults > 0 and errors == wrong == 0


@linux
def test_interrupts_at_random_moments():
    kinds = ["iris crammer_singer", "dag accelerated, 2 threads", "rbf one_vs_one block"]
    assert "wrong:" not in run("interrupts.py", "--number", 6, "--only", *kinds)


def test_many_threads_at_once():
    said = run("concurrency.py", "--number", 8, "--only-threads")
    assert "8 fits and predictions in 16 threads: 0 different from serial ones" in said


@linux
@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_memory_that_cannot_be_had():
    lines = run(
        "allocations.py", "--most", 8, "--only", "2 threads", "kernel", "kernel one_vs_one", "cutting_plane", "svmlight"
    ).splitlines()
    assert lines[-1].endswith(" failing requests, 0 wrong") and int(lines[-1].split()[0]) >= 25
