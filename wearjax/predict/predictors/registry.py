"""The predictors that the library brings, by name; a method's libraries are imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wearjax.days.store import Days
from wearjax.errors import ConfigError, did_you_mean

_HERE = "wearjax.predict.predictors"


@dataclass(frozen=True)
class Entry:
    """Where a predictor is found.

    Attributes:
        module, name: of its class.
        needs: `bundle` for a model trained here, `checkpoint` for published weights, None for neither.
        learns_all: it trains one network for all tasks and must know them beforehand.
    """

    module: str
    name: str
    needs: str | None = None
    learns_all: bool = False


LANGUAGE_MODELS = ("llm_statistics", "llm_vision", "llm_agentic")  # built by wearjax.language
PREDICTORS: dict[str, Entry] = {
    "xgboost": Entry("xgboost", "XGBoost"),
    "multirocket": Entry("multirocket", "MultiRocket"),
    "grud": Entry("grud", "GRUD", learns_all=True),
    "wbm": Entry("wbm", "WBM", "bundle"),
    "lsm2": Entry("lsm2", "LSM2", "bundle"),
    "toto": Entry("toto", "Toto", "checkpoint"),
    "chronos2": Entry("chronos2", "Chronos2", "checkpoint"),
}


def build(
    name: str,
    days: Days,
    *,
    weights: Any = None,
    options: Mapping[str, Any] | None = None,
    tasks: Mapping[str, str] | None = None,
    cache_dir: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Any:
    """One predictor by name.

    Args:
        weights: the loaded bundle or the path of the checkpoint, for those that need one.
        options: further keywords of its class.
        tasks: code and kind of every task that will come, for those that learn all at once.
        cache_dir: folder in which features are kept for later runs.
        progress: called with (done, total) during long work.

    Raises:
        ConfigError: an unknown name, weights that are lacking or not wanted, or an extra that is not installed.
    """
    if name not in PREDICTORS:
        known = ("linear", *PREDICTORS, *LANGUAGE_MODELS)
        raise ConfigError(
            f"predictor {name!r} is unknown{did_you_mean(name, known)}; expected some of {', '.join(known)}"
        )
    entry = PREDICTORS[name]
    if entry.needs and weights is None:
        option = f"--{name}-checkpoint" if entry.needs == "checkpoint" else f"--{entry.needs}"
        raise ConfigError(f"{name}: needs a {entry.needs} ({option})")
    if not entry.needs and weights is not None:
        raise ConfigError(f"{name}: takes neither bundle nor checkpoint")
    kind = getattr(importlib.import_module(f"{_HERE}.{entry.module}"), entry.name)
    given = () if weights is None else (weights,)
    learned = {"tasks": tasks or {}} if entry.learns_all else {}
    return kind(days, *given, **learned, **(options or {}), cache_dir=cache_dir, progress=progress)
