"""Mask files: seeds, the published layout, round trips and refusals."""

from __future__ import annotations

import errno
import zipfile

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from wearjax.errors import StoreError
from wearjax.segments import mask_cache, masks
from wearjax.segments.mask_cache import MaskSet

SHAPE = (19, 1440)
N_BYTES = 3420


def day(position: int) -> np.ndarray:
    values = np.full(SHAPE, np.nan, np.float32)
    if position % 3:
        values[:7] = np.random.default_rng(position).random((7, 1440))
        values[9, 600:640] = 1
    return values


def write(path, **replaced):
    rng = np.random.default_rng(0)
    arrays = {
        "indices": np.array([1, 4], np.int64),
        "masks_packed": rng.integers(0, 256, 2 * N_BYTES, np.uint8),
        "shape": np.array([2, *SHAPE], np.int64),
    }
    arrays.update(replaced)
    np.savez_compressed(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def test_seeds_are_the_published_ones():
    offsets = {
        "random_noise": 8981, "temporal_slice": 6586, "signal_slice": 9908,
        "sleep_gap": 1112, "workout_gap": 3379, "intensity_failure": 3285,
    }  # fmt: skip
    for scenario, offset in offsets.items():
        assert mask_cache.scenario_seed(scenario, "test") == 42 + 374 + offset
        assert mask_cache.scenario_seed(scenario, "val", 7) == 7 + 383 + offset
        assert mask_cache.scenario_seed(scenario, "validation", 7) == 7 + 383 + offset


@pytest.mark.parametrize("scenario", masks.SCENARIOS)
def test_each_day_draws_from_its_own_seed(scenario):
    made = MaskSet.generate(day, 5, scenario, "test", mask_seed=9)
    for position in range(5):
        rng = np.random.default_rng(mask_cache.scenario_seed(scenario, "test", 9) + position)
        values = day(position)
        mask, applicable = masks.make_mask(scenario, values, ~np.isnan(values), rng)
        if applicable:
            np.testing.assert_array_equal(made.mask(position), mask)
        else:
            assert made.mask(position) is None
    assert made.mask(5) is None


def test_one_pass_makes_what_single_ones_make():
    reads = []
    together = mask_cache.generate(lambda i: reads.append(i) or day(i), 4, masks.SCENARIOS, "val")
    assert reads == [0, 1, 2, 3]
    for scenario in masks.SCENARIOS:
        alone = MaskSet.generate(day, 4, scenario, "val")
        np.testing.assert_array_equal(together[scenario].indices, alone.indices)
        np.testing.assert_array_equal(together[scenario].packed, alone.packed)


@hypothesis.given(
    seed=st.integers(0, 2**32 - 1), positions=st.sets(st.integers(0, 10_000), max_size=4).map(sorted)
)
def test_round_trip(tmp_path_factory, seed, positions):
    rng = np.random.default_rng(seed)
    cells = rng.random((len(positions), *SHAPE)) < 0.3
    packed = np.packbits(cells.reshape(len(positions), 8 * N_BYTES), axis=1)
    path = mask_cache.cache_path(tmp_path_factory.mktemp("masks"), "test", "random_noise")
    MaskSet(np.array(positions, np.int64), packed, SHAPE).save(path)
    loaded = MaskSet.load(path)
    assert loaded.indices.tolist() == positions
    assert len(loaded) == len(positions)
    for position, mask in zip(positions, cells, strict=True):
        np.testing.assert_array_equal(loaded.mask(position), mask)
    assert loaded.mask(10_001) is None


def test_file_has_the_published_arrays(tmp_path):
    path = mask_cache.cache_path(tmp_path, "validation", "workout_gap")
    assert path == tmp_path / "val" / "workout_gap.npz"
    MaskSet.generate(day, 4, "workout_gap", "val").save(path)
    with np.load(path, allow_pickle=False) as arrays:
        assert arrays["indices"].tolist() == [1, 2]
        assert arrays["indices"].dtype == np.int64
        assert arrays["masks_packed"].dtype == np.uint8
        assert arrays["masks_packed"].shape == (2 * N_BYTES,)
        assert arrays["shape"].tolist() == [2, 19, 1440]
        bits = np.unpackbits(arrays["masks_packed"]).reshape(2, *SHAPE).astype(bool)
    assert np.argwhere(bits[0].any(axis=1)).ravel().tolist() == [5, 6]
    assert np.flatnonzero(bits[0, 5]).tolist() == list(range(600, 640))


def test_empty_split_round_trip(tmp_path):
    MaskSet.generate(day, 0, "sleep_gap", "test").save(tmp_path / "empty.npz")
    assert len(MaskSet.load(tmp_path / "empty.npz")) == 0


def test_positions_in_any_order_are_sorted(tmp_path):
    sorted_file = MaskSet.load(write(tmp_path / "sorted.npz"))
    packed = sorted_file.packed[::-1].ravel()
    reversed_file = MaskSet.load(
        write(tmp_path / "reversed.npz", indices=np.array([4, 1]), masks_packed=packed)
    )
    assert reversed_file.indices.tolist() == [1, 4]
    np.testing.assert_array_equal(reversed_file.mask(4), sorted_file.mask(4))


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        ({"indices": None}, "array .*indices.* is missing"),
        ({"shape": np.array([2, 18, 1440])}, r"shape must be \(days, 19, minutes\)"),
        ({"shape": np.array([19, 1440])}, r"shape must be \(days, 19, minutes\)"),
        ({"shape": np.array([3, 19, 1440])}, "indices must be 3 integers"),
        ({"indices": np.array([1.0, 4.0])}, "indices must be 2 integers"),
        ({"indices": np.array([4, 4])}, "distinct"),
        ({"indices": np.array([-1, 4])}, "distinct positions from 0"),
        ({"masks_packed": np.zeros(N_BYTES, np.uint8)}, f"2 x {N_BYTES} bytes"),
        ({"masks_packed": np.zeros(2 * N_BYTES, bool)}, "masks_packed must hold"),
        ({"masks_packed": np.array([{}], object)}, "not a readable mask file"),
    ],
)
def test_refuses_files_that_do_not_fit(tmp_path, replaced, message):
    path = write(tmp_path / "masks.npz", **replaced)
    with pytest.raises(StoreError, match=message) as caught:
        MaskSet.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_refuses_missing_and_broken_files(tmp_path):
    with pytest.raises(StoreError, match="is missing"):
        MaskSet.load(tmp_path / "none.npz")
    path = write(tmp_path / "bytes.npz")
    with zipfile.ZipFile(path) as found:
        members = {name: found.read(name) for name in found.namelist()}
    with zipfile.ZipFile(path, "w") as damaged:
        for name, data in members.items():
            damaged.writestr(name, bytes(len(data)) if name == "shape.npy" else data)
    with pytest.raises(StoreError, match=r"not a readable mask file.*shape is no array"):
        MaskSet.load(path)
    path = write(tmp_path / "cut.npz")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(StoreError, match="not a readable mask file"):
        MaskSet.load(path)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = write(tmp_path / "masks.npz")
    old = path.read_bytes()

    def fails(file, **arrays):
        file.write(b"half")
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(np, "savez_compressed", fails)
    with pytest.raises(StoreError, match=r"masks\.npz: cannot be written: disk full"):
        MaskSet.load(path).save(path)
    assert path.read_bytes() == old
    assert list(tmp_path.iterdir()) == [path]


def test_days_must_have_one_length():
    with pytest.raises(StoreError, match="test day 1: shape"):
        MaskSet.generate(lambda i: day(i)[:, : 1440 - i], 2, "sleep_gap", "test")
