"""The six ways in which the OpenMHC imputation benchmark hides measured cells of a day.

Structural scenarios (random noise, temporal slice, signal slice) draw from a generator; semantic ones (sleep
gap, workout gap, intensity failure) follow from the day itself. Order and kind of every draw are part of the
definition (OpenMHC evaluation, masking scenarios): the same generator state gives the same bits. Defaults are
the values that the benchmark uses.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Bool, Float32

from wearjax.channels import DEVICE_GROUPS, ENERGY, HEART_RATE, N_CHANNELS, SLEEP, WORKOUTS
from wearjax.errors import ConfigError

STRUCTURAL = ("random_noise", "temporal_slice", "signal_slice")
SEMANTIC = ("sleep_gap", "workout_gap", "intensity_failure")
SCENARIOS = STRUCTURAL + SEMANTIC

INTENSE_BPM = 160.0
INTENSE_MINUTES_MIN = 5
# A mean heart rate below this can only be in beats per second.
HERTZ_BELOW = 10.0
_WATCH_PHYSIOLOGY = (HEART_RATE, ENERGY)
_NOT_SLEEP = tuple(c for c in range(N_CHANNELS) if c not in SLEEP)

Values = Float32[np.ndarray, "channel=19 minute"]
Cells = Bool[np.ndarray, "channel=19 minute"]


def make_mask(
    scenario: str, values: Values, observed: Cells, rng: np.random.Generator | None = None, **params: Any
) -> tuple[Cells, bool]:
    """Chooses the cells of one day to hide.

    Args:
        scenario: one of `SCENARIOS`.
        values: the day after the zero-to-missing rule, NaN = not measured.
        observed: where the day was measured; only such cells are hidden.
        rng: generator of the structural scenarios; the semantic ones do not use it.
        **params: replaces the scenario's benchmark values, see the function of its name.

    Returns:
        The mask (true = hidden, a subset of `observed`), and whether the scenario applies to the day at all.
        An inapplicable day has an empty mask; a sleep gap may apply and still hide nothing.

    Raises:
        ConfigError: unknown scenario or parameter, no generator where one is needed, or arrays that do not
            fit.
    """
    if scenario not in _GENERATORS:
        raise ConfigError(f"scenario {scenario!r} is unknown; expected one of {', '.join(SCENARIOS)}")
    if values.ndim != 2 or values.shape[0] != N_CHANNELS or observed.shape != values.shape:
        raise ConfigError(
            f"{scenario}: values and observed must both be ({N_CHANNELS}, minutes), "
            f"got {values.shape} and {observed.shape}"
        )
    if scenario in STRUCTURAL and rng is None:
        raise ConfigError(f"{scenario}: needs a random generator")
    generate = _GENERATORS[scenario]
    if params:
        _check_names(scenario, params)
    mask = generate(values, observed.astype(bool, copy=False), rng, **params)
    return (np.zeros(values.shape, bool), False) if mask is None else (mask, True)


def _check_names(scenario: str, params: dict) -> None:
    known = [
        name
        for name, parameter in inspect.signature(_GENERATORS[scenario]).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    for name in params:
        if name not in known:
            has = ", ".join(known) or "none"
            raise ConfigError(f"{scenario}: unknown parameter {name!r}; it has {has}")


def random_noise(
    values: Values,
    observed: Cells,
    rng: np.random.Generator,
    *,
    patch_size: int = 30,
    mask_ratio: float = 0.5,
) -> Cells | None:
    """Hides patches of single channels, in random order, until `mask_ratio` of the measured cells are hidden.

    Patches of `patch_size` minutes are numbered channel by channel; minutes beyond the last whole patch are
    never hidden. The last patch may overshoot.
    """
    if not observed.any():
        return None
    n_channels, n_minutes = observed.shape
    per_channel = n_minutes // patch_size
    patches = observed[:, : per_channel * patch_size].reshape(n_channels * per_channel, patch_size)
    target = int(mask_ratio * int(observed.sum()))
    order = rng.permutation(len(patches))
    size = patches.sum(axis=1)[order]
    hidden = np.zeros(len(patches), bool)
    # A patch is taken while the cells of all earlier ones do not yet reach the target.
    hidden[order[np.cumsum(size) - size < target]] = True
    mask = np.zeros(observed.shape, bool)
    mask[:, : per_channel * patch_size] = (patches & hidden[:, None]).reshape(n_channels, -1)
    return mask


def temporal_slice(
    values: Values,
    observed: Cells,
    rng: np.random.Generator,
    *,
    mask_ratio: float = 0.25,
    min_block_size: int = 30,
    max_block_size: int = 60,
) -> Cells | None:
    """Hides all channels in blocks of time that together cover about `mask_ratio` of the day.

    Blocks are placed independently, starts uniform over the day; their number is the least whose expected
    union reaches the ratio.
    """
    if not observed.any():
        return None
    n_minutes = observed.shape[1]
    mean_share = (min_block_size + max_block_size) / 2 / n_minutes
    n_blocks = max(1, math.ceil(math.log(1 - mask_ratio) / math.log(1 - mean_share)))
    sizes = rng.integers(min_block_size, max_block_size + 1, size=n_blocks)
    starts = rng.integers(0, np.maximum(1, n_minutes - sizes))
    covered = np.zeros(n_minutes, bool)
    for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
        covered[start : start + size] = True
    return observed & covered


def signal_slice(
    values: Values, observed: Cells, rng: np.random.Generator, *, mask_ratio: float = 0.5
) -> Cells | None:
    """Hides whole channels for the day: a random `mask_ratio` of those measured, or all of one device.

    Each way has probability one half; where no device recorded, single channels are drawn.
    """
    valid = np.flatnonzero(observed.any(axis=1))
    if not len(valid):
        return None
    devices = {name: np.intersect1d(valid, group) for name, group in DEVICE_GROUPS.items()}
    recording = [name for name, group in devices.items() if len(group)]
    by_channel = rng.random() < 0.5
    if by_channel or not recording:
        chosen = rng.choice(valid, size=max(1, math.ceil(len(valid) * mask_ratio)), replace=False)
    else:
        chosen = devices[str(rng.choice(recording))]
    mask = np.zeros(observed.shape, bool)
    mask[chosen] = observed[chosen]
    return mask


def sleep_gap(values: Values, observed: Cells, rng: np.random.Generator | None = None) -> Cells | None:
    """Hides everything but the sleep channels while either of them says asleep or in bed."""
    asleep = _any_above_zero(values, SLEEP)
    return _hide(observed, _NOT_SLEEP, asleep) if asleep.any() else None


def workout_gap(values: Values, observed: Cells, rng: np.random.Generator | None = None) -> Cells | None:
    """Hides heart rate and energy during workouts; applies only if something measured is hidden."""
    mask = _hide(observed, _WATCH_PHYSIOLOGY, _any_above_zero(values, WORKOUTS))
    return mask if mask.any() else None


def intensity_failure(
    values: Values,
    observed: Cells,
    rng: np.random.Generator | None = None,
    *,
    hr_threshold: float = INTENSE_BPM,
    hr_unit: str = "auto",
    min_minutes: int = INTENSE_MINUTES_MIN,
) -> Cells | None:
    """Hides heart rate and energy wherever the heart rate stays above a threshold for `min_minutes` or more.

    `hr_threshold` is in beats per minute. `hr_unit` says what the values are in: `"bpm"`, `"hz"`, or
    `"auto"`, which takes a day whose mean is below 10 to be in beats per second. A minute without heart rate
    ends a run.
    """
    if hr_unit not in ("auto", "bpm", "hz"):
        raise ConfigError(f"intensity_failure: hr_unit {hr_unit!r} is unknown; expected auto, bpm or hz")
    heart_rate = values[HEART_RATE]
    measured = observed[HEART_RATE] & np.isfinite(heart_rate)
    if not measured.any():
        return None
    in_hertz = hr_unit == "hz" or (
        hr_unit == "auto" and np.mean(heart_rate[measured], dtype=np.float64) < HERTZ_BELOW
    )
    # A Python float: the comparison stays in float32, so that exactly 160 bpm stored in Hz is not above it.
    threshold = float(hr_threshold) / 60 if in_hertz else float(hr_threshold)
    intense = _long_runs(measured & (heart_rate > threshold), min_minutes)
    return _hide(observed, _WATCH_PHYSIOLOGY, intense) if intense.any() else None


def _any_above_zero(values: np.ndarray, channels: tuple[int, ...]) -> np.ndarray:
    return np.any(values[list(channels)] > 0, axis=0)


def _hide(observed: np.ndarray, channels: tuple[int, ...], minutes: np.ndarray) -> np.ndarray:
    mask = np.zeros(observed.shape, bool)
    rows = list(channels)
    mask[rows] = observed[rows] & minutes
    return mask


def _long_runs(flags: np.ndarray, shortest: int) -> np.ndarray:
    """Keeps the runs of true that are at least `shortest` long."""
    edges = np.diff(np.concatenate(([0], flags.view(np.int8), [0])))
    starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    long = stops - starts >= shortest
    change = np.zeros(len(flags) + 1, np.int8)
    change[starts[long]] += 1
    change[stops[long]] -= 1
    return np.cumsum(change[:-1], dtype=np.int8).astype(bool)


_GENERATORS: dict[str, Callable[..., np.ndarray | None]] = {
    "random_noise": random_noise,
    "temporal_slice": temporal_slice,
    "signal_slice": signal_slice,
    "sleep_gap": sleep_gap,
    "workout_gap": workout_gap,
    "intensity_failure": intensity_failure,
}
