"""Draws with matplotlib into PNG bytes that are the same each time, whatever the user's settings."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from typing import Any

_STYLE: dict[Any, Any] = {"text.parse_math": False, "font.size": 8.0, "path.simplify": False}
_DRAWING = threading.Lock()  # matplotlib's settings are shared by all threads


def png(draw: Callable[[Any], None], *, size: tuple[float, float], dpi: int = 100) -> bytes:
    """Draws on a fresh white figure of `size` inches; returns a PNG without date or version in it.

    The bytes depend on the version of matplotlib (and of its fonts), not on the machine's settings.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    buffer = io.BytesIO()
    with _DRAWING, matplotlib.rc_context():
        matplotlib.rcdefaults()
        for key, value in _STYLE.items():
            matplotlib.rcParams[key] = value
        figure = Figure(figsize=size, facecolor="white")
        FigureCanvasAgg(figure)
        draw(figure)
        figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()
