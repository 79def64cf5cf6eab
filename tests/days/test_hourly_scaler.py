from __future__ import annotations

import numpy as np

from wearjax.days import hourly_scaler
from wearjax.days.hourly_scaler import HourlyScaler
from wearjax.days.normalization import NormalizationStats


def made():
    rng = np.random.default_rng(0)
    parts = [rng.normal(1e4, 3, (19, n)).astype(np.float32) for n in (50, 1, 200)]
    for part in parts:
        part[rng.random(part.shape) < 0.3] = np.nan
        part[3] = np.nan  # never measured
        part[8] = 1.0  # never changes
    return parts


def test_statistics_of_all_parts_together():
    parts = made()
    found, together = hourly_scaler.fit(parts), np.concatenate(parts, axis=1).astype(np.float64)
    others = [c for c in range(19) if c != 3]
    np.testing.assert_allclose(found.means[others], np.nanmean(together[others], axis=1), rtol=1e-12)
    expected = np.nanstd(together[others], axis=1)
    np.testing.assert_allclose(found.stds[others], np.where(expected > 0, expected, 1.0), rtol=1e-9)
    assert (found.means[3], found.stds[3], found.means[8], found.stds[8]) == (0.0, 1.0, 1.0, 1.0)
    assert found.epsilon == 0.0


def test_nothing_to_fit():
    found = hourly_scaler.fit([])
    assert not found.means.any()
    assert (found.stds == 1).all()


def test_flags_keep_their_scale_through_the_stored_form():
    found = HourlyScaler(np.arange(19.0), 1.0 + np.arange(19), 0.0)
    for reader in (HourlyScaler, NormalizationStats):
        back = reader.from_json(found.to_json())
        assert type(back) is reader
        np.testing.assert_array_equal(back.means, found.means)
        np.testing.assert_array_equal(back.stds, found.stds)
    assert HourlyScaler.from_json(found.to_json()).to_json() == found.to_json()
