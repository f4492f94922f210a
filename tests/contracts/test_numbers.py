"""Numeric parameters: what is no int or float of at most 64 bits is refused everywhere, the others can be saved."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from sklearn.datasets import load_iris

from multimargin import KernelSVM, LinearSVM, LinearSVMCV, load, save

X, y = load_iris(return_X_y=True)
X, y = X[::3], y[::3]
SHARED = ("C", "tol", "time_limit", "intercept_scaling", "checkpoint_every")
PARAMETERS = [
    *((LinearSVM, name) for name in (*SHARED, "memory_mb")),
    *((KernelSVM, name) for name in (*SHARED, "gamma", "coef0", "cache_mb", "threshold_factor")),
    *((LinearSVMCV, name) for name in ("tol", "time_limit", "intercept_scaling")),
]


@pytest.mark.parametrize("number", [Fraction(1, 2), Decimal("0.5"), np.longdouble(0.5)], ids=repr)
@pytest.mark.parametrize(("machine", "name"), PARAMETERS)
def test_numbers_that_no_file_has_a_place_for_are_refused_at_once(machine, name, number):
    with pytest.raises(TypeError) as refusal:
        machine(**{name: number}).fit(X, y)
    assert str(refusal.value) == f"{name} must be a number, got {number!r}; float(...) makes one of it"


@pytest.mark.parametrize("number", [Fraction(1, 2), Decimal("0.5"), np.longdouble(0.5)], ids=repr)
def test_within_others_too(number):
    with pytest.raises(TypeError, match=r"class_weight of 1 .* must be a number, got .* makes one of it"):
        LinearSVM(class_weight={1: number}).fit(X, y)
    with pytest.raises(TypeError, match=r"each of Cs must be a number, got .* makes one of it"):
        LinearSVMCV(Cs=[1.0, number]).fit(X, y)
    with pytest.raises(TypeError, match="n must be an integer, got"):
        LinearSVM().fit(X, y).top_classes(X, number)


@pytest.mark.parametrize("number", [np.float16(0.5), np.float32(0.5), np.float64(0.5), 1, np.uint8(1)], ids=repr)
@pytest.mark.parametrize(("machine", "name"), PARAMETERS)
def test_others_are_what_they_are_as_floats(machine, name, number, tmp_path):
    model = machine(**{name: number})
    if name == "threshold_factor":
        model.set_params(solver="decomposition", threshold="max")
    if machine is LinearSVMCV:
        model.set_params(Cs=2, cv=2)
    expected = type(model)(**model.get_params() | {name: float(number)}).fit(X, y)
    assert model.fit(X, y).dual_objective_ == expected.dual_objective_
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert getattr(again, name) == float(number)
    np.testing.assert_array_equal(again.predict(X), expected.predict(X))


@pytest.mark.parametrize(
    "Cs", [np.array([0.5, 1], np.float16), [1, np.float32(2)], (1, 2), np.array([[1.0, 2.0]])], ids=repr
)
def test_grids_of_plain_numbers(Cs):
    assert LinearSVMCV(Cs=Cs, cv=2, tol=0.1).fit(X, y).Cs_.tolist() == np.unique(Cs).tolist()


@pytest.mark.parametrize("Cs", [[[1.0], [2.0, 3.0]], [1, True], ["1", "2"], [1, 10**400]], ids=lambda Cs: str(Cs)[:20])
def test_grids_of_others_are_refused(Cs):
    with pytest.raises((TypeError, ValueError), match="each of Cs must be"):
        LinearSVMCV(Cs=Cs).fit(X, y)
