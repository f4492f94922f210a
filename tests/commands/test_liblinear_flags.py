"""LIBLINEAR's flags are other names of ours."""

from types import SimpleNamespace

import numpy as np
import pytest

from multimargin.commands.liblinear_flags import with_weights_in_words
from multimargin.commands.main import build_parser
from multimargin.commands.peers import _objective
from multimargin.models import load

PAIRS = [
    ("-s 4", "--formulation crammer_singer --loss hinge"),
    ("-s 3", "--formulation one_vs_rest --loss hinge"),
    ("-s 1", "--formulation one_vs_rest --loss squared_hinge"),
    ("-s 2", "--formulation one_vs_rest --loss squared_hinge"),
    ("-c 0.25", "--C 0.25"),
    ("-c0.25", "--C=0.25"),
    ("-e 0.01", "--stopping violation --tol 0.01"),
    ("-B 2", "--intercept-scaling 2"),
    ("-B -1", "--no-intercept"),
    ("-q", "--quiet"),
    ("-w3 2 -w5 0.5", "--weight 3=2 --weight 5=0.5"),
    ("-w-1 2", "--weight=-1=2"),
    ("-C", "--find-C"),
    ("-v 5", "--cross-validate 5"),
    ("-s 3 -c 4 -e 0.1 -B 1 -q", "--formulation one_vs_rest --C 4 --tol 0.1 --stopping violation --quiet"),
]


def parsed(line):
    return vars(build_parser().parse_args(with_weights_in_words(["train", "d", "m", *line.split()])))


@pytest.mark.parametrize(("short", "long"), PAIRS)
def test_aliases_equal_their_long_forms(short, long):
    assert parsed(short) == parsed(long)


@pytest.mark.parametrize(("short", "long"), [pair for pair in PAIRS if pair[0][:4] not in ("-w-1", "-C", "-v 5")])
def test_aliases_train_the_same_model(run, folder, short, long):
    for name, options in (("a", short), ("b", long)):
        assert run("train", folder / "digits.npz", name, *options.split()).code == 0
    np.testing.assert_array_equal(load("a").coef_, load("b").coef_)


def test_flags_before_the_files_as_liblinear_has_them(run, folder):
    assert run("train", "-s", "4", "-c", "2", folder / "digits.svm", "m").code == 0
    assert load("m").C == 2.0


@pytest.mark.parametrize(("kind", "formulation"), [(4, "crammer_singer"), (3, "one_vs_rest"), (1, "one_vs_rest")])
def test_the_objective_is_liblinears(run, folder, digits, kind, formulation):
    """At its own stopping rule, with the same bias."""
    from liblinear.liblinearutil import train

    X, y = digits
    ours = run("train", folder / "digits.npz", "m", *f"-s {kind} -e 0.01 -B 1 --json".split()).json
    theirs = train(y, X, f"-s {kind} -e 0.01 -B 1 -q")
    order = np.argsort(theirs.get_labels())
    weights, biases = zip(*(theirs.get_decfun(k) for k in order), strict=True)
    model = SimpleNamespace(
        coef_=np.array(weights),
        intercept_=np.array(biases),
        intercept_scaling=1.0,
        fit_intercept=True,
        classes_=np.arange(10),
        loss=ours["parameters"]["loss"],
        C=1.0,
    )
    assert ours["primal_objective"] == pytest.approx(_objective(model, formulation, X, y), rel=0.01)


NOTE = "multimargin: note: the weight of a class counts for its rows in the machines of all classes; LIBLINEAR's -wi"


@pytest.mark.parametrize("options", ["-s 1", "-s 2", "-s 3", "-s 3 -v 2", "--formulation one_vs_rest"])
def test_weights_that_liblinear_has_in_one_machine_only_are_noted(run, folder, options):
    model = [] if "-v" in options else ["m"]
    for form in (["-w3", "2"], ["--weight", "3=2"]):
        said = run("train", folder / "digits.npz", *model, *options.split(), *form)
        assert said.code == 0 and said.err.count("\n") == 1 and said.err.startswith(NOTE)


def test_the_note_of_weights_is_of_blocks_too(run, folder):
    words = ["train", folder / "digits.svm", "m", "-s", "3", "-w3", "2", "--blocks", "d.blocks"]
    assert NOTE in run(*words).err


def test_weights_that_are_liblinears_are_not_noted(run, folder, digits):
    X, y = digits
    np.savez("two.npz", X=X[y < 2], y=y[y < 2])
    for words in (
        ["two.npz", "m", "-s", "3", "-w1", "2"],
        [folder / "digits.npz", "m", "-s", "4", "-w3", "2"],
        [folder / "digits.npz", "m", "-s", "3"],
        [folder / "digits.npz", "m", "--kernel", "rbf", "--formulation", "one_vs_rest", "--weight", "3=2"],
        [folder / "digits.npz", "m", "-s", "3", "-w3", "2", "-q"],
    ):
        said = run("train", *words)
        assert said.code == 0 and said.err == "", words


@pytest.mark.parametrize("weights", [["-w2", "5"], ["--class-weight", "balanced"]])
def test_weights_of_the_peers_are_noted(run, weights):
    told = "weights of classes in LinearSVC (one_vs_rest) count in the machine of their class alone"
    compare = ["compare", "@iris", "--max-iter", "100000"]
    assert told in run(*compare, "--peers", *weights).err
    assert run(*compare, *weights).err == run(*compare, "--peers").err == ""


def test_weights_after_two_dashes_are_names():
    assert with_weights_in_words(["train", "--", "-w1", "2"]) == ["train", "--", "-w1", "2"]


@pytest.mark.parametrize(
    ("kind", "who"),
    [
        (0, "LogisticRegression"),
        (5, "penalty='l1'"),
        (6, "penalty='l1'"),
        (7, "LogisticRegression"),
        (11, "LinearSVR"),
        (12, "LinearSVR"),
        (13, "LinearSVR"),
        (21, "OneClassSVM"),
    ],
)
def test_what_is_not_here_is_refused_with_who_does_it(run, folder, kind, who):
    refused = run("train", folder / "digits.npz", "m", "-s", kind)
    assert refused.code == 2 and who in refused.err
