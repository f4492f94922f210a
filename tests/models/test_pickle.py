"""pickle, joblib and skops keep working beside our own files."""

import copy
import pickle

import joblib
import pytest
import scipy.sparse as sp
import skops.io
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from multimargin import KernelSVM, LinearSVM, LinearSVMCV
from multimargin.models import load, save
from tests.models.examples import FORMULATIONS, WORDS, X, Y, same

MODELS = [
    *(LinearSVM(formulation) for formulation in FORMULATIONS),
    *(KernelSVM(formulation) for formulation in FORMULATIONS),
    LinearSVMCV(Cs=[0.1, 1.0], cv=2),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("rows", [X, sp.csr_array(X)], ids=["dense", "sparse"])
def test_fitted_models(tmp_path, model, rows):
    model = model.fit(rows, WORDS[Y])
    joblib.dump(model, tmp_path / "model.joblib", compress=3)
    save(model, tmp_path / "model")
    for again in (
        pickle.loads(pickle.dumps(model)),
        joblib.load(tmp_path / "model.joblib"),
        pickle.loads(pickle.dumps(load(tmp_path / "model"))),
    ):
        assert same(again.decision_function(rows), model.decision_function(rows))
        assert same(again.predict(rows), model.predict(rows))
        assert again.get_params() == model.get_params()


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_skops(model):
    model = model.fit(X, WORDS[Y])
    stored = skops.io.dumps(model)
    unknown = skops.io.get_untrusted_types(data=stored)
    assert all(name.startswith(("multimargin.", "scipy.sparse.")) for name in unknown), unknown
    again = skops.io.loads(stored, trusted=unknown)
    assert same(again.decision_function(X), model.decision_function(X))
    assert again.get_params() == model.get_params()


def test_pipelines():
    words = ["red green", "blue sky", "green field", "sky and sea", "red rose", "blue sea"]
    model = make_pipeline(TfidfVectorizer(), LinearSVM()).fit(words, list("abaaab"))
    again = pickle.loads(pickle.dumps(model))
    assert same(again.decision_function(words), model.decision_function(words))


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_models_that_were_not_fitted(model):
    model = clone(model)
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert again.get_params() == model.get_params() and not hasattr(again, "classes_")
        assert same(again.fit(X, Y).predict(X), model.fit(X, Y).predict(X))


def test_sparse_weights():
    model = LinearSVM(memory_mb=1e-6).fit(X, Y)
    assert sp.issparse(model.coef_)
    again = pickle.loads(pickle.dumps(model))
    assert sp.issparse(again.coef_) and same(again.predict(X), model.predict(X))
