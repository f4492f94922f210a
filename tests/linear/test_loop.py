"""The outer loop, with machines that only count: limits, observers, threads, history, and why it ended."""

import signal
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from multimargin.linear.algorithm import Certificate, PassRecord
from multimargin.linear.interrupts import Cancelled
from multimargin.linear.loop import solve
from multimargin.linear.machine import Machine
from multimargin.linear.outcome import HISTORY, Limits, Outcome

UNLIMITED = Limits(max_iter=10**9)


class Counting:
    """An algorithm whose gap is 1 / (epochs so far): it converges at 1 / tol epochs."""

    name = "counting"
    stopping = "gap"

    def __init__(self, tol, passes_a_call=1, active=1.0, gives_up_at=np.inf):
        self.tol, self.passes_a_call, self.active, self.gives_up_at = tol, passes_a_call, active, gives_up_at
        self.n_passes, self.done, self.converged = 0, False, False
        self.asked = []  # how many epochs each call was allowed

    def advance(self, machine, max_epochs):
        self.asked.append(max_epochs)
        records = []
        while len(records) < self.passes_a_call and len(records) * self.active < max_epochs and not self.done:
            self.n_passes += 1
            rows = int(self.active * machine.examples.n)
            record = PassRecord(violation=1 / self.n_passes, active_rows=rows, solver=self.name)
            if 1 / self.n_passes <= self.tol:
                certificate = machine.certify()
                self.done = self.converged = True
                record = record._replace(primal=certificate.primal, dual=certificate.dual, gap=certificate.gap)
            elif self.n_passes >= self.gives_up_at:
                self.done = True
            records.append(record)
        return records


class Fake(Machine):
    """What the loop knows of a machine."""

    cost_of_pass = 1.0

    def __init__(self, algorithm, n_examples=10):
        self.algorithm = algorithm
        self.examples = SimpleNamespace(n=n_examples)
        self.epochs, self.n_passes, self.certificate, self.cancelled = 0.0, 0, None, False
        self.certified = 0

    def certify(self):
        self.certified += 1
        gap = 1 / max(1, self.algorithm.n_passes)
        self.certificate = Certificate(weights=None, primal=1.0, dual=1.0 - gap, worst_gap=gap)
        return self.certificate


class Run:
    def __init__(self, machines, limits=UNLIMITED, n_threads=1, observers=()):
        self.collected, self.outcome, self.interrupted = {}, Outcome(), False
        try:
            solve(iter(machines), self.collect, limits, n_threads, list(observers), self.outcome)
        except KeyboardInterrupt:
            self.interrupted = True
        self.history = self.outcome.history_array()

    def collect(self, position, machine):
        assert position not in self.collected, "collected twice"
        assert machine.certificate is not None
        self.collected[position] = machine


threads = pytest.mark.parametrize("n_threads", [1, 2, 5])


@threads
def test_runs_until_all_have_converged(n_threads):
    machines = [Fake(Counting(tol)) for tol in (0.5, 0.01, 0.1)]
    run = Run(machines, n_threads=n_threads)
    assert (run.outcome.converged, run.outcome.stopped_by) == (True, "converged")
    assert run.outcome.n_iter == 100
    assert run.collected == dict(enumerate(machines))
    assert [machine.algorithm.n_passes for machine in machines] == [2, 100, 10]


@threads
def test_history_has_every_pass_in_order(n_threads):
    run = Run([Fake(Counting(tol, passes_a_call=3)) for tol in (0.5, 0.01, 0.1)], n_threads=n_threads)
    history = run.history
    assert history.dtype == HISTORY
    for position, length in enumerate((2, 100, 10)):
        mine = history[history["machine"] == position]
        np.testing.assert_array_equal(mine["epoch"], np.arange(1, length + 1))
        np.testing.assert_allclose(mine["violation"], 1 / np.arange(1, length + 1))
        assert np.isnan(mine["gap"][:-1]).all()
        assert mine["gap"][-1] == pytest.approx(1 / length)
    assert np.all(np.diff(history["seconds"]) >= 0)
    assert set(history["solver"]) == {"counting"}


def test_no_machines_are_no_trouble():
    run = Run([])
    assert (run.outcome.converged, run.outcome.n_iter, len(run.history)) == (True, 0, 0)


@threads
def test_more_threads_than_machines(n_threads):
    run = Run([Fake(Counting(0.1))], n_threads=n_threads)
    assert run.outcome.converged
    assert list(run.collected) == [0]


@threads
def test_only_as_many_machines_are_alive_as_there_are_threads(n_threads):
    alive, most = set(), 0

    def build():
        nonlocal most
        for position in range(12):
            machine = Fake(Counting(0.2))
            alive.add(position)
            most = max(most, len(alive))
            yield machine

    class Collecting(Run):
        def collect(self, position, machine):
            super().collect(position, machine)
            alive.remove(position)

    run = Collecting(build(), n_threads=n_threads)
    assert len(run.collected) == 12
    assert most == min(n_threads, 12)


def test_threads_work_at_the_same_time():
    together = threading.Barrier(2, timeout=60)

    class Meeting(Counting):
        def advance(self, machine, max_epochs):
            together.wait()  # breaks unless both machines are being advanced at once
            return super().advance(machine, max_epochs)

    assert Run([Fake(Meeting(0.5)), Fake(Meeting(0.5))], n_threads=2).outcome.converged


# Limits


@threads
def test_max_iter(n_threads):
    machines = [Fake(Counting(1e-9)), Fake(Counting(0.25))]
    run = Run(machines, Limits(max_iter=6), n_threads)
    assert (run.outcome.converged, run.outcome.stopped_by, run.outcome.n_iter) == (False, "max_iter", 6)
    assert machines[0].algorithm.n_passes == 6
    assert machines[1].algorithm.converged
    last = run.history[run.history["machine"] == 0][-1]
    assert last["gap"] == pytest.approx(1 / 6)  # certified although it did not converge


def test_algorithms_are_told_how_much_is_left():
    machine = Fake(Counting(1e-9, passes_a_call=4))
    Run([machine], Limits(max_iter=10))
    assert machine.algorithm.asked == [10, 6, 2]
    assert machine.algorithm.n_passes == 10


def test_an_epoch_is_as_many_visits_as_examples():
    machine = Fake(Counting(1e-9, active=0.5))
    run = Run([machine], Limits(max_iter=3))
    assert machine.algorithm.n_passes == 6  # over 5 of 10 examples each
    assert run.outcome.n_iter == 3
    assert set(run.history["active_rows"]) == {5}


@threads
def test_time_limit(n_threads):
    machines = [Fake(Counting(1e-12)) for _ in range(3)]
    run = Run(machines, Limits(10**12, time_limit=1e-6), n_threads)
    assert (run.outcome.converged, run.outcome.stopped_by) == (False, "time_limit")
    assert sorted(run.collected) == list(range(min(n_threads, 3)))  # none is begun after a limit
    assert all(machine.certified for machine in run.collected.values())


class Modest(Counting):
    def advance(self, machine, max_epochs):
        records = super().advance(machine, max_epochs)
        self.done = self.converged = False  # did not notice
        return records


def test_the_certificate_at_the_end_may_be_good_enough():
    run = Run([Fake(Modest(0.2))], Limits(max_iter=8))
    assert (run.outcome.converged, run.outcome.stopped_by) == (True, "converged")


def test_a_violation_is_not_reached_by_a_gap():
    algorithm = Modest(0.2)  # its gap is below 0.2 in the end
    algorithm.stopping = "violation"
    run = Run([Fake(algorithm)], Limits(max_iter=8))
    assert not run.outcome.converged


def test_precision_is_when_an_algorithm_gives_up():
    run = Run([Fake(Counting(1e-9, gives_up_at=5))])
    assert (run.outcome.converged, run.outcome.stopped_by, run.outcome.n_iter) == (False, "precision", 5)


def test_a_limit_says_more_than_precision():
    run = Run([Fake(Counting(1e-9, gives_up_at=2)), Fake(Counting(1e-9))], Limits(max_iter=4))
    assert run.outcome.stopped_by == "max_iter"


@pytest.mark.parametrize("n_threads", [1, 2])
def test_one_machine_that_fails_to_converge_is_enough(n_threads):
    run = Run([Fake(Counting(0.5)), Fake(Counting(1e-9)), Fake(Counting(0.5))], Limits(max_iter=4), n_threads)
    assert not run.outcome.converged
    assert len(run.collected) == 3


# Observers


@threads
def test_observers_see_every_pass(n_threads):
    seen, also = [], []
    machines = [Fake(Counting(0.2)), Fake(Counting(0.05))]
    run = Run(
        machines, n_threads=n_threads, observers=[lambda *told: seen.append(told), lambda *told: also.append(told)]
    )
    assert [epoch.as_tuple()[:2] for epoch, _ in seen] == [tuple(row)[:2] for row in run.history[["machine", "epoch"]]]
    assert all(machine is machines[epoch.machine] for epoch, machine in seen)
    assert len(also) == len(seen) == 25


@threads
def test_observers_run_in_the_thread_of_the_caller(n_threads):
    where = set()
    Run(
        [Fake(Counting(0.2)), Fake(Counting(0.1))],
        n_threads=n_threads,
        observers=[lambda epoch, machine: where.add(threading.current_thread())],
    )
    assert where == {threading.current_thread()}


@threads
def test_an_observer_may_stop(n_threads):
    machines = [Fake(Counting(1e-9)) for _ in range(4)]
    run = Run(machines, n_threads=n_threads, observers=[lambda epoch, machine: epoch.epoch == 3])
    assert (run.outcome.converged, run.outcome.stopped_by) == (False, "callback")
    assert sorted(run.collected) == list(range(min(n_threads, 4)))  # none is begun after that
    assert all(machine.certified and machine.algorithm.n_passes <= 4 for machine in run.collected.values())


def test_machines_that_never_had_their_turn_are_not_converged():
    run = Run([Fake(Counting(0.5)) for _ in range(3)], observers=[lambda epoch, machine: epoch.epoch == 2])
    assert run.collected[0].algorithm.converged
    assert (run.outcome.converged, run.outcome.stopped_by) == (False, "callback")


def test_the_first_reason_counts():
    def stop(epoch, machine):
        return True

    run = Run([Fake(Counting(1e-9))], Limits(max_iter=1, time_limit=1e-9), observers=[stop])
    assert run.outcome.stopped_by == "callback"


@threads
def test_errors_go_to_the_caller(n_threads):
    class Broken(Counting):
        def advance(self, machine, max_epochs):
            raise LookupError("broken")

    with pytest.raises(LookupError, match="broken"):
        Run([Fake(Counting(0.1)), Fake(Broken(0.1))], n_threads=n_threads)


# Ctrl-C


@threads
def test_interrupt_collects_what_is_alive(n_threads):
    def interrupt(epoch, machine):
        if epoch.epoch == 5:
            raise KeyboardInterrupt

    machines = [Fake(Counting(1e-9)) for _ in range(9)]
    run = Run(machines, n_threads=n_threads, observers=[interrupt])
    assert run.interrupted
    assert (run.outcome.converged, run.outcome.stopped_by) == (False, "interrupt")
    assert len(run.collected) == n_threads
    assert run.outcome.n_iter == 5
    assert len(run.history) >= 5


def test_interrupt_inside_of_an_algorithm():
    class Interrupted(Counting):
        def advance(self, machine, max_epochs):
            if self.n_passes == 3:
                raise KeyboardInterrupt
            return super().advance(machine, max_epochs)

    run = Run([Fake(Interrupted(1e-9))])
    assert run.interrupted
    assert run.outcome.stopped_by == "interrupt"
    assert run.collected[0].algorithm.n_passes == 3
    assert len(run.history) == 3


def test_interrupt_while_a_machine_concludes():
    """It gives up, and is taken as it is: the interrupt is what comes out, nothing else."""

    class Concluding(Fake):
        concluded = 0

        def conclude(self):
            self.concluded += 1
            signal.raise_signal(signal.SIGINT)
            assert self.cancelled  # at once, in all threads
            raise Cancelled

    machines = [Concluding(Counting(1e-9)) for _ in range(3)]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run = Run(machines, Limits(max_iter=5), n_threads=2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert run.interrupted and run.outcome.stopped_by == "interrupt"
    assert sum(machine.concluded for machine in machines) == 1 and 0 < len(run.collected) < 3


def test_interrupt_keeps_what_was_finished_before():
    def interrupt(epoch, machine):
        if epoch.machine == 2:
            raise KeyboardInterrupt

    run = Run([Fake(Counting(0.5)), Fake(Counting(0.5)), Fake(Counting(0.5))], observers=[interrupt])
    assert sorted(run.collected) == [0, 1, 2]
    assert run.collected[0].algorithm.converged
    assert not run.outcome.converged


def test_interrupt_while_a_machine_is_collected_does_not_collect_it_again():
    class Interrupting(Run):
        def collect(self, position, machine):
            super().collect(position, machine)
            signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run = Interrupting([Fake(Counting(0.5)), Fake(Counting(0.5))])
    finally:
        signal.signal(signal.SIGINT, before)
    assert run.interrupted and not run.outcome.converged
    assert list(run.collected) == [0]
