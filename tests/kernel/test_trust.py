"""How far float32 and float64 are trusted, what a checkpoint of kernel machines may hold, and machines of pairs."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin.kernel import pairs as pairs_module
from multimargin.kernel import training as training_module
from multimargin.kernel.functions import Kernel
from multimargin.kernel.machine import Result
from multimargin.kernel.pairs import PairsMachine
from multimargin.kernel.store import fits_float32
from multimargin.kernel.training import KernelRequest, _Training
from multimargin.linear.loop import Limits
from multimargin.problems.formulations import Formulation

X = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0], [3.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
Y = np.array([2, 0, 1, 0, 1, 2])


def training(**more):
    given = {
        "X": X, "y": Y, "cap": np.array([1.0, 1.0, 1.0, 1.0, 0.0, 2.0]), "n_classes": 3,
        "formulation": "crammer_singer", "kernel": Kernel("linear"), "bias": 0.5, "free_bias": False,
        "solver": "block", "selection": "bmg", "threshold": "max", "step": "exact", "threshold_factor": 1.0,
        "working_set": None, "cache_bytes": 1 << 20, "tol": 1e-3, "stopping": "gap", "shrinking": True,
        "cooling": True, "limits": Limits(100), "n_threads": 1, "seed": 0,
    }  # fmt: skip
    return _Training(KernelRequest(**given | more))


def result(**more):
    """Of a machine of all classes: a dual of the first row, and scores of it and of the third one."""
    given = {
        "row": np.array([0, 0]), "column": np.array([0, 2]), "value": np.array([-0.5, 0.5]), "bias": np.zeros(3),
        "primal": np.array([2.0]), "dual": np.array([1.0]), "gap": np.array([0.5]), "felt": np.array([1.0]),
        "sampled": (np.repeat([0, 2], 3), np.tile([0, 1, 2], 2), np.zeros(6)), "converged": True,
    }  # fmt: skip
    return Result(**given | more)


# k(x, x') + 0.5 of the first row with itself and with the third one is 1.5.
EXACT = np.array([-0.75, 0.0, 0.75, -0.75, 0.0, 0.75])


def test_rows_without_weight_are_not_in_the_store():
    one = training()
    assert one.rows.tolist() == [0, 1, 2, 3, 5] and one.y.tolist() == [2, 0, 1, 0, 2]
    assert one.group_begin.tolist() == [0, 5] and one.cap.tolist() == [1, 1, 1, 1, 2]
    assert one.sample.tolist() == [0, 1, 2, 3, 4] and one.single and one.which == [0]
    pairwise = training(formulation="one_vs_one")
    assert pairwise.rows.tolist() == [1, 3, 2, 0, 5] and pairwise.group_begin.tolist() == [0, 2, 3, 5]
    two = training(formulation="one_vs_one", n_classes=2, y=Y % 2)
    assert two.rows.tolist() == [0, 1, 2, 3, 5] and two.group_begin.tolist() == [0, 5]


def test_a_sample_of_many_rows():
    many = training(X=np.tile(X, (50, 1)), y=np.tile(Y, 50), cap=np.ones(300))
    assert len(many.sample) == 128 and (np.diff(many.sample) > 0).all() and many.sample[-1] < 300


@pytest.mark.parametrize(("tol", "single"), [(1e-5, True), (0.9e-5, False)])
def test_float32_for_tolerances_that_it_can_meet(tol, single):
    assert training(tol=tol).single is single


@pytest.mark.parametrize("error", [0.0, 0.01, -0.02])
def test_doubts_are_what_scores_are_off_by(error):
    """By the root of the mean of the squares in the worst lane, times the caps that feel it, relative to the primal."""
    one = training()
    off = np.array([error, 0, 0, error, 0, 0])
    one.results[0] = result(sampled=(np.repeat([0, 2], 3), np.tile([0, 1, 2], 2), EXACT + off), felt=np.array([3.0]))
    assert one._doubts()[0] == pytest.approx(abs(error) * 3.0 / 2.0, abs=1e-12)
    one.results[0] = result(sampled=(np.repeat([0, 2], 3), np.tile([0, 1, 2], 2), EXACT + off * [1, 1, 1, 0, 1, 1]))
    assert one._doubts()[0] == pytest.approx(abs(error) * np.sqrt(0.5) / 2.0, abs=1e-12)


def test_doubts_of_parts_and_of_nothing():
    one = training(formulation="one_vs_rest", free_bias=True)
    assert len(one.tasks) == 3
    scores = (np.array([0, 2]), np.array([1, 1]), np.array([0.25, 0.25]))
    one.results[1] = result(row=np.array([], int), column=np.array([], int), value=np.array([]), sampled=scores)
    assert one._doubts() == {1: 0.0}  # without duals there is nothing to be wrong about
    one.results[2] = result(sampled=(np.array([0]), np.array([2]), np.array([0.75])))
    doubts = one._doubts()
    assert doubts[2] == 0.0 and doubts[1] == pytest.approx(0.25 / 2.0)


@pytest.mark.parametrize(("converged", "error", "again"), [(True, 4.9e-4, []), (True, 5.1e-4, [0]), (False, 0.0, [0])])
def test_a_quarter_of_tol_is_allowed(converged, error, again):
    one = training()
    off = np.array([error, 0, 0, error, 0, 0])
    given = (np.repeat([0, 2], 3), np.tile([0, 1, 2], 2), EXACT + off)
    one.results[0] = result(sampled=given, converged=converged)
    assert one._distrusted() == again
    one.outcome.converged = True
    one._check_double()
    fine = error < 5e-4
    assert one.outcome.converged is fine and one.outcome.stopped_by == ("converged" if fine else "precision")
    assert bool(one.outcome.remark) is not fine and one.doubt == pytest.approx(error / 2, abs=1e-12)


@pytest.mark.parametrize("why", ["converged", "precision", "time_limit", "max_iter", "callback"])
@pytest.mark.parametrize("trusted", [False, True])
def test_float64_goes_on_after_convergence_and_certifies_after_a_limit(monkeypatch, why, trusted):
    one, asked = training(), []
    one._train = lambda which, single, start, stop: asked.append((which, single, start.toarray()[0].tolist(), stop))
    scores = (np.repeat([0, 2], 3), np.tile([0, 1, 2], 2), EXACT)
    one.results[0] = result(converged=trusted, sampled=scores)
    limited = why not in ("converged", "precision")
    one.outcome.converged, one.outcome.stopped_by = trusted and not limited, why
    one._train_in_double()
    again = [] if trusted else [0]
    assert asked == [(again, False, [-0.5, 0.0, 0.5], limited)]
    goes_on = bool(again) and not limited
    assert one.outcome.stopped_by == ("converged" if goes_on else why)
    assert one.outcome.converged is (goes_on or (trusted and not limited))
    # One support vector, five rows and two features: that is the work of a certificate.
    for most, certified in ((10.0, True), (9.9, not limited)):
        monkeypatch.setattr(training_module, "_SHORT_WORK", most)
        del asked[:]
        one._train_in_double()
        assert bool(asked) is certified


def test_what_is_said_of_kernels_that_are_none():
    def about(matrix, name="precomputed"):
        return training(
            X=np.array(matrix), y=np.array([0, 1, 2]), cap=np.ones(3), bias=0.0, kernel=Kernel(name)
        )._indefinite()

    assert about(np.diag([1.0, 1.0, 0.0])) == ""
    assert about(np.diag([1.0, 1.0, -0.9e-5])) == ""
    assert "that of 3 rows has the eigenvalue -1.1e-05" in about(np.diag([1.0, 1.0, -1.1e-5]))
    assert about(np.diag([1.0, 1.0, -1.0]), "linear") == ""


def test_a_model_of_what_there_is():
    one = training()
    one.results[0] = result(bias=np.array([0.25, 0.0, 0.5]))
    made = one._trained()
    assert made.dual_coef.toarray()[0].tolist() == [-0.5, 0, 0.5] and made.dual_coef.nnz == 2
    assert made.intercept.tolist() == [0.25 - 0.25, 0.0, 0.5 + 0.25]
    assert (made.primal, made.dual, made.worst_gap) == (2.0, 1.0, 0.5)
    assert made.counts == {"hits": 0, "misses": 0, "kernel_evaluations": 0}
    one.doubt = 0.75
    assert one._trained().worst_gap == 0.5
    one.outcome.stopped_by = "precision"
    assert one._trained().worst_gap == 0.75


@pytest.mark.parametrize(
    ("formulation", "classes", "at_zero"),
    [("crammer_singer", 3, 6.0), ("weston_watkins", 3, 12.0), ("one_vs_rest", 3, 18.0), ("crammer_singer", 2, 6.0)],
)
def test_machines_without_a_turn_have_the_loss_of_zero(formulation, classes, at_zero):
    made = training(formulation=formulation, n_classes=classes, y=Y % classes)._trained()
    assert (made.primal, made.dual, made.worst_gap) == (at_zero, 0.0, 1.0) and made.dual_coef.nnz == 0


def test_pairs_without_a_turn():
    made = training(formulation="one_vs_one", free_bias=True)._trained()
    assert (made.primal, made.worst_gap) == (2 * 6.0, 1.0)  # every row is in two machines


# A checkpoint


def state_of(one, **changes):
    one.store = SimpleNamespace(state=lambda: {"x": np.zeros(1)})
    return one.state() | {name: np.asarray(value) for name, value in changes.items()}


def test_results_go_on():
    one = training()
    one.results[0], one.behind[0] = result(), (7, 2.5)
    one.counts, one.before = np.array([1, 2, 3]), np.array([4, 5, 6])
    one.in_double = True
    other = training()
    other.set_state(state_of(one))
    assert other.behind == {0: (7, 2.5)} and type(other.behind[0][0]) is int
    assert other.counts.tolist() == [1, 2, 3] and other.before.tolist() == [4, 5, 6]
    assert other.which == [0] and other.in_double is True
    assert other.results[0].value.tolist() == [-0.5, 0.5] and other.results[0].converged is True


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"which": [1]}, "there are no such machines"),
        ({"which": [-1]}, "there are no such machines"),
        ({"which": [0.0]}, "there are no such machines"),
        ({"counts": [1, 2]}, "cannot reshape"),
        ({"before": [1, 2, 3, 4]}, "cannot reshape"),
        ({"in_double": [True, False]}, "one number"),
        ({"results.task": [1]}, "'task' must be a number below 1"),
        ({"results.row": [0, 5]}, "out of range"),
        ({"results.behind": [1.0], "results.behind#": [1]}, "not enough values"),
    ],
)
def test_what_no_training_has_is_refused(changes, words):
    one = training()
    one.results[0], one.behind[0] = result(), (7, 2.5)
    with pytest.raises(ValueError, match=words):
        training().set_state(state_of(one, **changes))


def test_duals_of_rows_that_another_machine_learns_from():
    one = training(formulation="one_vs_one", solver="decomposition")
    assert len(one.tasks) == 3  # of rows 0 to 2, 0, 1, 3, 4, and 2 to 4 of the store
    kept = {"bias": np.zeros(1), "sampled": (np.zeros(0, int), np.zeros(0, int), np.zeros(0))}
    for row, fine in ((1, True), (2, False), (3, True)):
        given = result(row=np.array([0, row]), column=np.array([1, 1]), **kept)
        one.results, one.behind = {1: given}, {1: (1, 1.0)}
        other = training(formulation="one_vs_one", solver="decomposition")
        if fine:
            other.set_state(state_of(one))
        else:
            with pytest.raises(ValueError, match="rows that another machine learns from"):
                other.set_state(state_of(one))


# Pairs


class FakeBatch:
    done = False

    def __init__(self, store, pairs, cap, working_set, pair, row, value, sample):
        self.given = pair.tolist(), row.tolist(), value.tolist()
        self.told, self.left = [], []

    def advance(self, tol, by_violation, max_epochs):
        self.asked = tol, by_violation, max_epochs
        return self.told

    def abandon(self):
        left, self.left = self.left, []
        return left

    def duals(self):
        return np.array([0, 1]), np.array([3, 4]), np.array([1.0, -1.0])

    def scores(self):
        return np.array([1]), np.array([0]), np.array([9.0])

    def state(self):
        return {}

    def set_state(self, state):
        pass


def told(pair, **more):
    given = {"violation": 0.5, "visited": 20, "primal": 4.0, "dual": 3.0, "worst_gap": -0.25, "bias": 0.5, "felt": 2.0}
    return SimpleNamespace(pair=pair, converged=True, **given | more)


@pytest.fixture
def batch(monkeypatch):
    monkeypatch.setattr(pairs_module._core, "PairBatch", FakeBatch)

    def make(start=None, cap=1.0, **more):
        store = SimpleNamespace(counts=lambda: np.array([1, 2, 3]))
        given = {"passes": 2, "counted": np.array([10, 20, 30]), "working_set": 0, "tol": 1e-3, "stopping": "gap"}
        return PairsMachine(
            Formulation("one_vs_rest", False, 1), store, np.array([[0, 1], [0, 2]]), 5, np.array([10, 20]),
            np.array([7.0, 8.0]), np.full(6, cap), start, np.arange(2), **given | more,
        )  # fmt: skip

    return make


def test_pairs_before_their_turn(batch):
    one = batch()
    assert one.primal.tolist() == [7.0, 8.0] and one.dual.tolist() == [0, 0] and one.gap.tolist() == [1, 1]
    assert one.ready and not one.done and not one.converged and one.core.given == ([], [], [])
    start = sp.csr_array(np.array([[0, 1.0], [2.0, 0], [3.0, 4.0], [0, 0], [0, 0], [0, 0]]))
    assert batch(start).core.given == ([0, 0, 1, 1], [1, 2, 0, 2], [2.0, 3.0, 1.0, 4.0])


def test_a_pair_has_one_record(batch):
    one = batch(stopping="violation")
    one.core.told = [told(1)]
    (record,) = one.advance(9.0)
    assert one.core.asked == (1e-3, True, 9.0)
    assert record == (0.5, 20, "block", 4.0, 3.0, 0.0, 11, 22, 33, 1)
    assert record.history() == (0.5, 20, "block", 4.0, 3.0, 0.0, 11, 22, 33) and record.estimate == 0.0
    assert one.primal.tolist() == [7.0, 4.0] and one.dual.tolist() == [0, 3.0] and one.gap.tolist() == [1, 0]
    assert one.bias.tolist() == [0, 0.5] and one.felt.tolist() == [0, 2.0] and one.met.tolist() == [False, True]
    assert one.count(99, record) == (6, 3) and one.epochs == 1.0
    one.core.told = [told(0, visited=5)]
    (record,) = one.advance(9.0)
    assert one.count(99, record) == (5, 3) and one.epochs == 1.0 and one.converged
    one.cancelled = True
    assert one.advance(9.0) == []


@pytest.mark.parametrize(
    ("visited", "converged", "out"), [(90, False, True), (89, False, False), (90, True, False), (99, False, True)]
)
def test_a_pair_that_used_up_its_epochs(batch, visited, converged, out):
    one = batch()
    one.core.told = [SimpleNamespace(**told(0, visited=visited).__dict__ | {"converged": converged})]
    one.advance(9.0)
    assert one.out_of_epochs == out and not one.exhausted(9)
    one.core.done = True
    assert one.done and one.exhausted(9) == out


def test_a_pair_that_is_abandoned_is_taken_as_it_is(batch):
    one = batch()
    one.core.left = [SimpleNamespace(**told(1, worst_gap=0.5).__dict__ | {"converged": False})]
    assert one.conclude() == (4.0, 3.0, 0.5)
    assert not one.out_of_epochs and not one.converged
    one.core.left = [told(0)]
    one.salvage()
    assert one.primal.tolist() == [4.0, 4.0]
    result = one.result()
    assert result.row.tolist() == [3, 4] and result.column.tolist() == [5, 6] and result.value.tolist() == [1, -1]
    assert [part.tolist() for part in result.sampled] == [[0], [6], [9.0]] and result.bias.tolist() == [0.5, 0.5]


def test_duals_of_pairs_within_their_caps(batch):
    one = batch()
    one.core.told = [told(1)]
    one.count(0, one.advance(9.0)[0])
    other = batch()
    other.set_state(one.state())
    assert other.primal.tolist() == one.primal.tolist() and other.met.tolist() == [False, True]
    assert (other.epochs, other.n_passes) == (1.0, 2)
    batch(cap=1 - 0.9e-8).set_state(one.state())
    with pytest.raises(ValueError, match="duals are outside of their bounds"):
        batch(cap=1 - 1.2e-8).set_state(one.state())
    with pytest.raises(ValueError, match="'epochs' must be"):
        batch().set_state(one.state() | {"epochs": np.array([-1.0])})


# Callables, and what float32 holds


@pytest.mark.parametrize("width", [1, 4])
def test_callables_are_asked_whether_they_are_kernels(width):
    rows = np.random.default_rng(0).normal(size=(9, width))
    Kernel("callable", function=lambda X, Y: X @ Y.T).check_pairs(rows)
    Kernel("callable", function=lambda X, Y: (X @ Y.T).astype(np.float32)).check_pairs(rows)
    for function, words in (
        (lambda X, Y: X @ Y.T + X.sum(axis=1, keepdims=True), "is not symmetric"),
        (lambda X, Y: (X - X.mean(axis=0)) @ Y.T, "another value when other rows are in the call"),
        (lambda X, Y: X @ (Y - Y.mean(axis=0)).T, "another value when other rows are in the call"),
        (lambda X, Y: X @ Y.T / len(Y), "another value when other rows are in the call"),
    ):
        kernel = Kernel("callable", function=function)
        for n in (2, 9):
            with pytest.raises(ValueError, match=words):
                kernel.check_pairs(rows[:n])
        kernel.check_pairs(rows[:1])  # which shows nothing
    Kernel("linear").check_pairs(rows)


def test_rows_that_are_the_same_are_at_no_distance():
    """Of rows far from zero the rounding of norms is no distance; what is more than that is one."""
    far = np.array([[1e8, 0.0], [1e8 + 1, 0.0], [1e8 + 64, 0.0], [1e8 + 7, 0.0]])
    norms = (far**2).sum(axis=1)
    values = Kernel("rbf", gamma=1.0).block(far, far, norms, norms)
    assert (values.diagonal() == 1.0).all()
    assert values[0, 1] == values[0, 3] == 1.0 and values[0, 2] == 0.0  # 16 roundings of 2e16 are 71, and not 35
    small = np.array([[1.0, 0.0], [1.0 + 1e-9, 0.0]])
    norms = (small**2).sum(axis=1)
    assert Kernel("rbf", gamma=1e8).block(small, small, norms, norms)[0, 1] == 1.0


@pytest.mark.parametrize(
    ("kernel", "scale", "bias", "fits"),
    [
        (Kernel("linear"), 0.99e6, 0.0, True),
        (Kernel("linear"), 1e6, 0.0, False),
        (Kernel("linear"), 1.01e-12, 0.0, True),  # the row itself decides, as its square is smaller
        (Kernel("linear"), 0.99e-12, 0.0, False),
        (Kernel("rbf", gamma=1e12), 1.0, 0.0, False),
        (Kernel("rbf", gamma=0.99e12), 1.0, 0.0, True),
        (Kernel("rbf", gamma=1e-12), 1.0, 0.0, False),
        (Kernel("linear", gamma=1e-12), 1.0, 0.0, True),
        (Kernel("sigmoid", gamma=1.0, coef0=-1e12), 1.0, 0.0, False),
        (Kernel("poly", gamma=1.0, coef0=0.0), 1.0, 0.0, True),
        (Kernel("linear"), 1.0, 1e3, True),
        (Kernel("linear"), 1.0, 1.01e3, False),
        (Kernel("linear"), -0.99e6, 0.0, True),
        (Kernel("linear"), -1e6, 0.0, False),
    ],
)
def test_what_float32_has_room_for(kernel, scale, bias, fits):
    rows = np.array([[scale, 0.0]])
    for stored in (rows, sp.csr_array(rows)):
        assert fits_float32(kernel, stored, bias, np.ones(1)) is fits


def test_what_float64_has_no_room_for():
    with pytest.raises(ValueError, match=r"sum of C_i sqrt\(K\(x_i, x_i\)\) may reach .*scale the features down"):
        fits_float32(Kernel("linear"), np.array([[1e150]]), 0.0, np.array([1e3]))
    with pytest.raises(ValueError, match="scale the kernel down"):
        fits_float32(Kernel("precomputed"), np.array([[1e300]]), 0.0, np.array([1e3]))
    assert fits_float32(Kernel("linear"), np.zeros((2, 2)), 0.0, np.ones(2)) is True
