"""A small store with splits and task labels, for predictors that read both themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from made_days import made_day

from wearjax.day import Day
from wearjax.days.splits import Splits, to_json
from wearjax.days.store import DayStore, DayStoreWriter

IDS = tuple(f"p{i:02d}" for i in range(12))
SPLITS = Splits(train=IDS[:6], validation=IDS[6:8], test=IDS[8:])
ACTIVE = {user: i % 2 for i, user in enumerate(IDS)}
WITHOUT_DAYS = "p11"  # in the test split, with days that do not pass the filters


def write_store(folder: Path) -> DayStore:
    """Twelve participants with two to four days; half of them walk four times as much, and `active` says who."""
    with DayStoreWriter(folder, provenance={"made": True}) as writer:
        for i, user in enumerate(IDS):
            for day in range(2 + i % 3):
                made = made_day(user, day, nonwear=800.0 if user == WITHOUT_DAYS else 60.0)
                values = made.values.copy()
                values[[0, 3, 6]] *= 1 + 3 * ACTIVE[user]
                writer.add(Day(values, user, made.date, made.nonwear_minutes, "made"))
        writer.attach("splits.json", to_json(SPLITS))
    days = DayStore(folder)
    rows = np.flatnonzero(days.retained)
    users = [str(days.participants[r]) for r in rows]
    table = {
        "user_id": users,
        "date": [str(days.dates[r]) for r in rows],
        "n_valid_hours": np.full(len(rows), 24, np.int32),
        "active": np.array([ACTIVE[u] for u in users], np.int32),
        "age": np.array([np.nan if u == "p01" else 30.0 + 20 * ACTIVE[u] for u in users]),
        "level": np.array([-1 if u in ("p00", "p06", "p07") else 2 * ACTIVE[u] for u in users], np.int32),
        "unknown": np.array([-1 if u in SPLITS.train else 1 for u in users], np.int32),
    }
    pq.write_table(pa.table(table), folder / "task_labels.parquet")
    return DayStore(folder)
