"""The page of a person's days: calendar, trend and band of golden small cases, and the page as a whole."""

from __future__ import annotations

import html.parser
import json

import numpy as np
import pytest
from made_days import made_day

from wearjax.channels import ENERGY, HEART_RATE, INDEX
from wearjax.days import check, importing
from wearjax.errors import WearjaxError
from wearjax.predict import fill, hidden_errors
from wearjax.report import calendar_figure, person_figures, trend, your_days
from wearjax.report.run_folder import Gallery
from wearjax.segments import person_days
from wearjax.sources import minute_grid
from wearjax.sources.tally import Tally

DAY = 19_858  # 2024-05-15, a Wednesday


@pytest.mark.parametrize(
    ("hours", "kind"), [(0, 0), (0.1, 1), (6, 1), (6.1, 2), (12, 2), (18, 3), (18.5, 4), (24, 4)]
)
def test_classes_of_the_calendar(hours, kind):
    assert calendar_figure.colour_class(hours) == kind


def test_a_calendar_has_a_cell_for_every_day():
    blocks = calendar_figure.half_years([DAY, DAY + 60], [20.0, 0.0], what="worn")
    assert [b.title for b in blocks] == ["2024, January to June", "2024, July to December"]
    first, second = (b.svg for b in blocks)
    assert (first.count("<rect"), second.count("<rect")) == (182, 184)
    assert first.count('class="o"') == 181
    assert "<title>2024-05-15: 20.0 h worn</title>" in first
    assert "2024-07-14: 0.0 h worn" in second
    column, row = (135 + 0) // 7, 2  # January 1 is a Monday; May 15 is the 136th day
    place = f'x="{26 + 12 * column + 0.5}" y="{16 + 12 * row + 0.5}"'
    assert f'{place} width="10" height="10" rx="1.5" fill="{calendar_figure.COLOURS[4]}"' in first
    assert calendar_figure.half_years([DAY], [np.nan], what="worn") == []


def test_zeros_that_an_import_assumed_are_not_called_measured_by_the_check(tmp_path):
    for notes, known_as in (((), "measured"), ((minute_grid.ABSENT_NOTE,), "measured or taken as 0")):
        tally = Tally()
        for note in notes:
            tally.note(note)
        store = importing.write_days([made_day("a", 0)], tmp_path / known_as[-1], provenance={}, tally=tally)
        assert known_as in check.check_days(store).rows[0]


def test_a_calendar_over_a_turn_of_the_year():
    blocks = calendar_figure.half_years([19_722, 19_724], [5.0, 5.0], what="worn")  # 2023-12-31, 2024-01-02
    assert [b.title for b in blocks] == ["2023, July to December", "2024, January to June"]


@pytest.mark.parametrize(
    ("values", "weights", "expected"),
    [([1, 2, 3], [1, 1, 1], 2), ([1, 2, 3], [5, 1, 1], 1), ([3, 1, 2], [1, 1, 1], 2), ([1, 9], [1, 1], 1)],
)
def test_weighted_median(values, weights, expected):
    assert trend.weighted_median(np.array(values, float), np.array(weights, float)) == expected


def test_the_course_is_not_moved_by_an_odd_day_and_bridges_no_long_gap():
    date = np.concatenate([np.arange(20), np.arange(60, 80)])
    value = np.where(date < 30, 60.0, 66.0)
    value[10] = 140
    at = np.arange(80)
    course = trend.smooth(date, value, at)
    assert np.all(course[:20] == 60)
    assert np.all(course[60:] == 66)
    assert np.isnan(course[34:46]).all()
    assert np.isnan(trend.smooth(date[:4], value[:4], at)).all()


def test_a_day_that_cannot_be_leaves_the_others_readable():
    steps = np.array([8000.0, 7000, 9000, 1e6, 8500, np.nan, 8200])
    assert person_figures.usual_range(steps) == (7000, 9000)
    assert person_figures.usual_range(np.full(3, 5.0)) == (5, 5)
    rates = np.array([58.0, 60, 61, 280, 59, np.nan, 62])
    n = len(steps)
    days = person_days.PersonDays(
        np.full(n, "a"), DAY + np.arange(n), *np.full((3, n), 20.0), steps, np.full(n, 7.0), rates
    )
    shown = person_figures.bars(days, "steps", name="s")
    assert "beyond the axis, up to 1,000,000" in shown
    assert "beyond the axis" not in person_figures.bars(days, "sleep_hours", name="d")
    assert "1 day beyond the axis: 280" in person_figures.resting_heart_rate(days, name="h")


def test_many_days_become_weeks():
    date = np.arange(DAY - 2, DAY - 2 + 210)  # begins on a Monday
    at, height, width = person_figures.by_bar(date, np.arange(210.0))
    assert width == 7
    assert at.tolist() == list(range(DAY - 2, DAY - 2 + 210, 7))
    assert height[:2].tolist() == [3, 10]
    assert person_figures.by_bar(date[:100], np.arange(100.0))[2] == 1


def made_errors(low=-0.1, high=0.2):
    shape = (19, 5)
    out = {name: np.full(shape, np.nan) for name in hidden_errors.HiddenErrors.__dataclass_fields__}
    out["minutes"], out["days"] = np.zeros(shape, int), np.zeros(shape, int)
    out["low"][HEART_RATE, 1], out["high"][HEART_RATE, 1] = low, high
    out["minutes"][HEART_RATE, 1], out["days"][HEART_RATE, 1], out["inside"][HEART_RATE, 1] = 500, 5, 0.88
    return hidden_errors.HiddenErrors(**out)


def test_the_band_lies_where_a_measurement_would_have_been():
    values = np.full((1, 19, 1440), np.nan, np.float32)
    values[0, HEART_RATE] = 1.0
    values[0, HEART_RATE, 100:130] = np.nan  # half an hour: the class that has an interval
    values[0, HEART_RATE, 300:305] = np.nan  # and one that has none
    target = np.isnan(values)
    filled = {"lsm2": np.where(target, np.float32(1.1), values)}
    days = Gallery(values, target, ["x"], ["me"], ["2024-05-15"], filled)
    low, high = your_days.band(days, 0, "lsm2", made_errors())
    assert low[HEART_RATE, 100] == pytest.approx(0.9)  # filled is at most 0.2 too high ...
    assert high[HEART_RATE, 129] == pytest.approx(1.2)  # ... or 0.1 too low
    assert np.isnan(low[HEART_RATE, [99, 130, 301]]).all()
    assert np.isnan(low[ENERGY]).all()
    cut, _ = your_days.band(days, 0, "lsm2", made_errors(high=9.0))
    assert cut[HEART_RATE, 100] == 0  # no negative heart rates


def test_channels_that_a_person_never_recorded_are_not_shown():
    values = np.full((19, 1440), np.nan, np.float32)
    values[INDEX["watch_steps"]] = 5
    values[INDEX["workout_yoga"]] = 0
    ever = ~np.isnan(values).all(axis=1)
    shown = your_days.shown_channels(values, np.isnan(values), np.nan_to_num(values), ever)
    assert shown == [INDEX["watch_steps"]]


class Mean:
    def impute(self, data, observed_mask, target_mask):
        return np.where(target_mask, np.float32(1.2), data).astype(np.float32)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("yours")
    days = (made_day("Jane <b>", d) for d in range(6))
    store = importing.write_days(days, folder / "days", provenance={}, tally=Tally())
    fill.fill_days(Mean(), store, folder / "run", method="mean", config={})
    person_days.save(person_days.of_days(store), folder / "run" / your_days.DAYS_FILE)
    errors = hidden_errors.measure(Mean(), store)
    hidden_errors.save(errors, folder / "run" / your_days.ERRORS_FILE)
    return folder / "run"


class Reader(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links, self.open = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [v for k, v in attrs if k in ("src", "href", "xlink:href", "srcset", "action")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [v for k, v in attrs if k in ("src", "href", "xlink:href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_one_file_without_scripts(run, monkeypatch):
    monkeypatch.setattr(your_days, "_EXAMPLES", 1)
    text = your_days.write(run).read_text()
    page = Reader()
    page.feed(text)
    assert page.open == []
    assert "script" not in page.tags
    assert all(link.startswith(("#", "data:image/")) for link in page.links)
    assert "viewport" in text
    assert "http:" not in text.replace("http://www.w3.org", "")
    for phrase in (
        "What the band is",
        "On 6 of your days",
        "6 recorded days from 2021-03-01 to 2021-03-06: 100%",
    ):
        assert phrase in text, phrase
    assert "Jane <b>" not in text
    first = text
    assert your_days.write(run).read_text() == first


def test_the_page_without_errors_and_of_several_people(run, tmp_path):
    for name in ("results.json", "config.json"):
        (tmp_path / name).write_text((run / name).read_text())
    (tmp_path / "predictions").mkdir()
    days = (made_day(name, d) for name in ("a", "b", "c", "d") for d in range(2))
    store = importing.write_days(days, tmp_path / "days", provenance={}, tally=Tally())
    assert not your_days.is_run(tmp_path)
    person_days.save(person_days.of_days(store), tmp_path / your_days.DAYS_FILE)
    assert your_days.is_run(tmp_path)
    text = your_days.write(tmp_path).read_text()
    assert "Days of 4 people" in text
    assert "1 more people are not shown" in text
    assert "Filled days" not in text


def test_a_folder_that_is_no_such_run(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({}))
    with pytest.raises(WearjaxError, match="missing"):
        your_days.write(tmp_path)
