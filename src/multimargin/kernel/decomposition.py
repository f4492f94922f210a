"""The papers' own algorithms, by name.

Crammer-Singer, the duals of one example at a time: an example is selected by its value, if that exceeds a threshold,
and takes a step. Any selection goes with any threshold and any step.

=============================================  ===================================================================
algorithm                                      parameters
=============================================  ===================================================================
Crammer and Singer 2001, Figure 7, version 1   selection="cyclic", threshold="logarithmic", step="fixed_point",
                                               cooling=False, shrinking=False, a small cache_mb
version 2: KKT                                 the same with selection="kkt"
version 3: active set, cooling                 selection="kkt", threshold="logarithmic" (or "linear",
                                               "exponential"), step="fixed_point", a small cache_mb
version 4: LRU cache                           the same with a larger cache_mb
version 5: sparse inputs                       the same with X in CSR
at random (section 4)                          selection="random"
Hsu and Lin 2002, section IV                   selection="kkt", threshold="max", threshold_factor=1, step="exact";
                                               without bias fit_intercept=False, with it eq. (24)
Aiolli and Sperduti 2002, BasicSMO             step="basic_smo"
Aiolli and Sperduti 2002, SMO-like             selection="kkt", "amg" or "bmg"; threshold="logarithmic", "max" with
                                               threshold_factor, or "mean"; step="smo"
=============================================  ===================================================================

Weston-Watkins: Hsu and Lin 2002, section III (BSVM). A working set of ``working_set`` variables (20; BSVM has 10), up
to half of them free ones, the rest the steepest, whose small box problem is solved exactly.

Binary machines (one_vs_rest, one_vs_one, dag, and anything of two classes): SMO as in LIBSVM, two duals at a time with
second-order selection; without a bias one dual at a time.

Selection, threshold and step have no part in the last two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from multimargin import _core
from multimargin.problems.formulations import Formulation


def decomposition_machine(
    store: _core.KernelStore,
    problem: Formulation,
    groups: list[int],
    label: np.ndarray,
    cap: np.ndarray,
    free_bias: bool,
    request: Any,
) -> _core.KernelMachine:
    """The core's machine for a request with ``solver="decomposition"``.

    Parameters
    ----------
    store : _core.KernelStore
        Of whole rows, but for machines of pairs.
    problem : Formulation
        With lanes that are classes of one machine, or one lane.
    groups : list of int
        Of columns of the store: the machine's examples.
    label : ndarray of int32
        Lanes; with a free bias, signs.
    cap : ndarray
        C of every example.
    free_bias : bool
        Whether a binary machine has LIBSVM's bias.
    request : KernelRequest
        Its ``tol`` is the tolerance of the violations; where the gap decides, the methods go on below it.
    """
    if problem.lanes == 1:
        sign = label if free_bias else np.where(label == 0, 1, -1).astype(np.int32)
        return _core.KernelMachine.plain_smo(store, groups, sign, cap, free_bias, request.shrinking, request.tol)
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
        request.tol,
        request.working_set or 0,
        request.seed,
    )
