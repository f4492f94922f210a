"""Tests run in forked children of one process that has imported everything slow, and which lines each test runs.

A run of tests in a fresh interpreter spends most of its time on imports of NumPy, SciPy and scikit-learn, the same ones
every time. Here they are imported once, the package never: every child imports it from a copy of the tree, in which one
module may have been changed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SLOW = """numpy scipy.sparse scipy.optimize scipy.special scipy.linalg sklearn.datasets sklearn.svm sklearn.pipeline
sklearn.preprocessing sklearn.feature_extraction.text sklearn.model_selection sklearn.compose sklearn.calibration
sklearn.metrics sklearn.utils.estimator_checks sklearn.multiclass hypothesis hypothesis.extra.numpy pandas
joblib threadpoolctl"""
MEMORY = 6 << 30  # of address space: what a mutant allocates by mistake must not be everybody's memory


def prepare(copy: Path, root: Path) -> None:
    """Import what is slow, and make the package be that of ``copy``, also for programs that tests start."""
    for name in SLOW.split():
        importlib.import_module(name)
    from hypothesis import Phase, settings

    # A failure is enough: nobody reads the smallest one.
    settings.register_profile("mutation", phases=[Phase.explicit, Phase.generate], report_multiple_bugs=False)
    settings.load_profile("mutation")
    os.chdir(root)
    sys.path[:0] = [str(copy), str(root)]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(copy), str(root)])


def in_child(work: Callable[[], int], seconds: float, log: Path) -> str:
    """Do ``work`` in a forked child: "0", "1", ..: its code; "signal N"; "time" if it took too much of it."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.setsid()
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 6))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            code = work()
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    latest = time.monotonic() + 6 * seconds + 30  # for those that sleep
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > latest:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "time"
        time.sleep(0.01)
    # What the tests left behind goes with them.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "time" if number in (signal.SIGXCPU, signal.SIGKILL) else f"signal {number}"
    return str(os.WEXITSTATUS(status))


def run_tests(words: list[str], *plugins: Any) -> int:
    quiet = ["--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    quiet += ["-W", "ignore:mypy_extensions:DeprecationWarning"]  # of what hypothesis imports when a test fails
    return int(pytest.main([*words, *quiet], plugins=list(plugins)))


class Lines:
    """A plugin: which lines of the package each test runs, and its seconds of processor time.

    What runs while modules are imported or fixtures set up counts for every test of the file, because any of them may
    look at what came of it. A file gets ``budget`` seconds; tests that come later than that are not asked.
    """

    def __init__(self, package: Path, out: Path, budget: float):
        import coverage

        self.package, self.out, self.budget = package, out, budget
        self.coverage = coverage.Coverage(data_file=None, source=[str(package)], config_file=False, messages=False)
        self.seconds: dict[str, float] = {}
        self.unasked: set[str] = set()
        self.coverage.start()
        self.coverage.switch_context("shared")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        before = time.process_time()
        if sum(self.seconds.values()) > self.budget:
            item.add_marker(pytest.mark.skip("no time left"))
        result = yield
        self.seconds[item.nodeid] = round(time.process_time() - before, 3)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item):
        self.coverage.switch_context(item.nodeid)
        try:
            return (yield)
        finally:
            self.coverage.switch_context("shared")

    def pytest_runtest_logreport(self, report):
        if report.skipped:
            self.unasked.add(report.nodeid)

    def pytest_sessionfinish(self):
        self.coverage.stop()
        data = self.coverage.get_data()
        number = {test: i for i, test in enumerate(self.seconds)}
        lines: dict[str, dict[int, list[int]]] = defaultdict(dict)
        for file in data.measured_files():
            name = str(Path(file).relative_to(self.package))
            for line, tests in data.contexts_by_lineno(file).items():
                lines[name][line] = [-1] if "shared" in tests else sorted(number[test] for test in tests if test)
        self.out.parent.mkdir(parents=True, exist_ok=True)
        found = {"seconds": self.seconds, "unasked": sorted(self.unasked), "lines": lines}
        self.out.write_text(json.dumps(found))
