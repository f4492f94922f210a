"""The machine without scikit-learn: bit for bit what LinearSVM is."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning

from multimargin import LinearSVM, load, save
from multimargin.data.container import read_container
from multimargin.data.csr import Csr
from multimargin.estimators.plain_linear import PlainLinearSVM
from multimargin.linear.solvers import SOLVERS
from multimargin.models.envelope import MODEL
from multimargin.models.plain import save_plain
from multimargin.problems.formulations import FORMULATIONS

X, Y = load_digits(return_X_y=True)
X, Y = X[::4] / 16, Y[::4]


def contents(path):
    description, arrays = read_container(path, MODEL)
    versions = description.pop("versions")
    return description, {name: np.asarray(array) for name, array in arrays.items() if "seconds" not in name}, versions


@pytest.mark.parametrize("rows", [X, sp.csr_array(X), X.astype(np.float32)], ids=["dense", "sparse", "float32"])
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_same_model_same_file(tmp_path, formulation, rows):
    plain = PlainLinearSVM(formulation, C=0.5, random_state=3).fit(rows, Y)
    full = LinearSVM(formulation, C=0.5, random_state=3).fit(rows, Y)
    assert plain.get_params() == full.get_params(deep=False)
    np.testing.assert_array_equal(plain.coef_, full.coef_)
    np.testing.assert_array_equal(plain.predict(rows), full.predict(rows))
    save_plain(plain, tmp_path / "plain")
    save(full, tmp_path / "full")
    (told, arrays, versions), (expected, others, _) = contents(tmp_path / "plain"), contents(tmp_path / "full")
    assert told == expected and set(versions) == {"multimargin"}
    assert arrays.keys() == others.keys()
    for name in arrays:
        np.testing.assert_array_equal(arrays[name], others[name], err_msg=name)
    again = load(tmp_path / "plain")
    np.testing.assert_array_equal(again.decision_function(rows), full.decision_function(rows))
    assert (again.dual_coef_ != full.dual_coef_).nnz == 0


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_reads_rows_without_scipy(name):
    """svmlight text comes as Csr; solvers that need a matrix make one."""
    solver, sparse = SOLVERS[name], sp.csr_array(X)
    rows = Csr(sparse.data, sparse.indices, sparse.indptr, sparse.shape)
    for formulation in solver.formulations:
        options = dict(formulation=formulation, loss=solver.losses[0], solver=name, tol=0.1, max_iter=30)
        plain = PlainLinearSVM(**options).fit(rows, Y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            full = LinearSVM(**options).fit(sparse, Y)
        np.testing.assert_array_equal(plain.coef_, full.coef_)


def test_two_classes_and_weights(tmp_path):
    rows, labels = load_iris(return_X_y=True)
    rows, labels = rows[50:], labels[50:]
    options = dict(class_weight={1: 2.0}, solver="newton")
    plain, full = (kind(**options).fit(rows, labels) for kind in (PlainLinearSVM, LinearSVM))
    np.testing.assert_array_equal(plain.coef_, full.coef_)
    np.testing.assert_array_equal(plain.predict(rows), full.predict(rows))


def test_words_when_it_does_not_converge():
    model = PlainLinearSVM("crammer_singer", C=100.0, max_iter=1, solver="sdm").fit(X, Y)
    assert not model.converged_ and model.why_not.startswith("LinearSVM stopped after max_iter=1 epochs")


def test_bad_rows_are_refused():
    broken = X.copy()
    broken[3, 4] = np.nan
    with pytest.raises(ValueError, match="X holds nan, which is not finite, in row 3, column 4"):
        PlainLinearSVM().fit(broken, Y)
    with pytest.raises(ValueError, match="in row 3, column 4"):
        PlainLinearSVM().fit(sp.csr_array(broken), Y)
    with pytest.raises(ValueError, match="only one class"):
        PlainLinearSVM().fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="rows of 64 features"):
        PlainLinearSVM().fit(X, Y).predict(X[:, :5])


def test_train_imports_nothing_heavy(tmp_path):
    """The command, on svmlight text: neither scikit-learn nor SciPy."""
    from multimargin import write_svmlight

    write_svmlight(tmp_path / "rows.svm", X, Y)
    program = """
import json, sys
from multimargin.commands.main import main
code = main(["train", sys.argv[1], sys.argv[2], "--json", "--solver", "accelerated_sdm"])
print(json.dumps([code, sorted({name.split(".")[0] for name in sys.modules})]))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, tmp_path / "rows.svm", tmp_path / "model"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code in (0, None)
    assert not {"sklearn", "joblib", "pandas", "scipy"} & set(modules)
    again = load(tmp_path / "model")
    expected = LinearSVM(solver="accelerated_sdm", random_state=0).fit(sp.csr_array(X), Y)
    np.testing.assert_array_equal(again.predict(X), expected.predict(X))
