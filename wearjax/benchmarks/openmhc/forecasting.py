"""The forecasting benchmark of OpenMHC: given all hours up to a midnight, forecast the next day or two.

Participants pass one by one: their windows, every method's forecasts, gaps filled by seasonal naive, errors reduced
to sums. All that follows works on the small table of sums. With an output folder, what is complete is written now
and then, and the same call goes on from there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from wearjax import __version__
from wearjax import engine as engines
from wearjax.benchmarks import result_files
from wearjax.benchmarks.openmhc import arguments, forecasting_results, parts, scored_on
from wearjax.benchmarks.openmhc.forecasting_cases import Cases
from wearjax.benchmarks.openmhc.forecasting_parts import ForecastingParts
from wearjax.benchmarks.openmhc.forecasting_results import ForecastingResults
from wearjax.benchmarks.openmhc.forecasting_run import Run
from wearjax.benchmarks.openmhc.forecasting_scores import BASELINE
from wearjax.days import labels, splits
from wearjax.engine import Engine
from wearjax.errors import ConfigError
from wearjax.predict import protocols
from wearjax.predict.forecasters.seasonal_naive import SeasonalNaive
from wearjax.segments import forecast_points, trajectories
from wearjax.segments.forecast_points import SampleIndex
from wearjax.segments.trajectories import Trajectories

HORIZONS = (24, 48)


def evaluate_forecasting(
    method: Any | Mapping[str, Any],
    *,
    data_dir: str | os.PathLike,
    horizon: int = 24,
    split: str = "test",
    max_samples: int | None = None,
    sample_index: str | os.PathLike | None = None,
    start_hour: int = 0,
    method_name: str | None = None,
    output_dir: str | os.PathLike | None = None,
    bootstrap: int = 1000,
    seed: int = 42,
    engine: str | Engine | None = None,
    jobs: int | None = None,
    force: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> ForecastingResults:
    """Evaluates one forecaster, or several on the same windows.

    The baseline `seasonal_naive` is always among them, and what a method does not forecast (a cell that is not
    finite) is taken from seasonal naive on the same history and counted.

    Args:
        method: anything with `predict(history, horizon)` as `wearjax.predict.forecaster.Forecaster` describes it, a
            trained model that forecasts (`wearjax.load_pretrained`, `wearjax.load_exported`), or a dict of names to
            such; an empty one evaluates the baseline alone.
        data_dir: day store with splits, or OpenMHC data root with hourly trajectories.
        horizon: hours to forecast, 24 or 48.
        split: `test` or `validation` (`val`).
        max_samples: evaluate that many windows, spread evenly over the participants and over the windows of each.
        sample_index: file of time points, `{user: [day index]}`; default is the one that a data root brings along,
            else they are drawn by the published rules.
        start_hour: hours by which every window starts after midnight (`daily_start_hour_offset`).
        method_name: name of a single method; default is what it calls itself.
        output_dir: run folder for errors, scores and results. What is complete after a minute, at Ctrl-C and at the
            end is kept there: the same call goes on from it, reads what is finished, and methods may be added.
        bootstrap: draws for the intervals; 0 for none.
        seed: of the bootstrap, of the example windows, and of the time points where they are drawn.
        engine: where participants are worked on, see `wearjax.engine.Engine`; scores do not depend on it. Trained
            models run in this process only.
        jobs: processes or workers of the engine.
        force: replace what is in `output_dir`, and start over.
        progress: called with (forecasts done, forecasts), a forecast being one window of one method.

    Raises:
        ConfigError: an argument has an impossible value, the split has no window, or `output_dir` holds another
            evaluation, finished or not; the message names what differs. MethodError: a method broke its contract or
            failed. StoreError, SourceError: the data or time points are not readable.
    """
    methods = _methods(method, method_name, data_dir)
    given = tuple(methods) or (BASELINE,)
    methods = {BASELINE: methods.pop(BASELINE, None) or SeasonalNaive(), **methods}
    split = arguments.split_of(split)
    _check(horizon, start_hour)
    arguments.check_least(max_samples=(max_samples, 1), bootstrap=(bootstrap, 0))
    arguments.check_seeds(seed=seed)
    if engine is not None or jobs is not None:
        protocols.check_elsewhere(methods)
    result_files.check_folder(output_dir)
    folder = None if output_dir is None else Path(output_dir)
    if folder is not None:
        (parts.clear if force else parts.check_free)(folder)
    members = splits.read_splits(data_dir).of(split)
    records = trajectories.open_trajectories(data_dir)
    points, origin = _points(data_dir, records, horizon, sample_index=sample_index, seed=seed)
    cases = Cases(records, points, members, horizon=horizon, start_hour=start_hour, max_samples=max_samples)
    if not cases.participants:
        told = "; ".join(f"{reason}: {n}" for reason, n in cases.skipped.items())
        raise ConfigError(f"{data_dir}: split {split!r} has no window to forecast ({told})")
    run = Run(methods, cases, gallery_seed=seed)
    settings = {
        "split": split, "horizon": horizon, "max_samples": max_samples, "start_hour": start_hour, "seed": seed,
    }  # fmt: skip
    kept = None
    if folder is not None:
        key = {"track": "forecasting", "wearjax": __version__, **settings, "data": cases.digest()}
        kept = ForecastingParts(folder, key)
    with engines.opened(engine, jobs) as where:
        run.all_participants(progress or (lambda done, total: None), kept, where)
    results = forecasting_results.score_forecasts(
        run.table.finish(run.scale, tuple(methods)),
        method_names=given,
        config={
            "methods": list(methods), "own_methods": arguments.of_ones_own(methods), "data_dir": str(data_dir),
            "bootstrap": bootstrap, **settings,
            "sample_index": origin, "training_start_hours": _training_starts(methods),
        },
        versions=arguments.versions(),
        split=split,
        horizon=horizon,
        n_boot=bootstrap,
        seed=seed,
        demographics=labels.read_demographics(data_dir),
        skipped=cases.skipped,
        seconds={name: round(seconds, 3) for name, seconds in run.seconds.items()},
        counts={name: dict(found) for name, found in run.counts.items() if found},
        gallery=run.gallery.arrays(tuple(methods)),
        provenance=getattr(getattr(records, "days", None), "meta", {}).get("provenance", {}),
        scored_on=_scored_on(cases, settings, origin),
    )  # fmt: skip
    if folder is not None:
        results.save(folder)
    return results


def _methods(method: Any, name: str | None, data_dir: str | os.PathLike) -> dict[str, Any]:
    made = arguments.of_trained(data_dir, "as_forecaster")
    found = arguments.methods_by_name(method, name, call="predict(history, horizon)", made=made)
    arguments.check_baseline(found, BASELINE, SeasonalNaive)
    return found


def _check(horizon: int, start_hour: int) -> None:
    if horizon not in HORIZONS:
        raise ConfigError(f"horizon: expected {' or '.join(map(str, HORIZONS))} hours, got {horizon}")
    if not -24 < start_hour < 24:
        raise ConfigError(f"start_hour: expected -23 to 23, got {start_hour}")


def _scored_on(cases: Cases, settings: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """A digest of the records and windows; a file of time points goes without its path."""
    cells = {"windows": scored_on.digest(cases.digest(), settings["horizon"], settings["start_hour"])}
    chosen = {name: settings[name] for name in ("split", "horizon", "max_samples", "start_hour")}
    points = origin if origin.startswith("drawn") else "of a file"
    counts = {"participants": len(cases.participants), "windows": cases.n_windows}
    return scored_on.facts({**chosen, "time_points": points, **counts}, cells)


def _points(
    data_dir: str | os.PathLike,
    records: Trajectories,
    horizon: int,
    *,
    sample_index: str | os.PathLike | None,
    seed: int,
) -> tuple[SampleIndex, str]:
    """Time points of all participants, and where they are from."""
    file = forecast_points.shipped(data_dir, horizon) if sample_index is None else Path(sample_index)
    if file is not None:
        return forecast_points.read(file), str(file)
    return forecast_points.sample(records, horizon, seed=seed), f"drawn with seed {seed}"


def _training_starts(methods: Mapping[str, Any]) -> dict[str, int]:
    """The hour of the day at which each method was trained to start, where it says so."""
    declared = {
        name: getattr(method, "training_daily_start_hour_offset", None) for name, method in methods.items()
    }
    return {name: int(hour) for name, hour in declared.items() if hour is not None}
