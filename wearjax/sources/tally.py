"""What an import read, used and left out, counted by channel and reason: nothing is dropped in silence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Tally:
    """Counts of one import; the reader fills it while it yields days.

    Attributes:
        read: records read, by measure as the source names it.
        used: records that reached a channel, by channel name.
        skipped: records left out, by (measure, reason).
        notes: facts a person should know, e.g. an assumption that was made; said once each.
        partial: why the source ended early, when what came before was kept all the same.
    """

    read: Counter[str] = field(default_factory=Counter)
    used: Counter[str] = field(default_factory=Counter)
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    partial: str | None = None

    def skip(self, measure: str, reason: str, count: int = 1) -> None:
        if count:
            self.skipped[measure, reason] += count

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def add(self, other: Tally) -> None:
        """Takes up the counts of a part of the same import."""
        self.read.update(other.read)
        self.used.update(other.used)
        self.skipped.update(other.skipped)
        for text in other.notes:
            self.note(text)
        self.partial = self.partial or other.partial

    def as_dict(self) -> dict:
        """JSON form, kept in the store's provenance."""
        return {
            "read": dict(self.read),
            "used": dict(self.used),
            "skipped": [
                {"measure": m, "reason": r, "count": n} for (m, r), n in sorted(self.skipped.items())
            ],
            "notes": list(self.notes) + ([self.partial] if self.partial else []),
        }
