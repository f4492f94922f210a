"""Mistakes: one line that names the file and the token, the right exit code, never a traceback, nothing written."""

import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from multimargin.commands.errors import CommandError
from multimargin.commands.main import main
from multimargin.commands.output_paths import check_output
from multimargin.commands.terminal import Terminal
from multimargin.data.blocks import write_blocks
from multimargin.data.svmlight import read_svmlight

# words, exit code, what the line says; {d} is the folder of data, {m} that of models, {here} the working folder
CASES = [
    # Data that is not there, or no data
    ("train missing.svm m", 1, "missing.svm: there is no such file"),
    ("train {here}/folder m", 1, "folder: is a folder, not a file"),
    ("tune rows.blocks", 1, "rows.blocks: is a store of blocks, which only train reads, and predict with a model of"),
    ("compare rows.blocks", 1, "rows.blocks: is a store of blocks", "give the file that it was written from"),
    ("report {m}/digits rows.blocks r.html", 1, "rows.blocks: is a store of blocks", "give the file that it was"),
    ("train {d}/digits.svm m --valid rows.blocks", 1, "rows.blocks: is a store of blocks", "give the file"),
    ("predict rows.blocks {m}/xy -", 1, "rows.blocks: is a store of blocks", "predict with a model of a matrix"),
    ("train empty.svm m", 1, "empty.svm: the file is empty"),
    ("train bad_token.svm m", 1, "bad_token.svm", "line 3", "oops"),
    ("train fraction.svm m", 1, "fraction.svm: row 2: the label is 0.5; classes must be whole numbers"),
    ("train one_class.svm m", 1, "one_class.svm", "at least 2 classes"),
    ("train nothing.npz m", 1, "nothing.npz: has a, b; it needs X"),
    ("train no_labels.npz m", 1, "no_labels.npz: has no labels (array y)"),
    ("train short.npz m", 1, "short.npz: X has 4 rows, y has 3 labels"),
    ("train objects.npz m", 1, "objects.npz", "array 'y' holds Python objects"),
    ("train nan.npz m", 1, "nan.npz: X holds nan, which is not finite, in row 0, column 0"),
    ("train text.npz m", 1, "text.npz: is no .npz file of numbers"),
    ("train broken.npz m", 1, "broken.npz", "CSR"),
    ("train @letters m", 1, "there is no bundled data set 'letters'; there are digits, iris"),
    ("train {d}/digits.svm m --format npz", 1, "digits.svm: is no .npz file of numbers"),
    # Tables
    ("train {d}/tickets.csv m", 2, "tickets.csv: which column holds the labels? Say --label COL"),
    ("train {d}/tickets.csv m --label que", 1, "there is no column 'que'; the file has 'subject'"),
    ("train {d}/tickets.csv m --label queue --text body", 1, "there is no column 'body'"),
    ("train {d}/tickets.csv m --label queue --text queue", 1, "column 'queue' is named twice"),
    ("train {d}/tickets.csv m --label queue --numeric priority", 1, "row 3: column 'priority' holds 'high', not a"),
    ("train {d}/tickets.csv m --label queue --text subject --min-df 999", 1, "tickets.csv", "max_df"),
    ("train {d}/tickets.csv m --label queue --text subject --ngrams 2 1", 2, "--ngrams 2 1: MIN is above MAX"),
    ("train {d}/tickets.csv m --label priority --text subject", 1, "row", "column 'priority' holds no label"),
    ("train {d}/digits.svm m --label y", 2, "--label is for tables (.csv, .tsv, .parquet)", "is read as svmlight"),
    ("train only_header.csv m --label y", 1, "only_header.csv: has no rows"),
    ("train only_label.csv m --label y", 1, "only_label.csv: has no column for features"),
    ("train ragged.csv m --label y", 1, "ragged.csv: cannot be read as a table", "line 3"),
    ("train semicolons.csv m --label y", 1, "semicolons.csv: columns must be separated by commas"),
    ("train latin.csv m --label y", 1, "latin.csv: is not UTF-8 text: byte 0xe9"),
    ("train empty.csv m --label y", 1, "empty.csv: cannot be read as a table"),
    ("train void.csv m --label y", 1, "void.csv: column 'x' has no values; leave it out (--drop x)"),
    ("train infinite.csv m --label y", 1, "infinite.csv: row 2: column 'x' holds 'inf', not a number"),
    ("train twice.csv m --label y", 1, "twice.csv: has 2 columns 'y'; give each a name of its own"),
    ("train no.parquet m --label y", 1, "no.parquet: cannot be read as a table"),
    # A second -- is no name
    ("convert -- {d}/digits.svm --", 2, "the following arguments are required: OUT"),
    ("predict -- {d}/digits.svm --", 2, "the following arguments are required: MODEL"),
    ("report -- {m}/digits -- r.html", 2, "the following arguments are required: DATA"),
    ("train -- {d}/digits.svm --", 2, "the following arguments are required: MODEL"),
    # Outputs, before anything is trained
    ("train {d}/digits.svm no/m", 1, "no/m: there is no folder no; make it first"),
    ("train {d}/digits.svm {here}/folder", 1, "folder: is a folder; the output needs the name of a file"),
    ("train {d}/digits.svm empty.svm/m", 1, "empty.svm is not a folder"),
    ("train same.svm same.svm", 1, "same.svm: is also an input, which would be lost"),
    ("train {d}/digits.svm same.svm", 1, "same.svm: exists and is no model, and would be lost; delete it first, or"),
    ("train {d}/tickets.csv only_label.csv --label queue", 1, "only_label.csv: exists and is no model"),
    ("train {d}/digits.svm wide.npz", 1, "wide.npz: exists and is no model"),
    ("convert {m}/digits same.svm --to multimargin", 1, "same.svm: exists and is no model"),
    ("convert {m}/digits same.svm --to liblinear", 1, "same.svm: exists and is no model"),
    ("demo", 1, "report.html: exists and is no report, and would be lost; delete it first, or choose another name"),
    ("demo --report same.svm", 1, "same.svm: exists and is no report"),
    ("report {m}/digits {d}/digits.svm same.svm", 1, "same.svm: exists and is no report"),
    ("predict {d}/digits.svm {m}/digits no/out", 1, "no/out: there is no folder no"),
    ("train @iris new --checkpoint new", 1, "new: is named for two outputs, and one would replace the other; choose"),
    ("train @iris new --checkpoint same.svm --valid same.svm", 1, "same.svm: is also an input, which would be lost"),
    ("tune @iris --plot p.png --checkpoint ./p.png", 1, "./p.png: is named for two outputs"),
    ("train @iris -", 1, "-: a model is not written to standard output; give the name of a file"),
    ("train @iris circle", 1, "circle: its links lead back to themselves"),
    ("predict same.svm {m}/digits same.svm", 1, "same.svm: is also an input"),
    ("tune @iris --plot no/p.png", 1, "no/p.png: there is no folder no"),
    ("tune @iris --plot p.gif", 2, "--plot p.gif: the suffix must be one of .png, .svg, .pdf"),
    ("report {m}/digits {d}/digits.svm no/r.html", 1, "no/r.html: there is no folder no"),
    ("demo --report no/r.html", 1, "no/r.html: there is no folder no"),
    ("convert {m}/digits no/m.onnx", 1, "no/m.onnx: there is no folder no"),
    # Parameters
    ("train {d}/digits.svm m -c 0", 2, "argument -c/--C: must be above 0 and finite, got 0"),
    ("train {d}/digits.svm m -c much", 2, "argument -c/--C: invalid number value: 'much'"),
    ("train {d}/digits.svm m --C nan", 2, "must be above 0 and finite, got nan"),
    ("train {d}/digits.svm m --C inf", 2, "must be above 0 and finite, got inf"),
    ("train {d}/digits.svm m --weight 0=nan", 2, "--weight 0=nan: must be a finite number of at least 0"),
    ("train {d}/digits.svm m --max-iter 0", 2, "must be at least 1, got 0"),
    ("train {d}/digits.svm m --max-iter 1.5", 2, "invalid whole number value: '1.5'"),
    ("train {d}/digits.svm m --holdout 1.5", 2, "must be between 0 and 1, got 1.5"),
    ("train {d}/digits.svm m --formulation svm", 2, "invalid choice: 'svm'"),
    ("train {d}/digits.svm m --kernel cosine", 2, "invalid choice: 'cosine'"),
    ("train {d}/digits.svm m --gamma 1", 2, "--gamma is for kernel machines: add --kernel rbf"),
    ("train {d}/digits.svm m --kernel rbf --gamma -1", 2, "gamma must be finite and at least 0, got -1.0"),
    ("train {d}/digits.svm m --kernel rbf --loss squared_hinge", 2, "LinearSVM does both"),
    ("train {d}/digits.svm m --kernel rbf --solver newton", 2, "--solver newton is for linear machines"),
    ("train {d}/digits.svm m --solver block", 2, "--solver block is for kernel machines"),
    ("train {d}/digits.svm m --solver newton --stopping violation", 2, "solver='newton' has stopping 'gap'"),
    ("train {d}/digits.svm m --n-jobs 0", 2, "n_jobs must not be 0"),
    ("train {d}/digits.svm m --seed -1", 2, "random_state must be"),
    ("train {d}/digits.svm m --weight 3", 2, "must be LABEL=NUMBER, got '3'"),
    ("train {d}/digits.svm m --weight 3=x", 2, "'x' is no number, in '3=x'"),
    ("train {d}/digits.svm m --weight 77=1", 1, "names class '77', which no row has"),
    ("train {d}/digits.svm m --weight 3=1 --class-weight balanced", 2, "exclude each other"),
    ("train {d}/digits.svm m --valid {d}/digits.npz --holdout 0.1", 2, "--valid and --holdout exclude each other"),
    ("train {d}/digits.svm m -v 5", 2, "-v only cross-validates: leave out MODEL"),
    ("train {d}/digits.svm -v 1", 2, "must be at least 2, got 1"),
    ("train {d}/digits.svm -v 1000", 1, "1000 folds need as many rows; there are 400"),
    ("train {d}/digits.svm", 2, "required: MODEL"),
    ("train", 2, "the following arguments are required: DATA"),
    ("train {d}/digits.svm m --iterations 5", 2, "unrecognized arguments: --iterations 5 (see multimargin train --h"),
    ("train {d}/digits.svm m -R", 2, "unrecognized arguments: -R (see multimargin train --help)"),
    ("predict {d}/digits.svm m - more", 2, "unrecognized arguments: more (see multimargin predict --help)"),
    ("--iterations 5", 2, "(see multimargin --help)"),
    (
        "train {d}/tickets.csv m --label queue --drop age priority",
        2,
        "unrecognized arguments: priority; --drop takes one COL: say it again for another (see multimargin train --h",
    ),
    (
        "train {d}/tickets.csv m --text=subject age --label queue",
        2,
        "unrecognized arguments: age; --text takes one COL",
    ),
    ("tune {d}/tickets.csv --weight 1=2 2=3 --label queue", 2, "arguments: 2=3; --weight takes one LABEL=X"),
    ("train {d}/tickets.csv m --drop age --label queue x", 2, "unrecognized arguments: x (see multimargin train"),
    ("tune @iris --C-range 2 1", 2, "--C-range 2 1: LOW is above HIGH"),
    ("tune @iris --gamma-range 1 2", 2, "add --kernel rbf"),
    ("fly", 2, "invalid choice: 'fly'"),
    ("completion tcsh", 2, "invalid choice: 'tcsh'"),
    # LIBLINEAR's flags that mean something else
    ("train {d}/digits.svm m -s 0", 2, "-s 0 is logistic regression, which is not done here; sklearn.linear_model"),
    ("train {d}/digits.svm m -s 5", 2, "-s 5 is an l1 penalty"),
    ("train {d}/digits.svm m -s 11", 2, "-s 11 is regression", "LinearSVR"),
    ("train {d}/digits.svm m -s 21", 2, "-s 21 is a one-class machine"),
    ("train {d}/digits.svm m -s 99", 2, "-s 99 is no solver type"),
    ("train {d}/digits.svm m -w3", 2, "argument --weight: expected one argument"),
    ("train {d}/digits.svm m -w3 heavy", 2, "'heavy' is no number, in '3=heavy'"),
    # Models
    ("predict {d}/digits.svm missing", 1, "missing: there is no such model file"),
    ("predict {d}/digits.svm {here}/folder", 1, "folder: is a folder, not a model file"),
    ("predict {d}/digits.svm empty.svm", 1, "empty.svm: is empty, no model"),
    ("predict {d}/digits.svm {d}/tickets.csv", 1, "tickets.csv"),
    ("predict {d}/digits.svm cut.model", 1, "cut.model"),
    ("predict {d}/digits.svm flipped.model", 1, "flipped.model"),
    ("predict {d}/digits.svm bad.liblinear", 1, "bad.liblinear"),
    ("report missing {d}/digits.svm r.html", 1, "missing: there is no such model file"),
    ("convert missing m.onnx", 1, "missing: there is no such model file"),
    ("convert {m}/digits m.xyz", 2, "m.xyz: which format?"),
    ("convert {m}/tickets m.liblinear", 1, "error: {m}/tickets: "),
    # Data that does not fit a model
    ("predict only_header.csv {m}/xy -", 1, "only_header.csv: has no rows"),
    ("predict empty.npz {m}/digits -", 1, "empty.npz: has no rows"),
    ("predict bad_token.svm {m}/digits -", 1, "bad_token.svm, line 3: '1:oops' is not index:value"),
    ("predict empty.svm {m}/digits -", 1, "empty.svm: the file is empty"),
    ("predict wide.npz {m}/digits -", 1, "wide.npz: has 65 features, the model has 64"),
    ("report {m}/digits wide.svm r.html", 1, "wide.svm", "99", "the model has 64; train it with --n-features"),
    ("predict {d}/tickets.csv {m}/digits -", 1, "tickets.csv: is a table; the model was trained on a matrix"),
    ("predict {d}/digits.svm {m}/tickets -", 1, "is a matrix; the model was trained on a table with columns 'subject'"),
    ("predict {d}/digits.svm {m}/digits - --proba", 2, "has no probabilities; train it with --probability"),
    ("predict {d}/digits.svm {m}/digits - --top 0", 2, "must be at least 1, got 0"),
    ("predict {d}/tickets.csv {m}/tickets - --label subject", 1, "'subject' is a feature of the model, not the label"),
    ("predict {d}/tickets.csv {m}/tickets - --label queues", 1, "there is no column 'queues'"),
    ("report {m}/tickets {d}/tickets.csv r.html", 1, "a report needs the labels of the rows (say --label COL)"),
    ("train {d}/digits.svm m --valid wide.npz", 1, "wide.npz: has 65 features, the model has 64"),
]


@pytest.fixture
def here(tmp_path, models):
    """A working folder with all kinds of broken files."""
    (tmp_path / "folder").mkdir()
    write_blocks(tmp_path / "rows.blocks", [(np.eye(64), np.arange(64) % 2)])
    files = {
        "empty.svm": "",
        "bad_token.svm": "1 1:1\n2 1:2\n1 1:oops\n",
        "fraction.svm": "1 1:1\n0.5 1:2\n",
        "one_class.svm": "1 1:1\n1 1:2\n",
        "same.svm": "1 1:1\n2 1:2\n",
        "wide.svm": "1 99:1\n",
        "text.npz": "not a zip file",
        "only_header.csv": "x,y\n",
        "only_label.csv": "y\n1\n2\n",
        "ragged.csv": "x,y\n1,2\n1,2,3,4\n",
        "semicolons.csv": "x;y\n1;2\n",
        "empty.csv": "",
        "void.csv": "x,z,y\n,1,a\n,2,b\n",
        "twice.csv": "y,a,y\nx,1,x\nz,3,z\nz,4,z\n",
        "infinite.csv": "x,y\n1,a\ninf,b\n",
        "no.parquet": "nothing of the kind",
        "report.html": "<!doctype html>\n<title>The year in numbers</title>\n",
        "bad.liblinear": "solver_type L2R_LR\nnr_class two\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "latin.csv").write_bytes(b"x,y\n1,caf\xe9\n2,tea\n")
    X = np.ones((4, 2))
    np.savez(tmp_path / "nothing.npz", a=X, b=X)
    np.savez(tmp_path / "empty.npz", X=np.ones((0, 64)))
    np.savez(tmp_path / "no_labels.npz", X=X)
    np.savez(tmp_path / "short.npz", X=X, y=[1, 2, 3])
    np.savez(tmp_path / "objects.npz", X=X, y=np.array([1, "a", None, 2], dtype=object))
    np.savez(tmp_path / "nan.npz", X=np.where(np.eye(4, 2), np.nan, 1), y=[1, 2, 1, 2])
    np.savez(tmp_path / "wide.npz", X=np.ones((2, 65)), y=[1, 2])
    parts = {"data": [1.0, 1.0], "indices": [0, 7], "indptr": [0, 1, 2], "shape": [2, 2]}
    np.savez(tmp_path / "broken.npz", **parts, y=[1, 2])
    whole = (models / "digits").read_bytes()
    (tmp_path / "cut.model").write_bytes(whole[: len(whole) // 2])
    flipped = bytearray(whole)
    flipped[-20] ^= 1
    (tmp_path / "flipped.model").write_bytes(flipped)
    (tmp_path / "circle").symlink_to("circle")
    return tmp_path


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_mistake(run, here, folder, models, case):
    line, code, *said = case
    before = {path.name: path.is_file() and path.read_bytes() for path in here.iterdir()}
    places = {"d": folder, "m": models, "here": here}
    done = run(*line.format(**places).split())
    assert done.code == code, done
    assert done.out == ""
    assert done.err.startswith("multimargin: error: ") and done.err.count("\n") == 1, done.err
    for words in said:
        assert words.format(**places) in done.err
    assert "Traceback" not in done.err and "MULTIMARGIN_TRACEBACK" not in done.err
    assert {path.name: path.is_file() and path.read_bytes() for path in here.iterdir()} == before


def as_nobody(path):
    """What check_output says to somebody who is not root, for whom every folder is open."""
    program = """
import os, sys
from multimargin.commands.output_paths import check_output
if os.geteuid() == 0:
    os.setuid(65534)
try:
    check_output(sys.argv[1])
except Exception as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    return done.stdout


def test_folders_without_permission():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        closed = os.path.join(folder, "closed")
        os.mkdir(closed, mode=0o500)
        said = as_nobody(os.path.join(closed, "m"))
        os.symlink(os.path.join(closed, "m"), os.path.join(folder, "link"))
        of_link = as_nobody(os.path.join(folder, "link"))
    assert said == f"{closed}/m: no permission to write into {closed}\n"
    assert of_link == f"{folder}/link: no permission to write into {os.path.realpath(closed)}\n"


def test_devices_and_pipes_are_written_without_a_folder_that_can_be():
    assert as_nobody("/dev/null") == ""
    with tempfile.TemporaryDirectory() as folder:
        pipe = os.path.join(folder, "pipe")
        os.mkfifo(pipe)
        os.chmod(pipe, 0o666)
        os.chmod(folder, 0o555)
        assert as_nobody(pipe) == ""
        os.chmod(pipe, 0o444)
        assert as_nobody(pipe) == f"{pipe}: exists, and may not be written\n"
        os.chmod(folder, 0o755)


def test_warnings_do_not_command_the_terminal(capsys):
    Terminal().warn("column '\x1b[2J\x9b'\nis odd")
    assert capsys.readouterr().err == "multimargin: warning: column '\\x1b[2J\\x9b' is odd\n"


def test_nothing_at_all_is_wrong_usage(run):
    done = run()
    assert done.code == 2 and done.out == "" and "COMMAND" in done.err


def test_missing_libraries_are_named_with_the_extra(run, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    done = run("train", folder / "tickets.csv", "m", "--label", "queue")
    assert done.code == 1 and 'pip install "multimargin[text]"' in done.err
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = run("tune", "@iris", "--plot", "p.png")
    assert done.code == 1 and 'pip install "multimargin[plot]"' in done.err


def test_a_traceback_is_there_for_those_who_ask(run, monkeypatch):
    monkeypatch.setenv("MULTIMARGIN_TRACEBACK", "1")
    with pytest.raises(Exception, match="there is no such file"):
        main(["train", "missing.svm", "m"])


def test_a_name_with_two_lines_is_shown_whole(run):
    done = run("train", "a\nb", "model")
    assert done.code == 1 and done.err.count("\n") == 1
    assert "a\\nb" in done.err


def test_a_device_may_be_read_and_written():
    check_output(os.devnull, apart_from=(os.devnull,))


def test_one_file_by_two_names_is_one(tmp_path):
    (tmp_path / "data").write_text("1 1:1\n")
    os.link(tmp_path / "data", tmp_path / "other")
    (tmp_path / "link").symlink_to("new")
    for output, given in (("other", "data"), ("link", "new"), ("new", "link")):
        with pytest.raises(CommandError, match="is also an input"):
            check_output(str(tmp_path / output), apart_from=(str(tmp_path / given),))


def child(program, *words, cwd=None):
    """What the program says in a process of its own, after some lines of Python."""
    end = "\nimport sys\nfrom multimargin.commands.main import main\nsys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", program + end, *map(str, words)], capture_output=True, text=True, timeout=120, cwd=cwd
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_folders_that_may_not_be_searched(run, monkeypatch):
    """Nobody can say whether the file is there."""
    inside = "closed/f"
    usual = os.stat

    def closed(path, *args, **options):
        if str(path).startswith("closed/"):
            raise PermissionError(13, "Permission denied", path)
        return usual(path, *args, **options)

    monkeypatch.setattr(os, "stat", closed)
    cases = [("train", inside, "m"), ("predict", "@digits", inside, "-"), ("train", "@iris", "m", "--valid", inside)]
    cases += [("tune", inside), ("convert", inside, "m.liblinear"), ("convert", inside, "m.blocks")]
    for words in cases:
        done = run(*words)
        assert (done.code, done.err) == (1, "multimargin: error: closed/f: permission denied\n"), words


@pytest.mark.skipif(sys.platform == "win32", reason="folders in use cannot be removed there")
def test_a_working_directory_that_is_gone(folder, tmp_path):
    (tmp_path / "gone").mkdir()
    gone = "import os\nos.rmdir(os.getcwd())"
    for data in ("@iris", folder / "digits.svm"):
        (tmp_path / "gone").mkdir(exist_ok=True)
        done = child(gone, "train", data, tmp_path / "m", "--max-iter", "2", "--tol", "1", cwd=tmp_path / "gone")
        assert done.returncode == 0, done
        (tmp_path / "m").unlink()
    said = "the working directory is gone; change to one that is there, or give a path from the root on"
    for words, name in ((("train", "@iris", "m"), "m"), (("train", "d", tmp_path / "m"), "d"), (("tune", "d"), "d")):
        (tmp_path / "gone").mkdir(exist_ok=True)
        done = child(gone, *words, cwd=tmp_path / "gone")
        assert (done.returncode, done.stderr) == (1, f"multimargin: error: {name}: {said}\n")


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs a file that can be opened, and not be read")
def test_reads_that_fail_name_the_file(run, models):
    for words in (("predict", "/proc/self/mem", models / "digits", "-"), ("train", "/proc/self/mem", "m")):
        done = run(*words, "--format", "svmlight")
        assert (done.code, done.err) == (1, "multimargin: error: /proc/self/mem: input/output error\n")
    with pytest.raises(OSError, match="error") as told:
        read_svmlight("/proc/self/mem")
    assert told.value.filename == "/proc/self/mem"


def test_names_that_are_too_long_are_refused_before_the_training(run, monkeypatch):
    monkeypatch.setattr("multimargin.commands.fitting.fit", None)
    name = "m" * 300
    for words in (("train", "@iris", name), ("train", "@iris", "m", "--checkpoint", name)):
        done = run(*words)
        said = f"{name}: is too long for a file there (a name of 300 bytes); choose a shorter one"
        assert (done.code, done.err) == (1, f"multimargin: error: {said}\n")


def test_numpy_that_cannot_be_loaded():
    """Its error is a page of advice; the reason is at the end."""
    without = "import sys, types\nclass Broken:\n    def find_spec(self, name, path=None, target=None):\n"
    without += "        if name == 'numpy':\n            raise ImportError('''\\n\\nIMPORTANT: PLEASE READ THIS\\n\\n"
    without += "* The NumPy version is: \"2.0\"\\n\\nOriginal error was: libx.so: failed to map segment\\n''')\n"
    without += "sys.meta_path.insert(0, Broken())"
    done = child(without, "train", "@iris", "m")
    assert done.returncode == 1
    assert done.stderr == "multimargin: error: NumPy could not be loaded: libx.so: failed to map segment\n"
