"""What is not said on the command line is as in Python."""

import pytest

from multimargin import KernelSVM, LinearSVM
from multimargin.commands.machines import machine
from multimargin.commands.main import build_parser

OWN = ("n_jobs", "verbose", "random_state")  # which the program chooses


@pytest.mark.parametrize("command", [["train", "data.svm"], ["compare", "data.svm"]], ids=lambda words: words[0])
@pytest.mark.parametrize("kernel", [None, "rbf", "poly", "sigmoid", "linear"])
def test_machines_have_the_defaults_of_python(command, kernel):
    words = command if kernel is None else [*command, "--kernel", kernel]
    made = machine(build_parser().parse_args(words)).get_params()
    expected = (LinearSVM() if kernel is None else KernelSVM(kernel=kernel)).get_params()
    assert {name: made[name] for name in made if name not in OWN} == {
        name: expected[name] for name in expected if name not in OWN
    }
