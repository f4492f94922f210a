"""How far float32 and float64 are trusted, what a checkpoint of kernel machines may hold, and machines of pairs."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin.kernel import pairs as pairs_module
from multimargin.kernel.functions import Kernel
from multimargin.kernel.machine import Result
from multimargin.kernel.pairs import PairsMachine
from multimargin.kernel.store import fits_float32
from multimargin.kernel.training import KernelRequest, _Training
from multimargin.linear.outcome import Limits
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
    """Of a machine of all classes: a dual of the first row."""
    given = {
        "row": np.array([0, 0]), "column": np.array([0, 2]), "value": np.array([-0.5, 0.5]), "bias": np.zeros(3),
        "primal": np.array([2.0]), "dual": np.array([1.0]), "gap": np.array([0.5]), "doubt": np.array([0.0]),
        "converged": True, "certified": True,
    }  # fmt: skip
    return Result(**given | more)


def test_rows_without_weight_are_not_in_the_store():
    one = training()
    assert one.rows.tolist() == [0, 1, 2, 3, 5] and one.y.tolist() == [2, 0, 1, 0, 2]
    assert one.group_begin.tolist() == [0, 5] and one.cap.tolist() == [1, 1, 1, 1, 2]
    assert one.single and one.which == [0]
    pairwise = training(formulation="one_vs_one")
    assert pairwise.rows.tolist() == [1, 3, 2, 0, 5] and pairwise.group_begin.tolist() == [0, 2, 3, 5]
    two = training(formulation="one_vs_one", n_classes=2, y=Y % 2)
    assert two.rows.tolist() == [0, 1, 2, 3, 5] and two.group_begin.tolist() == [0, 5]


@pytest.mark.parametrize(("tol", "single"), [(1e-5, True), (0.9e-5, False)])
def test_float32_for_tolerances_that_it_can_meet(tol, single):
    assert training(tol=tol).single is single


@pytest.mark.parametrize("why", ["converged", "precision", "time_limit", "max_iter", "callback"])
def test_float64_goes_on_where_float32_did_not_get_there(why):
    one, asked = training(), []

    def train(which, single, start):
        asked.append((which, single, None if start is None else start.toarray()[0].tolist(), one.outcome.stopped_by))
        if single:
            one.results[0] = result(converged=why == "converged")
            one.outcome.converged, one.outcome.stopped_by = why == "converged", why

    one._train = train
    made = one.run()
    again = [([0], False, [-0.5, 0.0, 0.5], "converged")] if why == "precision" else []
    assert asked == [([0], True, None, "converged"), *again]
    assert made.outcome.stopped_by == ("converged" if again else why)
    assert made.outcome.converged is (why in ("converged", "precision")) and not made.outcome.remark


@pytest.mark.parametrize(
    ("doubt", "why", "told"), [(2.6e-4, "precision", True), (2.5e-4, "precision", False), (1.0, "max_iter", True)]
)
def test_what_is_said_of_large_duals(doubt, why, told):
    one = training(tol=1e-3, formulation="one_vs_rest", free_bias=True)
    one.single = False

    def train(which, single, start):
        plain = {"gap": np.array([1e-4]), "bias": np.zeros(1)}
        one.results |= {0: result(**plain), 1: result(doubt=np.array([doubt]), **plain)}
        one.outcome.converged, one.outcome.stopped_by = False, why

    one._train = train
    made = one.run()
    assert bool(made.outcome.remark) is one._doubtful is told


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
    one.results[0] = result(doubt=np.array([0.75]))
    assert (one._trained().worst_gap, one._trained().doubt) == (1.25, 0.75)
    one.results[0] = result(doubt=np.array([2.5e-4]))
    assert (one._trained().worst_gap, one._trained().doubt) == (0.50025, 2.5e-4)


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
    assert other.results[0].value.tolist() == [-0.5, 0.5]
    assert other.results[0].converged is True and other.results[0].certified is True


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
    kept = {"bias": np.zeros(1)}
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

    def __init__(self, store, pairs, cap, working_set, pair, row, value):
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

    def state(self):
        return {}

    def set_state(self, state):
        pass


def told(pair, converged=True, visited=20, doubt=0.0, **more):
    """A pair that was trained, and what its certificate will say."""
    given = {"violation": 0.5, "primal": 4.0, "dual": 3.0, "worst_gap": -0.25, "bias": 0.5} | more
    return SimpleNamespace(pair=pair, converged=converged, visited=visited, doubt=doubt, said=SimpleNamespace(**given))


@pytest.fixture
def batch(monkeypatch):
    def certificates(self, trained):
        self.doubt[[one.pair for one in trained]] = [one.doubt for one in trained]
        return [one.said for one in trained]

    monkeypatch.setattr(pairs_module._core, "PairBatch", FakeBatch)
    monkeypatch.setattr(PairsMachine, "_certificates", certificates)

    def make(start=None, cap=1.0, **more):
        store = SimpleNamespace(counts=lambda: np.array([1, 2, 3]))
        given = {"passes": 2, "counted": np.array([10, 20, 30]), "working_set": 0, "tol": 1e-3, "stopping": "gap"}
        return PairsMachine(
            Formulation("one_vs_rest", False, 1), store, np.array([[0, 1], [0, 2]]), 5, np.array([0, 4, 10, 26]),
            np.full(26, cap), start, None, **given | more,
        )  # fmt: skip

    return make


def test_pairs_before_their_turn(batch):
    one = batch()
    assert one.primal.tolist() == [10.0, 20.0] and one.dual.tolist() == [0, 0] and one.gap.tolist() == [1, 1]
    assert one.ready and not one.done and not one.converged and one.core.given == ([], [], [])
    start = sp.csr_array(np.array([[0, 1.0], [2.0, 0], [3.0, 4.0], *[[0, 0]] * 23]))
    assert batch(start).core.given == ([0, 0, 1, 1], [1, 2, 0, 2], [2.0, 3.0, 1.0, 4.0])


def test_a_pair_has_one_record(batch):
    one = batch(stopping="violation")
    one.core.told = [told(1)]
    (record,) = one.advance(9.0)
    assert one.core.asked == (pytest.approx(0.9e-3), True, 9.0) and not one.met[1]  # by the violation
    one.core.told = [told(1, violation=1e-3)]
    (record,) = one.advance(9.0)
    assert record == (1e-3, 20, "block", 4.0, 3.0, 0.0, 11, 22, 33, 1)
    assert record.history() == (1e-3, 20, "block", 4.0, 3.0, 0.0, 11, 22, 33) and record.estimate == 0.0
    assert one.primal.tolist() == [10.0, 4.0] and one.dual.tolist() == [0, 3.0] and one.gap.tolist() == [1, 0]
    assert one.bias.tolist() == [0, 0.5] and one.met.tolist() == [False, True] and not one.trained
    assert one.count(99, record) == (6, 3) and one.epochs == 1.0
    one.core.told = [told(0, visited=5, violation=0.0)]
    (record,) = one.advance(9.0)
    assert one.count(99, record) == (5, 3) and one.epochs == 1.0 and one.converged
    one.cancelled = True
    assert one.advance(9.0) == []


@pytest.mark.parametrize(
    ("visited", "converged", "out"), [(90, False, True), (89, False, False), (90, True, False), (99, False, True)]
)
def test_a_pair_that_used_up_its_epochs(batch, visited, converged, out):
    one = batch()
    one.core.told = [told(0, visited=visited, converged=converged)]
    one.advance(9.0)
    assert one.out_of_epochs == out and not one.exhausted(9)
    one.core.done = True
    assert one.done and one.exhausted(9) == out


def test_a_pair_that_is_abandoned_is_taken_as_it_is(batch):
    one = batch()
    one.core.left = [told(1, worst_gap=0.5, converged=False)]
    assert one.conclude() == (4.0, 3.0, 0.5)
    assert not one.out_of_epochs and not one.converged
    one.core.left, one.trained = [], [told(0)]  # an interrupt came before its certificate
    one.salvage()
    assert one.primal.tolist() == [4.0, 4.0]
    result = one.result(slice(5, 7))
    assert result.row.tolist() == [3, 4] and result.column.tolist() == [5, 6] and result.value.tolist() == [1, -1]
    assert result.doubt.tolist() == [0, 0] and result.bias.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("more", "met"),
    [({"worst_gap": 1e-3}, True), ({"worst_gap": 1.1e-3}, False), ({"doubt": 2.5e-4}, True), ({"doubt": 3e-4}, False)],
)
def test_a_pair_has_converged_if_its_certificate_says_so(batch, more, met):
    one = batch()
    one.core.told = [told(0, **more)]
    one.advance(9.0)
    assert one.met[0] == met


def test_small_pairs_are_certified_together(batch, monkeypatch):
    asked, certificates = [], PairsMachine._certificates
    monkeypatch.setattr(
        PairsMachine, "_certificates", lambda self, some: asked.append(len(some)) or certificates(self, some)
    )
    for most, together in ((30, [2]), (29, [1, 1]), (5, [1, 1])):
        monkeypatch.setattr(pairs_module, "_EXAMPLES_AT_ONCE", most)
        one = batch()
        one.core.told = [told(0), told(1)]
        assert [record.pair for record in one.advance(9.0)] == [0, 1] and asked == together
        asked.clear()


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
