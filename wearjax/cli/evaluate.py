"""Verbs that use trained models and measure methods, this machine included."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from wearjax.cli import options
from wearjax.cli.output import Bar, Force, PathArgument, console, going_on, print_rows, say_devices, show

# Names of `wearjax.predict.imputers.baselines`, which help should not have to import.
BASELINES = (
    "mean", "mode", "linear", "locf", "temporal_mean", "temporal_mode",
    "personalized_mean", "personalized_mode", "personalized_temporal_mean",
)  # fmt: skip


def demo(*, out: Path = Path("wearjax-demo"), steps: int | None = None, force: Force = False) -> None:
    """Synthetic cohort → small LSM-2 → imputation scores → report.html.

    Args:
        out: folder for the cohort, the run and the report; an interrupted demo continues there.
        steps: training steps (default: the demo configuration's).
        force: start the training over.
    """
    from wearjax import demo as demonstration

    say_devices()
    made = demonstration.run(out, say=console.print, steps=steps, force=force)
    console.print(made.results.summary(), soft_wrap=True, highlight=False)
    took = ", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in made.seconds.items())
    console.print(f"Time: {took}")
    console.print(f"Report: {made.report.resolve()}", soft_wrap=True)
    console.print("Your own recordings, from a phone or watch:")
    console.print("  wearjax data import apple-health export.zip --out days/me")
    console.print(f"  wearjax impute {out / 'run' / 'bundle'} days/me --out filled", soft_wrap=True)


def imputation_track(
    data: PathArgument,
    *,
    out: Path,
    bundle: tuple[Path, ...] = (),
    method: options.OwnMethods = (),
    methods: tuple[str, ...] = BASELINES,
    scenarios: tuple[str, ...] = (),
    n_days: int = 1,
    split: Literal["validation", "test"] = "test",
    max_samples: int | None = None,
    bootstrap: options.Bootstrap = 1000,
    seed: int = 42,
    mask_dir: Path | None = None,
    mask_seed: int = 42,
    batch_days: int = 256,
    engine: options.Engine = None,
    jobs: int | None = None,
    force: Force = False,
) -> None:
    """Score imputers on the OpenMHC masking scenarios, on single days or on windows of several days.

    Interrupted, the same command goes on where it stopped; finished, it shows the scores again.

    Args:
        data: day store with splits, or OpenMHC data root.
        out: run folder for the scores and the report.
        bundle: trained models to score beside the statistical methods.
        methods: statistical imputers.
        scenarios: masking scenarios (default: all six).
        n_days: days a method sees at once, 1 to 7.
        max_samples: score at most this many days, or windows.
        mask_dir: folder of published masks, SPLIT/SCENARIO.npz (default: the one that a full OpenMHC data root holds,
            else masks are drawn).
        mask_seed: draws the masks; the benchmark's are those of 42.
        batch_days: most days in one call of a method.
        jobs: processes of the engine (default: one a core).
    """
    from wearjax.benchmarks.openmhc import arguments, imputation
    from wearjax.days import splits
    from wearjax.days.open import open_days
    from wearjax.predict import from_file
    from wearjax.predict.imputers import baselines, loading
    from wearjax.report import page

    own = [from_file.load(text) for text in method]
    trained = [(options.run_name(path), loading.load(path)) for path in bundle]
    days, members = open_days(data), splits.read_splits(data)
    chosen = [members.indices(days, name) for name in ("train", split)]
    with going_on(out):
        results = imputation.evaluate_imputation(
            arguments.distinct([*baselines.build_all(methods, days, *chosen).items(), *trained, *own]),
            data_dir=data,
            split=split,
            n_days=n_days,
            scenarios=scenarios or imputation.ALL,
            max_samples=max_samples,
            output_dir=out,
            bootstrap=bootstrap,
            seed=seed,
            mask_dir=mask_dir,
            mask_seed=mask_seed,
            batch_days=batch_days,
            engine=engine,
            jobs=jobs,
            force=force,
        )
    show(results.summary(), lambda: page.write_report([out]))


def retrieval(
    bundle: PathArgument,
    data: PathArgument,
    *,
    split: Literal["train", "validation", "test"] = "test",
    batch_size: int = 32,
) -> None:
    """Ask of each week's vector which other week is nearest: how often one of the same participant?

    Args:
        bundle: folder of a trained WBM.
        data: day store with splits, or OpenMHC data root.
    """
    from wearjax.convert import bundle as bundles
    from wearjax.days import splits
    from wearjax.days.open import open_days
    from wearjax.predict import representations

    encoder = representations.WeekEncoder(bundles.load_bundle(bundle), batch_size=batch_size)
    days = open_days(data)
    with Bar("Reading hours") as progress:
        found = representations.week_retrieval(
            encoder, days, splits.read_splits(data).indices(days, split), progress=progress
        )
    shown = {name: f"{v:.3f}" if isinstance(v, float) else f"{v:,}" for name, v in found.items()}
    print_rows(f"Weeks of the same participant, {split}", [shown])


def impute(
    bundle: PathArgument, days: PathArgument, *, out: Path, batch_size: int = 16, force: Force = False
) -> None:
    """Fill what a store did not measure with a trained model, and show it.

    Stopped between the filled store and the pages, the same command goes on with the pages.

    Args:
        bundle: folder of a trained model.
        days: day store or OpenMHC data root to fill.
        out: run folder: the filled store in days/, a gallery, report.html and, for a few people, your_days.html.
    """
    from wearjax import json_text
    from wearjax.convert import bundle as bundles
    from wearjax.days.open import open_days
    from wearjax.predict import fill, hidden_errors
    from wearjax.predict.imputers import lsm2
    from wearjax.report import page, your_days
    from wearjax.segments import person_days

    loaded = bundles.load_bundle(bundle)
    imputer = lsm2.imputer_of(loaded, batch_size=batch_size)
    recorded = open_days(days)
    facts: dict[str, Any] = {"method": loaded.kind, "config": bundles.describe(loaded)}
    few = len(set(recorded.participants)) <= your_days.PEOPLE_MAX
    pages = [out / "report.html", *([out / your_days.NAME] if few else [])]
    missing = not force and not all(file.exists() for file in pages)
    if not (missing and fill.is_filled(out, imputer, recorded, **facts)):
        with Bar("Imputing") as progress:
            fill.fill_days(
                imputer, recorded, out, **facts, overwrite=force, batch_size=batch_size, progress=progress
            )
    console.print(f"Filled store: {out / 'days'}", soft_wrap=True)
    if by := fill.filled_by(facts["config"]):
        console.print(by, soft_wrap=True, markup=False, highlight=False)
    if never := fill.guessed(json_text.loads((out / "results.json").read_text())):
        console.print(f"Without any recording, every value a guess: {', '.join(never)}", soft_wrap=True)
    console.print(f"Report: {page.write_report([out]).resolve()}", soft_wrap=True)
    if not few:
        return
    if not (out / your_days.DAYS_FILE).exists():
        with Bar("Reading days") as progress:
            person_days.save(person_days.of_days(recorded, progress=progress), out / your_days.DAYS_FILE)
    if not (out / your_days.ERRORS_FILE).exists():
        with Bar("Hiding measured minutes") as progress:
            errors = hidden_errors.measure(imputer, recorded, batch_size=batch_size, progress=progress)
            hidden_errors.save(errors, out / your_days.ERRORS_FILE)
    console.print(f"Your days: {your_days.write(out).resolve()}", soft_wrap=True)


def bench(
    what: Positional[
        Literal[
            "lsm2",
            "lsm2_weekly",
            "lsm2_sparse",
            "wbm",
            "vital",
            "loader",
            "masks",
            "features",
            "bootstrap",
            "prediction_bootstrap",
            "arima",
            "import",
        ]
    ] = "lsm2",
    *,
    repeats: int = 3,
    batch: tuple[int, ...] = (),
    dtype: Literal["float32", "bfloat16"] = "float32",
    against: Path | None = None,
    size_mb: float | None = None,
) -> None:
    """Measure this machine: throughput and share of the matrix-product rate taken in the same process.

    Args:
        what: the training step of a model at its published size (vital: of VitalBench), the loader, the masks, the
            features of XGBoost, a bootstrap, the statistical forecasters, or the import of an Apple Health export.
        repeats: timed repetitions; the median is shown.
        batch: batch sizes of a model's step.
        dtype: compute type of a model's step.
        against: Python file of a rival, timed in turns with ours: make_step(batch_size) of a model, e.g. in
            PyTorch (vital: make_step(batch_size, model=...)); score(errors, users, draws, baseline) of the
            bootstrap.
        size_mb: million bytes of XML of the made export that is imported (default: 1000).
    """
    from wearjax import bench as benchmarks

    if what in benchmarks.STEPS:
        say_devices()
    for title, rows in benchmarks.run(
        what, repeats=repeats, batch_sizes=batch, dtype=dtype, against=against, size_mb=size_mb
    ):
        print_rows(title, rows)


def report(runs: Positional[tuple[Path, ...]], *, out: Path | None = None, force: Force = False) -> None:
    """Write one self-contained HTML page from run folders; several, or leaderboard packets, give a leaderboard.

    A folder of `wearjax impute` gets its page of one person's days anew as well, unless --out says where to write.

    Args:
        runs: run folders, and leaderboard packets: their .parquet tables, or folders of them.
        out: the page (default: report.html in the first folder); an earlier page there is replaced.
        force: replace whatever file is there.
    """
    from wearjax.report import page, your_days

    def say(note: str) -> None:
        console.print(note, soft_wrap=True, highlight=False, markup=False)

    written = page.write_report(list(runs), out=out, overwrite=force, say=say)
    console.print(f"Report: {written.resolve()}", soft_wrap=True)
    for run in filter(your_days.is_run, runs if out is None else ()):
        console.print(f"Your days: {your_days.write(run).resolve()}", soft_wrap=True)


def packet(
    run: PathArgument,
    *,
    out: Path,
    method: str | None = None,
    name: str | None = None,
    submitter: str = "",
    code_url: str = "",
    paper_url: str = "",
    category: str = "Other",
    notes: str = "",
    subtrack: Literal["static", "longitudinal"] | None = None,
    force: Force = False,
) -> None:
    """Write the leaderboard packet of one method of a finished evaluation; `wearjax report` compares packets.

    Args:
        run: run folder of `wearjax evaluate imputation`, `forecasting` or `prediction`.
        out: folder of packets; several methods may share it, and an earlier packet of the method is replaced.
        method: which one (default: the only learned one).
        name: shown on leaderboards (default: that of the method).
        submitter: team or person.
        code_url: address of the code.
        paper_url: address of the paper.
        notes: anything else that a reader should know.
        category: kind of method, e.g. "Foundation model" or "Statistical".
        subtrack: outcome prediction only (default: static).
        force: write into a folder that holds other things, over a packet of another method too.
    """
    from wearjax.benchmarks.openmhc import run_packets
    from wearjax.benchmarks.openmhc.packet import Submission

    described = run_packets.write(
        run, out, method=method, subtrack=subtrack, force=force,
        submission=Submission(
            name=name or "", submitter=submitter, code_url=code_url, paper_url=paper_url, category=category, notes=notes
        ),
    )  # fmt: skip
    console.print(f"Packet: {described.resolve()}", soft_wrap=True)
