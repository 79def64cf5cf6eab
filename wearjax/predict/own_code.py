"""What the errors of a method of one's own say: what went wrong, and in which line of its file."""

from __future__ import annotations

import site
import sys
import sysconfig
import traceback
from pathlib import Path

import wearjax

_OTHERS = tuple(
    str(Path(folder).resolve())
    for folder in {
        str(Path(wearjax.__file__).parent),
        *(sysconfig.get_paths()[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")),
        *site.getsitepackages(),
        str(Path(sys.prefix) / "lib"),
    }
)


def told(error: BaseException) -> str:
    """The kind of an error, its first line and, where it passed through the user's own code, file and line there."""
    lines = str(error).strip().splitlines()
    place = line_of(error)
    return type(error).__name__ + (f": {lines[0]}" if lines else "") + (f" ({place})" if place else "")


def line_of(error: BaseException) -> str:
    """`FILE:LINE` of the innermost frame that is neither ours nor of an installed library; empty without one."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        file = frame.f_code.co_filename
        # Code without a file of its own (`<string>`, `<__array_function__ internals>`) is nothing to look up.
        if not file.startswith("<") and not str(Path(file).resolve()).startswith(_OTHERS):
            return f"{file}:{line}"
    return ""
