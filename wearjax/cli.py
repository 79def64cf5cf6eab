"""The command line: one verb per intent. It parses, calls a room, prints; nothing is computed here."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from tyro.conf import Positional

from wearjax.errors import ConfigError, WearjaxError

console = Console()
_Path = Positional[Path]
_Force = Annotated[bool, tyro.conf.arg(help="Replace what is already there.")]


class _Bar:
    """A progress bar that learns its total with the first step."""

    def __init__(self, title: str):
        self._progress = Progress(console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task(title, total=None)

    def __enter__(self) -> Callable[[int, int], None]:
        self._progress.start()
        return lambda done, total: self._progress.update(self._task, completed=done, total=total)

    def __exit__(self, *_) -> None:
        self._progress.stop()


def demo(*, out: Path = Path("wearjax-demo"), steps: int | None = None, force: _Force = False) -> None:
    """Synthetic cohort → small LSM-2 → imputation scores → report.html.

    Args:
        out: folder for the cohort, the run and the report; an interrupted demo continues there.
        steps: training steps (default: the demo configuration's).
        force: start the training over.
    """
    from wearjax import demo as demonstration

    made = demonstration.run(out, say=console.print, steps=steps, force=force)
    console.print(made.results.summary())
    took = ", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in made.seconds.items())
    console.print(f"Time: {took}")
    console.print(f"Report: {made.report.resolve()}", soft_wrap=True)


def data_synth(
    *, out: Path, participants: int = 100, days: int = 14, seed: int = 42, force: _Force = False
) -> None:
    """Make a synthetic cohort.

    Args:
        out: the day store to write.
        participants: number of people.
        days: days per person, on average.
        seed: same seed, same bytes.
    """
    from wearjax.days import importing
    from wearjax.sources import synthetic
    from wearjax.sources.tally import Tally

    cohort = synthetic.Cohort(n_participants=participants, days_per_participant=days, seed=seed)
    tally = Tally()
    with _Bar("Simulating") as progress:
        importing.write_days(
            synthetic.read_days(cohort, tally=tally, progress=progress),
            out,
            provenance={"source": "synthetic", "seed": seed},
            tally=tally,
            overwrite=force,
            demographics=synthetic.demographics(cohort),
        )
    data_inspect(out)


def data_import(
    source: Positional[Literal["apple-health", "fitbit", "actigraphy", "openmhc"]],
    path: _Path,
    *,
    out: Path,
    absent: Literal["zero-when-recording", "missing"] | None = None,
    zone: str | None = None,
    participant: str | None = None,
    include_third_party: bool = False,
    include_manual: bool = False,
    keep_partial: bool = False,
    force: _Force = False,
) -> None:
    """Import recordings into a day store and say what was read, used and skipped.

    Args:
        source: format of the recordings.
        path: file or folder to read.
        out: the day store to write.
        absent: what a minute without a sample means on a day on which the device recorded something (default:
            zero-when-recording).
        zone: Apple Health: place all records in this IANA zone instead of each record's own offset.
        participant: Apple Health: id of the person (default: self).
        include_third_party: Apple Health: use records of other apps and devices.
        include_manual: Apple Health: use records entered by hand.
        keep_partial: Apple Health: keep what a damaged export still holds; exits with 1 all the same.
    """
    from wearjax.days import importing

    options = {
        name: value
        for name, value in {
            "absent": absent,
            "zone": zone,
            "participant": participant,
            "include_third_party": include_third_party,
            "include_manual": include_manual,
            "keep_partial": keep_partial,
        }.items()
        if value  # what was not asked for is the importer's own default
    }
    with _Bar(f"Reading {path.name}") as progress:
        made = importing.import_days(source, path, out, overwrite=force, progress=progress, **options)
    _print_rows("Read", [{"records": name, "read": f"{count:,}"} for name, count in made.tally.read.items()])
    data_inspect(out)
    if made.tally.partial:
        raise WearjaxError(f"{path}: {made.tally.partial}")


def data_inspect(store: _Path) -> None:
    """Show what a day store holds: participants, days, wear, channels, and what its import skipped.

    Args:
        store: a day store or an OpenMHC data root.
    """
    from wearjax.days import coverage
    from wearjax.days.open import open_days

    days = open_days(store)
    for title, rows in coverage.describe(days):
        _print_rows(title, rows)


def data_check(store: _Path, *, against: Path | None = None) -> None:
    """Read every day of a store and check shapes, ranges and filters; exits 1 when something is wrong.

    Args:
        store: a day store or an OpenMHC data root.
        against: the Fitbit export it was imported from, to compare daily step totals.
    """
    from wearjax.days import check
    from wearjax.days.open import open_days

    days = open_days(store)
    with _Bar("Checking") as progress:
        found = check.check_days(days, progress=progress)
    _print_rows("Store", found.rows)
    if against is not None:
        compared = check.compare_daily_steps(days, against)
        _print_rows("Daily step totals", compared.rows)
        found = check.Checked(found.rows + compared.rows, found.problems + compared.problems)
    if found.problems:
        raise WearjaxError(f"{store}: " + "; ".join(found.problems))


def pretrain(
    config: Positional[str], *, data: Path | None = None, out: Path | None = None, force: _Force = False
) -> Callable[[list[str]], None]:
    """Pretrain a model. Run the same command again to resume; any field of the configuration can be set by its
    dotted name, e.g. `--loop.steps 1000 --model.encoder-depth 4`.

    Args:
        config: a Python file with `get_config()`, or the name of a shipped configuration.
        data: day store or OpenMHC data root (default: the configuration's data.path).
        out: run folder (default: runs/<name of the configuration>).
        force: start over instead of resuming.
    """

    def run(overrides: list[str]) -> None:
        from wearjax.convert import bundle as bundles
        from wearjax.train import config as configs
        from wearjax.train import loop

        resolved = configs.override(configs.load_config(config), overrides)
        result = loop.pretrain(
            resolved,
            data_dir=data or resolved.data.path,
            out=out or Path("runs") / resolved.name,
            force=force,
            bundles=bundles,
        )
        console.print(f"Run: {result.run_dir}\nBundle: {result.bundle_path}", soft_wrap=True)

    return run


def evaluate_imputation(
    data: _Path,
    *,
    out: Path,
    bundle: tuple[Path, ...] = (),
    methods: tuple[str, ...] = ("mean", "mode", "linear", "locf", "temporal_mean", "temporal_mode"),
    scenarios: tuple[str, ...] = (),
    split: Literal["validation", "test"] = "test",
    max_samples: int | None = None,
    bootstrap: int = 1000,
    seed: int = 42,
    force: _Force = False,
) -> None:
    """Score imputers on the single-day OpenMHC masking scenarios.

    Args:
        data: day store with splits, or OpenMHC data root.
        out: run folder for the scores and the report.
        bundle: trained models to score beside the statistical methods.
        methods: statistical imputers.
        scenarios: masking scenarios (default: all six).
        max_samples: score at most this many days.
        bootstrap: resamples for the intervals.
    """
    from wearjax.benchmarks.openmhc import imputation
    from wearjax.convert import bundle as bundles
    from wearjax.days import splits
    from wearjax.days.open import open_days
    from wearjax.predict.imputers import lsm2, statistical
    from wearjax.report import page

    if (out / "results.json").exists() and not force:
        raise ConfigError(f"{out} already holds results; pass --force to replace them")
    days = open_days(data)
    train = splits.read_splits(data).indices(days, "train")
    imputers = dict(statistical.build_all(methods, days, train))
    for path in bundle:
        imputers[path.parent.name if path.name == "bundle" else path.name] = lsm2.LSM2Imputer(
            bundles.load_bundle(path)
        )
    results = imputation.evaluate_imputation(
        imputers,
        data_dir=data,
        split=split,
        scenarios=scenarios or imputation.ALL,
        max_samples=max_samples,
        output_dir=out,
        bootstrap=bootstrap,
        seed=seed,
    )
    console.print(results.summary())
    console.print(f"Report: {page.write_report([out]).resolve()}", soft_wrap=True)


def impute(bundle: _Path, days: _Path, *, out: Path, batch_size: int = 16, force: _Force = False) -> None:
    """Fill what a store did not measure with a trained model, and show it.

    Args:
        bundle: folder of a trained model.
        days: day store or OpenMHC data root to fill.
        out: run folder: the filled store in days/, a gallery and report.html.
    """
    from wearjax.convert import bundle as bundles
    from wearjax.days.open import open_days
    from wearjax.predict import fill
    from wearjax.predict.imputers import lsm2
    from wearjax.report import page

    loaded = bundles.load_bundle(bundle)
    imputer = lsm2.LSM2Imputer(loaded, batch_size=batch_size)
    with _Bar("Imputing") as progress:
        fill.fill_days(
            imputer,
            open_days(days),
            out,
            method=loaded.kind,
            config=bundles.describe(loaded),
            overwrite=force,
            batch_size=batch_size,
            progress=progress,
        )
    console.print(f"Filled store: {out / 'days'}", soft_wrap=True)
    console.print(f"Report: {page.write_report([out]).resolve()}", soft_wrap=True)


def bench(
    what: Positional[Literal["lsm2", "loader", "masks", "bootstrap"]] = "lsm2", *, repeats: int = 3
) -> None:
    """Measure this machine: throughput and share of the matrix-product rate taken in the same process.

    Args:
        what: the training step of LSM-2 at the published size, the loader, the masks, or the bootstrap.
        repeats: timed repetitions; the median is shown.
    """
    from wearjax import bench as benchmarks

    for title, rows in benchmarks.run(what, repeats=repeats):
        _print_rows(title, rows)


def report(runs: Positional[tuple[Path, ...]], *, out: Path | None = None) -> None:
    """Write one self-contained HTML page from run folders.

    Args:
        runs: run folders.
        out: the page (default: report.html in the first run folder).
    """
    from wearjax.report import page

    console.print(f"Report: {page.write_report(list(runs), out=out).resolve()}", soft_wrap=True)


VERBS: dict[tuple[str, ...], Callable] = {
    ("demo",): demo,
    ("data", "synth"): data_synth,
    ("data", "import"): data_import,
    ("data", "inspect"): data_inspect,
    ("data", "check"): data_check,
    ("pretrain",): pretrain,
    ("evaluate", "imputation"): evaluate_imputation,
    ("impute",): impute,
    ("bench",): bench,
    ("report",): report,
}


def _print_rows(title: str, rows: Sequence[dict]) -> None:
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(rows[0] if rows else ()):
        table.add_column(name, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*(str(cell) for cell in row.values()))
    console.print(table)


def _help(prefix: tuple[str, ...] = ()) -> None:
    table = Table(box=None, show_header=False)
    for words, command in VERBS.items():
        if words[: len(prefix)] == prefix:
            table.add_row("wearjax " + " ".join(words), (command.__doc__ or "").split("\n")[0])
    console.print(table)
    console.print("Each verb explains itself with --help.")


def _verb(args: list[str]) -> tuple[tuple[str, ...], list[str]] | None:
    for length in (2, 1):
        if tuple(args[:length]) in VERBS:
            return tuple(args[:length]), args[length:]
    return None


def _run(args: list[str]) -> None:
    found = _verb(args)
    if found is None:
        words = tuple(a for a in args if not a.startswith("-"))
        if words and not any(verb[0] == words[0] for verb in VERBS):
            near = difflib.get_close_matches(words[0], {verb[0] for verb in VERBS}, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"unknown verb {words[0]!r}{hint} (wearjax --help lists the verbs)")
        return _help(words[:1])
    verb, rest = found
    command, prog = VERBS[verb], "wearjax " + " ".join(verb)
    if verb == ("pretrain",):
        start, overrides = tyro.cli(command, prog=prog, args=rest, return_unknown_args=True)
        return start(overrides)
    return tyro.cli(command, prog=prog, args=rest)


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of `wearjax`. Errors meant for people are one line and exit status 1; Ctrl-C exits with 130."""
    try:
        _run(list(sys.argv[1:] if args is None else args))
    except WearjaxError as error:
        Console(stderr=True, soft_wrap=True, highlight=False).print(f"error: {error}", markup=False)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted")
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
