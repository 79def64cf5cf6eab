"""Folders of released PyPOTS forecasters: weights, the training configuration that tells sizes, and the scaler.

Weights are read as tensors only: nothing in a file is ever executed. PyTorch comes with the extra `pypots`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wearjax import json_text
from wearjax.channels import N_CHANNELS
from wearjax.convert import bundle as bundles
from wearjax.convert import card, pypots_forecast_layout, pypots_release
from wearjax.convert.bundle import Bundle
from wearjax.days.hourly_scaler import HourlyScaler
from wearjax.errors import CheckpointError, ConfigError
from wearjax.models import registry

CONFIG_FILE = "training_config.json"
SCALER_FILE = "standard_scaler_stats.json"
# Our configurations name these fields otherwise than PyPOTS does.
_FIELDS = {
    "dlinear_forecast": {
        "n_steps": "steps",
        "n_pred_steps": "horizon",
        "moving_avg_window_size": "window",
        "d_model": "d_model",
    },
    "segrnn": {
        "n_steps": "steps",
        "n_pred_steps": "horizon",
        "seg_len": "segment",
        "d_model": "d_model",
        "dropout": "dropout",
    },
    "mixlinear": {
        "n_steps": "steps",
        "n_pred_steps": "horizon",
        "period_len": "period",
        "lpf": "frequencies",
        "rank": "rank",
        "alpha": "time_share",
    },
}


def is_release(path: str | os.PathLike) -> bool:
    """Whether a folder has the two files that only released forecasters have."""
    return all((Path(path) / name).is_file() for name in (CONFIG_FILE, SCALER_FILE))


def import_forecaster(
    path: str | os.PathLike, *, out: str | os.PathLike, note: Callable[[str], None] | None = None
) -> Path:
    """A bundle for accelerators from a release folder, weights bit for bit.

    Args:
        note: called with a line for every setting that neither configuration nor weights tell.

    Raises:
        CheckpointError: an unreadable folder, weights that do not fit, or something at `out`.
    """
    found = read_forecaster(path, note=note)
    return bundles.save_bundle(
        out, kind=found.kind, config=found.config, model=found.model, stats=found.stats,
        origin=card.of_file(_weights_file(Path(path))),
    )  # fmt: skip


def read_forecaster(path: str | os.PathLike, *, note: Callable[[str], None] | None = None) -> Bundle:
    """The same in memory."""
    folder = Path(path)
    file = _weights_file(folder)
    told = _told(folder / CONFIG_FILE)
    stats = read_scaler(folder / SCALER_FILE)
    weights = {
        name: tensor.resolve_conj().numpy() for name, tensor in pypots_release.read_weights(file).items()
    }
    kind = pypots_forecast_layout.kind_of(weights, where=str(file))
    architecture = registry.get(kind)
    try:
        horizon = told.get("n_pred_steps", architecture.config().horizon)
        params = pypots_forecast_layout.to_flax(kind, weights, horizon=horizon)
        config = architecture.config(**_settings(kind, told, params, folder / CONFIG_FILE, note))
        pypots_release._check_shapes(architecture, config, params)
        return Bundle(kind, config, bundles.build(architecture, config, params), stats)
    except (CheckpointError, ConfigError) as error:
        raise CheckpointError(f"{file}: {error}") from None


def read_scaler(file: Path) -> HourlyScaler:
    """The scaler of a release: `means` and `stds` of 19 channels, null where a channel was never measured.

    Raises:
        CheckpointError: another content.
    """
    content = _json(file)
    try:
        means, stds = (np.array(content[name], np.float64) for name in ("means", "stds"))
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{file}: not readable as scaler statistics ({error!r})") from None
    if means.shape != (N_CHANNELS,) or stds.shape != (N_CHANNELS,):
        raise CheckpointError(
            f"{file}: expected {N_CHANNELS} means and stds, found {means.shape} and {stds.shape}"
        )
    means, stds = np.where(np.isfinite(means), means, 0.0), np.where(np.isfinite(stds), stds, 1.0)
    try:
        return HourlyScaler(means, np.where(stds == 0, 1.0, stds), 0.0)
    except ConfigError as error:
        raise CheckpointError(f"{file}: {error}") from None


def _weights_file(folder: Path) -> Path:
    """The only `.pypots` file, wherever in the folder it lies."""
    found = sorted(folder.rglob(f"*{pypots_release.SUFFIX}"))
    if len(found) != 1:
        names = ", ".join(str(f.relative_to(folder)) for f in found) or "none"
        raise CheckpointError(f"{folder}: expected one {pypots_release.SUFFIX} file, found {names}")
    return found[0]


def _told(file: Path) -> dict[str, Any]:
    """Constructor arguments of the PyPOTS class, wherever in the configuration they stand.

    Raises:
        CheckpointError: two places that contradict each other, or a value that is no number.
    """
    wanted = {name for fields in _FIELDS.values() for name in fields}
    told: dict[str, Any] = {}
    for name, value in _leaves(_json(file)):
        if name == "n_features" and value != N_CHANNELS:
            raise CheckpointError(f"{file}: n_features: hours have {N_CHANNELS} channels, got {value!r}")
        if name not in wanted or value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise CheckpointError(f"{file}: {name}: expected a number, got {value!r}")
        if told.setdefault(name, value) != value:
            raise CheckpointError(f"{file}: {name} is both {told[name]!r} and {value!r}")
    return told


def _leaves(content: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(content, Mapping):
        for name, value in content.items():
            if isinstance(value, Mapping):
                yield from _leaves(value)
            else:
                yield name, value


def _settings(
    kind: str, told: Mapping[str, Any], params: Mapping[str, np.ndarray], file: Path, note: Callable | None
) -> dict[str, Any]:
    """Fields of our configuration: what shapes tell, then the file, which may not contradict them."""
    settings: dict[str, Any] = dict(pypots_forecast_layout.sizes(kind, params))
    published = registry.get(kind).config()
    for theirs, ours in _FIELDS[kind].items():
        if theirs not in told:
            if ours not in settings and note is not None:
                note(f"{file}: does not tell {theirs}; taken as published")
            continue
        value = type(getattr(published, ours))(told[theirs])  # JSON writers turn whole numbers into 336.0
        if value != told[theirs]:
            raise CheckpointError(f"{theirs}: expected a whole number, got {told[theirs]!r}")
        if settings.setdefault(ours, value) != value:
            raise CheckpointError(f"{theirs} is {value!r}, the weights are of {settings[ours]}")
    return settings


def _json(file: Path) -> Any:
    try:
        content = json_text.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file}: not readable as JSON ({error})") from None
    if not isinstance(content, dict):
        raise CheckpointError(f"{file}: expected an object, got {type(content).__name__}")
    return content
