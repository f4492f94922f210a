"""The schedule of tours over blocks on disk, its reading ahead, and how much memory all of it may take."""

from types import SimpleNamespace

import numpy as np
import pytest

from multimargin import _core
from multimargin.data.blocks import write_blocks
from multimargin.linear import stored_training
from multimargin.linear.directions import SAMPLE
from multimargin.linear.dual_files import DualFiles
from multimargin.linear.stored_examples import StoredExamples, StoredProblem
from multimargin.linear.stored_training import _fits
from multimargin.linear.streamed import Tour, Tours
from multimargin.problems.formulations import formulation

N = 40


class FakeBlocks:
    """Of ``N`` examples in four blocks, which are nowhere."""

    def __init__(self, constant=0.0):
        self.examples = SimpleNamespace(n=N, n_weights=3, constant=constant)
        self.problem = SimpleNamespace(lanes=2)
        self.tours = 0

    def __len__(self):
        return 4

    def begin_tour(self):
        self.tours += 1


class FakeStages:
    def __init__(self):
        self.seen, self.ended = [], 0

    def saw(self, primal, dual):
        self.seen.append((primal, dual))

    def end(self, weights):
        self.ended += 1


class FakeWeights:
    """With ||W||^2 = 6 and ||V||^2 = 2, each in two lanes."""

    def __init__(self, kappa=0.0):
        self.kappa, self.array = kappa, np.ones((3, 2))

    def squared_norms(self):
        return np.array([4.0, 2.0]), np.array([1.5, 0.5])


@pytest.fixture
def tours():
    made = Tours(FakeBlocks(constant=7.0))
    made._stages = FakeStages()
    return made


def a_pass(visited, violation, primal=0.0, dual=0.0):
    return SimpleNamespace(visited=visited, violation=violation, primal=primal, dual=dual, w_norm=6.0, v_norm=2.0)


@pytest.mark.parametrize(
    # Of a full tour: its violation, visits and estimated gap, whether there is shrinking; what is said, what is next.
    ("violation", "visited", "gap", "shrinking", "said", "full"),
    [
        (0.09, N, 0.5, True, "tolerance", True),
        (0.1, N, 0.5, True, "epochs", False),
        (0.1, N, 0.5, False, "epochs", True),
        (0.09, N - 1, 0.5, True, "epochs", True),
        (0.1, N, 0.01, True, "certify", False),
        (0.1, N, 0.011, True, "epochs", False),
        (0.1, N, -0.001, True, "certify", False),
        (0.1, N, -0.0011, True, "epochs", False),
        (0.1, N, np.nan, True, "epochs", False),
    ],
)
def test_what_is_thought_of_a_full_tour(tours, violation, visited, gap, shrinking, said, full):
    tours._shrunk_effort = 3.0
    assert tours._judge(Tour(violation, visited, gap), 0.1, 0.01, shrinking, 0.5) == said
    assert tours._next_full is full and tours._shrunk_effort == 0.0


def test_shrunk_tours_go_on_until_they_are_quiet_or_cost_too_much(tours):
    tours._full = False
    assert tours._judge(Tour(0.1, N // 4), 0.1, 0.01, True, 0.75) == "epochs"
    assert (tours._next_full, tours._shrunk_effort) == (False, 0.25)
    assert tours._judge(Tour(0.1, N // 2), 0.1, 0.01, True, 0.75) == "epochs"
    assert (tours._next_full, tours._shrunk_effort) == (True, 0.75)
    assert tours._judge(Tour(0.09, N), 0.1, 0.01, True, 99.0) == "epochs"
    assert tours._next_full is True


def test_a_tour_counts_its_passes(tours):
    weights = FakeWeights()
    tours._begin(weights)
    assert tours._on_tour and tours._full and tours.blocks.tours == 1
    tours._count(a_pass(10, 0.25, primal=5.0, dual=1.0))
    tours._count(a_pass(30, 0.125, primal=8.0, dual=0.5))
    assert (tours._visited, tours._violation) == (40, 0.25)
    assert tours._loss == (5.0 - 3.0) + (8.0 - 3.0)
    assert tours._dual == -(1.0 + 1.0) - (0.5 + 1.0)
    tour = tours._end(weights)
    primal, dual = 3.0 + 7.0 + 7.0, -1.0 + 3.5 + 7.0
    assert tour == (0.25, 40, pytest.approx((primal - dual) / primal))
    assert tours._stages.seen == [(primal, pytest.approx(dual))] and not tours._on_tour


def test_a_shrunk_tour_knows_no_objectives(tours):
    weights = FakeWeights()
    tours._next_full = False
    tours._begin(weights)
    assert tours._full is False
    tours._count(a_pass(10, 0.5, primal=5.0, dual=1.0))
    assert tours._loss == tours._dual == 0.0
    tour = tours._end(weights)
    assert tour[:2] == (0.5, 10) and np.isnan(tour.worst_gap) and not tours._stages.seen


@pytest.mark.parametrize(
    ("next_full", "visited", "kappa", "ended"),
    [(True, 1, 0.5, 1), (False, 1, 0.5, 0), (True, 0, 0.5, 0), (True, 1, 0.0, 0)],
)
def test_a_stage_ends_before_a_full_tour_that_is_not_the_first(tours, next_full, visited, kappa, ended):
    tours._next_full, tours._visited, tours._violation, tours._loss, tours._dual = next_full, visited, 0.5, 1.0, 1.0
    tours._begin(FakeWeights(kappa))
    assert tours._stages.ended == ended
    assert tours._visited == tours._violation == tours._loss == tours._dual == 0


def test_the_mean_of_the_weights_after_all_turns(tours):
    weights, out = FakeWeights(), SimpleNamespace(array=np.full((3, 4), 9.0), lanes=2)
    assert tours.mean(out) is False and (out.array == 9.0).all()
    tours._begin(weights)
    for turn in range(4):
        weights.array[:] = turn
        tours._turned(weights)
    tours._end(weights)
    assert tours._sum is None
    assert tours.mean(out) is True
    np.testing.assert_array_equal(out.array, [[1.5, 1.5, 9.0, 9.0]] * 3)
    tours._begin(weights)
    weights.array = weights.array.astype(np.float32)  # a sum of one precision is none of the other
    tours._turned(weights)
    assert tours._sum.dtype == np.float32 and (tours._sum == 3.0).all()
    tours._turned(weights)
    assert (tours._sum == 6.0).all() and (tours._mean == 1.5).all()
    assert tours.scale_step(weights) == 0.0


# A state


def state_of(**changes):
    made = Tours(FakeBlocks())
    return made.state() | {name: np.array([value]) for name, value in changes.items()}


@pytest.mark.parametrize("visited", [0, 1, N])
def test_a_state_goes_on(visited):
    made = Tours(FakeBlocks())
    made.set_state(state_of(_visited=visited, _full=False, _shrunk_effort=0.5, _loss=-1.5))
    assert (made._visited, made._full, made._shrunk_effort, made._loss) == (visited, False, 0.5, -1.5)
    assert made._sum is None and made._mean is None


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("_visited", N + 1, "'_visited' must be a number below 41"),
        ("_visited", -1, "'_visited' must be finite and not negative"),
        ("_visited", 2.0, "'_visited' must be a number below 41"),
        ("_shrunk_effort", -0.5, "'_shrunk_effort' must be"),
        ("_violation", np.inf, "'_violation' must be"),
        ("_loss", np.nan, "no numbers"),
        ("_dual", np.inf, "no numbers"),
    ],
)
def test_what_no_tour_has_counted_is_refused(name, value, words):
    with pytest.raises(ValueError, match=words):
        Tours(FakeBlocks()).set_state(state_of(**{name: value}))


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_weights_of_a_state(name):
    single, double = (_core.Weights(3, 2, kind).array for kind in (True, False))
    for weights in (single, double):
        weights[:] = np.arange(weights.size).reshape(weights.shape)
        made = Tours(FakeBlocks())
        made.set_state(state_of() | {name: weights.reshape(-1)})
        kept = {"sum": made._sum, "mean": made._mean}
        np.testing.assert_array_equal(kept.pop(name), weights)
        assert [*kept.values()] == [None]
        assert made.state()[name].tolist() == weights.reshape(-1).tolist()
    wide = double.reshape(-1).copy()
    for wrong in (wide[:-1], np.append(wide, 0.0), wide.astype(np.int64), np.where(wide == 1, np.inf, wide)):
        with pytest.raises(ValueError, match=f"'{name}' must be 3 x {double.shape[1]} finite weights"):
            Tours(FakeBlocks()).set_state(state_of() | {name: wrong})


# Blocks, and reading ahead


@pytest.fixture
def blocks(tmp_path):
    """Five blocks of eight rows."""
    X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 3
    row = 3 * 8 + 4
    store = write_blocks(tmp_path / "s", [(X, y)], block_mb=8 * row / 2**20)
    assert [entry.rows for entry in store.entries] == [8] * 5
    problem = formulation("crammer_singer", "hinge", 3)
    examples = StoredExamples(
        StoredProblem(store, 0.0, np.ones(3)), problem, DualFiles(tmp_path, 5), read_ahead=True, accelerated=False
    )
    made, _ = examples.schedule(problem, lists=True, seed=3)
    loads, load = [], made._load
    made._load = lambda number, state=None: (loads.append(number), load(number, state))[1]
    yield made, loads
    made.close()


def test_every_block_is_read_once_and_the_next_one_ahead(blocks):
    made, loads = blocks
    for number, block in enumerate(made):
        assert block.n_examples == 8
        if number < 4:
            made._ahead[1].result()
            assert loads == [*range(number + 2)]
    assert loads == [0, 1, 2, 3, 4] and made._ahead is None


def test_nothing_is_read_ahead_where_memory_is_short(blocks):
    made, loads = blocks
    made.examples.read_ahead = False
    for number, _ in enumerate(made):
        assert loads == [*range(number + 1)] and made._ahead is None


def test_a_tour_reads_its_next_block_ahead(blocks):
    made, loads = blocks
    made.begin_tour()
    order, seen = made._tour.copy(), []
    while (loaded := made.next_of_tour()) is not None:
        assert made.next_of_tour() is loaded  # as long as it has its turn
        seen.append(loaded.number)
        made.put_back()
        assert made.loaded is None
    assert seen == order == loads


def test_a_state_of_blocks_comes_back(blocks):
    made, _ = blocks
    made.begin_tour()
    made.next_of_tour()
    state = made.state()
    assert state["tour"].tolist() == made._tour and state["number"] == made.loaded.number
    left, number, last = made._tour, made.loaded.number, made._last
    made.begin_tour()
    made.set_state(state)
    assert (made._tour, made._tours, made._last, made.loaded.number) == (left, 1, last, number)
    assert made.loaded.passes is None  # it has not been begun
    for wrong in (np.array([number]), np.array([5]), np.array([-1]), state["tour"].astype(np.int32)):
        with pytest.raises(ValueError, match="not there, or twice"):
            made.set_state(state | {"tour": wrong})


# Memory

ROWS, FEATURES = 100, 10


def asked(bytes_, *, solver="sdm", checkpoint=None, compressed=False, sampled=True, lanes=3, rows=(ROWS, 50)):
    entries = [SimpleNamespace(rows=count) for count in rows]
    layout = SimpleNamespace(compressed=compressed)
    store = SimpleNamespace(entries=entries, layout=layout, unpacked_bytes=lambda number: 1000 * (number + 1))
    stored = SimpleNamespace(store=store, n_weights=FEATURES, sampled=sampled)
    request = SimpleNamespace(
        stored=stored, solver=solver, checkpoint=checkpoint, memory_mb=None if bytes_ is None else bytes_ / 2**20
    )
    return request, SimpleNamespace(lanes=lanes)


OF_W = 8 * FEATURES * 8  # bytes: lanes are padded to a multiple of eight
OF_SAMPLE = 8 * SAMPLE * FEATURES


@pytest.mark.parametrize(
    ("options", "lists", "weights", "beside", "block"),
    [
        ({}, True, 5 * OF_W, 5 * OF_W, 264 * ROWS),
        ({}, False, 5 * OF_W, 5 * OF_W, 224 * ROWS),
        ({"lanes": 8}, False, 5 * OF_W, 5 * OF_W, 224 * ROWS),
        ({"lanes": 9}, False, 10 * OF_W, 10 * OF_W, 384 * ROWS),
        ({"checkpoint": "a file"}, True, 13 * OF_W, 13 * OF_W, 3 * 264 * ROWS),
        ({"compressed": True}, True, 5 * OF_W, 5 * OF_W, 264 * ROWS + 1000),
        ({"compressed": True, "rows": (50, 50)}, True, 5 * OF_W, 5 * OF_W, 264 * 50 + 2000),
        ({"solver": "accelerated_sdm", "sampled": False}, True, 7 * OF_W, 7 * OF_W, 264 * ROWS),
        ({"solver": "accelerated_sdm"}, True, 7 * OF_W, OF_SAMPLE, 264 * ROWS),
        ({"solver": "accelerated_sdm", "checkpoint": "a file"}, True, 19 * OF_W, OF_SAMPLE, 3 * 264 * ROWS),
    ],
)
def test_what_fits_into_memory_to_the_byte(options, lists, weights, beside, block):
    def fits(bytes_):
        request, problem = asked(bytes_, **options)
        return _fits(request, problem, lists)

    two = max(weights + 2 * block, beside + block)
    assert fits(two) is True
    if beside + block < weights + 2 * block:
        assert fits(weights + 2 * block - 1) is False
    assert fits(beside + block) is (beside + block >= weights + 2 * block)
    with pytest.raises(ValueError, match="a sample of the rows" if beside > weights else "the weights .* take"):
        fits(beside + block - 1)
    if beside == weights:
        with pytest.raises(ValueError, match="the largest block"):
            fits(weights)
    with pytest.raises(
        ValueError, match=rf"the weights alone .* in {weights // (OF_W * -(-options.get('lanes', 3) // 8))} copies"
    ):
        fits(weights - 1)


def test_of_large_weights_one_is_certified_at_a_time(monkeypatch):
    for large, copies in ((OF_W, 5), (OF_W - 1, 4)):
        monkeypatch.setattr(stored_training, "_TWO_MODELS", large)
        request, problem = asked(copies * OF_W + 2 * 264 * ROWS)
        assert _fits(request, problem, True) is True
        request, problem = asked(copies * OF_W + 2 * 264 * ROWS - 1)
        assert _fits(request, problem, True) is False
