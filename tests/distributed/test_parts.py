"""Parts of the ranks by themselves: what they tell each other, how they are joined, what each holds."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from multimargin import LinearSVM
from multimargin.distributed import collective as tree_module
from multimargin.distributed.agreement import _hashed, agree
from multimargin.distributed.collective import Alone, Listener, PeerLost, Tree, connect, why_unreachable
from multimargin.distributed.fitting import _facts, _plain, _Rows, fit_shared
from multimargin.distributed.occupied_rows import OccupiedRows, _count, _rows
from multimargin.distributed.rank import Part, Rank, _examples, _joined
from multimargin.distributed.shared_examples import SharedExamples
from tests.distributed.test_rounds import digits, job, together

X = np.random.default_rng(0).standard_normal((12, 3))
Y = np.arange(12) % 3


def test_alone():
    numbers = np.ones(3)
    assert (Alone.rank, Alone.size) == (0, 1)
    assert Alone().allreduce(numbers) is numbers and Alone().broadcast(numbers) is numbers
    Alone().close()


@pytest.fixture
def pair():
    """Two ranks over one connection."""
    ours, theirs = socket.socketpair()
    yield Tree(0, 2, None, [ours]), Tree(1, 2, theirs, [])
    ours.close()
    theirs.close()


@pytest.mark.parametrize("size", [0, 1, 2048, 2049, 100_000])
def test_what_is_sent_is_what_comes(pair, size):
    """2048 numbers are the most that are sent without being asked for."""
    top, below = pair
    numbers = np.arange(float(size))
    with ThreadPoolExecutor(1) as executor:
        sent = executor.submit(top.send, top.children[0], numbers)
        into = np.full(size, -1.0)
        below.receive(below.parent, into)
        sent.result()
    np.testing.assert_array_equal(into, numbers)
    assert top.bytes_sent == 8 + 8 * size and below.bytes_sent == 0


def test_only_what_is_large_is_asked_for(pair):
    top, below = pair
    top.send(top.children[0], np.ones(2048))  # nobody is there to ask
    into = np.empty(2048)
    below.receive(below.parent, into)
    with ThreadPoolExecutor(1) as executor:
        sent = executor.submit(top.send, top.children[0], np.ones(2049))
        with pytest.raises(RuntimeError, match="rank 1: 16392 bytes came where 16384 should: ranks are not in step"):
            below.receive(below.parent, into)
        assert not sent.done()  # it waits to be asked
        below.parent.close()
        with pytest.raises(PeerLost, match="rank 0: a neighbour in the tree is gone"):
            sent.result()


def test_a_neighbour_that_is_gone(pair):
    top, below = pair
    below.close()
    with pytest.raises(PeerLost, match="rank 0: a neighbour in the tree is gone: the connection was closed"):
        top.receive(top.children[0], np.empty(1))
    top.close()
    with pytest.raises(PeerLost, match="rank 0: a neighbour in the tree is gone"):
        top.send(top.children[0], np.empty(1))


def test_connections_are_patient_but_watchful():
    def work(rank, collective):
        peer = collective.parent or collective.children[0]
        options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE), (socket.IPPROTO_TCP, socket.TCP_NODELAY)]
        assert all(peer.getsockopt(*option) for option in options)
        assert peer.gettimeout() is None
        expected = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 40_000}
        there = [name for name in expected if hasattr(socket, name)]  # as the system has them
        return {name: peer.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == expected[name] for name in there}

    for found in together(2, work):
        assert all(found.values()), found


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_who_is_joined_with_whom(size):
    found = together(size, lambda rank, tree: (tree.parent is not None, len(tree.children)))
    children = [sum(child < size for child in (2 * rank + 1, 2 * rank + 2)) for rank in range(size)]
    assert found == [(rank > 0, children[rank]) for rank in range(size)]


def test_sums_are_made_child_by_child():
    """(a + b) + c, with numbers of which the order can be told."""
    numbers = [np.array([1e16]), np.array([1.0]), np.array([-1e16])]
    sums = together(3, lambda rank, tree: float(tree.allreduce(numbers[rank].copy())[0]))
    assert sums == [(1e16 + 1.0) + -1e16] * 3


@pytest.mark.parametrize("rank", [-1, 2])
def test_ranks_that_there_are_not(rank):
    listener = Listener()
    with pytest.raises(ValueError, match=f"rank must be from 0 to 1, got {rank}"):
        connect(listener, rank, [listener.address, listener.address], b"")
    assert listener.socket.fileno() == -1  # closed


def test_a_tree_that_is_not_joined_leaves_nothing_open():
    listener = Listener()
    with pytest.raises(PeerLost, match=r"rank 0: ranks \[1, 2\] did not call within 0\.1 s"):
        connect(listener, 0, [listener.address, ("127.0.0.1", 9), ("127.0.0.1", 9)], b"", seconds=0.1)
    assert listener.socket.fileno() == -1 and listener.address[0] == "127.0.0.1"


def test_which_parent_is_called():
    closed = Listener()
    closed.close()
    addresses = [("127.0.0.1", 9), closed.address, *[("here", 9)] * 4]
    for rank in (3, 4):
        assert f"rank {rank} at here cannot reach rank 1 at 127.0.0.1, port" in why_unreachable(rank, addresses, 1)


def test_proofs_depend_on_everything():
    def proof(**changes):
        told = {"secret": b"s", "side": b"child", "childs": b"c" * 32, "parents": b"p" * 32, "rank": 1} | changes
        return tree_module._proof(**told)

    changes = ({"secret": b"t"}, {"side": b"parent"}, {"childs": b"x" * 32}, {"parents": b"x" * 32}, {"rank": 2})
    assert len({proof(), *(proof(**change) for change in changes)}) == 6 and len(proof()) == 32


@pytest.mark.parametrize(
    ("proof", "rank"), [(None, 3), (bytes(32), -1), (b"short", -1)], ids=["right", "wrong", "cut short"]
)
def test_who_calls(pair, proof, rank):
    """A stranger is no rank, whatever number it says."""
    ours, theirs = pair[0].children[0], pair[1].parent
    deadline = time.monotonic() + 20
    with ThreadPoolExecutor(1) as executor:
        greeted = executor.submit(tree_module._greeted, ours, b"secret", deadline)
        if proof is None:
            assert tree_module._knows_parent(theirs, 3, b"secret", deadline)
        else:
            theirs.sendall(bytes(32) + tree_module._RANK.pack(3))
            tree_module._exactly(theirs, 64)
            theirs.sendall(proof)
            theirs.shutdown(socket.SHUT_WR)
        assert greeted.result() == rank


def test_time_that_is_left(monkeypatch):
    monkeypatch.setattr(tree_module, "time", SimpleNamespace(monotonic=lambda: 10.0))
    assert tree_module._left(12.5) == 2.5 and tree_module._left(9.0) == 1e-3


# Agreement


def test_hashes_of_facts():
    assert _hashed(1) != _hashed(2) and _hashed("1") != _hashed(1)
    assert _hashed(np.array([1, 2])) == _hashed(np.array([1, 2], dtype=np.int8)) != _hashed(np.array([1.0, 2.0]))
    for fact in (1, "a", np.arange(3)):
        assert 0 <= _hashed(fact) < 2**52 and _hashed(fact).is_integer()


def test_who_agrees():
    agree(Alone(), None, {"a": 1, "b": 2})
    with pytest.raises(KeyError):
        agree(Alone(), KeyError("mine"), {"a": 1})

    def work(rank, collective):
        try:
            agree(collective, ValueError("mine") if rank in (1, 2) else None, {"a": rank})
        except ValueError as error:
            return str(error)

    refused = "rank 1, 2 refused its rows or parameters, with an error of its own"
    assert together(4, work) == [refused, "mine", "mine", refused]

    def differing(rank, collective):
        try:
            agree(collective, None, {"a": rank, "same": 1, "b": rank // 2})
        except ValueError as error:
            return str(error)

    assert together(3, differing) == ["ranks differ in a, b: give all of them the same"] * 3


# Rows of W


def test_rows_that_are_worth_sending_alone():
    occupied = np.zeros(20, dtype=bool)
    occupied[:18] = True
    assert isinstance(_rows(np.packbits(occupied), 20), np.ndarray)
    occupied[18] = True
    assert _rows(np.packbits(occupied), 20) == slice(None)
    assert _count(slice(None), 20) == 20 and _count(np.arange(3), 20) == 3


def test_sums_of_occupied_rows():
    own = [np.array([1, 0, 0, 0, 0], bool), np.array([0, 0, 1, 0, 0], bool), np.array([1, 0, 0, 1, 0], bool)]

    def work(rank, tree):
        rows = OccupiedRows(tree, own[rank])
        array = np.where(own[rank][:, None], rank + 1.0, 0.0) * np.ones((5, 2))
        before = tree.bytes_sent
        assert rows.allreduce(array) is array
        return array[:, 1].tolist(), rows.count, tree.bytes_sent - before

    found = together(3, work)
    assert [each[0] for each in found] == [[4.0, 0.0, 2.0, 3.0, 0.0]] * 3
    assert [each[1] for each in found] == [3] * 3
    row = 2 * 8
    assert [each[2] for each in found] == [2 * (8 + 3 * row), 8 + row, 8 + 2 * row]


# Parts of a rank


def test_parts_are_joined():
    one = Part(X[:4], Y[:4], None)
    assert _joined([one]) is one
    two = Part(X[4:].astype(np.float32), Y[4:], np.full(8, 2.0))
    whole = _joined([one, two])
    assert whole.X.dtype == np.float64 and whole.X.shape == (12, 3) and whole.y.tolist() == Y.tolist()
    assert whole.weight.tolist() == [1.0] * 4 + [2.0] * 8
    assert _joined([one, Part(X[4:], Y[4:], None)]).weight is None
    sparse = _joined([one, Part(sp.csr_array(X[4:]), Y[4:], None)]).X
    assert sparse.format == "csr"
    np.testing.assert_array_equal(sparse.toarray(), X)


def test_a_rank_gives_back_what_it_was_given():
    weights = np.arange(1.0, 13.0)
    this = job(n_classes=3, tol=1e-3)
    parts = {7: Part(X[5:], Y[5:], weights[5:]), 2: Part(X[:5], Y[:5], weights[:5])}
    rank = Rank(this, parts)
    with pytest.raises(RuntimeError, match="this rank has not joined the others"):
        rank.advance(1.0)
    assert {number: duals.nnz for number, duals in rank.duals().items()} == {2: 0, 7: 0}
    rank.join(Alone())
    while not rank.advance(np.inf).done:
        pass
    reply = rank.conclude()
    assert reply.converged and reply.weights.shape[0] == 4 and reply.effort.bytes_sent == 0
    again = rank.parts()
    for number, part in parts.items():
        np.testing.assert_array_equal(again[number].X, part.X)
        np.testing.assert_array_equal(again[number].y, part.y)
        np.testing.assert_array_equal(again[number].weight, part.weight)
        assert rank.duals()[number].shape == (len(part.y), 3)
    rank.leave()
    assert rank.machine is None and rank.collective is None
    kept = rank.duals()
    V = sum(duals.T @ parts[number].X for number, duals in kept.items())
    np.testing.assert_allclose(V.T, reply.weights[:3, :3], atol=0.05 * np.abs(V).max())
    other = Rank(this, {2: parts[2]}, {2: kept[2]})
    np.testing.assert_array_equal(other.duals()[2].toarray(), kept[2].toarray())


def test_a_rank_before_its_first_certificate():
    X, y = digits(200)
    rank = Rank(job(tol=1e-9), {0: Part(X, y, None)})
    rank.join(Alone())
    rank._rounds_a_call = 1
    reply = rank.advance(np.inf)
    assert not reply.done and reply.weights is None and reply.effort is None and len(reply.records) >= 1


def test_caps_of_a_rank():
    this = job(n_classes=3)
    this.class_caps[:] = [1.0, 2.0, 3.0]
    found = _examples(this, Part(X, Y, np.where(np.arange(12) < 6, 0.5, 1e-320)))
    assert sorted(found.cap.tolist()) == [0.5, 0.5, 1.0, 1.0, 1.5, 1.5] and found.n == 6
    with pytest.raises(ValueError, match="the squared norm of a row overflows"):
        _examples(this, Part(X * 1e200, Y, None))


# Fits


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"callbacks": [print]}, "callbacks is not for ranks"),
        ({"checkpoint": "c"}, "checkpoint is not for ranks"),
        ({"probability": True}, "probability is not for ranks"),
        ({"warm_start": True}, "warm_start is not for ranks"),
        ({"formulation": "one_vs_one"}, "formulation='one_vs_one' is not trained by ranks"),
        (
            {"solver": "tron", "loss": "squared_hinge", "formulation": "one_vs_rest"},
            "solver='tron' is not done by ranks",
        ),
        ({"C": -1.0}, "C must be"),
    ],
)
def test_what_ranks_do_not_do(parameters, words):
    with pytest.raises(ValueError, match=words):
        fit_shared(LinearSVM(**parameters), X, Y, Alone(), classes=[0, 1, 2])


@pytest.mark.parametrize(
    ("labels", "classes", "weight", "words"),
    [
        (Y, [0], None, "LinearSVM needs at least 2 classes; got"),
        (Y[:-1], [0, 1, 2], None, "y must have a label a row, and all of them among classes"),
        (Y + 1, [0, 1, 2], None, "y must have a label a row, and all of them among classes"),
        (Y - 1, [0, 1, 2], None, "y must have a label a row, and all of them among classes"),
        (Y, [0, 1, 2], np.ones(11), "sample_weight must be finite, not negative, and one a row"),
        (Y, [0, 1, 2], np.full(12, np.nan), "sample_weight must be finite, not negative, and one a row"),
    ],
)
def test_rows_of_a_rank_that_are_wrong(labels, classes, weight, words):
    with pytest.raises(ValueError, match=words):
        _Rows.of(LinearSVM(), X, labels, weight, classes)


def test_rows_of_a_rank():
    rows = _Rows.of(LinearSVM(random_state=3), X, np.array(list("bca"))[Y], np.zeros(12), ["c", "a", "b", "a"])
    assert rows.classes.tolist() == ["a", "b", "c"] and rows.y.tolist() == [1, 2, 0] * 4 and rows.weight.sum() == 0
    assert rows.seed == LinearSVM(random_state=3)._seed()
    facts = _facts(LinearSVM(random_state=3, n_jobs=2, verbose=1), rows)
    assert list(facts) == ["classes", "the number of features", "parameters"] and facts["the number of features"] == 3
    told = dict(facts["parameters"])
    assert told["random_state"] == rows.seed and "n_jobs" not in told and "verbose" not in told
    assert _Rows.of(LinearSVM("one_vs_one"), X, Y > 0, None, [False, True]).y.sum() == 8  # two classes are one machine
    assert _plain({2: 1, 1: np.float32(2)}) == [(1.0, 2.0), (2.0, 1.0)] and _plain("a") == "a" and _plain(True) == 1.0


# What all know of all


def examples_of(parts, **options):
    """Of every rank: its SharedExamples."""
    this = job(n_classes=3, solver="sdm", **options)
    this = type(this)(**vars(this) | {"intercept": 0.0})

    def work(number, collective):
        rank = Rank(this, {number: parts[number]})
        return SharedExamples(rank._own, rank.problem, collective, accelerated=False)

    return together(len(parts), work)


def test_what_ranks_know_of_each_other():
    rows = np.diag([1.0, 2.0, 0.0, 3.0]) @ np.ones((4, 2))
    parts = [
        Part(rows[:1], np.array([0]), np.array([2.0])),
        Part(rows[1:], np.array([1, 2, 0]), None),
        Part(rows[:0], np.array([], int), None),
    ]
    for found in examples_of(parts, C=0.5):
        assert found.n == 3 and found.norm_range == (2.0, 18.0)  # without the row of zeros,
        assert found.constant == pytest.approx(0.5)  # whose loss is that of its margin
        assert found.mean_curvature == pytest.approx((1.0 * 2 + 0.5 * 8 + 0.5 * 18) / 3)
        assert found.n_weights == 2 and found.n_summed == 2 and found.directions is None
        assert not found.hands_out_duals and not found.estimates_gaps_high


def test_ranks_without_any_rows():
    empty = [Part(np.zeros((0, 2)), np.array([], int), None)] * 2
    for found in examples_of(empty):
        assert (found.n, found.norm_range, found.constant, found.mean_curvature) == (0, (0.0, 0.0), 0.0, 0.0)


def test_rows_of_weights_that_a_rank_moves():
    wide = np.zeros((3, 40))
    wide[0, 3], wide[1, 17], wide[2, 3] = 1.0, 2.0, 3.0
    parts = [Part(sp.csr_array(wide[:2]), np.array([0, 1]), None), Part(sp.csr_array(wide[2:]), np.array([2]), None)]
    found = examples_of(parts)
    assert [np.flatnonzero(each._own_rows()).tolist() for each in found] == [[3, 17], [3]]
    assert [each.n_summed for each in found] == [2, 2]
    dense = examples_of([Part(wide, np.arange(3), None)])[0]
    assert dense._own_rows().all() and dense.n_summed == 40


def test_every_rank_has_an_order_of_its_own():
    parts = [Part(X[:6], Y[:6], None), Part(X[:6], Y[:6], None)]
    seeds = []

    class Own:
        def block(self, problem, lists, seed):
            seeds.append(seed)
            raise KeyError

    for seed in (0, 1):
        for found in examples_of(parts):
            found.own = Own()
            with pytest.raises(KeyError):
                found.schedule(None, False, seed)
    assert len(set(seeds)) == 4


def test_a_problem_that_is_too_large_is_told_with_its_numbers():
    parts = [Part(X * 1e152, Y, None), Part(X[:0], Y[:0], None)]
    with pytest.raises(ValueError, match=r"may reach 8e\+152.*whose largest product is 0\.25$"):
        examples_of(parts, C=0.25)
