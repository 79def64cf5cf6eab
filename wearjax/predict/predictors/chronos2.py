"""Chronos-2 as a predictor: the token of the hours to come under a linear probe.

Ansari et al. 2025 (Chronos-2). The model itself comes from its own package, an extra:
`pip install 'wearjax[foundation]'`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float32

from wearjax.days.store import Days
from wearjax.errors import CheckpointError
from wearjax.predict.predictors import representation, series_probe
from wearjax.predict.predictors.series_probe import SeriesProbe

HORIZON_HOURS = 24
HUB_FILES = ["config.json", "*.safetensors", "*.json"]


class Chronos2(SeriesProbe):
    """Encoder output at the last token of a day to come, mean over the channels (OpenMHC, Chronos-2 encoder).

    The channels of a participant are one group, so that they attend to each other; nothing of the day to come is
    known.

    Args:
        days: the store that the harness evaluates.
        checkpoint: a folder with `config.json` and weights, or a release that holds one as `checkpoint/`;
            `hub:owner/name` fetches.
        length: hours of context; None takes what the checkpoint was trained for.
        dtype: compute type; vectors are float32.
        device: of PyTorch; None takes a GPU where there is one.
        cache_dir: keeps the vectors for later runs; None keeps them in memory.
        batch_size: participants a call of the model.
        progress: called with (series encoded, series to encode).
        n_components, seed: of the probe.

    Raises:
        ConfigError: the package is not installed, no such checkpoint, or an impossible length. CheckpointError: not a
            Chronos-2 checkpoint.
    """

    name = "chronos2"

    def __init__(
        self,
        days: Days,
        checkpoint: str | os.PathLike,
        *,
        length: int | None = None,
        dtype: Literal["float32", "bfloat16"] = "float32",
        device: str | None = None,
        cache_dir: str | os.PathLike | None = None,
        batch_size: int = series_probe.BATCH_SIZE,
        progress: Callable[[int, int], None] | None = None,
        n_components: int = representation.N_COMPONENTS,
        seed: int = 42,
    ):
        super().__init__(n_components=n_components, seed=seed)
        self._torch = series_probe.package("torch", of="Chronos-2")
        self._dtype = getattr(self._torch, series_probe.checked_dtype(dtype))
        self._device = series_probe.chosen_device(device)
        model = load(checkpoint, self._dtype)
        self._model = model.to(self._device).eval()
        self._future_patches = -(-HORIZON_HOURS // int(model.chronos_config.output_patch_size))
        self._open(
            days,
            length=int(model.chronos_config.context_length) if length is None else length,
            dim=int(model.config.d_model),
            weights=series_probe.tensors_digest(model.state_dict().items(), dtype),
            cache_dir=cache_dir,
            batch_size=batch_size,
            progress=progress,
        )

    def encode(
        self, values: Float32[np.ndarray, "B 19 hour"], observed: Bool[np.ndarray, "B 19 hour"]
    ) -> Float32[np.ndarray, "B 19 D"]:
        torch = self._torch
        count, channels, hours = values.shape
        context = np.where(observed, values, np.float32(np.nan)).reshape(count * channels, hours)
        groups = torch.arange(count, device=self._device).repeat_interleave(channels)
        with torch.inference_mode():
            encoded, *_ = self._model.encode(
                context=torch.from_numpy(context).to(self._device),
                group_ids=groups,
                num_output_patches=self._future_patches,
            )
        last = encoded[0][:, -1].float().cpu().numpy()
        return last.reshape(count, channels, -1)


def load(checkpoint: str | os.PathLike, dtype: Any) -> Any:
    """The model of a checkpoint, in a type of PyTorch. Errors are those of `Chronos2`."""
    path = series_probe.checkpoint_path(checkpoint, of="Chronos-2", files=HUB_FILES)
    return _load_model(_folder_of(path), dtype)


def _folder_of(path: Path) -> Path:
    for folder in (path, path / "checkpoint"):
        if (folder / "config.json").exists():
            return folder
    raise CheckpointError(f"{path}: no config.json in it or in its folder 'checkpoint'")


def _load_model(folder: Path, dtype: Any) -> Any:
    pipeline = series_probe.package("chronos", of="Chronos-2").Chronos2Pipeline
    try:
        model = pipeline.from_pretrained(str(folder), dtype=dtype, local_files_only=True).model
    except (OSError, ValueError, KeyError, AssertionError, AttributeError, RuntimeError) as error:
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"{folder}: not a Chronos-2 checkpoint ({line})") from None
    if not hasattr(getattr(model, "chronos_config", None), "output_patch_size"):
        raise CheckpointError(f"{folder}: not a Chronos-2 checkpoint")
    return model
