"""Persistence on surgeries small enough to work out by hand."""

from __future__ import annotations

import numpy as np

from wearjax.predict.vital_persistence import Persistence
from wearjax.segments import vital_scaled
from wearjax.segments.vital_settings import VitalSettings

CONTEXT = 3


def surgeries(settings: VitalSettings, *records) -> vital_scaled.ScaledCases:
    """One covariate before the targets that are given; every target's extremes are 0 and 10."""
    made = [np.column_stack([np.arange(1.0, len(r) + 1), r]).astype(np.float32) for r in records]
    return vital_scaled.prepare("abc"[: len(made)], made.__getitem__, made[0].shape[1] - 1, settings)


def last(cases, case=0, settings=VitalSettings()):  # noqa: B008 (frozen)
    return Persistence(CONTEXT, 1, settings).last(cases, case)


def test_the_last_observed_value_of_the_context_is_kept_and_no_older_one():
    record = np.array([[4, 0], [0, 10], [0, 2], [0, 0], [10, 0], [0, 0], [0, 0]])
    found = last(surgeries(VitalSettings(), record))
    # 4 is out of sight of the fourth row; nothing observed is 0, the mark of a missing value
    np.testing.assert_allclose(found[:, 0] * 10, [4, 4, 4, 0, 10, 10, 10], rtol=1e-6)
    np.testing.assert_allclose(found[:, 1] * 10, [0, 10, 2, 2, 2, 0, 0], rtol=1e-6)
    assert found.dtype == np.float32


def test_without_an_observation_filled_inputs_are_averaged():
    settings = VitalSettings(imputation="ffill", impute_targets=False)
    record = np.array([[10, 1], [4, 10], [0, 1], [0, 1], [0, 1]])
    cases = surgeries(settings, record)
    assert not cases.observed[2:, 0].any()
    np.testing.assert_allclose(last(cases, settings=settings)[:, 0] * 10, [10, 4, 4, 4, 4], rtol=1e-6)
    settings = VitalSettings(imputation="mean", impute_targets=False)
    cases = surgeries(settings, record)
    np.testing.assert_allclose(last(cases, settings=settings)[4, 0] * 10, 7, rtol=1e-6)


def test_every_window_repeats_it_for_the_scored_targets_of_each_surgery():
    rng = np.random.default_rng(0)
    settings = VitalSettings()
    cases = surgeries(settings, *(rng.uniform(1, 10, (n, 3)) for n in (7, 2, 5)))
    for incomplete in (False, True):
        model = Persistence(CONTEXT, 2, settings, incomplete=incomplete)
        if incomplete:
            cases = vital_scaled.prepare(
                "abc", lambda i: rng.uniform(1, 10, (7, 5)).astype(np.float32), 3, settings
            )
        views = model.views(cases)
        for case, seen, forecast in model.forecasts(cases, views=views):
            assert seen is views[case]
            scored = np.sort(seen.channels[seen.scored]) - (cases.n_channels - cases.n_targets)
            n = int(cases.windows_of(2)[case])
            assert forecast.shape == (n, 2, len(scored))
            expected = model.last(cases, case)[:n, scored]
            np.testing.assert_array_equal(forecast, np.repeat(expected[:, None], 2, axis=1))
            ahead = model.ahead(cases, case, seen)
            np.testing.assert_array_equal(ahead[0], model.last(cases, case)[-1])
            assert ahead.shape == (2, cases.n_targets)
        walked = [case for case, _, _ in model.forecasts(cases, views=views)]
        assert walked == ([0, 1, 2] if incomplete else [0, 2]), "a surgery without a window is passed over"


def test_no_row_sees_what_comes_after_it():
    rng = np.random.default_rng(1)
    record = np.where(rng.random((12, 2)) < 0.5, 0, rng.uniform(1, 9, (12, 2)))
    record[0] = 10
    later = record.copy()
    later[6:] = np.where(rng.random((6, 2)) < 0.5, 0, rng.uniform(1, 9, (6, 2)))
    settings = VitalSettings()
    both = [last(surgeries(settings, r))[:6] for r in (record, later)]
    np.testing.assert_array_equal(*both)
