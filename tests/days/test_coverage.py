import datetime as dt
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wearjax.channels import HEART_RATE, N_CHANNELS
from wearjax.days import clean, coverage
from wearjax.days.store import Days
from wearjax.errors import ConfigError, StoreError


class Listed(Days):
    """Days held in memory."""

    def __init__(self, rows, *, nonwear=0.0):
        self.path = "memory"
        self.participants = np.asarray([r[0] for r in rows], dtype=object)
        self.dates = np.asarray([r[1] for r in rows], dtype=object)
        self._values = [r[2] for r in rows]
        self.nonwear_minutes = np.broadcast_to(np.float32(nonwear), len(rows)).copy()
        self.variance = np.stack([clean.channel_variance(v) for v in self._values])

    def values(self, index):
        return self._values[index].copy()

    def source(self, index):
        return "synthetic"


def measured(minutes, *, channel=HEART_RATE):
    values = np.full((N_CHANNELS, 1440), np.nan, np.float32)
    values[channel, :minutes] = np.arange(minutes) % 7
    return values


def test_shares_of_measured_minutes():
    days = Listed(
        [
            ("a", "2024-01-01", measured(90)),
            ("a", "2024-01-03", measured(30)),
            ("b", "2024-01-02", measured(0)),
        ]
    )
    table = coverage.coverage(days)
    expected = np.zeros((N_CHANNELS, 24))
    expected[HEART_RATE, :2] = (90 / 180, 30 / 180)
    np.testing.assert_allclose(table["channel_hour"], expected)
    cells = N_CHANNELS * 1440
    np.testing.assert_allclose(
        table["participant_day"], [[90 / cells, np.nan, 30 / cells], [np.nan, 0, np.nan]]
    )
    assert table["participants"].tolist() == ["a", "b"]
    assert table["first_date"] == "2024-01-01"
    assert table["channel_days"].tolist() == [2 if c == HEART_RATE else 0 for c in range(N_CHANNELS)]
    assert (table["n_days"], table["n_participants"], table["days_shown"]) == (3, 2, 3)


def test_only_the_given_days_count():
    days = Listed([("a", "2024-01-01", measured(60)), ("b", "2024-01-01", measured(0))])
    seen = []
    table = coverage.coverage(days, [0], progress=lambda done, total: seen.append((done, total)))
    assert table["participants"].tolist() == ["a"]
    assert table["channel_hour"][HEART_RATE, 0] == 1
    assert seen == [(1, 1)]
    for wrong in ([], [2], [-1]):
        with pytest.raises(ConfigError, match="memory"):
            coverage.coverage(days, wrong)


def test_large_sets_keep_the_fullest_part_and_count_the_rest():
    first = dt.date(2024, 1, 1)
    rows = [(f"p{i:03d}", first.isoformat(), measured(1)) for i in range(100)]
    rows += [("p099", (first + dt.timedelta(days=1000 + d)).isoformat(), measured(1)) for d in range(119)]
    table = coverage.coverage(Listed(rows))
    assert table["participant_day"].shape == (80, 120)
    assert "p099" in table["participants"]
    assert table["participants"].tolist() == sorted(table["participants"])
    assert table["first_date"] == (first + dt.timedelta(days=999)).isoformat()
    assert (table["n_days"], table["n_participants"], table["days_shown"]) == (219, 100, 119)


@given(st.lists(st.integers(0, 500), min_size=1, max_size=60))
def test_window_holds_most_days_of_all_windows(ordinals):
    start, width = coverage._fullest_window(np.asarray(ordinals))
    assert width == min(max(ordinals) - min(ordinals) + 1, coverage.CALENDAR_DAYS_MAX)
    assert min(ordinals) <= start
    assert start + width <= max(ordinals) + 1
    held = [
        sum(s <= o < s + width for o in ordinals) for s in range(min(ordinals), max(ordinals) - width + 2)
    ]
    assert sum(start <= o < start + width for o in ordinals) == max(held)


def test_saved_table_comes_back(tmp_path):
    table = coverage.coverage(Listed([("a", "2024-01-01", measured(90)), ("é", "2024-01-03", measured(30))]))
    coverage.save(table, tmp_path / "coverage.npz")
    loaded = coverage.load(tmp_path / "coverage.npz")
    assert loaded.keys() == table.keys()
    for name, value in table.items():
        np.testing.assert_array_equal(loaded[name], value)
    assert isinstance(loaded["first_date"], str)
    assert isinstance(loaded["n_days"], int)
    assert [p.name for p in tmp_path.iterdir()] == ["coverage.npz"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"channel_hour": np.zeros((24, 19))}, "channel_hour must be"),
        ({"participants": np.asarray(["a", "b"])}, "does not fit participants"),
        ({"first_date": "soon"}, "first_date must be an ISO date"),
        ({"first_date": None}, "without first_date"),
        ({"participants": np.asarray([None], dtype=object)}, "not a readable coverage table"),
    ],
)
def test_wrong_table_is_refused(tmp_path, change, said):
    table = coverage.coverage(Listed([("a", "2024-01-01", measured(90))])) | change
    np.savez(tmp_path / "coverage.npz", **{k: v for k, v in table.items() if v is not None})
    with pytest.raises(StoreError, match=said):
        coverage.load(tmp_path / "coverage.npz")


def test_missing_or_broken_file_is_refused(tmp_path):
    with pytest.raises(StoreError, match="missing"):
        coverage.load(tmp_path / "none.npz")
    (tmp_path / "bad.npz").write_text(json.dumps({}))
    with pytest.raises(StoreError, match="not a readable coverage table"):
        coverage.load(tmp_path / "bad.npz")


def test_wear_summary_tells_each_reason_once():
    flat = measured(0)
    flat[HEART_RATE] = 1.0
    rows = [
        ("a", "2024-01-02", measured(90)),
        ("a", "2024-01-01", flat),
        ("b", "2024-02-01", flat),
        ("b", "2024-02-02", measured(9)),
    ]
    days = Listed(rows, nonwear=[0, 60, 900, 720])
    summary = coverage.wear_summary(days)
    assert (summary.days, summary.participants, summary.retained) == (4, 2, 2)
    assert summary.retained == int(days.retained.sum())
    assert (summary.too_little_wear, summary.too_little_variance) == (1, 1)
    assert (summary.first_date, summary.last_date) == ("2024-01-01", "2024-02-02")
    assert summary.days_per_participant == (2, 2.0, 2)
    assert summary.wear_hours == (11.25, 17.5, 23.25)
    assert dict(summary.rows())["sources"] == "synthetic 4"
    assert coverage.wear_summary(days, [0]).retained == 1


def test_description_has_titled_rows_with_equal_keys():
    days = Listed([("a", "2024-01-01", measured(144)), ("b", "2024-01-02", measured(0))])
    tally = {"skipped": [{"measure": "HR", "reason": "zero", "count": 1200}], "notes": ["n"]}
    days.meta = {"provenance": {"import": tally}}
    described = dict(coverage.describe(days))
    assert list(described) == ["Days", "Channels", "Left out by the import", "Notes"]
    for rows in described.values():
        assert all(row.keys() == rows[0].keys() for row in rows)
    assert described["Channels"][HEART_RATE] == {
        "channel": "watch_hr",
        "unit": "beats/s",
        "minutes measured": "5.0%",
        "days with data": "1",
    }
    assert described["Left out by the import"] == [
        {"records": "HR", "left out because": "zero", "count": "1,200"}
    ]
    del days.meta
    assert [title for title, _ in coverage.describe(days)] == ["Days", "Channels"]
