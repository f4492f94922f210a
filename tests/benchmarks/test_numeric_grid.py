"""The numeric grid and the certificates in fractions: samples of what benchmarks/ runs at length."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import certificates
import grid_cells
import numeric_grid

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
