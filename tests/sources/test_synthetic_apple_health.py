"""Made Apple Health exports: of the asked size, the same for a seed, and as a reader of real ones expects them."""

from __future__ import annotations

import zipfile

import pytest

from wearjax.errors import ConfigError
from wearjax.sources import apple_health, local_clock
from wearjax.sources import synthetic_apple_health as synthetic
from wearjax.sources.tally import Tally


def document(path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        return archive.read("apple_health_export/export.xml")


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "export.zip"
    return path, synthetic.write_export(path, size_mb=2.2)


def test_size_and_seed(export, tmp_path):
    path, made = export
    assert made.days == 3
    assert len(document(path)) == made.bytes == pytest.approx(2.2e6, rel=0.06)
    again = synthetic.write_export(tmp_path / "again.zip", size_mb=2.2)
    assert again == made
    assert document(tmp_path / "again.zip") == document(path)
    synthetic.write_export(tmp_path / "other.zip", size_mb=2.2, seed=1)
    assert document(tmp_path / "other.zip") != document(path)


def test_every_record_is_read_and_told_apart(export):
    path, made = export
    tally = Tally()
    days = list(apple_health.read_days(path, tally=tally))
    assert len(days) == made.days
    assert tally.read == {
        kind.removeprefix("HKCategoryTypeIdentifier"): n for kind, n in made.records.items()
    }
    assert set(tally.used) == {
        "iphone_steps", "iphone_distance", "iphone_flights", "watch_steps", "watch_distance", "watch_hr",
        "watch_energy", "sleep_asleep", "workout_running",
    }  # fmt: skip
    assert tally.notes == [local_clock.RecordClock.said]  # and no doubt about any record
    assert {day.nonwear_minutes for day in days} == {0}
    assert document(path).count(b"HKDevice: 0x") == len({*document(path).split(b"HKDevice: 0x")}) - 1


def test_less_than_a_day():
    with pytest.raises(ConfigError, match="a made day alone"):
        synthetic.write_export("never.zip", size_mb=0.1)
