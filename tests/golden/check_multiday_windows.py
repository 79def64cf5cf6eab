"""Windows of several days and the calendar distance of their days."""

from __future__ import annotations

import harness

from wearjax.segments import seven_days


@harness.checks("multiday_windows")
def check(case: dict) -> None:
    rows = case.get("split_rows", range(len(case["user_id"])))
    users = [case["user_id"][row] for row in rows]
    dates = [case["date"][row] for row in rows]
    windows, offsets = seven_days.windows(users, dates, n_days=case["n_days"])
    assert windows.tolist() == case["expected_windows"]
    assert offsets.tolist() == case["expected_day_offsets"]
