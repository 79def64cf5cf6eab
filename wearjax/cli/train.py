"""Verbs that make models: pretrain, search, convert."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from wearjax.cli.output import Bar, Force, PathArgument, console, print_rows, say_devices


def pretrain(
    config: Positional[str],
    *,
    data: Path | None = None,
    out: Path | None = None,
    multi_host: bool = False,
    force: Force = False,
) -> Callable[[list[str]], None]:
    """Pretrain a model, or go on with it: the same command again resumes.

    Any field of the configuration can be set by its dotted name, e.g. `--loop.steps 1000 --model.encoder-depth 4`;
    `wearjax pretrain NAME --help` lists them.

    Args:
        config: a Python file with `get_config()`, or the name of a shipped configuration.
        data: day store or OpenMHC data root (default: the configuration's data.path).
        out: run folder (default: runs/<name of the configuration>).
        multi_host: this process is one of several that train together (Cloud TPU pods, Slurm).
        force: start over instead of resuming.
    """

    def run(overrides: list[str]) -> None:
        from wearjax.convert import bundle as bundles
        from wearjax.train import config as configs
        from wearjax.train import devices, loop

        if multi_host:
            devices.start_multi_host()
        resolved = configs.override(configs.load_config(config), overrides)
        say_devices()
        result = loop.pretrain(
            resolved,
            data_dir=data or resolved.data.path,
            out=out or Path("runs") / resolved.name,
            force=force,
            bundles=bundles,
        )
        console.print(f"Run: {result.run_dir}\nBundle: {result.bundle_path}", soft_wrap=True)

    return run


def search(
    config: Positional[str],
    *,
    data: Path | None = None,
    out: Path | None = None,
    trials: int | None = None,
    seed: int | None = None,
    units: int | None = None,
    force: Force = False,
) -> Callable[[list[str]], None]:
    """Look for better settings: TPE with Hyperband on the published search spaces; resumes where it stopped.

    Fields of the configuration are changed with --section.field value, as for pretrain. It needs optuna:
    `pip install 'wearjax[search]'`.

    Args:
        config: a Python file with `get_config()`, or the name of a shipped configuration.
        data: day store or OpenMHC data root (default: the configuration's data.path).
        out: folder of the search (default: runs/<name of the configuration>-search).
        trials: number of trials (default: that of the published search).
        seed: of the choices (default: the configuration's).
        units: validation points of a whole trial (default: one an epoch, or 25).
        force: start over instead of resuming.
    """

    def run(overrides: list[str]) -> None:
        from wearjax.convert import bundle as bundles
        from wearjax.train import config as configs
        from wearjax.train import loop
        from wearjax.train import search as searching

        resolved = configs.override(configs.load_config(config), overrides)
        say_devices()
        result = searching.search(
            resolved,
            data_dir=data or resolved.data.path,
            out=out or Path("runs") / f"{resolved.name}-search",
            trials=trials,
            seed=seed,
            units=units,
            force=force,
            console=console,
            train=functools.partial(loop.pretrain, bundles=bundles, console=console),
        )
        print_rows("Trials, the best first", searching.rows(result), words=("state", "settings"))
        if result.best:
            chosen = searching.arguments(result.best)
            kept = [  # of the given fields those that were not searched
                token
                for name, values in configs.options_of(overrides)
                if f"--{name}" not in chosen
                for token in (f"--{name}", *values)
            ]
            where = [] if data is None else ["--data", str(data)]
            command = shlex.join(["wearjax", "pretrain", config, *where, *kept, *chosen])
            console.print(f"Best run: {result.out / result.best.folder}", soft_wrap=True, highlight=False)
            console.print(f"To train with the best settings: {command}", soft_wrap=True, highlight=False)

    return run


def pypots(
    kind: Positional[Literal["brits", "dlinear", "fedformer", "timesnet"]],
    *,
    data: Path,
    out: Path,
    n_days: Literal[1, 7] = 1,
    device: str = "cpu",
    force: Force = False,
) -> Callable[[list[str]], None]:
    """Train a comparison imputer of PyPOTS, or go on with it; `evaluate imputation --bundle OUT` scores it.

    Sizes and training are the published ones; any field can be set by its name, e.g. `--model.n-layers 1
    --training.epochs 5`. It needs PyPOTS: `pip install 'wearjax[pypots]'`.

    Args:
        data: day store or OpenMHC data root, with splits.
        out: folder of the imputer.
        n_days: days in one series.
        device: cpu, cuda or cuda:N.
        force: start over instead of resuming.
    """

    def run(overrides: list[str]) -> None:
        from wearjax.predict.imputers import pypots_models, pypots_training
        from wearjax.train import config as configs

        chosen = pypots_models.PyPOTSConfig(*pypots_models.published(kind, n_days=n_days))
        chosen = configs.override(chosen, overrides)
        with Bar("Epochs") as progress:
            pypots_training.train(
                chosen.model, data_dir=data, out=out, training=chosen.training, device=device, force=force,
                say=lambda line: console.print(line, soft_wrap=True, markup=False), progress=progress,
            )  # fmt: skip
        console.print(f"Imputer: {out}", soft_wrap=True)

    return run


def convert_torch(
    path: PathArgument,
    *,
    out: Path,
    kind: Literal["lsm2", "lsm2_sparse", "wbm"] | None = None,
    stats: Path | None = None,
) -> None:
    """Make a bundle of a PyTorch checkpoint (safetensors, or ckpt and pt without arbitrary pickles).

    Args:
        path: checkpoint file, or a release folder with its manifest.
        out: the bundle.
        kind: of model (default: told from the names of its parameters).
        stats: normalization file (default: that of the release or checkpoint).
    """
    from wearjax.convert import torch_checkpoint

    note = lambda text: console.print(text, soft_wrap=True, markup=False)  # noqa: E731
    made = torch_checkpoint.import_torch(path, kind=kind, out=out, stats=stats, note=note)
    console.print(f"Bundle: {made}", soft_wrap=True)


def convert_flax(
    bundle: PathArgument, *, out: Path, format: Literal["safetensors", "ckpt"] = "safetensors"
) -> None:
    """Write a bundle in the layout of the published PyTorch models.

    Args:
        bundle: folder of a trained model.
        out: the checkpoint file.
        format: safetensors, or a Lightning ckpt.
    """
    from wearjax.convert import torch_checkpoint

    made = torch_checkpoint.export_torch(bundle, out, format=format)
    console.print(f"Checkpoint: {made}", soft_wrap=True)


def convert_stablehlo(
    bundle: PathArgument,
    *,
    out: Path,
    task: tuple[Literal["impute", "embed", "forecast"], ...] = (),
    batch: str = "any",
    platforms: str = "cpu,cuda,tpu",
    force: Force = False,
) -> None:
    """Write a trained model as StableHLO programs that take and give raw units; wearjax.load_exported runs them.

    Args:
        bundle: folder of a trained model.
        out: the folder to write: manifest.json and a program a task.
        task: what it should do (default: all that the model can).
        batch: examples of a call, or any.
        platforms: where it should run, separated by commas.
    """
    from wearjax.convert import bundle as bundles
    from wearjax.predict import stablehlo

    made = stablehlo.export_bundle(
        bundles.load_bundle(bundle), out, tasks=task, batch=int(batch) if batch.isdigit() else batch,
        platforms=tuple(name for name in platforms.split(",") if name), overwrite=force,
    )  # fmt: skip
    for file in sorted(made.iterdir()):
        console.print(f"{file}  {file.stat().st_size:,} bytes", soft_wrap=True, highlight=False)


def card(bundle: PathArgument, *, licence: str | None = None) -> None:
    """Show what a trained model is: its model card.

    Args:
        bundle: folder of a trained model.
        licence: write this licence into the bundle and its card.
    """
    from wearjax.convert import bundle as bundles

    if licence is not None:
        bundles.set_licence(bundle, licence)
    console.print(bundles.read_card(bundle), soft_wrap=True, markup=False, highlight=False, end="")
