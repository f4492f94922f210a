"""Whoever has told NumPy to raise an error of everything is not told of what is too small for float64, which does no
harm: fits and predictions are the same as without."""

import warnings
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

from multimargin import KernelSVM, LinearSVM, LinearSVMCV, load, save
from multimargin.data.blocks import write_blocks
from multimargin.linear.solvers import SOLVERS
from multimargin.models.light import load_light
from multimargin.problems.formulations import FORMULATIONS, JOINT

X, y = load_iris(return_X_y=True)
WIDE = X[::3] * [1e-160, 1.0, 1e-200, 1.0]  # features whose products are none
Y = y[::3]
FALLING = np.geomspace(1e-290, 1.0, len(Y))
KERNELS = ("linear", "rbf", "poly", "sigmoid")


def answers(model, X=WIDE, y=Y):
    given = [model.predict(X), model.decision_function(X), *model.top_classes(X, 2), model.score(X, y)]
    if model.probability:
        given += [model.predict_proba(X), model.predict_log_proba(X)]
    if model.formulation in JOINT and model.loss == "hinge" and hasattr(model, "dual_coef_"):
        given.append(model.label_doubt().toarray())
    return given


def same_where_all_is_raised(told):
    """What is told by default, and where NumPy raises an error of everything."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        usual = told()
        with np.errstate(all="raise"):
            raising = told()
    for one, other in zip(usual, raising, strict=True):
        np.testing.assert_array_equal(one, other)


def trains(solver, formulation, loss):
    return formulation in SOLVERS[solver].formulations and loss in SOLVERS[solver].losses


BY_KERNEL = [*product(("block",), FORMULATIONS, KERNELS), *product(("decomposition",), JOINT, KERNELS)]
LINEAR = [each for each in product(SOLVERS, FORMULATIONS, ("hinge", "squared_hinge")) if trains(*each)]


@pytest.mark.parametrize(("solver", "formulation", "loss"), LINEAR)
@pytest.mark.parametrize("probability", [False, True])
def test_linear_machines(solver, formulation, loss, probability):
    options = dict(solver=solver, probability=probability, max_iter=40)
    same_where_all_is_raised(lambda: answers(LinearSVM(formulation, loss, **options).fit(WIDE, Y)))


@pytest.mark.parametrize(("solver", "formulation", "kernel"), BY_KERNEL)
@pytest.mark.parametrize("probability", [False, True])
def test_kernel_machines(solver, formulation, kernel, probability):
    options = dict(solver=solver, probability=probability, max_iter=40, gamma=1000.0 if kernel == "rbf" else "scale")
    same_where_all_is_raised(lambda: answers(KernelSVM(formulation, kernel, **options).fit(WIDE, Y)))


@pytest.mark.parametrize("machine", [LinearSVM, KernelSVM])
@pytest.mark.parametrize(
    "rows", [WIDE * 1e-60, sp.csr_array(WIDE), X[::3].astype(np.float32) * np.float32(1e-18)], ids=["64", "csr", "32"]
)
def test_other_rows(machine, rows):
    same_where_all_is_raised(lambda: answers(machine(probability=True).fit(rows, Y), rows))


@pytest.mark.parametrize("machine", [LinearSVM, KernelSVM])
def test_weights_and_warm_starts(machine):
    def told():
        model = machine(class_weight="balanced", warm_start=True, probability=True).fit(WIDE, Y, FALLING)
        return answers(model.set_params(C=1e-3).fit(WIDE, Y, FALLING[::-1]))

    same_where_all_is_raised(told)


def test_the_weights_of_a_linear_kernel():
    same_where_all_is_raised(lambda: [KernelSVM(kernel="linear").fit(WIDE, Y).coef_])


def test_a_search():
    same_where_all_is_raised(lambda: answers(LinearSVMCV([1e-3, 1e3], cv=3, probability=True).fit(WIDE, Y)))


def test_rows_that_come_in_turn():
    def told():
        model = LinearSVM().partial_fit(WIDE, Y, classes=[0, 1, 2], sample_weight=FALLING)
        return answers(model.partial_fit(WIDE, Y))

    same_where_all_is_raised(told)


@pytest.mark.parametrize("kind", ["saved", "stored", "kept"])
def test_files(kind, tmp_path):
    def told():
        if kind == "stored":
            store = write_blocks(tmp_path / f"{len(list(tmp_path.iterdir()))}.blocks", [(WIDE, Y, FALLING)])
            return answers(LinearSVM(class_weight="balanced").fit(store))
        options = dict(checkpoint=tmp_path / "state", checkpoint_every=0) if kind == "kept" else {}
        found = []
        for model in (LinearSVM(probability=True, **options), KernelSVM(probability=True, **options)):
            save(model.fit(WIDE, Y), tmp_path / "model")
            found += answers(load(tmp_path / "model"))
            if isinstance(model, LinearSVM):
                light = load_light(tmp_path / "model")
                found += [light.predict(WIDE), light.predict_proba(WIDE)]
        return found

    same_where_all_is_raised(told)
