"""Whether probabilities mean what they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from multimargin.displays.drawing import BLUE, GREY, legend, quiet
from multimargin.report.judgement import Judgement

_BINS = 10
_SMALLEST = 1e-15  # probability, for the logarithm


@dataclass
class Calibration:
    """Probability that the model gave its own answer, against how often that was right, in bins of equal size."""

    confidence: np.ndarray
    right: np.ndarray
    size: np.ndarray
    log_loss: float
    error: float  # mean distance of the two, weighted by size

    def plot(self, ax: Any) -> None:
        """Draw; where the model is right as often as it says, the points are on the diagonal."""
        low = min(float(self.confidence.min()), float(self.right.min()))
        low = max(0.0, np.floor(10 * low - 0.5) / 10)
        ax.plot([low, 1], [low, 1], color=GREY, linestyle=":", linewidth=1.4, label="as it should be")
        deviation = np.sqrt(self.right * (1 - self.right) / self.size)
        label = "this model, ± 1 standard error"
        ax.errorbar(
            self.confidence, self.right, deviation, color=BLUE, marker="o", markersize=5, linewidth=1.4, label=label
        )
        ax.set(xlim=(low, 1.01), ylim=(low, 1.01))
        ax.set(xlabel="probability that the model gave its answer", ylabel="share that was right")
        quiet(ax)
        legend(ax)


def calibration(judged: Judgement) -> Calibration | None:
    """None for a model without probabilities."""
    if not hasattr(judged.machine, "predict_proba"):
        return None
    try:
        probability = judged.machine.predict_proba(judged.given)
    except NotFittedError:  # asked for after it was trained, or interrupted before
        return None
    n_rows = len(judged.true)
    column = np.full(judged.n_classes, -1)
    column[judged.known] = np.arange(len(judged.known))
    own = column[judged.true]
    of_label = np.where(own >= 0, probability[np.arange(n_rows), own], 0.0)
    confidence = probability.max(axis=1)
    right = judged.known[probability.argmax(axis=1)] == judged.true
    order = np.argsort(confidence, kind="stable")
    bins = [part for part in np.array_split(order, min(_BINS, n_rows)) if len(part)]
    size = np.array([len(part) for part in bins])
    mean, share = (np.array([values[part].mean() for part in bins]) for values in (confidence, right))
    error = float(np.sum(size * np.abs(mean - share)) / n_rows)
    log_loss = float(-np.log(np.maximum(of_label, _SMALLEST)).mean())
    return Calibration(mean, share, size, log_loss, error)
