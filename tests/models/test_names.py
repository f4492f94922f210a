"""The public names of multimargin.models, which are there without anything heavy being imported."""

import importlib
import subprocess
import sys

import pytest

import multimargin
from multimargin import models

NAMES = {
    "ModelFormatError": "errors",
    "load_light": "light",
    "read_liblinear": "liblinear",
    "read_libsvm": "libsvm",
    "write_liblinear": "liblinear",
    "write_libsvm": "libsvm",
    "write_onnx": "onnx",
}


def fresh(program):
    """What a program prints in a new interpreter."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_all():
    assert sorted(models.__all__) == sorted(["load", "save", *NAMES])
    assert set(models.__all__) <= set(dir(models))


@pytest.mark.parametrize("name", NAMES)
def test_names_are_those_of_their_modules(name):
    module = importlib.import_module(f"multimargin.models.{NAMES[name]}")
    assert getattr(models, name) is getattr(module, name)


def test_save_and_load_are_those_of_the_package():
    assert multimargin.save is models.save
    assert multimargin.load is models.load


def test_other_names():
    with pytest.raises(AttributeError, match=r"module 'multimargin\.models' has no attribute 'dump'"):
        _ = models.dump
    with pytest.raises(ImportError):
        exec("from multimargin.models import dump")


def test_importing_the_package_imports_nothing_heavy():
    found = fresh("import sys, multimargin.models; print(*sys.modules)")
    assert "multimargin.models" in found
    assert not {"numpy", "scipy", "sklearn", "onnx", "multimargin._core"} & set(found)


def test_load_light_needs_no_scikit_learn():
    found = fresh("import sys; from multimargin.models import load_light; print(*sys.modules)")
    assert "multimargin.models.light" in found
    assert not {"scipy", "sklearn", "joblib"} & set(found)


def test_all_names_at_once():
    printed = fresh("from multimargin.models import *; print(read_libsvm.__name__, write_onnx.__name__)")
    assert printed == ["read_libsvm", "write_onnx"]
