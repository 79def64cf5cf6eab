"""Toto as a predictor: the last patch of its transformer under a linear probe.

Cohen et al. 2025 (Toto). The model itself comes from its own package, an extra: `pip install 'wearjax[foundation]'`.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float32

from wearjax import json_text
from wearjax.convert import lora, torch_checkpoint
from wearjax.days.store import Days
from wearjax.errors import CheckpointError, ConfigError
from wearjax.predict.predictors import representation, series_probe
from wearjax.predict.predictors.series_probe import SeriesProbe

CONTEXT_HOURS = 2048
_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
HUB_FILES = [_CONFIG, _WEIGHTS]
# One layer, two ways of writing it: as one fused operation, or as a sequence.
_FUSED = {"mlp.0.w12.": "mlp.0.", "mlp.0.w3.": "mlp.2."}


class Toto(SeriesProbe):
    """Output of the last transformer layer at the last patch, mean over the channels (OpenMHC, Toto encoder).

    Args:
        days: the store that the harness evaluates.
        checkpoint: a folder with `config.json` and `model.safetensors`, a fine-tuned release, or its `.ckpt` file;
            `hub:owner/name` fetches.
        base: where `config.json` lies, if not with the checkpoint: a folder, or `hub:owner/name`.
        lora_alpha: scale of low-rank updates in the checkpoint; None adds them as they are.
        length: hours of context, a multiple of the model's patch.
        dtype: compute type; vectors are float32.
        device: of PyTorch; None takes a GPU where there is one.
        cache_dir: keeps the vectors for later runs; None keeps them in memory.
        batch_size: series a call of the model.
        progress: called with (series encoded, series to encode).
        n_components, seed: of the probe.

    Attributes:
        ignored_keys: weights of the checkpoint that the encoder has no place for.

    Raises:
        ConfigError: the package is not installed, no such checkpoint, or an impossible length. CheckpointError: a
            checkpoint that does not fit.
    """

    name = "toto"

    def __init__(
        self,
        days: Days,
        checkpoint: str | os.PathLike,
        *,
        base: str | os.PathLike | None = None,
        lora_alpha: float | None = None,
        length: int = CONTEXT_HOURS,
        dtype: Literal["float32", "bfloat16"] = "float32",
        device: str | None = None,
        cache_dir: str | os.PathLike | None = None,
        batch_size: int = series_probe.BATCH_SIZE,
        progress: Callable[[int, int], None] | None = None,
        n_components: int = representation.N_COMPONENTS,
        seed: int = 42,
    ):
        super().__init__(n_components=n_components, seed=seed)
        self._torch = series_probe.package("torch", of="Toto")
        self._dtype, self._device = series_probe.checked_dtype(dtype), series_probe.chosen_device(device)
        backbone, self.ignored_keys = load(checkpoint, base=base, lora_alpha=lora_alpha)
        check_length(length, backbone)
        self._backbone = backbone.to(self._device).eval()
        self._open(
            days,
            length=length,
            dim=int(backbone.embed_dim),
            weights=series_probe.tensors_digest(backbone.state_dict().items(), dtype),
            cache_dir=cache_dir,
            batch_size=batch_size,
            progress=progress,
        )

    def encode(
        self, values: Float32[np.ndarray, "B 19 hour"], observed: Bool[np.ndarray, "B 19 hour"]
    ) -> Float32[np.ndarray, "B 19 D"]:
        torch, model = self._torch, self._backbone
        inputs = torch.from_numpy(values).to(self._device)
        mask = torch.from_numpy(observed).to(self._device)
        one_series = torch.zeros_like(inputs, dtype=torch.long)  # all channels belong together
        compute = torch.autocast(
            self._device.split(":")[0], torch.bfloat16, enabled=self._dtype == "bfloat16"
        )
        with torch.inference_mode(), compute:
            scaled, *_ = model.scaler(
                inputs, weights=torch.ones_like(inputs), padding_mask=mask, prefix_length=None
            )
            patches, ids = model.patch_embed(scaled, one_series)
            encoded = model.transformer(patches, ids, None)
        return encoded[:, :, -1].float().cpu().numpy()


def load(
    checkpoint: str | os.PathLike, *, base: str | os.PathLike | None, lora_alpha: float | None
) -> tuple[Any, list[str]]:
    """The whole model of a checkpoint, and the weights that it has no place for. Arguments and errors are `Toto`'s."""
    torch = series_probe.package("torch", of="Toto")
    path = series_probe.checkpoint_path(checkpoint, of="Toto", files=HUB_FILES)
    config_of = path if base is None else series_probe.checkpoint_path(base, of="Toto", files=HUB_FILES)
    file = _weights_file(path)
    backbone = _build(_read_config(config_of, file))
    state = torch_checkpoint.read(file).state_dict
    try:
        return backbone, load_state(torch, backbone, state, alpha=lora_alpha)
    except CheckpointError as error:
        raise CheckpointError(f"{file}: {error}") from None


def check_length(length: int, backbone: Any) -> None:
    """Raises ConfigError unless the hours of context are whole patches."""
    patch = int(backbone.patch_embed.patch_size)
    if length % patch:
        raise ConfigError(f"toto: context of {length} hours; a multiple of the patch {patch} is needed")


def _weights_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    if (path / _WEIGHTS).exists():
        return path / _WEIGHTS
    manifest = path / torch_checkpoint.MANIFEST
    if not manifest.exists():
        raise CheckpointError(f"{path}: neither {_WEIGHTS} nor {torch_checkpoint.MANIFEST} in it")
    try:
        return path / str(json_text.loads(manifest.read_text())["checkpoint"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{manifest}: expected an entry 'checkpoint' ({error!r})") from None


def _read_config(path: Path, weights: Path) -> dict[str, Any]:
    folder = path if path.is_dir() else weights.parent
    file = folder / _CONFIG
    try:
        config = json_text.loads(file.read_text())
    except FileNotFoundError:
        raise CheckpointError(
            f"{folder}: no {_CONFIG}; give the folder of the model that was fine-tuned as base="
        ) from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{file}: not readable as JSON ({error})") from None
    if not isinstance(config, dict):
        raise CheckpointError(f"{file}: expected a JSON object")
    return config


def _build(config: Mapping[str, Any]) -> Any:
    """The bare encoder with random weights; attention in plain PyTorch, which runs everywhere."""
    make = series_probe.package("toto.model.backbone", of="Toto").TotoBackbone
    known = inspect.signature(make).parameters
    chosen = {name: value for name, value in config.items() if name in known}
    try:
        return make(**{**chosen, "use_memory_efficient_attention": False})
    except (TypeError, KeyError, ValueError) as error:
        raise CheckpointError(f"{_CONFIG}: no Toto model can be built from it ({error!r})") from None


def load_state(
    torch: Any, backbone: Any, state: Mapping[str, np.ndarray], *, alpha: float | None
) -> list[str]:
    """Fills the encoder from a state dict of any of the published forms; returns the keys left over."""
    plain = lora.merged(lora.without_prefix(state), alpha=alpha)
    plain = lora.without_prefix(plain, prefixes=("model.",))
    wanted = backbone.state_dict()
    fused = any(".mlp.0.w12." in key for key in wanted)
    plain = {_spelled(key, fused=fused): value for key, value in plain.items()}
    for key, tensor in wanted.items():
        if key not in plain:
            if "rotary" in key or key.endswith("freqs"):  # follows from the sizes
                continue
            raise CheckpointError(f"weight {key} is missing; the encoder needs {tuple(tensor.shape)}")
        if plain[key].shape != tuple(tensor.shape):
            raise CheckpointError(
                f"weight {key} is {plain[key].shape}, the encoder needs {tuple(tensor.shape)}"
            )
    tensors = {
        key: torch.from_numpy(np.array(value, np.float32)) for key, value in plain.items() if key in wanted
    }
    backbone.load_state_dict(tensors, strict=False)
    return sorted(plain.keys() - wanted.keys())


def _spelled(key: str, *, fused: bool) -> str:
    """A key in the spelling of the encoder at hand."""
    if fused and any(joined in key for joined in _FUSED):
        return key
    for joined, apart in _FUSED.items():
        old, new = (apart, joined) if fused else (joined, apart)
        if old in key:
            return key.replace(old, new)
    return key
