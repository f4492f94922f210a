"""ConfusionPairsDisplay: the pairs of classes that are confused most, both directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from multimargin.data.labels import plain_labels
from multimargin.displays.drawing import BLUE, ORANGE, axes_to_draw_on, quiet, shortened

_LONGEST_NAME = 28
_INCHES_OF_PAIR = 0.34


@dataclass
class ConfusedPairs:
    """Pairs of classes, most confused first; ties in the order of the classes.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Labels that occur, sorted.
    pairs : ndarray of shape (n_pairs, 2)
        Positions in ``classes``; of every pair the class first of which more rows were taken for the other.
    counts : ndarray of shape (n_pairs, 2)
        Rows of the first class taken for the second, and of the second taken for the first.
    support : ndarray of shape (n_classes,)
        Rows of every class.
    """

    classes: np.ndarray
    pairs: np.ndarray
    counts: np.ndarray
    support: np.ndarray


def confused_pairs(y_true: Any, y_pred: Any) -> ConfusedPairs:
    """All pairs of classes that were confused; never a matrix of classes times classes."""
    y_true, y_pred = (column_or_1d(plain_labels(y)) for y in (y_true, y_pred))
    check_consistent_length(y_true, y_pred)
    for labels in (y_true, y_pred):
        check_classification_targets(labels)
    classes, code = np.unique(np.concatenate([y_true, y_pred]), return_inverse=True)
    true, said = np.split(code, 2)
    support = np.bincount(true, minlength=len(classes))
    wrong = true != said
    low, high = np.minimum(true, said)[wrong], np.maximum(true, said)[wrong]
    of_low = true[wrong] == low
    pairs, which = np.unique(np.column_stack([low, high]), axis=0, return_inverse=True)
    which = which.ravel()
    counts = np.column_stack([np.bincount(which[mask], minlength=len(pairs)) for mask in (of_low, ~of_low)])
    turned = counts[:, 1] > counts[:, 0]
    pairs[turned], counts[turned] = pairs[turned, ::-1], counts[turned, ::-1]
    worst_first = np.argsort(-counts.sum(axis=1), kind="stable")
    return ConfusedPairs(classes, pairs[worst_first], counts[worst_first], support)


class ConfusionPairsDisplay:
    """The worst confused pairs of classes as bars that point at the class that was said.

    A bar to the right: rows of the class on the left that were taken for the one on the right; a bar to the left: the
    other way round. With 200 classes a matrix cannot be read, but its worst pairs can.

    Parameters
    ----------
    pairs : list of (label, label)
        Most confused first.
    counts : ndarray of shape (n_pairs, 2)
        Rows of the first label taken for the second, and of the second taken for the first.
    support : ndarray of shape (n_pairs, 2)
        Rows that have the first and the second label.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    right_bars_, left_bars_ : matplotlib BarContainer
        Of the first and the second direction.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from multimargin.displays import ConfusionPairsDisplay
    >>> said = ["cat", "dog", "dog", "dog", "cow"]
    >>> true = ["cat", "cat", "cat", "dog", "dog"]
    >>> display = ConfusionPairsDisplay.from_predictions(true, said, ax=Figure().subplots())
    >>> display.pairs, display.counts.tolist()
    ([('cat', 'dog'), ('dog', 'cow')], [[2, 0], [1, 0]])
    """

    def __init__(self, *, pairs: list[tuple[Any, Any]], counts: np.ndarray, support: np.ndarray):
        self.pairs = pairs
        self.counts = counts
        self.support = support

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, n_pairs: int = 10, ax: Any = None, **kwargs: Any
    ) -> ConfusionPairsDisplay:
        """Draw what a model confuses.

        Parameters
        ----------
        estimator : classifier
            Fitted.
        X, y : rows and their labels
        n_pairs : int
            Most pairs to draw.
        ax : matplotlib Axes or None
            Where; None makes a figure that is high enough.
        **kwargs
            For the bars.

        Returns
        -------
        ConfusionPairsDisplay
        """
        return cls.from_predictions(y, estimator.predict(X), n_pairs=n_pairs, ax=ax, **kwargs)

    @classmethod
    def from_predictions(
        cls, y_true: Any, y_pred: Any, *, n_pairs: int = 10, ax: Any = None, **kwargs: Any
    ) -> ConfusionPairsDisplay:
        """Draw what predictions confuse; arguments as in :meth:`from_estimator`."""
        if n_pairs < 1:
            raise ValueError(f"n_pairs must be at least 1, got {n_pairs!r}")
        all_pairs = confused_pairs(y_true, y_pred)
        worst = all_pairs.pairs[:n_pairs]
        labels = [tuple(all_pairs.classes[pair].tolist()) for pair in worst]
        return cls(pairs=labels, counts=all_pairs.counts[:n_pairs], support=all_pairs.support[worst]).plot(ax, **kwargs)

    def plot(self, ax: Any = None, **kwargs: Any) -> ConfusionPairsDisplay:
        """Draw; arguments as in :meth:`from_estimator`."""
        height = 1.5 + _INCHES_OF_PAIR * max(len(self.pairs), 1)
        self.ax_ = ax = axes_to_draw_on(ax, figsize=(7.0, height))
        self.figure_ = ax.figure
        at = np.arange(len(self.pairs))
        style: dict[str, Any] = {"height": 0.66} | kwargs
        self.right_bars_ = ax.barh(at, self.counts[:, 0], **{"color": BLUE} | style)
        self.left_bars_ = ax.barh(at, -self.counts[:, 1], **{"color": ORANGE} | style)
        most = max(int(self.counts.max()), 1) if len(self.pairs) else 1
        for bars, side in ((self.right_bars_, 0), (self.left_bars_, 1)):
            ax.bar_label(bars, labels=self._said(side), padding=4, fontsize="small", color=ax.xaxis.label.get_color())
        ax.set_xlim(-1.4 * most, 1.4 * most)
        ax.set_ylim(max(len(self.pairs), 1) - 0.4, -0.6)
        names = [[shortened(str(label), _LONGEST_NAME) for label in column] for column in zip(*self.pairs, strict=True)]
        names = names or [[], []]
        ax.set_yticks(at, labels=names[0], parse_math=False)
        right = ax.secondary_yaxis("right")
        right.set_yticks(at, labels=names[1], parse_math=False)
        right.spines["right"].set_visible(False)
        for axis in (ax, right):
            axis.tick_params(axis="y", length=0)
        ax.set_xlabel("←  right taken for left     rows (share of their class)     left taken for right  →")
        ax.xaxis.set_major_formatter(lambda value, position: f"{abs(value):g}")
        ax.xaxis.get_major_locator().set_params(integer=True, nbins=6)
        quiet(ax)
        ax.grid(False, axis="y")
        ax.spines["left"].set_visible(False)
        ax.axvline(0, color=ax.xaxis.label.get_color(), linewidth=0.8)
        if not self.pairs:
            ax.text(0, 0, "no two classes are confused", ha="center", va="center")
        return self

    def _said(self, side: int) -> list[str]:
        """Count and share of the true class's rows; nothing where there is nothing."""
        counts = self.counts[:, side]
        shares = counts / np.maximum(self.support[:, side], 1)
        return [f"{count:,} ({share:.0%})" if count else "" for count, share in zip(counts, shares, strict=True)]
