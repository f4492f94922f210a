"""Machines in files that somebody made up: each check of each number, at its bounds."""

import numpy as np
import pytest

from multimargin import KernelSVM, LinearSVM, LinearSVMCV
from multimargin.models import ModelFormatError, load, save
from multimargin.models.light import load_light
from tests.models.examples import X, Y
from tests.models.forge import changed

ROWS, LABELS = X[:30, 20:26], Y[:30] % 3
LINEAR = LinearSVM().fit(ROWS, LABELS)
TWO = LinearSVM().fit(ROWS, LABELS > 0)
SPARSE = LinearSVM(memory_mb=1e-4).fit(ROWS, LABELS)
PATH = LinearSVMCV(Cs=[0.1, 1.0], cv=2).fit(ROWS, LABELS)
KERNEL = KernelSVM().fit(ROWS, LABELS)
GRAM = KernelSVM(kernel="precomputed").fit(ROWS @ ROWS.T, LABELS)


def values(description):
    return description["model"]["values"]


def told(**changes):
    return lambda description, arrays: values(description).update(changes)


def parameter(name, value):
    def change(description, arrays):
        stored = values(description)["parameters"]["dict"]
        stored[:] = [item for item in stored if item[0] != name] + [[name, value]]

    return change


def array(name, content):
    return lambda description, arrays: arrays.__setitem__(name, np.asarray(content))


def as_type(name, dtype):
    return lambda description, arrays: arrays.__setitem__(name, np.nan_to_num(arrays[name], posinf=0).astype(dtype))


def at(name, place, number):
    return lambda description, arrays: arrays[name].__setitem__(place, number)


def without(name):
    def change(description, arrays):
        del (arrays if name in arrays else values(description))[name]

    return change


def moved(name, amount):
    def change(description, arrays):
        arrays[name] = arrays[name] + amount

    return change


def a_row_without_duals(description, arrays):
    gone = arrays["duals.indptr"][1]
    for name in ("duals.data", "duals.indices"):
        arrays[name] = arrays[name][gone:]
    arrays["duals.indptr"] = np.maximum(arrays["duals.indptr"] - gone, 0)


KERNEL_NUMBERS = ["rbf", 0.5, 3, 0.0]
GOOD = [
    (KERNEL, told(kernel=["rbf", 0.0, 0, -1.5])),
    (LINEAR, told(first_index=0)),
    (LINEAR, told(first_index=1)),
    (LINEAR, at("caps", 0, 0.0)),
    (LINEAR, told(n_iter=0)),
    (LINEAR, at("history.gap", 0, np.inf)),
    (PATH, at("scores_", (0, 0), np.nan)),
    (PATH, told(best_score={"float": "nan"})),
]


@pytest.mark.parametrize(("model", "change"), GOOD)
def test_files_that_are_as_good(tmp_path, model, change):
    save(model, path := tmp_path / "model")
    changed(path, change)
    assert type(load(path)) is type(model)


WRONG = [
    # Classes
    (LINEAR, array("classes", [0.0, 1.0, np.nan]), "array classes has values that are not finite"),
    (LINEAR, array("classes", [0.0, 1.0, np.inf]), "array classes has values that are not finite"),
    (LINEAR, array("classes", [0, 2, 1]), "classes must be two labels or more, sorted and different"),
    (LINEAR, array("classes", [0, 0, 1]), "classes must be two labels or more, sorted and different"),
    (LINEAR, array("classes", np.zeros(0, np.int64)), "classes must be two labels or more, sorted and different"),
    (LINEAR, array("classes", [[0, 1, 2]]), "array classes has the shape 1 x 3, not any"),
    # Weights
    (LINEAR, as_type("weights", np.float32), "weights and intercept must be float64"),
    (LINEAR, as_type("intercept", np.float32), "weights and intercept must be float64"),
    (LINEAR, array("intercept", np.zeros(2)), "array intercept has the shape 2, not 3"),
    (TWO, told(n_features=7), "n_features is not that of the weights, 6"),
    (SPARSE, told(**{"weights.rows": 5}), r"array weights\.indptr has the shape 7, not 6"),
    (SPARSE, parameter("formulation", "one_vs_rest"), "weights may be sparse in crammer_singer only, with three"),
    (SPARSE, as_type("weights.data", np.float32), "weights and intercept must be float64"),
    (LINEAR, told(first_index=2), "first_index cannot be '2'"),
    (LINEAR, told(first_index=-1), "first_index cannot be '-1'"),
    (LINEAR, told(first_index=True), "first_index cannot be 'True'"),
    # The certificate and its history
    (LINEAR, told(certificate=[1.0] * 3), "certificate cannot be"),
    (LINEAR, told(certificate=[1.0] * 5), "certificate cannot be"),
    (LINEAR, told(certificate=[1.0, 1.0, 1.0, 1]), "certificate cannot be"),
    (LINEAR, told(converged=0), "converged cannot be"),
    (LINEAR, without("converged"), "converged is missing"),
    (LINEAR, as_type("history.gap", np.int64), r"history\.gap cannot be of int64"),
    (LINEAR, as_type("history.machine", np.float64), r"history\.machine cannot be of float64"),
    (LINEAR, array("history.epoch", [1]), r"array history\.\w+(\.ends)? has the shape"),
    (KERNEL, without("history.gap.type"), r"history\.gap\.type is missing"),
    # Duals
    (LINEAR, told(problem=["crammer_singer"]), "problem cannot be"),
    (LINEAR, told(problem=["crammer_singer", "hinge", 1]), "problem cannot be"),
    (LINEAR, told(problem=["crammer_singer", "ramp"]), "problem cannot be"),
    (LINEAR, told(problem=["one_vs_all", "hinge"]), "problem cannot be"),
    (TWO, told(n_machines=2), "2 machines are not those of crammer_singer with 2 classes"),
    (LINEAR, at("support", -1, 30), "support must be ascending numbers of the 30 rows"),
    (LINEAR, at("support", 0, -1), "support must be ascending numbers of the 30 rows"),
    (LINEAR, lambda d, arrays: arrays["support"].__setitem__(1, arrays["support"][0]), "support must be ascending"),
    (LINEAR, as_type("support", np.float64), "array support cannot be of float64"),
    (LINEAR, as_type("caps", np.float32), "caps must be numbers of float64, and not negative"),
    (LINEAR, at("caps", 3, -1e-300), "caps must be numbers of float64, and not negative"),
    (LINEAR, at("caps", 3, np.inf), "array caps has values that are not finite"),
    (LINEAR, at("labels", 0, 3), "labels must be numbers of classes"),
    (LINEAR, at("labels", 0, -1), "labels must be numbers of classes"),
    (LINEAR, as_type("duals.data", np.float32), "every row of the support must have a dual, in float64"),
    (LINEAR, a_row_without_duals, "every row of the support must have a dual, in float64"),
    # The path of C
    (PATH, told(C={"float": "inf"}), "C cannot be"),
    (PATH, told(C=0.5), r"C_=0\.5 is not among the values of C that were tried"),
    (PATH, told(best_score="high"), "best_score cannot be"),
    (PATH, array("Cs", [0.1, 1.0, 2.0]), "array epochs has the shape 2 x 2, not any x 3"),
    (PATH, at("Cs", 0, np.nan), "array Cs has values that are not finite"),
    (PATH, as_type("epochs", np.float64), "array epochs cannot be of float64"),
    (PATH, array("scores_", np.ones((3, 2))), "array scores_ has the shape 3 x 2, not 2 x 2"),
    (PATH, array("gaps_", np.ones((2, 1))), "array gaps_ has the shape 2 x 1, not 2 x 2"),
    # Kernels
    *(
        (KERNEL, told(kernel=wrong), "kernel cannot be")
        for wrong in (
            ["precomputed ", *KERNEL_NUMBERS[1:]],
            ["rbf", -1e-300, 3, 0.0],
            ["rbf", 1, 3, 0.0],
            ["rbf", {"float": "inf"}, 3, 0.0],
            ["rbf", 0.5, -1, 0.0],
            ["rbf", 0.5, 3.0, 0.0],
            ["rbf", 0.5, 3, 0],
            ["rbf", 0.5, 3, {"float": "nan"}],
            ["rbf", 0.5, 3, 0.0, 1],
            [["rbf"], 0.5, 3, 0.0],
        )
    ),
    (KERNEL, told(shape_fit={"tuple": [30]}), "shape_fit cannot be"),
    (KERNEL, told(shape_fit={"tuple": [30, 6, 1]}), "shape_fit cannot be"),
    (KERNEL, told(shape_fit={"tuple": [30, 6.0]}), "shape_fit cannot be"),
    (KERNEL, told(shape_fit=[30, 6]), "shape_fit cannot be"),
    (KERNEL, told(shape_fit={"tuple": [30, 2**48]}), "shape_fit cannot be"),
    (KERNEL, told(shape_fit={"tuple": [29, 6]}), "there are duals of 30 rows, but 29 were trained on"),
    (GRAM, told(shape_fit={"tuple": [30, 31]}), "a precomputed kernel cannot have the shape 30 x 31"),
    (KERNEL, moved("n_support", 1), "n_support does not fit the labels of the support vectors"),
    (KERNEL, array("n_support", [1, 2]), "array n_support has the shape 2, not 3"),
    (KERNEL, array("intercept", np.zeros(2)), "array intercept has the shape 2, not 3"),
    (KERNEL, array("vectors", np.ones((2, 6))), "array vectors has the shape 2 x 6, not"),
    (KERNEL, told(sparse=0), "sparse cannot be"),
    (GRAM, told(sparse=False), "should not have 'sparse'"),
    (KERNEL, array("classes", [0, 2, 2]), "classes must be two labels or more, sorted and different"),
    (KERNEL, parameter("C", 0.0), "its parameters are not possible: C must be"),
    (KERNEL, parameter("n_jobs", 1025.5), r"n_jobs=1025\.5 is more than the 1024"),
]


@pytest.mark.parametrize(("model", "change", "what"), WRONG)
def test_files_that_are_wrong(tmp_path, model, change, what):
    save(model, path := tmp_path / "model")
    changed(path, change)
    with pytest.raises(ModelFormatError, match=f"{type(model).__name__}: .*{what}"):
        load(path)


@pytest.mark.parametrize(
    ("model", "change", "what"),
    [
        (LINEAR, array("classes", [0.0, 1.0, np.inf]), "array classes has values that are not finite"),
        (LINEAR, as_type("weights", np.float32), "weights and intercept must be float64"),
        (LINEAR, told(first_index=2), "first_index cannot be '2'"),
        (LINEAR, parameter("formulation", ["dag"]), "is unknown|unhashable"),
        (LINEAR, array("calibration", [1.0, 0.5, -0.5]), "calibration must be numbers of float64, and not negative"),
    ],
)
def test_files_that_are_wrong_to_those_who_only_predict(tmp_path, model, change, what):
    save(model, path := tmp_path / "model")
    changed(path, change)
    with pytest.raises(ModelFormatError, match=what):
        load_light(path)


def test_what_the_light_model_knows(tmp_path):
    save(LINEAR, path := tmp_path / "model")
    assert load_light(path).first_index_ is None
    changed(path, told(first_index=1))
    assert load_light(path).first_index_ == 1
    assert load(path).first_index_ == 1


@pytest.mark.parametrize("formulation", ["crammer_singer", "one_vs_one", "dag", "one_vs_rest"])
@pytest.mark.parametrize("labels", [LABELS, LABELS > 0], ids=["three", "two"])
def test_light_probabilities(tmp_path, formulation, labels):
    model = LinearSVM(formulation, probability=True).fit(ROWS, labels)
    save(model, path := tmp_path / "model")
    light = load_light(path)
    np.testing.assert_array_equal(light.predict_proba(ROWS), model.predict_proba(ROWS))
    best, scores = light._best_classes(ROWS, 2)
    np.testing.assert_array_equal(best[:, 0], np.searchsorted(light.classes_, light.predict(ROWS)))
    assert best.shape == scores.shape == (30, 2)


def test_sparse_weights_in_a_file(tmp_path):
    save(SPARSE, path := tmp_path / "model")
    light, whole = load_light(path), load(path)
    np.testing.assert_array_equal(light.predict(ROWS), SPARSE.predict(ROWS))
    np.testing.assert_array_equal(whole.decision_function(ROWS), SPARSE.decision_function(ROWS))
    np.testing.assert_allclose(light.decision_function(ROWS), SPARSE.decision_function(ROWS), rtol=1e-12)
    _, scores = light._best_classes(ROWS, 2)
    np.testing.assert_allclose(scores[:, 0], SPARSE.decision_function(ROWS).max(axis=1), rtol=1e-12)
    assert (scores[:, 0] >= scores[:, 1]).all()
