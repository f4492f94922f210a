"""Ranks in threads, joined by the tree, against one machine."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from multimargin import LinearSVM
from multimargin.distributed import fitting, occupied_rows, shared_examples
from multimargin.distributed import rank as rank_module
from multimargin.distributed import rounds as rounds_of_ranks
from multimargin.distributed.collective import Alone, Listener, PeerLost, connect, why_unreachable
from multimargin.distributed.fitting import fit_shared
from multimargin.distributed.rank import Job, Part, Rank
from multimargin.distributed.shared_examples import SharedExamples
from multimargin.linear.algorithm import Settings
from multimargin.linear.directions import SAMPLE, leading
from multimargin.linear.machine import SCALES
from multimargin.linear.solvers import SOLVERS


def digits(rows=500):
    X, y = load_digits(return_X_y=True)
    return X[:rows] / 16, y[:rows].astype(np.int64)


def job(formulation="crammer_singer", loss="hinge", *, n_classes=10, C=1.0, tol=1e-2, solver="accelerated_sdm"):
    settings = Settings(tol=tol, options=SOLVERS[solver].options)
    return Job(formulation, loss, n_classes, solver, settings, 1.0, np.full(n_classes, C), 0)


def together(n, work):
    """``work(rank, collective)`` on every rank; what each returned."""
    listeners = [Listener() for _ in range(n)]
    addresses = [listener.address for listener in listeners]

    def one(rank):
        collective = connect(listeners[rank], rank, addresses, b"a secret", seconds=20)
        try:
            return work(rank, collective)
        finally:
            collective.close()

    with ThreadPoolExecutor(n) as executor:
        return [future.result() for future in [executor.submit(one, rank) for rank in range(n)]]


def trained(ranks):
    """The replies of all ranks at the end, and the number of rounds."""

    def work(number, collective):
        rank = ranks[number]
        rank.join(collective)
        for rounds in range(1, 400):
            reply = rank.advance(np.inf)
            if reply.done:
                return reply, rounds
        raise AssertionError("no end")

    return together(len(ranks), work)


def shared(X, y, bounds, this):
    return [Rank(this, {i: Part(X[a:b], y[a:b], None)}) for i, (a, b) in enumerate(pairwise(bounds))]


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_sums_are_the_same_bits_everywhere(size):
    numbers = np.random.default_rng(0).standard_normal((size, 40)).astype(np.float32)

    def work(rank, collective):
        assert (collective.rank, collective.size) == (rank, size)
        told = collective.broadcast(np.full(3, float(rank)))
        own = numbers[rank].copy()
        assert collective.allreduce(own) is own
        return own, told

    results = together(size, work)
    for total, told in results:
        np.testing.assert_array_equal(total, results[0][0])
        np.testing.assert_array_equal(told, np.zeros(3))
    np.testing.assert_allclose(results[0][0], numbers.sum(axis=0), atol=1e-5)


def test_a_rank_that_leaves_is_noticed_by_all():
    def work(rank, collective):
        if rank == 4:
            collective.close()
            return True
        with pytest.raises(PeerLost, match="gone"):
            try:
                collective.allreduce(np.ones(3))
            finally:
                collective.close()
        return True

    assert together(6, work) == [True] * 6


def test_a_rank_that_computes_for_long_is_waited_for(monkeypatch):
    """However much the others have for it: TCP must not take full buffers for the end of a machine."""
    monkeypatch.setattr("multimargin.distributed.collective._GONE_AFTER", 2.0)

    def work(rank, collective):
        time.sleep(5 if rank == 0 else 0)
        return collective.allreduce(np.ones(4_000_000))[-1]  # 32 MB

    assert together(2, work) == [2.0, 2.0]


def test_ranks_that_are_out_of_step_are_told_so():
    def work(rank, collective):
        try:
            collective.allreduce(np.ones(3 + rank))
        except (RuntimeError, PeerLost) as error:
            collective.close()
            return type(error)
        return None

    assert RuntimeError in together(2, work)


def test_a_stranger_is_turned_away_and_a_missing_rank_named():
    listener = Listener()
    address = listener.address
    with socket.create_connection(address) as stranger:
        stranger.sendall(b"x" * 40)
        with pytest.raises(PeerLost, match=r"ranks \[1\] did not call within 0.5 s"):
            connect(listener, 0, [address, ("127.0.0.1", 9)], b"secret", seconds=0.5)
    with pytest.raises(ValueError, match="rank must be from 0 to 1, got 2"):
        connect(Listener(), 2, [address, address], b"secret")


def test_a_silent_parent_is_named():
    """And not the children, which have not called yet."""
    listener = Listener()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        addresses = [silent.getsockname(), listener.address, *[("127.0.0.1", 9)] * 3]
        with pytest.raises(PeerLost, match=r"rank 1: rank 0 did not answer within 0.5 s"):
            connect(listener, 1, addresses, b"secret", seconds=0.5)


def test_a_parent_that_cannot_be_reached_is_named_with_its_address():
    listener = Listener()
    addresses = [listener.address, ("host-of-1", 9), ("host-of-2", 9)]
    assert why_unreachable(0, addresses, 5) is None
    assert why_unreachable(2, addresses, 5) is None  # it listens; that nobody answers is another matter
    listener.close()
    port = listener.address[1]
    assert f"rank 2 at host-of-2 cannot reach rank 0 at 127.0.0.1, port {port}: " in why_unreachable(2, addresses, 5)


def test_a_stranger_who_speaks_slowly_does_not_hold_up_the_end():
    listener = Listener()
    with socket.create_connection(listener.address) as stranger, ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(connect, listener, 0, [listener.address, ("127.0.0.1", 9)], b"secret", 0.5)
        said = 0
        while not waiting.done() and said < 39:  # of 40 bytes
            with suppress(OSError):
                stranger.sendall(b"x")
            said += 1
            time.sleep(0.1)
        assert waiting.done()
        with pytest.raises(PeerLost, match=r"ranks \[1\] did not call"):
            waiting.result()


def test_who_only_echoes_is_not_the_parent():
    with socket.create_server(("127.0.0.1", 0)) as impostor:

        def echo():
            peer, _ = impostor.accept()
            hello = peer.recv(40)
            peer.sendall(hello[:32] + hello[:32])
            return peer

        with ThreadPoolExecutor(1) as executor:
            answered = executor.submit(echo)
            with pytest.raises(PeerLost, match="somebody else answers"):
                connect(Listener(), 1, [impostor.getsockname(), ("127.0.0.1", 9)], b"secret", seconds=5)
            answered.result().close()


@pytest.mark.parametrize("secret", [b"secret", b"another"])
def test_a_second_caller_of_the_same_rank_is_turned_away(secret):
    """Three ranks; the first has a child 1, and whoever else says that it is 1 must not take its place."""
    listeners = [Listener() for _ in range(3)]
    addresses = [listener.address for listener in listeners]
    with ThreadPoolExecutor(2) as executor:
        root = executor.submit(connect, listeners[0], 0, addresses, b"secret", 20)
        first = connect(listeners[1], 1, addresses, b"secret", seconds=20)
        double = Listener()
        outcome = executor.submit(connect, double, 1, addresses, secret, 20)
        with suppress(PeerLost):
            outcome.result().close()
        second = connect(listeners[2], 2, addresses, b"secret", seconds=20)
        told = [executor.submit(each.allreduce, np.ones(1)) for each in (root.result(), first)]
        np.testing.assert_array_equal(second.allreduce(np.ones(1)), 3)
        assert [each.result()[0] for each in told] == [3, 3]
        for each in (root.result(), first, second):
            each.close()


@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins", "one_vs_rest"])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_optimum_is_that_of_one_machine(formulation, loss, sparse):
    X, y = digits()
    local = LinearSVM(formulation, loss, tol=1e-4).fit(X, y)
    data = sp.csr_array(X) if sparse else X
    replies = trained(shared(data, y, [0, 100, 110, 500], job(formulation, loss)))
    for reply, _ in replies:
        assert reply.converged
        np.testing.assert_array_equal(reply.weights, replies[0][0].weights)
        primal, dual, gap = reply.objectives
        assert gap <= 1e-2 and reply.worst_gap <= 1e-2
        assert dual <= local.primal_objective_ * (1 + 1e-9) and primal >= local.dual_objective_ * (1 - 1e-9)
    W = replies[0][0].weights
    slack = X @ W[:64, :10] + W[64, :10]  # the primal value, anew
    own = slack[np.arange(len(y)), y]
    if formulation == "crammer_singer":
        losses = (slack - own[:, None] + (np.arange(10) != y[:, None])).max(axis=1)
        value = 0.5 * (W**2).sum() + (losses if loss == "hinge" else losses**2).sum()
        assert replies[0][0].objectives[0] == pytest.approx(value, rel=1e-9)


def test_the_last_reply_says_what_all_have_sent():
    X, y = digits(200)
    ranks = shared(X, y, [0, 90, 200], job())
    (first, _), (second, _) = trained(ranks)
    assert first.effort == second.effort
    sent = first.effort.bytes_sent
    assert sent >= 2 * first.weights.nbytes
    assert sum(rank.collective.bytes_sent for rank in ranks) == sent + 2 * (8 + 3 * 8)  # the telling itself
    assert first.effort.seconds_of_passes > 0 and first.effort.seconds_of_sums > 0
    assert first.effort.local_epochs in (1, 2)


def topics(ranks, *, rows=60, features=300):
    """Sparse rows of which every rank's have features of their own, and a few that all share; the last are nobody's."""
    rng = np.random.default_rng(0)
    parts = []
    for rank in range(ranks):
        X = np.zeros((rows, (ranks + 1) * features))
        own = rng.permutation(12 * rows).reshape(rows, 12) % features + rank * features
        np.put_along_axis(X, own, rng.random((rows, 12)), axis=1)
        X[:, 7] = rng.random(rows)
        parts.append(Part(sp.csr_array(X), rng.integers(0, 4, rows), None))
    return parts


@pytest.mark.parametrize(("ranks", "solver"), [(2, "accelerated_sdm"), (5, "accelerated_sdm"), (3, "sdm")])
def test_rows_of_features_that_nobody_has_are_not_sent(monkeypatch, ranks, solver):
    monkeypatch.setattr(rounds_of_ranks, "COST_OF_A_NUMBER", 1e9)  # two passes a round, whatever is sent

    def rounds():
        this = job(n_classes=4, solver=solver, tol=0.05)
        return trained([Rank(this, {i: part}) for i, part in enumerate(topics(ranks))])

    sparse = rounds()
    monkeypatch.setattr(occupied_rows, "WORTH", 0.0)
    dense = rounds()
    for (reply, count), (whole, whole_count) in zip(sparse, dense, strict=True):
        np.testing.assert_array_equal(reply.weights, whole.weights)
        assert (reply.objectives, count) == (whole.objectives, whole_count)
    # Down the tree go ``ranks`` of ``ranks + 1`` parts of W, up the tree those of a rank and of the ranks below it.
    below = {2: [1], 3: [1, 1], 5: [3, 1, 1, 1]}[ranks]
    share = (sum(below) + ranks * len(below)) / (2 * len(below) * (ranks + 1))
    assert sparse[0][0].effort.bytes_sent == pytest.approx(share * dense[0][0].effort.bytes_sent, rel=0.05)


@pytest.mark.parametrize(("worth", "local_epochs"), [(0.9, 1), (0.0, 2)])
def test_a_second_local_pass_is_for_sums_that_cost_more(monkeypatch, worth, local_epochs):
    """What counts are the numbers that are sent, not those of features that no row has."""
    X, y = digits(1797)
    wide = sp.csr_array(sp.hstack([X, sp.csr_array((len(y), 6400))]))
    monkeypatch.setattr(occupied_rows, "WORTH", worth)
    ranks = shared(wide, y, [0, 900, 1797], job())

    def work(number, collective):
        ranks[number].join(collective)
        return ranks[number].machine.passes.local_epochs

    assert together(2, work) == [local_epochs] * 2


def test_directions_that_all_rows_share_are_sent_by_all():
    """They move rows of W whose features a rank does not have."""
    X, y = digits()
    parts = [Part(sp.csr_array(np.where(np.arange(64) % 2 == i, X, 0)), y, None) for i in range(2)]
    ranks = [Rank(job(), {i: part}) for i, part in enumerate(parts)]
    replies = trained(ranks)
    whole = LinearSVM(tol=1e-4).fit(sp.vstack([part.X for part in parts]), np.tile(y, 2))
    np.testing.assert_array_equal(replies[0][0].weights, replies[1][0].weights)
    assert replies[0][0].converged
    assert replies[0][0].objectives[0] <= whole.primal_objective_ * 1.0101


def test_the_same_bits_again():
    X, y = digits(200)
    first, second = (trained(shared(X, y, [0, 90, 200], job())) for _ in range(2))
    np.testing.assert_array_equal(first[0][0].weights, second[0][0].weights)
    assert first[0][1] == second[0][1]


def test_what_ranks_go_by_is_the_first_ones(monkeypatch):
    """As if each had a BLAS of its own."""
    X, y = digits(200)
    sampled = SharedExamples._sample

    def otherwise(examples):
        sample, count = sampled(examples)
        return sample * (1 + 1e-6 * examples.collective.rank), count

    monkeypatch.setattr(SharedExamples, "_sample", otherwise)
    ranks = shared(X, y, [0, 90, 200], job())

    def work(number, collective):
        ranks[number].join(collective)
        examples = ranks[number].machine.examples
        assert examples.directions is not None
        return examples.mean_curvature, examples.strength

    first, second = together(2, work)
    assert first == second


@pytest.mark.parametrize("solver", ["accelerated_sdm", "sdm"])
def test_ranks_share_a_sample_of_all_rows(monkeypatch, solver):
    """Its rows are from all over a rank's; without acceleration nobody needs it."""
    X, y = digits(600)
    samples = []
    monkeypatch.setattr(shared_examples, "leading", lambda sample: samples.append(sample) or leading(sample))
    ranks = shared(X, y, [0, 300, 320, 600], job(solver=solver))
    together(3, lambda number, collective: ranks[number].join(collective))
    if solver == "sdm":
        assert not samples
        return
    (sample,) = samples
    rows = np.column_stack([X, np.ones(600)])
    taken = [int(np.flatnonzero((rows == row).all(axis=1))[0]) for row in sample if row.any()]
    assert len(sample) == SAMPLE and len(taken) == 85 + 20 + 86
    assert max(np.diff([0, *taken, 600])) <= 5


def test_ranks_without_rows_and_without_some_classes():
    X, y = digits(300)
    order = np.argsort(y, kind="stable")
    local = LinearSVM(tol=1e-4).fit(X, y)
    replies = trained(shared(X[order], y[order], [0, 150, 150, 300], job()))
    assert replies[1][0].converged
    assert replies[1][0].objectives[0] <= local.primal_objective_ * 1.0101


def test_the_same_rows_everywhere_do_not_diverge():
    X, y = digits(120)
    ranks = [Rank(job(), {i: Part(X, y, None)}) for i in range(4)]
    local = LinearSVM(tol=1e-4).fit(X, y, sample_weight=np.full(len(y), 4.0))
    replies = trained(ranks)
    assert replies[0][0].converged
    assert replies[0][0].objectives[0] <= local.primal_objective_ * 1.0101


def test_two_classes_weights_and_zero_rows():
    X, y = digits(300)
    X = X.copy()
    X[:5] = 0
    y = (y > 4).astype(np.int64)
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    local = LinearSVM(tol=1e-5, fit_intercept=False).fit(X, y, sample_weight=weight)
    this = job(n_classes=2)
    this = Job(**{**vars(this), "intercept": 0.0})
    ranks = [Rank(this, {i: Part(X[i::2], y[i::2], weight[i::2])}) for i in range(2)]
    primal, dual, _ = trained(ranks)[0][0].objectives
    assert dual <= local.primal_objective_ * (1 + 1e-9)
    assert local.dual_objective_ * (1 - 1e-9) <= primal <= local.primal_objective_ * 1.0101


def test_weights_that_vanish_are_zero():
    X, y = digits(100)
    weights = [np.where(np.arange(100) < 60, 1.0, small) for small in (1e-301, 0.0)]
    tiny, none = (Rank(job(), {0: Part(X, y, weight)}) for weight in weights)
    for rank in (tiny, none):
        rank.join(Alone())
    assert tiny.machine.examples.n == none.machine.examples.n == 60
    with pytest.raises(ValueError, match="C times the weights must be finite"):
        Rank(job(C=1e200), {0: Part(X, y, np.full(100, 1e200))})


def test_duals_go_along_when_ranks_change():
    X, y = digits(300)
    ranks = shared(X, y, [0, 100, 200, 300], job())
    trained(ranks)
    for rank in ranks:
        rank.leave()
    one = Rank(
        job(),
        {number: part for rank in ranks for number, part in rank.parts().items()},
        {number: duals for rank in ranks for number, duals in rank.duals().items()},
    )
    one.join(Alone())
    reply = one.conclude()
    assert reply.objectives[1] >= 0.9 * LinearSVM(tol=1e-4).fit(X, y).primal_objective_
    assert not any(np.any(np.abs(duals.toarray()) > 1 + 1e-12) for duals in one.duals().values())


def test_every_rank_gets_the_same_estimator():
    X, y = digits(300)
    names = np.array([f"digit {label}" for label in y])

    def work(rank, collective):
        model = LinearSVM(C=0.1, tol=0.02, class_weight="balanced")
        return fit_shared(model, X[rank::3], names[rank::3], collective, classes=np.unique(names))

    models = together(3, work)
    local = LinearSVM(C=0.1, tol=1e-4, class_weight="balanced").fit(X, names)
    for model in models:
        np.testing.assert_array_equal(model.coef_, models[0].coef_)
        assert model.converged_
        assert local.dual_objective_ * (1 - 1e-9) <= model.primal_objective_ <= local.primal_objective_ * 1.021
    assert models[0].score(X, names) > 0.9


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_ranks_with_parts_of_very_different_sizes_have_one_certificate(loss):
    X, y = digits(400)
    cuts = [0, 3, 400, 400]  # and one without rows

    def work(rank, collective):
        mine = slice(cuts[rank], cuts[rank + 1])
        return fit_shared(LinearSVM(loss=loss, C=0.1, tol=0.02), X[mine], y[mine], collective, classes=range(10))

    first, *others = together(3, work)
    for model in others:
        for name in ("primal_objective_", "dual_objective_", "dual_gap_", "worst_gap_", "n_iter_"):
            assert getattr(model, name) == getattr(first, name), name


@pytest.mark.parametrize("kind", ["U3", object, bool, np.uint8, np.float32, np.dtypes.StringDType()])
def test_labels_of_all_kinds(kind):
    X, y = digits(60)
    words = kind in ("U3", object) or isinstance(kind, np.dtypes.StringDType)
    labels = np.where(y > 4, "yes", "no").astype(kind) if words else (y > 4).astype(kind)
    shared_out = fit_shared(LinearSVM(tol=1e-2), X, labels, Alone(), classes=np.unique(labels))
    local = LinearSVM(tol=1e-2, solver="accelerated_sdm").fit(X, labels)
    np.testing.assert_array_equal(shared_out.classes_, local.classes_)
    assert shared_out.classes_.dtype == local.classes_.dtype
    assert (shared_out.predict(X) == labels).mean() > 0.95


def test_what_ranks_do_not_do_is_refused():
    X, y = digits(50)
    for parameters, text in [
        ({"solver": "newton"}, "'auto', 'sdm', 'accelerated_sdm'"),
        ({"stopping": "violation"}, "stopping='gap' is"),
        ({"time_limit": 3.0}, "time_limit is not for ranks"),
        ({"formulation": "dag"}, "is not trained by ranks"),
    ]:
        with pytest.raises(ValueError, match=text):
            fit_shared(LinearSVM(**parameters), X, y, Alone(), classes=np.arange(10))
    with pytest.raises(ValueError, match="all of them among classes"):
        fit_shared(LinearSVM(), X, y, Alone(), classes=np.arange(5))


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    X, y = digits(100)
    model = LinearSVM(tol=0.1).fit(pd.DataFrame(X, columns=[f"pixel {i}" for i in range(64)]), y > 4)
    before = {name: id(value) for name, value in vars(model).items()}
    with pytest.raises(ValueError, match="overflows"):
        fit_shared(model, X[:, :60] * 1e200, y, Alone(), classes=np.arange(10))
    assert {name: id(value) for name, value in vars(model).items()} == before
    fit_shared(model, X[:, :60], y, Alone(), classes=np.arange(10))
    assert model.n_features_in_ == 60 and not hasattr(model, "feature_names_in_")
    assert model.predict(X[:, :60]).shape == (100,)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        fit_shared(LinearSVM(tol=1e-9, max_iter=1), X, y, Alone(), classes=np.arange(10))


def refusals(X, y, *, parameters=({}, {}), weights=(None, None), classes=(range(10), range(10))):
    """What two ranks raise; a collective that is left open would have one wait for the other for ever."""

    def work(rank, collective):
        half = slice(rank, None, 2)
        try:
            fit_shared(
                LinearSVM(**parameters[rank]),
                X[rank],
                y[half],
                collective,
                classes=np.array(classes[rank]),
                sample_weight=weights[rank],
            )
        except (ValueError, MemoryError) as error:
            return str(error)
        return None

    return together(2, work)


def test_what_one_rank_refuses_all_refuse():
    X, y = digits(100)
    halves = [X[::2], X[1::2].copy()]
    halves[1][3, 5] = np.nan
    theirs, own = refusals(halves, y)
    assert "rank 1 refused its rows" in theirs
    assert "nan" in own and "row 3, column 5" in own
    whole = [X[::2], X[1::2]]
    for wrong in (-1.0, np.inf):
        theirs, own = refusals(whole, y, weights=(np.ones(50), np.full(50, wrong)))
        assert "rank 1 refused" in theirs
        assert "sample_weight must be finite, not negative" in own


@pytest.mark.parametrize("step", ["checked", "Rank"])
def test_any_error_of_one_rank_is_one_of_all(monkeypatch, step):
    X, y = digits(100)
    whole = [X[::2], X[1::2]]
    made = getattr(fitting, step)

    def fails(*args):
        if args[0] is whole[1] or (step == "Rank" and 1 in args[1]):
            raise MemoryError("no room")
        return made(*args)

    monkeypatch.setattr(fitting, step, fails)
    theirs, own = refusals(whole, y)
    assert "rank 1 refused" in theirs and own == "no room"


def test_rows_that_overflow_on_one_rank_are_refused_by_all():
    X, y = digits(100)
    theirs, own = refusals([X[::2], X[1::2] * 1e200], y)
    assert "rank 1 refused" in theirs and "squared norm of a row overflows" in own


@pytest.mark.parametrize(
    "options, what",
    [
        ({"parameters": ({"C": 1.0}, {"C": 2.0})}, "parameters"),
        ({"parameters": ({}, {"formulation": "weston_watkins"})}, "parameters"),
        ({"parameters": ({"random_state": 1}, {})}, "parameters"),
        ({"classes": (range(10), range(11))}, "classes"),
    ],
)
def test_ranks_that_differ_are_told_in_what(options, what):
    X, y = digits(100)
    assert refusals([X[::2], X[1::2]], y, **options) == [f"ranks differ in {what}: give all of them the same"] * 2


def test_ranks_may_spell_the_same_parameters_differently():
    X, y = digits(100)
    ways = ({"C": 1, "class_weight": {0: 1.0, 1: 2}, "n_jobs": 1}, {"C": 1.0, "class_weight": {1: 2.0, 0: 1}})
    assert refusals([X[::2], X[1::2]], y, parameters=[way | {"tol": 0.1} for way in ways]) == [None, None]


def test_ranks_with_other_columns_are_told_so():
    X, y = digits(100)
    assert (
        refusals([X[::2], X[1::2, :60]], y) == ["ranks differ in the number of features: give all of them the same"] * 2
    )


def test_classes_without_rows_and_weights_of_zero_are_refused():
    X, y = digits(100)
    said = refusals([X[::2], X[1::2]], y, classes=(range(11), range(11)))
    assert said == ["no rank has a row of class [10]: leave it out of classes"] * 2
    said = refusals([X[::2], X[1::2]], y, weights=(np.zeros(50), np.zeros(50)))
    assert said == ["the weights of all rows are zero"] * 2


def test_a_problem_beyond_float64_is_refused_by_all():
    X, y = digits(100)
    said = refusals([X[::2], X[1::2]], y, parameters=({"C": 1e200}, {"C": 1e200}))
    assert all("float64 has room for" in each for each in said)


def test_the_mean_of_the_last_rounds_is_certified(monkeypatch):
    """Later ones have larger shares: 8 / (8 + t), an eighth at least."""
    X, y = digits(200)
    ranks, seen, evaluated = shared(X, y, [0, 90, 200], job(tol=1e-3)), [], []
    keep, evaluate = rounds_of_ranks.Rounds._keep_mean, rounds_of_ranks.Rounds._evaluated

    def kept(passes, weights):
        keep(passes, weights)
        if passes.examples.collective.rank == 0:
            seen.append(weights.array.astype(np.float64))

    def evaluating(passes, weights):
        found = evaluate(passes, weights)
        if passes.examples.collective.rank == 0:
            mean = passes._mean.array[:, :10].astype(np.float64)
            evaluated.append((mean, passes.scale_step(weights), found))
        return found

    def primal_of(W):
        scores = X @ W[:-1] + W[-1]
        margins = scores + (np.arange(10) != y[:, None]) - scores[np.arange(200), y][:, None]
        return 0.5 * (W**2).sum() + margins.max(axis=1).sum()

    monkeypatch.setattr(rounds_of_ranks.Rounds, "_keep_mean", kept)
    monkeypatch.setattr(rounds_of_ranks.Rounds, "_evaluated", evaluating)
    (reply, _), _ = trained(ranks)
    mean = seen[0]
    for t, W in enumerate(seen[1:], start=2):
        mean = mean + max(0.125, 8 / (8 + t)) * (W - mean)
    scale = np.vdot(mean[:, :10], reply.weights[:, :10]) / np.vdot(mean[:, :10], mean[:, :10])
    assert 1 - 1e-6 < scale < 1.05  # the certificate tries a few, from 1 on; these are sums of float32
    np.testing.assert_allclose(reply.weights[:, :10], scale * mean[:, :10], atol=1e-4 * np.abs(mean).max())
    assert len(evaluated) > 1
    steps = [step for _, step, _ in evaluated]
    assert len(set(steps)) > 1 and steps[0] == rounds_of_ranks._SCALE_STEP  # it follows what was best
    for mean, step, (primal, dual, gap) in evaluated:
        assert primal == pytest.approx(min(primal_of(scale * mean) for scale in 1 + step * SCALES), rel=1e-5)
        assert gap == pytest.approx((primal - dual) / primal) and dual <= reply.objectives[0]
    certified, lower = reply.objectives[:2]
    assert gap == pytest.approx((certified - lower) / certified, rel=1e-2)  # what was promised


def test_large_C_is_steered_by_true_objectives():
    """What passes see of the loss is too good; led by it, kappa falls to nothing and these take 365 rounds."""
    X, y = load_digits(return_X_y=True)

    def work(rank, collective):
        return fit_shared(LinearSVM(C=100), X[rank::2] / 16, y[rank::2], collective, classes=np.arange(10))

    model = together(2, work)[0]
    assert model.converged_ and len(model.history_) < 310


@pytest.mark.parametrize("ranks", [2, 4])
def test_dense_rows_to_the_default_tolerance(ranks):
    """Without the directions that all rows share, or with a kappa that falls, these take thousands of rounds."""
    X, y = load_digits(return_X_y=True)
    X = X / 16

    def work(rank, collective):
        return fit_shared(LinearSVM(), X[rank::ranks], y[rank::ranks], collective, classes=np.arange(10))

    model = together(ranks, work)[0]
    assert model.converged_
    assert len(model.history_) < 400
    local = LinearSVM(tol=1e-5).fit(X, y)
    assert local.dual_objective_ * (1 - 1e-9) <= model.primal_objective_ <= local.primal_objective_ * 1.001


def test_rounds_of_a_call_end_with_their_epochs(monkeypatch):
    """However many of them a call may have."""
    X, y = digits(200)
    ranks = shared(X, y, [0, 90, 200], job(tol=1e-9))
    monkeypatch.setattr(rank_module, "_WORK_OF_A_CALL", 1e12)

    def work(number, collective):
        ranks[number].join(collective)
        assert ranks[number]._rounds_a_call > 3
        records = ranks[number].advance(2.5).records
        return sum(record.active_rows for record in records) / 200

    for epochs in together(2, work):
        assert 2.5 <= epochs < 6
