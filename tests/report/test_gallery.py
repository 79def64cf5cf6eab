import fake_run_folder
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wearjax.channels import INDEX, N_CHANNELS
from wearjax.report import gallery
from wearjax.report.run_folder import Gallery


def made(scenarios, participants=None, methods=()):
    rng = np.random.default_rng(3)
    values = np.stack([fake_run_folder.day_values(rng) for _ in scenarios])
    target = np.stack(
        [fake_run_folder.gallery_mask(s, v, rng) for s, v in zip(scenarios, values, strict=True)]
    )
    people = participants or [f"p{i}" for i in range(len(scenarios))]
    dates = ["2024-01-01"] * len(scenarios)
    return Gallery(values, target, list(scenarios), people, dates, dict.fromkeys(methods, values))


def test_best_learned_best_simple_and_baseline_are_shown():
    days = made(["sleep_gap"], methods=("lsm2", "saits", "mean", "linear", "locf"))
    assert gallery.choose_methods(days, ["linear", "saits", "lsm2", "locf", "mean"], "locf") == [
        "saits",
        "linear",
        "locf",
    ]
    assert gallery.choose_methods(days, [], "locf") == ["lsm2", "linear", "locf"]
    assert gallery.choose_methods(made(["sleep_gap"], methods=("x", "y", "z", "w")), [], "locf") == [
        "w",
        "x",
        "y",
    ]


def test_every_scenario_gets_a_day_before_one_gets_two():
    days = made(["random_noise"] * 4 + ["workout_gap", "sleep_gap"])
    chosen = gallery.choose_days(days, 4)
    assert sorted(days.scenario[i] for i in chosen) == [
        "random_noise",
        "random_noise",
        "sleep_gap",
        "workout_gap",
    ]
    assert gallery.choose_days(days, 10) == [0, 1, 2, 3, 5, 4]


def test_new_participants_come_first():
    days = made(["random_noise"] * 3, participants=["a", "a", "b"])
    chosen = gallery.choose_days(days, 2)
    assert {days.participant[i] for i in chosen} == {"a", "b"}


@pytest.mark.parametrize("scenario", fake_run_folder.SCENARIOS)
def test_hidden_varied_channels_and_their_cause_are_shown(scenario):
    days = made([scenario])
    chosen = gallery.choose_channels(days.values[0], days.target[0])
    assert gallery.CHANNELS_MIN <= len(chosen) <= gallery.CHANNELS_MAX
    assert INDEX["watch_hr"] in chosen
    if scenario == "workout_gap":
        assert INDEX["workout_running"] in chosen
    if scenario == "sleep_gap":
        assert INDEX["sleep_asleep"] in chosen


@given(st.integers(0, 2**32 - 1), st.floats(0, 1), st.floats(0, 1))
@settings(max_examples=20, deadline=None)
def test_channels_are_distinct_ordered_and_never_empty_panels(seed, missing, hidden):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(N_CHANNELS, 1440)).astype(np.float32)
    values[rng.random(N_CHANNELS) < missing] = np.nan
    target = (rng.random((N_CHANNELS, 1)) < hidden) & ~np.isnan(values)
    chosen = gallery.choose_channels(values, target)
    assert chosen == sorted(set(chosen))
    assert len(chosen) <= gallery.CHANNELS_MAX
    assert not np.isnan(values[chosen]).all(axis=1).any()
    assert len(chosen) >= min(gallery.CHANNELS_MIN, int((~np.isnan(values)).any(axis=1).sum()))


def test_day_without_any_value_has_no_panels_to_choose():
    values = np.full((N_CHANNELS, 1440), np.nan, np.float32)
    assert gallery.choose_channels(values, np.zeros_like(values, bool)) == []


def test_flat_flags_give_way_to_channels_that_move():
    days = made(["random_noise"])
    flat = [c for c in range(9, N_CHANNELS) if c != INDEX["workout_running"]]
    assert not set(gallery.choose_channels(days.values[0], days.target[0])) & set(flat)
