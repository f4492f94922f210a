"""ConvergenceDisplay: how the gap and the violation fell while a model was trained."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from multimargin.displays.drawing import (
    BLUE,
    GREY,
    ORANGE,
    axes_to_draw_on,
    fitted_machine,
    legend,
    power_of_ten,
    quiet,
)

_AXES = {"epochs": ("epoch", "passes over the rows"), "seconds": ("seconds", "seconds of training")}
_MOST_POINTS = 400  # of the lines over several machines
_MOST_MACHINES = 1000  # that are drawn one by one; the worst are
_DEPTH = 1e-2  # of the target: what is further below it is drawn there
_DOTS: dict[str, Any] = dict(linestyle="none", marker="o", markersize=3)


class ConvergenceDisplay:
    """Relative duality gap and violation of optimality during training.

    The gap is drawn where it was certified. Models of several machines (one-vs-one, DAG, groups of classes) have a dot
    for the last gap of every machine, a line for the violation of the worst one and one for the median; a machine that
    is finished keeps its last violation. Where machines told only how they ended (small pairs of a kernel machine),
    they are drawn one beside the other, worst first.

    Parameters
    ----------
    history : structured ndarray
        ``history_`` of a model: machine, epoch, seconds, violation, gap.
    tol : float or None
        The target; None draws no line.
    stopping : {"gap", "violation"}
        What the target is for.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : list of matplotlib artists
        Lines and points of gap and violation.
    target_ : matplotlib artist or None

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> from multimargin import LinearSVM
    >>> from multimargin.displays import ConvergenceDisplay
    >>> model = LinearSVM().fit(*load_iris(return_X_y=True))
    >>> display = ConvergenceDisplay.from_estimator(model, ax=Figure().subplots())
    >>> display.ax_.get_yscale(), display.tol
    ('log', 0.001)
    """

    def __init__(self, *, history: np.ndarray, tol: float | None = None, stopping: str = "gap"):
        self.history = history
        self.tol = tol
        self.stopping = stopping

    @classmethod
    def from_estimator(cls, estimator: Any, *, x: str = "epochs", ax: Any = None, **kwargs: Any) -> ConvergenceDisplay:
        """Draw the training of a model.

        Parameters
        ----------
        estimator : LinearSVM, LinearSVMCV, KernelSVM, or Pipeline that ends in one
            Trained by fit. Of a LinearSVMCV: the last fit, on all rows.
        x : {"epochs", "seconds"}
            What the gap is drawn against.
        ax : matplotlib Axes or None
            Where; None makes a figure.
        **kwargs
            For the lines of gap and violation.

        Returns
        -------
        ConvergenceDisplay
        """
        machine = fitted_machine(estimator)
        check_is_fitted(machine)
        if not hasattr(machine, "history_"):
            raise ValueError(
                f"this {type(machine).__name__} has no history_ to draw: fit keeps one; partial_fit does not"
            )
        display = cls(history=machine.history_, tol=machine.tol, stopping=machine.stopping)
        return display.plot(ax, x=x, **kwargs)

    def plot(self, ax: Any = None, *, x: str = "epochs", **kwargs: Any) -> ConvergenceDisplay:
        """Draw; arguments as in :meth:`from_estimator`."""
        if x not in _AXES:
            raise ValueError(f"x must be one of {', '.join(map(repr, _AXES))}; got {x!r}")
        if not len(self.history):
            raise ValueError("history is empty: there is nothing to draw")
        self.ax_ = axes_to_draw_on(ax)
        self.figure_ = self.ax_.figure
        self.lines_: list[Any] = []
        of_axis, label = _AXES[x]
        if of_axis == "epoch" and "kernel_evaluations" in (self.history.dtype.names or ()):
            label = "rounds"  # what a kernel machine's passes are
        n_machines = len(np.unique(self.history["machine"]))
        if n_machines == 1:
            self._draw_one(self.history[of_axis], kwargs)
        elif n_machines == len(self.history):
            label = f"the {n_machines:,} machines, worst first"
            self._draw_ends(kwargs)
        else:
            label = f"{label} of each machine"
            self._draw_several(of_axis, kwargs)
        self._draw_target()
        self.ax_.set(xlabel=label, ylabel="relative gap, violation", yscale="log")
        self.ax_.set_ylim(bottom=self._floor() / 2)
        self.ax_.yaxis.set_major_formatter(power_of_ten)
        self.ax_.yaxis.set_minor_formatter("")
        if of_axis == "epoch":
            self.ax_.xaxis.get_major_locator().set_params(integer=True)
        quiet(self.ax_)
        legend(self.ax_)
        return self

    def _draw_one(self, at: np.ndarray, options: dict[str, Any]) -> None:
        gap, violation = self.history["gap"], self.history["violation"]
        told = violation >= self._floor()  # a pass over few rows may have seen none
        by_newton = self.history["solver"][0] == "newton"
        name = "violation: largest gradient" if by_newton else "violation, in margins"
        self._line(at[told], violation[told], ORANGE, name, options, linewidth=0.9, alpha=0.8)
        certified = np.isfinite(gap)
        style: dict[str, Any] = dict(marker="o", markersize=5, linewidth=1.6)
        self._line(at[certified], gap[certified], BLUE, "relative gap, certified", options, **style)

    def _draw_ends(self, options: dict[str, Any]) -> None:
        for field, colour, name in (("violation", ORANGE, "violation, in margins"), ("gap", BLUE, "relative gap")):
            worst_first = np.sort(self.history[field])[::-1]
            worst_first = worst_first[np.isfinite(worst_first)][:_MOST_MACHINES]
            at = np.arange(1, len(worst_first) + 1)
            self._line(at, worst_first, colour, name, options, **_DOTS)

    def _draw_several(self, of_axis: str, options: dict[str, Any]) -> None:
        order = np.lexsort((self.history["epoch"], self.history["machine"]))
        history = self.history[order]
        machines, begins = np.unique(history["machine"], return_index=True)
        ends = np.append(begins[1:], len(history))
        at = history[of_axis].astype(float)
        if of_axis == "seconds":  # they do not all begin at once
            at = at - np.repeat(at[begins], ends - begins)
        places = np.unique(at)
        places = places[np.linspace(0, len(places) - 1, min(len(places), _MOST_POINTS)).round().astype(int)]
        violations = np.full((len(machines), len(places)), np.nan)
        last_gaps = np.full((len(machines), 2), np.nan)
        for row, last, begin, end in zip(violations, last_gaps, begins, ends, strict=True):
            told = begin + np.flatnonzero(history["violation"][begin:end] >= self._floor())
            _carry_on(at[told], history["violation"][told], places, row)
            certified = begin + np.flatnonzero(np.isfinite(history["gap"][begin:end]))
            if len(certified):
                last[:] = at[certified[-1]], history["gap"][certified[-1]]
        seen = np.ma.masked_invalid(violations)
        middle, high = (np.ma.filled(line, np.nan) for line in (np.ma.median(seen, axis=0), seen.max(axis=0)))
        self._line(places, high, ORANGE, "violation, worst machine", options, linewidth=1.2)
        self._line(places, middle, ORANGE, "violation, median", options, linewidth=1.2, linestyle="--")
        worst = last_gaps[np.argsort(-last_gaps[:, 1])][:_MOST_MACHINES]
        self._line(worst[:, 0], worst[:, 1], BLUE, f"relative gaps of {len(machines):,} machines", options, **_DOTS)

    def _line(self, x: Any, y: np.ndarray, colour: str, label: str, options: dict[str, Any], **style: Any) -> None:
        style = {"color": colour, "label": label} | style | options
        self.lines_ += self.ax_.plot(x, self._raised(y), **style)

    def _draw_target(self) -> None:
        self.target_ = None
        if self.tol is not None:
            label = f"target {self.stopping}: {self.tol:g}"
            self.target_ = self.ax_.axhline(self.tol, color=GREY, linestyle=":", linewidth=1.4, label=label)

    def _floor(self) -> float:
        """What is below, zero above all, is drawn here: a logarithmic axis ends somewhere."""
        values = np.concatenate([self.history["gap"], self.history["violation"]])
        target = self.tol or 1e-3
        return min([target, *values[values >= target * _DEPTH]])

    def _raised(self, values: np.ndarray) -> np.ndarray:
        return np.maximum(values, self._floor())


def _carry_on(at: np.ndarray, values: np.ndarray, places: np.ndarray, out: np.ndarray) -> None:
    """The last value told at each place or before; nothing before the first one."""
    last = np.searchsorted(at, places, side="right") - 1
    out[last >= 0] = values[last[last >= 0]]
