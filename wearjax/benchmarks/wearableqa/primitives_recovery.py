"""The days on which the answer to a question of recovery turns."""

from __future__ import annotations

import numpy as np

from wearjax.benchmarks.wearableqa.primitives import Array, op


@op("after_event")
def after_event(z: Array, event: Array, back: Array, *, consecutive: int = 2) -> Array:
    """The days from an event's end to the last of the days that end the recovery, NaN on all others.

    Args:
        event: as `event_largest` gives it.
        back: as `days_to_return` gives it; without a return, all later days stay.
    """
    day = np.arange(z.shape[1])
    end, days = event[:, 1:2], back[:, :1]
    last = np.where(days > 0, end + days + consecutive - 1, z.shape[1])
    with np.errstate(invalid="ignore"):
        return np.where((day > end) & (day <= last), z, np.nan)
