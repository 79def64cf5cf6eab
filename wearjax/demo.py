"""The demonstration: a made cohort, a small LSM-2 trained on it, its imputation scores, and a report to look at."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from wearjax import plural
from wearjax.benchmarks.openmhc import imputation
from wearjax.benchmarks.openmhc.imputation_results import ImputationResults
from wearjax.convert import bundle as bundles
from wearjax.days import coverage, importing, splits
from wearjax.days.open import open_days
from wearjax.days.store import Days
from wearjax.errors import ConfigError
from wearjax.predict.imputers import lsm2, statistical
from wearjax.report import page
from wearjax.sources import synthetic
from wearjax.sources.tally import Tally
from wearjax.train import config as configs
from wearjax.train import loop

BASELINES = ("mean", "mode", "linear", "locf", "temporal_mean", "temporal_mode")
COHORT = synthetic.Cohort(n_participants=160, days_per_participant=14, seed=7)
EVALUATED_DAYS = 400


@dataclass(frozen=True)
class Demo:
    """What the demonstration made."""

    results: ImputationResults
    report: Path
    seconds: dict[str, float]


def run(
    out: str | os.PathLike,
    *,
    say: Callable[[str], None] = print,
    cohort: synthetic.Cohort = COHORT,
    steps: int | None = None,
    max_days: int | None = EVALUATED_DAYS,
    force: bool = False,
) -> Demo:
    """Runs every station once under `out`: `days/` (store), `run/` (training, scores) and `report.html`.

    Run again, it keeps the cohort and resumes the training where it stopped.

    Args:
        steps: training steps; default is the configuration's.
        max_days: days of the test split to score; None scores all.
        force: start the training over.
    """
    if steps is not None and steps < 1:
        raise ConfigError(f"steps: must be at least 1, got {steps}")
    out = Path(out)
    clock = _Clock()
    days = _cohort_days(out / "days", cohort, say)
    clock.lap("cohort")

    config = configs.load_config("demo")
    if steps is not None:
        config = replace(config, loop=replace(config.loop, steps=steps))
    trained = not force and (out / "run" / "bundle").exists()
    if trained:
        say(f"Using the model in {out / 'run'}; --force trains it anew")
    else:
        say(f"Training a small LSM-2 for {config.loop.steps} {plural.noun(config.loop.steps or 0, 'step')}")
    loop.pretrain(
        config, data_dir=out / "days", out=out / "run", force=force, bundles=bundles,
        console=Console(quiet=True) if trained else None,
    )  # fmt: skip
    clock.lap("training")

    say("Scoring six statistical imputers and LSM-2 on six masking scenarios")
    methods = _baselines(days, out / "days")
    methods["lsm2"] = lsm2.LSM2Imputer(bundles.load_bundle(out / "run" / "bundle"), clip=True)
    results = imputation.evaluate_imputation(
        methods, data_dir=out / "days", split="test", max_samples=max_days, output_dir=out / "run", force=True
    )  # the same answers again where it ran before
    clock.lap("scoring")

    coverage.save(coverage.coverage(days), out / "run" / "coverage.npz")
    report = page.write_report([out / "run"], out=out / "report.html", overwrite=force)
    clock.lap("report")
    return Demo(results, report, clock.laps)


def _cohort_days(path: Path, cohort: synthetic.Cohort, say: Callable[[str], None]) -> Days:
    if (path / "store.json").exists():
        say(f"Using the cohort in {path}")
        return open_days(path)
    people, days = cohort.n_participants, cohort.days_per_participant
    say(f"Making {people} {plural.noun(people, 'participant')} of about {days} {plural.noun(days, 'day')}")
    tally = Tally()
    importing.write_days(
        synthetic.read_days(cohort, tally=tally),
        path,
        provenance={"source": "synthetic", "seed": cohort.seed},
        tally=tally,
        demographics=synthetic.demographics(cohort),
    )
    return open_days(path)


def _baselines(days: Days, data_dir: Path) -> dict:
    train = splits.read_splits(data_dir).indices(days, "train")
    return dict(statistical.build_all(BASELINES, days, train))


class _Clock:
    """Seconds of each stage."""

    def __init__(self):
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.laps[stage] = now - self._last
        self._last = now
