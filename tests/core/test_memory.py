"""Memory that cannot be had is a MemoryError, wherever the core asks for it, and everything still works after it."""

import subprocess
import sys

import pytest

resource = pytest.importorskip("resource", reason="limits of memory are those of POSIX")

# What asks for too much, under a limit of some hundred megabytes beyond what the interpreter has.
CASES = {
    "weights": "_core.Weights(10**8, 8, False)",
    "weights beyond all memory": "_core.Weights(2**40, 2**40, False)",
    "weights that accelerate": "big.set_kappa(1.0)",
    "dense duals": "block(lanes=10**8, pooled=False)",
    "lanes of a pooled block": "block(lanes=2 * 10**9, pooled=True)",
    "a linear machine": "LinearSVM(solver='sdm').fit(wide, y)",
    "kernel machines in threads": "KernelSVM('one_vs_one', n_jobs=2, max_iter=3).fit(many, many_labels)",
    "one that is accelerated": "LinearSVM(solver='accelerated_sdm').fit(wide, y)",
}
CHILD = """
import resource, sys, warnings
import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_iris
from multimargin import KernelSVM, LinearSVM, _core

iris, labels = load_iris(return_X_y=True)
before = LinearSVM().fit(iris, labels).coef_
wide = sp.csr_array(([1.0, 2.0, 3.0], ([0, 1, 2], [0, 5, 10**8])), shape=(3, 10**8 + 1))
y = [0, 1, 2]
many = sp.random_array((20000, 50), density=0.4, format="csr", rng=0)  # sparse, as BLAS waits for its memory for ever
many_labels = np.arange(20000) % 10
KernelSVM("one_vs_one", n_jobs=2).fit(many[:200], many_labels[:200])  # threads and all
big = _core.Weights(10**6, 24, False)  # 192 MB, and as much twice more if it accelerates

def block(lanes, pooled):
    X = np.ones((3, 2))
    rows = _core.Rows.dense(X, 0.0)
    arrays = np.arange(3), np.arange(3, dtype=np.int32), np.ones(3), np.ones(3)
    return _core.Block(rows, "crammer_singer", False, lanes, *arrays, pooled, 0)

with open("/proc/self/statm") as file:
    size = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 300 * 2**20, resource.RLIM_INFINITY))
for case in CASES:
    try:
        eval(case)
        print("it worked:", case)
    except MemoryError:
        print("MemoryError")
    except BaseException as error:
        print(repr(error)[:200])
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
again = LinearSVM().fit(iris, labels).coef_
print("the same" if np.array_equal(before, again) else "another model")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/statm")
def test_what_cannot_be_had_is_a_memory_error():
    program = f"CASES = {list(CASES.values())!r}\n{CHILD}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    found = dict(zip([*CASES, "afterwards"], done.stdout.splitlines(), strict=True))
    assert found == dict.fromkeys(CASES, "MemoryError") | {"afterwards": "the same"}
