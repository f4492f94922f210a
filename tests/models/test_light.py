"""Prediction without scikit-learn is prediction with it, to the last bit."""

import json
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multimargin import KernelSVM, LinearSVM, LinearSVMCV
from multimargin.models import ModelFormatError, load, save
from multimargin.models.light import load_light
from tests.models.examples import FORMULATIONS, LABELS, STORAGES, X, Y, same
from tests.models.forge import changed


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_the_same_bits(tmp_path, formulation, storage):
    rows = STORAGES[storage](X)
    shapes = [{}, {"decision_function_shape": "ovo"}] if formulation in ("one_vs_one", "dag") else [{}]
    if formulation == "one_vs_one":
        shapes.append({"break_ties": True})
    for labels in (Y, Y > 4):
        for options in shapes:
            model = LinearSVM(formulation, **options).fit(rows, labels)
            save(model, tmp_path / "model")
            light = load_light(tmp_path / "model")
            assert same(light.decision_function(rows), model.decision_function(rows))
            assert same(light.predict(rows), model.predict(rows))
            assert (light.n_features_in_, light.formulation) == (64, formulation)


@pytest.mark.parametrize("labels", LABELS)
def test_labels(tmp_path, labels):
    model = LinearSVM().fit(X, LABELS[labels](Y))
    save(model, tmp_path / "model", duals=False)
    assert same(load_light(tmp_path / "model").predict(X), model.predict(X))


def test_cross_validated(tmp_path):
    model = LinearSVMCV(Cs=[0.1, 1.0], cv=2).fit(X, Y)
    save(model, tmp_path / "model")
    assert same(load_light(tmp_path / "model").predict(X), model.predict(X))


def test_other_models_are_none(tmp_path):
    for model in (KernelSVM(), make_pipeline(StandardScaler(), LinearSVM())):
        save(model.fit(X, Y), tmp_path / "model")
        assert load_light(tmp_path / "model") is None


def test_rows_of_any_kind(tmp_path):
    model = LinearSVM().fit(X, Y)
    save(model, tmp_path / "model")
    light = load_light(tmp_path / "model")
    expected = model.decision_function(X)
    for rows in (X.tolist(), np.asfortranarray(X), sp.csc_array(X), sp.coo_array(X), sp.csr_matrix(X), X[::-1][::-1]):
        np.testing.assert_allclose(light.decision_function(rows), expected, rtol=0, atol=1e-13)
    assert light.predict(X[:0]).shape == (0,)
    integers = (X * 16).astype(int)
    assert same(light.decision_function(integers), model.decision_function(integers))


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        (X[:, :5], r"X has the shape \(120, 5\), but the model expects rows of 64 features"),
        (X[0], r"X has the shape \(64,\)"),
        (np.full((2, 64), np.nan), "not finite"),
        (sp.csr_array(np.full((2, 64), np.inf)), "not finite"),
        (np.full((2, 64), "a"), "could not convert"),
    ],
)
def test_rows_that_are_wrong(tmp_path, rows, what):
    save(LinearSVM().fit(X, Y), tmp_path / "model")
    with pytest.raises(ValueError, match=what):
        load_light(tmp_path / "model").predict(rows)


def test_broken_rows_are_refused(tmp_path):
    save(LinearSVM().fit(X, Y), tmp_path / "model")
    rows = sp.csr_array(X)
    rows.indices[3] = 10**6
    with pytest.raises(ValueError, match="broken CSR matrix"):
        load_light(tmp_path / "model").predict(rows)


def test_without_calibration_there_are_no_probabilities(tmp_path):
    save(LinearSVM().fit(X, Y), tmp_path / "model")
    light = load_light(tmp_path / "model")
    assert light.calibration_ is None
    with pytest.raises(AttributeError, match="not trained with probability=True"):
        light.predict_proba(X)


def test_calibration_is_there(tmp_path):
    model = LinearSVM().fit(X, Y)
    model.calibration_ = np.array([2.0, 0.5, 0.0])
    save(model, tmp_path / "model")
    assert same(load_light(tmp_path / "model").calibration_, model.calibration_)
    assert same(load(tmp_path / "model").calibration_, model.calibration_)


def test_files_that_are_wrong(tmp_path):
    path = tmp_path / "model"
    save(LinearSVM().fit(X, Y), path)

    def change(description, arrays):
        description["model"]["values"]["parameters"]["dict"].append(["formulation", "nu"])

    changed(path, change)
    with pytest.raises(ModelFormatError, match="formulation 'nu' is unknown"):
        load_light(path)


def test_nothing_heavy_is_imported(tmp_path):
    model = LinearSVM("one_vs_one").fit(X, Y)
    save(model, tmp_path / "model")
    program = """
import json, sys
import numpy as np
from multimargin.models.light import load_light
labels = load_light(sys.argv[1]).predict(np.load(sys.argv[2]))
print(json.dumps([labels.tolist(), sorted({name.split(".")[0] for name in sys.modules})]))
"""
    np.save(tmp_path / "rows.npy", X)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, tmp_path / "model", tmp_path / "rows.npy"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    labels, modules = json.loads(done.stdout)
    assert labels == model.predict(X).tolist()
    assert not {"sklearn", "joblib", "pandas", "scipy", "threadpoolctl", "skl2onnx"} & set(modules)
