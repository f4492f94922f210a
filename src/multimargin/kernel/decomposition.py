"""The papers' own algorithms for Crammer-Singer and Weston-Watkins with kernels, by name.

===============================================  ============  ===========================  ===========
algorithm                                        selection     threshold                    step
===============================================  ============  ===========================  ===========
Crammer and Singer 2001, Figure 4                kkt           exponential, linear,         fixed_point
                                                               logarithmic
without cooling: ``cooling=False``; without the active set: ``shrinking=False``
in turn, at random                               cyclic,       the same                     fixed_point
                                                 random
Hsu and Lin 2002, section IV                     kkt           max, threshold_factor=1      exact
Aiolli and Sperduti 2002, BasicSMO               kkt           mean                         basic_smo
Aiolli and Sperduti 2002, the SMO-like step      kkt, amg,     logarithmic, max, mean       smo
                                                 bmg
===============================================  ============  ===========================  ===========

Any selection goes with any threshold and step. Weston-Watkins is solved as in Hsu and Lin 2002, section III: a working
set of ``working_set`` variables (default 10), half of them the steepest, half free, whose small box problem is solved
exactly; selection, threshold and step have no part in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from multimargin import _core
from multimargin.problems.formulations import Formulation

# With stopping="gap" the methods' own tolerance is only a floor of their thresholds.
_FLOOR = 1e-3


def decomposition_machine(
    store: _core.KernelStore, problem: Formulation, label: np.ndarray, cap: np.ndarray, request: Any
) -> _core.KernelMachine:
    """The core's machine for a request with ``solver="decomposition"``; ``store`` has whole rows."""
    return _core.KernelMachine.decomposition(
        store,
        problem.policy,
        problem.lanes,
        label,
        cap,
        request.selection,
        request.threshold,
        request.step,
        request.threshold_factor,
        request.shrinking,
        request.cooling,
        request.tol if request.stopping == "violation" else _FLOOR * request.tol,
        request.working_set or 0,
        request.seed,
    )
