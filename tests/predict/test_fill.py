"""A filled store that a stopped command left is known again, and nothing else is taken for it."""

from __future__ import annotations

import datetime as dt
import shutil

import numpy as np
import pytest

from wearjax.channels import N_CHANNELS
from wearjax.day import Day
from wearjax.days.store import DayStore, DayStoreWriter
from wearjax.errors import StoreError
from wearjax.predict import fill

FACTS = {"method": "constant", "config": {"kind": "constant", "value": 1.5}}


class Constant:
    def __init__(self, value: float):
        self.value = np.float32(value)

    def impute(self, data, observed_mask, target_mask):
        return np.where(target_mask, self.value, data)


def made(path, people="ab", seed=0) -> DayStore:
    rng = np.random.default_rng(seed)
    with DayStoreWriter(path, provenance={"source": "made"}) as writer:
        for person in people:
            values = rng.random((N_CHANNELS, 1440)).astype(np.float32)
            values[:, rng.random(1440) < 0.5] = np.nan
            writer.add(Day(values, person, dt.date(2024, 1, 2), 0, "made"))
    return DayStore(path)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filled")
    days = made(folder / "days")
    fill.fill_days(Constant(1.5), days, folder / "out", **FACTS)
    return days, folder / "out"


def test_what_the_same_arguments_left_is_known(filled):
    days, out = filled
    assert fill.is_filled(out, Constant(1.5), days, **FACTS)
    with pytest.raises(StoreError, match="pass --force"):
        fill.fill_days(Constant(1.5), days, out, **FACTS)


def test_what_something_else_left_is_not(filled, tmp_path):
    days, out = filled
    assert not fill.is_filled(out, Constant(2.5), days, **FACTS), "other weights"
    assert not fill.is_filled(out, Constant(1.5), days, method="constant", config={"kind": "constant"})
    assert not fill.is_filled(out, Constant(1.5), days, method="mean", config=FACTS["config"])
    for name, options in (("values", {"seed": 1}), ("people", {"people": "ac"}), ("more", {"people": "abc"})):
        other = made(tmp_path / name / "days", **options)
        assert not fill.is_filled(out, Constant(1.5), other, **FACTS), name


@pytest.mark.parametrize("gone", ["results.json", "config.json", "days"])
def test_half_a_folder_is_not(filled, tmp_path, gone):
    days, out = filled
    copy = shutil.copytree(out, tmp_path / "copy")
    if (copy / gone).is_dir():
        shutil.rmtree(copy / gone)
    else:
        (copy / gone).write_text("[]")
    assert not fill.is_filled(copy, Constant(1.5), days, **FACTS)
    assert not fill.is_filled(tmp_path / "nowhere", Constant(1.5), days, **FACTS)


def test_what_fills_is_said_and_what_is_a_guess():
    data = {"train_participants": 3, "train_days": 20, "synthetic": True}
    facts = {"kind": "lsm2", "parameters": 1234, "origin": {"run": "tiny", "steps": 5, "data": data}}
    assert fill.filled_by(facts) == (
        "Filled by lsm2 of run tiny (1,234 parameters), trained for 5 steps on 20 days of 3 invented participants."
    )
    assert fill.filled_by({}) == ""
    assert fill.guessed({"n_days": 2, "filled_cells": {"a": 2880, "b": 7}}) == ["a"]
