"""Verbs of VitalBench on data: prepare a centre's surgeries."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from tyro.conf import Positional

from wearjax.cli.output import Bar, Force, console, print_rows
from wearjax.errors import ConfigError

Source = Literal["csv", "vitaldb-tables", "vital-files", "beats", "mover-tables"]


def prepare(
    source: Positional[Source | None] = None,
    path: Positional[Path | None] = None,
    *,
    out: Path,
    centre: Literal["vitaldb", "mover"],
    split: str = "time",
    inclusion: Literal["auto", "published", "all"] = "auto",
    all_targets: bool = False,
    order: Literal["name", "directory"] | None = None,
    span: str | None = None,
    doses: Literal["minute", "cumulative"] | None = None,
    clinical: Path | None = None,
    synthetic: int | None = None,
    seed: int = 0,
    coupling: float = 1.0,
    hours: float | None = None,
    gaps: bool = True,
    force: Force = False,
) -> None:
    """Prepare surgeries for VitalBench, from files or invented, and say what was read and left out.

    Args:
        source: csv (published layout, one file per surgery), vitaldb-tables, vital-files, beats or mover-tables.
        path: file or folder to read.
        out: the store to write.
        centre: which variables and which step.
        split: time, random42, or a JSON file with the lists train, validation and test.
        inclusion: the published criteria or every surgery (auto: the criteria for vitaldb-tables and mover-tables).
        all_targets: leave out surgeries in which a target was never recorded.
        order: csv: by name, or as the file system lists the files.
        span: which part becomes rows: recording, anaesthesia or surgery (vitaldb-tables); room or surgery
            (mover-tables).
        doses: mover-tables: the amount given in each minute, or since the start.
        clinical: vital-files and beats: VitalDB's clinical table.
        synthetic: invent this many surgeries instead of reading any.
        seed: synthetic: same seed, same bytes.
        coupling: synthetic: from 0, targets independent of the other columns, to 1, driven by them.
        hours: synthetic: mean length of a recording.
        gaps: synthetic: lose blocks of values as the devices do.
    """
    from wearjax.segments import vital_preparing
    from wearjax.sources.synthetic_surgery import Cohort
    from wearjax.sources.vital_inclusion import Criteria
    from wearjax.vitals import CENTRES

    asked = {"order": order, "span": span, "doses": doses, "clinical": clinical}
    options: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    published = source in vital_preparing.RAW if inclusion == "auto" else inclusion == "published"
    criteria = Criteria(all_targets=all_targets) if published else None
    if all_targets and criteria is None:
        raise ConfigError("--all-targets goes with --inclusion published")
    with Bar("Preparing") as progress:
        common: dict[str, Any] = {
            "split": split,
            "criteria": criteria,
            "overwrite": force,
            "progress": progress,
        }
        if synthetic is not None:
            if source is not None or options:
                raise ConfigError(
                    "--synthetic invents the surgeries: give no source, path or reader's option"
                )
            cohort = Cohort(CENTRES[centre], synthetic, seed=seed, coupling=coupling, hours=hours, gaps=gaps)
            made = vital_preparing.prepare_synthetic(cohort, out, **common)
        elif source is None or path is None:
            raise ConfigError("give a source and its path, or --synthetic N")
        else:
            made = vital_preparing.prepare(source, path, out, centre=centre, **common, **options)
    for title, rows in vital_preparing.describe(made):
        print_rows(title, rows)
    for note in made.tally.notes:
        console.print(f"note: {note}", markup=False, highlight=False, soft_wrap=True)
