"""PyTorch checkpoint files in and out: safetensors, Lightning checkpoints, and folders of a published release.

Files are read as tensors and plain values only: nothing in them is ever executed. PyTorch and safetensors come with
the extra `convert` and are imported when a file needs them.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from wearjax import json_text, writing
from wearjax.convert import bundle as bundles
from wearjax.convert import card, torch_layout, torch_sizes
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import CheckpointError, ConfigError, StoreError
from wearjax.models import registry
from wearjax.train import config as configs

Format = Literal["safetensors", "ckpt"]
SUFFIXES = (".safetensors", ".ckpt", ".pt", ".pth")
MANIFEST = "openmhc_manifest.json"
STATS_FILE = "normalization_stats.json"
SPEC_VERSIONS = (1, 2)
MANIFEST_KINDS = {"lsm2": "lsm2", "lsm2_weekly_sparse": "lsm2_sparse", "wbm": "wbm"}
PRIOR_COUNT = 1e12  # of the published normalization: statistics of the training days alone
LIGHTNING_VERSION = "2.0.0"  # its layout is what is written


@dataclass(frozen=True)
class Checkpoint:
    """What a file holds, as NumPy arrays and plain values.

    Attributes:
        state_dict: by the names in the file.
        hyper_parameters: constructor arguments of the PyTorch class, as far as saved.
        normalization: `mean_prior`, `std_prior` of the 19 channels, if saved.
        wearjax: kind, config and normalization, origin and licence if known, if wearjax wrote the file.
    """

    state_dict: dict[str, np.ndarray]
    hyper_parameters: dict[str, Any] = field(default_factory=dict)
    normalization: Mapping[str, Any] | None = None
    wearjax: Mapping[str, Any] | None = None


def import_torch(
    path: str | os.PathLike,
    *,
    kind: str | None = None,
    out: str | os.PathLike,
    stats: str | os.PathLike | None = None,
    note: Callable[[str], None] | None = None,
) -> Path:
    """A bundle from a PyTorch checkpoint, weights bit for bit.

    Args:
        path: a `.safetensors`, `.ckpt`, `.pt` or `.pth` file, or a release folder with its manifest, or that of a
            PyPOTS forecaster (`wearjax.convert.pypots_forecasters`).
        kind: of model; None tells it from the keys.
        stats: normalization file; None takes that of the release, of the checkpoint, or of a
            `normalization_stats.json` beside it, in this order.
        note: called with a line for anything in the file that was left out.

    Raises:
        CheckpointError: an unreadable file, one that would need unpickling, keys or shapes that do not fit a
            model, no normalization, or something at `out`.
    """
    path, out = Path(path), Path(out)
    if out.exists():
        raise CheckpointError(f"{out} exists; a bundle is never overwritten")
    from wearjax.convert import pypots_forecasters  # which reads releases, as this module does

    if pypots_forecasters.is_release(path):
        return pypots_forecasters.import_forecaster(path, out=out, note=note)
    file, manifest = _resolve(path)
    checkpoint = read(file)
    try:
        kind = kind or manifest.get("kind") or torch_layout.detect(checkpoint.state_dict)
        weights = torch_layout.stripped(kind, checkpoint.state_dict)
        config = _config(kind, weights, checkpoint, manifest)
        torch_sizes.check(kind, config, weights)
        params = torch_layout.to_flax(kind, weights)
        model = bundles.build(registry.get(kind), config, params)
    except (CheckpointError, ConfigError) as error:
        raise CheckpointError(f"{file}: {error}") from None
    left = len(checkpoint.state_dict) - len(weights)
    if left and note is not None:
        note(f"{file}: {left} keys that are not of the model were left out")
    normalization = _stats(kind, file, checkpoint, Path(stats) if stats else manifest.get("stats"))
    told: Mapping[str, Any] = checkpoint.wearjax or {"origin": card.of_file(file)}
    return bundles.save_bundle(
        out, kind=kind, config=config, model=model, stats=normalization,
        origin=told.get("origin"), licence=told.get("licence"),
    )  # fmt: skip


def export_torch(
    bundle_path: str | os.PathLike, out: str | os.PathLike, *, format: Format = "safetensors"
) -> Path:
    """The published PyTorch layout of a bundle, weights bit for bit, keys with the prefix `model.`.

    `ckpt` is a Lightning checkpoint with constructor arguments and normalization, as the published classes load it;
    `safetensors` holds the same as JSON in its metadata. Either comes back through `import_torch` unchanged.

    Raises:
        CheckpointError: no bundle, a model that the PyTorch class cannot express, or something at `out`.
    """
    out = Path(out)
    if format not in ("safetensors", "ckpt"):
        raise CheckpointError(f"format: expected safetensors or ckpt, got {format!r}")
    if out.exists():
        raise CheckpointError(f"{out} exists; it is not overwritten")
    bundle = bundles.load_bundle(bundle_path)
    try:
        settings = torch_sizes.hyper_parameters(bundle.kind, bundle.config)
        weights = torch_layout.to_torch(bundle.kind, bundles.parameters(bundle.model))
    except CheckpointError as error:
        raise CheckpointError(f"{bundle_path}: {error}") from None
    state_dict = {torch_layout.PREFIX + name: np.ascontiguousarray(w) for name, w in weights.items()}
    normalization = {
        "mean_prior": bundle.stats.means.tolist(),
        "std_prior": bundle.stats.stds.tolist(),
        "prior_count": PRIOR_COUNT,
    }
    kept = ("kind", "config", "normalization", "origin", "licence")
    facts = {name: value for name, value in bundles.describe(bundle).items() if name in kept}
    write = _write_safetensors if format == "safetensors" else _write_lightning
    with writing.file(out, error=CheckpointError) as partial:
        write(partial, state_dict, settings, normalization, facts)
    return out


def read(file: str | os.PathLike) -> Checkpoint:
    """Reads a checkpoint file. Raises CheckpointError."""
    file = Path(file)
    if file.suffix not in SUFFIXES:
        raise CheckpointError(f"{file}: expected a file ending in {', '.join(SUFFIXES)}, or a release folder")
    if not file.is_file():
        raise CheckpointError(f"{file}: no such file")
    return _read_safetensors(file) if file.suffix == ".safetensors" else _read_torch(file)


def _extra(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise CheckpointError(
            f"{name} is needed for PyTorch checkpoints; install it with: pip install 'wearjax[convert]'"
        ) from None


def _config(kind: str, weights: torch_layout.Weights, checkpoint: Checkpoint, manifest: Mapping) -> Any:
    """That which wearjax wrote down, else what shapes and constructor arguments say."""
    facts = checkpoint.wearjax
    if facts is not None and facts.get("kind") == kind:
        return configs.from_dict(facts.get("config") or {}, registry.get(kind).config, where="config")
    settings = {**manifest.get("arch", {}), **checkpoint.hyper_parameters}
    return torch_sizes.config_of(kind, weights, settings)


def _stats(kind: str, file: Path, checkpoint: Checkpoint, given: Path | None) -> NormalizationStats:
    beside = file.with_name(STATS_FILE)
    saved = checkpoint.normalization
    try:
        if given is not None:
            stats = NormalizationStats.load(given)
        elif checkpoint.wearjax is not None:
            return NormalizationStats.from_json(json.dumps(checkpoint.wearjax["normalization"]))
        elif saved is not None:
            priors = {"means": saved["mean_prior"], "stds": saved["std_prior"]}
            stats = NormalizationStats.from_json(json.dumps(priors, default=np.ndarray.tolist))
        elif beside.is_file():
            stats = NormalizationStats.load(beside)
        else:
            raise CheckpointError(f"no normalization statistics in it, and no {STATS_FILE} beside it")
    except (StoreError, ConfigError, CheckpointError, KeyError, TypeError) as error:
        raise CheckpointError(f"{file}: normalization: {error}") from None
    return replace(stats, epsilon=0.0) if kind == "wbm" else stats  # divides by the spread alone


def _resolve(path: Path) -> tuple[Path, dict[str, Any]]:
    """The checkpoint file, and kind, arch and stats of the manifest if `path` is a release."""
    if path.is_dir():
        path = path / MANIFEST
        if not path.is_file():
            raise CheckpointError(
                f"{path.parent}: a folder without {MANIFEST}; give the checkpoint file itself"
            )
    if path.name != MANIFEST:
        return path, {}
    try:
        raw = json_text.loads(path.read_text())
        version, kind, arch = raw["spec_version"], raw["kind"], raw.get("arch") or {}
        file = _inside(path, raw["checkpoint"])
        stats = raw.get("normalization_stats")
        stats = _inside(path, stats) if stats is not None else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: not readable as a release manifest ({error!r})") from None
    if version not in SPEC_VERSIONS:
        raise CheckpointError(f"{path}: spec_version {version!r}, expected one of {SPEC_VERSIONS}")
    if kind not in MANIFEST_KINDS:
        raise CheckpointError(f"{path}: kind {kind!r}, expected one of {', '.join(MANIFEST_KINDS)}")
    if not isinstance(arch, dict):
        raise CheckpointError(f"{path}: arch: expected an object, got {type(arch).__name__}")
    return file, {"kind": MANIFEST_KINDS[kind], "arch": arch, "stats": stats}


def _inside(manifest: Path, name: str) -> Path:
    """A file of the release. By name alone: files of a download cache are often links to elsewhere."""
    if PurePath(name).is_absolute() or ".." in PurePath(name).parts:
        raise CheckpointError(f"{manifest}: {name!r} is outside the release folder")
    return manifest.parent / name


def _read_safetensors(file: Path) -> Checkpoint:
    safetensors = _extra("safetensors")
    try:
        with safetensors.safe_open(file, framework="numpy") as stored:
            metadata = stored.metadata() or {}
            arrays = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        saved = {
            name: json_text.loads(metadata[name])
            for name in ("hyper_parameters", "normalization_stats", "wearjax")
            if name in metadata
        }
    except (OSError, ValueError, TypeError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{file}: not readable as safetensors ({error})") from None
    return _checkpoint(file, arrays, saved)


def _read_torch(file: Path) -> Checkpoint:
    torch = _extra("torch")
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        found = re.search(r"GLOBAL ([\w.]+)", str(error))
        what = f" ({found[1]})" if found else ""
        raise CheckpointError(
            f"{file}: not a checkpoint of tensors and plain values{what}, and unpickling would run code from it; "
            "re-save its state_dict as safetensors where you trust the file"
        ) from None
    except Exception as error:  # torch raises many kinds on damaged files
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"{file}: not readable as a PyTorch checkpoint ({reason})") from None
    if not isinstance(content, Mapping):
        raise CheckpointError(
            f"{file}: expected a checkpoint or a state dict, found {type(content).__name__}"
        )
    module = content.get("LightningDataModule")
    saved = {
        "hyper_parameters": content.get("hyper_parameters"),
        "normalization_stats": module.get("normalization_stats") if isinstance(module, Mapping) else None,
        "wearjax": content.get("wearjax"),
    }
    state_dict = content.get("state_dict", content)
    if not isinstance(state_dict, Mapping) or not state_dict:
        raise CheckpointError(f"{file}: state_dict: expected tensors by name")
    arrays = {}
    for name, tensor in state_dict.items():
        if not isinstance(tensor, torch.Tensor):
            raise CheckpointError(f"{file}: {name}: expected a tensor, found {type(tensor).__name__}")
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type == "meta":
            raise CheckpointError(f"{file}: {name}: expected a plain tensor of numbers")
        tensor = tensor.detach()
        arrays[str(name)] = (tensor.float() if tensor.is_floating_point() else tensor).numpy()
    return _checkpoint(file, arrays, saved)


def _checkpoint(file: Path, arrays: Mapping[str, np.ndarray], saved: Mapping[str, Any]) -> Checkpoint:
    for name, value in saved.items():
        if value is not None and not isinstance(value, Mapping):
            raise CheckpointError(f"{file}: {name}: expected names and values, found {type(value).__name__}")
    floats = {
        name: np.asarray(array, np.float32) if jnp.issubdtype(array.dtype, jnp.floating) else array
        for name, array in arrays.items()
    }
    return Checkpoint(
        floats,
        dict(saved.get("hyper_parameters") or {}),
        saved.get("normalization_stats"),
        saved.get("wearjax"),
    )


def _write_safetensors(file: Path, state_dict, settings, normalization, facts) -> None:
    _extra("safetensors")
    metadata = {
        "format": "pt",
        "hyper_parameters": json.dumps(settings),
        "normalization_stats": json.dumps(normalization),
        "wearjax": json.dumps(facts),
    }
    _extra("safetensors.numpy").save_file(state_dict, file, metadata=metadata)


def _write_lightning(file: Path, state_dict, settings, normalization, facts) -> None:
    torch = _extra("torch")
    content = {
        "pytorch-lightning_version": LIGHTNING_VERSION,
        "epoch": 0,
        "global_step": 0,
        "state_dict": {name: torch.from_numpy(array.copy()) for name, array in state_dict.items()},
        "hparams_name": "kwargs",
        "hyper_parameters": settings,
        "LightningDataModule": {"normalization_stats": normalization},
        "wearjax": facts,
    }
    torch.save(content, file)
