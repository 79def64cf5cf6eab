"""Turns the elements of a HealthData document into rows for the minute grid, and counts what it leaves out.

Two ways lead in: handlers of an XML parser, one element at a time, and whole blocks of plain records. Rows are
placed in the order of the document and in batches of one size, whichever way they came.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple
from xml.parsers import expat

import numpy as np
from jaxtyping import Int64

from wearjax.errors import SourceError
from wearjax.sources import apple_health_channels as known
from wearjax.sources import apple_health_rows as rows
from wearjax.sources import apple_health_scan as scan
from wearjax.sources.apple_health_rows import Rows
from wearjax.sources.apple_health_samples import SamplePlacer
from wearjax.sources.tally import Tally

BATCH = 4096
_DEPTH_MAX = 64
_TYPES_MAX = 1000
_COUNTED_KINDS = (*known.QUANTITIES, known.SLEEP_TYPE, known.WORKOUT)

Attributes = dict[str, str]


class _Taken(NamedTuple):
    """A record from the parser: how many records of its block came before, and its attributes."""

    place: int
    attributes: Attributes
    value: str


class RecordReader:
    """Takes records. Only children of the root count: what a Correlation holds is a repetition.

    Args:
        placer: takes the batches.
        tally: receives the counts, of types and reasons only: no text a person wrote.
        name: of the file, for messages.

    Attributes:
        depth: how many elements are open.
        read: records read, by type.
    """

    def __init__(self, placer: SamplePlacer, *, tally: Tally, name: str, include_manual: bool = False):
        self._placer = placer
        self._tally = tally
        self._name = name
        self._include_manual = include_manual
        self._taken: dict[str, list[_Taken]] = {kind: [] for kind in _COUNTED_KINDS}
        self._waiting: dict[str, list[Rows]] = {kind: [] for kind in _COUNTED_KINDS}
        self._current: Attributes | None = None  # an open element that children may say more of
        self._by_hand = False
        self._parts: list[Attributes] = []
        self._place = 0
        self.depth = 0
        self.read: Counter[str] = Counter()

    @property
    def records(self) -> int:
        """Records read so far."""
        return self.read.total()

    def finish(self) -> None:
        """Places what still waits and completes the tally."""
        self.take()
        for kind in _COUNTED_KINDS:
            self._place_batches(kind, at_least=1)
        for kind, count in self.read.items():
            measure = known.measure(kind)
            self._tally.read[measure] += count
            if kind not in _COUNTED_KINDS:
                self._tally.skip(measure, "not one of the channels", count)

    # -- plain records of a block

    def at(self, place: int) -> None:
        """Tells how many records of the block come before those that the parser meets next."""
        self._place = place

    def take(
        self, block: scan.Block | None = None, records: Int64[np.ndarray, "plain"] | None = None
    ) -> None:
        """Ends a block: takes plain records of it, and those that the parser met meanwhile."""
        plain = {} if block is None or records is None else self._by_kind(block, records)
        for kind in _COUNTED_KINDS:
            if kind in plain or self._taken[kind]:
                self._waiting[kind].append(self._rows(kind, block, plain.get(kind, _NONE)))
                self._taken[kind].clear()
                self._place_batches(kind, at_least=BATCH)
        self._place = 0

    def _by_kind(
        self, block: scan.Block, records: Int64[np.ndarray, "plain"]
    ) -> dict[str, Int64[np.ndarray, "plain"]]:
        """Counts the records, and returns those of the wanted types."""
        found = {}
        texts = block.kinds(records)
        for text, count in Counter(texts).items():
            kind = known.KINDS.get(text)
            self._count(kind or scan.unescaped(text), count)
            if kind is not None:
                found[kind] = records if count == len(records) else records[[one == text for one in texts]]
        return found

    def _rows(self, kind: str, block: scan.Block | None, plain: Int64[np.ndarray, "plain"]) -> Rows:
        """Rows of both origins in the order of the document."""
        parsed = self._parsed_rows(kind, self._taken[kind])
        if block is None or not len(plain):
            return parsed
        of_block = rows.read(
            kind,
            start=block.dates(scan.START, plain),
            end=block.dates(scan.END, plain),
            value=block.column(scan.VALUE, plain, absent=b""),
            writer=self._placer.writers.numbers(
                block.column(scan.DEVICE, plain, absent=b""), block.column(scan.NAME, plain, absent=b"")
            ),
            unit=self._placer.units.numbers(block.column(scan.UNIT, plain, absent=None)),
        )
        if not len(parsed):
            return of_block
        places = np.concatenate((plain, [taken.place for taken in self._taken[kind]]))
        return np.concatenate((of_block, parsed))[np.argsort(places, kind="stable")]

    def _parsed_rows(self, kind: str, taken: list[_Taken]) -> Rows:
        if not taken:
            return rows.NO_ROWS
        attributes = [one.attributes for one in taken]
        writer, unit = self._placer.writers.number, self._placer.units.number
        return rows.read(
            kind,
            start=[a.get("startDate", "").encode() for a in attributes],
            end=[a.get("endDate", "").encode() for a in attributes],
            value=[one.value.encode() for one in taken],
            writer=np.array([writer(a.get("device", ""), a.get("sourceName", "")) for a in attributes]),
            unit=np.array([unit(a["unit"].encode() if "unit" in a else None) for a in attributes]),
        )

    def _place_batches(self, kind: str, *, at_least: int) -> None:
        """Places full batches; at the end (`at_least=1`) what is left too."""
        waiting = self._waiting[kind]
        if sum(map(len, waiting)) < at_least:
            return
        joined = np.concatenate(waiting)
        last = len(joined) if at_least == 1 else len(joined) // BATCH * BATCH
        for start in range(0, last, BATCH):
            self._placer.place(kind, joined[start : start + BATCH])
        self._waiting[kind] = [joined[last:]]

    def _count(self, kind: str, count: int = 1) -> None:
        self.read[kind if kind in self.read or len(self.read) < _TYPES_MAX else "other"] += count

    # -- handlers of the parser

    def attach(self, parser: expat.XMLParserType) -> None:
        """Sets the handlers."""
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.StartCdataSectionHandler = self._enter  # a section may stay open between two pieces
        parser.EndCdataSectionHandler = self._leave

    def _enter(self) -> None:
        self.depth += 1

    def _leave(self) -> None:
        self.depth -= 1

    def _start(self, name: str, attributes: Attributes) -> None:
        depth = self.depth
        self.depth = depth + 1
        if depth == 1:
            self._open(name, attributes)
        elif depth == 2 and self._current is not None:
            if name == "MetadataEntry":
                if attributes.get("key") == "HKWasUserEntered":
                    self._by_hand = attributes.get("value") == "1"
            elif name == "WorkoutActivity":
                self._parts.append(attributes)
        elif depth > _DEPTH_MAX:
            raise SourceError(
                f"{self._name}: elements nested more than {_DEPTH_MAX} deep; not a health export"
            )

    def _end(self, name: str) -> None:
        self.depth -= 1
        if self.depth == 1 and self._current is not None:
            if name == known.WORKOUT:
                self._close_workout(self._current)
            else:
                self._close_record(self._current)
            self._current = None

    def _open(self, name: str, attributes: Attributes) -> None:
        if name == "Record":
            kind = attributes.get("type", "Record")
            if kind not in known.WANTED:
                self._count(kind)
                return
            self._current, self._by_hand = attributes, False
        elif name == known.WORKOUT:
            self._current, self._by_hand, self._parts = attributes, False, []
        elif name == "ExportDate":
            if self.records or self._place > 0:
                self._tally.note("a date of export behind records was ignored")
            else:
                self._placer.set_export_time(attributes.get("value", ""))
        elif name != "Me":
            self._count(name)

    def _close_record(self, attributes: Attributes) -> None:
        kind = attributes["type"]
        self._count(kind)
        if self._by_hand and not self._include_manual:
            self._tally.skip(known.measure(kind), "entered by hand")
        else:
            self._taken[kind].append(_Taken(self._place, attributes, attributes.get("value", "")))

    def _close_workout(self, attributes: Attributes) -> None:
        """Start to end, pauses included; of a session outside the ten types, its parts that are inside."""
        kind = attributes.get("workoutActivityType", "")
        parts = [a for a in self._parts if a.get("workoutActivityType", "").encode() in known.WORKOUT_TYPES]
        counted = 1
        if self._by_hand and not self._include_manual:
            self._tally.skip(known.WORKOUT, "entered by hand")
        elif kind.encode() in known.WORKOUT_TYPES:
            self._taken[known.WORKOUT].append(_Taken(self._place, attributes, kind))
        elif parts:
            counted = len(parts)
            for part in parts:
                self._taken[known.WORKOUT].append(_Taken(self._place, part, part["workoutActivityType"]))
        else:
            self._tally.skip(known.WORKOUT, known.measure(kind) if kind else "no type")
        self._count(known.WORKOUT, counted)


_NONE = np.zeros(0, np.int64)
