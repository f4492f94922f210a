"""Checkpoints of LinearSVMCV: a search that was stopped, however that happened, goes on to the scores and to the model
that it would have had."""

import json
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from threading import Lock

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, f1_score, make_scorer
from sklearn.model_selection import ShuffleSplit, StratifiedKFold

from multimargin import LinearSVM, LinearSVMCV, load, save
from multimargin.data.container import read_container, write_container
from multimargin.estimators.kept_search import KeptSearch
from multimargin.estimators.linear_machine import LinearMachine
from multimargin.linear.checkpoint import CHECKPOINT, CheckpointError
from multimargin.linear.interrupts import interrupt

CS = [0.001, 0.01, 0.1]
FORMULATIONS = ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one", "dag")


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(150, 8, centers=4, cluster_std=6.0, random_state=0)


@pytest.fixture(autouse=True)
def short_slices(monkeypatch):
    monkeypatch.setattr("multimargin.linear.sdm.BUDGET", 1e4)


class Fits:
    """Of all fits, in a search or not: C, rows, and passes that were made here. One of the passes may be the last."""

    def __init__(self, train):
        self.train, self.lock = train, Lock()
        self.begin()

    def begin(self, interrupt_at=0):
        self.left, self.made = interrupt_at, []
        return self

    def __call__(self, model, request):
        made = [float(model.C), len(request.y), 0]
        self.made.append(made)

        def count(epoch, machine):
            with self.lock:
                made[2] += 1
                self.left -= 1
                if self.left == 0:
                    raise KeyboardInterrupt

        request.observers = [*request.observers, count]
        return self.train(model, request)

    @property
    def passes(self):
        return sum(passes for _, _, passes in self.made)


@pytest.fixture
def fits(monkeypatch):
    counted = Fits(LinearMachine._train)
    monkeypatch.setattr(LinearMachine, "_train", lambda model, request: counted(model, request))
    return counted


def make(**more):
    return LinearSVMCV(**{"Cs": CS, "cv": 3, "solver": "sdm", "tol": 1e-2} | more)


def assert_same(model, whole):
    for name in ("scores_", "gaps_", "epochs_", "Cs_", "coef_", "intercept_"):
        np.testing.assert_array_equal(getattr(model, name), getattr(whole, name), err_msg=name)
    for name in ("C_", "best_score_", "primal_objective_", "dual_objective_", "n_iter_", "converged_"):
        assert getattr(model, name) == getattr(whole, name), name
    np.testing.assert_array_equal(model.dual_coef_.toarray(), whole.dual_coef_.toarray())
    assert len(model.history_) == len(whole.history_)


@pytest.mark.parametrize(
    ("formulation", "every"), [*((name, 1e9) for name in FORMULATIONS), ("crammer_singer", 0), ("one_vs_one", 0.2)]
)
def test_stopped_again_and_again(blobs, tmp_path, fits, formulation, every):
    """Nothing is done twice: all passes together are those of a search that was not stopped."""
    whole = make(formulation=formulation).fit(*blobs)
    passes, made, stops = fits.passes, 0, 0
    model = make(formulation=formulation, checkpoint=tmp_path / "state", checkpoint_every=every)
    while True:
        fits.begin(interrupt_at=passes // 6 + 1)
        try:
            model.fit(*blobs)
            break
        except KeyboardInterrupt:
            stops, made = stops + 1, made + fits.passes
            assert (tmp_path / "state").exists() or stops == 1
    assert stops >= 4
    assert made + fits.passes == passes
    assert_same(model, whole)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "kind", ["sparse", "weighted", "labels", "newton", "accelerated_sdm", "pegasos", "many threads"]
)
def test_every_kind(blobs, tmp_path, fits, kind):
    X, y = blobs
    given, more = (X, y), {}
    if kind == "sparse":
        given = (sp.csr_array(np.where(np.abs(X) > 3, X, 0)), y)
    elif kind == "weighted":
        given = (X, y, np.arange(len(y)) % 3.0)
        more = {"class_weight": "balanced"}
    elif kind == "labels":
        given = (X, np.array(["a", "b", "c", "d"])[y])
    elif kind == "many threads":
        more = {"n_jobs": 3}
    else:
        more = {"solver": kind, "tol": 0.3 if kind == "pegasos" else 1e-4}
    whole = make(**more).fit(*given)
    passes = fits.passes
    model = make(**more, checkpoint=tmp_path / "state", checkpoint_every=0.2)
    made = 0
    for part in (0.4, 0.3):
        fits.begin(interrupt_at=max(1, int(part * passes)) if kind != "many threads" else 2)  # others may go far on
        with pytest.raises(KeyboardInterrupt):
            model.fit(*given)
        made += fits.passes
    fits.begin()
    assert_same(model.fit(*given), whole)
    assert made + fits.passes <= passes
    assert not list(tmp_path.iterdir())


def test_finished_fits_are_not_repeated(blobs, tmp_path, fits):
    model = make(checkpoint=tmp_path / "state", checkpoint_every=0)
    whole = make().fit(*blobs)
    made = [tuple(fit) for fit in fits.made]
    assert len(made) == 10
    fits.begin(interrupt_at=sum(passes for _, _, passes in made[:4]) + 1)  # in the second C of the second fold
    with pytest.raises(KeyboardInterrupt):
        model.fit(*blobs)
    assert [tuple(fit) for fit in fits.made[:4]] == made[:4]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state", "state.fold1.C1"]
    fits.begin()
    assert_same(model.fit(*blobs), whole)
    assert [tuple(fit[:2]) for fit in fits.made] == [fit[:2] for fit in made[4:]]


def test_the_last_fit_goes_on(blobs, tmp_path, fits):
    whole = make(tol=1e-4).fit(*blobs)
    search, last = fits.passes - fits.made[-1][2], fits.made[-1][2]
    model = make(tol=1e-4, checkpoint=tmp_path / "state", probability=True)
    fits.begin(interrupt_at=search + last // 2)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*blobs)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state", "state.refit"]
    fits.begin()
    assert_same(model.set_params(probability=False).fit(*blobs), whole)
    assert len(fits.made) == 1 and fits.passes == last - last // 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("back", [False, True])
def test_a_folder_that_goes_is_no_end(blobs, tmp_path, fits, monkeypatch, back):
    """Fits have no file without it, and the search's warns. Where it is there again, all is as if it had not gone."""
    whole, finish, folder = make().fit(*blobs), KeptSearch.finish, tmp_path / "mounted"
    folder.mkdir()

    def unmounted(self, fold, number, *of):
        finish(self, fold, number, *of)
        if (fold, number) == (0, 1):
            shutil.rmtree(folder)
        elif back and (fold, number) == (1, 1):
            folder.mkdir()

    monkeypatch.setattr(KeptSearch, "finish", unmounted)
    model = make(checkpoint=folder / "state", checkpoint_every=0)
    with pytest.warns(RuntimeWarning, match=r"no checkpoint was written to .*state .*mounted"):
        assert_same(model.fit(*blobs), whole)
    assert model.checkpoint == folder / "state"
    assert [path.name for path in tmp_path.iterdir()] == ["mounted"] * back
    assert not back or not list(folder.iterdir())


def test_a_folder_that_goes_is_an_error_where_warnings_are(blobs, tmp_path, monkeypatch):
    """After the search, and after its last fit."""
    whole, finish, folder = make().fit(*blobs), KeptSearch.finish, tmp_path / "mounted"
    folder.mkdir()
    monkeypatch.setattr(KeptSearch, "finish", lambda *of: (shutil.rmtree(folder, ignore_errors=True), finish(*of)))
    model = make(checkpoint=folder / "state")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(RuntimeWarning, match="no checkpoint was written"):
            model.fit(*blobs)
    assert_same(model, whole)


def test_a_folder_that_goes_in_the_last_fit(blobs, tmp_path):
    """Callbacks are those of the last fit."""
    whole, folder = make().fit(*blobs), tmp_path / "mounted"
    folder.mkdir()
    gone = lambda record: shutil.rmtree(folder, ignore_errors=True)  # noqa: E731
    model = make(checkpoint=folder / "state", callbacks=[gone])
    assert_same(model.fit(*blobs), whole)
    assert not folder.exists()


def test_ctrl_c_between_two_fits(blobs, tmp_path, fits, monkeypatch):
    """A fit is in the state with all that belongs to it, or not at all."""
    whole, finish = make().fit(*blobs), KeptSearch.finish

    def interrupted(self, fold, number, *of):
        interrupt() if (fold, number) == (1, 0) else None
        finish(self, fold, number, *of)

    model = make(checkpoint=tmp_path / "state")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(KeptSearch, "finish", interrupted)
        model.fit(*blobs)
    assert_same(model.fit(*blobs), whole)


def test_limits_of_the_fits(blobs, tmp_path, fits):
    whole, options = make(max_iter=3), {"max_iter": 3, "checkpoint": tmp_path / "state"}
    with pytest.warns(ConvergenceWarning):
        whole.fit(*blobs)
    fits.begin(interrupt_at=fits.passes // 2)
    model = make(**options)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*blobs)
    with pytest.raises(CheckpointError, match=r"max_iter was 3 and is 4;"):
        make(**options | {"max_iter": 4}).fit(*blobs)
    with pytest.warns(ConvergenceWarning):
        assert_same(model.fit(*blobs), whole)
    assert not list(tmp_path.iterdir())  # with other limits it would be another search


@pytest.fixture
def kept(blobs, tmp_path, fits):
    """A checkpoint of a search in its second fold."""
    make().fit(*blobs)
    fits.begin(interrupt_at=int(0.5 * fits.passes))
    with pytest.raises(KeyboardInterrupt):
        make(checkpoint=tmp_path / "state", checkpoint_every=0).fit(*blobs)
    fits.begin()
    return tmp_path / "state"


def test_other_searches(blobs, kept):
    X, y = blobs
    before = {path: path.read_bytes() for path in kept.parent.iterdir()}
    for more, given, said in (
        ({"Cs": [0.001, 0.01]}, (X, y), "Cs was [0.001, 0.01, 0.1] and is [0.001, 0.01]"),
        ({"cv": 4}, (X, y), "cv was 3 folds and is 4 folds"),
        ({"cv": StratifiedKFold(3, shuffle=True, random_state=0)}, (X, y), "cv has other values"),
        ({"scoring": "f1_macro"}, (X, y), "scoring was None and is 'f1_macro'"),
        ({"tol": 0.1}, (X, y), "tol was 0.01 and is 0.1"),
        ({"time_limit": 5}, (X, y), "time_limit was None and is 5;"),
        ({"scoring": make_scorer(accuracy_score)}, (X, y), "scoring was None and is _Scorer;"),
        ({"n_jobs": 2}, (X, y), "n_jobs was 1 and is 2"),
        ({}, (X + 1, y), "X has other values"),
        ({}, (X, np.roll(y, 1)), "y has other values"),
        ({}, (X, y, np.arange(len(y)) + 1), "sample_weight was None and is given"),
    ):
        with pytest.raises(CheckpointError, match="it is of another training") as error:
            make(checkpoint=kept, **more).fit(*given)
        assert said in str(error.value)
    with pytest.raises(CheckpointError, match="it is of another training"):
        LinearSVM(checkpoint=kept).fit(X, y)
    assert before == {path: path.read_bytes() for path in kept.parent.iterdir()}


def half_accuracy(y, predicted):
    return accuracy_score(y, predicted) / 2


class Scaled:
    """A scorer that is an object."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, model, X, y):
        return self.factor * model.score(X, y)


@pytest.mark.parametrize(
    ("scoring", "other"),
    [
        (make_scorer(accuracy_score), make_scorer(half_accuracy)),
        (make_scorer(f1_score, average="macro"), make_scorer(f1_score, average="micro")),
        (make_scorer(accuracy_score), make_scorer(accuracy_score, greater_is_better=False)),
        (Scaled(1.0), Scaled(-1.0)),
    ],
)
def test_scores_of_one_kind_are_not_mixed_with_those_of_another(blobs, tmp_path, fits, scoring, other):
    make().fit(*blobs)
    fits.begin(interrupt_at=fits.passes // 2)
    with pytest.raises(KeyboardInterrupt):
        make(checkpoint=tmp_path / "state", scoring=scoring).fit(*blobs)
    fits.begin()
    with pytest.raises(CheckpointError, match="scoring has other values"):
        make(checkpoint=tmp_path / "state", scoring=other).fit(*blobs)
    assert_same(make(checkpoint=tmp_path / "state", scoring=scoring).fit(*blobs), make(scoring=scoring).fit(*blobs))


def test_a_score_without_a_name_is_refused(blobs, tmp_path):
    with pytest.raises(
        ValueError, match=r"scoring=.*lambda.*cannot be told from another one.*give the name of a score"
    ):
        make(checkpoint=tmp_path / "state", scoring=lambda model, X, y: 0.0).fit(*blobs)
    assert not list(tmp_path.iterdir())


def test_files_of_fits_that_come_again_go(blobs, tmp_path, fits):
    """The search's file is behind, as after a kill: fits that a clock ended would come to another end."""
    whole, path = make().fit(*blobs), tmp_path / "state"
    fits.begin(interrupt_at=fits.passes // 2)
    with pytest.raises(KeyboardInterrupt):
        make(checkpoint=path, checkpoint_every=0).fit(*blobs)
    fits.begin()
    (under_way,) = (file for file in tmp_path.iterdir() if ".fold" in file.name)
    ahead, mine = tmp_path / "state.fold2.C2", tmp_path / "state.fold2.C2.txt"
    ahead.write_bytes(under_way.read_bytes())
    mine.write_bytes(b"")
    assert_same(make(checkpoint=path).fit(*blobs), whole)
    assert list(tmp_path.iterdir()) == [mine]


def test_a_search_for_something_else_is_refused_as_such(blobs, tmp_path, fits):
    """Also in its first fit; and what is left without the search's file is in nobody's way."""
    path = tmp_path / "state"
    fits.begin(interrupt_at=2)
    with pytest.raises(KeyboardInterrupt):
        make(checkpoint=path, checkpoint_every=0).fit(*blobs)
    fits.begin()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["state", "state.fold0.C0"]
    others = make(checkpoint=path, Cs=[0.002, 0.02])
    with pytest.raises(CheckpointError, match=r"state: it is of another training: Cs was \[0.001, 0.01, 0.1\] and is"):
        others.fit(*blobs)
    path.unlink()  # as the message says
    (tmp_path / "state.refit").write_bytes(b"of an earlier search")
    assert_same(others.fit(*blobs), make(Cs=[0.002, 0.02]).fit(*blobs))
    assert not list(tmp_path.iterdir())


def test_the_same_folds_by_another_name(blobs, kept):
    model = make(checkpoint=kept, cv=StratifiedKFold(3), Cs=np.array(CS)[::-1], verbose=0).fit(*blobs)
    assert_same(model, make().fit(*blobs))


def test_folds_that_do_not_come_again_are_refused(blobs, tmp_path, fits):
    fits.begin(interrupt_at=100)
    model = make(cv=ShuffleSplit(3), checkpoint=tmp_path / "state", checkpoint_every=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*blobs)
    assert (tmp_path / "state").exists()
    with pytest.raises(CheckpointError, match="cv has other values"):
        model.fit(*blobs)


def test_a_random_state_that_does_not_come_again_is_refused(blobs, tmp_path):
    with pytest.raises(ValueError, match="checkpoint needs fits that can come again: random_state must be an integer"):
        make(random_state=np.random.RandomState(0), checkpoint=tmp_path / "state").fit(*blobs)
    with pytest.raises(TypeError, match="checkpoint must be a path or None, got 5"):
        make(checkpoint=5).fit(*blobs)


@pytest.mark.parametrize(
    ("name", "forge", "words"),
    [
        ("finished", lambda finished: finished + 3, "there are no such fits"),
        ("finished", lambda finished: finished[:-1], "there are no such fits"),
        ("told", lambda told: told[:-1], "every fit must have"),
        ("told", lambda told: np.full_like(told, np.nan), "gaps and epochs must be finite"),
        ("fold1.data", lambda data: 1000 * data, "duals are outside of their bounds"),
        ("fold1.data", lambda data: data * np.nan, "duals are outside of their bounds"),
        ("fold1.data", lambda data: data[:-1], "broken CSR matrix"),
        ("fold1.indices", lambda indices: indices + 4, "broken CSR matrix"),
        ("fold1.indptr", lambda indptr: indptr[::-1].copy(), "broken CSR matrix"),
        ("fold1.indptr", None, "indptr"),
    ],
)
def test_what_no_search_has_is_refused(blobs, kept, name, forge, words):
    description, arrays = read_container(kept, CHECKPOINT)
    values = arrays.pop(name)
    if forge is not None:
        arrays[name] = forge(values)
    write_container(kept, CHECKPOINT, description, arrays)
    with pytest.raises(CheckpointError, match=words):
        make(checkpoint=kept).fit(*blobs)


def test_damaged_files_are_refused(blobs, kept):
    for path in sorted(kept.parent.iterdir(), reverse=True):
        content = path.read_bytes()
        path.write_bytes(content[:-1])
        with pytest.raises(CheckpointError, match="delete it to train from the beginning"):
            make(checkpoint=kept).fit(*blobs)
        path.write_bytes(content)
    assert_same(make(checkpoint=kept).fit(*blobs), make().fit(*blobs))


def test_models_do_not_carry_it(blobs, tmp_path):
    model = make(checkpoint=tmp_path / "state").fit(*blobs)
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").checkpoint is None


# kill -9, in a process of its own

PROGRAM = """
import json, sys
import numpy as np
from multimargin import LinearSVMCV

def search(path, n_jobs):
    y = np.arange(400) % 4
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 20))[y] + 3 * rng.normal(size=(400, 20))
    model = LinearSVMCV(Cs=[0.001, 0.01, 0.1], cv=3, solver="sdm", tol=1e-2, checkpoint=path, checkpoint_every=0,
                        n_jobs=n_jobs).fit(X, y)
    return [model.scores_.tolist(), model.gaps_.tolist(), model.epochs_.tolist(), model.coef_.tolist()]

if __name__ == "__main__":
    print("ready", flush=True)
    print(json.dumps(search(sys.argv[1], int(sys.argv[2]))))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no kill -9")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_killed(tmp_path, monkeypatch, n_jobs):
    monkeypatch.undo()  # slices as long as they are there
    names = {"__name__": "here"}
    exec(PROGRAM, names)
    path, began = tmp_path / "state", time.perf_counter()
    whole = names["search"](path, n_jobs)
    took, kills, result = time.perf_counter() - began, 0, None
    while result is None:
        command = [sys.executable, "-c", PROGRAM, str(path), str(n_jobs)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout.readline() == "ready\n"
            try:
                result = process.communicate(timeout=took * random.uniform(0.2, 0.6) if kills < 2 else None)[0]
            except subprocess.TimeoutExpired:
                kills += 1
                process.send_signal(signal.SIGKILL)
    assert json.loads(result) == whole
    assert not list(tmp_path.iterdir())
