"""Toto as a forecaster: samples of the next hours, and their deciles.

Cohen et al. 2025 (Toto), with the settings of the OpenMHC forecasting track. The model itself comes from its own
package, an extra: `pip install 'wearjax[foundation]'`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float32

from wearjax.errors import ConfigError
from wearjax.predict.forecasters import contexts
from wearjax.predict.predictors import series_probe
from wearjax.predict.predictors import toto as encoder

N_SAMPLES = 256
BATCH_SIZE = 8
_SAMPLES_AT_ONCE = 32  # where each has become a series of its own


class Toto:
    """Deciles of samples of the output distribution; the point forecast is their median.

    A horizon within one patch takes one forward pass, and all samples come from its distribution; a longer one is
    decoded patch by patch, every sample on its own. The draws for a history depend on the seed and on the history
    alone, so that batches and interrupted runs change nothing.

    Args:
        checkpoint: a folder with `config.json` and `model.safetensors`, a fine-tuned release, or its `.ckpt` file;
            `hub:owner/name` fetches.
        base: where `config.json` lies, if not with the checkpoint: a folder, or `hub:owner/name`.
        lora_alpha: scale of low-rank updates in the checkpoint; None adds them as they are.
        length: hours of context, a multiple of the model's patch; shorter histories are padded on the left.
        n_samples: draws for each hour.
        seed: of the draws.
        dtype: compute type of the transformer; None takes bfloat16 on a GPU and float32 elsewhere. Distributions
            are float32.
        device: of PyTorch; None takes a GPU where there is one.
        batch_size: histories a call of the model.

    Attributes:
        ignored_keys: weights of the checkpoint that the model has no place for.

    Raises:
        ConfigError: the package is not installed, no such checkpoint, or an impossible number. CheckpointError: a
            checkpoint that does not fit.
    """

    on_accelerator = True
    name = "toto"
    quantile_levels = contexts.DECILES

    def __init__(
        self,
        checkpoint: str | os.PathLike,
        *,
        base: str | os.PathLike | None = None,
        lora_alpha: float | None = None,
        length: int = encoder.CONTEXT_HOURS,
        n_samples: int = N_SAMPLES,
        seed: int = 42,
        dtype: Literal["float32", "bfloat16"] | None = None,
        device: str | None = None,
        batch_size: int = BATCH_SIZE,
    ):
        for name, number in (("length", length), ("n_samples", n_samples), ("batch_size", batch_size)):
            if number < 1:
                raise ConfigError(f"toto: {name} must be at least 1, got {number}")
        self._torch = series_probe.package("torch", of="Toto")
        self._device = series_probe.chosen_device(device)
        self._dtype = contexts.compute_dtype(dtype, device=self._device)
        backbone, self.ignored_keys = encoder.load(checkpoint, base=base, lora_alpha=lora_alpha)
        encoder.check_length(length, backbone)
        self._patch = int(backbone.patch_embed.patch_size)
        self._backbone = backbone.to(self._device).eval()
        self._length, self._n_samples, self._seed, self._batch_size = length, n_samples, seed, batch_size

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """What changes the forecasts, as plain values."""
        weights = series_probe.tensors_digest(self._backbone.state_dict().items(), self._dtype)
        return {"weights": weights, "hours": self._length, "samples": self._n_samples, "seed": self._seed}

    def predict(
        self, history: Float32[np.ndarray, "19 _"], horizon: int
    ) -> tuple[Float32[np.ndarray, "19 H"], Float32[np.ndarray, "19 H level"]]:
        """Median and deciles of the hours after a history, NaN = missing; see `predict_batch`."""
        return self.predict_batch([history], horizon)[0]

    def predict_batch(
        self, histories: Sequence[Float32[np.ndarray, "19 _"]], horizon: int
    ) -> list[tuple[Float32[np.ndarray, "19 H"], Float32[np.ndarray, "19 H level"]]]:
        """Median and deciles for each history, in stored units; NaN where the model gives no distribution.

        Raises:
            MethodError: a history of another shape, or a horizon below one hour.
        """
        contexts.check_horizon(horizon, name=self.name)
        found = []
        for start in range(0, len(histories), self._batch_size):
            part = histories[start : start + self._batch_size]
            values = contexts.padded(part, length=self._length, name=self.name)
            observed = np.isfinite(values)
            drawn = self._drawn(np.where(observed, values, np.float32(0)), observed, horizon)
            found += [self._summary(samples) for samples in drawn]
        return found

    def _drawn(self, values, observed, horizon: int) -> list[Any]:
        """Samples (sample, 19, horizon) of the hours after each series."""
        torch = self._torch
        inputs, mask = (torch.from_numpy(x).to(self._device) for x in (values, observed))
        drawn = []
        with torch.inference_mode():
            ahead = self._distribution(inputs, mask, hours=min(horizon, self._patch))
            for row, (value, seen) in enumerate(zip(values, observed, strict=True)):
                own = slice(row, row + 1)
                with self._seeded(value, seen):
                    samples = self._draw(*(part[own] for part in ahead), count=self._n_samples)[:, 0]
                    if horizon > self._patch:
                        samples = self._continued(inputs[own], mask[own], samples, horizon)
                drawn.append(samples)
        return drawn

    def _distribution(self, inputs: Any, mask: Any, *, hours: int) -> tuple[Any, Any, Any]:
        """Features, location and scale of the first hours of the patch after a series."""
        torch = self._torch
        one_series = torch.zeros_like(inputs, dtype=torch.long)  # all channels belong together
        enabled = self._dtype == "bfloat16"
        with torch.autocast(self._device.split(":")[0], torch.bfloat16, enabled=enabled):
            parts = self._backbone.backbone(inputs, mask, one_series, scaling_prefix_length=self._length)
        return tuple(part[:, :, -self._patch :][:, :, :hours].float() for part in parts)

    def _draw(self, features: Any, loc: Any, scale: Any, *, count: int) -> Any:
        torch = self._torch
        if not torch.isfinite(features).all():
            return torch.full((count, *features.shape[:3]), torch.nan, device=features.device)
        samples = loc + scale * self._backbone.output_distribution(features).sample((count,))
        # As the package does: a sample beyond half of the largest number counts as zero.
        return torch.where(samples.abs() < torch.finfo(samples.dtype).max / 2, samples, 0.0)

    def _continued(self, inputs: Any, mask: Any, samples: Any, horizon: int) -> Any:
        """Decodes on patch by patch, every sample going its own way."""
        torch, done = self._torch, []
        for part in samples.split(_SAMPLES_AT_ONCE):
            series, seen = (x.expand(len(part), -1, -1) for x in (inputs, mask))
            while True:
                series = torch.cat([series, part], dim=-1)
                seen = torch.cat([seen, torch.ones_like(part, dtype=torch.bool)], dim=-1)
                if series.shape[-1] >= self._length + horizon:
                    break
                part = self._draw(*self._distribution(series, seen, hours=self._patch), count=1)[0]
            done.append(series[..., self._length : self._length + horizon])
        return torch.cat(done)

    def _summary(self, samples: Any) -> tuple[np.ndarray, np.ndarray]:
        levels = self._torch.tensor(self.quantile_levels, dtype=samples.dtype, device=samples.device)
        quantiles = self._torch.quantile(samples, levels, dim=0).movedim(0, -1).cpu().numpy()
        return quantiles[..., contexts.MEDIAN].copy(), np.ascontiguousarray(quantiles)

    @contextlib.contextmanager
    def _seeded(
        self, value: Float32[np.ndarray, "19 hour"], seen: Bool[np.ndarray, "19 hour"]
    ) -> Iterator[None]:
        """The random state of PyTorch for one series, put back afterwards."""
        random, cuda = self._torch.random, self._torch.cuda
        digest = hashlib.sha256(f"{self._seed}|".encode() + value.tobytes() + seen.tobytes()).digest()
        devices = range(cuda.device_count()) if self._device.startswith("cuda") else ()
        with random.fork_rng(devices=list(devices)):
            random.manual_seed(int.from_bytes(digest[:8], "little") >> 1)
            yield
