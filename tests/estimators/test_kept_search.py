"""A search and its file, without the fits: what is kept, when it is written, what is refused."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris

from multimargin import LinearSVM
from multimargin.estimators.kept_search import KeptSearch, Search

X, Y = load_iris(return_X_y=True)
DUALS = sp.csr_array(np.eye(3))


class File:
    """A file of a state, in memory."""

    def __init__(self, path, state=None, due=False):
        self.path, self.state, self.written, self.removed = path, state, [], 0
        self.due, self.restoring = (lambda: due), nullcontext

    def write(self, state):
        self.written.append(state)

    def is_ours(self):
        return True

    def remove(self):
        self.removed += 1


def fitted(duals=DUALS, converged=True):
    return SimpleNamespace(dual_coef_=duals, converged_=converged)


def test_a_search_that_is_not_kept():
    search = Search(2, 3)
    assert search.told.shape == (2, 3, 3) and np.isnan(search.told).all()
    assert search.begin(0, None, None, None, None, None) == 0 and search.fit_file(0, 0) is None
    search.finish(1, 2, fitted(), (0.5, 1e-3, 7))
    search.save()
    assert search.told[1, :, 2].tolist() == [0.5, 1e-3, 7.0] and np.isnan(search.told).sum() == 15
    assert search.converged.tolist() == [[False] * 3, [False, False, True]]


@pytest.mark.parametrize("due", [False, True])
def test_fits_are_written_when_it_is_time(tmp_path, due):
    file = File(tmp_path / "state", due=due)
    search = KeptSearch(2, 2, file)
    search.save()
    (begin,) = file.written  # and nothing new
    assert begin["finished"].tolist() == [0, 0] and np.isnan(begin["told"]).all()
    file.written.clear()
    of_fit = search.fit_file(1, 0)
    assert of_fit == tmp_path / "state.fold1.C0"
    of_fit.write_text("")
    search.finish(1, 0, fitted(), (0.5, 1e-3, 7))
    assert not of_fit.exists() and len(file.written) == due
    search.save()
    search.save()
    assert len(file.written) == 1  # once is enough
    (state,) = file.written
    assert state["finished"].tolist() == [0, 1] and state["told"].shape == (12,)
    assert {name for name in state if "fold" in name} == {"fold1.data", "fold1.indices", "fold1.indptr"}
    search.finish(1, 1, fitted(), (0.5, 1e-3, 7))
    search.save()
    assert not [name for name in file.written[-1] if "fold" in name]  # no fit of this fold will start from them


def state(finished=(1, 2), gap=1e-3, dtype=np.float64, **changes):
    told = np.full((2, 3, 2), np.nan)
    told[0, :, :1] = told[1, :, :2] = gap
    duals = {f"fold0.{name}": getattr(DUALS, name) for name in ("data", "indices", "indptr")}
    return {"finished": np.array(finished, np.int64), "told": told.ravel().astype(dtype)} | duals | changes


def test_a_search_goes_on_from_its_state(tmp_path):
    search = KeptSearch(2, 2, File(tmp_path / "state", state()))
    assert search.told[1, 0].tolist() == [1e-3, 1e-3] and np.isnan(search.told[0, :, 1]).all()
    model = LinearSVM(warm_start=True)
    assert search.begin(1, model, np.array([1.0, 2.0]), X, Y, None) == 2 and not hasattr(model, "dual_coef_")
    fresh = KeptSearch(2, 2, File(tmp_path / "state"))
    assert fresh.begin(0, model, np.array([1.0, 2.0]), X, Y, None) == 0 and not hasattr(model, "dual_coef_")


def test_which_fits_converged_is_kept(tmp_path):
    file = File(tmp_path / "state")
    search = KeptSearch(2, 2, file)
    search.finish(0, 0, fitted(converged=False), (0.5, 1e-3, 7))
    search.finish(1, 0, fitted(), (0.5, 1e-3, 7))
    search.save()
    again = KeptSearch(2, 2, File(tmp_path / "state", file.written[-1]))
    assert again.converged.tolist() == [[False, False], [True, False]]
    assert KeptSearch(2, 2, File(tmp_path / "state", state())).converged.all()  # of a version that did not keep it


def test_the_duals_of_the_last_fit_are_the_next_ones_start(tmp_path):
    before = LinearSVM(C=0.5).fit(X, Y)
    duals = {f"fold0.{name}": getattr(before.dual_coef_, name) for name in ("data", "indices", "indptr")}
    search = KeptSearch(2, 2, File(tmp_path / "state", state(**duals)))
    model = LinearSVM(warm_start=True)
    assert search.begin(0, model, np.array([0.5, 2.0]), X, Y, None) == 1
    assert model.C == 0.5 and model._dual_problem == ("crammer_singer", "hinge", (150, 3))
    np.testing.assert_array_equal(model.dual_coef_.toarray(), before.dual_coef_.toarray())
    assert model._dual_caps.tolist() == [0.5] * 150 and model._dual_labels.tolist() == Y.tolist()
    with pytest.raises(ValueError, match="outside of their bounds"):
        search.begin(0, LinearSVM(), np.array([0.01, 2.0]), X, Y, None)  # of a smaller C
    weighted = KeptSearch(2, 2, File(tmp_path / "state", state(**duals)))
    weighted.begin(0, model, np.array([0.25, 2.0]), X, Y, np.full(150, 2.0))
    assert model._dual_caps.tolist() == [0.5] * 150


@pytest.mark.parametrize(
    ("forged", "words"),
    [
        (state(finished=(1, 3)), "there are no such fits: 2 folds have 2 each"),
        (state(finished=(-1, 2)), "there are no such fits"),
        (state(finished=(1,)), "there are no such fits"),
        (state(finished=np.array([1.0, 2.0])) | {"finished": np.array([1.0, 2.0])}, "there are no such fits"),
        (state(told=np.zeros(11)), "every fit must have a score, a gap and epochs"),
        (state(dtype=np.float32), "every fit must have a score, a gap and epochs"),
        (state(converged=np.ones(3, bool)), "it must be said whether it converged"),
        (state(converged=np.ones(4)), "it must be said whether it converged"),
        (state(gap=-1e-9), "gaps and epochs must be finite and not negative"),
        (state(gap=np.inf), "gaps and epochs must be finite and not negative"),
        (state(finished=(2, 2)), "gaps and epochs must be finite and not negative"),
    ],
)
def test_states_that_no_search_has(tmp_path, forged, words):
    with pytest.raises(ValueError, match=words):
        KeptSearch(2, 2, File(tmp_path / "state", forged))


def test_gaps_of_zero_and_any_score_are_fine(tmp_path):
    good = state(gap=0.0)
    good["told"][0] = np.nan  # a score
    assert np.isnan(KeptSearch(2, 2, File(tmp_path / "state", good)).told[0, 0, 0])


def test_at_the_end_all_files_go(tmp_path):
    file = File(tmp_path / "state")
    search = KeptSearch(2, 3, file)
    for fold in range(2):
        for number in range(3):
            search.fit_file(fold, number).write_text("")
    (tmp_path / "other").write_text("")
    search.state_is_removed()
    assert file.removed == 1 and [path.name for path in tmp_path.iterdir()] == ["other"]
