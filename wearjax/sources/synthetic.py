"""A cohort of invented participants: deterministic days with the structure of phone and watch recordings.

Each participant follows from `(seed, index)` alone, so that any of them can be made by itself, in any order
and in parallel, with the same bytes. Beside what the devices wrote, the complete truth is available.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float32

from wearjax.channels import NAMES
from wearjax.day import Day
from wearjax.errors import ConfigError
from wearjax.sources import synthetic_physiology as physiology
from wearjax.sources import synthetic_wear as wear
from wearjax.sources.synthetic_physiology import Traits
from wearjax.sources.synthetic_wear import Habits
from wearjax.sources.tally import Tally

SOURCE = "synthetic"
# Each block of 40 participants holds these shares exactly, in an order that the seed decides, so that a small
# cohort has every kind of owner and, given two weeks, nearly always every channel.
_DEVICES = ("both",) * 33 + ("phone",) * 6 + ("watch",)
_SLEEP_SOURCE = ("none",) * 24 + ("both",) * 11 + ("inbed",) * 3 + ("asleep",) * 2
_FAVOURITE = np.repeat(np.arange(10), [12, 4, 8, 4, 2, 2, 2, 2, 2, 2])  # even places log their workouts


@dataclass(frozen=True)
class Cohort:
    """Size and seed of a synthetic cohort.

    Attributes:
        n_participants: how many.
        days_per_participant: mean number of recorded days; single participants have 0.5 to 1.5 times as many.
        seed: changes everything.
        start_date: first possible calendar day; participants join within `enrolment_days` of it.
    """

    n_participants: int
    days_per_participant: float = 14
    seed: int = 0
    start_date: dt.date = dt.date(2020, 1, 6)
    enrolment_days: int = 60

    def __post_init__(self):
        if self.n_participants < 1:
            raise ConfigError(f"n_participants must be at least 1, got {self.n_participants}")
        if self.days_per_participant < 1:
            raise ConfigError(f"days_per_participant must be at least 1, got {self.days_per_participant}")
        if self.seed < 0:
            raise ConfigError(f"seed must not be negative, got {self.seed}")
        if self.enrolment_days < 0:
            raise ConfigError(f"enrolment_days must not be negative, got {self.enrolment_days}")


@dataclass(frozen=True, eq=False)
class ParticipantRecord:
    """One participant: written days, and what lies behind them.

    Attributes:
        participant: id.
        days: the written days in date order.
        truth: per day, what every channel would hold with all devices on the body; no NaN.
        recorded: per day, where a channel was really recorded; there `days[i].values` equals `truth[i]`.
        traits, habits: latent causes.
    """

    participant: str
    days: tuple[Day, ...] = field(repr=False)
    truth: Float32[np.ndarray, "day channel=19 minute=1440"] = field(repr=False)
    recorded: Bool[np.ndarray, "day channel=19 minute=1440"] = field(repr=False)
    traits: Traits
    habits: Habits

    @property
    def demographics(self) -> dict[str, int | str]:
        return {"birth_year": self.traits.birth_year, "sex": self.traits.sex}

    def true_day(self, date: dt.date) -> Float32[np.ndarray, "channel=19 minute=1440"]:
        """The complete day of that date. Raises KeyError when the participant has no day then."""
        for position, day in enumerate(self.days):
            if day.date == date:
                return self.truth[position]
        raise KeyError(f"{self.participant} has no day {date}")


def participant_id(index: int) -> str:
    return f"synthetic-{index:06d}"


def simulate_participant(cohort: Cohort, index: int) -> ParticipantRecord:
    """Makes one participant. Raises ConfigError when the cohort has no such index."""
    plan, person, body_rng, device_rng = _generators(cohort, index)
    first, offsets = _calendar(cohort, plan)
    traits, habits = _person(cohort, index, person)
    dates = [first + dt.timedelta(days=int(k)) for k in range(offsets[-1] + 1)]
    weekday = np.array([date.weekday() for date in dates])
    body = physiology.simulate(body_rng, traits, weekday)
    recording = wear.record(device_rng, traits, habits, body)
    name = participant_id(index)
    days = tuple(
        Day(recording.values[k], name, dates[k], float(recording.nonwear_minutes[k]), SOURCE) for k in offsets
    )
    return ParticipantRecord(
        name, days, recording.truth[offsets], recording.recorded[offsets], traits, habits
    )


def read_days(
    cohort: Cohort, *, tally: Tally, progress: Callable[[int, int], None] | None = None
) -> Iterator[Day]:
    """Yields all days by participant and date. `progress` gets (days done, days in total)."""
    tally.note(f"synthetic cohort, seed {cohort.seed}: no recording of a person is in it")
    total = sum(n_days(cohort, i) for i in range(cohort.n_participants)) if progress else 0
    done = 0
    for index in range(cohort.n_participants):
        record = simulate_participant(cohort, index)
        for day in record.days:
            finite = np.isfinite(day.values).sum(axis=1)
            for name, count in zip(NAMES, finite, strict=True):
                tally.read[name] += int(count)
                tally.used[name] += int(count)
            yield day
            done += 1
        if progress:
            progress(done, total)


def truth(cohort: Cohort, index: int, date: dt.date) -> Float32[np.ndarray, "channel=19 minute=1440"]:
    """The complete true day of a participant (all 19 channels, no NaN); see `ParticipantRecord.true_day`."""
    return simulate_participant(cohort, index).true_day(date)


def participant_traits(cohort: Cohort, index: int) -> Traits:
    """Latent traits of a participant, without simulating days."""
    return _person(cohort, index, _generators(cohort, index)[1])[0]


def demographics(cohort: Cohort) -> dict[str, dict[str, int | str]]:
    """Birth year and sex of every participant, in the form of a store's `participants.json`."""
    people = ((participant_id(i), participant_traits(cohort, i)) for i in range(cohort.n_participants))
    return {name: {"birth_year": person.birth_year, "sex": person.sex} for name, person in people}


def n_days(cohort: Cohort, index: int) -> int:
    """Number of days that a participant has, without simulating them."""
    return len(_calendar(cohort, _generators(cohort, index)[0])[1])


def _generators(cohort, index):
    if not 0 <= index < cohort.n_participants:
        raise ConfigError(f"participant index {index}: the cohort has 0..{cohort.n_participants - 1}")
    return [
        np.random.default_rng(s) for s in np.random.SeedSequence(cohort.seed, spawn_key=(0, index)).spawn(4)
    ]


def _person(cohort, index, rng):
    block, place = divmod(index, len(_DEVICES))
    shuffle = np.random.default_rng(np.random.SeedSequence(cohort.seed, spawn_key=(1, block)))
    device, sleep, workout = (shuffle.permutation(len(_DEVICES))[place] for _ in range(3))
    logs = bool(workout % 2 == 0)
    traits = physiology.draw_traits(rng, favourite=int(_FAVOURITE[workout]), sporty=logs)
    habits = wear.draw_habits(
        rng, devices=_DEVICES[device], sleep_source=_SLEEP_SOURCE[sleep], logs_workouts=logs
    )
    return traits, habits


def _calendar(cohort, rng):
    """First date and the offsets of the days that exist; some days, now and then several, are missing."""
    count = max(1, round(cohort.days_per_participant * rng.uniform(0.5, 1.5)))
    first = cohort.start_date + dt.timedelta(days=int(rng.integers(0, cohort.enrolment_days + 1)))
    skipped = np.where(rng.random(count) < 0.06, rng.geometric(0.5, count), 0)
    skipped[0] = 0
    return first, np.cumsum(1 + skipped) - 1
