"""What a kernel machine makes of the core's rounds, with a core that answers as it is told; its tasks and results."""

from types import SimpleNamespace

import numpy as np
import pytest

from multimargin.kernel import tasks as tasks_module
from multimargin.kernel.machine import KernelMachine, Result
from multimargin.kernel.tasks import Task, sizes, tasks
from multimargin.problems.formulations import Formulation

N = 10


class FakeCore:
    n_examples, bias = N, 0.5

    def __init__(self, *rounds):
        self.rounds = list(rounds)

    def advance(self):
        return self.rounds.pop(0)

    def duals(self):
        duals = np.zeros((N, 3))
        duals[2] = [1.0, -1.0, 0.0]
        duals[7] = [0.0, 2.0, -2.0]
        return duals

    def scores(self, rows):
        return 10.0 * rows[:, None] + np.arange(3)


def a_round(violation=0.5, visited=5, primal=8.0, dual=6.0, worst_gap=0.25, stuck=False, complete=True):
    return SimpleNamespace(
        violation=violation, visited=visited, primal=primal, dual=dual, worst_gap=worst_gap, stuck=stuck,
        complete=complete,
    )  # fmt: skip


def machine(*rounds, problem=None, **options):
    given = {"number": 4, "passes": 2, "epochs": 3.0, "solver": "block", "tol": 1e-3, "stopping": "gap"}
    store = SimpleNamespace(counts=lambda: np.array([1, 2, 3]))
    return KernelMachine(
        problem or Formulation("crammer_singer", False, 3),
        FakeCore(*rounds),
        store,
        counted=np.array([10, 20, 30]),
        bounds=(np.zeros(N, np.int32), np.ones(N)),
        **{"patience": np.inf} | given | options,
    )


def test_a_round_is_a_record():
    one = machine(a_round(), a_round(complete=False), problem=Formulation("one_vs_rest", False, 1, 2.0, 0.5))
    assert not one.ready
    (record,) = one.advance(100.0)
    assert one.ready and (one.primal, one.dual, one.worst_gap) == (4.0, 3.0, 0.25)
    assert record == (0.5, 5, "block", 4.0, 3.0, 0.25, 11, 22, 33)
    assert record.estimate == 0.25 and record.history() == tuple(record)
    assert one.conclude() == (4.0, 3.0, 0.25)
    assert one.count(9, record) == (4, 3) and one.epochs == 3.5
    assert one.exhausted(3) and not one.exhausted(4)
    one.epochs = 4.0
    assert one.exhausted(4)


@pytest.mark.parametrize(
    ("told", "options", "converged"),
    [
        ({"worst_gap": 1e-3}, {}, True),
        ({"worst_gap": 1.01e-3}, {}, False),
        ({"worst_gap": -1.0, "primal": 8.0, "dual": 8.0 + 7e-6}, {}, True),
        ({"worst_gap": -1.0, "primal": 8.0, "dual": 8.0 + 9e-6}, {}, False),  # the kernel is none
        ({"violation": 1e-3}, {"stopping": "violation"}, True),
        ({"violation": 1.01e-3, "worst_gap": 0.0}, {"stopping": "violation"}, False),
        ({"violation": 0.0, "primal": 1.0, "dual": 2.0}, {"stopping": "violation"}, True),
    ],
)
def test_when_it_has_converged(told, options, converged):
    one = machine(a_round(**told), a_round(complete=False), **options)
    one.advance(100.0)
    assert one.converged is one.done is converged
    assert one.worst_gap == max(told.get("worst_gap", 0.25), 0.0) and one.gap >= 0
    assert one.indefinite is bool(told.get("dual", 6.0) > told.get("primal", 8.0) * (1 + 1e-6))


def test_a_solver_that_is_stuck_is_done():
    one = machine(a_round(stuck=True))
    one.advance(100.0)
    assert one.done and not one.converged


@pytest.mark.parametrize(("stopping", "left"), [("gap", "worst_gap"), ("violation", "violation")])
def test_patience_ends_where_nothing_is_halved(stopping, left):
    one = machine(*(a_round(**{left: gap}) for gap in (0.8, 0.4, 0.3, 0.3)), stopping=stopping, patience=1.0)
    for epochs, halved, at, done in ((3.0, 0.8, 3.0, False), (5.0, 0.4, 5.0, False), (6.0, 0.4, 5.0, False)):
        one.epochs = epochs
        one.advance(0.1)
        assert (one.halved, one.halved_at, one.done) == (halved, at, done)
    one.epochs = 6.01
    one.advance(0.1)
    assert one.done and not one.converged


def test_how_much_is_done_in_a_call(monkeypatch):
    one = machine(*(a_round(visited=5) for _ in range(9)))
    assert len(one.advance(1.0)) == 2  # of half an epoch
    assert len(one.advance(0.6)) == 2
    assert len(one.advance(0.0)) == 1
    monkeypatch.setattr("multimargin.kernel.machine._BUDGET", 5 * N * 3 + 1.0)
    assert len(one.advance(100.0)) == 2
    one.cancelled = True
    assert one.advance(100.0) == []
    one = machine(*(a_round(visited=0) for _ in range(5)))
    monkeypatch.setattr("multimargin.kernel.machine._BUDGET", 2.0 * N * 3)
    assert len(one.advance(100.0)) == 2  # rounds without visits cost something, too


def test_a_result_has_rows_of_the_store_and_columns_of_the_model():
    one = machine(a_round(), a_round(complete=False))
    one.advance(100.0)
    rows, cap = np.arange(20, 30), np.arange(10.0)
    result = one.result(rows, cap, slice(3, 6), np.array([5, 21, 29]))
    assert result.row.tolist() == [22, 22, 27, 27] and result.column.tolist() == [3, 4, 4, 5]
    assert result.value.tolist() == [1.0, -1.0, 2.0, -2.0] and result.bias.tolist() == [0.5] * 3
    assert (result.primal, result.dual, result.gap, result.felt) == ([8.0], [6.0], [0.25], [2.0 + 7.0])
    index, column, score = result.sampled
    assert index.tolist() == [1, 1, 1, 2, 2, 2] and column.tolist() == [3, 4, 5] * 2
    assert score.tolist() == [10.0, 11.0, 12.0, 90.0, 91.0, 92.0] and result.converged is False


# Results of a checkpoint: rows 0 to 5, columns 3 to 4, a sample of two rows


def state_of(**changes):
    given = {
        "row": np.array([0, 5]), "column": np.array([3, 4]), "value": np.array([1.0, -1.0]), "bias": np.zeros(2),
        "primal": np.ones(1), "dual": np.zeros(1), "gap": np.ones(1), "felt": np.ones(1), "converged": np.array([True]),
        "sampled0": np.array([0, 1]), "sampled1": np.array([3, 4]), "sampled2": np.zeros(2),
    }  # fmt: skip
    return given | {name: np.asarray(values) for name, values in changes.items()}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"row": [], "column": [], "value": []},
        {"sampled0": [], "sampled1": [], "sampled2": []},
        {"primal": [1, 1], "dual": [0, 0], "gap": [1, 1], "felt": [1, 1]},
    ],
)
def test_a_result_comes_back(changes):
    state = state_of(**{name: np.array(v, np.int64 if name != "value" else float) for name, v in changes.items()})
    result = Result.of(state, 6, slice(3, 5), 2)
    assert result.converged is True and result.row is state["row"] and len(result.sampled[0]) == len(state["sampled0"])
    back = result.state()
    assert set(back) == set(state) and all(np.array_equal(back[name], state[name]) for name in state)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"row": [0, 6]}, "out of range"),
        ({"row": [-1, 5]}, "out of range"),
        ({"row": [0.0, 5.0]}, "out of range"),
        ({"column": [3, 5]}, "out of range"),
        ({"column": [2, 4]}, "out of range"),
        ({"sampled0": [0, 2]}, "out of range"),
        ({"sampled0": [-1, 1]}, "out of range"),
        ({"sampled1": [3, 5]}, "out of range"),
        ({"sampled1": [2, 4]}, "out of range"),
        ({"row": [0]}, "differ in length"),
        ({"value": [1.0]}, "differ in length"),
        ({"column": [3]}, "differ in length"),
        ({"sampled0": [0]}, "differ in length"),
        ({"sampled1": [3]}, "differ in length"),
        ({"sampled2": [0.0]}, "differ in length"),
        ({"primal": [1.0, 1.0]}, "differ in length"),
        ({"felt": [1.0, 1.0]}, "differ in length"),
        ({"bias": [0.0]}, "not of its machines"),
        ({"bias": [0.0] * 3}, "not of its machines"),
        ({name: [1.0] * 3 for name in ("primal", "dual", "gap", "felt")}, "not of its machines"),
        ({name: [] for name in ("primal", "dual", "gap", "felt")}, "not of its machines"),
        ({"converged": [True, True]}, "one number"),
    ],
)
def test_results_that_no_machine_has(changes, words):
    with pytest.raises(ValueError, match=words):
        Result.of(state_of(**changes), 6, slice(3, 5), 2)


# Tasks

GROUPS = np.array([0, 2, 5, 9])  # three classes, sorted
Y = np.repeat([0, 1, 2], [2, 3, 4])


def test_pairs_in_batches():
    assert sizes(np.array([[0, 1], [0, 2], [1, 2]]), GROUPS).tolist() == [5, 6, 7]
    (batch,) = tasks("one_vs_one", 3, Y, GROUPS, solver="block", free_bias=True)
    assert batch.columns == slice(0, 3) and batch.pairs.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert batch.every_example(GROUPS).tolist() == [*range(5), 0, 1, *range(5, 9), *range(2, 9)]
    row, column = np.array([0, 1, 2, 4, 5, 8, 0, 5, 2]), np.array([0, 0, 0, 0, 1, 2, 2, 0, 1])
    wanted = [True, True, True, True, True, True, False, False, False]
    assert batch.learns_from(row, column, GROUPS).tolist() == wanted


@pytest.mark.parametrize(
    ("of_small", "of_batch", "batches"),
    [
        (2048, 18, [3]),
        (2048, 17, [2, 1]),
        (2048, 11, [2, 1]),
        (2048, 10, [1, 1, 1]),
        (7, 99, [3]),
        (6, 99, [2, 1]),
        (5, 99, [1, 1, 1]),
    ],
)
def test_how_many_pairs_a_batch_has(monkeypatch, of_small, of_batch, batches):
    monkeypatch.setattr(tasks_module, "_EXAMPLES_OF_SMALL", of_small)
    monkeypatch.setattr(tasks_module, "_EXAMPLES_OF_BATCH", of_batch)
    made = list(tasks("dag", 3, Y, GROUPS, solver="block", free_bias=True))
    assert [task.columns.stop - task.columns.start for task in made] == batches
    assert [task.columns.start for task in made] == np.cumsum([0, *batches[:-1]]).tolist()
    assert [task.pairs is not None for task in made] == [size > 1 for size in batches]


@pytest.mark.parametrize(("solver", "free_bias"), [("decomposition", True), ("block", False)])
def test_pairs_one_by_one(solver, free_bias):
    made = list(tasks("one_vs_one", 3, Y, GROUPS, solver=solver, free_bias=free_bias))
    assert [task.groups for task in made] == [[0, 1], [0, 2], [1, 2]]
    assert [task.examples.tolist() for task in made] == [[0, 1, 2, 3, 4], [0, 1, 5, 6, 7, 8], [2, 3, 4, 5, 6, 7, 8]]
    other = -1
    first = 1 if free_bias else 0  # a sign, or a lane
    assert made[1].label.tolist() == [first, first, other, other, other, other]
    assert made[1].free_bias is free_bias and made[1].columns == slice(1, 2) and made[1].label.dtype == np.int32
    assert made[1].learns_from(np.array([1, 2, 5]), np.array([1, 1, 1]), GROUPS).tolist() == [True, False, True]
    assert made[1].every_example(GROUPS) is made[1].examples


@pytest.mark.parametrize(
    ("name", "n_classes", "solver", "free_bias", "columns", "labels"),
    [
        ("one_vs_rest", 3, "block", True, [(0, 1), (1, 2), (2, 3)], [[1, -1, -1], [-1, 1, -1], [-1, -1, 1]]),
        ("one_vs_rest", 3, "decomposition", False, [(0, 1), (1, 2), (2, 3)], [[0, -1, -1], [-1, 0, -1], [-1, -1, 0]]),
        ("one_vs_rest", 3, "block", False, [(0, 3)], [[0, 1, 2]]),
        ("crammer_singer", 3, "decomposition", True, [(0, 3)], [[0, 1, 2]]),
        ("one_vs_rest", 2, "decomposition", True, [(0, 1)], [[-1, 1, -1]]),
        ("weston_watkins", 2, "block", False, [(0, 1)], [[-1, 0, -1]]),
    ],
)
def test_machines_of_all_rows(name, n_classes, solver, free_bias, columns, labels):
    y = np.array([0, 1, 2]) if n_classes == 3 else np.array([0, 1, 0])
    made = list(tasks(name, n_classes, y, np.array([0, 3]), solver=solver, free_bias=free_bias))
    assert [(task.columns.start, task.columns.stop) for task in made] == columns
    assert [task.label.tolist() for task in made] == labels
    assert all(task.groups == [0] and task.examples.tolist() == [0, 1, 2] for task in made)
    assert [task.problem.lanes for task in made] == [stop - start for start, stop in columns]
    assert made[0].problem.cap_scale == (2.0 if name == "weston_watkins" else 1.0)


def test_an_empty_task():
    task = Task(Formulation("one_vs_rest", False, 1), slice(0, 1))
    assert task.groups == [] and len(task.examples) == len(task.label) == 0 and task.pairs is None
    assert task.free_bias is False
