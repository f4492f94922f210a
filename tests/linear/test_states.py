"""States as arrays by name, and what of a machine's or a training's state is refused at its very bounds."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from multimargin import LinearSVM
from multimargin.data.container import read_container, write_container
from multimargin.linear import state as states
from multimargin.linear.checkpoint import CHECKPOINT, CheckpointError
from tests.forging import at
from tests.stops import InterruptAt


def test_parts_have_their_names_before_them():
    whole = states.prefixed("a", {"x": 1, "b.y": 2}) | states.prefixed("ab", {"x": 3})
    assert whole == {"a.x": 1, "a.b.y": 2, "ab.x": 3}
    assert states.part(whole, "a") == {"x": 1, "b.y": 2}
    assert states.part(whole, "b") == {}
    assert states.parts(whole) == {"a": {"x": 1, "b.y": 2}, "ab": {"x": 3}}


def test_attributes_come_back_in_their_shapes_and_as_copies():
    kept = SimpleNamespace(n=3, share=0.5, yes=True, table=np.arange(6.0).reshape(2, 3))
    state = states.attributes(kept, ("n", "share", "yes", "table"))
    assert {name: values.shape for name, values in state.items()} == {
        "n": (1,),
        "share": (1,),
        "yes": (1,),
        "table": (6,),
    }
    kept.table[0, 0] = 9.0
    assert state["table"][0] == 0.0
    other = SimpleNamespace(n=0, share=0.0, yes=False, table=np.zeros((2, 3)))
    states.set_attributes(other, ("n", "share", "yes", "table"), state)
    assert (other.n, other.share, other.yes) == (3, 0.5, True) and type(other.n) is int and other.yes is True
    np.testing.assert_array_equal(other.table, np.arange(6.0).reshape(2, 3))
    state["table"][1] = 7.0
    assert other.table[0, 1] == 1.0
    for wrong in (np.arange(6), np.arange(5.0), np.arange(7.0)):
        with pytest.raises(ValueError, match="'table' must be 6 values of float64"):
            states.set_attributes(other, ("table",), {"table": wrong})
    with pytest.raises(ValueError, match="'n' must be one number"):
        states.set_attributes(other, ("n",), {"n": np.array([1, 2])})


@pytest.mark.parametrize("value", [0, 0.0, 5, np.array([0.0, 1e300])])
def test_counts(value):
    states.check_counts(SimpleNamespace(n=value), ("n",))


@pytest.mark.parametrize("value", [-1, -1e-9, np.nan, np.inf, np.array([1.0, -1.0]), np.array([1.0, np.nan])])
def test_what_nobody_counted(value):
    with pytest.raises(ValueError, match="'n' must be finite and not negative"):
        states.check_counts(SimpleNamespace(m=1, n=value), ("m", "n"))


@pytest.mark.parametrize("value", [np.array([]), np.array([1, 2]), np.array(["1"]), np.array([1], np.uint8)])
def test_what_is_not_one_number(value):
    with pytest.raises(ValueError, match="'n' must be one number"):
        states.number({"n": value}, "n")


@pytest.mark.parametrize(("value", "found"), [(0, 0), (4, 4), (5, None), (-1, None), (1.0, None), (True, None)])
def test_an_index_is_below_its_end(value, found):
    given = {"n": np.array([value])}
    if found is not None:
        assert states.index(given, "n", 5) == found
    else:
        with pytest.raises(ValueError, match="'n' must be a number below 5"):
            states.index(given, "n", 5)


def test_stacks_of_states():
    given = [{"x": np.arange(3), "y": np.array([1.5])}, {"x": np.arange(0), "y": np.array([[2.5, 3.5]])}]
    stack = states.stacked(given)
    assert stack["x"].tolist() == [0, 1, 2] and stack["x#"].tolist() == [3, 0]
    assert stack["y"].tolist() == [1.5, 2.5, 3.5] and stack["y#"].tolist() == [1, 2]
    back = states.unstacked(stack)
    assert [{name: values.tolist() for name, values in one.items()} for one in back] == [
        {"x": [0, 1, 2], "y": [1.5]},
        {"x": [], "y": [2.5, 3.5]},
    ]
    assert states.stacked([]) == {} and states.unstacked({}) == []
    for name, sizes in (("x#", [2, 0]), ("x#", [4, -1]), ("x#", [3.0, 0.0]), ("y#", [3])):
        with pytest.raises(ValueError, match=r"sizes that it should have|names that others have not"):
            states.unstacked(stack | {name: np.array(sizes)})


# Of machines, in checkpoints

X, Y = make_blobs(60, 4, centers=3, cluster_std=4.0, random_state=0)
FIRST = "loop.machines.0."


def stopped(folder, at, **options):
    """A checkpoint of a training that was interrupted, and what goes on from it."""
    make = lambda **more: LinearSVM(**{"C": 0.1, "tol": 1e-6} | options, **more)  # noqa: E731
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        for module in ("sdm", "machine"):
            patch.setattr(f"multimargin.linear.{module}.BUDGET", 3e3)
        make(checkpoint=folder / "state", callbacks=[InterruptAt(at)]).fit(X, Y)
    return (*read_container(folder / "state", CHECKPOINT), make)


def refusal(made, folder, changes):
    """What is said of a checkpoint in which arrays were changed; nothing, if the training went on."""
    description, arrays, make = made
    forged = arrays | {name: np.ascontiguousarray(change(arrays[name])) for name, change in changes.items()}
    write_container(folder / "forged", CHECKPOINT, description, forged)
    try:
        make(checkpoint=folder / "forged").fit(X, Y)
    except CheckpointError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """With duals that belong to the certificate, not to the weights."""
    made = stopped(tmp_path_factory.mktemp("certified"), 250, solver="accelerated_sdm", tol=1e-9)
    assert f"{FIRST}certified_duals.row" in made[1]
    return made


CERTIFIED = [
    ({"row": at(0, -1)}, "rows that are not there"),
    ({"row": at(-1, 60)}, "rows that are not there"),
    ({"row": lambda row: row[:-1]}, "rows that are not there"),
    ({"lane": lambda lane: lane[:-1]}, "rows that are not there"),
    ({"value": lambda value: value[:-1]}, "rows that are not there"),
    ({"value": lambda value: 2 * value}, "outside of their bounds|sum to zero"),
    ({"value": at(0, np.nan)}, "outside of their bounds|sum to zero"),
    ({"value": lambda value: -value}, "outside of their bounds"),
    ({}, ""),
]


@pytest.mark.parametrize(("changes", "words"), CERTIFIED)
def test_duals_of_a_certificate(certified, tmp_path, changes, words):
    said = refusal(certified, tmp_path, {f"{FIRST}certified_duals.{name}": c for name, c in changes.items()})
    assert any(word in said for word in words.split("|")) and bool(said) == bool(words)


def test_a_lower_bound_above_the_objective(certified, tmp_path):
    primal = certified[1][f"{FIRST}certificate.primal"][0]
    name = f"{FIRST}certificate.dual"
    assert "a lower bound is above the objective" in refusal(certified, tmp_path, {name: at(0, primal * (1 + 2e-7))})
    assert "a lower bound is above" in refusal(certified, tmp_path, {name: at(0, np.nan)})
    assert refusal(certified, tmp_path, {name: at(0, primal * (1 - 1e-9))}) == ""


def test_a_machine_that_is_done_with_its_certificate_hands_out_its_duals(certified, tmp_path):
    """Those of the certificate, which may be better than the last ones."""
    description, arrays, make = certified
    changes = {f"{FIRST}algorithm.done": np.array([True]), f"{FIRST}algorithm.converged": np.array([True])}
    write_container(tmp_path / "forged", CHECKPOINT, description, arrays | changes)
    model = make(checkpoint=tmp_path / "forged").fit(X, Y)
    row, lane, value = (arrays[f"{FIRST}certified_duals.{name}"] for name in ("row", "lane", "value"))
    duals = np.zeros((60, 3))
    duals[row, lane] = value
    np.testing.assert_array_equal(model.dual_coef_.toarray(), duals)
    assert model.primal_objective_ == arrays[f"{FIRST}certificate.primal"][0]


# Of machines that are finished


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The first of three machines, of classes 0 and 1, is."""
    made = stopped(tmp_path_factory.mktemp("finished"), 40, formulation="one_vs_one", solver="sdm", tol=0.05)
    assert made[1]["loop.finished"].tolist() in ([0], [0, 1])
    return made


RESULTS = "training.results."
OF_CLASS_2 = int(np.flatnonzero(Y == 2)[0])
FINISHED = [
    ({}, ""),
    ({"row": at(0, -1)}, "rows that are not there"),
    ({"row": at(0, 60)}, "rows that are not there"),
    ({"row": at(0, OF_CLASS_2)}, "rows that another machine learns from"),
    ({"lane": at(0, 1)}, "lanes that are not there"),
    ({"lane": at(0, -1)}, "lanes that are not there"),
    ({"position": at(0, 3)}, "'position' must be a number below 3"),
    ({"position": at(0, -1)}, "'position' must be a number below 3"),
    ({"value": lambda value: 10 * value}, "outside of their bounds"),
    ({"value": lambda value: -value}, "outside of their bounds"),
    ({"value": lambda value: value[1:], "value#": lambda sizes: at(0, sizes[0] - 1)(sizes)}, "duals differ in number"),
    ({"row": lambda row: row[1:], "row#": lambda sizes: at(0, sizes[0] - 1)(sizes)}, "duals differ in number"),
    ({"objectives": lambda x: x[1:], "objectives#": lambda sizes: at(0, sizes[0] - 1)(sizes)}, "hold together"),
    ({"W": lambda W: W[1:], "W#": lambda sizes: at(0, sizes[0] - 1)(sizes)}, "hold together"),
]


@pytest.mark.parametrize(("changes", "words"), FINISHED)
def test_results_of_finished_machines(finished, tmp_path, changes, words):
    said = refusal(finished, tmp_path, {RESULTS + name: change for name, change in changes.items()})
    assert words in said and bool(said) == bool(words)


def test_finished_machines_are_part_of_the_model(finished, tmp_path):
    description, arrays, make = finished
    whole = make().fit(X, Y)
    write_container(tmp_path / "state", CHECKPOINT, description, arrays)
    model = make(checkpoint=tmp_path / "state").fit(X, Y)
    np.testing.assert_array_equal(model.coef_, whole.coef_)
    np.testing.assert_array_equal(model.dual_coef_.toarray(), whole.dual_coef_.toarray())
    # Slices were shorter at first, and what is taken off for rounding counts them.
    assert model.primal_objective_ == pytest.approx(whole.primal_objective_, rel=1e-13)
    assert model.worst_gap_ == pytest.approx(whole.worst_gap_, rel=1e-13)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"loop.alive": at(0, 3)}, "there are no such machines"),
        ({"loop.alive": at(0, -1)}, "there are no such machines"),
        ({"loop.finished": at(0, 3)}, "there are no such machines"),
        ({"loop.finished": lambda finished: finished.astype(float)}, "there are no such machines"),
        ({"loop.alive": at(0, 0)}, "a machine is there twice"),
        ({"loop.last_record": at(0, 10**6)}, "a machine has no last record"),
        ({"loop.last_record": at(0, 40)}, "a machine has no last record"),
        ({"loop.last_record": at(0, -2)}, "a machine has no last record"),
        ({"loop.last_record": lambda last: last.astype(float)}, "a machine has no last record"),
        ({"loop.last_record": lambda last: np.append(last, 0)}, "hold together"),
        ({"loop.last_record": at(0, -1)}, ""),
        ({"loop.last_record": at(0, 39)}, ""),
        ({"loop.n_iter": lambda n: np.append(n, 1)}, "'n_iter' must be one number"),
        ({"loop.seconds": lambda seconds: seconds[:0]}, "'loop.seconds' must be one number"),
    ],
)
def test_the_loop_refuses_what_it_never_had(finished, tmp_path, changes, words):
    assert len(finished[1]["loop.history.machine"]) == 40
    said = refusal(finished, tmp_path, changes)
    assert words in said and bool(said) == bool(words)
