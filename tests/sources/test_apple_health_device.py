"""Which device wrote a record."""

from __future__ import annotations

import made_apple_health as made
import pytest

from wearjax.sources import apple_health_device as devices


def test_fields_hold_commas():
    found = devices.fields(
        f"<<HKDevice: 0x28c53edf0>, {made.WATCH}, creation date:2023-01-01 10:00:00 +0000>"
    )
    assert found == {
        "name": "Apple Watch", "manufacturer": "Apple Inc.", "model": "Watch", "hardware": "Watch6,2",
        "software": "10.6.1", "creation date": "2023-01-01 10:00:00 +0000",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("device", "source", "kind"),
    [
        (made.WATCH, "x", "watch"),
        (made.PHONE, "x", "iphone"),
        (made.PHONE, "Apple Watch", "iphone"),
        ("manufacturer:Apple, model:iPhone", "", "iphone"),
        ("hardware:Watch4,4", "", "watch"),
        ("name:Apple Watch, manufacturer:Apple Inc.", "", "watch"),
        ("name:iPad, manufacturer:Apple Inc., model:iPad, hardware:iPad7,3", "x", "other Apple device"),
        ("name:WATCH GT, manufacturer:Huawei, model:Watch GT 3", "x", "third-party device"),
        ("name:Polar H10, manufacturer:Polar", "Polar", "third-party device"),
        (None, "Anna’s Apple\u00a0Watch", "watch"),
        (None, "IPHONE von Anna", "iphone"),
        (None, "Oura", "app without a device"),
        (None, "", "app without a device"),
    ],
)
def test_kinds(device, source, kind):
    text = f", {device}>" if device else ""
    assert devices.DeviceTable()[text, source].kind == kind


def test_one_number_a_device():
    table = devices.DeviceTable()
    first = table[f", {made.WATCH}>", "a"]
    assert table[f", {made.WATCH.replace('10.6.1', '11.0')}>", "a"] == first  # an update is no new watch
    assert table[f", {made.WATCH.replace('Watch6,2', 'Watch7,1')}>", "a"] != first
    assert table.count("watch") == 2


def test_hostile_variety_stays_bounded(monkeypatch):
    monkeypatch.setattr(devices, "_CACHED_MAX", 100)
    table = devices.DeviceTable()
    numbers = {table[f", {made.WATCH}>", f"source {i}"].number for i in range(1000)}
    assert len(table) <= 100
    assert max(numbers) == 63
