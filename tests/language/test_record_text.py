"""Layouts of a daily record: a golden toy, and that every printed number reads back."""

from __future__ import annotations

import csv as csv_reader

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from wearjax.daily_metrics import BY_KEY, INDEX, METRICS, N_METRICS
from wearjax.language import record_text
from wearjax.sources.daily_record import DailyRecord

DAY = 19_786  # 2024-03-04


def record_of(rows: dict[int, dict[str, float]]) -> DailyRecord:
    values = np.full((len(rows), N_METRICS), np.nan)
    for i, row in enumerate(rows.values()):
        for key, value in row.items():
            values[i, INDEX[key]] = value
    return DailyRecord("toy", np.array(list(rows), np.int64), values)


TOY = record_of(
    {
        DAY: {"steps": 1255.4, "rhr": 61, "sleep_duration": 5.05, "deep_percentage": 30.74},
        DAY + 1: {"steps": 8412, "sleep_duration": 0.4567},
        DAY + 3: {"rhr": 58.26, "deep_percentage": 19},
    }
)
SHOWN = record_text.table(TOY, DAY + 3, window=2, history=2)


def test_row():
    assert record_text.row(SHOWN) == (
        "2024-03-04: Deep%=30.7, RHR=61, Sleep(h)=5.05, Steps=1255\n"
        "2024-03-05: Sleep(h)=0.457, Steps=8412\n"
        "2024-03-07: Deep%=19, RHR=58.3"
    )


def test_col():
    assert record_text.col(SHOWN) == (
        "Deep%: 2024-03-04=30.7, 2024-03-07=19\n"
        "RHR: 2024-03-04=61, 2024-03-07=58.3\n"
        "Sleep(h): 2024-03-04=5.05, 2024-03-05=0.457\n"
        "Steps: 2024-03-04=1255, 2024-03-05=8412"
    )


def test_csv():
    assert record_text.csv(SHOWN) == (
        "date,Deep%,RHR,Sleep(h),Steps\n"
        "2024-03-04,30.7,61,5.05,1255\n"
        "2024-03-05,,,0.457,8412\n"
        "2024-03-07,19,58.3,,"
    )


MARKDOWN = (
    "| date | Deep% | RHR | Sleep(h) | Steps |\n"
    "|---|---|---|---|---|\n"
    "| 2024-03-04 | 30.7 | 61 | 5.05 | 1255 |\n"
    "| 2024-03-05 |  |  | 0.457 | 8412 |\n"
    "| 2024-03-07 | 19 | 58.3 |  |  |"
)


def test_markdown():
    assert record_text.markdown(SHOWN) == MARKDOWN


def test_markdown_with_summary():
    table, summary = record_text.markdown_stats(SHOWN).split("\n\n")
    assert table == MARKDOWN
    assert summary == (
        "| metric | n | mean | SD | min | max | slope per day | mean of latest 2 days | mean of previous 2 days | "
        "difference |\n"
        "|---|---|---|---|---|---|---|---|---|---|\n"
        "| Deep% | 2 | 24.9 | 8.30 | 19 | 30.7 | -3.9133 | 19 | 30.7 | -11.7 |\n"
        "| RHR (bpm) | 2 | 59.6 | 1.94 | 58.3 | 61 | -0.9133 | 58.3 | 61 | -2.74 |\n"
        "| Sleep(h) | 2 | 2.75 | 3.25 | 0.457 | 5.05 | -4.5933 |  | 2.75 |  |\n"
        "| Steps | 2 | 4834 | 5060 | 1255 | 8412 | 7156.6000 |  | 4834 |  |"
    )


def test_a_single_day_has_no_spread_and_no_slope():
    shown = record_text.table(record_of({DAY: {"hrv": 41.2}}), DAY, window=28, history=0)
    assert (
        record_text.summary(shown).splitlines()[2]
        == "| HRV (ms) | 1 | 41.2 |  | 41.2 | 41.2 |  | 41.2 |  |  |"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.4567, "0.457"), (5.05, "5.05"), (30.74, "30.7"), (1255.0, "1255"), (1255.4, "1255"), (0.0, "0"),
        (7.5, "7.50"), (-0.0001, "0.000"), (-12.34, "-12.3"), (999.97, "1000.0"),
    ],
)  # fmt: skip
def test_number_format(value, text):
    assert record_text.number(value) == text


def test_which_days_and_metrics_are_shown():
    one = record_text.table(TOY, DAY + 1, window=1, history=0)
    assert (one.dates.tolist(), one.keys) == ([DAY + 1], ("sleep_duration", "steps"))
    assert record_text.table(TOY, DAY + 3, window=2, history=1).dates.tolist() == [DAY + 1, DAY + 3]
    hidden = record_text.table(TOY, DAY + 3, window=2, history=2, hidden=("rhr", "deep_percentage"))
    assert (hidden.dates.tolist(), hidden.keys) == ([DAY, DAY + 1], ("sleep_duration", "steps"))
    inside = record_text.table(TOY, DAY + 3, window=2, history=2, hidden_in_window=("rhr",))
    assert record_text.row(inside).splitlines()[2] == "2024-03-07: Deep%=19"
    assert "RHR=61" in record_text.row(inside)
    assert np.isfinite(TOY.values[2, INDEX["rhr"]])  # the record itself is left alone
    assert record_text.row(SHOWN.of_window()) == "2024-03-07: Deep%=19, RHR=58.3"


Cells = dict[tuple[str, str], str]


def cells_of(shown) -> Cells:
    """Every measured cell, printed."""
    return {
        (record_text.date(day), BY_KEY[key].label): record_text.number(value)
        for day, values in zip(shown.dates, shown.values.tolist(), strict=True)
        for key, value in zip(shown.keys, values, strict=True)
        if value == value
    }


def parsed_row(text: str) -> Cells:
    found = {}
    for line in text.splitlines():
        day, rest = line.split(": ", 1)
        found |= {(day, pair.split("=")[0]): pair.split("=")[1] for pair in rest.split(", ")}
    return found


def parsed_col(text: str) -> Cells:
    return {(b, a): v for (a, b), v in parsed_row(text).items()}


def parsed_table(rows: list[list[str]]) -> Cells:
    head = rows[0]
    return {
        (row[0], label): cell
        for row in rows[1:]
        for label, cell in zip(head[1:], row[1:], strict=True)
        if cell
    }


def parsed_markdown(text: str) -> Cells:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    return parsed_table([rows[0], *rows[2:]])


@settings(max_examples=30)
@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 5), st.just(N_METRICS)),
        elements=st.one_of(st.just(np.nan), st.floats(0, 50_000), st.integers(0, 9999).map(float)),
    ),
    st.sets(st.sampled_from([m.key for m in METRICS]), max_size=4),
)
def test_all_layouts_parse_back(values, hidden):
    record = DailyRecord("u", DAY + np.arange(len(values)) * 3, values)
    shown = record_text.table(record, int(record.dates[-1]), window=28, history=28, hidden=hidden)
    expected = cells_of(shown)
    assert len(expected) == sum(
        np.isfinite(values[:, INDEX[m.key]]).sum() for m in METRICS if m.key not in hidden
    )
    assert parsed_row(record_text.row(shown)) == expected
    assert parsed_col(record_text.col(shown)) == expected
    assert parsed_table(list(csv_reader.reader(record_text.csv(shown).splitlines()))) == expected
    assert parsed_markdown(record_text.markdown(shown)) == expected
    assert parsed_markdown(record_text.markdown_stats(shown).split("\n\n")[0]) == expected
    for (day, label), text in expected.items():
        row = int(np.datetime64(day, "D").astype(int) - DAY) // 3
        key = next(m.key for m in METRICS if m.label == label)
        true = values[row, INDEX[key]]
        step = 0.001 if abs(true) < 1 else 0.01 if abs(true) < 10 else 0.1 if abs(true) < 1000 else 1
        assert abs(float(text) - true) <= step / 2 + 1e-9
