"""The 177 daily descriptors of a participant (OpenMHC prediction track, XGBoost: daily behaviour).

Each day gives a row of values, a block of days at a time; the descriptors are medians, quantiles and fractions
over days. A few conventions of the published features are kept on purpose: see `over_days`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from wearjax.predict.features import circadian, daily_activity, daily_heart, daily_sleep, over_days
from wearjax.predict.features.circadian import SIGNALS
from wearjax.predict.features.day_block import DayBlock
from wearjax.predict.features.over_days import OverDays


@dataclass(frozen=True, eq=False)
class DailyTable:
    """What the days of a participant are, in order of date.

    Attributes:
        columns: values by name; NaN is absent, plus infinity not measured.
        hours: hourly sums of the signals of `circadian`.
        weekend: Saturdays and Sundays.
    """

    columns: dict[str, Float64[np.ndarray, "day"]]
    hours: dict[str, Float64[np.ndarray, "day hour=24"]]
    weekend: Bool[np.ndarray, "day"]


def of_block(block: DayBlock) -> DailyTable:
    """The rows of some days."""
    columns, hours = circadian.daily(block)
    for subject in (daily_activity, daily_heart, daily_sleep):
        columns |= subject.daily(block)
    return DailyTable(columns, hours, block.weekend)


def joined(parts: Sequence[DailyTable]) -> DailyTable:
    """Consecutive blocks as one table."""
    if len(parts) == 1:
        return parts[0]
    return DailyTable(
        {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns},
        {name: np.concatenate([part.hours[name] for part in parts]) for name in parts[0].hours},
        np.concatenate([part.weekend for part in parts]),
    )


def features(table: DailyTable) -> Float64[np.ndarray, "177"]:
    """The descriptors in the order of `NAMES`; NaN where they are not defined."""
    days = OverDays(table.columns)
    split = {name: table.columns[name] for name in _SPLIT_BY_WEEKEND}
    weekend, weekday = OverDays(split, table.weekend), OverDays(split, ~table.weekend)
    found = daily_activity.features(days) | daily_heart.features(days)
    found |= daily_sleep.features(days, weekend, weekday)
    found |= circadian.features(days, weekend, weekday, table.hours)
    return over_days.finite(np.array([found[name] for name in NAMES], np.float64))


_SPLIT_BY_WEEKEND = (
    "sleep_minutes", "bedtime", "wake", "sleep_midpoint", *(f"acrophase_{signal}" for signal in SIGNALS),
)  # fmt: skip


def _each(names: Sequence[str], suffixes: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{name}_{suffix}" for name in names for suffix in suffixes)


_P50_IQR = ("p50", "iqr")
_MOVING = tuple(daily_sleep.MOVING)

NAMES: tuple[str, ...] = (
    *_each(daily_activity.SUMMED, ("p5", "p50", "p95", "iqr")),
    "watch_hr_p5_p50", "watch_hr_median_p50", "watch_hr_p95_p50", "watch_hr_iqr",
    *_each(("watch_active_minutes", "iphone_active_minutes"), _P50_IQR),
    "watch_gait_efficiency_p50", "iphone_gait_efficiency_p50",
    "hr_daytime_p50", "hr_nighttime_p50", "hr_p95_p50", "hr_daytime_nighttime_ratio", "hr_peak_rest_ratio",
    *(
        f"{device}_{level}_minutes_{of}"
        for device in daily_activity.DEVICES for level in daily_activity.LEVELS for of in _P50_IQR
    ),
    "workout_minutes_p50", "workout_minutes_iqr", "workout_density", "workout_specialization_p50",
    "cardio_strength_ratio",
    *(f"workout_freq_{kind}" for kind in daily_activity.WORKOUT_TYPES),
    "step_sync_ratio_p50",
    "hr_max_p50", "hr_max_p95", "pct_days_hr_80pct_achieved",
    *_each(("watch_wake_sedentary_minutes", "iphone_wake_sedentary_minutes"), _P50_IQR),
    "hr_at_workout_end_p50", "hr_recovery_1min_p50", "hr_recovery_5min_p50", "hr_recovery_10min_p50",
    "hr_recovery_ratio_p50", "hr_recovery_5min_iqr",
    "hr_at_workout_start_p50", "hr_activation_5min_p50", "hr_activation_10min_p50", "hr_activation_ratio_p50",
    "hros_p50", "hros_iqr",
    "rhr_p5_rmssd", "rhr_median_rmssd",
    *_each(("sleep_minutes", "inbed_minutes", "sleep_efficiency"), _P50_IQR),
    *_each(("wake", "bedtime", "sleep_midpoint"), (*_P50_IQR, "mad_proxy")),
    *_each([f"nighttime_{name}" for name in _MOVING], _P50_IQR),
    *(f"presleep_{name}_p50" for name in _MOVING),
    *(f"presleep_{name}_median_p50" for name in _MOVING),
    "sleep_minutes_weekend_p50", "sleep_minutes_weekday_p50", "sleep_weekend_weekday_ratio",
    "bedtime_weekend_p50", "bedtime_weekday_p50", "bedtime_weekend_shift",
    "wake_weekend_p50", "wake_weekday_p50", "wake_weekend_shift",
    "social_jet_lag",
    *(
        name
        for signal in SIGNALS
        for name in (
            *(f"{signal}_{part}_p50" for part in circadian.PARTS),
            f"chronotype_morning_ratio_{signal}", f"activity_day_night_ratio_{signal}",
        )
    ),
    *(
        name
        for signal in SIGNALS
        for name in (f"acrophase_{signal}_p50", f"acrophase_{signal}_spread", f"social_jetlag_{signal}")
    ),
    *(f"is_{signal}" for signal in SIGNALS),
    *(f"iv_{signal}_p50" for signal in SIGNALS),
    *(
        f"{measure}_{signal}"
        for signal in SIGNALS for measure in ("l5", "l5_onset", "m10", "m10_onset", "ra")
    ),
)  # fmt: skip
