"""Which solver, machines and weights: the choices before a training; its stages, and files that keep its state."""

from types import SimpleNamespace

import numpy as np
import pytest

from multimargin.data.container import read_container, write_container
from multimargin.data.csr import Csr
from multimargin.linear import many_classes, stages, training
from multimargin.linear.checkpoint import CHECKPOINT, Checkpoint, CheckpointError, StateFile, _differences
from multimargin.linear.many_classes import intercept_apart, is_sparse, weights_are_sparse, without_weights
from multimargin.linear.scoring import finite
from multimargin.linear.stages import Stages
from multimargin.linear.training import choose_solver, streamed_solver, tasks


def chosen(n_rows=1000, n_weights=10, curvature=1e3, lanes=3, formulation="crammer_singer", stopping="gap", tol=1e-3):
    return choose_solver(
        SimpleNamespace(n_rows=n_rows, n_weights=n_weights), curvature, lanes, formulation, stopping, tol
    )


@pytest.mark.parametrize(
    ("problem", "solver"),
    [
        ({}, "newton"),
        ({"stopping": "violation"}, "sdm"),
        ({"curvature": 200.0}, "accelerated_sdm"),
        ({"curvature": 200.1}, "newton"),
        ({"curvature": 200.0, "tol": 0.9e-4}, "newton"),
        ({"curvature": 200.0, "tol": 1e-4}, "accelerated_sdm"),
        # Systems of lanes times features, of the lanes of joint problems: 150 at most.
        ({"n_weights": 50}, "newton"),
        ({"n_weights": 51}, "accelerated_sdm"),
        ({"n_weights": 150, "formulation": "one_vs_rest"}, "newton"),
        ({"n_weights": 151, "formulation": "one_vs_rest"}, "accelerated_sdm"),
        ({"n_weights": 40, "formulation": "one_vs_one"}, "newton"),
        ({"n_weights": 41, "formulation": "one_vs_one"}, "accelerated_sdm"),
        ({"n_weights": 41, "formulation": "dag"}, "accelerated_sdm"),
        ({"n_weights": 150, "formulation": "dag", "lanes": 1}, "newton"),
        # And the work to set them up: 1e8 multiply-adds.
        ({"n_rows": 111_111}, "newton"),
        ({"n_rows": 111_112}, "accelerated_sdm"),
        ({"n_rows": 10_000, "formulation": "one_vs_rest", "lanes": 100}, "newton"),
        ({"n_rows": 10_001, "formulation": "one_vs_rest", "lanes": 100}, "accelerated_sdm"),
        ({"n_rows": 10_000, "formulation": "one_vs_one", "lanes": 5_000}, "newton"),
        ({"n_rows": 10_001, "formulation": "dag", "lanes": 5_000}, "accelerated_sdm"),
        # Three copies of float32 weights, each of 2^28 bytes at most.
        ({"n_weights": 2**22, "lanes": 16}, "accelerated_sdm"),
        ({"n_weights": 2**22 + 1, "lanes": 16}, "sdm"),
        ({"n_weights": 2**26, "lanes": 99, "formulation": "one_vs_one"}, "accelerated_sdm"),
    ],
)
def test_the_solver_of_auto(problem, solver):
    assert chosen(**problem) == solver


def test_the_solver_of_examples_in_parts():
    assert streamed_solver(2**26, 1) == "accelerated_sdm" and streamed_solver(2**26 + 1, 1) == "sdm"


# Machines

Y = np.array([2, 0, 1, 0, 2, 3])


def made(formulation, n_threads=1, y=Y, n_classes=4, loss="hinge"):
    request = SimpleNamespace(y=y, n_classes=n_classes, formulation=formulation, loss=loss, n_threads=n_threads)
    return list(tasks(request))


def test_a_machine_a_pair():
    found = made("one_vs_one")
    assert len(found) == 6 and [task.columns for task in found] == [slice(m, m + 1) for m in range(6)]
    assert found[0].row.tolist() == [1, 2, 3] and found[0].y.tolist() == [1, 0, 1]
    assert found[5].row.tolist() == [0, 4, 5] and found[5].y.tolist() == [1, 1, 0]
    assert made("dag", y=Y % 2, n_classes=2)[0].row.tolist() == [*range(6)]


@pytest.mark.parametrize(
    ("n_threads", "columns"),
    [(1, [(0, 4)]), (2, [(0, 2), (2, 4)]), (3, [(0, 2), (2, 3), (3, 4)]), (9, [(0, 1), (1, 2), (2, 3), (3, 4)])],
)
def test_lanes_are_shared_out_to_threads(n_threads, columns):
    found = made("one_vs_rest", n_threads)
    assert [(task.columns.start, task.columns.stop) for task in found] == columns
    for task in found:
        first, size = task.columns.start, task.columns.stop - task.columns.start
        wanted = [label - first if first <= label < first + size else -1 for label in Y]
        assert task.problem.lane_labels(task.y).tolist() == wanted  # where one lane is a class 1
        assert task.problem.lanes == size and task.row.tolist() == [*range(6)]


def test_lanes_whose_duals_take_much_memory_come_group_after_group(monkeypatch):
    for most, groups in ((8 * 6 * 4, 1), (8 * 6 * 4 - 1, 2), (8 * 6, 4), (8 * 6 * 2, 2)):
        monkeypatch.setattr(training, "_DUAL_BYTES", most)
        assert len(made("one_vs_rest")) == groups
    monkeypatch.setattr(training, "_DUAL_BYTES", 1)
    assert len(made("one_vs_rest")) == 4 and len(made("crammer_singer")) == 1


def test_one_machine_for_all_classes():
    (task,) = made("weston_watkins", n_threads=4, loss="squared_hinge")
    assert task.columns == slice(0, 4) and task.problem.squared and task.y is Y
    (task,) = made("one_vs_rest", n_threads=4, y=Y % 2, n_classes=2)
    assert task.columns == slice(0, 1) and task.problem.lanes == 1


# Sparse weights


@pytest.mark.parametrize(
    ("changes", "sparse"),
    [
        ({"memory_mb": 12.0}, False),
        ({"memory_mb": 11.99}, True),
        ({"memory_mb": 1.0, "solver": "sdm"}, True),
        ({"memory_mb": None}, False),
    ],
)
def test_weights_that_are_sparse(changes, sparse):
    """2^20 of 12 bytes each."""
    usual = {"n_weights": 2**10, "lanes": 2**10, "formulation": "crammer_singer", "solver": "auto"}
    assert weights_are_sparse(**usual | {"restricted_step": True} | changes) is sparse


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"formulation": "one_vs_rest"}, r"memory_mb=1 is too little.*take 12 MB, and formulation='one_vs_rest' needs"),
        ({"lanes": 2, "n_weights": 2**19}, "formulation='crammer_singer' with two classes"),
        ({"solver": "newton"}, "and solver='newton' needs all of them; solver='auto' and solver='sdm' keep"),
        ({"restricted_step": False}, "and restricted_step=False needs all of them"),
    ],
)
def test_weights_that_cannot_be_sparse(monkeypatch, changes, words):
    usual = {"n_weights": 2**10, "lanes": 2**10, "formulation": "crammer_singer", "solver": "auto"}
    usual |= {"restricted_step": True} | changes
    with pytest.raises(ValueError, match=words):
        weights_are_sparse(**usual, memory_mb=1.0)
    bytes_ = 12 * usual["n_weights"] * usual["lanes"]
    monkeypatch.setattr(many_classes, "DENSE_BYTES", 1000)
    for has in (None, bytes_):
        monkeypatch.setattr(many_classes, "memory_of_machine", lambda has=has: has)
        assert weights_are_sparse(**usual, memory_mb=None) is False
    monkeypatch.setattr(many_classes, "memory_of_machine", lambda: bytes_ - 1)
    with pytest.raises(MemoryError, match="and the machine has 12; number only the features that occur") as caught:
        weights_are_sparse(**usual, memory_mb=None)
    assert (", or " in str(caught.value).partition("to fewer")[2]) is (usual["lanes"] > 2)


def test_intercepts_of_sparse_weights():
    W = Csr(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 1, 0, 2]), np.array([0, 1, 2, 4]), (3, 3))
    features, intercept = intercept_apart(W, 0.5)
    assert intercept.tolist() == [1.5, 0.0, 2.0] and features.shape == (2, 3)
    assert features.to_scipy().toarray().tolist() == [[1.0, 0, 0], [0, 2.0, 0]]
    whole, none = intercept_apart(W, 0.0)
    assert whole is W and none.tolist() == [0.0, 0.0, 0.0]
    empty = without_weights(3, 5)
    assert empty.shape == (3, 5) and not empty.to_scipy().toarray().any() and is_sparse(empty)
    assert not is_sparse(np.eye(2))


# Stages


class Noted:
    def __init__(self):
        self.ends = []

    def end_stage(self, weights, *objectives):
        self.ends.append(objectives)


def test_a_stage_in_which_nothing_was_halved_for_long_steers(monkeypatch):
    monkeypatch.setattr(stages, "_PATIENCE", 2)
    one = Stages()
    one._acceleration = noted = Noted()
    one.saw(10.0, 5.0)
    assert (one._gap_to_halve, one._since) == (0.5, 0)
    one.end(None)
    one.saw(10.0, 7.4)  # not yet a half
    assert (one._gap_to_halve, one._since) == (0.5, 1)
    one.end(None)
    one.saw(10.0, 7.5)
    assert (one._gap_to_halve, one._since, one.stalled) == (0.25, 0, False)
    one.saw(10.0, 10.0)  # an estimate of nothing is none
    one.saw(10.0, 11.0)
    assert one._gap_to_halve == 0.25
    for _ in range(3):
        one.end(None)
    assert one.stalled and noted.ends == [(0.0, 0.0)] * 4 + [(10.0, 11.0)]
    one.saw(10.0, 9.9)
    one.end(None)
    assert one.stalled and noted.ends[-1] == (10.0, 9.9)  # from then on


# Scores


def test_scores_that_overflow():
    fine = np.array([[1e308, 1e308], [1.0, 2.0]])  # whose sum does
    assert finite(fine) is fine and finite(np.zeros((0, 2))).shape == (0, 2)
    for bad in (np.inf, -np.inf, np.nan):
        with pytest.raises(ValueError, match="the scores of 2 of the rows overflow"):
            finite(np.array([[1.0, bad], [bad, bad], [0.0, 0.0]]))


# Files of states


def test_a_state_is_written_when_it_is_due(tmp_path, monkeypatch):
    now = 100.0
    monkeypatch.setattr("multimargin.linear.checkpoint.time.monotonic", lambda: now)
    kept = StateFile(tmp_path / "state", 5.0, {"a": "1"})
    assert kept.state is None and kept.goes_on is False
    now = 104.9
    assert not kept.due()
    now = 105.0
    assert kept.due()
    kept.write({"x": np.arange(3)})
    assert not kept.due() and kept.written == 105.0
    other = StateFile(tmp_path / "state", 5.0, {"a": "1"})
    assert other.goes_on and other.state["x"].tolist() == [0, 1, 2]
    other.remove()
    other.remove()  # there is nothing left to do
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "multimargin model"}, "this is not a checkpoint; checkpoint names a file"),
        ({"more": 1}, "this is not a checkpoint"),
        ({"format_version": 2}, "wrote it, and this is multimargin"),
        ({"version": "0.0"}, r"multimargin 0\.0 wrote it"),
        ({"identity": ["a"]}, "it does not say what it is of; delete it"),
        ({"identity": {"a": "1"}}, "another training: b was not there and is 2; go on with what it was, or delete it"),
        ({"identity": {"a": "1", "b": "2", "c": "3"}}, "another training: c was 3 and is not there"),
        ({"identity": {"a": "1", "b": "2#x"}}, "b has other values"),
    ],
)
def test_states_of_something_else(tmp_path, change, words):
    path = tmp_path / "state"
    StateFile(path, 5.0, {"a": "1", "b": "2"}).write({})
    description, arrays = read_container(path, CHECKPOINT)
    write_container(path, CHECKPOINT, description | change, arrays)
    with pytest.raises(CheckpointError, match=words):
        StateFile(path, 5.0, {"a": "1", "b": "2"})


def test_differences_in_words():
    assert _differences({"X": "3 x 4#abc", "C": "2"}, {"X": "3 x 4#def", "C": "2"}) == ["X has other values"]
    assert _differences({"X": "3 x 4#abc"}, {"X": "3 x 5#abc"}) == ["X was 3 x 4 and is 3 x 5"]
    # What only one of them has is told where nothing else differs.
    was, now = {"X": "a", "y": "b"}, {"X": "a", "C": "2"}
    assert _differences(was, now) == ["C was not there and is 2", "y was b and is not there"]
    assert _differences(was, now | {"X": "c"}) == ["X was a and is c"]


@pytest.mark.parametrize("error", [KeyError, IndexError, TypeError, ValueError, OverflowError])
def test_what_does_not_hold_together_is_the_files_fault(tmp_path, error):
    kept = StateFile(tmp_path / "state", 5.0, {})
    said = r"state: its content does not hold together \(.*so\S*\); delete it"
    with pytest.raises(CheckpointError, match=said), kept.restoring():
        raise error("so")
    with pytest.raises(CheckpointError, match=r"^as it is$"), kept.restoring():
        raise CheckpointError("as it is")
    mistake = ValueError("no number")
    assert kept.refused_later(mistake) is mistake
    kept.goes_on = True
    assert "its numbers lead to others that are none (no number)" in str(kept.refused_later(mistake))


def test_a_checkpoint_has_a_loop_and_a_training(tmp_path):
    class Keeps:
        def state(self):
            return {"y": np.array([2.0])}

        def set_state(self, state):
            self.given = state

    path, first = tmp_path / "state", Keeps()
    one = Checkpoint(path, 5.0, {})
    assert one.begin(first) == 0.0 and one.of_loop() is None and one.of_training() is None
    one.save({"seconds": np.array([7.5]), "x": np.array([1])})
    other, second = Checkpoint(path, 5.0, {}), Keeps()
    assert other.seconds == 7.5 and set(other.of_loop()) == {"seconds", "x"}
    assert other.begin(second) == 7.5 and {name: v.tolist() for name, v in second.given.items()} == {"y": [2.0]}
    one.write({"loop.x": np.array([1])})
    with pytest.raises(CheckpointError, match="does not hold together"):
        Checkpoint(path, 5.0, {})
