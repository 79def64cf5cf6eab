"""The verb that measures what can be read of a participant from their days."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.progress import Progress

from wearjax.cli.output import Force, PathArgument, console
from wearjax.errors import ConfigError

BASELINE = "linear"


def prediction_track(
    data: PathArgument,
    *,
    out: Path,
    methods: tuple[str, ...] = (BASELINE,),
    bundle: tuple[Path, ...] = (),
    toto_checkpoint: Path | None = None,
    chronos2_checkpoint: Path | None = None,
    method: tuple[str, ...] = (),
    tasks: tuple[str, ...] = (),
    split: Literal["validation", "test"] = "test",
    label_window: Literal["full_history", "forward"] = "full_history",
    cache: Path | None = None,
    bootstrap: int = 1000,
    seed: int = 42,
    force: Force = False,
) -> None:
    """Score predictors on the OpenMHC outcomes: demographics, conditions, measurements, well-being, habits.

    Interrupted, the same command goes on where it stopped.

    Args:
        data: day store with splits and task labels, or OpenMHC data root.
        out: run folder for predictions, scores and the report.
        methods: linear (always there), xgboost, multirocket, grud, wbm, lsm2, toto, chronos2.
        bundle: trained models; each of kind wbm or lsm2 is scored under that name.
        toto_checkpoint: published weights of Toto, to score it.
        chronos2_checkpoint: published weights of Chronos-2, to score it.
        method: methods of your own, as FILE.py:Class.
        tasks: outcomes by their code (default: all 32).
        label_window: forward ends some weeks after the label (an ablation).
        cache: folder for features, which later runs then find ready.
        bootstrap: resamples for the intervals.
    """
    from wearjax.benchmarks.openmhc import prediction
    from wearjax.days.open import open_days
    from wearjax.report import page

    if (out / "results.json").exists() and not force:
        raise ConfigError(f"{out} already holds results; pass --force to replace them")
    checkpoints = {"toto": toto_checkpoint, "chronos2": chronos2_checkpoint}
    weights = {**_bundles(bundle), **{name: path for name, path in checkpoints.items() if path is not None}}
    with _Bars() as bars:
        chosen = _predictors(open_days(data), methods, weights, own=method, cache=cache, bars=bars)
        results = prediction.evaluate_prediction(
            chosen,
            data_dir=data,
            tasks=tasks or prediction.ALL,
            split=split,
            output_dir=out,
            bootstrap=bootstrap,
            seed=seed,
            label_window=label_window,
            force=force,
            progress=bars.pairs,
        )
    console.print(results.summary(), soft_wrap=True, highlight=False)
    console.print(f"Report: {page.write_report([out]).resolve()}", soft_wrap=True)


def _bundles(paths: tuple[Path, ...]) -> dict[str, Any]:
    """Loaded models by kind."""
    from wearjax.convert import bundle as bundles

    found: dict[str, Any] = {}
    for path in paths:
        loaded = bundles.load_bundle(path)
        if loaded.kind not in ("wbm", "lsm2"):
            raise ConfigError(f"{path}: a model of kind {loaded.kind!r} predicts no outcome; wbm and lsm2 do")
        if loaded.kind in found:
            raise ConfigError(
                f"{path}: a second bundle of kind {loaded.kind!r}; score it in a run of its own"
            )
        found[loaded.kind] = loaded
    return found


def _predictors(
    days: Any,
    methods: tuple[str, ...],
    weights: dict[str, Any],
    *,
    own: tuple[str, ...],
    cache: Path | None,
    bars: _Bars,
) -> dict[str, Any]:
    """Every method that was asked for; the baseline stands for itself where nothing else was."""
    from wearjax.benchmarks.openmhc.prediction_tasks import TASKS
    from wearjax.predict import from_file, protocols
    from wearjax.predict.predictors import registry

    kinds = {code: task.kind for code, task in TASKS.items()}

    chosen: dict[str, Any] = {}
    for name in dict.fromkeys((*methods, *weights)):
        if name != BASELINE:
            chosen[name] = registry.build(
                name, days, weights=weights.get(name), tasks=kinds, cache_dir=cache, progress=bars.features
            )
    for text in own:
        loaded = from_file.load(text)
        name = protocols.method_name(loaded)
        if name in chosen:
            raise ConfigError(
                f"{text}: there is already a method named {name!r}; give the class another name"
            )
        chosen[name] = loaded
    return chosen


class _Bars:
    """Two bars: pairs of task and method, and the features that a method computes meanwhile."""

    def __init__(self) -> None:
        self._progress = Progress(console=Console(stderr=True), transient=True)
        self._pairs = self._progress.add_task("Evaluating", total=None)
        self._features = self._progress.add_task("Features", total=None, visible=False)

    def __enter__(self) -> _Bars:
        self._progress.start()
        return self

    def __exit__(self, *_) -> None:
        self._progress.stop()

    def pairs(self, done: int, total: int, task: str, method: str) -> None:
        self._progress.update(self._pairs, completed=done, total=total, description=f"{task}: {method}")

    def features(self, done: int, total: int) -> None:
        self._progress.update(self._features, completed=done, total=total, visible=done < total)
