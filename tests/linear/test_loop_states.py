"""The states that the outer loop writes and goes on from, with machines that only count."""

import time

import numpy as np
import pytest

from multimargin.linear.algorithm import PassRecord
from multimargin.linear.checkpoint import Checkpoint, CheckpointError
from multimargin.linear.loop import positions_left, solve
from multimargin.linear.outcome import Limits, Outcome
from multimargin.linear.state import part, parts


class Counting:
    """A machine that converges after so many passes; its gap is one over their number."""

    def __init__(self, wanted, gives_up_at=np.inf, ready_at=0):
        self.wanted, self.gives_up_at, self.ready_at = wanted, gives_up_at, ready_at
        self.passes, self.epochs, self.cancelled, self.concluded = 0, 0.0, False, 0

    @property
    def ready(self):
        return self.passes >= self.ready_at

    @property
    def done(self):
        return self.converged or self.passes >= self.gives_up_at

    @property
    def converged(self):
        return self.passes >= self.wanted

    def advance(self, max_epochs):
        self.passes += 1
        return [PassRecord(1 / self.passes, 10, "counting")]

    def count(self, position, record):
        self.epochs += 1.0
        return position, int(self.epochs)

    def exhausted(self, max_iter):
        return self.epochs >= max_iter

    def conclude(self):
        self.concluded += 1
        return 1.0, 1.0 - 1 / self.passes, 1 / self.passes

    def salvage(self):
        pass

    def state(self):
        return {"passes": np.array([self.passes]), "epochs": np.array([self.epochs])}

    def set_state(self, state):
        self.passes, self.epochs = int(state["passes"][0]), float(state["epochs"][0])


class Nothing:
    def state(self):
        return {}

    def set_state(self, state):
        pass


class Run:
    """Machines with so many passes to go, under a checkpoint."""

    def __init__(self, path, wanted, *, every=1e9, limits=None, observers=(), started=None, n_threads=1, **options):
        self.checkpoint = Checkpoint(path, every, {"who": "the test"})
        self.checkpoint.begin(Nothing())
        self.left = positions_left(len(wanted), self.checkpoint)
        self.machines = {position: Counting(wanted[position], **options) for position in self.left}
        self.collected, self.outcome, self.interrupted, self.saved = {}, Outcome(), False, []
        save = self.checkpoint.save
        self.checkpoint.save = lambda loop: (self.saved.append(loop), save(loop))[1]
        try:
            solve(
                (self.machines[position] for position in self.left), self.collected.__setitem__,
                limits or Limits(10**9), n_threads, list(observers), self.outcome, started, self.checkpoint,
            )  # fmt: skip
        except KeyboardInterrupt:
            self.interrupted = True

    @property
    def history(self):
        return [record[:2] for record in self.outcome.history]


def stop_at(machine, epoch, error=None):
    def observer(told, _):
        if (told.machine, told.epoch) == (machine, epoch):
            if error is not None:
                raise error
            return True
        return None

    return observer


def test_all_that_converge_leave_no_state(tmp_path):
    run = Run(tmp_path / "state", [2, 3])
    assert run.saved == [] and run.outcome.converged and sorted(run.collected) == [0, 1]
    assert run.history == [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3)]


def test_a_limit_leaves_the_state_before_the_conclusion(tmp_path):
    path = tmp_path / "state"
    run = Run(path, [2, 9, 9], limits=Limits(4))
    (state,) = run.saved
    assert state["finished"].tolist() == [0] and state["alive"].tolist() == [1, 2]
    assert state["n_iter"].tolist() == [4] and not state["short"][0] and state["last_record"].tolist() == [5, 9]
    assert [run.collected[position].concluded for position in (0, 1, 2)] == [0, 1, 1]
    assert run.outcome.history[5][6:9] == (1.0, 0.75, 0.25)  # concluded,
    assert np.isnan(state["history.gap"]).all()  # which those that go on have not
    assert {name: s["passes"].tolist() for name, s in parts(part(state, "machines")).items()} == {"1": [4], "2": [4]}
    assert run.outcome.stopped_by == "max_iter" and not run.outcome.converged

    again = Run(path, [2, 9, 9])
    assert again.left == [1, 2] and sorted(again.collected) == [1, 2] and again.outcome.converged
    assert again.outcome.stopped_by == "converged" and again.outcome.n_iter == 9
    whole = [(0, 1), (0, 2), *((1, epoch) for epoch in range(1, 5)), *((2, epoch) for epoch in range(1, 5))]
    assert again.history == whole + [(1, e) for e in range(5, 10)] + [(2, e) for e in range(5, 10)]
    assert all(machine.passes == 9 for machine in again.collected.values())


def test_one_that_gave_up_is_finished_and_remembered(tmp_path):
    path = tmp_path / "state"
    run = Run(path, [9, 9], gives_up_at=3, observers=[stop_at(1, 1)])
    (state,) = run.saved
    assert state["finished"].tolist() == [0] and state["short"][0] and run.outcome.stopped_by == "callback"
    again = Run(path, [9, 2])
    assert not again.outcome.converged and again.outcome.stopped_by == "precision"
    assert again.machines[1].passes == 2 and again.left == [1]


def test_machines_without_a_turn_have_one_later(tmp_path):
    path = tmp_path / "state"
    run = Run(path, [5, 5, 5], observers=[stop_at(0, 2)])
    (state,) = run.saved
    assert state["alive"].tolist() == [0] and state["finished"].tolist() == [] and sorted(run.collected) == [0]
    again = Run(path, [5, 5, 5])
    assert again.left == [0, 1, 2] and sorted(again.collected) == [0, 1, 2] and again.outcome.converged


def test_a_stop_with_the_end_of_a_machine_leaves_the_others(tmp_path):
    run = Run(tmp_path / "state", [2, 5], observers=[stop_at(0, 2)])
    (state,) = run.saved
    assert state["finished"].tolist() == [0] and state["alive"].tolist() == [] and not run.outcome.converged
    assert Run(tmp_path / "state", [2, 5]).left == [1]


@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_state_after_every_slice(tmp_path, n_threads):
    run = Run(tmp_path / "state", [3, 3], every=0, n_threads=n_threads)
    assert len(run.saved) >= 3 and run.outcome.converged
    for state in run.saved:  # each between the slices of all machines
        told = dict.fromkeys(range(2), 0)
        for machine in state["history.machine"].tolist():
            told[machine] += 1
        for name, kept in parts(part(state, "machines")).items():
            assert kept["passes"][0] == kept["epochs"][0] == told[int(name)]
            at = state["last_record"][state["alive"].tolist().index(int(name))]
            assert at == -1 or state["history.machine"][at] == int(name)


def test_an_interrupt_keeps_what_the_observers_have_not_seen(tmp_path):
    path = tmp_path / "state"
    run = Run(path, [9, 9], observers=[stop_at(0, 3, KeyboardInterrupt())])
    assert run.interrupted and run.outcome.stopped_by == "interrupt" and not run.outcome.converged
    assert run.history == [(0, 1), (0, 2), (0, 3)]
    (state,) = run.saved
    assert part(part(state, "machines"), "0")["passes"].tolist() == [3]
    again = Run(path, [9, 9])
    assert again.outcome.converged and len(again.history) == 18


def test_a_time_limit_that_is_over_concludes_what_there_is(tmp_path):
    path = tmp_path / "state"
    Run(path, [9, 9], limits=Limits(4))
    again = Run(path, [9, 9], limits=Limits(10**9, time_limit=5.0), started=time.perf_counter() - 6.0)
    assert again.outcome.stopped_by == "time_limit" and sorted(again.collected) == [0, 1]
    assert [machine.passes for machine in again.collected.values()] == [4, 4]  # no more
    assert all(machine.concluded == 1 for machine in again.collected.values()) and len(again.saved) == 1
    last = Run(path, [9, 9], limits=Limits(10**9, time_limit=600.0))
    assert last.outcome.converged


def test_a_machine_that_has_nothing_to_show_goes_on_until_it_has(tmp_path):
    run = Run(tmp_path / "state", [9], ready_at=4, observers=[stop_at(0, 2)])
    assert run.machines[0].passes == 4 and run.machines[0].concluded == 1 and run.outcome.stopped_by == "callback"


@pytest.mark.parametrize(
    ("alive", "finished", "left"),
    [([], [], [0, 1, 2]), ([2], [], [2, 0, 1]), ([2, 1], [0], [2, 1]), ([1], [2], [1, 0])],
)
def test_those_that_were_alive_come_first(tmp_path, alive, finished, left):
    checkpoint = Checkpoint(tmp_path / "state", 1.0, {})
    assert positions_left(3, None) == positions_left(3, checkpoint) == [0, 1, 2]
    checkpoint.state = {"loop.alive": np.array(alive, int), "loop.finished": np.array(finished, int)}
    assert positions_left(3, checkpoint) == left
    for wrong, words in (([0, 1, 2], "no machine is left"), ([3], "no such machines"), ([-1], "no such machines")):
        checkpoint.state = {"loop.alive": np.empty(0, int), "loop.finished": np.array(wrong)}
        with pytest.raises(CheckpointError, match=words):
            positions_left(3, checkpoint)
    checkpoint.state = {"loop.alive": np.array([1]), "loop.finished": np.array([1])}
    with pytest.raises(CheckpointError, match="a machine is there twice"):
        positions_left(3, checkpoint)
