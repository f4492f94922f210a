"""SIGTERM, readers that go away, outputs that are closed or full: one line, a code, and no half-written file."""

import os
import signal
import subprocess
import sys
import time
from importlib.metadata import entry_points

import numpy as np
import pytest
from sklearn.datasets import load_digits

from multimargin import LinearSVM, load, save, write_svmlight
from multimargin.__main__ import start
from multimargin.data.blocks import write_blocks

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such signals there")
PROGRAM = [sys.executable, "-m", "multimargin"]


def program(*words, **options):
    return subprocess.run([*PROGRAM, *words], capture_output="stdout" not in options, text=True, timeout=300, **options)


@pytest.fixture
def model(tmp_path):
    X, y = np.eye(4), np.arange(4) % 2
    save(LinearSVM().fit(X, y), tmp_path / "m")
    write_svmlight(tmp_path / "rows.svm", np.tile(X, (3000, 1)), np.tile(y, 3000))
    return tmp_path


@pytest.mark.parametrize(("ends", "of_text"), [("SIGTERM", False), ("SIGHUP", False), ("SIGHUP", True)])
def test_sigterm_without_a_checkpoint(tmp_path, ends, of_text):
    """Nothing stays: no half-written file, nor the folder of a training from blocks."""
    data, more = "@digits", []
    if of_text:
        write_svmlight(tmp_path / "d.svm", *load_digits(return_X_y=True))
        data, more = "d.svm", ["--memory-mb", "1"]
    words = ["train", data, "m", *more, "--solver", "sdm", "--tol", "1e-14", "--max-iter", "100000000", "--C", "1000"]
    started = tmp_path / "started"
    code = "import sys, threading, pathlib\nfrom multimargin.linear import training\n"
    code += "from multimargin.commands.main import main\nsolve = training.solve\n"
    code += "def noted(*args):\n    pathlib.Path('started').touch()\n    return solve(*args)\n"
    code += "training.solve = noted\nsys.exit(main())"
    with subprocess.Popen(
        [sys.executable, "-c", code, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        while not started.exists() and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(getattr(signal, ends))
        _, said = process.communicate(timeout=300)
    assert process.returncode == 128 + getattr(signal, ends) and said.endswith("multimargin: terminated\n")
    assert "Traceback" not in said
    assert set(os.listdir(tmp_path)) == {"started", *(["d.svm"] if of_text else [])}


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal")
def test_nohup(tmp_path):
    words = ["train", "@digits", "m", "--solver", "sdm", "--tol", "1e-14", "--max-iter", "100000000"]
    started = [*PROGRAM, *words, "--checkpoint", "state", "--checkpoint-every", "0"]
    with subprocess.Popen(["nohup", *started], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        while not (tmp_path / "state").exists() and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.terminate()
        process.communicate(timeout=300)
    assert process.returncode == 143


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "multimargin: interrupted\n"), (signal.SIGTERM, 143, "multimargin: terminated\n")],
)
def test_a_pipe_for_the_model_that_nobody_reads(tmp_path, number, code, said):
    os.mkfifo(tmp_path / "pipe")
    program = "import signal, sys, pathlib\nfrom multimargin.data import container\n"
    program += "from multimargin.commands.main import main\nwrite = container.write_atomically\n"
    program += "def noted(*args, **options):\n    pathlib.Path('started').touch()\n    write(*args, **options)\n"
    program += "container.write_atomically = noted\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program += "sys.exit(main())"
    with subprocess.Popen(
        [sys.executable, "-c", program, "train", "@iris", "pipe"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        while not (tmp_path / "started").exists() and process.poll() is None:
            time.sleep(0.02)
        time.sleep(0.1)  # by then it waits for a reader
        process.send_signal(number)
        try:
            _, told = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, told) == (code, said)


@pytest.mark.parametrize("words", [["predict", "rows.svm", "m"], ["train", "@iris", "n", "--json"]])
def test_a_reader_that_goes_away(model, words):
    with subprocess.Popen([*PROGRAM, *words], cwd=model, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said.replace(b"accuracy: 1.0000 (12000 of 12000 rows)\n", b"")) == (141, b"")
    assert words[0] == "predict" or load(model / "n").converged_


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_full_outputs(model, monkeypatch, unbuffered):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with open("/dev/full", "w") as full:
        done = program("predict", "rows.svm", "m", cwd=model, stdout=full, stderr=subprocess.PIPE)
        assert done.returncode == 1
        assert done.stderr == "multimargin: error: standard output: no space left on device; write elsewhere\n"
        for words in (["--help"], ["train", "--help"], ["--version"], ["completion", "bash"]):
            done = program(*words, cwd=model, stdout=full, stderr=subprocess.PIPE)
            assert (done.returncode, done.stderr.count("\n")) == (1, 1) and "standard output: no space" in done.stderr
        assert program("train", "--nonsense", cwd=model, stdout=subprocess.PIPE, stderr=full).returncode == 2
        unheard = program("train", "@iris", "n", "--max-iter", "1", cwd=model, stdout=subprocess.PIPE, stderr=full)
        assert unheard.returncode == 3 and "certificate" in unheard.stdout
    named = program("predict", "rows.svm", "m", "/dev/full", cwd=model)
    assert named.stderr == "multimargin: error: /dev/full: no space left on device; make room, or write elsewhere\n"


@pytest.mark.parametrize("closed", [1, 2])
def test_closed_outputs(model, closed):
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" "$@" {closed}>&-', *PROGRAM, "train", "@iris", "n"],
        cwd=model,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0 and done.stderr == ""
    assert load(model / "n").converged_


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_names_that_the_output_cannot_say_are_no_failure(tmp_path, more):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    done = program("train", "@iris", "m\xe9.model", *more, cwd=tmp_path, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("m\\u00e9.model" if more else "m\\xe9.model") in done.stdout or "m\\udcc3" in done.stdout
    (written,) = tmp_path.iterdir()
    assert load(written).converged_


def test_a_model_that_cannot_be_written_is_rescued(run, tmp_path, monkeypatch):
    """The folder is gone when training is done."""
    import tempfile

    from multimargin.commands import fitting

    (tmp_path / "out").mkdir()
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    fit = fitting.fit
    monkeypatch.setattr(fitting, "fit", lambda *args: (fit(*args), (tmp_path / "out").rmdir())[0])
    done = run("train", "@iris", "out/m")
    (rescued,) = (tmp_path / "tmp").iterdir()
    assert done.code == 1 and f"the model is not lost: it is in {rescued}" in done.err
    assert load(rescued).converged_


def test_predict_from_a_store(run, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 20)) * (rng.random((200, 20)) < 0.2), np.arange(200) % 3
    X[0, 0] = 1.0
    write_svmlight("zero.svm", X, y, zero_based=True)
    write_blocks("rows.blocks", "zero.svm", block_mb=0.005)
    trained = run("train", "rows.blocks", "m", "--C", "0.01", "--tol", "0.1")
    assert trained.code == 0
    assert trained.err == "multimargin: note: rows.blocks: indices start at 0\n"
    for more in ([], ["--top", "2"], ["--json"]):
        store = run("predict", "rows.blocks", "m", "-", *more)
        text = run("predict", "zero.svm", "m", "-", *more)
        assert store.code == 0 and store.out.replace("rows.blocks", "zero.svm") == text.out
        assert store.err == text.err
    assert run("predict", "rows.blocks", "m", "labels").out.startswith("200 labels: labels\n")
    narrow = LinearSVM().fit(X[:, :5], y)
    save(narrow, "narrow")
    less = run("predict", "rows.blocks", "narrow", "-")
    assert less.code == 0 and "features that the model does not know are left out; the model has 5" in less.err
    assert less.out.split() == [str(label) for label in narrow.predict(X[:, :5])]
    (tmp_path / "rows.blocks" / "block-000001").write_bytes(b"x")
    damaged = run("predict", "rows.blocks", "m", "other")
    assert damaged.code == 1 and "block-000001" in damaged.err and not (tmp_path / "other").exists()


INTERRUPTED_AT = """
import builtins, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
usual = builtins.__import__

def interrupted(name, *more, **others):
    if name == {name!r}:
        signal.raise_signal(signal.SIGINT)
    return usual(name, *more, **others)

builtins.__import__ = interrupted
sys.argv = ["multimargin", "--version"]
from multimargin.__main__ import start
sys.exit(start())
"""


@pytest.mark.parametrize("name", ["argparse", "multimargin.commands.main", "multimargin.commands.options"])
def test_ctrl_c_while_the_program_is_loaded(name):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT.format(name=name)], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "multimargin: interrupted\n")


@pytest.mark.parametrize("where", ["build_parser", "with_weights_in_words", "written", "terminable"])
def test_ctrl_c_before_and_after_the_command(run, monkeypatch, where):
    def interrupted(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"multimargin.commands.main.{where}", interrupted)
    done = run("completion", "bash")
    assert (done.code, done.err) == (130, "multimargin: interrupted\n")


def test_the_program_that_is_installed_minds_ctrl_c_from_the_beginning():
    (program,) = entry_points(group="console_scripts", name="multimargin")
    assert program.load() is start
