"""Whatever fails while a file is written, the old one stays, and nothing else is left."""

import errno
import os
import stat
import subprocess
import sys

import numpy as np
import pytest

from multimargin import LinearSVM, read_svmlight, write_svmlight
from multimargin.data.atomic import checked_target, naming, remove_leftovers, sync_folder, write_atomically
from multimargin.data.blocks import open_blocks, write_blocks
from multimargin.linear.checkpoint import StateFile
from multimargin.models import load, save
from tests.models.examples import X, Y


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "model"
    save(LinearSVM().fit(X, Y), path)
    return path


def only(path):
    return [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_new_file_replaces_the_old_one(old):
    save(LinearSVM("one_vs_rest").fit(X, Y), old)
    assert load(old).formulation == "one_vs_rest"
    assert only(old)


def test_a_model_that_cannot_be_stored_leaves_the_old_file(old):
    before = old.read_bytes()
    with pytest.raises(TypeError):
        save("no model", old)
    assert old.read_bytes() == before
    assert only(old)


def test_an_error_in_the_middle_leaves_the_old_file(old):
    before = old.read_bytes()

    def parts():
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(old, parts())
    assert old.read_bytes() == before
    assert only(old)


def test_a_full_disk_leaves_the_old_file(old):
    """As a limit of the size of files, which fails in the middle of a write just so."""
    before = old.read_bytes()
    program = """
import resource, signal, sys
import numpy as np
from multimargin import LinearSVM, read_svmlight, write_svmlight
from multimargin.models import save
rng = np.random.default_rng(0)
model = LinearSVM(max_iter=10**6, tol=0.5).fit(rng.random((20, 5000)), np.arange(20) % 4)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    save(model, sys.argv[1])
except OSError as error:
    print(error.errno)
"""
    done = subprocess.run([sys.executable, "-c", program, str(old)], capture_output=True, text=True, timeout=600)
    assert done.stdout == f"{errno.EFBIG}\n", done.stderr
    assert old.read_bytes() == before
    assert only(old)


def test_standard_output_by_its_name():
    """A link to a pipe, which has no path."""
    program = "from multimargin.data.atomic import write_atomically; write_atomically('/dev/stdout', [b'one ', b'two'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    assert (done.stdout, done.stderr) == ("one two", "")


def test_folders_are_refused(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"):
        save(LinearSVM().fit(X, Y), tmp_path)
    assert not list(tmp_path.iterdir())


def test_missing_folders_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere is not a folder; make it first"):
        save(LinearSVM().fit(X, Y), tmp_path / "nowhere" / "model")


def test_folders_that_cannot_be_written(old):
    """As somebody who is not root, whom nothing stops."""
    program = """
import os, sys
from multimargin.data.atomic import checked_target, naming, sync_folder, write_atomically
if os.getuid() == 0:
    os.setgid(65534); os.setuid(65534)
try:
    write_atomically(sys.argv[1], [b"new"])
except PermissionError:
    print("refused")
"""
    before = old.read_bytes()
    old.parent.chmod(0o555)
    try:
        # The modules are read before the user is somebody else, who may not see them.
        done = subprocess.run([sys.executable, "-c", program, str(old)], capture_output=True, text=True, timeout=120)
    finally:
        old.parent.chmod(0o755)
    assert done.stdout == "refused\n", done.stderr
    assert old.read_bytes() == before
    assert only(old)


def test_a_new_file_has_the_usual_rights(tmp_path):
    (tmp_path / "plain").write_text("")
    write_atomically(tmp_path / "new", [b"text"])
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_permissions(tmp_path):
    path = tmp_path / "model"
    mask = os.umask(0o027)
    try:
        write_atomically(path, [b"new"])
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        write_atomically(path, [b"newer"])
        assert stat.S_IMODE(path.stat().st_mode) == 0o604  # those of the file that was there
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(mask)


def test_a_private_file_is_private_while_it_is_written(tmp_path):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(0o600)
    seen = []

    def parts():
        yield b"half"
        seen.extend(stat.S_IMODE(entry.stat().st_mode) for entry in tmp_path.iterdir() if entry != path)
        yield b"whole"

    mask = os.umask(0o022)
    try:
        write_atomically(path, parts())
    finally:
        os.umask(mask)
    assert seen == [0o600]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == b"halfwhole"


def test_links_stay_links(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_atomically(tmp_path / "link", [b"new"])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


@pytest.mark.parametrize("name", ["m" * 255, "é" * 127 + "m", "日" * 85], ids=["1", "2", "3"])
def test_long_names(tmp_path, name):
    """As long as names can be: 255 bytes."""
    assert len(name.encode()) == 255
    path = tmp_path / name
    write_atomically(path, [b"new", memoryview(np.arange(3, dtype=np.uint8))])
    assert path.read_bytes() == b"new\0\1\2"
    assert only(path)


def test_a_reader_of_the_old_file_keeps_it(old):
    with old.open("rb") as file:
        before = old.read_bytes()
        save(LinearSVM("one_vs_rest").fit(X, Y), old)
        assert file.read() == before


def test_failed_writes_are_named_and_our_own_words_stay(tmp_path):
    target = tmp_path / "model"
    with pytest.raises(OSError) as failed, naming(target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/proc/self/fd/7")
    assert failed.value.filename == str(target) and failed.value.errno == errno.ENOSPC
    assert "make room, or write elsewhere" in str(failed.value)
    ours = OSError("said already")  # no number of the system's
    with pytest.raises(OSError, match=r"^said already$") as failed, naming(target):
        raise ours
    assert failed.value is ours


@pytest.mark.parametrize("sync", [True, False])
def test_what_must_outlast_a_power_cut_is_synced(tmp_path, monkeypatch, sync):
    """The file before it has its name, then the folder that has the name."""
    done = []
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: done.append("file"))
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("named"), replace(*names))[1])
    monkeypatch.setattr("multimargin.data.atomic.sync_folder", lambda folder: done.append(folder))
    write_atomically(tmp_path / "new", [b"some ", memoryview(b"bytes")], sync=sync)
    assert (tmp_path / "new").read_bytes() == b"some bytes"
    assert done == (["file", "named", tmp_path] if sync else ["named"])


def test_a_folder_that_cannot_be_opened_is_not_synced(tmp_path):
    sync_folder(tmp_path)
    sync_folder(tmp_path / "nowhere")


def test_names_that_no_file_can_have(tmp_path):
    with pytest.raises(ValueError, match="with a character NUL in it; give another name"):
        checked_target("a\0b")
    (tmp_path / "one").symlink_to(tmp_path / "two")
    (tmp_path / "two").symlink_to(tmp_path / "one")
    with pytest.raises(OSError, match="its links lead back to themselves"):
        checked_target(tmp_path / "one")
    (tmp_path / "three").symlink_to(tmp_path / "file")
    assert checked_target(tmp_path / "three") == tmp_path.resolve() / "file"
    assert checked_target(str(tmp_path / "file")) == tmp_path / "file"


def test_leftovers_of_one_file(tmp_path):
    """A write that was killed leaves a part behind; those of other files are none of ours."""

    def killed():
        yield b"half"
        left.extend((path.name, path.read_bytes()) for path in tmp_path.iterdir())
        raise KeyboardInterrupt

    left = []
    for name in ("state", "other"):
        with pytest.raises(KeyboardInterrupt):
            write_atomically(tmp_path / name, killed())
    for name, content in left:  # as if nobody had been there to remove it
        (tmp_path / name).write_bytes(content)
    (own, _), (others, _) = left
    remove_leftovers(tmp_path / "state")
    assert own != others and [path.name for path in tmp_path.iterdir()] == [others]


def test_a_checkpoint_begins_without_leftovers(tmp_path):
    written = []

    def parts():
        written.extend(tmp_path.iterdir())
        yield b"x"

    write_atomically(tmp_path / "state", parts())
    (tmp_path / "state").unlink()
    (part,) = written
    part.write_bytes(b"half")
    StateFile(tmp_path / "state", 0.0, {})
    assert not part.exists()


def test_names_may_be_bytes(tmp_path):
    model = LinearSVM().fit(X, Y)
    save(model, os.fsencode(tmp_path / "m"))
    write_svmlight(os.fsencode(tmp_path / "t.svm"), X, np.arange(len(X)) % 2)
    write_blocks(os.fsencode(tmp_path / "b"), [(X, np.arange(len(X)) % 2)])
    assert (load(os.fsencode(tmp_path / "m")).coef_ == model.coef_).all()
    assert read_svmlight(tmp_path / "t.svm")[0].shape[0] == len(X)
    assert len(open_blocks(os.fsencode(tmp_path / "b"))) == 1
