"""Tells which kind of device wrote a record, from the fields of its device text and its source's name.

The device text starts with a memory address that differs on every record and is never looked at. Source names
are a person's own words: they are compared here and go nowhere else.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Kind = Literal["iphone", "watch", "third-party device", "app without a device", "other Apple device"]
_FIELDS = (
    "name|manufacturer|model|hardware|firmware|software|localIdentifier|UDIDeviceIdentifier|creation date"
)
# A field ends at ", " before the next known key: values hold commas themselves ("hardware:iPhone16,1").
_FIELD = re.compile(rf"(?:^|, )({_FIELDS}):(.*?)(?=, (?:{_FIELDS}):|>?$)", re.DOTALL)
_DEVICES_MAX = 64  # of one archive; beyond, further ones share the last number
_CACHED_MAX = 4096


class Device(NamedTuple):
    """A kind, and a number that tells devices of one kind apart within one archive."""

    kind: Kind
    number: int


def fields(text: str) -> dict[str, str]:
    """Fields of a device text such as `<<HKDevice: 0x1>, name:Apple Watch, hardware:Watch6,2>`."""
    return dict(_FIELD.findall(text.partition(">")[2] if text.startswith("<") else text))


def kind_of(device: dict[str, str], source_name: str) -> Kind:
    """The kind by maker, hardware and model, else by the device's name, else by the source's name."""
    maker = device.get("manufacturer", "").casefold()
    if maker and not maker.startswith("apple"):  # other makers' models are called "Watch ..." too
        return "third-party device"
    for field in ("hardware", "model"):
        value = device.get(field, "").casefold()
        if value.startswith("watch") or value == "apple watch":
            return "watch"
        if value.startswith("iphone"):
            return "iphone"
    source = " ".join(source_name.split()).casefold()  # split() also takes the no-break space
    if device:
        name = device.get("name", "").casefold()
        if maker or name in ("iphone", "apple watch"):
            return _by_name(name) or _by_name(source) or "other Apple device"
        return "third-party device"
    return _by_name(source) or "app without a device"


def _by_name(name: str) -> Kind | None:
    if "apple watch" in name:
        return "watch"
    return "iphone" if "iphone" in name else None


class DeviceTable(dict[tuple[str, str], Device]):
    """Maps (device text after the address, source name) to a device; fills itself on first use.

    A device is one hardware under one source name: two phones of one model stay apart, and a record that an
    app copied under its own name cannot add to the phone's.
    """

    def __init__(self):
        super().__init__()
        self._numbers: dict[tuple[str, ...], int] = {}

    def __missing__(self, key: tuple[str, str]) -> Device:
        text, source_name = key
        device = fields(text)
        kind = kind_of(device, source_name)
        identity = (kind, device.get("hardware") or device.get("model", ""), source_name)
        number = self._numbers.get(identity)
        if number is None:
            number = min(len(self._numbers), _DEVICES_MAX - 1)
            if len(self._numbers) < _DEVICES_MAX:
                self._numbers[identity] = number
        if len(self) >= _CACHED_MAX:
            self.clear()
        self[key] = found = Device(kind, number)
        return found

    def count(self, kind: str) -> int:
        """Devices of the kind met so far."""
        return sum(identity[0] == kind for identity in self._numbers)
