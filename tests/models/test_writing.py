"""What is written of models, and what is refused before a file is touched."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import multimargin
from multimargin import KernelSVM, LinearSVM, LinearSVMCV, load, save
from multimargin.data.container import read_container
from multimargin.estimators.plain_linear import PlainLinearSVM
from multimargin.models.envelope import FORMAT, MODEL, VERSION, wrap
from multimargin.models.fitted import check_dense, check_finite, check_fitted
from multimargin.models.parameters import read_parameters, write_parameters
from multimargin.models.pipelines import check_machine
from multimargin.models.plain import save_plain
from multimargin.models.tree import Reader, Writer

X = np.random.default_rng(0).standard_normal((30, 3))
Y = np.arange(30) % 3


def parameters_of(model, **options):
    node = Writer("Thing", {})
    write_parameters(node, model, **options)
    return node.description()["values"]["parameters"]["dict"]


def test_parameters_that_are_written():
    told = dict(map(tuple, parameters_of(LinearSVM(C=2.0, checkpoint="c", n_jobs=5))))
    assert told["C"] == 2.0 and told["n_jobs"] == 5 and "checkpoint" not in told
    assert set(told) == set(LinearSVM().get_params()) - {"checkpoint"}
    assert "C" not in dict(map(tuple, parameters_of(LinearSVM(), without=("C",))))
    for given, stored in ((1024, 1024), (1025, 1024), (np.int64(2000), 1024), (-1, -1), (None, None)):
        assert dict(map(tuple, parameters_of(LinearSVM(n_jobs=given))))["n_jobs"] == stored


def test_parameters_that_only_training_wants():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "callbacks" not in dict(map(tuple, parameters_of(LinearSVM(callbacks=[print]))))
    with pytest.warns(
        UserWarning, match=r"random_state .*left out, and the loaded model has random_state=None"
    ) as told:
        assert "random_state" not in dict(map(tuple, parameters_of(LinearSVM(random_state=np.random.RandomState(0)))))
    assert len(told) == 1
    with pytest.warns(UserWarning, match=r"the parameter cv of LinearSVMCV .*the loaded model has cv=5"):
        parameters_of(LinearSVMCV(cv=object()))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            KernelSVM(kernel=max),
            "the parameter kernel of KernelSVM cannot be stored in a file: it is the callable max; set",
        ),
        (
            LinearSVM(class_weight={0: object()}),
            "class_weight of LinearSVM cannot be stored in a file: it is a object; set",
        ),
        (LinearSVM(C=float), "C of LinearSVM cannot be stored in a file: it is the callable float; set"),
    ],
)
def test_parameters_that_cannot_be_written(model, words):
    with pytest.raises(TypeError, match=words):
        parameters_of(model)


def read(kind, told, **own):
    node = Reader("file", {"kind": "Thing", "values": {"parameters": {"dict": told}}}, {})
    return read_parameters(node, kind, **own)


def test_parameters_that_are_read():
    model = read(LinearSVM, [["C", 2.0], ["n_jobs", 1024]], formulation="dag")
    assert (model.C, model.n_jobs, model.formulation, model.tol) == (2.0, 1024, "dag", 1e-3)
    for told, own, words in (
        ([["b", 1], ["a", 2]], {}, "its parameters 'a', 'b' are not known to this version of multimargin"),
        ([["C", 1.0]], {"C": 2.0}, "its parameter 'C' has no place in a file"),
        ([["C", {"dtype": "int"}]], {}, "its parameter 'C' cannot be the callable int"),
        ([["n_jobs", 1025]], {}, "n_jobs=1025 is more than the 1024 a file may ask for"),
    ):
        with pytest.raises(ValueError, match=words):
            read(LinearSVM, told, **own)
    with pytest.raises(ValueError, match="are not known to this version of sklearn"):
        read(StandardScaler, [["x", 1]])


def test_the_description_of_a_file(tmp_path):
    save(LinearSVM().fit(X, Y), tmp_path / "m")
    description, _ = read_container(tmp_path / "m", MODEL)
    assert (description["format"], description["format_version"]) == (FORMAT, VERSION) == ("multimargin model", 1)
    assert (
        description["versions"]["multimargin"] == multimargin.__version__ and "scikit-learn" in description["versions"]
    )
    assert wrap({}, x="1")["versions"] == {"multimargin": multimargin.__version__, "x": "1"}


def test_what_is_left_out_of_a_file(tmp_path):
    online = LinearSVM().partial_fit(X, Y, classes=[0, 1, 2])
    save(online, tmp_path / "m")
    description, arrays = read_container(tmp_path / "m", MODEL)
    values = description["model"]["values"]
    assert not {"certificate", "converged", "problem", "first_index", "feature_names.type"} & set(values)
    assert set(arrays) == {"classes", "weights", "intercept"} and values["n_iter"] == 1 and values["n_features"] == 3
    model = LinearSVM().fit(X, Y)
    model.first_index_ = 0
    save(model, tmp_path / "m", duals=False)
    description, arrays = read_container(tmp_path / "m", MODEL)
    assert description["model"]["values"]["first_index"] == 0 and "support" not in arrays
    assert description["model"]["values"]["certificate"] == [
        model.primal_objective_,
        model.dual_objective_,
        model.dual_gap_,
        model.worst_gap_,
    ]
    save(model, tmp_path / "m")
    _, arrays = read_container(tmp_path / "m", MODEL)
    assert arrays["weights"].shape == (3, 3) and arrays["support"].tolist() == model.support_.tolist()
    assert {name for name in arrays if name.startswith("duals")} == {"duals.data", "duals.indices", "duals.indptr"}


def test_a_plain_model_is_written_as_a_linear_one(tmp_path):
    plain = PlainLinearSVM(C=0.5).fit(X, Y)
    save_plain(plain, tmp_path / "p")
    read = load(tmp_path / "p")
    model = LinearSVM(C=0.5).fit(X, Y)
    assert type(read) is LinearSVM and read.C == 0.5
    np.testing.assert_array_equal(read.decision_function(X), model.decision_function(X))
    np.testing.assert_array_equal(read.dual_coef_.toarray(), model.dual_coef_.toarray())
    np.testing.assert_array_equal(read.support_, model.support_)


def test_models_that_do_not_fit_themselves(tmp_path):
    cases = []
    model = LinearSVM().fit(X, Y)
    model.intercept_ = np.zeros(2)
    cases.append((model, "do not belong to formulation='crammer_singer', 3 classes and 3 features"))
    model = LinearSVM().fit(X, Y)
    model.intercept_ = np.array([0, np.nan, 0])
    cases.append((model, "intercept_ has values that are not finite: fit the model again"))
    model = LinearSVM().fit(X, Y)
    model.dual_coef_ = model.dual_coef_[:, :2]
    cases.append(
        (model, r"dual_coef_ of shape \(30, 2\) does not belong to formulation='crammer_singer' and 3 classes")
    )
    model = KernelSVM().fit(X, Y)
    model.support_vectors_ = model.support_vectors_ * np.inf
    cases.append((model, "support_vectors_ has values that are not finite"))
    model = KernelSVM().fit(sp.csr_array(X), Y)
    model.dual_coef_.data[0] = np.nan
    cases.append((model, "dual_coef_ has values that are not finite"))
    for broken, words in cases:
        with pytest.raises(ValueError, match=words), np.errstate(invalid="ignore"):
            save(broken, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_small_checks():
    with pytest.raises(NotFittedError, match="this LinearSVM is not fitted: there is nothing to save before fit"):
        check_fitted(LinearSVM(), "coef_")
    check_fitted(LinearSVM().fit(X, Y), "coef_")
    check_finite(a=np.ones(2), b=np.zeros(0))
    with pytest.raises(ValueError, match=r"^b has values that are not finite"):
        check_finite(a=np.ones(2), b=np.array([np.inf]))
    check_dense(LinearSVM(), "so")
    check_dense(LinearSVM().fit(X, Y), "so")
    with pytest.raises(
        ValueError, match=r"the weights of this LinearSVM are sparse \(3 classes, 3 features\), and so; "
    ):
        check_dense(LinearSVM(memory_mb=1e-6).fit(X, Y), "so")


class Mine(LinearSVM):
    """Derived."""


class OfWorkers(LinearSVM):
    """As multimargin.dask has it."""

    def to_local(self):
        return self


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (Mine(), "^Mine is a class of its own, derived from one of multimargin; LinearSVM"),
        (
            OfWorkers(),
            r"^OfWorkers of multimargin\.dask cannot be saved, the local model that to_local\(\) gives can be",
        ),
        (StandardScaler(), "^StandardScaler cannot be saved; LinearSVM"),
        (make_pipeline(Mine(), StandardScaler()), "^a pipeline that ends in StandardScaler cannot be saved; LinearSVM"),
        (make_pipeline(StandardScaler(), make_pipeline(Mine())), "^Mine is a class of its own"),
    ],
)
def test_which_models_are_saved(model, words):
    with pytest.raises(TypeError, match=words):
        check_machine(model)
    check_machine(make_pipeline(StandardScaler(), make_pipeline(KernelSVM())))


def test_load_needs_a_path():
    with pytest.raises(TypeError, match="load needs the path of a model file, got LinearSVM"):
        load(LinearSVM())
