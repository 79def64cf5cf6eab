"""Masks of a whole split: seeds, applicable days, packed bytes, and the file that carries them."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import harness
import numpy as np

from wearjax.days import clean
from wearjax.segments import mask_cache


@harness.checks("mask_cache")
def check(case: dict) -> None:
    days = [clean.zero_to_nan(harness.run_length_day(spec)) for spec in case["days"]]
    split, seed = case["split"], case["mask_seed"]
    made = mask_cache.generate(days.__getitem__, len(days), case["expected"], split, seed)
    for scenario, expected in case["expected"].items():
        assert mask_cache.scenario_seed(scenario, split, seed) == expected["scenario_seed"]
        offset = expected["scenario_seed"] - expected["scenario_offset"]
        assert offset == seed + case["split_offset"]
        with tempfile.TemporaryDirectory() as folder:
            path = mask_cache.cache_path(folder, split, scenario)
            made[scenario].save(path)
            compare_file(path, expected)
            compare_masks(mask_cache.MaskSet.load(path), len(days), expected)


def compare_file(path: Path, expected: dict) -> None:
    with np.load(path, allow_pickle=False) as arrays:
        assert arrays["indices"].dtype == np.int64
        assert arrays["indices"].tolist() == expected["indices"]
        assert arrays["shape"].tolist() == expected["shape"]
        packed = arrays["masks_packed"].tobytes()
    assert len(packed) == expected["packed_total_bytes"]
    assert hashlib.sha256(packed).hexdigest() == expected["packed_sha256"]


def compare_masks(masks: mask_cache.MaskSet, n_days: int, expected: dict) -> None:
    found = [masks.mask(position) for position in range(n_days)]
    assert [i for i, mask in enumerate(found) if mask is not None] == expected["indices"]
    present = [mask for mask in found if mask is not None]
    assert [int(mask.sum()) for mask in present] == expected["n_masked"]
    assert [harness.packbits_sha256(mask) for mask in present] == expected["sha256_packbits"]
