"""The numeric grid and certificates in fractions: samples of what benchmarks/ runs at length, and fits in float32."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import certificates
import grid_cells
import numeric_grid

from multimargin import KernelSVM
from multimargin.kernel import training
from multimargin.kernel.certificate import Certificate, Certifier
from multimargin.kernel.pairs import PairsMachine
from multimargin.problems.formulations import FORMULATIONS

MUST = ("feasible", "primal", "dual", "gap", "converged is true", "Clarabel's optimum between")


@pytest.mark.parametrize("family", ["linear", "kernel"])
def test_sampled_cells_converge_warn_or_refuse(family):
    for number in grid_cells.sampled(60, 5, (family,)):
        one = grid_cells.cell(number)
        kind, word = numeric_grid.ended(one)
        assert kind in numeric_grid.GOOD, f"cell {number}: {one}: {kind}: {word}"


@pytest.mark.parametrize("classes", [100, 1000])
def test_many_classes(classes):
    numbers = range(grid_cells.N_CELLS - len(grid_cells.MANY_CLASSES), grid_cells.N_CELLS)
    cells = [grid_cells.cell(number) for number in numbers]
    wanted = dict(formulation="crammer_singer", loss="hinge", solver="auto", C=1.0)
    (one,) = [one for one in cells if one.parameters == wanted and one.classes == classes]
    assert numeric_grid.ended(one)[0] in numeric_grid.GOOD


def test_every_number_is_a_cell_of_its_own():
    numbers = [0, grid_cells.N_LINEAR - 1, grid_cells.N_LINEAR, grid_cells.N_CELLS - 1]
    assert len({str(grid_cells.cell(number)) for number in numbers}) == 4
    assert [grid_cells.cell(number).family for number in numbers] == ["linear", "linear", "kernel", "classes"]


def test_cells_of_defaults_are_every_formulation_loss_scale_and_C_once():
    cells = [grid_cells.cell(number) for number in grid_cells.of_defaults(("linear", "kernel", "classes"))]
    assert len({str(one) for one in cells}) == len(cells)
    small = len(grid_cells.DATA) * len(grid_cells.SCALES) * len(grid_cells.CS)
    formulations, losses = len(grid_cells.FORMULATIONS), len(grid_cells.LOSSES)
    by_family = Counter(one.family for one in cells)
    assert by_family["linear"] == formulations * losses * small
    assert by_family["kernel"] == formulations * small
    assert by_family["classes"] == formulations * losses * 4 * 3
    for one in cells:
        given = one.parameters
        assert given["solver"] == ("block" if one.family == "kernel" else "auto")
        assert given.get("kernel", "rbf") == "rbf" and given.get("gamma", "scale") == "scale"
        assert given.get("fit_intercept", True)
        assert one.classes or one.container == "dense"


def test_a_child_that_takes_too_long_is_replaced():
    (number,) = grid_cells.sampled(1, 0, ("linear",))
    (hung,) = numeric_grid.endings([number], 1e-6)
    assert hung == (number, "hang", "no end within 1e-06 s")
    ((_, kind, _),) = numeric_grid.endings([number], 120)
    assert kind in numeric_grid.GOOD


def test_a_result_that_was_cut_short_is_computed_again(tmp_path):
    file = tmp_path / "results"
    file.write_text('[1, "converged", ""]\n[2, "warn')
    assert numeric_grid.known(file) == {1: ("converged", "")}
    assert "converged" in numeric_grid.table(numeric_grid.known(file))


@pytest.mark.parametrize("number", range(30))
def test_certificates_agree_with_exact_fractions_and_clarabel(number):
    found = certificates.verdicts(certificates.problem(number, 1))
    assert all(found[name] for name in MUST), found


def test_a_wrong_certificate_would_be_seen():
    one = certificates.problem(3, 1)
    certificates.verdicts(one)
    one.model.coef_ = one.model.coef_ * 1.5 if hasattr(one.model, "_W") else one.model.coef_
    one.model.dual_coef_ = one.model.dual_coef_ * 1.5
    found, _ = certificates.exact(one)
    assert found.gap > one.model.dual_gap_ + 1e-6 or found.excess > 0.1
    assert np.isfinite(found.gap)


# Fits in float32, whose own scores are not good enough


def blurred(formulation, solver, fit_intercept, offset=0.0, **more):
    """A problem with large duals, whose features may be far from zero, too."""
    rng = np.random.default_rng(0)
    y = np.arange(45) % 3
    X = np.round(rng.normal(size=(3, 4))[y] + rng.normal(size=(45, 4)) + offset, 2)
    given = {"C": 100.0, "max_iter": 3000, "random_state": 0} | more
    model = KernelSVM(formulation, "linear", solver=solver, fit_intercept=fit_intercept, **given)
    return certificates.Problem(model, X, y, np.ones(45))


def by_their_own_scores(monkeypatch):
    """Machines that are believed."""

    def certificate(self, core, bias, most_work=np.inf):
        told = self.of_kept_scores(core)
        yield
        return Certificate(told, 0.0)

    monkeypatch.setattr(Certifier, "certificate", certificate)
    monkeypatch.setattr(PairsMachine, "_certificates", lambda self, trained: trained)


@pytest.mark.parametrize("formulation", FORMULATIONS)
@pytest.mark.parametrize("solver", ["block", "decomposition"])
@pytest.mark.parametrize("fit_intercept", [False, True])  # free or regularised, as the formulation has it
@pytest.mark.parametrize(("stopping", "tol"), [("gap", 1e-3), ("violation", 1e-2)])
def test_certificates_of_float32_are_exact(monkeypatch, formulation, solver, fit_intercept, stopping, tol):
    one = blurred(formulation, solver, fit_intercept, stopping=stopping, tol=tol)
    found = certificates.verdicts(one)
    must = [name for name in MUST if stopping == "gap" or name != "converged is true"]  # that is about the gap
    assert all(found[name] for name in must) and one.model.converged_, found
    last = {record["machine"]: record for record in one.model.history_}.values()
    for name, said in (("primal", one.model.primal_objective_), ("dual", one.model.dual_objective_)):
        assert sum(record[name] for record in last) == pytest.approx(said, rel=1e-12)
    if stopping == "gap":
        by_their_own_scores(monkeypatch)
        found = certificates.verdicts(one)
        assert not (found["primal"] and found["dual"] and found["gap"])


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_where_float32_is_not_enough_float64_goes_on(monkeypatch, formulation):
    stores, made = [], training.kernel_store
    monkeypatch.setattr(
        training, "kernel_store", lambda *given, **more: stores.append(more["single_precision"]) or made(*given, **more)
    )
    one = blurred(formulation, "block", True, offset=30.0, C=10.0, tol=1e-4)
    found = certificates.verdicts(one)
    assert all(found[name] for name in MUST) and one.model.converged_, found
    assert stores == [True, False]


@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_what_a_limit_stops_is_certified_too(formulation):
    one = blurred(formulation, "block", True, max_iter=2, working_set=10)
    found = certificates.verdicts(one)
    assert all(found[name] for name in MUST) and not one.model.converged_, found
