"""Folders of PyPOTS imputers: the manifest of OpenMHC releases, weights, normalization and what else belongs to them.

Weights are read as tensors only: nothing in a file is ever executed. PyTorch comes with the extra `pypots`.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flax import nnx

from wearjax import json_text, writing
from wearjax.channels import N_CHANNELS
from wearjax.convert import bundle as bundles
from wearjax.convert import card, pypots_layout, torch_checkpoint
from wearjax.convert.torch_checkpoint import MANIFEST, SPEC_VERSIONS, STATS_FILE
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import CheckpointError, ConfigError, StoreError
from wearjax.models import registry

KINDS = ("brits", "timesnet", "dlinear", "fedformer")
SUFFIX = ".pypots"
# Our configurations name these fields otherwise than PyPOTS does.
_FIELDS = {
    "dlinear": {
        "n_steps": "minutes",
        "moving_avg_window_size": "window",
        "d_model": "d_model",
        "ORT_weight": "observed_weight",
        "MIT_weight": "masked_weight",
    },
    "brits": {"n_steps": "minutes", "rnn_hidden_size": "hidden_size"},
}


@dataclass(frozen=True)
class Release:
    """What a folder says.

    Attributes:
        kind: one of `KINDS`.
        checkpoint: the `.pypots` file.
        arch: constructor arguments of the PyPOTS class, as far as written down.
        stats: normalization of its inputs.
        fourier_modes: input frequencies of FEDformer, if written down.
        wearjax: what wearjax wrote beside the published fields, else empty.
    """

    kind: str
    checkpoint: Path
    arch: dict[str, Any]
    stats: NormalizationStats
    fourier_modes: tuple[int, ...] | None
    wearjax: dict[str, Any]


def read_release(path: str | os.PathLike) -> Release:
    """Reads a release folder, or its manifest.

    Raises:
        CheckpointError: no manifest, an unreadable one, another kind of model, or no normalization.
    """
    manifest = Path(path)
    if manifest.is_dir():
        manifest = manifest / MANIFEST
    try:
        raw = json_text.loads(manifest.read_text())
        version, kind, arch = raw["spec_version"], raw["kind"], raw.get("arch") or {}
        checkpoint, modes = _inside(manifest, raw["checkpoint"]), raw.get("fourier_modes")
        stats = _inside(manifest, raw.get("normalization_stats") or STATS_FILE)
        facts = raw.get("wearjax") or {}
    except FileNotFoundError:
        raise CheckpointError(f"{manifest}: no such file; a PyPOTS imputer is a folder with it") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{manifest}: not readable as a release manifest ({error!r})") from None
    if version not in SPEC_VERSIONS:
        raise CheckpointError(f"{manifest}: spec_version {version!r}, expected one of {SPEC_VERSIONS}")
    if kind not in KINDS:
        raise CheckpointError(
            f"{manifest}: kind {kind!r} is no PyPOTS imputer, expected one of {', '.join(KINDS)}"
        )
    for name, value in (("arch", arch), ("wearjax", facts)):
        if not isinstance(value, dict):
            raise CheckpointError(f"{manifest}: {name}: expected an object, got {type(value).__name__}")
    if arch.get("n_features", N_CHANNELS) != N_CHANNELS:
        raise CheckpointError(
            f"{manifest}: arch.n_features: days have {N_CHANNELS} channels, got {arch['n_features']}"
        )
    try:
        normalization = NormalizationStats.load(stats)
    except StoreError as error:
        raise CheckpointError(f"{manifest}: normalization_stats: {error}") from None
    return Release(kind, checkpoint, arch, normalization, _modes(manifest, modes), facts)


def write_manifest(
    folder: Path,
    *,
    kind: str,
    arch: Mapping[str, Any],
    stats: NormalizationStats,
    checkpoint: str,
    fourier_modes: Mapping[str, Sequence[int]],
    provenance: Mapping[str, Any],
    wearjax: Mapping[str, Any],
) -> None:
    """Writes manifest, normalization and Fourier modes beside a checkpoint; each appears whole or not at all.

    Args:
        fourier_modes: input frequencies by the path of the module; empty but for FEDformer.
    """
    _write(folder / STATS_FILE, stats.to_json() + "\n")
    sidecar = "fourier_modes.json" if fourier_modes else None
    if sidecar:
        listed = {path: [int(mode) for mode in modes] for path, modes in fourier_modes.items()}
        _write(folder / sidecar, json.dumps(listed) + "\n")
    content = {
        "spec_version": max(SPEC_VERSIONS),
        "kind": kind,
        "checkpoint": checkpoint,
        "normalization_stats": STATS_FILE,
        "fourier_modes": sidecar,
        "arch": dict(arch),
        "provenance": dict(provenance),
        "wearjax": dict(wearjax),
    }
    _write(folder / MANIFEST, json.dumps(content, indent=1) + "\n")


def read_weights(file: Path) -> dict[str, Any]:
    """Tensors of a `.pypots` file by name, on the CPU. Raises CheckpointError."""
    torch = torch_module()
    if not file.is_file():
        raise CheckpointError(f"{file}: no such file")
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds, on damaged files and on those that would run code
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"{file}: not readable as tensors ({reason})") from None
    weights = content.get("model_state_dict", content) if isinstance(content, Mapping) else None
    if not weights or not all(isinstance(tensor, torch.Tensor) for tensor in weights.values()):
        raise CheckpointError(f"{file}: expected the state dict of a PyPOTS model")
    for name, tensor in weights.items():
        if not torch.isfinite(torch.view_as_real(tensor) if tensor.is_complex() else tensor).all():
            raise CheckpointError(f"{file}: {name} holds values that are not finite")
    return dict(weights)


def import_pypots(
    path: str | os.PathLike, *, out: str | os.PathLike, note: Callable[[str], None] | None = None
) -> Path:
    """A bundle for accelerators from the release folder of a PyPOTS DLinear or BRITS, weights bit for bit.

    Args:
        note: called with a line for every setting that neither manifest nor weights tell.

    Raises:
        CheckpointError: an unreadable folder, another kind, weights that do not fit, or something at `out`.
    """
    release = read_release(path)
    if release.kind not in pypots_layout.KINDS:
        kinds = ", ".join(pypots_layout.KINDS)
        raise CheckpointError(f"{path}: no Flax model of kind {release.kind!r}; kinds that have one: {kinds}")
    weights = {name: tensor.numpy() for name, tensor in read_weights(release.checkpoint).items()}
    architecture = registry.get(release.kind)
    try:
        params = pypots_layout.to_flax(release.kind, weights)
        config = architecture.config(**_settings(release, params, note))
        _check_shapes(architecture, config, params)
        model = bundles.build(architecture, config, params)
    except (CheckpointError, ConfigError) as error:
        raise CheckpointError(f"{release.checkpoint}: {error}") from None
    return bundles.save_bundle(
        out, kind=release.kind, config=config, model=model, stats=release.stats,
        origin=card.of_file(release.checkpoint),
    )  # fmt: skip


def _settings(release: Release, params: pypots_layout.Weights, note: Callable[[str], None] | None) -> dict:
    """Fields of our configuration: what shapes tell, then the manifest, which may not contradict them."""
    told = pypots_layout.sizes(release.kind, params)
    for theirs, ours in _FIELDS[release.kind].items():
        if theirs not in release.arch:
            if ours not in told and note is not None:
                note(f"{release.checkpoint}: {theirs} is not in the manifest; taken as published")
            continue
        value = release.arch[theirs]
        if told.setdefault(ours, value) != value:
            raise CheckpointError(f"arch.{theirs} is {value!r}, the weights are of {told[ours]}")
    return told


def _check_shapes(architecture: registry.Architecture, config: Any, params: pypots_layout.Weights) -> None:
    model = nnx.eval_shape(lambda: architecture.build(config, rngs=nnx.Rngs(0)))
    for path, leaf in nnx.to_flat_state(nnx.state(model, nnx.Param)):
        name = ".".join(map(str, path))
        if params[name].shape != tuple(leaf.shape):
            raise CheckpointError(f"{name} is {params[name].shape}, the model needs {tuple(leaf.shape)}")


def torch_module() -> Any:
    """PyTorch. Raises CheckpointError naming the extra."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise CheckpointError(
            "torch is needed for PyPOTS files; install it with: pip install 'wearjax[pypots]'"
        ) from None


def _inside(manifest: Path, name: Any) -> Path:
    return torch_checkpoint._inside(manifest, name)


def _modes(manifest: Path, value: Any) -> tuple[int, ...] | None:
    """Lists by module path, in a JSON file beside the manifest or in itself; a block under two paths has one list."""
    if value is None:
        return None
    try:
        by_path = json_text.loads(_inside(manifest, value).read_text()) if isinstance(value, str) else value
        if not isinstance(by_path, dict) or not by_path:
            raise TypeError("expected {module path: [numbers]}")
        for path, modes in by_path.items():
            if not isinstance(modes, list) or not all(type(mode) is int for mode in modes):
                raise TypeError(f"{path}: expected a list of whole numbers")
        first, *others = by_path
        for path in others:
            if by_path[path] != by_path[first]:
                raise ValueError(f"{path} and {first} differ; the layers share one Fourier block")
        return tuple(by_path[first])
    except (OSError, ValueError, TypeError) as error:
        raise CheckpointError(f"{manifest}: fourier_modes: {error}") from None


def _write(file: Path, text: str) -> None:
    with writing.file(file, error=CheckpointError) as partial:
        partial.write_text(text)
