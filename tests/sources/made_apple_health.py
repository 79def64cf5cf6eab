"""Makes tiny Apple Health documents for tests, with the quirks of real ones."""

from __future__ import annotations

import itertools
import zipfile
from pathlib import Path
from xml.sax.saxutils import quoteattr

from wearjax.sources import apple_health
from wearjax.sources.tally import Tally

DTD = """<!DOCTYPE HealthData [
<!-- HealthKit Export Version: 14 -->
<!ELEMENT HealthData (ExportDate,Me,(Record)*)>
]>
"""
OWNER, BORN = "Rosalind Quist", "1971-03-09"
WATCH = "name:Apple Watch, manufacturer:Apple Inc., model:Watch, hardware:Watch6,2, software:10.6.1"
PHONE = "name:iPhone, manufacturer:Apple Inc., model:iPhone, hardware:iPhone16,1, software:17.1"
STEPS, DISTANCE, FLIGHTS, HEART, ENERGY = (
    f"HKQuantityTypeIdentifier{name}"
    for name in ("StepCount", "DistanceWalkingRunning", "FlightsClimbed", "HeartRate", "ActiveEnergyBurned")
)
SLEEP = "HKCategoryTypeIdentifierSleepAnalysis"
_address = itertools.count(0x28C53EDF0, 0x1370)


def moment(text: str) -> str:
    """`"2024-05-01 10:00"` with seconds and the offset +0200 unless given."""
    date, clock, *offset = text.split(" ")
    return f"{date} {clock}{':00' * (clock.count(':') < 2)} {offset[0] if offset else '+0200'}"


def element(name: str, attributes: dict, inside: str = "") -> str:
    written = " ".join(f"{key}={quoteattr(value)}" for key, value in attributes.items() if value is not None)
    return f" <{name} {written}>{inside}</{name}>\n" if inside else f" <{name} {written}/>\n"


def record(kind, start, end, value, *, unit=None, device=WATCH, source=None, inside="") -> str:
    """A record whose device text carries a new memory address every time, as in real exports."""
    if source is None:
        source = f"{OWNER}’s Apple\u00a0Watch" if device == WATCH else f"{OWNER}’s iPhone"
    text = None if device is None else f"<<HKDevice: {next(_address):#x}>, {device}>"
    attributes = {
        "type": kind,
        "sourceName": source,
        "sourceVersion": "10.6.1",
        "device": text,
        "unit": unit,
        "creationDate": moment(end),
        "startDate": moment(start),
        "endDate": moment(end),
        "value": None if value is None else str(value),
    }
    return element("Record", attributes, inside)


def steps(start, end, value, **more) -> str:
    return record(STEPS, start, end, value, unit="count", **more)


def heart(at, value, *, unit="count/min", **more) -> str:
    return record(HEART, at, at, value, unit=unit, **more)


def sleep(start, end, stage, **more) -> str:
    return record(SLEEP, start, end, f"HKCategoryValueSleepAnalysis{stage}", **more)


def workout(start, end, kind, *, inside="", source="Running App") -> str:
    return element(
        "Workout",
        {
            "workoutActivityType": f"HKWorkoutActivityType{kind}", "duration": "30", "durationUnit": "min",
            "sourceName": source, "startDate": moment(start), "endDate": moment(end),
        },
        inside,
    )  # fmt: skip


def by_hand(value="1") -> str:
    return element("MetadataEntry", {"key": "HKWasUserEntered", "value": value})


def document(
    *elements: str, dtd: str = DTD, exported: str = "2025-01-01 09:00:00 +0100", tail="</HealthData>\n"
) -> bytes:
    me = element("Me", {"HKCharacteristicTypeIdentifierDateOfBirth": BORN})
    head = f' <ExportDate value="{exported}"/>\n' if exported else ""
    root = f'<HealthData locale="de_DE">\n{head}{me}{"".join(elements)}{tail}'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{dtd}{root}'.encode()


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def read(folder: Path, *elements: str, tally: Tally | None = None, **options) -> dict:
    """Days by ISO date of a document made of the elements."""
    file = folder / "export.xml"
    file.write_bytes(elements[0] if isinstance(elements[0], bytes) else document(*elements))
    return days_of(file, tally=tally, **options)


def days_of(path: Path, *, tally: Tally | None = None, **options) -> dict:
    days = apple_health.read_days(path, tally=Tally() if tally is None else tally, **options)
    return {day.date.isoformat(): day for day in days}
