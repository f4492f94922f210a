"""LIBSVM's text models, checked with LIBSVM itself."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from libsvm.svmutil import svm_load_model, svm_predict, svm_save_model, svm_train
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from multimargin import KernelSVM, LinearSVM
from multimargin.models import ModelFormatError, load, save
from multimargin.models.libsvm import read_libsvm, write_libsvm
from multimargin.reductions.pairwise import pairs, votes
from tests.models.examples import FORMULATIONS, WORDS, X, Y, assert_same_state, same

KERNELS = {"linear": 0, "poly": 1, "rbf": 2, "sigmoid": 3}


def predicted(path, rows):
    """Labels by LIBSVM, and the values of our machines: pairs of sorted labels, or one, positive for the larger."""
    model = svm_load_model(str(path))
    labels, _, values = svm_predict([], rows, model, "-q")
    told = model.get_labels()
    k, values = len(told), np.array(values)
    number = {pair: machine for machine, pair in enumerate(pairs(k))}
    place = [told.index(label) for label in sorted(told)]
    ours = []
    for i, j in pairs(k):
        a, b = place[i], place[j]
        ours.append(values[:, number[a, b]] if a < b else -values[:, number[b, a]])
    return np.array(labels), -ours[0] if k == 2 else np.array(ours).T


def check_written(model, path, rows, theirs=None):
    write_libsvm(model, path)
    labels, values = predicted(path, rows if theirs is None else theirs)
    model.set_params(decision_function_shape="ovo" if len(model.classes_) > 2 else "ovr")
    np.testing.assert_array_equal(labels, model.predict(rows))
    np.testing.assert_allclose(values, model.decision_function(rows), rtol=1e-7, atol=1e-8)
    model.set_params(decision_function_shape="ovr")


def serials(K):
    return [[i, *row] for i, row in enumerate(K.tolist(), 1)]


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("kernel", KERNELS)
def test_written_models(tmp_path, kernel, storage):
    rows = storage(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # sigmoid is not positive semidefinite
        model = KernelSVM("one_vs_one", kernel, 2.0, gamma=0.02, coef0=0.5, degree=2, max_iter=50).fit(rows, Y * 2 - 9)
    check_written(model, tmp_path / "model", rows, X)
    again = read_libsvm(tmp_path / "model", n_features=64)
    again.set_params(decision_function_shape="ovo")
    model.set_params(decision_function_shape="ovo")
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    np.testing.assert_allclose(again.decision_function(rows), model.decision_function(rows), rtol=1e-9, atol=1e-9)
    assert same(again.n_support_, model.n_support_)


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("labels", [(-1, 1), (1, -1), (0, 5)])
def test_written_models_of_two_classes(tmp_path, formulation, labels):
    model = KernelSVM(formulation).fit(X, np.where(Y > 4, *labels))
    check_written(model, tmp_path / "model", X)
    again = read_libsvm(tmp_path / "model", n_features=64)
    np.testing.assert_allclose(again.decision_function(X), model.decision_function(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("labels", [Y, Y > 4])
def test_precomputed(tmp_path, labels):
    K = X @ X.T
    model = KernelSVM("one_vs_one", "precomputed").fit(K, labels.astype(int))
    check_written(model, tmp_path / "model", K, serials(K))
    again = read_libsvm(tmp_path / "model", n_features=120)
    np.testing.assert_allclose(again.decision_function(K), model.decision_function(K), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(again.support_, model.support_)


@pytest.mark.parametrize("labels", [Y * 2 - 9, (Y > 4) * 2 - 1, (Y[0] == Y) * 2 - 1, Y[0] - Y], ids=str)
@pytest.mark.parametrize("kernel", [*KERNELS, "precomputed"])
def test_read_models(tmp_path, kernel, labels):
    path = tmp_path / "model"
    rows = X @ X.T if kernel == "precomputed" else X
    theirs = serials(rows) if kernel == "precomputed" else X
    svm_save_model(str(path), svm_train(labels, theirs, f"-t {KERNELS.get(kernel, 4)} -g 0.02 -r 0.5 -d 2 -q"))
    expected, values = predicted(path, theirs)
    model = read_libsvm(path, n_features=rows.shape[1])
    decided = np.ones(len(rows), dtype=bool)
    if len(model.classes_) > 2:  # the same number of votes: LIBSVM goes by the order of its file
        won = np.sort(votes(values, 10), axis=1)
        decided = won[:, -1] > won[:, -2]
        assert decided.mean() > 0.9
    np.testing.assert_array_equal(model.predict(rows)[decided], expected[decided])
    model.set_params(decision_function_shape="ovo")
    np.testing.assert_allclose(model.decision_function(rows), values, rtol=1e-7, atol=1e-8)
    model.set_params(decision_function_shape="ovr")
    np.testing.assert_array_equal(read_libsvm(path, n_features=rows.shape[1]).predict(rows), model.predict(rows))
    check_written(model, tmp_path / "again", rows, theirs)
    save(model, tmp_path / "ours")
    assert_same_state(load(tmp_path / "ours"), model)


def test_sparse_vectors_stay_sparse(tmp_path):
    wide = sp.random_array((60, 500), density=0.02, rng=np.random.default_rng(0), format="csr")
    wide = sp.csr_matrix(wide)
    svm_save_model(str(tmp_path / "model"), svm_train(np.arange(60) % 3, wide, "-q"))
    model = read_libsvm(tmp_path / "model", n_features=500)
    assert sp.issparse(model.support_vectors_)
    np.testing.assert_array_equal(model.predict(wide), predicted(tmp_path / "model", wide)[0])


def test_probabilities_are_left_out_with_a_warning(tmp_path):
    svm_save_model(str(tmp_path / "model"), svm_train(Y % 3, X, "-b 1 -q"))
    with pytest.warns(UserWarning, match="the probabilities of LIBSVM .* are left out"):
        model = read_libsvm(tmp_path / "model", n_features=64)
    np.testing.assert_array_equal(model.predict(X), predicted(tmp_path / "model", X)[0])


@pytest.mark.parametrize("svm_type", [1, 2, 3, 4])
def test_other_types_are_refused_by_name(tmp_path, svm_type):
    svm_save_model(str(tmp_path / "model"), svm_train(Y % 2, X, f"-s {svm_type} -n 0.1 -q"))
    with pytest.raises(ModelFormatError, match=r"svm_type \w+ is a.*, which KernelSVM is not"):
        read_libsvm(tmp_path / "model")


@pytest.mark.parametrize("formulation", ["crammer_singer", "weston_watkins", "one_vs_rest", "dag"])
def test_other_formulations_are_refused(tmp_path, formulation):
    with pytest.raises(ValueError, match=f"'{formulation}' with 10 classes cannot be written for LIBSVM"):
        write_libsvm(KernelSVM(formulation).fit(X, Y), tmp_path / "model")


def test_other_models_are_refused(tmp_path):
    with pytest.raises(TypeError, match="LinearSVM cannot be written for LIBSVM, which has KernelSVM only"):
        write_libsvm(LinearSVM().fit(X, Y), tmp_path / "model")
    with pytest.raises(TypeError, match=r"Pipeline cannot be written.*write its last step"):
        write_libsvm(make_pipeline(StandardScaler(), KernelSVM()).fit(X, Y), tmp_path / "model")
    with pytest.raises(ValueError, match="is not fitted"):
        write_libsvm(KernelSVM(), tmp_path / "model")
    with pytest.raises(TypeError, match="a callable kernel cannot be written"):
        write_libsvm(KernelSVM("one_vs_one", lambda A, B: A @ B.T).fit(X, Y), tmp_path / "model")
    with pytest.raises(TypeError, match="LIBSVM has labels that are integers"):
        write_libsvm(KernelSVM("one_vs_one").fit(X, WORDS[Y]), tmp_path / "model")


GOOD = """svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 3
total_sv 3
rho 0.25 0.5 -0.5
label 7 5 6
nr_sv 1 1 1
SV
1 0.5 1:0.5 3:2
-1 0.25 2:1
-0.5 -0.25 1:-1
"""


def test_the_good_file(tmp_path):
    (tmp_path / "model").write_text(GOOD)
    model = read_libsvm(tmp_path / "model")
    assert model.classes_.tolist() == [5, 6, 7]
    assert model.n_features_in_ == 3
    # pairs (5, 6), (5, 7), (6, 7) are (1, 2), -(0, 1), -(0, 2) of the file
    assert model.intercept_.tolist() == [0.5, 0.25, 0.5]
    assert model.dual_coef_.toarray().tolist() == [[0, -1, -0.5], [0.25, 1, 0], [-0.25, 0, 0.5]]


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("c_svc", "magic", "line 1: svm_type 'magic' is unknown"),
        ("rbf", "magic", "line 2: kernel_type 'magic' is unknown"),
        ("gamma 0.5\n", "", "the line 'gamma' is missing"),
        ("gamma 0.5", "gamma -0.5", "gamma -0.5 is negative"),
        ("gamma 0.5", "gamma nan", "line 3: 'nan' cannot stand here"),
        ("rbf\n", "polynomial\ncoef0 0\n", "the line 'degree' is missing"),
        ("nr_class 3", "nr_class 4", "line 7: label has 3 entries, not 4"),
        ("nr_class 3", "nr_class 2147483647", "line 7: label has 3 entries"),
        ("nr_class 3", "nr_class 0", "line 4: '0' cannot stand here"),
        ("total_sv 3", "total_sv 4", "total_sv is 4, the sum of nr_sv is 3, and 3 support vectors follow"),
        ("rho 0.25 0.5 -0.5", "rho 0.25", "line 6: rho has 1 entries, not 3"),
        ("label 7 5 6", "label 7 5 5", "a label is there twice"),
        ("nr_sv 1 1 1", "nr_sv 1 1 2", "the sum of nr_sv is 4"),
        ("nr_sv 1 1 1", "nr_sv 3 1 -1", "line 8: '-1' cannot stand here"),
        ("-1 0.25 2:1", "-1", "line 11: there are 1 coefficients, not 2"),
        ("-1 0.25 2:1", "-1 x 2:1", "line 11: 'x' cannot stand here"),
        ("-1 0.25 2:1", "-1 0.25 2", "line 11: '2' is not column:value"),
        ("-1 0.25 2:1", "-1 0.25 0:1", "line 11: '0' cannot stand here"),
        ("-1 0.25 2:1", "-1 0.25 -2:1", "line 11: '-2' cannot stand here"),
        ("-1 0.25 2:1", "-1 0.25 2:1 1:1", "line 11: '1' cannot stand here"),
        ("-1 0.25 2:1", "-1 0.25 2:1 2:1", "line 11: '2' cannot stand here"),
        ("-1 0.25 2:1", "-1 0.25 99999999999:1", "line 11: '99999999999' cannot stand here"),
        ("-1 0.25 2:1", "-1 0.25 2:inf", "line 11: 'inf' cannot stand here"),
        ("SV\n", "SV \nSV\n", "total_sv is 3|line 10"),
        ("rbf\ngamma 0.5", "precomputed", "must be 0:number of a training row"),
        (GOOD, "svm_type c_svc\n", "line 2: '' is no key|there is no line 'SV'"),
    ],
)
def test_files_that_are_wrong(tmp_path, before, after, what):
    path = tmp_path / "model"
    path.write_text(GOOD.replace(before, after))
    with pytest.raises(ModelFormatError, match=f"model: .*({what})"):
        read_libsvm(path)


def test_columns_beyond_those_that_are_told(tmp_path):
    (tmp_path / "model").write_text(GOOD)
    with pytest.raises(ModelFormatError, match="line 10: '3' cannot stand here"):
        read_libsvm(tmp_path / "model", n_features=2)


def precomputed_file(path, serial):
    lines = ["svm_type c_svc", "kernel_type precomputed", "nr_class 2", "total_sv 2", "rho 0", "label 0 1", "nr_sv 1 1"]
    path.write_text("\n".join([*lines, "SV", "-1 0:2", f"1 {serial}", ""]))
    return path


@pytest.mark.parametrize("row", [1_000_001, 2**31 - 1])
def test_a_small_file_does_not_ask_for_much_memory(tmp_path, row):
    path = precomputed_file(tmp_path / "model", f"0:{row}")
    with pytest.raises(ModelFormatError, match=f"line 10: training row {row} of a .*say how many by n_features$"):
        read_libsvm(path)


def test_many_training_rows(tmp_path):
    model = read_libsvm(precomputed_file(tmp_path / "model", "0:1000000"))
    assert model.shape_fit_ == (1_000_000, 1_000_000)
    model = read_libsvm(precomputed_file(tmp_path / "model", "0:1000001"), n_features=1_500_000)
    assert model.support_.tolist() == [1, 1_000_000]
    assert model.n_features_in_ == 1_500_000


@pytest.mark.parametrize("serial", ["0:0", "0:1.5", "0:4", "0:1 1:2", "1:1", ""])
def test_precomputed_files_that_are_wrong(tmp_path, serial):
    path = precomputed_file(tmp_path / "model", serial)
    with pytest.raises(ModelFormatError, match="support vector"):
        read_libsvm(path, n_features=3)
