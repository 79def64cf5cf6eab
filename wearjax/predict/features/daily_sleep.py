"""Sleep and the hours around it: durations, clock times, and weekends against weekdays."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64

from wearjax.channels import INDEX
from wearjax.predict.features import over_days
from wearjax.predict.features.day_block import DayBlock
from wearjax.predict.features.over_days import OverDays

MORNING_ENDS, EVENING_STARTS = 12 * 60, 18 * 60
NIGHT_STOP = 5 * 60
BEFORE_SLEEP = (20 * 60, 23 * 60)
MAD_OF_IQR = 0.7413  # makes the interquartile range a median absolute deviation scaled to a normal's sigma
MOVING = {"watch_steps": "watch_steps", "iphone_steps": "iphone_steps", "energy": "watch_energy"}

Table = dict[str, Float64[np.ndarray, "day"]]


def daily(block: DayBlock) -> Table:
    """Daily columns in minutes; a night cut short by missing minutes ranks last, clock times are absent then."""
    asleep, inbed = block.sums("sleep_asleep"), block.sums("sleep_inbed")
    known = np.isfinite(asleep) & np.isfinite(inbed) & (inbed > 0)
    share = np.divide(asleep, inbed, out=np.full(len(asleep), np.nan), where=known)
    table = {
        "sleep_minutes": over_days.not_measured_last(asleep),
        "inbed_minutes": over_days.not_measured_last(inbed),
        "sleep_efficiency": np.minimum(share, 1),
    }
    table |= _clock_times(block.recorded[:, INDEX["sleep_asleep"]] > 0)
    for name, channel in MOVING.items():
        table[f"nighttime_{name}"] = block.recorded[:, INDEX[channel], :NIGHT_STOP].sum(
            axis=1, dtype=np.float64
        )
        table[f"presleep_{name}"] = over_days.not_measured_last(block.sums(channel, *BEFORE_SLEEP))
        evening = over_days.ordered(block.channel(channel)[:, slice(*BEFORE_SLEEP)]).median()
        table[f"presleep_{name}_median"] = over_days.not_measured_last(evening)
    return table


def _clock_times(asleep: Bool[np.ndarray, "day minute"]) -> Table:
    """Minute of waking before noon, of falling asleep after 18 h, and the middle of the day's sleep."""
    first, last, any_sleep = _ends(asleep)
    _, woke, slept = _ends(asleep[:, :MORNING_ENDS])
    bed, _, went = _ends(asleep[:, EVENING_STARTS:])
    return {
        "wake": np.where(slept, woke + 1.0, np.nan),
        "bedtime": np.where(went, bed + float(EVENING_STARTS), np.nan),
        "sleep_midpoint": np.where(any_sleep, (first + last) / 2, np.nan),
    }


def _ends(flags: Bool[np.ndarray, "day minute"]):
    return (
        np.argmax(flags, axis=1),
        flags.shape[1] - 1 - np.argmax(flags[:, ::-1], axis=1),
        flags.any(axis=1),
    )


def features(days: OverDays, weekend: OverDays, weekday: OverDays) -> dict[str, float]:
    """Features by name, in no particular order."""
    found: dict[str, float] = {}
    for name in ("sleep_minutes", "inbed_minutes", "sleep_efficiency", "wake", "bedtime", "sleep_midpoint"):
        found |= days.two(name)
    for name in ("wake", "bedtime", "sleep_midpoint"):
        found[f"{name}_mad_proxy"] = MAD_OF_IQR * found[f"{name}_iqr"]
    for name in MOVING:
        found |= days.two(f"nighttime_{name}")
        found[f"presleep_{name}_p50"] = days.median(f"presleep_{name}")
        found[f"presleep_{name}_median_p50"] = days.median(f"presleep_{name}_median")
    for name in ("sleep_minutes", "bedtime", "wake"):
        found[f"{name}_weekend_p50"] = weekend.median(name)
        found[f"{name}_weekday_p50"] = weekday.median(name)
    found["sleep_weekend_weekday_ratio"] = over_days.ratio(
        found["sleep_minutes_weekend_p50"], found["sleep_minutes_weekday_p50"]
    )
    for name in ("bedtime", "wake"):
        found[f"{name}_weekend_shift"] = found[f"{name}_weekend_p50"] - found[f"{name}_weekday_p50"]
    found["social_jet_lag"] = abs(weekend.median("sleep_midpoint") - weekday.median("sleep_midpoint"))
    return found
