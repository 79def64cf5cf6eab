"""What an import read, used and left out, as a run folder remembers it."""

from __future__ import annotations

from dataclasses import dataclass

from wearjax.report import tables, words
from wearjax.report.run_folder import RunFolder
from wearjax.sources import minute_grid


@dataclass(frozen=True)
class ImportCounts:
    """What an import read, used and left out, and its notes."""

    facts: list[tuple[str, str]]
    read: list[tuple[str, str]]
    used: list[tuple[str, str]]
    skipped: list[tuple[str, str, str]]
    notes: list[str]


def known_as(run: RunFolder) -> str:
    """What a recorded value of the run is, see `minute_grid.known_as`."""
    return minute_grid.known_as(tables.mapping(run.results.get("import")).get("notes"))


def import_counts(run: RunFolder) -> ImportCounts | None:
    """The provenance of the recordings, from `results["import"]`; None where the run has none.

    The counts may lie at the top level, under `import` or under `tally`; the rest are facts about the origin.
    """
    provenance = tables.mapping(run.results.get("import"))
    if not provenance:
        return None
    tally = {
        **provenance,
        **tables.mapping(provenance.get("import")),
        **tables.mapping(provenance.get("tally")),
    }
    left_out = tally.get("skipped")
    rows = [tables.mapping(r) for r in left_out] if isinstance(left_out, list) else []
    counted = {"read", "used", "skipped", "notes", "import", "tally"}
    notes = tally.get("notes")
    return ImportCounts(
        facts=tables.settings({k: v for k, v in provenance.items() if k not in counted}),
        read=[(words.plain(k), tables.number(v)) for k, v in tables.mapping(tally.get("read")).items()],
        used=[
            (words.channel(str(k)), tables.number(v)) for k, v in tables.mapping(tally.get("used")).items()
        ],
        skipped=[
            (
                words.plain(r.get("measure", "")),
                words.plain(r.get("reason", "")),
                tables.number(r.get("count")),
            )
            for r in rows
        ]
        or [("", words.plain(k), tables.number(v)) for k, v in tables.flatten(tables.mapping(left_out))],
        notes=[words.plain(n, 500) for n in notes] if isinstance(notes, list) else [],
    )
