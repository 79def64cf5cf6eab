"""Small made days for tests of stores, splits and roots."""

from __future__ import annotations

import datetime as dt

import numpy as np

from wearjax.day import SHAPE, Day

FIRST_DATE = dt.date(2021, 3, 1)


def made_day(participant: str, day: int = 0, *, seed: int = 0, nonwear: float = 60.0) -> Day:
    """A day with steps, heart rate with gaps, a night and a walk; zeros are written as devices write them."""
    rng = np.random.default_rng([seed, day, *participant.encode()])
    values = np.zeros(SHAPE, np.float32)
    values[0, 480:1200] = rng.poisson(8, 720)
    values[3, 480:1200] = rng.poisson(9, 720)
    values[5] = rng.normal(1.2, 0.2, 1440)
    values[5, rng.random(1440) < 0.3] = 0
    values[6, 480:1200] = rng.gamma(2, 400, 720)
    values[7, 20:400] = 1
    values[8, :420] = 1
    values[9, 600:640] = 1
    return Day(values, participant, FIRST_DATE + dt.timedelta(days=day), nonwear, "made")


def made_cohort(participants: int = 5, days: int = 3) -> list[Day]:
    """Days of several participants, by participant and date; ids are of the two styles of OpenMHC."""
    ids = [f"-{i:023d}" if i % 2 else f"00000000-0000-4000-8000-{i:012d}" for i in range(participants)]
    return [made_day(p, d, nonwear=60.0 if d != 1 else 800.0) for p in sorted(ids) for d in range(days)]
