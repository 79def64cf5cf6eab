"""How fast features are extracted, on participants of the synthetic cohort made one at a time."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from jaxtyping import Float32

from wearjax.days import clean
from wearjax.days.store import Days
from wearjax.errors import ConfigError
from wearjax.predict.features import table
from wearjax.sources import synthetic


class MadeDays(Days):
    """A participant's synthetic days, cleaned as a store has them, in memory."""

    def __init__(self, record: synthetic.ParticipantRecord):
        self.path = Path("synthetic")
        self._values = [clean.zero_to_nan(day.values) for day in record.days]
        self.participants = np.array([day.participant for day in record.days], dtype=object)
        self.dates = np.array([day.date.isoformat() for day in record.days], dtype=object)
        self.nonwear_minutes = np.array([day.nonwear_minutes for day in record.days], np.float32)
        self.variance = np.stack([clean.channel_variance(values) for values in self._values])

    def values(self, index: int) -> Float32[np.ndarray, "channel=19 minute=1440"]:
        return self._values[index].copy()

    def source(self, index: int) -> str:
        return synthetic.SOURCE


def measure(n_participants: int = 12, days: float = 365, *, seed: int = 1) -> dict[str, float]:
    """Processor time of the whole extraction on one core, making the days left out.

    Returns:
        `participants`, retained `days`, `seconds` of processor time (of which `seconds_assembling` the cohort's
        components) and `days_per_second`. With few participants the part that grows with the cohort is small:
        its seconds are those of this cohort.

    Raises ConfigError for a cohort without a retained day.
    """
    cohort = synthetic.Cohort(n_participants=n_participants, days_per_participant=days, seed=seed)
    parts, n_days, seconds = [], 0, 0.0
    for index in range(n_participants):
        made = MadeDays(synthetic.simulate_participant(cohort, index))
        for positions in table.retained_positions(made)[1]:
            start = time.process_time()
            parts.append(table.participant_part(made, positions).astype(np.float32))
            seconds += time.process_time() - start
            n_days += len(positions)
    if not parts:
        raise ConfigError("the synthetic cohort has no retained day; ask for more participants or days")
    start = time.process_time()
    table.assemble(np.stack(parts))
    assembling = time.process_time() - start
    return {
        "participants": n_participants,
        "days": n_days,
        "seconds": seconds + assembling,
        "seconds_assembling": assembling,
        "days_per_second": n_days / (seconds + assembling),
    }
