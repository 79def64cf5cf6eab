"""Imputation by PyPOTS models (Du 2023): BRITS, DLinear, FEDformer and TimesNet as OpenMHC compares them.

`pypots_training.train` trains one on a store; a released folder is loaded as it is.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float32, Shaped

import wearjax
from wearjax import writing
from wearjax.channels import N_CHANNELS
from wearjax.convert import pypots_layout, pypots_release
from wearjax.days import normalization
from wearjax.days.normalization import NormalizationStats
from wearjax.errors import CheckpointError, ConfigError, MethodError
from wearjax.predict.imputers import pypots_data, pypots_library, pypots_models, targets
from wearjax.predict.imputers.pypots_models import FEDformerSettings, Settings

WEIGHTS = "model.pypots"


class PyPOTSImputer:
    """Satisfies the imputer contract; days or windows are cut into series of the model's length.

    Args:
        model: of PyPOTS, built for the settings, with trained weights.
        stats: minute statistics of the training days.
        batch_size: series a call of the model. TimesNet finds its periods in the whole batch: its answers depend on
            this number and on the order of the days.
        device: where the model lies.
    """

    on_accelerator = True

    def __init__(
        self,
        model: Any,
        settings: Settings,
        stats: NormalizationStats,
        *,
        batch_size: int = 32,
        device: str = "cpu",
    ):
        if batch_size < 1:
            raise MethodError(f"batch_size: must be at least 1, got {batch_size}")
        self.model = model
        self.settings = settings
        self.stats = stats
        self.batch_size = batch_size
        self.device = device
        self.name = settings.kind

    def impute(
        self,
        data: Float32[np.ndarray, "batch channel=19 time"],
        observed_mask: Shaped[np.ndarray, "batch channel=19 time"],
        target_mask: Shaped[np.ndarray, "batch channel=19 time"],
    ) -> Float32[np.ndarray, "batch channel=19 time"]:
        """`data` with the target cells filled, in stored units; flags as the model estimates them, not cut to 0..1.

        The model sees every observed cell that is no target, and nothing else: what stands under the target mask
        is erased first, and no further cell is hidden.

        Raises:
            MethodError: the time axis is not a whole number of the model's series, or masks of another shape.
        """
        n_steps = self.settings.n_steps
        targets.check_pieces("PyPOTSImputer", data, n_steps)
        target = np.asarray(target_mask, bool)
        pieces = targets.cut(targets.hidden(data, observed_mask, target), n_steps)
        filled = np.empty_like(pieces)
        for start in range(0, len(pieces), self.batch_size):
            part = slice(start, start + self.batch_size)
            series = pypots_data.time_first(pieces[part], self.stats)
            filled[part] = normalization.denormalize(self._fill(series).swapaxes(1, 2), self.stats)
        return targets.written(targets.joined(filled, data.shape[2]), data, target)

    def _fill(self, series: Float32[np.ndarray, "S T C"]) -> Float32[np.ndarray, "S T C"]:
        """Normalised series with every gap filled: what is known, else the reconstruction."""
        torch = importlib.import_module("torch")
        inputs = pypots_data.inputs(self.settings, series, np.zeros(series.shape, bool), device=self.device)
        self.model.model.eval()
        with torch.no_grad():
            return self.model.model(inputs)["imputation"].float().cpu().numpy()

    @property
    def fourier_modes(self) -> list[int]:
        """Input frequencies of FEDformer; empty for other models."""
        blocks = pypots_models.fourier_blocks(self.model)
        return [int(mode) for mode in next(iter(blocks.values())).index] if blocks else []

    def save(self, path: str | os.PathLike) -> Path:
        """Writes a release folder that `load`, and other readers of OpenMHC manifests, take.

        Raises:
            CheckpointError: something is already there.
        """
        path = Path(path)
        if path.exists():
            raise CheckpointError(f"{path} exists; it is not overwritten")
        with writing.folder(path, error=CheckpointError) as partial:
            write_weights(partial / WEIGHTS, self.model.model.state_dict())
            write_manifest(partial, self, {})
        return path

    @classmethod
    def load(
        cls,
        path: str | os.PathLike,
        *,
        device: str = "cpu",
        batch_size: int = 32,
        fourier_modes: Sequence[int] | None = None,
        note: Callable[[str], None] | None = None,
    ) -> PyPOTSImputer:
        """Loads a folder that `save` or a training run wrote, or a published release.

        Args:
            fourier_modes: frequencies of a FEDformer whose manifest has none (specification 1).
            note: called with a line for every setting that was taken as published, and for every one left out.

        Raises:
            CheckpointError: an unreadable folder, or weights that do not fit.
            MethodError: PyPOTS is not installed, or the device is not there.
        """
        release = pypots_release.read_release(path)
        pypots_library.load()
        weights = pypots_release.read_weights(release.checkpoint)
        try:
            settings = _settings(release, weights, note or (lambda line: None))
            modes = fourier_modes if release.fourier_modes is None else release.fourier_modes
            drawn = isinstance(settings, FEDformerSettings) and settings.mode_select == "random"
            if drawn and modes is None:
                raise CheckpointError(
                    "the manifest holds no fourier_modes, which were drawn at random; give fourier_modes="
                )
            model = pypots_models.build(settings, device=device, fourier_modes=modes or None)
            put_weights(model, weights, where=str(release.checkpoint))
        except (CheckpointError, ConfigError) as error:
            raise CheckpointError(f"{path}: {error}") from None
        return cls(model, settings, release.stats, batch_size=batch_size, device=device)


def put_weights(model: Any, weights: Mapping[str, Any], *, where: str) -> None:
    """Sets all parameters of a model. Raises CheckpointError for one that is missing or of another shape.

    Constant tables that the file lacks stay as built.
    """
    own = model.model.state_dict()
    needed = {name for name, _ in model.model.named_parameters(remove_duplicate=False)}
    given = pypots_layout.renamed(weights, needed, where=where)
    given |= {name: weights[name] for name in own if name in weights}
    for name, tensor in given.items():
        if tensor.shape != own[name].shape or tensor.is_complex() != own[name].is_complex():
            raise CheckpointError(
                f"{where}: {name} is {tensor.dtype} {tuple(tensor.shape)}, the model needs {own[name].dtype} "
                f"{tuple(own[name].shape)}"
            )
    model.model.load_state_dict(own | given)


def write_weights(file: Path, state_dict: Mapping[str, Any]) -> None:
    """The format of PyPOTS 1.5; the file appears whole or not at all."""
    torch = importlib.import_module("torch")
    plain = {name: tensor.detach().cpu().clone() for name, tensor in state_dict.items()}
    with writing.file(file, error=CheckpointError) as partial:
        torch.save({"model_state_dict": plain, "pypots_version": _version("pypots")}, partial)


def write_manifest(folder: Path, imputer: PyPOTSImputer, training: Mapping[str, Any]) -> None:
    """Manifest, normalization and Fourier modes of an imputer whose weights lie in the folder."""
    pypots_release.write_manifest(
        folder,
        kind=imputer.settings.kind,
        arch={"n_features": N_CHANNELS, **dataclasses.asdict(imputer.settings)},
        stats=imputer.stats,
        checkpoint=WEIGHTS,
        fourier_modes=dict.fromkeys(pypots_models.fourier_blocks(imputer.model), imputer.fourier_modes),
        provenance={
            "by": f"wearjax {wearjax.__version__}",
            "pypots": _version("pypots"),
            "torch": _version("torch"),
        },
        wearjax=training,
    )


def _version(package: str) -> str:
    return importlib.metadata.version(package)


def _settings(
    release: pypots_release.Release, weights: Mapping[str, Any], note: Callable[[str], None]
) -> Settings:
    """The manifest's architecture, completed from the shapes of the weights, then from the published one."""
    kind = pypots_models.settings_class(release.kind)
    fields = {item.name: item for item in dataclasses.fields(kind)}
    told = _sizes(release.kind, weights)
    for name, value in release.arch.items():
        if name == "n_features":
            continue
        if name not in fields:
            note(f"arch.{name} is no setting of {kind.class_name} here and was left out")
        elif told.setdefault(name, value) != value:
            raise CheckpointError(f"arch.{name} is {value!r}, the weights are of {told[name]}")
        elif not _is_like(value, fields[name].default):
            wanted = type(fields[name].default).__name__
            raise CheckpointError(f"arch.{name}: expected {wanted}, got {value!r}")
    for name in fields.keys() - told.keys():
        note(f"{name} is not in the manifest; {fields[name].default!r} taken as published")
    return kind(**told)


def _is_like(value: Any, default: Any) -> bool:
    if isinstance(default, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is type(default)


def _sizes(kind: str, weights: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that shapes tell."""

    def find(ending: str) -> tuple[int, ...] | None:
        return next((tuple(w.shape) for name, w in weights.items() if name.endswith(ending)), None)

    def numbers(pattern: str) -> int:
        found = [int(match[1]) for match in map(re.compile(pattern).search, weights) if match]
        return max(found, default=-1) + 1

    if kind == "dlinear":
        wanted = {
            "n_steps": (find("linear_seasonal.weight"), 0),
            "d_model": (find("seasonal_saits_embedding.embedding_layer.weight"), 0),
        }
    elif kind == "brits":
        wanted = {"rnn_hidden_size": (find("rits_f.rnn_cell.weight_hh"), 1)}
    elif kind == "fedformer":
        wanted = {
            "d_model": (find("saits_embedding.embedding_layer.weight"), 0),
            "d_ffn": (find("conv1.weight"), 0),
            "n_steps": (find("saits_embedding.position_enc.pos_table"), 1),
        }
    else:
        wanted = {"d_model": (find("tokenConv.weight"), 0), "d_ffn": (find("conv.0.kernels.0.weight"), 0)}
    told = {name: shape[axis] for name, (shape, axis) in wanted.items() if shape is not None}
    counted = {
        "fedformer": {"n_layers": r"attn_layers\.(\d+)\."},
        "timesnet": {"n_layers": r"model\.(\d+)\.conv\.", "n_kernels": r"conv\.0\.kernels\.(\d+)\."},
    }
    return told | {
        name: found for name, pattern in counted.get(kind, {}).items() if (found := numbers(pattern))
    }
