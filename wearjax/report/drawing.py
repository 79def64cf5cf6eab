"""Turns a matplotlib figure into an inline SVG element: no pyplot, fixed settings, the same bytes each time.

matplotlib is imported inside `svg`, so that whoever imports the report does not wait for it.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import Any, Literal

WIDTH = 7.6  # inches
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none", "svg.hashsalt": "wearjax", "text.parse_math": False,
    "path.simplify": True, "path.simplify_threshold": 0.08,
    "font.size": 8.0, "axes.titlesize": 8.5, "axes.titleweight": "bold", "axes.titlelocation": "left",
    "axes.labelsize": 8.0, "xtick.labelsize": 7.5, "ytick.labelsize": 7.5, "legend.fontsize": 8.0,
    "axes.edgecolor": "#888888", "axes.linewidth": 0.6, "xtick.color": "#444444", "ytick.color": "#444444",
    "axes.labelcolor": "#333333", "axes.spines.top": False, "axes.spines.right": False,
    "xtick.major.width": 0.6, "ytick.major.width": 0.6, "xtick.major.size": 2.5, "ytick.major.size": 2.5,
    "legend.frameon": False, "grid.color": "#dddddd", "grid.linewidth": 0.5,
}  # fmt: skip


def svg(
    draw: Callable[[Any], None],
    *,
    size: tuple[float, float],
    name: str,
    label: str,
    layout: Literal["constrained"] | None = "constrained",
) -> str:
    """Draws on a fresh figure with fixed settings and returns an `<svg>` element fit to stand in a page."""
    import matplotlib
    from matplotlib.figure import Figure

    buffer = io.StringIO()
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # ids may hold characters the measuring font lacks
        matplotlib.rcdefaults()  # a user's matplotlibrc must not change the page
        for key, value in _STYLE.items():
            matplotlib.rcParams[key] = value
        figure = Figure(figsize=size, layout=layout)
        draw(figure)
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing, dpi=144)
    return _inline(buffer.getvalue(), name=name, label=label)


def _inline(text: str, *, name: str, label: str) -> str:
    """Shrinks matplotlib's document to an element: no prolog, comments, namespaces or unused ids.

    Only tags are edited: the words between them come from files and stay as they are.
    """
    text = re.sub(r"<!--.*?-->", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    used = set(re.findall(r'<[^>]*?(?:url\(|href=")#([\w-]+)', text))
    text = re.sub(r"<[^>]+>", lambda tag: _tidy(tag[0], name, used), text)
    text = re.sub(r">\s*\n\s*<", "><", text)
    escaped = label.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return text.replace("<svg", f'<svg role="img" aria-label="{escaped}"', 1)


def _tidy(tag: str, name: str, used: set[str]) -> str:
    tag = re.sub(r' xmlns(:\w+)?="[^"]*"', "", tag)
    tag = re.sub(r"(font: [^;\"]*?)(\d+(?:\.\d+)?px) '[^;\"]*", r"\1\2 var(--sans)", tag)
    tag = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in used else "", tag)
    tag = re.sub(r'(url\(|href=")#', rf"\1#{name}-", tag)
    tag = re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), tag)
    return re.sub(r"\s*\n\s*", " ", tag)
