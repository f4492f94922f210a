"""What commands do around a fit: what is said of it, where grids begin, what is left of a file."""

import os
import shutil
import tempfile
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_iris

from multimargin import KernelSVM, LinearSVM
from multimargin.commands import search, terminal
from multimargin.commands.fitting import fit
from multimargin.commands.machines import describe
from multimargin.commands.main import _say_warnings
from multimargin.commands.model_files import save_or_rescue

X, Y = load_iris(return_X_y=True)


def test_why_it_did_not_converge_is_kept_and_other_warnings_go_on():
    class Warns(LinearSVM):
        def fit(self, X, y):
            warnings.warn("look out", UserWarning, stacklevel=2)
            return super().fit(X, y)

    with pytest.warns(UserWarning, match="look out") as told:
        done = fit(Warns(max_iter=1, solver="sdm", tol=1e-9), X, Y)
    assert "gap is" in done.why_not and len(told) == 1 and 0 < done.seconds < 60
    with pytest.warns(UserWarning, match="look out"):
        assert fit(Warns(), X, Y).why_not == ""


def test_machines_in_a_few_words():
    assert describe(LinearSVM("one_vs_rest", "squared_hinge", C=0.5)) == "one_vs_rest, linear, squared hinge, C = 0.5"
    model = KernelSVM(gamma=0.25).fit(X, Y)
    assert describe(model) == "crammer_singer, rbf kernel, gamma = 0.25, C = 1"


def exponents(model, scale):
    Cs, _ = search._exponents(SimpleNamespace(), model, X * scale)
    return Cs


@pytest.mark.parametrize("model", [LinearSVM(fit_intercept=False), KernelSVM(kernel="linear", fit_intercept=False)])
def test_grids_of_linear_machines_follow_the_scale_of_the_rows(model):
    assert np.subtract(exponents(model, 1.0), exponents(model, 4.0)).tolist() == [4.0] * len(exponents(model, 1.0))


def test_grids_of_other_kernels_do_not():
    assert exponents(KernelSVM(), 1.0) == exponents(KernelSVM(), 4.0)


@pytest.mark.parametrize(
    ("best", "tried", "edges"),
    [
        ((0.0, None), ([-1.0, 0.0, 1.0], [None]), []),
        ((1.0, None), ([-1.0, 0.0, 1.0], [None]), ["C"]),
        ((-1.0, 3.0), ([-1.0, 0.0, 1.0], [3.0]), ["C"]),  # of one value nothing is an edge
        ((0.0, 2.0), ([-1.0, 0.0, 1.0], [1.0, 2.0]), ["gamma"]),
        ((-1.0, 1.0), ([-1.0, 0.0, 1.0], [1.0, 2.0]), ["C", "gamma"]),
    ],
)
def test_the_edges_of_a_grid(best, tried, edges):
    assert search._edges(best, tried) == edges


def test_a_rescue_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    tried = []

    def full(path):
        tried.append(path)
        raise OSError(28, "No space left on device", path)

    with pytest.raises(OSError, match="out/m"):
        save_or_rescue(full, "out/m")
    assert len(tried) == 2 and os.path.dirname(tried[1]) == str(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_live_line_is_shorter_than_the_terminal(monkeypatch, capsys):
    """A line that fills it would begin the next one."""
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((40, 24)))
    shown = terminal.Terminal()
    shown.live = True
    shown.status("x" * 100, now=True)
    assert capsys.readouterr().err == "\r" + "x" * 39


def test_warnings_for_authors_are_not_for_users_of_the_shell(capsys):
    with warnings.catch_warnings():
        _say_warnings(terminal.Terminal())
        for kind in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.warn("not for you", kind, stacklevel=1)
        warnings.warn("for you", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "multimargin: warning: for you\n"
