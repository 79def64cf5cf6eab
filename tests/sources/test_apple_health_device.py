"""Which device wrote a record."""

from __future__ import annotations

import html

import made_apple_health as made
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    text = f"<<HKDevice: 0x1f>, {device}>" if device else ""
    assert writer(devices.WriterTable(), text, source).kind == kind


def writer(table: devices.WriterTable, text: str, source: str) -> devices.Writer:
    """By the attributes, and by what a file holds for them: the same."""
    number = table.number(text, source)
    raw = [html.escape(part).encode() for part in (text, source)]
    assert table.numbers([raw[0]] * 2, [raw[1]] * 2).tolist() == [number] * 2
    return table.writers[number]


@given(
    st.text(st.sampled_from("<>&;, 0xw"), max_size=12),
    st.sampled_from(["", f", {made.WATCH}>"]),
    st.text(max_size=4),
)
def test_any_text_written_or_read_gives_one_writer(start, end, source):
    writer(devices.WriterTable(), start + end, source)


def test_one_number_a_device():
    table = devices.WriterTable()
    first = writer(table, f"<<HKDevice: 0x1>, {made.WATCH}>", "a")
    later = made.WATCH.replace("10.6.1", "11.0")
    assert writer(table, f"<<HKDevice: 0x2>, {later}>", "a") == first  # an update is no new watch
    other = writer(table, f"<<HKDevice: 0x1>, {made.WATCH.replace('Watch6,2', 'Watch7,1')}>", "a")
    assert other.device != first.device
    assert other.source == first.source
    assert writer(table, f"<<HKDevice: 0x1>, {made.WATCH}>", "b").source != first.source
    assert table.count("watch") == 3


def test_hostile_variety_stays_bounded(monkeypatch):
    monkeypatch.setattr(devices, "_CACHED_MAX", 100)
    monkeypatch.setattr(devices, "_SOURCES_MAX", 200)
    table = devices.WriterTable()
    found = [writer(table, f"<<HKDevice: 0x1>, {made.WATCH}>", f"source {i}") for i in range(1000)]
    assert len(table._cached) <= 101
    assert max(one.device for one in found) == 63
    assert max(one.source for one in found) == 199
