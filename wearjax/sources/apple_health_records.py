"""Turns the elements of a HealthData document into samples on the minute grid, and counts what it leaves out.

The parser's handlers only sort attributes by type (`RecordReader`); dates, units, devices and minutes are
worked out for a few thousand records at once (`apple_health_samples`).
"""

from __future__ import annotations

from collections import Counter
from xml.parsers import expat

from wearjax.errors import SourceError
from wearjax.sources import apple_health_channels as known
from wearjax.sources.apple_health_samples import Attributes, SamplePlacer
from wearjax.sources.tally import Tally

BATCH = 4096
_DEPTH_MAX = 64
_TYPES_MAX = 1000
_RECORD_CHILDREN = frozenset({"HeartRateVariabilityMetadataList"})


class RecordReader:
    """The parser's handlers. Only children of the root count: what a Correlation holds is a repetition.

    Args:
        placer: takes the batches.
        tally: receives the counts, of types and reasons only: no text a person wrote.
        name: of the file, for messages.
    """

    def __init__(self, placer: SamplePlacer, *, tally: Tally, name: str, include_manual: bool = False):
        self._placer = placer
        self._tally = tally
        self._name = name
        self._include_manual = include_manual
        self._waiting: dict[str, list[Attributes]] = {
            kind: [] for kind in (*known.QUANTITIES, known.SLEEP_TYPE)
        }
        self._workouts: list[Attributes] = []
        self._last: list[Attributes] | None = None  # where the record went whose metadata may follow
        self._depth = 0
        self.read: Counter[str] = Counter()

    def attach(self, parser: expat.XMLParserType) -> None:
        """Sets the handlers."""
        self._parser = parser
        self._resume()

    def finish(self) -> None:
        """Places what still waits and completes the tally."""
        for kind in self._waiting:
            self._place(kind)
        self._place_workouts()
        for kind, count in self.read.items():
            measure = known.measure(kind)
            self._tally.read[measure] += count
            if kind not in self._waiting and kind != "Workout":
                self._tally.skip(measure, "not one of the channels", count)

    @property
    def records(self) -> int:
        """Records read so far."""
        return self.read.total() + sum(map(len, self._waiting.values()))

    def _element(self, name: str, attributes: Attributes) -> None:
        if name == "Record":
            kind = attributes.get("type", "Record")
            waiting = self._last = self._waiting.get(kind)
            if waiting is None:
                self._count(kind)
                return
            if len(waiting) >= BATCH:
                self._place(kind)
            waiting.append(attributes)
        elif name == "MetadataEntry":
            if attributes.get("key") == "HKWasUserEntered":
                self._user_entered(attributes)
        elif name == "Workout":
            self._enter_workout(attributes)
        elif name == "ExportDate":
            self._placer.set_export_time(attributes.get("value", ""))
        elif name not in ("HealthData", "Me"):
            if name not in _RECORD_CHILDREN:
                self._last = None
                self._count(name)
            self._enter(self._skipped_child, self._skipped_end)

    def _count(self, kind: str) -> None:
        self.read[kind if kind in self.read or len(self.read) < _TYPES_MAX else "other"] += 1

    def _place(self, kind: str) -> None:
        waiting = self._waiting[kind]
        if not waiting:
            return
        self.read[kind] += len(waiting)
        self._placer.place(kind, waiting)
        waiting.clear()

    def _user_entered(self, attributes: Attributes) -> None:
        if self._last is not None and attributes.get("value") == "1" and not self._include_manual:
            record = self._last.pop()  # still there: a batch is placed just before its successor joins
            self._last = None
            self.read[record["type"]] += 1
            self._tally.skip(known.measure(record["type"]), "entered by hand")

    # -- elements with children of their own

    def _enter(self, child, end) -> None:
        self._depth = 0
        self._parser.StartElementHandler = child
        self._parser.EndElementHandler = end

    def _resume(self) -> None:
        self._parser.StartElementHandler = self._element
        self._parser.EndElementHandler = None

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise SourceError(
                f"{self._name}: elements nested more than {_DEPTH_MAX} deep; not a health export"
            )

    def _skipped_child(self, name: str, attributes: Attributes) -> None:
        self._deeper()

    def _skipped_end(self, name: str) -> None:
        if self._depth == 0:
            self._resume()
        self._depth -= 1

    def _enter_workout(self, attributes: Attributes) -> None:
        self._last = None
        self._whole, self._parts, self._by_hand = attributes, list[Attributes](), False
        self._enter(self._workout_child, self._workout_end)

    def _workout_child(self, name: str, attributes: Attributes) -> None:
        self._deeper()
        if self._depth > 1:
            return
        if name == "MetadataEntry" and attributes.get("key") == "HKWasUserEntered":
            self._by_hand = attributes.get("value") == "1"
        elif name == "WorkoutActivity" and attributes.get("workoutActivityType") in known.WORKOUT_TYPES:
            self._parts.append(attributes)

    def _workout_end(self, name: str) -> None:
        if self._depth == 0:
            self._resume()
            self._workout()
        self._depth -= 1

    def _workout(self) -> None:
        """Start to end, pauses included; of a session outside the ten types, its parts that are inside."""
        kind = self._whole.get("workoutActivityType", "")
        counted = 1
        if self._by_hand and not self._include_manual:
            self._tally.skip("Workout", "entered by hand")
        elif kind in known.WORKOUT_TYPES:
            self._workouts.append(self._whole)
        elif self._parts:
            self._workouts += self._parts
            counted = len(self._parts)
        else:
            self._tally.skip(
                "Workout", known.measure(kind).removeprefix("HKWorkoutActivityType") or "no type"
            )
        self.read["Workout"] += counted
        if len(self._workouts) >= BATCH:
            self._place_workouts()

    def _place_workouts(self) -> None:
        self._placer.place("Workout", self._workouts)
        self._workouts.clear()
