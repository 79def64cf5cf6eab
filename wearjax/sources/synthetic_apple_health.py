"""Makes Apple Health exports of any size, for measuring readers: the mix and the form of a real archive.

A made day has about 1,670 records, as archives of watch wearers have: active and basal energy, heart rates with
their metadata, steps and distance of phone and watch, sleep in stages, some of the many other types, and now and
then a workout. They stand grouped by type, each carrying a device text with a memory address of its own.
"""

from __future__ import annotations

import datetime as dt
import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from wearjax.errors import ConfigError

BYTES_PER_DAY = 706_000  # of XML, on average
_FIRST_DAY = dt.date(2021, 1, 4)
_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE HealthData [
<!-- HealthKit Export Version: 14 -->
<!ELEMENT HealthData (ExportDate,Me,(Record|Correlation|Workout)*)>
]>
<HealthData locale="en_US">
 <ExportDate value="2039-12-31 09:00:00 +0100"/>
 <Me HKCharacteristicTypeIdentifierDateOfBirth="1980-01-01"/>
"""
_STEM = "HKQuantityTypeIdentifier"
_WATCH = (
    'sourceName="Made’s Apple\u00a0Watch" sourceVersion="10.6.1" device="&lt;&lt;HKDevice: {address}&gt;, name:Apple'
    ' Watch, manufacturer:Apple Inc., model:Watch, hardware:Watch6,2, software:10.6.1&gt;"'
)
_PHONE = (
    'sourceName="Made’s iPhone" sourceVersion="17.1" device="&lt;&lt;HKDevice: {address}&gt;, name:iPhone, '
    'manufacturer:Apple Inc., model:iPhone, hardware:iPhone16,1, software:17.1&gt;"'
)
_MOTION = '  <MetadataEntry key="HKMetadataKeyHeartRateMotionContext" value="{context}"/>\n'
_BEATS = (
    "  <HeartRateVariabilityMetadataList>\n"
    + "".join(
        f'   <InstantaneousBeatsPerMinute bpm="{60 + i % 9}" time="9:41:{i:02},53 AM"/>\n' for i in range(30)
    )
    + "  </HeartRateVariabilityMetadataList>\n"
)
_CLOCK = [f"{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}" for s in range(86_400)]


@dataclass(frozen=True)
class Stream:
    """Records of one type and device.

    Attributes:
        kind: type, without its stem for quantities.
        device: attributes of the source.
        per_day: records a day.
        longest: seconds that a record lasts at most.
        unit: attribute, or nothing for a category.
        low, high: range of the value.
        inside: children.
        stages: category values, instead of numbers.
    """

    kind: str
    device: str
    per_day: int
    longest: int
    unit: str = ""
    low: float = 0.0
    high: float = 1.0
    inside: str = ""
    stages: tuple[str, ...] = ()


_SLEEP_VALUES = tuple(
    f"HKCategoryValueSleepAnalysis{stage}"
    for stage in ("AsleepCore", "AsleepDeep", "AsleepCore", "AsleepREM", "Awake")
)
STREAMS = (
    Stream("StepCount", _WATCH, 60, 300, "count", 5, 300),
    Stream("StepCount", _PHONE, 40, 600, "count", 5, 600),
    Stream("DistanceWalkingRunning", _WATCH, 60, 300, "km", 0.01, 0.3),
    Stream("DistanceWalkingRunning", _PHONE, 40, 600, "km", 0.01, 0.6),
    Stream("FlightsClimbed", _PHONE, 5, 30, "count", 1, 4),
    Stream("HeartRate", _WATCH, 300, 0, "count/min", 48, 140, _MOTION),
    Stream("ActiveEnergyBurned", _WATCH, 660, 60, "Cal", 0.05, 9),
    Stream("BasalEnergyBurned", _WATCH, 300, 300, "Cal", 1, 9),
    Stream("EnvironmentalAudioExposure", _WATCH, 48, 1800, "dBASPL", 40, 90),
    Stream("AppleExerciseTime", _WATCH, 30, 60, "min", 1, 1),
    Stream("RespiratoryRate", _WATCH, 30, 60, "count/min", 11, 20),
    Stream("WalkingSpeed", _PHONE, 15, 60, "km/hr", 2, 6),
    Stream("WalkingStepLength", _PHONE, 15, 60, "cm", 50, 90),
    Stream("WalkingDoubleSupportPercentage", _PHONE, 15, 60, "%", 0.2, 0.4),
    Stream("OxygenSaturation", _WATCH, 9, 15, "%", 0.9, 1.0),
    Stream("HeartRateVariabilitySDNN", _WATCH, 3, 60, "ms", 20, 120, _BEATS),
    Stream("HKCategoryTypeIdentifierSleepAnalysis", _WATCH, 25, 1500, stages=_SLEEP_VALUES),
    Stream(
        "HKCategoryTypeIdentifierAppleStandHour",
        _WATCH,
        16,
        3600,
        stages=("HKCategoryValueAppleStandHourStood",),
    ),
)  # fmt: skip


@dataclass
class Made:
    """What a made export holds.

    Attributes:
        bytes: of XML.
        days: calendar days.
        records: by type, workouts under `"Workout"`.
    """

    bytes: int = 0
    days: int = 0
    records: dict[str, int] = field(default_factory=dict)


def write_export(
    path: str | os.PathLike,
    *,
    size_mb: float,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Made:
    """Writes `export.zip` with about `size_mb` million bytes of XML; the same seed gives the same XML.

    Args:
        progress: called with (records' streams done, streams in total).

    Raises:
        ConfigError: less than one day's size.
    """
    n_days = round(size_mb * 1e6 / BYTES_PER_DAY)
    if n_days < 1:
        raise ConfigError(f"size_mb={size_mb:g}: a made day alone takes {BYTES_PER_DAY / 1e6:.1f} MB")
    made = Made(days=n_days)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=4) as archive,
        archive.open("apple_health_export/export.xml", "w", force_zip64=True) as member,
    ):

        def write(text: str) -> None:
            data = text.encode()
            made.bytes += len(data)
            member.write(data)

        write(_HEAD)
        for done, stream in enumerate(STREAMS):
            rng = np.random.default_rng((seed, done))
            for day in range(n_days):
                write("".join(_records(stream, _FIRST_DAY + dt.timedelta(day), rng)))
            made.records[stream.kind] = made.records.get(stream.kind, 0) + n_days * stream.per_day
            if progress:
                progress(done + 1, len(STREAMS))
        for day in range(0, n_days, 3):
            write(_workout(_FIRST_DAY + dt.timedelta(day), day))
            made.records["Workout"] = made.records.get("Workout", 0) + 1
        write("</HealthData>\n")
    return made


def _offset(date: dt.date) -> str:
    """Summer time from April to October; the days of change themselves are left to tests."""
    return "+0200" if 4 <= date.month <= 10 else "+0100"


def _records(stream: Stream, date: dt.date, rng: np.random.Generator) -> Iterator[str]:
    n = stream.per_day
    # Bouts follow one another without overlap, as those of one device do.
    edges = np.sort(rng.choice(86_400 - stream.longest, n, replace=False))
    room = np.diff(edges, append=86_399) if stream.longest else np.zeros(n, int)
    ends = edges + np.minimum(room, rng.integers(0, stream.longest + 1, n))
    addresses = rng.integers(0x280000000, 0x2FFFFFFFF, n).tolist()
    if stream.stages:
        values = [stream.stages[i] for i in rng.integers(0, len(stream.stages), n)]
    else:
        numbers = rng.uniform(stream.low, stream.high, n)
        whole = stream.unit in ("count", "count/min", "min")
        values = [f"{v:.0f}" if whole else f"{v:.6g}" for v in numbers.tolist()]
    kind = stream.kind if stream.kind.startswith("HK") else _STEM + stream.kind
    unit = f' unit="{stream.unit}"' if stream.unit else ""
    before, after = stream.device.split("{address}")
    head, middle = f' <Record type="{kind}" {before}0x', f'{after}{unit} creationDate="{date} '
    offset = _offset(date)
    between, last = f' {offset}" startDate="{date} ', f' {offset}" endDate="{date} '
    close = '"/>\n'
    for start, end, address, value in zip(edges.tolist(), ends.tolist(), addresses, values, strict=True):
        if stream.inside:
            close = '">\n' + stream.inside.format(context=1 + (address & 1)) + " </Record>\n"
        yield (
            f"{head}{address:x}{middle}{_CLOCK[end]}{between}{_CLOCK[start]}{last}{_CLOCK[end]} {offset}"
            f'" value="{value}{close}'
        )


def _workout(date: dt.date, day: int) -> str:
    kind = ("Running", "Walking", "Yoga", "Swimming")[day // 3 % 4]
    at = partial("{} {} {}".format, date)
    offset = _offset(date)
    start, pause, end = (at(clock, offset) for clock in ("17:00:00", "17:12:30", "17:41:07"))
    device = _WATCH.replace("{address}", hex(0x280000000 + day))
    event = (
        f'  <WorkoutEvent type="HKWorkoutEventTypePause" date="{pause}" duration="2.5" durationUnit="min"/>\n'
    )
    statistics = "".join(
        f'  <WorkoutStatistics type="{_STEM}{name}" startDate="{start}" endDate="{end}" sum="{5 + day % 7}.25"'
        f' unit="{unit}"/>\n'
        for name, unit in (("ActiveEnergyBurned", "Cal"), ("DistanceWalkingRunning", "km"))
    )
    return (
        f' <Workout workoutActivityType="HKWorkoutActivityType{kind}" duration="38.6" durationUnit="min" {device}'
        f' creationDate="{end}" startDate="{start}" endDate="{end}">\n'
        f'  <MetadataEntry key="HKIndoorWorkout" value="0"/>\n{event}{statistics} </Workout>\n'
    )
