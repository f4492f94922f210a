"""The program as a process: help, imports, examples, pipes, terminals, Ctrl-C."""

import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import multimargin
from multimargin.commands import options
from multimargin.commands.main import build_parser, main
from multimargin.estimators.parameters import KERNEL_SOLVERS, LINEAR_SOLVERS
from multimargin.kernel.functions import KERNELS
from multimargin.models import load
from multimargin.problems.formulations import FORMULATIONS, LOSSES

# As the installed program starts, with Ctrl-C as a terminal has it: test runners may ignore it.
PROGRAM = [
    sys.executable,
    "-c",
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from multimargin.commands.main import main; sys.exit(main())",
]
COMMANDS = ("demo", "train", "predict", "tune", "compare", "report", "convert", "completion")
ESCAPE = "\x1b"


def program(*words, **options):
    return subprocess.run([*PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=300, **options)


def test_all_commands_are_there():
    assert set(build_parser().commands) == set(COMMANDS)


@pytest.mark.parametrize("words", [[], *([command] for command in COMMANDS)])
def test_help_loads_no_library(words):
    code = (
        "import sys; from multimargin.commands.main import main; code = main(sys.argv[1:]);"
        "print(code, sorted({name.split('.')[0] for name in sys.modules} & "
        "{'numpy', 'scipy', 'sklearn', 'pandas', 'rich', 'joblib', 'matplotlib', 'safetensors'}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words, "--help"], capture_output=True, text=True, timeout=60)
    assert done.stderr == "0 []\n"
    assert done.stdout.startswith("usage: multimargin")
    assert "example:" in done.stdout


def test_names_in_the_options_are_those_of_the_estimators():
    assert options.FORMULATIONS == FORMULATIONS
    assert options.LOSSES == LOSSES
    assert set(options.KERNELS) == set(KERNELS) - {"precomputed"}
    assert (*LINEAR_SOLVERS, *KERNEL_SOLVERS) == options.SOLVERS


def examples():
    parser = build_parser()
    for name, sub in {"multimargin": parser, **parser.commands}.items():
        lines = sub.epilog.split("example:\n")[1].splitlines()
        assert lines and all(line.strip().startswith("multimargin ") for line in lines)
        yield pytest.param([line.strip() for line in lines], id=name)


@pytest.mark.parametrize("lines", list(examples()))
def test_examples_of_the_help_work(run, lines):
    for line in lines:
        done = run(*shlex.split(line)[1:])
        assert done.code == 0, done
        assert done.out


def test_version():
    done = program("--version")
    assert (done.returncode, done.stdout) == (0, f"multimargin {multimargin.__version__}\n")


def test_results_on_stdout_nothing_on_stderr_no_colours(folder, tmp_path):
    done = program("train", folder / "digits.svm", tmp_path / "m", env=os.environ | {"FORCE_COLOR": "1"})
    assert done.returncode == 0
    assert done.stderr == "" and ESCAPE not in done.stdout
    assert done.stdout.startswith("data ")


def test_errors_of_the_process(tmp_path):
    done = program("train", "missing.svm", "m", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "multimargin: error: missing.svm: there is no such file\n"
    assert program("train", cwd=tmp_path).returncode == 2


def test_a_closed_pipe_is_no_error(folder, models):
    """The reader takes one line and leaves, as head -1 does."""
    words = [*PROGRAM, "predict", f"{folder}/digits.svm", f"{models}/digits", "-", "--top", "10"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        said = process.stderr.read()
        assert process.wait(timeout=120) == 141
    assert said == ""


def test_a_full_disk_is_one_line(folder, models):
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    done = program("predict", folder / "digits.svm", models / "digits", "/dev/full", "-q")
    assert done.returncode == 1
    assert done.stderr.startswith("multimargin: error: ") and done.stderr.count("\n") == 1


def on_terminal(words, until, then, folder):
    """Run with stderr on a terminal; when it shows ``until``, do ``then``. What it showed, stdout, the exit code."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=theirs, cwd=folder)
    os.close(theirs)
    shown, acted, end = b"", False, time.monotonic() + 120
    while time.monotonic() < end:
        if not select.select([ours], [], [], 0.2)[0]:
            if process.poll() is not None:
                break
            continue
        try:
            more = os.read(ours, 65536)
        except OSError:
            more = b""
        if not more:
            break
        shown += more
        if not acted and re.search(until, shown.decode(errors="replace")):
            acted = True
            then(process)
    os.close(ours)
    out = process.stdout.read().decode()
    process.stdout.close()
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode(errors="replace")), out, process.wait(timeout=60)


@pytest.fixture(scope="module")
def hard(tmp_path_factory):
    """Rows that take long to train to a tiny gap."""
    folder = tmp_path_factory.mktemp("hard")
    rng = np.random.default_rng(0)
    y = np.arange(20_000) % 8
    X = rng.normal(size=(8, 60))[y] + 2 * rng.normal(size=(20_000, 60))
    np.savez(folder / "hard.npz", X=X, y=y)
    return folder


def test_a_terminal_shows_epoch_gap_rows_and_time(hard, tmp_path):
    words = ["train", hard / "hard.npz", "m", "--tol", "1e-9", "--max-iter", "30", "--solver", "sdm"]
    shown, out, code = on_terminal(words, "never shown", lambda process: None, tmp_path)
    assert code == 3
    assert re.search(r"epoch +\d+  gap [=~] +\S+  active rows +\d+ +\S+ s", shown)
    assert ESCAPE not in out and out.startswith("data ")
    quiet, out, code = on_terminal([*words, "--quiet"], "never shown", lambda process: None, tmp_path)
    assert "active rows" not in quiet and out == ""


def test_tuning_shows_how_much_is_left(hard, tmp_path):
    words = ["tune", hard / "hard.npz", "--folds", "2", "--C-range", "0.001", "0.01"]
    shown, out, code = on_terminal(words, "never shown", lambda process: None, tmp_path)
    assert code == 0 and "<- best" in out
    assert re.search(r"\d+ of \d+ fits .* left", shown)


def interrupt(process):
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)


def test_ctrl_c_keeps_the_last_certified_model(hard, tmp_path):
    words = ["train", hard / "hard.npz", "m", "--tol", "1e-13", "--max-iter", "100000000", "--solver", "sdm"]
    shown, out, code = on_terminal(words, "epoch", interrupt, tmp_path)
    assert code == 130
    assert "interrupted: m holds the model as it was last certified" in shown
    assert "Traceback" not in shown
    assert "NOT reached" in out
    model = load(tmp_path / "m")
    assert model.converged_ is False and 0 < model.dual_gap_ < np.inf
    assert model.predict(np.zeros((1, 60))).shape == (1,)


def test_ctrl_c_without_a_model_writes_none(hard, tmp_path):
    words = ["tune", hard / "hard.npz", "--tol", "1e-13", "--max-iter", "100000000", "--C-range", "1", "2"]
    shown, out, code = on_terminal(words, "fits", interrupt, tmp_path)
    assert code == 130 and out == ""
    assert "multimargin: interrupted" in shown and "Traceback" not in shown
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_in_a_search_shows_the_best_so_far(hard, tmp_path):
    words = [
        "tune",
        hard / "hard.npz",
        "--folds",
        "2",
        "--C-range",
        "1e-9",
        "1e9",
        "--max-iter",
        "3",
        "--solver",
        "sdm",
    ]
    shown, out, code = on_terminal([*words, "--tol", "1e-12"], r"[1-9]\d* of \d+ fits", interrupt, tmp_path)
    assert code == 130
    assert "<- best" in out and "multimargin: warning: interrupted: this is the best so far" in shown
    assert "Traceback" not in shown and "callback" not in shown


def test_ctrl_c_in_a_comparison_shows_what_was_finished(hard, tmp_path):
    words = ["compare", hard / "hard.npz", "--tol", "1e-13", "--max-iter", "100000000", "--time-limit", "0.6"]
    shown, out, code = on_terminal(words, "3 of ", interrupt, tmp_path)
    assert code == 130
    assert out.count("crammer_singer") == 1 and out.count("weston_watkins") == 1 and "one_vs_rest" not in out
    assert "multimargin: warning: interrupted: this is what was finished" in shown and "Traceback" not in shown


def test_main_returns_codes_instead_of_leaving(capsys):
    assert main(["--help"]) == 0
    assert main(["train", "--help"]) == 0
    assert main(["train", "--nonsense"]) == 2
