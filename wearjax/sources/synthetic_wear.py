"""What devices catch of a synthetic body: carrying, charging, sparse heart rate, sleep and workout logs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32

from wearjax.channels import HEART_RATE, MINUTES_PER_DAY, N_CHANNELS, SLEEP, WORKOUTS
from wearjax.sources import synthetic_physiology as physiology
from wearjax.sources.synthetic_physiology import Body, Traits

PHONE = (0, 1, 2)
WATCH_COUNTS = (3, 4, 6)


@dataclass(frozen=True)
class Habits:
    """How a participant uses devices.

    Attributes:
        has_phone, has_watch: at least one is true.
        carries: share of waking time with the phone on the body. counts_flights: the phone has a barometer.
        watch_at_night: sleeps with the watch on and charges it in the evening instead.
        phone_absent, watch_absent: chance that a device records nothing on a day.
        sleep_source: `none`, `both`, `inbed` or `asleep`: the sleep channels that are ever written.
        tracks_night: chance that a night is tracked.
        logs_session: chance that a workout is logged; 0 for those who never do.
    """

    has_phone: bool
    has_watch: bool
    carries: float
    counts_flights: bool
    watch_at_night: bool
    phone_absent: float
    watch_absent: float
    sleep_source: str
    tracks_night: float
    logs_session: float


@dataclass(frozen=True)
class Recording:
    """Sensor courses of consecutive days, before the cleaning rules of the store.

    Attributes:
        truth: what each channel would hold had every device been on the body and recording.
        recorded: where a channel was really recorded; there `values` equals `truth`.
        values: what was written: truth where recorded; else 0 (counts of a device in use, sleep, workouts)
            or NaN.
        nonwear_minutes: minutes a day off the wrist; on days without a watch, awake and away from the phone.
    """

    truth: Float32[np.ndarray, "day channel=19 minute=1440"]
    recorded: Bool[np.ndarray, "day channel=19 minute=1440"]
    values: Float32[np.ndarray, "day channel=19 minute=1440"]
    nonwear_minutes: Float32[np.ndarray, " day"]


def draw_habits(rng: np.random.Generator, *, devices: str, sleep_source: str, logs_workouts: bool) -> Habits:
    """Draws the habits of an owner of `both` devices or only `phone` or `watch`."""
    has_watch = devices != "phone"
    night_chance = 0.65 if sleep_source != "none" else 0.2
    return Habits(
        has_phone=devices != "watch",
        has_watch=has_watch,
        carries=float(rng.beta(6, 2.2)),
        counts_flights=bool(rng.random() < 0.6),
        watch_at_night=bool(has_watch and rng.random() < night_chance),
        phone_absent=float(rng.beta(1, 40)),
        watch_absent=float(rng.beta(1, 12)),
        sleep_source=sleep_source,
        tracks_night=float(rng.beta(8, 2)),
        logs_session=float(rng.beta(6, 2)) if logs_workouts else 0.0,
    )


def record(rng: np.random.Generator, traits: Traits, habits: Habits, body: Body) -> Recording:
    """Passes a body through its devices."""
    days = len(body.steps) // MINUTES_PER_DAY
    logged = rng.random(len(body.session_type) + 1) < habits.logs_session
    truth = _truth(rng, body)
    phone_day = habits.has_phone & (rng.random(days) >= habits.phone_absent)
    watch_day = habits.has_watch & (rng.random(days) >= habits.watch_absent)
    neither = ~phone_day & ~watch_day  # a day without any device would not exist
    phone_day |= neither & habits.has_phone
    watch_day |= neither & (not habits.has_phone)
    carried = _carried(rng, habits, body, days) & _minutes(phone_day)
    worn = _worn(rng, habits, body, days) & _minutes(watch_day)

    recorded = np.zeros((N_CHANNELS, len(body.steps)), bool)
    recorded[list(PHONE)] = carried
    recorded[2] &= habits.counts_flights
    recorded[list(WATCH_COUNTS)] = worn
    recorded[HEART_RATE] = worn & (_workout_samples(rng, body, logged) | _background_samples(rng, body))
    tracked, sleep_day = _tracked(rng, habits, body, days)
    recorded[list(SLEEP)] = tracked
    recorded[list(WORKOUTS)] = (body.session < 0) | logged[body.session]

    using = np.zeros((N_CHANNELS, days), bool)
    using[list(PHONE)] = phone_day
    using[list(WATCH_COUNTS)] = watch_day
    using[list(SLEEP)] = sleep_day
    using[list(WORKOUTS)] = True
    silence = np.where(using, 0, np.nan).astype(np.float32)
    values = np.where(recorded, truth, np.repeat(silence, MINUTES_PER_DAY, axis=1))
    off = np.where(_minutes(watch_day), ~worn, ~carried & ~body.inbed)
    return Recording(
        _by_day(truth),
        _by_day(recorded),
        _by_day(values),
        off.reshape(days, -1).sum(axis=1).astype(np.float32),
    )


def _by_day(channels_time):
    return np.ascontiguousarray(channels_time.reshape(N_CHANNELS, -1, MINUTES_PER_DAY).swapaxes(0, 1))


def _minutes(per_day):
    return np.repeat(per_day, MINUTES_PER_DAY)


def _truth(rng, body):
    time = len(body.steps)
    truth = np.zeros((N_CHANNELS, time), np.float32)
    for steps_at, distance_at, jitter in ((0, 1, 0.10), (3, 4, 0.07)):
        steps = body.steps * np.exp(jitter * rng.standard_normal(time))
        truth[steps_at] = steps
        truth[distance_at] = steps * body.stride_m * np.exp(0.06 * rng.standard_normal(time))
    truth[2] = body.flights
    truth[HEART_RATE] = body.heart_rate
    truth[6] = body.energy
    truth[7], truth[8] = body.asleep, body.inbed
    doing = np.flatnonzero(body.session >= 0)
    truth[WORKOUTS[0] + body.session_type[body.session[doing]], doing] = 1
    return truth


def _carried(rng, habits, body, days):
    """The phone changes between body and table every hour or so; outings and workouts decide anew."""
    time = len(body.steps)
    level = np.log(habits.carries / (1 - habits.carries)) * 0.62  # normal quantile, nearly
    carried = physiology.wander(rng, time, 45.0) < level
    n = len(body.session_type) + 1
    with_phone = rng.random(n) < np.append(
        np.array([0.85, 0.6, 0.6, 0.5, 0.2, 0.2, 0.3, 0.2, 0.2, 0.1])[body.session_type], 0
    )
    carried = np.where(body.session >= 0, with_phone[body.session], carried)
    nights = len(body.bedtime)
    early = rng.exponential(12, nights) * (rng.random(nights) < 0.7)
    put_away = physiology.spans(body.bedtime - early, body.bedtime, time)
    forgotten = rng.random(days) < 0.016
    return carried & ~body.asleep & ~put_away & ~_minutes(forgotten)


def _worn(rng, habits, body, days):
    time = len(body.steps)
    bedtime, rise = body.bedtime, body.rise
    nights = len(bedtime)
    off_at_night = rng.random(nights) < (0.08 if habits.watch_at_night else 0.95)
    before, after = rng.exponential(25, nights), rng.exponential(35, nights)
    off = physiology.spans((bedtime - before)[off_at_night], (rise + after)[off_at_night], time)
    evening = rng.random(nights) < 0.8 * ~off_at_night
    start = np.where(
        rng.random(nights) < 0.7, bedtime - rng.uniform(70, 200, nights), rise + rng.uniform(0, 40, nights)
    )
    off |= physiology.spans(start[evening], (start + rng.uniform(50, 120, nights))[evening], time)
    wet = np.flatnonzero(rng.random(days) < 0.5) * MINUTES_PER_DAY
    wet = wet + rng.uniform(6.5 * 60, 22 * 60, len(wet))
    off |= physiology.spans(wet, wet + rng.uniform(8, 40, len(wet)), time)
    short = np.flatnonzero(rng.random(days) < 0.05) * MINUTES_PER_DAY
    cut = rng.uniform(9 * 60, 17 * 60, len(short))
    off |= physiology.spans(short + cut, short + MINUTES_PER_DAY, time)
    return ~off


def _workout_samples(rng, body, logged):
    """Every minute of a logged workout and of the three after it, once the sensor has found the pulse."""
    dense = (body.session >= 0) & logged[body.session]
    starts = np.flatnonzero(np.diff(dense, prepend=False) & dense)
    for _ in range(3):
        dense[1:] |= dense[:-1]
    dense &= ~physiology.spans(starts, starts + rng.exponential(4.0, len(starts)), len(dense))
    return dense & (physiology.wander(rng, len(dense), 3.0) < 1.5)


def _background_samples(rng, body):
    """At rest about every five minutes, with longer gaps; strong movement spoils some readings."""
    time = len(body.steps)
    n = time // 4 + 16
    gap = np.where(rng.random(n) < 0.12, rng.integers(8, 26, n), rng.choice([3, 4, 5, 5, 6], n))
    at = np.cumsum(gap)
    at = at[at < time]
    sampled = np.zeros(time, bool)
    sampled[at] = True
    return sampled & ~((body.steps > 50) & (rng.random(time) < 0.3))


def _tracked(rng, habits, body, days):
    """Minutes and days on which each sleep channel was written."""
    time = len(body.steps)
    kept = rng.random(len(body.bedtime)) < habits.tracks_night
    night = physiology.spans(body.bedtime[kept] - 1, body.rise[kept] + 1, time)
    writes = np.array([habits.sleep_source in ("both", "asleep"), habits.sleep_source in ("both", "inbed")])
    tracked = writes[:, None] & night
    sleep_day = (tracked & np.stack([body.asleep, body.inbed])).reshape(2, days, -1).any(axis=2)
    return tracked, sleep_day
