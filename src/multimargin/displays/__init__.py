"""Pictures of trained models, after scikit-learn's contract for displays."""

from multimargin.displays.confusion_pairs import ConfusionPairsDisplay
from multimargin.displays.convergence import ConvergenceDisplay
from multimargin.displays.path import PathDisplay

__all__ = ["ConfusionPairsDisplay", "ConvergenceDisplay", "PathDisplay"]
