"""Export of trained models to StableHLO through `jax.export`; `wearjax.predict.exported` runs the result."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import export

import wearjax
from wearjax import channels, writing
from wearjax.channels import N_CHANNELS
from wearjax.convert import bundle as bundles
from wearjax.convert.bundle import Bundle
from wearjax.errors import CheckpointError, ConfigError, MethodError
from wearjax.layers import attention
from wearjax.models import registry
from wearjax.predict import exported, pretrained, representations
from wearjax.predict.forecasters import series as series_forecasts
from wearjax.predict.imputers import lsm2, series
from wearjax.predict.predictors import lsm2 as weights

PLATFORMS = ("cpu", "cuda", "tpu")
TASKS = ("impute", "embed", "forecast")
_BATCH_OF_ANY = 16  # examples for which the blocks of attention are sized where the batch is left open

_VALUES = "stored units of the channel table; NaN = not measured, or to be predicted"
_OFFSETS = "calendar days since the first real day of the window; -1 in slots without a day"
_FILLED = "every cell as the model gives it: stored units, and for flags their probability or score"


@dataclass(frozen=True)
class Program:
    """One task of a model: a function of raw arrays, examples first.

    Attributes:
        function: `(graph, stats, state, *inputs)`, see the predict modules that it comes from.
        inputs: name, shape of one example, type and meaning.
        output: what it gives, in words.
    """

    function: Callable[..., jax.Array]
    inputs: tuple[tuple[str, tuple[int, ...], str, str], ...]
    output: str


def programs_of(bundle: Bundle) -> dict[str, Program]:
    """What a model can be exported for, by task."""
    kind, config = bundle.kind, bundle.config
    if kind in registry.FORECASTERS:
        hours = ("values", (config.steps, N_CHANNELS), "float32", f"hours before the origin; {_VALUES}")
        return {
            "forecast": Program(series_forecasts._forecast, (hours,), "hours from the origin, channel first")
        }
    if kind == "wbm":
        week = ("values", (config.hours, config.channels), "float32", f"hours of a week; {_VALUES}")
        return {"embed": Program(representations._embed, (week,), "one vector a week")}
    if kind == "lsm2_sparse":
        window = ("values", (N_CHANNELS, config.n_days * config.minutes), "float32", _VALUES)
        offsets = ("day_offsets", (config.n_days,), "int32", _OFFSETS)
        return {"impute": Program(lsm2._reconstruct_window, (window, offsets), _FILLED)}
    minutes = ("values", (N_CHANNELS, config.minutes), "float32", _VALUES)
    if kind == "lsm2":
        return {
            "impute": Program(lsm2._reconstruct, (minutes,), _FILLED),
            "embed": Program(pretrained._embed, (minutes,), "mean encoder output over the measured tokens"),
        }
    if kind in ("dlinear", "brits"):
        return {"impute": Program(series._reconstruct, (minutes,), _FILLED)}
    raise MethodError(f"a model of kind {kind!r} has no program to export")


def export_bundle(
    bundle: Bundle,
    out: str | os.PathLike,
    *,
    tasks: Sequence[str] = (),
    batch: int | str = exported.ANY,
    platforms: Sequence[str] = PLATFORMS,
    overwrite: bool = False,
) -> Path:
    """Writes the programs of a trained model with their manifest to a folder.

    Parameters and normalization become constants of each program. Attention takes its blocked form, which runs on
    every platform; its blocks are sized for the batch, and where that is open for 16 examples.

    Args:
        tasks: which of the model's tasks; none is all of them.
        batch: examples of a call, or `any` to leave it open.

    Raises:
        ConfigError: an unknown task or platform, or a batch below 1. MethodError: a task that the model cannot do.
        CheckpointError: something is already at `out`.
    """
    out = Path(out)
    possible, chosen = programs_of(bundle), tuple(dict.fromkeys(tasks))
    _check(bundle.kind, chosen, possible, batch, platforms)
    if out.exists() and not (out / exported.MANIFEST).exists():
        raise CheckpointError(f"{out} exists and is not an exported model; refusing to replace it")
    if out.exists() and not overwrite:
        raise CheckpointError(f"{out} exists; pass --force to replace it")
    model = _portable(bundle, batch)
    with writing.folder(out, error=CheckpointError) as made, writing.told(out, error=CheckpointError):
        written = {
            task: _write(made, task, possible[task], model, batch, tuple(platforms))
            for task in chosen or possible
        }
        manifest = _manifest(bundle, written, batch, platforms)
        (made / exported.MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    return out


def _check(
    kind: str, tasks: Sequence[str], possible: dict, batch: int | str, platforms: Sequence[str]
) -> None:
    for task in tasks:
        if task not in TASKS:
            raise ConfigError(f"task: expected one of {', '.join(TASKS)}, got {task!r}")
        if task not in possible:
            raise MethodError(f"a model of kind {kind!r} cannot {task}; it can {', '.join(possible)}")
    if batch != exported.ANY and (not isinstance(batch, int) or batch < 1):
        raise ConfigError(f"batch: expected a number of at least 1, or any; got {batch!r}")
    for platform in platforms:
        if platform not in PLATFORMS:
            raise ConfigError(f"platforms: expected some of {', '.join(PLATFORMS)}, got {platform!r}")
    if not platforms:
        raise ConfigError("platforms: none given")


def _portable(bundle: Bundle, batch: int | str) -> Bundle:
    """The same model with attention in the form that needs no kernel of a platform."""
    config = bundle.config
    if not hasattr(config, "attention_block"):
        return bundle
    queries = attention.CPU_SCORES // (config.n_tokens * (batch if isinstance(batch, int) else _BATCH_OF_ANY))
    config = dataclasses.replace(
        config, attention="blocked", attention_block=config.attention_block or max(64, queries)
    )
    model = bundles.build(registry.get(bundle.kind), config, bundles.parameters(bundle.model))
    return dataclasses.replace(bundle, config=config, model=model)


def _write(
    folder: Path, task: str, program: Program, bundle: Bundle, batch: int | str, platforms: tuple[str, ...]
) -> dict[str, Any]:
    """Writes one program; returns its entry in the manifest."""
    inputs = [
        {"name": name, "shape": ["batch", *shape], "dtype": dtype, "meaning": meaning}
        for name, shape, dtype, meaning in program.inputs
    ]
    graph, state = nnx.split(bundle.model)
    function = partial(program.function, graph, bundle.stats, jax.tree.map(np.asarray, state))
    specification = exported.specification(inputs, batch)
    whole = jax.jit(lambda *x: function(*x).astype(jnp.float32))
    with _without_places():
        made = export.export(whole, platforms=platforms)(*specification)
    assert made.module_kept_var_idx == tuple(range(len(inputs)))
    content = bytes(made.mlir_module_serialized)
    file = folder / f"{task}{exported.SUFFIX}"
    file.write_bytes(content)
    (result,) = made.out_avals
    return {
        "file": file.name,
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        "calling_convention": made.calling_convention_version,
        "inputs": inputs,
        "outputs": [
            {
                "name": task,
                "shape": ["batch", *result.shape[1:]],
                "dtype": str(result.dtype),
                "meaning": program.output,
            }
        ],
    }


@contextlib.contextmanager
def _without_places() -> Iterator[None]:
    """Keeps callers and file names out of a module: it would differ from call to call, and tell paths."""
    name = "jax_traceback_in_locations_limit"
    before = getattr(jax.config, name)
    jax.config.update(name, 0)
    try:
        yield
    finally:
        jax.config.update(name, before)


def _manifest(
    bundle: Bundle, programs: dict[str, Any], batch: int | str, platforms: Sequence[str]
) -> dict[str, Any]:
    facts = bundles.describe(bundle)
    names = ("minutes", "n_days", "steps", "horizon", "hours")
    manifest = {
        "format": exported.FORMAT,
        "kind": bundle.kind,
        "parameters": facts["parameters"],
        "weights": weights.weights_digest(bundle),
        "batch": batch,
        "platforms": list(platforms),
        "calling": "the inputs in order, examples first; with several platforms a module takes the index of the "
        "platform (int32) before them",
        "normalization": "inside the programs: they take and give stored units",
        "channels": {
            "digest": channels.digest(),
            "names": list(channels.NAMES),
            "units": [channel.unit for channel in channels.CHANNELS],
        },
        "sizes": {name: getattr(bundle.config, name) for name in names if hasattr(bundle.config, name)},
        "programs": programs,
        "versions": {
            "wearjax": wearjax.__version__,
            **{name: metadata.version(name) for name in ("jax", "jaxlib")},
        },
    }
    return {**manifest, "digest": exported.digest(manifest)}
