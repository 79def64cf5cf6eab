"""Tells which kind of device wrote a record, from the fields of its device text and its source's name.

The device text starts with a memory address that differs on every record and is never looked at. Source names
are a person's own words: they are compared here and go nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Int64

from wearjax.sources import apple_health_scan as scan

Kind = Literal["iphone", "watch", "third-party device", "app without a device", "other Apple device"]
_FIELDS = (
    "name|manufacturer|model|hardware|firmware|software|localIdentifier|UDIDeviceIdentifier|creation date"
)
# A field ends at ", " before the next known key: values hold commas themselves ("hardware:iPhone16,1").
_FIELD = re.compile(rf"(?:^|, )({_FIELDS}):(.*?)(?=, (?:{_FIELDS}):|>?$)", re.DOTALL)
_DEVICES_MAX = 64  # of one archive; beyond, further ones share the last number
_SOURCES_MAX = 4096
_CACHED_MAX = 4096


class Writer(NamedTuple):
    """What wrote a record.

    Attributes:
        kind: of device.
        device: number that tells devices of one kind apart within one archive.
        source: number of the source's name.
    """

    kind: Kind
    device: int
    source: int


def fields(text: str) -> dict[str, str]:
    """Fields of a device text such as `<<HKDevice: 0x1>, name:Apple Watch, hardware:Watch6,2>`."""
    return dict(_FIELD.findall(without_address(text)))


def without_address(text: str) -> str:
    """The device text behind `<<HKDevice: 0x…>`, which names a place in memory and differs on every record."""
    return text.partition(">")[2] if text.startswith("<") else text


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


class WriterTable:
    """Numbers the writers of one archive.

    A device is one hardware under one source name: two phones of one model stay apart, and a record that an
    app copied under its own name cannot add to the phone's.

    Attributes:
        writers: by number.
    """

    def __init__(self):
        self.writers: list[Writer] = []
        self._number: dict[Writer, int] = {}
        self._devices: dict[tuple[str, str, str], int] = {}
        self._sources: dict[str, int] = {}
        self._cached: dict[tuple[bytes, bytes], int] = {}

    def number(self, device_text: str, source_name: str) -> int:
        """The writer of a record with these attributes."""
        return self._number_of(without_address(device_text), source_name)

    def _number_of(self, behind_address: str, source_name: str) -> int:
        device = dict(_FIELD.findall(behind_address))
        kind = kind_of(device, source_name)
        identity = (kind, device.get("hardware") or device.get("model", ""), source_name)
        writer = Writer(
            kind,
            _numbered(self._devices, identity, _DEVICES_MAX),
            _numbered(self._sources, source_name, _SOURCES_MAX),
        )
        found = self._number.setdefault(writer, len(self.writers))
        if found == len(self.writers):
            self.writers.append(writer)
        return found

    def numbers(
        self, device_texts: Sequence[bytes], source_names: Sequence[bytes]
    ) -> Int64[np.ndarray, "record"]:
        """The same for attributes as they are written, with XML's own entities and no bare `>`."""
        behind = [t.partition(b"&gt;")[2] if t[:4] == b"&lt;" else t for t in device_texts]
        pairs = list(zip(behind, source_names, strict=True))
        cached = self._cached
        try:
            found = list(map(cached.__getitem__, pairs))
        except KeyError:
            for pair in dict.fromkeys(pairs):
                if pair not in cached:
                    cached[pair] = self._number_of(*map(scan.unescaped, pair))
            found = [cached[pair] for pair in pairs]
        if len(cached) > _CACHED_MAX:
            cached.clear()
        return np.array(found, np.int64)

    def count(self, kind: str) -> int:
        """Devices of the kind met so far; records that name none are of the known device of the same source."""
        known = {source for of, hardware, source in self._devices if of == kind and hardware}
        return sum(
            of == kind and bool(hardware or source not in known) for of, hardware, source in self._devices
        )


def _numbered(table: dict, key: object, most: int) -> int:
    """The key's number, given on first sight; beyond `most` keys, further ones share the last."""
    if key not in table and len(table) >= most:
        return most - 1
    return table.setdefault(key, len(table))
