"""Where forecasts start: the rules, the draw, and the published file."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax.errors import ConfigError, SourceError
from wearjax.segments import forecast_points


class Records:
    """Retained days without any hours."""

    def __init__(self, retained: dict[str, list[int]]):
        self.stored_order = tuple(retained)
        self._retained = {user: np.array(days, bool) for user, days in retained.items()}

    def retained(self, user):
        return self._retained[user]


def slowly(retained: list[bool], horizon: int) -> list[int]:
    length = -(-horizon // 24)
    return [
        d
        for d in range(1, (24 * len(retained) - horizon) // 24 + 1)
        if all(retained[d : d + length]) and sum(retained[max(0, d - 7) : d]) >= 3
    ]


@settings(max_examples=50)
@given(st.lists(st.booleans(), max_size=40), st.sampled_from([24, 48, 30]))
def test_the_rules_one_by_one(retained, horizon):
    assert forecast_points.start_days(np.array(retained, bool), horizon) == slowly(retained, horizon)


@pytest.mark.parametrize(
    ("retained", "horizon", "wanted"),
    [
        ([], 24, []),
        ([1], 24, []),  # nothing lies before the only day
        ([1, 1, 1], 24, []),  # two days are not three
        ([1, 1, 1, 1], 24, [3]),
        ([1, 1, 1, 1], 48, []),  # the target would end after the record
        ([1, 1, 1, 1, 1], 48, [3]),
        ([1, 1, 1, *[0] * 7, 1, 1], 24, []),  # whole weeks are missing
        ([1, 1, 1, *[0] * 4, 1, 1], 24, [7, 8]),  # the day itself counts for the next
        ([1, 1, 1, *[0] * 5, 1], 24, []),  # of the week before, two days are left
    ],
)
def test_short_records_and_missing_weeks(retained, horizon, wanted):
    assert forecast_points.start_days(np.array(retained, bool), horizon) == wanted


def test_the_draw_keeps_its_order_and_follows_the_seed():
    records = Records({"b": [1] * 150, "a": [1] * 150, "few": [1] * 20, "none": [1]})
    found = forecast_points.sample(records, 24, seed=42)
    assert list(found) == ["b", "a", "few"]
    assert len(found["b"]) == len(set(found["b"])) == forecast_points.CAP
    assert list(found["b"]) != sorted(found["b"])
    assert found["b"] != found["a"]  # one stream serves both
    assert found["few"] == tuple(range(3, 20))
    assert found == forecast_points.sample(records, 24, seed=42)
    assert found != forecast_points.sample(records, 24, seed=43)
    assert forecast_points.sample(records, 24, cap=None)["a"] == tuple(range(3, 150))
    with pytest.raises(ConfigError, match="cap: expected at least 1"):
        forecast_points.sample(records, 24, cap=0)


def test_the_published_form(tmp_path):
    points = {"u": (11, 3, 14), "v": ()}
    file = forecast_points.write(tmp_path / "index.json", points)
    assert json.loads(file.read_text()) == {"u": [11, 3, 14], "v": []}
    assert forecast_points.read(file) == points
    assert [p.name for p in tmp_path.iterdir()] == ["index.json"]


@pytest.mark.parametrize("content", ["[]", '{"u": 3}', '{"u": [1.5]}', '{"u": [true]}', "{"])
def test_another_content_is_refused(tmp_path, content):
    file = tmp_path / "index.json"
    file.write_text(content)
    with pytest.raises(SourceError, match=r"index.json: "):
        forecast_points.read(file)


def test_a_root_ships_its_points(tmp_path):
    assert forecast_points.shipped(tmp_path, 24) is None
    folder = tmp_path / "forecasting_sample_index"
    folder.mkdir()
    file = folder / "sample_index_P_48_M_H_7_3_S_100.json"
    file.write_text("{}")
    assert forecast_points.shipped(tmp_path, 48) == file
    assert forecast_points.shipped(tmp_path, 24) is None
