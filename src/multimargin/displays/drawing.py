"""What the displays share: axes to draw on, colours, labels that are drawn as they are."""

from __future__ import annotations

from typing import Any

# Of Okabe and Ito's palette, whose colours remain apart for colour-blind readers, on paper and on a dark page.
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#7a7a7a"

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def axes_to_draw_on(ax: Any, **figure_options: Any) -> Any:
    """``ax``, or the axes of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('displays need matplotlib: pip install "multimargin[plot]"') from error
    return plt.subplots(layout="constrained", **figure_options)[1]


def shortened(text: str, most: int) -> str:
    """Text of at most so many characters, on one line."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def quiet(ax: Any) -> None:
    """No box around the axes, a light grid behind the data."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(True, color=GREY, alpha=0.25, linewidth=0.6)
    ax.set_axisbelow(True)


def legend(ax: Any) -> None:
    """A legend without a frame that covers what is behind it."""
    ax.legend(framealpha=0.85, edgecolor="none", fontsize="small")


def power_of_ten(value: float, position: Any = None) -> str:
    """A tick of a logarithmic axis: plain numbers near one, else a power; no ticks but powers of ten."""
    from math import isclose, log10

    exponent = round(log10(value))
    if not isclose(value, 10.0**exponent, rel_tol=1e-6):
        return ""
    if -3 <= exponent <= 3:
        return f"{10.0**exponent:g}"
    return "10" + str(exponent).translate(_SUPERSCRIPT)


def fitted_machine(model: Any) -> Any:
    """The estimator itself, or the last step of a Pipeline."""
    return model.steps[-1][1] if hasattr(model, "steps") else model
