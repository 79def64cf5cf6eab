"""A cohort of invented people for WearableQA: deterministic daily records with planted, known relations.

Each person follows from `(seed, index)` alone. Noise in standard units with a memory; single metrics that ramp, jump,
spike or fall ill and recover; couplings of random sign, strength and delay, some of which turn by the fortnight; phases
of life; eight-week cycles in which one metric announces another; spells such as illness or travel; gaps of the device;
levels, profile and blood panel that hang together. All of it stands in the person's plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from wearjax.daily_metrics import INDEX, METRICS, N_METRICS
from wearjax.errors import ConfigError
from wearjax.sources import synthetic_daily_people as who
from wearjax.sources import synthetic_daily_plans as plans
from wearjax.sources.daily_record import DailyRecord
from wearjax.sources.synthetic_daily_people import Traits
from wearjax.sources.synthetic_daily_plans import FORTNIGHT, Plan

LAST_DAY = 19_813  # 2024-03-31, a Sunday; records end within the week up to it
LEAD = 3  # days before the record, so that delayed couplings hold from its first day
_STREAMS = ("person", "plan", "noise", "courses", "gaps")
_MEMORY = {"vo2_max": 0.5, "calories_bmr": 0.6, "rhr": 0.15}  # of a day for the day before; others 0.05
_MAKES_UP = -0.6
_DIGITS = {"steps": 0, "calories_bmr": 1, "active_burn": 1, "exercise_count": 0}  # others 2
_FLOOR = 0.06  # of a level: no metric falls below
_CEILING = {
    "sleep_efficiency": 99.9,
    "deep_percentage": 60.0,
    "rem_percentage": 60.0,
    "avg_stress_level": 99.0,
}
_RARELY = {
    "avg_stress_level": 0.06,
    "vo2_max": 0.06,
    "hrv": 0.05,
    "deep_percentage": 0.08,
    "bed_time_std": 0.05,
}
_SESSION_METRICS = ("exercise_hours", "exercise_mets", "exercise_avg_hr")


@dataclass(frozen=True, eq=False)
class Person:
    """One invented person.

    Attributes:
        record: what the device wrote.
        complete: every day of every metric, without gaps; NaN for sessions on days without one.
        traits, plan: what lies behind it.
    """

    record: DailyRecord
    complete: Float64[np.ndarray, "day metric=16"]
    traits: Traits
    plan: Plan


def user_id(index: int) -> str:
    return f"synthetic-{index:06d}"


def people(n: int, days: int = 500, seed: int = 0, *, coupled: bool = True) -> Iterator[DailyRecord]:
    """Yields the records of a cohort; the first people of a larger one are the same.

    Args:
        days: calendar days of each record, 28 at least.
        coupled: without, metrics move on their own and every relation found is a chance find.

    Raises:
        ConfigError: an impossible size or seed.
    """
    if n < 1:
        raise ConfigError(f"a synthetic cohort needs at least 1 person, got {n}")
    _check(days, seed)
    return (simulate(i, days, seed, coupled=coupled).record for i in range(n))


def simulate(index: int, days: int = 500, seed: int = 0, *, coupled: bool = True) -> Person:
    """Makes one person of a cohort. Raises ConfigError on an impossible size, seed or index."""
    _check(days, seed)
    if index < 0:
        raise ConfigError(f"person index must not be negative, got {index}")
    spawned = np.random.SeedSequence(seed, spawn_key=(2, index)).spawn(len(_STREAMS))
    rng = {name: np.random.default_rng(part) for name, part in zip(_STREAMS, spawned, strict=True)}
    traits = who.draw_traits(rng["person"])
    usual = who.levels(rng["person"], traits)
    end = LAST_DAY - int(rng["person"].integers(0, 7))
    share = who.exercise_share(rng["person"], traits)
    panel = who.blood(rng["person"], traits, end)
    plan = plans.draw_plan(rng["plan"], days, lacking=who.lacking(traits), coupled=coupled)
    dates = np.arange(end - days + 1, end + 1)
    z = _standard(rng, plan, dates)
    complete = _values(z, usual, who.spreads(usual))
    _sessions(rng["noise"], complete, z, share, plan)
    values = np.where(_recorded(rng["gaps"], plan, days), complete, np.nan)
    kept = np.isfinite(values).any(axis=1)
    record = DailyRecord(user_id(index), dates[kept], values[kept], traits.demographics, panel)
    return Person(record, complete, traits, plan)


def _check(days: int, seed: int) -> None:
    if days < 2 * FORTNIGHT:
        raise ConfigError(f"a synthetic record needs at least {2 * FORTNIGHT} days, got {days}")
    if seed < 0:
        raise ConfigError(f"seed must not be negative, got {seed}")


def _standard(
    rng: dict[str, np.random.Generator], plan: Plan, dates: np.ndarray
) -> Float64[np.ndarray, "day metric=16"]:
    """All metrics in standard units: noise and habits, then what follows another metric, then spells."""
    n = len(dates)
    own = _noise(rng["noise"], n + LEAD, plan)
    level = np.zeros((n + LEAD, N_METRICS))
    for key in plans.FREE:
        course = plans.draw_course(rng["courses"], key, plan.habits[key], n)
        i = INDEX[key]
        if plan.habits[key] == "spiky":  # no day but the spikes may come near a line
            own[:, i] = np.tanh(1.3 * own[:, i])
        level[LEAD:, i] = course.level
        own[LEAD:, i] *= course.calm
    fortnight = np.clip((n + LEAD - 1 - np.arange(n + LEAD)) // FORTNIGHT, 0, len(plan.offsets) - 1)
    weekend = np.where((np.arange(dates[0] - LEAD, dates[-1] + 1) + 3) % 7 >= 5, 5, -2) / np.sqrt(10)
    level += plan.offsets[fortnight] + weekend[:, None] * plan.weekly
    z = own + level
    for target in dict.fromkeys(c.target for c in plan.couplings):
        z[:, INDEX[target]] = _following(own, z, level, plan, target, fortnight)
    z[:, INDEX["active_burn"]] = _mixed(
        z[:, INDEX["steps"]], own[:, INDEX["active_burn"]], plan.energy_follows
    )
    z = z[LEAD:]
    _spells(z, own[LEAD:], plan.offsets[fortnight[LEAD:]], plan)
    return z


def _noise(rng: np.random.Generator, n: int, plan: Plan) -> Float64[np.ndarray, "day metric=16"]:
    """Standard noise of each metric, with its memory of the day before.

    What follows in a cycle makes up today for yesterday, so that its level over a fortnight is well defined.
    """
    memory = np.array([_MEMORY.get(metric.key, 0.05) for metric in METRICS])
    if plan.cycle is not None:
        memory[INDEX[plan.cycle[1]]] = _MAKES_UP
    fresh = rng.standard_normal((n, N_METRICS))
    fresh[1:] *= np.sqrt(1 - memory**2)
    for t in range(1, n):
        fresh[t] += memory * fresh[t - 1]
    return fresh


def _following(
    own: np.ndarray, z: np.ndarray, level: np.ndarray, plan: Plan, target: str, fortnight: np.ndarray
) -> Float64[np.ndarray, " day"]:
    """A metric made of its sources, each as strong as the fortnight's correlation, and of its own rest."""
    explained, total = np.zeros(len(z)), np.zeros(len(z))
    for coupling in plan.couplings:
        if coupling.target == target:
            strength = coupling.strength[fortnight]
            source = np.roll(z[:, INDEX[coupling.source]], coupling.lag)  # the first days are cut off later
            total += strength * source
            explained += strength**2
    i = INDEX[target]
    return total + np.sqrt(np.maximum(1 - explained, 0)) * own[:, i] + level[:, i]


def _mixed(a: np.ndarray, b: np.ndarray, correlation: float) -> np.ndarray:
    return correlation * a + np.sqrt(1 - correlation**2) * b


def _spells(z: np.ndarray, own: np.ndarray, level: np.ndarray, plan: Plan) -> None:
    """Writes each spell over the signature metrics: its size above their level, little noise, and a way back."""
    for spell in plan.spells:
        effect = plans.SPELLS[spell.kind]
        if not effect:
            continue
        over = spell.first + spell.days
        back = 1 - np.arange(1, spell.back + 1) / (spell.back + 1)
        for key in (*plans.SIGNATURE, "exercise", "bed_time_std"):
            i = INDEX["exercise_hours" if key == "exercise" else key]
            size = effect.get(key, 0.0) * spell.size
            z[spell.first : over, i] = size + level[spell.first : over, i] + 0.25 * own[spell.first : over, i]
            if size:
                after = z[over : over + spell.back, i]
                after += size * 0.6 * back[: len(after)]


def _values(
    z: Float64[np.ndarray, "day metric=16"], usual: np.ndarray, spread: np.ndarray
) -> Float64[np.ndarray, "day metric=16"]:
    out = np.maximum(usual + spread * z, _FLOOR * usual)
    for key, most in _CEILING.items():
        out[:, INDEX[key]] = np.minimum(out[:, INDEX[key]], most)
    for key, i in INDEX.items():
        out[:, i] = np.round(out[:, i], _DIGITS.get(key, 2))
    return out


def _sessions(rng: np.random.Generator, values: np.ndarray, z: np.ndarray, share: float, plan: Plan) -> None:
    """Days with exercise; on the others a count of 0, and nothing to measure of a session."""
    n = len(values)
    chance = np.full(n, share)
    for spell in plan.spells:
        push = plans.SPELLS[spell.kind].get("exercise", 0.0)
        if push:
            chance[spell.first : spell.first + spell.days] = 0.97 if push > 0 else 0.1
    there = rng.random(n) < chance
    count = 1 + rng.poisson(np.clip(0.4 + 0.35 * z[:, INDEX["exercise_hours"]], 0.02, 3))
    values[:, INDEX["exercise_count"]] = np.where(there, count, 0)
    for key in _SESSION_METRICS:
        values[~there, INDEX[key]] = np.nan


def _recorded(rng: np.random.Generator, plan: Plan, days: int) -> Bool[np.ndarray, "day metric=16"]:
    """Where the device wrote: without its gaps, single missing values, metrics it lacks, and artefact spells."""
    lacks = np.array([rng.random() < _RARELY.get(m.key, 0.0) for m in METRICS])
    missing = np.where([m.dense for m in METRICS], rng.uniform(0.0, 0.03), rng.uniform(0.0, 0.05))
    there = (rng.random((days, N_METRICS)) >= missing) & ~lacks
    at = int(rng.exponential(90))
    while at < days:
        length = 1 + int(rng.geometric(0.45)) if rng.random() < 0.93 else int(rng.integers(14, 35))
        there[at : at + length] = False
        at += length + 7 + int(rng.exponential(90))
    for spell in plan.spells:
        if spell.kind == "gap":
            there[spell.first : spell.first + spell.days, [INDEX[key] for key in plans.GAP_METRICS]] = False
    there[-1] = ~lacks  # the last day is the clock of the regimes
    return there
