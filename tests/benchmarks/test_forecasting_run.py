"""The pass over the participants: gaps filled, methods kept apart, and an interruption that changes nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest
from made_records import Level, hours, write_root

from wearjax.benchmarks.openmhc import parts
from wearjax.benchmarks.openmhc.forecasting_cases import Cases
from wearjax.benchmarks.openmhc.forecasting_parts import ForecastingParts
from wearjax.benchmarks.openmhc.forecasting_run import Run
from wearjax.errors import ConfigError, MethodError
from wearjax.predict.forecasters.seasonal_naive import SeasonalNaive
from wearjax.segments import forecast_points, trajectories

KEY = {"data": "d", "horizon": 24}


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    root = write_root(tmp_path_factory.mktemp("data") / "root")
    points = forecast_points.read(forecast_points.shipped(root, 24))
    return Cases(trajectories.open_trajectories(root), points, ("plain", "weeks", "zeros"), horizon=24)


def passed(cases, methods, out=None, key=KEY) -> Run:
    run = Run({"seasonal_naive": SeasonalNaive(), **methods}, cases)
    run.all_participants(lambda done, total: None, None if out is None else ForecastingParts(out, key))
    return run


def assert_same(found: Run, wanted: Run) -> None:
    a, b = found.table.finish(found.scale), wanted.table.finish(wanted.scale)
    assert (a.methods, a.participants) == (b.methods, b.participants)
    for name, values in b.values.items():
        assert a.values[name].tobytes() == values.tobytes(), name
    np.testing.assert_array_equal(a.substituted, b.substituted)
    assert json.dumps(a.by_window) == json.dumps(b.by_window)
    assert found.counts == wanted.counts
    shown, expected = (run.gallery.arrays(tuple(run.methods)) for run in (found, wanted))
    assert shown.keys() == expected.keys()
    assert all(shown[name].tobytes() == array.tobytes() for name, array in expected.items())


def test_every_method_sees_whole_histories_in_arrays_of_its_own(cases):
    first, second = Level(), Level()
    assert_same(passed(cases, {"a": first, "b": second}), passed(cases, {"a": Level(), "b": Level()}))
    assert first.asked == [10, 3, 27, 8, 15, 3, 25, 5, 6]
    run = passed(cases, {"a": Level(), "b": Level()})
    metrics = run.table.finish(run.scale)
    np.testing.assert_array_equal(metrics.values["mae"][1], metrics.values["mae"][2])


def test_the_error_is_the_distance_to_the_next_day(cases):
    run = passed(cases, {"a": Level(2.0)}, None)
    values = cases.windows("plain").values.astype(np.float64)
    wanted = []
    for day in (10, 3, 27, 8, 15):
        mean = np.nanmean(values[6, : day * 24])
        wanted.append(np.abs(values[6, day * 24 : day * 24 + 24] - mean - 2))
    wanted = np.concatenate(wanted)
    assert np.isnan(wanted).any()
    found = run.table.finish(run.scale)
    assert found.values["mae"][1, 6, found.participants.index("plain")] == pytest.approx(np.nanmean(wanted))


@pytest.mark.parametrize("none", [True, False])
def test_what_is_not_forecast_comes_from_seasonal_naive_and_is_counted(cases, none):
    class Silent(Level):
        def predict(self, history, horizon, *, index_days):
            super().predict(history, horizon, index_days=index_days)
            return None if none else np.full((19, horizon), np.inf)

    found = passed(cases, {"a": Silent(), "b": Level(holes=(slice(0, 3), slice(0, 6)))})
    metrics = found.table.finish(found.scale)
    np.testing.assert_array_equal(metrics.values["mae"][1], metrics.values["mae"][0])
    np.testing.assert_array_equal(metrics.values["auroc"][1], metrics.values["auroc"][0])
    assert metrics.substituted.sum(axis=1).tolist() == [0, 9 * 24 * 19, 9 * 6 * 3]
    assert metrics.substituted[2].tolist() == [54, 54, 54, *[0] * 16]
    assert metrics.fallback_rate("b") == pytest.approx(3 * 6 / (19 * 24))


def test_all_zero_and_constant_channels_and_missing_weeks_are_scored_or_absent(cases):
    found = passed(cases, {})
    metrics = found.table.finish(found.scale)
    zeros, weeks = (metrics.participants.index(p) for p in ("zeros", "weeks"))
    mae = metrics.values["mae"][0]
    assert np.isnan(mae[0, zeros])  # zero everywhere means not carried
    assert mae[2, zeros] == 0.0  # flights may be zero
    assert mae[3, zeros] == 0.0
    assert np.isnan(metrics.values["auroc"][0, 9, zeros])  # one class
    assert np.isfinite(mae[[0, 1, 2], weeks]).all()
    assert np.isfinite(found.scale.whole()).any()


def test_a_batch_method_gets_a_participant_at_once(cases):
    seen = []

    class Batched(Level):
        def predict_batch(self, histories, horizon, *, index_days):
            seen.append(index_days)
            assert not any(history.flags.writeable for history in histories)
            return [
                self.predict(h.copy(), horizon, index_days=d)
                for h, d in zip(histories, index_days, strict=True)
            ]

    run = passed(cases, {"a": Batched(), "b": Level()})
    assert seen == [[10, 3, 27, 8, 15], [3, 25], [5, 6]]
    metrics = run.table.finish(run.scale)
    np.testing.assert_array_equal(metrics.values["mae"][1], metrics.values["mae"][2])


def test_a_method_is_told_that_a_participant_is_over_and_counts_add_up(cases, tmp_path):
    class Counting(Level):
        def __init__(self, **options):
            super().__init__(**options)
            self.resets, self.counts = 0, {"series": 100, "failed": 0}  # from some earlier use

        def predict(self, history, horizon, *, index_days):
            self.counts["series"] += 19
            return super().predict(history, horizon, index_days=index_days)

        def reset(self):
            self.resets += 1

    method = Counting()
    run = passed(cases, {"a": method})
    assert method.resets == 3
    assert run.counts["a"] == {"series": 19 * 9, "failed": 0}
    assert run.seconds["a"] > 0
    with pytest.raises(KeyboardInterrupt):
        passed(cases, {"a": Counting(stops_at=(25, 6))}, tmp_path)
    again = passed(cases, {"a": Counting()}, tmp_path)
    assert again.counts["a"] == {"series": 19 * 9, "failed": 0}


def test_progress_counts_forecasts(cases):
    told = []
    Run({"a": Level(), "b": Level()}, cases).all_participants(lambda *step: told.append(step))
    assert told == [(0, 18), (10, 18), (14, 18), (18, 18)]  # as participants are complete


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_the_same_methods_go_on_where_they_were_stopped(cases, tmp_path, error):
    wanted = passed(cases, {"a": Level()})
    stopped = Level(stops_at=(25, 6), error=error)  # the second window of `weeks`
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else MethodError):
        passed(cases, {"a": stopped}, tmp_path)
    again = Level()
    assert_same(passed(cases, {"a": again}, tmp_path), wanted)
    # The first window of all is asked once more, to see whether this is the method that began.
    assert again.asked == [10, 3, 25, 5, 6]


def test_methods_may_join_and_the_finished_are_not_asked(cases, tmp_path):
    wanted = passed(cases, {"a": Level(), "b": Level(1.0)})
    with pytest.raises(KeyboardInterrupt):
        passed(cases, {"a": Level(stops_at=(5, 7))}, tmp_path)
    first, second = Level(), Level(1.0)
    assert_same(passed(cases, {"a": first, "b": second}, tmp_path), wanted)
    assert first.asked == [10, 5, 6]
    assert second.asked == [10, 3, 27, 8, 15, 3, 25, 5, 6]


def test_what_is_complete_is_written_along_the_way(cases, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "SECONDS", 0.0)
    monkeypatch.setattr(parts, "_SHARE", np.inf)
    saved = []

    class Watching(Level):
        def predict(self, history, horizon, *, index_days):
            saved.append(len(list(tmp_path.glob("parts/*/*.parquet"))))
            return super().predict(history, horizon, index_days=index_days)

    passed(cases, {"a": Watching()}, tmp_path)
    # A part a participant: the scale; errors and example windows of the baseline and of the method.
    assert saved == [*[0] * 5, *[5] * 2, *[10] * 2]


def test_another_method_of_the_same_name_does_not_go_on(cases, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        passed(cases, {"a": Level(stops_at=(5, 7))}, tmp_path)
    with pytest.raises(ConfigError, match=r"'a' now forecasts other values.*force"):
        passed(cases, {"a": Level(1.5)}, tmp_path)
    other = SeasonalNaive(seasons_max=3)
    with pytest.raises(ConfigError, match=r"'a' with another class .*Level, now .*SeasonalNaive"):
        passed(cases, {"a": other}, tmp_path)
    with pytest.raises(ConfigError, match=r"'seasonal_naive' with another seasons_max \(7, now 3\)"):
        passed(cases, {"seasonal_naive": other}, tmp_path)


def test_other_settings_do_not_go_on(cases, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        passed(cases, {"a": Level(stops_at=(5, 7))}, tmp_path)
    with pytest.raises(ConfigError, match=r"another horizon \(24, now 48\).*force"):
        ForecastingParts(tmp_path, {**KEY, "horizon": 48})


def test_a_broken_part_is_named(cases, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        passed(cases, {"a": Level(stops_at=(5, 7))}, tmp_path)
    next((tmp_path / "parts" / "scale").iterdir()).write_bytes(b"PAR1 cut off")
    with pytest.raises(ConfigError, match=r"part-00000.parquet: not readable"):
        passed(cases, {"a": Level()}, tmp_path)


def test_a_method_of_another_horizon_is_refused_at_once(cases):
    method = Level()
    method.n_pred_steps = 48
    with pytest.raises(MethodError, match="a: forecasts 48 hours"):
        Run({"a": method}, cases)


def test_errors_name_method_participant_and_day(cases):
    with pytest.raises(MethodError, match=r"a.predict, participant weeks, day 25: ValueError: stopped"):
        passed(cases, {"a": Level(stops_at=(25, 6), error=ValueError)})


def test_the_example_records_are_what_the_tests_think():
    assert np.nansum(hours(28, 0)[:, 7]) > 180
    assert (hours(28, 0)[:, 5] != 0).all()
