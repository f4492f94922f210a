"""The state of the core's objects: what goes on from it is the same; what cannot be one is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimargin import _core


def block(pooled=True, seed=0, n=40, k=5):
    rng = np.random.default_rng(0)
    X, label = rng.normal(size=(n, 6)), (np.arange(n) % k).astype(np.int32)
    rows = _core.Rows.dense(X, 1.0)
    cap, norm = np.ones(n), rows.squared_norms()
    return _core.Block(rows, "crammer_singer", False, k, np.arange(n), label, cap, norm, pooled, seed)


class Training:
    def __init__(self, pooled=True, seed=0, single=True):
        self.block = block(pooled, seed)
        self.passes = _core.Passes([self.block])
        self.weights = _core.Weights(7, 5, single)

    def run(self, calls=1, budget=2000.0):
        for _ in range(calls):
            options = dict(tolerance=1e-9, certify_below=-np.inf, max_epochs=1e9, shrinking=True, permute=True)
            self.passes.run(self.weights, budget=budget, **options)
        return self

    def parts(self):
        return self.block, self.passes, self.weights


@pytest.mark.parametrize("kappa", [0.0, 2.0])
@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("pooled", [True, False])
def test_another_one_goes_on(pooled, single, kappa):
    first = Training(pooled, 1, single)
    first.weights.set_kappa(kappa)
    first.run(3)
    other = Training(pooled, 99, single)
    for mine, theirs in zip(first.parts(), other.parts(), strict=True):
        theirs.set_state(mine.state())
    first.run(20)
    other.run(20)
    for mine, theirs in zip(first.parts(), other.parts(), strict=True):
        a, b = mine.state(), theirs.state()
        assert a.keys() == b.keys()
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)


def spoilt(state, name, how, at):
    values = state[name].copy()
    if how == "gone":
        return {key: value for key, value in state.items() if key != name}
    if how == "more":
        return state | {name + "x": values}
    if how == "long":
        return state | {name: np.concatenate([values, values, values[:1]])}
    if how == "short":
        return state | {name: values[:-1]}
    if how == "type":
        return state | {name: values.astype(np.float32 if values.dtype != np.float32 else np.int64)}
    if how == "flat":
        return state | {name: values.reshape(1, -1)}
    if len(values):
        odd = {"nan": np.nan, "large": 1e12, "negative": -7, "zero": 0}[how]
        if how != "nan" or values.dtype.kind == "f":
            with np.errstate(invalid="ignore"):
                values[at % len(values)] = np.array(odd).astype(values.dtype)
    return state | {name: values}


HOW = ("gone", "more", "long", "short", "type", "flat", "nan", "large", "negative", "zero")


@settings(max_examples=150, deadline=None)
@given(st.data(), st.booleans(), st.sampled_from(HOW), st.integers(0, 10**6))
def test_spoilt_states(data, pooled, how, at):
    """An error, and all is as before; or a state like any other, from which it goes on. Never a crash."""
    training = Training(pooled).run(2)
    training.weights.set_kappa(1.0)
    part = data.draw(st.sampled_from(training.parts()))
    before = part.state()
    name = data.draw(st.sampled_from(sorted(before)))
    try:
        part.set_state(spoilt(before, name, how, at))
    except ValueError as error:
        assert "inconsistent state" in str(error)
        for key, value in part.state().items():
            np.testing.assert_array_equal(value, before[key], err_msg=key)
    else:
        assert how not in ("gone", "more", "type", "flat")
    training.run(5)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("random", np.zeros(4, dtype=np.uint64), "a random generator of zeros"),
        ("cursor", np.array([41]), "past its end"),
        ("order", np.full(3, 40, dtype=np.int32), "index out of range"),
        ("order", np.full(3, -1, dtype=np.int32), "index out of range"),
        ("rests", np.zeros(39, dtype=np.uint8), "has 39 values, not 40"),
        ("full", np.array([2]), "neither true nor false"),
        ("loss", np.full(52, np.nan), "not numbers"),
        ("list_sizes", np.full(40, 6), "end elsewhere"),
        ("list_sizes", np.full(40, -1), "end elsewhere"),
    ],
)
def test_what_a_block_refuses(name, value, said):
    training = Training().run(2)
    with pytest.raises(ValueError, match=said):
        training.block.set_state(training.block.state() | {name: value})


def test_a_list_has_a_class_once():
    training = Training().run(30)
    state = training.block.state()
    sizes = state["list_sizes"]
    first = int(np.flatnonzero(sizes > 1)[0])
    at = int(sizes[:first].sum())
    classes = state["list_classes"].copy()
    classes[at + 1] = classes[at]
    with pytest.raises(ValueError, match="a class twice"):
        training.block.set_state(state | {"list_classes": classes})


def test_weights_of_another_shape_or_precision():
    state = _core.Weights(7, 5, True).state()
    with pytest.raises(ValueError, match="has 56 values, not 64"):
        _core.Weights(8, 5, True).set_state(state)
    with pytest.raises(ValueError, match="of another type"):
        _core.Weights(7, 5, False).set_state(state)
    with pytest.raises(ValueError, match="'Z' is missing"):
        _core.Weights(7, 5, True).set_state(state | {"kappa": np.array([1.0])})


class PrimalTraining:
    """Trust-region Newton on three lanes, of which some finish before the others."""

    def __init__(self):
        rng = np.random.default_rng(0)
        X, label = rng.normal(size=(40, 6)), (np.arange(40) % 7 % 3).astype(np.int32)
        rows = _core.Rows.dense(X, 1.0)
        cap, norm = np.ones(40), rows.squared_norms()
        self.block = _core.Block(rows, "one_vs_rest", True, 3, np.arange(40), label, cap, norm, False, 0)
        self.weights = _core.Weights(7, 3, False)
        self.tron = _core.Tron(self.block, self.weights, 1e-9)

    def run(self, calls=1, budget=300.0):
        for _ in range(calls):
            self.tron.run(budget, 10**6)
        return self

    def parts(self):
        return self.block, self.weights, self.tron


def test_another_trust_region_method_goes_on():
    whole = PrimalTraining()
    while not whole.tron.finished:
        other = PrimalTraining()
        for mine, theirs in zip(whole.parts(), other.parts(), strict=True):
            theirs.set_state(mine.state())
        for _ in range(8):
            whole.run()
            other.run()
        for mine, theirs in zip(whole.parts(), other.parts(), strict=True):
            a, b = mine.state(), theirs.state()
            assert a.keys() == b.keys()
            for name in a:
                np.testing.assert_array_equal(a[name], b[name], err_msg=name)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(0, 120), st.sampled_from(HOW), st.integers(0, 10**6))
def test_spoilt_states_of_the_trust_region_method(data, calls, how, at):
    training = PrimalTraining().run(calls)
    before = training.tron.state()
    name = data.draw(st.sampled_from(sorted(before)))
    try:
        training.tron.set_state(spoilt(before, name, how, at))
    except ValueError as error:
        assert "inconsistent state" in str(error)
        for key, value in training.tron.state().items():
            np.testing.assert_array_equal(value, before[key], err_msg=key)
    else:
        assert how not in ("gone", "more", "type", "flat")
    training.run(20)
