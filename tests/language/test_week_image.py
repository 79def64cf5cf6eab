import io
import os
import re
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from made_week import days, hide
from matplotlib.image import imread

from wearjax import channels
from wearjax.language import picture, week, week_image
from wearjax.language.week import Week

SHOWN = week.fullest_week(hide(days(), 2, slice(3, 9)))


def drawn(shown, monkeypatch):
    """The figure's axes, by title."""
    kept = {}

    def keep(draw, **options):
        from matplotlib.figure import Figure

        figure = Figure(figsize=options["size"])
        draw(figure)
        kept.update({axes.get_title(loc="left"): axes for axes in figure.axes})
        return b""

    monkeypatch.setattr(picture, "png", keep)
    week_image.render(shown)
    return kept


@pytest.fixture(scope="module")
def png():
    return week_image.render(SHOWN)


def test_same_bytes_whatever_the_settings(png):
    with matplotlib.rc_context({"lines.linewidth": 9, "font.size": 30, "savefig.dpi": 20}):
        assert week_image.render(SHOWN) == png
    assert matplotlib.rcParams["text.parse_math"] is True  # what was set for the figure is undone
    assert png[:4] == b"\x89PNG"
    assert b"Software" not in png


def test_same_bytes_in_another_process(png):
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from made_week import days, hide\n"
        "from wearjax.language import week, week_image\n"
        "shown = week.fullest_week(hide(days(), 2, slice(3, 9)))\n"
        "sys.stdout.buffer.write(week_image.render(shown))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, os.path.dirname(__file__)], capture_output=True, check=True
    )
    assert done.stdout == png


def test_panels_titles_and_limits(monkeypatch):
    panels = drawn(SHOWN, monkeypatch)
    titles = list(panels)
    assert [title.split(" ")[0] for title in titles] == [
        *channels.NAMES[:7], "sleep_asleep", "workout_walking",
    ]  # fmt: skip
    assert all(re.fullmatch(r"\w+ \(\S+\) \[\S+ - \S+\]", title) for title in titles)
    rates = SHOWN.values[:, channels.HEART_RATE]
    assert f"watch_hr (bpm) [{np.nanmin(rates):.0f} - {np.nanmax(rates):.0f}]" in titles
    assert titles[-1] == "workout_walking (0/1) [0 - 1]"
    tops = [axes.get_position().y1 for axes in panels.values()]
    assert tops == sorted(tops, reverse=True)
    for title, axes in panels.items():
        assert not axes.axison
        assert axes.get_legend() is None
        midnights = [line.get_xdata()[0] for line in axes.lines if len(set(line.get_xdata())) == 1]
        assert midnights == [24, 48, 72, 96, 120, 144]
        low, high = axes.get_ylim()
        if title.startswith(("sleep", "workout")):
            assert (low, high) == (0, 1)
        else:
            values = SHOWN.values[:, channels.INDEX[title.split(" ")[0]]]
            assert low < np.nanmin(values) or np.nanmin(values) == np.nanmax(values)
            assert high > np.nanmax(values)


def test_missing_hours_are_gaps_and_flags_are_filled_hours(monkeypatch):
    panels = list(drawn(SHOWN, monkeypatch).values())
    line = next(line for line in panels[5].lines if len(line.get_xdata()) == 168)
    np.testing.assert_array_equal(np.isnan(line.get_ydata()), np.isnan(SHOWN.values[:, 5]))
    edges = [path.get_extents() for path in panels[-1].collections[0].get_paths()]
    assert [(box.x0, box.x1) for box in edges] == [(24 * d + 12, 24 * d + 13) for d in range(7)]
    asleep = [path.get_extents() for path in panels[-2].collections[0].get_paths()]
    assert (asleep[2].x0, asleep[2].x1) == (48, 51)  # hidden from hour 3 on
    assert (asleep[3].x0, asleep[3].x1) == (72, 79)


def test_a_lone_hour_is_seen_and_a_channel_without_any_says_so(monkeypatch):
    values = np.full((168, 19), np.nan, np.float32)
    values[50, 0] = 7
    panels = drawn(Week(values), monkeypatch)
    assert list(panels)[:2] == ["iphone_steps (steps/h) [7 - 7]", "iphone_distance (m/h) [not measured]"]
    assert len(panels) == 7
    dots = panels["iphone_steps (steps/h) [7 - 7]"].lines[-1]
    assert (list(dots.get_xdata()), list(dots.get_ydata()), dots.get_marker()) == ([50.5], [7.0], ".")


def test_colours_are_unique_and_seen(png):
    assert len(set(week_image.COLOURS)) == 19
    pixels = imread(io.BytesIO(png))[:, :, :3]
    found = set(np.unique((pixels * 255).round().astype(int) @ [1 << 16, 1 << 8, 1]))
    for channel in week_image.shown_channels(SHOWN):
        if channel != 2:  # a flat line at zero is thin
            assert int(week_image.COLOURS[channel][1:], 16) in found


def test_numbers_are_short():
    cases = {0.4567: "0.457", 5.05: "5.05", 30.74: "30.7", 1255.4: "1255", 0.0: "0", 2.0: "2", -0.0001: "0",
             100000.0: "100000", -3.5: "-3.5"}  # fmt: skip
    assert {value: week_image.shorten(value) for value in cases} == cases
