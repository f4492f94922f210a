"""Parameters at their bounds, and just beyond them."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from multimargin import KernelSVM, LinearSVM
from multimargin.estimators.names import knows_other_names
from multimargin.estimators.parameters import check_kernel, check_linear, check_number, check_seed, n_threads
from multimargin.problems.range import SMALLEST_C


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"above": 0}, 1e-300),
        ({"at_least": 0}, 0),
        ({"at_most": 1}, 1.0),
        ({"integer": True}, np.int8(3)),
        ({}, -1e308),
        ({}, np.float16(1)),
        ({"integer": True, "at_most": 2**63}, 2**63),
    ],
)
def test_numbers_at_their_bounds(options, value):
    assert check_number("it", value, **options) is None


@pytest.mark.parametrize(
    ("options", "value", "error", "words"),
    [
        ({"above": 0}, 0, ValueError, "it must be finite and above 0, got 0"),
        ({"at_least": 0}, -1e-300, ValueError, "it must be finite and at least 0, got -1e-300"),
        ({"at_most": 1}, 1.0000001, ValueError, "it must be finite and at most 1, got 1.0000001"),
        ({"above": 0, "at_most": 2}, 3, ValueError, "it must be finite and above 0 and at most 2, got 3"),
        ({}, float("inf"), ValueError, "it must be finite, got inf"),
        ({"integer": True}, 10**400, ValueError, "it must be finite, got 1"),
        ({"at_least": 1, "hint": "; so"}, 0, ValueError, "it must be finite and at least 1, got 0; so"),
        ({"integer": True}, 1.0, TypeError, "it must be an integer, got 1.0"),
        ({"integer": True}, Fraction(1), TypeError, "it must be an integer, got Fraction(1, 1)"),
        ({}, True, TypeError, "it must be a number, got True; float(...) makes one of it"),
        ({}, "1", TypeError, "it must be a number, got '1'"),
        ({}, Decimal("1"), TypeError, "it must be a number, got Decimal('1'); float(...) makes one of it"),
        ({}, np.longdouble(1), TypeError, "; float(...) makes one of it"),
    ],
)
def test_numbers_beyond_them(options, value, error, words):
    with pytest.raises(error) as refused:
        check_number("it", value, **options)
    assert words in str(refused.value)
    assert ("makes one of it" in str(refused.value)) == ("makes one" in words)


def test_seeds():
    for good in (None, 0, 2**32 - 1, np.int64(3), np.random.RandomState(0)):
        check_seed(good)
    for bad in (-1, 2**32, "3", 1.5):
        with pytest.raises(ValueError, match=r"random_state must be None, an integer from 0 to 2\*\*32 - 1"):
            check_seed(bad)


LINEAR_BOUNDS = [
    ({"C": SMALLEST_C}, {"C": SMALLEST_C * 0.99}, "C must be at least"),
    ({"intercept_scaling": 1e-100}, {"intercept_scaling": 0.99e-100}, "intercept_scaling must be at least 1e-100"),
    ({"intercept_scaling": 1e100}, {"intercept_scaling": 1.01e100}, "at most 1e"),
    ({"max_iter": 1}, {"max_iter": 0}, "max_iter must be finite and at least 1, got 0$"),
    (
        {"max_iter": 2},
        {"max_iter": -1},
        r"for no limit, as -1 is in scikit-learn, give a large number, such as 10\*\*9",
    ),
    ({"verbose": 0}, {"verbose": -1}, "verbose must be finite and at least 0"),
    ({"checkpoint_every": 0}, {"checkpoint_every": -1}, "checkpoint_every must be finite and at least 0"),
    ({"n_jobs": -(2**31) + 1}, {"n_jobs": -(2**31)}, "n_jobs must be finite and at least -2147483647"),
    ({"class_weight": {1: 0}}, {"class_weight": {1: -1}}, "class_weight of 1 must not be negative"),
    (
        {"solver": "sdm", "solver_options": {"permutation": True}},
        {"solver": "newton", "solver_options": {"permutation": True}},
        "with solver='newton' it must be None",
    ),
    ({"solver": "auto", "checkpoint": "c"}, {"solver": "auto", "checkpoint": 3}, "checkpoint must be a path or None"),
]
KERNEL_BOUNDS = [
    ({"gamma": 0}, {"gamma": -1e-300}, "gamma must be finite and at least 0"),
    ({"degree": 0}, {"degree": -1}, "degree must be finite and at least 0"),
    ({"degree": 2**31 - 1}, {"degree": 2**31}, "at most 2147483647"),
    ({"cache_mb": 2**40}, {"cache_mb": 2**40 + 1}, "cache_mb must be finite and above 0 and at most"),
    ({"working_set": 2}, {"working_set": 1}, "working_set must be finite and at least 2"),
    (
        {"solver": "decomposition", "threshold": "max", "threshold_factor": 1},
        {"solver": "decomposition", "threshold": "max", "threshold_factor": 1.01},
        "threshold_factor must be finite and at least 0 and at most 1",
    ),
    (
        {"solver": "decomposition", "threshold": "max", "threshold_factor": 0},
        {"solver": "decomposition", "threshold": "mean", "threshold_factor": 0},
        "threshold_factor=0 is for threshold='max'",
    ),
    (
        {"solver": "decomposition", "formulation": "weston_watkins", "working_set": 1000},
        {"solver": "decomposition", "formulation": "weston_watkins", "working_set": 1001},
        "working_set must be at most 1000 with solver='decomposition', got 1001",
    ),
    (
        {"solver": "block", "formulation": "crammer_singer", "working_set": 1001},
        {"solver": "decomposition", "formulation": "crammer_singer", "working_set": 5},
        "solver='decomposition' with formulation='crammer_singer' needs working_set=None",
    ),
    (
        {"formulation": "weston_watkins", "intercept_scaling": 2},
        {"formulation": "one_vs_rest", "intercept_scaling": 2},
        "the one of 'one_vs_rest' is not, and needs intercept_scaling=1",
    ),
    (
        {"solver": "decomposition", "step": "smo"},
        {"solver": "decomposition", "formulation": "weston_watkins", "step": "smo"},
        "step='smo' is for solver='decomposition' with formulation='crammer_singer'",
    ),
]


@pytest.mark.parametrize(
    ("kind", "good", "bad", "words"),
    [*((LinearSVM, *case) for case in LINEAR_BOUNDS), *((KernelSVM, *case) for case in KERNEL_BOUNDS)],
)
def test_parameters_at_their_bounds(kind, good, bad, words):
    check = check_kernel if kind is KernelSVM else check_linear
    check(kind(**good))
    with pytest.raises((TypeError, ValueError), match=words):
        check(kind(**bad))


def test_threads_of_jobs(monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 8)
    assert [n_threads(n) for n in (None, 1, 3, -1, -2, -8, -9, -100)] == [1, 1, 3, 8, 7, 1, 1, 1]


def test_other_names():
    class Thing:
        @knows_other_names
        def __init__(self, a=1, *, width=2):
            self.a, self.width = a, width

    assert vars(Thing(3, width=4)) == {"a": 3, "width": 4}
    for call, words in (
        (lambda: Thing(1, 2), "Thing takes a by position, all others by name; what is 2?"),
        (lambda: Thing(widht=1), "Thing has no parameter 'widht': did you mean width=?"),
        (lambda: Thing(zzz=1), "Thing has no parameter 'zzz': it has a, width"),
        (lambda: Thing(nu=1), "Thing has no parameter 'nu': for nu-SVM: sklearn.svm.NuSVC"),
    ):
        with pytest.raises(TypeError) as refused:
            call()
        assert str(refused.value) == words
