"""Verbs that use trained models and measure methods, this machine included."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from wearjax.cli.output import Bar, Force, PathArgument, console, print_rows
from wearjax.errors import ConfigError


def demo(*, out: Path = Path("wearjax-demo"), steps: int | None = None, force: Force = False) -> None:
    """Synthetic cohort → small LSM-2 → imputation scores → report.html.

    Args:
        out: folder for the cohort, the run and the report; an interrupted demo continues there.
        steps: training steps (default: the demo configuration's).
        force: start the training over.
    """
    from wearjax import demo as demonstration

    made = demonstration.run(out, say=console.print, steps=steps, force=force)
    console.print(made.results.summary(), soft_wrap=True, highlight=False)
    took = ", ".join(f"{stage} {seconds:.0f} s" for stage, seconds in made.seconds.items())
    console.print(f"Time: {took}")
    console.print(f"Report: {made.report.resolve()}", soft_wrap=True)


def imputation_track(
    data: PathArgument,
    *,
    out: Path,
    bundle: tuple[Path, ...] = (),
    methods: tuple[str, ...] = ("mean", "mode", "linear", "locf", "temporal_mean", "temporal_mode"),
    scenarios: tuple[str, ...] = (),
    n_days: int = 1,
    split: Literal["validation", "test"] = "test",
    max_samples: int | None = None,
    bootstrap: int = 1000,
    seed: int = 42,
    force: Force = False,
) -> None:
    """Score imputers on the OpenMHC masking scenarios, on single days or on windows of several days.

    Args:
        data: day store with splits, or OpenMHC data root.
        out: run folder for the scores and the report.
        bundle: trained models to score beside the statistical methods.
        methods: statistical imputers.
        scenarios: masking scenarios (default: all six).
        n_days: days a method sees at once, 1 to 7.
        max_samples: score at most this many days, or windows.
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
        loaded = bundles.load_bundle(path)
        name = path.parent.name if path.name == "bundle" else path.name
        imputers[name] = lsm2.imputer_of(loaded)
    results = imputation.evaluate_imputation(
        imputers,
        data_dir=data,
        split=split,
        n_days=n_days,
        scenarios=scenarios or imputation.ALL,
        max_samples=max_samples,
        output_dir=out,
        bootstrap=bootstrap,
        seed=seed,
    )
    console.print(results.summary(), soft_wrap=True, highlight=False)
    console.print(f"Report: {page.write_report([out]).resolve()}", soft_wrap=True)


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
    imputer = lsm2.imputer_of(loaded, batch_size=batch_size)
    with Bar("Imputing") as progress:
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
    what: Positional[
        Literal["lsm2", "lsm2_weekly", "lsm2_sparse", "wbm", "loader", "masks", "bootstrap"]
    ] = "lsm2",
    *,
    repeats: int = 3,
    batch: tuple[int, ...] = (),
    dtype: Literal["float32", "bfloat16"] = "float32",
    against: Path | None = None,
) -> None:
    """Measure this machine: throughput and share of the matrix-product rate taken in the same process.

    Args:
        what: the training step of a model at its published size, the loader, the masks, or the bootstrap.
        repeats: timed repetitions; the median is shown.
        batch: batch sizes of a model's step.
        dtype: compute type of a model's step.
        against: Python file with make_step(batch_size), e.g. of a PyTorch model, timed in turns with ours.
    """
    from wearjax import bench as benchmarks

    for title, rows in benchmarks.run(what, repeats=repeats, batch_sizes=batch, dtype=dtype, against=against):
        print_rows(title, rows)


def report(runs: Positional[tuple[Path, ...]], *, out: Path | None = None) -> None:
    """Write one self-contained HTML page from run folders.

    Args:
        runs: run folders.
        out: the page (default: report.html in the first run folder).
    """
    from wearjax.report import page

    console.print(f"Report: {page.write_report(list(runs), out=out).resolve()}", soft_wrap=True)
