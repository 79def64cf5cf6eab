"""Where forecasts start: the filters in order, and the draw of Python's random module."""

from __future__ import annotations

import datetime as dt

import harness
import numpy as np

from wearjax.channels import HOURS_PER_DAY
from wearjax.segments import forecast_points


@harness.checks("forecast_sample_index")
def check(case: dict) -> None:
    filters = dict(case["filters_in_order"])
    recent = filters.get("historical_check") or {"recent_day_count": 0, "minimum_valid_day": 0}
    points = {}
    for user in case["users"]:
        found = forecast_points.start_days(
            retained(user, case["retained_days"].get(user["user_id"], [])),
            case["forecasting_length"],
            n_hours=user["n_hours"],
            whole_target=bool(filters.get("missing_mask")),
            recent_days=recent["recent_day_count"],
            recent_retained_min=recent["minimum_valid_day"],
        )
        if found:
            points[user["user_id"]] = found
    cap = filters.get("maximum_sample_count_per_user")
    if cap is not None:
        points = forecast_points.thin(points, cap=cap, seed=case["python_random_seed"])
    assert {user: list(own) for user, own in points.items()} == case["expected"]


def retained(user: dict, dates: list[str]) -> np.ndarray:
    first = dt.date.fromisoformat(user["first_date"])
    out = np.zeros(-(-user["n_hours"] // HOURS_PER_DAY), bool)
    for date in dates:
        place = (dt.date.fromisoformat(date) - first).days
        if 0 <= place < len(out):
            out[place] = True
    return out
