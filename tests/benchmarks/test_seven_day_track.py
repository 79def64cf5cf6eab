"""The seven-day track with every kind of imputer: windows, padding, offsets, scores by day."""

from __future__ import annotations

import datetime as dt
import json

import numpy as np
import pytest
from flax import nnx
from made_days import FIRST_DATE, made_day

from wearjax.benchmarks.openmhc import imputation
from wearjax.convert import bundle as bundles
from wearjax.days.normalization import NormalizationStats
from wearjax.days.open import open_days
from wearjax.days.splits import read_splits
from wearjax.days.store import DayStoreWriter
from wearjax.models import lsm2, lsm2_sparse
from wearjax.predict.imputers import baselines, loading

MEANS = np.where(np.arange(19) < 7, 5.0, 0.0)
STATS = NormalizationStats(MEANS, np.ones(19))
SIZES = {
    "encoder_dim": 8,
    "encoder_depth": 1,
    "encoder_heads": 2,
    "decoder_dim": 8,
    "decoder_heads": 2,
    "mlp_ratio": 2,
}
DAILY = lsm2.LSM2Config(patch=240, decoder_depth=1, **SIZES)
WEEKLY = lsm2.LSM2Config(patch=1440, minutes=7 * 1440, decoder_depth=1, **SIZES)
SPARSE = lsm2_sparse.LSM2SparseConfig(patch=480, n_days=7, window_minutes=480, decoder_depth=2, **SIZES)
MODELS = {
    "daily": (lsm2.LSM2, "lsm2", DAILY),
    "weekly": (lsm2.LSM2, "lsm2", WEEKLY),
    "sparse": (lsm2_sparse.LSM2Sparse, "lsm2_sparse", SPARSE),
}
DAYS = {"p1": range(2), "p2": range(1), "p3": (0, 1, 2, 4, 5, 6, 9, 10, 12), "p4": range(2)}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """One tested participant with nine days and a hole in the calendar, another with two."""
    path = tmp_path_factory.mktemp("data") / "days"
    with DayStoreWriter(path, provenance={}) as writer:
        for person, days in (
            ("p1", range(2)),
            ("p2", range(1)),
            ("p3", [0, 1, 2, 4, 5, 6, 9, 10, 12]),
            ("p4", range(2)),
        ):
            for day in days:
                writer.add(made_day(person, day))
        content = {"train": ["p1"], "validation": ["p2"], "test": ["p3", "p4"]}
        writer.attach("splits.json", json.dumps(content))
    return path


class Watching:
    """Remembers what it was shown."""

    def __init__(self):
        self.calls = []

    def impute(self, data, observed_mask, target_mask, *, day_offsets, sample_indices, user_ids, dates):
        self.calls.append(
            (data.copy(), target_mask.copy(), day_offsets, list(sample_indices), user_ids, dates)
        )
        return np.where(target_mask, 1.0, data).astype(np.float32)


def test_windows_are_padded_and_named_by_their_first_real_day(data_dir):
    method = Watching()
    options = {"data_dir": data_dir, "n_days": 7, "scenarios": "temporal_slice", "bootstrap": 0}
    imputation.evaluate_imputation({"watching": method}, **options)
    parts = [np.concatenate(part) for part in zip(*method.calls, strict=True)]
    data, target, offsets, samples, users, dates = parts
    assert offsets.tolist() == [[0, 1, 2, 4, 5, 6, 9], [-1, -1, -1, -1, -1, 0, 2], [-1, -1, -1, -1, -1, 0, 1]]
    assert users.tolist() == ["p3", "p3", "p4"]
    assert samples.tolist() == [0, 7, 9]
    assert dates.tolist() == [str(FIRST_DATE + dt.timedelta(days=d)) for d in (0, 10, 0)]
    padded = np.repeat(offsets < 0, 1440, axis=1)[:, None]
    assert np.isnan(np.where(padded, data, np.nan)).all()
    assert not (target & padded).any()
    days = open_days(data_dir)
    first = days.values(int(read_splits(data_dir).indices(days, "test")[7]))
    shown = data[1][:, 5 * 1440 : 6 * 1440]
    np.testing.assert_array_equal(shown[~np.isnan(shown)], first[~np.isnan(shown)])


@pytest.fixture(scope="module")
def single(data_dir):
    return evaluate(data_dir, {"daily": MODELS["daily"]}, 1)


@pytest.fixture(scope="module")
def windows(data_dir):
    return evaluate(data_dir, MODELS, 7)


def evaluate(data_dir, models, n_days):
    trained = {}
    for name, (build, kind, config) in models.items():
        folder = data_dir.parent / f"{name}-{n_days}"
        bundles.save_bundle(
            folder, kind=kind, config=config, model=build(config, rngs=nnx.Rngs(0)), stats=STATS
        )
        trained[name] = loading.load(folder, batch_size=4)
    days, members = open_days(data_dir), read_splits(data_dir)
    indices = [members.indices(days, split) for split in ("train", "test")]
    methods = {**baselines.build_all(baselines.NAMES, days, *indices), **trained}
    return imputation.evaluate_imputation(
        methods, data_dir=data_dir, n_days=n_days, scenarios=("random_noise", "sleep_gap"), bootstrap=0
    )


def test_all_imputers_are_scored_on_windows(windows):
    assert windows.errors.methods == (*baselines.NAMES, *MODELS)
    scored = np.isfinite(windows.errors.errors)
    assert scored[0].any()
    np.testing.assert_array_equal(scored, np.broadcast_to(scored[0], scored.shape))
    assert set(windows.substituted.values()) == {0}
    assert windows.n_samples == 11
    text = windows.summary()
    assert "11 days in windows of 7" in text
    assert all(name in text for name in (*baselines.NAMES, *MODELS))


def test_methods_without_context_have_the_same_errors_on_days_and_windows(single, windows):
    for name in ("mean", "mode", "temporal_mean", "temporal_mode"):
        own, other = (found.errors.errors[found.errors.method_index(name)] for found in (single, windows))
        np.testing.assert_allclose(own, other, rtol=1e-12)
    own, other = (found.errors.errors[found.errors.method_index("daily")] for found in (single, windows))
    np.testing.assert_allclose(own, other, rtol=2e-3, atol=1e-5)  # day by day


def test_context_changes_the_methods_that_use_it(single, windows):
    for name in ("locf", "linear"):
        own, other = (found.errors.errors[found.errors.method_index(name)] for found in (single, windows))
        assert not np.allclose(own, other, equal_nan=True), name


def test_personalized_methods_leave_out_the_scored_day_alone_in_a_window_too(single, windows):
    for name in ("personalized_mean", "personalized_temporal_mean"):
        own, other = (found.errors.errors[found.errors.method_index(name)] for found in (single, windows))
        assert np.allclose(own, other, equal_nan=True), name
