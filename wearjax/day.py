"""One participant's calendar day of minute values: the unit that every station passes on."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float32

from wearjax.channels import MINUTES_PER_DAY, N_CHANNELS

SHAPE = (N_CHANNELS, MINUTES_PER_DAY)


@dataclass(frozen=True, eq=False)
class Day:
    """A day of sensor values.

    Attributes:
        values: minute values in the units of the channel table; NaN = not measured.
        participant: pseudonymous participant id.
        date: local calendar date.
        nonwear_minutes: minutes of the day without the device on the body, 0..1440.
        source: which importer produced the day, e.g. `"fitbit"`.
        variance: the within-day variance that the source stores; None where it stores none.
    """

    values: Float32[np.ndarray, "channel=19 minute=1440"] = field(repr=False)
    participant: str
    date: dt.date
    nonwear_minutes: float
    source: str
    variance: Float32[np.ndarray, "channel=19"] | None = field(default=None, repr=False)

    def __post_init__(self):
        if self.values.shape != SHAPE or self.values.dtype != np.float32:
            raise ValueError(
                f"day {self.participant} {self.date}: values must be float32 {SHAPE}, "
                f"got {self.values.dtype} {self.values.shape}"
            )
        if self.variance is not None and self.variance.shape != (N_CHANNELS,):
            raise ValueError(
                f"day {self.participant} {self.date}: variance must be ({N_CHANNELS},), got {self.variance.shape}"
            )
