"""What importing costs and offers, and which build of the core runs; in fresh processes."""

import json
import os
import subprocess
import sys

import pytest

import multimargin


def run(program, **variables):
    environment = {name: value for name, value in os.environ.items() if name != "MULTIMARGIN_INSTRUCTION_SET"}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment | variables,
    )


def answer(program, **variables):
    done = run(program, **variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_importing_the_package_loads_no_library():
    loaded = answer("import json, sys, multimargin; print(json.dumps(sorted(sys.modules)))")
    heavy = {name for name in loaded if name.split(".")[0] in ("numpy", "scipy", "sklearn", "joblib", "rich", "pandas")}
    assert not heavy
    assert "multimargin._core" not in loaded


def test_names_are_listed_before_and_after_their_use():
    before, after = answer(
        "import json, multimargin; before = dir(multimargin); multimargin.LinearSVM; multimargin.KernelSVM;"
        "print(json.dumps([before, dir(multimargin)]))"
    )
    for names in (before, after):
        assert names == sorted(names)
        assert set(multimargin.__all__) <= set(names)
        assert {"KernelSVM", "LinearSVM", "__version__"} <= set(names)


def test_every_public_name_exists():
    for name in multimargin.__all__:
        assert getattr(multimargin, name) is not None


def test_star_import_gives_the_public_names():
    assert answer("import json\nfrom multimargin import *\nprint(json.dumps(LinearSVM.__module__))").startswith(
        "multimargin."
    )


def test_names_are_loaded_once():
    assert answer(
        "import json, multimargin as m; print(json.dumps(m.LinearSVM is m.LinearSVM and 'LinearSVM' in vars(m)))"
    )


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="module 'multimargin' has no attribute 'LinearSVC'"):
        _ = multimargin.LinearSVC
    assert not hasattr(multimargin, "_missing")
    done = run("from multimargin import LinearSVC")
    assert done.returncode == 1
    assert "ImportError: cannot import name 'LinearSVC'" in done.stderr


def test_version_is_the_packages():
    from importlib.metadata import version

    assert multimargin.__version__ == version("multimargin")


# The core is built for several instruction sets; all give the same results

FIT = """
import hashlib, json
import numpy as np, scipy.sparse as sp
from sklearn.datasets import load_digits
from multimargin import LinearSVM, _core
X, y = load_digits(return_X_y=True)
X, y = X[:300] / 16, y[:300]
digest = hashlib.sha256()
for formulation in ("crammer_singer", "weston_watkins", "one_vs_rest", "one_vs_one"):
    for loss in ("hinge", "squared_hinge"):
        for solver in ("sdm", "accelerated_sdm"):
            for data in (X, X.astype(np.float32), sp.csr_array(X), sp.csr_array(X.astype(np.float32))):
                model = LinearSVM(formulation, loss, 0.1, solver=solver).fit(data, y)
                digest.update(np.ascontiguousarray(model.coef_).tobytes())
                digest.update(model.decision_function(data).tobytes())
print(json.dumps([_core.instruction_set(), digest.hexdigest()]))
"""


def test_every_instruction_set_gives_the_same_bits():
    available = answer("import json; from multimargin import _core; print(json.dumps(_core.instruction_sets()))")
    assert "baseline" in available
    _, default = answer(FIT)
    for name in available:
        used, digest = answer(FIT, MULTIMARGIN_INSTRUCTION_SET=name)
        assert used == name
        assert digest == default


def test_the_best_instruction_set_is_the_default():
    available, used = answer(
        "import json; from multimargin import _core as core;"
        "print(json.dumps([core.instruction_sets(), core.instruction_set()]))"
    )
    assert used == available[-1]


def test_unknown_instruction_set_is_refused_with_the_choice():
    done = run("import multimargin; print('package'); multimargin.LinearSVM", MULTIMARGIN_INSTRUCTION_SET="sse9")
    assert done.returncode == 1
    assert done.stdout == "package\n"  # the package itself is lazy
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: MULTIMARGIN_INSTRUCTION_SET='sse9' is not available")
    assert "baseline" in last


def test_empty_instruction_set_is_the_default():
    program = "import json, multimargin; multimargin.LinearSVM; print(json.dumps(multimargin._core.instruction_set()))"
    assert answer(program, MULTIMARGIN_INSTRUCTION_SET="") == answer(program)
