import warnings
import xml.etree.ElementTree as ElementTree

import fake_run_folder
import matplotlib
import numpy as np
import pytest

from wearjax.report import day_figure, figures, run_folder, tables, words

XLINK = 'xmlns:xlink="x" '


def parsed(svg):
    return ElementTree.fromstring(svg.replace("<svg ", f"<svg {XLINK}", 1))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_folder.read(fake_run_folder.write_evaluation(tmp_path_factory.mktemp("r") / "run", days=2))


def test_drawing_leaves_settings_and_pyplot_alone(run):
    before = dict(matplotlib.rcParams)
    first = figures.loss_curves([run])
    assert dict(matplotlib.rcParams) == before
    with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9, "text.usetex": True}):
        assert figures.loss_curves([run]) == first


def test_every_figure_is_well_formed(run):
    rows = tables.entries([run])
    colours = words.colours(r.label for r in rows)
    day = day_figure.draw(
        run.gallery, 0, [0, 5, 6, 7], ["lsm2", "linear", "locf"], colours, filled=False, name="d"
    )
    drawn = [
        figures.scenario_bars(rows, tables.scenario_scopes(rows), colours, baseline="locf"),
        figures.channel_hours(run.coverage, name="h"),
        figures.participant_days(run.coverage, name="p"),
        figures.loss_curves([run, run]),
        figures.throughput([run]),
        day,
    ]
    for svg in drawn:
        root = parsed(svg)
        assert root.get("role") == "img"
        assert root.get("aria-label")
    for colour in ("lsm2", "linear", "locf"):
        assert colours[colour].lower() in day


def test_lonely_minutes_are_drawn():
    values = np.full(1440, np.nan)
    values[[10, 500]] = 1.0
    lines = []

    class Axes:
        def plot(self, x, y, **style):
            lines.append((x, y))

    day_figure._line(Axes(), values)
    ((x, y),) = lines
    assert np.isfinite(x).sum() == 4  # two dashes
    assert np.nanmax(np.diff(x[:2])) > 0
    assert y[0] == 1.0


def test_lines_run_through_a_given_stretch():
    values = np.full(1440, np.nan)
    values[[3, 5, 9]] = (1.0, 2.0, 3.0)
    lines = []

    class Axes:
        def plot(self, x, y, **style):
            lines.append((x.tolist(), y.tolist()))

    day_figure._line(Axes(), values, [(3, 6), (9, 10)])
    ((x, y),) = lines
    assert x[:2] == [3.5, 5.5]
    assert y[:2] == [1.0, 2.0]
    assert np.isnan(x[2])
    assert x[3:5] == [8.3, 10.7]


def test_shade_joins_over_unmeasured_minutes_only():
    target = np.asarray([0, 1, 0, 1, 0, 1, 0, 0], bool)
    unmeasured = np.asarray([1, 0, 1, 0, 0, 0, 1, 1], bool)
    assert day_figure._joined(target, unmeasured).tolist() == [
        False,
        True,
        True,
        True,
        False,
        True,
        False,
        False,
    ]
    assert day_figure._runs(target) == [(1, 2), (3, 4), (5, 6)]


def test_axis_follows_recordings_not_wild_imputations():
    truth = np.linspace(50, 150, 1440)
    wild = np.full(1440, 60.0)
    wild[0] = 1e9
    low, high = day_figure._limits([truth, wild], binary=False)
    assert low < 50
    assert 150 < high < 200
    assert day_figure._limits([np.full(3, np.nan)], binary=False) == (-0.06, 1.06)
    assert day_figure._limits([truth], binary=True) == (-0.15, 1.15)


def test_numbers_beyond_the_axis_are_written_at_the_bar(run):
    rows = tables.entries([run])
    svg = figures.scenario_bars(rows, ["random_noise"], words.colours(r.label for r in rows), baseline="locf")
    texts = [t.text for t in parsed(svg).iter("text")]
    mean = next(r for r in rows if r.label == "mean").skill("random_noise")
    assert f"◂ {tables.percent(mean.mean)}" in texts
    assert "reference" in texts


def test_extreme_inputs_are_drawn_without_warnings(run):
    table = dict(run.coverage)
    table["participant_day"] = np.full((50, 1), np.nan)
    table["participants"] = np.asarray([f"日本{i}" for i in range(50)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parsed(figures.participant_days(table, name="a"))
        parsed(
            figures.participant_days(
                table | {"participant_day": np.zeros((0, 0)), "participants": []}, name="b"
            )
        )
        nothing = run_folder.RunFolder(
            "r", {}, {}, [{"step": 1, "loss": float("nan")}], 0, None, None, None, frozenset()
        )
        parsed(figures.loss_curves([nothing]))
        parsed(figures.throughput([nothing]))


def test_series_leaves_out_lines_without_a_finite_value():
    metrics = [
        {"step": 1, "loss": 2.0},
        {"step": 2},
        {"step": 3, "loss": float("nan")},
        {"step": 4, "loss": "x"},
    ]
    metrics += [{"step": 5, "loss": 1.0, "split": "validation"}]
    run = run_folder.RunFolder("r", {}, {}, metrics, 0, None, None, None, frozenset())
    assert [a.tolist() for a in figures.series(run, "loss", "train")] == [[1.0], [2.0]]
    assert [a.tolist() for a in figures.series(run, "loss", "validation")] == [[5.0], [1.0]]


def test_words_between_tags_stay_as_they_are(run):
    names = ["1.23456", ' id="x" href="#y"', "font: 8px 'a'", "-->"]
    table = dict(run.coverage) | {"participants": np.asarray(names), "participant_day": np.zeros((4, 3))}
    texts = [t.text for t in parsed(figures.participant_days(table, name="w")).iter("text")]
    assert {words.short(name, 16) for name in names} <= set(texts)
