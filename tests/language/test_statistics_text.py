import csv
import io

import numpy as np
from made_week import days, hide

from wearjax import channels
from wearjax.language import statistics_text, week
from wearjax.language.week import Week


def test_table_by_hand():
    values = np.full((168, 19), np.nan, np.float32)
    values[:4, 0] = [0, 10, 20, 30]
    values[:, 5] = 60
    values[:84, 7] = 0
    values[:21, 7] = 1
    lines = statistics_text.describe(Week(values)).splitlines()
    assert lines[0] == "channel | unit | mean | std | min | max | coverage"
    assert lines[1] == "iphone_steps | steps/h | 15 | 11.2 | 0 | 30 | 2%"
    assert lines[2] == "iphone_distance | m/h | not measured | | | | 0%"
    assert lines[6] == "watch_hr | bpm | 60 | 0 | 60 | 60 | 100%"
    assert lines[8] == "sleep_asleep | 0/1 | 0.25 | 0.433 | 0 | 1 | 50%"
    assert [line.split(" | ")[0] for line in lines[1:]] == list(channels.NAMES)


def test_csv_reads_back():
    shown = week.fullest_week(hide(days(), 2, slice(3, 9)))
    rows = list(csv.reader(io.StringIO(statistics_text.csv(shown))))
    assert rows[0] == ["day", "hour", *channels.NAMES]
    assert [row[:2] for row in rows[1:]] == [[str(d), str(h)] for d in range(1, 8) for h in range(24)]
    read = np.array([[float(cell or "nan") for cell in row[2:]] for row in rows[1:]])
    np.testing.assert_allclose(read, shown.values, rtol=1e-5)


def test_legend_names_every_channel_and_unit():
    lines = statistics_text.legend().splitlines()
    assert len(lines) == 19
    for line, channel in zip(lines, channels.CHANNELS, strict=True):
        assert line.startswith(f"- {channel.name} ({week.hourly_unit(channel)}): ")
