"""The body behind a synthetic participant: lasting traits, then sleep, movement, energy and heart rate.

Everything here is invented from textbook magnitudes (cadence, stride, metabolic equivalents, heart rate
reserve); no recording of a person was used. Time is one row of minutes from the first midnight to the last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from wearjax.channels import MINUTES_PER_DAY, WORKOUTS

REFERENCE_YEAR = 2020
# Per workout type, in the order of the channel table: chance of doing it beside the favourite, metabolic
# equivalents, steps a minute that wrist and pocket feel, and median minutes of a session.
_SESSION_LIKED = np.array([0.60, 0.22, 0.15, 0.15, 0.02, 0.12, 0.11, 0.06, 0.10, 0.10])
_SESSION_MET = np.array([3.3, 6.5, 9.8, 3.3, 5.0, 3.2, 5.2, 6.8, 3.6, 2.2])  # at a capacity of 10.5
_SESSION_CADENCE = np.array([112.0, 0.0, 160.0, 35.0, 40.0, 8.0, 70.0, 45.0, 15.0, 1.0])
_SESSION_MINUTES = np.array([34.0, 40.0, 33.0, 38.0, 40.0, 42.0, 30.0, 25.0, 36.0, 42.0])
RUNNING = 2
SETS_AND_RESTS = (4, 5, 7, 8)  # mixed cardio, strength, intervals, functional


@dataclass(frozen=True)
class Traits:
    """What stays with a participant: the causes from which days follow, and labels may be planted.

    Attributes:
        birth_year, sex: demographics (`"male"` or `"female"`).
        height_m, bmi, weight_kg: build; weight follows from the other two.
        fitness, activity, mood, sleep_quality: latent scores near N(0, 1); larger is better.
        chronotype_hours: shift of the whole day against the average; positive is an evening type.
        sleep_need_hours: sleep of a night without an alarm.
        employed: rises by alarm on weekdays and commutes.
        resting_hr, max_hr: beats per minute.
        capacity_met: energy turnover at maximum effort in metabolic equivalents.
        cadence, stride_m: usual walking steps per minute and metres per step.
        stairs: how often flights are climbed, relative to the median participant.
        sessions_per_week: workouts done, logged or not.
        session_shares: preference over the ten workout types; sums to 1.
        session_hour: usual clock hour of a workout.
    """

    birth_year: int
    sex: str
    height_m: float
    bmi: float
    weight_kg: float
    fitness: float
    activity: float
    mood: float
    sleep_quality: float
    chronotype_hours: float
    sleep_need_hours: float
    employed: bool
    resting_hr: float
    max_hr: float
    capacity_met: float
    cadence: float
    stride_m: float
    stairs: float
    sessions_per_week: float
    session_shares: tuple[float, ...]
    session_hour: float

    @property
    def age(self) -> int:
        return REFERENCE_YEAR - self.birth_year


@dataclass(frozen=True)
class Body:
    """Minute courses over the whole span of a participant; `time` = 1440 x days.

    Attributes:
        steps: steps per minute. stride_m: metres per step in that minute. flights: climbed per minute.
        energy: active energy above rest, cal/min. heart_rate: beats/s.
        asleep, inbed: sleep state; a nap counts as both.
        session: number of the workout going on, -1 outside. session_type: type of each workout, 0..9.
        bedtime, rise: minute at which each night's time in bed starts and ends; night k ends on day k.
    """

    steps: Float[np.ndarray, " time"]
    stride_m: Float[np.ndarray, " time"]
    flights: Float[np.ndarray, " time"]
    energy: Float[np.ndarray, " time"]
    heart_rate: Float[np.ndarray, " time"]
    asleep: Bool[np.ndarray, " time"]
    inbed: Bool[np.ndarray, " time"]
    session: Int[np.ndarray, " time"]
    session_type: Int[np.ndarray, " sessions"]
    bedtime: Float[np.ndarray, " nights"]
    rise: Float[np.ndarray, " nights"]


def draw_traits(rng: np.random.Generator, *, favourite: int, sporty: bool) -> Traits:
    """Draws a participant; age and build act on fitness, fitness on activity and resting heart rate.

    `favourite` is the workout type done most, 0..9; the sporty train more often.
    """
    age = float(np.clip(rng.gamma(5.0, 5.2) + 18, 18, 85))
    sex = "male" if rng.random() < 0.58 else "female"
    female = sex == "female"
    fitness = float(0.9 * rng.standard_normal() - 0.025 * (age - 44))
    activity = float(0.45 * fitness + 0.88 * rng.standard_normal())
    mood = float(0.3 * activity + 0.95 * rng.standard_normal())
    bmi = float(np.clip(26.5 + 4.2 * rng.standard_normal() - 1.3 * activity - 0.8 * fitness, 17, 48))
    height = float((1.64 if female else 1.77) + 0.065 * rng.standard_normal())
    quality = float(0.25 * mood - 0.015 * (age - 44) - 0.05 * (bmi - 26.5) + 0.85 * rng.standard_normal())
    liked = rng.random(len(WORKOUTS)) < _SESSION_LIKED
    liked[favourite] = True
    shares = np.zeros(len(WORKOUTS))
    shares[liked] = rng.dirichlet(np.where(np.flatnonzero(liked) == favourite, 5.0, 1.0))
    employed = bool(rng.random() < (0.78 if age < 65 else 0.2))
    resting = 65 + 3 * female - 5 * fitness + 0.3 * (bmi - 26.5)
    hour = rng.choice([7.0, 12.3, 17.8], p=[0.3, 0.15, 0.55])
    sessions = (3.2 if sporty else 1.6) * np.exp(0.4 * activity)
    return Traits(
        birth_year=int(REFERENCE_YEAR - round(age)),
        sex=sex,
        height_m=height,
        bmi=bmi,
        weight_kg=bmi * height**2,
        fitness=fitness,
        activity=activity,
        mood=mood,
        sleep_quality=quality,
        chronotype_hours=float(np.clip(1.3 * rng.standard_normal() - 0.02 * (age - 44), -3.0, 4.0)),
        sleep_need_hours=float(np.clip(7.6 + 0.7 * rng.standard_normal(), 5.5, 9.8)),
        employed=employed,
        resting_hr=float(np.clip(resting + 9 * rng.standard_normal(), 42, 98)),
        max_hr=float(208 - 0.7 * age + 9 * rng.standard_normal()),
        capacity_met=float(np.clip(10.5 + 1.9 * fitness - 1.0 * female - 0.08 * (bmi - 26.5), 5.0, 18.0)),
        cadence=float(104 + 3 * fitness + 6 * rng.standard_normal()),
        stride_m=float(0.43 * height * np.exp(0.05 * rng.standard_normal())),
        stairs=float(np.exp(0.9 * rng.standard_normal())),
        sessions_per_week=float(np.clip(sessions * np.exp(0.4 * rng.standard_normal()), 0.3, 9)),
        session_shares=tuple(float(s) for s in shares),
        session_hour=float(np.clip(hour + 1.0 * rng.standard_normal(), 5.5, 21)),
    )


def simulate(rng: np.random.Generator, traits: Traits, weekday: Int[np.ndarray, " day"]) -> Body:
    """Simulates consecutive days; `weekday` is 0 for Monday .. 6 for Sunday."""
    days = len(weekday)
    time = days * MINUTES_PER_DAY
    bedtime, onset, wake, rise = _nights(rng, traits, weekday)
    inbed = spans(bedtime, rise, time)
    asleep = spans(onset, wake, time) & ~_wake_bouts(rng, traits, onset, wake, time)
    session, kinds, planned_met, planned_cadence, outing = _sessions(rng, traits, weekday, inbed)
    nap = _naps(rng, traits, days, time, inbed, session)
    inbed, asleep = inbed | nap, asleep | nap
    steps, running = _movement(rng, traits, weekday, inbed, bedtime, session, outing, planned_cadence)
    stirring = inbed & ~asleep & (rng.random(time) < 0.12)
    steps = np.where(stirring, rng.uniform(5, 50, time), steps)
    stride = traits.stride_m * (0.78 + 0.22 * np.minimum(steps, 130) / 105 + 0.35 * running)
    climbs = rng.random(time) < 0.028 * traits.stairs * np.minimum(steps / 60, 1) * (session < 0)
    flights = np.where(climbs, rng.integers(1, 4, time), 0).astype(np.float64)
    energy = _energy(rng, traits, steps, asleep, inbed, planned_met)
    heart = _heart_rate(rng, traits, energy, asleep, days)
    return Body(steps, stride, flights, energy, heart, asleep, inbed, session, kinds, bedtime, rise)


def spans(
    starts: Float[np.ndarray, " n"], stops: Float[np.ndarray, " n"], time: int
) -> Bool[np.ndarray, " time"]:
    """True inside any of the half-open minute intervals; parts outside 0..time are cut off."""
    edges = np.zeros(time + 1, np.int64)
    np.add.at(edges, np.clip(np.rint(starts), 0, time).astype(np.int64), 1)
    np.add.at(edges, np.clip(np.rint(stops), 0, time).astype(np.int64), -1)
    return np.cumsum(edges)[:time] > 0


def wander(rng: np.random.Generator, time: int, minutes: float) -> Float[np.ndarray, " time"]:
    """Gaussian noise of unit variance whose correlation falls to 1/e within `minutes`."""
    kernel = np.exp(-np.arange(int(4 * minutes) + 1) / minutes)
    kernel /= np.sqrt(np.sum(kernel**2))
    return np.convolve(rng.standard_normal(time + len(kernel) - 1), kernel, mode="valid")


def _nights(rng, traits, weekday):
    days = len(weekday)
    k = np.arange(days + 1)
    free = np.append(weekday, (weekday[-1] + 1) % 7) >= 5
    irregular = 1.0 - 0.2 * np.clip(traits.mood, -2, 2)
    bedtime = MINUTES_PER_DAY * (k - 1) + 60 * (23.1 + traits.chronotype_hours)
    bedtime = bedtime + 55 * free + 55 * irregular * rng.standard_normal(days + 1)
    onset = bedtime + rng.gamma(1.6, 9.0, days + 1)
    wake = onset + 60 * (traits.sleep_need_hours + 0.8 * rng.standard_normal(days + 1))
    alarm = (
        MINUTES_PER_DAY * k + 60 * (6.9 + 0.4 * traits.chronotype_hours) + 12 * rng.standard_normal(days + 1)
    )
    late = traits.employed & ~free & (wake > alarm)
    wake = np.maximum(np.where(late, alarm, wake), onset + 180)
    rise = wake + rng.gamma(1.3, 10.0, days + 1)
    return bedtime, onset, wake, rise


def _wake_bouts(rng, traits, onset, wake, time):
    hours = (wake - onset) / 60
    count = rng.poisson(np.clip(0.9 - 0.3 * traits.sleep_quality, 0.3, 2.5) * hours)
    starts = np.repeat(onset, count) + rng.random(count.sum()) * np.repeat(wake - onset, count)
    return spans(starts, starts + 1 + rng.exponential(3.5, len(starts)), time)


def _naps(rng, traits, days, time, inbed, session):
    chosen = np.flatnonzero(rng.random(days) < (0.10 if traits.age >= 60 else 0.03))
    starts = chosen * MINUTES_PER_DAY + rng.normal(14.3 * 60, 45, len(chosen))
    nap = spans(starts, starts + rng.uniform(20, 80, len(chosen)), time)
    return nap & ~inbed & (session < 0)


def _sessions(rng, traits, weekday, inbed):
    days, time = len(weekday), len(inbed)
    chance = np.clip(traits.sessions_per_week / 7 * np.where(weekday >= 5, 1.25, 0.9), 0, 0.95)
    chosen = np.flatnonzero(rng.random(days) < chance)
    kinds = rng.choice(len(WORKOUTS), size=len(chosen), p=np.asarray(traits.session_shares))
    hour = np.where(weekday[chosen] >= 5, np.clip(traits.session_hour, 8.5, 15), traits.session_hour)
    starts = chosen * MINUTES_PER_DAY + 60 * hour + rng.normal(0, 35, len(chosen))
    length = np.clip(_SESSION_MINUTES[kinds] * np.exp(0.35 * rng.standard_normal(len(chosen))), 8, 180)
    session = np.full(time, -1)
    met, cadence = np.ones(time), np.zeros(time)
    pace = np.sqrt(traits.capacity_met / 10.5) * np.exp(0.07 * rng.standard_normal(len(chosen)))
    intervals = rng.random(len(chosen)) < 0.5
    for number, (kind, start, minutes) in enumerate(zip(kinds, starts, length, strict=True)):
        if inbed[round(start) : round(start + minutes)].any():
            starts[number] = start = start + 150  # slept in: later then
        part = slice(max(0, round(start)), min(time, round(start + minutes)))
        if inbed[part].any() or part.stop - part.start < 5:
            continue
        session[part] = number
        n = part.stop - part.start
        effort = 1 + 0.10 * wander(rng, n, 6.0)
        if kind in SETS_AND_RESTS:
            effort *= np.where(wander(rng, n, 2.0) > 0, 1.25, 0.6)
        elif kind == RUNNING and intervals[number]:
            effort *= np.where(wander(rng, n, 5.0) > 0, 1.15, 0.68)
        most = 0.97 * traits.capacity_met
        met[part] = np.minimum(1 + (_SESSION_MET[kind] - 1) * pace[number] * np.clip(effort, 0.3, 1.6), most)
        cadence[part] = _SESSION_CADENCE[kind] * np.clip(effort, 0.5, 1.2)
    way = rng.random((2, len(chosen))) < 0.7  # people walk to and from many workouts
    before, after = np.where(way, rng.uniform(3, 14, way.shape), 0)
    return session, kinds, met, cadence, spans(starts - before, starts + length + after, time)


def _movement(rng, traits, weekday, inbed, bedtime, session, outing, planned_cadence):
    """Walking bouts: starts follow a rhythm over the day, lengths and cadences are drawn per bout."""
    time = len(inbed)
    rate = _bout_rate(rng, traits, weekday, time)
    tired = spans(bedtime - 40, bedtime, time)
    rate[tired] = np.where(spans(bedtime - 4, bedtime, time)[tired], 0.28, 0.6 * rate[tired])
    rate[outing] = 0.35
    rate[inbed | (session >= 0)] = 0
    starts = np.flatnonzero(rng.random(time) < rate)
    n = len(starts)
    kind = rng.choice(3, size=n, p=[0.62, 0.28, 0.10])
    kind[tired[starts]] = 0
    mean_length = np.array([0.7, 3.0, 13.0])[kind]
    length = 1 + np.minimum(rng.exponential(mean_length), 75).astype(np.int64)
    usual = np.array([0.22, 0.60, 0.95])[kind] * traits.cadence
    cadence = usual * np.exp(np.array([0.6, 0.3, 0.10])[kind] * rng.standard_normal(n))
    cadence *= np.where(tired[starts], 0.6, 1.0)
    order = np.repeat(np.arange(n), length)
    minute = np.repeat(starts, length) + np.arange(len(order)) - np.repeat(np.cumsum(length) - length, length)
    painted = cadence[order] * np.exp(0.18 * rng.standard_normal(len(order)))
    keep = minute < time
    steps = np.zeros(time)
    np.maximum.at(steps, minute[keep], np.minimum(painted[keep], 135))
    steps[inbed] = 0
    doing = session >= 0
    spread = np.exp(0.06 * rng.standard_normal(time))
    steps = np.where(doing, planned_cadence * spread, steps)
    return np.minimum(steps, 210), doing & (planned_cadence > 135)


def _bout_rate(rng, traits, weekday, time):
    hour = np.arange(MINUTES_PER_DAY) / 60 - 0.5 * traits.chronotype_hours
    bump = lambda centre, width: np.exp(-0.5 * ((hour - centre) / width) ** 2)  # noqa: E731
    workday = 0.35 + 0.9 * bump(8.2, 0.8) + 0.8 * bump(12.5, 0.8) + 1.0 * bump(17.8, 1.3)
    leisure = 0.35 + 0.9 * bump(12.0, 3.0) + 0.5 * bump(17.0, 2.5)
    profile = np.where((weekday >= 5)[:, None] | (not traits.employed), leisure, workday)
    vigour = np.exp(0.30 * rng.standard_normal(len(weekday)))
    vigour[rng.random(len(weekday)) < 0.03] *= 0.12  # ill or travelling
    rhythm = (profile * vigour[:, None]).reshape(-1)
    swing = np.exp(1.0 * wander(rng, time, 40.0) - 0.5)
    return np.minimum(0.034 * np.exp(0.53 * traits.activity - 0.1) * rhythm * swing, 0.5)


def _energy(rng, traits, steps, asleep, inbed, planned_met):
    """Active energy in cal/min: walking by weight and steps, workouts by equivalents (3.5 ml O2/kg/min)."""
    time = len(steps)
    kcal_per_met = traits.weight_kg * 3.5 / 200
    walking = 0.00043 * traits.weight_kg * steps * np.exp(0.10 * rng.standard_normal(time))
    workout = kcal_per_met * (planned_met - 1) * np.exp(0.15 * rng.standard_normal(time))
    chores = np.where(inbed, 0.02, 0.16) * np.exp(0.9 * wander(rng, time, 15.0) - 0.4)
    chores = np.where(asleep, 0.0, chores) + np.where(asleep & (rng.random(time) < 0.15), 0.03, 0)
    return 1000 * (np.where(planned_met > 1, workout, walking) + chores)


def _heart_rate(rng, traits, energy, asleep, days):
    """Beats/s: rest, day rhythm and a delayed, saturating response to effort (share of reserve)."""
    time = len(energy)
    effort = energy / 1000 / (traits.weight_kg * 3.5 / 200 * (traits.capacity_met - 1))
    lag = np.arange(91.0)
    fast, slow = np.exp(-lag / 0.9), np.exp(-lag / 12.0)
    felt = np.convolve(effort, 0.8 * fast / fast.sum() + 0.2 * slow / slow.sum(), mode="full")[:time]
    share = np.maximum(felt, 0) ** 0.85
    share = share / (1 + share**12) ** (1 / 12)  # levels off near the maximum
    clock = np.arange(time) % MINUTES_PER_DAY / 60 - traits.chronotype_hours
    calm = traits.resting_hr + np.where(asleep, -4.0, 4.0) + 2.5 * np.cos(2 * np.pi * (clock - 16.5) / 24)
    unrest = np.where(asleep, 3.0, 6.6) * wander(rng, time, 12.0) + 2.0 * rng.standard_normal(time)
    daily = np.repeat(2.5 * rng.standard_normal(days), MINUTES_PER_DAY)
    reserve = traits.max_hr - traits.resting_hr
    beats = calm + daily + unrest * (1 - 0.6 * share) + reserve * 0.97 * share
    return np.clip(beats, 36, traits.max_hr + 4) / 60
