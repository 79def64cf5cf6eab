"""The daily descriptors by plain loops over days and minutes, written from their definitions: slow and obvious.

A daily value is None where it is absent and NaN where the channel was not measured, as in the table library of the
published features: None is left out of an order statistic, NaN ranks behind every number.
"""

from __future__ import annotations

import math

from wearjax.channels import INDEX

NAN = math.nan
WORKOUTS = (
    "walking",
    "cycling",
    "running",
    "other",
    "mixed_cardio",
    "strength",
    "elliptical",
    "hiit",
    "functional",
    "yoga",
)
Q = ("watch_steps", "watch_energy", "iphone_steps")


def ranked(values):
    known = [float(v) for v in values if v is not None]
    return sorted(v for v in known if v == v) + [NAN] * sum(v != v for v in known)


def quantile(values, q):
    order = ranked(values)
    return order[math.floor(q * (len(order) - 1) + 0.5)] if order else None


def median(values):
    order = ranked(values)
    if not order:
        return None
    return (order[(len(order) - 1) // 2] + order[len(order) // 2]) / 2


def iqr(values):
    low, high = quantile(values, 0.25), quantile(values, 0.75)
    return None if low is None else high - low


def divided(a, b):
    return None if a is None or b is None or b == 0 or b != b else a / b


def cleaned(raw):
    """Zero to missing for one day as lists; the sleep rule spares a day without sleep."""
    rows = [[float(v) for v in row] for row in raw]
    hr = INDEX["watch_hr"]
    rows[hr] = [v if v != 0 else NAN for v in rows[hr]]
    for name in ("iphone_steps", "iphone_distance", "watch_steps", "watch_distance", "watch_energy"):
        if not any(rows[INDEX[name]]):
            rows[INDEX[name]] = [NAN] * 1440
    for name in ("sleep_asleep", "sleep_inbed"):
        if 0 < sum(rows[INDEX[name]]) < 180:
            rows[INDEX[name]] = [v if v != 0 else NAN for v in rows[INDEX[name]]]
    return {name: rows[place] for name, place in INDEX.items()}


def day_row(raw, nonwear):
    day = cleaned(raw)
    zero_filled = {name: [0.0 if v != v else v for v in minutes] for name, minutes in day.items()}
    out = {
        name: sum(day[name])
        for name in (
            "iphone_steps",
            "iphone_distance",
            "iphone_flights",
            "watch_steps",
            "watch_distance",
            "watch_energy",
        )
    }
    bpm = [v * 60 if v > 0 else None for v in day["watch_hr"]]
    out |= {"p5": quantile(bpm, 0.05), "median": median(bpm), "p95": quantile(bpm, 0.95)}
    out["hr_max"] = max((b for b in bpm if b is not None), default=None)
    out["hr_day"] = median(bpm[360:1320])
    out["hr_night"] = median(bpm[1380:] + bpm[:360])
    for device in ("watch", "iphone"):
        steps = day[f"{device}_steps"]
        worn = steps[0] == steps[0]
        kinds = {
            "active": sum(s > 0 for s in steps),
            "sedentary": max(sum(s == 0 for s in steps) - float(nonwear), 0),
            "light": sum(0 < s < 40 for s in steps),
            "moderate": sum(40 <= s < 80 for s in steps),
            "vigorous": sum(s >= 80 for s in steps),
            "wake_sedentary": sum(s == 0 for s in steps[360:1320]),
        }
        for kind, count in kinds.items():
            out[f"{device}_{kind}_minutes"] = count if worn else None
        gait = None
        if out[f"{device}_steps"] >= 500:
            gait = out[f"{device}_distance"] / out[f"{device}_steps"]
            gait = gait if gait <= 1.5 else None
        out[f"{device}_gait"] = gait
    a, b = out["watch_steps"], out["iphone_steps"]
    out["sync"] = min(a, b) / max(a, b) if a == a and b == b else None
    minutes = {kind: sum(day[f"workout_{kind}"]) for kind in WORKOUTS}
    out["workouts"] = minutes
    out["workout_minutes"] = sum(minutes.values())
    flags = [any(day[f"workout_{kind}"][m] > 0 for kind in WORKOUTS) for m in range(1440)]
    out |= course(bpm, flags)
    active = sum(s > 0 for s in day["watch_steps"][360:1320])
    out["hros"] = None
    if active and out["hr_day"] is not None:
        out["hros"] = out["hr_day"] / (sum(day["watch_steps"][360:1320]) / active + 1)
    out["sleep_minutes"], out["inbed_minutes"] = sum(day["sleep_asleep"]), sum(day["sleep_inbed"])
    share = divided(out["sleep_minutes"], out["inbed_minutes"])
    out["sleep_efficiency"] = None if share is None or share != share else min(1, share)
    asleep = [m for m in range(1440) if day["sleep_asleep"][m] > 0]
    morning, evening = [m for m in asleep if m < 720], [m for m in asleep if m >= 1080]
    out["wake"] = 1 + morning[-1] if morning else None
    out["bedtime"] = evening[0] if evening else None
    out["sleep_midpoint"] = (asleep[0] + asleep[-1]) / 2 if asleep else None
    for name, channel in (
        ("watch_steps", "watch_steps"),
        ("iphone_steps", "iphone_steps"),
        ("energy", "watch_energy"),
    ):
        out[f"nighttime_{name}"] = sum(zero_filled[channel][:300])
        out[f"presleep_{name}"] = sum(day[channel][1200:1380])
        out[f"presleep_{name}_median"] = median(day[channel][1200:1380])
    for q in Q:
        hours = [sum(day[q][60 * h : 60 * h + 60]) for h in range(24)]
        out[f"hours_{q}"] = hours
        worn = hours[0] == hours[0]
        out[f"acrophase_{q}"] = hours.index(max(hours)) if worn else None
        mean = sum(hours) / 24
        around = sum((x - mean) ** 2 for x in hours)
        steps = sum((hours[h] - hours[h - 1]) ** 2 for h in range(1, 24))
        out[f"iv_{q}"] = 24 * steps / (23 * around) if worn else None
    return out


def course(bpm, flags):
    """Heart rate at a day's first and last workout minute, and after."""

    def near(minute):
        start = max(minute - 2, 0)
        return median(bpm[start : start + 5])

    def minus(a, b):
        return None if a is None or b is None else a - b

    out = dict.fromkeys(
        ("at_end", "rec1", "rec5", "rec10", "rec_ratio", "at_start", "act5", "act10", "act_ratio")
    )
    doing = [m for m in range(1440) if flags[m]]
    if doing:
        start, end = doing[0], doing[-1]
        out["at_end"], out["at_start"] = near(end), near(start)
        for k in (1, 5, 10):
            out[f"rec{k}"] = minus(near(end), near(end + k))
        for k in (5, 10):
            out[f"act{k}"] = minus(near(start + k), near(start))
        out["rec_ratio"] = divided(out["rec5"], out["at_end"])
        out["act_ratio"] = divided(out["act5"], out["at_start"])
    return out


def features(raw_days, nonwear, weekend):
    """All descriptors by name."""
    rows = [day_row(raw, off) for raw, off in zip(raw_days, nonwear, strict=True)]

    def of(name, only=None):
        return [row[name] for row, free in zip(rows, weekend, strict=True) if only is None or free == only]

    f = {}
    for name in (
        "iphone_steps",
        "iphone_distance",
        "iphone_flights",
        "watch_steps",
        "watch_distance",
        "watch_energy",
    ):
        f[f"{name}_p5"], f[f"{name}_p95"] = quantile(of(name), 0.05), quantile(of(name), 0.95)
        f[f"{name}_p50"], f[f"{name}_iqr"] = median(of(name)), iqr(of(name))
    for name in ("p5", "median", "p95"):
        f[f"watch_hr_{name}_p50"] = median(of(name))
    f["watch_hr_iqr"] = iqr(of("median"))
    for device in ("watch", "iphone"):
        for kind in ("active", "sedentary", "light", "moderate", "vigorous", "wake_sedentary"):
            name = f"{device}_{kind}_minutes"
            f[f"{name}_p50"], f[f"{name}_iqr"] = median(of(name)), iqr(of(name))
        f[f"{device}_gait_efficiency_p50"] = median(of(f"{device}_gait"))
    f["hr_daytime_p50"], f["hr_nighttime_p50"] = median(of("hr_day")), median(of("hr_night"))
    f["hr_p95_p50"] = median(of("p95"))
    f["hr_daytime_nighttime_ratio"] = divided(f["hr_daytime_p50"], f["hr_nighttime_p50"])
    f["hr_peak_rest_ratio"] = divided(f["hr_p95_p50"], f["hr_nighttime_p50"])
    f["workout_minutes_p50"], f["workout_minutes_iqr"] = (
        median(of("workout_minutes")),
        iqr(of("workout_minutes")),
    )
    kinds = [sum(v > 0 for v in done.values()) for done in of("workouts")]
    f["workout_density"] = sum(k > 0 for k in kinds) / len(kinds)
    f["workout_specialization_p50"] = median([k for k in kinds if k])
    total = {kind: sum(done[kind] for done in of("workouts")) for kind in WORKOUTS}
    cardio = sum(total[k] for k in ("walking", "running", "cycling", "elliptical", "hiit", "mixed_cardio"))
    f["cardio_strength_ratio"] = divided(cardio, cardio + total["strength"] + total["functional"])
    for kind in WORKOUTS:
        f[f"workout_freq_{kind}"] = sum(done[kind] > 0 for done in of("workouts")) / len(rows)
    f["step_sync_ratio_p50"] = median(of("sync"))
    f["hr_max_p50"], f["hr_max_p95"] = median(of("hr_max")), quantile(of("hr_max"), 0.95)
    hard = [b >= 120 for b in of("hr_max") if b is not None]
    f["pct_days_hr_80pct_achieved"] = divided(sum(hard), len(hard))
    named = {
        "at_end": "hr_at_workout_end",
        "rec1": "hr_recovery_1min",
        "rec5": "hr_recovery_5min",
        "rec10": "hr_recovery_10min",
        "rec_ratio": "hr_recovery_ratio",
        "at_start": "hr_at_workout_start",
        "act5": "hr_activation_5min",
        "act10": "hr_activation_10min",
        "act_ratio": "hr_activation_ratio",
    }
    for name, feature in named.items():
        f[f"{feature}_p50"] = median(of(name))
    f["hr_recovery_5min_iqr"] = iqr(of("rec5"))
    f["hros_p50"], f["hros_iqr"] = median(of("hros")), iqr(of("hros"))
    for name in ("p5", "median"):
        pairs = [
            (a, b) for a, b in zip(of(name), of(name)[1:], strict=False) if a is not None and b is not None
        ]
        f[f"rhr_{name}_rmssd"] = (
            math.sqrt(sum((b - a) ** 2 for a, b in pairs) / len(pairs)) if pairs else None
        )
    for name in ("sleep_minutes", "inbed_minutes", "sleep_efficiency", "wake", "bedtime", "sleep_midpoint"):
        f[f"{name}_p50"], f[f"{name}_iqr"] = median(of(name)), iqr(of(name))
    for name in ("wake", "bedtime", "sleep_midpoint"):
        f[f"{name}_mad_proxy"] = None if f[f"{name}_iqr"] is None else 0.7413 * f[f"{name}_iqr"]
    for name in ("watch_steps", "iphone_steps", "energy"):
        f[f"nighttime_{name}_p50"] = median(of(f"nighttime_{name}"))
        f[f"nighttime_{name}_iqr"] = iqr(of(f"nighttime_{name}"))
        f[f"presleep_{name}_p50"] = median(of(f"presleep_{name}"))
        f[f"presleep_{name}_median_p50"] = median(of(f"presleep_{name}_median"))
    for name in ("sleep_minutes", "bedtime", "wake"):
        f[f"{name}_weekend_p50"], f[f"{name}_weekday_p50"] = median(of(name, True)), median(of(name, False))
    f["sleep_weekend_weekday_ratio"] = divided(f["sleep_minutes_weekend_p50"], f["sleep_minutes_weekday_p50"])

    def shift(name):
        a, b = median(of(name, True)), median(of(name, False))
        return None if a is None or b is None else a - b

    f["bedtime_weekend_shift"], f["wake_weekend_shift"] = shift("bedtime"), shift("wake")
    f["social_jet_lag"] = None if shift("sleep_midpoint") is None else abs(shift("sleep_midpoint"))
    for q in Q:
        parts = {"morning": (6, 12), "afternoon": (12, 18), "evening": (18, 24), "night": (0, 6)}
        p = {name: median([sum(h[a:b]) for h in of(f"hours_{q}")]) for name, (a, b) in parts.items()}
        f |= {f"{q}_{name}_p50": value for name, value in p.items()}
        f[f"chronotype_morning_ratio_{q}"] = divided(p["morning"], p["morning"] + p["evening"])
        f[f"activity_day_night_ratio_{q}"] = divided(p["morning"] + p["afternoon"] + p["evening"], p["night"])
        f[f"acrophase_{q}_p50"] = median(of(f"acrophase_{q}"))
        f[f"acrophase_{q}_spread"] = (
            None if f[f"acrophase_{q}_p50"] is None else iqr(of(f"acrophase_{q}")) / 2
        )
        f[f"social_jetlag_{q}"] = None if shift(f"acrophase_{q}") is None else abs(shift(f"acrophase_{q}"))
        f[f"iv_{q}_p50"] = median(of(f"iv_{q}"))
        f |= rhythm(q, of(f"hours_{q}"))
    return f


def rhythm(q, days):
    """Interdaily stability, L5 and M10; a missing hour of any day spoils them."""
    n = len(days)
    profile = [sum(day[h] for day in days) / n for h in range(24)]
    mean = sum(profile) / 24
    out = {
        f"is_{q}": divided(
            n * sum((x - mean) ** 2 for x in profile), sum((x - mean) ** 2 for day in days for x in day)
        )
    }
    names = (f"l5_{q}", f"l5_onset_{q}", f"m10_{q}", f"m10_onset_{q}", f"ra_{q}")
    if mean != mean:
        return out | dict.fromkeys(names)
    spans = {n: [sum(profile[(h + k) % 24] for k in range(n)) / n for h in range(24)] for n in (5, 10)}
    low, high = min(spans[5]), max(spans[10])
    values = (low, spans[5].index(low), high, spans[10].index(high), divided(high - low, high + low))
    return out | dict(zip(names, values, strict=True))
