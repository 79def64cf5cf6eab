"""The verb that measures how well the next hours of a participant are foreseen."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.progress import Progress

from wearjax.cli import options
from wearjax.cli.output import Force, PathArgument, going_on, show
from wearjax.errors import ConfigError

_FITTED = ("autoarima", "autoets")  # each series anew
_BASELINE = "seasonal_naive"


def forecasting_track(
    data: PathArgument,
    *,
    out: Path,
    methods: tuple[str, ...] = (_BASELINE,),
    bundle: tuple[Path, ...] = (),
    toto_checkpoint: options.TotoCheckpoint = None,
    toto_base: options.TotoBase = None,
    toto_lora_alpha: options.TotoScale = None,
    chronos2_checkpoint: options.Chronos2Checkpoint = None,
    method: options.OwnMethods = (),
    horizon: Literal[24, 48] = 24,
    sample_index: Path | None = None,
    max_samples: int | None = None,
    split: Literal["validation", "test"] = "test",
    time_limit: float | None = None,
    engine: options.Engine = None,
    jobs: int | None = None,
    cache: Path | None = None,
    bootstrap: options.Bootstrap = 1000,
    seed: int = 42,
    force: Force = False,
) -> None:
    """Score forecasters of the next day or two of hours on the OpenMHC time points.

    Interrupted, the same command goes on where it stopped; finished, it shows the scores again.

    Args:
        data: day store with splits, or OpenMHC data root.
        out: run folder for the scores and the report.
        methods: seasonal_naive (always there), autoarima, autoets.
        bundle: trained models that forecast.
        horizon: hours to forecast.
        sample_index: file of time points (default: the one of the data root, else drawn by its rules).
        max_samples: score at most this many windows, spread over the participants.
        time_limit: processor seconds that autoarima and autoets may take for a series (default: no limit).
        jobs: processes of the engine, or without one of autoarima and autoets (default: one a core).
        cache: folder in which autoarima and autoets keep their fits (default: none).
    """
    from wearjax.benchmarks.openmhc import arguments, forecasting
    from wearjax.report import page

    toto = options.of_toto(toto_checkpoint, base=toto_base, lora_alpha=toto_lora_alpha)
    fitted = _of_fits(methods, engine, time_limit=time_limit, jobs=jobs, cache=cache)
    checkpoints = {"toto": toto_checkpoint, "chronos2": chronos2_checkpoint}
    with going_on(out), _Bars() as bars:
        given: dict[str, dict[str, Any]] = {
            "toto": toto,
            **{name: {**fitted, **({} if engine else {"progress": bars.series})} for name in _FITTED},
        }
        chosen = _forecasters(methods, checkpoints, given)
        chosen += [_trained(path, data) for path in bundle]
        results = forecasting.evaluate_forecasting(
            arguments.distinct([*chosen, *_own(method)]),
            data_dir=data,
            horizon=horizon,
            split=split,
            max_samples=max_samples,
            sample_index=sample_index,
            output_dir=out,
            bootstrap=bootstrap,
            seed=seed,
            engine=engine,
            jobs=jobs if engine else None,
            force=force,
            progress=bars.windows,
        )
    show(results.summary(), lambda: page.write_report([out]))


def _of_fits(
    methods: tuple[str, ...],
    engine: str | None,
    *,
    time_limit: float | None,
    jobs: int | None,
    cache: Path | None,
) -> dict[str, Any]:
    """The options of autoarima and autoets; on an engine each participant is fitted by one process."""
    given = {"time_limit": time_limit, "jobs": None if engine else jobs, "cache": cache}
    fitted = {name: value for name, value in given.items() if value is not None}
    if fitted and not set(methods) & set(_FITTED):
        raise ConfigError(
            "--time-limit, --jobs, --cache: only with --methods autoarima or autoets, or with --engine"
        )
    if time_limit is not None and engine not in (None, "local"):
        raise ConfigError("--time-limit: works in processes of this machine only (--engine local)")
    return {**fitted, "jobs": 1} if engine else fitted


def _forecasters(
    methods: tuple[str, ...], checkpoints: dict[str, Path | None], given: dict[str, dict[str, Any]]
) -> list[tuple[str, Any]]:
    """What the library brings; the baseline stands for itself."""
    from wearjax.predict.forecasters import registry

    weights = {name: path for name, path in checkpoints.items() if path is not None}
    names = [name for name in dict.fromkeys((*methods, *weights)) if name != _BASELINE]
    return [
        (name, registry.build(name, checkpoint=weights.get(name), options=given.get(name))) for name in names
    ]


def _trained(path: Path, data: Path) -> tuple[str, Any]:
    """A trained forecaster of any kind, with its name."""
    from wearjax.days.open import open_days
    from wearjax.predict.forecasters import loading

    return options.run_name(path), loading.load(path, days=open_days(data))


def _own(texts: tuple[str, ...]) -> list[Any]:
    from wearjax.predict import from_file

    return [from_file.load(text) for text in texts]


class _Bars:
    """Forecasts, and the series that a method fits for them meanwhile."""

    def __init__(self) -> None:
        self._progress = Progress(console=Console(stderr=True), transient=True)
        self._windows = self._progress.add_task("Forecasting", total=None)
        self._series = self._progress.add_task("Fitting series", total=None, visible=False)

    def __enter__(self) -> _Bars:
        self._progress.start()
        return self

    def __exit__(self, *_) -> None:
        self._progress.stop()

    def windows(self, done: int, total: int) -> None:
        self._progress.update(self._windows, completed=done, total=total)

    def series(self, done: int, total: int) -> None:
        self._progress.update(self._series, completed=done, total=total, visible=done < total)
