"""Chronos-2 as a forecaster: deciles of the next hours from its quantile head.

Ansari et al. 2025 (Chronos-2), with the settings of the OpenMHC forecasting track. The model itself comes from its
own package, an extra: `pip install 'wearjax[foundation]'`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from jaxtyping import Float32

from wearjax.channels import N_CHANNELS
from wearjax.errors import CheckpointError, ConfigError
from wearjax.predict.forecasters import contexts
from wearjax.predict.predictors import chronos2 as encoder
from wearjax.predict.predictors import series_probe

BATCH_SIZE = 16


class Chronos2:
    """Deciles of the quantile head; the point forecast is what the package calls the mean: the median.

    The channels of a history are one group, so that they attend to each other; histories never do.

    Args:
        checkpoint: a folder with `config.json` and weights, or a release that holds one as `checkpoint/`;
            `hub:owner/name` fetches.
        length: hours of context; None takes what the checkpoint says.
        dtype: of the weights and of the computation; None takes bfloat16 on a GPU and float32 elsewhere.
        device: of PyTorch; None takes a GPU where there is one.
        batch_size: histories a call of the model.

    Raises:
        ConfigError: the package is not installed, no such checkpoint, or an impossible number. CheckpointError: not
            a Chronos-2 checkpoint, or one without the deciles.
    """

    on_accelerator = True
    name = "chronos2"
    quantile_levels = contexts.DECILES

    def __init__(
        self,
        checkpoint: str | os.PathLike,
        *,
        length: int | None = None,
        dtype: Literal["float32", "bfloat16"] | None = None,
        device: str | None = None,
        batch_size: int = BATCH_SIZE,
    ):
        if batch_size < 1:
            raise ConfigError(f"chronos2: batch_size must be at least 1, got {batch_size}")
        chosen = series_probe.chosen_device(device)
        self._dtype = contexts.compute_dtype(dtype, device=chosen)
        self._pipeline = load(checkpoint, dtype=self._dtype, device=chosen)
        most = int(self._pipeline.model_context_length)
        self._length = most if length is None else length
        if not 1 <= self._length <= most:
            raise ConfigError(f"chronos2: context of {length} hours; the checkpoint takes 1 to {most}")
        absent = [level for level in self.quantile_levels if level not in self._pipeline.quantiles]
        if absent:
            raise CheckpointError(f"{checkpoint}: a Chronos-2 without the quantile {absent[0]}")
        self._batch_size = batch_size

    @functools.cached_property
    def settings(self) -> dict[str, Any]:
        """What changes the forecasts, as plain values."""
        weights = series_probe.tensors_digest(self._pipeline.model.state_dict().items(), self._dtype)
        return {"weights": weights, "hours": self._length}

    def predict(
        self, history: Float32[np.ndarray, "19 _"], horizon: int
    ) -> tuple[Float32[np.ndarray, "19 H"], Float32[np.ndarray, "19 H level"]]:
        """Median and deciles of the hours after a history, NaN = missing; see `predict_batch`."""
        return self.predict_batch([history], horizon)[0]

    def predict_batch(
        self, histories: Sequence[Float32[np.ndarray, "19 _"]], horizon: int
    ) -> list[tuple[Float32[np.ndarray, "19 H"], Float32[np.ndarray, "19 H level"]]]:
        """Median and deciles for each history, in stored units.

        A horizon beyond the model's is decoded in steps by the package, which warns of it.

        Raises:
            MethodError: a history of another shape, or a horizon below one hour.
        """
        contexts.check_horizon(horizon, name=self.name)
        series = contexts.tails(histories, length=self._length, name=self.name)
        if not series:
            return []
        quantiles, medians = self._pipeline.predict_quantiles(
            inputs=series,
            prediction_length=horizon,
            quantile_levels=list(self.quantile_levels),
            batch_size=self._batch_size * N_CHANNELS,  # the package counts channels
            context_length=self._length,
        )
        pairs = zip(medians, quantiles, strict=True)
        return [tuple(np.ascontiguousarray(x.float().numpy()) for x in pair) for pair in pairs]  # type: ignore[misc]


def load(checkpoint: str | os.PathLike, *, dtype: str, device: str) -> Any:
    """The package's pipeline of a checkpoint, on a device. Errors are those of `Chronos2`."""
    torch = series_probe.package("torch", of="Chronos-2")
    model = encoder.load(checkpoint, getattr(torch, dtype))
    return series_probe.package("chronos", of="Chronos-2").Chronos2Pipeline(model.to(device).eval())
