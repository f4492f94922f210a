"""PathDisplay: the scores of cross-validation along the path of C."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from multimargin.displays.drawing import (
    BLUE,
    ORANGE,
    axes_to_draw_on,
    fitted_machine,
    legend,
    power_of_ten,
    quiet,
    shortened,
)


class PathDisplay:
    """Mean score over the folds against C, with its spread, and the C that was chosen.

    Parameters
    ----------
    Cs : ndarray of shape (n_Cs,)
        In ascending order.
    scores : ndarray of shape (n_folds, n_Cs)
        Of the rows held out.
    C : float
        The one that was chosen.
    score_name : str
        What the scores are.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        The mean.
    spread_ : matplotlib artist
        One standard deviation (over the folds) to either side.
    chosen_ : matplotlib Line2D

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from sklearn.datasets import load_iris
    >>> from multimargin import LinearSVMCV
    >>> from multimargin.displays import PathDisplay
    >>> model = LinearSVMCV(Cs=[0.01, 0.1, 1.0]).fit(*load_iris(return_X_y=True))
    >>> display = PathDisplay.from_estimator(model, ax=Figure().subplots())
    >>> display.score_name, display.C == model.C_
    ('accuracy', True)
    """

    def __init__(self, *, Cs: np.ndarray, scores: np.ndarray, C: float, score_name: str = "score"):
        self.Cs = Cs
        self.scores = scores
        self.C = C
        self.score_name = score_name

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **kwargs: Any) -> PathDisplay:
        """Draw the path of a model.

        Parameters
        ----------
        estimator : LinearSVMCV, or Pipeline that ends in one
            Fitted.
        ax : matplotlib Axes or None
            Where; None makes a figure.
        **kwargs
            For the line of the mean.

        Returns
        -------
        PathDisplay
        """
        machine = fitted_machine(estimator)
        check_is_fitted(machine)
        if not hasattr(machine, "scores_"):
            raise ValueError(f"a {type(machine).__name__} has no path of C to draw; LinearSVMCV has one")
        display = cls(Cs=machine.Cs_, scores=machine.scores_, C=machine.C_, score_name=_name_of(machine.scoring))
        return display.plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> PathDisplay:
        """Draw; arguments as in :meth:`from_estimator`."""
        self.ax_ = axes_to_draw_on(ax)
        self.figure_ = self.ax_.figure
        mean, deviation = self.scores.mean(axis=0), self.scores.std(axis=0)
        n_folds = len(self.scores)
        label = f"± 1 standard deviation of {n_folds} folds"
        self.spread_ = self.ax_.fill_between(
            self.Cs, mean - deviation, mean + deviation, color=BLUE, alpha=0.18, linewidth=0, label=label
        )
        style: dict[str, Any] = {"color": BLUE, "marker": "o", "markersize": 5, "label": "mean"} | kwargs
        (self.line_,) = self.ax_.plot(self.Cs, mean, **style)
        best = float(mean[np.argmin(np.abs(np.log(self.Cs) - np.log(self.C)))])
        chosen = f"chosen: C = {self.C:.3g}, mean {best:.4g}"
        self.chosen_ = self.ax_.axvline(self.C, color=ORANGE, linestyle="--", linewidth=1.4, zorder=1, label=chosen)
        self.ax_.set(xlabel="C", ylabel=f"{shortened(self.score_name, 40)}, rows held out", xscale="log")
        self.ax_.xaxis.set_major_formatter(power_of_ten)
        self.ax_.xaxis.set_minor_formatter("")
        quiet(self.ax_)
        legend(self.ax_)
        return self


def _name_of(scoring: Any) -> str:
    if scoring is None:
        return "accuracy"
    if isinstance(scoring, str):
        return scoring.replace("_", " ")
    return getattr(scoring, "__name__", "score")
