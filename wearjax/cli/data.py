"""Verbs on recordings: make, import, inspect, check."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from wearjax.cli.output import Bar, Force, PathArgument, console, print_rows, with_options
from wearjax.errors import WearjaxError


def synth(
    *,
    out: Path,
    participants: int = 100,
    days: int = 14,
    seed: int = 42,
    shuffle_labels: bool = False,
    force: Force = False,
) -> None:
    """Make a synthetic cohort with labels for the prediction tasks.

    Args:
        out: the day store to write.
        participants: number of people.
        days: days per person, on average.
        seed: same seed, same bytes.
        shuffle_labels: exchange the labels between people, so that nothing can be predicted.
    """
    from wearjax.days import importing, label_tables
    from wearjax.sources import synthetic, synthetic_labels
    from wearjax.sources.tally import Tally

    if participants < 1:
        raise WearjaxError(f"--participants: must be at least 1, got {participants}")
    cohort = synthetic.Cohort(n_participants=participants, days_per_participant=days, seed=seed)
    tally = Tally()
    labels = synthetic_labels.labels(cohort, shuffle=shuffle_labels)
    with Bar("Simulating") as progress:
        importing.write_days(
            synthetic.read_days(cohort, tally=tally, progress=progress),
            out,
            provenance={"source": "synthetic", "seed": seed, "shuffled_labels": shuffle_labels},
            tally=tally,
            overwrite=force,
            demographics=synthetic.demographics(cohort),
            then=lambda days: label_tables.write_task_labels(days, labels, progress=progress),
        )
    inspect(out)


def import_(
    source: Positional[
        Literal["apple-health", "fitbit", "fitbit-takeout", "health-connect", "actigraphy", "openmhc"]
    ],
    path: PathArgument,
    *,
    out: Path,
    absent: Literal["zero-when-recording", "missing"] | None = None,
    zone: str | None = None,
    intraday: Literal["utc", "local"] | None = None,
    apps: tuple[str, ...] = (),
    participant: str | None = None,
    active_energy: bool = False,
    include_third_party: bool = False,
    include_manual: bool = False,
    keep_partial: bool = False,
    engine: str | None = None,
    jobs: int | None = None,
    force: Force = False,
) -> None:
    """Import recordings into a day store and say what was read, used and skipped.

    wearjax data import apple-health export.zip --out days/me

    Args:
        source: format of the recordings.
        path: file or folder to read.
        out: the day store to write.
        absent: what a minute without a sample means on a day on which the device recorded something (default:
            zero-when-recording).
        zone: IANA zone such as Europe/Berlin. Fitbit archive: where the person lived; needed. Apple Health and Health
            Connect: place all records in it instead of by each record's own offset, which is "record".
        intraday: Fitbit archive: clock of the times in its minute JSON; without it the error says which one fits.
        apps: Health Connect: package names of the apps to read, the preferred first; without it all.
        participant: phone and account exports: id of the person (default: self).
        active_energy: Fitbit: estimate active energy from calories.
        include_third_party: Apple Health, Fitbit archive: use records of other apps and devices.
        include_manual: phone and account exports: use records entered by hand.
        keep_partial: Apple Health, Fitbit archive: keep what a damaged export still holds; exits with 1 all the same.
        engine: OpenMHC root: read parts of it side by side: local (processes), dask (a Dask cluster on this machine)
            or the address of a Dask scheduler, tcp://HOST:PORT (default: this process).
        jobs: processes of the engine (default: one a core).
    """
    from wearjax.days import importing

    options = {
        name: value
        for name, value in {
            "absent": absent,
            "zone": zone,
            "intraday": intraday,
            "apps": apps,
            "participant": participant,
            "active_energy": active_energy,
            "include_third_party": include_third_party,
            "include_manual": include_manual,
            "keep_partial": keep_partial,
        }.items()
        if value  # what was not asked for is the importer's own default
    }
    with Bar(f"Reading {path.name}") as progress:
        made = importing.import_days(
            source, path, out, overwrite=force, engine=engine, jobs=jobs, progress=progress, **options
        )
    print_rows("Read", [{"records": name, "read": f"{count:,}"} for name, count in made.tally.read.items()])
    print_rows("Records and days by channel", made.tally.channel_rows())
    print_rows("Implausible, kept as recorded", made.tally.implausible_rows())
    inspect(out)
    console.print(f"Store: {out}", soft_wrap=True, markup=False, highlight=False)
    if made.tally.partial:
        raise WearjaxError(f"{path}: {made.tally.partial}")


def inspect(store: PathArgument) -> None:
    """Show what a day store holds: participants, days, wear, channels, and what its import skipped.

    Args:
        store: a day store or an OpenMHC data root.
    """
    from wearjax.days import coverage
    from wearjax.days.open import open_days

    days = open_days(store)
    for title, rows in coverage.describe(days):
        said = [{key: with_options(cell, import_) for key, cell in row.items()} for row in rows]
        print_rows(title, said, words=("left out because",))


def check(store: PathArgument, *, against: Path | None = None) -> None:
    """Read every day of a store and check shapes, ranges and filters; exits 1 when something is wrong.

    Args:
        store: a day store or an OpenMHC data root.
        against: the Fitbit export it was imported from, to compare daily step totals.
    """
    from wearjax.days import check
    from wearjax.days.open import open_days

    days = open_days(store)
    with Bar("Checking") as progress:
        found = check.check_days(days, progress=progress)
    print_rows("Store", found.rows)
    if against is not None:
        compared = check.compare_daily_steps(days, against)
        print_rows("Daily step totals", compared.rows)
        found = check.Checked(found.rows + compared.rows, found.problems + compared.problems)
    if found.problems:
        raise WearjaxError(f"{store}: " + "; ".join(found.problems))
