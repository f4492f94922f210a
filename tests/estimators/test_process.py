"""What a process does to a fit: it may end while a daemon thread trains, and be forked by a callback."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import threading
import numpy as np
from multimargin import KernelSVM, LinearSVM

rng = np.random.default_rng(0)
X, y = rng.normal(size=(3000, 100)), rng.integers(0, 10, 3000)
begun = threading.Event()
endless = dict(tol=1e-12, C=100.0, max_iter=10**6, callbacks=[lambda record: begun.set()])

def kernel(A, B):
    return np.exp(-0.01 * ((A * A).sum(axis=1)[:, None] + (B * B).sum(axis=1) - 2 * A @ B.T))

def predict(model):
    begun.set()
    while True:
        model.predict(X)

model = {model}
threading.Thread(target={target}, daemon=True).start()
assert begun.wait(100)
"""
FIT = "lambda: model.fit(X, y)"


@pytest.mark.parametrize(
    ("model", "target"),
    [
        ("LinearSVM(**endless)", FIT),
        ("LinearSVM('one_vs_rest', n_jobs=2, **endless)", FIT),
        ("KernelSVM(**endless)", FIT),
        ("KernelSVM('one_vs_one', **endless)", FIT),
        ("KernelSVM(kernel=kernel, **endless)", FIT),
        ("KernelSVM(kernel=kernel, n_jobs=2, **endless)", FIT),
        ("KernelSVM(max_iter=3, tol=0.9).fit(X, y)", "lambda: predict(model)"),
    ],
)
def test_the_end_of_the_interpreter_ends_a_daemon_thread(model, target):
    program = PROGRAM.replace("{model}", model).replace("{target}", target)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    # Python's pools of threads refuse work from then on, which a thread may still come to say.
    assert done.returncode == 0 and "terminate" not in done.stderr and "Fatal" not in done.stderr, done.stderr


FORKED = """
import os
import numpy as np
from multimargin import LinearSVM

rng = np.random.default_rng(0)
X, y = rng.normal(size=(500, 20)), rng.integers(0, 5, 500)
children = []

def fork(record):
    if not children:
        children.append(os.fork())

model, refused = LinearSVM("one_vs_rest", n_jobs={n_jobs}, callbacks=[fork]), ""
try:
    model.fit(X, y)
except RuntimeError as error:
    refused = str(error)
if children[0] == 0:
    os._exit(7 if "forked during a fit with threads" in refused else 5 if model.converged_ else 1)
assert model.converged_
print(os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize(("n_jobs", "code"), [(1, 5), (2, 7)])
def test_a_child_that_a_callback_forks_goes_on_without_threads_only(n_jobs, code):
    command = [sys.executable, "-W", "ignore", "-c", FORKED.replace("{n_jobs}", str(n_jobs))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, f"{code}\n"), done.stderr
