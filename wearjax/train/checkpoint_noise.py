"""What Orbax and its event loops print beside the error that they raise, kept out of the terminal.

A checkpoint that cannot be written fails once for every array that is on its way: each thread logs a traceback, each
forgotten task another, and callbacks of the storage reach loops that are closed by then. The first error is raised
and told; the rest is recognised by where it comes from, and everything else passes.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
from types import TracebackType
from typing import Any

_OF_ORBAX = "orbax.checkpoint"
_OF_STORAGE = ("in OCDBT database", "tensorstore")


@functools.cache
def keep_out() -> None:
    """From now on, in this process."""
    absl = logging.getLogger("absl")
    absl.setLevel(logging.ERROR)  # Orbax reports every file it writes
    absl.addFilter(_is_not_repeated)
    logging.getLogger("asyncio").addFilter(_is_not_repeated)
    before = sys.unraisablehook

    def hook(unraisable: Any, /) -> None:
        if not _late(unraisable.exc_value):
            before(unraisable)

    sys.unraisablehook = hook


def _is_not_repeated(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    return error is None or not _of_a_checkpoint(error)


def _of_a_checkpoint(error: BaseException) -> bool:
    """Whether an error was raised in Orbax, or by the storage below it."""
    said = str(error)
    return any(part in said for part in _OF_STORAGE) or any(
        name.startswith(_OF_ORBAX) for name in _modules(error.__traceback__)
    )


def _late(error: BaseException | None) -> bool:
    """Whether a callback came to an event loop that a failed write had closed."""
    return (
        isinstance(error, RuntimeError)
        and str(error) == "Event loop is closed"
        and asyncio.base_events.__name__ in _modules(error.__traceback__)
    )


def _modules(trace: TracebackType | None) -> list[str]:
    names = []
    while trace is not None:
        names.append(str(trace.tb_frame.f_globals.get("__name__", "")))
        trace = trace.tb_next
    return names
