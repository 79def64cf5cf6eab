"""The verb that measures how well the next hours of a participant are foreseen."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.progress import Progress

from wearjax.cli.output import Force, PathArgument, console, only_page_missing
from wearjax.errors import ConfigError

_FITTED = ("autoarima", "autoets")  # each series anew
_BASELINE = "seasonal_naive"


def forecasting_track(
    data: PathArgument,
    *,
    out: Path,
    methods: tuple[str, ...] = (_BASELINE,),
    bundle: tuple[Path, ...] = (),
    toto_checkpoint: Path | None = None,
    toto_base: Path | None = None,
    toto_lora_alpha: float | None = None,
    chronos2_checkpoint: Path | None = None,
    method: tuple[str, ...] = (),
    horizon: Literal[24, 48] = 24,
    sample_index: Path | None = None,
    max_samples: int | None = None,
    split: Literal["validation", "test"] = "test",
    time_limit: float | None = None,
    engine: str | None = None,
    jobs: int | None = None,
    cache: Path | None = None,
    bootstrap: int = 1000,
    seed: int = 42,
    force: Force = False,
) -> None:
    """Score forecasters of the next day or two of hours on the OpenMHC time points.

    Interrupted, the same command goes on where it stopped.

    Args:
        data: day store with splits, or OpenMHC data root.
        out: run folder for the scores and the report.
        methods: seasonal_naive (always there), autoarima, autoets.
        bundle: trained models that forecast.
        toto_checkpoint: published weights of Toto, to score it.
        toto_base: where the config.json of a fine-tuned Toto lies: a folder, or hub:owner/name.
        toto_lora_alpha: scale of the low-rank updates in a fine-tuned Toto (default: as they are).
        chronos2_checkpoint: published weights of Chronos-2, to score it.
        method: methods of your own, as FILE.py:Class.
        horizon: hours to forecast.
        sample_index: file of time points (default: the one of the data root, else drawn by its rules).
        max_samples: score the first windows only.
        time_limit: processor seconds that autoarima and autoets may take for a series (default: no limit).
        engine: where participants are worked on: local (processes), dask (a Dask cluster on this machine) or
            the address of a Dask scheduler, tcp://HOST:PORT (default: this process).
        jobs: processes of the engine, or without one of autoarima and autoets (default: one a core).
        cache: folder in which autoarima and autoets keep their fits (default: none).
        bootstrap: resamples for the intervals.
    """
    from wearjax.benchmarks.openmhc import forecasting, imputation
    from wearjax.report import page

    if only_page_missing(out, force=force):
        console.print(f"Report: {page.write_report([out]).resolve()}", soft_wrap=True)
        return
    of_toto = {"base": toto_base, "lora_alpha": toto_lora_alpha}
    toto = {name: value for name, value in of_toto.items() if value is not None}
    if toto and toto_checkpoint is None:
        raise ConfigError("--toto-base, --toto-lora-alpha: only with --toto-checkpoint")
    fitted = _of_fits(methods, engine, time_limit=time_limit, jobs=jobs, cache=cache)
    checkpoints = {"toto": toto_checkpoint, "chronos2": chronos2_checkpoint}
    with _Bars() as bars:
        options: dict[str, dict[str, Any]] = {
            "toto": toto,
            **{name: {**fitted, **({} if engine else {"progress": bars.series})} for name in _FITTED},
        }
        chosen = _forecasters(methods, checkpoints, options)
        chosen += [_trained(path, data) for path in bundle]
        try:
            results = forecasting.evaluate_forecasting(
                imputation.named([*chosen, *_own(method)]),
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
        except KeyboardInterrupt:
            console.print(
                f"What is complete is kept in {out}: the same command goes on from there", soft_wrap=True
            )
            raise
    console.print(results.summary(), soft_wrap=True, highlight=False)
    console.print(f"Report: {page.write_report([out]).resolve()}", soft_wrap=True)


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
    methods: tuple[str, ...], checkpoints: dict[str, Path | None], options: dict[str, dict[str, Any]]
) -> list[tuple[str, Any]]:
    """What the library brings; the baseline stands for itself."""
    from wearjax.predict.forecasters import registry

    weights = {name: path for name, path in checkpoints.items() if path is not None}
    names = [name for name in dict.fromkeys((*methods, *weights)) if name != _BASELINE]
    return [
        (name, registry.build(name, checkpoint=weights.get(name), options=options.get(name)))
        for name in names
    ]


def _trained(path: Path, data: Path) -> tuple[str, Any]:
    """A trained forecaster of any kind, with the name it goes by: its run's, else its folder's."""
    from wearjax.days.open import open_days
    from wearjax.predict.forecasters import loading

    return path.resolve().parent.name if path.name == "bundle" else path.name, loading.load(
        path, days=open_days(data)
    )


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
