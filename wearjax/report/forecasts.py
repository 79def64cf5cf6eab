"""Example windows of a forecasting run: what was recorded before and after, and what each method expected."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from wearjax import npz
from wearjax.channels import CHANNELS, HEART_RATE, N_CHANNELS, Channel
from wearjax.errors import WearjaxError
from wearjax.report import words

FILE = "predictions/forecasts.npz"
CHANNELS_MAX = 4
# Steps and distance of either device tell one story, and so do the channels of sleep.
_WALKING = ("steps/min", "m/min")
_KIND = ["walking" if c.unit in _WALKING else c.name if c.is_continuous else c.category for c in CHANNELS]
_POINT, _LOW, _HIGH = "forecast/", "low/", "high/"


@dataclass(frozen=True, eq=False)
class Forecasts:
    """Example windows, hourly values in stored units; NaN = missing.

    Attributes:
        history: the last hours before the forecast.
        target: what was recorded in the forecast hours.
        forecast: method to its point forecast.
        low, high: method to its outermost quantiles, NaN where it has none.
        participant, start: one text a window; `start` is the first forecast hour.
    """

    history: Float32[np.ndarray, "window channel=19 hour"]
    target: Float32[np.ndarray, "window channel=19 horizon"]
    forecast: dict[str, Float32[np.ndarray, "window channel=19 horizon"]]
    low: dict[str, Float32[np.ndarray, "window channel=19 horizon"]]
    high: dict[str, Float32[np.ndarray, "window channel=19 horizon"]]
    participant: list[str]
    start: list[str]

    def __len__(self) -> int:
        return len(self.target)


def read(file: Path) -> Forecasts:
    """Reads the file. Raises WearjaxError if it is not what its name says."""
    try:
        arrays = npz.load(file)
    except (ValueError, OSError) as error:
        raise WearjaxError(f"{file}: not readable as example windows ({words.plain(error, 160)})") from None
    missing = [n for n in ("history", "target", "participant", "start") if n not in arrays]
    if missing:
        raise WearjaxError(f"{file}: example windows without {', '.join(missing)}")
    target = np.atleast_3d(arrays["target"])
    n, horizon = target.shape[0], target.shape[2]
    hours = np.atleast_3d(arrays["history"]).shape[2]
    methods = [name.removeprefix(_POINT) for name in sorted(arrays) if name.startswith(_POINT)]
    wanted = {"history": (n, N_CHANNELS, hours), "target": (n, N_CHANNELS, horizon)}
    wanted |= {prefix + m: (n, N_CHANNELS, horizon) for m in methods for prefix in (_POINT, _LOW, _HIGH)}
    for name, shape in {**wanted, "participant": (n,), "start": (n,)}.items():
        found = arrays.get(name)
        if found is None or found.shape != shape or (name in wanted and found.dtype.kind != "f"):
            told = "nothing" if found is None else f"{found.dtype} {found.shape}"
            raise WearjaxError(f"{file}: {words.plain(name, 60)} must be {shape}, found {told}")

    def by_method(prefix: str) -> dict[str, np.ndarray]:
        return {words.plain(m, 60): arrays[prefix + m].astype(np.float32, copy=False) for m in methods}

    texts = {n: [words.plain(t, 60) for t in arrays[n].tolist()] for n in ("participant", "start")}
    return Forecasts(
        history=arrays["history"].astype(np.float32, copy=False),
        target=arrays["target"].astype(np.float32, copy=False),
        forecast=by_method(_POINT),
        low=by_method(_LOW),
        high=by_method(_HIGH),
        **texts,
    )


def choose_windows(found: Forecasts, count: int) -> list[int]:
    """Positions of the windows to show, in order: those with most to see."""
    interest = [
        np.sort(_interest(h, t))[-CHANNELS_MAX:].sum()
        for h, t in zip(found.history, found.target, strict=True)
    ]
    return sorted(np.argsort(-np.asarray(interest), kind="stable")[:count].tolist())


def choose_channels(found: Forecasts, position: int) -> list[int]:
    """Up to four channels of a window, in channel order, one of a kind; at least one."""
    interest = _interest(found.history[position], found.target[position])
    chosen: dict[str, int] = {}
    for c in np.argsort(-interest, kind="stable").tolist():
        if interest[c] > 0 and len(chosen) < CHANNELS_MAX:
            chosen.setdefault(_KIND[c], c)
    return sorted(chosen.values()) or [HEART_RATE]


def _interest(history: np.ndarray, target: np.ndarray) -> Float32[np.ndarray, "channel=19"]:
    """How much a panel shows: recorded hours to compare with, and values that move."""
    score = np.zeros(N_CHANNELS, np.float32)
    for c in range(N_CHANNELS):
        known = target[c][np.isfinite(target[c])]
        if len(known):
            before = np.isfinite(history[c]).mean()
            score[c] = len(known) / target.shape[1] + 0.3 * before + (1.0 if np.ptp(known) > 0 else 0.0)
    return score


def hourly_unit(channel: Channel) -> str:
    """Unit of an hour's value for people: sums of minutes are per hour."""
    return channel.display_unit.replace("/min", "/h") if channel.hourly == "sum" else channel.display_unit
