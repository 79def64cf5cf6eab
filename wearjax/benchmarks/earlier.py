"""Whether a new call may go on from what an earlier one left in its folder, or what about it is another."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wearjax import json_text
from wearjax.benchmarks.result_files import plain
from wearjax.errors import ConfigError


def check_kind(folder: str | os.PathLike, name: str, kind: str) -> None:
    """Raises ConfigError where the results in a folder are not of this kind: the same call could not go on there.

    Args:
        name: of the field of `results.json` that tells, `track` or `benchmark`.
    """
    file = Path(folder) / "results.json"
    if not file.exists():
        return
    try:
        found = json_text.loads(file.read_text(encoding="utf-8"))
        known = found.get(name)
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"{file}: not readable ({error}); pass --force to start over") from None
    if known != kind:
        other = known or found.get("track") or found.get("benchmark") or found.get("kind") or "unknown"
        raise ConfigError(
            f"{folder} already holds results of another kind ({other}, now {kind}); pass force=True (--force) to "
            "replace them, or choose another folder"
        )


def refuse_other(
    folder: str | os.PathLike, found: Mapping[str, Any], wanted: Mapping[str, Any], names: Sequence[str]
) -> None:
    """Raises ConfigError naming the first setting in which a run that is there and the one asked for differ.

    Args:
        names: the settings that decide what is kept; others only change what is made of it.
    """
    now = json.loads(json.dumps(plain(dict(wanted)), default=str))
    for name in names:
        if found.get(name) != now.get(name):
            which, was, is_now = _first_difference(name, found.get(name), now.get(name))
            raise ConfigError(
                f"{folder}: holds a run with another {which} ({was}, now {is_now}); pass force=True (--force) to start "
                "over, or choose another folder"
            )


def _first_difference(name: str, was: Any, now: Any) -> tuple[str, Any, Any]:
    """The innermost setting that differs, by its dotted name."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*now, *was)):
            if was.get(key) != now.get(key):
                return _first_difference(f"{name}.{key}", was.get(key), now.get(key))
    return name, was, now
