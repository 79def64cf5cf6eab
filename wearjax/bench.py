"""Measurements of this machine, as rates and as shares of what it can do; behind `wearjax bench`."""

from __future__ import annotations

import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from wearjax.days import importing
from wearjax.days.store import Days
from wearjax.errors import ConfigError
from wearjax.sources import synthetic
from wearjax.sources.tally import Tally

Table = tuple[str, list[dict]]

LOADER_BATCH = 32
LOADER_BATCHES = 200
MASKED_DAYS = 100
ARIMA_SERIES = 20
IMPORT_MB = 1000.0


def run(
    what: str,
    *,
    repeats: int,
    batch_sizes: Sequence[int] = (),
    dtype: str = "float32",
    against: str | os.PathLike | None = None,
    size_mb: float | None = None,
) -> list[Table]:
    """Runs one measurement and returns tables to print.

    Args:
        batch_sizes: of a model's step; default by model.
        dtype: compute type of a model's step.
        against: Python file of a rival: for a model `make_step(batch_size)`, whose step of another library is
            timed in turns, for VitalBench with `model=` too; for the bootstrap `score(errors, users, draws, baseline)`.
        size_mb: of the import: million bytes of XML.

    Raises:
        ConfigError: an option that belongs to models, given to another measurement, or a file without it.
    """
    if repeats < 1 or any(size < 1 for size in batch_sizes):
        raise ConfigError("--repeats, --batch: must be at least 1")
    if size_mb is not None and what != "import":
        raise ConfigError(f"--size-mb: only for wearjax bench import, not for {what}")
    if size_mb is not None and not size_mb > 0:
        raise ConfigError(f"--size-mb: must be positive, got {size_mb:g}")
    if what in MODELS:
        return _model_step(what, repeats, tuple(batch_sizes), dtype, against)
    if what == "vital" and dtype == "float32":
        return vital(repeats, tuple(batch_sizes), against)
    if batch_sizes or dtype != "float32":
        raise ConfigError(f"--batch, --dtype: only for models ({', '.join(MODELS)}), not for {what}")
    if what == "bootstrap" and against is not None:
        return bootstrap_against(repeats, Path(against))
    if against:
        raise ConfigError(f"--against: only for models, vital and bootstrap, not for {what}")
    if what == "import":
        return apple_health_import(IMPORT_MB if size_mb is None else size_mb)
    return MEASUREMENTS[what](repeats)


def _model_step(
    what: str,
    repeats: int,
    batch_sizes: tuple[int, ...],
    dtype: str,
    against: str | os.PathLike | None,
) -> list[Table]:
    """The training step of a model at its published size, against a matrix product in the same process."""
    from wearjax.train import config as configs
    from wearjax.train import lsm2_breakdown, rival, throughput

    name, default_sizes = MODELS[what]
    config = replace(configs.load_config(name).model, dtype=dtype)
    table, steps = throughput.measure(
        config, batch_sizes=batch_sizes or default_sizes, repeats=repeats,
        make_rival=None if against is None else partial(rival.RivalStep, Path(against)),
        loader_rate=loader_rate(1),
    )  # fmt: skip
    if what != "lsm2":
        return [table]
    title = f"Where the step of batch {steps[0].batch_size} goes, parts timed alone"
    return [table, (title, lsm2_breakdown.breakdown(steps[0], repeats=repeats))]


def vital(repeats: int, batch_sizes: tuple[int, ...], against: str | os.PathLike | None) -> list[Table]:
    """Training steps of VitalBench's models at the sizes published for VitalDB."""
    from wearjax.train import vital_throughput

    rival = None if against is None else Path(against)
    return [
        vital_throughput.measure(batch_size=size, repeats=repeats, against=rival)
        for size in batch_sizes or (vital_throughput.BATCH_SIZE,)
    ]


def _rival(file: Path, wanted: str) -> Callable[..., Any]:
    """The function of a file that is `wanted`, given with its arguments."""
    if not file.is_file():
        raise ConfigError(f"{file}: no such file")
    spec = importlib.util.spec_from_file_location("wearjax_rival", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        raise ConfigError(f"{file}: {error}") from error
    name = wanted.partition("(")[0]
    if not hasattr(module, name):
        raise ConfigError(f"{file}: has no function {wanted}")
    return getattr(module, name)


def loader(repeats: int) -> list[Table]:
    """Random days a second from a made store, page cache warm."""
    rate = loader_rate(repeats)
    return [("Loader", [{"batch": LOADER_BATCH, "days/s": f"{rate:,.0f}"}])]


def loader_rate(repeats: int) -> float:
    """Median days a second."""
    from wearjax.batches.examples import DayExamples
    from wearjax.batches.loader import Loader
    from wearjax.batches.source import ShuffledBatches

    with tempfile.TemporaryDirectory() as folder:
        days = _made_days(Path(folder) / "days", participants=120)
        indices = np.arange(len(days))
        days.batch(indices)  # warms the page cache

        def read() -> float:
            batches = ShuffledBatches(
                DayExamples(days, indices), batch_size=LOADER_BATCH, n_batches=LOADER_BATCHES, seed=0
            )
            with Loader(batches) as loaded:
                next(loaded)  # starts the reading thread
                start = time.perf_counter()
                count = sum(len(batch["index"]) for batch in loaded)
                return count / (time.perf_counter() - start)

        return statistics.median(read() for _ in range(repeats))


def masks(repeats: int) -> list[Table]:
    """Days a second through each masking scenario, one core."""
    from wearjax.segments import masks as scenarios

    with tempfile.TemporaryDirectory() as folder:
        days = _made_days(Path(folder) / "days", participants=12)
        values = days.batch(np.arange(min(MASKED_DAYS, len(days))))
    observed = ~np.isnan(values)

    def seconds(scenario: str) -> float:
        start = time.perf_counter()
        for i in range(len(values)):
            scenarios.make_mask(scenario, values[i], observed[i], np.random.default_rng(i))
        return time.perf_counter() - start

    taken = {name: statistics.median(seconds(name) for _ in range(repeats)) for name in scenarios.SCENARIOS}
    rows = [{"scenario": name, "days/s": f"{len(values) / s:,.0f}"} for name, s in taken.items()]
    rows.append({"scenario": "all six", "days/s": f"{len(values) / sum(taken.values()):,.0f}"})
    return [("Masks", rows)]


def bootstrap(repeats: int) -> list[Table]:
    """Seconds of the whole scoring of 1,000 participants x 10 methods x all tasks, 1,000 draws."""
    from wearjax.benchmarks.openmhc import bootstrap_timing

    seconds = bootstrap_timing.bootstrap_seconds(repeats=repeats)
    rows = [{"participants": 1000, "methods": 10, "draws": 1000, "seconds": f"{seconds:.2f}"}]
    return [("Bootstrap of the imputation table, subgroups and fairness included", rows)]


def bootstrap_against(repeats: int, file: Path) -> list[Table]:
    """The same bootstrap by another program, on a table of golden size and on a large one."""
    from wearjax.benchmarks.openmhc import bootstrap_timing

    score = _rival(file, "score(errors, users, draws, baseline)")
    found = [bootstrap_timing.compare(score, *case) for case in bootstrap_timing.cases(repeats)]
    rows = [
        {
            "participants": c.n_participants,
            "methods": c.n_methods,
            "draws": f"{c.n_boot:,}",
            "wearjax, s": f"{c.ours:.3f}",
            f"{file.stem}, s": f"{c.rival:.1f}"
            + ("" if c.rival_draws == c.n_boot else f" (of {c.rival_draws})"),
            "times": f"{c.times:,.0f}",
            "largest difference": f"{c.largest_difference:.1e}",
        }
        for c in found
    ]
    return [("Bootstrap of imputation tables; (of n): n draws timed and scaled", rows)]


def prediction_bootstrap(repeats: int) -> list[Table]:
    """Processor seconds of the whole scoring of the 32 outcomes, 10 methods, 1,000 draws."""
    from wearjax.benchmarks.openmhc import prediction_timing

    seconds = statistics.median(prediction_timing.bootstrap_seconds() for _ in range(repeats))
    rows = [{"participants": 3569, "methods": 10, "draws": 1000, "processor seconds": f"{seconds:.1f}"}]
    return [("Bootstrap of the outcome predictions, jackknife of fairness included", rows)]


def features(repeats: int) -> list[Table]:
    """Days a second and core through the 495 features of XGBoost, on participants of a year."""
    from wearjax.predict.features import timing

    found = [timing.measure() for _ in range(repeats)]
    middle = sorted(found, key=lambda one: one["days_per_second"])[len(found) // 2]
    rows = [{"participants": middle["participants"], "days": f"{middle['days']:,.0f}",
             "processor seconds": f"{middle['seconds']:.1f}",
             "days/s a core": f"{middle['days_per_second']:,.0f}"}]  # fmt: skip
    return [("Features", rows)]


def arima(repeats: int) -> list[Table]:
    """Processor seconds a series of the statistical forecasters, on two weeks of hours of made participants."""
    from wearjax.benchmarks.openmhc import forecasting_timing

    timings = [
        forecasting_timing.measure(method, n_series=ARIMA_SERIES * repeats)
        for method in forecasting_timing.METHODS
    ]
    return [("Statistical forecasters", forecasting_timing.rows(timings))]


def apple_health_import(size_mb: float) -> list[Table]:
    """The whole import of made Apple Health exports, each once: processor time, and memory by file size."""
    from wearjax.days import import_timing

    return [("Import of an Apple Health export", import_timing.rows(size_mb))]


# Configuration at the published size, and batch sizes that fit a laptop.
MODELS: dict[str, tuple[str, tuple[int, ...]]] = {
    "lsm2": ("lsm2_daily", (1, 2)),
    "lsm2_weekly": ("lsm2_weekly", (1,)),
    "lsm2_sparse": ("lsm2_sparse", (1,)),
    "wbm": ("wbm", (8,)),
}
STEPS = (*MODELS, "vital")  # measurements of training steps, on the devices of JAX
MEASUREMENTS: dict[str, Callable[[int], list[Table]]] = {
    "loader": loader,
    "masks": masks,
    "bootstrap": bootstrap,
    "prediction_bootstrap": prediction_bootstrap,
    "features": features,
    "arima": arima,
}


def _made_days(path: Path, *, participants: int) -> Days:
    cohort = synthetic.Cohort(n_participants=participants, seed=1)
    tally = Tally()
    return importing.write_days(synthetic.read_days(cohort, tally=tally), path, provenance={}, tally=tally)
