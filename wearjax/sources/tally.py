"""What an import read, used and left out, counted by channel and reason: nothing is dropped in silence."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from jaxtyping import Float32

from wearjax.channels import CHANNELS, NAMES


class Span(NamedTuple):
    """Days on which something was recorded."""

    first: dt.date
    last: dt.date
    days: int


@dataclass
class Tally:
    """Counts of one import; the reader fills it while it yields days.

    Attributes:
        read: records read, by measure as the source names it.
        used: records that reached a channel, by channel name.
        skipped: records left out, by (measure, reason).
        notes: facts a person should know, e.g. an assumption that was made; said once each.
        partial: why the source ended early, when what came before was kept all the same.
        spans: days with recordings, by channel name, before silence was given a meaning.
        implausible: minutes outside the plausible range of their channel, by channel name; they are kept.
    """

    read: Counter[str] = field(default_factory=Counter)
    used: Counter[str] = field(default_factory=Counter)
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    partial: str | None = None
    spans: dict[str, Span] = field(default_factory=dict)
    implausible: Counter[str] = field(default_factory=Counter)

    def skip(self, measure: str, reason: str, count: int = 1) -> None:
        if count:
            self.skipped[measure, reason] += count

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def record(self, date: dt.date, raw: Float32[np.ndarray, "channel=19 minute=1440"]) -> None:
        """Notes in which channels a day was recorded: before silence is given a meaning; no person's day twice."""
        for channel in np.flatnonzero(~np.isnan(raw).all(axis=1)):
            self._extend(NAMES[channel], Span(date, date, 1))

    def _extend(self, channel: str, span: Span) -> None:
        old = self.spans.get(channel, span._replace(days=0))
        self.spans[channel] = Span(min(old.first, span.first), max(old.last, span.last), old.days + span.days)

    def add(self, other: Tally) -> None:
        """Takes up the counts of a part of the same import."""
        self.read.update(other.read)
        self.used.update(other.used)
        self.skipped.update(other.skipped)
        for text in other.notes:
            self.note(text)
        self.partial = self.partial or other.partial
        self.implausible.update(other.implausible)
        for channel, span in other.spans.items():
            self._extend(channel, span)

    def as_dict(self) -> dict:
        """JSON form, kept in the store's provenance."""
        return {
            "read": dict(self.read),
            "used": dict(self.used),
            "skipped": [
                {"measure": m, "reason": r, "count": n} for (m, r), n in sorted(self.skipped.items())
            ],
            "spans": {
                name: {"first": str(span.first), "last": str(span.last), "days": span.days}
                for name, span in self.spans.items()
            },
            "implausible": dict(self.implausible),
            "notes": list(self.notes) + ([self.partial] if self.partial else []),
        }

    def channel_rows(self) -> list[dict[str, str]]:
        """A table of the channels that the source had records for; why records were left out is in `skipped`.

        A channel's records are those whose type and device point to it; what is left out before that is known
        (another maker's device, an entry made by hand, a type of no channel) is counted by type instead.
        """
        left_out = Counter[str]()
        for (measure, _), count in self.skipped.items():
            left_out[measure] += count
        rows = []
        for name in NAMES:
            span = self.spans.get(name)
            if span or self.used[name] or left_out[name]:
                rows.append(
                    {
                        "channel": name,
                        "read": f"{self.used[name] + left_out[name]:,}",
                        "used": f"{self.used[name]:,}",
                        "left out": f"{left_out[name]:,}",
                        "first day": str(span.first) if span else "",
                        "last day": str(span.last) if span else "",
                        "days": f"{span.days if span else 0:,}",
                    }
                )
        return rows

    def implausible_rows(self) -> list[dict[str, str]]:
        """A table of the channels with minutes outside their plausible range."""
        return [
            {
                "channel": c.name,
                "minutes": f"{self.implausible[c.name]:,}",
                "plausible": "{:,g} to {:,g}".format(*(end * c.display_scale for end in c.plausible)),
                "unit": c.display_unit,
            }
            for c in CHANNELS
            if self.implausible[c.name]
        ]
