"""Scores computed anew, what the core says of them, and which examples are left out."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from multimargin import KernelSVM, _core
from multimargin.kernel import certificate as certificate_module
from multimargin.kernel import machine as machine_module
from multimargin.kernel import pairs as pairs_module
from multimargin.kernel.certificate import Certifier, ExactScores, at_once, at_risk, doubts, errors
from multimargin.kernel.functions import Kernel
from multimargin.kernel.store import kernel_store
from multimargin.problems.formulations import FORMULATIONS
from tests.kernel.problems import clusters, problem_of, run, store_of

POLICIES = ("crammer_singer", "weston_watkins", "one_vs_rest")
EPS32, EPS64 = 2.0**-23, 2.0**-52
DIAGONAL = np.ones(1)  # which only kernels that others compute need


def same(a, b):
    return all(
        getattr(a, name) == pytest.approx(getattr(b, name), rel=1e-9, abs=1e-12)
        for name in ("violation", "primal", "dual", "worst_gap", "bias")
    )


def trained(policy, solver="block", tol=1e-2):
    """A machine of the core, what it told last, and its examples."""
    problem = problem_of(policy, n=60, seed=3)
    label, store = problem.label.astype(np.int32), store_of(problem.X)
    if solver == "block":
        core = _core.KernelMachine.block(store, [0], policy, 4, label, problem.cap, 0, True, 0)
    else:
        given = ("kkt", "mean", "exact", 1.0, True, True, tol, 0, 0)
        core = _core.KernelMachine.decomposition(store, policy, 4, label, problem.cap, *given)
    return core, run(core, tol), label, problem


def binary(solver, free_bias, tol=1e-2):
    X, label = clusters(60, 2, seed=5)
    X, cap = X + 2.0, np.random.RandomState(1).uniform(0.5, 2.0, size=60)
    sign = np.where(label == 1, 1, -1).astype(np.int32)
    if solver == "block":
        core = _core.KernelMachine.smo(store_of(X), [0], sign, cap, 0)
    else:
        core = _core.KernelMachine.plain_smo(store_of(X), [0], sign, cap, free_bias, True, tol)
    return core, run(core, tol), sign, cap, X


def signs_to_labels(sign):
    return np.where(sign > 0, 0, -1).astype(np.int32)


# The core


@pytest.mark.parametrize(
    ("policy", "solver"),
    [*((policy, "block") for policy in POLICIES), *((policy, "decomposition") for policy in POLICIES[:2])],
)
def test_a_certificate_is_what_the_machine_says(policy, solver):
    core, told, label, problem = trained(policy, solver)
    duals, scores = core.duals(), core.scores(np.arange(60))
    again, violation = _core.lane_certificate(policy, label, problem.cap, duals, scores)
    assert same(again, told) and again.complete and violation.max() == pytest.approx(told.violation)
    # Examples without duals and without a loss change nothing.
    worth = duals.any(axis=1) | (violation > 0)
    assert 0 < worth.sum() < 60
    some = label[worth], problem.cap[worth], duals[worth], scores[worth]
    assert same(_core.lane_certificate(policy, *some)[0], told)


@pytest.mark.parametrize("solver", ["block", "decomposition"])
def test_a_certificate_with_a_free_bias_is_what_the_machine_says(solver):
    core, told, sign, cap, _ = binary(solver, True)
    duals, scores = core.duals().ravel(), core.scores(np.arange(60)).ravel()
    (again,) = _core.binary_certificates(np.array([0, 60]), sign, cap, duals, scores)
    assert same(again, told) and again.bias == told.bias != 0
    worth = (duals != 0) | (sign * (scores + told.bias) < 1)
    assert 0 < worth.sum() < 60
    some = sign[worth], cap[worth], duals[worth], scores[worth]
    (few,) = _core.binary_certificates(np.array([0, worth.sum()]), *some)
    assert (few.primal, few.dual, few.bias) == pytest.approx((told.primal, told.dual, told.bias), rel=1e-9)


def test_a_binary_machine_without_a_bias_is_a_lane():
    core, told, sign, cap, _ = binary("decomposition", False)
    label = np.where(sign > 0, 0, -1).astype(np.int32)
    again, _ = _core.lane_certificate("one_vs_rest", label, cap, core.duals(), core.scores(np.arange(60)))
    assert (again.primal, again.dual, again.worst_gap) == pytest.approx((told.primal, told.dual, told.worst_gap))


def test_scores_that_are_no_numbers_prove_nothing():
    label, cap, duals = np.array([0, 1], dtype=np.int32), np.ones(2), np.zeros((2, 2))
    for bad in (np.nan, np.inf):
        told, _ = _core.lane_certificate("crammer_singer", label, cap, duals, np.array([[0, bad], [0, 0.0]]))
        assert told.worst_gap == np.inf and told.stuck
        sign = np.array([1, -1], dtype=np.int32)
        (told,) = _core.binary_certificates(np.array([0, 2]), sign, cap, np.zeros(2), np.array([-bad, 0.0]))
        assert told.worst_gap == np.inf or told.primal != told.primal


LANES = ("crammer_singer", np.array([0, 1], np.int32), np.ones(2), np.zeros((2, 2)), np.zeros((2, 2)))
SIGNED = (np.array([0, 2]), np.array([1, -1], np.int32), np.ones(2), np.zeros(2), np.zeros(2))


@pytest.mark.parametrize(
    ("function", "given", "at", "bad", "words"),
    [
        ("lane_certificate", LANES, 0, "nonsense", "formulation"),
        ("lane_certificate", LANES, 1, np.array([0, 2], np.int32), "not a lane"),
        ("lane_certificate", LANES, 1, np.array([0, -1], np.int32), "not a lane"),
        ("lane_certificate", LANES, 1, np.zeros(3, np.int32), "one for each example"),
        ("lane_certificate", LANES, 2, np.ones(3), "one for each example"),
        ("lane_certificate", LANES, 2, np.array([1.0, 0.0]), "positive and finite"),
        ("lane_certificate", LANES, 3, np.zeros((3, 2)), "examples x lanes"),
        ("lane_certificate", LANES, 3, np.zeros((2, 3)), "examples x lanes"),
        ("lane_certificate", LANES, 4, np.zeros((1, 2)), "examples x lanes"),
        ("lane_certificate", LANES, 4, np.zeros((2, 1)), "at least two lanes"),
        ("lane_certificate", LANES, 4, np.zeros((2, 0)), "at least one lane"),
        ("binary_certificates", SIGNED, 0, np.array([0, 3]), "end at the number of examples"),
        ("binary_certificates", SIGNED, 0, np.array([1, 2]), "begin at 0"),
        ("binary_certificates", SIGNED, 0, np.array([0, 2, 1, 2]), "not decrease"),
        ("binary_certificates", SIGNED, 0, np.array([0]), "begin at 0"),
        ("binary_certificates", SIGNED, 1, np.array([1, 0], np.int32), "1 or -1"),
        ("binary_certificates", SIGNED, 1, np.ones(3, np.int32), "one for each example"),
        ("binary_certificates", SIGNED, 2, np.array([1.0, np.inf]), "positive and finite"),
        ("binary_certificates", SIGNED, 3, np.zeros(1), "one for each example"),
        ("binary_certificates", SIGNED, 4, np.zeros(3), "one for each example"),
    ],
)
def test_what_a_certificate_refuses(function, given, at, bad, words):
    getattr(_core, function)(*given)
    with pytest.raises(ValueError, match=words):
        getattr(_core, function)(*given[:at], bad, *given[at + 1 :])


@pytest.mark.parametrize(("function", "given"), [("lane_certificate", LANES), ("binary_certificates", SIGNED)])
def test_arrays_of_other_kinds_are_refused(function, given):
    for at in range(1, len(given)):
        for bad in (given[at][None], given[at].astype(object), "text", None):
            with pytest.raises(TypeError):
                getattr(_core, function)(*given[:at], bad, *given[at + 1 :])


def test_no_examples_are_no_loss():
    none = np.zeros(0, np.int32), np.zeros(0)
    told, violation = _core.lane_certificate("weston_watkins", *none, np.zeros((0, 3)), np.zeros((0, 3)))
    assert (told.primal, told.dual, told.worst_gap, len(violation)) == (0, 0, 0, 0)
    nobody = _core.binary_certificates(np.array([0, 0, 0]), *none, np.zeros(0), np.zeros(0))
    assert [told.worst_gap for told in nobody] == [0, 0]


# Scores


def of(kernel, X, storage):
    given = sp.csr_array(X) if storage == "csr" else X
    if kernel == "precomputed":
        return Kernel("precomputed"), Kernel("rbf", 0.5).block(X, X)
    if kernel == "callable":
        return Kernel("callable", function=lambda A, B: (A @ B.T + 1.0) ** 2), X
    return Kernel(kernel, 0.5, 2, 1.0), given


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "sigmoid", "precomputed", "callable"])
@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("values", "rows", "density"), [(1 << 18, 128, 0.7), (20, 128, 0.7), (1 << 18, 3, 0.03)])
@pytest.mark.parametrize("prepared", [50, 1 << 22])
def test_scores_are_kernel_times_duals(monkeypatch, kernel, storage, dtype, values, rows, density, prepared):
    monkeypatch.setattr(certificate_module, "_PREPARED", prepared)
    monkeypatch.setattr(certificate_module, "_VALUES_AT_ONCE", values)
    monkeypatch.setattr(certificate_module, "_ROWS_AT_ONCE", rows)
    monkeypatch.setattr(certificate_module, "_WORTH_A_CALL", 6 * rows)
    random = np.random.RandomState(0)
    X = (random.normal(size=(30, 4)) + 3.0).astype(dtype)
    function, given = of(kernel, X, storage)
    held = random.permutation(30)[:25]  # rows of X that are in the store, in its order
    K = function.block(given.astype(np.float64), given.astype(np.float64))[np.ix_(held, held)] + 0.25
    support, others = np.array([1, 2, 7, 11, 12, 20]), np.array([0, 24, 9])
    duals = random.normal(size=(6, 12)) * (random.uniform(size=(6, 12)) < density)
    assert duals.any()
    exact = ExactScores(function, given, held, 0.25, DIAGONAL, eps=EPS32)
    scores, blur = at_once(exact.scores(support, others, duals if density > 0.1 else sp.csr_array(duals)))
    assert blur.shape == scores.shape and not blur.any()
    expected = K[np.concatenate([support, others])][:, support] @ duals
    np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=1e-12)


def test_no_duals_no_scores():
    exact = ExactScores(Kernel("linear"), np.eye(3), np.arange(3), 0.5, DIAGONAL, eps=EPS32)
    none = np.zeros(0, dtype=np.int64)
    assert at_once(exact.scores(none, np.arange(3), np.zeros((0, 2))))[0].tolist() == [[0, 0]] * 3
    assert at_once(exact.scores(none, none, np.zeros((0, 2))))[0].shape == (0, 2)


def test_slabs_are_of_bounded_work(monkeypatch):
    exact = exact_of(Kernel("linear"), np.ones((40, 10)))
    monkeypatch.setattr(certificate_module, "_ROWS_AT_ONCE", 2)
    monkeypatch.setattr(certificate_module, "_WORTH_A_CALL", 40)
    assert exact.cost == 110.0 and exact.work(20, 20) == 110.0 * (200 + 400)
    given = np.arange(20), np.arange(20, 40), np.ones((20, 1))
    monkeypatch.setattr(certificate_module, "_WORK_OF_SLAB", 110.0 * 39)
    assert sum(1 for _ in exact.scores(*given)) >= 10
    monkeypatch.setattr(certificate_module, "_WORK_OF_SLAB", 110.0 * 1000)
    assert sum(1 for _ in exact.scores(*given)) == 0


def test_foreign_values_are_taken_as_they_are():
    """A matrix that is symmetric but for rounding has two values for a pair: that of the row's own line counts."""
    K = np.array([[1.0, 0.5], [0.50001, 1.0]])
    for kernel, X in ((Kernel("precomputed"), K), (Kernel("callable", function=lambda A, B: K), np.eye(2))):
        exact = ExactScores(kernel, X, np.arange(2), 0.0, DIAGONAL, eps=EPS32)
        scores, _ = at_once(exact.scores(np.arange(2), np.zeros(0, np.int64), np.ones((2, 1))))
        assert scores.ravel().tolist() == [1.5, 1.50001]


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize(
    ("row", "gamma", "blurred"),
    [
        ((1.0, 0.0), 1e20, 0.0),  # the same as another one
        ((1.0, -0.0), 1e20, 0.0),
        ((1.0 + 1e-9, 0.0), 1e20, 1.0),  # nearly the same
        ((1.0 + 1e-9, 0.0), 1.0, 0.0),  # whose distance makes no difference
        ((1.0 + 1e-6, 0.0), 1e20, 0.0),  # its distance is known to a hundredth: the value is zero
        ((1.0 + 1e-6, 0.0), 1e12, 0.005),  # exp(-1), give or take a little
        ((1.5, 0.5), 1e20, 0.0),
    ],
)
def test_values_that_float64_does_not_know(storage, row, gamma, blurred):
    X = np.array([(1.0, 0.0), (5.0, -2.0), row, (-3.0, 4.0)])
    if storage == "csr":
        X = sp.csr_array(X)
    exact = exact_of(Kernel("rbf", gamma=gamma), X)
    for support, others in (([0, 1], [2, 3]), ([0, 1, 2, 3], []), ([2, 3], [1, 0])):
        duals = np.full((len(support), 1), -2.0)
        _, blur = at_once(exact.scores(np.array(support), np.array(others, dtype=np.int64), duals))
        assert blur.max() == pytest.approx(2 * blurred, rel=0.9) and (blur > 0).sum() == (2 if others == [] else 1) * (
            blurred > 0
        )
    _, of_others = at_once(exact.scores(np.array([1]), np.array([0, 2, 3]), np.ones((1, 1))))
    assert not of_others.any()  # what is not asked for need not be known


# Which examples


@pytest.mark.parametrize("policy", POLICIES)
def test_at_risk_is_who_has_a_loss_with_worse_scores(policy):
    random = np.random.RandomState(2)
    scores, label = 2 * random.normal(size=(200, 3)), random.randint(3, size=200).astype(np.int32)
    room = np.where(np.arange(200) % 2, 0.2, 0.6)
    own = np.arange(3) == label[:, None]
    if policy == "one_vs_rest":
        margin = np.where(own, scores, -scores).min(axis=1) - room
    else:
        margin = (scores[own][:, None] - np.where(own, -np.inf, scores)).min(axis=1) - 2 * room
    expected = margin < 1
    assert 20 < expected.sum() < 198
    assert (at_risk(policy, label, np.ones(200), scores, room) == expected).all()


def exact_of(kernel, X, bias=0.0, eps=EPS32):
    return ExactScores(kernel, X, np.arange(X.shape[0]), bias, np.ones(X.shape[0]), eps=eps)


@pytest.mark.parametrize(
    ("kernel", "units", "of_pair"),
    [
        (Kernel("linear"), 8.5, lambda x, z: np.sqrt(x + 0.5) * np.sqrt(z + 0.5)),
        (Kernel("poly", 0.1, 2, 1.5), 17.0, lambda x, z: np.sqrt(((0.1 * x + 1.5) * (0.1 * z + 1.5)) ** 2 + 0)),
        (Kernel("sigmoid", 0.1, coef0=-1.5), 8.5, lambda x, z: np.sqrt((0.1 * x + 3.0) * (0.1 * z + 3.0))),
        (Kernel("rbf", 0.1), 24.5, lambda x, z: 0.1 * (x + z) + 1.5),
    ],
)
def test_room_is_a_bound_of_what_rounding_does(kernel, units, of_pair):
    X = np.random.RandomState(0).normal(size=(12, 9))
    bias = 0.0 if kernel.name == "poly" else 0.5
    exact = exact_of(kernel, X, bias)
    norms = np.square(X - X.mean(axis=0) if kernel.name == "rbf" else X).sum(axis=1)
    support, duals = np.array([1, 4, 6]), np.array([[1.0, 0.0], [-2.0, 0.5], [0.0, -3.0]])
    B = of_pair(norms[:, None], norms[support])
    assert exact.units == units
    for lane in (0, 1):
        sums = exact.sums(support, duals)[:, lane]
        np.testing.assert_allclose(exact.magnitude(np.arange(12), sums), B @ np.abs(duals[:, lane]))
        largest = np.max(of_pair(norms[:, None], norms), axis=1) if kernel.name != "rbf" else 1.5
        expected = EPS32 * (units * B @ np.abs(duals[:, lane]) + 7.0 * largest)
        np.testing.assert_allclose(exact.room(np.arange(12), sums, 7.0), expected)
    np.testing.assert_allclose(exact.sums(support, sp.csr_array(duals)), exact.sums(support, duals), rtol=1e-12)


@pytest.mark.parametrize("name", ["linear", "poly", "sigmoid", "rbf"])
@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("seed", range(4))
def test_rounding_in_float32_stays_within_the_room(name, storage, seed):
    """Rows of all lengths, some of numbers that float32 has, far from zero or not."""
    random = np.random.RandomState(seed)
    X = random.normal(size=(120, 40)) * 10.0 ** random.uniform(-3, 1, size=(120, 1)) + random.choice([0.0, 5.0])
    X[::3] = np.round(X[::3])
    label = random.randint(3, size=120).astype(np.int32)
    given = X if storage == "dense" else sp.csr_array(X)
    kernel = Kernel(name, 10.0 ** random.uniform(-4, -1), 2, 1.0)
    store = kernel_store(
        kernel, given, np.arange(120), np.array([0, 120]), bias=0.5, budget=1 << 24, single_precision=True
    )
    core = _core.KernelMachine.block(store, [0], "crammer_singer", 3, label, np.full(120, 3.0), 16, True, 0)
    for _ in range(12):
        core.advance()
    duals = core.duals()
    exact = exact_of(kernel, given, 0.5)
    sums = exact.sums(np.arange(120), duals).max(axis=1)
    scores, _ = at_once(exact.scores(np.arange(120), np.zeros(0, np.int64), duals))
    off = np.abs(scores - core.scores(np.arange(120))).max(axis=1)
    assert 4.5 * np.abs(duals).sum(axis=0).max() <= core.travelled < np.inf
    assert off.max() > 0 and np.all(off <= exact.room(np.arange(120), sums, core.travelled))


def test_of_values_from_elsewhere_and_steps_that_nobody_counts_there_is_no_bound():
    X, sums = np.eye(3), np.ones(2)
    for kernel in (Kernel("precomputed"), Kernel("callable", function=lambda A, B: A @ B.T)):
        assert np.all(exact_of(kernel, X).room(np.arange(3), sums, 1.0) == np.inf)
    assert np.all(exact_of(Kernel("linear"), X).room(np.arange(3), sums, np.inf) == np.inf)
    assert np.all(exact_of(Kernel("linear"), 1e200 * X).room(np.arange(3), np.zeros(2), np.inf) == np.inf)
    assert trained("crammer_singer", "decomposition")[0].travelled == np.inf


def test_what_scores_computed_anew_may_be_off_by():
    X = np.eye(4)
    rows, sums, off = np.arange(4), np.array([3.0, 2.0]), np.array([1e-3, -1e-3, 0.0, 0.0])
    blur = np.array([0.0, 0.0, 0.0, 0.5])
    for eps, shown, units in ((EPS32, 2.0**-29, 6.0), (EPS64, 1.0, 1.0)):
        expected = np.maximum(shown * np.abs(off), EPS64 * units * 2.0) + blur
        assert np.array_equal(exact_of(Kernel("linear"), X, eps=eps).lost(rows, sums, off, blur), expected)


class Watched(ExactScores):
    """Counts the rows that it computes."""

    def scores(self, support, others, coef):
        self.counted = [*getattr(self, "counted", []), len(support) + len(others)]
        return (yield from super().scores(support, others, coef))


class Off:
    """A machine whose scores are off by so much."""

    travelled = 4e4

    def __init__(self, core, by):
        self.core, self.by, self.duals, self.lanes = core, by, core.duals, core.lanes

    def scores(self, examples):
        return self.core.scores(examples) + self.by


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("share", "all_of_them"), [(0.0, False), (0.9, False), (-0.9, False), (1.1, True)])
def test_certificates_are_of_the_duals_alone(policy, share, all_of_them):
    core, told, label, problem = trained(policy)
    exact = Watched(Kernel("linear"), problem.X, np.arange(60), 0.0, DIAGONAL, eps=EPS32)
    held = np.flatnonzero(core.duals().any(axis=1))
    sums = exact.sums(held, core.duals()[held]).max(axis=1)
    by = share * exact.room(held, sums, Off.travelled).min()
    certifier = Certifier(exact, policy, label, problem.cap, False, np.arange(60))
    made = at_once(certifier.certificate(Off(core, by), 0.0))
    assert same(made.told, told)
    assert exact.counted[0] < 60 and exact.counted[1:] == ([60] if all_of_them else [])
    felt = problem.cap[core.duals().any(axis=1)].sum()
    assert made.doubt == pytest.approx(2.0**-29 * abs(by) * felt / told.primal, abs=1e-11)
    exact.eps = EPS64
    in_double = at_once(certifier.certificate(Off(core, by), 0.0)).doubt  # rows that it may give a loss count, too
    least, most = (min(abs(by) * caps / told.primal, 1.0) for caps in (felt, problem.cap.sum()))
    assert least * (1 - 1e-6) <= in_double <= most + 1e-9


@pytest.mark.parametrize("solver", ["block", "decomposition"])
def test_certificates_with_a_free_bias(solver):
    core, told, sign, cap, X = binary(solver, True)
    exact = Watched(Kernel("linear"), X, np.arange(60), 0.0, DIAGONAL, eps=EPS32)
    certifier = Certifier(exact, "one_vs_rest", signs_to_labels(sign), cap, True, np.arange(60))
    made = at_once(certifier.certificate(core, told.bias))
    assert same(made.told, told) and (exact.counted[0] < 60) == (solver == "block")
    assert same(certifier.of_kept_scores(core), told)


@pytest.mark.parametrize(
    ("off", "cap", "primal", "is_off"),
    [
        ([2.0, 2.0, 2.0], [1.0, 2.0, 5.0], -20.0, 0.3),
        ([3.0, 1.0, 1.0], [1.0, 1.0, 1.0], 20.0, np.sqrt(11 / 3) * 2 / 20),
        ([0.0, 0.0, 3.0], [1.0, 1.0, 2.0], 30.0, np.sqrt(18 / 4) * 2 / 30),  # the weights make it more ...
        ([3.0, 0.0, 0.0], [1.0, 1.0, 2.0], 30.0, np.sqrt(9 / 3) * 2 / 30),  # ... or they do not count
        ([0.0, 0.0, 0.0], [1.0, 2.0, 5.0], 0.0, 0.0),
        ([2.0, 2.0, 2.0], [1.0, 2.0, 5.0], 0.0, 1.0),
        ([1e150, 0.0, 0.0], [1e200, 1.0, 1.0], 1.0, 1.0),
        ([np.nan, 0.0, 0.0], [1.0, 1.0, 1.0], 1e9, 1.0),
    ],
)
def test_doubt_is_what_scores_are_off_by(off, cap, primal, is_off):
    held = np.array([True, True, False])
    given = np.array(off), np.array(cap), held
    assert doubts(*given, np.zeros(3, dtype=int), np.array([primal])) == pytest.approx([is_off])
    second = [np.concatenate([values, [7.0] * 3]) for values in given[:2]]
    both = doubts(*second, np.tile(held, 2), np.repeat([1, 0], 3), np.array([1e9, primal]))
    assert both == pytest.approx([7.0 * 14.0 / 1e9, is_off])


def test_errors_have_squares():
    given = np.array([1.0, np.inf, 1e300, 3.0]), np.array([0.5, 0.0, -1e300, np.nan])
    assert errors(*given).tolist()[:3] == [0.5, 1e150, 1e150] and np.isnan(errors(*given)[3])


def test_more_work_than_allowed_is_not_begun():
    core, _, label, problem = trained("crammer_singer")
    exact = Watched(Kernel("linear"), problem.X, np.arange(60), 0.0, DIAGONAL, eps=EPS32)
    certifier = Certifier(exact, "crammer_singer", label, problem.cap, False, np.arange(60))
    at_once(certifier.certificate(core, 0.0))
    support = int(core.duals().any(axis=1).sum())
    least = exact.work(support, exact.counted[0] - support)
    del exact.counted
    assert at_once(certifier.certificate(core, 0.0, 0.99 * least)) is None and not hasattr(exact, "counted")
    assert at_once(certifier.certificate(core, 0.0, least)) is not None
    assert at_once(certifier.certificate(Off(core, 5.0), 0.0, least)) is None  # nor are all of them


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_scores_are_read_in_chunks(monkeypatch, chunk):
    monkeypatch.setattr(certificate_module, "_SCORES_AT_ONCE", chunk)
    core, told, label, problem = trained("weston_watkins")
    exact = ExactScores(Kernel("linear"), problem.X, np.arange(60), 0.0, DIAGONAL, eps=EPS32)
    certifier = Certifier(exact, "weston_watkins", label, problem.cap, False, np.arange(60))
    assert same(at_once(certifier.certificate(core, 0.0)).told, told)


def test_memory_that_cannot_be_had_is_a_memory_error():
    exact = exact_of(Kernel("linear"), np.ones((2, 1)))

    def too_much(*shape):
        raise MemoryError

    exact.kernel = SimpleNamespace(name="linear", block=too_much)
    with pytest.raises(MemoryError):
        at_once(exact.scores(np.arange(2), np.zeros(0, np.int64), np.ones((2, 1))))


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("prepared", [0, 1 << 22])
def test_lengths_are_those_of_the_rows_in_the_order_of_the_store(monkeypatch, storage, prepared):
    monkeypatch.setattr(certificate_module, "_PREPARED", max(prepared, 7))
    X = np.random.RandomState(0).normal(size=(50, 2))
    X[3] += 30.0
    order = np.random.RandomState(1).permutation(50)
    given = X if storage == "dense" else sp.csr_array(X)
    exact = ExactScores(Kernel("rbf", gamma=1.0), given, order, 0.0, DIAGONAL, eps=EPS32)
    X = X - X.mean(axis=0) if storage == "dense" else X
    np.testing.assert_allclose(exact.size, np.square(X[order]).sum(axis=1) + 0.5, rtol=1e-12)


def test_scores_that_are_no_numbers_are_at_risk():
    scores, label = np.array([[5.0, 0.0], [np.nan, 0.0]]), np.zeros(2, np.int32)
    assert at_risk("crammer_singer", label, np.ones(2), scores, np.full(2, 0.01)).tolist() == [False, True]


def test_scores_that_overflow_are_at_risk_without_a_word():
    core, told, sign, cap, X = binary("block", True)
    exact = Watched(Kernel("linear"), X, np.arange(60), 0.0, DIAGONAL, eps=EPS32)
    certifier = Certifier(exact, "one_vs_rest", signs_to_labels(sign), cap, True, np.arange(60))
    made = at_once(certifier.certificate(Off(core, np.inf), -np.inf))
    assert exact.counted == [60] and same(made.told, told)


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_duals_that_are_out_of_range_are_warned_of_and_nothing_else(formulation):
    X = np.hstack([np.random.RandomState(0).normal(size=(30, 2)), np.ones((30, 2))]).astype(np.float32)
    model = KernelSVM(formulation, C=1e100, max_iter=20)
    with pytest.warns(ConvergenceWarning, match=r"gap is [0-9.e+-]+") as caught:
        model.fit(X, np.arange(30) % 3)
    assert {warning.category for warning in caught} == {ConvergenceWarning} and not model.converged_


def primal_of(model, X, y, cap):
    """The objective of a free bias, from what the model holds: one against the other, class by class."""
    duals, total = model.dual_coef_.toarray(), 0.0
    for j, (u, v) in enumerate(((0, 1), (0, 2), (1, 2))):
        rows = np.isin(y, (u, v))
        scores = X[rows] @ (X[rows].T @ duals[rows, j])
        sign = np.where(y[rows] == u, 1, -1)
        losses = np.maximum(0, 1 - sign * (scores + model.intercept_[j]))
        total += 0.5 * duals[rows, j] @ scores + cap[rows] @ losses
    return total


@pytest.mark.parametrize("seed", range(60))
def test_the_bias_is_not_chosen_by_some_examples_alone(seed):
    """All duals are at their bounds, and the objective does not change between two values of the bias: which one it is
    hangs on rounding, and others of the examples bound it."""
    random = np.random.RandomState(seed)
    n, far = random.randint(2, 12), random.randint(1, 6)
    C, weight = random.choice([0.1, 0.3, 0.7, 1 / 3, 1.1]), random.randint(1, 9, size=n) / 8
    near = random.uniform(0.2, 1.0, size=(2, n))
    near *= 0.25 / np.sqrt(C * (near @ weight).sum())
    beyond = random.uniform(1.3, 2.0, size=(2, far)) / (C * (near @ weight).sum())
    X = np.concatenate([near[0], -near[1], beyond[0], -beyond[1], np.zeros(3)])[:, None]
    X = np.hstack([X, np.concatenate([np.zeros(len(X) - 3), [50.0, 51.0, 52.0]])[:, None]])
    y = np.repeat([1, 0, 1, 0, 2], [n, n, far, far, 3])
    weights = np.concatenate([weight, weight, np.ones(2 * far + 3)])
    order = random.permutation(len(y))
    X, y, weights = X[order], y[order], weights[order]
    model = KernelSVM("one_vs_one", kernel="linear", C=C).fit(X, y, sample_weight=weights)
    assert model.primal_objective_ == pytest.approx(primal_of(model, X, y, C * weights), rel=1e-9)


@pytest.mark.parametrize(
    ("counts", "x", "C", "working_set"),
    [((340, 170, 2, 500), 1.491439700126648, 1024.0, None), ((2720, 1360, 2, 1000), 1.5015863180160522, 32.0, 4082)],
)
def test_sums_of_many_equal_changes_are_counted(counts, x, C, working_set):
    """Equal numbers are rounded alike: errors of their sums in float32 grow with their number."""
    X, y = np.repeat([1.0, 2.0, 0.0, np.float32(x)], counts)[:, None], np.repeat([1, 0, 0, 0], counts)
    y[sum(counts[:3]) - 1] = 1
    given = {"C": C, "fit_intercept": False, "working_set": working_set}
    model = KernelSVM("one_vs_rest", kernel="linear", **given).fit(X, y)
    duals, sign = model.dual_coef_.toarray().ravel().astype(np.longdouble), np.where(y == 1, 1, -1)
    scores = X[:, 0] * (X[:, 0] @ duals)
    primal = duals @ scores / 2 + C * np.maximum(0, 1 - sign * scores).sum()
    assert model.primal_objective_ == pytest.approx(float(primal), rel=1e-6)


@pytest.mark.parametrize(("a", "C", "n"), [(1479.66, 1e5, 600), (14659.85, 100.0, 2000)])
def test_copies_of_a_support_vector_are_felt(a, C, n):
    """They have a margin of 1 and no duals, so each has a loss of C times rounding."""
    X, y = np.repeat([[a], [-a]], n // 2, axis=0), np.repeat([0, 1], n // 2)
    with pytest.warns(ConvergenceWarning, match="not known any better"):
        model = KernelSVM("one_vs_rest", kernel="linear", C=C).fit(X, y)
    assert not model.converged_ and model.dual_gap_ > 1e-3


# Fits whose rows float32 does not tell apart, against objectives of their own


def objectives_of(model, K, y, cap):
    """Primal and dual value of Crammer and Singer's problem, from the duals alone, in long double."""
    duals = model.dual_coef_.toarray().astype(np.longdouble)
    scores, rows = K.astype(np.longdouble) @ duals, np.arange(len(y))
    square = (duals * scores).sum() / 2
    losses = (scores + (np.arange(duals.shape[1]) != y[:, None]) - scores[rows, y][:, None]).max(axis=1)
    return float(square + cap @ losses), float(duals[rows, y].sum() - square)


def is_what_it_says(model, K, y, cap):
    primal, dual = objectives_of(model, K, y, cap)
    assert model.primal_objective_ == pytest.approx(primal, rel=1e-6)
    assert model.dual_objective_ == pytest.approx(dual, rel=1e-6)
    assert model.converged_ and (primal - dual) / primal <= 1.01 * model.tol


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("weight", [1.0, 1000.0])
@pytest.mark.parametrize("seed", range(3))
def test_one_row_that_float32_rounds_among_rows_that_it_does_not(storage, weight, seed):
    random = np.random.RandomState(seed)
    y = np.repeat([0, 1, 2], [300, 300, 500])
    X, side = np.zeros((1100, 3)), np.where(y[:600] == 0, 1, -1)
    X[:600, 0] = side * random.randint(8, 24, size=600) / 8 * 15 / 256
    X[:600, 1], X[600:, 2] = -X[:600, 0], 1.5 * 2.0**19
    i = random.randint(300)
    X[i] = [2.0**19 + 1.5 / 16 + 1e-3, 2.0**19, 0]  # 2^19 + 1/8 in float32: it seems to have no loss
    weights = np.ones(1100)
    weights[i] = weight
    given = X if storage == "dense" else sp.csr_array(X)
    model = KernelSVM("crammer_singer", kernel="linear", C=10.0, fit_intercept=False).fit(given, y, weights)
    is_what_it_says(model, X @ X.T, y, 10 * weights)


@pytest.mark.parametrize("C", [0.004, 10.0])
def test_rows_that_float32_takes_for_equal(C):
    """Far from the mean, rows between two heaps have their scores in float32, though their own are others: be it by
    many small duals or by few large ones."""
    points = np.array([(700.0, 1.2, 0), (700.0, -1.2, 0), (-350.0, 0, 500.0), (-350.0, 0, -500.0), (700.0, 0, 0)])
    which = np.random.RandomState(0).permutation(np.repeat(np.arange(5), [400, 400, 300, 300, 20]))
    X, y = points[which], np.array([0, 0, 1, 2, 0])[which]
    model = KernelSVM("crammer_singer", gamma=1.0, C=C, fit_intercept=False).fit(X, y)
    K = np.exp(-np.square(points[:, None] - points).sum(axis=2))[np.ix_(which, which)]
    is_what_it_says(model, K, y, np.full(len(y), C))


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("solver", ["block", "decomposition"])
def test_large_duals_of_numbers_that_float32_has_are_doubted_too(formulation, solver):
    """Integers: float32 rounds none of their products, so its scores tell nothing of how float64 rounds large duals."""
    random = np.random.RandomState(111)
    X = random.randint(-3, 4, size=(4, 2)).astype(float)[random.randint(4, size=30)]
    model = KernelSVM(formulation, kernel="linear", C=1e14, max_iter=60, solver=solver)
    with pytest.warns(ConvergenceWarning):
        model.fit(X, np.arange(30) % 3, random.uniform(0.1, 1, size=30))
    assert not model.converged_ and model.dual_gap_ > 1e-3


@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_rest", "one_vs_one"])
@pytest.mark.parametrize("limits", [{}, {"stopping": "violation"}, {"max_iter": 1}, {"max_iter": 3}])
def test_distances_that_float64_cannot_tell_are_not_vouched_for(formulation, limits):
    """Near the origin rows differ by little beside those that are far away, and count as equal."""
    X = np.concatenate([np.random.RandomState(0).normal(size=(30, 2)), [[1e9, 1e9], [-1e9, 3e9], [2e9, -1e9]]])
    y = np.arange(33) % 3
    with pytest.warns(ConvergenceWarning, match="not known any better"):
        model = KernelSVM(formulation, gamma=1.0, C=10.0, **limits).fit(X, y)
    assert not model.converged_ and model.dual_gap_ >= 1.0 and model.worst_gap_ >= 1.0
    assert KernelSVM(formulation, gamma=1.0, C=10.0).fit(X[:30], y[:30]).converged_


@pytest.mark.parametrize("solver", ["block", "decomposition"])
@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_rest"])
def test_without_the_time_to_certify_objectives_are_of_the_duals_as_they_are(monkeypatch, formulation, solver):
    """A step is not a round: duals may have moved since the last one that told something."""
    monkeypatch.setattr(machine_module, "_SHORT_WORK", 0.0)
    X, y = clusters(200, 3, seed=1)
    records = []
    limits = {
        "block": {"max_iter": 1, "working_set": 8},
        "decomposition": {"callbacks": [lambda record: records.append(record) or len(records) >= 2]},
    }
    model = KernelSVM(formulation, gamma=0.5, C=100.0, fit_intercept=False, solver=solver, **limits[solver])
    with pytest.warns(ConvergenceWarning, match="by scores as training kept them"):
        model.fit(X, y)
    K = np.exp(-0.5 * np.square(X[:, None] - X).sum(axis=2))
    duals = model.dual_coef_.toarray()
    scores, rows = K @ duals, np.arange(200)
    if formulation == "crammer_singer":
        losses = (scores + (np.arange(3) != y[:, None]) - scores[rows, y][:, None]).max(axis=1).sum()
    else:
        losses = np.maximum(0, 1 - np.where(np.arange(3) == y[:, None], scores, -scores)).sum()
    assert model.primal_objective_ == pytest.approx((duals * scores).sum() / 2 + 100 * losses, rel=1e-4)


@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_one"])
def test_what_is_not_known_is_added_to_the_gap(monkeypatch, formulation):
    X, y = clusters(60, 3, seed=5)
    unknown = 1e-3

    def some(off, cap, felt, machine, primal):
        return np.full(len(primal), unknown)

    monkeypatch.setattr(certificate_module, "doubts", some)
    monkeypatch.setattr(pairs_module, "doubts", some)
    model = KernelSVM(formulation, tol=1e-2, random_state=0).fit(X, y)
    gap = 1 - model.dual_objective_ / model.primal_objective_
    assert model.converged_ and model.worst_gap_ <= model.tol
    assert model.dual_gap_ == pytest.approx(gap + unknown, abs=1e-12)
    assert model.worst_gap_ >= model.dual_gap_ - 1e-12
