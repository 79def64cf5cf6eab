"""What methods were scored on: facts that a packet carries, so that a leaderboard compares like with like.

The published format has no such field; it is one more field of the display sidecar, which readers that do not know it
pass over. Packets without it are read as before: what they were scored on is unknown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wearjax import __version__

if TYPE_CHECKING:
    from wearjax.benchmarks.openmhc.packet import Packet

FIELD = "scored_on"
_CELLS, _VERSION = "cells", "wearjax"
_NAMED = 6  # methods that a note names


def facts(settings: Mapping[str, Any], cells: Mapping[str, str]) -> dict[str, Any]:
    """What a packet says: the version, the settings that chose the cells, and a digest of the cells themselves.

    Args:
        cells: a digest for each part that can be scored by itself (scenario, task), equal exactly where two
            evaluations scored the same cells of the same recordings.
    """
    return {_VERSION: __version__, **settings, _CELLS: dict(cells)}


def digest(*parts: Any) -> str:
    """Of texts, numbers and arrays of integers."""
    found = hashlib.sha256()
    for part in parts:
        whole = isinstance(part, np.ndarray)
        found.update(np.ascontiguousarray(part, "<i8").tobytes() if whole else str(part).encode())
        found.update(b"\0")
    return found.hexdigest()[:16]


def problems(found: Any) -> list[str]:
    """What is wrong with the field of a sidecar; None, where it is absent, is nothing wrong."""
    if found is None:
        return []
    cells = found.get(_CELLS) if isinstance(found, Mapping) else None
    if not isinstance(cells, Mapping) or not all(isinstance(text, str) for text in cells.values()):
        return [f"{FIELD} must be an object whose {_CELLS} are texts by part"]
    return []


def difference(packets: Sequence[Packet]) -> str | None:
    """Why some packets cannot stand in one table, in a line; None where nothing that they say speaks against it."""
    first: dict[str, Packet] = {}
    for found in packets:
        for part, cells in found.scored_on.get(_CELLS, {}).items():
            other = first.setdefault(part, found)
            if other.scored_on[_CELLS][part] != cells:
                return (
                    f"{other.source} ({other.method}) and {found.source} ({found.method}) were not scored on the same "
                    f"cells of {part}: {_settings(other.scored_on, found.scored_on)}"
                )
    return None


def _settings(a: Mapping[str, Any], b: Mapping[str, Any]) -> str:
    """The settings in which two differ, else that the recordings must."""
    names = [n for n in dict.fromkeys((*a, *b)) if n not in (_CELLS, _VERSION)]
    found = [f"{n} {_shown(a.get(n))} and {_shown(b.get(n))}" for n in names if a.get(n) != b.get(n)]
    return ", ".join(found) or "the same settings, but other recordings, participants or masks"


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)


def notes(packets: Sequence[Packet]) -> list[str]:
    """What a reader must know of packets that may stand in one table."""
    found = []
    silent = [p.display_name for p in packets if not p.scored_on]
    if silent and len({p.source for p in packets}) > 1:
        more = f" and {len(silent) - _NAMED} more" if len(silent) > _NAMED else ""
        found.append(
            f"{', '.join(silent[:_NAMED])}{more}: scored on unknown days, windows and masks (the packet does not say); "
            "comparable only where they are those of the others"
        )
    versions = sorted({str(p.scored_on[_VERSION]) for p in packets if _VERSION in p.scored_on})
    if len(versions) > 1:
        found.append(f"scored by several versions of wearjax: {', '.join(versions)}")
    return found
