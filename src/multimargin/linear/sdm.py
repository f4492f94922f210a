"""The sequential dual method (paper 000, Algorithms 2.1 and 3.1; one lane: dual coordinate descent, paper 001)
and its accelerated form.

The core visits the examples and keeps the schedule of full and shrunk passes; here are the decisions between
calls: the cooling of the tolerance, when to certify, when float32 has had its day, when to stop.

Acceleration (Catalyst): the same passes minimise the objective plus kappa/2 ||W - Z||^2, and Z is extrapolated
after every stage of a full and some shrunk passes. Kappa starts at ``0.6 sqrt(t)``, t the mean of C ||x||^2, which
was within four times of the best fixed value on the sets tried; from there the core steers it (acceleration.hpp).
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np

from multimargin import _core
from multimargin.linear.algorithm import Certificate, PassRecord, Settings
from multimargin.linear.machine import BUDGET, Machine
from multimargin.linear.state import State

_KAPPA = 0.6
_SHRUNK_EFFORT = 5.0  # paper 000: shrunk loops may cost five full ones
_SHRUNK_EFFORT_ACCELERATED = 0.5
_REST_SHARE = 1.0  # accelerated: examples with a violation below the mean wait for the next full pass
# Accelerated lanes start with this tolerance: below a larger one, full passes over all examples come too soon.
_TOLERANCE_OF_LANES = 0.01
# Epochs between certificates that nothing else asks for: estimates can be far too high, and Ctrl-C shall find one.
_CERTIFY_EVERY = 25.0
# float32 cannot see smaller violations than this; nor is it used for smaller target gaps or odd scales.
_FLOAT32_VIOLATION = 1e-5
_FLOAT32_GAP = 1e-5
_FLOAT32_NORMS = (1e-10, 1e10)
# Below this the float64 scores are noise.
_SMALLEST_VIOLATION = 1e-13


class SequentialDual:
    """Passes of the sequential dual method over one machine."""

    name = "sdm"
    accelerated = False
    kept: tuple[str, ...] = ("tolerance", "certify_below", "failed_certificates", "certified_at")

    def __init__(self, settings: Settings):
        self.settings = settings
        self.tol, self.stopping = settings.tol, settings.stopping
        self.permutation = bool(settings.options["permutation"])
        self.lists = bool(settings.options["restricted_step"])
        self.done = self.converged = False
        self.weights: _core.Weights  # set by start
        self.tolerance = 1.0 if settings.cooling else settings.tol
        if settings.stopping == "violation":
            self.tolerance = max(self.tolerance, settings.tol)
        self.certify_below = 0.0
        self.failed_certificates = 0
        self.certified_at = 0.0  # epochs

    def _first_certificate(self, machine: Machine) -> float:
        """Estimated gap at which to certify: estimates are high, as a pass sees the scores before their steps (a smooth
        loss then has but the square of the error), and (accelerated) sees W, not the mean that is certified."""
        if self.settings.stopping == "violation":
            return -np.inf
        if not machine.examples.estimates_gaps_high:
            return self.settings.tol
        joint = not machine.problem.separable
        factor = 4.0 if machine.problem.squared else 1.6 if self.accelerated and joint else 1.3
        return factor * self.settings.tol

    def start(self, machine: Machine, *, warm: bool) -> None:
        """Prepare W, from the machine's duals when it has any."""
        examples = machine.examples
        (smallest, largest), (low, high) = examples.norm_range, _FLOAT32_NORMS
        single = self.stopping == "gap" and self.settings.tol >= _FLOAT32_GAP and smallest > low and largest < high
        self.weights = machine.trained_weights(single_precision=single)
        self.certify_below = self._first_certificate(machine)
        if warm:
            machine.rebuild(self.weights)
        if self.accelerated and machine.problem.separable and self.stopping == "gap":
            self.tolerance = min(self.tolerance, _TOLERANCE_OF_LANES)
        if self.accelerated and examples.n:
            self.weights.set_kappa(_KAPPA * examples.strength * sqrt(examples.mean_curvature))
        self.certified_at = examples.first_certificate - _CERTIFY_EVERY

    def advance(self, machine: Machine, max_epochs: float) -> list[PassRecord]:
        weights, settings = self.weights, self.settings
        if machine.examples.n == 0:
            machine.certify()
            self.done = self.converged = True
            return []
        stopped, passes = machine.passes.run(
            weights,
            tolerance=self.tolerance,
            certify_below=self.certify_below,
            budget=BUDGET,
            max_epochs=min(max_epochs, _CERTIFY_EVERY),
            shrinking=settings.shrinking,
            permute=self.permutation,
            rest_share=_REST_SHARE if weights.kappa > 0 and settings.shrinking else 0.0,
            shrunk_effort=_SHRUNK_EFFORT_ACCELERATED if weights.kappa > 0 else _SHRUNK_EFFORT,
        )
        records = [PassRecord(p.violation, p.visited, self.name, estimate=p.worst_gap) for p in passes]
        epochs = machine.epochs + sum(p.visited for p in passes) / machine.examples.n
        certified = None
        if stopped == "certify":
            certified = machine.certify()
            self.converged = certified.worst_gap <= settings.tol
            if not self.converged:
                self._certificate_failed(machine, passes[-1].worst_gap, certified.worst_gap)
        elif passes and stopped in ("budget", "epochs") and epochs - self.certified_at >= _CERTIFY_EVERY:
            # Not in the middle of a tour: it would have to put back a block whose turn is not over (streamed.py).
            certified = machine.certify()
            self.converged = settings.stopping == "gap" and certified.worst_gap <= settings.tol
        elif stopped == "tolerance":
            certified = self._tolerance_met(machine, passes[-1].worst_gap)
        self.done = self.done or self.converged
        if certified is not None:
            self.certified_at = epochs
        if certified is not None and records:
            records[-1] = records[-1]._replace(primal=certified.primal, dual=certified.dual, gap=certified.gap)
        return records

    def _tolerance_met(self, machine: Machine, estimate: float) -> Certificate | None:
        """A full pass stayed below the tolerance: cool it, or stop."""
        weights, settings = self.weights, self.settings
        if settings.stopping == "violation" and self.tolerance <= settings.tol:
            if weights.kappa > 0:  # the papers' criterion is about W = V
                weights.set_kappa(0.0)
                return None
            self.converged = True
            return machine.certify()
        self.tolerance *= 0.1
        if settings.stopping == "violation":
            self.tolerance = max(self.tolerance, settings.tol)
            return None
        if self.tolerance < _FLOAT32_VIOLATION and weights.single_precision:
            self._to_float64(machine)
        exhausted = self.tolerance < _SMALLEST_VIOLATION  # nothing is left to gain in float64 ...
        if exhausted and weights.kappa > 0:  # ... of the proximal problem; so to the problem itself
            weights.set_kappa(0.0)
            self.tolerance = _FLOAT32_VIOLATION
            return None
        if not exhausted and estimate > 2 * settings.tol:
            return None
        certified = machine.certify()
        self.converged = certified.worst_gap <= settings.tol
        self.done = exhausted
        return certified

    def _certificate_failed(self, machine: Machine, estimate: float, certified: float) -> None:
        """Wait for an estimate that promises a certificate, judging by how far this one was off."""
        self.failed_certificates += 1
        self.certify_below = 0.95 * min(self.certify_below, max(estimate, 0.1 * self.tol) * self.tol / certified)
        if self.failed_certificates >= 2 and self.weights.single_precision:
            self._to_float64(machine)

    def _to_float64(self, machine: Machine) -> None:
        """Go on in float64, from W = V and (accelerated) with fresh momentum."""
        kappa = self.weights.kappa
        self.weights = machine.trained_weights(single_precision=False)
        machine.rebuild(self.weights)
        if kappa > 0:
            self.weights.set_kappa(kappa)
        self.certify_below = self._first_certificate(machine)

    def candidate(self, out: _core.Weights) -> bool:
        if self.weights.kappa == 0:
            return False
        self.weights.averaged(out)
        return True


class AcceleratedSequentialDual(SequentialDual):
    """The same within an accelerated proximal-point loop."""

    name = "accelerated_sdm"
    accelerated = True


class OtherSteps(SequentialDual):
    """Passes over all examples in random order with another kind of step, on dense duals; only the gap stops them."""

    kept = ("tolerance", "certify_below", "failed_certificates", "certified_at", "unseen_start")

    def __init__(self, settings: Settings):
        super().__init__(replace(settings, shrinking=False, options={"permutation": True, "restricted_step": False}))
        self.tolerance = 0.0
        self.unseen_start = False

    def use_steps(self, block: _core.Block, *, warm: bool) -> None:
        """Tell the block which steps to take."""
        raise NotImplementedError

    def begin(self, machine: Machine, *, warm: bool) -> None:
        """Before the first pass."""
        self.use_steps(machine.blocks[0], warm=warm)

    def start(self, machine: Machine, *, warm: bool) -> None:
        super().start(machine, warm=warm)
        self.unseen_start = warm
        if not warm:
            self.begin(machine, warm=False)

    def advance(self, machine: Machine, max_epochs: float) -> list[PassRecord]:
        if not self.unseen_start:
            return super().advance(machine, max_epochs)
        self.unseen_start = False  # it may do: the first steps lead away from a good one
        self.done = self.converged = machine.certify().worst_gap <= self.tol
        if not self.done:
            self.begin(machine, warm=True)
        return []

    def more_state(self) -> State:
        """Nothing: rates and counters of the steps are in the state of the block."""
        return {}

    def set_more_state(self, machine: Machine, state: State) -> None:
        """The block learns which steps it had begun to take, so that it asks for their part of its state."""
        if not self.unseen_start:
            self.use_steps(machine.blocks[0], warm=False)
