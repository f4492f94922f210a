"""What a kernel machine makes of the core's rounds, with a core that answers as it is told; its tasks and results."""

from types import SimpleNamespace

import numpy as np
import pytest

from multimargin.kernel import tasks as tasks_module
from multimargin.kernel.certificate import Certificate
from multimargin.kernel.machine import KernelMachine, Result
from multimargin.kernel.tasks import Task, sizes, tasks
from multimargin.problems.formulations import Formulation

N = 10


class FakeCore:
    n_examples = N

    def __init__(self, *rounds):
        self.rounds = list(rounds)

    def advance(self):
        self.last = self.rounds.pop(0)
        return self.last

    def duals(self):
        duals = np.zeros((N, 3))
        duals[2] = [1.0, -1.0, 0.0]
        duals[7] = [0.0, 2.0, -2.0]
        return duals


class FakeCertifier:
    """Says what the last round said, or in its turn what it is told to, after two slabs."""

    label, cap, rows = np.zeros(N, np.int32), np.ones(N), np.arange(20, 30)

    def __init__(self, *said, doubt=0.0, work=0.0):
        self.said, self.doubt, self.work, self.given = list(said), doubt, work, []

    def certificate(self, core, bias, most_work=np.inf):
        self.given.append((bias, most_work))
        if self.work > most_work:
            return None
        yield
        yield
        return Certificate(self.said.pop(0) if self.said else core.last, self.doubt)

    def of_kept_scores(self, core):
        return a_round(primal=9.0, worst_gap=0.5e-3)


def a_round(violation=0.5, visited=5, primal=8.0, dual=6.0, worst_gap=0.25, stuck=False, complete=True, bias=0.5):
    return SimpleNamespace(
        violation=violation, visited=visited, primal=primal, dual=dual, worst_gap=worst_gap, stuck=stuck,
        complete=complete, bias=bias,
    )  # fmt: skip


def machine(*rounds, problem=None, certifier=None, **options):
    given = {"number": 4, "passes": 2, "epochs": 3.0, "solver": "block", "tol": 1e-3, "stopping": "gap"}
    store = SimpleNamespace(counts=lambda: np.array([1, 2, 3]))
    return KernelMachine(
        problem or Formulation("crammer_singer", False, 3),
        FakeCore(*rounds),
        store,
        counted=np.array([10, 20, 30]),
        certifier=certifier or FakeCertifier(),
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
        ({"worst_gap": 0.9e-3}, {}, True),
        ({"worst_gap": 0.91e-3}, {}, False),  # what it aims at is a tenth below
        ({"worst_gap": -1.0, "primal": 8.0, "dual": 8.0 + 7e-6}, {}, True),
        ({"worst_gap": -1.0, "primal": 8.0, "dual": 8.0 + 9e-6}, {}, False),  # the kernel is none
        ({"violation": 0.9e-3}, {"stopping": "violation"}, True),
        ({"violation": 0.91e-3, "worst_gap": 0.0}, {"stopping": "violation"}, False),
        ({"violation": 0.0, "primal": 1.0, "dual": 2.0}, {"stopping": "violation"}, True),
    ],
)
def test_when_it_has_converged(told, options, converged):
    one = machine(a_round(**told), a_round(complete=False), **options)
    one.advance(100.0)
    while one.certifying:
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


# Certificates


def test_a_certificate_comes_in_slabs_and_makes_the_last_record():
    said = a_round(violation=0.3, primal=9.0, dual=8.0, worst_gap=0.95e-3, bias=0.75)
    certifier = FakeCertifier(said, doubt=1e-5)
    one = machine(a_round(), a_round(worst_gap=0.5e-3, visited=4), certifier=certifier)
    (record,) = one.advance(100.0)  # the second one is kept back
    assert record[:2] == (0.5, 5) and one.certifying and not one.done and one.worst_gap == 0.5e-3
    assert one.advance(100.0) == []
    (record,) = one.advance(100.0)
    assert record[:6] == (0.3, 4, "block", 9.0, 8.0, pytest.approx(1 / 9))
    assert (
        one.converged and one.done and one.certified and (one.bias, one.doubt, one.worst_gap) == (0.75, 1e-5, 0.95e-3)
    )
    assert one.conclude() == (9.0, 8.0, pytest.approx(1 / 9)) and certifier.given == [(0.5, np.inf)]


def certified(one):
    """Slices until the rounds go on, or it is done."""
    while True:
        records = one.advance(0.1)
        if records:
            return records


def test_where_a_certificate_does_not_agree_the_target_is_smaller():
    said = [a_round(worst_gap=gap) for gap in (1.1e-3, 1.02e-3)]
    one = machine(*(a_round(worst_gap=gap) for gap in (0.9e-3, 0.7e-3, 0.55e-3)), certifier=FakeCertifier(*said))
    certified(one)
    assert not one.done and one.target == pytest.approx(1e-3 - 2 * 0.2e-3)  # rounding had added so much
    certified(one)
    assert not one.done and not one.certified and one.target == pytest.approx(0.6e-3)  # a round that does not meet it
    certified(one)
    assert one.done and not one.converged and one.certified and one.worst_gap == 1.02e-3  # rounding is too much


def test_targets_shrink_by_a_tenth_at_least():
    said = [a_round(worst_gap=1.0001e-3), a_round(worst_gap=1e-3)]
    one = machine(a_round(worst_gap=1e-3), a_round(worst_gap=0.9e-3), certifier=FakeCertifier(*said))
    one.target = 1e-3
    certified(one)
    assert one.target == pytest.approx(0.9e-3) and not one.done
    certified(one)
    assert one.converged


@pytest.mark.parametrize(
    ("doubt", "stopping", "converged"), [(2.5e-4, "gap", True), (2.6e-4, "gap", False), (1.0, "violation", False)]
)
def test_a_quarter_of_tol_is_allowed(doubt, stopping, converged):
    told = a_round(worst_gap=0.0, violation=0.0)
    one = machine(told, certifier=FakeCertifier(doubt=doubt), stopping=stopping)
    certified(one)
    assert one.done and one.converged is converged and one.doubt == doubt


@pytest.mark.parametrize(
    ("work", "after_a_limit", "after_an_interrupt"), [(1e9, True, True), (4e9, True, False), (4.1e9, False, False)]
)
def test_what_is_stopped_is_certified_if_that_is_short(work, after_a_limit, after_an_interrupt):
    for ended, certified in ((KernelMachine.conclude, after_a_limit), (KernelMachine.salvage, after_an_interrupt)):
        certifier = FakeCertifier(a_round(primal=7.0, worst_gap=0.5e-3), work=work)
        one = machine(a_round(), a_round(complete=False), certifier=certifier)
        one.advance(100.0)
        ended(one)
        assert one.certified is one.converged is certified and one.primal == (7.0 if certified else 9.0)
    nothing = machine(certifier=certifier)
    nothing.salvage()
    assert not nothing.ready


def test_a_certificate_is_of_the_duals_that_it_was_made_for():
    certifier = FakeCertifier(a_round(worst_gap=1.01e-3), a_round(primal=7.0, worst_gap=1e-4))
    one = machine(a_round(worst_gap=0.9e-3), a_round(complete=False), certifier=certifier)
    certified(one)
    assert one.certified and not one.done
    assert one.advance(100.0) == [] and not one.certified  # duals may have moved within a round
    assert one.conclude()[0] == 7.0 and one.converged


def test_a_certificate_begins_anew_after_a_checkpoint():
    rounds = a_round(worst_gap=0.5e-3, visited=4)
    one = machine(rounds)
    assert one.advance(100.0) == [] and one.certifying
    one.core.state = dict
    other = machine()
    other.core.last, other.core.set_state = rounds, lambda state: None
    other.core.duals = lambda: np.zeros((N, 3))
    other.set_state(one.state())
    assert other.certifying and not other.done
    assert certified(other) == certified(one) and other.converged


def test_a_result_has_rows_of_the_store_and_columns_of_the_model():
    one = machine(a_round(), a_round(complete=False))
    one.advance(100.0)
    one.doubt = 0.125
    result = one.result(slice(3, 6))
    assert result.row.tolist() == [22, 22, 27, 27] and result.column.tolist() == [3, 4, 4, 5]
    assert result.value.tolist() == [1.0, -1.0, 2.0, -2.0] and result.bias.tolist() == [0.5] * 3
    assert (result.primal, result.dual, result.gap, result.doubt) == ([8.0], [6.0], [0.25], [0.125])
    assert result.converged is False


# Results of a checkpoint: rows 0 to 5, columns 3 to 4


def state_of(**changes):
    given = {
        "row": np.array([0, 5]), "column": np.array([3, 4]), "value": np.array([1.0, -1.0]), "bias": np.zeros(2),
        "primal": np.ones(1), "dual": np.zeros(1), "gap": np.ones(1), "doubt": np.zeros(1),
        "converged": np.array([True]), "certified": np.array([False]),
    }  # fmt: skip
    return given | {name: np.asarray(values) for name, values in changes.items()}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"row": [], "column": [], "value": []},
        {"primal": [1, 1], "dual": [0, 0], "gap": [1, 1], "doubt": [0, 0]},
    ],
)
def test_a_result_comes_back(changes):
    state = state_of(**{name: np.array(v, np.int64 if name != "value" else float) for name, v in changes.items()})
    result = Result.of(state, 6, slice(3, 5))
    assert result.converged is True and result.certified is False and result.row is state["row"]
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
        ({"row": [0]}, "differ in length"),
        ({"value": [1.0]}, "differ in length"),
        ({"column": [3]}, "differ in length"),
        ({"primal": [1.0, 1.0]}, "differ in length"),
        ({"doubt": [1.0, 1.0]}, "differ in length"),
        ({"bias": [0.0]}, "not of its machines"),
        ({"bias": [0.0] * 3}, "not of its machines"),
        ({name: [1.0] * 3 for name in ("primal", "dual", "gap", "doubt")}, "not of its machines"),
        ({name: [] for name in ("primal", "dual", "gap", "doubt")}, "not of its machines"),
        ({"converged": [True, True]}, "one number"),
    ],
)
def test_results_that_no_machine_has(changes, words):
    with pytest.raises(ValueError, match=words):
        Result.of(state_of(**changes), 6, slice(3, 5))


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
