from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_days import made_day

from wearjax.channels import CHANNELS
from wearjax.days import clean, hourly

GOLDEN = Path(__file__).parents[1] / "golden" / "openmhc" / "preprocess.json"


def cases():
    content = json.loads(GOLDEN.read_text())
    found = content["cases"] if isinstance(content, dict) else content
    return [case for case in found if case["op"] == "hourly_aggregate"]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_golden_hours(case):
    given_input = case["input"]
    values = np.repeat(np.float32(given_input["fill"])[:, None], given_input["T"], axis=1)
    for channel, start, end, value in given_input["runs"]:
        values[channel, start:end] = np.nan if value is None else value
    expected = np.array([[np.nan if v is None else v for v in row] for row in case["expected"]], float)
    got = hourly.aggregate(values)
    if expected.shape == got.shape[::-1]:
        expected = expected.T
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def plain_hours(values):
    out = np.full((19, values.shape[1] // 60), np.nan, np.float32)
    for c, channel in enumerate(CHANNELS):
        for h in range(out.shape[1]):
            block = values[c, 60 * h : 60 * h + 60]
            block = block[~np.isnan(block)].astype(np.float64)
            if len(block):
                out[c, h] = {"sum": np.sum, "mean": np.mean, "max": np.max}[channel.hourly](block)
    return out


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.5, 0.99, 1.0]))
def test_equals_the_plain_loop(seed, missing):
    rng = np.random.default_rng(seed)
    values = rng.gamma(1, 50, (19, 180)).astype(np.float32)
    values[rng.random(values.shape) < missing] = np.nan
    np.testing.assert_allclose(hourly.aggregate(values), plain_hours(values), rtol=1e-6)


def test_a_batch_is_its_days():
    days = np.stack([clean.zero_to_nan(made_day("a", d).values) for d in range(3)])
    np.testing.assert_array_equal(hourly.aggregate(days), np.stack([hourly.aggregate(day) for day in days]))
    assert hourly.model_form(hourly.aggregate(days)).shape == (3, 24, 38)


def test_model_form_is_time_major_values_then_missing_mask():
    hours = hourly.aggregate(clean.zero_to_nan(made_day("a").values))
    form = hourly.model_form(hours)
    assert form.shape == (24, 38)
    assert form.dtype == np.float32
    np.testing.assert_array_equal(form[:, :19], hours.T)
    np.testing.assert_array_equal(form[:, 19:], np.isnan(hours.T))
    assert form[:, 19 + 1].all()  # no phone distance at all


def test_stored_form_has_zeros_and_a_mask_for_what_is_missing():
    hours = hourly.aggregate(clean.zero_to_nan(made_day("a").values))
    values, mask = hourly.stored_form(hours)
    assert not np.isnan(values).any()
    assert set(np.unique(mask)) == {0.0, 1.0}
    np.testing.assert_array_equal(np.where(mask == 1, np.nan, values), hours)


def test_valid_hours():
    hours = np.full((19, 24), np.nan, np.float32)
    hours[5, 3], hours[0, 3], hours[9, 7] = 1, 1, 0
    assert hourly.valid_hours(hours) == 2


def test_partial_hours_are_refused():
    with pytest.raises(ValueError, match="whole hours"):
        hourly.aggregate(np.zeros((19, 1439), np.float32))
