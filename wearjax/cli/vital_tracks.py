"""Verbs of VitalBench on models: train and score a track, score a finished run elsewhere, ablate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.progress import Progress, TaskID
from tyro.conf import Positional

from wearjax.cli.output import (
    Force,
    Lines,
    PathArgument,
    console,
    going_on,
    print_rows,
    say_devices,
    show,
)
from wearjax.errors import ConfigError
from wearjax.segments.vital_settings import VitalSettings
from wearjax.vitals import HORIZON_MINUTES

if TYPE_CHECKING:
    from wearjax.benchmarks.vitalbench import tracks

_DEFAULTS = VitalSettings()


def train(
    data: PathArgument,
    *,
    out: Path,
    track: Literal[1, 2, 3] = 1,
    target: Path | None = None,
    models: tuple[str, ...] = (),
    horizons: tuple[int, ...] = HORIZON_MINUTES,
    size: Literal["published", "small"] = "published",
    epochs: int = 10,
    patience: int = 3,
    batch_size: int = 512,
    learning_rate: float | None = None,
    bootstrap: int = 1000,
    seed: int = 42,
    settings: VitalSettings = _DEFAULTS,
    force: Force = False,
) -> None:
    """Train and score the VitalBench models on a track: complete variables, incomplete ones, or across centres.

    Interrupted, the same command goes on where it stopped; finished, it shows the scores again.

    Args:
        data: store of surgeries that `wearjax vitalbench prepare` made.
        out: run folder for weights, scores and the report.
        track: 1 complete variables, 2 incomplete variables, 3 across centres.
        target: track 3: the other centre's store, on which the models are scored.
        models: mambats, lightts, itransformer, fouriergnn, patchtst, micn, dlinear, s4 (default: all that the track
            can take).
        horizons: minutes ahead, of 1, 3, 10 and 30.
        size: published sizes, or small ones that train on two processor cores.
        epochs: at most.
        patience: epochs in a row with a worse validation loss that end training.
        batch_size: windows a step.
        learning_rate: of the first two epochs (default: the published one).
        bootstrap: resamples of the surgeries for the intervals.
        seed: of the resamples; that of training is --settings.seed.
        settings: switches of the benchmark.
    """
    from wearjax.benchmarks.vitalbench import tracks
    from wearjax.report import vital_page

    say_devices()
    budget = tracks.Budget(epochs, patience, batch_size, learning_rate)
    with going_on(out), _bars() as progress:
        results = tracks.evaluate(
            data, track=track, target=target, models=models, horizons=horizons, size=size, settings=settings,
            budget=budget, output_dir=out, bootstrap=bootstrap, seed=seed, force=force, progress=progress,
        )  # fmt: skip
    show(results.summary(), lambda: vital_page.write(out))


def evaluate(
    run: PathArgument,
    data: PathArgument,
    *,
    out: Path,
    split: Literal["train", "validation", "test", "all"] = "test",
    force: Force = False,
) -> None:
    """Score the trained models of a VitalBench run on another store of surgeries, with the run's switches.

    Args:
        run: folder that `wearjax vitalbench train` wrote.
        data: store of surgeries.
        out: folder for scores and the report.
        split: which surgeries of the store.
    """
    from wearjax.benchmarks.vitalbench import tracks
    from wearjax.report import vital_page

    with going_on(out), _bars() as progress:
        results = tracks.score_run(run, data, output_dir=out, split=split, force=force, progress=progress)
    show(results.summary(), lambda: vital_page.write(out))


def ablate(
    what: Positional[Literal["scale", "imputation", "shift"]],
    data: PathArgument,
    *,
    out: Path,
    target: Path | None = None,
    track: Literal[1, 2] = 1,
    models: tuple[str, ...] = (),
    horizons: tuple[int, ...] = HORIZON_MINUTES,
    size: Literal["published", "small"] = "published",
    fractions: tuple[float, ...] = (),
    methods: tuple[str, ...] = (),
    epochs: int = 10,
    batch_size: int = 512,
    bootstrap: int = 1000,
    settings: VitalSettings = _DEFAULTS,
    force: Force = False,
) -> None:
    """Ablate VitalBench: amount of training data, filled gaps against a masked loss, or the centres' shift.

    Args:
        what: scale, imputation, or shift (how far the centres lie apart; needs no model).
        data: store of surgeries; for shift, that of VitalDB.
        out: folder; a run folder for every value lies in it.
        target: shift: the store of MOVER-SIS.
        fractions: scale: parts of the train list (default: 0.1 0.25 0.5 0.75 1).
        methods: imputation: of none, mean, linear, ffill, knn (default: all).
    """
    from wearjax.benchmarks.vitalbench import ablations, tracks
    from wearjax.report import vital_page
    from wearjax.segments.vital_cases import open_cases

    if (what == "shift") != (target is not None):
        raise ConfigError("--target: shift needs the store of MOVER-SIS; the other ablations take none")
    if target is not None:
        found = ablations.centre_shift(open_cases(data), open_cases(target))
        rows = [
            {"variable": s.variable, "VitalDB windows": len(s.first), "MOVER-SIS windows": len(s.second),
             "energy distance": f"{s.energy:.3f}"}
            for s in found
        ]  # fmt: skip
        return print_rows("Shift between the centres, standardised windows of 30 minutes", rows)
    options: dict[str, Any] = {
        "track": track, "models": models, "horizons": horizons, "size": size, "bootstrap": bootstrap,
        "budget": tracks.Budget(epochs=epochs, batch_size=batch_size), "settings": settings, "output_dir": out,
        "force": force,
    }  # fmt: skip
    if force:
        tracks.clear(out)
    with going_on(out), _bars() as progress:
        if what == "scale":
            chosen = fractions or ablations.FRACTIONS
            ablation = ablations.data_scale(data, fractions=chosen, progress=progress, **options)
        else:
            asked = methods or ablations.IMPUTATIONS
            ablation = ablations.imputation(data, methods=asked, progress=progress, **options)
    ablation.save(out)
    console.print(ablation.summary(), soft_wrap=True, highlight=False)
    for run in sorted(out.glob("*/results.json")):
        console.print(f"Report: {vital_page.write(run.parent).resolve()}", soft_wrap=True)
    return None


@contextmanager
def _bars() -> Iterator[tracks.Progress]:
    """One bar a model and horizon; lines where there is no terminal."""
    lines = Lines("Training")
    with Progress(console=Console(stderr=True), transient=True) as bars:
        known: dict[str, TaskID] = {}

        def progress(name: str, done: int, total: int) -> None:
            if name not in known:
                for task in known.values():
                    bars.update(task, visible=False)
                known[name] = bars.add_task(name, total=total)
            bars.update(known[name], completed=done, total=total)
            lines(done, total, f"({name})")

        yield progress
