"""Plots as SVG that takes its colours and fonts from the page, in a wide and a narrow rendering."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

from multimargin.displays.drawing import BLUE, GREY, ORANGE

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_INK, _PAPER = "#010203", "#040506"  # stand for the page's colours
_COLOURS = {_INK: "--ink", _PAPER: "--paper", BLUE: "--blue", ORANGE: "--orange", GREY: "--grey"}
_INCHES = {"wide": (7.4, 3.5), "narrow": (3.5, 3.2)}
_STYLE = {
    "svg.fonttype": "none",
    "font.size": 9.5,
    "text.color": _INK,
    "text.parse_math": False,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "axes.facecolor": "none",
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.facecolor": _PAPER,
    "savefig.facecolor": "none",
}


def svg(draw: Callable[[Any], Any], name: str, description: str) -> str:
    """What ``draw(ax)`` draws, as markup for the page.

    Parameters
    ----------
    draw : callable
        Is given axes, once for each rendering.
    name : str
        Of the plot, unique in the page.
    description : str
        For those who cannot see it.
    """
    import matplotlib.style
    from matplotlib.figure import Figure

    renderings = []
    for rendering, inches in _INCHES.items():
        prefix = f"{name}-{rendering}"
        with matplotlib.style.context(["default", _STYLE | {"svg.hashsalt": prefix}]):
            figure = Figure(figsize=inches, layout="constrained")
            draw(figure.subplots())
            file = io.StringIO()
            figure.savefig(file, format="svg", transparent=True)
        renderings.append(_for_page(file.getvalue(), prefix, rendering, description))
    return "\n".join(renderings)


def _for_page(text: str, prefix: str, rendering: str, description: str) -> str:
    """The SVG element alone: ids that are needed, and unique; no size, no fonts and no colours of its own."""
    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(text)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
    needed = set(re.findall(r"#([\w-]+)", text))
    for element in root.iter():
        if "id" in element.attrib:
            identity = element.attrib.pop("id")
            if identity in needed:
                element.set("id", f"{prefix}-{identity}")
        if reference := element.attrib.pop(f"{{{_XLINK}}}href", None):
            element.set("href", f"#{prefix}-{reference[1:]}")
        for key, value in list(element.attrib.items()):
            element.set(key, re.sub(r"url\(#([\w-]+)\)", rf"url(#{prefix}-\1)", value))
        if style := element.get("style"):
            element.set("style", _themed(style))
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.set("class", f"plot {rendering}")
    root.set("role", "img")
    root.set("aria-label", description)
    return ElementTree.tostring(root, encoding="unicode")


def _themed(style: str) -> str:
    for colour, variable in _COLOURS.items():
        style = style.replace(colour, f"var({variable})")
    return re.sub(r"font-family:[^;]*;?|(?<=font: )([^;]*?)(\d[\d.]*px)[^;]*", _size_only, style)


def _size_only(match: re.Match[str]) -> str:
    return f"{match[2]} sans-serif" if match[2] else ""
