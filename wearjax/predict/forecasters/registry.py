"""The forecasters that the library brings, by name; a method's libraries are imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wearjax.errors import ConfigError

_HERE = "wearjax.predict.forecasters"


@dataclass(frozen=True)
class Entry:
    """Where a forecaster is found.

    Attributes:
        module, name: of its class.
        needs_checkpoint: it takes published weights.
    """

    module: str
    name: str
    needs_checkpoint: bool = False


FORECASTERS: dict[str, Entry] = {
    "seasonal_naive": Entry("seasonal_naive", "SeasonalNaive"),
    "autoarima": Entry("arima", "AutoARIMA"),
    "autoets": Entry("arima", "AutoETS"),
    "toto": Entry("toto", "Toto", needs_checkpoint=True),
    "chronos2": Entry("chronos2", "Chronos2", needs_checkpoint=True),
}


def build(name: str, *, checkpoint: Any = None, options: Mapping[str, Any] | None = None) -> Any:
    """One forecaster by name.

    Args:
        checkpoint: path of the weights, for those that need one.
        options: keywords of its class.

    Raises:
        ConfigError: an unknown name, weights that are lacking or not wanted, or an extra that is not installed.
    """
    if name not in FORECASTERS:
        raise ConfigError(f"forecaster {name!r}; known: {', '.join(FORECASTERS)}")
    entry = FORECASTERS[name]
    if entry.needs_checkpoint and checkpoint is None:
        raise ConfigError(f"{name}: needs its published weights (--{name}-checkpoint)")
    if not entry.needs_checkpoint and checkpoint is not None:
        raise ConfigError(f"{name}: takes no checkpoint")
    kind = getattr(importlib.import_module(f"{_HERE}.{entry.module}"), entry.name)
    return kind(*(() if checkpoint is None else (checkpoint,)), **(options or {}))
